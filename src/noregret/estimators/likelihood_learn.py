"""How the online likelihood-ratio set (`estimators.likelihood_ratio`) learns the visits of one pair in one episode.

All steps of an episode share x, so a pair is opened, visited among its m = n - 1 predictions and closed. Predictions
are taken relative to the last outcome (it is the reference; the set lies in rows that sum to 0, so nothing is lost),
Sigma [md, md] is the inverse precision in those coordinates, index (row j, column b) -> j d + b, and X = I (x) x:

    open    K = Sigma X [md, m],  C = X' Sigma X [m, m],  R = I,  G = 0,  D = 0,  moved = 0
    visit   D_t = 2 c (diag p - pp') = L L',   G_t = L (I + L'C L)^-1 L':
            G <- G + R G_t R',   R <- R - R G_t C,   C <- C - C G_t C;      D <- D + D_t
            and with a = p - e_y:   z <- z - C a,   moved <- moved + R a,   rho2 <- rho2 + a'C a - 2 ln(phat(y)/p(y))
    close   Sigma <- Sigma - K G K',   vec W <- vec W - K moved,   precision <- precision + D (x) xx'

K R and C are Sigma X and X' Sigma X as they would be after every visit (Sherman, Morrison and Woodbury), so all numbers
are those of learning step by step. The factor of diag p - pp' over the first m outcomes is known: with
tail_j = p_j + ... + p_n, its column j is l_j = sqrt(p_j/tail_j) (sqrt(tail_{j+1}) e_j - sum_{i>j} p_i/sqrt(tail_{j+1})
e_i), so that products with it are running sums.

Sigma is symmetric and one half is kept: row (j, b) from column j d on, rounded down to a multiple of eight, to m d,
rounded up; rows follow each other. What rounding adds is right too, or beyond the end.

Cost: m (md)^2/2 multiplications for a pair and an episode, O(m^3) a visit.
"""

import math

from .._eight import dots, either, exps, highest, least, load, most, same, store, total
from .._jit import caller, inlined, kernel
from .._linear_algebra import apply_refresh
from .._tiles import add_product, add_products, add_wide_products, set_product, set_products, set_wide_product
from ..local_sets import largest_span, log_softmax
from ..theory.widths import lower_curvature

PLUG_IN, UNSCENTED, GIVEN = 0, 1, 2
REFRESH = 1000  # steps between direct inversions of one pair's precision
WAITING = 16  # episodes of a pair that are added to its precision at once


@inlined
def up(n, to):
    """`padded`, in kernels."""
    return (n + to - 1) // to * to


@inlined
def predictions(weights, x, n, z):
    """z [n] <- W x."""
    for j in range(n):
        v = 0.0
        for b in range(x.shape[0]):
            v += weights[j, b] * x[b]
        z[j] = v


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


@inlined
def open_pair(par, state, work, n, s, a, context):
    """work.z, rows (K'), stack (C), gain (G), hessian (D), moved."""
    d, m, E = context.shape[0], n - 1, par.size
    W = up(m, 8)
    sigma, rows, stack, x = state.covariance[s, a], work.rows, work.stack, work.x
    predictions(state.weights[s, a], context, n, work.z)
    spread_out(context, x)
    lower_rows(sigma, x, m, d, rows, E)
    upper_rows(sigma, x, m, d, rows, E)
    for k in range(m):
        for g in range(0, W, 8):
            store(stack, k * W + g, same(0.0))
            store(work.gain, k * W + g, same(0.0))
            store(work.hessian, k * W + g, same(0.0))
    for g in range(0, W, 8):
        store(work.moved, g, same(0.0))
    for j in range(m):
        pieces(rows, j * E + j * d, m - j, d, x, work.packed, 0)
        mirror(work.packed, stack, j, m, W)
    work.seen[0] = 0


@kernel
def mirror(packed, stack, j, m, W):
    """Row and column j of C from its diagonal on."""
    for k in range(j, m):
        v = packed[k - j]
        stack[j * W + k] = v
        stack[k * W + j] = v


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
        scratch[j], scratch[W + j] = -1e300, 0.0
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


