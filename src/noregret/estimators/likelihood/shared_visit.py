"""How the set of a block learns: one visit of one of its pairs (`estimators.likelihood.shared` has the formulas).

A visit is worked out among the m = n - 1 predictions of its pair, as `estimators.likelihood.visit` does, or in the q
coordinates of t = Theta x, whichever are fewer.
"""

import math

from ...beliefs.local import softmax
from ...compiler.jit import inlined, kernel
from ...numerics.linear_algebra import OFTEN, apply_refresh, cholesky, norm_of, refresh_due
from ...problem.layout import slot_of
from ...problem.links import exp
from ...theory.widths import lower_curvature
from .precision import subtract_form
from .shared import logits_of, look_at, predictions_of, radius_of, root_for, root_of, rooted_span, span_of
from .visit import LEAST, UNSCENTED, begin, gain_root, move, unscented_ratio


@kernel
def learn_shared(par, state, work, s, a, y, x):
    """Learn outcome y of pair (s, a) at x: among its m = n - 1 predictions or its q features, whichever are fewer."""
    b, m = par.block[s, a], par.outcomes[s, a] - 1
    q, n = par.size[b], state.samples[b] + 1
    state.samples[b] = n
    if m == 0 or q == 0:  # nothing to learn
        return
    look_at(par, state, work, b, x)
    if m <= q:
        visit_predictions(par, state, work, s, a, y, x)
    else:
        visit_features(par, state, work, s, a, y, x)
    if n % OFTEN == 0 and refresh_due(state.gram[b], state.inverse[b], n, 1):
        apply_refresh(par.refresh, (state.gram[b], state.inverse[b], work.logdet, 0.0, work.factor, work.column))


@kernel
def visit_predictions(par, state, work, s, a, y, x):
    """As `estimators.likelihood.visit`, with C = phi B_x phi', K = X' Lambda^{-1} and G = V'V:
    Lambda^{-1} -= (V phi K)'(V phi K), theta -= K'phi'moved."""
    b, n, v, phi = par.block[s, a], par.outcomes[s, a], work.visit, par.features[s, a]
    m, q, E = n - 1, par.size[b], par.start[b, par.size[b]]
    logits_of(par, work, s, a, v.z, v.C)
    begin(v, m)
    softmax(v.z, n, v.p)
    c, gain = 0.5, 0.0
    if par.posterior == 0:
        c = lower_curvature(span_of(v.C, radius_of(state, b), v.z, par.reach[s, a], norm_of(x), n))
        if par.predictor == UNSCENTED:
            gain = math.log(unscented_ratio(v, n, y))
    gain_root(v, c, m)
    for j in range(m):
        v.a[j] = v.p[j] - (1.0 if j == y else 0.0)
    state.radius[b] += move(v, m) - 2.0 * gain
    state.loss[b] -= math.log(max(v.p[y], LEAST)) + gain
    for i in range(q):
        work.mean[i] = 0.0
        for j in range(m):
            work.mean[i] += phi[j, i] * v.moved[j]
    move_block(state, work, b, q, E)
    add_information(par, state, work, b, information(par, work, s, a, v.p, c))
    for j in range(m):  # V phi K; V is a lower triangle
        for e in range(E):
            work.rows[j, e] = 0.0
        for i in range(q):
            total = 0.0
            for k in range(j + 1):
                total += v.V[j, k] * phi[k, i]
            for e in range(E):
                work.rows[j, e] += total * work.K[i, e]
    subtract_form(state.inverse[b], work.rows, v.R, m, E, work.scaled)  # R is the identity


@kernel
def visit_features(par, state, work, s, a, y, x):
    """The same in the q coordinates of t = Theta x, with D = 2 c phi'(diag p - pp')phi = R R', f = phi'(p - e_y):

    G = R F'^-1 F^-1 R', F F' = I + R'B_x R;  b = f - G B_x f;  Lambda^{-1} -= K'G K,  theta -= K'b,  rho2 += f'B_x b.
    phat: the mean of the softmax over the 2q + 1 points t, t +- sqrt(q + 1) L_i of N(t, B_x), L L' = B_x."""
    b, n, v = par.block[s, a], par.outcomes[s, a], work.visit
    q, B, p, root = par.size[b], work.B[par.block[s, a]], work.visit.p, work.root
    root_of(par, work, b)
    predictions_of(par, work, s, a, v.z)
    root_for(par, work, s, a, root)
    softmax(v.z, n, p)
    c, gain = 0.5, 0.0
    if par.posterior == 0:
        c = lower_curvature(rooted_span(par, work, s, a, root, radius_of(state, b), v.z, norm_of(x)))
        if par.predictor == UNSCENTED:
            gain = math.log(rooted_ratio(work, root, q, n, y))
    f, Bf, moved = work.f, work.Bf, work.mean
    for i in range(q):
        f[i] = -par.columns[s, a, i, y]
        for j in range(n):
            f[i] += p[j] * par.columns[s, a, i, j]
    D = information(par, work, s, a, p, c)
    add_information(par, state, work, b, D)
    gain_of_features(D, B, q, work)
    for i in range(q):
        Bf[i] = 0.0
        for k in range(q):
            Bf[i] += B[i, k] * f[k]
    form = 0.0
    for i in range(q):
        moved[i] = f[i]
        for k in range(q):
            moved[i] -= work.G[i, k] * Bf[k]
        form += Bf[i] * moved[i]
    state.radius[b] += form - 2.0 * gain
    state.loss[b] -= math.log(max(p[y], LEAST)) + gain
    move_block(state, work, b, q, par.start[b, q])
    subtract_form(state.inverse[b], work.K, work.G, q, par.start[b, q], work.scaled)


