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


def group_norm(inside: Floats, groups: Groups) -> Floats:
    """The largest value of a linear form over the set, [...] from [..., m]."""
    made: Floats = np.zeros(inside.shape[:-1])
    for first, last in groups:
        made = made + np.sqrt((inside[..., first:last] ** 2).sum(-1))
    return made


def absolute(A: Floats, least: float = -1.0) -> Floats:
    """|A| of symmetric matrices [..., m, m]; least=0: their positive part, eigenvalues below 0 being 0."""
    values, vectors = np.linalg.eigh(A)
    made: Floats = (vectors * np.maximum(values, least * values)[..., None, :]) @ vectors.swapaxes(-1, -2)
    return made


def steepest_form(X: Floats, groups: Groups) -> Floats:
    """The form [..., m, m] on the right above, of symmetric X_j, [..., m (j), m, m]."""
    made: Floats = np.zeros(X.shape[:-3] + X.shape[-2:])
    for first, last in groups:
        own = X[..., first:last, :, :]
        values, vectors = np.linalg.eigh((own @ own).sum(-3))
        made = made + (vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ vectors.swapaxes(-1, -2)
    return made


def smallest(*forms: Floats) -> Floats:
    """Of forms [..., m, m] the one with the least trace, at each place."""
    best = forms[0]
    for other in forms[1:]:
        less = np.einsum("...ii->...", other) < np.einsum("...ii->...", best)
        best = np.where(less[..., None, None], other, best)
    return best
