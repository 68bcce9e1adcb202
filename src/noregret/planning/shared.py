"""The passes of `planning.optimism` where pairs share weights and may lead everywhere: the same numbers sooner.

A first-order term is a pair's rows times V (`beliefs.local.make_rows`), the most expensive part of a bonus, and most of
them decide nothing. With first <= reach sqrt((max V - PV)(PV - min V)) (`beliefs.local.curve`) a bonus lies
between what it is with no first-order term and with that much. So a term is found only where these differ, and in
`plan_shared` only of actions that may be the best: of the one with the largest lower end first, whose value then rules
out most of the others. What is ruled out is worse by more than ties are told apart by. Policy and values are those of
all terms. `bound_shared` finds upper and lower values side by side, so that rows are read once for both.
"""

import math

from ..compiler.jit import inlined, kernel, merged
from ..numerics.linear_algebra import chosen_times, chosen_times_both, rows_times
from ..numerics.random import tie_key
from .bellman import TIED_WITHIN, choose, expectation
from .bonuses import call_first, call_perturb, call_rows, first_matters, least_of, least_term, low_and_high

ROUNDING = 1e-12  # of values up to 1, in a mean


@inlined
def list_rows(par, local, n, work):
    """work.rows <- the rows of the first n pairs in work.pairs, which are made where they are not there."""
    rank = local.rows.shape[1]
    for i in range(n):
        pair = work.pairs[i]
        if local.made[pair] == 0:
            call_rows(par.rows, (local, pair, local.P.shape[2]))
        for k in range(rank):
            work.rows[i * rank + k] = pair * rank + k


@inlined
def length_of(squares, i, rank):
    """The length of block i of so many entries."""
    total = 0.0
    for k in range(i * rank, (i + 1) * rank):
        total += squares[k] * squares[k]
    return math.sqrt(total)


@inlined
def pad(V, padded):
    """padded <- V, and 0 behind it: rows begin and end with lines of the cache."""
    for s in range(V.shape[0]):
        padded[s] = V[s]


@kernel
def first_of(par, local, V, n, work):
    """work.first of the first n pairs in work.pairs: the length of their rows times V."""
    rank, first, squares = local.rows.shape[1], merged(work.first), work.squares[0]
    list_rows(par, local, n, work)
    pad(V, work.padded[0])
    chosen_times(merged(local.rows), work.rows, n * rank, work.padded[0], squares)
    for i in range(n):
        first[work.pairs[i]] = length_of(squares, i, rank)


@inlined
def largest_first(reach, mean, low, high):
    """At least the first-order term of a pair with that reach; also where mean is not within low and high, by
    rounding."""
    slack = ROUNDING * (1.0 + max(high, -low))
    return reach * math.sqrt(max((high - mean + slack) * (mean - low + slack), 0.0))


@inlined
def ends_of(local, reward, scale, low, high, work):
    """work.first <- `largest_first` of all pairs, work.ends[0], [1] <- their values in V with no first-order term and
    with that one; work.Q: means of V."""
    Q, first, least, most = merged(work.Q), merged(work.first), work.ends[0], work.ends[1]
    second, half, rho, reach = merged(local.second), merged(local.half), merged(local.rho), merged(local.reach)
    for i in range(first.shape[0]):
        mean = Q[i]
        v = largest_first(reach[i], mean, low, high)
        first[i] = v
        least[i] = reward[i] + mean + scale * least_term(second[i], half[i], rho[i], 0.0, mean, low, high)
        most[i] = reward[i] + mean + scale * least_term(second[i], half[i], rho[i], v, mean, low, high)


@inlined
def first_of_leaders(par, local, V, scale, limit, work):
    """work.first of the action of every state with the largest value without such a term, where it matters, and
    work.ends[0] of it <- its value; limit: no value is larger. Returns nothing that is not in work."""
    (S, A), available = work.first.shape, par.layout.available
    least, most, n = work.ends[0], work.ends[1], 0
    for s in range(S):
        best, leader = -math.inf, 0
        for a in range(A):
            i = s * A + a
            if available[s, a] and least[i] > best:
                best, leader = least[i], i
        if most[leader] > least[leader] and least[leader] < limit:
            work.pairs[n] = leader
            n += 1
    call_first(par.first, (par, local, V, n, work))
    low, high = low_and_high(V)
    Q, first, reward = merged(work.Q), merged(work.first), merged(work.reward)
    second, half, rho = merged(local.second), merged(local.half), merged(local.rho)
    for e in range(n):
        i = work.pairs[e]
        value = reward[i] + Q[i] + scale * least_term(second[i], half[i], rho[i], first[i], Q[i], low, high)
        least[i] = most[i] = value


@inlined
def first_of_rivals(par, local, V, limit, work):
    """work.first of all other actions that may be the best of their state, after `first_of_leaders`."""
    (S, A), available = work.first.shape, par.layout.available
    least, most, n = work.ends[0], work.ends[1], 0
    for s in range(S):
        best = -math.inf
        for i in range(s * A, s * A + A):
            best = max(best, least[i] if available[s, i - s * A] else -math.inf)
        best = min(best, limit) - 2.0 * TIED_WITHIN
        for i in range(s * A, s * A + A):
            if most[i] >= best and most[i] > least[i] and least[i] < limit and available[s, i - s * A]:
                work.pairs[n] = i
                n += 1
    call_first(par.first, (par, local, V, n, work))


@inlined
def first_of_all(par, local, V, work):
    """work.first of all pairs."""
    for i in range(work.pairs.shape[0]):
        work.pairs[i] = i
    call_first(par.first, (par, local, V, work.pairs.shape[0], work))


