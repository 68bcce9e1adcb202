"""Mean rewards where pairs share weights: every form of `estimators.rewards.forms`, per block of a design.

The mean reward of pair (s, a) at x is theta_b'u, or sigma of it, with u = X psi(s, a) [p]: the entry of theta that is
Theta[i, c] meets psi_i x_c (`problem.design.Blocks`). So a block is learned as one pair is whose contexts are the u:
the state of a form has one "pair" (b, 0) per block, and `lift` makes u. What is asked about one individual are forms in
psi, whose matrices are found once per block (`shapes_ridge`, `shapes_mixture`): O(q p^2) per block, O(q^2) per pair.
Features are given in units of the blocks' bounds (`scaled_blocks`), so that one bound serves all of them.
"""

import math
from typing import NamedTuple

import numpy as np

from ...compiler.jit import inlined, kernel
from ...compiler.slots import slot
from ...numerics.linear_algebra import norm_of, times
from ...problem.design import Blocks
from ...problem.problem import Problem
from ...theory.widths import logistic_interval, sigma
from .calibrated import deviation_and_share, graded_of
from .logistic import stable_sigma
from .mixture import SURE, mixture_half_width
from .regression import CALIBRATED, LAPLACE, RIDGE, call_learn, possible_means, ridge_half_width, times_scale


class RewardSizes(NamedTuple):
    """What a form of reward learning is about."""

    shape: tuple[int, int]  # of the independent problems: (S, A), or (B, 1) with a design
    dim: int  # of what means are linear in: d, or the largest p of a block
    context_bound: float  # of its length
    bound: float  # of the weights


def reward_sizes(problem: Problem, blocks: Blocks | None) -> RewardSizes:
    """Per pair, or per block where there are any."""
    p = problem
    if blocks is None:
        return RewardSizes((p.n_states, p.n_actions), p.context_dim, p.context_bound, p.unit_reward_bound)
    longest = max(float(np.linalg.norm(blocks.features, axis=-1).max()), 1e-12)
    return RewardSizes(
        (blocks.size.size, 1), blocks.column.shape[1], p.context_bound * longest, float(blocks.bound.max())
    )


def scaled_blocks(problem: Problem) -> Blocks | None:
    """The design of the rewards with one bound, the largest: a block whose own is smaller has smaller features. In
    units of the range of rewards."""
    blocks = problem.reward_blocks
    if blocks is None:
        return None
    part = blocks.bound / blocks.bound.max()
    features = np.ascontiguousarray(blocks.features * part[blocks.block][..., None, None])
    return blocks._replace(features=features, bound=np.full_like(blocks.bound, blocks.bound.max() / problem.scale.unit))


@inlined
def lift(par, work, s, a, x):
    """work.lifted [p] <- u of pair (s, a) at x, 0 beyond its block's entries."""
    b, psi = par.block[s, a], par.features[s, a]
    for e in range(work.lifted.shape[0]):
        work.lifted[e] = 0.0
    for i in range(psi.shape[0]):
        for e in range(par.begin[b, i], par.begin[b, i + 1]):
            work.lifted[e] = psi[i] * x[par.column[b, e]]


@kernel
def learn_lifted(par, state, work, s, a, reward, x):
    """One observed reward of pair (s, a) at x, for its block."""
    lift(par, work, s, a, x)
    call_learn(par.inner, (par, state, work, par.block[s, a], 0, reward, work.lifted))


@kernel
def shapes_ridge(par, state, work, x):
    """work.t[b, 0], work.forms[b, 0, 0] <- Theta x and B_x = X' V^{-1} X of every block b: of u = X psi the mean is
    psi't, the squared length in V^{-1} psi'B_x psi."""
    q = work.t.shape[2]
    for b in range(work.t.shape[0]):
        t, B, K, start = work.t[b, 0], work.forms[b, 0, 0], work.columns[0], par.begin[b]
        columns_at(par, b, state.inverse[b, 0], x, K)
        for i in range(q):
            t[i] = 0.0
            for e in range(start[i], start[i + 1]):
                t[i] += state.theta[b, 0, e] * x[par.column[b, e]]
            for k in range(q):
                B[i, k] = 0.0
                for e in range(start[k], start[k + 1]):
                    B[i, k] += K[i, e] * x[par.column[b, e]]


