"""What confidence sets say about one individual: for every pair an ellipsoid of logits, and a range of mean rewards.

Where an estimator knows the weights of a pair up to an ellipsoid, the linear predictors of one individual lie in

    { z + v :  v = rho cov^{1/2} u, ||u||_2 <= 1,  max v - min v <= span }

(logits, up to a common shift). `LocalSets` holds that for all pairs at once; estimators fill it in for a context
(`estimators.likelihood.sets`, `estimators.mixture.sets`, `estimators.linear.sign_union`), and `optimism` plans with
it. Everything the planner needs from an estimator is here, so any set can go with any planner. Agents that explore put
one standard deviation of a posterior here first, with rho = 1 (`agents.local.explore`).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from ..compiler.jit import inlined, kernel, merged
from ..compiler.memory import room_for
from ..numerics.linear_algebra import times, triangle_times
from ..problem.design import Blocks
from ..problem.layout import Layout, used_slots
from ..problem.links import exp
from ..theory.widths import upper_curvature
from .point import prior_caps

WHOLE = 8  # numbers in a line of the cache
MORE = 1e100  # than any span of values
FAR = 100.0  # a span from which on psi is beyond measure, while the other factor of `second` may underflow


class LocalSets(NamedTuple):
    z: Floats  # [S, A, M], centre; padding 0
    P: Floats  # [S, A, M], softmax(z), or the estimated distribution under a link without logits; padding 0
    cov: Floats  # [S, A, M, M], symmetric; matters on differences only; zeros without logits; empty: by `columns`
    rho: Floats  # [S, A]
    span: Floats  # [S, A], bound on max v - min v
    second: Floats  # [S, A], bound on the second-order error of <softmax(z + v), V> over span(V)
    half: Floats  # [S, A], bound on |<P* - P, V>| over span(V): half the 1-norm width
    low: Floats  # [S, A], of the mean reward
    high: Floats  # [S, A]
    slopes: Floats  # [M(M-1)/2, S A], first-order terms as forms in V, see `derive`; empty where supports differ
    columns: Floats  # [S, A, Q, M], where weights are shared: cov = root'root, root = L'columns; else empty
    far: Floats  # [S, A], the length of the longest of a pair's columns
    block: NDArray[np.int64]  # [S, A]
    factor: Floats  # [B, Q, Q], L of every block, a lower triangle
    reach: Floats  # [S, A], a first-order term is at most this times sqrt((max V - PV)(PV - min V))
    rows: Floats  # [S A, Q, .], first-order terms as squares of products with V (`make_rows`); whole lines of the cache
    made: NDArray[np.int64]  # [S A], 1: the rows of a pair are there
    root: Floats  # [Q, M], of one pair, scratch


class LocalWork(NamedTuple):
    """Scratch of `derive`."""

    mean: Floats  # [M], cov P; [Q]
    root: Floats  # [M], of P
    B: Floats  # [M, M]; [Q, Q]
    table: Floats  # [4, M+1], of `prior_caps`
    smallest: Floats  # [M], likewise


class Lift(NamedTuple):
    """What local sets know of a design."""

    columns: Floats  # [S, A, Q, M], features of next states less their mean over those of the pair, 0 beyond
    block: NDArray[np.int64]  # [S, A]
    blocks: int


def lift_of(blocks: Blocks, layout: Layout) -> Lift:
    used = used_slots(layout)[..., None]
    middle = (blocks.features * used).sum(2, keepdims=True) / np.maximum(layout.count, 1)[..., None, None]
    columns = room_for(blocks.features.shape[:2] + blocks.features.shape[:1:-1])
    columns[...] = np.swapaxes(np.where(used, blocks.features - middle, 0.0), 2, 3)
    return Lift(columns, blocks.block, blocks.size.size)


def local_sets(layout: Layout, lift: Lift | None = None) -> LocalSets:
    """Room for the sets of every pair; lift: where weights are shared."""
    S, A, M = layout.outcomes.shape
    f, i, dense = room_for, np.int64, layout.dense == 1
    six = f((S, A)), f((S, A)), f((S, A)), f((S, A)), f((S, A)), f((S, A))
    if lift is None:
        slopes = f((M * (M - 1) // 2, S * A) if dense else (0, 0))
        none = f((0, 0, 0, 0)), f((0, 0)), f((0, 0), i), f((0, 0, 0)), f((0, 0)), f((0, 0, 0)), f(0, i), f((0, 0))
        return LocalSets(f((S, A, M)), f((S, A, M)), f((S, A, M, M)), *six, slopes, *none)
    Q = lift.columns.shape[2]
    far = np.sqrt((lift.columns**2).sum(2).max(2))
    rows = f((S * A, Q, -(-M // WHOLE) * WHOLE if M > WHOLE else M))
    return LocalSets(
        f((S, A, M)), f((S, A, M)), f((S, A, 0, 0)), *six, f((0, 0)), lift.columns, far, lift.block,
        f((lift.blocks, Q, Q)), f((S, A)), rows, f(S * A, i), f((Q, M)),
    )  # fmt: skip


def local_work(M: int, rank: int = 0) -> LocalWork:
    """rank: Q, where weights are shared."""
    f, n = np.zeros, max(M, rank)
    return LocalWork(f(n), f(n), f((n, n)), f((4, M + 1)), f(M))


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
def softmax_of_all(z, count, p):
    """The same for all rows [n, M], with one loop over all exponentials: rows are short. Padding of p is 0 before."""
    flat = merged(p)
    for i in range(p.shape[0]):
        top = z[i, 0]
        for j in range(1, count[i]):
            top = max(top, z[i, j])
        for j in range(count[i]):
            p[i, j] = z[i, j] - top
    for e in range(flat.shape[0]):
        flat[e] = exp(flat[e])
    for i in range(p.shape[0]):
        total = 0.0
        for j in range(p.shape[1]):
            p[i, j] = p[i, j] if j < count[i] else 0.0
            total += p[i, j]
        scale = 1.0 / total
        for j in range(count[i]):
            p[i, j] *= scale


@kernel
def largest_span(cov, rho, z, bound, n):
    """Bound on max v - min v for logits z + v: of every ordered pair of outcomes the ellipsoid allows

        v_j - v_k <= rho sqrt(cov_jj + cov_kk - 2 cov_jk)

    and the weights' bound, M = B_p ||x|| in coordinates where the last outcome is the reference, allows

        v_j - v_k <= (2 M, or M if one of the two is the last) - (z_j - z_k).

    Of the two orders of a pair the one with the larger bound counts; squares are compared, and one root is taken."""
    rho2, largest, last = min(rho * rho, 1e300), 0.0, n - 1
    for j in range(last):
        own, centre = cov[j, j], z[j]
        for k in range(j + 1, last):
            reach = 2.0 * bound + abs(centre - z[k])
            largest = max(largest, min(rho2 * (own + cov[k, k] - 2.0 * cov[j, k]), reach * reach))
        reach = bound + abs(centre - z[last])
        largest = max(largest, min(rho2 * (own + cov[last, last] - 2.0 * cov[j, last]), reach * reach))
    return math.sqrt(largest)


@inlined
def is_shared(local):
    """Whether covariances are kept by `columns`."""
    return local.columns.shape[2] > 0


@kernel
def root_at(local, i, n, root):
    """The first n columns of root [Q, M] <- L'columns of pair i, which has n possible next states: products of its own
    columns are the covariances. Its other columns are left alone: P is 0 there."""
    columns = merged(local.columns)[i]
    triangle_times(local.factor[merged(local.block)[i]], columns, columns.shape[0], n, root)


@kernel
def covariance_of(local, s, a, n, out):
    """out [n, n] <- cov of one pair, however it is kept."""
    if is_shared(local):
        root = local.root
        root_at(local, s * local.rho.shape[1] + a, n, root)
        for j in range(n):
            for k in range(j + 1):
                total = 0.0
                for i in range(root.shape[0]):
                    total += root[i, j] * root[i, k]
                out[j, k] = out[k, j] = total
    else:
        for j in range(n):
            for k in range(n):
                out[j, k] = local.cov[s, a, j, k]


@kernel
def mean_eigenvalue(p, cov, n):
    """The mean of the n - 1 eigenvalues of (diag p - pp') cov [n, n] that need not be 0: at most the largest."""
    trace = 0.0
    for j in range(n):
        total = 0.0
        for k in range(n):
            total += cov[j, k] * p[k]
        trace += p[j] * (cov[j, j] - total)
    return trace / max(n - 1, 1)


@kernel
def scaled_curvature(p, cov, n, work):
    """work.B [n, n] <- sqrt(p_j p_k) (cov_jk - (cov p)_j - (cov p)_k + p'cov p), which has the eigenvalues of
    (diag p - pp') cov, none of them negative; work.root <- sqrt(p). Returns the squares of the diagonal of B^2, added
    up: at most tr B^4."""
    mean, root, B, centre, least = work.mean, work.root, work.B, 0.0, 0.0
    for j in range(n):
        total = 0.0
        for k in range(n):
            total += cov[j, k] * p[k]
        mean[j], root[j] = total, math.sqrt(p[j])
        centre += p[j] * total
    for j in range(n):
        shift, scale, square = mean[j] - centre, root[j], 0.0
        for k in range(n):
            B[j, k] = scale * root[k] * (cov[j, k] - shift - mean[k])
            square += B[j, k] * B[j, k]
        least += square * square
    return least


@kernel
def largest_eigenvalue(B, n, diagonal):
    """(tr B^4)^{1/4}: at least the largest eigenvalue of a symmetric B [n, n] without negative ones, and at most the
    fourth root of their number too large. diagonal: what the diagonal of B^2 adds to tr B^4."""
    trace = 0.0
    for j in range(n):
        for k in range(j):
            square = 0.0
            for i in range(n):
                square += B[j, i] * B[k, i]
            trace += square * square
    return math.sqrt(math.sqrt(diagonal + 2.0 * trace))


@inlined
def slopes_of(slopes, i, rho2, work):
    """slopes[:, i], where there are any, after `scaled_curvature`; see `derive`."""
    if slopes.shape[0] > 0:
        at, root, last = 0, work.root, work.smallest.shape[0] - 1
        for j in range(last):
            own = rho2 * root[j]
            for k in range(j, last):
                slopes[at, i] = (1.0 if j == k else 2.0) * own * root[k] * work.B[j, k]
                at += 1


@kernel
def derive(local, layout, bound, work, spans, exact):
    """local.P, local.second, local.half and local.slopes from z, cov, rho and span; bound = B_p ||x||. spans=1:
    local.span too, by `largest_span`.

        P      = softmax(z)
        half   = min(tanh(span/4), cap/2),   cap = max ||softmax(y) - P||_1 over all y with y_n = 0, |y_j| <= bound
                                             (`theory.widths.logit_prior_cap`)
        second = min(rho^2 lambda, span^2/4) psi(span),   lambda >= lambda_max(cov^{1/2} (diag P - PP') cov^{1/2})
        slopes[(j, k), pair], j <= k < M - 1:   rho^2 g' cov g = sum of them times V_j V_k,   g = P * (V - <P, V>),
                                                for V whose last entry is 0; 0 where rho = inf

    psi(r) = (e^r - r - 1)/r^2 (`theory.widths.upper_curvature`), lambda = `largest_eigenvalue` of B =
    `scaled_curvature`; the form has the matrix sqrt(P_j P_k) B_jk.

    Where `mean_eigenvalue` shows that second >= half, only half matters to a bonus: second is then span^2/4 psi(span),
    and slopes stay what they were. exact=1: not so, for first-order terms that are perturbed and may be negative."""
    S, A, _ = local.P.shape
    P, count, half, slopes, B = merged(local.P), merged(layout.count), merged(local.half), local.slopes, work.B
    z, cov, rho = merged(local.z), merged(local.cov), merged(local.rho)
    span, second = merged(local.span), merged(local.second)
    softmax_of_all(z, count, P)
    if spans == 1:
        for i in range(S * A):
            span[i] = largest_span(cov[i], rho[i], z[i], bound, count[i])
    half_of_all(P, count, span, bound, work, half)
    for i in range(S * A):
        n, rho2, size = count[i], rho[i] * rho[i], span[i]
        known, most, psi = rho2 < math.inf, 0.25 * size * size, upper_curvature(size)
        wide = exact == 0 and known and min(rho2 * mean_eigenvalue(P[i], cov[i], n), most) * psi >= half[i]
        if not wide:
            least = scaled_curvature(P[i], cov[i], n, work)
            if known and size < FAR and rho2 * math.sqrt(math.sqrt(least)) < most:
                most = min(most, rho2 * largest_eigenvalue(B, n, least) * (1.0 + 1e-12))
            slopes_of(slopes, i, rho2 if known else 0.0, work)
        second[i] = most * psi if most > 0.0 else 0.0


@inlined
def half_of_all(P, count, span, bound, work, half):
    """half [n] <- min(tanh(span/4), cap/2); see `derive`."""
    for i in range(half.shape[0]):  # 2 tanh(r/4) = 2 - 4/(e^{r/2} + 1), with the exponential that vectorises
        half[i] = 2.0 - 4.0 / (exp(0.5 * span[i]) + 1.0)
    prior_caps(P, count, exp(bound), work.table, work.smallest, half)
    for i in range(half.shape[0]):
        half[i] *= 0.5


@kernel
def make_root(local, i, n):
    """local.rows[i] <- root alone of pair i, which has n possible next states."""
    root_at(local, i, n, local.rows[i])
    local.made[i] = 1


@kernel
def make_rows(local, i, n):
    """local.rows[i] <- of pair i:   rho^2 g'cov g = sum over k of (rows_k V)^2,   rows_kj = rho P_j (root_kj - m_k),
    m = sum_j P_j root_j, root = L'columns; 0 where rho = inf. In every plan most pairs are never asked for theirs."""
    rows, p, rho = local.rows[i], merged(local.P)[i], merged(local.rho)[i]
    root_at(local, i, n, rows)
    scale = rho if rho < math.inf else 0.0
    for k in range(rows.shape[0]):
        mean = 0.0
        for j in range(p.shape[0]):
            mean += p[j] * rows[k, j]
        for j in range(p.shape[0]):
            rows[k, j] = scale * p[j] * (rows[k, j] - mean)
    local.made[i] = 1


@kernel
def variances_of(root, p, mean, D):
    """D [Q, Q] <- sum_j p_j (root_j - m)(root_j - m)', mean [Q] <- m = sum_j p_j root_j, of root [Q, M]; two rows and
    two columns of D at a time. What is weighted has mean 0, so the other factor need not be centred."""
    rank = root.shape[0]
    times(root, p, mean)
    for k in range(0, rank, 2):
        e = min(k + 1, rank - 1)
        first, second = mean[k], mean[e]
        for m in range(0, k + 1, 2):
            f = min(m + 1, rank - 1)
            q, r, s, t = 0.0, 0.0, 0.0, 0.0
            for j in range(p.shape[0]):
                v, w = p[j] * (root[k, j] - first), p[j] * (root[e, j] - second)
                q += v * root[m, j]
                r += v * root[f, j]
                s += w * root[m, j]
                t += w * root[f, j]
            D[k, m] = D[m, k] = q
            D[e, m] = D[m, e] = s
            D[k, f] = D[f, k] = r
            D[e, f] = D[f, e] = t


@kernel
def curve(local, i, root, work):
    """local.second and reach of pair i from its root [Q, M], P, rho and span, O(M Q^2), where weights are shared.

    (diag P - PP') cov has the eigenvalues, but for zeros, of D = sum_j P_j (root_j - m)(root_j - m)' [Q, Q], m = sum_j
    P_j root_j; second is then that of `derive`. For g = P * (V - <P, V>) Cauchy and Schwarz say that g'cov g is at most
    D's largest eigenvalue times the variance of V, which is at most (max V - <P, V>)(<P, V> - min V) (Bhatia and Davis
    2000): hence reach, with the bound on the eigenvalue that second has, if that was found, or the Frobenius norm."""
    D, Q, least, squares = work.B, root.shape[0], 0.0, 0.0
    rho, size = merged(local.rho)[i], merged(local.span)[i]
    variances_of(root, merged(local.P)[i], work.mean, D)
    for k in range(Q):  # least of tr D^4: the squares of the diagonal of D^2
        square = 0.0
        for m in range(Q):
            square += D[k, m] * D[k, m]
        squares += square
        least += square * square
    rho2, most, largest = rho * rho, 0.25 * size * size, math.sqrt(squares)
    if rho2 < math.inf and size < FAR and rho2 * math.sqrt(math.sqrt(least)) < most:
        largest = largest_eigenvalue(D, Q, least) * (1.0 + 1e-12)
        most = min(most, rho2 * largest)
    merged(local.second)[i] = most * upper_curvature(size) if most > 0.0 else 0.0
    merged(local.reach)[i] = rho * math.sqrt(largest)


@inlined
def first_alone(local):
    """What makes the first-order term the whole of a bonus (`planning.optimism`)."""
    second, half = merged(local.second), merged(local.half)
    for i in range(second.shape[0]):
        second[i], half[i] = 0.0, MORE


@kernel
def derive_first(local, layout, work, logits):
    """local.P, where there are logits, and slopes from z, cov and rho, as `derive` has them: bonuses of the first order
    alone."""
    P, cov, rho, count = merged(local.P), merged(local.cov), merged(local.rho), merged(layout.count)
    if logits == 1:
        softmax_of_all(merged(local.z), count, P)
    for i in range(P.shape[0]):
        if local.slopes.shape[0] > 0:
            scaled_curvature(P[i], cov[i], count[i], work)
            slopes_of(local.slopes, i, rho[i] * rho[i], work)
    first_alone(local)


@kernel
def derive_first_shared(local, layout, work):
    """The same where weights are shared; local.reach from the lengths of columns alone: D of `curve` is at most LL'
    times the square of the longest."""
    rho, far, reach, block = merged(local.rho), merged(local.far), merged(local.reach), merged(local.block)
    softmax_of_all(merged(local.z), merged(layout.count), merged(local.P))
    for b in range(local.factor.shape[0]):
        L, squares = local.factor[b], 0.0
        for k in range(L.shape[0]):
            for m in range(L.shape[0]):
                total = 0.0
                for e in range(min(k, m) + 1):
                    total += L[k, e] * L[m, e]
                squares += total * total
        size = math.sqrt(math.sqrt(squares))
        for i in range(rho.shape[0]):
            if block[i] == b:
                reach[i] = rho[i] * size * far[i]
    local.made[:] = 0
    first_alone(local)


@kernel
def derive_shared(local, layout, bound, work, spans, exact):
    """`derive` where weights are shared: local.half from P and span; the rest is there (`curve`). spans and exact are
    not used."""
    half_of_all(merged(local.P), merged(layout.count), merged(local.span), bound, work, merged(local.half))
    local.made[:] = 0
