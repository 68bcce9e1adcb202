"""The largest value of a quadratic over a product of unit balls, from above.

    max { <g, y> + 1/2 y'My :  ||y_i|| <= 1 for every group i }  <=  1/2 g'(diag(mu) - M)^{-1} g + 1/2 sum_i mu_i

for all multipliers mu_i >= 0 for which diag(mu) - M is positive definite: add mu_i (1 - ||y_i||^2)/2 >= 0 and maximise
over all y. So the search for good multipliers need not be trusted. With one group the smallest bound is the maximum.
"""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from ..checks import Floats

_STEPS = 60
_PAD = 1e-11  # of the size of the numbers at hand: what rounding may have lost, with room to spare


def largest_quadratic(g: Floats, M: Floats, groups: Sequence[tuple[int, int]]) -> float:
    """An upper bound on the maximum above; groups: which rows of y are in which ball."""
    M = 0.5 * (M + M.T)
    if not (np.isfinite(g).all() and np.isfinite(M).all()):
        return float("inf")
    if not (g.any() or M.any()):
        return 0.0
    if len(groups) == 1:
        return _one_ball(g, M)
    return _several(g, M, groups)


def _one_ball(g: Floats, M: Floats) -> float:
    values, vectors = eigh(M)
    c, top = (vectors.T @ g) ** 2, max(float(values[-1]), 0.0)
    size = float(np.sqrt(c.sum()))
    low, high = top, top + size  # at the upper end sum c/(mu - values)^2 <= 1
    for _ in range(200):
        mu = 0.5 * (low + high)
        gap = mu - values
        if gap.min() <= 0.0 or (c / gap**2).sum() > 1.0:
            low = mu
        else:
            high = mu
    scale = size + float(np.abs(values).max())
    mu = high + _PAD * scale
    return float(0.5 * (c / (mu - values)).sum() + 0.5 * mu + _PAD * scale)


def _bound(g: Floats, M: Floats, spread: Floats, mu: Floats, pad: float) -> tuple[float, Floats, object]:
    """(bound, A^{-1} g, the factor of A = diag(mu) - M - pad I); inf where A is not positive definite."""
    A = np.diag(spread @ mu - pad) - M
    try:
        factor = cho_factor(A, lower=True)
    except np.linalg.LinAlgError:
        return float("inf"), g, None
    y: Floats = cho_solve(factor, g)
    return float(0.5 * g @ y + 0.5 * mu.sum()), y, factor


def _several(g: Floats, M: Floats, groups: Sequence[tuple[int, int]]) -> float:
    """Newton's method in ln mu, so that groups in which nothing happens shrink by a factor; steps that leave the region
    or do not descend are halved."""
    n = len(groups)
    spread = np.zeros((g.size, n))
    for i, (first, last) in enumerate(groups):
        spread[first:last, i] = 1.0
    top = max(float(eigh(M, eigvals_only=True, subset_by_index=(g.size - 1, g.size - 1))[0]), 0.0)
    size = float(np.linalg.norm(g))
    scale = size + float(np.abs(M).max()) + top
    pad = _PAD * scale
    mu = np.full(n, top + size / np.sqrt(n) + 1e-6 * scale)
    best, y, factor = _bound(g, M, spread, mu, pad)
    for _ in range(_STEPS):
        parts = spread * y[:, None] * mu
        slope = 0.5 * mu - 0.5 * (parts**2).sum(0) / mu
        bend = parts.T @ cho_solve(factor, parts) + np.diag(np.abs(slope) + 1e-12 * scale)
        step = np.clip(-np.linalg.solve(bend, slope), -2.0, 2.0)
        length, found = 1.0, None
        while length > 1e-6 and found is None:
            tried = mu * np.exp(length * step)
            made = _bound(g, M, spread, tried, pad)
            if made[0] < best:
                found, mu = made, tried
            length *= 0.5
        if found is None:
            break
        gained, (best, y, factor) = best - found[0], found
        if gained < 1e-9 * abs(best):
            break
    return best + pad
