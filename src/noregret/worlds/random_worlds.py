"""Random populations, for experiments: the same seed gives the same world."""

import math

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..problem.links import LinearCombination, MultinomialLogit
from ..problem.problem import Problem
from .contexts import Simplex, Sphere
from .world import World


def random_logit(
    n_states: int = 5,
    n_actions: int = 3,
    horizon: int = 5,
    context_dim: int = 4,
    weight_bound: float = 2.0,
    seed: int = 0,
) -> World:
    """Multinomial logit transitions with rows of norm `weight_bound` in random directions (the last row is zero).

    Contexts are (1, u)/sqrt 2 with u uniform on the unit sphere: an intercept and d - 1 signed features. Mean rewards
    are a + b'u with a uniform on [0, 1] and ||b|| = min(a, 1 - a), so that they fill [0, 1] and never leave it;
    ||theta|| <= sqrt 2 = reward_bound.

    >>> import numpy as np
    >>> import noregret as nr
    >>> world = nr.worlds.random_logit(n_states=4, weight_bound=2.0, seed=7)
    >>> np.linalg.norm(world.weights[0, 0], axis=1).round(3)  # rows of weights; the last one is the reference
    array([2., 2., 2., 0.])
    >>> x = world.context(seed=0, episode=0)
    >>> print(f"{x[0]:.3f}, {np.linalg.norm(x):.3f}")  # the intercept and the norm
    0.707, 1.000
    """
    d = check.integer("context_dim", context_dim)
    check.memory(f"context_dim = {d}", 80.0 * d)
    g = np.random.default_rng(check.integer("seed", seed, 0))
    return intercept_logit(n_states, n_actions, horizon, d, np.arange(1, d), weight_bound, g, "random-logit")


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
    S, A = check.integer("n_states", n_states), check.integer("n_actions", n_actions)
    weight_bound = check.positive("weight_bound", weight_bound)
    problem = Problem(S, A, horizon, d, MultinomialLogit(), 1.0, weight_bound, math.sqrt(2.0), initial_states=(0,))
    columns = np.concatenate(([0], features))
    rows = g.standard_normal((S, A, S, columns.size))
    rows *= weight_bound / np.linalg.norm(rows, axis=-1, keepdims=True)
    rows[:, :, -1] = 0.0
    level = g.random((S, A))
    b = g.standard_normal((S, A, features.size))
    if features.size:
        b *= (np.minimum(level, 1.0 - level) / np.linalg.norm(b, axis=-1))[..., None]
    W, theta = np.zeros((S, A, S, d)), np.zeros((S, A, d))
    W[..., columns], theta[..., 0], theta[..., features] = rows, level, b
    if d > 1:  # a single feature is the constant 1
        theta *= math.sqrt(2.0)
    return World(problem, W, theta, Sphere(d, intercept=math.sqrt(0.5)), name=name)


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
    S, A, d = (check.integer(n, v) for n, v in zip(("n_states", "n_actions", "context_dim"),
                                                  (n_states, n_actions, context_dim), strict=True))  # fmt: skip
    concentration = check.positive("concentration", concentration)
    problem = Problem(S, A, horizon, d, LinearCombination(), reward_bound=math.sqrt(d), initial_states=(0,))
    g = np.random.default_rng(check.integer("seed", seed, 0))
    bases = g.dirichlet(np.full(S, concentration), (S, A, d))
    return World(problem, np.swapaxes(bases, 2, 3), g.random((S, A, d)), Simplex(d), name="random-linear")
