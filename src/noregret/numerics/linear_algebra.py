"""Small dense kernels shared by the estimators: Cholesky factor, inverse, quadratic forms, projection on a ball.

All in place, without allocation; d is small (up to about a hundred), so plain loops beat library calls.
"""

import math
from typing import Any

import numpy as np

from ..compiler.jit import inlined, kernel, merged
from ..compiler.slots import slot

REFRESH = 1000  # steps between direct inversions of a Gram matrix that rank-one updates keep, at most
OFTEN = 8  # at least; a divisor of REFRESH
LOST = 5e-7  # relative error of a quadratic form that updates may add up to before the next one, roughly
ROUNDING = 2.0**-53
LEAST_REGULARIZATION, LEAST_IN_ONE_DIMENSION = 1e-3, 1e-6  # of lambda / (kappa R^2), in several dimensions and in one


@kernel
def cholesky(matrix, shift, factor):
    """factor [d, d] <- lower triangle L with L L' = matrix + shift I (the upper triangle is left alone)."""
    d = matrix.shape[0]
    for i in range(d):
        for j in range(i + 1):
            v = matrix[i, j]
            if i == j:
                v += shift
            for k in range(j):
                v -= factor[i, k] * factor[j, k]
            if i == j:
                if not v > 0.0:
                    raise ValueError(
                        "a Gram matrix is no longer positive definite: a context or a bound is out of range"
                    )
                factor[i, i] = math.sqrt(v)
            else:
                factor[i, j] = v / factor[j, j]


@kernel
def solve_factored(factor, v):
    """v [d] <- (L L')^{-1} v."""
    d = v.shape[0]
    for i in range(d):
        t = v[i]
        for k in range(i):
            t -= factor[i, k] * v[k]
        v[i] = t / factor[i, i]
    for i in range(d - 1, -1, -1):
        t = v[i]
        for k in range(i + 1, d):
            t -= factor[k, i] * v[k]
        v[i] = t / factor[i, i]


@kernel
def invert(matrix, shift, out, factor, column):
    """out [d, d] <- (matrix + shift I)^{-1}; returns ln det(matrix + shift I)."""
    d = matrix.shape[0]
    cholesky(matrix, shift, factor)
    total = 0.0
    for i in range(d):
        total += 2.0 * math.log(factor[i, i])
    for j in range(d):
        for i in range(d):
            column[i] = 1.0 if i == j else 0.0
        solve_factored(factor, column)
        for i in range(d):
            out[i, j] = column[i]
    return total


@kernel
def refresh_inverse(gram, inverse, logdet, start, factor, column):
    """inverse <- gram^{-1} and logdet[0] <- ln det gram - start, directly: wipes out what rank-one updates have
    lost."""
    logdet[0] = invert(gram, 0.0, inverse, factor, column) - start


def least_regularization(kappa: float, context_bound: float, context_dim: int) -> float:
    """The smallest lambda whose quadratic forms x' (lambda I + kappa sum x x')^{-1} x are kept well: at 10^6 steps
    their relative error is below 1e-6. One dimension has no direction that is seen while another is not."""
    return (LEAST_REGULARIZATION if context_dim > 1 else LEAST_IN_ONE_DIMENSION) * kappa * context_bound**2


@kernel
def updates_allowed(trace, lam, most):
    """How many rank-one updates an inverse may take before it should be made anew, a power of two times OFTEN below
    `most`, or that; trace: of its matrix, whose inverse has no entry above 1/lam.

    Each update rounds entries of size 1/lam by ROUNDING/lam or so: after k the error is about k ROUNDING/lam at most.
    The quadratic form of a unit vector is at least 1/trace, hence k <= LOST lam/(ROUNDING trace)."""
    k = OFTEN
    while k < most and 2.0 * k * ROUNDING * trace <= LOST * lam:
        k *= 2
    return min(k, most)


@inlined
def refresh_due(gram, inverse, samples, each):
    """Whether a Gram matrix should be inverted directly after so many samples, a multiple of OFTEN: every REFRESH of
    them, oftener where `updates_allowed` says so. each: rank-one updates per sample.

    No entry of the inverse is above the largest on its diagonal, which is 1/lambda as long as some direction was never
    seen, and falls once all of them are."""
    trace, largest = 0.0, 0.0
    for b in range(gram.shape[0]):
        trace += gram[b, b]
        largest = max(largest, inverse[b, b])
    return samples % REFRESH == 0 or samples % updates_allowed(trace, 1.0 / (largest * each), REFRESH) == 0


