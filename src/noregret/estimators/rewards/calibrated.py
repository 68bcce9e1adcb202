"""Mean rewards for agents that explore by their uncertainty: estimates whose deviation is that of the data.

CALIBRATED   rewards in [0, 1], mean theta'x: ridge regression with the noise and contexts of the data. With n rewards
                 sigma^2 = (w u^2/4 + RSS)/(w + n),   RSS = sum r^2 - theta' sum x r,
                 lambda = sigma^2/tau^2,              tau^2 = 1/4 over the mean of ||x||^2
             so that before any data a mean has the standard deviation 1/2 at an x of usual length, in whatever units
             contexts come, and a reward the standard deviation 1/2, the largest in [0, 1], which counts as w = 8
             rewards. RSS and lambda are found again when n has grown by half; in between V += x x' as ever. Until the
             first reward every x is of usual length. (A lambda that was asked for multiplies this one: `par.factor`.)
             u is the length of [0, 1] that the pair's rewards use, as far as is known: 1, and once the pair has paid
             a reward strictly between 0 and 1
                 u = ((W + m graded^p)/(W + m))^(1/p),   W = 8,   p = .85
             and w is 4: u/2 is a guess then, and no bound. m is the geometric mean of two numbers of such rewards, of
             this pair and of all pairs, and
                 graded = min(seen, 2 tau),   tau^2 = (W seen^2/4 + sum RSS)/(W + sum max(n - d, 0))
             with the length seen that the rewards of all pairs took, and sums over the pairs that have paid such a
             reward: twice the noise that graded rewards have in common. A reward of 0 says nothing of it: it may be one
             of those that are 0 or 1.
LAPLACE      rewards 0 or 1, mean sigma(theta'x): V += p (1 - p) x x', the curvature at the estimate, and
             theta -= (p - r) V^{-1} x; lambda is the larger of d/B_r^2 and a quarter of the mean of ||x||^2, so
             that before any data a logit has at most the standard deviation 2 at an x of usual length

Both are approximations, and nothing is proved about them: they explore, and are drawn from (`drawn_mean`). What is
proved about rewards has its own sets (`estimators.rewards.forms`). The deviation of a mean at x is sigma times
||x||_{V^{-1}}, or the slope p (1 - p) times that.
"""

import math
from typing import Any

import numpy as np

from ...checks import Floats
from ...compiler.jit import inlined, kernel
from ...numerics.linear_algebra import apply_refresh, norm_of, predictors, times
from ...numerics.random import inverse_normal
from ...theory.widths import logistic_interval, sigma
from .regression import CALIBRATED, LAPLACE, Step, advance, look, ridge_step

GROWTH = 1.5  # of rewards between two measurements of their noise
WEIGHT, DEVIATION = 8.0, 0.5  # W, and the prior standard deviation of a mean
GUESS, POWER = 4.0, 0.85  # w where rewards are graded, and p
LEAST, SHORTEST = 1e-3, 1e-8  # of lambda over the mean of ||x||^2, and of that mean over R^2: V is rounded by 1e-16 R^2
LOGIT = 2.0  # the largest prior standard deviation of a logit at a usual x
LEAST_SLOPE = 1e-4  # of the logistic curve, in V: no reward is certain beyond this


@inlined
def graded_of(state):
    """(graded^p, number of rewards strictly between 0 and 1) of all pairs; (1, 0) before the first of them."""
    rest, free, total, d = 0.0, 0.0, 0.0, state.theta.shape[2]
    for s in range(state.inside.shape[0]):
        for a in range(state.inside.shape[1]):
            if state.inside[s, a] > 0:
                total += state.inside[s, a]
                rest += state.rest[s, a]
                free += max(state.measured[s, a] - d, 0)
    if total == 0.0:
        return 1.0, 0.0
    seen = min(max(state.seen[1] - state.seen[0], 0.0), 1.0)
    graded = min(seen, 2.0 * math.sqrt((0.25 * WEIGHT * seen * seen + rest) / (WEIGHT + free)))
    return graded**POWER, total


@inlined
def noise_of(state, s, a, graded, total):
    """sigma^2 of pair (s, a), with what `graded_of` says now."""
    w, used = WEIGHT, 1.0
    if state.inside[s, a] > 0:
        m = math.sqrt(state.inside[s, a] * total)
        w, used = GUESS, ((WEIGHT + m * graded) / (WEIGHT + m)) ** (1.0 / POWER)
    return (0.25 * w * used * used + state.rest[s, a]) / (w + state.measured[s, a])


def noise_of_all(state: Any) -> Floats:
    """[S, A], in NumPy."""
    own, d = state.inside > 0, state.theta.shape[2]
    seen = min(max(float(state.seen[1] - state.seen[0]), 0.0), 1.0)
    free = WEIGHT + np.maximum(state.measured[own] - d, 0).sum()
    graded = min(seen, 2.0 * math.sqrt((0.25 * WEIGHT * seen * seen + state.rest[own].sum()) / free))
    m = np.sqrt(state.inside * float(state.inside.sum()))
    used = ((WEIGHT + m * graded**POWER) / (WEIGHT + m)) ** (1.0 / POWER)
    w = np.where(own, GUESS, WEIGHT)
    return np.asarray((0.25 * w * used**2 + state.rest) / (w + state.measured))


