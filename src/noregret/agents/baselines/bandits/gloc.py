"""GLOC: a confidence set from the predictions of an online learner (Jun, Bhargava, Nowak and Willett 2017)."""

import math

from ....compiler.jit import inlined, kernel
from ....estimators.newton.online_newton import SLACK, newton_step
from ....estimators.rewards.regression import ridge_step
from ....numerics.linear_algebra import dot, norm_of
from ....theory.bandits import gloc, gloc_recalled
from ....theory.widths import sigma
from ...declared import BONUS_SCALE, CONSTANTS, DELTA, REGULARIZATION
from .family import BanditAgent, length_in, take_best_logit


@kernel
def plan(par, state, work, x, k, out):
    ridge = state.ridge
    for s in range(work.score.shape[0]):
        for a in range(work.score.shape[1]):
            residual = state.totals[s, a, 0] - dot(ridge.theta[s, a], ridge.moment[s, a])
            square = errors(par, state.totals[s, a, 1]) + par.regularization * par.bound * par.bound - residual
            # Negative: an empty set says nothing
            width = math.sqrt(square) * length_in(ridge.inverse[s, a], x) if square >= 0.0 else math.inf
            work.score[s, a] = dot(ridge.theta[s, a], x) + (par.scale * width if par.scale > 0.0 else 0.0)
    take_best_logit(par, work, x, k, out)


@inlined
def errors(par, gradient_sum):
    """A bound on the sum of the squared errors of the predictions."""
    if par.recalled == 1:
        return gloc_recalled(gradient_sum, par.bound, par.curvature, par.regularization, par.log_confidence)
    return gloc(gradient_sum, par.bound, par.curvature, par.regularization, SLACK, par.log_confidence)


@kernel
def learn(par, state, work, x, k, n, path):
    norm = norm_of(x)
    for h in range(n):
        s, a, reward = path.states[h], path.actions[h], path.rewards[h]
        if not math.isnan(reward):
            z = dot(state.newton.weights[s, a, 0], x)
            outcome = 0 if reward > 0.5 else 1
            newton_step(par.newton, state.newton, work.newton, par.outcomes, (s, a), outcome, x, norm)
            length = (sigma(z) - reward) * length_in(state.newton.inverse[s, a], x)
            state.totals[s, a, 0] += z * z
            state.totals[s, a, 1] += length * length
            ridge_step(par.ridge, state.ridge, work.ridge, s, a, z, x)


class GLOC(BanditAgent):
    """GLOC (Jun et al. 2017): optimism over confidence sets made from an online learner's predictions.

    The arm is taken whose mean reward sigma(theta'x) is largest over sets that the predictions z_i span:

        score = theta_hat'x + sqrt(beta) ||x||_{V^{-1}},   values are sigma(min(score, B_r ||x||))
        theta_hat = V^{-1} sum x_i z_i,   V = lambda I + sum x_i x_i'
        beta = E_t + lambda B_r^2 - (sum z_i^2 - theta_hat'sum x_i z_i),   E_t >= sum (z_i - theta*'x_i)^2

    The learner is the online Newton step on the ball, z_i = theta_i'x_i, g_i = sigma(z_i) - r_i, kappa = sigma'(B_r R):
    Z = kappa (lambda I + sum x x'), theta -= g Z^{-1} x, projected in the Z-norm. theta_hat is ridge regression on its
    predictions; the pattern is that of `estimators.newton.conversion`, with one predictor and the learner's regret
    bounded by its gradients instead of hindsight.

    constants       E_t: "corrected", `theory.bandits.gloc`; "paper", `theory.bandits.gloc_recalled`: as we remember the
                    paper, valid as well. Neither is always the smaller one
    regularization  lambda, of V and of the learner; recommended 1
    Other options: `BanditAgent`.

    Assumes H = 1 and logistic rewards. Cost per episode O(SA d^2), and O(d^3) when a step leaves the ball; memory
    O(SA d^2); both constant in the number of episodes.

    >>> import noregret as nr
    >>> world = nr.worlds.bandit_logistic()
    >>> for constants in ("corrected", "paper"):  # both valid: no plan whose value is below the optimal one
    ...     run = nr.simulate(nr.agents.GLOC(world.problem, constants=constants), world, 300, diagnostics=True)
    ...     print(run.label, run.diagnostics["optimism_failures"][0, -1])
    gloc 0.0
    gloc (constants=paper) 0.0
    """

    name = "gloc"
    reach = 200.0
    plan_kernel = staticmethod(plan)
    learn_kernel = staticmethod(learn)
    uses_ridge = True

    delta: float = DELTA
    constants: str = CONSTANTS
    bonus_scale: float = BONUS_SCALE
    regularization: float | None = REGULARIZATION

    def _newton_scale(self, curvature: float) -> tuple[float, float]:
        return curvature, curvature