def refresh_address(dim: int) -> Any:
    """Address of `refresh_inverse`, for `apply_refresh`: run once in a thousand steps, not worth pasting anywhere."""
    square, vector = np.eye(dim), np.zeros(dim)
    return apply_refresh.fill(refresh_inverse, square, square, np.zeros(1), 0.0, square, vector)


apply_refresh = slot("refresh")  # (gram, inverse, logdet, start, factor, zx)


@kernel
def rank_one(gram, inverse, logdet, x, zx, q, kappa):
    """gram += kappa x x' with its inverse (Sherman-Morrison) and log-determinant; zx = inverse x and q = x'zx
    before."""
    d = x.shape[0]
    shrink = kappa / (1.0 + kappa * q)
    for i in range(d):
        a, b = shrink * zx[i], kappa * x[i]
        for j in range(d):
            inverse[i, j] -= a * zx[j]
            gram[i, j] += b * x[j]
    logdet[0] += math.log(1.0 + kappa * q)  # rounding is wiped out at the next refresh; log1p costs twice as much


@inlined
def rows_times(rows, x, out):
    """out [k] = rows [k, d] x, four rows at a time: d is short, and four sums share their loads of x."""
    k, d = rows.shape
    i = 0
    while i + 4 <= k:
        p, q, r, t = 0.0, 0.0, 0.0, 0.0
        for b in range(d):
            v = x[b]
            p += rows[i, b] * v
            q += rows[i + 1, b] * v
            r += rows[i + 2, b] * v
            t += rows[i + 3, b] * v
        out[i], out[i + 1], out[i + 2], out[i + 3] = p, q, r, t
        i += 4
    while i < k:
        p = 0.0
        for b in range(d):
            p += rows[i, b] * x[b]
        out[i] = p
        i += 1


@kernel
def chosen_times(rows, chosen, count, x, out):
    """out[i] = rows[chosen[i]] x of the first `count` rows chosen, four at a time."""
    i = 0
    while i + 4 <= count:
        e, f, g, h = chosen[i], chosen[i + 1], chosen[i + 2], chosen[i + 3]
        p, q, r, t = 0.0, 0.0, 0.0, 0.0
        for b in range(x.shape[0]):
            v = x[b]
            p += rows[e, b] * v
            q += rows[f, b] * v
            r += rows[g, b] * v
            t += rows[h, b] * v
        out[i], out[i + 1], out[i + 2], out[i + 3] = p, q, r, t
        i += 4
    while i < count:
        out[i] = dot(rows[chosen[i]], x)
        i += 1


@kernel
def chosen_times_both(rows, chosen, count, x, y, out_x, out_y):
    """The same for two vectors at once, two rows at a time: rows are read once."""
    i = 0
    while i + 2 <= count:
        e, f = chosen[i], chosen[i + 1]
        p, q, r, t = 0.0, 0.0, 0.0, 0.0
        for b in range(x.shape[0]):
            v, w = rows[e, b], rows[f, b]
            p += v * x[b]
            q += w * x[b]
            r += v * y[b]
            t += w * y[b]
        out_x[i], out_x[i + 1], out_y[i], out_y[i + 1] = p, q, r, t
        i += 2
    if i < count:
        out_x[i], out_y[i] = dot(rows[chosen[i]], x), dot(rows[chosen[i]], y)


@kernel
def times(matrix, x, out):
    """out [n] = matrix [n, d] x."""
    rows_times(matrix, x, out)


@kernel
def weighted_rows(weights, rows, count, size, out):
    """out [size] = the first `count` rows [., size], each times its weight, added up; four rows at a time."""
    k = 0
    for e in range(size):
        out[e] = 0.0
    while k + 4 <= count:
        p, q, r, t = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        for e in range(size):
            out[e] += p * rows[k, e] + q * rows[k + 1, e] + r * rows[k + 2, e] + t * rows[k + 3, e]
        k += 4
    while k < count:
        p = weights[k]
        for e in range(size):
            out[e] += p * rows[k, e]
        k += 1


@kernel
def add_product(A, B, scale, count, rows, size, out):
    """out [rows, size] += scale A'B, of the first `count` rows of A [., rows] and B [., size]; three rows of out and
    three of B at a time. out is neither of them."""
    for i in range(0, rows, 3):
        j, k = min(i + 1, rows - 1), min(i + 2, rows - 1)
        second, third = scale if j > i else 0.0, scale if k > j else 0.0  # the last row again adds nothing
        r = 0
        while r + 3 <= count:
            a, b, c = scale * A[r, i], scale * A[r + 1, i], scale * A[r + 2, i]
            f, g, h = second * A[r, j], second * A[r + 1, j], second * A[r + 2, j]
            p, q, t = third * A[r, k], third * A[r + 1, k], third * A[r + 2, k]
            for e in range(size):
                u, v, w = B[r, e], B[r + 1, e], B[r + 2, e]
                out[i, e] += a * u + b * v + c * w
                out[j, e] += f * u + g * v + h * w
                out[k, e] += p * u + q * v + t * w
            r += 3
        while r < count:
            a, f, p = scale * A[r, i], second * A[r, j], third * A[r, k]
            for e in range(size):
                u = B[r, e]
                out[i, e] += a * u
                out[j, e] += f * u
                out[k, e] += p * u
            r += 1


