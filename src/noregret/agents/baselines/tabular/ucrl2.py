"""UCRL2: optimism by the best model in a ball around the estimates (Jaksch, Ortner and Auer 2010), in episodes."""

import math
from typing import Any

from numpy.typing import ArrayLike

from ....compiler.jit import kernel
from ...declared import BONUS_SCALE, CENTRES, DELTA
from ...endings import plan_hooked
from ...promise import OPTIMISM
from .family import TabularAgent, due, enter, keep, recall, told_rewards

REWARD = 7.0 / 2.0  # squared reward width: REWARD ln(2SAt/delta)/n
TRANSITION = 14.0  # squared transition width: TRANSITION m ln(2At/delta)/n


@kernel
def plan(par, state, work, x, k, out):
    b = enter(par, state, work, x)
    if due(state, b, k):
        widths(par, state, work, b)
        if par.known == 1:
            told_rewards(par, x, work.r)
        plan_hooked(par, state, work, state.P[b], work.r, k, state.policy[b], state.values[b])
        keep(state, b, k)
    recall(state, b, out)


@kernel
def widths(par, state, work, b):
    """work.r <- the largest mean rewards in their intervals, work.xi <- 1-norm widths of the transitions."""
    S, A = work.r.shape
    for s in range(S):
        for a in range(A):
            if not par.layout.available[s, a]:
                continue
            n, seen = max(1.0, state.visits[b, s, a]), max(1.0, state.reward_visits[b, s, a])
            width = par.scale * math.sqrt(REWARD * (work.log[0] + math.log(S)) / seen)
            work.r[s, a] = min(1.0, state.reward_sums[b, s, a] / seen + width)
            m = par.layout.count[s, a]
            work.xi[s, a] = par.scale * math.sqrt(TRANSITION * m * work.log[0] / n) if m > 1 else 0.0


@kernel
def adjust(par, state, work, k, h, P, V, Q):
    """Extended value iteration: replace P_hat V by max { p V : ||p - P_hat||_1 <= xi }.

    Half of xi, at most, goes to the best supported next state and comes from the worst ones."""
    S, A = Q.shape
    sort_states(V, work.order)
    for s in range(S):
        for a in range(A):
            if not par.layout.available[s, a]:
                continue
            i = S - 1
            while par.slots[s, a, work.order[i]] < 0:
                i -= 1
            best = work.order[i]
            left = min(0.5 * work.xi[s, a], 1.0 - P[s, a, par.slots[s, a, best]])
            for j in range(i):
                slot = par.slots[s, a, work.order[j]]
                if slot >= 0 and left > 0.0:
                    moved = min(left, P[s, a, slot])
                    Q[s, a] += moved * (V[best] - V[work.order[j]])
                    left -= moved


@kernel
def sort_states(V, order):
    """order [S] <- the states by increasing V, by insertion."""
    for s in range(V.shape[0]):
        i = s
        while i > 0 and V[order[i - 1]] > V[s]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = s


class UCRL2(TabularAgent):
    """UCRL2 (Jaksch et al. 2010): plan for the most favourable model within the widths.

    Plans again when a count has doubled.

        |r - r_hat| <= sqrt(7 ln(2SAt/delta)/(2 n_r)),   ||P - P_hat||_1 <= sqrt(14 m ln(2At/delta)/n)
        Q_h = clip( min(1, r_hat + width) + max { p V_{h+1} : ||p - P_hat||_1 <= width }, 0, H - h )        (h from 0)

    delta         all intervals of all groups hold in all episodes with probability 1 - delta: by Hoeffding's and
                  Weissman's inequalities (P(||P_hat - P||_1 >= e) <= 2^m exp(-n e^2/2)) and a union bound over pairs,
                  counts up to t, and t. The seventh powers of delta/(2At) leave room for all of it
    bonus_scale   multiplies every width; anything but 1 carries no guarantee
    centres       [B, d]: one model for each group, those nearest to a centre (`kmeans`); None: one for everybody

    The widths are recalled from the paper, with the number m of supported next states in the place of S. The plan of a
    group is made anew at the start of an episode if some pair's visits have doubled since it was made, so about
    S A log2(K H) times in all. Cost of a planning O(S^2 (A + 1) H), of any other episode O(S H); memory O(B S^2 A).

    >>> import noregret as nr
    >>> world = nr.worlds.random_logit(n_states=3, horizon=3, context_dim=1)
    >>> agent, values = nr.agents.UCRL2(world.problem, bonus_scale=0.1), []
    >>> for k in range(300):
    ...     person = world.individual(k)
    ...     values.append(agent.begin_episode(person.context).values)
    ...     while person.steps < 3:
    ...         agent.observe(*person.step(agent.act(person.state)))
    ...     agent.end_episode()
    >>> len({v.tobytes() for v in values}) < 50  # plans made for 300 people
    True
    """

    name = "ucrl2"
    plan_kernel = staticmethod(plan)
    adjust = staticmethod(adjust)
    lazy = ranks = True
    promised = f"in every episode, {OPTIMISM}"

    delta: float = DELTA
    bonus_scale: float = BONUS_SCALE
    centres: ArrayLike | None = CENTRES

    def _settle(self) -> None:
        super()._settle()
        self.bounds_values = self.bonus_scale == 1.0

    def _numbers(self) -> dict[str, Any]:
        return {"log": math.log(2.0 * self.problem.n_actions * self.n_groups / self.options["delta"]), "growth": 1.0}
