"""Walks over the stored observations of one pair, from the newest to the oldest: what a mixture set needs of them.

Sums over the suffixes i > n_c (`MixtureState.begins`) are snapshots of one running sum: work.grad, hess and curve [5]
hold those of the four epochs, then the one over everything. Formulas: `estimators.mixture.sets`.
The stages of `mixture_refresh` all take the same arguments.
"""

import math

from ...compiler.jit import inlined, kernel
from ...problem.links import exp
from ..likelihood.precision import logits_at, products_of
from .curvature import local_curvature, pair_bounds, pairwise_curvature
from .kronecker import add_kronecker, expanded, fold, folded_covariance, inverse_of, softmax_of

MIXTURE, SINGLE = 0, 1
CENTRED, PLAIN, EPOCHS = 2, 5, 4  # components before CENTRED are centred at 0, those before PLAIN look at all data
NEWTON = 25  # walks at most
ROUNDING = 1e-13  # pivots of H + lambda I below this part of the diagonal are noise
EXACT = 1e-8  # squared Newton decrement at which W_hat is good enough: it adds about as much to the squared radius


@kernel
def clear(acc, size):
    for i in range(size):
        for j in range(size):
            acc[i, j] = 0.0


@inlined
def fit_walk(par, state, work, store, s, a):
    """Loss at W = state.map[s, a] with the regulariser; gradients and Hessians over the suffixes, without it."""
    n, d, H = par.count[s, a], store.contexts.shape[1], store.outcomes.shape[1]
    W, begins, z, p, form = state.map[s, a], state.begins[s, a], work.z, work.p, work.bend
    running, loss = work.vector, 0.0
    work.acc[:] = 0.0
    clear(work.gram, d)
    for i in range(n * d):
        running[i] = 0.0
    t, index, part = store.last[s, a], store.visits[s, a] - 1, EPOCHS - 1
    while True:
        while part >= 0 and (begins[part] < 0 or index < begins[part]):
            if begins[part] >= 0:
                expanded(work.acc, n, d, work.hess[part])
                for i in range(n * d):
                    work.grad[part, i] = running[i]
            part -= 1
        if t < 0:
            break
        k, h = t // H, t % H
        x, y = store.contexts[k], store.outcomes[k, h]
        logits_at(W, x, n, z)
        loss += softmax_of(z, n, p) - z[y]
        for j in range(n):
            error = p[j] - 1.0 if j == y else p[j]
            for b in range(d):
                running[j * d + b] += error * x[b]
            for i in range(j):
                form[j, i] = -p[j] * p[i]
            form[j, j] = p[j] * (1.0 - p[j])
        products_of(x, work.products)
        add_kronecker(form, work.products, n, work.packed, work.acc)
        for b in range(d):
            for c in range(d):
                work.gram[b, c] += x[b] * x[c]
        t = store.previous[k, h]
        index -= 1
    expanded(work.acc, n, d, work.hess[EPOCHS])
    for i in range(n * d):
        work.grad[EPOCHS, i] = running[i]
    for j in range(n):
        for b in range(d):
            loss += 0.5 * par.regularization * W[j, b] * W[j, b]
    return loss


