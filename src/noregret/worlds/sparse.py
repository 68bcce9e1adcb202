"""A population with many features of which few matter."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from .. import checks as check
from .random_worlds import intercept_logit
from .world import World


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
