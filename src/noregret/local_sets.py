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


def local_sets(layout: Layout) -> LocalSets:
    """Room for the sets of every pair."""
    S, A, M = layout.outcomes.shape
    f = np.zeros
    return LocalSets(f((S, A, M)), f((S, A, M)), f((S, A, M, M)), *(f((S, A)) for _ in range(6)))


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
def largest_span(cov, rho, z, bound, n):
    """Bound on max v - min v for logits z + v: of every ordered pair of outcomes the ellipsoid allows

        v_j - v_k <= rho sqrt(cov_jj + cov_kk - 2 cov_jk)

    and the weights' bound, M = B_p ||x|| in coordinates where the last outcome is the reference, allows

        v_j - v_k <= (2 M, or M if one of the two is the last) - (z_j - z_k)."""
    largest = 0.0
    for j in range(n):
        for k in range(n):
            if j != k:
                reach = (bound if j == n - 1 or k == n - 1 else 2.0 * bound) - (z[j] - z[k])
                v = max(cov[j, j] + cov[k, k] - 2.0 * cov[j, k], 0.0)
                largest = max(largest, min(rho * math.sqrt(v) if v > 0.0 else 0.0, reach))
    return largest


@kernel
def derive(local, layout, bound, table, smallest, scratch):
    """local.second, local.half from z, P, cov, rho and span; bound = B_p ||x||; table [4, M+1], smallest [M] and
    scratch [2, M, M] are scratch.

        second = min(rho^2 lambda, span^2/4) psi(span),   lambda >= lambda_max(cov^{1/2} (diag P - PP') cov^{1/2})
        half   = min(tanh(span/4), half of `theory.widths.logit_prior_cap`)

    psi = `theory.widths.upper_curvature`. lambda is (tr B^4)^{1/4}, B = (diag P - PP') cov, which has the same
    eigenvalues, none of them negative: at most the fourth root of M - 1 too large."""
    S, A, _ = local.P.shape
    high = exp(bound)
    for s in range(S):
        for a in range(A):
            n, p, cov, r = layout.count[s, a], local.P[s, a], local.cov[s, a], local.span[s, a]
            largest = 0.25 * r * r
            rho2 = local.rho[s, a] * local.rho[s, a]
            B, square = scratch[0], scratch[1]
            for k in range(n):
                mean = 0.0
                for j in range(n):
                    mean += p[j] * cov[j, k]
                for j in range(n):
                    B[j, k] = p[j] * (cov[j, k] - mean)
            for j in range(n):
                for k in range(n):
                    square[j, k] = 0.0
                for i in range(n):
                    v = B[j, i]
                    for k in range(n):
                        square[j, k] += v * B[i, k]
            trace = 0.0
            for j in range(n):
                for k in range(n):
                    trace += square[j, k] * square[k, j]
            if rho2 < math.inf:
                largest = min(largest, rho2 * math.sqrt(math.sqrt(max(trace, 0.0))) * (1.0 + 1e-12))
            local.second[s, a] = largest * upper_curvature(r) if largest > 0.0 else 0.0
            local.half[s, a] = 2.0 * math.tanh(0.25 * r)
    prior_caps(merged(local.P), merged(layout.count), high, table, smallest, merged(local.half))
    for s in range(S):
        for a in range(A):
            local.half[s, a] *= 0.5
