"""UCRL-MNL: optimism around a maximum-likelihood estimate (Hwang and Oh 2023)."""

import math

from .... import checks as check
from ....compiler.jit import kernel
from ...declared import option
from ...endings import plan_model
from .family import KAPPA, MNLAgent, believe, longest_feature, sizes_of
from .likelihood import likelihood_steps
from .radii import likelihood_radius


@kernel
def plan(par, state, work, x, k, out):
    believe(par, state, work, x)
    H, S = out.policy.shape
    for s in range(S):
        for a in range(work.r.shape[1]):
            b, t = par.block[s, a], state.samples[par.block[s, a]] + 1.0
            radius = likelihood_radius(sizes_of(par, b), par.kappa[b], par.regularization[b], t, par.log)
            most, _ = longest_feature(work.spread[b], par.features[s, a], par.layout.count[s, a])
            work.r[s, a] += 2.0 * H * par.scale * radius * math.sqrt(most)
    plan_model(par, work, work.P, work.r, par.clip, k, out)


class UCRLMNL(MNLAgent):
    """UCRL-MNL (Hwang and Oh 2023): optimism around a regularised maximum-likelihood estimate.

        Q_h = clip( r + P_theta V_{h+1} + 2 H beta max_j ||phi_j||_{A^-1}, 0, H - h )                         (h from 0)
        A = lambda I + sum over steps and next states of phi phi'
        beta = ( sqrt(p ln(1 + t U L^2/(p lambda)) + 2 ln(1/delta)) + sqrt(lambda) B ) / kappa

    phi_j stands for phi(s, a, j) (x) x, relative to the last next state; p parameters with norm at most B, rows of
    length at most L, U next states at most, t the steps so far and one more. The factor 2 H and beta are recalled of
    the paper, whose text could not be had; beta is also derived in `agents.baselines.mnl.radii`. lambda = L^2 is ours.
    The published clip is H (`ceiling`).

    kappa         the least P(j) P(last) over all parameters of the ball; None: a lower bound of it (ours), of order
                  e^(-3 L B), with which the bonus stays at its ceiling in runs of ordinary length
    growth        the estimate is fitted anew once its data has grown by this factor; 1: after every episode, as
                  published, at a cost that grows with the square of the number of episodes. In between it stays, while
                  A takes every step (ours)

    Cost per episode O(sum (Q d)^2 + SA (M Q^2 + M H)), and now and then a fit over all n steps, O(n (Q d)^2) times
    Newton steps; memory grows with the episodes, as all steps are stored. Other options: `MNLAgent`. No guarantee is
    claimed.

    >>> import noregret as nr
    >>> world = nr.worlds.random_logit(3, 2, 4, 2)
    >>> full, tuned = (
    ...     nr.simulate(nr.agents.UCRLMNL(world.problem, **o), world, 500)
    ...     for o in ({}, {"kappa": 0.1, "bonus_scale": 0.003})
    ... )
    >>> bool(tuned.final[0] < 0.5 * full.final[0])
    True
    """

    name = "ucrl-mnl"
    plan_kernel = staticmethod(plan)
    steps_kernel = staticmethod(likelihood_steps)
    stores = True

    kappa: float | None = KAPPA
    growth: float = option(1.1, check.positive, least=1.0)

    def _recommended(self, p: float, L: float, B: float, U: int) -> float:
        return L * L