@kernel
def fit_stage(par, state, work, store, s, a, log_inverse_delta):
    """state.map[s, a] <- argmin L + lambda/2 ||W||^2 by Newton's method, halving steps that do not descend; leaves g, H
    over the suffixes there, and (H + lambda I)^{-1} in state.information."""
    n, d = par.count[s, a], store.contexts.shape[1]
    W, old, lam, size = state.map[s, a], work.old, par.regularization, n * d
    last = math.inf
    for walk in range(NEWTON):
        loss = fit_walk(par, state, work, store, s, a)
        if loss > last + 1e-12 * abs(last) and walk < NEWTON - 1:  # halfway back; g and H must end where W does
            for j in range(n):
                for b in range(d):
                    W[j, b] = 0.5 * (W[j, b] + old[j, b])
            continue
        last = loss
        for i in range(size):
            for j in range(size):
                work.E[i, j] = work.hess[EPOCHS, i, j] + (lam if i == j else 0.0)
        if math.isnan(inverse_of(work.E, size, ROUNDING, work.vector, state.information[s, a])):
            for i in range(size):
                for j in range(size):
                    state.information[s, a, i, j] = 1.0 / lam if i == j else 0.0
            break
        decrement = 0.0
        for i in range(size):
            total = 0.0
            for j in range(size):
                total += state.information[s, a, i, j] * (work.grad[EPOCHS, j] + lam * W[j // d, j % d])
            work.vector[i] = total
            decrement += total * (work.grad[EPOCHS, i] + lam * W[i // d, i % d])
        if decrement <= EXACT or walk == NEWTON - 1:
            break
        for j in range(n):
            for b in range(d):
                old[j, b] = W[j, b]
                W[j, b] -= work.vector[j * d + b]
        for b in range(d):  # rounding must not make the rows drift from sum zero
            mean = 0.0
            for j in range(n):
                mean += W[j, b]
            for j in range(n):
                W[j, b] -= mean / n


@kernel
def excess(p, q, n, tilted):
    """j: a bound on E lse(z + u) - lse(z) for u ~ N(0, q), p = softmax(z): the smaller of
    ln sum_k p_k e^{w_k}, w_k = Var(u_k - p'u)/2 (Jensen), and 1/4 E ||C u||^2 (the Hessian is at most C/2).
    tilted [n] <- p_k e^{w_k}/sum in the first case, p in the second."""
    whole, trace, everything, top = 0.0, 0.0, 0.0, -math.inf
    for k in range(n):
        row = 0.0
        for j in range(n):
            row += q[k, j] * p[j]
            everything += q[k, j]
        trace += q[k, k]
        whole += p[k] * row
        top = max(top, 0.5 * q[k, k] - row)
    total = 0.0
    for k in range(n):
        row = 0.0
        for j in range(n):
            row += q[k, j] * p[j]
        tilted[k] = p[k] * exp(0.5 * q[k, k] - row - top)
        total += tilted[k]
    jensen, flat = 0.5 * whole + top + math.log(total), 0.25 * (trace - everything / n)
    for k in range(n):
        tilted[k] = tilted[k] / total if jensen <= flat else p[k]
    return min(jensen, flat)


@kernel
def excess_stage(par, state, work, store, s, a, log_inverse_delta):
    """work.beta[c] += sum_{i > n_c} j_i - 1/2 tr(H_c Q_c), for every component in use."""
    n, d, H = par.count[s, a], store.contexts.shape[1], store.outcomes.shape[1]
    z, p, q, begins = work.z, work.p, work.q, state.begins[s, a]
    for c in range(work.beta.shape[0]):
        part = EPOCHS if c < PLAIN else (c - PLAIN) // 2
        if work.beta[c] < math.inf:
            for i in range(n * d):
                for j in range(n * d):
                    work.beta[c] -= 0.5 * work.hess[part, i, j] * work.spread[c, j, i]
            fold(work.spread[c], n, d, work.forms[c])
    t, index = store.last[s, a], store.visits[s, a] - 1
    while t >= 0:
        k, h = t // H, t % H
        x = store.contexts[k]
        logits_at(state.map[s, a], x, n, z)
        softmax_of(z, n, p)
        products_of(x, work.products)
        for c in range(work.beta.shape[0]):
            if work.beta[c] < math.inf and (c < PLAIN or index >= begins[(c - PLAIN) // 2]):
                folded_covariance(work.forms[c], work.products, n, work.packed, q)
                work.beta[c] += excess(p, q, n, work.left)
        t = store.previous[k, h]
        index -= 1


@kernel
def curvature_stage(par, state, work, store, s, a, log_inverse_delta):
    """work.curve [5] <- A_c over the suffixes, from the current set."""
    n, d, H = par.count[s, a], store.contexts.shape[1], store.outcomes.shape[1]
    begins, z, p, at, q, r, bend = state.begins[s, a], work.z, work.p, work.at, work.q, work.r, work.bend
    rho = math.sqrt(state.radius[s, a])
    work.acc[:] = 0.0
    fold(state.cov[s, a], n, d, work.forms[0])
    t, index, part = store.last[s, a], store.visits[s, a] - 1, EPOCHS - 1
    while True:
        while part >= 0 and (begins[part] < 0 or index < begins[part]):
            if begins[part] >= 0:
                expanded(work.acc, n, d, work.curve[part])
            part -= 1
        if t < 0:
            break
        k, h = t // H, t % H
        x, norm2 = store.contexts[k], 0.0
        for b in range(d):
            norm2 += x[b] * x[b]
        logits_at(state.map[s, a], x, n, z)
        softmax_of(z, n, p)
        logits_at(state.centre[s, a], x, n, at)
        products_of(x, work.products)
        folded_covariance(work.forms[0], work.products, n, work.packed, q)
        worst = pair_bounds(z, at, q, rho, par.weight_bound * math.sqrt(norm2), n, r)
        if par.form == SINGLE:
            scale = local_curvature(worst)
            for j in range(n):
                for i in range(j):
                    bend[j, i] = -scale * p[j] * p[i]
                bend[j, j] = scale * p[j] * (1.0 - p[j])
        else:
            pairwise_curvature(p, r, n, work.step, work.power, work.left, work.right, bend)
        add_kronecker(bend, work.products, n, work.packed, work.acc)
        t = store.previous[k, h]
        index -= 1
    expanded(work.acc, n, d, work.curve[EPOCHS])
