"""Walks over the stored steps of one block of a design, episode by episode from the newest to the oldest.

A step of pair (s, a) at x has logits A theta, A = phi X' [n, p] (`estimators.likelihood.shared`). X depends on the
episode alone, so a form D [q, q] is added up over the episode's steps and then spread out, A'K A = X (phi'K phi) X',
and forms X'Q X are found once: p^2 operations an episode, q^2 a step. Sums over the suffixes of the epochs
(`BlockMixtureState.begins`) are snapshots of one running sum: work.grad, hess and curve hold those of the epochs, then
the one over everything. Formulas: `estimators.mixture.shared`. All stages take the same arguments.
"""

import math

from ...compiler.jit import inlined, kernel
from ...numerics.linear_algebra import norm_of
from ..likelihood.shared import logits_of, look_at, radius_of
from .curvature import growth_of, pairwise_curvature
from .kronecker import inverse_of, softmax_of
from .walks import EXACT, NEWTON, ROUNDING, clear, excess

EPOCHS = 5
LEAP = 0.5  # s_c at most


# Small kernels --------------------------------------------------------------------------------------------------------
@inlined
def newest_of(par, store, b):
    """The largest number of an episode that was learned and has a step of block b, -1 if there is none. Not the one
    learned last: where several people are open, they may be learned in another order than they came in."""
    of, H, newest = par.shared, store.outcomes.shape[1], -1
    for i in range(of.first[b], of.first[b + 1]):
        at = store.last[of.pairs[i, 0], of.pairs[i, 1]]
        while at >= 0:
            newest = max(newest, at)
            at = store.previous[at // H, at % H]
    return newest // H if newest >= 0 else -1


@inlined
def told_by(of, store, b, k, h):
    """The number s A + a of the pair of step h of episode k, if it is one of block b and has several outcomes; or
    -1."""
    pair = store.pairs[k, h] - 1
    if pair < 0:
        return -1
    s, a = pair // store.last.shape[1], pair % store.last.shape[1]
    return pair if of.block[s, a] == b and of.outcomes[s, a] > 1 else -1


@inlined
def contexts_of(of, b, x, xs):
    """xs [p] <- the context of every entry of theta."""
    for e in range(of.start[b, of.size[b]]):
        xs[e] = x[of.column[b, e]]


@inlined
def project(of, b, theta, xs, t):
    """t [q] <- X'theta."""
    for i in range(of.size[b]):
        t[i] = 0.0
        for e in range(of.start[b, i], of.start[b, i + 1]):
            t[i] += theta[e] * xs[e]


@inlined
def linear_logits(phi, t, n, q, z):
    """z [n] <- phi t."""
    for j in range(n):
        z[j] = 0.0
        for i in range(q):
            z[j] += phi[j, i] * t[i]


@kernel
def shape_at(of, b, matrix, xs, row, B):
    """B [q, q] <- X'matrix X for a symmetric matrix [p, p]. O(p^2 / 2)."""
    start = of.start[b]
    for i in range(of.size[b]):
        for e in range(start[i + 1]):
            row[e] = 0.0
        for c in range(start[i], start[i + 1]):
            v = xs[c]
            for e in range(start[i + 1]):
                row[e] += v * matrix[c, e]
        for k in range(i + 1):
            total = 0.0
            for e in range(start[k], start[k + 1]):
                total += row[e] * xs[e]
            B[i, k] = B[k, i] = total


@kernel
def form_of_pair(phi, B, n, q, product, cov):
    """cov [n, n] <- phi B phi'."""
    for j in range(n):
        for i in range(q):
            product[j, i] = 0.0
        for k in range(q):
            v = phi[j, k]
            for i in range(q):
                product[j, i] += v * B[k, i]
        for k in range(j + 1):
            total = 0.0
            for i in range(q):
                total += product[j, i] * phi[k, i]
            cov[j, k] = cov[k, j] = total


@inlined
def add_to_features(phi, form, n, q, product, D):
    """D [q, q] += phi'form phi; form [n, n], lower triangle, is made symmetric."""
    for j in range(n):
        for k in range(j):
            form[k, j] = form[j, k]
    for j in range(n):
        for i in range(q):
            product[j, i] = 0.0
        for k in range(n):
            v = form[j, k]
            for i in range(q):
                product[j, i] += v * phi[k, i]
        for i in range(q):
            v = phi[j, i]
            for k in range(q):
                D[i, k] += v * product[j, k]


@inlined
def add_variance(phi, p, weight, n, q, mean, D):
    """D [q, q] += weight times the variance of the features under p, its lower triangle; mean [q] <- their mean. A sum
    of squares: where p is nearly certain diag p - pp' would round to nothing, and the weight may be large."""
    for i in range(q):
        mean[i] = 0.0
    for j in range(n):
        for i in range(q):
            mean[i] += p[j] * phi[j, i]
    for j in range(n):
        for i in range(q):
            u = weight * p[j] * (phi[j, i] - mean[i])
            for m in range(i + 1):
                D[i, m] += u * (phi[j, m] - mean[m])


@kernel
def spread_out(of, b, D, xs, row, acc):
    """acc [p, p] += X D X', its lower triangle. O(p^2 / 2)."""
    start = of.start[b]
    for i in range(of.size[b]):
        for k in range(i + 1):
            for e in range(start[k], start[k + 1]):
                row[e] = D[i, k] * xs[e]
        for c in range(start[i], start[i + 1]):
            v = xs[c]
            for e in range(c + 1):
                acc[c, e] += v * row[e]


@kernel
def mirrored(acc, size, out):
    """out <- the symmetric matrix with the lower triangle of acc."""
    for i in range(size):
        for j in range(i + 1):
            out[i, j] = out[j, i] = acc[i, j]


# Fit ------------------------------------------------------------------------------------------------------------------
@inlined
def fit_walk(par, state, work, store, b):
    """Loss at theta = state.map[b] with the regulariser; gradients and Hessians over the suffixes, without it."""
    of, theta, xs, t, f, D, mean = par.shared, state.map[b], work.shared.xs, work.t, work.f, work.D, work.mean
    q, p, H, A, running = of.size[b], of.start[b, of.size[b]], store.outcomes.shape[1], store.last.shape[1], work.vector
    clear(work.acc, p)
    loss = 0.0
    for e in range(p):
        running[e] = 0.0
        loss += 0.5 * of.regularization[b] * theta[e] * theta[e]
    for k in range(newest_of(par, store, b), -1, -1):
        for e in range(EPOCHS):
            if state.begins[b, e] == k + 1:
                mirrored(work.acc, p, work.hess[e])
                for i in range(p):
                    work.grad[e, i] = running[i]
        met = 0
        for h in range(H):
            pair = told_by(of, store, b, k, h)
            if pair < 0:
                continue
            if met == 0:
                contexts_of(of, b, store.contexts[k], xs)
                project(of, b, theta, xs, t)
                clear(D, q)
                for i in range(q):
                    f[i] = 0.0
            met += 1
            s, a, y = pair // A, pair % A, store.outcomes[k, h]
            n, phi = of.outcomes[s, a], of.features[s, a]
            linear_logits(phi, t, n, q, work.z)
            loss += softmax_of(work.z, n, work.p) - work.z[y]
            add_variance(phi, work.p, 1.0, n, q, mean, D)
            for i in range(q):
                f[i] += mean[i] - phi[y, i]
        if met > 0:
            spread_out(of, b, D, xs, work.row, work.acc)
            for i in range(q):
                for e in range(of.start[b, i], of.start[b, i + 1]):
                    running[e] += f[i] * xs[e]
    mirrored(work.acc, p, work.hess[EPOCHS])
    for e in range(p):
        work.grad[EPOCHS, e] = running[e]
    return loss


@kernel
def fit_stage(par, state, work, store, b, log_inverse_delta):
    """state.map[b] <- argmin L + lambda/2 ||theta||^2 by Newton's method, halving steps that do not descend; leaves g,
    H over the suffixes there, and (H + lambda I)^{-1} in state.information."""
    theta, old, lam, inverse = state.map[b], work.old, par.shared.regularization[b], state.information[b]
    size, last = par.shared.start[b, par.shared.size[b]], math.inf
    for walk in range(NEWTON):
        loss = fit_walk(par, state, work, store, b)
        if loss > last + 1e-12 * abs(last) and walk < NEWTON - 1:  # halfway back; g and H must end where theta does
            for e in range(size):
                theta[e] = 0.5 * (theta[e] + old[e])
            continue
        last = loss
        for i in range(size):
            for j in range(size):
                work.E[i, j] = work.hess[EPOCHS, i, j] + (lam if i == j else 0.0)
        if math.isnan(inverse_of(work.E, size, ROUNDING, work.row, inverse)):
            for i in range(size):
                for j in range(size):
                    inverse[i, j] = 1.0 / lam if i == j else 0.0
            break
        decrement = 0.0
        for i in range(size):
            total = 0.0
            for j in range(size):
                total += inverse[i, j] * (work.grad[EPOCHS, j] + lam * theta[j])
            work.vector[i] = total
            decrement += total * (work.grad[EPOCHS, i] + lam * theta[i])
        if decrement <= EXACT or walk == NEWTON - 1:
            break
        for e in range(size):
            old[e] = theta[e]
            theta[e] -= work.vector[e]


# Excess and curvature -------------------------------------------------------------------------------------------------
@kernel
def excess_stage(par, state, work, store, b, log_inverse_delta):
    """work.beta[c] += sum over its suffix of j_i - 1/2 tr(H_c Q_c), for every component in use (work.since [C]);
    work.lean[c] <- sum A_i'(t_i - p_i), work.steep[c] <- the largest t_ik/p_ik, t_i the tilted law of `excess`."""
    of, xs, H, A = par.shared, work.shared.xs, store.outcomes.shape[1], store.last.shape[1]
    q, p, components = of.size[b], of.start[b, of.size[b]], work.beta.shape[0]
    for c in range(components):
        if work.beta[c] < math.inf:
            for i in range(p):
                for j in range(p):
                    work.beta[c] -= 0.5 * work.hess[work.part[c], i, j] * work.spread[c, i, j]
    for k in range(newest_of(par, store, b), -1, -1):
        met = 0
        for h in range(H):
            pair = told_by(of, store, b, k, h)
            if pair < 0:
                continue
            if met == 0:
                contexts_of(of, b, store.contexts[k], xs)
                project(of, b, state.map[b], xs, work.t)
                for c in range(components):
                    if work.beta[c] < math.inf and k >= work.since[c]:
                        shape_at(of, b, work.spread[c], xs, work.row, work.forms[c])
                        for i in range(q):
                            work.tilts[c, i] = 0.0
            met += 1
            s, a = pair // A, pair % A
            n, phi = of.outcomes[s, a], of.features[s, a]
            linear_logits(phi, work.t, n, q, work.z)
            softmax_of(work.z, n, work.p)
            for c in range(components):
                if work.beta[c] < math.inf and k >= work.since[c]:
                    form_of_pair(phi, work.forms[c], n, q, work.product, work.cov)
                    work.beta[c] += excess(work.p, work.cov, n, work.left)
                    for j in range(n):
                        work.steep[c] = max(work.steep[c], work.left[j] / work.p[j])
                        for i in range(q):
                            work.tilts[c, i] += (work.left[j] - work.p[j]) * phi[j, i]
        for c in range(components):
            if met > 0 and work.beta[c] < math.inf and k >= work.since[c]:
                for i in range(q):
                    for e in range(of.start[b, i], of.start[b, i + 1]):
                        work.lean[c, e] += work.tilts[c, i] * xs[e]


@kernel
def reach_bounds(z, centre, cov, rho, reach, norm, n, r):
    """r [M, M]: r[k, l] >= v_l - v_k >= 0 for v = z* - z, from two things that are known of the true logits z*.

    The set: z* = centre + u with |u_l - u_k| <= rho sqrt(cov_ll + cov_kk - 2 cov_lk). The bounds on weights: |z*_l -
    z*_k| <= reach_lk ||x|| (`likelihood.shared.reach_of`). Negative bounds become 0."""
    for k in range(n):
        r[k, k] = 0.0
        for j in range(k):
            ball = rho * math.sqrt(max(cov[j, j] + cov[k, k] - 2.0 * cov[k, j], 0.0))
            cap, ahead = reach[k, j] * norm, z[j] - z[k]
            off = centre[j] - centre[k] - ahead
            r[k, j] = max(min(off + ball, cap - ahead), 0.0)
            r[j, k] = max(min(ball - off, cap + ahead), 0.0)


@inlined
def largest_of(r, n):
    """The largest entry of r [n, n], not negative."""
    most = 0.0
    for j in range(n):
        for k in range(n):
            most = max(most, r[j, k])
    return most


@kernel
def curvature_stage(par, state, work, store, b, log_inverse_delta):
    """work.curve <- A_c and work.rise <- sum 2 phi(LEAP r_i) H_i over the suffixes, from the current set."""
    of, w, H, A = par.shared, work.shared, store.outcomes.shape[1], store.last.shape[1]
    q, p, rho = of.size[b], of.start[b, of.size[b]], radius_of(state, b)
    norm = 0.0
    clear(work.acc, p)
    clear(work.risen, p)
    for k in range(newest_of(par, store, b), -1, -1):
        for e in range(EPOCHS):
            if state.begins[b, e] == k + 1:
                mirrored(work.acc, p, work.curve[e])
                mirrored(work.risen, p, work.rise[e])
        met = 0
        for h in range(H):
            pair = told_by(of, store, b, k, h)
            if pair < 0:
                continue
            if met == 0:
                norm = norm_of(store.contexts[k])
                look_at(of, state, w, b, store.contexts[k])
                project(of, b, state.map[b], w.xs, work.t)
                clear(work.D, q)
                clear(work.G, q)
            met += 1
            s, a = pair // A, pair % A
            n, phi = of.outcomes[s, a], of.features[s, a]
            linear_logits(phi, work.t, n, q, work.z)
            softmax_of(work.z, n, work.p)
            logits_of(of, w, s, a, work.at, work.cov)
            reach_bounds(work.z, work.at, work.cov, rho, of.reach[s, a], norm, n, work.r)
            pairwise_curvature(work.p, work.r, n, work.step, work.power, work.left, work.right, work.bend)
            add_to_features(phi, work.bend, n, q, work.product, work.D)
            add_variance(phi, work.p, growth_of(LEAP * largest_of(work.r, n)), n, q, work.mean, work.G)
        if met > 0:
            spread_out(of, b, work.D, w.xs, work.row, work.acc)
            spread_out(of, b, work.G, w.xs, work.row, work.risen)
    mirrored(work.acc, p, work.curve[EPOCHS])
    mirrored(work.risen, p, work.rise[EPOCHS])
