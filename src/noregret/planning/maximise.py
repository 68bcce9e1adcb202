"""The largest mean over an ellipsoid of logits, certified.

    max { <softmax(z + v), V> :  v = rho cov^{1/2} u, ||u||_2 <= 1 }

is what an optimistic value of one pair needs, and with -V what a pessimistic one needs. The mean is not concave in v;
`largest_mean` climbs to a stationary point, proves from it a bound on the global maximum, and where that proof does
not apply takes the least of closed forms and of what parts of a simplex prove (`planning.simplices`). The result is an
upper bound in every case. Derivations: docs/beyond.md.

For any number t the mean at v exceeds t exactly where G(v) = L_+(v) - L_-(v) > 0, with

    L_+(v) = ln sum_{V_k > t} (V_k - t) e^{z_k + v_k},     L_-(v) = ln sum_{V_k < t} (t - V_k) e^{z_k + v_k}

both convex. theta and q are their gradients at the point reached: distributions on the outcomes above and below t.
"""

import math
from typing import NamedTuple

import numpy as np

from .. import checks as check
from ..checks import Floats
from ..compiler.jit import kernel, strict
from ..problem.links import exp
from ..theory.widths import upper_curvature
from .simplices import Ascent, Question, SimplexWork, advance, ascent, bound_by_simplices, norm, retreat, simplex_work

STRETCH, TURNS = 1.02, 20  # of `_stretched`: c <= 1/STRETCH, and its steps
STEPS = 60  # of the ascent, at most
TOLERANCE = 1e-9  # of the bound, relative to its distance from the mean at the centre
STRETCHED, ETA, CURVATURE, KAPPA = 0, 1, 2, 3  # what `_prove` finds


class Stops(NamedTuple):
    """Where a maximisation may stop."""

    limit: float  # a bound that the caller has
    floor: float  # a bound at or below this is as good as any other
    enough: float  # where the maximum is this or more, any bound is as good


class MaximisationWork(NamedTuple):
    """Scratch of one thread, for at most M outcomes. It remembers nothing between calls."""

    z: Floats  # [M], z - max z
    C: Floats  # [M, M], cov as seen from outcome 0: zero row and column there
    root: Floats  # [M], square roots of its diagonal
    p: Floats  # [M], softmax(z + v)
    found: Floats  # [4]
    at: Ascent  # the point v
    simplices: SimplexWork


def maximisation_work(outcomes: int) -> MaximisationWork:
    """Scratch for up to `outcomes` outcomes."""
    m, f = check.integer("outcomes", outcomes), np.zeros
    return MaximisationWork(f(m), f((m, m)), f(m), f(m), f(4), ascent(m), simplex_work(m))


@kernel
def largest_mean(z, V, cov, rho, n, limit, work):
    """`largest_within` that stops nowhere."""
    return largest_within(z, V, cov, rho, n, Stops(limit, -math.inf, math.inf), work)


@kernel
def largest_within(z, V, cov, rho, n, stops, work):
    """An upper bound, at most `stops.limit`, on max { <softmax(z + v), V> : ||v||_{cov^{-1}} <= rho }.

    z, V [n or longer], cov [n or longer, as long] symmetric and positive semidefinite on differences (a common shift
    of v changes nothing, so a component along the vector of ones is ignored). limit: a bound the caller has, or inf.
    Lower bound of the minimum: -largest_mean(z, -V, ...). Any bound at or below stops.floor will do as well as the
    best, and so will any where the maximum is stops.enough or more; all else is what it would be without.

    Within 1e-9 of the maximum, relative to its gain over rho = 0, where the certificate of `_prove` holds; otherwise
    what the parts prove in the time they have. Slack for rounding: 1e-13 (max V - min V) + 1e-15 max |V|. O(n^2) a
    step, about ten steps; one thread at a time on a `work`."""
    limit, low, high, top = stops.limit, V[0], V[0], z[0]
    for k in range(1, n):
        low, high, top = min(low, V[k]), max(high, V[k]), max(top, z[k])
    slack = 1e-13 * (high - low) + 1e-15 * max(abs(low), abs(high))
    if not high - low > slack:
        return min(high, limit)
    widest, depth = 0.0, 0.0
    for j in range(n):
        work.z[j] = z[j] - top
        depth = max(depth, top - z[j])
        work.at.y[j], work.at.v[j] = 0.0, 0.0
        for k in range(n):
            work.C[j, k] = _difference(cov[j, k], cov[j, 0], cov[0, k], cov[0, 0])
        work.root[j] = math.sqrt(max(work.C[j, j], 0.0))
        widest = max(widest, work.root[j])
    reach = 2.0 * rho * widest  # no less than max v - min v
    noise = 1e-15 * (n + 4) * (1.0 + reach + depth)
    asked = Question(V, n, rho, low, high, noise)
    start = _weigh(asked, work)
    if not reach > 1e-12:
        return min(start + slack + 0.25 * max(reach, 0.0) * (high - low), high, limit)
    if not reach < 1e9:
        return min(high, limit)
    value, t, length, fresh, raised, f = start, start + slack, 1.0, True, False, work.found
    for _ in range(STEPS):
        if not fresh and not raised:
            mean = _weigh(asked, work)
            if mean < value - slack and length > 1e-3:
                length *= 0.25
                retreat(length, n, work.at)
                continue
            value = mean
            t = value + slack
            if t >= limit or high - t <= TOLERANCE * (value - start) or value >= stops.enough:
                return min(high, limit)
        _prove(asked, t, 0.0, work)
        eta = f[ETA] + noise
        if f[CURVATURE] <= 1.0:
            if eta <= 0.0:
                return min(t, high, limit)
            if not raised and f[KAPPA] * eta <= TOLERANCE * (value - start) + slack:
                t += 2.0 * f[KAPPA] * eta  # G <= eta here; a slightly larger t takes that off
                if t >= min(high, limit):
                    return min(high, limit)
                raised = True
                continue
        elif eta <= 1e-6:
            break
        raised = False
        length = advance(rho, f[STRETCHED], fresh, n, work.at)
        fresh = False
    limit = _stretched(asked, value + slack, min(limit, high), work)
    limit = min(limit, _closed_form(asked, start, work) + slack)
    return bound_by_simplices(asked, start, value + slack, limit, stops.floor, work)


