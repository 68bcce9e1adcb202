"""The online likelihood-ratio set where pairs share weights: one set per block of a design.

Block b has Theta [q, d], theta = vec(Theta) with index (feature i, column c) -> i d + c. A pair of it has features
phi_j [q] per possible next state, relative to the last one, so that A [n, q d] with rows phi_j (x) x gives the logits
z = A theta. A visit is that of `estimators.likelihood.sets` with A for I (x) x':

    cov = A Lambda^{-1} A',   p = softmax(z),   a = A'(p - e_y)
    r >= max v - min v for every v = A (theta' - theta) in the set (`span_of`),   c = g(r)
    Lambda <- Lambda + 2 c A'(diag p - pp')A,   theta <- theta - Lambda^{-1} a
    rho2   <- rho2 + ||a||^2_{Lambda^{-1}} - 2 ln(phat(y)/p(y))

from Lambda = lambda I, theta = 0, rho2 = lambda B^2 + 2 ln(1/delta), B >= ||Theta*||_F. The proof of Theorem 1
(docs/beyond.md) uses of A only that z = A theta: it carries over, and one block per pair is the same set. With c = 1/2
it is the online Laplace approximation of a posterior, as there.

For one individual t = Theta x [q] and B_x = (I (x) x)' Lambda^{-1} (I (x) x) [q, q] are found once per block; then
z = phi t and cov = phi B_x phi' per pair. Memory 16 (q d)^2 bytes per block. Cost of a visit O(min(n, q) (q d)^2), of
an individual O((q d)^2) per block and O(n q^2 + n^2 q) per pair.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...beliefs.local import softmax
from ...checks import Floats
from ...compiler.jit import inlined, kernel
from ...compiler.memory import room_for
from ...numerics.linear_algebra import OFTEN, apply_refresh, norm_of, refresh_address, refresh_due
from ...problem.design import Blocks
from ...problem.layout import Layout, slot_of
from ...theory.widths import lower_curvature
from .precision import subtract_form
from .visit import UNSCENTED, VisitWork, begin, gain_root, move, unscented_ratio, visit_work


class SharedPar(NamedTuple):
    refresh: Any  # slot of `refresh_inverse`
    predictor: int  # PLUG_IN or UNSCENTED
    posterior: int  # 1: c = 1/2, no set
    weight_bound: float  # B_p, of rows
    regularization: Floats  # lambda, [B]
    outcomes: NDArray[np.int64]  # [S, A], how many next states are possible
    block: NDArray[np.int64]  # [S, A]
    size: NDArray[np.int64]  # q, [B]
    features: Floats  # phi, [S, A, M, Q]
    reach: Floats  # [S, A, M, M], at most |z_j - z_k| for a context of length 1


class SharedState(NamedTuple):
    """E = Q d, Q the largest q. A block with q features uses the first q d; beyond it matrices are the identity."""

    weights: Floats  # Theta, [B, Q, d]
    gram: Floats  # Lambda, [B, E, E]
    inverse: Floats  # [B, E, E]
    radius: Floats  # rho2, [B]
    samples: NDArray[np.int64]  # [B]


class SharedWork(NamedTuple):
    visit: VisitWork
    t: Floats  # [B, Q], Theta x
    B: Floats  # [B, Q, Q], B_x
    K: Floats  # [Q, E], (I (x) x)' Lambda^{-1}
    product: Floats  # [max(M, Q), Q]
    rows: Floats  # [max(M, Q), E]
    scaled: Floats  # [max(M, Q), E]
    square: Floats  # [Q, Q]
    mean: Floats  # [Q]
    factor: Floats  # [E, E]
    column: Floats  # [E]
    logdet: Floats  # [1]


def natural_regularization(blocks: Blocks, context_dim: int) -> Floats:
    """[B]: q d/B^2, the precision of an entry of a Theta of norm B."""
    made: Floats = np.maximum(blocks.size, 1) * context_dim / blocks.bound**2
    return made


def reach_of(blocks: Blocks, layout: Layout, weight_bound: float) -> Floats:
    """[S, A, M, M]: ||phi_j - phi_k|| B, or what the bound B_p on rows allows, B_p to the last outcome and else 2 B_p:
    the smaller, 0 beyond a pair's outcomes."""
    apart = np.linalg.norm(blocks.features[:, :, :, None] - blocks.features[:, :, None], axis=-1)
    apart *= blocks.bound[blocks.block][..., None, None]
    slots, last = np.arange(layout.outcomes.shape[2]), (layout.count - 1)[..., None]
    to_last = (slots == last)[..., None] | (slots == last)[..., None, :]
    made = np.minimum(apart, np.where(to_last, weight_bound, 2.0 * weight_bound))
    used = slots <= last
    return np.ascontiguousarray(np.where(used[..., None] & used[..., None, :], made, 0.0))


