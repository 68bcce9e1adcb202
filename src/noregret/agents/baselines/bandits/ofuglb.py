"""OFUGLB: optimism with a set of likely weights that does not grow with 1/kappa (Lee, Yun and Jun 2024)."""

import math

from .... import checks as check
from ....compiler.jit import inlined, kernel
from ....estimators.rewards.regression import ridge_step
from ....numerics.linear_algebra import dot, invert, norm_of
from ....theory.bandits import curvature_share, ofuglb, ofuglb_printed
from ....theory.widths import sigma
from ...declared import BONUS_SCALE, CONSTANTS, DELTA, REGULARIZATION, option
from .family import BanditAgent, length_in, take_best_logit
from .glm_ucb import fit, remember


@kernel
def plan(par, state, work, x, k, out):
    for s in range(work.score.shape[0]):
        for a in range(work.score.shape[1]):
            width = math.sqrt(squared_radius(par, state, s, a)) * length_in(state.newton.inverse[s, a], x)
            work.score[s, a] = dot(state.memory.theta[s, a], x) + par.scale * width
    take_best_logit(par, work, x, k, out)


@inlined
def squared_radius(par, state, s, a):
    """beta + gap + lambda (B^2 - ||theta||^2)."""
    d, B, log, theta = state.memory.theta.shape[2], par.bound, par.log_confidence, state.memory.theta[s, a]
    norm2 = dot(theta, theta)
    if par.recalled == 1:
        beta = ofuglb_printed(d, B, par.context_bound, state.ridge.samples[s, a], log)
    else:
        beta = ofuglb(d, B, norm2, state.ridge.logdet[s, a], log)
    return beta + state.totals[s, a, 0] + par.newton.regularization * max(B * B - norm2, 0.0)


@kernel
def learn(par, state, work, x, k, n, path):
    for h in range(n):
        s, a, reward = path.states[h], path.actions[h], path.rewards[h]
        if not math.isnan(reward) and remember(state.memory, s, a, x):
            ridge_step(par.ridge, state.ridge, work.ridge, s, a, reward, x)
            moment, penalty = state.ridge.moment[s, a], 2.0 * par.newton.regularization
            state.totals[s, a, 0] = fit(state.memory, moment, penalty, par.bound, s, a, work)
            bend(par, state, work, s, a)


@kernel
def bend(par, state, work, s, a):
    """state.newton.gram[s, a] <- A = lambda I + sum share sigma'(theta'x) x x' at the estimate, and its inverse."""
    memory, gram = state.memory, state.newton.gram[s, a]
    theta, row, d = memory.theta[s, a], memory.last[s, a], gram.shape[0]
    for i in range(d):
        for j in range(d):
            gram[i, j] = par.newton.regularization if i == j else 0.0
    while row >= 0:
        x = memory.contexts[row]
        z = dot(theta, x)
        weight = memory.times[row] * share_of(par, z, x) * sigma(z) * sigma(-z)
        for i in range(d):
            for j in range(d):
                gram[i, j] += weight * x[i] * x[j]
        row = memory.earlier[row]
    invert(gram, 0.0, state.newton.inverse[s, a], work.newton.factor, work.point)


@inlined
def share_of(par, z, x):
    """`curvature_share`: of |z| + B ||x||, within which theta*'x is, or the paper's 1/(2 + 2 M)."""
    if par.recalled == 1:
        return 0.5 / (1.0 + par.bound * par.context_bound)
    return curvature_share(abs(z) + par.bound * norm_of(x))


class OFUGLB(BanditAgent):
    """OFUGLB (Lee, Yun and Jun 2024), with the ellipsoid around its set: optimism over the weights that are likely.

        score = theta_hat'x + sqrt(rho2) ||x||_{A^{-1}},   values are sigma(min(score, B_r ||x||))
        A = lambda I + sum c_i sigma'(theta_hat'x_i) x_i x_i'
        rho2 = beta + gap + lambda (B_r^2 - ||theta_hat||^2),   L(theta*) <= L(theta_hat) + beta

    theta_hat minimises the negative log-likelihood L plus lambda ||theta||^2 over the ball ||theta|| <= B_r, to within
    `gap`. The radius is free of 1/sigma'(B_r R), which GLM-UCB's is not: where rewards are nearly certain the set
    stays small. The paper's own set, of all likely theta, is smaller still and needs a convex program for every arm and
    person; this is its relaxation, which they call OFUGLB-e.

    constants       "corrected", ours: beta from a Gaussian mixture (`theory.bandits.ofuglb`) and c_i from
                    `theory.bandits.curvature_share`, lambda = d/(2 B_r^2). "paper", printed (read in the authors'
                    programs): beta of `theory.bandits.ofuglb_printed`, c_i = 1/(2 + 2 B_r R), lambda = 1/(4 B_r^2).
                    Both are proved (docs/agents-bandits.md)
    memory          how many contexts can be kept, as in `GLMUCB`
    regularization  lambda; None: as above
    Other options: `BanditAgent`.

    Assumes H = 1 and logistic rewards. Cost per episode O(SA d^2) to plan and O(n d^2) per Newton step and O(d^3) to
    learn, n the distinct contexts of the pair taken; memory O(SA d^2 + memory d).

    >>> import noregret as nr
    >>> world = nr.worlds.bandit_logistic(reward_bound=6.0)
    >>> for name in ("ofuglb", "glm-ucb"):
    ...     run = nr.simulate(nr.make_agent(name, world.problem), world, 400, diagnostics=True)
    ...     print(name, int(run.diagnostics["optimism_failures"][0, -1]), run.final[0] < 60.0)
    ofuglb 0 True
    glm-ucb 0 False
    """

    name = "ofuglb"
    reach = 30.0
    plan_kernel = staticmethod(plan)
    learn_kernel = staticmethod(learn)
    uses_ridge = True

    delta: float = DELTA
    constants: str = CONSTANTS
    bonus_scale: float = BONUS_SCALE
    memory: int = option(10_000, check.integer)
    regularization: float | None = REGULARIZATION

    def _lambda(self, curvature: float) -> float:
        """Of V = lambda I + sum x x', with which ln(det V/lambda^d) is that of `theory.bandits.ofuglb`."""
        return 4.0 * self.problem.context_dim / self.problem.reward_bound**2

    def _newton_scale(self, curvature: float) -> tuple[float, float]:
        """A begins with the option lambda, here as a part of V's."""
        share = 1.0 / (16.0 * self.problem.context_dim) if self.constants == "paper" else 0.125
        asked = self.options["regularization"]
        return curvature, share if asked is None else asked / self._lambda(curvature)
