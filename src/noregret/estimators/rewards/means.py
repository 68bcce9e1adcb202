"""Learning mean rewards, one independent problem per pair, on a Gram matrix of its own; missing rewards teach nothing.

linear     rewards in [0, 1] with mean theta'x: ridge regression
               V = lambda I + sum x x',   theta = V^{-1} sum x r,   r_hat = clip(theta'x, 0, 1)
           interval: `theory.widths.reward_interval`
logistic   rewards 0 or 1 with mean sigma(theta'x): the online Newton step with one predictor, and Theorem A
               V += kappa x x',   theta -= (sigma(z) - r) V^{-1} x,   kappa = (2 - s) alpha,   z = theta'x
           alpha = `theory.constants.logistic_alpha` at M = B_r ||x||. Before it is used at x, theta is moved, in the
           V-norm, to the nearest one with |theta'x| <= M. Interval: `theory.widths.logistic_interval`
known      theta is given and nothing is learned

The common case, ridge, is pasted into the agents' `learn`; the logistic kernels are compiled when a problem asks for
them and reached by address.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import checks as check
from ...checks import Floats
from ...compiler.jit import inlined, kernel
from ...compiler.slots import EMPTY, slot
from ...numerics.linear_algebra import (
    OFTEN,
    apply_refresh,
    least_regularization,
    rank_one,
    refresh_address,
    refresh_due,
    times,
)
from ...problem.links import Constants
from ...problem.problem import Problem
from ...theory.constants import logistic_alpha
from ...theory.radii import theorem_a_log_weight
from ...theory.widths import logistic_interval, sigma
from ..newton.online_newton import SLACK

KNOWN, RIDGE, LOGISTIC = 0, 1, 2


class RewardPar(NamedTuple):
    learned: int  # KNOWN, RIDGE or LOGISTIC
    logistic: int  # 1: means are sigma(theta'x)
    step: Any  # slot of `logistic_step`
    beliefs: Any  # slot of `logistic_beliefs`
    bound: float  # B_r
    start: float  # d ln lambda
    log_weight: float  # coefficient of ln(1/delta) in a logistic radius


class RewardState(NamedTuple):
    theta: Floats  # [S, A, d]
    gram: Floats  # V, [S, A, d, d]
    inverse: Floats  # V^{-1}
    growth: Floats  # [S, A]; linear: ln det V / lambda^d; logistic: the squared radius without its ln(1/delta) term
    moment: Floats  # [S, A, d]; linear: sum x r; logistic: the first entry is ln det V / lambda^d
    samples: NDArray[np.int64]  # [S, A]


def reward_parts(
    problem: Problem, constants: Constants, regularization: float | None, name: str = "reward_regularization"
) -> tuple[RewardPar, RewardState, float]:
    """Parameters, initial state, and lambda: the one asked for, under that name, or `default_regularization`."""
    p, f = problem, np.zeros
    S, A, d = p.n_states, p.n_actions, p.context_dim
    logistic, known = p.rewards == "logistic", p.known_rewards is not None
    if logistic and constants == "paper" and not known:
        raise ValueError('constants must be "corrected" with logistic rewards: the paper prints no interval for them')
    kappa = (2.0 - SLACK) * logistic_alpha(p.reward_bound * p.context_bound) if logistic else 1.0
    least = least_regularization((2.0 - SLACK) * logistic_alpha(0.0) if logistic else 1.0, p.context_bound, d)
    if regularization is None:
        regularization = max(default_regularization(d, kappa, p.reward_bound) if logistic else 1.0, least)
    lam = check.positive(name, regularization)
    if lam < least:
        raise ValueError(f"{name} must be at least {least:.3g} for stable arithmetic, got {lam:g}")
    gram, inverse = np.tile(lam * np.eye(d), (S, A, 1, 1)), np.tile(np.eye(d) / lam, (S, A, 1, 1))
    growth = np.full((S, A), lam * p.reward_bound**2 if logistic else 0.0)
    theta = np.array(p.known_rewards) if known else f((S, A, d))
    state = RewardState(theta, gram, inverse, growth, f((S, A, d)), np.zeros((S, A), np.int64))
    learned = KNOWN if known else LOGISTIC if logistic else RIDGE
    step: Any = EMPTY
    beliefs: Any = EMPTY
    if logistic:
        x, n = f(d), f(S * A)
        step = apply_logistic_step.fill(logistic_step, state, refresh_address(d), 0.0, 0.0, 0, 0, 0.0, x, x, f((d, d)))
        beliefs = apply_logistic_beliefs.fill(logistic_beliefs, f((S * A, d)), n, n, x, 0.0, 0.0, 0.0, n, n)
    slope = theorem_a_log_weight(SLACK)
    return RewardPar(learned, int(logistic), step, beliefs, p.reward_bound, d * math.log(lam), slope), state, lam


def default_regularization(context_dim: int, kappa: float, reward_bound: float) -> float:
    """lambda = d / (kappa B_r^2) for logistic rewards: lambda B_r^2 then equals the slope of the bound
    (d/kappa) ln(1 + ...) on the sum of squared gradients, which are at most 1. Any positive value is valid; at least
    `numerics.linear_algebra.least_regularization` is taken, here and for the 1 of linear ones."""
    return context_dim / (kappa * reward_bound**2)


@inlined
def ridge_step(state, refresh, start, s, a, reward, x, zx, factor):
    """One observed reward of pair (s, a); refresh: address of `refresh_inverse`, start = d ln lambda; zx [d] and
    factor [d, d] are scratch."""
    d = x.shape[0]
    theta, inverse, gram = state.theta[s, a], state.inverse[s, a], state.gram[s, a]
    times(inverse, x, zx)
    q, error = 0.0, reward
    for b in range(d):
        q += zx[b] * x[b]
        error -= theta[b] * x[b]
        state.moment[s, a, b] += reward * x[b]
    rank_one(gram, inverse, state.growth[s, a : a + 1], x, zx, q, 1.0)
    for b in range(d):
        theta[b] += zx[b] * (error / (1.0 + q))
    state.samples[s, a] += 1
    if state.samples[s, a] % OFTEN == 0 and refresh_due(gram, state.samples[s, a], math.exp(start / d)):
        apply_refresh(refresh, (gram, inverse, state.growth[s, a : a + 1], start, factor, zx))
        times(inverse, state.moment[s, a], theta)


@kernel
def logistic_step(state, refresh, start, bound, s, a, reward, x, zx, factor):
    """One observed reward, 0 or 1, of pair (s, a); bound = B_r ||x||; the rest as in `ridge_step`."""
    d = x.shape[0]
    theta, inverse, gram, logdet = state.theta[s, a], state.inverse[s, a], state.gram[s, a], state.moment[s, a, :1]
    times(inverse, x, zx)
    q, z = 0.0, 0.0
    for b in range(d):
        q += zx[b] * x[b]
        z += theta[b] * x[b]
    v = min(max(z, -bound), bound)
    if v != z and q > 0.0:
        state.growth[s, a] -= (v - z) * (v - z) / q
        for b in range(d):
            theta[b] += (v - z) / q * zx[b]
    error = sigma(v) - reward
    kappa = (2.0 - SLACK) * logistic_alpha(bound)
    rank_one(gram, inverse, logdet, x, zx, q, kappa)
    shrink = 1.0 / (1.0 + kappa * q)
    for b in range(d):
        theta[b] -= error * shrink * zx[b]
    state.growth[s, a] += error * error * q * shrink
    state.samples[s, a] += 1
    if state.samples[s, a] % OFTEN == 0 and refresh_due(gram, state.samples[s, a], math.exp(start / d)):
        apply_refresh(refresh, (gram, inverse, logdet, start, factor, zx))


apply_logistic_step = slot("logistic step")


@inlined
def reward_step(par, state, refresh, s, a, reward, x, norm, zx, factor):
    """Learn a reward of pair (s, a) in the form it is modelled in; norm = ||x||; zx [d], factor [d, d]: scratch."""
    if par.learned == RIDGE:
        ridge_step(state, refresh, par.start, s, a, reward, x, zx, factor)
    elif par.learned != KNOWN:
        args = state, refresh, par.start, par.bound * norm, s, a, reward, x, zx, factor
        apply_logistic_step(par.step, args)


@inlined
def rewards_learn(par, state, refresh, x, norm, n, path, zx, factor):
    """The rewards of an episode of n steps, those that were seen: `reward_step` with the choice outside the loop, which
    inside costs a tenth of a run."""
    if par.learned == RIDGE:
        for h in range(n):
            if not math.isnan(path.rewards[h]):
                ridge_step(state, refresh, par.start, path.states[h], path.actions[h], path.rewards[h], x, zx, factor)
    elif par.learned == LOGISTIC:
        for h in range(n):
            s, a, reward = path.states[h], path.actions[h], path.rewards[h]
            if not math.isnan(reward):
                args = state, refresh, par.start, par.bound * norm, s, a, reward, x, zx, factor
                apply_logistic_step(par.step, args)


@kernel
def logistic_beliefs(theta, forms, growth, x, bound, log_term, cap, reward, interval):
    """reward, interval [n] <- r_hat and xi_r at context x; forms [n]: ||x||^2_{V^{-1}}; bound = B_r ||x||; cap limits
    the intervals (0 where rewards are known); log_term: what ln(1/delta) adds to the squared radius."""
    for i in range(reward.shape[0]):
        z = 0.0
        for b in range(x.shape[0]):
            z += theta[i, b] * x[b]
        v = min(max(z, -bound), bound)
        reward[i] = sigma(v)
        interval[i] = 0.0
        if cap > 0.0:
            w2 = (growth[i] + log_term) * forms[i] - (v - z) * (v - z)  # negative: an empty set says nothing
            interval[i] = min(cap, logistic_interval(math.sqrt(w2) if w2 >= 0.0 else math.inf, v, bound))


apply_logistic_beliefs = slot("logistic beliefs")
