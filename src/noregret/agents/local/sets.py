"""The parts the agents with local sets share: what they keep, what it says about one individual, and how it is learned.

Three kinds of transition sets, each with a kernel that describes an individual and one that learns an episode:

    online   likelihood-ratio sets (`estimators.likelihood.sets`), constant cost and memory; with a design one per block
             (`agents.local.shared`)
    stored   mixture sets over all data (`estimators.mixture.sets`), refreshed as it grows; likewise
    linear   sign-union sets (`estimators.linear.sign_union`), for the linear link

and, in `agents.local.draws`, samples of models from an approximate posterior. Agents of one kind share the types of
par, state and work, and with them the compiled simulation loop.

What is in the slots of `CertifiedPSRL` as it comes (online sets, per pair, exploration="adaptive"; `SetAgent.build`):

    propose    agents.local.explore.explore         the plan that explores
    believe    agents.local.explore.believe_pairs   work.local <- one standard deviation of the posterior
    begin      estimators.likelihood.sets.begin_pairs  before anybody is learned, the posterior's lambda
    trust      agents.local.explore.trust           work.local <- the same, where pairs may be without chance
    describe   describe_online, below               work.local <- the sets
    derive     beliefs.local.derive                 P, span, half, second and slopes of these sets
    learn      learn_online, below                  the agent's own kernel: bets, then outcomes, rewards and means
    outcomes   estimators.likelihood.visit.learn_outcomes: the sets with c = g(r), the posterior with c = 1/2
    rewards    ranges_mixture and mixture_step of estimators.rewards.mixture: the ranges
    means      posterior_calibrated and calibrated_step of estimators.rewards.calibrated: estimates and deviations
    search     planning.optimism over the sets: plan_optimistically and bound_values, bonuses TAYLOR
    search_to_explore   the same over one standard deviation of the posterior, with the variances of `planning.ways`
    bets       agents.local.audit.audit_pairs: bets against the model, which nothing that plans or learns reads

`draw`, `several`, `best_draw`, `planner` and `zero` are not used then, and the store is empty. kappa is 4 or more.
lambda is d/B_p^2 of the posterior (at least ||x||^2/4 of the first x that is learned), 4 d/B_p^2 of the sets.
ln(1/delta) of each set is `SetAgent._shares`, with delta .05: a transition set has .98 x .2 delta over the number of
pairs, a range of rewards .98 x .8 of the same. The certificate is V~ - L, from `out.values` and `work.lower`
(`Agent.plan_made`); `agents.local.certify` is for policies that others bring.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...beliefs.local import LocalSets, LocalWork
from ...checks import Floats
from ...compiler.jit import inlined, kernel
from ...compiler.slots import filled, slot
from ...estimators.audit import AuditPar, AuditState, AuditWork
from ...estimators.chance import ChanceState, learn_chance
from ...estimators.likelihood.kron import kron_form
from ...estimators.likelihood.precision import covariance_at, products_of
from ...estimators.likelihood.sets import rho_of
from ...estimators.linear.sign_union import sign_union_sets, sign_union_step
from ...estimators.mixture.sets import apply_mixture, mixture_due, mixture_fill
from ...estimators.rewards.forms import (
    RewardPar,
    RewardState,
    RewardWork,
    call_posterior,
    call_ranges,
    reward_behind,
    reward_due,
    reward_refresh,
)
from ...estimators.rewards.regression import reward_learn
from ...estimators.store import Store, remember
from ...numerics.linear_algebra import norm_of, pair_predictors
from ...planning.bonuses import EXACT
from ...planning.optimism import SearchPar, SearchWork, assess, look_closely, optimum, shortfall
from ...problem.layout import Layout, slot_of
from .audit import call_audit
from .zero import ZeroWork, apply_zero


class DrawWork(NamedTuple):
    """Scratch of draws where pairs share weights; q of the transitions or of the rewards, whichever is larger."""

    factor: Floats  # [q, q]
    drawn: Floats  # [B, q], what was drawn for every block
    z: Floats  # [M]


class LotteryWork(NamedTuple):
    """Scratch of a lottery (`agents.local.lottery`), of one of its plans; empty without one."""

    chances: Floats  # [H, S, A]
    each: Floats  # [H, S, A], lower values of actions
    upper: Floats  # [H+1, S]
    lower: Floats
    short: Floats


class SetPar(NamedTuple):
    seed: int
    layout: Layout
    starts: NDArray[np.int64]  # states an episode may begin in
    describe: Any  # slot of the kernel that fills work.local
    derive: Any  # slot of `beliefs.local.derive`
    outcomes: Any  # slot of `estimators.likelihood.visit.learn_outcomes`
    draw: Any  # slot of the kernel that fills work.P and work.r
    believe: Any  # slot of the kernel of `agents.local.explore` that fills work.local, where plans explore
    begin: Any  # slot of `begin_pairs` or `begin_blocks` of `estimators.likelihood`, where steep > 0
    trust: Any  # slot of `agents.local.explore.trust`, likewise, where pairs share no weights
    propose: Any  # slot of what makes the plan that explores
    proposals: Any  # slot of what makes several plans, of a lottery
    zero: Any  # slot of `agents.local.zero.from_zero`, where plans are certified closely and rewards have a design
    lifted: Any  # slot of `agents.local.shared.draw_lifted`, where rewards have a design
    planner: Any  # slot of `planning.bellman.backward_induction`
    several: Any  # slot of `best_of_draws`, and of its hook, where it is needed
    best_draw: Any
    search: SearchPar
    search_to_explore: SearchPar  # for plans that explore, whose sets are of the first order (`derive_first`)
    transitions: Any  # LikelihoodPar, SharedPar, MixturePar, BlockMixturePar or SignUnionPar
    sampler: Any  # LikelihoodPar or SharedPar
    audit: AuditPar
    bets: Any  # slot of `audit_pairs` or `audit_blocks` of `agents.local.audit`, where the model is bet against
    rewards: RewardPar  # for the ranges
    means: RewardPar  # for draws and parts of the bonus; CALIBRATED or LAPLACE where plans explore
    log_transition: float  # ln(1/delta) of one transition set
    logits: int  # 1: the sets are ellipsoids of logits
    scale: float  # on every bonus
    kappa: float  # of the gate, for the first individuals
    kappa_growth: float  # with later ones (`certified_psrl.kappa_at`)
    posterior_scale: float
    steep: float  # a posterior that plans explore by begins with lambda of at least (steep ||x||)^2; 0: as it was told
    floor: float  # of a lottery
    certify: int  # 1: bounds on the values of the plan are computed too
    close: int  # 1: and its shortfall is followed step by step
    estimates: int  # 1: estimated mean rewards are needed, for draws or less than all of the bonus, not ranges alone


class SetState(NamedTuple):
    transitions: Any  # ...State of what has its ...Par in `SetPar.transitions`; of no pairs: no sets are kept
    sampler: Any  # LikelihoodState or SharedState, the approximate posterior; of no pairs where nothing is drawn
    rewards: RewardState
    means: RewardState  # estimates of the mean rewards, learned where par.estimates = 1
    store: Store
    gate: NDArray[np.int64]  # [8], episodes in which the draw, one of six rungs, or the optimistic policy was played
    audit: AuditState  # of no pairs where the model is not bet against
    chance: ChanceState  # of no pairs where no plan explores by it


class SetWork(NamedTuple):
    transitions: Any  # likewise ...Work
    sampler: Any  # LikelihoodWork or SharedWork
    rewards: RewardWork  # of `means`, too
    local: LocalSets
    derive: LocalWork
    search: SearchWork
    mean: Floats  # [S, A], estimated mean rewards
    hope: Floats  # [S, A], those that plans which explore begin with (`agents.local.explore`)
    deviation: Floats  # [S, A], their posterior standard deviations
    share: Floats  # [S, A], the shares of their prior variances that are left
    P: Floats  # [J, S, A, M], drawn models
    r: Floats  # [J, S, A]
    normal: Floats  # [2, N]
    policy: NDArray[np.int64]  # [H, S], a candidate
    values: Floats  # [H+1, S], as it was planned
    upper: Floats  # [H+1, S], of the policy in hand
    lower: Floats
    short: Floats  # [H+1, S], at most how far it is from optimal
    Q: Floats  # [S, A]
    none: Floats  # [0, 0, 0]
    squares: Floats  # [2, M, M]
    shared: DrawWork
    tail: Floats  # [4, S], values of a plan in a drawn model, and the largest shortfalls (`agents.local.belief`)
    audit: AuditWork
    lottery: LotteryWork
    zero: ZeroWork


apply_derive = slot("derive")


# What is known of one individual ----------------------------------------------------------------------------------
@inlined
def reward_means(par, state, work, x):
    """work.mean, work.deviation <- the normal posteriors of the mean rewards of all pairs."""
    args = par.means, state.means, work.rewards, x, work.mean, work.deviation, work.share
    call_posterior(par.means.posterior, args)


@inlined
def ranges(par, state, work, x, known):
    """work.local.low, high for all pairs; the estimates in work.mean, where needed, are made and moved between them.
    known=1: they are there already, of the same x, not moved: a candidate was made before."""
    local = work.local
    call_ranges(par.rewards.ranges, (par.rewards, state.rewards, work.rewards, x, local.low, local.high))
    if par.estimates == 1:
        if known == 0:
            reward_means(par, state, work, x)
        for s in range(work.mean.shape[0]):
            for a in range(work.mean.shape[1]):
                work.mean[s, a] = min(max(work.mean[s, a], local.low[s, a]), local.high[s, a])


@inlined
def finish(par, state, work, x, known, bound, spans):
    """What all ellipsoids of logits have in common; spans=1: their spans are not known yet."""
    exact = 1 if par.search.perturbations > 0.0 else 0
    apply_derive(par.derive, (work.local, par.layout, bound, work.derive, spans, exact))
    ranges(par, state, work, x, known)


@kernel
def describe_online(par, state, work, x, known):
    """work.local <- the sets of the individual with context x; known: as in `ranges`."""
    norm, local, sets, w = norm_of(x), work.local, state.transitions, work.transitions
    S, A, _ = local.P.shape
    pair_predictors(sets.weights, x, par.layout, local.z)
    products_of(x, w.products)
    for s in range(S):
        for a in range(A):
            n, cov = sets.outcomes[s, a], local.cov[s, a]
            if par.transitions.kron == 1:
                kron_form(sets.covariance[s, a], x, n, cov)
            else:
                # X' Sigma X, relative to the last outcome, whose row is 0; forms: Sigma, by products x_b x_c
                covariance_at(sets.forms[s, a], w.products, n, w.packed, cov)
            local.rho[s, a] = rho_of(sets, s, a)
    finish(par, state, work, x, known, par.transitions.weight_bound * norm, 1)


@kernel
def describe_stored(par, state, work, x, known):
    norm, count = norm_of(x), par.layout.count
    for s in range(count.shape[0]):
        for a in range(count.shape[1]):
            mixture_fill(par.transitions, state.transitions, s, a, x, norm, work.local)
    finish(par, state, work, x, known, par.transitions.weight_bound * norm, 0)


@kernel
def describe_linear(par, state, work, x, known):
    sign_union_sets(par.transitions, state.transitions, work.transitions, par.layout, x, work.local)
    ranges(par, state, work, x, known)


apply_describe = slot("describe")  # (par, state, work, x, known)


@kernel
def judge(par, state, work, x, k, policy, values):
    """values, work.upper, work.lower <- optimistic values and bounds for a policy, which stays as it is."""
    apply_describe(par.describe, (par, state, work, x, 0))
    optimum(par.search, work.local, work.search, work.mean, k, 1.0, work.policy, values)
    assess(par.search, work.local, work.search, policy, work.upper, work.lower, EXACT)
    follow(par, state, work, x, policy, values)


@inlined
def follow(par, state, work, x, policy, values):
    """work.short <- a bound on the shortfall of a policy, where plans are certified so; after `optimum`, `assess`."""
    if par.close == 1:
        look_closely(par.search, work.local, work.search, policy, values, work.upper, work.lower, work.short)
        if filled(par.zero):
            apply_zero(par.zero, (par, state, work, x, policy))


@inlined
def conceded(par, work, values, h, s):
    """The certificate of the plan from state s at step h on."""
    return work.short[h, s] if par.close == 1 else values[h, s] - work.lower[h, s]


@kernel
def gap_conceded(par, state, work, out, gap):
    """A certificate_kernel."""
    for s in range(gap.shape[0]):
        gap[s] = conceded(par, work, out.values, 0, s)


@kernel
def judge_closely(par, state, work, x, k, policy, values):
    """`judge`, and work.short <- a bound on the policy's shortfall, whether or not plans are certified by it."""
    judge(par, state, work, x, k, policy, values)
    if par.close == 0:
        shortfall(par.search, work.local, work.search, policy, values, work.upper, work.lower, work.short)