@kernel
def columns_at(par, b, matrix, x, K):
    """K [q, p] <- X' matrix."""
    for i in range(K.shape[0]):
        for e in range(K.shape[1]):
            K[i, e] = 0.0
        for c in range(par.begin[b, i], par.begin[b, i + 1]):
            v = x[par.column[b, c]]
            for e in range(K.shape[1]):
                K[i, e] += v * matrix[c, e]


@kernel
def shapes_mixture(par, state, work, x):
    """What `mixture.dual_vector` says of h = (G + shift I)^{-1} u as forms in psi, for both shifts: work.t[b, v] has
    h'sum x_i r_i, work.forms[b, v] has h'J h, ||h||^2 and ||u - G h||^2. O(q p^2) per block."""
    q, E = work.t.shape[2], work.columns.shape[2]
    H, GH, JH = work.columns[0], work.columns[1], work.columns[2]
    for b in range(work.t.shape[0]):
        for v in range(2):
            t, forms = work.t[b, v], work.forms[b, v]
            columns_at(par, b, state.inverse[b, 0] if v == 0 else state.mixture.wide[b, 0], x, H)
            for i in range(q):
                times(state.gram[b, 0], H[i], GH[i])
                times(state.mixture.sums[b, 0, 0], H[i], JH[i])
                t[i] = 0.0
                for e in range(E):
                    GH[i, e] = -GH[i, e] + par.regularization * H[i, e]
                    t[i] += H[i, e] * state.moment[b, 0, e]
                for e in range(par.begin[b, i], par.begin[b, i + 1]):
                    GH[i, e] += x[par.column[b, e]]
            for i in range(q):
                for k in range(q):
                    form, hh, rest = 0.0, 0.0, 0.0
                    for e in range(E):
                        form += H[i, e] * JH[k, e]
                        hh += H[i, e] * H[k, e]
                        rest += GH[i, e] * GH[k, e]
                    forms[0, i, k], forms[1, i, k], forms[2, i, k] = form, hh, rest


@inlined
def dot_of(psi, t):
    total = 0.0
    for i in range(psi.shape[0]):
        total += psi[i] * t[i]
    return total


@inlined
def form_at(psi, B):
    """psi'B psi, not negative."""
    total = 0.0
    for i in range(psi.shape[0]):
        inner = 0.0
        for k in range(psi.shape[0]):
            inner += B[i, k] * psi[k]
        total += psi[i] * inner
    return max(total, 0.0)


call_shapes = slot("shapes of reward blocks")  # (par, state, work, x)
call_one = slot("reward range of a pair in a block")  # (par, state, work, b, psi, norm, ends), norm = ||psi|| ||x||


@kernel
def one_ridge(par, state, work, b, psi, norm, ends):
    bottom, top = possible_means(par, norm)
    z = dot_of(psi, work.t[b, 0]) - par.offset
    w = ridge_half_width(par, state, b, 0, form_at(psi, work.forms[b, 0, 0]), par.log)
    lo, hi = max(z - w, bottom), min(z + w, top)
    empty = lo > hi
    ends[0], ends[1] = bottom if empty else lo, top if empty else hi


@kernel
def one_logistic(par, state, work, b, psi, norm, ends):
    """As `ranges_logistic`."""
    cap, z = par.bound * norm, dot_of(psi, work.t[b, 0])
    lo, hi = -cap, cap
    if state.radius[b, 0] >= 0.0:
        w = math.sqrt(state.radius[b, 0] * form_at(psi, work.forms[b, 0, 0])) * (1.0 + 1e-9) + 1e-12
        if z - w <= cap and z + w >= -cap:
            lo, hi = max(lo, z - w), min(hi, z + w)
    ends[0], ends[1] = stable_sigma(lo), stable_sigma(hi)


@kernel
def one_mixture(par, state, work, b, psi, norm, ends):
    """As `mixture_range` without extremes: the larger shift only where the smaller says little."""
    bottom, top = possible_means(par, norm)
    lo, hi, half = bottom, top, math.inf
    for v in range(2):
        if half > SURE:
            form, hh = form_at(psi, work.forms[b, v, 0]), form_at(psi, work.forms[b, v, 1])
            half = mixture_half_width(par, state, b, 0, form, hh, form_at(psi, work.forms[b, v, 2]))
            centre = dot_of(psi, work.t[b, v]) - par.offset
            lo, hi = max(lo, centre - half), min(hi, centre + half)
    empty = not lo <= hi
    ends[0], ends[1] = bottom if empty else lo, top if empty else hi


