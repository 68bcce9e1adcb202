"""Bounds on the largest mean over an ellipsoid of logits by parts of a simplex: `planning.maximise` where its
certificate does not apply.

With G = L_+ - L_- of `planning.maximise` and the variational form of L_+ on the simplex of distributions theta on
{k : V_k > t}, the largest G over the ellipsoid is

    max_theta  <theta, a> + H(theta) + K(theta),     a_k = z_k + ln(V_k - t),   K(theta) = max_v <theta, v> - L_-(v)

H is the entropy, concave; K is convex. The tangent of L_- at any point u, with slope q, bounds K from above:

    K(theta) <= rho ||theta - q||_cov + <q, u> - L_-(u)

On a part, the hull of points w_i, K is at most the interpolation of its values K_i there; and H(theta) is at most
-<theta, ln theta0> for every distribution theta0. So no theta in the part gives more than

    max_i  <w_i, a - ln theta0> + K_i

Parts are halved, the one with the largest bound first.
"""

import math
from typing import NamedTuple

import numpy as np

from ..checks import Floats
from ..compiler.jit import inlined, kernel
from ..problem.links import exp

PARTS = 24  # at most, for one t; fewer with more than three outcomes above t
TRIALS = 6  # values of t
ACCURACY = 0.01  # of the bound, relative to its distance from the mean at the centre, plus 1e-9 of the span of V
TANGENTS = 8  # points u tried for one K_i
MIXES = 6  # theta0 tried for one part


class Question(NamedTuple):
    """The largest mean of what, over which ellipsoid."""

    V: Floats  # [n or longer]
    n: int
    rho: float
    low: float  # min V
    high: float  # max V
    noise: float  # what rounding may do to a bound on G


class Ascent(NamedTuple):
    """A point of the ellipsoid that climbs, and scratch for it."""

    y: Floats  # [M], the point: v = C y
    v: Floats  # [M]
    w: Floats  # [M], theta - q
    Cw: Floats  # [M]
    old: Floats  # [4, M], for `advance`


def ascent(m: int) -> Ascent:
    f = np.zeros
    return Ascent(f(m), f(m), f(m), f(m), f((4, m)))


class SimplexWork(NamedTuple):
    """Scratch for at most M outcomes; X = M + PARTS points."""

    side: Floats  # [M], the sign of V - t
    weight: Floats  # [M], z + ln |V - t|
    point: Floats  # [X, M], w_i, 0 on the outcomes below
    image: Floats  # [X, M], C w_i
    height: Floats  # [X], <w_i, a> + K_i
    corner: Floats  # [PARTS, M], the numbers of the points of a part
    mix: Floats  # [PARTS, M], theta0 as a mixture of them
    top: Floats  # [PARTS], the bound
    at: Ascent  # for K


def simplex_work(m: int) -> SimplexWork:
    f, X = np.zeros, m + PARTS
    parts = f((PARTS, m)), f((PARTS, m)), f(PARTS)
    return SimplexWork(f(m), f(m), f((X, m)), f((X, m)), f(X), *parts, ascent(m))


@kernel
def norm(w, Cw, root, n):
    """||w||_C, at least the true one: what rounding can do to the sum is added to it."""
    square, size = 0.0, 0.0
    for k in range(n):
        square += w[k] * Cw[k]
        size += abs(w[k]) * root[k]
    return max(math.sqrt(max(square, 0.0) + 3e-16 * (n + 3) * size * size), 1e-150)


