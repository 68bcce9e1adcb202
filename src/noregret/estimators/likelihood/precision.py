"""Lambda and its inverse Sigma of one pair, relative to the last outcome, and what is done with them.

m = n - 1 outcomes, weights in the order (column b, row j) -> b m + j, X = x (x) I [md, m]. Sigma_bc [m, m] are its
blocks, Sigma_cb = Sigma_bc'. A pair keeps, T = d(d+1)/2, J = m(m+1)/2,

    forms [T, J]                 sums         Sigma_bc + Sigma_bc', half of that at b = c
    turns [d(d-1)/2, m(m-1)/2]   differences  Sigma_bc - Sigma_bc', b < c
    gram  [T, J]                 Lambda without its start, a sum of D (x) xx': its blocks are symmetric

down for b <= c (b < c) in their order, across first the diagonal and then for j < k in their order. Together the first
two have each number of Sigma once. Queries need forms alone: X' Sigma X = sum over b <= c of x_b x_c forms[(b, c)]. Few
pairs learn in an episode, all are asked, and what is kept of one is read as one long loop.
"""

import functools

import numpy as np
from numpy.typing import NDArray

from ...checks import Floats
from ...compiler.jit import inlined, kernel, merged
from ...numerics.linear_algebra import add_product, weighted_rows