@strict
def _difference(a, b, c, d):
    """In this order the differences of nearly equal numbers are exact: a large common part of cov costs nothing."""
    return (a - b) - (c - d)


@kernel
def _stretched(asked, t, limit, work):
    """A bound from `_prove` with s stretched until c < 1: t and v move to where its eta vanishes."""
    f, n, rho, low, high = work.found, asked.n, asked.rho, asked.low, asked.high
    fresh = True
    for _ in range(TURNS):
        _weigh(asked, work)
        _prove(asked, t, STRETCH, work)
        eta = f[ETA] + asked.noise
        if eta <= 0.0:
            limit = min(limit, t)
            if f[KAPPA] * eta > -1e-3 * (limit - low):
                break
        else:
            bound = t - math.expm1(-eta) * (high - t)
            limit = bound if bound < limit else limit
        t = min(max(t + 1.02 * f[KAPPA] * eta, low + 1e-9 * (high - low)), high - 1e-9 * (high - low))
        advance(rho, f[STRETCHED], fresh, n, work.at)
        fresh = False
    return limit


@kernel
def _weigh(asked, work):
    """p <- softmax(z + v); returns <p, V>."""
    V, n, low = asked.V, asked.n, asked.low
    top = work.z[0] + work.at.v[0]
    for k in range(1, n):
        top = max(top, work.z[k] + work.at.v[k])
    total, mean = 0.0, 0.0
    for k in range(n):
        work.p[k] = exp(work.z[k] + work.at.v[k] - top)
        total += work.p[k]
    total = 1.0 / total
    for k in range(n):
        work.p[k] *= total
        mean += work.p[k] * (V[k] - low)
    return low + mean


