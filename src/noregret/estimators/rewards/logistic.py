"""Rewards 0 or 1 with mean sigma(theta'x): a likelihood-ratio set, kept online.

State: theta, precision L (starts at lambda I), rho2. With z = theta'x, p = sigma(z), m = ||x||^2_{L^{-1}},

    |theta*'x - z| <= r = min( sqrt(rho2 m), B_r ||x|| + |z| )
    L += 2 g(r) p (1 - p) x x';   theta -= (p - y) L^{-1} x;   rho2 += (p - y)^2 ||x||^2_{L^{-1}} - 2 ln(q(y)/p(y))

(the new L in both; g: `theory.widths.lower_curvature`), where q is any distribution fixed before y is seen: here the
mean of sigma under N(z, m) by three nodes. Then ||theta* - theta||_L^2 <= rho2 for all n together with probability
1 - delta: prod q_i(y_i)/p*_i(y_i) is a martingale, and on the event that it stays below 1/delta the true log-losses,
each above its own lower quadratic, sum to at most those of q plus ln(1/delta). Proof: docs/beyond.md. O(d^2).
Logarithms of probabilities are taken of the logits, never of a probability that may have rounded to 0.
"""

import math

from ...compiler.jit import formula, kernel
from ...numerics.linear_algebra import times
from ...theory.widths import lower_curvature


@formula
def log_sigma(z: float) -> float:
    """ln sigma(z)."""
    return -math.log1p(math.exp(-z)) if z > 0.0 else z - math.log1p(math.exp(z))


@formula
def stable_sigma(z: float) -> float:
    """1/(1 + e^-z), without overflow."""
    if z > 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    e = math.exp(z)
    return e / (1.0 + e)


@formula
def log_predicted(z: float, spread: float) -> float:
    """ln( 2/3 sigma(z) + 1/6 sigma(z + s) + 1/6 sigma(z - s) ), s = sqrt(3) spread: three Gauss-Hermite nodes."""
    s = math.sqrt(3.0) * spread
    a, b, c = math.log(2.0 / 3.0) + log_sigma(z), log_sigma(z + s) - math.log(6.0), log_sigma(z - s) - math.log(6.0)
    top = max(a, b)
    return top + math.log(math.exp(a - top) + math.exp(b - top) + math.exp(c - top))


@kernel
def logistic_learn(par, state, work, s, a, reward, x, norm):
    """One reward, 0 or 1. state.moment is theta, gram the precision, growth rho2."""
    d = x.shape[0]
    theta, precision, inverse, h = state.moment[s, a], state.gram[s, a], state.inverse[s, a, 0], work.h
    times(inverse, x, h)
    z, m = 0.0, 0.0
    for i in range(d):
        z += theta[i] * x[i]
        m += h[i] * x[i]
    m = max(m, 0.0)
    r = par.bound * norm + abs(z)
    if state.growth[s, a] >= 0.0:
        r = min(r, math.sqrt(state.growth[s, a] * m))
    sign = 1.0 if reward > 0.5 else -1.0
    p = stable_sigma(z)
    error = -sign * stable_sigma(-sign * z)  # p - y
    kappa = 2.0 * lower_curvature(r * (1.0 + 1e-12)) * p * stable_sigma(-z)
    shrink = 1.0 / (1.0 + kappa * m)
    for i in range(d):
        t, u = kappa * shrink * h[i], kappa * x[i]
        theta[i] -= error * shrink * h[i]
        for j in range(d):
            inverse[i, j] -= t * h[j]
            precision[i, j] += u * x[j]
    gain = log_predicted(sign * z, math.sqrt(m)) - log_sigma(sign * z)
    state.growth[s, a] += error * error * m * shrink - 2.0 * gain + 1e-12


@kernel
def logistic_range(par, state, work, s, a, x, norm, low, high):
    """low[0], high[0] <- [sigma(z - w), sigma(z + w)] within what |theta*'x| <= B_r ||x|| leaves; an empty set says
    nothing more. Known rewards: their mean."""
    times(state.inverse[s, a, 0], x, work.h)
    z, m, cap = 0.0, 0.0, par.bound * norm
    for i in range(x.shape[0]):
        z += state.moment[s, a, i] * x[i]
        m += work.h[i] * x[i]
    lo, hi = -cap, cap
    if par.form == 0:
        lo, hi = z, z
    elif state.growth[s, a] >= 0.0:
        w = math.sqrt(state.growth[s, a] * max(m, 0.0)) * (1.0 + 1e-9) + 1e-12
        if z - w <= cap and z + w >= -cap:
            lo, hi = max(lo, z - w), min(hi, z + w)
    low[0], high[0] = stable_sigma(lo), stable_sigma(hi)
