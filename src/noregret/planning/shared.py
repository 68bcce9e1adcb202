"""The passes of `planning.optimism` where pairs share weights and may lead everywhere: the same numbers sooner.

A first-order term is a pair's rows times V (`beliefs.local.make_rows`), the most expensive part of a bonus, and most of
them decide nothing. With first <= reach sqrt((max V - PV)(PV - min V)) (`beliefs.local.curve`) a bonus lies
between what it is with no first-order term and with that much. So a term is found only where these differ, and in
`plan_shared` only of actions that may be the best: of the one with the largest lower end first, whose value then rules
out most of the others. What is ruled out is worse by more than ties are told apart by. Policy and values are those of
all terms. `bound_shared` finds upper and lower values side by side, so that rows are read once for both.

A term is a length of a linear map of V that does not see constants. So from one step to the next it moves by at most
reach times half the span of V_h - V_{h+1}, which shrinks fast where people are soon anywhere: between what a term can
be at least and at most nothing is left but rounding. What is known to SETTLED is not found again, and taken to be as
large as it may be, so that what must be an upper bound is one. Nor can an action that is far behind another catch up
by so little: then the best actions stay, and only theirs are worked out (`stay`), as MacQueen (1967) leaves out actions
between two sweeps. With d the span of V_h - V_{h+1}, a pair's value moves by some c in [min, max] of V_h - V_{h+1} that
all have in common, d at most for its mean and (1 + reach/2) d for its bonus: of the three terms in it the first,
(max V - min V) min(half, 1), and the last, max V - PV, move by d at most, as does what second adds to a first-order
term where that decides, second < 1.
"""

import math

from ..compiler.jit import inlined, kernel, merged
from ..numerics.linear_algebra import chosen_times, chosen_times_both, rows_times
from ..numerics.random import tie_key
from .bellman import TIED_WITHIN, choose, expectation
from .bonuses import GLANCE, call_first, call_perturb, call_rows, first_matters, least_of, least_term, low_and_high

ROUNDING = 1e-12  # of values up to 1, in a mean
SETTLED = 1e-13  # first-order terms, and values, that are known to so much count as known


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
def moved(V, before):
    """Half the span of V - before: a first-order term moves by at most reach times that."""
    low, high = V[0] - before[0], V[0] - before[0]
    for s in range(1, V.shape[0]):
        low, high = min(low, V[s] - before[s]), max(high, V[s] - before[s])
    return 0.5 * (high - low)


@inlined
def no_terms(work):
    """work.known, work.first <- of values that are all the same."""
    known, first = merged(work.known), merged(work.first)
    for i in range(first.shape[0]):
        known[i] = first[i] = 0.0


@inlined
def ends_of(local, reward, scale, step, low, high, work):
    """work.known, work.first <- between which the first-order terms of all pairs lie: `largest_first` at most, and no
    farther from where they were than step, `moved` since then, allows. work.ends[0], [1] <- their values in V with
    these; work.Q: means of V."""
    Q, known, first, least, most = merged(work.Q), merged(work.known), merged(work.first), work.ends[0], work.ends[1]
    second, half, rho, reach = merged(local.second), merged(local.half), merged(local.rho), merged(local.reach)
    for i in range(first.shape[0]):
        mean, slack = Q[i], reach[i] * step if step > 0.0 else 0.0
        u = max(known[i] - slack, 0.0)
        v = min(first[i] + slack, largest_first(reach[i], mean, low, high))
        known[i], first[i] = u, v
        least[i] = reward[i] + mean + scale * least_term(second[i], half[i], rho[i], u, mean, low, high)
        most[i] = reward[i] + mean + scale * least_term(second[i], half[i], rho[i], v, mean, low, high)


@inlined
def first_of_leaders(par, local, V, scale, limit, work):
    """work.first of the action of every state with the largest lower end, where it matters, and work.ends[0] of it <-
    its value; limit: no value is larger. Returns nothing that is not in work."""
    (S, A), available, known = work.first.shape, par.layout.available, merged(work.known)
    least, most, n = work.ends[0], work.ends[1], 0
    for s in range(S):
        best, leader = -math.inf, 0
        for a in range(A):
            i = s * A + a
            if available[s, a] and least[i] > best:
                best, leader = least[i], i
        if most[leader] - least[leader] > SETTLED and least[leader] < limit:
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
        known[i] = first[i]


