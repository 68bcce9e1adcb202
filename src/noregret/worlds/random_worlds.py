"""Random populations, for experiments: the same seed gives the same world. Among them one with a single decision per
individual, and one with many features of which few matter."""

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import checks as check
from ..checks import Floats
from ..problem.design import Design, RewardDesign
from ..problem.links import LinearCombination, MultinomialLogit
from ..problem.problem import Problem
from .contexts import Simplex, Sphere
from .designed import random_design, reward_weights, transition_weights
from .world import World


def _sizes(**given: int) -> list[int]:
    return [check.integer(name, value) for name, value in given.items()]


def random_logit(
    n_states: int = 5,
    n_actions: int = 3,
    horizon: int = 5,
    context_dim: int = 4,
    weight_bound: float = 2.0,
    seed: int = 0,
    *,
    design: Design | None = None,
    reward_design: RewardDesign | None = None,
) -> World:
    """Multinomial logit transitions with rows of norm `weight_bound` in random directions (the last row is zero).

    Contexts are (1, u)/sqrt 2 with u uniform on the unit sphere: an intercept and d - 1 signed features. Mean rewards
    are a + b'u with a uniform on [0, 1] and ||b|| = min(a, 1 - a), so that they fill [0, 1] and never leave it;
    ||theta|| <= sqrt 2 = reward_bound.

    design          the truth is a random Theta_b per block, as long as its bound allows (less where a row of weights
                    would be longer than 8), and 0 where its moderators leave out an entry of the context. The design
                    brings n_states, n_actions and weight_bound; those given here are not looked at
    reward_design   likewise for mean rewards: at u = 0 they begin at 1/2, or as near as the features allow; a random
                    Theta_b is added, as much as leaves them in [0, 1] for all u; where the sum is longer than its
                    bound it is shrunk, which moves means towards 0

    >>> import numpy as np
    >>> import noregret as nr
    >>> world = nr.worlds.random_logit(n_states=4, weight_bound=2.0, seed=7)
    >>> np.linalg.norm(world.weights[0, 0], axis=1).round(3)  # rows of weights; the last one is the reference
    array([2., 2., 2., 0.])
    >>> x = world.context(seed=0, episode=0)
    >>> print(f"{x[0]:.3f}, {np.linalg.norm(x):.3f}")  # the intercept and the norm
    0.707, 1.000
    >>> design = nr.worlds.random_design(n_states=20, n_actions=4, features=5, bound=3.0)
    >>> world = nr.worlds.random_logit(horizon=10, context_dim=6, design=design)
    >>> world.problem.n_states, design.fitted(world.slots, world.problem.layout)[0].round(3)  # the norm of Theta
    (20, array([3.]))
    """
    d = check.integer("context_dim", context_dim)
    check.memory(f"context_dim = {d}", 80.0 * d)
    g = np.random.default_rng(check.integer("seed", seed, 0))
    if design is not None or reward_design is not None:
        shape = _shape(design, reward_design)
        told: dict[str, Any] = {"design": design, "reward_design": reward_design, "initial_states": (0,)}
        if design is None:
            told["weight_bound"] = weight_bound
        if reward_design is None:
            told["reward_bound"] = math.sqrt(2.0)
        problem = Problem(shape[0], shape[1], horizon, d, **told)
        return _designed(problem, g, "random-logit")
    return intercept_logit(n_states, n_actions, horizon, d, np.arange(1, d), weight_bound, g, "random-logit")


def _shape(design: Design | None, rewards: RewardDesign | None) -> tuple[int, ...]:
    """(S, A) of the design that was given, the one of transitions if there are two."""
    for name, kind, given in (("design", Design, design), ("reward_design", RewardDesign, rewards)):
        if given is not None:
            if not isinstance(given, kind):
                raise ValueError(f"{name} must be a noregret.{kind.__name__} or None, got {check.shown(given)}")
            return given.block.shape
    raise AssertionError


def intercept_logit(
    n_states: int,
    n_actions: int,
    horizon: int,
    d: int,
    features: NDArray[np.int64],
    weight_bound: float,
    g: np.random.Generator,
    name: str,
) -> World:
    """`random_logit`, where transitions and rewards depend on the intercept and the given `features`, out of 1..d-1."""
    S, A = _sizes(n_states=n_states, n_actions=n_actions)
    weight_bound = check.positive("weight_bound", weight_bound)
    problem = Problem(S, A, horizon, d, MultinomialLogit(), 1.0, weight_bound, math.sqrt(2.0), initial_states=(0,))
    W, theta = _pair_rows(problem, features, g), _pair_rewards(problem, features, g)
    return World(problem, W, theta, Sphere(d, intercept=math.sqrt(0.5)), name=name)


def _pair_rows(problem: Problem, features: NDArray[np.int64], g: np.random.Generator) -> Floats:
    """Weights [S, A, S', d] of next states, every pair with its own."""
    S, A, columns = problem.n_states, problem.n_actions, np.concatenate(([0], features))
    rows = g.standard_normal((S, A, S, columns.size))
    rows *= problem.weight_bound / np.linalg.norm(rows, axis=-1, keepdims=True)
    rows[:, :, -1] = 0.0
    W = np.zeros((S, A, S, problem.context_dim))
    W[..., columns] = rows
    return W


