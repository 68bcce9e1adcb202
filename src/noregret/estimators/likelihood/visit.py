"""How online likelihood-ratio sets (`estimators.likelihood.sets`) learn the outcomes of an episode (docs/beyond.md,
section 2, step by step; docs/notebook.md, "LR-ORL with online sets", among predictions).

All steps of an episode share x, and pairs know nothing of each other. So a pair is opened, visited among its m = n - 1
predictions relative to the last outcome as often as the episode met it, and closed:

    open    K = X' Sigma,  C = X' Sigma X,  R = I,  G = D = 0,  moved = 0
    close   Sigma <- Sigma - K' G K,   vec W <- vec W - K' moved,   Lambda <- Lambda + D (x) xx'

A visit that predicts p and sees y is

    D_t = 2 c (diag p - pp') = L L',     G_t = (D_t^-1 + C)^-1 = V'V,   V = F^-1 L',   F F' = I + L'C L
    G <- G + R G_t R',   R <- R - R G_t C,   C <- C - C G_t C,   D <- D + D_t
    z <- z - C a,   moved <- moved + R a,   rho2 <- rho2 + a'C a - 2 ln(phat(y)/p(y)),        a = p - e_y

with c = g(r) for a set, r the largest span that its logits can have at x (`beliefs.local.largest_span`) and g(r) =
(e^-r + r - 1)/r^2 (`theory.widths.lower_curvature`), and c = 1/2 for a posterior. In the last line C and R are the new
ones. So R'K and C are X' Sigma and X' Sigma X as they would be after the visit (Sherman, Morrison and Woodbury), and
after the episode Sigma has lost K'G K, vec(W) K'moved, and Lambda has won D (x) xx'. Most pairs are met once in an
episode, so C and R wait for the next visit (`bring_up`): what is needed of them before are two vectors (`move`).

L is an upper triangle that is known: with mass_j = p_n + p_1 + ... + p_j and mass_0 = p_n, its column j is top_j e_j +
head_j sum_{i<j} p_i e_i, top_j = sqrt(2 c p_j mass_{j-1}/mass_j), head_j = -top_j/mass_{j-1}, so that products with it
are running sums. Matrices are [M, M] scratch, of which [m, m] is used.

All numbers are those of learning step by step. Cost: m (md)^2 multiplications for a pair and an episode, O(m^3) a
visit. Rounding adds up in Sigma, so now and then it is made anew from Lambda (`renewal_due`). The KRON form learns step
by step (`estimators.likelihood.kron`).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...beliefs.local import largest_span, softmax
from ...checks import Floats
from ...compiler.jit import kernel
from ...numerics.linear_algebra import cholesky, norm_of, updates_allowed, weighted_rows
from ...problem.layout import slot_of
from ...problem.links import exp
from ...theory.widths import lower_curvature
from .precision import (
    add_outer,
    invert_precision,
    logits_at,
    products_of,
    rows_at,
    subtract,
    trace_of,
    unpack,
)

PLUG_IN, UNSCENTED, GIVEN = 0, 1, 2
LEAST = 1e-300  # of a probability, as far as its logarithm goes
RENEWAL = 2048  # visit from which on the precision is inverted directly, each time the number of visits has doubled


class VisitWork(NamedTuple):
    z: Floats  # [M]
    p: Floats  # [M]
    a: Floats  # [M], p - e_y
    b: Floats  # [M], a - G_t C a
    Ca: Floats  # [M]
    top: Floats  # [M], of L
    head: Floats  # [M]
    sums: Floats  # [M], running
    moved: Floats  # [M]
    given: Floats  # [M], the user's prediction
    D: Floats  # [J], packed: first the diagonal, then for j < k
    points: Floats  # [J], how far sigma points move the logits
    C: Floats  # [M, M], as it was before the last visit (`bring_up` makes good for it); zeros for the last outcome
    R: Floats  # [M, M], likewise
    G: Floats  # [M, M]
    LC: Floats  # [M, M], L'C
    F: Floats  # [M, M], a lower triangle
    V: Floats  # [M, M], of the last visit: a lower triangle, zeros above
    CV: Floats  # [M, M], C V'
    RV: Floats  # [M, M], R V', of the last visit
    visits: NDArray[np.int64]  # [1], so far
    loss: Floats  # [1], -ln phat(y) of the last visit


def visit_work(M: int) -> VisitWork:
    f, J = np.zeros, M * (M - 1) // 2
    arrays = [f(M) for _ in range(10)] + [f(J), f(J)] + [f((M, M)) for _ in range(8)]
    return VisitWork._make([*arrays, np.zeros(1, np.int64), f(1)])


@kernel
def begin(w, m):
    """Nothing has been visited yet."""
    w.visits[0] = 0
    for i in range(m * (m + 1) // 2):
        w.D[i] = 0.0
    for j in range(m):
        w.moved[j] = 0.0
        for k in range(m):
            w.G[j, k] = 0.0
            w.R[j, k] = 0.0
        w.R[j, j] = 1.0


@kernel
def add_rows_product(A, B, scale, m, out):
    """out [m, m] <- out + scale A B': rows times rows."""
    for i in range(m):
        for j in range(m):
            total = 0.0
            for k in range(m):
                total += A[i, k] * B[j, k]
            out[i, j] += scale * total


