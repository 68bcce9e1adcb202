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

Half of Sigma is kept (`estimators.likelihood_half`).

Cost: m (md)^2/2 multiplications for a pair and an episode, O(m^3) a visit.
"""

import math

from .._eight import load, same, store
from .._jit import inlined, kernel
from .._linear_algebra import apply_refresh
from .._tiles import add_products, set_product, set_products
from ..local_sets import largest_span, log_softmax
from ..theory.widths import lower_curvature
from .kronecker import logits_at
from .likelihood_half import (
    WAITING,
    add_up,
    apply_renew,
    lower_rows,
    note,
    pieces,
    spread_out,
    up,
    update,
    upper_rows,
)
from .likelihood_small import factor_of, log_gain, mirror, one_gain, shifts, softmax_short, widest

PLUG_IN, UNSCENTED, GIVEN = 0, 1, 2
REFRESH = 1000  # steps between direct inversions of one pair's precision


@inlined
def open_pair(par, state, work, n, s, a, context):
    """work.z, rows (K'), stack (C), gain (G), hessian (D), moved."""
    d, m, E = context.shape[0], n - 1, par.size
    W = up(m, 8)
    sigma, rows, stack, x = state.covariance[s, a], work.rows, work.stack, work.x
    logits_at(state.weights[s, a], context, n, work.z)
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


@inlined
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
