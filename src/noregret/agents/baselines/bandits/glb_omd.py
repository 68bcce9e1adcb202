"""GLB-OMD: online mirror descent and a set whose radius is read off the data (Zhang, Xu, Zhao and Sugiyama 2025)."""

import math

from ....compiler.jit import inlined, kernel
from ....numerics.linear_algebra import (
    OFTEN,
    apply_refresh,
    dot,
    form,
    norm_of,
    project_on_ball,
    rank_one,
    refresh_due,
    times,
)
from ....theory.bandits import curvature_share
from ....theory.widths import sigma
from ...declared import BONUS_SCALE, CONSTANTS, DELTA, REGULARIZATION
from .family import BanditAgent, length_in, take_best_logit

# Five points and their probabilities with the first nine moments of the standard normal distribution (Gauss-Hermite)
NODES = (-2.8569700138728056, -1.3556261799742657, 0.0, 1.3556261799742657, 2.8569700138728056)
CHANCES = (0.011257411327720691, 0.2220759220056126, 0.5333333333333333, 0.2220759220056126, 0.011257411327720691)
SPREAD = 0.5  # of the mixture: covariance SPREAD A^{-1}, what the curvature says; the paper's is 3/4


@kernel
def plan(par, state, work, x, k, out):
    prior = par.regularization * par.bound * par.bound + par.log_confidence
    for s in range(work.score.shape[0]):
        for a in range(work.score.shape[1]):
            square = prior + state.totals[s, a, 0]  # negative: an empty set says nothing
            width = math.sqrt(square) * length_in(state.newton.inverse[s, a], x) if square >= 0.0 else math.inf
            work.score[s, a] = dot(state.newton.weights[s, a, 0], x) + (par.scale * width if par.scale > 0.0 else 0.0)
    take_best_logit(par, work, x, k, out)


@kernel
def learn(par, state, work, x, k, n, path):
    for h in range(n):
        if not math.isnan(path.rewards[h]):
            descend(par, state, work, x, path.states[h], path.actions[h], path.rewards[h])


@kernel
def descend(par, state, work, x, s, a, reward):
    """One observed reward of pair (s, a): theta, A and the radius."""
    newton, d, factor = state.newton, x.shape[0], work.newton.factor
    theta, gram, inverse, v = newton.weights[s, a, 0], newton.gram[s, a], newton.inverse[s, a], work.gradient
    times(inverse, x, v)
    q, z = dot(v, x), dot(theta, x)
    p = sigma(z)
    slope = p * sigma(-z)
    mix = mix_loss(z, math.sqrt(SPREAD * max(q, 0.0)), reward)
    size = (p - reward) * 0.5 / (1.0 + 0.5 * slope * q)  # (2A + slope x x')^{-1} x is v/2 over that
    for i in range(d):
        work.point[i] = theta[i] - size * v[i]
    if dot(work.point, work.point) > par.bound * par.bound:
        for i in range(d):
            for j in range(d):
                work.hessian[i, j] = 2.0 * gram[i, j] + slope * x[i] * x[j]
        project_on_ball(work.hessian, par.bound, work.point, factor, work.newton.target, work.newton.step)
    for i in range(d):
        work.newton.zx[i] = work.point[i] - theta[i]
    moved = form(gram, work.newton.zx)
    for i in range(d):
        theta[i] = work.point[i]
    after, reach = dot(theta, x), par.bound * norm_of(x)
    left = sigma(after) - p - slope * (after - z)  # of the gradient, beyond its linear part
    state.totals[s, a, 0] += mix - loss(after, reward) + left * after + abs(left) * reach - moved
    share = 0.5 / (1.0 + par.bound * par.context_bound) if par.recalled == 1 else curvature_share(abs(after) + reach)
    rank_one(gram, inverse, newton.logdet[s, a : a + 1], x, v, q, share * sigma(after) * sigma(-after))
    newton.samples[s, a] += 1
    n, start = newton.samples[s, a], d * math.log(par.regularization)
    if n % OFTEN == 0 and refresh_due(gram, inverse, n, 1):
        apply_refresh(par.newton.refresh, (gram, inverse, newton.logdet[s, a : a + 1], start, factor, work.newton.zx))