@inlined
def settle(work, m, W):
    """C and R after the visit before, which are needed only if there is another."""
    stack, turn, last, scaled, lower = work.stack, work.turn, work.last, work.scaled, work.lower
    for k in range(0, m, 4):
        for g in range(0, W, 8):
            set_products(scaled, k * W + g, W, stack, k * W, W, 1, last, g, W, m)
    for i in range(m):
        for g in range(0, W, 8):
            store(scaled, i * W + g, load(scaled, i * W + g) * -1.0)
    for k in range(0, m, 4):
        for g in range(0, W, 8):
            set_products(lower, k * W + g, W, scaled, k * W, W, 1, stack, g, W, m)
    for i in range(m):
        for g in range(0, W, 8):
            store(stack, i * W + g, load(stack, i * W + g) + load(lower, i * W + g))
    if work.seen[0] == 1:
        for i in range(m):
            for g in range(0, W, 8):
                store(turn, i * W + g, load(scaled, i * W + g))
            turn[i * W + i] += 1.0
        return
    for k in range(0, m, 4):
        for g in range(0, W, 8):
            set_products(lower, k * W + g, W, scaled, k * W, W, 1, turn, g, W, m)
    for i in range(m):
        for g in range(0, W, 8):
            store(turn, i * W + g, load(turn, i * W + g) + load(lower, i * W + g))


@inlined
def add_gain(work, m, W):
    """-G, so that it can be added later."""
    gain, last, turn, scaled = work.gain, work.last, work.turn, work.scaled
    if work.seen[0] == 0:
        for i in range(m):
            for g in range(0, W, 8):
                store(gain, i * W + g, load(last, i * W + g) * -1.0)
        return
    for k in range(0, m, 4):
        for g in range(0, W, 8):
            set_products(scaled, k * W + g, W, last, k * W, W, 1, turn, g, W, m)
    for i in range(m):
        for g in range(0, W, 8):
            store(scaled, i * W + g, load(scaled, i * W + g) * -1.0)
    for k in range(0, m, 4):
        for g in range(0, W, 8):
            add_products(gain, k * W + g, W, turn, k, 1, W, scaled, g, W, m)


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


@inlined
def visit(par, state, work, n, s, a, y, x, norm):
    """Outcome y of the pair that is open, at the same x; norm = ||x||."""
    m, z, p, stack, both, column = n - 1, work.z, work.p, work.stack, work.both, work.column
    W, last, scaled = up(m, 8), work.last, work.scaled
    if work.seen[0] > 0:
        settle(work, m, W)
    softmax_short(z, n, p)
    rho2, c, gain = state.radius[s, a], 0.5, 0.0
    if par.posterior == 0:
        held = rho2 if rho2 >= 0.0 else 1e300
        c = lower_curvature(math.sqrt(widest(stack, W, held, z, par.weight_bound * norm, n, scaled)))
        if par.predictor == UNSCENTED:
            gain = log_gain(stack, W, p, n, y, scaled, work.powers)
        elif par.predictor == GIVEN:
            gain = math.log(work.given[y]) - math.log(p[y])
    factor_of(p, c, m, W, work.step, column, work.hessian)
    one_gain(stack, work.step, column, p, m, W, work.order, scaled, work.lower, work.upper, both, last)
    add_gain(work, m, W)
    for g in range(0, W, 8):
        store(column, g, load(p, g))
    for j in range(m, W):
        column[j] = 0.0
    if y < m:
        column[y] -= 1.0
    form = shifts(stack, last, column, m, W, both, work.shift)
    for g in range(0, W, 8):
        store(column, g, load(column, g) - load(both, g))
    for g in range(0, W, 8):
        here = load(work.moved, g)
        if work.seen[0] == 0:
            here = here + load(column, g)
        else:
            for j in range(m):  # R is kept transposed
                here = here + load(work.turn, j * W + g) * column[j]
        store(work.moved, g, here)
    for j in range(m):
        z[j] -= work.shift[j]
    state.radius[s, a] = rho2 + form - 2.0 * gain
    state.samples[s, a] += 1
    work.seen[0] += 1


@inlined
def close_pair(par, state, work, n, s, a, context, visits):
    """What the visits, so many, have changed of the pair that is open."""
    d, m, E, J = context.shape[0], n - 1, par.size, par.pairs
    W, rows, turned, column, sigma = up(m, 8), work.rows, work.turned, work.column, state.covariance[s, a]
    weights, gram = state.weights[s, a], state.gram[s, a]
    move(weights, work.moved, rows, n, d, E, column)
    for i in range(0, m, 4):
        for e in range(0, m * d, 8):
            set_products(turned, i * E + e, E, work.gain, i, 1, W, rows, e, E, m)
    update(sigma, turned, rows, m, d, E)
    recent, total_visits = state.recent[s, a], state.samples[s, a]
    slot = int(state.pending[s, a])
    note(work.hessian, context, m, W, J, recent, slot)
    state.pending[s, a] = slot + 1
    if slot + 1 == WAITING:
        add_up(gram, recent, WAITING, m, d, J, work.products)
        state.pending[s, a] = 0
    if total_visits // REFRESH != (total_visits - visits) // REFRESH:
        apply_renew(par.renew, (par, state, work, n, d, s, a))


