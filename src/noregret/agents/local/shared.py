"""What agents with local sets do where pairs share weights: describe an individual, and draw a model of them.

A draw is one Theta per block, so that all pairs of a block are drawn together: t ~ N(Theta x, scale^2 B_x) [q] once per
block and model, then logits phi t per pair; mean rewards psi t likewise.
"""

import math

import numpy as np

from ...beliefs.local import softmax
from ...compiler.jit import inlined, kernel
from ...compiler.slots import slot
from ...estimators.likelihood.shared import describe_blocks, look_at
from ...estimators.mixture.shared import block_due, call_block
from ...estimators.rewards.calibrated import drawn_mean, graded_of, noise_of
from ...estimators.rewards.regression import CALIBRATED
from ...estimators.rewards.shared import shapes_ridge
from ...numerics.linear_algebra import cholesky, norm_of
from ...numerics.random import fill_normals
from ...problem.problem import Problem
from .sets import DrawWork, enter, finish, learn_posterior, learn_rest, renew_rewards, reward_means


def draw_work(problem: Problem) -> DrawWork:
    made = [blocks for blocks in (problem.blocks, problem.reward_blocks) if blocks is not None]
    q = max([blocks.features.shape[3] for blocks in made], default=0)
    n = max([blocks.size.size for blocks in made], default=0)
    f = np.zeros
    return DrawWork(f((q, q)), f((n, q)), f(problem.layout.outcomes.shape[2]))


def normals_needed(problem: Problem, draws: int) -> int:
    """How many normals J = draws models take: per pair M for the logits and 1 for the reward; with a design Q per
    block instead."""
    (S, A, M), blocks = problem.layout.outcomes.shape, (problem.blocks, problem.reward_blocks)
    transitions, rewards = (0 if made is None else made.size.size * made.features.shape[3] for made in blocks)
    if problem.blocks is None:
        return draws * int(S * A * (M + 1) + rewards)
    return draws * int(transitions + (rewards or S * A))


@kernel
def describe_shared(par, state, work, x, known):
    """work.local <- the sets of the individual with context x; known: as in `sets.ranges`."""
    describe_blocks(par.transitions, state.transitions, work.transitions, x, work.local, work.derive, 1)
    finish(par, state, work, x, known, par.transitions.weight_bound * norm_of(x), 0)


@kernel
def describe_mixed(par, state, work, x, known):
    """The same from stored sets."""
    of = par.transitions.shared
    describe_blocks(of, state.transitions, work.transitions.shared, x, work.local, work.derive, 1)
    finish(par, state, work, x, known, of.weight_bound * norm_of(x), 0)


@kernel
def learn_mixed(par, state, work, x, k, n, path):
    """Learn an episode of n steps, by stored sets of blocks."""
    sets, kept, w = par.transitions, state.transitions, work.transitions
    enter(state, x, k)
    learn_posterior(par, state, work, x, n, path)
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        learn_rest(par, state, work, x, k, h, path)
        if block_due(sets, kept, w, s, a, x) == 1:
            call_block(sets.refresh, (sets, kept, w, state.store, sets.shared.block[s, a], par.log_transition))


@kernel
def renew_mixed(par, state, work):
    """All stored sets anew, where there is data that they have not seen."""
    sets, kept, w = par.transitions, state.transitions, work.transitions
    renew_rewards(par, state, work)
    for b in range(kept.refreshed.shape[0]):
        if kept.refreshed[b] < kept.samples[b]:
            call_block(sets.refresh, (sets, kept, w, state.store, b, par.log_transition))


@inlined
def normal_at(work, i):
    half = work.normal.shape[1]
    return work.normal[i // half, i % half]


@inlined
def draw_block(work, B, q, first, scale, drawn):
    """drawn [q] <- scale L e, L L' = B and e the normals from `first` on."""
    trace, factor = 0.0, work.shared.factor
    for i in range(q):
        trace += B[i, i]
    cholesky(B[:q, :q], 1e-12 * trace + 1e-290, factor[:q, :q])
    for i in range(q):
        v = 0.0
        for k in range(i + 1):
            v += factor[i, k] * normal_at(work, first + k)
        drawn[i] = scale * v


@inlined
def reward_noise(means, state, b):
    """The standard deviation of a reward of block b as the posterior has it."""
    graded, total = graded_of(state)
    return math.sqrt(noise_of(state, b, 0, graded, total)) if means.form == CALIBRATED else 0.5


@kernel
def draw_lifted(par, state, work, x, first):
    """work.r [J, S, A] <- mean rewards drawn from the normal posterior of each block's weights, around work.mean;
    normals from `first` on."""
    J, S, A = work.r.shape
    means, w = par.means, work.shared
    B, Q = state.means.theta.shape[0], means.features.shape[2]
    shapes_ridge(means, state.means, work.rewards, x)
    for m in range(J):
        for b in range(B):
            draw_block(work, work.rewards.forms[b, 0, 0], Q, first + (m * B + b) * Q, par.posterior_scale, w.drawn[b])
        for s in range(S):
            for a in range(A):
                b, z, moved = means.block[s, a], work.mean[s, a], 0.0
                for i in range(Q):
                    moved += means.features[s, a, i] * w.drawn[b, i]
                slope = z * (1.0 - z) if means.logistic == 1 else reward_noise(means, state.means, b)
                work.r[m, s, a] = drawn_mean(means.form, z, par.posterior_scale * work.deviation[s, a], slope * moved)


call_lifted = slot("rewards drawn by block")  # (par, state, work, x, first)


@kernel
def draw_shared(par, state, work, x, k, purpose):
    """work.P, work.r [J, ...] <- models drawn from N(Theta, posterior_scale^2 Lambda^{-1}) of every block."""
    J, S, A, _ = work.P.shape
    sampler, w, drawn = par.sampler, work.sampler, work.shared.drawn
    B, Q = w.t.shape
    fill_normals(par.seed, k, purpose, work.normal[0], work.normal[1])
    reward_means(par, state, work, x)
    for b in range(B):
        look_at(sampler, state.sampler, w, b, x)
    for m in range(J):
        for b in range(B):
            q = sampler.size[b]
            draw_block(work, w.B[b], q, (m * B + b) * Q, par.posterior_scale, drawn[b])
            for i in range(q):
                drawn[b, i] += w.t[b, i]
        for s in range(S):
            for a in range(A):
                b, n, z = sampler.block[s, a], par.layout.count[s, a], work.shared.z
                for j in range(n):
                    v = 0.0
                    for i in range(sampler.size[b]):
                        v += sampler.features[s, a, j, i] * drawn[b, i]
                    z[j] = v
                softmax(z, n, work.P[m, s, a])
    rewards = J * B * Q
    if par.means.block.shape[0] > 0:
        call_lifted(par.lifted, (par, state, work, x, rewards))
    else:
        for m in range(J):
            for s in range(S):
                for a in range(A):
                    e = normal_at(work, rewards + (m * S + s) * A + a)
                    spread = par.posterior_scale * work.deviation[s, a]
                    work.r[m, s, a] = drawn_mean(par.means.form, work.mean[s, a], spread, e)
