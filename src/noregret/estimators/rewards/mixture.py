"""Mean rewards theta'x from rewards in [0, 1]: a mixture of exponentially tilted processes, and what it says at x.

With mu_i = theta*'x_i, u_i = v'x_i and kappa(mu, u) = ln(1 - mu + mu e^u) - mu u,

    M_n = sum_c w_c Int prod_i exp( u_i (r_i - mu_i) - kappa(mu_i, u_i) ) N(dv; 0, I/lambda_c)

is a nonnegative supermartingale for any rewards in [0, 1] with these means (e^{u r} is convex in r), so M_n <= 1/delta
for all n together with probability 1 - delta. On that event, for every vector h, every c > 0, every covariance Q and
all weights pi over the components (Gibbs' inequality with N(-+ c h, Q)),

    +- h'(sum x_i r_i - G theta*) <= ( ln(1/delta) + cost + c^2/2 (h'J h + lambda_pi ||h||^2) ) / c,   G = sum x_i x_i'

where J = sum V_i x_i x_i' and cost = KL of the Gaussians and of pi + tr(W Q)/2, W = sum w_i x_i x_i'. V_i bounds
2 kappa/u^2 and w_i the spread of Q, both over the means that are possible at x_i and |u_i| <= rho_max l_i
(`variance_proxy`, `tilted_variance`); 1/4 always serves. x'theta* = h'G theta* + (x - G h)'theta*, and the second term
is at most B_r ||x - G h||. Proofs: docs/beyond.md. Everything but V_i and w_i is kept online; those two may be
recomputed from stored data at any time, because the event does not involve them.
"""

import math

from ...compiler.jit import inlined, kernel
from ...numerics.linear_algebra import invert, times
from .tilts import multiplier, sample_bounds


@kernel
def add_sample(G, J, W, inverse, x, V, w, scratch):
    """G, J, W [d, d] += (1, V, w) x x'; inverse [L, d, d]: of G + shift I, by Sherman and Morrison."""
    d = x.shape[0]
    for i in range(d):
        for j in range(d):
            t = x[i] * x[j]
            G[i, j] += t
            J[i, j] += V * t
            W[i, j] += w * t
    for k in range(inverse.shape[0]):
        times(inverse[k], x, scratch)
        q = 0.0
        for i in range(d):
            q += scratch[i] * x[i]
        q = 1.0 / (1.0 + q)
        for i in range(d):
            t = q * scratch[i]
            for j in range(d):
                inverse[k, i, j] -= t * scratch[j]


@kernel
def set_covariances(J, W, lambdas, Q, head, trace, factor, column):
    """Q[k] [C, d, d] <- (J + lambda_k I)^{-1}; head[k] <- (tr(W Q_k) - d - ln det Q_k)/2, trace[k] <- tr Q_k."""
    d = J.shape[0]
    for k in range(lambdas.shape[0]):
        logdet = invert(J, lambdas[k], Q[k], factor, column)
        product, total = 0.0, 0.0
        for i in range(d):
            total += Q[k, i, i]
            for j in range(d):
                product += W[i, j] * Q[k, i, j]
        head[k], trace[k] = 0.5 * (product - d + logdet), total


@inlined
def factor_of(beta, reach):
    """min over c <= reach of beta/c + c/2, beta > 0: sqrt(2 beta), or the value at reach."""
    rho = math.sqrt(2.0 * beta)
    return rho if rho <= reach else beta / reach + 0.5 * reach


@kernel
def mixture_width(log, lambdas, prior, head, trace, reach, form, hh, share):
    """Bound on |h'(sum x_i r_i - G theta*)|: form = h'J h, hh = ||h||^2, log = ln(1/delta), prior[c] = -(d/2) ln
    lambda_c - ln w_c; share [C] is scratch. The best single component, then one step to the best weights pi. O(C)."""
    C = lambdas.shape[0]
    best, chosen, beta = math.inf, 0, 0.0
    for k in range(C):
        b = max(log + head[k] + 0.5 * lambdas[k] * trace[k] + prior[k], 0.0)
        v = factor_of(b, reach) * math.sqrt(form + lambdas[k] * hh)
        if v < best:
            best, chosen, beta = v, k, b
    scale = form + lambdas[chosen] * hh
    if not scale > 0.0:
        return 0.0
    t = min(2.0 * beta, reach * reach) / scale * hh  # c^2 ||h||^2
    top = -math.inf
    for k in range(C):
        share[k] = -prior[k] - 0.5 * lambdas[k] * (t + trace[chosen])
        top = max(top, share[k])
    total, mean = 0.0, 0.0
    for k in range(C):
        p = math.exp(share[k] - top)
        total += p
        mean += p * lambdas[k]
    mean /= total
    b = max(log + head[chosen] - top - math.log(total) - 0.5 * t * mean, 0.0)
    return min(best, factor_of(b, reach) * math.sqrt(form + mean * hh))


@kernel
def dual_vector(G, J, moment, inverse, x, h, gh, jh):
    """h <- inverse x, gh <- G h, jh <- J h; returns h'sum x_i r_i, h'J h, ||h||^2, ||x - G h||^2."""
    times(inverse, x, h)
    times(G, h, gh)
    times(J, h, jh)
    centre, form, hh, rest = 0.0, 0.0, 0.0, 0.0
    for i in range(x.shape[0]):
        centre += h[i] * moment[i]
        form += h[i] * jh[i]
        hh += h[i] * h[i]
        rest += (x[i] - gh[i]) * (x[i] - gh[i])
    return centre, max(form, 0.0), hh, rest