@kernel
def advance(rho, s, first, n, at):
    """One step from v = C y towards rho C w / s, where the linearised problem is largest, of the length that the last
    step suggests (Barzilai and Borwein's, in the norm of C; 1 at first), back to the ellipsoid if it leaves it. Returns
    the length, for `retreat`."""
    y, v, w, Cw, old = at.y, at.v, at.w, at.Cw, at.old  # a reference cannot be unpacked
    scale, along, across = rho / s, 0.0, 0.0
    for k in range(n):
        r, Cr = scale * w[k] - y[k], scale * Cw[k] - v[k]
        if not first:
            change = r - old[2, k]
            along -= (v[k] - old[1, k]) * change
            across += (Cr - old[3, k]) * change
        old[0, k], old[1, k], old[2, k], old[3, k] = y[k], v[k], r, Cr
    length = 1.0
    if not first and across > 0.0 and along > 0.0:
        length = min(max(along / across, 0.02), 3.0)
    square = 0.0
    for k in range(n):
        y[k] += length * old[2, k]
        v[k] += length * old[3, k]
        square += y[k] * v[k]
    if square > rho * rho:
        shrink = rho / math.sqrt(square)
        for k in range(n):
            y[k] *= shrink
            v[k] *= shrink
    return min(length, 1.0)


@inlined
def retreat(length, n, at):
    """The same step from the same point with another length, at most 1."""
    for k in range(n):
        at.y[k] = at.old[0, k] + length * at.old[2, k]
        at.v[k] = at.old[1, k] + length * at.old[3, k]


@kernel
def bound_by_simplices(asked, start, reached, limit, floor, work):
    """A bound between `reached` (a mean that is attained) and `limit`, by trying values t between them.

    G <= eta everywhere on the ellipsoid means no mean above t if eta <= 0, else none above t + (1 - e^-eta)(high - t),
    high = max V, low = min V. start: the mean at the centre."""
    low, high = asked.low, asked.high
    lower, upper = reached, limit
    for trial in range(TRIALS):
        if upper <= floor or upper - lower <= ACCURACY * (upper - start) + 1e-9 * (high - low):
            break
        t = lower + (0.1 if trial == 0 else 0.5) * (upper - lower)
        eta = _largest(asked, t, work) + asked.noise
        if eta <= 0.0:
            upper = t
        else:
            bound = t - math.expm1(-eta) * (high - t)
            upper = bound if bound < upper else upper
            lower = t
    return upper


