"""Half of a symmetric matrix, Sigma of `estimators.likelihood_learn`, and what is done with it: products with a context
on one side or both, updates, and inverting the precision afresh.

Sigma [md, md], index (row j, column b) -> j d + b. Of row (j, b) the columns from j d on are kept, rounded down to a
multiple of eight, to m d, rounded up; rows follow each other. What rounding adds is right too, or beyond the end.
"""

from .._eight import dots, load, store
from .._jit import caller, inlined, kernel
from .._tiles import add_product, add_products, add_wide_products, set_product, set_wide_product

WAITING = 16  # episodes of a pair that are added to its precision at once


@inlined
def up(n, to):
    """`padded`, in kernels."""
    return (n + to - 1) // to * to


@inlined
def spread_out(x, out):
    """out <- x and zeros."""
    for b in range(x.shape[0]):
        out[b] = x[b]


@kernel
def upper_rows(sigma, x, m, d, rows, stride):
    """rows[j stride + e] <- sum_b x_b Sigma[(j, b), e] for e >= j d; stride 0: one after the other, from j d on, which
    takes a d that is a multiple of eight."""
    end, at, to = up(m * d, 8), 0, 0
    for j in range(m):
        first = j * d // 8 * 8
        width, e = end - first, 0
        to = j * stride + first if stride > 0 else to
        while e + 24 <= width:
            set_wide_product(rows, to + e, 0, x, 0, 0, 1, sigma, at + e, width, d)
            e += 24
        while e < width:
            set_product(rows, to + e, 0, x, 0, 0, 1, sigma, at + e, width, d)
            e += 8
        at += d * width
        to += width


@kernel
def lower_rows(sigma, x, m, d, rows, E):
    """The same for e < j d, rows of E, from what lies on the other side of the diagonal."""
    end, at = up(m * d, 8), 0
    for j in range(m - 1):
        first = j * d // 8 * 8
        width = end - first
        for k in range(j + 1, m):
            for b in range(0, d, 8):
                from_here = at + b * width + k * d - first
                sums = dots(sigma, from_here, width, load(x, 0))
                for c in range(8, d, 8):
                    sums = sums + dots(sigma, from_here + c, width, load(x, c))
                store(rows, k * E + j * d + b, sums)
        at += d * width


@inlined
def pieces(rows, first, count, d, x, out, to):
    """out[to + i] <- sum_c x_c rows[first + i d + c], i < count, eight at a time; x has zeros beyond d."""
    for i in range(0, count, 8):
        sums = dots(rows, first + i * d, d, load(x, 0))
        for c in range(8, d, 8):
            sums = sums + dots(rows, first + i * d + c, d, load(x, c))
        store(out, to + i, sums)


@kernel
def packed_form(sigma, x, m, d, E, rows, packed):
    """packed <- X' Sigma X, rows from their diagonal on; x [d] with zeros behind it."""
    if d % 8 == 0:
        upper_rows(sigma, x, m, d, rows, 0)
        pieces(rows, 0, m * (m + 1) // 2, d, x, packed, 0)
    else:
        upper_rows(sigma, x, m, d, rows, E)
        at = 0
        for j in range(m):
            pieces(rows, j * E + j * d, m - j, d, x, packed, at)
            at += m - j


@kernel
def update(sigma, turned, rows, m, d, E):
    """Sigma += turned' rows, both [m, E]."""
    end, at = up(m * d, 8), 0
    for j in range(m):
        first = j * d // 8 * 8
        width, b = end - first, 0
        while b < d:
            e = 0
            if b + 4 <= d:
                while e + 24 <= width:
                    add_wide_products(sigma, at + e, width, turned, j * d + b, 1, E, rows, first + e, E, m)
                    e += 24
                while e < width:
                    add_products(sigma, at + e, width, turned, j * d + b, 1, E, rows, first + e, E, m)
                    e += 8
                b += 4
                at += 4 * width
            else:
                while e < width:
                    add_product(sigma, at + e, 0, turned, j * d + b, 0, E, rows, first + e, E, m)
                    e += 8
                b += 1
                at += width


@inlined
def keep_half(square, sigma, m, d, E):
    """sigma <- the half that is kept of a symmetric matrix, rows of E."""
    end, at = up(m * d, 8), 0
    for j in range(m):
        first = j * d // 8 * 8
        for b in range(d):
            for e in range(first, end):
                sigma[at] = square[(j * d + b) * E + e] if e < m * d else 0.0
                at += 1


@kernel
def note(hessian, x, m, W, J, recent, slot):
    """recent[slot] <- D, rows from their diagonal on, then x."""
    at = slot * (J + x.shape[0] + 8)
    to = at
    for j in range(m):
        for k in range(j, m, 8):
            store(recent, to + k - j, load(hessian, j * W + k))
        to += m - j
    for b in range(x.shape[0]):
        recent[at + J + b] = x[b]


@kernel
def add_up(gram, recent, count, m, d, J, scratch):
    """gram += D (x) xx' of `count` episodes: memory is slower than arithmetic, so several are added at once."""
    T = up(d * (d + 1) // 2, 4)
    for i in range(count):
        at, first = i * T, i * (J + d + 8) + J
        for b in range(d):
            for c in range(b, d):
                scratch[at] = recent[first + b] * recent[first + c]
                at += 1
    for t in range(0, d * (d + 1) // 2, 4):
        for e in range(0, m * (m + 1) // 2, 8):
            add_products(gram, t * J + e, J, scratch, t, 1, T, recent, e, J + d + 8, count)


@kernel
def renew(par, state, work, n, d, s, a):
    """Sigma from the precision, directly: Gauss and Jordan's elimination, which needs no pivoting here."""
    m, E, J, sigma, gram, t = n - 1, par.size, par.pairs, state.covariance[s, a], state.gram[s, a], 0
    size, square = m * d, work.square
    add_up(gram, state.recent[s, a], int(state.pending[s, a]), m, d, J, work.products)
    state.pending[s, a] = 0
    for b in range(d):
        for c in range(b, d):
            at = t * J
            for j in range(m):
                for k in range(j, m):
                    prior = par.regularization * ((1.0 if j == k else 0.0) - 1.0 / n) if b == c else 0.0
                    v = prior + gram[at]
                    square[(j * d + b) * E + k * d + c] = square[(k * d + b) * E + j * d + c] = v
                    square[(j * d + c) * E + k * d + b] = square[(k * d + c) * E + j * d + b] = v
                    at += 1
            t += 1
    for i in range(size):
        pivot = square[i * E + i]
        if not pivot > 0.0:
            raise ValueError("a Gram matrix is no longer positive definite: a context or a bound is out of range")
        inverse = 1.0 / pivot
        square[i * E + i] = 1.0
        for e in range(0, size, 8):
            store(square, i * E + e, load(square, i * E + e) * inverse)
        for r in range(size):
            if r != i:
                factor = -square[r * E + i]
                square[r * E + i] = 0.0
                for e in range(0, size, 8):
                    store(square, r * E + e, load(square, r * E + e) + load(square, i * E + e) * factor)
    keep_half(square, sigma, m, d, E)


apply_renew = caller()