@inlined
def half_width(par, state, work, s, a, form, hh, rest):
    """Bound on the distance of h'sum x_i r_i from x'theta*."""
    w = mixture_width(
        par.log, par.lambdas, par.prior, state.head[s, a], state.trace[s, a], state.reach[s, a], form, hh, work.share
    )
    return (w + par.bound * math.sqrt(max(rest, 0.0))) * (1.0 + 1e-9) + 1e-7  # `extremes` may lose eight digits


@kernel
def prepare_extremes(par, state, work, s, a):
    """work.hy, ghy, jhy [2, d], pieces [2, 4] <- `dual_vector` of both extremes, for `range_at`."""
    for e in range(2):
        if state.active[s, a, e] == 1:
            work.pieces[e, 0], work.pieces[e, 1], work.pieces[e, 2], work.pieces[e, 3] = dual_vector(
                state.gram[s, a], state.variance[s, a], state.moment[s, a], state.inverse[s, a, 0],
                state.extremes[s, a, e], work.hy[e], work.ghy[e], work.jhy[e],
            )  # fmt: skip


@kernel
def mixture_range(par, state, work, s, a, x, low, high):
    """low[0], high[0] <- bounds on the mean reward of pair (s, a) at x, inside those already there. O(d^2 + C)."""
    prepare_extremes(par, state, work, s, a)
    range_at(par, state, work, s, a, x, low, high)


@kernel
def range_at(par, state, work, s, a, x, low, high):
    """`mixture_range`, with the extremes prepared.

    h = (G + shift I)^{-1} x for two shifts, the larger only where the smaller says little. Then the contexts whose
    means are least sure to be possible (`state.extremes`): x'theta = (x + t y)'theta - t y'theta, and y'theta >= 0 or
    <= 1. work.raw <- the range of the first shift, not cut to what is possible."""
    G, J, moment, d = state.gram[s, a], state.variance[s, a], state.moment[s, a], x.shape[0]
    lo, hi = low[0], high[0]
    centre, form, hh, rest = dual_vector(G, J, moment, state.inverse[s, a, 0], x, work.h, work.gh, work.jh)
    w = half_width(par, state, work, s, a, form, hh, rest)
    lo, hi = max(lo, centre - w), min(hi, centre + w)
    work.raw[0], work.raw[1] = centre - w, centre + w
    for e in range(2):
        if state.active[s, a, e] == 0 or not form > 0.0:
            continue
        y, sign, hy, ghy, jhy = state.extremes[s, a, e], 1.0 - 2.0 * e, work.hy[e], work.ghy[e], work.jhy[e]
        c, f, n, q = work.pieces[e, 0], work.pieces[e, 1], work.pieces[e, 2], work.pieces[e, 3]
        fxy, nxy, qxy = 0.0, 0.0, 0.0
        for i in range(d):
            fxy += work.h[i] * jhy[i]
            nxy += work.h[i] * hy[i]
            qxy += (x[i] - work.gh[i]) * (y[i] - ghy[i])
        slack = c if e == 0 else 1.0 - c
        for side in range(2):  # 0: the upper end, from x + t y; 1: the lower; t < 0 where y'theta <= 1 serves the upper
            turn = sign if side == 0 else -sign
            t = turn * multiplier(form, turn * fxy, f, slack, w / math.sqrt(form))
            if t == 0.0:
                continue
            wide = half_width(
                par, state, work, s, a, max(form + t * (2.0 * fxy + t * f), 0.0),
                max(hh + t * (2.0 * nxy + t * n), 0.0), rest + t * (2.0 * qxy + t * q),
            )  # fmt: skip
            middle = centre + t * c - (t if e == 1 else 0.0)
            if side == 0:
                hi = min(hi, middle + wide)
            else:
                lo = max(lo, middle - wide)
    if w > 0.2:  # the other shift
        centre, form, hh, rest = dual_vector(G, J, moment, state.inverse[s, a, 1], x, work.h, work.gh, work.jh)
        w = half_width(par, state, work, s, a, form, hh, rest)
        lo, hi = max(lo, centre - w), min(hi, centre + w)
    if lo <= hi:  # else the set is empty, and says nothing
        low[0], high[0] = lo, hi


@kernel
def mixture_learn(par, state, work, s, a, reward, x, low, high):
    """One reward: V and w from the range at x (low, high: what is known beforehand; overwritten)."""
    d = x.shape[0]
    V, w = 0.25, 0.25
    if state.reach[s, a] < math.inf:
        mixture_range(par, state, work, s, a, x, low, high)
        V, w = sample_bounds(state.Q[s, a, 0], state.reach[s, a], x, low[0], high[0], work.h)
    add_sample(state.gram[s, a], state.variance[s, a], state.curvature[s, a], state.inverse[s, a], x, V, w, work.h)
    for i in range(d):
        state.moment[s, a, i] += reward * x[i]
    for k in range(par.lambdas.shape[0]):
        times(state.Q[s, a, k], x, work.h)
        q = 0.0
        for i in range(d):
            q += work.h[i] * x[i]
        state.head[s, a, k] += 0.5 * w * q
    state.samples[s, a] += 1
    if state.samples[s, a] >= state.due[s, a]:
        renew(par, state, work, s, a)


@kernel
def renew(par, state, work, s, a):
    """Inverses, covariances and costs from the sums: wipes out rounding, and fits Q to the data. O(C d^3)."""
    n = state.samples[s, a]
    for level in range(par.shifts.shape[0]):
        invert(state.gram[s, a], par.shifts[level], state.inverse[s, a, level], work.factor, work.h)
    set_covariances(
        state.variance[s, a], state.curvature[s, a], par.lambdas, state.Q[s, a], state.head[s, a], state.trace[s, a],
        work.factor, work.h,
    )  # fmt: skip
    state.due[s, a] = n + 1 + min(n // 20, 1000)
