"""What confidence sets say about one individual: for every pair an ellipsoid of logits, and a range of mean rewards.

Where an estimator knows the weights of a pair up to an ellipsoid, the linear predictors of one individual lie in

    { z + v :  v = rho cov^{1/2} u, ||u||_2 <= 1,  max v - min v <= span }

(logits, up to a common shift). `LocalSets` holds that for all pairs at once; estimators fill it in for a context
(`estimators.likelihood_ratio`, `estimators.mixture`, `estimators.sign_union`), and `optimism` plans with it. Everything
the planner needs from an estimator is here, so any set can go with any planner.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._checks import Floats
from ._eight import either, exps, least, load, most, root, same, store, turn
from ._jit import formula, inlined, kernel, merged
from ._memory import room_for
from ._tiles import WIDTH, padded
from .beliefs import prior_caps, tabulate
from .links import exp
from .problem import Layout

FAR = 100.0  # a span from which on psi is beyond measure, while the other factor of `second` may underflow


class LocalSets(NamedTuple):
    z: Floats  # [S, A, M], centre; padding 0
    P: Floats  # [S, A, M], softmax(z), or the estimated distribution under a link without logits; padding 0
    cov: Floats  # [S, A, M, M], symmetric; matters on differences only; zeros under a link without logits
    rho: Floats  # [S, A]
    span: Floats  # [S, A], bound on max v - min v
    second: Floats  # [S, A], bound on the second-order error of <softmax(z + v), V> over span(V)
    half: Floats  # [S, A], bound on |<P* - P, V>| over span(V): half the 1-norm width
    low: Floats  # [S, A], of the mean reward
    high: Floats  # [S, A]
    slopes: Floats  # [`slope_rows(M)`, N], flat, N padded: see `derive`; empty where next states differ between pairs
    packed: Floats  # [N, J], flat, J = `packed_row(M)`: cov relative to the last outcome, rows from their diagonal on
    from_packed: NDArray[np.int64]  # [1], 1: that is what is known, not cov (`unpack`)
    lanes: Floats  # [3/2 M M + 8 M + 28, 8], flat, scratch


def local_sets(layout: Layout) -> LocalSets:
    """Room for the sets of every pair."""
    S, A, M = layout.outcomes.shape
    f = room_for
    six = f((S, A)), f((S, A)), f((S, A)), f((S, A)), f((S, A)), f((S, A))
    slopes = f(slope_rows(M) * padded(S * A) if layout.dense == 1 else 0)
    packed, lanes = f(padded(S * A) * packed_row(M)), f((M * M + 8 * M + M * M // 2 + 28) * WIDTH)
    return LocalSets(f((S, A, M)), f((S, A, M)), f((S, A, M, M)), *six, slopes, packed, f(1, np.int64), lanes)


@formula
def packed_row(M: int) -> int:
    """Numbers of a row of `LocalSets.packed`."""
    return (M * (M - 1) // 2 + 7) // 8 * 8 + 8


@formula
def slope_rows(M: int) -> int:
    """Rows of `LocalSets.slopes`."""
    return M * (M - 1) // 2 + M + 3


@kernel
def unpack(local, layout):
    """local.cov, unless it is there."""
    if local.from_packed[0] == 0:
        return
    local.from_packed[0] = 0
    S, A, M = local.P.shape
    for s in range(S):
        for a in range(A):
            at, cov = (s * A + a) * packed_row(M), local.cov[s, a]
            for j in range(M):
                for k in range(j, M):
                    inside = k < layout.count[s, a] - 1
                    cov[j, k] = cov[k, j] = local.packed[at] if inside else 0.0
                    at += 1 if inside else 0


@inlined
def log_softmax(z, n, logp, p):
    """logp, p [n] <- ln softmax(z) and softmax(z) over the first n entries; the rest of p <- 0."""
    top, total = z[0], 0.0
    for j in range(1, n):
        top = max(top, z[j])
    for j in range(n):
        p[j] = exp(z[j] - top)
        total += p[j]
    scale, shift = 1.0 / total, top + math.log(total)
    for j in range(n):
        p[j] *= scale
        logp[j] = z[j] - shift
    for j in range(n, p.shape[0]):
        p[j] = 0.0


@inlined
def softmax(z, n, p):
    """p <- softmax(z) over the first n entries; the rest of p <- 0."""
    top, total = z[0], 0.0
    for j in range(1, n):
        top = max(top, z[j])
    for j in range(p.shape[0]):
        p[j] = exp(z[j] - top) if j < n else 0.0
        total += p[j]
    scale = 1.0 / total
    for j in range(n):
        p[j] *= scale


@inlined
def largest_span(cov, rho, z, bound, n):
    """Bound on max v - min v for logits z + v: of every ordered pair of outcomes the ellipsoid allows

        v_j - v_k <= rho sqrt(cov_jj + cov_kk - 2 cov_jk)

    and the weights' bound, M = B_p ||x|| in coordinates where the last outcome is the reference, allows

        v_j - v_k <= (2 M, or M if one of the two is the last) - (z_j - z_k).

    Of the two orders of a pair the one with the larger bound counts; squares are compared, and one root is taken."""
    rho2, largest, last = min(rho * rho, 1e300), 0.0, n - 1
    for j in range(n):
        own, centre = cov[j, j], z[j]
        for k in range(j + 1, last):
            reach = 2.0 * bound + abs(centre - z[k])
            largest = max(largest, min(rho2 * (own + cov[k, k] - 2.0 * cov[j, k]), reach * reach))
        if j < last:
            reach = bound + abs(centre - z[last])
            largest = max(largest, min(rho2 * (own + cov[last, last] - 2.0 * cov[j, last]), reach * reach))
    return math.sqrt(largest)


@inlined
def series(r):
    """`theory.widths.upper_curvature` below 1/2."""
    total = same(1.0)
    for k in range(14, 0, -1):
        total = total * r * (1.0 / (k + 2.0)) + 1.0
    return total * 0.5


@kernel
def derive(local, layout, bound, table, smallest, spans=0):
    """local.P, local.second, local.half and local.slopes from z, cov, rho and span; bound = B_p ||x||; table [4, M+1]
    and smallest [M] are scratch. spans=1: local.span too, by `largest_span`.

        P      = softmax(z)
        second = min(rho^2 lambda, span^2/4) psi(span),   lambda >= lambda_max(cov^{1/2} (diag P - PP') cov^{1/2})
        half   = min(tanh(span/4), half of `theory.widths.logit_prior_cap`)
        slopes[(j, k), pair], j <= k < M - 1:   rho^2 g' cov g = sum of them times V_j V_k,   g = P * (V - <P, V>),
                                                for V whose last entry is 0, which a constant makes it

    and behind them, for all pairs side by side, P, second, half, and 0, or inf where rho is infinite.

    psi = `theory.widths.upper_curvature`. lambda is (tr B^4)^{1/4}, B_jk = sqrt(P_j P_k) N_jk with
    N_jk = cov_jk - (cov P)_j - (cov P)_k + P'cov P, which has the eigenvalues of (diag P - PP') cov, none of them
    negative: at most the fourth root of M - 1 too large. The form above has the matrix sqrt(P_j P_k) B_jk. Eight pairs
    are worked on side by side."""
    S, A, M = local.P.shape
    N, count, P, rho = S * A, merged(layout.count), merged(local.P), merged(local.rho)
    span, second, half = merged(local.span), merged(local.second), merged(local.half)
    lanes, p = local.lanes, (M + 2) * M * 8
    q, r, logits, rooms, factor = p + M * 8, p + 2 * M * 8, p + 3 * M * 8, p + 4 * M * 8, p + 5 * M * 8
    never, wide, rho2s = factor + 8, factor + 16, factor + 24
    alike = 1
    for i in range(N):
        alike = alike if count[i] == M else 0
    if alike == 1 and M > 1:
        tabulate(M - 1, exp(bound), table)
    for first in range(0, N, 8):
        here = min(8, N - first)
        for i in range(here):
            rho2 = rho[first + i] * rho[first + i]
            lanes[factor + i] = rho2 if rho2 < math.inf else 0.0
            lanes[never + i] = 0.0 if rho2 < math.inf else math.inf
            lanes[wide + i], lanes[rho2s + i] = span[first + i], min(rho2, 1e300)
        side = int(alike == 1 and here == 8 and local.from_packed[0] == 1)
        if side == 1:
            side_by_side(local, first, p, logits, rho2s + 8)
        else:
            one_by_one(local, layout, first, here, bound, p, logits, rooms)
        if spans == 1:
            if side == 1:
                reach = largest_reach(lanes, M - 1, 0, 8, M * 8, logits, bound, load(lanes, rho2s))
                store(lanes, wide, root(reach))
            else:
                widest(lanes, M, logits, rooms, rho2s, wide)
            for i in range(here):
                span[first + i] = lanes[wide + i]
        centre = same(0.0)
        for j in range(M):
            total, own = same(0.0), load(lanes, p + j * 8)
            for k in range(j):
                total = total + load(lanes, (j * M + k) * 8) * load(lanes, p + k * 8)
            for k in range(j, M):
                total = total + load(lanes, (k * M + j) * 8) * load(lanes, p + k * 8)
            store(lanes, q + j * 8, total)
            store(lanes, r + j * 8, root(own))
            centre = centre + total * own
        for j in range(M):
            shift, scale = load(lanes, q + j * 8) - centre, load(lanes, r + j * 8)
            for k in range(j + 1):
                v = load(lanes, (j * M + k) * 8) - shift - load(lanes, q + k * 8)
                v = v * (scale * load(lanes, r + k * 8))
                store(lanes, (j * M + k) * 8, v)
                store(lanes, (k * M + j) * 8, v)
        trace = fourth_powers(lanes, M)
        if local.slopes.shape[0] > 0:
            slopes(local, M, first, r, factor, never, p)
        size = load(lanes, wide)
        largest = load(lanes, factor) * root(root(trace)) * (1.0 + 1e-12)
        largest = either(size, same(FAR), largest, same(math.inf)) + load(lanes, never)
        largest = least(largest, size * size * 0.25)
        t = size * 0.5
        grown, safe = exps(t), most(size, same(0.5))
        psi = either(size, same(0.5), series(size), (grown * grown - 1.0 - safe) / (safe * safe))
        psi = either(size, same(700.0), psi, same(math.inf))
        less = either(t, same(0.5), t + t * t * series(t), grown - 1.0)
        store(lanes, factor, either(same(0.0), largest, largest * psi, same(0.0)))
        width = less / (less + 2.0) * 2.0
        if alike == 1 and M > 1:
            width = least(width, eight_caps(lanes, M, p, table, rho2s + 8) * 2.0)
        store(lanes, never, width)
        for i in range(here):
            second[first + i], half[first + i] = lanes[factor + i], lanes[never + i]
    if alike == 0 or M == 1:
        prior_caps(P, count, exp(bound), table, smallest, half)
    for i in range(N):
        half[i] *= 0.5
    behind_slopes(local, 0)


@inlined
def fourth_powers(lanes, M):
    """tr B^4 of eight symmetric matrices: the squares of the entries of B^2, two rows and four columns at a time. Rows
    behind the last are read, and count nothing."""
    trace, r = same(0.0), M * 8
    for j in range(0, M, 2):
        for k in range(0, j + 2, 4):
            a, b, c, d = same(0.0), same(0.0), same(0.0), same(0.0)
            e, f, g, h = same(0.0), same(0.0), same(0.0), same(0.0)
            for i in range(0, r, 8):
                one, two, at = load(lanes, j * r + i), load(lanes, j * r + r + i), k * r + i
                v = load(lanes, at)
                a, e = a + one * v, e + two * v
                v = load(lanes, at + r)
                b, f = b + one * v, f + two * v
                v = load(lanes, at + 2 * r)
                c, g = c + one * v, g + two * v
                v = load(lanes, at + 3 * r)
                d, h = d + one * v, h + two * v
            trace = trace + a * a * times_met(k, j, M) + b * b * times_met(k + 1, j, M)
            trace = trace + c * c * times_met(k + 2, j, M) + d * d * times_met(k + 3, j, M)
            trace = trace + e * e * times_met(k, j + 1, M) + f * f * times_met(k + 1, j + 1, M)
            trace = trace + g * g * times_met(k + 2, j + 1, M) + h * h * times_met(k + 3, j + 1, M)
    return trace


@inlined
def times_met(k, j, M):
    """How often a sum over a symmetric matrix meets entry (j, k), where it goes over k <= j."""
    return 0.0 if k > j or j >= M else 1.0 if k == j else 2.0


@inlined
def eight_caps(lanes, M, p, table, scratch):
    """Half of `theory.widths.logit_prior_cap` of eight pairs with M outcomes, as `beliefs.prior_caps`; table is that of
    `beliefs.tabulate`."""
    without, within, mass, m = same(0.0), same(table[1, 0]), same(0.0), M - 1
    for j in range(m):  # each entry sinks to its place
        v = load(lanes, p + j * 8)
        for k in range(scratch, scratch + j * 8, 8):
            u = load(lanes, k)
            store(lanes, k, least(u, v))
            v = most(u, v)
        store(lanes, scratch + j * 8, v)
    for k in range(m):
        mass = mass + load(lanes, scratch + k * 8)
        without = most(without, same(table[0, k + 1]) - mass)
        within = most(within, same(table[1, k + 1]) - mass)
    return most(without, within - load(lanes, p + m * 8))


@kernel
def side_by_side(local, first, p, logits, scratch):
    """local.P, and lanes of eight pairs with M outcomes each: P, z, and cov, rows up to the diagonal."""
    M, lanes, J, flat = local.P.shape[2], local.lanes, packed_row(local.P.shape[2]), merged(merged(local.P))
    m, at = M - 1, scratch
    for j in range(0, M, 8):
        turn(merged(merged(local.z)), first * M + j, M, lanes, scratch)
        for k in range(0, 8 * min(8, M - j), 8):
            store(lanes, logits + j * 8 + k, load(lanes, scratch + k))
    top, mass = load(lanes, logits), same(0.0)
    for j in range(8, M * 8, 8):
        top = most(top, load(lanes, logits + j))
    for j in range(0, M * 8, 8):
        e = exps(load(lanes, logits + j) - top)
        store(lanes, p + j, e)
        mass = mass + e
    scale = 1.0 / mass
    for j in range(0, M * 8, 8):
        store(lanes, p + j, load(lanes, p + j) * scale)
    for j in range(0, M, 8):
        turn(lanes, p + j * 8, 8, lanes, scratch + j * 8)
    for i in range(8):
        j, row, here = 0, (first + i) * M, scratch + i * 8
        while j + 8 <= M:
            store(flat, row + j, load(lanes, here + j * 8))
            j += 8
        for k in range(M - j):
            flat[row + j + k] = lanes[here + j * 8 + k]
    for j in range(0, m * M // 2, 8):
        turn(local.packed, first * J + j, J, lanes, scratch + j * 8)
    for j in range(m):
        store(lanes, (m * M + j) * 8, same(0.0))
        for k in range(j, m):
            store(lanes, (k * M + j) * 8, load(lanes, at))
            at += 8
    store(lanes, (m * M + m) * 8, same(0.0))


@kernel
def one_by_one(local, layout, first, here, bound, p, logits, rooms):
    """The same for fewer pairs, or where numbers of outcomes differ, or cov is known; and what bounds z."""
    M, lanes, count, P, z = local.P.shape[2], local.lanes, merged(layout.count), merged(local.P), merged(local.z)
    cov, packed, row = merged(local.cov), local.packed, packed_row(local.P.shape[2])
    for i in range(here):
        n, at = count[first + i], (first + i) * row
        softmax(z[first + i], n, P[first + i])
        for j in range(M):
            lanes[rooms + j * 8 + i] = bound if j < n - 1 else 0.0 if j == n - 1 else -1e300
            lanes[p + j * 8 + i] = P[first + i, j]
            lanes[logits + j * 8 + i] = z[first + i, j]
            if local.from_packed[0] == 0:
                for k in range(j + 1):
                    lanes[(j * M + k) * 8 + i] = cov[first + i, j, k] if j < n else 0.0
            else:
                for k in range(j, M):
                    lanes[(k * M + j) * 8 + i] = packed[at] if k < n - 1 else 0.0
                    at += 1 if k < n - 1 else 0


@kernel
def behind_slopes(local, all_of_it):
    """What lies behind the slopes, second and half; all_of_it=1: also P, and infinite rho, under a link without
    logits."""
    S, A, M = local.P.shape
    if local.slopes.shape[0] == 0:
        return
    step, at, P = local.slopes.shape[0] // slope_rows(M), M * (M - 1) // 2, merged(local.P)
    second, half = merged(local.second), merged(local.half)
    for i in range(S * A):
        here = (at + M) * step + i
        local.slopes[here], local.slopes[here + step] = second[i], half[i]
        if all_of_it == 1:
            local.slopes[here + 2 * step] = math.inf
            for j in range(M):
                local.slopes[(at + j) * step + i] = P[i, j]


@inlined
def largest_reach(lanes, m, cov, down, across, logits, bound, rho2):
    """The square of `largest_span` of eight pairs with m + 1 outcomes each: entry (j, k), j <= k < m, of cov, which is
    relative to the last outcome, at cov + j down + k across."""
    last, largest = load(lanes, logits + m * 8), same(0.0)
    for j in range(m):
        own, centre = load(lanes, cov + j * (down + across)), load(lanes, logits + j * 8)
        gap = centre - last
        reach = most(gap, gap * -1.0) + bound
        largest = most(largest, least(own * rho2, reach * reach))
        for k in range(j + 1, m):
            gap = load(lanes, logits + k * 8) - centre
            reach = most(gap, gap * -1.0) + 2.0 * bound
            both = own + load(lanes, cov + k * (down + across)) - load(lanes, cov + j * down + k * across) * 2.0
            largest = most(largest, least(both * rho2, reach * reach))
    return largest


@inlined
def widest(lanes, M, logits, rooms, rho2s, out):
    """lanes[out] <- `largest_span` of eight pairs; rooms: B_p ||x||, 0 for the last outcome, -1e300 for none."""
    rho2, largest = load(lanes, rho2s), same(0.0)
    for j in range(1, M):
        own, centre, room = load(lanes, (j * M + j) * 8), load(lanes, logits + j * 8), load(lanes, rooms + j * 8)
        for k in range(j):
            gap = load(lanes, logits + k * 8) - centre
            reach = most(gap, gap * -1.0) + room + load(lanes, rooms + k * 8)
            far = (own + load(lanes, (k * M + k) * 8) - load(lanes, (j * M + k) * 8) * 2.0) * rho2
            largest = most(largest, least(far, reach * most(reach, same(0.0))))
    store(lanes, out, root(largest))


@inlined
def slopes(local, M, first, r, factor, never, p):
    """local.slopes of the pairs at hand, as far as they are known."""
    lanes, out = local.lanes, local.slopes
    step = out.shape[0] // slope_rows(M)
    at = first
    for j in range(M - 1):
        own = load(lanes, r + j * 8) * load(lanes, factor)
        for k in range(j, M - 1):
            v = load(lanes, (j * M + k) * 8) * own * load(lanes, r + k * 8)
            store(out, at, v * (1.0 if j == k else 2.0))
            at += step
    for j in range(M):
        store(out, at, load(lanes, p + j * 8))
        at += step
    store(out, at + 2 * step, load(lanes, never))
