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

from .._jit import formula, inlined, kernel
from .._linear_algebra import cholesky, solve_factored, times
from ..theory.widths import upper_curvature

KEPT = 0.9  # of J is expected to be left after a refresh


@formula
def cumulant(mu: float, u: float) -> float:
    """kappa(mu, u) = ln(1 - mu + mu e^u) - mu u: of a centred Bernoulli(mu) variable. Concave in mu, convex in u."""
    if u > 0.0:  # (1 - mu)-form: no exponential of a large number
        return math.log1p((1.0 - mu) * math.expm1(-u)) + (1.0 - mu) * u
    return math.log1p(mu * math.expm1(u)) - mu * u


@formula
def variance_proxy(low: float, high: float, r: float) -> float:
    """sup of 2 kappa(mu, u)/u^2 over low <= mu <= high, |u| <= r; at most 1/4.

    Attained at the mean m nearest 1/2 (by symmetry m <= 1/2), at u = min(r, 2 ln((1 - m)/m)): there the quotient is
    largest in u over all of R, (1 - 2m)/(2 ln((1 - m)/m)) (Kearns and Saul 1998), and below it it increases in u."""
    m = high if high < 0.5 else (1.0 - low if low > 0.5 else 0.5)
    if m >= 0.499:
        return 0.25
    if not m > 0.0:
        return 0.0
    r = min(r, 2.0 * math.log((1.0 - m) / m))
    if r < 1e-3:
        return min(0.25, 2.0 * upper_curvature(r) * m * (1.0 - m))
    return min(0.25, 2.0 * cumulant(m, r) / (r * r) * (1.0 + 1e-9))


@formula
def tilted_variance(low: float, high: float, r: float) -> float:
    """sup of the second derivative of kappa in u, p (1 - p) with p = mu e^u/(1 - mu + mu e^u), over the same set."""
    m = high if high < 0.5 else (1.0 - low if low > 0.5 else 0.5)
    shrunk = m / (m + (1.0 - m) * math.exp(-r))  # m <= 1/2, tilted towards 1/2
    return shrunk * (1.0 - shrunk) * (1.0 + 1e-9) if shrunk < 0.5 else 0.25


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
def invert(matrix, shift, out, factor, column):
    """out [d, d] <- (matrix + shift I)^{-1}; returns ln det(matrix + shift I)."""
    d = matrix.shape[0]
    cholesky(matrix, shift, factor)
    total = 0.0
    for i in range(d):
        total += 2.0 * math.log(factor[i, i])
    for j in range(d):
        for i in range(d):
            column[i] = 1.0 if i == j else 0.0
        solve_factored(factor, column)
        for i in range(d):
            out[i, j] = column[i]
    return total


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
    return (w + par.bound * math.sqrt(max(rest, 0.0))) * (1.0 + 1e-9) + 1e-12


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


@formula
def multiplier(xx: float, xy: float, yy: float, slack: float, rho: float) -> float:
    """The t >= 0 that makes t slack + rho sqrt(xx + 2 t xy + t^2 yy) least: the price of the constraint that y'theta
    is at most `slack` below its estimate. Any t >= 0 gives a valid bound."""
    if not yy > 0.0:
        return 0.0
    k = (slack / rho) ** 2
    if not k < yy:
        return 0.0
    t = math.sqrt(k * max(xx - xy * xy / yy, 0.0) / (yy * (yy - k)))
    return max((-t if slack > 0.0 else t) - xy / yy, 0.0)


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
def sample_bounds(Q, reach, x, low, high, scratch):
    """V_i and w_i of a sample at x whose mean is in [low, high]; Q [d, d] >= every covariance that will be used."""
    times(Q, x, scratch)
    l2 = 0.0
    for i in range(x.shape[0]):
        l2 += scratch[i] * x[i]
    l2 = max(l2, 0.0)
    r = reach * math.sqrt(l2)
    spread = 2.0 * math.expm1(0.5 * l2) / l2 if l2 > 1e-12 else 1.0 + 1e-12
    return variance_proxy(low, high, r), min(0.25, tilted_variance(low, high, r) * spread)


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