@kernel
def triangle_times(L, rows, count, size, out):
    """out [count, size] = L' rows, of the first `count` rows [., size] and a lower triangle L; four rows at a time.
    Where there are fewer the last is taken again, times 0. What is above L's diagonal is not looked at."""
    last = count - 1
    for i in range(count):
        for k in range(i, count, 4):
            e, f, g = min(k + 1, last), min(k + 2, last), min(k + 3, last)
            p, q = L[k, i], L[e, i] if k + 1 < count else 0.0
            r, t = L[f, i] if k + 2 < count else 0.0, L[g, i] if k + 3 < count else 0.0
            if k == i:
                for b in range(size):
                    out[i, b] = p * rows[k, b] + q * rows[e, b] + r * rows[f, b] + t * rows[g, b]
            else:
                for b in range(size):
                    out[i, b] += p * rows[k, b] + q * rows[e, b] + r * rows[f, b] + t * rows[g, b]


@kernel
def predictors(W, x, z):
    """z [n, m] = W [n, m, d] x."""
    rows_times(merged(W), x, merged(z))


@kernel
def sparse_predictors(W, x, layout, z):
    """z [S, A, M] = W [S, A, M, d] x where there is something: supported next states of available pairs. The rest of z
    is left alone."""
    for s in range(z.shape[0]):
        for a in range(z.shape[1]):
            if layout.available[s, a]:
                n = layout.count[s, a]
                rows_times(W[s, a, :n], x, z[s, a, :n])


@inlined
def pair_predictors(W, x, layout, z):
    """The linear predictors of every pair's next states: W [S, A, M, d], z [S, A, M], whose padding is 0."""
    if layout.dense == 1:
        predictors(merged(W), x, merged(z))
    else:
        sparse_predictors(W, x, layout, z)


@kernel
def quadratic_forms(first, second, x, p, q):
    """p [n] = x' first[n] x, q [n] = x' second[n] x, both [n, d, d]: two sums at a time hide each other's latency."""
    n, d, _ = first.shape
    for i in range(n):
        a, b = 0.0, 0.0
        for j in range(d):
            s, t = 0.0, 0.0
            for k in range(d):
                s += first[i, j, k] * x[k]
                t += second[i, j, k] * x[k]
            a += s * x[j]
            b += t * x[j]
        p[i], q[i] = a, b


@kernel
def project_on_ball(gram, radius, w, factor, target, step):
    """w [d] <- argmin { ||v - w||_gram : ||v||_2 <= radius }, exactly, for a w outside the ball.

    v(mu) = (gram + mu I)^{-1} gram w, with mu > 0 the root of the secular equation 1/||v(mu)|| = 1/radius. That
    function of mu is concave, so Newton's method from mu = 0 approaches the root from the left without overshooting
    (Conn, Gould and Toint 2000, section 7.3). Each iteration is one Cholesky factor."""
    d = w.shape[0]
    times(gram, w, target)
    mu = 0.0
    for _ in range(60):
        cholesky(gram, mu, factor)
        norm2, slope = 0.0, 0.0
        for i in range(d):
            w[i] = target[i]
        solve_factored(factor, w)
        for i in range(d):
            norm2 += w[i] * w[i]
            step[i] = w[i]
        solve_factored(factor, step)
        for i in range(d):
            slope += w[i] * step[i]
        norm = math.sqrt(norm2)
        if norm <= radius * (1.0 + 1e-14):
            break
        mu += (norm2 / slope) * (norm - radius) / radius
    for i in range(d):
        w[i] *= radius / norm


@inlined
def dot(u, v):
    """u'v of two vectors [d]."""
    total = 0.0
    for b in range(u.shape[0]):
        total += u[b] * v[b]
    return total


@inlined
def norm_of(x):
    return math.sqrt(dot(x, x))


@inlined
def form(matrix, x):
    """x' matrix x, the matrix [d, d]."""
    total = 0.0
    for b in range(x.shape[0]):
        total += dot(matrix[b], x) * x[b]
    return total