@kernel
def width_along(par, state, work, b, psi):
    """At most how far theta_b'X psi is from its estimate psi't, t = work.t[b, 0], for any features psi [Q]; after
    `call_shapes`. Of RIDGE, HOEFFDING and BERNSTEIN."""
    forms = work.forms[b, 0]
    if par.form == RIDGE:
        return ridge_half_width(par, state, b, 0, form_at(psi, forms[0]), par.log) * (1.0 + 1e-9)
    form, hh, rest = form_at(psi, forms[0]), form_at(psi, forms[1]), form_at(psi, forms[2])
    return mixture_half_width(par, state, b, 0, form, hh, rest)


@kernel
def ranges_lifted(par, state, work, x, low, high):
    call_shapes(par.shapes, (par, state, work, x))
    norm = norm_of(x)
    for s in range(low.shape[0]):
        for a in range(low.shape[1]):
            psi = par.features[s, a]
            args = par, state, work, par.block[s, a], psi, norm * norm_of(psi), work.ends
            call_one(par.one, args)
            low[s, a], high[s, a] = work.ends[0], work.ends[1]


@kernel
def posterior_lifted(par, state, work, x, mean, deviation, share):
    """As `regression.posterior` or `calibrated.posterior_calibrated`, for every pair alone."""
    shapes_ridge(par, state, work, x)
    if par.form == CALIBRATED or par.form == LAPLACE:
        lifted_posterior(par, state, work, x, mean, deviation, share)
        return
    for s in range(mean.shape[0]):
        for a in range(mean.shape[1]):
            b, psi = par.block[s, a], par.features[s, a]
            z, q, slope = dot_of(psi, work.t[b, 0]), form_at(psi, work.forms[b, 0, 0]), 0.5
            if par.logistic == 1:
                z = sigma(z)
                slope = z * (1.0 - z)
            else:
                z -= par.offset
            mean[s, a] = min(max(z, 0.0), 1.0)
            deviation[s, a] = slope * math.sqrt(q)
            share[s, a] = 0.0


@inlined
def lifted_posterior(par, state, work, x, mean, deviation, share):
    """`calibrated.posterior_calibrated` after `shapes_ridge`; the length of u = X psi counts: ||u||^2 = sum_i psi_i^2
    times the squared length of what feature i meets of x, in work.t[b, 1]."""
    for b in range(work.t.shape[0]):
        for i in range(work.t.shape[2]):
            work.t[b, 1, i] = 0.0
            for e in range(par.begin[b, i], par.begin[b, i + 1]):
                work.t[b, 1, i] += x[par.column[b, e]] ** 2
    graded = graded_of(state)
    for s in range(mean.shape[0]):
        for a in range(mean.shape[1]):
            b, psi = par.block[s, a], par.features[s, a]
            z, q, norm2 = dot_of(psi, work.t[b, 0]), form_at(psi, work.forms[b, 0, 0]), 1e-300
            for i in range(psi.shape[0]):
                norm2 += psi[i] * psi[i] * work.t[b, 1, i]
            z = sigma(z) if par.form == LAPLACE else min(max(z - par.offset, 0.0), 1.0)
            mean[s, a] = z
            deviation[s, a], share[s, a] = deviation_and_share(par, state, b, 0, z, q, norm2, graded)


@kernel
def estimates_lifted(par, state, work, x, log, mean, interval, bonus):
    """As `estimate_ridge`, or where means are logistic `estimate_newton` or `estimate_laplace`."""
    shapes_ridge(par, state, work, x)
    norm = norm_of(x)
    for s in range(mean.shape[0]):
        for a in range(mean.shape[1]):
            b, psi = par.block[s, a], par.features[s, a]
            z, q = dot_of(psi, work.t[b, 0]), form_at(psi, work.forms[b, 0, 0])
            if par.logistic == 1:
                bound = par.bound * norm * norm_of(psi)
                v = min(max(z, -bound), bound)
                w2 = (state.radius[b, 0] + par.log_weight * log) * q - (v - z) * (v - z)
                mean[s, a] = sigma(v)
                w = math.sqrt(w2) if w2 >= 0.0 and par.form != LAPLACE else math.inf
                interval[s, a] = min(1.0, logistic_interval(w, v, bound))
                bonus[s, a] = min(1.0, logistic_interval(times_scale(par.scale, w), v, bound))
            else:
                mean[s, a] = min(max(z - par.offset, 0.0), 1.0)
                w = ridge_half_width(par, state, b, 0, q, log)
                interval[s, a], bonus[s, a] = min(1.0, w), min(1.0, times_scale(par.scale, w))
