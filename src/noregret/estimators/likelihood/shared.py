"""The online likelihood-ratio set where pairs share weights: one set per block of a design.

Block b has Theta [q, d]; theta [p] lists those of its entries that are free (`problem.design.Blocks`; all, p = q d,
without moderators). A pair of it has features phi_j [q] per possible next state, relative to the last one. X [p, q] has
the contexts of the entries, X_ei = x_c where e is entry (i, c) of Theta, so that t = X'theta [q] is Theta x, and the
logits are z = A theta with A = phi X' [n, p]. A visit is that of `estimators.likelihood.sets` with A for I (x) x':

    cov = A Lambda^{-1} A',   p = softmax(z),   a = A'(p - e_y)
    r >= max v - min v for every v = A (theta' - theta) in the set (`span_of`),   c = g(r)
    Lambda <- Lambda + 2 c A'(diag p - pp')A,   theta <- theta - Lambda^{-1} a
    rho2   <- rho2 + ||a||^2_{Lambda^{-1}} - 2 ln(phat(y)/p(y))

from Lambda = lambda I, theta = 0, rho2 = lambda B^2 + 2 ln(1/delta), B >= ||Theta*||_F. The proof of Theorem 1
(docs/beyond.md) uses of A only that z = A theta: it carries over, and one block per pair is the same set. With c = 1/2
it is the online Laplace approximation of a posterior, as there.

For one individual t and B_x = X' Lambda^{-1} X [q, q] are found once per block; then z = phi t and cov = phi B_x phi'
per pair, kept by L with L L' = B_x: cov = root'root with root = L'phi' (`beliefs.local`). Memory 16 p^2 bytes per
block. Cost of a visit O(min(n, q) p^2), of an individual O(p^2) per block and O(n q^2) per pair.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...beliefs.local import Lift, curve, lift_of, root_at, softmax_of_all
from ...checks import Floats
from ...compiler.jit import inlined, kernel, merged
from ...compiler.memory import room_for
from ...numerics.linear_algebra import cholesky, dot, norm_of, refresh_address, triangle_times, weighted_rows
from ...problem.design import Blocks
from ...problem.layout import Layout
from .visit import UNSCENTED, VisitWork, visit_work

FEW = 12  # outcomes up to which every two are compared


class SharedPar(NamedTuple):
    refresh: Any  # slot of `refresh_inverse`
    predictor: int  # PLUG_IN or UNSCENTED
    posterior: int  # 1: c = 1/2, no set
    weight_bound: float  # B_p, of rows
    regularization: Floats  # lambda, [B]
    outcomes: NDArray[np.int64]  # [S, A], how many next states are possible
    block: NDArray[np.int64]  # [S, A]
    size: NDArray[np.int64]  # q, [B]
    start: NDArray[np.int64]  # [B, Q+1], where the entries of a feature begin in theta; the last is p
    column: NDArray[np.int64]  # [B, E], the entry of the context that each goes with
    features: Floats  # phi, [S, A, M, Q]
    columns: Floats  # the same less their mean over the pair's outcomes, [S, A, Q, M] (`beliefs.local.Lift`)
    middle: Floats  # that mean, [S, A, Q]
    reach: Floats  # [S, A, M, M], at most |z_j - z_k| for a context of length 1
    farthest: Floats  # [S, A], the largest of these
    pairs: NDArray[np.int64]  # [S A, 2], pairs block by block
    first: NDArray[np.int64]  # [B+1], where a block's begin


class SharedState(NamedTuple):
    """E is the largest p. A block uses the first p; beyond them matrices are the identity."""

    weights: Floats  # theta, [B, E]
    gram: Floats  # Lambda, [B, E, E]
    inverse: Floats  # [B, E, E]
    radius: Floats  # rho2, [B]
    samples: NDArray[np.int64]  # [B]
    loss: Floats  # sum of -ln phat(y), [B]


class SharedWork(NamedTuple):
    visit: VisitWork
    t: Floats  # [B, Q], Theta x
    B: Floats  # [B, Q, Q], B_x
    xs: Floats  # [E], the context of every entry of theta
    K: Floats  # [Q, E], X' Lambda^{-1}
    product: Floats  # [max(M, Q), Q]
    rows: Floats  # [max(M, Q), E]
    scaled: Floats  # [max(M, Q), E]
    square: Floats  # [Q, Q]
    D: Floats  # [Q, Q]
    R: Floats  # [Q, Q]
    G: Floats  # [Q, Q]
    root: Floats  # [Q, M]
    mean: Floats  # [Q]
    centre: Floats  # [Q]
    f: Floats  # [Q]
    Bf: Floats  # [Q]
    far: Floats  # [M]
    factor: Floats  # [E, E]
    column: Floats  # [E]
    logdet: Floats  # [1]


def natural_regularization(blocks: Blocks) -> Floats:
    """[B]: p/B^2, the precision of an entry of a theta of norm B."""
    made: Floats = np.maximum(blocks.start[:, -1], 1) / blocks.bound**2
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


def pairs_by_block(blocks: Blocks) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """([S A, 2], [B+1]): pairs block by block, and where those of a block begin."""
    order = np.argsort(blocks.block, axis=None, kind="stable")
    pairs = np.stack(np.unravel_index(order, blocks.block.shape), axis=1).astype(np.int64)
    first = np.searchsorted(blocks.block.ravel()[order], np.arange(blocks.size.size + 1)).astype(np.int64)
    return np.ascontiguousarray(pairs), first


def shared_parts(
    blocks: Blocks,
    layout: Layout,
    weight_bound: float,
    log_inverse_delta: float,
    regularization: Floats,
    *,
    predictor: int = UNSCENTED,
    posterior: bool = False,
    kept: bool = True,
    lift: Lift | None = None,
) -> tuple[SharedPar, SharedState, SharedWork]:
    """Parameters, initial state and scratch of a set per block; regularization: lambda, [B]. kept=False: a state of no
    blocks, where types alone matter. lift: of the same design, if there is one already."""
    (S, A, M, Q), (n, E), f = blocks.features.shape, blocks.column.shape, room_for
    most, reach = max(M, Q), reach_of(blocks, layout, weight_bound)
    columns = lift_of(blocks, layout).columns if lift is None else lift.columns
    middle = np.ascontiguousarray(-columns[np.arange(S)[:, None], np.arange(A), :, layout.count - 1])
    par = SharedPar(
        refresh_address(E), predictor, int(posterior), weight_bound, regularization.copy(), layout.count, blocks.block,
        blocks.size, blocks.start, blocks.column, blocks.features, columns, middle, reach, reach.max((2, 3)),
        *pairs_by_block(blocks),
    )  # fmt: skip
    within = np.arange(E) < blocks.start[:, -1:]
    eye = np.where(within, regularization[:, None], 1.0)[..., None] * np.eye(E)
    inverse = np.where(within, 1.0 / regularization[:, None], 1.0)[..., None] * np.eye(E)
    kept_n = n if kept else 0
    state = SharedState(
        f((kept_n, E)), eye[:kept_n], inverse[:kept_n],
        (regularization * blocks.bound**2 + 2.0 * log_inverse_delta)[:kept_n], f(kept_n, np.int64),
        f(kept_n),
    )  # fmt: skip
    work = SharedWork(
        visit_work(M), f((n, Q)), f((n, Q, Q)), f(E), f((Q, E)), f((most, Q)), f((most, E)), f((most, E)), f((Q, Q)),
        f((Q, Q)), f((Q, Q)), f((Q, Q)), f((Q, M)), f(Q), f(Q), f(Q), f(Q), f(M), f((E, E)), f(E), f(1),
    )  # fmt: skip
    return par, state, work


@kernel
def begin_blocks(par, state, root):
    """Before anything was learned: Lambda begins with at least root^2. Afterwards nothing happens."""
    for b in range(state.samples.shape[0]):
        if state.samples[b] > 0:
            return
    for b in range(state.samples.shape[0]):
        gram, inverse = state.gram[b], state.inverse[b]
        for e in range(par.start[b, par.size[b]]):
            gram[e, e] = max(gram[e, e], root * root)
            inverse[e, e] = 1.0 / gram[e, e]


@kernel
def look_at(par, state, work, b, x):
    """work.xs, work.K, work.t[b], work.B[b] <- the contexts of the entries, X' Lambda^{-1}, t and B_x of block b."""
    q, start, xs, K, t, B = par.size[b], par.start[b], work.xs, work.K, work.t[b], work.B[b]
    p, theta, inverse = start[q], state.weights[b], state.inverse[b]
    for e in range(p):
        xs[e] = x[par.column[b, e]]
    for i in range(q):
        total = 0.0
        for e in range(p):
            K[i, e] = 0.0
        for c in range(start[i], start[i + 1]):
            v = xs[c]
            total += theta[c] * v
            for e in range(p):
                K[i, e] += v * inverse[c, e]
        t[i] = total
        for k in range(q):
            total = 0.0
            for e in range(start[k], start[k + 1]):
                total += K[i, e] * xs[e]
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
def root_of(par, work, b):
    """work.factor [q, q] <- L, a lower triangle with L L' = B_x of block b."""
    q, B, trace = par.size[b], work.B[b], 0.0
    for i in range(q):
        trace += B[i, i]
    cholesky(B[:q, :q], 1e-14 * trace + 1e-290, work.factor[:q, :q])


