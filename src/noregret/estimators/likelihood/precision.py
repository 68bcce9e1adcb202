"""Lambda and its inverse Sigma of one pair, relative to the last outcome, and what is done with them.

m = n - 1 outcomes, weights in the order (column b, row j) -> b m + j, X = x (x) I [md, m]. A pair keeps

    sigma [md, md]   Sigma, in full
    gram  [T, J]     Lambda without its start: a sum of D (x) xx', so entries b <= c, j <= k say it all; the entries
                     (b, c) down, (j, k) across, each row after row from its diagonal on, T = d(d+1)/2, J = m(m+1)/2
    forms [T, J]     what X' Sigma X needs of Sigma, likewise:  X' Sigma X = sum over b <= c of x_b x_c forms[(b, c)],
                     forms[(b, c), (j, k)] = Sigma[(b, j), (c, k)] + Sigma[(c, j), (b, k)], or half of that at b = c

Few pairs learn in an episode, all are asked for X' Sigma X: forms are a third of Sigma, and one long loop.
"""

import numpy as np

from ...compiler.jit import inlined, kernel
from ...numerics.linear_algebra import add_product, weighted_rows

NOT_DEFINITE = "a Gram matrix is no longer positive definite: a context or a bound is out of range"


@inlined
def logits_at(weights, x, n, z):
    """z [n] <- weights [M, d] x."""
    for j in range(n):
        total = 0.0
        for b in range(x.shape[0]):
            total += weights[j, b] * x[b]
        z[j] = total


@inlined
def products_of(x, out):
    """out [T] <- x_b x_c, b <= c."""
    t = 0
    for b in range(x.shape[0]):
        for c in range(b, x.shape[0]):
            out[t] = x[b] * x[c]
            t += 1


@kernel
def covariance_at(forms, products, n, packed, C):
    """C [n, n] <- X' Sigma X, with zeros for the last outcome. Indices are unsigned: no test for negative ones."""
    weighted_rows(products, forms, products.shape[0], n * (n - 1) // 2, packed)
    m, at = np.uint64(n - 1), np.uint64(0)
    for j in range(m):
        for k in range(j, m):
            C[j, k] = C[k, j] = packed[at]
            at += np.uint64(1)
        C[j, m] = C[m, j] = 0.0
    C[m, m] = 0.0


@kernel
def fold(sigma, m, d, forms):
    """forms from Sigma. Indices are unsigned: no test for negative ones."""
    m, d, t = np.uint64(m), np.uint64(d), np.uint64(0)
    for b in range(d):
        for c in range(b, d):
            share, at = 1.0 if c > b else 0.5, np.uint64(0)
            for j in range(m):
                here, there = b * m, c * m
                for k in range(j, m):
                    forms[t, at + k - j] = share * (sigma[here + j, there + k] + sigma[there + j, here + k])
                at += m - j
            t += np.uint64(1)


@kernel
def rows_at(sigma, x, m, K):
    """K [m, md] <- X' Sigma."""
    size = m * x.shape[0]
    for k in range(m):
        for e in range(size):
            K[k, e] = 0.0
        for b in range(x.shape[0]):
            v, row = x[b], b * m + k
            for e in range(size):
                K[k, e] += v * sigma[row, e]


@kernel
def subtract_form(sigma, K, G, m, size, GK):
    """Sigma -= K' G K; GK [m, size] <- G K."""
    for j in range(m):
        for e in range(size):
            GK[j, e] = 0.0
    add_product(G, K, 1.0, m, m, size, GK)
    add_product(K, GK, -1.0, m, size, size, sigma)


@kernel
def add_outer(gram, D, products, J):
    """gram += D (x) xx', D [J] packed."""
    for t in range(products.shape[0]):
        v = products[t]
        for i in range(J):
            gram[t, i] += v * D[i]


@kernel
def trace_of(gram, m, d):
    """The trace of Lambda without its start."""
    total, t = 0.0, 0
    for b in range(d):
        at = 0
        for j in range(m):
            total += gram[t, at]
            at += m - j
        t += d - b
    return total


@kernel
def invert_precision(gram, lam, m, d, square, sigma):
    """sigma <- the inverse of Lambda, which begins with lam (I - 11'/n) (x) I: Gauss and Jordan's elimination, which
    needs no pivoting here. square [md, md] is scratch."""
    size, t = m * d, 0
    for b in range(d):
        for c in range(b, d):
            at = 0
            for j in range(m):
                for k in range(j, m):
                    start = lam * ((1.0 if j == k else 0.0) - 1.0 / (m + 1)) if b == c else 0.0
                    v = start + gram[t, at]
                    square[b * m + j, c * m + k] = square[b * m + k, c * m + j] = v
                    square[c * m + j, b * m + k] = square[c * m + k, b * m + j] = v
                    at += 1
            t += 1
    for i in range(size):
        if not square[i, i] > 0.0:
            raise ValueError(NOT_DEFINITE)
        scale = 1.0 / square[i, i]
        square[i, i] = 1.0
        for e in range(size):
            square[i, e] *= scale
        for r in range(size):
            if r != i:
                factor = square[r, i]
                square[r, i] = 0.0
                for e in range(size):
                    square[r, e] -= factor * square[i, e]
    for i in range(size):
        for e in range(size):
            sigma[i, e] = square[i, e]