def shared_parts(
    blocks: Blocks,
    layout: Layout,
    context_dim: int,
    weight_bound: float,
    log_inverse_delta: float,
    regularization: Floats,
    *,
    predictor: int = UNSCENTED,
    posterior: bool = False,
    kept: bool = True,
) -> tuple[SharedPar, SharedState, SharedWork]:
    """Parameters, initial state and scratch of a set per block; regularization: lambda, [B]. kept=False: a state of no
    blocks, where types alone matter."""
    (M, Q), d, n, f = blocks.features.shape[2:], context_dim, blocks.size.size, room_for
    E, most = Q * d, max(M, Q)
    par = SharedPar(
        refresh_address(E), predictor, int(posterior), weight_bound, regularization.copy(), layout.count, blocks.block,
        blocks.size, blocks.features, reach_of(blocks, layout, weight_bound),
    )  # fmt: skip
    within = np.arange(E) < (blocks.size * d)[:, None]
    eye = np.where(within, regularization[:, None], 1.0)[..., None] * np.eye(E)
    inverse = np.where(within, 1.0 / regularization[:, None], 1.0)[..., None] * np.eye(E)
    kept_n = n if kept else 0
    state = SharedState(
        f((kept_n, Q, d)), eye[:kept_n], inverse[:kept_n],
        (regularization * blocks.bound**2 + 2.0 * log_inverse_delta)[:kept_n], f(kept_n, np.int64),
    )  # fmt: skip
    work = SharedWork(
        visit_work(M), f((n, Q)), f((n, Q, Q)), f((Q, E)), f((most, Q)), f((most, E)), f((most, E)), f((Q, Q)), f(Q),
        f((E, E)), f(E), f(1),
    )  # fmt: skip
    return par, state, work


@kernel
def look_at(par, state, work, b, x):
    """work.K, work.t[b], work.B[b] <- (I (x) x)' Lambda^{-1}, Theta x and B_x of block b."""
    q, d, K, t, B, inverse = par.size[b], x.shape[0], work.K, work.t[b], work.B[b], state.inverse[b]
    for i in range(q):
        total = 0.0
        for e in range(q * d):
            K[i, e] = 0.0
        for c in range(d):
            v = x[c]
            total += state.weights[b, i, c] * v
            for e in range(q * d):
                K[i, e] += v * inverse[i * d + c, e]
        t[i] = total
        for k in range(q):
            total = 0.0
            for c in range(d):
                total += K[i, k * d + c] * x[c]
            B[i, k] = total


@kernel
def logits_of(par, work, s, a, z, cov):
    """z [n], cov [n, n] <- phi t and phi B_x phi' of a pair whose block was looked at; zeros for the last outcome."""
    b, n, phi, product = par.block[s, a], par.outcomes[s, a], par.features[s, a], work.product
    q, t, B = par.size[b], work.t[b], work.B[b]
    for j in range(n):
        total = 0.0
        for i in range(q):
            total += phi[j, i] * t[i]
            product[j, i] = 0.0
        z[j] = total
        for k in range(q):
            v = phi[j, k]
            for i in range(q):
                product[j, i] += v * B[k, i]
        for k in range(j + 1):
            total = 0.0
            for i in range(q):
                total += product[j, i] * phi[k, i]
            cov[j, k] = cov[k, j] = total


@kernel
def span_of(cov, rho, z, reach, norm, n):
    """Bound on max v - min v for logits z + v of the set: of every ordered pair of outcomes the ellipsoid allows
    v_j - v_k <= rho sqrt(cov_jj + cov_kk - 2 cov_jk), the bounds on weights v_j - v_k <= reach_jk ||x|| - (z_j - z_k).
    Of the two orders of a pair the one with the larger bound counts."""
    rho2, largest = min(rho * rho, 1e300), 0.0
    for j in range(n):
        own, centre = cov[j, j], z[j]
        for k in range(j):
            most = reach[j, k] * norm + abs(centre - z[k])
            largest = max(largest, min(rho2 * (own + cov[k, k] - 2.0 * cov[j, k]), most * most))
    return math.sqrt(largest)


