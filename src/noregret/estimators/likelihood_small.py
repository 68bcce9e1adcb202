"""Among the m predictions of a pair: the small matrices of `estimators.likelihood_learn`, of eight pairs side by side.

All lie in one flat array, `lanes`. Of the pair in lane l entry (j, k) of matrix i is at matrix(m, i) + (j (m+2) + k) 8
+ l, entry j of vector i at vector(m, i) + 8 j + l. Matrices have columns and rows to spare: sums are made three at
a time. A lane that is not active stays as it is.
"""

import math

from .._eight import either, exps, highest, least, load, most, root, same, store, total
from .._jit import caller, inlined, kernel
from ..local_sets import largest_reach, series

# C; L'C; F, F'F = I + L'C L; V of the first visit, and of a later one; -G; V C; V R'; R
C, LC, BASE, FIRST, V, GAIN, U, VR, R = range(9)
ROOT = U  # the factor of C
MATRICES = 9
Z, P, HIT, TOPS, HEADS, RIGHT, BOTH, SHIFT, MOVED, ONE_OVER, OVER_ROOT, NONE, SCALARS = range(13)
VECTORS = 13
RHO2, CURVATURE, RATIO, FORM, RIDGE, ACTIVE = range(6)  # single numbers
SET, POSTERIOR, MIXTURE = range(3)


@inlined
def rows(m):
    return (m + 2) // 3 * 3


@inlined
def matrix(m, i):
    return i * rows(m) * (m + 2) * 8


@inlined
def vector(m, i):
    return MATRICES * rows(m) * (m + 2) * 8 + i * (m + 5) * 8


@inlined
def hessian(m):
    """Where D is: rows from their diagonal on."""
    return vector(m, VECTORS)


