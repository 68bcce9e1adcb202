"""Estimates of a block by maximum likelihood over all its stored steps, and the matrix A = lambda I + sum phi phi'.

The fit is the minimum of the summed loss plus lambda/2 |theta|^2 (Hwang and Oh 2023). It is made anew, from where the
last one ended, once the block's steps have grown by `growth`; A takes every step. Newton's method, damped by
ln(1 + v)/v with v = 2 L |step|: the loss is self-concordant in the sense that its third derivative along u is at most
the span of the logits of u times the second, for which this factor never overshoots (Sun and Tran-Dinh 2019).
"""

import math

from ....compiler.jit import inlined, kernel
from ....estimators.store import remember
from ....numerics.linear_algebra import cholesky, dot, norm_of, solve_factored
from .family import collapse, mean_feature, probabilities
from .online import counted, extend, next_step, shrink, write_row

STEPS = 100  # of Newton's method, at most
CLOSE = 1e-10  # its decrement at the end


@inlined
def add_step(phi, count, y, x, theta, work):
    """gradient += sum (p_j - 1[j = y]) phi_j (x) x, hessian += (sum p_j phibar_j phibar_j') (x) x x' (lower
    triangle)."""
    g, hessian, C, d, Q = work.vectors[0], work.matrices[1], work.curvature, x.shape[0], work.q.shape[1]
    collapse(theta, x, work.q[0])
    probabilities(phi, work.q[0], count, work.z)
    mean_feature(phi, work.z, count, work.q[0])
    for i in range(Q):
        for j in range(i + 1):
            total = 0.0
            for o in range(count):
                total += work.z[o] * (phi[o, i] - work.q[0, i]) * (phi[o, j] - work.q[0, j])
            C[i, j] = total
        for e in range(d):
            at = i * d + e
            g[at] += (work.q[0, i] - phi[y, i]) * x[e]
            for j in range(i + 1):
                for c in range(d):
                    hessian[at, j * d + c] += C[i, j] * x[e] * x[c]


@inlined
def fit(par, state, work, b):
    store, theta, H = state.store, state.theta[b], state.store.outcomes.shape[1]
    g, step, hessian, lam = work.vectors[0], work.vectors[1], work.matrices[1], par.regularization[b]
    for _ in range(STEPS):
        for i in range(g.shape[0]):
            g[i] = lam * theta[i]
            hessian[i] = 0.0
        for s in range(par.block.shape[0]):
            for a in range(par.block.shape[1]):
                if par.block[s, a] == b:
                    at = store.last[s, a]
                    while at >= 0:
                        k, h = at // H, at % H
                        y, x = store.outcomes[k, h], store.contexts[k]
                        add_step(par.features[s, a], par.layout.count[s, a], y, x, theta, work)
                        at = store.previous[k, h]
        cholesky(hessian, lam, work.matrices[0])
        for i in range(g.shape[0]):
            step[i] = g[i]
        solve_factored(work.matrices[0], step)
        decrement, v = math.sqrt(max(dot(g, step), 0.0)), 2.0 * par.longest[b] * norm_of(step)
        share = math.log1p(v) / v if v > 1e-6 else 1.0
        for i in range(g.shape[0]):
            theta[i] -= share * step[i]
        if decrement < CLOSE:
            break
    state.refreshed[b] = state.samples[b]


@kernel
def likelihood_steps(par, state, work, x, k, n, path):
    row, zx = work.vectors[3], work.vectors[4]
    for e in range(x.shape[0]):
        state.store.contexts[k, e] = x[e]
    work.q[1] = 0.0
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        b, count, y = next_step(par, path, h)
        if count < 2:
            continue
        for j in range(count - 1):  # the last row is 0
            write_row(par.features[s, a, j], work.q[1], x, row)
            shrink(state.inverse[b], row, 1.0, zx)
            extend(state.gram[b], row, 1.0)
        counted(par, state, work, b)
        remember(state.store, k, h, s, a, y, -1.0)
    for b in range(state.samples.shape[0]):
        seen = state.samples[b]
        if seen > state.refreshed[b] and seen >= par.growth * state.refreshed[b]:
            fit(par, state, work, b)
