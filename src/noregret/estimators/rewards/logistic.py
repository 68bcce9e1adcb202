"""Rewards 0 or 1 with mean sigma(theta'x), z = theta'x: two learners, both online in O(d^2), both around `advance`.

NEWTON     the online Newton step with one predictor, and Theorem A:
               V += kappa x x',   theta -= (sigma(z) - r) V^{-1} x,   kappa = (2 - s) alpha
           alpha = `theory.constants.logistic_alpha` at M = B_r ||x||. Before it is used at x, theta is moved, in the
           V-norm, to the nearest one with |theta'x| <= M. state.radius: the squared radius without its ln(1/delta)
           term. An estimate with an interval, `theory.widths.logistic_interval`
LOGISTIC   a likelihood-ratio set. With p = sigma(z), m = ||x||^2_{V^{-1}} and rho2 = state.radius,
               |theta*'x - z| <= r = min( sqrt(rho2 m), B_r ||x|| + |z| )
               V += 2 g(r) p (1 - p) x x';   theta -= (p - y) V^{-1} x;
               rho2 += (p - y)^2 ||x||^2_{V^{-1}} - 2 ln(q(y)/p(y))
           (the new V in both; g: `theory.widths.lower_curvature`), where q is any distribution fixed before y is seen:
           here the mean of sigma under N(z, m) by three nodes. Then ||theta* - theta||_V^2 <= rho2 for all n together
           with probability 1 - delta: prod q_i(y_i)/p*_i(y_i) is a martingale, and on the event that it stays below
           1/delta the true log-losses, each above its own lower quadratic, sum to at most those of q plus ln(1/delta).
           Proof: docs/beyond.md. A range

Logarithms of probabilities are taken of the logits, never of a probability that may have rounded to 0.
"""

import math

from ...compiler.jit import formula, kernel
from ...numerics.linear_algebra import norm_of
from ...theory.constants import logistic_alpha
from ...theory.widths import logistic_interval, lower_curvature, sigma
from ..newton.online_newton import SLACK
from .regression import Step, advance, look, times_scale

CARRIED = 1e-12  # by rho2 of LOGISTIC for every reward, against rounding


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


def default_regularization(context_dim: int, kappa: float, reward_bound: float) -> float:
    """lambda = d / (kappa B_r^2): the prior's share of a squared radius, lambda B_r^2, is then d/kappa. Under NEWTON
    that is the slope of the bound (d/kappa) ln(1 + ...) on the sum of squared gradients, which are at most 1. LOGISTIC
    takes kappa = 1. Any positive value is valid."""
    return context_dim / (kappa * reward_bound**2)


@kernel
def newton_step(par, state, work, s, a, reward, x):
    """One observed reward, 0 or 1, of pair (s, a)."""
    bound = par.bound * norm_of(x)
    z, q = look(state, work, s, a, x)
    v = min(max(z, -bound), bound)
    if v != z and q > 0.0:
        state.radius[s, a] -= (v - z) * (v - z) / q
        for b in range(x.shape[0]):
            state.theta[s, a, b] += (v - z) / q * work.h[b]
    error = sigma(v) - reward
    kappa = (2.0 - SLACK) * logistic_alpha(bound)
    state.radius[s, a] += error * error * q / (1.0 + kappa * q)
    advance(par, state, work, s, a, x, Step(q, kappa, error))


@kernel
def estimate_newton(par, state, work, x, log, mean, interval, bonus):
    """sigma at the possible prediction nearest theta'x, and the interval around it."""
    bound = par.bound * norm_of(x)
    for s in range(mean.shape[0]):
        for a in range(mean.shape[1]):
            z, q = look(state, work, s, a, x)
            v = min(max(z, -bound), bound)
            w2 = (state.radius[s, a] + par.log_weight * log) * q - (v - z) * (v - z)
            mean[s, a] = sigma(v)  # below, w2 < 0: an empty set says nothing
            w = math.sqrt(w2) if w2 >= 0.0 else math.inf
            interval[s, a] = min(1.0, logistic_interval(w, v, bound))
            bonus[s, a] = min(1.0, logistic_interval(times_scale(par.scale, w), v, bound))


@kernel
def logistic_step(par, state, work, s, a, reward, x):
    """One observed reward, 0 or 1, of pair (s, a)."""
    z, m = look(state, work, s, a, x)
    m = max(m, 0.0)
    r = par.bound * norm_of(x) + abs(z)
    if state.radius[s, a] >= 0.0:
        r = min(r, math.sqrt(state.radius[s, a] * m))
    sign = 1.0 if reward > 0.5 else -1.0
    error = -sign * stable_sigma(-sign * z)  # p - y
    kappa = 2.0 * lower_curvature(r * (1.0 + 1e-12)) * stable_sigma(z) * stable_sigma(-z)
    gain = log_predicted(sign * z, math.sqrt(m)) - log_sigma(sign * z)
    state.radius[s, a] += error * error * m / (1.0 + kappa * m) - 2.0 * gain + CARRIED
    advance(par, state, work, s, a, x, Step(m, kappa, error))


@kernel
def ranges_logistic(par, state, work, x, low, high):
    """[sigma(z - w), sigma(z + w)] within what |theta*'x| <= B_r ||x|| leaves; an empty set says nothing more."""
    cap = par.bound * norm_of(x)
    for s in range(low.shape[0]):
        for a in range(low.shape[1]):
            z, m = look(state, work, s, a, x)
            lo, hi = -cap, cap
            if state.radius[s, a] >= 0.0:
                w = math.sqrt(state.radius[s, a] * max(m, 0.0)) * (1.0 + 1e-9) + 1e-12
                if z - w <= cap and z + w >= -cap:
                    lo, hi = max(lo, z - w), min(hi, z + w)
            low[s, a], high[s, a] = stable_sigma(lo), stable_sigma(hi)
