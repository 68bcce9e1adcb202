"""The parts the agents with local sets share: what they keep, what it says about one individual, and planning on it.

Three kinds of transition sets, one kernel of each kind that describes an individual here and one that learns in
`agents.set_learning`:

    online   likelihood-ratio sets (`estimators.likelihood_ratio`), constant cost and memory
    stored   mixture sets over all data (`estimators.mixture`), refreshed as it grows
    linear   sign-union sets (`estimators.sign_union`), for the linear link

and, in `agents.set_draws`, samples of models from an approximate posterior. Agents of one kind share the types of par,
state and work, and with them the compiled simulation loop.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import Floats
from .._jit import caller, inlined, kernel
from .._linear_algebra import pair_predictors
from ..estimators.likelihood_ratio import (
    LikelihoodPar,
    LikelihoodState,
    LikelihoodWork,
    form_at,
    kron_covariance,
    products_of,
)
from ..estimators.mixture import mixture_fill
from ..estimators.reward_sets import RewardSetPar, RewardSetState, RewardSetWork, reward_ranges
from ..estimators.rewards import KNOWN, RewardPar, RewardState
from ..estimators.sign_union import sign_union_sets
from ..estimators.store import Store
from ..local_sets import LocalSets, behind_slopes, packed_row, unpack
from ..optimism import SearchPar, SearchWork, apply_assess, apply_optimum, reads_cov
from ..problem import Layout
from ..theory.widths import sigma
from .glm import norm_of


class SetPar(NamedTuple):
    seed: int
    layout: Layout
    starts: NDArray[np.int64]  # states an episode may begin in
    describe: Any  # address of the kernel that fills work.local
    derive: Any  # address of `local_sets.derive`
    draw: Any  # address of the kernel that fills work.P and work.r
    planner: Any  # address of `planning.backward_induction`
    refresh: Any  # address of `_linear_algebra.refresh_inverse`, for the estimated mean rewards
    several: Any  # address of `best_of_draws`, and of its hook, where it is needed
    best_draw: Any
    search: SearchPar
    transitions: Any  # LikelihoodPar, MixturePar or SignUnionPar
    sampler: LikelihoodPar
    rewards: RewardSetPar
    means: RewardPar
    log_transition: float  # ln(1/delta) of one transition set
    logits: int  # 1: the sets are ellipsoids of logits
    scale: float  # on every bonus
    kappa: float  # of the gate
    posterior_scale: float
    certify: int  # 1: bounds on the values of the plan are computed too
    estimates: int  # 1: estimated mean rewards are needed, for draws or less than all of the bonus, not ranges alone


class SetState(NamedTuple):
    transitions: Any  # LikelihoodState, MixtureState or SignUnionState; of no pairs where no sets are kept
    sampler: LikelihoodState  # the approximate posterior; of no pairs where nothing is drawn from it
    rewards: RewardSetState
    means: RewardState  # estimates of the mean rewards, learned where par.estimates = 1
    store: Store
    gate: NDArray[np.int64]  # [8], episodes in which the draw, one of six rungs, or the optimistic policy was played


class SetWork(NamedTuple):
    transitions: Any  # LikelihoodWork, MixtureWork or SignUnionWork
    sampler: LikelihoodWork
    rewards: RewardSetWork
    local: LocalSets
    described: Floats  # [d], the context that online sets in `local` are about, until something is learned; nan: none
    search: SearchWork
    mean: Floats  # [S, A], estimated mean rewards
    spread: Floats  # [S, A], their posterior standard deviations
    P: Floats  # [J, S, A, M], drawn models
    r: Floats  # [J, S, A]
    normal: Floats  # [2, N]
    policy: NDArray[np.int64]  # [H, S], a candidate
    values: Floats  # [H+1, S], as it was planned
    upper: Floats  # [H+1, S], of the policy in hand
    lower: Floats
    Q: Floats  # [S, A]
    none: Floats  # [0, 0, 0]
    table: Floats  # [4, M+1]
    smallest: Floats  # [M]
    squares: Floats  # [2, M, M]
    zx: Floats  # [d]
    gram: Floats  # [d, d]


apply_derive = caller()


# What is known of one individual ----------------------------------------------------------------------------------
@inlined
def reward_means(par, state, work, x):
    """work.mean, work.spread for all pairs: ridge regression and half of ||x||_{V^{-1}}, or the like if logistic."""
    means = state.means
    for s in range(work.mean.shape[0]):
        for a in range(work.mean.shape[1]):
            form, mean = 0.0, 0.0
            for b in range(x.shape[0]):
                t = 0.0
                for c in range(x.shape[0]):
                    t += means.inverse[s, a, b, c] * x[c]
                form += t * x[b]
                mean += means.theta[s, a, b] * x[b]
            slope = 0.5
            if par.means.logistic == 1:
                mean = sigma(mean)
                slope = mean * (1.0 - mean)
            work.mean[s, a] = min(max(mean, 0.0), 1.0)
            work.spread[s, a] = 0.0 if par.means.learned == KNOWN else slope * math.sqrt(max(form, 0.0))


@inlined
def ranges(par, state, work, x, norm):
    """work.local.low, high for all pairs; the estimates in work.mean, where needed, are moved between them."""
    local = work.local
    if par.estimates == 1:
        reward_means(par, state, work, x)
    reward_ranges(par.rewards, state.rewards, work.rewards, x, norm, local.low, local.high)
    if par.estimates == 1:
        for s in range(work.mean.shape[0]):
            for a in range(work.mean.shape[1]):
                work.mean[s, a] = min(max(work.mean[s, a], local.low[s, a]), local.high[s, a])


@inlined
def finish(par, state, work, x, norm, bound, spans):
    """What all ellipsoids of logits have in common; spans=1: their spans are not known yet."""
    apply_derive(par.derive, (work.local, par.layout, bound, work.table, work.smallest, spans))
    ranges(par, state, work, x, norm)


@kernel
def describe_online(par, state, work, x):
    """work.local <- the sets of the individual with context x."""
    norm, local, count = norm_of(x), work.local, par.layout.count
    bound, sets, w = par.transitions.weight_bound * norm, state.transitions, work.transitions
    pair_predictors(sets.weights, x, par.layout, local.z)
    products_of(x, w.products)
    (S, A, M), d, J, at = local.P.shape, x.shape[0], par.transitions.pairs, 0
    local.from_packed[0] = 1 - par.transitions.kron
    for s in range(S):
        for a in range(A):
            n, radius = count[s, a], sets.radius[s, a]
            if par.transitions.kron == 1:
                kron_covariance(sets.covariance[s, a], x, n, local.cov[s, a])
            elif n > 1:
                form_at(sets.forms[s, a], w.products, n - 1, d, J, local.packed, at)
            local.rho[s, a] = math.sqrt(radius) if radius >= 0.0 else math.inf
            at += packed_row(M)
    for b in range(d):
        work.described[b] = x[b]
    if reads_cov(par.search, local):
        unpack(local, par.layout)
    finish(par, state, work, x, norm, bound, 1)


@kernel
def describe_stored(par, state, work, x):
    norm, count = norm_of(x), par.layout.count
    for s in range(count.shape[0]):
        for a in range(count.shape[1]):
            mixture_fill(par.transitions, state.transitions, s, a, x, norm, work.local)
    finish(par, state, work, x, norm, par.transitions.weight_bound * norm, 0)


@kernel
def describe_linear(par, state, work, x):
    sign_union_sets(par.transitions, state.transitions, work.transitions, par.layout, x, work.local)
    behind_slopes(work.local, 1)
    ranges(par, state, work, x, norm_of(x))


apply_describe = caller()


# Planning, over the sets described last -------------------------------------------------------------------------------
@inlined
def optimum(par, work, k, scale, policy, values):
    """policy, values <- `optimism.optimum`."""
    apply_optimum(par.search.optimum, (par.search, work.local, work.search, work.mean, k, scale, policy, values))


@inlined
def assess(par, work, policy):
    """work.upper, work.lower <- `optimism.assess`."""
    apply_assess(par.search.assess, (par.search, work.local, work.search, policy, work.upper, work.lower))


@inlined
def assess_lower(par, work, policy):
    """work.lower alone."""
    apply_assess(par.search.assess, (par.search, work.local, work.search, policy, work.upper[:0], work.lower))


@kernel
def judge(par, state, work, x, k, policy, values):
    """values, work.upper, work.lower <- optimistic values and bounds for a policy, which stays as it is."""
    apply_describe(par.describe, (par, state, work, x))
    optimum(par, work, k, 1.0, work.policy, values)
    assess(par, work, policy)
