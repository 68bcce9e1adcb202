"""OFUL: optimism with the self-normalised ellipsoid of ridge regression (Abbasi-Yadkori, Pal and Szepesvari 2011)."""

import math

from ....compiler.jit import kernel
from ....estimators.rewards.regression import ridge_step
from ....numerics.linear_algebra import dot
from ....theory.widths import ridge_radius
from ...declared import BONUS_SCALE, DELTA, REGULARIZATION
from .family import BanditAgent, length_in, take_best_mean


@kernel
def plan(par, state, work, x, k, out):
    ridge = state.ridge
    for s in range(work.score.shape[0]):
        for a in range(work.score.shape[1]):
            radius = ridge_radius(ridge.logdet[s, a], par.bound, par.regularization, par.log_confidence)
            bonus = radius * length_in(ridge.inverse[s, a], x)
            work.score[s, a] = dot(ridge.theta[s, a], x) + par.scale * bonus
    take_best_mean(par, work, k, out)


@kernel
def learn(par, state, work, x, k, n, path):
    for h in range(n):
        s, a, reward = path.states[h], path.actions[h], path.rewards[h]
        if not math.isnan(reward):
            ridge_step(par.ridge, state.ridge, work.ridge, s, a, reward, x)


class OFUL(BanditAgent):
    """OFUL (Abbasi-Yadkori et al. 2011): optimism over the ellipsoids of ridge regression.

    The arm is taken whose mean reward theta'x is largest over ||theta - theta_hat||_V <= rho:

        score = theta_hat'x + rho ||x||_{V^{-1}}
        rho = sqrt(lambda) B_r + 1/2 sqrt(2 ln(n_pairs/delta) + ln(det V/lambda^d))

    theta_hat is ridge regression and V = lambda I + sum x x', of each pair (`estimators.rewards.regression`; 1/2
    because rewards in [0, 1] are 1/2-sub-Gaussian). lambda: `regularization`, recommended 1. Other options:
    `BanditAgent`.

    Assumes H = 1 and linear rewards; where they are logistic it runs, misspecified and without guarantee.
    Cost per episode O(SA d^2), memory O(SA d^2), both constant in the number of episodes.

    >>> import noregret as nr
    >>> linear, logistic = nr.worlds.random_logit(horizon=1), nr.worlds.bandit_logistic()
    >>> nr.agents.OFUL(linear.problem).guarantee.split(", ")[-1]
    'plan.upper is at least the optimal value'
    >>> print(nr.agents.OFUL(logistic.problem).guarantee)  # runs all the same
    None
    """

    name = "oful"
    plan_kernel = staticmethod(plan)
    learn_kernel = staticmethod(learn)
    logistic = False
    uses_ridge = True

    delta: float = DELTA
    bonus_scale: float = BONUS_SCALE
    regularization: float | None = REGULARIZATION
