"""How online likelihood-ratio sets (`estimators.likelihood_ratio`) learn the visits of pairs in one episode.

All steps of an episode share x, so a pair is opened, visited among its m = n - 1 predictions and closed. Pairs know
nothing of each other: up to eight with the same n are open at once, and their visits happen side by side
(`estimators.likelihood_small`). Predictions are taken relative to the last outcome (it is the reference; the set lies
in rows that sum to 0, so nothing is lost), Sigma [md, md] is the inverse precision in those coordinates, index (row j,
column b) -> j d + b, and X = I (x) x:

    open    K = Sigma X [md, m],  C = X' Sigma X [m, m],  R = I,  G = 0,  D = 0,  moved = 0
    visit   D_t = 2 c (diag p - pp') = L L',   G_t = L (I + L'C L)^-1 L':
            G <- G + R G_t R',   R <- R - R G_t C,   C <- C - C G_t C;      D <- D + D_t
            and with a = p - e_y:   z <- z - C a,   moved <- moved + R a,   rho2 <- rho2 + a'C a - 2 ln(phat(y)/p(y))
    close   Sigma <- Sigma - K G K',   vec W <- vec W - K moved,   precision <- precision + D (x) xx'

K R and C are Sigma X and X' Sigma X as they would be after every visit (Sherman, Morrison and Woodbury), so all numbers
are those of learning step by step. An upper triangular factor of diag p - pp' over the first m outcomes is known: with
mass_j = p_n + p_1 + ... + p_j, mass_0 = p_n, its column j is l_j = sqrt(p_j mass_{j-1}/mass_j) (e_j - sum_{i<j}
p_i/mass_{j-1} e_i), so that products with it are running sums. With F'F = I + L'C L, F upper triangular too, V =
F'^-1 L' is a lower triangle and G_t = V'V: after a single visit V K' is all that is needed of G K'.

Half of Sigma is kept, and what queries need of it (`estimators.likelihood_half`).

Cost: m (md)^2/2 multiplications for a pair and an episode, O(m^3) a visit.
"""

import math

from .._eight import load, same, store, turn
from .._jit import caller, inlined, kernel, merged
from .._linear_algebra import REFRESH, apply_refresh, updates_allowed
from .._tiles import set_product, set_square_product
from ..local_sets import largest_span, log_softmax, packed_row
from ..theory.widths import lower_curvature
from .kronecker import logits_at
from .likelihood_half import (
    WAITING,
    add_up,
    apply_renew,
    fold,
    form_at,
    lower_rows,
    note,
    products_of,
    spread_out,
    update,
    upper_rows,
)
from .likelihood_small import (
    ACTIVE,
    FIRST,
    FORM,
    GAIN,
    HIT,
    MIXTURE,
    MOVED,
    NONE,
    POSTERIOR,
    RATIO,
    RHO2,
    SCALARS,
    SET,
    C,
    P,
    Z,
    apply_lanes,
    hessian,
    matrix,
    vector,
)

PLUG_IN, UNSCENTED, GIVEN = 0, 1, 2
RENEWAL = 2048  # step from which on the precision is inverted directly, each time the number of steps has doubled


