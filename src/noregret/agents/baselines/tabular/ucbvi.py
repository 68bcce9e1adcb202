"""UCBVI: value iteration with a bonus for every pair (Azar, Osband and Munos 2017), and a form with a short proof."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .... import checks as check
from ....compiler.jit import inlined, kernel
from ....planning.bellman import expectation
from ...declared import BONUS_SCALE, CENTRES, DELTA, choice, option
from ...endings import plan_hooked
from ...promise import OPTIMISM
from .family import TabularAgent, enter, told_rewards, variance

HOEFFDING, BERNSTEIN, TIGHT, MONOTONE, PRACTISED = 0, 1, 2, 3, 4
BONUSES = ("hoeffding", "bernstein", "tight", "monotone", "practised")
CH = 7.0  # CH H L/sqrt(n)
BF = 8.0, 14.0 / 3.0, 8.0, 100.0  # sqrt(BF0 L var/n) + BF1 H L/n + sqrt(BF2 E[min((BF3 L S)^2 A H^3/N', H^2)]/n)
SUM = 2.0, 7.0 / 3.0  # sqrt(SUM0 L var/n) + SUM1 H L/n: Maurer and Pontil's inequality
MAX = 4.5, 7.0  # max(sqrt(MAX0 L var/(n - 1)), MAX1 R L/(n - 1))


@kernel
def plan(par, state, work, x, k, out):
    b = enter(par, state, work, x)
    H, A, L = out.policy.shape[0], work.r.shape[1], work.log[0]
    for s in range(work.r.shape[0]):
        for a in range(A):
            if not par.layout.available[s, a]:
                continue
            seen = state.reward_visits[b, s, a]
            work.r[s, a] = 1.0
            if par.kind == PRACTISED:
                work.r[s, a] = state.reward_sums[b, s, a] / max(1.0, seen)
            elif seen > 0.0:
                work.r[s, a] = min(1.0, state.reward_sums[b, s, a] / seen + par.scale * math.sqrt(0.5 * L / seen))
            work.xi[s, a] = par.scale * CH * H * L / math.sqrt(max(1.0, state.visits[b, s, a]))
    if par.known == 1:
        told_rewards(par, x, work.r)
    plan_hooked(par, state, work, state.P[b], work.r, k, out.policy, out.values)


@inlined
def practised(par, n, left):
    """sqrt(1/n) + (H - h)/n, at most H - h = left + 1."""
    return left + 1.0 if n == 0.0 else min(par.scale / math.sqrt(n) + (left + 1.0) / n, left + 1.0)


@kernel
def adjust(par, state, work, k, h, P, V, Q):
    """Add the bonus of `par.kind`; the smallest Q so far counts."""
    S, A = Q.shape
    b, H, L = work.group[0], work.lower.shape[0] - 1, work.log[0]
    left = float(H - h - 1)  # V_{h+1} lies in [0, left]
    if par.kind == BERNSTEIN:
        reach = (BF[3] * L * S) ** 2 * A * float(H) ** 3
        for y in range(S):
            work.room[y] = 0.0
            if h + 1 < H:
                work.room[y] = min(reach / max(1.0, state.step_visits[b, h + 1, y]), float(H * H))
    for s in range(S):
        for a in range(A):
            if not par.layout.available[s, a]:
                continue
            if par.kind == PRACTISED:
                if par.known == 0 or par.layout.count[s, a] > 1:
                    Q[s, a] += practised(par, state.visits[b, s, a], left)
                continue
            if par.layout.count[s, a] > 1:
                bonus, n = float(H), state.visits[b, s, a]  # too few visits to say anything: the largest value
                if par.kind == HOEFFDING and n > 0.0:
                    bonus = work.xi[s, a]
                elif n > (1.0 if par.kind == MONOTONE else 0.0):
                    mean = Q[s, a] - work.r[s, a]
                    spread = variance(P, par.layout, s, a, V, mean)
                    if par.kind == BERNSTEIN:
                        doubt = expectation(P, par.layout, s, a, work.room)
                        bonus = math.sqrt(BF[0] * L * spread / n) + BF[1] * H * L / n + math.sqrt(BF[2] * doubt / n)
                    elif par.kind == TIGHT:
                        bonus = math.sqrt(SUM[0] * L * spread / n) + SUM[1] * H * L / n
                    else:
                        bonus = max(math.sqrt(MAX[0] * L * spread / (n - 1.0)), MAX[1] * left * L / (n - 1.0))
                    bonus *= par.scale
                if par.kind == MONOTONE:
                    bonus = min(bonus, left)
                Q[s, a] += bonus
            Q[s, a] = min(Q[s, a], state.Q[b, h, s, a])
            state.Q[b, h, s, a] = Q[s, a]


class UCBVI(TabularAgent):
    """UCBVI (Azar et al. 2017): plan with the estimates plus a bonus, and never with a larger value than before.

        Q_h = min( Q_h so far, H - h, min(1, r_hat + sqrt(L/(2 n_r))) + P_hat V_{h+1} + b )        (h from 0)

    bonus         var is the variance of V_{h+1} under P_hat, N'_h(y) the visits to y at step h, left = H - h - 1
                  "hoeffding", L = ln(5SAT/delta):   b = 7 H L/sqrt(n)
                  "bernstein", the same L:   b = sqrt(8 L var/n) + 14 H L/(3n)
                  + sqrt((8/n) sum_y P_hat(y) min(100^2 S^2 A H^3 L^2/N'_{h+1}(y), H^2)), without the last term at the
                  last step
                  "tight", L = ln(3SAT/delta):   b = sqrt(2 L var/n) + 7 H L/(3n)
                  "monotone", L = ln(5SAHT/delta):
                  b = min( left, max( sqrt(4.5 L var/(n-1)), 7 left L/(n-1) ) )
                  "practised", the "simplified Bernstein" bonus of rlberry's UCBVI (rlberry-scool 0.7.3, whose code was
                  read):   Q_h = clip( r_hat + P_hat V_{h+1} + b, 0, H - h ), b = min( 1/sqrt(n) + (H - h)/n, H - h ),
                  no width for rewards and no smallest value so far; theirs renews b only for the steps at which the
                  pair was met, and clips at H. Of `bonus_scale`, only 1/sqrt(n) is multiplied
    episodes      K in T = K H, counted in every group by itself: after so many nothing is guaranteed. None: t^2 in the
                  place of T, for any number of episodes
    bonus_scale   multiplies every bonus; anything but 1 carries no guarantee
    centres       [B, d]: one model for each group, those nearest to a centre (`kmeans`); None: one for everybody

    Azar et al. take rewards for known; the term sqrt(L/(2 n_r)) is for unknown ones. Their constants are recalled from
    the paper. docs/agents-tabular.md proves the values of "hoeffding" and "monotone" to be upper bounds; those of
    "bernstein" rest on the paper's argument with recalled constants, "tight" and "practised" have no proof: none of
    these claims it.

    Cost per episode O(S^2 A H), memory O(B(S^2 A + S A H)), constant in the number of episodes.

    >>> import noregret as nr
    >>> problem = nr.worlds.random_logit(context_dim=1).problem
    >>> for bonus in ("hoeffding", "bernstein", "tight", "monotone", "practised"):
    ...     print(bonus, nr.agents.UCBVI(problem, bonus=bonus).guarantee is not None)
    hoeffding True
    bernstein False
    tight False
    monotone True
    practised False
    """

    name = "ucbvi-ch"
    plan_kernel = staticmethod(plan)
    adjust = staticmethod(adjust)
    keeps_Q = True

    bonus: str = choice(*BONUSES)
    delta: float = DELTA
    episodes: int | None = option(100_000, check.integer, or_none=True)
    bonus_scale: float = BONUS_SCALE
    centres: ArrayLike | None = CENTRES

    def _settle(self) -> None:
        super()._settle()
        self.stepwise = self.bonus == "bernstein"
        self.bounds_values = self.bonus in ("hoeffding", "monotone") and self.bonus_scale == 1.0
        K = self.episodes
        when = "in every episode" if K is None else f"in the first {K:,} episodes (of every cell)"
        self.promised = f"{when}, {OPTIMISM}"

    def _numbers(self) -> dict[str, Any]:
        p, o = self.problem, self.options
        kind, K = BONUSES.index(o["bonus"]), o["episodes"]
        events = (5.0, 5.0, 3.0, 5.0 * p.horizon, 5.0)[kind] * p.n_states * p.n_actions * self.n_groups
        steps = 1.0 if K is None else float(K * p.horizon)
        return {"kind": kind, "log": float(np.log(events * steps / o["delta"])), "growth": 2.0 if K is None else 0.0}


class UCBVIBF(UCBVI):
    """`UCBVI` with bonus="bernstein" unless another one is asked for.

    >>> import noregret as nr
    >>> problem = nr.worlds.random_logit(context_dim=1).problem
    >>> nr.agents.UCBVIBF(problem).options["bonus"], nr.agents.UCBVI(problem).options["bonus"]
    ('bernstein', 'hoeffding')
    """

    name = "ucbvi-bf"

    bonus: str = choice(*BONUSES, default="bernstein")