@inlined
def loss(z, reward):
    """Of reward 0 or 1 at predictor z: ln(1 + e^z) - r z."""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z))) - reward * z


@kernel
def mix_loss(z, deviation, reward):
    """-ln sum_j c_j P(reward | z + deviation n_j) over NODES and CHANCES, the largest term taken out."""
    least = math.inf
    for j in range(len(NODES)):
        least = min(least, loss(z + deviation * NODES[j], reward))
    total = 0.0
    for j in range(len(NODES)):
        total += CHANCES[j] * math.exp(least - loss(z + deviation * NODES[j], reward))
    return least - math.log(total)


class GLBOMD(BanditAgent):
    """GLB-OMD (Zhang et al. 2025): optimism with one-pass updates and a radius free of 1/kappa.

        score = theta_t'x + sqrt(rho2_t) ||x||_{A_t^{-1}},   values are sigma(min(score, B_r ||x||))
        theta_{t+1} = argmin over the ball of l~_t(theta) + ||theta - theta_t||^2_{A_t}
        A_{t+1} = A_t + c_t sigma'(z'_t) x_t x_t',   z'_t = theta_{t+1}'x_t,   A_1 = lambda I, theta_1 = 0

    l~_t is the loss of the reward at theta_t to second order. The radius is added up along the way:

        rho2 = lambda B_r^2 + ln(n_pairs/delta) + sum_t ( m_t - l_t(z'_t) + e_t z'_t + |e_t| B_r ||x_t|| - moved_t )

    m_t is the loss of a mixture over five predictors around z_t = theta_t'x_t, known before the reward; e_t what
    the slope of the loss at z'_t is beyond that of l~_t; moved_t = ||theta_{t+1} - theta_t||^2_{A_t}. A reward of 0 or
    1 is asked for; one between counts as that much of either.

    constants       "corrected", ours: c_t = `theory.bandits.curvature_share`(|z'_t| + B_r ||x_t||), lambda = d/B_r^2.
                    "paper", printed: c_t = 1/(2 eta), eta = 1 + B_r R, and 2 eta lambda = max(14 d eta,
                    6 eta B_r R/4), with H = 2 eta A theirs. The radius is ours in both: theirs bounds the same sum
                    beforehand, and could not be read where we looked. Both are proved (docs/agents-bandits.md)
    regularization  lambda; None: as above
    Other options: `BanditAgent`.

    Assumes H = 1 and logistic rewards. Cost per episode O(SA d^2), and O(d^3) when a step leaves the ball; memory
    O(SA d^2); both constant in the number of episodes.

    >>> import noregret as nr
    >>> world = nr.worlds.bandit_logistic(reward_bound=6.0)
    >>> for name in ("glb-omd", "gloc"):  # both learn in constant time
    ...     run = nr.simulate(nr.make_agent(name, world.problem), world, 2000, diagnostics=True)
    ...     print(name, int(run.diagnostics["optimism_failures"][0, -1]), run.final[0] < 100.0)
    glb-omd 0 True
    gloc 0 False
    """

    name = "glb-omd"
    reach = 30.0
    plan_kernel = staticmethod(plan)
    learn_kernel = staticmethod(learn)

    delta: float = DELTA
    constants: str = CONSTANTS
    bonus_scale: float = BONUS_SCALE
    regularization: float | None = REGULARIZATION

    def _regularization(self, curvature: float) -> float:
        p = self.problem
        reach = p.reward_bound * p.context_bound
        return max(7.0 * p.context_dim, 0.75 * reach) if self.constants == "paper" else (
            p.context_dim / p.reward_bound**2
        )  # fmt: skip

    def _newton_scale(self, curvature: float) -> tuple[float, float]:
        return curvature, 1.0
