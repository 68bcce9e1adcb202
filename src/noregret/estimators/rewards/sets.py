"""Ranges for mean rewards, one independent problem per pair: five forms behind one state and four kernels.

KNOWN      theta is given: low = high
RIDGE      theta'x +- `theory.widths.ridge_radius` ||x||_{V^{-1}}, V = lambda I + sum x x'         constant memory
HOEFFDING  `estimators.rewards.mixture` with V_i = w_i = 1/4                                       constant memory
BERNSTEIN  the same with V_i, w_i from the ranges of the means themselves                         needs the store
LOGISTIC   rewards 0 or 1 with mean sigma(theta'x): `estimators.rewards.logistic`                  constant memory

The ranges of a pair hold for all contexts and at all times together with probability 1 - delta, delta the pair's own;
ln(1/delta) is given at construction. Under BERNSTEIN a refresh goes over the pair's stored rewards; it is due when
their number has grown by GROWTH (`reward_due`), may be run at any time, and is reached by address (`with_refresh`)."""

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import checks as check
from ...checks import Floats
from ...compiler.jit import direct, inlined, kernel, merged
from ...compiler.slots import EMPTY, slot
from ...numerics.linear_algebra import (
    REFRESH,
    invert,
    least_regularization,
    predictors,
    rank_one,
    times,
    updates_allowed,
)
from ...problem.problem import Problem
from ...theory.widths import ridge_radius
from ..store import Store
from .logistic import logistic_learn, logistic_range
from .mixture import mixture_learn, mixture_range, renew
from .refresh import mixture_refresh

KNOWN, RIDGE, HOEFFDING, BERNSTEIN, LOGISTIC = 0, 1, 2, 3, 4
FORMS = {"ridge": RIDGE, "hoeffding": HOEFFDING, "bernstein": BERNSTEIN, "logistic": LOGISTIC}
GROWTH = 1.15  # of a pair's rewards between refreshes
FIRST = 16  # rewards before the first refresh
LAMBDAS = (3.0, 24.0, 192.0, 1536.0)  # of the mixture, times R^2/d
WEIGHTS = (0.1, 0.4, 0.4, 0.1)  # most for a thousand to thirty thousand rewards
SHIFTS = (1e-3, 4.0)  # of the regressions that give the centres, times R^2

Form = Literal["ridge", "hoeffding", "bernstein", "logistic"]


class RewardSetPar(NamedTuple):
    form: int  # KNOWN, RIDGE, HOEFFDING, BERNSTEIN or LOGISTIC
    logistic: int  # 1: means are sigma(theta'x)
    refresh: Any  # slot of `mixture_refresh`, under BERNSTEIN
    learn: Any  # slots of what learns a reward and what says all ranges in this form
    ranges: Any
    log: float  # ln(1/delta), of one pair
    bound: float  # B_r
    regularization: float  # lambda of RIDGE and LOGISTIC
    lambdas: Floats  # [C], increasing
    prior: Floats  # [C], -(d/2) ln lambda_c - ln w_c
    shifts: Floats  # [L]


class RewardSetState(NamedTuple):
    """L = 2, C = 4 in the mixtures, L = 1, C = 0 elsewhere."""

    gram: Floats  # [S, A, d, d]: G; RIDGE: lambda I + G; LOGISTIC: the precision
    moment: Floats  # [S, A, d], sum x r; LOGISTIC and KNOWN: theta
    inverse: Floats  # [S, A, L, d, d], of G + shift I; else of the Gram matrix
    growth: Floats  # [S, A], RIDGE: ln det V/lambda^d; LOGISTIC: squared radius, negative where the set is empty
    variance: Floats  # J [S, A, d, d]
    curvature: Floats  # W [S, A, d, d]
    Q: Floats  # [S, A, C, d, d]
    head: Floats  # [S, A, C], cost of Q_k without its distance from component c
    trace: Floats  # [S, A, C], tr Q_k
    extremes: Floats  # [S, A, 2, d], contexts whose means are least sure to be above 0, below 1
    active: NDArray[np.int64]  # [S, A, 2], 1 where there is one
    reach: Floats  # [S, A], the tilts for which J holds; inf: all
    samples: NDArray[np.int64]  # [S, A], rewards learned
    due: NDArray[np.int64]  # [S, A], samples at which Q and the inverses are made anew
    refreshed: NDArray[np.int64]  # [S, A], samples at the last refresh

    def limits(self, problem: Problem) -> dict[str, tuple[float, float]]:
        return {"active": (0, 1), "reach": (0, math.inf)}


class RewardSetWork(NamedTuple):
    h: Floats  # [d]
    gh: Floats  # [d]
    jh: Floats  # [d]
    hy: Floats  # [2, d]
    ghy: Floats  # [2, d]
    jhy: Floats  # [2, d]
    pieces: Floats  # [2, 4]
    raw: Floats  # [2]
    share: Floats  # [C]
    low: Floats  # [1]
    high: Floats  # [1]
    factor: Floats  # [d, d]
    first: Floats  # [d, d]
    variance: Floats  # [d, d]
    curvature: Floats  # [d, d]
    least: Floats  # [d, d]
    episodes: NDArray[np.int64]  # [2]