@inlined
def noise_due(state, s, a):
    """Whether sigma and the length of contexts are to be found again."""
    return state.samples[s, a] >= GROWTH * state.measured[s, a]


@inlined
def shift(par, state, work, s, a, level):
    """lambda <- level, in V and in its inverse; theta stays."""
    gram, logdet = state.gram[s, a], state.logdet[s, a : a + 1]
    for b in range(gram.shape[0]):
        gram[b, b] += level - state.level[s, a]
    apply_refresh(par.refresh, (gram, state.inverse[s, a], logdet, par.start, work.factor, work.h))
    state.level[s, a] = level
    state.measured[s, a] = state.samples[s, a]


@kernel
def measure(par, state, work, s, a):
    """state.rest <- RSS of pair (s, a); V, its inverse and theta with the lambda that belongs to its sigma."""
    gram, inverse, theta, moment = state.gram[s, a], state.inverse[s, a], state.theta[s, a], state.moment[s, a]
    rest, n, before, size = state.squares[s, a], state.samples[s, a], state.level[s, a], 0.0
    for b in range(theta.shape[0]):
        rest -= theta[b] * moment[b]
        size += gram[b, b] - before
    state.rest[s, a], state.measured[s, a] = max(rest, 0.0), n
    size = max(size / n, SHORTEST * par.largest**2)
    graded, total = graded_of(state)
    noise = noise_of(state, s, a, graded, total)
    shift(par, state, work, s, a, par.factor * max(noise / DEVIATION**2, LEAST) * size)
    times(inverse, moment, theta)


@kernel
def calibrated_step(par, state, work, s, a, reward, x):
    """One observed reward of pair (s, a)."""
    ridge_step(par, state, work, s, a, reward, x)
    state.squares[s, a] += (reward + par.offset) ** 2
    state.seen[0], state.seen[1] = min(state.seen[0], reward), max(state.seen[1], reward)
    if 0.0 < reward < 1.0:
        state.inside[s, a] += 1
    if noise_due(state, s, a):
        measure(par, state, work, s, a)


@kernel
def laplace_step(par, state, work, s, a, reward, x):
    """One observed reward, 0 or 1, of pair (s, a)."""
    z, q = look(state, work, s, a, x)
    p = sigma(z)
    advance(par, state, work, s, a, x, Step(q, max(p * (1.0 - p), LEAST_SLOPE), p - reward))
    for b in range(x.shape[0]):
        state.squares[s, a] += x[b] * x[b]
    if noise_due(state, s, a):
        n = state.samples[s, a]
        level = max(par.regularization, par.factor * state.squares[s, a] / (n * LOGIT**2))
        shift(par, state, work, s, a, level)


@kernel
def estimate_laplace(par, state, work, x, log, mean, interval, bonus):
    """sigma at the possible prediction nearest theta'x. Nothing is proved of it: the interval is that of the bound."""
    bound = par.bound * norm_of(x)
    predictors(state.theta, x, mean)
    for s in range(mean.shape[0]):
        for a in range(mean.shape[1]):
            v = min(max(mean[s, a], -bound), bound)
            mean[s, a] = sigma(v)
            interval[s, a] = bonus[s, a] = logistic_interval(math.inf, v, bound)


@inlined
def deviation_and_share(par, state, s, a, p, q, norm2, graded):
    """The standard deviation of a mean reward p, and the share of its prior variance that is left, both of pair (s, a)
    at x: q = ||x||^2_{V^{-1}}, norm2 = ||x||^2; graded: what `graded_of` says."""
    unseen = state.samples[s, a] == 0
    if par.form == LAPLACE:
        root = math.sqrt(q)
        return p * (1.0 - p) * (min(root, LOGIT) if unseen else root), min(state.level[s, a] * q / norm2, 1.0)
    if unseen and q > 0.0:
        return DEVIATION, 1.0
    return math.sqrt(noise_of(state, s, a, graded[0], graded[1]) * q), min(state.level[s, a] * q / norm2, 1.0)


@kernel
def posterior_calibrated(par, state, work, x, mean, deviation, share):
    """mean, deviation, share [S, A] <- centres and standard deviations of the mean rewards at x, and what is left of
    their prior variances, as shares: 1 before any data."""
    norm2 = max(norm_of(x) ** 2, 1e-300)
    graded = graded_of(state)
    for s in range(mean.shape[0]):
        for a in range(mean.shape[1]):
            z, q = look(state, work, s, a, x)
            z = sigma(z) if par.form == LAPLACE else min(max(z - par.offset, 0.0), 1.0)
            mean[s, a] = z
            found = deviation_and_share(par, state, s, a, z, max(q, 0.0), norm2, graded)
            deviation[s, a], share[s, a] = found


@inlined
def below(x):
    """The standard normal distribution function."""
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@kernel
def drawn_mean(form, mean, deviation, moved):
    """A mean reward drawn from the posterior with this centre and standard deviation; moved ~ N(0, deviation^2) says
    which one, the larger the larger. CALIBRATED: normal given that it is in [0, 1], as a mean is. Other forms: normal,
    and cut to [0, 1]."""
    v = mean + moved
    if form == CALIBRATED and deviation > 0.0:
        low, high = below(-mean / deviation), below((1.0 - mean) / deviation)
        part = low + (high - low) * below(moved / deviation)
        v = mean + deviation * inverse_normal(min(max(part, 1e-300), 1.0 - 1e-16))
    return min(max(v, 0.0), 1.0)
