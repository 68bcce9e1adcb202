"""A pair's stored rewards, gone over again: what each can say, from what is known of its mean by now.

With a design those of a block, all its pairs one after the other: the sums do not mind the order. The "pair" is then
(b, 0) and the contexts are the u = X psi of `estimators.rewards.shared`.
"""

import math

from ...compiler.jit import inlined, kernel, merged
from ...numerics.linear_algebra import apply_refresh, norm_of
from .mixture import add_outer, call_range, call_renew, shifted
from .regression import possible_means
from .shared import lift
from .tilts import sample_bounds, variance_proxy

KEPT = 0.9  # of J is expected to be left after a refresh
WIDER = 2.0  # of the reach with a design: its pairs ask in directions that are known differently well


@kernel
def mixture_refresh(par, state, work, store, s, a):
    """nu_i and w_i of all stored samples anew, from the set as it is.

    l_i must be ||x_i|| in the inverse of a matrix below the new J + lambda_min I. One pass tries KEPT J, J the present
    one, and keeps the result if the new J is indeed above; else a second pass takes J_0 = sum nu_i x_i x_i' at r = 0,
    which the new J always exceeds. Nothing changes if the store does not hold every reward that was learned.
    O(n (d^2 + C))."""
    of, w, lam = state.mixture, work.mixture, par.mixture.lambdas[0]
    reach = best_reach(par, of, s, a) * (WIDER if par.block.shape[0] > 0 else 1.0)
    shifted(of.sums[s, a, 0], KEPT, lam, w.square)
    for guess in range(2):
        apply_refresh(par.refresh, (w.square, w.first, w.logdet, 0.0, work.factor, work.h))
        if over_samples(par, state, work, store, s, a, reach) != state.samples[s, a]:
            return
        if guess == 1 or above(w.sums[0], of.sums[s, a, 0], KEPT, lam, work.factor):
            break
        shifted(w.sums[2], 1.0, lam, w.square)
    new, old = merged(w.sums), merged(of.sums[s, a])
    for i in range(old.shape[0]):
        for j in range(old.shape[1]):
            old[i, j] = new[i, j]
    for e in range(2):
        k = w.episodes[e]
        of.active[s, a, e] = 1 if k >= 0 else 0
        if k >= 0:
            for i in range(work.h.shape[0]):
                of.extremes[s, a, e, i] = store.contexts[k, i]
    of.reach[s, a] = reach
    call_renew(par.mixture.renew, (par, state, work, s, a))


@inlined
def best_reach(par, of, s, a):
    """The largest tilt of the component that is best in an average direction."""
    d, lambdas, reach, best, total = of.wide.shape[2], par.mixture.lambdas, math.inf, math.inf, 1e-300
    for i in range(d):
        total += of.sums[s, a, 0, i, i]
    for k in range(lambdas.shape[0]):
        b = max(par.log + of.head[s, a, k] + 0.5 * lambdas[k] * of.trace[s, a, k] + par.mixture.prior[k], 0.5)
        if b * (1.0 + lambdas[k] * d / total) < best:
            best, reach = b * (1.0 + lambdas[k] * d / total), math.sqrt(2.0 * b)
    return reach


@inlined
def over_samples(par, state, work, store, s, a, reach):
    """work.mixture.sums <- new J and W with l_i from `first`, and J_0; episodes [2] <- where the extremes are, or -1.
    Returns the number of rewards. With a design no extremes are looked for."""
    w, sums = work.mixture, merged(merged(work.mixture.sums))
    sums[:] = 0.0
    w.episodes[0], w.episodes[1] = -1, -1
    w.far[0], w.far[1] = 0.0, 1.0
    if par.block.shape[0] == 0:
        return over_chain(par, state, work, store, s, a, reach, 0)
    count = 0
    for i in range(par.block.shape[0]):
        for j in range(par.block.shape[1]):
            if par.block[i, j] == s:
                count = over_chain(par, state, work, store, i, j, reach, count)
    w.episodes[0], w.episodes[1] = -1, -1
    return count


@kernel
def over_chain(par, state, work, store, s, a, reach, count):
    """The rewards of pair (s, a), added to those there are; `count` of them before, and after."""
    w, H, shared, b, c = work.mixture, store.rewards.shape[1], par.block.shape[0] > 0, s, a
    if shared:
        b, c = par.block[s, a], 0
    at = store.last[s, a]
    while at >= 0:
        k, t = at // H, at % H
        if store.rewards[k, t] >= 0.0:
            if shared:
                lift(par, work, s, a, store.contexts[k])
            x = work.lifted if shared else store.contexts[k]
            w.ends[0], w.ends[1] = possible_means(par, norm_of(x))
            call_range(par.mixture.range, (par, state, work, b, c, x, min(count, 1)))
            if w.raw[0] < w.far[0]:
                w.far[0], w.episodes[0] = w.raw[0], k
            if w.raw[1] > w.far[1]:
                w.far[1], w.episodes[1] = w.raw[1], k
            low, high = w.ends[0], w.ends[1]
            w.weights[0], w.weights[1] = sample_bounds(w.first, reach, x, low, high, work.h)
            w.weights[2] = variance_proxy(low, high, 0.0)
            add_outer(w.weights, x, w.sums)
            count += 1
        at = store.previous[k, t]
    return count


@inlined
def above(big, small, share, shift, factor):
    """Whether big - share small + 1e-9 shift I is positive definite. Rounding of that size changes l_i by less than the
    slack of nu_i."""
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
                    return False
                factor[i, i] = math.sqrt(v)
            else:
                factor[i, j] = v / factor[j, j]
    return True