WHOLE = 8  # numbers in a line of the cache
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
    """C [n, n] <- X' Sigma X, with zeros for the last outcome."""
    weighted_rows(products, forms, products.shape[0], n * (n - 1) // 2, packed)
    unpack(packed, n, C)


@inlined
def unpack(packed, n, C):
    """C [n, n] <- a symmetric matrix of the first n - 1 outcomes, and zeros for the last. Indices are unsigned: no test
    for negative ones."""
    m = np.uint64(n - 1)
    at = m
    for j in range(m):
        C[j, j] = packed[j]
        for k in range(j + np.uint64(1), m):
            C[j, k] = C[k, j] = packed[at]
            at += np.uint64(1)
        C[j, m] = C[m, j] = 0.0
    C[m, m] = 0.0


@kernel
def rows_at(forms, turns, x, m, even, odd, K):
    """K [m, md] <- X' Sigma, even [d, J] <- the symmetric parts of its blocks, which add up to X' Sigma X times x; odd
    [d, m(m-1)/2]: the others."""
    d, both, less = x.shape[0], m * (m + 1) // 2, m * (m - 1) // 2
    for c in range(d):
        for e in range(both):
            even[c, e] = 0.0
        for e in range(less):
            odd[c, e] = 0.0
    t, w = 0, 0
    for b in range(d):
        for e in range(both):
            even[b, e] += x[b] * forms[t, e]
        t += 1
        y = 0.5 * x[b]
        for c in range(b + 1, d):
            z = 0.5 * x[c]
            for e in range(both):
                v = forms[t, e]
                even[b, e] += z * v
                even[c, e] += y * v
            for e in range(less):
                v = turns[w, e]
                odd[b, e] -= z * v
                odd[c, e] += y * v
            t += 1
            w += 1
    n = np.uint64(m)
    for c in range(np.uint64(d)):
        first, i = c * n, np.uint64(0)
        for j in range(n):
            K[j, first + j] = even[c, j]
            for k in range(j + np.uint64(1), n):
                v, u = even[c, n + i], odd[c, i]
                K[j, first + k] = v + u
                K[k, first + j] = v - u
                i += np.uint64(1)


@kernel
def columns_product(A, B, m, row, first, size, out):
    """out [m, size] <- A'B of the first m rows of A, from column `row` on, and of B; only columns from `first` on.
    Three rows of out and three of B at a time. Where there are fewer the last is taken again: a row of B times 0, a row
    of out for nothing. out is neither A nor B."""
    last, start, end = m - 1, np.uint64(first), np.uint64(size)
    for i in range(0, m, 3):
        j, k = min(i + 1, last), min(i + 2, last)
        for r in range(0, m, 3):
            s, t = min(r + 1, last), min(r + 2, last)
            y, z = 1.0 if s > r else 0.0, 1.0 if t > s else 0.0
            second, third = 1.0 if r == 0 or j > i else 0.0, 1.0 if r == 0 or k > j else 0.0
            a, b, c = A[r, row + i], y * A[s, row + i], z * A[t, row + i]
            f, g, h = second * A[r, row + j], second * y * A[s, row + j], second * z * A[t, row + j]
            p, q, o = third * A[r, row + k], third * y * A[s, row + k], third * z * A[t, row + k]
            if r == 0:
                for e in range(start, end):
                    u, v, w = B[r, e], B[s, e], B[t, e]
                    out[i, e] = a * u + b * v + c * w
                    out[j, e] = f * u + g * v + h * w
                    out[k, e] = p * u + q * v + o * w
            else:
                for e in range(start, end):
                    u, v, w = B[r, e], B[s, e], B[t, e]
                    out[i, e] += a * u + b * v + c * w
                    out[j, e] += f * u + g * v + h * w
                    out[k, e] += p * u + q * v + o * w


@kernel
def subtract(forms, turns, K, G, m, d, work):
    """Sigma -= K' G K, in rows of blocks: those of b from about its own column on."""
    columns_product(G, K, m, 0, 0, m * d, work.GK)
    places_of(m, work.panel.shape[1], work.above, work.below)
    t, w = 0, 0
    for b in range(d):
        columns_product(K, work.GK, m, b * m, b * m // WHOLE * WHOLE, m * d, work.panel)
        add_blocks(work.panel, work.above, work.below, b, m, d, t, w, -1.0, forms, turns)
        t += d - b
        w += d - b - 1


@kernel
def places_of(m, stride, above, below):
    """Where (j, k) and (k, j), j < k, are among numbers with so many in a row."""
    i = 0
    for j in range(m):
        for k in range(j + 1, m):
            above[i], below[i] = np.uint64(j * stride + k), np.uint64(k * stride + j)
            i += 1


@kernel
def add_blocks(panel, above, below, b, m, d, t, w, sign, forms, turns):
    """forms, turns += sign times the blocks (b, c), c >= b, in a row of blocks, panel [m, md], of a symmetric matrix;
    theirs begin at t and w. Indices are unsigned: no test for negative ones."""
    flat, stride, count = merged(panel), np.uint64(panel.shape[1]), np.uint64(m * (m - 1) // 2)
    n, t, w = np.uint64(m), np.uint64(t), np.uint64(w)
    for c in range(np.uint64(b), np.uint64(d)):
        first = c * n
        if c == np.uint64(b):
            for j in range(n):
                forms[t, j] += sign * flat[j * stride + first + j]
            for i in range(count):
                forms[t, n + i] += sign * flat[first + above[i]]
        else:
            for j in range(n):
                forms[t, j] += 2.0 * sign * flat[j * stride + first + j]
            for i in range(count):
                u, v = sign * flat[first + above[i]], sign * flat[first + below[i]]
                forms[t, n + i] += u + v
                turns[w, i] += u - v
            w += np.uint64(1)
        t += np.uint64(1)


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
    """gram += D (x) xx', D [J] likewise."""
    for t in range(products.shape[0]):
        v = products[t]
        for i in range(J):
            gram[t, i] += v * D[i]


@kernel
def trace_of(gram, m, d):
    """The trace of Lambda without its start."""
    total, t = 0.0, 0
    for b in range(d):
        for j in range(m):
            total += gram[t, j]
        t += d - b
    return total


@kernel
def invert_precision(gram, lam, m, d, work, forms, turns):
    """forms, turns <- of the inverse of Lambda, which begins with lam (I - 11'/n) (x) I: Gauss and Jordan's
    elimination, which needs no pivoting here. work.square [md, md] is scratch."""
    size, t, square = m * d, 0, work.square
    for b in range(d):
        for c in range(b, d):
            at = m
            start = lam / (m + 1) if b == c else 0.0
            for j in range(m):
                v = gram[t, j] + m * start
                square[b * m + j, c * m + j] = square[c * m + j, b * m + j] = v
                for k in range(j + 1, m):
                    v = gram[t, at] - start
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
    set_to(square, m, d, work, forms, turns)


@kernel
def set_to(sigma, m, d, work, forms, turns):
    """forms, turns <- of Sigma [md, md]."""
    places_of(m, sigma.shape[1], work.above, work.below)
    t, w = 0, 0
    for b in range(d):
        for e in range(t, t + d - b):
            for i in range(m * (m + 1) // 2):
                forms[e, i] = 0.0
        for e in range(w, w + d - b - 1):
            for i in range(m * (m - 1) // 2):
                turns[e, i] = 0.0
        add_blocks(sigma[b * m : (b + 1) * m], work.above, work.below, b, m, d, t, w, 1.0, forms, turns)
        t += d - b
        w += d - b - 1


@functools.cache
def packed_order(m: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(j, k) of the numbers across."""
    j, k = np.triu_indices(m, 1)
    return np.concatenate([np.arange(m), j]), np.concatenate([np.arange(m), k])


@functools.cache
def blocks_order(d: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(b, c) of the numbers down."""
    b, c = np.triu_indices(d)
    return b, c


def lengths2(gram: Floats, lam: Floats, rows: Floats) -> Floats:
    """||U||^2_Lambda of weights less those of the last outcome: [N], for gram [N, T, J], lambda [N] and U [N, m, d]."""
    _, m, d = rows.shape
    (b, c), (j, k) = blocks_order(d), packed_order(m)
    left, right = rows[:, :, b].swapaxes(1, 2), rows[:, :, c].swapaxes(1, 2)  # [N, T, m]
    each = left[:, :, j] * right[:, :, k] + left[:, :, k] * right[:, :, j]
    each[:, :, :m] *= 0.5
    each[:, b == c] *= 0.5
    start = (rows * rows).sum((1, 2)) - (rows.sum(1) ** 2).sum(1) / (m + 1)
    made: Floats = lam * start + 2.0 * (gram[:, :, : len(j)] * each).sum((1, 2))
    return made


def sigma_of(forms: Floats, turns: Floats, m: int, d: int) -> Floats:
    """Sigma [d, m, d, m]."""
    made, (j, k), w = np.zeros((d, m, d, m)), packed_order(m), 0
    for t, (b, c) in enumerate(zip(*blocks_order(d), strict=True)):
        block = np.zeros((m, m))
        block[j, k] = block[k, j] = forms[t, : len(j)]
        if c > b:
            block[j[m:], k[m:]] += turns[w, : len(j) - m]
            block[k[m:], j[m:]] -= turns[w, : len(j) - m]
            block *= 0.5
            w += 1
        made[b, :, c], made[c, :, b] = block, block.T
    return made