@kernel
def set_rows_product(A, B, m, out):
    """out [m, m] <- A B'."""
    for i in range(m):
        for j in range(m):
            total = 0.0
            for k in range(m):
                total += A[i, k] * B[j, k]
            out[i, j] = total


@kernel
def unscented_ratio(w, n, y):
    """phat(y)/p(y), phat the mean of the softmax over 2n - 1 points of N(z, C), z_n known: weight 1/n at z, 1/(2n) at
    each z +- sqrt(n) F e_i, F F' = C, so point i moves the outcomes from i on. Logits that move by more than 700 are
    taken to move by that: phat stays a distribution."""
    m, C, p, F, points = n - 1, w.C, w.p, w.F, w.points
    trace, sums, still, step, at = 0.0, 0.0, p[n - 1], math.sqrt(float(n)), 0
    for j in range(m):
        trace += C[j, j]
    cholesky(C[:m, :m], 1e-12 * trace + 1e-290, F[:m, :m])
    for i in range(m):
        for j in range(i, m):
            points[at] = step * F[j, i]
            at += 1
    for i in range(m * n // 2):
        points[i] = exp(points[i])
    at = 0
    for i in range(m):
        high, low, above, below = still, still, 1.0, 1.0
        for j in range(i, m):
            up, down = points[at], 1.0 / points[at]
            high += p[j] * up
            low += p[j] * down
            above, below = (up, down) if j == y else (above, below)
            at += 1
        sums += above / high + below / low
        still += p[i]
    return (1.0 + 0.5 * sums) / n


@kernel
def gain_root(w, c, m):
    """w.V <- V, from w.C and w.p; the factors of L, w.LC and w.F on the way."""
    p, top, head, sums, C, LC, F, V = w.p, w.top, w.head, w.sums, w.C, w.LC, w.F, w.V
    mass = p[m]
    for j in range(m):
        before = mass
        mass += p[j]
        top[j] = math.sqrt(2.0 * c * p[j] * (before / mass))
        head[j] = -top[j] / before
        sums[j] = 0.0
    for j in range(m):
        for k in range(m):
            LC[j, k] = top[j] * C[j, k] + head[j] * sums[k]
            sums[k] += p[j] * C[j, k]
    for i in range(m):  # I + L'C L, its lower half
        total = 0.0
        for j in range(i + 1):
            F[i, j] = top[j] * LC[i, j] + head[j] * total
            total += p[j] * LC[i, j]
    cholesky(F[:m, :m], 1.0, F[:m, :m])
    for i in range(m):  # F V = L', from the first row on
        for j in range(i):
            V[i, j] = head[i] * p[j]
        V[i, i] = top[i]
        for k in range(i):
            v = F[i, k]
            for j in range(i):
                V[i, j] -= v * V[k, j]
        scale = 1.0 / F[i, i]
        for j in range(i + 1):
            V[i, j] *= scale


@kernel
def bring_up(w, m):
    """C and R after the visit before."""
    set_rows_product(w.C, w.V, m, w.CV)
    add_rows_product(w.RV, w.CV, -1.0, m, w.R)
    add_rows_product(w.CV, w.CV, -1.0, m, w.C)


@kernel
def move(w, m):
    """z and moved after the visit, from C and R before it: (C - C G_t C) a = C b and (R - R G_t C) a = R b with b = a -
    G_t C a. Returns a'C b."""
    a, b, Ca, C, V, form = w.a, w.b, w.Ca, w.C, w.V, 0.0
    for j in range(m):
        v = 0.0
        for k in range(m):
            v += C[j, k] * a[k]
        Ca[j], b[j] = v, a[j]
    for j in range(m):
        v = 0.0
        for k in range(m):
            v += V[j, k] * Ca[k]
        for k in range(m):
            b[k] -= v * V[j, k]
    for j in range(m):
        u, v = 0.0, 0.0
        for k in range(m):
            u += w.R[j, k] * b[k]
            v += C[j, k] * b[k]
        w.moved[j] += u
        w.z[j] -= v
        form += a[j] * v
    return form


@kernel
def add_curvature(p, c, m, D):
    """D [J] += 2 c (diag p - pp'), first the diagonal, then for j < k."""
    at = m
    for j in range(m):
        v = 2.0 * c * p[j]
        D[j] += v - v * p[j]
        for k in range(j + 1, m):
            D[at] -= v * p[k]
            at += 1


@kernel
def visit(par, w, n, y, rho2, bound):
    """Learn outcome y of the pair with n outcomes that w is about; bound = B_p ||x||. Returns what rho2 wins.

    par.posterior = 1: c = 1/2, the online Laplace approximation, whose phat is p."""
    m, z, p = n - 1, w.z, w.p
    if w.visits[0] > 0:
        bring_up(w, m)
    softmax(z, n, p)
    c, gain = 0.5, 0.0
    if par.posterior == 0:
        rho = math.sqrt(rho2) if rho2 >= 0.0 else math.inf
        c = lower_curvature(largest_span(w.C, rho, z, bound, n))
        if par.predictor == UNSCENTED:
            gain = math.log(unscented_ratio(w, n, y))
        elif par.predictor == GIVEN:
            gain = math.log(w.given[y]) - math.log(p[y])
    gain_root(w, c, m)
    if w.visits[0] > 0:
        set_rows_product(w.R, w.V, m, w.RV)
    else:  # R = I
        for j in range(m):
            for k in range(m):
                w.RV[j, k] = w.V[k, j]
    add_rows_product(w.RV, w.RV, 1.0, m, w.G)
    add_curvature(p, c, m, w.D)
    for j in range(m):
        w.a[j] = p[j] - (1.0 if j == y else 0.0)
    w.visits[0] += 1
    w.loss[0] = -math.log(max(p[y], LEAST)) - gain
    return move(w, m) - 2.0 * gain


# An episode ---------------------------------------------------------------------------------------------------------
@kernel
def open_pair(state, work, s, a, x):
    """Before the outcomes of pair (s, a) at x."""
    n = state.outcomes[s, a]
    logits_at(state.weights[s, a], x, n, work.visit.z)
    products_of(x, work.products)
    rows_at(state.forms[s, a], state.turns[s, a], x, n - 1, work.even, work.odd, work.K)
    weighted_rows(x, work.even, x.shape[0], n * (n - 1) // 2, work.packed)
    unpack(work.packed, n, work.visit.C)
    begin(work.visit, n - 1)


@kernel
def close_pair(par, state, work, s, a, x, visits):
    """After so many."""
    n, d, gram, forms, turns = state.outcomes[s, a], x.shape[0], state.gram[s, a], state.forms[s, a], state.turns[s, a]
    m, w = n - 1, work.visit
    move_weights(state.weights[s, a], work.K, w.moved, n, d, work.column)
    add_outer(gram, w.D, work.products, m * n // 2)
    lam = state.prior[s, a]
    if renewal_due(gram, lam, m, d, state.samples[s, a] - visits, state.samples[s, a]):
        invert_precision(gram, lam, m, d, work, forms, turns)
    else:
        subtract(forms, turns, work.K, w.G, m, d, work)


@kernel
def move_weights(weights, K, moved, n, d, column):
    """vec W -= K' moved, centred."""
    m = n - 1
    weighted_rows(moved, K, m, m * d, column)
    for b in range(d):
        mean = 0.0
        for j in range(m):
            mean += column[b * m + j]
        mean /= n
        for j in range(m):
            weights[j, b] -= column[b * m + j] - mean
        weights[m, b] += mean


@kernel
def renewal_due(gram, lam, m, d, before, now):
    """Whether Sigma of a pair should be made anew, having had `before` visits and now `now`: each time their number has
    doubled, and oftener where `updates_allowed` says so, by the trace of the precision without its start."""
    if now < RENEWAL:
        return False
    due = RENEWAL
    while due <= before:
        due *= 2
    every = updates_allowed(trace_of(gram, m, d), lam, 2 * now)
    return due <= now or now // every > before // every


@kernel
def learn_outcome(par, state, work, s, a, y, x):
    """Learn outcome y of pair (s, a) at x."""
    n = state.outcomes[s, a]
    if n == 1:  # nothing to learn
        state.samples[s, a] += 1
    else:
        open_pair(state, work, s, a, x)
        state.radius[s, a] += visit(par, work.visit, n, y, state.radius[s, a], par.weight_bound * norm_of(x))
        state.loss[s, a] += work.visit.loss[0]
        state.samples[s, a] += 1
        close_pair(par, state, work, s, a, x, 1)


@kernel
def learn_outcomes(layout, par, state, work, x, steps, path):
    """Learn all outcomes of an episode of so many steps."""
    bound, states, actions = par.weight_bound * norm_of(x), path.states, path.actions
    for h in range(steps):
        s, a = states[h], actions[h]
        n, first = state.outcomes[s, a], True
        if n == 1:
            state.samples[s, a] += 1
        else:
            for i in range(h):
                first = first and not (states[i] == s and actions[i] == a)
            if first:
                open_pair(state, work, s, a, x)
                visits = 0
                for i in range(h, steps):
                    if states[i] == s and actions[i] == a:
                        y = slot_of(layout, s, a, states[i + 1])
                        state.radius[s, a] += visit(par, work.visit, n, y, state.radius[s, a], bound)
                        state.loss[s, a] += work.visit.loss[0]
                        visits += 1
                state.samples[s, a] += visits
                close_pair(par, state, work, s, a, x, visits)
