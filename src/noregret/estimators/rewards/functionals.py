"""What a set of mean rewards says about any linear functional of a block's weights, not about pairs' features alone.

Theorem 3 of docs/beyond.md is about all vectors at once. So differences of mean rewards may be asked for, or means of
them, on the event on which the ranges hold. In NumPy: a few of these are asked per certificate.
"""

import math
from typing import Any

import numpy as np

from ...checks import Floats
from ...theory.widths import ridge_radius
from .regression import BERNSTEIN, HOEFFDING, RIDGE

LINEAR = (RIDGE, HOEFFDING, BERNSTEIN)  # forms that say something about every vector


def factor(beta: float, reach: float) -> float:
    """As `mixture.factor_of`: the least of beta/c + c/2 over c <= reach."""
    rho = math.sqrt(2.0 * beta)
    return rho if rho <= reach else beta / reach + 0.5 * reach


def functional(par: Any, state: Any, b: int, vectors: Floats) -> tuple[Floats, Floats]:
    """(estimates [...], half widths [...]) of theta_b'u for vectors u [..., E], all at once. Estimates are linear in u.

    Of a mixture: h = (G + lambda I)^{-1} u, |h'(sum x_i r_i - G theta)| <= rho_k ||h||_{J + lambda_k I} for every
    component k, and (u - G h)'theta is at most B_r ||u - G h||."""
    at = b, 0
    h = vectors @ state.inverse[at]
    if par.form == RIDGE:
        rho = ridge_radius(float(state.logdet[at]), par.bound, par.regularization, par.log)
        return vectors @ state.theta[at], rho * np.sqrt(np.maximum((h * vectors).sum(-1), 0.0)) * (1.0 + 1e-9)
    rest = vectors - h @ (state.gram[at] - par.regularization * np.eye(vectors.shape[-1]))
    form, hh = ((h @ state.mixture.sums[at][0]) * h).sum(-1), (h * h).sum(-1)
    best = mixture_widths(par, state, at, np.maximum(form, 0.0), hh)
    half = (best + par.bound * np.sqrt((rest * rest).sum(-1))) * (1.0 + 1e-9) + 1e-7
    return h @ state.moment[at], half


def mixture_widths(par: Any, state: Any, at: tuple[int, int], form: Floats, hh: Floats) -> Floats:
    """`mixture.mixture_width` for many forms at once: the best component, then the best weights pi for its tilt."""
    of, lambdas, prior, reach = state.mixture, par.mixture.lambdas, par.mixture.prior, float(state.mixture.reach[at])
    head, trace = of.head[at], of.trace[at]
    beta = np.maximum(par.log + head + 0.5 * lambdas * trace + prior, 0.0)
    each = np.array([factor(float(b), reach) for b in beta]) * np.sqrt(form[..., None] + lambdas * hh[..., None])
    k = each.argmin(-1)
    scale = form + lambdas[k] * hh
    tilt = np.minimum(2.0 * beta[k], reach**2) / np.maximum(scale, 1e-300) * hh  # c^2 ||h||^2
    logs = -prior - 0.5 * lambdas * (tilt + trace[k])[..., None]
    top = logs.max(-1)
    weights = np.exp(logs - top[..., None])
    total = weights.sum(-1)
    mean = weights @ lambdas / total
    cost = np.maximum(par.log + head[k] - top - np.log(total) - 0.5 * tilt * mean, 0.0)
    rho = np.sqrt(2.0 * cost)
    rho = np.where(rho <= reach, rho, cost / reach + 0.5 * reach)
    return np.where(scale > 0.0, np.minimum(each.min(-1), rho * np.sqrt(form + mean * hh)), 0.0)


def lifted(par: Any, b: int, x: Floats) -> Floats:
    """[S, A, E]: u = X psi of every pair at x, as if it were in block b; 0 where it is not (`shared.lift`)."""
    S, A, Q = par.features.shape
    made = np.zeros((S, A, par.column.shape[1]))
    for i in range(Q):
        at = slice(int(par.begin[b, i]), int(par.begin[b, i + 1]))
        made[:, :, at] = par.features[:, :, i, None] * x[par.column[b, at]]
    made[par.block != b] = 0.0
    return made