@kernel
def mixture_refresh(par, state, work, store, s, a):
    """V_i and w_i of all stored samples anew, from the set as it is.

    l_i must be ||x_i|| in the inverse of a matrix below the new J + lambda_min I. One pass tries KEPT J, J the present
    one, and keeps the result if the new J is indeed above; else a second pass takes J_0 = sum V_i x_i x_i' at r = 0,
    which the new J always exceeds. Nothing changes if the store does not hold every reward that was learned.
    O(n (d^2 + C))."""
    d, C = work.h.shape[0], par.lambdas.shape[0]
    reach, best, total = math.inf, math.inf, 1e-300
    for i in range(d):
        total += state.variance[s, a, i, i]
        for j in range(d):
            work.variance[i, j] = KEPT * state.variance[s, a, i, j]
    for k in range(C):  # of the component that is best in an average direction
        b = max(par.log + state.head[s, a, k] + 0.5 * par.lambdas[k] * state.trace[s, a, k] + par.prior[k], 0.5)
        if b * (1.0 + par.lambdas[k] * d / total) < best:
            best, reach = b * (1.0 + par.lambdas[k] * d / total), math.sqrt(2.0 * b)
    invert(work.variance, par.lambdas[0], work.first, work.factor, work.h)
    prepare_extremes(par, state, work, s, a)
    if over_samples(par, state, work, store, s, a, reach, 0) != state.samples[s, a]:
        return
    if not above(work.variance, state.variance[s, a], KEPT, par.lambdas[0], work.factor):
        invert(work.least, par.lambdas[0], work.first, work.factor, work.h)
        over_samples(par, state, work, store, s, a, reach, 1)
    for i in range(d):
        for j in range(d):
            state.variance[s, a, i, j], state.curvature[s, a, i, j] = work.variance[i, j], work.curvature[i, j]
    for e in range(2):
        k = work.episodes[e]
        state.active[s, a, e] = 1 if k >= 0 else 0
        if k >= 0:
            for i in range(d):
                state.extremes[s, a, e, i] = store.contexts[k, i]
    state.reach[s, a] = reach
    renew(par, state, work, s, a)


@kernel
def over_samples(par, state, work, store, s, a, reach, again):
    """work.variance, curvature <- new J and W with l_i from work.first; work.least <- J_0; work.episodes [2] <- where
    the extremes are, or -1 (the last two in the first pass). Returns the number of rewards."""
    d, H = work.h.shape[0], store.rewards.shape[1]
    J, W = work.variance, work.curvature
    for i in range(d):
        for j in range(d):
            J[i, j], W[i, j] = 0.0, 0.0
            if again == 0:
                work.least[i, j] = 0.0
    least, most, count, at = 0.0, 1.0, 0, store.last[s, a]
    if again == 0:
        work.episodes[0], work.episodes[1] = -1, -1
    while at >= 0:
        k, t = at // H, at % H
        if store.rewards[k, t] >= 0.0:
            x = store.contexts[k]
            prior_range(par, x, work.low, work.high)
            range_at(par, state, work, s, a, x, work.low, work.high)
            if again == 0:
                if work.raw[0] < least:
                    least, work.episodes[0] = work.raw[0], k
                if work.raw[1] > most:
                    most, work.episodes[1] = work.raw[1], k
                V = variance_proxy(work.low[0], work.high[0], 0.0)
                for i in range(d):
                    for j in range(d):
                        work.least[i, j] += V * x[i] * x[j]
            V, w = sample_bounds(work.first, reach, x, work.low[0], work.high[0], work.h)
            for i in range(d):
                for j in range(d):
                    J[i, j] += V * x[i] * x[j]
                    W[i, j] += w * x[i] * x[j]
            count += 1
        at = store.previous[k, t]
    return count


@kernel
def above(big, small, share, shift, factor):
    """Whether big - share small + 1e-9 shift I is positive definite: 1 or 0. Rounding of that size changes l_i by less
    than the slack of V_i."""
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
                    return 0
                factor[i, i] = math.sqrt(v)
            else:
                factor[i, j] = v / factor[j, j]
    return 1


@inlined
def prior_range(par, x, low, high):
    """What is known of a linear mean before any data: in [0, 1], and at most B_r ||x||."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    low[0], high[0] = 0.0, min(1.0, par.bound * math.sqrt(total))
