"""GLM-UCB: maximum likelihood and a bonus on the mean (Filippi, Cappe, Garivier and Szepesvari 2010)."""

import math

from .... import checks as check
from ....compiler.jit import inlined, kernel
from ....estimators.rewards.regression import ridge_step
from ....numerics.linear_algebra import cholesky, dot, norm_of, project_on_ball, solve_factored
from ....theory.bandits import constrained_mle, glm_ucb_recalled
from ....theory.widths import sigma
from ...declared import BONUS_SCALE, CONSTANTS, DELTA, REGULARIZATION, option
from .family import BanditAgent, length_in, take_best

STEPS = 50  # of Newton's method for one estimate, at most; from the last estimate a few are enough
HALVINGS = 30  # of one step, at most
CLOSE = 1e-12  # a step shorter than this is the last one


@kernel
def plan(par, state, work, x, k, out):
    ridge, memory = state.ridge, state.memory
    for s in range(work.score.shape[0]):
        for a in range(work.score.shape[1]):
            factor = bonus_factor(par, x.shape[0], k + 1, ridge.logdet[s, a], state.totals[s, a, 0])
            bonus = factor * length_in(ridge.inverse[s, a], x)
            work.score[s, a] = sigma(dot(memory.theta[s, a], x)) + par.scale * bonus
    take_best(par, work, k, out)
    for s in range(work.score.shape[0]):
        out.values[0, s] = min(out.values[0, s], sigma(par.bound * norm_of(x)))  # no mean is larger


@inlined
def bonus_factor(par, d, rounds, logdet, gap):
    kappa, lam, log = par.curvature, par.regularization, par.log_confidence
    if par.recalled == 1:
        return glm_ucb_recalled(d, par.context_bound, kappa, lam, rounds, log)
    return 0.25 * constrained_mle(par.bound, kappa, lam, logdet, gap, log)  # sigma has slope 1/4 at most


@kernel
def learn(par, state, work, x, k, n, path):
    for h in range(n):
        s, a, reward = path.states[h], path.actions[h], path.rewards[h]
        if not math.isnan(reward) and remember(state.memory, s, a, x):
            ridge_step(par.ridge, state.ridge, work.ridge, s, a, reward, x)
            penalty = par.curvature * par.regularization
            state.totals[s, a, 0] = fit(state.memory, state.ridge.moment[s, a], penalty, par.bound, s, a, work)


@kernel
def remember(memory, s, a, x):
    """Count context x for pair (s, a); a new one takes the next free row. False: there was none left."""
    row = memory.last[s, a]
    while row >= 0:
        same = True
        for b in range(x.shape[0]):
            same = same and memory.contexts[row, b] == x[b]
        if same:
            memory.times[row] += 1
            return True
        row = memory.earlier[row]
    row = memory.used[0]
    if row == memory.contexts.shape[0]:
        return False
    memory.used[0] += 1
    memory.times[row], memory.earlier[row], memory.last[s, a] = 1, memory.last[s, a], row
    for b in range(x.shape[0]):
        memory.contexts[row, b] = x[b]
    return True


@kernel
def loss(memory, moment, penalty, first, theta, gradient, hessian):
    """L(theta) = sum ln(1 + e^{theta'x}) - theta'sum x r + penalty/2 ||theta||^2 over the rows from `first` back;
    gradient [d] and hessian [d, d] (lower triangle) <- its derivatives there."""
    d, row = theta.shape[0], first
    total = 0.5 * penalty * dot(theta, theta) - dot(theta, moment)
    for i in range(d):
        gradient[i] = penalty * theta[i] - moment[i]
        for j in range(i + 1):
            hessian[i, j] = penalty if i == j else 0.0
    while row >= 0:
        x, times = memory.contexts[row], memory.times[row]
        z = dot(theta, x)
        total += times * (max(z, 0.0) + math.log1p(math.exp(-abs(z))))
        p = sigma(z)
        for i in range(d):
            gradient[i] += times * p * x[i]
            for j in range(i + 1):
                hessian[i, j] += times * p * (1.0 - p) * x[i] * x[j]
        row = memory.earlier[row]
    return total