def _pair_rewards(problem: Problem, features: NDArray[np.int64], g: np.random.Generator) -> Floats:
    """Weights [S, A, d] of mean rewards, every pair with its own."""
    S, A, d = problem.n_states, problem.n_actions, problem.context_dim
    level = g.random((S, A))
    b = g.standard_normal((S, A, features.size))
    if features.size:
        b *= (np.minimum(level, 1.0 - level) / np.linalg.norm(b, axis=-1))[..., None]
    theta = np.zeros((S, A, d))
    theta[..., 0], theta[..., features] = level, b
    if d > 1:  # a single feature is the constant 1
        theta *= math.sqrt(2.0)
    return theta


def _designed(problem: Problem, g: np.random.Generator, name: str) -> World:
    """`random_logit` for a problem with one design or two."""
    features, rewards = np.arange(1, problem.context_dim), problem.reward_design
    W = _pair_rows(problem, features, g) if problem.design is None else transition_weights(problem, g)
    theta = _pair_rewards(problem, features, g) if rewards is None else reward_weights(problem, rewards, g)
    return World(problem, W, theta, Sphere(problem.context_dim, intercept=math.sqrt(0.5)), name=name)


def shared_logit(
    n_states: int = 6,
    n_actions: int = 3,
    horizon: int = 8,
    context_dim: int = 6,
    features: int = 5,
    blocks: int = 1,
    bound: float = 4.0,
    seed: int = 0,
    *,
    moderators: int | None = None,
    shared: bool = True,
) -> World:
    """`random_logit` with a `random_design`: all pairs of a block have Theta [q, d] in common, q = `features`.

    p = blocks q d parameters, 30 by default, where one matrix per pair would have S A (S - 1) d = 540. Rewards are
    per pair. shared=False is the same truth without the design, its weight_bound the longest row there is: what an
    agent that learns every pair alone is told. moderators: a feature goes with the intercept and so many other entries
    of the context, drawn for each, so that p = blocks q (1 + moderators); None: with all.

    >>> import noregret as nr
    >>> world, alone = nr.worlds.shared_logit(), nr.worlds.shared_logit(shared=False)
    >>> print(world.problem.design.describe(context_dim=6).splitlines()[0])
    30 parameters in 1 block; 540 if every pair had its own
    >>> bool((world.slots == alone.slots).all()), f"{alone.problem.weight_bound:.2f} < {world.problem.weight_bound:.2f}"
    (True, '4.20 < 7.75')
    """
    sizes = n_states, n_actions, features, blocks, bound, seed
    design = random_design(*sizes, context_dim=context_dim, moderators=moderators)
    world = random_logit(horizon=horizon, context_dim=context_dim, seed=seed, design=design)
    made = world if check.flag("shared", shared) else without_design(world)
    made.name = "shared-logit"
    return made


def without_design(world: World) -> World:
    """The same truth, told without its designs: bounds on rows and on reward weights are the smallest true ones."""
    p = world.problem
    longest = np.linalg.norm(world.slots, axis=-1)[p.layout.available].max()
    largest = np.linalg.norm(world.reward_weights, axis=-1)[p.layout.available].max()
    told = replace(
        p, design=None, reward_design=None, weight_bound=max(float(longest), 1e-9) * (1.0 + 1e-12),
        reward_bound=max(float(largest), 1e-9) * (1.0 + 1e-12),
    )  # fmt: skip
    parts = world.stored, world.reward_weights, world.contexts, world.initial_state, world.name
    return World(told, *parts, rule=world.rule)


def random_linear(
    n_states: int = 5,
    n_actions: int = 3,
    horizon: int = 5,
    context_dim: int = 4,
    concentration: float = 0.3,
    seed: int = 0,
) -> World:
    """A mixture of d base MDPs with Dirichlet(concentration) transition rows and uniform rewards; simplex contexts.

    Small concentrations make the base MDPs nearly deterministic and so very different from each other.

    >>> import numpy as np
    >>> import noregret as nr
    >>> world = nr.worlds.random_linear(n_states=3, context_dim=2)
    >>> first, second = np.eye(2)  # the two base MDPs
    >>> mixture = world.transitions([0.3, 0.7])
    >>> np.allclose(mixture, 0.3 * world.transitions(first) + 0.7 * world.transitions(second))
    True
    """
    S, A, d = _sizes(n_states=n_states, n_actions=n_actions, context_dim=context_dim)
    concentration = check.positive("concentration", concentration)
    problem = Problem(S, A, horizon, d, LinearCombination(), reward_bound=math.sqrt(d), initial_states=(0,))
    g = np.random.default_rng(check.integer("seed", seed, 0))
    bases = g.dirichlet(np.full(S, concentration), (S, A, d))
    return World(problem, np.swapaxes(bases, 2, 3), g.random((S, A, d)), Simplex(d), name="random-linear")