@kernel
def plan_shared(par, local, work, mean, k, scale, policy, values):
    """`optimism.plan_optimistically`."""
    (H, S), layout, key = policy.shape, par.layout, tie_key(par.seed, k)
    Q, reward, first, factor = merged(work.Q), merged(work.reward), merged(work.first), merged(work.factor)
    second, half, rho = merged(local.second), merged(local.half), merged(local.rho)
    upper, estimate, matters = merged(local.high), merged(mean), first_matters(par, local, work)
    keeps = work.kept.shape[0] == H and scale == 1.0
    for s in range(S):
        values[H, s] = 0.0
    for i in range(reward.shape[0]):
        reward[i] = upper[i] if scale == 1.0 else estimate[i] + scale * (upper[i] - estimate[i])
    for h in range(H - 1, -1, -1):
        V, limit = values[h + 1], float(H - h)
        low, high = low_and_high(V)
        if par.draws > 0.0:
            call_perturb(par.perturb, (par.seed, par.draws, k, h, work.factor))
        rows_times(merged(local.P), V, Q)
        if matters and (keeps or par.draws > 0.0):  # terms of all actions, not of the best alone
            first_of_all(par, local, V, work)
        elif matters and high > low:
            ends_of(local, reward, scale, low, high, work)
            first_of_leaders(par, local, V, scale, limit, work)
            first_of_rivals(par, local, V, limit, work)
        for i in range(reward.shape[0]):
            b = least_term(second[i], half[i], rho[i], factor[i] * first[i], Q[i], low, high)
            Q[i] = min(max(reward[i] + Q[i] + scale * b, 0.0), limit)
        if keeps:
            kept = merged(work.kept[h])
            for i in range(reward.shape[0]):
                kept[i] = Q[i]
        choose(work.Q, layout, key, h, policy, values)


@inlined
def narrow_pairs(local, policy, work):
    """work.pairs, work.states <- the pairs (s, policy[s]) where second < half: elsewhere a first-order term decides
    nothing. Their number."""
    n, A = 0, local.rho.shape[1]
    for s in range(policy.shape[0]):
        if local.second[s, policy[s]] < local.half[s, policy[s]]:
            work.pairs[n], work.states[n] = s * A + policy[s], s
            n += 1
    return n


@inlined
def bound_below(par, local, work, policy, lower):
    """Lower values alone."""
    (H, S), matters = policy.shape, first_matters(par, local, work)
    for s in range(S):
        lower[H, s] = 0.0
    for h in range(H - 1, -1, -1):
        L = lower[h + 1]
        bottom, top = low_and_high(L)
        for s in range(S):
            work.first[s, policy[h, s]] = 0.0
        if matters:
            call_first(par.first, (par, local, L, narrow_pairs(local, policy[h], work), work))
        for s in range(S):
            a = policy[h, s]
            mean = expectation(local.P, par.layout, s, a, L)
            less = least_of(local, s, a, work.first[s, a], -mean, -top, -bottom)
            lower[h, s] = min(max(local.low[s, a] + mean - less, 0.0), float(H - h))


@inlined
def first_of_both(par, local, U, L, n, work):
    """work.both [2, S] at the states in work.states <- first-order terms for U and for L of the first n pairs in
    work.pairs."""
    rank = local.rows.shape[1]
    list_rows(par, local, n, work)
    padded, squares = work.padded, work.squares
    pad(U, padded[0])
    pad(L, padded[1])
    chosen_times_both(merged(local.rows), work.rows, n * rank, padded[0], padded[1], squares[0], squares[1])
    for i in range(n):
        work.both[0, work.states[i]] = length_of(work.squares[0], i, rank)
        work.both[1, work.states[i]] = length_of(work.squares[1], i, rank)


@inlined
def bound_both(par, local, work, policy, upper, lower, rough):
    """Upper and lower values side by side: rows are read once for both. rough=1: upper ones without their first-order
    terms, at most what they are with them."""
    (H, S), A, matters = policy.shape, work.first.shape[1], first_matters(par, local, work)
    P, both, first = merged(local.P), work.both, merged(work.first)
    for s in range(S):
        upper[H, s] = lower[H, s] = 0.0
    for h in range(H - 1, -1, -1):
        U, L = upper[h + 1], lower[h + 1]
        low, high = low_and_high(U)
        bottom, top = low_and_high(L)
        for s in range(S):
            both[0, s] = both[1, s] = 0.0
        n = narrow_pairs(local, policy[h], work) if matters else 0
        if n > 0 and rough == 0:
            first_of_both(par, local, U, L, n, work)
        elif n > 0:
            call_first(par.first, (par, local, L, n, work))
            for e in range(n):
                both[1, work.states[e]] = first[work.pairs[e]]
        for s in range(S):
            a, above, below = policy[h, s], 0.0, 0.0
            i = s * A + a
            for j in range(S):
                above += P[i, j] * U[j]
                below += P[i, j] * L[j]
            more = least_of(local, s, a, both[0, s], above, low, high)
            less = least_of(local, s, a, both[1, s], -below, -top, -bottom)
            upper[h, s] = min(max(local.high[s, a] + above + more, 0.0), float(H - h))
            lower[h, s] = min(max(local.low[s, a] + below - less, 0.0), float(H - h))


@kernel
def bound_shared(par, local, work, policy, upper, lower, rough):
    """`optimism.bound_values`."""
    if upper.shape[0] > 0:
        bound_both(par, local, work, policy, upper, lower, rough)
    else:
        bound_below(par, local, work, policy, lower)
