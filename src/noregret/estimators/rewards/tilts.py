"""How much a reward in [0, 1] can say under an exponential tilt: the bounds behind `estimators.rewards.mixture`.

chi(mu, u) = ln(1 - mu + mu e^u) - mu u is the largest log-mean of e^{u (r - mu)} over rewards in [0, 1] of mean mu.
"""

import math

from ...compiler.jit import formula, inlined
from ...theory.widths import upper_curvature
from .regression import quadratic_form


@formula
def cumulant(mu: float, u: float) -> float:
    """chi(mu, u) = ln(1 - mu + mu e^u) - mu u: of a centred Bernoulli(mu) variable. Concave in mu, convex in u."""
    if u > 0.0:  # (1 - mu)-form: no exponential of a large number
        return math.log1p((1.0 - mu) * math.expm1(-u)) + (1.0 - mu) * u
    return math.log1p(mu * math.expm1(u)) - mu * u


@formula
def variance_proxy(low: float, high: float, r: float) -> float:
    """sup of 2 chi(mu, u)/u^2 over low <= mu <= high, |u| <= r; at most 1/4.

    Attained at the mean m nearest 1/2 (by symmetry m <= 1/2), at u = min(r, 2 ln((1 - m)/m)): there the quotient is
    largest in u over all of R, (1 - 2m)/(2 ln((1 - m)/m)) (Kearns and Saul 1998), and below it it increases in u."""
    m = high if high < 0.5 else (1.0 - low if low > 0.5 else 0.5)
    if m >= 0.499:
        return 0.25
    if not m > 0.0:
        return 0.0
    r = min(r, 2.0 * math.log((1.0 - m) / m))
    if r < 1e-3:
        return min(0.25, 2.0 * upper_curvature(r) * m * (1.0 - m))
    return min(0.25, 2.0 * cumulant(m, r) / (r * r) * (1.0 + 1e-9))


@formula
def tilted_variance(low: float, high: float, r: float) -> float:
    """sup of the second derivative of chi in u, p (1 - p) with p = mu e^u/(1 - mu + mu e^u), over the same set."""
    m = high if high < 0.5 else (1.0 - low if low > 0.5 else 0.5)
    shrunk = m / (m + (1.0 - m) * math.exp(-r))  # m <= 1/2, tilted towards 1/2
    return shrunk * (1.0 - shrunk) * (1.0 + 1e-9) if shrunk < 0.5 else 0.25


@formula
def multiplier(xx: float, xy: float, yy: float, slack: float, rho: float) -> float:
    """The t >= 0 that makes t slack + rho sqrt(xx + 2 t xy + t^2 yy) least: the price of the constraint that y'theta
    is at most `slack` below its estimate. Any t >= 0 gives a valid bound."""
    if not yy > 0.0:
        return 0.0
    k = (slack / rho) ** 2
    if not k < yy:
        return 0.0
    t = math.sqrt(k * max(xx - xy * xy / yy, 0.0) / (yy * (yy - k)))
    return max((-t if slack > 0.0 else t) - xy / yy, 0.0)


@inlined
def sample_bounds(Q, reach, x, low, high, scratch):
    """nu_i and w_i of a sample at x whose mean is in [low, high]; Q [d, d] >= every covariance that will be used."""
    l2 = max(quadratic_form(Q, x, scratch), 0.0)
    r = reach * math.sqrt(l2)
    spread = 2.0 * math.expm1(0.5 * l2) / l2 if l2 > 1e-12 else 1.0 + 1e-12
    return variance_proxy(low, high, r), min(0.25, tilted_variance(low, high, r) * spread)
