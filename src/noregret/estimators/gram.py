"""What estimators with a Gram matrix Z = lambda I + sum kappa x x' for each pair share.

par has `refresh`, a slot of `numerics.linear_algebra.refresh_inverse`, and `regularization`, lambda; state has `gram`
and `inverse` [S, A, d, d], `logdet` (ln det Z/lambda^d) and `samples` [S, A].
"""

import math

import numpy as np

from .. import checks as check
from ..checks import Floats
from ..compiler.jit import inlined
from ..numerics.linear_algebra import OFTEN, apply_refresh, refresh_due


def stable(given: float | None, recommended: float, least: float) -> float:
    """lambda: the one given, or the recommended one, which counts as `least` if it is less; the arithmetic needs that
    much (`numerics.linear_algebra.least_regularization`)."""
    lam = check.positive("regularization", max(recommended, least) if given is None else given)
    if lam < least:
        raise ValueError(f"regularization must be at least {least:.3g} for stable arithmetic, got {lam:g}")
    return lam


def first_grams(lam: float, pairs: tuple[int, ...], d: int) -> tuple[Floats, Floats]:
    """(Z, Z^{-1}) of every pair before any data, [*pairs, d, d]."""
    return tuple(np.tile(v * np.eye(d), (*pairs, 1, 1)) for v in (lam, 1.0 / lam))  # type: ignore[return-value]


@inlined
def count_and_refresh(par, state, s, a, factor, column):
    """Count a sample of pair (s, a), which is in Z already (`rank_one`), and invert Z directly if that is due; whether
    it was. factor [d, d], column [d]: scratch."""
    state.samples[s, a] += 1
    n, due = state.samples[s, a], False
    if n % OFTEN == 0 and refresh_due(state.gram[s, a], state.inverse[s, a], n, 1):
        gram, due = state.gram[s, a], True
        start = gram.shape[0] * math.log(par.regularization)
        apply_refresh(par.refresh, (gram, state.inverse[s, a], state.logdet[s, a : a + 1], start, factor, column))
    return due
