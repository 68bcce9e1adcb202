"""How much a log-sum-exp bends away from its tangent, when the displacement is known up to its pairwise differences.

Let p = softmax(z), v a displacement with v_l - v_k <= r_kl, and c_k(t) = p_k / sum_l p_l exp(t r_kl). Then

    lse(z + v) - lse(z) - <p, v>  >=  1/2 v' K v,     K = 2 Int_0^1 (1 - t) M(c(t)) dt,     M(c) = diag c - c c'/1'c

because softmax(z + t v)_k >= c_k(t) and v' M(c) v = min_a sum_k c_k (v_k - a)^2 grows with c. With r = 0 it is the
Hessian; the one-number bound 2 h(max r) H of self-concordance (`local_curvature`) is never better than the integral.

The integral is bounded from below on a grid (proof in docs). On a cell [t_0, t_1] each ln c_k is concave, so
c_k(t) >= c_k(t_1) exp(b (t_1 - t)) with b (t_1 - t_0) = ln(c_k(t_0)/c_k(t_1)), and e^y >= 1 + y with
ln u >= 2 (u - 1)/(u + 1) for u >= 1 turns this into a line from

    a_k = c_k(t_1) (3 c_k(t_0) - c_k(t_1)) / (c_k(t_0) + c_k(t_1))     at t_0     to     c_k(t_1)     at t_1

M is concave and increasing in c, so on the cell M(c(t)) is at least the line from M(a) to M(c(t_1)); its integral
against 2 (1 - t) is exact. The error is of second order in (cell length) r, and never on the wrong side. Where r is so
wide that the one-number bound has the larger trace, that one is taken.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from ...checks import Floats
from ...compiler.jit import formula, inlined, kernel
from ...problem.links import exp

INTERVALS = 8  # M^2 exponentials a sample, whatever their number
WIDE = 4.0  # from here on the grid may be worse than one number for all


@formula
def local_curvature(m: float) -> float:
    """2 h(m), h(m) = (m - 1 + e^-m)/m^2: the Bregman divergence of a log-sum-exp is at least h(span v) v'Hv.

    Near 0 the alternating series, cut after a negative term, is a lower bound."""
    if m < 0.05:
        return 1.0 - m / 3.0 + m * m / 12.0 - m * m * m / 60.0
    return 2.0 * (m - 1.0 + math.exp(-m)) / (m * m)


@formula
def growth_of(m: float) -> float:
    """2 (e^m - 1 - m)/m^2: ln E e^{X - EX} is at most half of it times Var X for X <= EX + m. Near 0 the series, cut
    after its fourth term and rounded up; inf from 700 on, where e^m is about to overflow."""
    if m > 700.0:
        return math.inf
    if m < 0.05:
        return 1.0 + m / 3.0 + m * m / 12.0 + m * m * m / 59.0
    return 2.0 * math.expm1(m) / (m * m) - 2.0 / m


@inlined
def add_form(c, n, weight, total, out):
    """out [n, n] += weight (diag c - c c'/1'c), lower triangle; total = 1'c > 0."""
    scale = weight / total
    for j in range(n):
        v = scale * c[j]
        out[j, j] += weight * c[j]
        for k in range(j + 1):
            out[j, k] -= v * c[k]


@inlined
def one_number_if_better(p, n, factor, out):
    """out [n, n] <- factor (diag p - pp'), lower triangle, where its trace is the larger one. Differences of
    probabilities near 1 are sums of the others."""
    found, other = 0.0, 0.0
    for j in range(n):
        found += out[j, j]
        for k in range(n):
            other += factor * p[j] * p[k] if k != j else 0.0
    if other <= found:
        return
    for j in range(n):
        out[j, j] = 0.0
        for k in range(n):
            out[j, j] += factor * p[j] * p[k] if k != j else 0.0
        for k in range(j):
            out[j, k] = -factor * p[j] * p[k]


@kernel
def pairwise_curvature(p, r, n, step, power, left, right, out):
    """out [n, n] <- the lower bound on K, lower triangle. p [M], r [M, M] >= 0 with r[k, l] >= v_l - v_k.

    Scratch: step, power [M, M], left, right [M]. O(INTERVALS n^2) and n^2 exponentials."""
    h, widest = 1.0 / INTERVALS, 0.0
    for k in range(n):
        right[k] = p[k]
        for j in range(n):
            out[k, j] = 0.0
            widest = max(widest, r[k, j])
            step[k, j] = exp(r[k, j] * h)
            power[k, j] = p[j]
    for i in range(INTERVALS):
        base = h * (1.0 - i * h)
        sum_left, sum_right = 0.0, 0.0
        for k in range(n):
            total = 0.0
            for j in range(n):
                power[k, j] *= step[k, j]
                total += power[k, j]
            before, now = right[k], p[k] / total  # 0 once total has overflowed: still a lower bound
            now = min(now, before)
            right[k] = now
            left[k] = now * (3.0 * before - now) / (before + now) if now > 0.0 else 0.0
            sum_left += left[k]
            sum_right += now
        if not sum_right > 1e-150:  # products of two must not underflow; what is left out is not negative
            break
        add_form(left, n, base - h * h / 3.0, sum_left, out)
        add_form(right, n, base - 2.0 * h * h / 3.0, sum_right, out)
    if widest > WIDE:
        one_number_if_better(p, n, local_curvature(widest), out)


@kernel
def pair_bounds(z, centre, cov, rho, reach, n, r):
    """r [M, M]: r[k, l] >= v_l - v_k >= 0 for v = z* - z, from two things that are known of the true logits z*.

    The set: z* = centre + u with |u_l - u_k| <= rho sqrt(cov_ll + cov_kk - 2 cov_lk). The assumption |z*_l - z*_k| <=
    2 reach, or reach if one of the two is the last outcome (pinned to 0), reach = B_p ||x||. Negative bounds become 0.
    Returns the largest."""
    worst = 0.0
    for k in range(n):
        r[k, k] = 0.0
        for j in range(k):
            ball = rho * math.sqrt(max(cov[j, j] + cov[k, k] - 2.0 * cov[k, j], 0.0))
            cap = reach if k == n - 1 else 2.0 * reach
            ahead = z[j] - z[k]
            off = centre[j] - centre[k] - ahead
            r[k, j] = max(min(off + ball, cap - ahead), 0.0)
            r[j, k] = max(min(ball - off, cap + ahead), 0.0)
            worst = max(worst, max(r[k, j], r[j, k]))
    return worst


def curvature_bound(p: ArrayLike, r: ArrayLike) -> Floats:
    """K [m, m] for a distribution p [m] and bounds r [m, m], r[k, l] >= v_l - v_k."""
    p, r, f = np.array(p, np.float64), np.maximum(np.array(r, np.float64), 0.0), np.zeros
    m = p.size
    out = f((m, m))
    pairwise_curvature(p, r, m, f((m, m)), f((m, m)), f(m), f(m), out)
    return np.asarray(np.tril(out) + np.tril(out, -1).T)
