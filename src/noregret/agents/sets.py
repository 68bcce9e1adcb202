"""The parts the agents with local sets share: what they keep, what it says about one individual, and how they learn.

Three kinds of transition sets, one kernel of each kind that describes an individual and one that learns:

    online   likelihood-ratio sets (`estimators.likelihood_ratio`), constant cost and memory
    stored   mixture sets over all data (`estimators.mixture`), refreshed as it grows
    linear   sign-union sets (`estimators.sign_union`), for the linear link

and `draw`, which samples models from an approximate posterior. Agents of one kind share the types of par, state and
work, and with them the compiled simulation loop.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import Floats
from .._jit import caller, inlined, kernel, merged
from .._linear_algebra import cholesky, pair_predictors
from .._random import fill_normals
from ..estimators.likelihood_ratio import (
    LikelihoodPar,
    LikelihoodState,
    LikelihoodWork,
    kron_covariance,
    likelihood_close,
    likelihood_cov,
    likelihood_open,
    likelihood_query,
    likelihood_visit,
    products,
)
from ..estimators.mixture import apply_mixture, mixture_due, mixture_fill
from ..estimators.reward_sets import (
    RewardSetPar,
    RewardSetState,
    RewardSetWork,
    reward_due,
    reward_learn,
    reward_range,
    reward_refresh,
)
from ..estimators.rewards import KNOWN, RIDGE, RewardPar, RewardState, apply_logistic_step, ridge_step
from ..estimators.sign_union import sign_union_sets, sign_union_step
from ..estimators.store import Store, remember
from ..links import apply_projection
from ..local_sets import LocalSets, derive, largest_span, log_softmax, softmax_all
from ..optimism import SearchPar, SearchWork, apply_assess, apply_optimum
from ..planning import backward_induction_with, expectation
from ..problem import Layout
from ..theory.widths import sigma
from .glm import norm_of, slot_of


class SetPar(NamedTuple):
    seed: int
    layout: Layout
    starts: NDArray[np.int64]  # states an episode may begin in
    describe: Any  # address of the kernel that fills work.local
    draw: Any  # address of the kernel that fills work.P and work.r
    planner: Any  # address of `planning.backward_induction`
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


class SetState(NamedTuple):
    transitions: Any  # LikelihoodState, MixtureState or SignUnionState; of no pairs where no sets are kept
    sampler: LikelihoodState  # the approximate posterior; of no pairs where nothing is drawn from it
    rewards: RewardSetState
    means: RewardState  # estimates of the mean rewards, for planning with less than all of the bonus and for draws
    store: Store
    gate: NDArray[np.int64]  # [8], episodes in which the draw, one of six rungs, or the optimistic policy was played


class SetWork(NamedTuple):
    transitions: Any  # LikelihoodWork, MixtureWork or SignUnionWork
    sampler: LikelihoodWork
    rewards: RewardSetWork
    local: LocalSets
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
def reward_ranges(par, state, work, x, norm):
    """work.local.low, high for all pairs; the estimates in work.mean are moved between them."""
    local = work.local
    reward_means(par, state, work, x)
    for s in range(work.mean.shape[0]):
        for a in range(work.mean.shape[1]):
            low, high = local.low[s, a : a + 1], local.high[s, a : a + 1]
            reward_range(par.rewards, state.rewards, work.rewards, s, a, x, norm, low, high)
            work.mean[s, a] = min(max(work.mean[s, a], low[0]), high[0])


@inlined
def finish(par, state, work, x, norm, bound):
    """What all ellipsoids of logits have in common."""
    local, count = work.local, par.layout.count
    softmax_all(merged(local.z), merged(count), merged(local.P))
    derive(local, par.layout, bound, work.table, work.smallest)
    reward_ranges(par, state, work, x, norm)


@kernel
def describe_online(par, state, work, x):
    """work.local <- the sets of the individual with context x."""
    norm, local, count = norm_of(x), work.local, par.layout.count
    bound, sets = par.transitions.weight_bound * norm, state.transitions
    pair_predictors(sets.weights, x, par.layout, local.z)
    products(x, work.transitions.products)
    for s in range(count.shape[0]):
        for a in range(count.shape[1]):
            n, z, cov, radius = count[s, a], local.z[s, a], local.cov[s, a], sets.radius[s, a]
            if par.transitions.kron == 1:
                kron_covariance(sets.covariance[s, a], x, n, cov)
            else:
                likelihood_cov(par.transitions, sets.forms[s, a], work.transitions, n, x.shape[0], norm, cov)
            rho = math.sqrt(radius) if radius >= 0.0 else math.inf
            local.rho[s, a] = rho
            local.span[s, a] = largest_span(cov, rho, z, bound, n)
    finish(par, state, work, x, norm, bound)


@kernel
def describe_stored(par, state, work, x):
    norm, count = norm_of(x), par.layout.count
    for s in range(count.shape[0]):
        for a in range(count.shape[1]):
            mixture_fill(par.transitions, state.transitions, s, a, x, norm, work.local)
    finish(par, state, work, x, norm, par.transitions.weight_bound * norm)


@kernel
def describe_linear(par, state, work, x):
    sign_union_sets(par.transitions, state.transitions, work.transitions, par.layout, x, work.local)
    reward_ranges(par, state, work, x, norm_of(x))


apply_describe = caller()


# Models drawn from a posterior --------------------------------------------------------------------------------------
@inlined
def normal_number(work, i):
    """Number i of the episode's normals."""
    half = work.normal.shape[1]
    return work.normal[i // half, i % half]


@inlined
def draw_reward(par, work, m, s, a, i):
    v = work.mean[s, a] + par.posterior_scale * work.spread[s, a] * normal_number(work, i)
    work.r[m, s, a] = min(max(v, 0.0), 1.0)


@kernel
def draw_logit(par, state, work, x, k, purpose):
    """work.P, work.r [J, ...] <- models drawn from N(W, posterior_scale^2 Lambda^{-1}) of `sampler`, and mean rewards
    from normal posteriors around ridge regression. Model m and pair (s, a) take M + 1 normals, the last for the reward.

    cov comes with a component along the all-ones vector, which the softmax does not see."""
    J, S, A, M = work.P.shape
    norm, w = norm_of(x), work.sampler
    fill_normals(par.seed, k, purpose, work.normal[0], work.normal[1])
    reward_means(par, state, work, x)
    for s in range(S):
        for a in range(A):
            n, trace = par.layout.count[s, a], 0.0
            likelihood_query(par.sampler, state.sampler, w, n, s, a, x, norm, w.z, w.cov)
            for j in range(n):
                trace += w.cov[j, j]
            cholesky(w.cov[:n, :n], 1e-12 * trace + 1e-290, w.factor[:n, :n])
            for m in range(J):
                first = ((m * S + s) * A + a) * (M + 1)
                for j in range(n):
                    v = 0.0
                    for i in range(j + 1):
                        v += w.factor[j, i] * normal_number(work, first + i)
                    w.step[j] = w.z[j] + par.posterior_scale * v
                log_softmax(w.step, n, w.logp, work.P[m, s, a])
                draw_reward(par, work, m, s, a, first + M)


@kernel
def draw_linear(par, state, work, x, k, purpose):
    """The same under the linear link: W x, and noise with the covariance ||x||^2_{Z^{-1}} (diag p - pp') of counted
    outcomes, projected on the simplex."""
    J, S, A, M = work.P.shape
    fill_normals(par.seed, k, purpose, work.normal[0], work.normal[1])
    reward_means(par, state, work, x)
    sign_union_sets(par.transitions, state.transitions, work.transitions, par.layout, x, work.local)
    for s in range(S):
        for a in range(A):
            form, p = 0.0, work.local.P[s, a]
            for b in range(x.shape[0]):
                for c in range(x.shape[0]):
                    form += x[b] * state.transitions.inverse[s, a, b, c] * x[c]
            deviation = par.posterior_scale * math.sqrt(form)
            for m in range(J):
                first, total = ((m * S + s) * A + a) * (M + 1), 0.0
                for j in range(par.layout.count[s, a]):
                    total += math.sqrt(p[j]) * normal_number(work, first + j)
                for j in range(M):
                    e = math.sqrt(p[j]) * normal_number(work, first + j) - p[j] * total
                    work.P[m, s, a, j] = p[j] + deviation * e
                draw_reward(par, work, m, s, a, first + M)
    for m in range(J):
        apply_projection(
            par.transitions.region, (merged(work.P[m]), 0.0, merged(par.layout.count), work.transitions.moved)
        )


apply_draw = caller()


# Planning, over the sets described last -------------------------------------------------------------------------------
@inlined
def optimum(par, work, k, scale, policy, values):
    """policy, values <- `optimism.optimum`."""
    apply_optimum(par.search.optimum, (par.search, work.local, work.search, work.mean, k, scale, policy, values))


@inlined
def assess(par, work, policy):
    """work.upper, work.lower <- `optimism.assess`."""
    apply_assess(par.search.assess, (par.search, work.local, work.search, policy, work.upper, work.lower))


@kernel
def best_draw(par, draws, work, k, h, P, V_next, Q):
    """A hook of `planning.backward_induction_with`: Q <- the largest r_m + P_m V_{h+1} over the models drawn, (P, r);
    Q holds that of the first."""
    P, r = draws
    for m in range(1, P.shape[0]):
        for s in range(Q.shape[0]):
            for a in range(Q.shape[1]):
                Q[s, a] = max(Q[s, a], r[m, s, a] + expectation(P[m], par, s, a, V_next))


@kernel
def best_of_draws(layout, hook, P, r, key, k, Q, policy, values):
    """policy, values <- a plan with the best of the models in every backup."""
    backward_induction_with(hook, 0, P[0], layout, r[0], 1, key, layout, (P, r), 0, k, Q, policy, values)


apply_several = caller()


@kernel
def judge(par, state, work, x, k, policy, values):
    """values, work.upper, work.lower <- optimistic values and bounds for a policy, which stays as it is."""
    apply_describe(par.describe, (par, state, work, x))
    optimum(par, work, k, 1.0, work.policy, values)
    assess(par, work, policy)


# Learning -----------------------------------------------------------------------------------------------------------
@inlined
def learn_rest(par, state, work, k, h, s, a, y, reward, x, norm):
    """What all kinds learn: the store, the reward."""
    if state.store.contexts.shape[0] > 0:
        remember(state.store, k, h, s, a, y, -1.0 if math.isnan(reward) else reward)
    if not math.isnan(reward):
        reward_learn(par.rewards, state.rewards, work.rewards, s, a, reward, x, norm)
        if par.means.learned == RIDGE:
            ridge_step(state.means, par.sampler.refresh, par.means.start, s, a, reward, x, work.zx, work.gram)
        elif par.means.learned != KNOWN:
            refresh, start, bound = par.sampler.refresh, par.means.start, par.means.bound * norm
            apply_logistic_step(
                par.means.step, (state.means, refresh, start, bound, s, a, reward, x, work.zx, work.gram)
            )
        if reward_due(par.rewards, state.rewards, s, a) == 1:
            reward_refresh(par.rewards, state.rewards, work.rewards, state.store, s, a)


@inlined
def enter(state, x, k):
    """The context of the episode into the store."""
    if state.store.contexts.shape[0] > 0:
        for b in range(x.shape[0]):
            state.store.contexts[k, b] = x[b]


@kernel
def learn_outcomes(layout, par, state, work, x, n, path, norm):
    """The outcomes of an episode, all visits of a pair at its first one: pairs know nothing of each other."""
    for h in range(n):
        s, a, seen = path.states[h], path.actions[h], 0
        for i in range(h):
            seen += 1 if path.states[i] == s and path.actions[i] == a else 0
        if seen == 0:
            m, visits = layout.count[s, a], 0
            likelihood_open(par, state, work, m, s, a, x)
            for i in range(h, n):
                if path.states[i] == s and path.actions[i] == a:
                    y = slot_of(layout, s, a, path.states[i + 1])
                    likelihood_visit(par, state, work, m, s, a, y, x, norm)
                    visits += 1
            likelihood_close(par, state, work, m, s, a, x, visits)


@inlined
def learn_posterior(par, state, work, x, n, path, norm):
    """The sampler, where there is one."""
    if state.sampler.samples.shape[0] > 0:
        learn_outcomes(par.layout, par.sampler, state.sampler, work.sampler, x, n, path, norm)


@kernel
def learn_online(par, state, work, x, k, n, path):
    norm = norm_of(x)
    enter(state, x, k)
    if state.transitions.samples.shape[0] > 0:
        learn_outcomes(par.layout, par.transitions, state.transitions, work.transitions, x, n, path, norm)
    learn_posterior(par, state, work, x, n, path, norm)
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        y = slot_of(par.layout, s, a, path.states[h + 1])
        learn_rest(par, state, work, k, h, s, a, y, path.rewards[h], x, norm)


@kernel
def learn_stored(par, state, work, x, k, n, path):
    norm = norm_of(x)
    enter(state, x, k)
    learn_posterior(par, state, work, x, n, path, norm)
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        y = slot_of(par.layout, s, a, path.states[h + 1])
        learn_rest(par, state, work, k, h, s, a, y, path.rewards[h], x, norm)
        if mixture_due(par.transitions, state.transitions, work.transitions, state.store, s, a, x) == 1:
            apply_mixture(
                par.transitions.refresh,
                (par.transitions, state.transitions, work.transitions, state.store, s, a, par.log_transition),
            )


@kernel
def learn_linear(par, state, work, x, k, n, path):
    norm = norm_of(x)
    enter(state, x, k)
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        y = slot_of(par.layout, s, a, path.states[h + 1])
        count = par.layout.count[s, a : a + 1]
        sign_union_step(par.transitions, state.transitions, work.transitions, count, s, a, y, x, norm)
        learn_rest(par, state, work, k, h, s, a, y, path.rewards[h], x, norm)
