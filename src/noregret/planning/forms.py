"""Quadratic forms that bound linear, quadratic and cubic ones over a product of unit balls.

y in R^m has a part per group, each of norm at most 1. Matrices are symmetric; |A| is the absolute value, so that |y'Ay|
<= y'|A|y. For symmetric X_1 .. X_m and ||z|| <= 1, (sum_j z_j X_j)^2 <= sum_j X_j^2 in Loewner's order, as ||sum_j z_j
X_j y||^2 <= sum_j ||X_j y||^2, and the square root keeps the order:

    |sum_j z_j y'X_j y|  <=  y' ( sum over groups of (sum_{j in group} X_j^2)^{1/2} ) y          for z and y in the set

docs/joint.md, section 4.
"""

import numpy as np

from ..checks import Floats

Groups = tuple[tuple[int, int], ...]

_ROUNDING = 1e-14


def group_norm(inside: Floats, groups: Groups) -> Floats:
    """The largest value of a linear form over the set, [...] from [..., m]."""
    made: Floats = np.zeros(inside.shape[:-1])
    for first, last in groups:
        made = made + np.sqrt((inside[..., first:last] ** 2).sum(-1))
    return made


def _eigen(A: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues and vectors of symmetric matrices; nan where numbers have become too large: there is no form."""
    known = np.isfinite(A.sum((-1, -2)))[..., None]
    values, vectors = np.linalg.eigh(np.where(known[..., None], A, 0.0))
    return np.where(known, values, np.nan), vectors


def top_eigenvalue(A: Floats) -> Floats:
    """[...], of positive semidefinite matrices [..., m, m], rounded up; nan where numbers have become too large."""
    known = np.isfinite(A.sum((-1, -2)))
    found = np.linalg.eigvalsh(np.where(known[..., None, None], A, 0.0))[..., -1]
    return np.where(known, np.maximum(found, 0.0) * (1.0 + 1e-12), np.nan)


def spectral_norm(A: Floats) -> Floats:
    """[...], of matrices [..., k, m], rounded up; nan likewise."""
    known = np.isfinite(A.sum((-1, -2)))
    found = np.linalg.norm(np.where(known[..., None, None], A, 0.0), 2, axis=(-2, -1))
    return np.where(known, found * (1.0 + 1e-12), np.nan)


def absolute(A: Floats) -> Floats:
    """|A| of symmetric matrices [..., m, m]."""
    values, vectors = _eigen(A)
    made: Floats = (vectors * np.abs(values)[..., None, :]) @ vectors.swapaxes(-1, -2)
    return made


def steepest_form(X: Floats, groups: Groups) -> Floats:
    """The form [..., m, m] on the right above, of symmetric X_j, [..., m (j), m, m]. A little is added to the sum of
    squares: its small eigenvalues are rounded by 1e-16 of the largest, and their roots by 1e-8."""
    made: Floats = np.zeros(X.shape[:-3] + X.shape[-2:])
    for first, last in groups:
        own = X[..., first:last, :, :]
        values, vectors = _eigen((own @ own).sum(-3))
        values = np.maximum(values, 0.0) + _ROUNDING * values[..., -1:]
        made = made + (vectors * np.sqrt(values)[..., None, :]) @ vectors.swapaxes(-1, -2)
    return made


def smallest(*forms: Floats) -> Floats:
    """Of forms [..., m, m] the one with the least trace, at each place; nan is no form."""
    best = forms[0]
    for other in forms[1:]:
        old, new = np.einsum("...ii->...", best), np.einsum("...ii->...", other)
        less = (new < old) | (np.isnan(old) & ~np.isnan(new))
        best = np.where(less[..., None, None], other, best)
    return best
