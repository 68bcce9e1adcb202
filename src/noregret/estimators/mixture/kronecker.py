"""Weights W [M, d] of one pair seen as vectors: entry (row j, column b) has number j d + b.

A pair with n <= M outcomes uses the leading n d entries. Small kernels in place, for estimators whose matrices are sums
[M d, M d] of (form [n, n]) (x) x x'.
"""

import math

from ...compiler.jit import kernel
from ...problem.links import exp


@kernel
def softmax_of(z, n, p):
    """p [n] <- softmax(z), positive. Returns ln sum exp(z)."""
    top, total = z[0], 0.0
    for j in range(1, n):
        top = max(top, z[j])
    for j in range(n):
        p[j] = exp(z[j] - top)
        total += p[j]
    for j in range(n):
        p[j] /= total
    return top + math.log(total)


@kernel
def logit_covariance(cov, x, n, q):
    """q [n, n] <- (I (x) x)' cov (I (x) x), both triangles, for a symmetric cov. O((n d)^2 / 2)."""
    d = x.shape[0]
    for j in range(n):
        for k in range(j + 1):
            total = 0.0
            for b in range(d):
                part = 0.0
                for c in range(d):
                    part += cov[j * d + b, k * d + c] * x[c]
                total += part * x[b]
            q[j, k] = q[k, j] = total


@kernel
def add_kronecker(form, x, n, acc):
    """acc += form (x) x x', lower triangles of both only (`expanded` fills the rest)."""
    d = x.shape[0]
    for j in range(n):
        for k in range(j + 1):
            v = form[j, k]
            for b in range(d):
                u = v * x[b]
                for c in range(b + 1):
                    acc[j * d + b, k * d + c] += u * x[c]


@kernel
def expanded(acc, n, d, out):
    """out [n d, n d] <- the symmetric matrix that `add_kronecker` has summed up."""
    for j in range(n):
        for k in range(j + 1):
            for b in range(d):
                for c in range(b + 1):
                    v = acc[j * d + b, k * d + c]
                    out[j * d + b, k * d + c] = out[j * d + c, k * d + b] = v
                    out[k * d + b, j * d + c] = out[k * d + c, j * d + b] = v


@kernel
def inverse_of(matrix, size, least, factor, inverse):
    """inverse <- matrix^{-1}, the leading [size, size] of both. Returns ln det, or nan if not positive
    definite: a pivot is below `least` times its diagonal entry."""
    logdet = 0.0
    for i in range(size):
        for j in range(i + 1):
            v = matrix[i, j]
            for k in range(j):
                v -= factor[i, k] * factor[j, k]
            if i == j:
                if not (v > least * matrix[i, i] and v < math.inf):
                    return math.nan
                factor[i, i] = math.sqrt(v)
                logdet += math.log(v)
            else:
                factor[i, j] = v / factor[j, j]
    for j in range(size):  # columns of L^{-1}, below the diagonal of `inverse`
        inverse[j, j] = 1.0 / factor[j, j]
        for i in range(j + 1, size):
            v = 0.0
            for k in range(j, i):
                v -= factor[i, k] * inverse[k, j]
            inverse[i, j] = v / factor[i, i]
    for i in range(size):  # L^{-T} L^{-1}: row i of the result needs rows from i on only
        for j in range(i + 1):
            v = 0.0
            for k in range(i, size):
                v += inverse[k, i] * inverse[k, j]
            factor[i, j] = v
    for i in range(size):
        for j in range(i + 1):
            inverse[i, j] = inverse[j, i] = factor[i, j]
    return logdet