# Learning -------------------------------------------------------------------------------------------------------------
@inlined
def learn_rest(par, state, work, x, k, h, path):
    """What all kinds learn of step h: whether it was chance, the store, the reward. (Only Bernstein sets of rewards are
    refreshed.)"""
    s, a, reward = path.states[h], path.actions[h], path.rewards[h]
    if state.chance.steps.shape[0] > 0:
        last = 1 if h == work.policy.shape[0] - 1 else 0
        learn_chance(state.chance, s, a, path.states[h + 1], reward, last)
    if state.store.contexts.shape[0] > 0:
        y = slot_of(par.layout, s, a, path.states[h + 1])
        remember(state.store, k, h, s, a, y, -1.0 if math.isnan(reward) else reward)
    if not math.isnan(reward):
        reward_learn(par.rewards, state.rewards, work.rewards, s, a, reward, x)
        if par.estimates == 1:
            reward_learn(par.means, state.means, work.rewards, s, a, reward, x)
        if reward_due(par.rewards, state.rewards, s, a) == 1:
            reward_refresh(par.rewards, state.rewards, work.rewards, state.store, s, a)


@inlined
def renew_rewards(par, state, work):
    """The ranges of mean rewards from all that is stored."""
    for s in range(par.layout.count.shape[0]):
        for a in range(par.layout.count.shape[1]):
            if reward_behind(par.rewards, state.rewards, s, a) == 1:
                reward_refresh(par.rewards, state.rewards, work.rewards, state.store, s, a)