@kernel
def rooted_ratio(work, root, q, n, y):
    """phat(y)/p(y), see `visit_features`. Logits that move by more than 700 are taken to move by that."""
    p, scale, sums = work.visit.p, math.sqrt(q + 1.0), 0.0
    for i in range(q):
        high, low = 0.0, 0.0
        for j in range(n):
            up = exp(scale * root[i, j])
            work.far[j] = up
            high += p[j] * up
            low += p[j] / up
        sums += work.far[y] / high + 1.0 / (work.far[y] * low)
    return (1.0 + 0.5 * sums) / (q + 1.0)


@inlined
def information(par, work, s, a, p, c):
    """work.D [q, q] <- 2 c phi'(diag p - pp')phi, which is returned."""
    n, columns, D, mean = par.outcomes[s, a], par.columns[s, a], work.D, work.centre
    q = par.size[par.block[s, a]]
    for i in range(q):
        mean[i] = 0.0
        for j in range(n):
            mean[i] += p[j] * columns[i, j]
    for i in range(q):
        for k in range(i + 1):
            total = 0.0
            for j in range(n):
                total += p[j] * (columns[i, j] - mean[i]) * (columns[k, j] - mean[k])
            D[i, k] = D[k, i] = 2.0 * c * total
    return D


@inlined
def gain_of_features(D, B, q, work):
    """work.G [q, q] <- R F'^-1 F^-1 R', R R' = D, F F' = I + R'B R. Where D has no more to give R's column is 0."""
    R, W, F, G = work.R, work.product, work.square, work.G
    for k in range(q):
        for i in range(q):
            R[i, k] = 0.0
        pivot = D[k, k]
        for e in range(k):
            pivot -= R[k, e] * R[k, e]
        if pivot > 1e-14 * D[k, k]:
            R[k, k] = math.sqrt(pivot)
            for i in range(k + 1, q):
                v = D[i, k]
                for e in range(k):
                    v -= R[i, e] * R[k, e]
                R[i, k] = v / R[k, k]
    for i in range(q):  # W = B R, then F = I + R'W
        for k in range(q):
            W[i, k] = 0.0
            for e in range(q):
                W[i, k] += B[i, e] * R[e, k]
    for i in range(q):
        for k in range(q):
            G[i, k] = 1.0 if i == k else 0.0
            for e in range(q):
                G[i, k] += R[e, i] * W[e, k]
    cholesky(G[:q, :q], 0.0, F[:q, :q])
    for k in range(q):  # W <- F^-1 R', row after row
        for i in range(q):
            v = R[k, i]
            for e in range(i):
                v -= F[i, e] * W[e, k]
            W[i, k] = v / F[i, i]
    for i in range(q):
        for k in range(q):
            G[i, k] = 0.0
            for e in range(q):
                G[i, k] += W[e, i] * W[e, k]


@inlined
def move_block(state, work, b, q, p):
    """theta -= K' mean: what the visit has found, in features."""
    for e in range(p):
        work.column[e] = 0.0
    for i in range(q):
        v = work.mean[i]
        for e in range(p):
            work.column[e] += v * work.K[i, e]
    for e in range(p):
        state.weights[b, e] -= work.column[e]


@inlined
def add_information(par, state, work, b, D):
    """Lambda += X D X'."""
    q, start, xs, gram, row = par.size[b], par.start[b], work.xs, state.gram[b], work.column
    for i in range(q):
        for k in range(q):  # row i of D X'
            for e in range(start[k], start[k + 1]):
                row[e] = D[i, k] * xs[e]
        for c in range(start[i], start[i + 1]):
            v = xs[c]
            for e in range(start[q]):
                gram[c, e] += v * row[e]


@kernel
def learn_shared_outcomes(layout, par, state, work, x, steps, path):
    """Learn all outcomes of an episode of so many steps, one after the other."""
    for h in range(steps):
        s, a = path.states[h], path.actions[h]
        learn_shared(par, state, work, s, a, slot_of(layout, s, a, path.states[h + 1]), x)