@inlined
def predictions_of(par, work, s, a, z):
    """z [n] <- phi t."""
    b, n, columns, t = par.block[s, a], par.outcomes[s, a], par.columns[s, a], work.t[par.block[s, a]]
    weighted_rows(t, columns, par.size[b], n, z)
    shift = dot(par.middle[s, a], t)
    for j in range(n):
        z[j] += shift


@kernel
def root_for(par, work, s, a, root):
    """root [Q, M] <- L'columns, L = work.factor: products of its own columns are the covariances, up to a constant that
    differences do not see. The rest of root is 0."""
    q, (Q, M) = par.size[par.block[s, a]], root.shape
    for i in range(q, Q):
        for j in range(M):
            root[i, j] = 0.0
    triangle_times(work.factor, par.columns[s, a], q, M, root)  # columns are 0 beyond the pair's outcomes


@kernel
def rooted_span(par, work, s, a, root, rho, z, norm):
    """`span_of` with cov = root'root. Among many outcomes two are taken to be apart by the sum of the two largest
    distances from their mean, which is 0: at least as much, at most twice, in O(n Q)."""
    n, rho2, largest, reach = par.outcomes[s, a], min(rho * rho, 1e300), 0.0, par.reach[s, a]
    if n <= FEW:
        for j in range(n):
            for k in range(j):
                apart = 0.0
                for i in range(root.shape[0]):
                    apart += (root[i, j] - root[i, k]) ** 2
                most = reach[j, k] * norm + abs(z[j] - z[k])
                largest = max(largest, min(rho2 * apart, most * most))
        return math.sqrt(largest)
    far, low, high = work.far, z[0], z[0]
    for j in range(n):
        far[j] = 0.0
        low, high = min(low, z[j]), max(high, z[j])
    for i in range(root.shape[0]):
        for j in range(n):
            far[j] += root[i, j] * root[i, j]
    first, second = 0.0, 0.0
    for j in range(n):
        v = far[j]
        second = max(second, min(v, first))
        first = max(first, v)
    return min(math.sqrt(rho2) * (math.sqrt(first) + math.sqrt(second)), par.farthest[s, a] * norm + high - low)


@kernel
def describe_blocks(par, state, work, x, local, derived, spans):
    """local.z, factor and rho of all pairs, for the individual with context x; spans=1: their P, span, second and reach
    (`beliefs.local.curve`), too, with derived for its scratch."""
    for b in range(par.size.shape[0]):
        look_at(par, state, work, b, x)
        root_of(par, work, b)
        for i in range(par.size[b]):
            for k in range(i + 1):
                local.factor[b, i, k] = work.factor[i, k]
        rho = radius_of(state, b)
        for i in range(par.first[b], par.first[b + 1]):
            s, a = par.pairs[i, 0], par.pairs[i, 1]
            predictions_of(par, work, s, a, local.z[s, a])
            local.rho[s, a] = rho
    if spans == 1:
        norm, A = norm_of(x), local.rho.shape[1]
        softmax_of_all(merged(local.z), merged(par.outcomes), merged(local.P))
        for i in range(local.rho.shape[0] * A):
            s, a = i // A, i % A
            root_at(local, i, par.outcomes[s, a], local.root)
            local.span[s, a] = rooted_span(par, work, s, a, local.root, local.rho[s, a], local.z[s, a], norm)
            curve(local, i, local.root, derived)
