"""ORLC: optimistic reinforcement learning with certificates (Dann, Li, Wei and Brunskill 2019), tabular."""

import math
from typing import Any

from numpy.typing import ArrayLike

from ....checks import Floats
from ....compiler.jit import kernel
from ....planning.bellman import expectation
from ...base import gap_to_lower
from ...declared import BONUS_SCALE, CENTRES, CONSTANTS, DELTA
from ...endings import plan_hooked
from ...promise import OPTIMISM
from .family import TabularAgent, enter, told_rewards, variance

CORRECTED, PAPER = 0, 1
PHI = 0.52, 1.4, 5.2  # phi(n) = min(1, sqrt(PHI0/n (PHI1 ln ln max(e, n) + ln(PHI2/delta'))))
PSI = math.sqrt(12.0), 45.0  # psi = (1 + PSI0 sigma) phi + PSI1 S H^2 phi^2 + P_hat(V~ - V_)/H


@kernel
def plan(par, state, work, x, k, out):
    b = enter(par, state, work, x)
    S, A = work.r.shape
    for s in range(S):
        for a in range(A):
            if not par.layout.available[s, a]:
                continue
            n, seen, log = state.visits[b, s, a], state.reward_visits[b, s, a], work.log[0]
            mean = state.reward_sums[b, s, a] / max(1.0, seen)
            if par.kind == PAPER:
                work.r[s, a] = work.low[s, a] = mean
                work.xi[s, a] = 1.0
                if seen > 0.0:
                    work.xi[s, a] = min(1.0, math.sqrt(PHI[0] / seen * (PHI[1] * log_log(seen) + log)))
            else:
                width = 1.0
                if seen > 0.0:
                    width = par.scale * math.sqrt((log + 2.0 * math.log(seen)) / (2.0 * seen))
                work.r[s, a], work.low[s, a] = min(1.0, mean + width), max(0.0, mean - width)
                work.xi[s, a] = (log + 2.0 * math.log(n)) / (n - 1.0) if n > 1.0 else math.inf
    if par.known == 1:
        told_rewards(par, x, work.r)
        told_rewards(par, x, work.low)
    plan_hooked(par, state, work, state.P[b], work.r, k, out.policy, out.values)


@kernel
def log_log(n):
    return math.log(math.log(max(math.e, n)))


@kernel
def adjust(par, state, work, k, h, P, V, Q):
    """work.bonus <- psi of every pair, from the upper and lower values of the next step; added to Q."""
    S, A = Q.shape
    H = work.lower.shape[0] - 1
    left, low = float(H - h - 1), work.lower[h + 1]  # V_{h+1} lies in [0, left]
    for s in range(S):
        for a in range(A):
            if not par.layout.available[s, a]:
                continue
            m, rate = par.layout.count[s, a], work.xi[s, a]
            mean = Q[s, a] - work.r[s, a]
            deviation = math.sqrt(variance(P, par.layout, s, a, V, mean))
            gap = (mean - expectation(P, par.layout, s, a, low)) / H
            if par.kind == PAPER:
                psi = par.scale * ((1.0 + PSI[0] * deviation) * rate + PSI[1] * S * H * H * rate * rate + gap)
            elif m == 1 or left == 0.0:
                psi = 0.0
            elif rate == math.inf:
                psi = left
            else:
                second = (1.0 + m) * (H + 7.0 / 3.0) * left * rate
                psi = min(left, par.scale * (math.sqrt(2.0 * rate) * deviation + gap + second))
            work.bonus[s, a] = psi
            Q[s, a] += psi


@kernel
def settle(par, state, work, k, h, P, policy, V):
    """work.lower[h] <- lower bounds on the values of the policy just chosen."""
    H = policy.shape[0]
    for s in range(V.shape[1]):
        a = policy[h, s]
        value = work.low[s, a] + expectation(P, par.layout, s, a, work.lower[h + 1]) - work.bonus[s, a]
        work.lower[h, s] = min(max(value, 0.0), float(H - h))


class ORLC(TabularAgent):
    """ORLC (Dann et al. 2019), tabular: plan with upper values, and say how far lower ones are from them.

        Q~_h = clip( r_up + P_hat V~_{h+1} + psi, 0, H - h ),   pi_h maximises it,   V~_h = Q~_h(., pi_h)
        V__h = clip( r_low + P_hat V__{h+1} - psi, 0, H - h ) at pi_h                                     (h from 0)

    plan.lower is V_ and plan.certificate the largest V~_0 - V__0: no start makes the plan worse than that.

    constants     "corrected": r_up, r_low = r_hat +- sqrt(l/(2 n_r)) within [0, 1] and, with left = H - h - 1,
                  psi = min( left, sqrt(2 l/(n-1)) sigma + P_hat(V~ - V_)/H + (1 + m)(H + 7/3) left l/(n-1) ), sigma the
                  standard deviation of V~_{h+1} under P_hat, l = ln(7SA(H+M+1)/delta) + 2 ln n (n_r for rewards), M the
                  largest m; psi = left while n < 2. docs/agents-tabular.md proves both bounds.
                  "paper": r_up = r_low = r_hat, psi = (1 + sqrt(12) sigma) phi + 45 S H^2 phi^2 + P_hat(V~ - V_)/H,
                  phi = min(1, sqrt(0.52/n_r (1.4 ln ln max(e, n_r) + ln(5.2/delta')))),
                  delta' = delta/(5SAH + 4SA + 4S^2 A), recalled from the paper: nothing is claimed for it here
    delta         both bounds hold in all episodes and groups with probability 1 - delta
    bonus_scale   multiplies every width; anything but 1 carries no guarantee
    centres       [B, d]: one model for each group, those nearest to a centre (`kmeans`); None: one for everybody

    Cost per episode O(S^2 A H), memory O(B S^2 A), constant in the number of episodes.

    >>> import noregret as nr
    >>> world = nr.worlds.random_logit(n_states=2, n_actions=2, horizon=2, context_dim=1)  # everybody is alike
    >>> agent = nr.agents.ORLC(world.problem)
    >>> for k in range(600):
    ...     person = world.individual(k)
    ...     plan = agent.begin_episode(person.context)
    ...     while person.steps < 2:
    ...         agent.observe(*person.step(agent.act(person.state)))
    ...     agent.end_episode()
    >>> print(f"{plan.certificate:.1f}")  # it was 2, the horizon, when nothing was known
    1.7
    """

    name = "orlc"
    plan_kernel = staticmethod(plan)
    certificate_kernel = staticmethod(gap_to_lower)
    adjust = staticmethod(adjust)
    settle = staticmethod(settle)
    promised = f"in every episode, {OPTIMISM} and plan.lower at most the plan's own"

    delta: float = DELTA
    constants: str = CONSTANTS
    bonus_scale: float = BONUS_SCALE
    centres: ArrayLike | None = CENTRES

    def _settle(self) -> None:
        super()._settle()
        self.bounds_values = self.constants == "corrected" and self.bonus_scale == 1.0

    def _numbers(self) -> dict[str, Any]:
        p, delta = self.problem, self.options["delta"] / self.n_groups
        S, A, M = p.layout.outcomes.shape
        H = p.horizon
        if self.options["constants"] == "paper":
            return {"kind": PAPER, "log": math.log(PHI[2] * (5 * S * A * H + 4 * S * A + 4 * S * S * A) / delta)}
        return {"kind": CORRECTED, "log": math.log(7.0 * S * A * (H + M + 1) / delta)}

    def _lower(self) -> Floats | None:
        return self.work.lower.copy() if self.bounds_values else None
