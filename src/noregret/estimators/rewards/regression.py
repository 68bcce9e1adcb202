"""What every form of reward learning shares: weights theta and a Gram matrix V with its inverse, one of each per pair.

    look       V^{-1} x, theta'x and ||x||^2_{V^{-1}}
    advance    V += kappa x x',  theta -= error V^{-1} x  (the new V), in O(d^2); the inverse anew now and then

and the two forms that need nothing else: known weights, and ridge regression of rewards in [0, 1] with mean theta'x
(less `par.offset`, which is added to rewards before they are learned, see `rewards.forms`),

    V = lambda I + sum x x',   theta = V^{-1} sum x r,   |theta'x - theta*'x| <= rho ||x||_{V^{-1}}

with rho = `theory.widths.ridge_radius`, for all contexts and at all times together with probability 1 - delta.
"""

import math
from typing import NamedTuple

from ...compiler.jit import inlined, kernel
from ...compiler.slots import slot
from ...numerics.linear_algebra import OFTEN, apply_refresh, norm_of, predictors, rank_one, refresh_due, times
from ...theory.widths import ridge_radius, sigma

KNOWN, RIDGE, NEWTON, LOGISTIC, HOEFFDING, BERNSTEIN, CALIBRATED, LAPLACE = 0, 1, 2, 3, 4, 5, 6, 7  # the forms


class Step(NamedTuple):
    """What one reward does to theta and V."""

    q: float  # ||x||^2_{V^{-1}}, before
    kappa: float
    error: float


@kernel
def quadratic_form(matrix, x, out):
    """out [d] <- matrix x; returns x'matrix x."""
    total = 0.0
    for i in range(x.shape[0]):
        t = 0.0
        for j in range(x.shape[0]):
            t += matrix[i, j] * x[j]
        out[i] = t
        total += t * x[i]
    return total


@inlined
def look(state, work, s, a, x):
    """work.h [d] <- V^{-1} x; returns theta'x and ||x||^2_{V^{-1}} of pair (s, a)."""
    times(state.inverse[s, a], x, work.h)
    z, q = 0.0, 0.0
    for b in range(x.shape[0]):
        z += state.theta[s, a, b] * x[b]
        q += work.h[b] * x[b]
    return z, q


@inlined
def advance(par, state, work, s, a, x, step):
    """V += kappa x x', theta -= error V^{-1} x, one more sample. After `look`. Whether the inverse was made anew."""
    theta, gram, inverse, logdet = state.theta[s, a], state.gram[s, a], state.inverse[s, a], state.logdet[s, a : a + 1]
    rank_one(gram, inverse, logdet, x, work.h, step.q, step.kappa)
    size = step.error / (1.0 + step.kappa * step.q)
    for b in range(x.shape[0]):
        theta[b] -= size * work.h[b]
    state.samples[s, a] += 1
    n = state.samples[s, a]
    due = n % OFTEN == 0 and refresh_due(gram, inverse, n, 1)
    if due:
        apply_refresh(par.refresh, (gram, inverse, logdet, par.start, work.factor, work.h))
    return due


@inlined
def ridge_step(par, state, work, s, a, reward, x):
    """One observed reward of pair (s, a)."""
    z, q = look(state, work, s, a, x)
    told = reward + par.offset
    for b in range(x.shape[0]):
        state.moment[s, a, b] += told * x[b]
    if advance(par, state, work, s, a, x, Step(q, 1.0, z - told)):
        times(state.inverse[s, a], state.moment[s, a], state.theta[s, a])


@inlined
def ridge_half_width(par, state, s, a, q, log):
    """At most how far theta'x is from the truth under RIDGE: q = ||x||^2_{V^{-1}}, log = ln(1/delta)."""
    return ridge_radius(state.logdet[s, a], par.bound, par.regularization, log) * math.sqrt(max(q, 0.0))


@inlined
def possible_means(par, norm):
    """(least, largest): what is known of a linear mean before any data. It is in [0, 1], and |theta'x| <= B_r norm."""
    reach = par.bound * norm
    return max(0.0, -reach - par.offset), min(1.0, reach - par.offset)


