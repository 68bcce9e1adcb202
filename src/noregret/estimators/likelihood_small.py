"""Among the m predictions of one pair: small matrices of `estimators.likelihood_learn`, in rows padded to eight."""

import math

from .._eight import either, exps, highest, least, load, most, same, store, total
from .._jit import kernel
from .._tiles import add_products, set_products
from .likelihood_half import up


@kernel
def log_gain(cov, W, p, n, y, rows, e):
    """ln phat(y)/p(y) of the unscented mixture: weight 1/n at z, 1/(2n) at each z +- sqrt(n) F e_i, F the Cholesky
    factor of C, the last outcome being the reference: C = cov, rows of W. rows is scratch as large as cov, e of
    m (m + 3) + 16. Logits that move by more than 700 are taken to move by that: phat stays a distribution."""
    m, trace = n - 1, 0.0
    for i in range(m):
        trace += cov[i * W + i]
        for g in range(0, W, 8):
            store(rows, i * W + g, load(cov, i * W + g))
    shift = 1e-12 * trace + 1e-290
    for i in range(m):
        rows[i * W + i] += shift
    half, at = up(m * n // 2, 8), 0
    for i in range(m):  # of every sigma point: the outcomes from i on, which it moves
        pivot = rows[i * W + i]
        if not pivot > 0.0:
            raise ValueError("a Gram matrix is no longer positive definite: a context or a bound is out of range")
        inverse = -1.0 / pivot
        for r in range(i + 1, m):
            factor = rows[i * W + r] * inverse
            for g in range(i // 8 * 8, W, 8):
                store(rows, r * W + g, load(rows, r * W + g) + load(rows, i * W + g) * factor)
        scale = math.sqrt(n / pivot)
        for j in range(i, m, 8):
            store(e, at + j - i, load(rows, i * W + j) * scale)
        at += m - i
    for i in range(0, at, 8):
        v = load(e, i)
        store(e, half + i, exps(v * -1.0))
        store(e, i, exps(v))
    total, still, at = 0.0, p[m], 0
    for i in range(m):
        up_mass, down_mass = still, still
        for j in range(i, m):
            up_mass += p[j] * e[at + j - i]
            down_mass += p[j] * e[half + at + j - i]
        if i <= y < m:
            total += e[at + y - i] / up_mass + e[half + at + y - i] / down_mass
        else:
            total += 1.0 / up_mass + 1.0 / down_mass
        still += p[i]
        at += m - i
    return math.log((1.0 + 0.5 * total) / n)


@kernel
def softmax_short(z, n, p):
    """p <- softmax of z [n], then zeros; whole groups of eight of both are used."""
    end, found, sums = up(n, 8), same(-math.inf), same(0.0)
    for j in range(n, end):
        z[j] = -math.inf
    for g in range(0, end, 8):
        found = most(found, load(z, g))
    top = highest(found)
    for g in range(0, end, 8):
        store(p, g, exps(load(z, g) - top))
    for j in range(n, end):
        p[j] = 0.0
    for g in range(0, end, 8):
        sums = sums + load(p, g)
    scale = 1.0 / total(sums)
    for g in range(0, end, 8):
        store(p, g, load(p, g) * scale)


@kernel
def widest(stack, W, rho2, z, bound, n, scratch):
    """The square of `local_sets.largest_span` of C, rows of W; scratch: 2 W numbers."""
    m, last, largest, found = n - 1, z[n - 1], 0.0, same(0.0)
    for j in range(m):
        scratch[j], scratch[W + j] = stack[j * W + j], z[j]
    for j in range(m, W):
        scratch[j], scratch[W + j] = -1e200, 0.0  # times rho2 it is a number still
    for j in range(m):
        own, centre = stack[j * W + j], z[j]
        reach = bound + abs(centre - last)
        largest = max(largest, min(rho2 * own, reach * reach))
        for g in range(j // 8 * 8, W, 8):
            gap = load(scratch, W + g) - centre
            room = most(gap, gap * -1.0) + 2.0 * bound
            far = (load(scratch, g) - load(stack, j * W + g) * 2.0 + own) * rho2
            found = most(found, least(far, room * room))
    return max(largest, highest(found))


@kernel
def factor_of(p, c, m, W, tops, heads, hessian):
    """tops, heads <- L_jj and what p_i is multiplied with in L_ij, i > j; hessian [m, W] += 2 c (diag p - pp')."""
    tail = p[m]
    for j in range(m - 1, -1, -1):
        heads[j] = tail
        tail += p[j]
        tops[j] = tail
    for j in range(m):
        head, after = math.sqrt(2.0 * c * p[j] / tops[j]), math.sqrt(heads[j])
        tops[j], heads[j] = head * after, -head / after
    for j in range(m):
        weight = 2.0 * c * p[j]
        for g in range(0, W, 8):
            store(hessian, j * W + g, load(hessian, j * W + g) - load(p, g) * weight)
        hessian[j * W + j] += weight


@kernel
def one_gain(C, tops, heads, p, m, W, order, first, lower, upper, factors, out):
    """out <- L (I + L'C L)^-1 L' for a symmetric C, all rows of W; order: 0, 1, 2, ...; the four before out are
    scratch. Numbers that were just written one by one are slow to load as eight, so none are."""
    for g in range(0, W, 8):
        place, across, tall, high = load(order, g), load(p, g), load(tops, g), load(heads, g)
        later = same(0.0)
        for t in range(m - 1, -1, -1):  # L'C, L, L' and I
            row, k, none = load(C, t * W + g), float(t), same(0.0)
            store(out, t * W + g, row * tops[t] + later * heads[t])
            later = later + row * p[t]
            here, there = same(k), same(k + 0.5)
            store(lower, t * W + g, either(place, here, high * p[t], either(place, there, tall, none)))
            store(upper, t * W + g, either(place, here, none, either(place, there, tall, across * heads[t])))
            store(first, t * W + g, either(place, here, none, either(place, there, same(1.0), none)))
    for t in range(0, m, 4):
        for g in range(0, W, 8):
            add_products(first, t * W + g, W, out, t * W, W, 1, lower, g, W, m)
    for i in range(m):
        inverse, k = 1.0 / first[i * W + i], float(i)
        for r in range(m):
            factors[r] = -first[r * W + i]
        for g in range(0, W, 8):
            place = load(order, g)
            mark = either(place, same(k), same(1.0), either(place, same(k + 0.5), same(-1.0), same(1.0)))
            row = either(mark, same(0.0), same(1.0), load(first, i * W + g)) * inverse
            for r in range(i):
                store(first, r * W + g, either(mark, same(0.0), same(0.0), load(first, r * W + g)) + row * factors[r])
            store(first, i * W + g, row)
            for r in range(i + 1, m):
                store(first, r * W + g, either(mark, same(0.0), same(0.0), load(first, r * W + g)) + row * factors[r])
    for t in range(0, m, 4):
        for g in range(0, W, 8):
            set_products(lower, t * W + g, W, first, t * W, W, 1, upper, g, W, m)
    for g in range(0, W, 8):
        earlier = same(0.0)
        for j in range(m):
            row = load(lower, j * W + g)
            store(out, j * W + g, row * tops[j] + earlier * p[j])
            earlier = earlier + row * heads[j]


@kernel
def shifts(stack, last, column, m, W, both, shift):
    """both <- G C a, shift <- C a - C G C a, the C a after the visit; column is a. Returns a' times that."""
    form = same(0.0)
    for g in range(0, W, 8):
        here = same(0.0)
        for j in range(m):
            here = here + load(stack, j * W + g) * column[j]
        store(shift, g, here)
    for g in range(0, W, 8):
        here = same(0.0)
        for j in range(m):
            here = here + load(last, j * W + g) * shift[j]
        store(both, g, here)
    for g in range(0, W, 8):
        here = load(shift, g)
        for j in range(m):
            here = here - load(stack, j * W + g) * both[j]
        store(shift, g, here)
        form = form + here * load(column, g)
    return total(form)


@kernel
def mirror(packed, stack, j, m, W):
    """Row and column j of C from its diagonal on."""
    for k in range(j, m):
        v = packed[k - j]
        stack[j * W + k] = v
        stack[k * W + j] = v