@inlined
def first_of_rivals(par, local, V, limit, work):
    """work.first of all other actions that may be the best of their state, after `first_of_leaders`."""
    (S, A), available, known, first = work.first.shape, par.layout.available, merged(work.known), merged(work.first)
    least, most, n = work.ends[0], work.ends[1], 0
    for s in range(S):
        best = -math.inf
        for i in range(s * A, s * A + A):
            best = max(best, least[i] if available[s, i - s * A] else -math.inf)
        best = min(best, limit) - 2.0 * TIED_WITHIN
        for i in range(s * A, s * A + A):
            unknown = most[i] - least[i] > SETTLED
            if most[i] >= best and unknown and least[i] < limit and available[s, i - s * A]:
                work.pairs[n] = i
                n += 1
    call_first(par.first, (par, local, V, n, work))
    for e in range(n):
        known[work.pairs[e]] = first[work.pairs[e]]


@inlined
def first_of_all(par, local, V, work):
    """work.first of all pairs."""
    for i in range(work.pairs.shape[0]):
        work.pairs[i] = i
    call_first(par.first, (par, local, V, work.pairs.shape[0], work))


@inlined
def lead_of(par, limit, work):
    """The least lead of the best action of a state before the others, by work.ends[1], values before they are clipped;
    -inf where the best is clipped anywhere."""
    (S, A), available, values, least = work.first.shape, par.layout.available, work.ends[1], math.inf
    for s in range(S):
        best, second = -math.inf, -math.inf
        for a in range(A):
            v = values[s * A + a] if available[s, a] else -math.inf
            second = max(second, min(best, v))
            best = max(best, v)
        least = min(least, best - second if best > TIED_WITHIN and best <= limit else -math.inf)
    return least


@inlined
def pace_of(local, scale):
    """How fast a lead may shrink, at most, times `moved`."""
    rho, reach, most = merged(local.rho), merged(local.reach), 0.0
    for i in range(rho.shape[0]):
        most = max(most, reach[i] if rho[i] < math.inf else 0.0)
    return 2.0 * (1.0 + 2.0 * scale * (1.0 + 0.5 * most))


@kernel
def stay(par, local, scale, step, h, policy, values, work):
    """policy[h], values[h] <- those of the actions of policy[h + 1], where nothing else can be as good; step: `moved`
    since the step before. False where a value would be clipped: then nothing is worth keeping."""
    (H, S), A, V, leaders, means = policy.shape, work.first.shape[1], values[h + 1], work.leaders, work.ends[0]
    known, first, reward = merged(work.known), merged(work.first), merged(work.reward)
    second, half, rho, reach = merged(local.second), merged(local.half), merged(local.rho), merged(local.reach)
    (low, high), n = low_and_high(V), 0
    for s in range(S):
        leaders[s] = s * A + policy[h + 1, s]
    chosen_times(merged(local.P), leaders, S, V, means)
    for s in range(S):
        i, mean = leaders[s], means[s]
        slack = reach[i] * step if step > 0.0 else 0.0
        known[i], first[i] = max(known[i] - slack, 0.0), first[i] + slack
        least = least_term(second[i], half[i], rho[i], known[i], mean, low, high)
        if scale * (least_term(second[i], half[i], rho[i], first[i], mean, low, high) - least) > SETTLED:
            work.pairs[n] = i
            n += 1
    call_first(par.first, (par, local, V, n, work))
    for e in range(n):
        known[work.pairs[e]] = first[work.pairs[e]]
    for s in range(S):
        i, mean = leaders[s], means[s]
        v = reward[i] + mean + scale * least_term(second[i], half[i], rho[i], first[i], mean, low, high)
        if not (v > TIED_WITHIN and v <= float(H - h)):
            return False
        values[h, s], policy[h, s] = v, policy[h + 1, s]
    return True


@kernel
def plan_shared(par, local, work, mean, k, scale, policy, values):
    """`optimism.plan_optimistically`."""
    (H, S), layout, key = policy.shape, par.layout, tie_key(par.seed, k)
    Q, reward, first, factor = merged(work.Q), merged(work.reward), merged(work.first), merged(work.factor)
    second, half, rho = merged(local.second), merged(local.half), merged(local.rho)
    upper, estimate, matters = merged(local.high), merged(mean), first_matters(par, local, work)
    keeps = work.kept.shape[0] == H and scale == 1.0
    all_terms = keeps or par.perturbations > 0.0
    lead, pace, far, raw = -math.inf, pace_of(local, scale), 0.0, work.ends[1]
    for s in range(S):
        values[H, s] = 0.0
    for i in range(reward.shape[0]):
        reward[i] = upper[i] if scale == 1.0 else estimate[i] + scale * (upper[i] - estimate[i])
    for h in range(H - 1, -1, -1):
        V, limit, step = values[h + 1], float(H - h), moved(values[h + 1], values[min(h + 2, H)])
        far += step
        if lead > pace * far + 2.0 * TIED_WITHIN and stay(par, local, scale, step, h, policy, values, work):
            continue
        low, high = low_and_high(V)
        if par.perturbations > 0.0:
            call_perturb(par.perturb, (par.seed, par.perturbations, k, h, work.factor))
        rows_times(merged(local.P), V, Q)
        if matters and all_terms:  # of all actions, not of the best alone
            first_of_all(par, local, V, work)
        elif matters and high <= low:  # so before the first step from the end
            no_terms(work)
        elif matters:
            ends_of(local, reward, scale, far, low, high, work)
            first_of_leaders(par, local, V, scale, limit, work)
            first_of_rivals(par, local, V, limit, work)
        for i in range(reward.shape[0]):
            b = least_term(second[i], half[i], rho[i], factor[i] * first[i], Q[i], low, high)
            raw[i] = reward[i] + Q[i] + scale * b
            Q[i] = min(max(raw[i], 0.0), limit)
        if matters and not all_terms:
            lead, far = lead_of(par, limit, work), 0.0
        if keeps:
            kept = merged(work.kept[h])
            for i in range(reward.shape[0]):
                kept[i] = Q[i]
        choose(work.Q, layout, key, h, policy, values)