def room(m: int) -> int:
    """Numbers in `lanes`."""
    return 8 * (MATRICES * ((m + 2) // 3 * 3) * (m + 2) + VECTORS * (m + 5) + m * (m + 1) // 2 + 16)


@inlined
def store_three(lanes, at, u, v, w):
    store(lanes, at, u)
    store(lanes, at + 8, v)
    store(lanes, at + 16, w)


@inlined
def root_row(lanes, m, i, source, ridge, target, over):
    """Row i of `roots`; the pivot."""
    a, f, r = matrix(m, source), matrix(m, target), (m + 2) * 8
    pivot = load(lanes, a + i * r + i * 8) + load(lanes, ridge)
    for k in range(i):
        v = load(lanes, f + k * r + i * 8)
        pivot = pivot - v * v
    scale = 1.0 / root(pivot)
    store(lanes, vector(m, over) + i * 8, scale)
    store(lanes, f + i * r + i * 8, pivot * scale)
    for j in range((i + 1) * 8, m * 8, 24):
        u, v, w = load(lanes, a + i * r + j), load(lanes, a + i * r + j + 8), load(lanes, a + i * r + j + 16)
        for k in range(i):
            own = load(lanes, f + k * r + i * 8)
            u = u - own * load(lanes, f + k * r + j)
            v = v - own * load(lanes, f + k * r + j + 8)
            w = w - own * load(lanes, f + k * r + j + 16)
        store_three(lanes, f + i * r + j, u * scale, v * scale, w * scale)
    return pivot


@kernel
def roots(lanes, m, base, mixture):
    """base=1: BASE <- F, upper triangular, F'F = BASE, and ONE_OVER <- 1/F_ii; mixture=1: ROOT <- F, F'F = C + RIDGE I.
    Only upper halves are read. Returns the smallest pivot of the latter, or nan.

    One waits for square roots while the other is worked on."""
    worst = same(math.inf)
    for i in range(m):
        if base == 1:
            root_row(lanes, m, i, BASE, vector(m, NONE), BASE, ONE_OVER)
        if mixture == 1:
            worst = least(root_row(lanes, m, i, C, vector(m, SCALARS) + RIDGE * 8, ROOT, OVER_ROOT), worst)
    return -highest(worst * -1.0)


@kernel
def solve(lanes, m, target, lower):
    """Matrix `target` <- F'^-1 times it, F in BASE; lower=1: a lower triangle, and what is made is one."""
    f, t, r, over = matrix(m, BASE), matrix(m, target), (m + 2) * 8, vector(m, ONE_OVER)
    for i in range(m):
        scale = load(lanes, over + i * 8)
        for j in range(0, (i + 1) * 8 if lower == 1 else m * 8, 24):
            u, v, w = load(lanes, t + i * r + j), load(lanes, t + i * r + j + 8), load(lanes, t + i * r + j + 16)
            for k in range(lower * j // 8, i):
                own = load(lanes, f + k * r + i * 8)
                u = u - own * load(lanes, t + k * r + j)
                v = v - own * load(lanes, t + k * r + j + 8)
                w = w - own * load(lanes, t + k * r + j + 16)
            store_three(lanes, t + i * r + j, u * scale, v * scale, w * scale)


@kernel
def subtract(lanes, m, left, right, target, symmetric, lower):
    """Matrix `target` -= left' right; symmetric=1: so is the result, half of it is computed. lower=1: left is a lower
    triangle, and right too if the result is symmetric."""
    a, b, t, r = matrix(m, left), matrix(m, right), matrix(m, target), (m + 2) * 8
    for i in range(0, m, 3):
        for j in range(symmetric * i * 8, m * 8, 24):
            u, v, w = t + i * r + j, t + i * r + r + j, t + i * r + 2 * r + j
            u0, u1, u2 = load(lanes, u), load(lanes, u + 8), load(lanes, u + 16)
            v0, v1, v2 = load(lanes, v), load(lanes, v + 8), load(lanes, v + 16)
            w0, w1, w2 = load(lanes, w), load(lanes, w + 8), load(lanes, w + 16)
            for k in range(lower * (j // 8 if symmetric == 1 else i), m):
                down, across = a + k * r + i * 8, b + k * r + j
                here, next_one, last = load(lanes, across), load(lanes, across + 8), load(lanes, across + 16)
                own = load(lanes, down)
                u0, u1, u2 = u0 - own * here, u1 - own * next_one, u2 - own * last
                own = load(lanes, down + 8)
                v0, v1, v2 = v0 - own * here, v1 - own * next_one, v2 - own * last
                own = load(lanes, down + 16)
                w0, w1, w2 = w0 - own * here, w1 - own * next_one, w2 - own * last
            store_three(lanes, u, u0, u1, u2)
            store_three(lanes, v, v0, v1, v2)
            store_three(lanes, w, w0, w1, w2)
    if symmetric == 1:
        for i in range(m):
            for j in range(i + 1, m):
                store(lanes, t + j * r + i * 8, load(lanes, t + i * r + j * 8))


@kernel
def predict(lanes, n):
    """P <- softmax of Z [n]."""
    z, p = vector(n - 1, Z), vector(n - 1, P)
    top, mass = load(lanes, z), same(0.0)
    for j in range(1, n):
        top = most(top, load(lanes, z + j * 8))
    for j in range(n):
        e = exps(load(lanes, z + j * 8) - top)
        store(lanes, p + j * 8, e)
        mass = mass + e
    scale = 1.0 / mass
    for j in range(n):
        store(lanes, p + j * 8, load(lanes, p + j * 8) * scale)


@kernel
def curvatures(lanes, n, bound):
    """CURVATURE <- `theory.widths.lower_curvature` of `local_sets.largest_span`, bound = B_p ||x||."""
    m = n - 1
    r, scalars = (m + 2) * 8, vector(m, SCALARS)
    rho2 = load(lanes, scalars + RHO2 * 8)
    size = root(largest_reach(lanes, m, matrix(m, C), r, 8, vector(m, Z), bound, rho2))
    safe = most(size, same(0.5))
    far = (exps(safe * -1.0) - 1.0 + safe) / (safe * safe)
    store(lanes, scalars + CURVATURE * 8, either(size, same(0.5), series(size * -1.0), far))


@kernel
def ratios(lanes, n):
    """RATIO <- phat(y)/p(y) of the unscented mixture: weight 1/n at z, 1/(2n) at each z +- sqrt(n) F' e_i, F'F = C, the
    last outcome being the reference; F is in ROOT, HIT says where y is. Logits that move by more than 700 are taken to
    move by that: phat stays a distribution."""
    m = n - 1
    f, r, p, hit, scalars = matrix(m, ROOT), (m + 2) * 8, vector(m, P), vector(m, HIT), vector(m, SCALARS)
    sums, still, spread = same(0.0), load(lanes, p + m * 8), math.sqrt(float(n))
    for i in range(m):  # of every sigma point: the outcomes from i on, which it moves
        high, low, above, below = still, still, same(1.0), same(1.0)
        for j in range(i, m):
            e = exps(load(lanes, f + i * r + j * 8) * spread)
            back, own, mark = 1.0 / e, load(lanes, p + j * 8), load(lanes, hit + j * 8)
            high = high + own * e
            low = low + own * back
            above = either(same(0.5), mark, e, above)
            below = either(same(0.5), mark, back, below)
        sums = sums + above / high + below / low
        still = still + load(lanes, p + i * 8)
    store(lanes, scalars + RATIO * 8, (sums * 0.5 + 1.0) * (1.0 / n))


@kernel
def factors(lanes, m, into, mixture):
    """BASE <- F, F'F = I + L'C L, and mixture=1: ROOT <- F, F'F = C. From C, P and CURVATURE c: D += D_t =
    2 c (diag p - pp') = L L', LC <- L'C, matrix `into` <- L'. Column j of L: TOPS_j at j, HEADS_j p_i at i < j."""
    c, lc, v, base, r = matrix(m, C), matrix(m, LC), matrix(m, into), matrix(m, BASE), (m + 2) * 8
    p, tops, heads, at = vector(m, P), vector(m, TOPS), vector(m, HEADS), hessian(m)
    twice, mass = load(lanes, vector(m, SCALARS) + CURVATURE * 8) * 2.0, load(lanes, p + m * 8)
    before = 1.0 / mass
    for j in range(0, m * 8, 8):
        own, less = load(lanes, p + j), mass
        mass = mass + own
        after = 1.0 / mass
        top = root(less * after * (twice * own))
        store(lanes, tops + j, top)
        store(lanes, heads + j, top * before * -1.0)
        before = after
    for j in range(0, m * 8, 8):
        weight = twice * load(lanes, p + j)
        store(lanes, at, load(lanes, at) + weight)
        for k in range(j, m * 8, 8):
            store(lanes, at, load(lanes, at) - weight * load(lanes, p + k))
            at += 8
    for k in range(0, m * 8, 8):
        earlier = same(0.0)
        for t in range(m):
            row = load(lanes, c + t * r + k)
            store(lanes, lc + t * r + k, row * load(lanes, tops + t * 8) + earlier * load(lanes, heads + t * 8))
            earlier = earlier + row * load(lanes, p + t * 8)
    for t in range(m):
        earlier, head, made = same(0.0), load(lanes, heads + t * 8), same(0.0)
        for k in range(t + 1):
            row = load(lanes, lc + t * r + k * 8)
            made = row * load(lanes, tops + k * 8) + earlier * load(lanes, heads + k * 8)
            store(lanes, base + k * r + t * 8, made)
            earlier = earlier + row * load(lanes, p + k * 8)
        store(lanes, base + t * r + t * 8, made + 1.0)
        for k in range(t):
            store(lanes, v + t * r + k * 8, head * load(lanes, p + k * 8))
        store(lanes, v + t * r + t * 8, load(lanes, tops + t * 8))
        for k in range(t + 1, rows(t + 1)):
            store(lanes, v + t * r + k * 8, same(0.0))
    root_of_c(lanes, m, 1, mixture)


@inlined
def root_of_c(lanes, m, base, mixture):
    """`roots`, the second with a ridge that is nothing beside the trace."""
    c, r, trace = matrix(m, C), (m + 2) * 8, same(0.0)
    for i in range(m):
        trace = trace + load(lanes, c + i * (r + 8))
    store(lanes, vector(m, SCALARS) + RIDGE * 8, trace * 1e-12 + 1e-290)
    smallest = roots(lanes, m, base, mixture)
    if mixture == 1 and not (smallest > 0.0 and total(trace) >= 0.0):
        raise ValueError("a Gram matrix is no longer positive definite: a context or a bound is out of range")


@inlined
def image(lanes, m, which, turned, lower, source, target):
    """Vector `target` <- matrix times vector `source`; turned=1: the transpose; lower=1: the matrix is a lower
    triangle."""
    a, r, x, y = matrix(m, which), (m + 2) * 8, vector(m, source), vector(m, target)
    down, across = (8, r) if turned == 1 else (r, 8)
    for i in range(0, m, 3):
        u, v, w = same(0.0), same(0.0), same(0.0)
        for k in range(i if lower == 1 and turned == 1 else 0, min(i + 3, m) if lower == 1 and turned == 0 else m):
            own, at = load(lanes, x + k * 8), a + i * down + k * across
            u = u + own * load(lanes, at)
            v = v + own * load(lanes, at + down)
            w = w + own * load(lanes, at + 2 * down)
        store_three(lanes, y + i * 8, u, v, w)


@kernel
def shifts(lanes, m, visits):
    """RIGHT is a. SHIFT <- C a - C G_t C a, the C a after the visit; FORM <- a' times that; Z -= SHIFT;
    MOVED += R (a - G_t C a), R = I at the first visit."""
    right, both, shift, moved = vector(m, RIGHT), vector(m, BOTH), vector(m, SHIFT), vector(m, MOVED)
    z, form = vector(m, Z), same(0.0)
    own = FIRST if visits == 0 else V
    image(lanes, m, C, 0, 0, RIGHT, SHIFT)
    image(lanes, m, own, 0, 1, SHIFT, TOPS)
    image(lanes, m, own, 1, 1, TOPS, BOTH)
    for j in range(0, m * 8, 8):
        store(lanes, both + j, load(lanes, right + j) - load(lanes, both + j))
    image(lanes, m, C, 0, 0, BOTH, SHIFT)
    for j in range(0, m * 8, 8):
        here = load(lanes, shift + j)
        form = form + here * load(lanes, right + j)
        store(lanes, z + j, load(lanes, z + j) - here)
    store(lanes, vector(m, SCALARS) + FORM * 8, form)
    if visits > 0:
        image(lanes, m, R, 0, 0, BOTH, SHIFT)
        both = shift
    for j in range(0, m * 8, 8):
        store(lanes, moved + j, load(lanes, moved + j) + load(lanes, both + j))


@kernel
def settle(lanes, m, visits):
    """C, R and GAIN after the visit before, number `visits`; they are needed only if there is another."""
    lc, u, r = matrix(m, LC), matrix(m, U), (m + 2) * 8
    for i in range(m):
        for j in range(0, m * 8, 8):
            store(lanes, u + i * r + j, load(lanes, lc + i * r + j))
    solve(lanes, m, U, 0)
    subtract(lanes, m, U, U, C, 1, 0)
    if visits == 1:
        at, gain = matrix(m, R), matrix(m, GAIN)
        for i in range(m):
            for j in range(m):
                store(lanes, at + i * r + j * 8, same(1.0 if i == j else 0.0))
                store(lanes, gain + i * r + j * 8, same(0.0))
        subtract(lanes, m, FIRST, U, R, 0, 1)
        subtract(lanes, m, FIRST, FIRST, GAIN, 1, 1)
    else:
        subtract(lanes, m, VR, U, R, 0, 0)


@kernel
def add_gain(lanes, m):
    """After the first visit: VR <- V R', GAIN -= R G_t R'."""
    at, v, r, turned = matrix(m, VR), matrix(m, V), (m + 2) * 8, matrix(m, R)
    for i in range(m):
        for j in range(0, m, 3):
            own, across = v + i * r, turned + j * r
            x, y, z = same(0.0), same(0.0), same(0.0)
            for k in range(0, (i + 1) * 8, 8):
                here = load(lanes, own + k)
                x = x + here * load(lanes, across + k)
                y = y + here * load(lanes, across + r + k)
                z = z + here * load(lanes, across + 2 * r + k)
            store_three(lanes, at + i * r + j * 8, x, y, z)
    subtract(lanes, m, VR, VR, GAIN, 1, 0)


@kernel
def learn_lanes(lanes, n, visits, bound, mixture, what):
    """One outcome, HIT, of every pair whose lane is ACTIVE, number `visits` of the episode, from 0; RHO2 is the squared
    radius, bound = B_p ||x||.

    what: SET; POSTERIOR, c = 1/2; or MIXTURE: RATIO from C and P, nothing else. mixture=0: not the ratio."""
    m = n - 1
    if what == MIXTURE:
        root_of_c(lanes, m, 0, 1)
        ratios(lanes, n)
        return
    if visits > 0:
        settle(lanes, m, visits)
    predict(lanes, n)
    scalars, p, hit, right = vector(m, SCALARS), vector(m, P), vector(m, HIT), vector(m, RIGHT)
    active, curvature = load(lanes, scalars + ACTIVE * 8), scalars + CURVATURE * 8
    if what == SET:
        curvatures(lanes, n, bound)
        store(lanes, curvature, load(lanes, curvature) * active)
    else:
        store(lanes, curvature, active * 0.5)
    mixture, own = mixture if what == SET else 0, FIRST if visits == 0 else V
    factors(lanes, m, own, mixture)
    if mixture == 1:
        ratios(lanes, n)
    for j in range(0, m * 8, 8):
        store(lanes, right + j, (load(lanes, p + j) - load(lanes, hit + j)) * active)
    solve(lanes, m, own, 1)  # G_t = V'V
    if visits > 0:
        add_gain(lanes, m)
    shifts(lanes, m, visits)


apply_lanes = caller()
