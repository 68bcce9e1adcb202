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

from ._checks import Floats
from ._jit import inlined, kernel, merged
from ._tiles import LANES, padded, set_dots
from .beliefs import prior_caps
from .links import exp
from .problem import Layout
from .theory.widths import upper_curvature


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
    slopes: Floats  # [J N], N padded: see `derive`; empty where next states differ between pairs
    lanes: Floats  # [M M + 3 M + 4, LANES], scratch


def local_sets(layout: Layout) -> LocalSets:
    """Room for the sets of every pair."""
    S, A, M = layout.outcomes.shape
    f = np.zeros
    J, six = M * (M + 1) // 2, (f((S, A)), f((S, A)), f((S, A)), f((S, A)), f((S, A)), f((S, A)))
    slopes = f(J * padded(S * A, LANES) if layout.dense == 1 else 0)
    return LocalSets(f((S, A, M)), f((S, A, M)), f((S, A, M, M)), *six, slopes, f((M * M + 3 * M + 4, LANES)))


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


@kernel
def softmax_all(z, count, P):
    """P [N, M] <- softmax of the first count[i] entries of every row of z, the rest 0."""
    flat, (N, M) = merged(P), P.shape
    for i in range(N):
        top = z[i, 0]
        for j in range(1, count[i]):
            top = max(top, z[i, j])
        for j in range(M):
            P[i, j] = z[i, j] - top
    for i in range(N * M):  # one loop over everything: rows are short
        flat[i] = exp(flat[i])
    for i in range(N):
        total = 0.0
        for j in range(count[i]):
            total += P[i, j]
        scale = 1.0 / total
        for j in range(M):
            P[i, j] = P[i, j] * scale if j < count[i] else 0.0


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


@kernel
def derive(local, layout, bound, table, smallest):
    """local.second, local.half and local.slopes from z, P, cov, rho and span; bound = B_p ||x||; table [4, M+1] and
    smallest [M] are scratch.

        second = min(rho^2 lambda, span^2/4) psi(span),   lambda >= lambda_max(cov^{1/2} (diag P - PP') cov^{1/2})
        half   = min(tanh(span/4), half of `theory.widths.logit_prior_cap`)
        slopes[(j, k), pair], j <= k:   rho^2 g' cov g = sum of them times V_j V_k,   g = P * (V - <P, V>)

    psi = `theory.widths.upper_curvature`. lambda is (tr B^4)^{1/4}, B_jk = sqrt(P_j P_k) N_jk,
    N_jk = cov_jk - (cov P)_j - (cov P)_k + P'cov P, which has the same eigenvalues as (diag P - PP') cov, none of them
    negative: at most the fourth root of M - 1 too large. The form above has the matrix sqrt(P_j P_k) B_jk. Many pairs
    are worked on side by side."""
    S, A, M = local.P.shape
    N, count, P, cov, rho = S * A, merged(layout.count), merged(local.P), merged(local.cov), merged(local.rho)
    span, second, half, lanes = merged(local.span), merged(local.second), merged(local.half), local.lanes
    flat, L = merged(lanes), lanes.shape[1]
    p, q = M * M, M * M + M
    root, mean, trace, factor, y = q + M, q + 2 * M, q + 2 * M + 1, q + 2 * M + 2, q + 2 * M + 3
    for first in range(0, N, L):
        here = min(L, N - first)
        for i in range(here):
            n = count[first + i]
            r2 = rho[first + i] * rho[first + i]
            lanes[factor, i] = r2 if r2 < math.inf else 0.0
            for j in range(M):
                lanes[p + j, i] = P[first + i, j]
                for k in range(j + 1):
                    lanes[j * M + k, i] = cov[first + i, j, k] if j < n else 0.0
        for j in range(M):
            for k in range(j):
                for i in range(L):
                    lanes[k * M + j, i] = lanes[j * M + k, i]
        for j in range(M):
            set_dots(flat, (q + j) * L, flat, j * M * L, L, flat, p * L, L, M)
            for i in range(L):
                lanes[root + j, i] = math.sqrt(lanes[p + j, i])
        set_dots(flat, mean * L, flat, q * L, L, flat, p * L, L, M)
        for j in range(M):
            for k in range(j + 1):
                for i in range(L):
                    v = lanes[j * M + k, i] - lanes[q + j, i] - lanes[q + k, i] + lanes[mean, i]
                    v *= lanes[root + j, i] * lanes[root + k, i]
                    lanes[j * M + k, i] = v
                    lanes[k * M + j, i] = v
        for i in range(L):
            lanes[trace, i] = 0.0
        for j in range(M):
            for k in range(j + 1):
                set_dots(flat, y * L, flat, j * M * L, L, flat, k * M * L, L, M)
                weight = 1.0 if j == k else 2.0
                for i in range(L):
                    lanes[trace, i] += weight * lanes[y, i] * lanes[y, i]
        if local.slopes.shape[0] > 0:
            slopes(local, M, first, root, factor)
        for i in range(here):
            r = span[first + i]
            largest = 0.25 * r * r
            if rho[first + i] < math.inf:
                largest = min(largest, lanes[factor, i] * math.sqrt(math.sqrt(lanes[trace, i])) * (1.0 + 1e-12))
            second[first + i] = largest * upper_curvature(r) if largest > 0.0 else 0.0
            half[first + i] = 2.0 * math.tanh(0.25 * r)
    prior_caps(P, count, exp(bound), table, smallest, half)
    for i in range(N):
        half[i] *= 0.5


@inlined
def slopes(local, M, first, root, factor):
    """local.slopes of the pairs at hand."""
    lanes, out, L = local.lanes, local.slopes, local.lanes.shape[1]
    at, step = first, out.shape[0] // (M * (M + 1) // 2)
    for j in range(M):
        for k in range(j, M):
            weight = 1.0 if j == k else 2.0
            for i in range(L):
                v = weight * lanes[factor, i] * lanes[j * M + k, i]
                out[at + i] = v * lanes[root + j, i] * lanes[root + k, i]
            at += step