def reward_set_parts(
    problem: Problem, form: Form, log: float, regularization: float | None = None
) -> tuple[RewardSetPar, RewardSetState, RewardSetWork]:
    """Parameters, initial state and scratch for all pairs; log = ln(1/delta), delta per pair.

    Known rewards make any form KNOWN; logistic ones need "logistic", which linear ones refuse."""
    check.one_of("form", form, tuple(FORMS))
    check.positive("log", log)
    p, f = problem, np.zeros
    S, A, d, R2 = p.n_states, p.n_actions, p.context_dim, problem.context_bound**2
    logistic, known = p.rewards == "logistic", p.known_rewards is not None
    if logistic != (form == "logistic") and not known:
        raise ValueError(f'form must be "logistic" exactly where the rewards are, got {form!r} with {p.rewards} ones')
    kind = KNOWN if known else FORMS[form]
    mixture = kind in (HOEFFDING, BERNSTEIN)
    least = least_regularization(0.25 if kind == LOGISTIC else 1.0, p.context_bound, d)
    lam = max(_regularization(p, kind), least)
    if regularization is not None:
        lam = check.positive("regularization", regularization)
        if mixture:
            raise ValueError(f"regularization must be None with form {form!r}, a mixture over many, got {lam:g}")
        if lam < least:
            raise ValueError(f"regularization must be at least {least:.3g} for stable arithmetic, got {lam:g}")
    C = len(LAMBDAS) if mixture else 0
    lambdas, shifts = np.array(LAMBDAS[:C]) * (R2 / d), np.array(SHIFTS) * R2 if mixture else np.array([lam])
    prior = -0.5 * d * np.log(lambdas) - np.log(np.array(WEIGHTS[:C]))
    par = RewardSetPar(kind, int(logistic), *(EMPTY,) * 3, float(log), p.reward_bound, lam, lambdas, prior, shifts)
    gram = np.tile((0.0 if mixture else lam) * np.eye(d), (S, A, 1, 1))
    inverse = np.tile(np.eye(d) / shifts[:, None, None], (S, A, 1, 1, 1))
    moment = np.array(p.known_rewards, float) if known else f((S, A, d))
    growth = np.full((S, A), lam * p.reward_bound**2 + 2.0 * log if kind == LOGISTIC else 0.0)
    n, shape = np.zeros, (S, A)
    state = RewardSetState(
        gram, moment, inverse, growth, f((S, A, d, d)), f((S, A, d, d)), f((S, A, C, d, d)), f((S, A, C)),
        f((S, A, C)), f((S, A, 2, d)), n((S, A, 2), np.int64), np.full(shape, np.inf),
        n(shape, np.int64), n(shape, np.int64), n(shape, np.int64),
    )  # fmt: skip
    n2, dd = (2, d), (d, d)
    work = RewardSetWork(
        f(d), f(d), f(d), f(n2), f(n2), f(n2), f((2, 4)), f(2), f(C), f(1), f(1), f(dd), f(dd), f(dd), f(dd), f(dd),
        np.zeros(2, np.int64),
    )  # fmt: skip
    if mixture:
        start = direct(renew, par, state, work, 0, 0)
        for s, a in np.ndindex(S, A):
            start(par, state, work, s, a)
    x, parts, (learn, ranges) = f(d), (par, state, work), _KERNELS[kind, logistic]
    made = (
        _call_learn.fill(learn, *parts, 0, 0, 0.0, x, 0.0),
        _call_ranges.fill(ranges, *parts, x, 0.0, f(shape), f(shape)),
    )
    return par._replace(learn=made[0], ranges=made[1]), state, work


def _regularization(p: Problem, kind: int) -> float:
    """1; LOGISTIC: d/B_r^2, so that the prior's share of the squared radius, lambda B_r^2, is d."""
    return p.context_dim / p.reward_bound**2 if kind == LOGISTIC else 1.0


def with_refresh(par: RewardSetPar, state: RewardSetState, work: RewardSetWork, store: Store) -> RewardSetPar:
    """par with the refresh in its slot, compiled for a store of this type: BERNSTEIN only, else par itself."""
    if par.form != BERNSTEIN:
        return par
    return par._replace(refresh=_call_refresh.fill(mixture_refresh, par, state, work, store, 0, 0))


_call_refresh = slot("reward refresh")


@kernel
def learn_mixture(par, state, work, s, a, reward, x, norm):
    work.low[0], work.high[0] = 0.0, min(1.0, par.bound * norm)
    mixture_learn(par, state, work, s, a, reward, x, work.low, work.high)


@kernel
def learn_ridge(par, state, work, s, a, reward, x, norm):
    times(state.inverse[s, a, 0], x, work.h)
    q = 0.0
    for b in range(x.shape[0]):
        q += work.h[b] * x[b]
        state.moment[s, a, b] += reward * x[b]
    rank_one(state.gram[s, a], state.inverse[s, a, 0], state.growth[s, a : a + 1], x, work.h, q, 1.0)
    count_one(par, state, work, s, a)


