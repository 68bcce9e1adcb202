"""Weights W [M, d] of one pair seen as vectors: entry (row j, column b) has number j d + b.

A pair with n <= M outcomes uses the leading n d entries. Small kernels in place, for estimators whose matrices are sums
[M d, M d] of (form [n, n]) (x) x x'.
"""

import math

from ...compiler.jit import kernel
from ...numerics.linear_algebra import weighted_rows
from ...problem.links import exp
from ..likelihood.precision import add_outer


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
def fold(cov, n, d, forms):
    """forms [T, J] <- what `folded_covariance` needs of a symmetric cov, T = d(d+1)/2, J = n(n+1)/2: (I (x) x)' cov
    (I (x) x) is the sum over b <= c of x_b x_c forms[(b, c)], lower triangles row after row."""
    t = 0
    for b in range(d):
        for c in range(b, d):
            share, at = 1.0 if c > b else 0.5, 0
            for j in range(n):
                for k in range(j + 1):
                    forms[t, at] = share * (cov[j * d + b, k * d + c] + cov[j * d + c, k * d + b])
                    at += 1
            t += 1


@kernel
def folded_covariance(forms, products, n, packed, q):
    """`logit_covariance` from what `fold` has made of cov, and `precision.products_of` of x: one long loop, for many x
    and one cov. packed [J]: scratch."""
    weighted_rows(products, forms, products.shape[0], n * (n + 1) // 2, packed)
    at = 0
    for j in range(n):
        for k in range(j + 1):
            q[j, k] = q[k, j] = packed[at]
            at += 1


@kernel
def add_kronecker(form, products, n, packed, acc):
    """acc [T, J] += form (x) x x', of the lower triangle of form [n, n] and `precision.products_of` of x. `expanded`
    makes the matrix of it. packed [J]: scratch."""
    at = 0
    for j in range(n):
        for k in range(j + 1):
            packed[at] = form[j, k]
            at += 1
    add_outer(acc, packed, products, at)


@kernel
def expanded(acc, n, d, out):
    """out [n d, n d] <- the symmetric matrix that `add_kronecker` has summed up."""
    t = 0
    for b in range(d):
        for c in range(b, d):
            at = 0
            for j in range(n):
                for k in range(j + 1):
                    v = acc[t, at]
                    out[j * d + b, k * d + c] = out[j * d + c, k * d + b] = v
                    out[k * d + b, j * d + c] = out[k * d + c, j * d + b] = v
                    at += 1
            t += 1


@kernel
def inverse_of(matrix, size, least, row, inverse):
    """inverse <- matrix^{-1}, the leading [size, size] of both, of a symmetric matrix. Returns ln det, or nan if it is
    not positive definite: a pivot is below `least` times its diagonal entry. row [size or longer]: scratch.

    Sweeps of the lower triangle (Goodnight 1979): the pivots are those of Cholesky's factor, and every inner loop goes
    along a row."""
    logdet = 0.0
    for i in range(size):
        for j in range(i + 1):
            inverse[i, j] = matrix[i, j]
    for i in range(size):
        pivot = inverse[i, i]
        if not (pivot > least * matrix[i, i] and pivot < math.inf):
            return math.nan
        logdet += math.log(pivot)
        for j in range(i):
            row[j] = inverse[i, j]
        for j in range(i, size):
            row[j] = inverse[j, i]
        scale = 1.0 / pivot
        for k in range(size):
            share = row[k] * scale
            for j in range(k + 1):
                inverse[k, j] -= share * row[j]
        for j in range(i):
            inverse[i, j] = row[j] * scale
        for j in range(i + 1, size):
            inverse[j, i] = row[j] * scale
        inverse[i, i] = -scale
    for i in range(size):
        for j in range(i + 1):
            inverse[i, j] = inverse[j, i] = -inverse[i, j]
    return logdet