@kernel
def _prove(asked, t, stretch, work):
    """What the point v proves for t, with p = softmax(z + v): found <- S >= s = ||theta - q||_C, eta, c, kappa.
    If c <= 1 then G <= eta on the whole ellipsoid:

        c   = rho sigma^2/(2 phi S),   sigma^2 = max_{j, k above} ||e_j - e_k||_C^2
        eta = G(v) + rho (s^2/S + S)/2 - <theta - q, v> + min( max_above e - <theta, e>, span_above(e)^2/(4 phi (1-c)) )
        e   = rho C(theta - q)/S - v

    phi = ln((1 - x)/x)/(1 - 2x), x = 1 - max theta, or 2 where x is near 1/2 or above (phi >= 2 always). v need not be
    stationary, nor t its mean. stretch 0: S = s, and at a stationary point of mean t, e = 0 and eta = 0. stretch >= 1:
    S is large enough that c <= 1/stretch. kappa = -1/(dG/dt), at the mean of v sum p (V - t)_+."""
    V, n, rho = asked.V, asked.n, asked.rho
    above, below, up = 0.0, 0.0, 0.0
    for k in range(n):
        x = work.p[k] * (V[k] - t)
        work.at.w[k] = x
        above += max(x, 0.0)
        below -= min(x, 0.0)
        up += work.p[k] if x > 0.0 else 0.0
    kappa = 1.0 / (up / max(above, 1e-300) + (1.0 - up) / max(below, 1e-300))
    if above > 1e-200 and below > 1e-200:
        G = math.log(above / below)
    else:
        above, below, G = _from_logarithms(asked, t, work)
    a, b, largest = 1.0 / above, 1.0 / below, 0.0
    for k in range(n):
        if V[k] > t:
            work.at.w[k] *= a
            largest = max(largest, work.at.w[k])
        else:
            work.at.w[k] *= b
    sigma2, widest, size, along = 0.0, 0.0, 0.0, 0.0
    for j in range(n):
        x = 0.0
        for k in range(n):
            x += work.C[j, k] * work.at.w[k]
        work.at.Cw[j] = x
        size += abs(work.at.w[j]) * work.root[j]
        along += work.at.w[j] * work.at.v[j]
        if V[j] > t:
            widest = max(widest, work.root[j])
            for k in range(j):
                if V[k] > t:
                    sigma2 = max(sigma2, work.C[j, j] + work.C[k, k] - 2.0 * work.C[j, k])
    s = norm(work.at.w, work.at.Cw, work.root, n)
    x, phi = 1.0 - largest + 1e-15, 2.0
    if x < 0.49 and sigma2 * rho > 4.0 * s:
        phi = math.log((1.0 - x) / x) / (1.0 - 2.0 * x)
    S = max(s, 0.5 * stretch * rho * sigma2 / phi)
    c, scale = 0.5 * rho * sigma2 / (phi * S), rho / S
    most, least, mean = -math.inf, math.inf, 0.0
    for k in range(n):
        if V[k] > t:
            e = scale * work.at.Cw[k] - work.at.v[k]
            most, least = max(most, e), min(least, e)
            mean += work.at.w[k] * e
    moved = most - mean
    if c < 1.0:
        moved = min(moved, (most - least) * (most - least) / (4.0 * phi * (1.0 - c)))
    rounding = 3e-16 * (n + 3) * scale * size * widest  # of e
    f = work.found
    f[STRETCHED], f[CURVATURE], f[KAPPA] = S, c, kappa
    f[ETA] = G + 0.5 * rho * (s * s / S + S) - along + moved + rounding


@kernel
def _from_logarithms(asked, t, work):
    """`_prove` where one side has lost its probabilities to underflow: each side relative to its own largest logit."""
    V, n = asked.V, asked.n
    up, down = -math.inf, -math.inf
    for k in range(n):
        x = work.z[k] + work.at.v[k]
        if V[k] > t:
            up = max(up, x)
        elif V[k] < t:
            down = max(down, x)
    above, below = 0.0, 0.0
    for k in range(n):
        x = work.z[k] + work.at.v[k]
        work.at.w[k] = 0.0
        if V[k] > t:
            work.at.w[k] = exp(x - up) * (V[k] - t)
            above += work.at.w[k]
        elif V[k] < t:
            work.at.w[k] = exp(x - down) * (V[k] - t)
            below -= work.at.w[k]
    return above, below, up - down + math.log(above / below)


@kernel
def _closed_form(asked, start, work):
    """The least of two bounds from the reach r = rho max_jk ||e_j - e_k||_C, p = softmax(z):

        <p, V> + rho ||p (V - <p, V>)||_C + span(V) psi(r) min(rho^2 sum_{j<k} p_j p_k ||e_j - e_k||_C^2, r^2/4)
        <p, V> + span(V) tanh(r/4)

    (`theory.widths.upper_curvature`; the sum is the trace of the matrix whose largest eigenvalue would do)."""
    V, n, rho, spread = asked.V, asked.n, asked.rho, asked.high - asked.low
    total, sigma2, trace = 0.0, 0.0, 0.0
    for k in range(n):
        work.p[k] = exp(work.z[k])
        total += work.p[k]
    for j in range(n):
        work.p[j] /= total
        work.at.w[j] = work.p[j] * (V[j] - start)
        for k in range(j):
            d = max(work.C[j, j] + work.C[k, k] - 2.0 * work.C[j, k], 0.0)
            sigma2 = max(sigma2, d)
            trace += work.p[j] * work.p[k] * d
    for j in range(n):
        x = 0.0
        for k in range(n):
            x += work.C[j, k] * work.at.w[k]
        work.at.Cw[j] = x
    r = rho * math.sqrt(sigma2)
    bound = start + spread * math.tanh(0.25 * r)
    if r < 30.0:
        second = upper_curvature(r) * min(rho * rho * trace, 0.25 * r * r)
        bound = min(bound, start + rho * norm(work.at.w, work.at.Cw, work.root, n) + spread * second)
    return bound