@kernel
def move(weights, moved, rows, n, d, E, column):
    """vec W -= K moved, centred."""
    m = n - 1
    for e in range(0, m * d, 8):
        set_product(column, e, 0, moved, 0, 0, 1, rows, e, E, m)
    for b in range(d):
        mean = 0.0
        for j in range(m):
            mean += column[j * d + b]
        mean /= n
        for j in range(m):
            weights[j, b] -= column[j * d + b] - mean
        weights[m, b] += mean


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


apply_renew = caller()


@inlined
def kron_visit(par, state, work, n, s, a, y, x, norm):
    """A step of the KRON form, at once: Z <- Z + 2 c min(p) xx'. Over its outcomes C = ||x||^2_{Z^-1} I."""
    d, m, z, p, logp, column = x.shape[0], n - 1, work.z, work.p, work.logp, work.column
    gram, inverse, weights = state.gram[s, a], state.covariance[s, a], state.weights[s, a]
    predictions(weights, x, n, z)
    log_softmax(z, n, logp, p)
    total = 0.0
    for b in range(d):
        v = 0.0
        for e in range(d):
            v += inverse[b * d + e] * x[e]
        column[b] = v
        total += v * x[b]
    rho2, c, gain = state.radius[s, a], 0.5, 0.0
    if par.posterior == 0:
        for j in range(n):  # relative to the last outcome
            for k in range(n):
                work.cov[j, k] = 0.0 if j == m or k == m else 2.0 * total if j == k else total
                if j < m and k < m:
                    work.stack[j * up(m, 8) + k] = work.cov[j, k]
        rho = math.sqrt(rho2) if rho2 >= 0.0 else math.inf
        c = lower_curvature(largest_span(work.cov, rho, z, par.weight_bound * norm, n))
        if par.predictor == UNSCENTED:
            gain = log_gain(work.stack, up(m, 8), p, n, y, work.scaled, work.powers)
        elif par.predictor == GIVEN:
            gain = math.log(work.given[y]) - logp[y]
    least, square = p[0], 0.0
    for j in range(n):
        least = min(least, p[j])
    p[y] -= 1.0
    for j in range(n):
        square += p[j] * p[j]
    kappa = 2.0 * c * least
    shrink = 1.0 / (1.0 + kappa * total)
    for b in range(d):
        for e in range(d):
            inverse[b * d + e] -= kappa * shrink * column[b] * column[e]
            gram[b * d + e] += kappa * x[b] * x[e]
    for j in range(n):
        for b in range(d):
            weights[j, b] -= p[j] * shrink * column[b]
    state.radius[s, a] = rho2 + square * total * shrink - 2.0 * gain
    state.samples[s, a] += 1
    if state.samples[s, a] % REFRESH == 0:
        for b in range(d):
            for e in range(d):
                work.squares[0, b, e] = gram[b * d + e]
        apply_refresh(
            par.refresh, (work.squares[0], work.squares[1], work.logdet, 0.0, work.squares[2], work.column[:d])
        )
        for b in range(d):
            for e in range(d):
                inverse[b * d + e] = work.squares[1, b, e]


@inlined
def likelihood_open(par, state, work, n, s, a, x):
    """Before the outcomes, n of them possible, of pair (s, a) in one episode, at context x."""
    if n > 1 and par.kron == 0:
        open_pair(par, state, work, n, s, a, x)


@inlined
def likelihood_visit(par, state, work, n, s, a, y, x, norm):
    """Learn outcome y of the pair that is open; norm = ||x||."""
    if n == 1:  # nothing to learn
        state.samples[s, a] += 1
    elif par.kron == 1:
        kron_visit(par, state, work, n, s, a, y, x, norm)
    else:
        visit(par, state, work, n, s, a, y, x, norm)


@inlined
def likelihood_close(par, state, work, n, s, a, x, visits):
    """After the outcomes, so many."""
    if n > 1 and par.kron == 0:
        close_pair(par, state, work, n, s, a, x, visits)


@kernel
def likelihood_step(par, state, work, count, s, a, y, x, norm):
    """Learn outcome y of pair (s, a), one of count[0], at context x with norm = ||x||."""
    likelihood_open(par, state, work, count[0], s, a, x)
    likelihood_visit(par, state, work, count[0], s, a, y, x, norm)
    likelihood_close(par, state, work, count[0], s, a, x, 1)