@inlined
def radius_of(state, b):
    """rho of block b, inf where the set is empty."""
    return math.sqrt(state.radius[b]) if state.radius[b] >= 0.0 else math.inf


@kernel
def learn_shared(par, state, work, s, a, y, x):
    """Learn outcome y of pair (s, a) at x."""
    b, n, v = par.block[s, a], par.outcomes[s, a], work.visit
    m, q = n - 1, par.size[b]
    state.samples[b] += 1
    if m == 0 or q == 0:  # nothing to learn
        return
    look_at(par, state, work, b, x)
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
    move_block(par, state, work, b, par.features[s, a], m)
    add_information(par, state, work, b, par.features[s, a], x, c, n)
    shrink_inverse(par, state, work, b, par.features[s, a], m)
    if state.samples[b] % OFTEN == 0 and refresh_due(state.gram[b], state.samples[b], par.regularization[b]):
        apply_refresh(par.refresh, (state.gram[b], state.inverse[b], work.logdet, 0.0, work.factor, work.column))


@inlined
def move_block(par, state, work, b, phi, m):
    """theta -= K' phi' moved: what the visit has found among predictions."""
    q, d, moved = par.size[b], state.weights.shape[2], work.visit.moved
    for e in range(q * d):
        work.column[e] = 0.0
    for i in range(q):
        total = 0.0
        for j in range(m):
            total += phi[j, i] * moved[j]
        for e in range(q * d):
            work.column[e] += total * work.K[i, e]
    for i in range(q):
        for c in range(d):
            state.weights[b, i, c] -= work.column[i * d + c]


@inlined
def add_information(par, state, work, b, phi, x, c, n):
    """Lambda += 2 c phi'(diag p - pp')phi (x) xx'."""
    q, d, D, mean, p, gram = par.size[b], x.shape[0], work.square, work.mean, work.visit.p, state.gram[b]
    for i in range(q):
        mean[i] = 0.0
        for k in range(q):
            D[i, k] = 0.0
    for j in range(n - 1):
        for i in range(q):
            v = p[j] * phi[j, i]
            mean[i] += v
            for k in range(q):
                D[i, k] += v * phi[j, k]
    for i in range(q):
        for k in range(q):
            v = 2.0 * c * (D[i, k] - mean[i] * mean[k])
            for e in range(d):
                u = v * x[e]
                for g in range(d):
                    gram[i * d + e, k * d + g] += u * x[g]


@inlined
def shrink_inverse(par, state, work, b, phi, m):
    """Lambda^{-1} -= K' phi'G phi K, G = V'V of the visit: by the m rows of V phi K, or the q of K, whichever are
    fewer."""
    q, d, product, rows, V = par.size[b], state.weights.shape[2], work.product, work.rows, work.visit.V
    for j in range(m):  # V phi; V is a lower triangle
        for i in range(q):
            total = 0.0
            for k in range(j + 1):
                total += V[j, k] * phi[k, i]
            product[j, i] = total
    if m <= q:
        for j in range(m):
            for e in range(q * d):
                rows[j, e] = 0.0
            for i in range(q):
                v = product[j, i]
                for e in range(q * d):
                    rows[j, e] += v * work.K[i, e]
        subtract_form(state.inverse[b], rows, work.visit.R, m, q * d, work.scaled)  # R is the identity
    else:
        for i in range(q):
            for k in range(q):
                total = 0.0
                for j in range(m):
                    total += product[j, i] * product[j, k]
                work.square[i, k] = total
        subtract_form(state.inverse[b], work.K, work.square, q, q * d, work.scaled)


@kernel
def learn_shared_outcomes(layout, par, state, work, x, steps, path):
    """Learn all outcomes of an episode of so many steps, one after the other."""
    for h in range(steps):
        s, a = path.states[h], path.actions[h]
        learn_shared(par, state, work, s, a, slot_of(layout, s, a, path.states[h + 1]), x)


@kernel
def describe_blocks(par, state, work, x, local):
    """local.z, cov, rho and span of all pairs, for the individual with context x."""
    norm = norm_of(x)
    for b in range(par.size.shape[0]):
        look_at(par, state, work, b, x)
    for s in range(par.block.shape[0]):
        for a in range(par.block.shape[1]):
            b = par.block[s, a]
            rho = radius_of(state, b)
            logits_of(par, work, s, a, local.z[s, a], local.cov[s, a])
            local.rho[s, a] = rho
            local.span[s, a] = span_of(local.cov[s, a], rho, local.z[s, a], par.reach[s, a], norm, par.outcomes[s, a])