@inlined
def open_pairs(par, state, work, n, context, known, covariances):
    """work.rows (K') and work.lanes for the first work.used[0] of the pairs in work.who; known=1: `covariances` has
    X' Sigma X of all pairs, as `local_sets.LocalSets.packed`."""
    d, m, E, J, A, used = context.shape[0], n - 1, par.size, par.pairs, state.radius.shape[1], work.used[0]
    lanes, x, packed, row = work.lanes, work.x, work.packed, packed_row(state.weights.shape[2])
    spread_out(context, x)
    products_of(context, work.products)
    for i in range(8):
        work.visits[i] = 0
    for i in range(used, 8):
        for j in range(n):
            lanes[vector(m, Z) + j * 8 + i] = 0.0
        lanes[vector(m, SCALARS) + RHO2 * 8 + i] = 0.0
        for e in range(0, J, 8):
            store(packed, i * (J + 8) + e, same(0.0))
    for i in range(used):
        s, a, rows = work.who[i] // A, work.who[i] % A, work.rows[i]
        sigma, at = state.covariance[s, a], i * (J + 8)
        logits_at(state.weights[s, a], context, n, work.z)
        for j in range(n):
            lanes[vector(m, Z) + j * 8 + i] = work.z[j]
        lower_rows(sigma, x, m, d, rows, E)
        upper_rows(sigma, x, m, d, rows, E)
        if known == 1:
            for e in range(0, m * n // 2, 8):
                store(packed, at + e, load(covariances, work.who[i] * row + e))
        else:
            form_at(state.forms[s, a], work.products, m, d, J, packed, at)
    side_by_side(packed, J, lanes, m)


@kernel
def side_by_side(packed, J, lanes, m):
    """C of all lanes from the covariances packed [8, J + 8]; nothing has been learned yet."""
    c, r, at = matrix(m, C), (m + 2) * 8, hessian(m)
    for e in range(0, m * (m + 1) // 2, 8):
        turn(packed, e, J + 8, lanes, at + e * 8)
    for j in range(m):
        for k in range(j, m):
            v = load(lanes, at)
            store(lanes, c + j * r + k * 8, v)
            store(lanes, c + k * r + j * 8, v)
            at += 8
    for e in range(hessian(m), hessian(m) + m * (m + 1) * 4, 8):
        store(lanes, e, same(0.0))
    for j in range(0, m * 8, 8):
        store(lanes, vector(m, MOVED) + j, same(0.0))
        store(lanes, vector(m, NONE) + j, same(0.0))


@inlined
def visit(par, state, work, n, norm):
    """One outcome work.y of every pair that is open, or -1 for none, at the same x; norm = ||x||."""
    m, lanes, A, before = n - 1, work.lanes, state.radius.shape[1], work.visits[8]
    scalars, p, hit = vector(m, SCALARS), vector(m, P), vector(m, HIT)
    for j in range(0, m * 8, 8):
        store(lanes, hit + j, same(0.0))
    for i in range(8):
        y, rho2 = work.y[i], 0.0
        if y >= 0:
            rho2 = state.radius[work.who[i] // A, work.who[i] % A]
            rho2 = rho2 if rho2 >= 0.0 else 1e300
            if y < m:
                lanes[hit + y * 8 + i] = 1.0
        lanes[scalars + RHO2 * 8 + i], lanes[scalars + ACTIVE * 8 + i] = rho2, 1.0 if y >= 0 else 0.0
    mixture, what = int(par.predictor == UNSCENTED), POSTERIOR if par.posterior == 1 else SET
    apply_lanes(par.learn, (lanes, n, before, par.weight_bound * norm, mixture, what))
    for i in range(8):
        y = work.y[i]
        if y >= 0:
            s, a, gain = work.who[i] // A, work.who[i] % A, 0.0
            if par.predictor == UNSCENTED and par.posterior == 0:
                gain = math.log(lanes[scalars + RATIO * 8 + i])
            elif par.predictor == GIVEN and par.posterior == 0:
                gain = math.log(work.given[y]) - math.log(lanes[p + y * 8 + i])
            state.radius[s, a] += lanes[scalars + FORM * 8 + i] - 2.0 * gain
            state.samples[s, a] += 1
            work.visits[i] += 1
    work.visits[8] = before + 1


@inlined
def close_pairs(par, state, work, n, context):
    """What the visits have changed of the pairs that are open."""
    d, m, E, J, A, lanes = context.shape[0], n - 1, par.size, par.pairs, state.radius.shape[1], work.lanes
    turned = work.turned
    for i in range(work.used[0]):
        s, a, rows = work.who[i] // A, work.who[i] % A, work.rows[i]
        move(state.weights[s, a], lanes, vector(m, MOVED) + i, rows, n, d, E, work.column)
        once = work.visits[i] == 1
        turn_rows(lanes, matrix(m, FIRST if once else GAIN) + i, int(once), rows, m, d, E, turned)
        update(state.covariance[s, a], turned, turned if once else rows, m, d, E)
        fold(state.covariance[s, a], m, d, J, work.places, state.forms[s, a])
        recent, total_visits, slot = state.recent[s, a], state.samples[s, a], int(state.pending[s, a])
        note(lanes, hessian(m) + i, context, m, J, recent, slot)
        state.pending[s, a] = slot + 1
        if slot + 1 == WAITING:
            add_up(state.gram[s, a], recent, WAITING, m, d, J, work.products)
            state.pending[s, a] = 0
        if renewal_due(par, state.gram[s, a], total_visits - work.visits[i], total_visits, m, d) == 1:
            apply_renew(par.renew, (par, state, work, n, d, s, a))


@kernel
def renewal_due(par, gram, before, now, m, d):
    """Whether Sigma of a pair should be made anew, having had `before` visits and now `now`: 1 or 0. Each time their
    number has doubled, and oftener where `updates_allowed` says so, by the trace of the precision without lambda."""
    if now < RENEWAL:
        return 0
    due = RENEWAL
    while due <= before:
        due *= 2
    if due <= now:
        return 1
    trace, t = 0.0, 0
    for b in range(d):
        at = t * par.pairs
        for j in range(m):
            trace += gram[at]
            at += m - j
        t += d - b
    every = updates_allowed(trace, par.regularization, 2 * now)
    return 1 if now // every > before // every else 0


@kernel
def turn_rows(lanes, start, lower, rows, m, d, E, turned):
    """turned <- a matrix times K', whose first entry in its lane is at `start`. lower=1: V, a lower triangle, G = V'V;
    lower=0: -G, and rows <- -K', so that Sigma loses K G K' in `update` either way."""
    across = (m + 2) * 8
    for j in range(0, m, 3):
        e, count = 0, min(j + 3, m) if lower == 1 else m
        while e + 24 <= m * d:
            set_square_product(turned, j * E + e, E, lanes, start + j * across, across, 8, rows, e, E, count)
            e += 24
        while e < m * d:
            for k in range(j, min(j + 3, m)):
                set_product(turned, k * E + e, 0, lanes, start + k * across, 0, 8, rows, e, E, count)
            e += 8
    if lower == 0:
        for j in range(0, m * E, E):
            for e in range(j, j + m * d, 8):
                store(rows, e, load(rows, e) * -1.0)


@kernel
def move(weights, lanes, moved, rows, n, d, E, column):
    """vec W -= K moved, centred; moved is a lane."""
    m = n - 1
    for e in range(0, m * d, 8):
        set_product(column, e, 0, lanes, moved, 0, 8, rows, e, E, m)
    flat, b = merged(weights), 0
    while b + 8 <= d:
        mean = same(0.0)
        for j in range(m):
            mean = mean + load(column, j * d + b)
        mean = mean * (1.0 / n)
        for j in range(m):
            store(flat, j * d + b, load(flat, j * d + b) - load(column, j * d + b) + mean)
        store(flat, m * d + b, load(flat, m * d + b) + mean)
        b += 8
    while b < d:
        one = 0.0
        for j in range(m):
            one += column[j * d + b]
        one /= n
        for j in range(m):
            weights[j, b] -= column[j * d + b] - one
        weights[m, b] += one
        b += 1


@inlined
def one_ratio(par, lanes, cov, p, n, y):
    """phat(y)/p(y) of one pair, relative to the last outcome."""
    m = n - 1
    for j in range(n):
        store(lanes, vector(m, P) + j * 8, same(p[j]))
        store(lanes, vector(m, HIT) + j * 8, same(1.0 if j == y else 0.0))
    for j in range(m):
        for k in range(j, m):
            store(lanes, matrix(m, C) + (j * (m + 2) + k) * 8, same(cov[j, k]))
    apply_lanes(par.learn, (lanes, n, 0, 0.0, 1, MIXTURE))
    return lanes[vector(m, SCALARS) + RATIO * 8]


@kernel
def kron_visit(par, state, work, n, s, a, y, x, norm):
    """A step of the KRON form, at once: Z <- Z + 2 c min(p) xx'. Over its outcomes C = ||x||^2_{Z^-1} I."""
    d, m, z, p, logp, column = x.shape[0], n - 1, work.z, work.p, work.logp, work.column
    gram, inverse, weights = state.gram[s, a], state.covariance[s, a], state.weights[s, a]
    logits_at(weights, x, n, z)
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
        rho = math.sqrt(rho2) if rho2 >= 0.0 else math.inf
        c = lower_curvature(largest_span(work.cov, rho, z, par.weight_bound * norm, n))
        if par.predictor == UNSCENTED:
            gain = math.log(one_ratio(par, work.lanes, work.cov, p, n, y))
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
    trace = 0.0
    for b in range(d):
        trace += gram[b * d + b]
    if state.samples[s, a] % updates_allowed(trace, par.regularization, REFRESH) == 0:
        for b in range(d):
            for e in range(d):
                work.squares[0, b, e] = gram[b * d + e]
        apply_refresh(
            par.refresh, (work.squares[0], work.squares[1], work.logdet, 0.0, work.squares[2], work.column[:d])
        )
        for b in range(d):
            for e in range(d):
                inverse[b * d + e] = work.squares[1, b, e]


@kernel
def likelihood_open(par, state, work, n, x, known, covariances):
    """Before the outcomes, n > 1 of them possible, in one episode, at context x, of the first work.used[0] pairs
    of work.who, s A + a each; known=1: their X' Sigma X are in `covariances`, as `LocalSets.packed`."""
    work.visits[8] = 0
    open_pairs(par, state, work, n, x, known, covariances)


@kernel
def likelihood_visit(par, state, work, n, norm):
    """Learn an outcome work.y of every pair that is open, -1 for none; norm = ||x||."""
    visit(par, state, work, n, norm)


@kernel
def likelihood_close(par, state, work, n, x):
    """After the outcomes."""
    close_pairs(par, state, work, n, x)


together = caller()  # of the three above: they are long, and compiled once for all agents


@inlined
def likelihood_kron(par, state, work, n, s, a, y, x, norm):
    """Learn one outcome of one pair at once, in the KRON form."""
    if n == 1:  # nothing to learn
        state.samples[s, a] += 1
    else:
        together(par.one, (par, state, work, n, s, a, y, x, norm))


@kernel
def likelihood_step(par, state, work, count, s, a, y, x, norm):
    """Learn outcome y of pair (s, a), one of count[0], at context x with norm = ||x||."""
    n = count[0]
    if n == 1 or par.kron == 1:
        likelihood_kron(par, state, work, n, s, a, y, x, norm)
        return
    work.used[0], work.who[0] = 1, s * state.radius.shape[1] + a
    for i in range(8):
        work.y[i] = y if i == 0 else -1
    together(par.open, (par, state, work, n, x, 0, work.packed))
    together(par.visit, (par, state, work, n, norm))
    together(par.close, (par, state, work, n, x))
