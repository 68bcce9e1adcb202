"""A pair's stored rewards, gone over again: what each can say, from what is known of its mean by now."""

import math

from ...compiler.jit import inlined, kernel
from ...numerics.linear_algebra import invert
from .mixture import prepare_extremes, range_at, renew
from .tilts import sample_bounds, variance_proxy

KEPT = 0.9  # of J is expected to be left after a refresh


@kernel
def mixture_refresh(par, state, work, store, s, a):
    """V_i and w_i of all stored samples anew, from the set as it is.

    l_i must be ||x_i|| in the inverse of a matrix below the new J + lambda_min I. One pass tries KEPT J, J the present
    one, and keeps the result if the new J is indeed above; else a second pass takes J_0 = sum V_i x_i x_i' at r = 0,
    which the new J always exceeds. Nothing changes if the store does not hold every reward that was learned.
    O(n (d^2 + C))."""
    d, C = work.h.shape[0], par.lambdas.shape[0]
    reach, best, total = math.inf, math.inf, 1e-300
    for i in range(d):
        total += state.variance[s, a, i, i]
        for j in range(d):
            work.variance[i, j] = KEPT * state.variance[s, a, i, j]
    for k in range(C):  # of the component that is best in an average direction
        b = max(par.log + state.head[s, a, k] + 0.5 * par.lambdas[k] * state.trace[s, a, k] + par.prior[k], 0.5)
        if b * (1.0 + par.lambdas[k] * d / total) < best:
            best, reach = b * (1.0 + par.lambdas[k] * d / total), math.sqrt(2.0 * b)
    invert(work.variance, par.lambdas[0], work.first, work.factor, work.h)
    prepare_extremes(par, state, work, s, a)
    if over_samples(par, state, work, store, s, a, reach, 0) != state.samples[s, a]:
        return
    if not above(work.variance, state.variance[s, a], KEPT, par.lambdas[0], work.factor):
        invert(work.least, par.lambdas[0], work.first, work.factor, work.h)
        over_samples(par, state, work, store, s, a, reach, 1)
    for i in range(d):
        for j in range(d):
            state.variance[s, a, i, j], state.curvature[s, a, i, j] = work.variance[i, j], work.curvature[i, j]
    for e in range(2):
        k = work.episodes[e]
        state.active[s, a, e] = 1 if k >= 0 else 0
        if k >= 0:
            for i in range(d):
                state.extremes[s, a, e, i] = store.contexts[k, i]
    state.reach[s, a] = reach
    renew(par, state, work, s, a)


@kernel
def over_samples(par, state, work, store, s, a, reach, again):
    """work.variance, curvature <- new J and W with l_i from work.first; work.least <- J_0; work.episodes [2] <- where
    the extremes are, or -1 (the last two in the first pass). Returns the number of rewards."""
    d, H = work.h.shape[0], store.rewards.shape[1]
    J, W = work.variance, work.curvature
    for i in range(d):
        for j in range(d):
            J[i, j], W[i, j] = 0.0, 0.0
            if again == 0:
                work.least[i, j] = 0.0
    least, most, count, at = 0.0, 1.0, 0, store.last[s, a]
    if again == 0:
        work.episodes[0], work.episodes[1] = -1, -1
    while at >= 0:
        k, t = at // H, at % H
        if store.rewards[k, t] >= 0.0:
            x = store.contexts[k]
            prior_range(par, x, work.low, work.high)
            range_at(par, state, work, s, a, x, work.low, work.high)
            if again == 0:
                if work.raw[0] < least:
                    least, work.episodes[0] = work.raw[0], k
                if work.raw[1] > most:
                    most, work.episodes[1] = work.raw[1], k
                V = variance_proxy(work.low[0], work.high[0], 0.0)
                for i in range(d):
                    for j in range(d):
                        work.least[i, j] += V * x[i] * x[j]
            V, w = sample_bounds(work.first, reach, x, work.low[0], work.high[0], work.h)
            for i in range(d):
                for j in range(d):
                    J[i, j] += V * x[i] * x[j]
                    W[i, j] += w * x[i] * x[j]
            count += 1
        at = store.previous[k, t]
    return count


@kernel
def above(big, small, share, shift, factor):
    """Whether big - share small + 1e-9 shift I is positive definite: 1 or 0. Rounding of that size changes l_i by less
    than the slack of V_i."""
    d = big.shape[0]
    for i in range(d):
        for j in range(i + 1):
            v = big[i, j] - share * small[i, j]
            if i == j:
                v += 1e-9 * shift
            for k in range(j):
                v -= factor[i, k] * factor[j, k]
            if i == j:
                if not v > 0.0:
                    return 0
                factor[i, i] = math.sqrt(v)
            else:
                factor[i, j] = v / factor[j, j]
    return 1


@inlined
def prior_range(par, x, low, high):
    """What is known of a linear mean before any data: in [0, 1], and at most B_r ||x||."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    low[0], high[0] = 0.0, min(1.0, par.bound * math.sqrt(total))