@kernel
def _largest(asked, t, work):
    """A bound on the largest G over the ellipsoid. Halves parts until it is negative, until some G is positive, or
    until there is no room for more."""
    c, n, noise = work.simplices, asked.n, asked.noise
    m = 0
    for k in range(n):
        d = asked.V[k] - t
        c.side[k] = 1.0 if d > 0.0 else (-1.0 if d < 0.0 else 0.0)
        c.weight[k] = work.z[k] + math.log(max(abs(d), 1e-300))
        if d > 0.0:
            for j in range(n):
                c.point[m, j], c.image[m, j] = 0.0, work.C[j, k]
            c.point[m, k] = 1.0
            c.corner[0, m] = m
            m += 1
    attained = -math.inf
    for i in range(m):
        attained = max(attained, _height(i, asked, work))
        c.mix[0, i] = 1.0 / m
    _bound(0, n, m, work)
    parts, points, room = 1, m, max(4, min(PARTS, 72 // m))
    while True:
        worst = 0
        for i in range(1, parts):
            if c.top[i] > c.top[worst]:
                worst = i
        if c.top[worst] <= -noise or attained > 0.0 or parts == room or m == 1:
            return c.top[worst]
        # Halve the edge whose interpolation costs most at theta0.
        a, b, most = 0, 1, -1.0
        for i in range(m):
            for j in range(i):
                p, q, d = int(c.corner[worst, i]), int(c.corner[worst, j]), 0.0
                for k in range(n):
                    d += (c.point[p, k] - c.point[q, k]) * (c.image[p, k] - c.image[q, k])
                d *= c.mix[worst, i] * c.mix[worst, j]
                if d > most:
                    a, b, most = j, i, d
        p, q = int(c.corner[worst, a]), int(c.corner[worst, b])
        for k in range(n):
            c.point[points, k] = 0.5 * (c.point[p, k] + c.point[q, k])
            c.image[points, k] = 0.5 * (c.image[p, k] + c.image[q, k])
        attained = max(attained, _height(points, asked, work))
        both = c.mix[worst, a] + c.mix[worst, b]
        shift = min(c.mix[worst, a], c.mix[worst, b])
        for i in range(m):
            c.corner[parts, i], c.mix[parts, i] = c.corner[worst, i], c.mix[worst, i]
        c.corner[worst, a], c.corner[parts, b] = points, points
        # theta0 again where it lies in the new part, else its nearest point on the edge
        if c.mix[worst, b] >= c.mix[worst, a]:
            c.mix[worst, a], c.mix[worst, b] = 2.0 * shift, both - 2.0 * shift
            c.mix[parts, a], c.mix[parts, b] = 0.0, both
        else:
            c.mix[parts, b], c.mix[parts, a] = 2.0 * shift, both - 2.0 * shift
            c.mix[worst, b], c.mix[worst, a] = 0.0, both
        _bound(worst, n, m, work)
        _bound(parts, n, m, work)
        parts += 1
        points += 1


@kernel
def _height(i, asked, work):
    """height[i] <- <w_i, a> + K_i with the best of a few tangents. Returns <w_i, a + u> + H(w_i) - L_-(u) at the
    best point u tried: some G is at least that."""
    c, at, n, rho = work.simplices, work.simplices.at, asked.n, asked.rho
    for k in range(n):
        at.y[k], at.v[k] = work.at.y[k], work.at.v[k]
    best, attained, length = math.inf, -math.inf, 1.0
    for step in range(TANGENTS):
        top = -math.inf
        for k in range(n):
            if c.side[k] < 0.0:
                top = max(top, c.weight[k] + at.v[k])
        total = 0.0
        for k in range(n):
            at.w[k] = exp(c.weight[k] + at.v[k] - top) if c.side[k] < 0.0 else 0.0
            total += at.w[k]
        L = top + math.log(total)
        here, there = 0.0, 0.0
        for k in range(n):
            q = at.w[k] / total
            at.w[k] = c.point[i, k] - q
            here += c.point[i, k] * at.v[k]
            there += q * at.v[k]
        for j in range(n):
            image = c.image[i, j]
            for k in range(n):
                image -= work.C[j, k] * (c.point[i, k] - at.w[k])
            at.Cw[j] = image
        s = norm(at.w, at.Cw, work.root, n)
        best = min(best, rho * s + there - L)
        if here - L < attained:
            length *= 0.25
            retreat(length, n, at)
            continue
        attained = here - L
        if best - attained <= 1e-3 * rho * s:
            break
        length = advance(rho, s, step == 0, n, at)
    line, entropy = 0.0, 0.0
    for k in range(n):
        p = c.point[i, k]
        if p > 0.0:
            line += p * c.weight[k]
            entropy -= p * math.log(p)
    c.height[i] = line + best
    return line + entropy + attained


@kernel
def _bound(part, n, m, work):
    """top[part] <- the bound of the part, with theta0 improved by a few of Arimoto's steps."""
    c = work.simplices
    c.top[part] = math.inf
    for _ in range(MIXES):
        total = 0.0
        for i in range(m):
            c.mix[part, i] = max(c.mix[part, i], 1e-12)
            total += c.mix[part, i]
        for k in range(n):
            theta = 0.0
            if c.side[k] > 0.0:
                for i in range(m):
                    theta += c.mix[part, i] * c.point[int(c.corner[part, i]), k]
                theta /= total
            # w is free here: the logarithm of theta0, 0 where no point has mass
            c.at.w[k] = math.log(theta) if theta > 0.0 else 0.0
        most, value = -math.inf, 0.0
        for i in range(m):
            p = int(c.corner[part, i])
            d = c.height[p]
            for k in range(n):
                d -= c.point[p, k] * c.at.w[k]
            c.at.Cw[i] = d
            most = max(most, d)
            value += c.mix[part, i] / total * d
        c.top[part] = min(c.top[part], most)
        if most <= 0.0 or value > 0.0 or most - value < 1e-4:
            break
        for i in range(m):
            c.mix[part, i] *= exp(c.at.Cw[i] - most) / total
