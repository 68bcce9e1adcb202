"""The online Newton step where pairs share weights: one estimate and one confidence set per block of a design.

Block b has Theta [q, d]; theta [p] lists those of its entries that are free (`problem.design.Blocks`). A pair of it has
features phi_j [q] per possible next state, relative to the last one, and X [p, q] has the contexts of the entries, so
that the logits are z = A theta with A = phi X' [n, p] (`estimators.likelihood.shared`). Those of theta* satisfy

    |z_j - z_k| <= reach_jk = min( B ||X (phi_j - phi_k)||,  B_p ||x|| to the last outcome and else twice that )

State per block: theta, Lambda [p, p] with its inverse, and gamma, without its ln(1/delta) term, of the set
||theta - theta*||^2_Lambda <= gamma, which holds at all times together with probability 1 - delta. A visit:

    theta moves, in the Lambda-norm, to the nearest weights whose logits are possible (`possible`); gamma -= its square
    p = softmax(z),   a = A'(p - e_y),   Lambda <- Lambda + A'Q A,   theta <- theta - Lambda^{-1} a
    gamma += ||a||^2_{Lambda^{-1}}, from lambda B^2

    CENTRED   Q = (2 - s) alpha C, C = I - 11'/n, alpha the least curvature of the softmax that reach allows; gamma has
              (2/s) ln(1/delta): Theorem A, and with one block per pair the estimator of `online_newton`
    FISHER    Q = 2 g(r) (diag p - pp'), r a bound on the span of z* - z; gamma has 2 ln(1/delta)

Proofs: docs/theory.md, "Where pairs share weights". r is the largest of reach_jk + |z_j - z_k|, or of what the set
itself allows, where that is less: for the latter delta must be known, and stay (`log`; inf: reach alone).

For one individual t = X'theta and B_x = X' Lambda^{-1} X [q, q] are found once per block; z = phi t and cov = phi B_x
phi' per pair. Cost: of a visit O(min(n, q) p^2 + q^3), of an individual O(p^2) per block and O(n q^2 + n^2 q) per
pair, and more where logits have to be moved. Memory 16 p^2 bytes per block.
Caveat: the set is about theta*: a design, link or bound that is wrong makes it wrong, silently.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import checks as check
from ...beliefs.local import softmax
from ...beliefs.point import prior_caps
from ...checks import Floats
from ...compiler.jit import inlined, kernel
from ...compiler.memory import room_for
from ...numerics.linear_algebra import (
    LEAST_REGULARIZATION,
    OFTEN,
    add_product,
    apply_refresh,
    norm_of,
    refresh_address,
    refresh_due,
)
from ...problem.design import Blocks
from ...problem.layout import Layout, slot_of
from ...problem.links import exp
from ...theory.constants import logit_alpha_centred, logit_alpha_unpinned
from ...theory.radii import theorem_a_log_weight
from ...theory.widths import lower_curvature
from ..likelihood.shared import (
    SharedState,
    logits_of,
    look_at,
    natural_regularization,
    pairs_by_block,
    reach_of,
    span_of,
)
from ..likelihood.shared_visit import add_information, gain_of_features, information, move_block
from .online_newton import SLACK

CENTRED, FISHER = 0, 1
TIMES = 4.0  # lambda of sets under FISHER, in units of p/B^2; estimates alone take 1
SWEEPS = 200  # over the constraints, at most, to find the nearest possible logits
PUSH = 1.5  # of their steps, after a few: 1 would be slow where constraints nearly agree, and 2 too much
CLOSE = 1e-14  # ends them: no logit has moved by more, relatively


class SharedNewtonPar(NamedTuple):
    refresh: Any  # slot of `refresh_inverse`
    form: int  # CENTRED or FISHER
    log: float  # ln(1/delta) of the set that bounds r, under FISHER; inf: none does
    log_weight: float  # coefficient of ln(1/delta) in gamma
    weight_bound: float  # B_p, of rows
    regularization: Floats  # lambda, [B]
    bound: Floats  # B, [B]
    outcomes: NDArray[np.int64]  # [S, A], how many next states are possible
    block: NDArray[np.int64]  # [S, A]
    size: NDArray[np.int64]  # q, [B]
    start: NDArray[np.int64]  # [B, Q+1], where the entries of a feature begin in theta; the last is p
    column: NDArray[np.int64]  # [B, E], the entry of the context that each goes with
    features: Floats  # phi, [S, A, M, Q]
    columns: Floats  # the same, [S, A, Q, M]
    pairs: NDArray[np.int64]  # [S A, 2], pairs block by block
    first: NDArray[np.int64]  # [B+1], where a block's begin


class SharedNewtonWork(NamedTuple):
    z: Floats  # [M]
    start: Floats  # [M], z before it is moved
    cov: Floats  # [M, M]
    reach: Floats  # [M, M]
    pull: Floats  # [M, M], multipliers of the constraints
    force: Floats  # [M], what they add up to
    p: Floats  # [M]
    even: Floats  # [M]
    length2: Floats  # [Q], of the context as each feature sees it
    t: Floats  # [B, Q], Theta x
    B: Floats  # [B, Q, Q], B_x
    xs: Floats  # [E], the context of every entry of theta
    K: Floats  # [Q, E], X' Lambda^{-1}
    product: Floats  # [max(M, Q), Q]
    rows: Floats  # [Q, E]
    square: Floats  # [Q, Q]
    D: Floats  # [Q, Q]
    R: Floats  # [Q, Q]
    G: Floats  # [Q, Q]
    mean: Floats  # [Q]
    centre: Floats  # [Q]
    f: Floats  # [Q]
    Bf: Floats  # [Q]
    factor: Floats  # [E, E]
    column: Floats  # [E]
    logdet: Floats  # [1]


def shared_newton_parts(
    blocks: Blocks,
    layout: Layout,
    weight_bound: float,
    context_bound: float,
    form: int,
    log: float,
    regularization: float | None,
    *,
    times: float = TIMES,
) -> tuple[SharedNewtonPar, SharedState, SharedNewtonWork]:
    """Parameters, initial state and scratch of an estimate per block; log: see `SharedNewtonPar`; times: of the
    recommended lambda under FISHER."""
    (M, Q), (n, E), f = blocks.features.shape[2:], blocks.column.shape, room_for
    usual = times * natural_regularization(blocks) if form == FISHER else None
    lam = _regularization(blocks, layout, weight_bound, context_bound, usual, regularization)
    columns = np.ascontiguousarray(np.swapaxes(blocks.features, 2, 3))
    weight = theorem_a_log_weight(SLACK if form == CENTRED else 1.0)
    par = SharedNewtonPar(
        refresh_address(E), form, float(log), weight, weight_bound, lam, blocks.bound.copy(), layout.count,
        blocks.block, blocks.size, blocks.start, blocks.column, blocks.features, columns, *pairs_by_block(blocks),
    )  # fmt: skip
    within = np.arange(E) < blocks.start[:, -1:]
    gram = np.where(within, lam[:, None], 1.0)[..., None] * np.eye(E)
    inverse = np.where(within, 1.0 / lam[:, None], 1.0)[..., None] * np.eye(E)
    state = SharedState(f((n, E)), gram, inverse, lam * blocks.bound**2, f(n, np.int64), f(0))
    q, qq, m, mm = (Q,), (Q, Q), (M,), (M, M)
    shapes: Any = (
        m, m, mm, mm, mm, m, m, m, q, (n, Q), (n, Q, Q), (E,), (Q, E), (max(M, Q), Q), (Q, E), qq, qq, qq, qq, q, q, q,
        q, (E, E), (E,), (1,),
    )  # fmt: skip
    return par, state, SharedNewtonWork(*(f(shape) for shape in shapes))


def _regularization(
    blocks: Blocks, layout: Layout, weight_bound: float, context_bound: float, usual: Floats | None, given: float | None
) -> Floats:
    """lambda, [B]: the one given or the usual one; None, under CENTRED: 2 (p/q)/(kappa B^2), kappa the least of the
    block's pairs at the longest context, which is that of `online_newton` where q features go with d entries each. Any
    positive value is valid; what the arithmetic needs is taken at least
    (`numerics.linear_algebra.least_regularization`)."""
    reach, n = reach_of(blocks, layout, weight_bound) * context_bound, blocks.size.size
    kappa, steepest = np.full(n, math.inf), np.zeros(n)
    for s, a in np.argwhere(layout.available & (layout.count > 1)):
        b, m = blocks.block[s, a], int(layout.count[s, a])
        seen = blocks.features[s, a, :m] - blocks.features[s, a, :m].mean(0)
        far = float(reach[s, a, :, m - 1].max()), float(reach[s, a].max())
        kappa[b] = min(kappa[b], (2.0 - SLACK) * least_curvature(m, *far))
        steepest[b] = max(steepest[b], float(np.linalg.norm(seen, 2)) ** 2)
    size, p = np.maximum(blocks.size, 1), np.maximum(blocks.start[:, -1], 1)
    kappa = np.where(np.isfinite(kappa), np.maximum(kappa, 1e-200), 1.0)
    largest = kappa if usual is None else 0.5
    least = LEAST_REGULARIZATION * largest * steepest * context_bound**2
    if given is not None:
        check.positive("regularization", given, least=float(least.max()))
        return np.full(n, float(given))
    if usual is None:
        usual = 2.0 * (p / size) / (kappa * blocks.bound**2)
    return np.asarray(np.minimum(np.maximum(usual, least), 1e90 / np.maximum(blocks.bound**2, 1.0)))


@inlined
def least_curvature(n, to_last, apart):
    """A lower bound on the curvature of the log-sum-exp, on vectors that sum to 0, wherever |z_j - z_last| <= to_last
    and |z_j - z_k| <= apart: the better of the two constants, of the pinned box and of the free box of half the
    span."""
    return max(logit_alpha_centred(n, to_last), logit_alpha_unpinned(n, 0.5 * apart))


@kernel
def lengths_of(par, work, b):
    """work.length2 [q] <- the squared length of the context that each feature of block b goes with. After `look_at`."""
    start = par.start[b]
    for i in range(par.size[b]):
        total = 0.0
        for e in range(start[i], start[i + 1]):
            total += work.xs[e] * work.xs[e]
        work.length2[i] = total


@kernel
def reach_at(par, work, s, a, norm):
    """work.reach [n, n] <- reach_jk of a pair whose block was looked at; norm = ||x||."""
    b, n, phi, reach, length2 = par.block[s, a], par.outcomes[s, a], par.features[s, a], work.reach, work.length2
    q, bound, rows = par.size[b], par.bound[b], par.weight_bound * norm
    for j in range(n):
        reach[j, j] = 0.0
        for k in range(j):
            total = 0.0
            for i in range(q):
                v = phi[j, i] - phi[k, i]
                total += v * v * length2[i]
            reach[j, k] = reach[k, j] = min(bound * math.sqrt(total), rows if j == n - 1 else 2.0 * rows)


@kernel
def possible(work, n):
    """work.z [n] <- logits of the nearest weights, in the Lambda-norm, with |z_j - z_k| <= reach_jk for all j, k;
    work.force [n] <- what moves them there, z - cov force. Returns the square of the distance; 0 and no force, if they
    were possible.

    Multipliers u_jk (of either sign: j above k, or k above j) by coordinate ascent on the dual problem; force_j = sum_k
    u_jk - u_kj. For any u, weights moved by -Lambda^{-1} A'force are nearer to whatever is possible, in square, by

        2 (force'z - sum |u_jk| reach_jk) - force'cov force

    so what is returned is valid before the ascent has ended, too; at its end it is the squared distance."""
    z, first, cov, reach, pull, force = work.z, work.start, work.cov, work.reach, work.pull, work.force
    outside, scale = False, 1.0
    for j in range(n):
        first[j], force[j] = z[j], 0.0
        for k in range(j):
            scale = max(scale, reach[j, k])
            outside = outside or abs(z[j] - z[k]) > reach[j, k]
    if not outside:
        return 0.0
    for j in range(n):
        for k in range(j):
            pull[j, k] = 0.0
    for sweep in range(SWEEPS):
        largest, push = 0.0, 1.0 if sweep < 4 else PUSH
        for j in range(n):
            for k in range(j):
                form = cov[j, j] + cov[k, k] - 2.0 * cov[j, k]
                free = z[j] - z[k] + pull[j, k] * form
                beyond = max(free - reach[j, k], 0.0) + min(free + reach[j, k], 0.0)
                if form > 1e-290 and (beyond != 0.0 or pull[j, k] != 0.0):
                    best = beyond / form
                    step = push * (best - pull[j, k])
                    if (pull[j, k] + step) * best <= 0.0:  # the other side of 0 is another constraint
                        step = best - pull[j, k]
                    pull[j, k] += step
                    force[j] += step
                    force[k] -= step
                    for i in range(n):
                        moved = step * (cov[i, j] - cov[i, k])
                        z[i] -= moved
                        largest = max(largest, abs(moved))
        if largest <= CLOSE * scale:
            break
    total = 0.0
    for j in range(n):
        total += force[j] * (first[j] + z[j])
        for k in range(j):
            total -= 2.0 * abs(pull[j, k]) * reach[j, k]
    return total


@inlined
def look_at_pair(par, work, s, a, norm):
    """work.z, cov, reach of a pair whose block was looked at; z is then made possible, and the square of how far it was
    moved returned."""
    logits_of(par, work, s, a, work.z, work.cov)
    reach_at(par, work, s, a, norm)
    return possible(work, par.outcomes[s, a])


@inlined
def curvature_at(par, work, s, a, gamma):
    """work.D [q, q] <- phi'Q phi of a visit with z possible and p = softmax(z); gamma: the set's, its ln(1/delta) term
    included."""
    n, z, reach = par.outcomes[s, a], work.z, work.reach
    if par.form == FISHER:
        rho = math.sqrt(gamma) if gamma >= 0.0 else math.inf
        information(par, work, s, a, work.p, lower_curvature(span_of(work.cov, rho, z, reach, 1.0, n)))
        return
    to_last, apart = 0.0, 0.0  # of both ends of the segment from z to the truth
    for j in range(n):
        work.even[j] = 1.0 / n
        for k in range(j):
            far = max(reach[j, k], abs(z[j] - z[k]))
            apart = max(apart, far)
            if j == n - 1:
                to_last = max(to_last, far)
    information(par, work, s, a, work.even, 0.5 * n * (2.0 - SLACK) * least_curvature(n, to_last, apart))


@kernel
def newton_visit(par, state, work, s, a, y, x):
    """Learn outcome y of pair (s, a) at x."""
    b, n = par.block[s, a], par.outcomes[s, a]
    q, p, visits = par.size[b], par.start[b, par.size[b]], state.samples[b] + 1
    state.samples[b] = visits
    if n == 1 or q == 0:  # nothing to learn
        return
    look_at(par, state, work, b, x)
    lengths_of(par, work, b)
    moved = look_at_pair(par, work, s, a, norm_of(x))
    phi, f, Bf, step = par.features[s, a], work.f, work.Bf, work.mean
    if moved != 0.0:
        for i in range(q):
            step[i] = 0.0
            for j in range(n):
                step[i] += phi[j, i] * work.force[j]
        move_block(state, work, b, q, p)
    softmax(work.z, n, work.p)
    curvature_at(par, work, s, a, state.radius[b] - moved + par.log_weight * par.log)
    add_information(par, state, work, b, work.D)
    gain_of_features(work.D, work.B[b], q, work)
    for i in range(q):
        f[i] = -phi[y, i]
        for j in range(n):
            f[i] += work.p[j] * phi[j, i]
    gained = 0.0
    for i in range(q):
        Bf[i] = 0.0
        for k in range(q):
            Bf[i] += work.B[b, i, k] * f[k]
    for i in range(q):
        step[i] = f[i]
        for k in range(q):
            step[i] -= work.G[i, k] * Bf[k]
        gained += Bf[i] * step[i]
    move_block(state, work, b, q, p)
    shrink_inverse(state.inverse[b], work, q, p)
    state.radius[b] += gained - moved
    if visits % OFTEN == 0 and refresh_due(state.gram[b], state.inverse[b], visits, 1):
        apply_refresh(par.refresh, (state.gram[b], state.inverse[b], work.logdet, 0.0, work.factor, work.column))


@inlined
def shrink_inverse(inverse, work, q, p):
    """Lambda^{-1} -= K'G K, G = W'W with the rows of W that `gain_of_features` left in work.product and are not 0: as
    many as the visit has directions."""
    W, rows, used = work.product, work.rows, 0
    for r in range(q):
        size = 0.0
        for i in range(q):
            size += abs(W[r, i])
        if size > 0.0:
            for e in range(p):
                rows[used, e] = 0.0
            for i in range(q):
                v = W[r, i]
                for e in range(p):
                    rows[used, e] += v * work.K[i, e]
            used += 1
    add_product(rows, rows, -1.0, used, p, p, inverse)


@kernel
def shared_newton_learn(par, state, work, layout, x, norm, n, path):
    """The n steps of an episode."""
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        newton_visit(par, state, work, s, a, slot_of(layout, s, a, path.states[h + 1]), x)


@kernel
def believe_blocks(par, state, work, x, log, needed, belief):
    """belief.P, belief.width [S, A] <- softmax(v), v the nearest possible logits, and bounds on its 1-norm distance
    from the truth, with ln(1/delta) = log for each block's set; needed = 0: no widths.

        span = max over j, k of min( sqrt((gamma - moved^2) (cov_jj + cov_kk - 2 cov_jk)), reach_jk + |v_j - v_k| )
        width = min( 2 tanh(span/4), what the bound to the last outcome leaves (`beliefs.point.prior_caps`) )

    An empty set (gamma < moved^2) says nothing: reach alone is left."""
    norm = norm_of(x)
    for b in range(par.size.shape[0]):
        look_at(par, state, work, b, x)
        lengths_of(par, work, b)
        for i in range(par.first[b], par.first[b + 1]):
            s, a = par.pairs[i, 0], par.pairs[i, 1]
            n, z = par.outcomes[s, a], work.z
            moved = look_at_pair(par, work, s, a, norm)
            softmax(z, n, belief.P[s, a])
            if needed == 1:
                gamma = state.radius[b] + par.log_weight * log - moved
                rho = math.sqrt(gamma) if gamma >= 0.0 else math.inf
                span, last = span_of(work.cov, rho, z, work.reach, 1.0, n), 0.0
                for j in range(n - 1):
                    last = max(last, work.reach[j, n - 1])
                belief.width[s, a] = 2.0 - 4.0 / (exp(0.5 * min(span, 160.0)) + 1.0)
                one, width = par.outcomes[s, a : a + 1], belief.width[s, a : a + 1]
                prior_caps(belief.P[s, a : a + 1], one, exp(last), belief.table, belief.smallest, width)
