"""Mean rewards where pairs share weights: every form of `estimators.rewards.forms`, per block of a design.

The mean reward of pair (s, a) at x is theta_b'u, or sigma of it, with u = psi(s, a) (x) x [q d], index (feature i,
column c) -> i d + c. So a block is learned as one pair is whose contexts are the u: the state of a form has one "pair"
(b, 0) per block. `lift` makes u, and the rest is what the form does. Features are given in units of the blocks' bounds
(`reward_blocks`), so that one bound serves all of them.
"""

import math
from typing import NamedTuple

import numpy as np

from ...compiler.jit import inlined, kernel
from ...compiler.slots import slot
from ...numerics.linear_algebra import norm_of
from ...problem.design import Blocks
from ...problem.problem import Problem
from ...theory.widths import logistic_interval, sigma
from .logistic import stable_sigma
from .mixture import call_learn, call_range
from .regression import half_width, largest_mean, look


class RewardSizes(NamedTuple):
    """What a form of reward learning is about."""

    shape: tuple[int, int]  # of the independent problems: (S, A), or (B, 1) with a design
    dim: int  # of what means are linear in: d, or Q d
    context_bound: float  # of its length
    bound: float  # of the weights


def reward_sizes(problem: Problem, blocks: Blocks | None) -> RewardSizes:
    """Per pair, or per block where there are any."""
    p = problem
    if blocks is None:
        return RewardSizes((p.n_states, p.n_actions), p.context_dim, p.context_bound, p.reward_bound)
    B, Q = blocks.size.size, blocks.features.shape[3]
    longest = max(float(np.linalg.norm(blocks.features, axis=-1).max()), 1e-12)
    return RewardSizes((B, 1), Q * p.context_dim, p.context_bound * longest, float(blocks.bound.max()))


def scaled_blocks(problem: Problem) -> Blocks | None:
    """The design of the rewards with one bound, the largest: a block whose own is smaller has smaller features."""
    blocks = problem.reward_blocks
    if blocks is None:
        return None
    part = blocks.bound / blocks.bound.max()
    features = np.ascontiguousarray(blocks.features * part[blocks.block][..., None, None])
    return blocks._replace(features=features, bound=np.full_like(blocks.bound, blocks.bound.max()))


@inlined
def lift(par, work, s, a, x):
    """work.lifted [q d] <- psi(s, a) (x) x."""
    d, psi = x.shape[0], par.features[s, a]
    for i in range(psi.shape[0]):
        for c in range(d):
            work.lifted[i * d + c] = psi[i] * x[c]


@kernel
def learn_lifted(par, state, work, s, a, reward, x):
    """One observed reward of pair (s, a) at x, for its block."""
    lift(par, work, s, a, x)
    call_learn(par.inner, (par, state, work, par.block[s, a], 0, reward, work.lifted))


call_one = slot("reward range of a block")  # (par, state, work, block, u, ends)


@kernel
def one_ridge(par, state, work, b, u, ends):
    top = largest_mean(par, u)
    z, q = look(state, work, b, 0, u)
    w = half_width(par, state, b, 0, q, par.log)
    lo, hi = max(z - w, 0.0), min(z + w, top)
    empty = lo > hi
    ends[0], ends[1] = 0.0 if empty else lo, top if empty else hi


@kernel
def one_logistic(par, state, work, b, u, ends):
    """As `ranges_logistic`."""
    cap = par.bound * norm_of(u)
    z, m = look(state, work, b, 0, u)
    lo, hi = -cap, cap
    if state.radius[b, 0] >= 0.0:
        w = math.sqrt(state.radius[b, 0] * max(m, 0.0)) * (1.0 + 1e-9) + 1e-12
        if z - w <= cap and z + w >= -cap:
            lo, hi = max(lo, z - w), min(hi, z + w)
    ends[0], ends[1] = stable_sigma(lo), stable_sigma(hi)


@kernel
def one_mixture(par, state, work, b, u, ends):
    work.mixture.ends[0], work.mixture.ends[1] = 0.0, largest_mean(par, u)
    call_range(par.mixture.range, (par, state, work, b, 0, u, 0))
    ends[0], ends[1] = work.mixture.ends[0], work.mixture.ends[1]


@kernel
def ranges_lifted(par, state, work, x, low, high):
    for s in range(low.shape[0]):
        for a in range(low.shape[1]):
            lift(par, work, s, a, x)
            call_one(par.one, (par, state, work, par.block[s, a], work.lifted, work.ends))
            low[s, a], high[s, a] = work.ends[0], work.ends[1]


@kernel
def posterior_lifted(par, state, work, x, mean, spread):
    """As `regression.posterior`, for every pair alone."""
    for s in range(mean.shape[0]):
        for a in range(mean.shape[1]):
            lift(par, work, s, a, x)
            z, q = look(state, work, par.block[s, a], 0, work.lifted)
            slope = 0.5
            if par.logistic == 1:
                z = sigma(z)
                slope = z * (1.0 - z)
            mean[s, a] = min(max(z, 0.0), 1.0)
            spread[s, a] = slope * math.sqrt(max(q, 0.0))


@kernel
def estimates_lifted(par, state, work, x, log, mean, interval):
    """As `estimate_ridge`, or `estimate_newton` where means are logistic."""
    for s in range(mean.shape[0]):
        for a in range(mean.shape[1]):
            b = par.block[s, a]
            lift(par, work, s, a, x)
            z, q = look(state, work, b, 0, work.lifted)
            if par.logistic == 1:
                bound = par.bound * norm_of(work.lifted)
                v = min(max(z, -bound), bound)
                w2 = (state.radius[b, 0] + par.log_weight * log) * q - (v - z) * (v - z)
                mean[s, a] = sigma(v)
                interval[s, a] = min(1.0, logistic_interval(math.sqrt(w2) if w2 >= 0.0 else math.inf, v, bound))
            else:
                mean[s, a] = min(max(z, 0.0), 1.0)
                interval[s, a] = min(1.0, half_width(par, state, b, 0, q, log))


@kernel
def covariance_lifted(par, state, b, x, t, B):
    """t [q], B [q, q] <- Theta x and (I (x) x)' V^{-1} (I (x) x) of block b."""
    d, q = x.shape[0], t.shape[0]
    for i in range(q):
        t[i] = 0.0
        for c in range(d):
            t[i] += state.theta[b, 0, i * d + c] * x[c]
        for k in range(q):
            total = 0.0
            for c in range(d):
                inner = 0.0
                for e in range(d):
                    inner += state.inverse[b, 0, i * d + c, k * d + e] * x[e]
                total += inner * x[c]
            B[i, k] = total
