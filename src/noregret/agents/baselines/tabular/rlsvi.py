"""RLSVI, tabular: value iteration on perturbed rewards (Osband, Van Roy and Wen 2016; constants of Russo 2019)."""

import math
from typing import Any

from numpy.typing import ArrayLike

from ....compiler.jit import kernel, merged
from ....numerics.random import NOISE, fill_normals
from ...declared import BONUS_SCALE, CENTRES, choice
from ...endings import plan_model
from .family import TabularAgent, enter, told_rewards

PROVED, PRACTISED = 0, 1
BETA = 0.5  # beta_k = BETA S H^3 ln(2HSAk)


@kernel
def plan(par, state, work, x, k, out):
    b = enter(par, state, work, x)
    H, S, A = work.noise.shape
    beta = BETA * S * float(H) ** 3 * (work.log[0] + math.log(state.episodes[b] + 1.0))
    for s in range(S):
        for a in range(A):
            n = (state.visits[b, s, a] if par.known == 1 else state.reward_visits[b, s, a]) + 1.0
            work.r[s, a] = state.reward_sums[b, s, a] / n
            work.xi[s, a] = par.scale * math.sqrt(beta / n) if par.kind == PROVED else 1.0 / n
    if par.known == 1:
        told_rewards(par, x, work.r)
    fill_normals(par.seed, k, NOISE, work.draws[0], work.draws[1])
    noise, deviation = merged(merged(work.noise)), merged(work.xi)
    for i in range(H * S * A):
        spread = deviation[i % (S * A)]
        if par.kind == PRACTISED:
            spread = 0.5 * (par.scale * math.sqrt(spread) + (H - i // (S * A)) * spread)
        noise[i] = work.draws[i % 2, i // 2] * spread
    plan_model(par, work, state.P[b], work.r, par.kind, k, out)


class TabularRLSVI(TabularAgent):
    """RLSVI (Osband et al. 2016), tabular: rewards perturbed enough to be optimistic with constant probability.

        Q_h = r_hat + P_hat V_{h+1} + w_h,   w_h ~ N(0, beta_k/(n_r + 1)),   beta_k = (1/2) S H^3 ln(2HSAk)   (h from 0)

    with sums divided by n + 1 instead of n, so that P_hat has mass n/(n + 1), and k = 1, 2, ... the episodes of the
    group. Nothing is clipped. Values are random, not bounds.

    constants     "proved": the above. "practised": as in rlberry's RLSVI (rlberry-research, whose code was read),
                  w_h ~ N(0, (1/sqrt(n + 1) + (H - h)/(n + 1))^2/4); what is missing of P_hat goes to all supported
                  next states alike, and values are clipped to [0, H - h]. Theirs has twice the deviation, adds r_hat
                  twice, which is the same, and clips at H from above only. Nothing is claimed
    bonus_scale   multiplies the standard deviation, of "practised" its first part; anything but 1 carries no guarantee
    centres       [B, d]: one model for each group, those nearest to a centre (`kmeans`); None: one for everybody

    beta_k is recalled from Russo, who keeps estimates for every step by itself; here the steps share them. Cost per
    episode O(S^2 A H) and S A H normal draws, memory O(B S^2 A), constant in the number of episodes.

    >>> import noregret as nr
    >>> world = nr.worlds.random_logit(n_states=3, horizon=3, context_dim=1)
    >>> proved, tuned = (nr.agents.TabularRLSVI(world.problem, bonus_scale=b) for b in (1.0, 0.05))
    >>> tuned.label
    'rlsvi (bonus_scale=0.05, no guarantee)'
    >>> bool(nr.simulate(tuned, world, 500).final[0] < 0.3 * nr.simulate(proved, world, 500).final[0])
    True
    """

    name = "rlsvi"
    plan_kernel = staticmethod(plan)
    perturbs = True
    pad = 1.0

    constants: str = choice("proved", "practised")
    bonus_scale: float = BONUS_SCALE
    centres: ArrayLike | None = CENTRES

    def _numbers(self) -> dict[str, Any]:
        p = self.problem
        kind = PRACTISED if self.constants == "practised" else PROVED
        return {"kind": kind, "log": math.log(2.0 * p.horizon * p.n_states * p.n_actions)}

    def _settle(self) -> None:
        super()._settle()
        self.even = self.constants == "practised"

    def _promise(self) -> str | None:
        if self.options["bonus_scale"] != 1.0 or self.constants == "practised":
            return None
        return (
            "in every episode in which r_hat + P_hat V* is off by at most sqrt(beta_k/(SH(n + 1))) everywhere, the "
            f"plan is optimistic where it starts with probability at least 0.158 given the past, {self.where}"
        )
