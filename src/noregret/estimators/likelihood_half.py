"""Half of a symmetric matrix, Sigma of `estimators.likelihood_learn`, and what is done with it: products with a context
on one side or both, updates, and inverting the precision afresh.

Sigma [md, md], index (row j, column b) -> j d + b. Of row (j, b) the columns from j d on are kept, rounded down to a
multiple of eight, to m d, rounded up; rows follow each other. What rounding adds is right too, or beyond the end.

All pairs are asked for X' Sigma X in every episode, few are learned from. Only the sum of a block and its transpose
matters to it, so these sums are kept too, forms [T, J], T = d(d+1)/2, the entries (b, c), b <= c, of all blocks j <= k
side by side: X' Sigma X = sum over b <= c of x_b x_c forms, less to read by two fifths and without reordering.
"""

from .._eight import dots, load, store
from .._fold import fold_half, fold_whole
from .._jit import caller, inlined, kernel
from .._tiles import (
    add_products,
    add_wide_products,
    set_product,
    set_sixfold_product,
    set_wide_product,
    subtract_product,
    subtract_products,
    subtract_wide_products,
)

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
def upper_rows(sigma, x, m, d, rows, E):
    """rows[j E + e] <- sum_b x_b Sigma[(j, b), e] for e >= j d."""
    end, at = up(m * d, 8), 0
    for j in range(m):
        first = j * d // 8 * 8
        width, e, to = end - first, 0, j * E + first
        while e + 24 <= width:
            set_wide_product(rows, to + e, 0, x, 0, 0, 1, sigma, at + e, width, d)
            e += 24
        while e < width:
            set_product(rows, to + e, 0, x, 0, 0, 1, sigma, at + e, width, d)
            e += 8
        at += d * width


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
def products_of(x, out):
    """out [T] <- x_b x_c, b <= c."""
    at = 0
    for b in range(x.shape[0]):
        for c in range(b, x.shape[0]):
            out[at] = x[b] * x[c]
            at += 1


@kernel
def form_at(forms, products, m, d, J, packed, to):
    """packed[to ...] <- X' Sigma X, rows from their diagonal on, for the products of `products_of`."""
    T, e, size = d * (d + 1) // 2, 0, m * (m + 1) // 2
    while e + 40 < size:
        set_sixfold_product(packed, to + e, 0, products, 0, 0, 1, forms, e, J, T)
        e += 48
    while e + 16 < size:
        set_wide_product(packed, to + e, 0, products, 0, 0, 1, forms, e, J, T)
        e += 24
    while e < size:
        set_product(packed, to + e, 0, products, 0, 0, 1, forms, e, J, T)
        e += 8


@kernel
def fold(sigma, m, d, J, places, forms):
    """forms from Sigma; places [16] is scratch."""
    if d % 8 != 0:
        fold_any(sigma, m, d, J, forms)
        return
    j, k, at, to, lane, width = 0, 0, 0, 0, 0, m * d
    while j < m:
        places[lane], places[8 + lane] = at + (k - j) * d, width
        lane, k = lane + 1, k + 1
        if k == m:
            at += d * width
            width -= d
            j += 1
            k = j
        if lane == 8 or j == m:
            for i in range(lane, 8):
                places[i], places[8 + i] = places[0], places[8]
            for b in range(0, d, 8):
                row = b * d - b * (b + 1) // 2
                fold_half(sigma, places, b, b, forms, to + (row + b) * J, J, d)
                for c in range(b + 8, d, 8):
                    fold_whole(sigma, places, b, c, forms, to + (row + c) * J, J, d)
            to, lane = to + 8, 0


@kernel
def fold_any(sigma, m, d, J, forms):
    """The same, number by number."""
    t, end = 0, up(m * d, 8)
    for b in range(d):
        for c in range(b, d):
            at, to = 0, t * J
            for j in range(m):
                first = j * d // 8 * 8
                width = end - first
                there, back = at + b * width + c + j * d - first, at + c * width + b + j * d - first
                for k in range(0, (m - j) * d, d):
                    forms[to] = sigma[there + k] + (sigma[back + k] if c > b else 0.0)
                    to += 1
                at += d * width
            t += 1


@kernel
def update(sigma, turned, rows, m, d, E):
    """Sigma -= turned' rows, both [m, E]."""
    end, at = up(m * d, 8), 0
    for j in range(m):
        first = j * d // 8 * 8
        width, b = end - first, 0
        while b < d:
            e = 0
            if b + 4 <= d:
                while e + 24 <= width:
                    subtract_wide_products(sigma, at + e, width, turned, j * d + b, 1, E, rows, first + e, E, m)
                    e += 24
                while e < width:
                    subtract_products(sigma, at + e, width, turned, j * d + b, 1, E, rows, first + e, E, m)
                    e += 8
                b += 4
                at += 4 * width
            else:
                while e < width:
                    subtract_product(sigma, at + e, 0, turned, j * d + b, 0, E, rows, first + e, E, m)
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
def note(lanes, lane, x, m, J, recent, slot):
    """recent[slot] <- D, rows from their diagonal on, which is a lane, then x."""
    at = slot * (J + x.shape[0] + 8)
    for j in range(m * (m + 1) // 2):
        recent[at + j] = lanes[lane + j * 8]
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
        e, size = 0, m * (m + 1) // 2
        while e + 16 < size:
            add_wide_products(gram, t * J + e, J, scratch, t, 1, T, recent, e, J + d + 8, count)
            e += 24
        while e < size:
            add_products(gram, t * J + e, J, scratch, t, 1, T, recent, e, J + d + 8, count)
            e += 8


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
    fold(sigma, m, d, J, work.places, state.forms[s, a])


apply_renew = caller()