@kernel
def fit(memory, moment, penalty, bound, s, a, work):
    """memory.theta[s, a] <- argmin of L over the ball ||theta|| <= bound, from where it was; returns the gap
    max over the ball of <grad L(theta), theta - v> at which it stopped.

    Newton's method: the quadratic model is minimised over the ball (exactly, by projection in the Hessian's norm), and
    steps are halved until L falls enough."""
    theta, first = memory.theta[s, a], memory.last[s, a]
    d, g, hessian, point, factor = theta.shape[0], work.gradient, work.hessian, work.point, work.newton.factor
    value = loss(memory, moment, penalty, first, theta, g, hessian)
    for _ in range(STEPS):
        cholesky(hessian, 0.0, factor)
        for i in range(d):
            point[i] = g[i]
            for j in range(i):
                hessian[j, i] = hessian[i, j]
        solve_factored(factor, point)
        for i in range(d):
            point[i] = theta[i] - point[i]
        if dot(point, point) > bound * bound:
            project_on_ball(hessian, bound, point, factor, work.newton.target, work.newton.step)
        size, slope = 0.0, 0.0
        for i in range(d):
            point[i] -= theta[i]  # the step
            size = max(size, abs(point[i]))
            slope += g[i] * point[i]
        share, after = 1.0, value
        for _ in range(HALVINGS):
            for i in range(d):
                work.newton.zx[i] = theta[i] + share * point[i]
            after = loss(memory, moment, penalty, first, work.newton.zx, g, hessian)
            if after <= value + 1e-4 * share * slope + 1e-14 * abs(value):
                break
            share *= 0.5
        for i in range(d):
            theta[i] += share * point[i]
        value = after
        if share * size <= CLOSE:
            break
    return max(dot(g, theta) + bound * math.sqrt(dot(g, g)), 0.0)


class GLMUCB(BanditAgent):
    """GLM-UCB (Filippi et al. 2010): take the arm with the largest estimated mean reward plus bonus.

        score = sigma(theta_hat'x) + rho ||x||_{V^{-1}},   V = lambda I + sum x x'

    theta_hat minimises the negative log-likelihood plus kappa lambda ||theta||^2/2 over the ball ||theta|| <= B_r, with
    kappa = sigma'(B_r R). The paper maximises without constraint and then maps the result into the ball; the
    constrained estimate needs no such map, and its radius no factor 2.

    constants       rho: "corrected", a quarter of `theory.bandits.constrained_mle`, with the accuracy the solver
                    reached in it; "paper", `theory.bandits.glm_ucb_recalled` around the same estimate: as we remember
                    the paper, without guarantee here
    memory          how many contexts can be kept. The likelihood needs the data: a row for each distinct context of
                    each pair. When they are used up, rewards at new contexts teach nothing any more: the sets
                    then stay as they are, and as valid as they were (a set holds at all times at once)
    regularization  lambda, recommended 1
    Other options: `BanditAgent`.

    Assumes H = 1 and logistic rewards. Cost per episode O(SA d^2) to plan and O(n d^2) per Newton step to learn, n the
    distinct contexts of the pair taken; memory O(SA d^2 + memory d), reserved at once: it fills up, and the time to
    learn grows with it.

    >>> import noregret as nr
    >>> world = nr.worlds.bandit_logistic()
    >>> ours, printed = (nr.agents.GLMUCB(world.problem, constants=c) for c in ("corrected", "paper"))
    >>> ours.guarantee is not None, printed.guarantee is not None
    (True, False)
    >>> bool(nr.simulate(ours, world, 300).final[0] < 0.8 * nr.simulate(printed, world, 300).final[0])
    True
    """

    name = "glm-ucb"
    reach = 30.0
    plan_kernel = staticmethod(plan)
    learn_kernel = staticmethod(learn)
    uses_ridge = True

    delta: float = DELTA
    constants: str = CONSTANTS
    bonus_scale: float = BONUS_SCALE
    memory: int = option(10_000, check.integer)
    regularization: float | None = REGULARIZATION

    def _settle(self) -> None:
        super()._settle()
        self.bounds_values = self.bounds_values and self.constants == "corrected"
