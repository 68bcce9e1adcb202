"""Controls: what a learner is compared with. None carries a guarantee."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import checks as check
from ..checks import Floats
from ..compiler.jit import kernel, merged
from ..numerics.linear_algebra import pair_predictors, predictors
from ..numerics.random import EXPLORE, uniforms
from ..planning.bellman import UNCLIPPED, planner_address
from ..problem.layout import Layout
from ..problem.links import apply_gradient, sigmoid
from ..problem.masks import check_policy
from ..problem.problem import Problem
from .base import Agent, checked_problem
from .commit import put
from .declared import CONSTANTS, REGULARIZATION, REWARD_REGULARIZATION, option
from .endings import ModelWork, model_work, plan_model
from .glm.family import GLMAgent, apply_beliefs
from .lottery import random_action


@kernel
def nothing(par, state, work, x, k, n, path):
    """Learn nothing."""


def first_actions(problem: Problem) -> NDArray[np.int64]:
    """A policy [H, S]: the first available action everywhere."""
    return np.tile(problem.layout.available.argmax(1), (problem.horizon, 1))


class UniformPar(NamedTuple):
    seed: int
    layout: Layout


class Nothing(NamedTuple):
    """State and work of agents that have none."""

    nothing: Floats


NONE_KEPT = Nothing(np.zeros(0)), Nothing(np.zeros(0))


@kernel
def uniform_plan(par, state, work, x, k, out):
    H, S = out.policy.shape
    for h in range(H):
        for s in range(S):
            u, _ = uniforms(par.seed, k, h * S + s, EXPLORE)
            out.policy[h, s] = random_action(par.layout, s, u)
            out.values[h, s] = 0.0


class UniformRandom(Agent):
    """A policy drawn afresh in every episode, each action uniform over what is available.

    The floor of every comparison. In expectation over the draw it is the stochastic uniform policy.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic(horizon=4)
    >>> worth = nr.worlds.blind_optimum(world)
    >>> run = nr.simulate(nr.UniformRandom(world.problem), world, 5000, every=5000)
    >>> print(f"{worth.contextual - worth.uniform:.1f} a patient expected, {run.final[0] / 5000:.1f} lost")
    1.2 a patient expected, 1.2 lost
    """

    name, group = "uniform-random", "control"
    any_range = masks = True
    plan_kernel = staticmethod(uniform_plan)
    learn_kernel = staticmethod(nothing)

    def build(self) -> tuple[UniformPar, Nothing, Nothing]:
        return UniformPar(self.seed, self.problem.layout), *NONE_KEPT

    def _chances(self, h: int, s: int) -> Floats:
        available = self.mask[s]  # steps are independent
        return np.asarray(available / available.sum())


class FixedPar(NamedTuple):
    policy: NDArray[np.int64]  # [H, S]


@kernel
def fixed_plan(par, state, work, x, k, out):
    put(par.policy, out.policy)


class FixedPolicy(Agent):
    """One policy [H, S] of actions for everybody: what is done now, or a guideline.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> rule = [[0, 1, 1, 1]] * world.problem.horizon  # drug A to everybody who is ill
    >>> run = nr.simulate(nr.agents.FixedPolicy(world.problem, rule), world, 4000, every=1000)
    >>> (run.regret[0] / run.episodes).round()  # as much at the end as at the beginning: nothing is learned
    array([2., 2., 2., 2.])
    """

    name, group = "fixed-policy", "control"
    any_range = masks = True
    plan_kernel = staticmethod(fixed_plan)
    learn_kernel = staticmethod(nothing)

    def __init__(self, problem: Problem, policy: ArrayLike, seed: int = 0) -> None:
        super().__init__(problem, seed, policy=checked_problem(problem).policy(policy))

    def build(self) -> tuple[FixedPar, Nothing, Nothing]:
        return FixedPar(self.options["policy"]), *NONE_KEPT

    def _chances(self, h: int, s: int) -> Floats:
        chances = np.zeros(self.problem.n_actions)
        chances[self._out.policy[h, s]] = 1.0
        return chances

    def admits(self, mask: Any) -> None:
        check_policy(self.problem, self.par.policy, mask, f"the policy of {self.label}")


class OraclePar(NamedTuple):
    seed: int
    layout: Layout
    gradient: Any
    planner: Any
    weights: Floats  # [S, A, M, d]
    theta: Floats  # [S, A, d]
    logistic: int  # 1: mean rewards are sigma(theta'x)
    offset: float  # else theta'x less this


@kernel
def oracle_plan(par, state, work, x, k, out):
    rows = merged(work.P)
    pair_predictors(par.weights, x, par.layout, work.P)
    apply_gradient(par.gradient, (rows, merged(par.layout.count)))
    predictors(par.theta, x, work.r)
    if par.logistic == 1:
        sigmoid(merged(work.r))
    else:
        mean = merged(work.r)
        for i in range(mean.shape[0]):
            mean[i] -= par.offset
    plan_model(par, work, work.P, work.r, UNCLIPPED, k, out)


class Oracle(Agent):
    """Plans with the true weights, which it is given: regret zero up to rounding, the ceiling of every comparison.

    weights [S, A, S', d], or [S, A, M, d], and reward_weights [S, A, d], as a `World` has them.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent = nr.Oracle(world.problem, world.weights, world.reward_weights)
    >>> print(f"{nr.simulate(agent, world, 300).final[0]:.6f}")
    0.000000
    """

    name, group = "oracle", "control"
    any_range = masks = True
    plan_kernel = staticmethod(oracle_plan)
    learn_kernel = staticmethod(nothing)

    def __init__(self, problem: Problem, weights: ArrayLike, reward_weights: ArrayLike, seed: int = 0) -> None:
        S, A, d = checked_problem(problem).n_states, problem.n_actions, problem.context_dim
        super().__init__(
            problem, seed, weights=problem.weights_of("weights", weights),
            reward_weights=check.array("reward_weights", reward_weights, (S, A, d)),
        )  # fmt: skip

    def build(self) -> tuple[OraclePar, Nothing, ModelWork]:
        p, o = self.problem, self.options
        slots = p.link.gradient_address(), planner_address(p.layout)
        weights = p.slots_of("weights", o["weights"]), o["reward_weights"] / p.scale.unit
        par = OraclePar(self.seed, p.layout, *slots, *weights, int(p.rewards == "logistic"), p.scale.offset)
        return par, NONE_KEPT[0], model_work(p.layout)


@kernel
def greedy_plan(par, state, work, x, k, out):
    apply_beliefs(par.believe, (par, state, work, x, 0.0))
    plan_model(par, work, work.belief.P, work.belief.reward, UNCLIPPED, k, out)
    if par.exploration > 0.0:
        epsilon = (k + 1.0) ** -par.exploration
        H, S = out.policy.shape
        for h in range(H):
            for s in range(S):
                u, v = uniforms(par.seed, k, h * S + s, EXPLORE)
                if u < epsilon:
                    out.policy[h, s] = random_action(par.layout, s, v)


class CertaintyEquivalence(GLMAgent):
    """Plans as if the estimates were the truth. Linear regret in general: what exploration is for.

    >>> import noregret as nr
    >>> world = nr.worlds.random_logit(n_states=2, n_actions=2, horizon=2, context_dim=1)
    >>> run = nr.simulate(nr.CertaintyEquivalence(world.problem), world, 1000, seeds=8, every=100)
    >>> run.late.round(1).tolist()  # what each seed still loses per episode: on one, for ever
    [0.7, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """

    name, group = "certainty-equivalence", "control"
    plan_kernel = staticmethod(greedy_plan)

    constants: str = CONSTANTS
    regularization: float | None = REGULARIZATION
    reward_regularization: float | None = REWARD_REGULARIZATION


class EpsilonGreedy(GLMAgent):
    """Certainty equivalence, except that each decision is uniform with probability k^-exploration in episode k.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> for power in (0.1, 0.5):  # in episode k a decision is uniform with probability k^-power
    ...     run = nr.simulate(nr.EpsilonGreedy(world.problem, exploration=power), world, 2000, every=2000)
    ...     print(f"{run.final[0] / 2000:.1f}")
    0.9
    0.1
    """

    name, group = "epsilon-greedy", "control"
    plan_kernel = staticmethod(greedy_plan)

    exploration: float = option(1.0 / 3.0, check.positive)
    constants: str = CONSTANTS
    regularization: float | None = REGULARIZATION
    reward_regularization: float | None = REWARD_REGULARIZATION
