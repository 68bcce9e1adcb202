"""Planning over sets of models: how much better or worse than its estimate an expectation can be, and what follows.

For one pair and next values V, over the ellipsoid of logits of `beliefs.local`,

    <P*, V> - <P, V>  <=  bonus(V) = min( rho sqrt(g' cov g) + span(V) second,  span(V) half,  max V - <P, V> )

g = P * (V - <P, V>), span(V) = max V - min V over the pair's possible next states; the first term is Bernstein-shaped
(its square is about the variance of V over the number of samples), the second is what the curvature of the softmax
adds. Downwards the same with -V. Under SHARP bonuses the minimum includes the certified maximum over the ellipsoid
(`planning.maximise`). docs/beyond.md has the proofs.

Three passes of the Bellman operator use it, all clipped to [0, H - h], with mean rewards at the end that suits:

    upwards over all actions (`optimum`): at least the optimal values
    upwards and downwards along a given policy (`assess`): its own values lie between
    upwards over the policy's shortfall itself (`shortfall`), from the other three

Where all pairs have the same possible next states, the first-order terms of all pairs are found together, as forms in V
(`first_orders`), unless none of them can matter (`bonuses.first_matters`). Where they share weights besides,
`planning.shared` has both passes. They are compiled once, for all agents and kinds of sets, and reached by address.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..beliefs.local import LocalSets, covariance_of, is_shared, make_root, make_rows
from ..checks import Floats
from ..compiler.jit import inlined, kernel, merged
from ..compiler.memory import room_for
from ..compiler.slots import EMPTY, slot
from ..numerics.linear_algebra import weighted_rows
from ..numerics.random import PERTURBATION, inverse_normal, tie_key, uniforms
from ..problem.layout import Layout
from .bellman import TIED_WITHIN, choose, expectation, expectations
from .bonuses import GLANCE, UPPER_AGAIN, call_first, call_perturb, call_rows, first_matters, least_of, low_and_high
from .maximise import MaximisationWork, Stops, largest_within, maximisation_work
from .shared import bound_shared, first_of, plan_shared
from .ways import begin_ways, expect_ways, take_ways, way_of

TAYLOR, SHARP = 0, 1
BELOW = 2.0 * TIED_WITHIN  # an action whose value is this far below another's is neither chosen nor tied with it


class SearchPar(NamedTuple):
    layout: Layout
    seed: int
    kind: int  # TAYLOR or SHARP
    perturbations: float  # J of `perturb`; 0: bonuses as they are
    ways: int  # 1: what is not known of the steps of a way is added up by `planning.ways`
    maximum: Any  # slot of `largest`, under SHARP
    perturb: Any  # slot of `perturb`, where perturbations > 0
    rows: Any  # slot of `beliefs.local.make_rows`, where weights are shared and `together`, else of `make_root`
    first: Any  # slot of `shared.first_of`, likewise
    optimum: Any  # slot of `plan_optimistically`, or of `shared.plan_shared`
    assess: Any  # slot of `bound_values`, or of `shared.bound_shared`
    close: Any  # slot of `shortfall`, where plans are certified by it


class SearchWork(NamedTuple):
    v: Floats  # [M], next values of one pair, signed
    g: Floats  # [M]
    best: Floats  # [1], a maximum found
    reward: Floats  # [S, A], as planned with
    Q: Floats  # [S, A]
    below: NDArray[np.int64]  # [S, A], 1: Q is but an upper bound, likewise
    kept: Floats  # [H, S, A], Q of optimism with all of the bonus, where `shortfall` will ask for it; else empty
    loose: NDArray[np.int64]  # [H, S, A], 1: that is but an upper bound, below another action's Q (`best_first`)
    rough: NDArray[np.int64]  # [1], 1: the upper values that `assess` made last are those of GLANCE
    ahead: Floats  # [S], at least the optimal values of the next step
    first: Floats  # [S, A], rho sqrt(g' cov g) of all pairs
    known: Floats  # [S, A], at least that, where weights are shared
    factor: Floats  # [S, A], on them
    products: Floats  # [M(M-1)/2], of next values
    squares: Floats  # [2, S A Q], where weights are shared, and the next six
    pairs: NDArray[np.int64]  # [S A], some of them
    rows: NDArray[np.int64]  # [S A Q], theirs
    states: NDArray[np.int64]  # [S], likewise
    leaders: NDArray[np.int64]  # [S], likewise
    ends: Floats  # [2, S A], between which values of actions lie
    both: Floats  # [2, S], first-order terms of upper and lower values
    age: Floats  # [2, S], by how much they may be too large
    padded: Floats  # [2, .], next values, as long as rows
    ways: Floats  # [4, S, A], and the next [3, S], of `planning.ways`
    along: Floats
    cov: Floats  # [M, M], under SHARP
    maximum: MaximisationWork


def search_parts(
    layout: Layout,
    local: LocalSets,
    seed: int,
    kind: int,
    perturbations: float = 0.0,
    horizon: int = 0,
    *,
    bounds: bool = True,
    close: bool = False,
    ways: bool = False,
) -> tuple[SearchPar, SearchWork]:
    """Parameters with compiled passes, and scratch; perturbations > 0: first-order terms are perturbed, each by the
    largest of so many normals.
    horizon: H where plans are certified by `shortfall`; bounds, close: `assess` and `shortfall` are compiled, too;
    ways: `optimum` adds up what is not known by `planning.ways`, where no weights are shared."""
    S, A, M = layout.outcomes.shape
    f, policy, values = np.zeros, np.zeros((1, 1), np.int64), np.zeros((1, 1))
    n, long = local.rows.shape[0] * local.rows.shape[1], local.rows.shape[2]
    work = SearchWork(
        f(M), f(M), f(1), f((S, A)), f((S, A)), np.zeros((S, A), np.int64),
        f((horizon, S, A)),
        np.zeros((horizon, S, A), np.int64), np.zeros(1, np.int64), f(S), f((S, A)), f((S, A)), np.ones((S, A)),
        f(M * (M - 1) // 2),
        f((2, n)), np.zeros(S * A, np.int64), np.zeros(n, np.int64), np.zeros(S, np.int64), np.zeros(S, np.int64),
        f((2, S * A)), f((2, S)), f((2, S)),
        room_for((2, long)), f((4, S, A)), f((3, S)), f((M, M)), maximisation_work(M),
    )  # fmt: skip
    kind = TAYLOR if perturbations > 0.0 else kind
    par = SearchPar(layout, seed, kind, float(perturbations), int(ways), *[EMPTY] * 7)
    if perturbations > 0.0:
        par = par._replace(perturb=call_perturb.fill(perturb, seed, 0.0, 0, 0, work.factor))
    if par.kind == SHARP:
        par = par._replace(maximum=_call_maximum.fill(largest, local, 0, 0, 1, Stops(0.0, 0.0, 0.0), work))
    plans, bound_by = plan_optimistically, bound_values
    if local.columns.shape[2] > 0:  # `is_shared` and `together`, which would be compiled to be asked from here
        whole = par.kind == TAYLOR and layout.dense == 1
        par = par._replace(rows=call_rows.fill(make_rows if whole else make_root, local, 0, 0))
        if whole:
            par = par._replace(first=call_first.fill(first_of, par, local, f(1), 0, work))
            plans, bound_by = plan_shared, bound_shared
    best = _call_optimum.fill(plans, par, local, work, values, 0, 1.0, policy, values)
    own = _call_assess.fill(bound_by, par, local, work, policy, values, values, 0) if bounds else EMPTY
    if close:
        par = par._replace(close=_call_close.fill(shortfall, par, local, work, policy, values, values, values, values))
    return par._replace(optimum=best, assess=own), work


_call_optimum, _call_assess, _call_close = slot("optimum"), slot("assess"), slot("shortfall")
_call_maximum = slot("maximum")


@inlined
def optimum(par, local, work, mean, k, scale, policy, values):
    """policy, values <- optimism over the sets in episode k, with a part `scale` of every bonus; mean [S, A]: estimated
    mean rewards."""
    _call_optimum(par.optimum, (par, local, work, mean, k, scale, policy, values))


@inlined
def assess(par, local, work, policy, upper, lower, how):
    """upper, lower [H+1, S] <- bounds on the values of a policy [H, S]; the upper ones only where there is room.
    how=GLANCE: where that takes less time upper values may lack first-order terms, and under SHARP bonuses all of the
    bonus: those are at most what EXACT makes them. The gate and `shortfall` alone use them. UPPER_AGAIN, after that:
    the upper ones again, as EXACT makes them. Everybody else asks for EXACT."""
    _call_assess(par.assess, (par, local, work, policy, upper, lower, how))


@inlined
def look_closely(par, local, work, policy, top, upper, lower, short):
    """short [H+1, S] <- `shortfall`."""
    _call_close(par.close, (par, local, work, policy, top, upper, lower, short))


@kernel
def largest(local, s, a, n, stops, work):
    """work.best[0] <- `maximise.largest_within` of the values in work.v, over the set of one pair."""
    covariance_of(local, s, a, n, work.cov)
    work.best[0] = largest_within(local.z[s, a], work.v, work.cov, local.rho[s, a], n, stops, work.maximum)


@kernel
def first_orders(par, local, V, work):
    """work.first [S, A] <- rho sqrt(g' cov g) of all pairs, 0 where rho is infinite, from local.slopes or .rows."""
    if is_shared(local):
        for i in range(work.pairs.shape[0]):
            work.pairs[i] = i
        call_first(par.first, (par, local, V, work.pairs.shape[0], work))
        return
    products, first, last, at = work.products, merged(work.first), V.shape[0] - 1, 0
    for j in range(last):
        for k in range(j, last):  # g does not change with a constant, and rounding is that of differences
            products[at] = (V[j] - V[last]) * (V[k] - V[last])
            at += 1
    weighted_rows(products, local.slopes, at, first.shape[0], first)
    for i in range(first.shape[0]):
        first[i] = math.sqrt(max(first[i], 0.0))


@inlined
def first_order(par, local, s, a, n, mean, work):
    """rho sqrt(g' cov g) of one pair for the values in work.v, whose mean is given."""
    p, v, g, rho, form = local.P[s, a], work.v, work.g, local.rho[s, a], 0.0
    whole = is_shared(local) and par.layout.dense == 1 and par.kind == TAYLOR  # as `rows` has been filled
    for j in range(n):
        g[j] = v[j] - mean if whole else p[j] * (v[j] - mean)
    if is_shared(local):
        i = s * local.rho.shape[1] + a
        if local.made[i] == 0:
            call_rows(par.rows, (local, i, n))
        rows = local.rows[i]
        for k in range(rows.shape[0]):
            t = 0.0
            for j in range(n):
                t += rows[k, j] * g[j]
            form += t * t
        rho = 1.0 if whole else rho
    else:
        cov = local.cov[s, a]
        for j in range(n):
            t = 0.0
            for k in range(n):
                t += cov[j, k] * g[k]
            form += g[j] * t
    return rho * math.sqrt(max(form, 0.0))


@kernel
def bonus_within(par, local, s, a, V, sign, stops, work):
    """Bound on sign <P* - P, V> for one pair; sign 1.0: how much larger the mean can be, -1.0: how much smaller. The
    first-order term is multiplied by work.factor. stops: of the maximisation of sign V (`maximise.Stops`), whose limit
    is what is found without it; with a limit of -inf that alone is returned, and the maximisation left out."""
    layout, n, rho = par.layout, par.layout.count[s, a], local.rho[s, a]
    mean, low, high = 0.0, math.inf, -math.inf
    for j in range(n):
        v = sign * V[layout.outcomes[s, a, j]]
        work.v[j] = v
        mean += local.P[s, a, j] * v
        low, high = min(low, v), max(high, v)
    if high <= low:
        return 0.0
    first = work.factor[s, a] * first_order(par, local, s, a, n, mean, work) if rho < math.inf else 0.0
    most = least_of(local, s, a, first, mean, low, high)
    if par.kind == SHARP and rho < math.inf and stops.limit > -math.inf:
        _call_maximum(par.maximum, (local, s, a, n, Stops(mean + most, stops.floor, stops.enough), work))
        most = max(min(most, work.best[0] - mean), 0.0)
    return most


@kernel
def bonus(par, local, s, a, V, sign, work):
    """`bonus_within` that stops nowhere."""
    return bonus_within(par, local, s, a, V, sign, Stops(math.inf, -math.inf, math.inf), work)


@inlined
def together(par, local):
    """Whether all first-order terms are found together."""
    return par.kind == TAYLOR and (local.slopes.shape[0] > 0 or (is_shared(local) and par.layout.dense == 1))


@kernel
def perturb(seed, count, k, h, factor):
    """factor [S, A] <- the largest of J = count standard normals, one number for every (s, a, h): Phi^{-1}(u^{1/J})
    with u uniform has that distribution."""
    S, A = factor.shape
    for s in range(S):
        for a in range(A):
            u, _ = uniforms(seed, k, (h * S + s) * A + a, PERTURBATION)
            factor[s, a] = inverse_normal(max(u, 1e-300) ** (1.0 / count))


@kernel
def best_first(par, local, V, scale, h, H, work):
    """work.Q <- clip(work.reward + P V + scale bonus(V), 0, H - h) of the actions that are best or nearly so, from P V
    in it; of the others an upper bound more than TIED_WITHIN below the best, work.below = 1.

    Actions are taken up in the order of their bounds without a maximisation, until none of those left can be best; a
    maximisation stops where it has shown that its action is not, or that its value will be clipped."""
    Q, reward, below, (S, A) = work.Q, work.reward, work.below, work.Q.shape
    most = float(H - h)
    for s in range(S):
        for a in range(A):
            below[s, a] = 1
            if not par.layout.available[s, a]:
                Q[s, a], below[s, a] = -math.inf, 0
                continue
            work.ends[0, a] = Q[s, a]  # kept for later: Q is about to be a bound
            b = bonus_within(par, local, s, a, V, 1.0, Stops(-math.inf, 0.0, 0.0), work)
            Q[s, a] = min(max(reward[s, a] + Q[s, a] + scale * b, 0.0), most)
        best = -math.inf
        while True:
            a = -1
            for other in range(A):
                if below[s, other] == 1 and Q[s, other] >= best - BELOW and (a < 0 or Q[s, other] > Q[s, a]):
                    a = other
            if a < 0:
                break
            mean = work.ends[0, a]
            start = reward[s, a] + mean
            floor = mean + (best - 1.5 * BELOW - start) / scale if scale > 0.0 else -math.inf
            enough = mean + (most * (1.0 + 1e-12) - start) / scale if scale > 0.0 else math.inf
            b = bonus_within(par, local, s, a, V, 1.0, Stops(math.inf, floor, enough), work)
            Q[s, a] = min(max(start + scale * b, 0.0), most)
            if Q[s, a] >= best - BELOW:
                below[s, a] = 0
                best = max(best, Q[s, a])
            else:
                below[s, a] = 2


@kernel
def plan_optimistically(par, local, work, mean, k, scale, policy, values):
    """`optimum`: for h = H - 1 to 0, Q = clip(reward + P V + scale bonus(V), 0, H - h), and an action with the largest
    Q; `choose` draws among equals. par.ways=1: Q of `planning.ways`, where scale is on both standard deviations."""
    (H, S), layout, Q, reward = policy.shape, par.layout, work.Q, work.reward
    A, key, one_pass = Q.shape[1], tie_key(par.seed, k), together(par, local)
    matters = one_pass and first_matters(par, local, work)
    keeps, sharp = work.kept.shape[0] == H and scale == 1.0, par.kind == SHARP
    for s in range(S):
        values[H, s] = 0.0
        for a in range(A):
            high = local.high[s, a]
            reward[s, a] = high if scale == 1.0 else mean[s, a] + scale * (high - mean[s, a])
    if par.ways == 1:
        begin_ways(layout, local, work)
    for h in range(H - 1, -1, -1):
        V = values[h + 1]
        low, high = low_and_high(V)
        if par.ways == 1:
            expect_ways(layout, local, work)
        if par.perturbations > 0.0:
            call_perturb(par.perturb, (par.seed, par.perturbations, k, h, work.factor))
        expectations(local.P, layout, V, Q)
        if matters:
            first_orders(par, local, V, work)
        if sharp:
            best_first(par, local, V, scale, h, H, work)
        for s in range(0 if sharp else S):
            for a in range(A):
                if one_pass:
                    b = least_of(local, s, a, work.factor[s, a] * work.first[s, a], Q[s, a], low, high)
                else:
                    b = bonus(par, local, s, a, V, 1.0, work) if layout.available[s, a] else 0.0
                if par.ways == 1:
                    most = way_of(work, s, a, mean[s, a], local.high[s, a] - mean[s, a], b, scale)
                else:
                    most = reward[s, a] + Q[s, a] + scale * b
                Q[s, a] = min(max(most, 0.0), float(H - h))
        if keeps:
            for s in range(S):
                for a in range(A):
                    work.kept[h, s, a] = Q[s, a]
                    work.loose[h, s, a] = work.below[s, a]
        choose(Q, layout, key, h, policy, values)
        if par.ways == 1:
            take_ways(policy[h], work)


@inlined
def bound(par, local, work, policy, sign, centre, reward, out):
    """out [H+1, S] <- upper bounds, sign 1.0, or lower ones, -1.0, on the values of a policy [H, S]; centre: without
    any bonus."""
    (H, S), one_pass = policy.shape, together(par, local)
    matters = one_pass and first_matters(par, local, work)
    out[H] = 0.0
    for h in range(H - 1, -1, -1):
        V = out[h + 1]
        low, high = low_and_high(V)
        if sign < 0.0:
            low, high = -high, -low
        if matters:
            first_orders(par, local, V, work)
        for s in range(S):
            a = policy[h, s]
            mean = expectation(local.P, par.layout, s, a, V)
            if centre:
                b = 0.0
            elif one_pass:
                b = least_of(local, s, a, work.first[s, a], sign * mean, low, high)
            else:  # what is clipped need not be known
                enough = float(H - h) - reward[s, a] if sign > 0.0 else reward[s, a]
                stops = Stops(math.inf, -math.inf, enough + 1e-12 * float(H - h))
                b = bonus_within(par, local, s, a, V, sign, stops, work)
            out[h, s] = min(max(reward[s, a] + mean + sign * b, 0.0), float(H - h))


@kernel
def bound_values(par, local, work, policy, upper, lower, how):
    """`assess`. One loop, so that `bound` is pasted once. Without SHARP bonuses GLANCE is no faster."""
    glance = how == GLANCE and par.kind == SHARP
    if upper.shape[0] > 0:
        work.rough[0] = 1 if glance else 0
    for way in range(0 if upper.shape[0] > 0 else 1, 1 if how == UPPER_AGAIN else 2):
        reward, out, sign = (local.high, upper, 1.0) if way == 0 else (local.low, lower, -1.0)
        bound(par, local, work, policy, sign, glance and way == 0, reward, out)


@inlined
def highest_mean(par, local, s, a, V, work):
    """The largest mean of V [S] over the next states of a pair that its set allows."""
    return expectation(local.P, par.layout, s, a, V) + bonus(par, local, s, a, V, 1.0, work)


@inlined
def within(par, local, s, a, V, reward, stops, work):
    """reward + the largest mean of V, as `highest_mean` has it, for stops of the sum."""
    mean = expectation(local.P, par.layout, s, a, V)
    of_mean = Stops(math.inf, stops.floor - reward, stops.enough - reward)
    return reward + mean + bonus_within(par, local, s, a, V, 1.0, of_mean, work)


@kernel
def exactly(par, local, work, h, s, a, V):
    """Q~ of one pair at step h: work.kept, made now if that is but a bound. V = V~ of step h + 1."""
    if work.loose[h, s, a] != 0:
        value = local.high[s, a] + highest_mean(par, local, s, a, V, work)
        work.kept[h, s, a] = min(max(value, 0.0), float(work.kept.shape[0] - h))
        work.loose[h, s, a] = 0
    return work.kept[h, s, a]


@kernel
def shortfall(par, local, work, policy, top, upper, lower, short):
    """short [H+1, S] <- an upper bound on V* - V^pi, how far a policy is below the optimum; top [H+1, S] and work.kept
    from `optimum` with all of the bonus, upper and lower from `assess`. With P+ the largest mean that a set allows and
    V~, U and C of the next step,

        C_h(s) = max( P+_pi C,  max over a != pi of min( Q~_h(s, a), high_a + P+_a min(V~, U + C) ) - L_h(s) )

    within [0, V~_h - L_h]. If an optimal action is pi's, the loss is that of the next step; else V* = r_a + P_a V*, and
    V* is at most V~ and at most U + C. One maximisation per pair and step, and only where an action may be better than
    pi's by more than is conceded already. docs/beyond.md, section 7.

    Under SHARP bonuses Q~ may be but an upper bound (`best_first`), and U but a lower bound on the upper values
    (`assess`, GLANCE). Where that bound is at least V~ - C, so is U, and V~ is the smaller of the two; else U is made.
    Actions are taken up in the order of bounds on their terms, until none left can be the largest, or C is V~ - L."""
    (H, S), A, ahead, most = policy.shape, local.high.shape[1], work.ahead, work.ends[0]
    short[H] = 0.0
    for h in range(H - 1, -1, -1):
        C, smaller = short[h + 1], False
        for turn in range(2):
            for s in range(S):
                ahead[s] = min(top[h + 1, s], upper[h + 1, s] + C[s])
                smaller = smaller or ahead[s] < top[h + 1, s]
            if turn == 1 or not smaller or work.rough[0] == 0:
                break
            assess(par, local, work, policy, upper, lower, UPPER_AGAIN)
            smaller = False
        for s in range(S):
            gap, least, own = max(top[h, s] - lower[h, s], 0.0), 0.0, policy[h, s]
            mean = expectation(local.P, par.layout, s, own, C)
            for a in range(A):
                most[a] = work.kept[h, s, a] - lower[h, s] if par.layout.available[s, a] else -math.inf
            most[own] = mean + bonus_within(par, local, s, own, C, 1.0, Stops(-math.inf, 0.0, 0.0), work)
            while least < gap:
                a = 0
                for other in range(1, A):
                    a = other if most[other] > most[a] else a
                if most[a] <= least:
                    break
                if a == own:
                    loss = mean + bonus_within(par, local, s, a, C, 1.0, Stops(math.inf, least, gap), work)
                    loss = min(max(loss, 0.0), float(H - h))
                else:
                    loss = most[a]
                    high, stops = local.high[s, a], Stops(math.inf, lower[h, s] + least, lower[h, s] + gap)
                    if work.loose[h, s, a] != 0:
                        loss = min(loss, within(par, local, s, a, top[h + 1], high, stops, work) - lower[h, s])
                    if smaller and loss > least:
                        loss = min(loss, within(par, local, s, a, ahead, high, stops, work) - lower[h, s])
                least, most[a] = max(least, loss), -math.inf
            short[h, s] = min(least, gap)