@kernel
def learn_logistic(par, state, work, s, a, reward, x, norm):
    logistic_learn(par, state, work, s, a, reward, x, norm)
    count_one(par, state, work, s, a)


@kernel
def learn_nothing(par, state, work, s, a, reward, x, norm):
    pass


@inlined
def count_one(par, state, work, s, a):
    state.samples[s, a] += 1
    if state.samples[s, a] >= state.due[s, a]:
        renew_ridge(par, state, work, s, a)


@kernel
def renew_ridge(par, state, work, s, a):
    """The inverse from the Gram matrix, and RIDGE's log-determinant with it."""
    logdet = invert(state.gram[s, a], 0.0, state.inverse[s, a, 0], work.factor, work.h)
    if par.form == RIDGE:
        state.growth[s, a] = logdet - work.h.shape[0] * math.log(par.regularization)
    n, trace = state.samples[s, a], 0.0
    for b in range(work.h.shape[0]):
        trace += state.gram[s, a, b, b]
    state.due[s, a] = n + 1 + min(n, updates_allowed(trace, par.regularization, REFRESH))


@kernel
def ranges_logistic(par, state, work, x, norm, low, high):
    for s in range(low.shape[0]):
        for a in range(low.shape[1]):
            logistic_range(par, state, work, s, a, x, norm, low[s, a : a + 1], high[s, a : a + 1])


@kernel
def ranges_mixture(par, state, work, x, norm, low, high):
    for s in range(low.shape[0]):
        for a in range(low.shape[1]):
            low[s, a], high[s, a] = 0.0, min(1.0, par.bound * norm)
            mixture_range(par, state, work, s, a, x, low[s, a : a + 1], high[s, a : a + 1])


@kernel
def ranges_known(par, state, work, x, norm, low, high):
    predictors(state.moment, x, low)
    for s in range(low.shape[0]):
        for a in range(low.shape[1]):
            low[s, a] = high[s, a] = min(max(low[s, a], 0.0), 1.0)


@kernel
def ranges_ridge(par, state, work, x, norm, low, high):
    d, centres, forms, growth = x.shape[0], merged(low), merged(high), merged(state.growth)
    inverses, moments = merged(state.inverse), merged(state.moment)
    for i in range(centres.shape[0]):
        centre, form = 0.0, 0.0
        times(inverses[i, 0], x, work.h)
        for b in range(d):
            centre += work.h[b] * moments[i, b]
            form += work.h[b] * x[b]
        centres[i], forms[i] = centre, form
    top = min(1.0, par.bound * norm)
    for i in range(centres.shape[0]):
        w = ridge_radius(growth[i], par.bound, par.regularization, par.log) * math.sqrt(max(forms[i], 0.0))
        lo, hi = max(centres[i] - w, 0.0), min(centres[i] + w, top)
        empty = lo > hi
        low_end, high_end = 0.0 if empty else lo, top if empty else hi
        centres[i], forms[i] = low_end, high_end


_KERNELS = {  # by form, and whether rewards are logistic
    (KNOWN, False): (learn_nothing, ranges_known),
    (KNOWN, True): (learn_nothing, ranges_logistic),
    (RIDGE, False): (learn_ridge, ranges_ridge),
    (HOEFFDING, False): (learn_mixture, ranges_mixture),
    (BERNSTEIN, False): (learn_mixture, ranges_mixture),
    (LOGISTIC, True): (learn_logistic, ranges_logistic),
}
_call_learn, _call_ranges = slot("reward learn"), slot("reward ranges")


@kernel
def reward_learn(par, state, work, s, a, reward, x, norm):
    """One observed reward of pair (s, a) at x; norm = ||x||. O(C d^2), and O(C d^3) each time n has grown by 5% or
    by 1,000."""
    _call_learn(par.learn, (par, state, work, s, a, reward, x, norm))


@kernel
def reward_ranges(par, state, work, x, norm, low, high):
    """low, high [S, A] <- bounds on the mean rewards at x; norm = ||x||. O(d^2 + C) a pair.

    Where a set is empty (an assumption must be wrong, or chance was unkind) only what is known beforehand is said."""
    _call_ranges(par.ranges, (par, state, work, x, norm, low, high))


@inlined
def reward_due(par, state, s, a):
    """Whether a refresh of pair (s, a) would pay: 1 or 0."""
    n = state.samples[s, a]
    return 1 if par.form == BERNSTEIN and n >= FIRST and n >= GROWTH * state.refreshed[s, a] else 0


@inlined
def reward_refresh(par, state, work, store, s, a):
    """V_i and w_i of pair (s, a) anew from the store, under BERNSTEIN; nothing elsewhere. O(n (d^2 + C))."""
    if par.form == BERNSTEIN:
        _call_refresh(par.refresh, (par, state, work, store, s, a))
        state.refreshed[s, a] = state.samples[s, a]
