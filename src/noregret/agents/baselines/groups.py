"""Groups of contexts, for agents that treat everybody in a group alike: tabular learners, one copy per group."""

import numpy as np
from numpy.typing import ArrayLike

from ... import checks as check
from ...checks import Floats
from ...compiler.jit import inlined

ROUNDS = 100  # of Lloyd's algorithm, at most


@inlined
def distance2(u, v):
    """||u - v||^2."""
    total = 0.0
    for j in range(u.shape[0]):
        total += (u[j] - v[j]) * (u[j] - v[j])
    return total


@inlined
def group_of(centres, x):
    """The number of the centre [B, d] nearest to x."""
    best, nearest = np.inf, 0
    for b in range(centres.shape[0]):
        distance = distance2(centres[b], x)
        if distance < best:
            best, nearest = distance, b
    return nearest


def kmeans(contexts: ArrayLike, n_cells: int, seed: int = 0) -> Floats:
    """Centres [B, d] of at most `n_cells` groups of rows [n, d]: Lloyd's algorithm from spread-out rows (k-means++).

    >>> kmeans([[0.0], [0.1], [1.0], [1.1]], 2).ravel().round(2).tolist()
    [0.05, 1.05]
    """
    X = check.rows("contexts", contexts)
    X, counts = np.unique(X, axis=0, return_counts=True)
    n, g = min(check.integer("n_cells", n_cells), len(X)), np.random.default_rng(check.integer("seed", seed, 0))
    centres = X[g.integers(len(X), size=1)]
    while len(centres) < n:
        distance = counts * ((X[:, None] - centres) ** 2).sum(-1).min(1)
        centres = np.vstack([centres, X[g.choice(len(X), p=distance / distance.sum())]])
    for _ in range(ROUNDS):
        near = ((X[:, None] - centres) ** 2).sum(-1).argmin(1)
        kept = [np.average(X[near == b], axis=0, weights=counts[near == b]) for b in range(n) if (near == b).any()]
        moved = np.array(kept)
        if moved.shape == centres.shape and np.allclose(moved, centres, rtol=0.0, atol=1e-12):
            break
        centres, n = moved, len(moved)
    return np.ascontiguousarray(centres[np.lexsort(centres.T[::-1])])