def bandit_logistic(
    n_actions: int = 3, context_dim: int = 3, reward_bound: float = 2.0, seed: int = 0, n_states: int = 1
) -> World:
    """Horizon 1, rewards 0 or 1 with mean sigma(theta_sa'x), theta_sa of norm `reward_bound` in random directions.

    Contexts are (1, u)/sqrt 2 with u uniform on the unit sphere of R^(d-1). Every state is a bandit of its own; all
    start in state 0 unless a `World` made from these parts says otherwise.

    >>> import noregret as nr
    >>> world = nr.worlds.bandit_logistic(n_actions=3)
    >>> x = world.context(seed=0, episode=0)
    >>> world.rewards(x).round(2)  # the chance of a reward of 1, [S, A]
    array([[0.62, 0.36, 0.83]])
    >>> int(world.optimal(x).policy[0, 0])
    2
    """
    S, A, d = _sizes(n_states=n_states, n_actions=n_actions, context_dim=context_dim)
    reward_bound = check.positive("reward_bound", reward_bound)
    problem = Problem(S, A, 1, d, reward_bound=reward_bound, rewards="logistic", weight_bound=1.0)
    theta = np.random.default_rng(check.integer("seed", seed, 0)).standard_normal((S, A, d))
    theta *= reward_bound / np.linalg.norm(theta, axis=-1, keepdims=True)
    contexts = Sphere(d, intercept=math.sqrt(0.5))
    return World(problem, np.zeros((S, A, S, d)), theta, contexts, name="bandit-logistic")


def sparse_logit(
    n_states: int = 3,
    n_actions: int = 2,
    horizon: int = 4,
    context_dim: int = 32,
    relevant: int = 2,
    weight_bound: float = 2.0,
    seed: int = 0,
) -> World:
    """`random_logit` in which only p = `relevant` of the d features matter, the same for all transitions and rewards.

    The intercept (feature 0) is one of them and `seed` draws the p - 1 others; weights [S, A, S', d] and reward weights
    [S, A, d] are zero elsewhere. Rows have norm `weight_bound` in random directions of R^p (the last row is zero).
    Contexts are (1, u)/sqrt 2 with u uniform on the unit sphere of R^(d-1); mean rewards a + b'u in [0, 1] as in
    `random_logit`. `group_norm(world.weights)` is what a learner that looks for few features may be told: at most
    sqrt(p (S - 1)) weight_bound, whatever d is.

    Caveat: a single feature has size about 1/sqrt(2 (d - 1)), so that individuals become more alike as d grows.

    >>> import numpy as np
    >>> import noregret as nr
    >>> world = nr.worlds.sparse_logit(context_dim=32, relevant=3)
    >>> np.abs(world.weights).sum((0, 1, 2)).nonzero()[0]  # the features that matter
    array([ 0, 20, 26])
    """
    d = check.integer("context_dim", context_dim)
    p = check.integer("relevant", relevant)
    if p > d:
        raise ValueError(f"relevant must be at most context_dim = {d}, got {p}")
    size = check.integer("n_states", n_states) ** 2 * check.integer("n_actions", n_actions) * d
    check.memory(f"n_states = {n_states}, n_actions = {n_actions}, context_dim = {d}", 8.0 * size)
    g = np.random.default_rng(check.integer("seed", seed, 0))
    features = 1 + np.sort(g.choice(d - 1, p - 1, replace=False)) if p > 1 else np.zeros(0, np.int64)
    return intercept_logit(n_states, n_actions, horizon, d, features, weight_bound, g, "sparse-logit")


def group_norm(weights: ArrayLike, coordinates: Literal["centred", "pinned"] = "centred") -> float:
    """The largest ||W||_{2,1} of any pair: the sum over the d features of the 2-norm of W[:, j].

    weights [S, A, S', d]; the bound that learners of few features ask for (`group_bound`).

    Adding a vector to all rows of W changes no logit probability, so the rows are first shifted: "centred" subtracts
    their mean (the shift with the smallest norm), "pinned" the last row (never smaller, at most sqrt(S') times as
    large). For full supports: with a mask, rows outside it would count as outcomes.

    >>> import noregret as nr
    >>> for d in (8, 32, 128):  # two features matter: at most sqrt(p (S - 1)) B_p = 4, whatever d is
    ...     print(f"{nr.worlds.group_norm(nr.worlds.sparse_logit(context_dim=d).weights):.2f}")
    3.83
    3.83
    3.83
    """
    check.one_of("coordinates", coordinates, ("centred", "pinned"))
    W = check.numbers("weights", weights)
    if W.ndim != 4 or 0 in W.shape:
        raise ValueError(f"weights must have shape (S, A, S', d), got {W.shape}")
    W = W - (W.mean(2, keepdims=True) if coordinates == "centred" else W[:, :, -1:])
    return float(np.linalg.norm(W, axis=2).sum(-1).max())
