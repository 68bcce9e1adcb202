"""One decision per individual: which arm pays depends on who asks."""

import math

import numpy as np

from .. import checks as check
from ..problem.problem import Problem
from .contexts import Sphere
from .world import World


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
    S, A, d = (check.integer(n, v) for n, v in zip(("n_states", "n_actions", "context_dim"),
                                                  (n_states, n_actions, context_dim), strict=True))  # fmt: skip
    reward_bound = check.positive("reward_bound", reward_bound)
    problem = Problem(S, A, 1, d, reward_bound=reward_bound, rewards="logistic", weight_bound=1.0)
    theta = np.random.default_rng(check.integer("seed", seed, 0)).standard_normal((S, A, d))
    theta *= reward_bound / np.linalg.norm(theta, axis=-1, keepdims=True)
    contexts = Sphere(d, intercept=math.sqrt(0.5))
    return World(problem, np.zeros((S, A, S, d)), theta, contexts, name="bandit-logistic")
