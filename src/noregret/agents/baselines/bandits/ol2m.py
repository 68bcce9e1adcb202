"""OL2M: online logistic regression by Newton steps, and optimism (Zhang et al. 2016)."""

import math
from typing import Any

from .... import checks as check
from ....compiler.jit import inlined, kernel
from ....estimators.newton.online_newton import newton_step
from ....estimators.rewards.logistic import default_regularization
from ....numerics.linear_algebra import dot, norm_of
from ....theory.bandits import ol2m, ol2m_curvature, ol2m_recalled
from ...declared import BONUS_SCALE, CONSTANTS, DELTA, REGULARIZATION, option
from .family import BanditAgent, length_in, take_best_logit


@kernel
def plan(par, state, work, x, k, out):
    for s in range(work.score.shape[0]):
        for a in range(work.score.shape[1]):
            gamma = squared_radius(par, state.newton.samples[s, a], state.newton.logdet[s, a])
            width = math.sqrt(gamma) * length_in(state.newton.inverse[s, a], x)
            work.score[s, a] = dot(state.newton.weights[s, a, 0], x) + par.scale * width
    take_best_logit(par, work, x, k, out)


@inlined
def squared_radius(par, samples, logdet):
    bound, beta, lam, log = par.bound, par.curvature, par.regularization, par.log_confidence
    if par.recalled == 1:
        return ol2m_recalled(bound, bound * par.context_bound, beta, lam, samples, logdet, log)
    return ol2m(bound, beta, lam, logdet, log)


@kernel
def learn(par, state, work, x, k, n, path):
    norm = norm_of(x)
    for h in range(n):
        s, a, reward = path.states[h], path.actions[h], path.rewards[h]
        if not math.isnan(reward):
            outcome = 0 if reward > 0.5 else 1
            newton_step(par.newton, state.newton, work.newton, par.outcomes, (s, a), outcome, x, norm)


def slope(name: str, value: Any) -> float:
    """A lower bound on sigma'."""
    made = check.positive(name, value, least=1e-60)
    if made > 1.0:
        raise ValueError(f"{name} must be at most 1, got {check.shown(value)}: no slope is above 1/4")
    return made


class OL2M(BanditAgent):
    """OL2M (Zhang et al. 2016): optimism with online logistic regression by Newton steps.

    The arm is taken whose mean reward sigma(theta'x) is largest over the sets ||theta - theta_t||_Z^2 <= gamma:

        score = theta_t'x + sqrt(gamma) ||x||_{Z^{-1}},   values are sigma(min(score, B_r ||x||))
        g = sigma(theta_t'x) - r;   Z += (beta/2) x x';   theta -= g Z^{-1} x

    and theta is projected, in the Z-norm, on the ball ||theta|| <= B_r.

    curvature       beta; None: 1/(2 (1 + e^M)), M = B_r R. Above sigma'(M) it carries no guarantee
    constants       gamma: "corrected", `theory.bandits.ol2m`; "paper", `theory.bandits.ol2m_recalled`: as we remember
                    the paper, much larger, valid as well. Also from memory: beta, and the 1/2 in Z
    regularization  lambda, recommended 2 d/(beta B_r^2), at which the prior's share of gamma equals the slope of the
                    rest in ln det. The paper's step size eta is 1: (eta, lambda) and (1, lambda/eta) are the same
    Other options: `BanditAgent`.

    The estimator is GLM-ORL's. That of `OnlineNewton(constants="paper")` with two outcomes, W = (theta, 0) pinned and
    outcome 0 for reward 1, is this one with beta = alpha, alpha = e^-M/4 being the paper's curvature for S = 2: same
    gradient sigma(theta'x) - r, Z += (alpha/2) x x', same ball. For beta as above it is the same if OnlineNewton is
    told the smaller bound M' = ln((1 + e^M)/2), as e^-M'/4 = beta. A step size eta in OL2M is lambda/eta there.

    Assumes H = 1 and logistic rewards. Cost per episode O(SA d^2), and O(d^3) when a step leaves the ball; memory
    O(SA d^2); both constant in the number of episodes.

    >>> import noregret as nr
    >>> world = nr.worlds.bandit_logistic(reward_bound=2.0)
    >>> run = nr.simulate(nr.agents.OL2M(world.problem), world, 500)
    >>> floor = nr.simulate(nr.UniformRandom(world.problem), world, 500)
    >>> bool(run.final[0] < 0.4 * floor.final[0])
    True
    >>> [nr.agents.OL2M(world.problem, curvature=c).guarantee is None for c in (0.05, 0.25)]  # sigma'(2) = 0.10
    [False, True]
    """

    name = "ol2m"
    plan_kernel = staticmethod(plan)
    learn_kernel = staticmethod(learn)

    delta: float = DELTA
    constants: str = CONSTANTS
    bonus_scale: float = BONUS_SCALE
    curvature: float | None = option(None, slope)
    regularization: float | None = REGULARIZATION

    def _settle(self) -> None:
        super()._settle()
        self.bounds_values = self.bounds_values and self._curvature() <= super()._curvature()

    def _curvature(self) -> float:
        reach = self.problem.reward_bound * self.problem.context_bound
        return ol2m_curvature(reach) if self.curvature is None else self.curvature

    def _regularization(self, curvature: float) -> float:
        return default_regularization(self.problem.context_dim, 0.5 * curvature, self.problem.reward_bound)

    def _newton_scale(self, curvature: float) -> tuple[float, float]:
        return 0.5 * curvature, 1.0
