"""Sums of Kronecker products with the outer products of contexts: quadratic forms in weights [m, d]."""

from ..checks import Floats


def summed_products(forms: Floats, X: Floats, weights: Floats | None = None) -> Floats:
    """sum_i w_i forms_i (x) x_i x_i', [m d, m d], of forms [n, m, m] and contexts [n, d]."""
    (n, m, _), d = forms.shape, X.shape[1]
    squares = X[:, :, None] * X[:, None, :]
    if weights is not None:
        squares *= weights[:, None, None]
    made = forms.reshape(n, m * m).T @ squares.reshape(n, d * d)
    return made.reshape(m, m, d, d).transpose(0, 2, 1, 3).reshape(m * d, m * d)