@inlined
def times_scale(scale, width):
    """scale width, 0 where scale is 0 and width infinite."""
    return scale * width if scale > 0.0 else 0.0


@kernel
def estimate_ridge(par, state, work, x, log, mean, interval, bonus):
    """mean, interval, bonus [S, A] <- r_hat, xi_r and its bonus. GLM-ORL as it comes has the same in its own loop
    (`beliefs.point`)."""
    for s in range(mean.shape[0]):
        for a in range(mean.shape[1]):
            z, q = look(state, work, s, a, x)
            mean[s, a] = min(max(z - par.offset, 0.0), 1.0)
            w = ridge_half_width(par, state, s, a, q, log)
            interval[s, a], bonus[s, a] = min(1.0, w), min(1.0, times_scale(par.scale, w))


@kernel
def ranges_ridge(par, state, work, x, low, high):
    bottom, top = possible_means(par, norm_of(x))
    for s in range(low.shape[0]):
        for a in range(low.shape[1]):
            z, q = look(state, work, s, a, x)
            z -= par.offset
            w = ridge_half_width(par, state, s, a, q, par.log)
            lo, hi = max(z - w, bottom), min(z + w, top)
            empty = lo > hi
            low[s, a], high[s, a] = bottom if empty else lo, top if empty else hi


@inlined
def known_means(par, state, x, mean):
    """mean [S, A] <- theta'x within [0, 1], or sigma(theta'x)."""
    predictors(state.theta, x, mean)
    for s in range(mean.shape[0]):
        for a in range(mean.shape[1]):
            z = mean[s, a]
            mean[s, a] = sigma(z) if par.logistic == 1 else min(max(z - par.offset, 0.0), 1.0)


@kernel
def estimate_known(par, state, work, x, log, mean, interval, bonus):
    known_means(par, state, x, mean)
    interval[:] = bonus[:] = 0.0


@kernel
def ranges_known(par, state, work, x, low, high):
    known_means(par, state, x, low)
    for s in range(low.shape[0]):
        for a in range(low.shape[1]):
            high[s, a] = low[s, a]


@kernel
def posterior(par, state, work, x, mean, deviation, share):
    """mean, deviation [S, A] <- centres and standard deviations of normal posteriors of the mean rewards at x: theta'x
    and half of ||x||_{V^{-1}}, or sigma(theta'x) and its slope times that. Known rewards: deviation 0. share [S, A] <-
    0."""
    for s in range(mean.shape[0]):
        for a in range(mean.shape[1]):
            z, q = look(state, work, s, a, x)
            slope = 0.5
            if par.logistic == 1:
                z = sigma(z)
                slope = z * (1.0 - z)
            else:
                z -= par.offset
            mean[s, a] = min(max(z, 0.0), 1.0)
            deviation[s, a] = 0.0 if par.form == KNOWN else slope * math.sqrt(max(q, 0.0))
            share[s, a] = 0.0


call_learn = slot("reward learn")  # (par, state, work, s, a, reward, x)


@inlined
def reward_learn(par, state, work, s, a, reward, x):
    """One observed reward of pair (s, a) at x."""
    if par.form != KNOWN:
        call_learn(par.learn, (par, state, work, s, a, reward, x))


@inlined
def rewards_learn(par, state, work, x, n, path):
    """The rewards of an episode of n steps, those that were seen: `reward_learn` with ridge regression pasted in, and
    the choice outside the loop, which inside costs a tenth of a run."""
    if par.form == RIDGE and par.block.shape[0] == 0:
        for h in range(n):
            if not math.isnan(path.rewards[h]):
                ridge_step(par, state, work, path.states[h], path.actions[h], path.rewards[h], x)
    elif par.form != KNOWN:
        for h in range(n):
            if not math.isnan(path.rewards[h]):
                args = par, state, work, path.states[h], path.actions[h], path.rewards[h], x
                call_learn(par.learn, args)