@inlined
def no_terms_along(work):
    """work.both, work.age <- of values that are all the same."""
    for s in range(work.both.shape[1]):
        work.both[0, s] = work.both[1, s] = work.age[0, s] = work.age[1, s] = 0.0


@inlined
def moved_pairs(local, policy, h, way, steps, work):
    """work.pairs, work.states <- the pairs (s, policy[h, s]) whose terms must be found, and their number. Not those
    where second >= half: there a first-order term decides nothing. Nor those of the step before whose terms, in
    work.both, are no more than SETTLED too large still; steps: `moved` of U and of L. way=1: of L alone, 0: of
    both."""
    n, A, both, age = 0, local.rho.shape[1], work.both, work.age
    for s in range(policy.shape[1]):
        a = policy[h, s]
        if local.second[s, a] < local.half[s, a]:
            again = policy[h + 1, s] == a
            for w in range(way, 2):
                slack = local.reach[s, a] * steps[w]
                both[w, s] += slack
                age[w, s] += slack
                again = again and age[w, s] <= SETTLED
            if not again:
                work.pairs[n], work.states[n] = s * A + a, s
                age[0, s] = age[1, s] = 0.0
                n += 1
        else:
            both[0, s] = both[1, s] = 0.0
    return n


@inlined
def terms_below(par, local, L, n, work):
    """work.both[1] at the states in work.states <- first-order terms for L of the first n pairs in work.pairs."""
    first = merged(work.first)
    call_first(par.first, (par, local, L, n, work))
    for e in range(n):
        work.both[1, work.states[e]] = first[work.pairs[e]]


@inlined
def bound_below(par, local, work, policy, lower):
    """Lower values alone."""
    (H, S), matters = policy.shape, first_matters(par, local, work)
    no_terms_along(work)
    for s in range(S):
        lower[H, s] = 0.0
    for h in range(H - 1, -1, -1):
        L = lower[h + 1]
        bottom, top = low_and_high(L)
        if matters and h < H - 1:
            steps = (0.0, moved(L, lower[h + 2]))
            terms_below(par, local, L, moved_pairs(local, policy, h, 1, steps, work), work)
        for s in range(S):
            a = policy[h, s]
            mean = expectation(local.P, par.layout, s, a, L)
            less = least_of(local, s, a, work.both[1, s], -mean, -top, -bottom)
            lower[h, s] = min(max(local.low[s, a] + mean - less, 0.0), float(H - h))


@inlined
def terms_of_both(par, local, U, L, n, work):
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
def bound_both(par, local, work, policy, upper, lower, how):
    """Upper and lower values side by side: rows are read once for both. GLANCE: upper ones without their first-order
    terms; they are no bounds on the policy's value then, and serve the gate alone."""
    (H, S), A, matters = policy.shape, work.first.shape[1], first_matters(par, local, work)
    P, both = merged(local.P), work.both
    no_terms_along(work)
    for s in range(S):
        upper[H, s] = lower[H, s] = 0.0
    for h in range(H - 1, -1, -1):
        U, L = upper[h + 1], lower[h + 1]
        low, high = low_and_high(U)
        bottom, top = low_and_high(L)
        if matters and h < H - 1:
            steps = (moved(U, upper[h + 2]), moved(L, lower[h + 2]))
            n = moved_pairs(local, policy, h, 1 if how == GLANCE else 0, steps, work)
            if how != GLANCE:
                terms_of_both(par, local, U, L, n, work)
            else:
                terms_below(par, local, L, n, work)
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
def bound_shared(par, local, work, policy, upper, lower, how):
    """`optimism.bound_values`."""
    if upper.shape[0] > 0:
        bound_both(par, local, work, policy, upper, lower, how)
    else:
        bound_below(par, local, work, policy, lower)
