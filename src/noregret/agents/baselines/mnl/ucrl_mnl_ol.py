"""UCRL-MNL-OL: optimism around an online estimate, with a bonus of second order (Li, Zhang, Zhao and Zhou 2024)."""

import math

from ....compiler.jit import inlined, kernel
from ...endings import plan_model
from .family import STEP_SIZE, MNLAgent, believe, longest_feature, mean_feature, sizes_of
from .online import descent_steps
from .radii import descent_radius, li_regularization, li_step


@inlined
def mean_width(C, phi, p, count, work):
    """sum p_j ||phibar_j||_C."""
    total, mean, row = 0.0, work.q[0], work.q[1]
    mean_feature(phi, p, count, mean)
    for j in range(count):
        square = 0.0
        for i in range(mean.shape[0]):
            row[i] = phi[j, i] - mean[i]
        for i in range(mean.shape[0]):
            for o in range(mean.shape[0]):
                square += row[i] * C[i, o] * row[o]
        total += p[j] * math.sqrt(max(square, 0.0))
    return total


@kernel
def plan(par, state, work, x, k, out):
    believe(par, state, work, x)
    H, S = out.policy.shape
    for s in range(S):
        for a in range(work.r.shape[1]):
            b, count, phi = par.block[s, a], par.layout.count[s, a], par.features[s, a]
            t, eta, lam = state.samples[b] + 1.0, par.step[b], par.regularization[b]
            beta = par.scale * descent_radius(sizes_of(par, b), float(H), eta, lam, t, par.log)
            most, _ = longest_feature(work.spread[b], phi, count)
            width = mean_width(work.spread[b], phi, work.P[s, a], count, work)
            work.r[s, a] += H * beta * width + 2.5 * H * beta * beta * most
    plan_model(par, work, work.P, work.r, par.clip, k, out)


class UCRLMNLOL(MNLAgent):
    """UCRL-MNL-OL (Li et al. 2024, third version): optimism around an estimate by online mirror descent.

        Q_h = clip( r + P_theta V_{h+1} + H beta sum_j P_j ||phibar_j||_{A^-1} + 5/2 H beta^2 max_j ||phi_j||^2_{A^-1},
                    0, H - h )                                                                                (h from 0)
        theta, A   as `agents.baselines.mnl.online` has them (descent), A = lambda I and theta = 0 at first
        eta = 1/2 ln(1 + U) + L B + 1,   lambda = 84 sqrt 2 eta (L B + p) L^2

    phibar_j = phi_j - sum P_i phi_i; letters as in `UCRLMNL`. The bonus, eta and lambda are recalled: the paper's text
    could not be had. In the first version of the paper the name stood for an estimate by online Newton steps with
    kappa, like that of `RRLMNL`. beta is printed there as an order of magnitude; here it is the explicit one of Cho et
    al. (2024), before (53), for the same estimate.

    step_size     eta; None: as above

    Cost per episode O(sum (Q d)^2 + H M (Q d)^2 + SA M (Q^2 + H)) and memory O(sum (Q d)^2), sums over blocks, both
    constant in the number of episodes. Other options: `MNLAgent`. No guarantee is claimed.

    >>> import noregret as nr
    >>> world = nr.worlds.random_logit(3, 2, 4, 2)
    >>> full, tuned = (
    ...     nr.simulate(nr.agents.UCRLMNLOL(world.problem, **o), world, 500)
    ...     for o in ({}, {"regularization": 1.0, "bonus_scale": 0.003})
    ... )
    >>> bool(tuned.final[0] < 0.5 * full.final[0])
    True
    """

    name = "ucrl-mnl-ol"
    plan_kernel = staticmethod(plan)
    steps_kernel = staticmethod(descent_steps)

    step_size: float | None = STEP_SIZE

    def _recommended(self, p: float, L: float, B: float, U: int) -> float:
        return li_regularization(p, L, B, U)

    def _eta(self, L: float, B: float, U: int) -> float:
        return li_step(L, B, U)