@kernel
def renew_online(par, state, work):
    """All stored sets anew: of rewards alone."""
    renew_rewards(par, state, work)


@kernel
def renew_stored(par, state, work):
    """All stored sets anew, where there is data that they have not seen."""
    sets, kept, w = par.transitions, state.transitions, work.transitions
    renew_rewards(par, state, work)
    for s in range(kept.refreshed.shape[0]):
        for a in range(kept.refreshed.shape[1]):
            if kept.refreshed[s, a] < state.store.visits[s, a]:
                apply_mixture(sets.refresh, (sets, kept, w, state.store, s, a, par.log_transition))


@inlined
def enter(state, x, k):
    """The context of the episode into the store."""
    if state.store.contexts.shape[0] > 0:
        for b in range(x.shape[0]):
            state.store.contexts[k, b] = x[b]


call_begin = slot("beginning of a posterior")  # call_begin(par.begin, (par, state, (least lambda)^{1/2}))
apply_outcomes = slot("outcomes")  # apply_outcomes(par.outcomes, (layout, par, state, work, x, steps, path))


@inlined
def learn_posterior(par, state, work, x, n, path):
    """The sampler, where there is one."""
    if state.sampler.samples.shape[0] > 0:
        if par.steep > 0.0 and n > 0:
            call_begin(par.begin, (par.sampler, state.sampler, par.steep * norm_of(x)))
        apply_outcomes(par.outcomes, (par.layout, par.sampler, state.sampler, work.sampler, x, n, path))


@inlined
def bet(par, state, work, x, n, path):
    """Against the model, before the episode is learned. Writes state.audit alone (`estimators.audit`), which nothing
    that plans or learns reads."""
    if state.audit.seen.shape[0] > 0:
        call_audit(par.bets, (par, state, work, x, n, path))


@kernel
def learn_online(par, state, work, x, k, n, path):
    enter(state, x, k)
    bet(par, state, work, x, n, path)
    if state.transitions.samples.shape[0] > 0:
        apply_outcomes(par.outcomes, (par.layout, par.transitions, state.transitions, work.transitions, x, n, path))
    learn_posterior(par, state, work, x, n, path)
    for h in range(n):
        learn_rest(par, state, work, x, k, h, path)


@kernel
def learn_stored(par, state, work, x, k, n, path):
    enter(state, x, k)
    learn_posterior(par, state, work, x, n, path)
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        learn_rest(par, state, work, x, k, h, path)
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
        sign_union_step(par.transitions, state.transitions, work.transitions, count, (s, a), y, x, norm)
        learn_rest(par, state, work, x, k, h, path)
