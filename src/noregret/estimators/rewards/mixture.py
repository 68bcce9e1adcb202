"""Mean rewards theta'x from rewards in [0, 1]: a mixture of exponentially tilted processes, and what it says at x.

With mu_i = theta*'x_i, u_i = v'x_i and chi(mu, u) = ln(1 - mu + mu e^u) - mu u,

    M_n = sum_c w_c Int prod_i exp( u_i (r_i - mu_i) - chi(mu_i, u_i) ) N(dv; 0, I/lambda_c)

is a nonnegative supermartingale for any rewards in [0, 1] with these means (e^{u r} is convex in r), so M_n <= 1/delta
for all n together with probability 1 - delta. On that event, for every vector h, every c > 0, every covariance Q and
all weights pi over the components (Gibbs' inequality with N(-+ c h, Q)),

    +- h'(sum x_i r_i - G theta*) <= ( ln(1/delta) + cost + c^2/2 (h'J h + lambda_pi ||h||^2) ) / c,   G = sum x_i x_i'

where J = sum nu_i x_i x_i' and cost = KL of the Gaussians and of pi + tr(W Q)/2, W = sum w_i x_i x_i'. nu_i bounds
2 chi/u^2 and w_i what the width of Q costs, both over the means that are possible at x_i and |u_i| <= reach l_i
(`variance_proxy`, `tilted_variance`); 1/4 always serves. x'theta* = h'G theta* + (x - G h)'theta*, and the second term
is at most B_r ||x - G h||. Proofs: docs/beyond.md, section 4. Everything but nu_i and w_i is kept online; those two may
be recomputed from stored data at any time, because the event does not involve them.

It goes with ridge regression at a small lambda (`ridge_step`), which keeps G + lambda I, its inverse and sum x_i r_i.
Under HOEFFDING nu_i = w_i = 1/4, no extremes are active and all tilts are allowed: `estimators.rewards.refresh` and
`.tilts` play no part.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...checks import Floats
from ...compiler.jit import inlined, kernel
from ...compiler.slots import EMPTY, slot
from ...numerics.linear_algebra import apply_refresh, norm_of, times
from ...problem.problem import Problem
from .regression import call_learn, possible_means, quadratic_form, ridge_step
from .tilts import multiplier, sample_bounds

LAMBDAS = (3.0, 24.0, 192.0, 1536.0)  # of the mixture, times R^2/d
WEIGHTS = (0.1, 0.4, 0.4, 0.1)  # most for a thousand to thirty thousand rewards
SHIFTS = (1e-3, 4.0)  # of the two regressions that give the centres, times R^2; the first is lambda
SURE = 0.2  # half-width below which the second regression is not asked
ROW_H, ROW_GH, ROW_JH = 0, 1, 2  # the rows that `dual_vector` makes: h, G h, J h
CENTRE, FORM, SQUARE, REST = 0, 1, 2, 3  # and what it says of them: h'sum x_i r_i less the offset, h'J h, ||h||^2,
# ||x - G h||^2
OF_X = 2  # x among the three vectors that they are made of; the others are the two extremes
ALONE, WITH_EXTREMES = 1, 5  # ways for `narrow` to look at x: t = 0, and two t for each extreme


class RewardMixturePar(NamedTuple):
    """C = 4 components; 0 in other forms."""

    ridge: Any  # slot of `ridge_step`
    range: Any  # slot of `mixture_range`
    renew: Any  # slot of `renew`
    refresh: Any  # slot of `estimators.rewards.refresh.mixture_refresh`, under BERNSTEIN
    lambdas: Floats  # [C], increasing
    prior: Floats  # [C], -(d/2) ln lambda_c - ln w_c
    apart: float  # the second shift less the first


class RewardMixtureState(NamedTuple):
    """Of no pairs in other forms."""

    wide: Floats  # [S, A, d, d], inverse of G and the second shift
    sums: Floats  # [S, A, 2, d, d], J and W
    Q: Floats  # [S, A, C, d, d]
    head: Floats  # [S, A, C], cost of Q_k without its distance from component c
    trace: Floats  # [S, A, C], tr Q_k
    extremes: Floats  # [S, A, 2, d], contexts whose means are least sure to be above 0, below 1
    active: NDArray[np.int64]  # [S, A, 2], 1 where there is one
    reach: Floats  # [S, A], the tilts for which J holds; inf: all
    due: NDArray[np.int64]  # [S, A], samples at which Q and the inverses are made anew
    refreshed: NDArray[np.int64]  # [S, A], samples at the last refresh

    def limits(self, problem: Problem) -> dict[str, tuple[float, float]]:
        return {"active": (0, 1), "reach": (0, math.inf)}


class RewardMixtureWork(NamedTuple):
    vectors: Floats  # [3, 3, d], h, G h and J h of both extremes and of x
    pieces: Floats  # [3, 4], what `dual_vector` says of them
    raw: Floats  # [2], a range that is not cut to what is possible
    ends: Floats  # [2], the range
    weights: Floats  # [3], of x x' in the sums
    sums: Floats  # [3, d, d], new J and W, and J_0
    logdet: Floats  # [1]
    square: Floats  # [d, d]
    first: Floats  # [d, d]
    episodes: NDArray[np.int64]  # [2]
    far: Floats  # [2], the ends of the ranges there


def mixture_parts(sizes: Any, kept: bool) -> tuple[RewardMixturePar, RewardMixtureState, RewardMixtureWork]:
    """Parameters without slots, initial state and scratch; kept: False leaves all empty, for the other forms. sizes:
    `RewardSizes`."""
    f, i, C = np.zeros, np.int64, len(LAMBDAS) if kept else 0
    (S, A), d, R2 = sizes.shape if kept else (0, 0), sizes.dim, sizes.context_bound**2
    lambdas, eye = np.array(LAMBDAS[:C]) * (R2 / d), np.eye(d)
    prior = -0.5 * d * np.log(lambdas) - np.log(np.array(WEIGHTS[:C]))
    head, trace = np.tile(0.5 * d * (np.log(lambdas) - 1.0), (S, A, 1)), np.tile(d / lambdas, (S, A, 1))
    wide, Q = np.tile(eye / (SHIFTS[1] * R2), (S, A, 1, 1)), np.tile(eye / lambdas[:, None, None], (S, A, 1, 1, 1))
    state = RewardMixtureState(
        wide, f((S, A, 2, d, d)), Q, head, trace, f((S, A, 2, d)), f((S, A, 2), i),
        np.full((S, A), np.inf), np.ones((S, A), i), f((S, A), i),
    )  # fmt: skip
    d = d if kept else 0
    work = RewardMixtureWork(
        f((3, 3, d)), f((3, 4)), f(2), f(2), f(3), f((3, d, d)), f(1), f((d, d)), f((d, d)), f(2, i), f(2)
    )  # fmt: skip
    return RewardMixturePar(EMPTY, EMPTY, EMPTY, EMPTY, lambdas, prior, (SHIFTS[1] - SHIFTS[0]) * R2), state, work


def with_mixture(par: Any, state: Any, work: Any) -> Any:
    """par of the rewards with the slots of its mixture filled, but that of the refresh."""
    x = np.zeros(state.theta.shape[2])
    made = {
        "ridge": call_learn.fill(ridge_step, par, state, work, 0, 0, 0.0, x),
        "range": call_range.fill(mixture_range, par, state, work, 0, 0, x, 0),
        "renew": call_renew.fill(renew, par, state, work, 0, 0),
    }
    return par._replace(mixture=par.mixture._replace(**made))


call_range, call_renew = slot("mixture range"), slot("mixture renew")


@inlined
def shifted(matrix, scale, shift, out):
    """out [d, d] <- scale matrix + shift I."""
    for i in range(out.shape[0]):
        for j in range(out.shape[0]):
            out[i, j] = scale * matrix[i, j]
        out[i, i] += shift


@inlined
def add_outer(weights, x, sums):
    """sums [n, d, d] += weights [n] times x x'."""
    for m in range(sums.shape[0]):
        for i in range(x.shape[0]):
            t = weights[m] * x[i]
            for j in range(x.shape[0]):
                sums[m, i, j] += t * x[j]


@inlined
def factor_of(beta, reach):
    """min over c <= reach of beta/c + c/2, beta > 0: sqrt(2 beta), or the value at reach."""
    rho = math.sqrt(2.0 * beta)
    return rho if rho <= reach else beta / reach + 0.5 * reach


@kernel
def mixture_width(par, state, s, a, form, hh):
    """Bound on |h'(sum x_i r_i - G theta*)|: form = h'J h, hh = ||h||^2. The best single component k, with

        beta_k = ln(1/delta) + head_k + lambda_k tr Q_k/2 + prior_k,   min over c of beta/c + c/2 (form + lambda_k hh),

    then one step to the best weights pi of all components, while Q_k and t = c^2 hh stay as they are: pi_i is
    proportional to exp(-prior_i - lambda_i (t + tr Q_k)/2), and costs -ln of their sum, less the t lambda_pi/2 that
    stands under the root already. O(C)."""
    lambdas, prior, C = par.mixture.lambdas, par.mixture.prior, par.mixture.lambdas.shape[0]
    head, trace, reach = state.mixture.head[s, a], state.mixture.trace[s, a], state.mixture.reach[s, a]
    best, chosen, beta = math.inf, 0, 0.0
    for k in range(C):
        b = max(par.log + head[k] + 0.5 * lambdas[k] * trace[k] + prior[k], 0.0)
        v = factor_of(b, reach) * math.sqrt(form + lambdas[k] * hh)
        if v < best:
            best, chosen, beta = v, k, b
    scale = form + lambdas[chosen] * hh
    if not scale > 0.0:
        return 0.0
    t = min(2.0 * beta, reach * reach) / scale * hh  # c^2 ||h||^2
    top = -math.inf
    for k in range(C):
        top = max(top, -prior[k] - 0.5 * lambdas[k] * (t + trace[chosen]))
    total, mean = 0.0, 0.0
    for k in range(C):
        p = math.exp(-prior[k] - 0.5 * lambdas[k] * (t + trace[chosen]) - top)
        total += p
        mean += p * lambdas[k]
    mean /= total
    b = max(par.log + head[chosen] - top - math.log(total) - 0.5 * t * mean, 0.0)
    return min(best, factor_of(b, reach) * math.sqrt(form + mean * hh))


@inlined
def mixture_half_width(par, state, s, a, form, hh, rest):
    """Bound on the distance of h'sum x_i r_i from x'theta*."""
    w = mixture_width(par, state, s, a, form, hh)
    return (w + par.bound * math.sqrt(max(rest, 0.0))) * (1.0 + 1e-9) + 1e-7  # `extremes` may lose eight digits


@kernel
def dual_vector(par, state, s, a, inverse, x, vectors, pieces):
    """vectors [3, d] <- ROW_H, ROW_GH, ROW_JH of h = inverse x; pieces [4] <- CENTRE, FORM, SQUARE, REST."""
    h, gh, jh = vectors[ROW_H], vectors[ROW_GH], vectors[ROW_JH]
    times(inverse, x, h)
    times(state.gram[s, a], h, gh)
    times(state.mixture.sums[s, a, 0], h, jh)
    centre, form, hh, rest = 0.0, 0.0, 0.0, 0.0
    for i in range(x.shape[0]):
        gh[i] -= par.regularization * h[i]
        centre += h[i] * state.moment[s, a, i]
        form += h[i] * jh[i]
        hh += h[i] * h[i]
        rest += (x[i] - gh[i]) * (x[i] - gh[i])
    pieces[CENTRE], pieces[FORM], pieces[SQUARE], pieces[REST] = centre - par.offset, max(form, 0.0), hh, rest


@kernel
def mixture_range(par, state, work, s, a, x, prepared):
    """work.mixture.ends <- bounds on the mean reward of pair (s, a) at x, inside those already there. O(d^2 + C).

    h = (G + shift I)^{-1} x for two shifts, the larger only where the smaller says little; with the smaller also what
    the extremes say (HOEFFDING has none: `narrow` then does t = 0 alone). prepared=1: the last call was for the same
    pair, and nothing was learned since. work.mixture.raw <- the range of the smaller shift, not cut to what is
    possible."""
    of, w, half = state.mixture, work.mixture, math.inf
    low, high = w.ends[0], w.ends[1]
    for v in range(4):  # the two extremes, x with the smaller shift, x with the larger
        y = of.extremes[s, a, v] if v < 2 else x
        asked = half > SURE if v >= 2 else prepared == 0 and of.active[s, a, v] == 1
        if asked:
            inverse = of.wide[s, a] if v == 3 else state.inverse[s, a]
            dual_vector(par, state, s, a, inverse, y, w.vectors[min(v, OF_X)], w.pieces[min(v, OF_X)])
            if v >= 2:
                ways = WITH_EXTREMES if v == 2 and w.pieces[OF_X, FORM] > 0.0 else ALONE
                half = narrow(par, state, w, s, a, x, ways)
            if v == 2:
                w.raw[0], w.raw[1] = w.pieces[OF_X, CENTRE] - half, w.pieces[OF_X, CENTRE] + half
    if not w.ends[0] <= w.ends[1]:  # the set is empty, and says nothing
        w.ends[0], w.ends[1] = low, high


@inlined
def narrow(par, state, work, s, a, x, ways):
    """work.ends <- narrower by what is known of (x + t y)'theta = x'theta + t y'theta: t = 0, then with the contexts y
    whose means are least sure to be possible, the first above 0 and the second below 1, t the best for the upper and
    for the lower end of the range. Returns the half-width of x'theta itself.

    Of the sum, form = h'J h is f + t (2 fxy + t fyy), ||h||^2 and the rest likewise: ends in xy and yy say of which
    two."""
    of_x, half = work.pieces[OF_X], 0.0
    centre, form, hh, rest = of_x[CENTRE], of_x[FORM], of_x[SQUARE], of_x[REST]
    for c in range(ways):
        e = max(c - 1, 0) // 2
        y, of_y = state.mixture.extremes[s, a, e], work.pieces[e]
        mean, fyy, nyy, qyy = of_y[CENTRE], of_y[FORM], of_y[SQUARE], of_y[REST]
        fxy, nxy, qxy, t = 0.0, 0.0, 0.0, 0.0
        if c > 0 and state.mixture.active[s, a, e] == 1:
            for i in range(x.shape[0]):
                fxy += work.vectors[OF_X, ROW_H, i] * work.vectors[e, ROW_JH, i]
                nxy += work.vectors[OF_X, ROW_H, i] * work.vectors[e, ROW_H, i]
                qxy += (x[i] - work.vectors[OF_X, ROW_GH, i]) * (y[i] - work.vectors[e, ROW_GH, i])
            turn = 1.0 if (c - 1) % 2 == e else -1.0
            t = turn * multiplier(form, turn * fxy, fyy, mean if e == 0 else 1.0 - mean, half / math.sqrt(form))
        if c == 0 or t != 0.0:
            f, n = form + t * (2.0 * fxy + t * fyy), hh + t * (2.0 * nxy + t * nyy)
            wide = mixture_half_width(par, state, s, a, max(f, 0.0), max(n, 0.0), rest + t * (2.0 * qxy + t * qyy))
            middle = centre + t * (mean - e)
            half = wide if c == 0 else half
            if c % 2 == 0:
                work.ends[0] = max(work.ends[0], middle - wide)
            if c % 2 == 1 or c == 0:
                work.ends[1] = min(work.ends[1], middle + wide)
    return half


@kernel
def ranges_mixture(par, state, work, x, low, high):
    ends = work.mixture.ends
    bottom, top = possible_means(par, norm_of(x))
    for s in range(low.shape[0]):
        for a in range(low.shape[1]):
            ends[0], ends[1] = bottom, top
            call_range(par.mixture.range, (par, state, work, s, a, x, 0))
            low[s, a], high[s, a] = ends[0], ends[1]


@kernel
def mixture_step(par, state, work, s, a, reward, x):
    """One reward of pair (s, a): nu and w from the range at x. O(C d^2), and O(C d^3) each time n has grown by 5% or by
    1,000."""
    of, d, weights = state.mixture, x.shape[0], work.mixture.weights
    weights[0], weights[1] = 0.25, 0.25
    if of.reach[s, a] < math.inf:
        ends = work.mixture.ends
        ends[0], ends[1] = possible_means(par, norm_of(x))
        call_range(par.mixture.range, (par, state, work, s, a, x, 0))
        weights[0], weights[1] = sample_bounds(of.Q[s, a, 0], of.reach[s, a], x, ends[0], ends[1], work.h)
    call_learn(par.mixture.ridge, (par, state, work, s, a, reward, x))
    add_outer(weights, x, of.sums[s, a])
    for k in range(par.mixture.lambdas.shape[0]):
        of.head[s, a, k] += 0.5 * weights[1] * quadratic_form(of.Q[s, a, k], x, work.h)
    shrink = 1.0 / (1.0 + quadratic_form(of.wide[s, a], x, work.h))
    for i in range(d):
        for j in range(d):
            of.wide[s, a, i, j] -= shrink * work.h[i] * work.h[j]
    if state.samples[s, a] >= of.due[s, a]:
        call_renew(par.mixture.renew, (par, state, work, s, a))


@kernel
def renew(par, state, work, s, a):
    """Inverses, covariances and costs from the sums: wipes out rounding, and fits Q to the data. O(C d^3).

    Q_k = (J + lambda_k I)^{-1}, head_k = (tr(W Q_k) - d - ln det Q_k)/2."""
    of, w, d, n = state.mixture, work.mixture, work.h.shape[0], state.samples[s, a]
    gram, logdet, W, C = state.gram[s, a], state.logdet[s, a : a + 1], of.sums[s, a, 1], par.mixture.lambdas.shape[0]
    apply_refresh(par.refresh, (gram, state.inverse[s, a], logdet, par.start, work.factor, work.h))
    for k in range(C + 1):  # the last: `wide`
        if k < C:
            shifted(of.sums[s, a, 0], 1.0, par.mixture.lambdas[k], w.square)
            made = of.Q[s, a, k]
        else:
            shifted(gram, 1.0, par.mixture.apart, w.square)
            made = of.wide[s, a]
        apply_refresh(par.refresh, (w.square, made, w.logdet, 0.0, work.factor, work.h))
        if k < C:
            product, trace = 0.0, 0.0
            for i in range(d):
                trace += made[i, i]
                for j in range(d):
                    product += W[i, j] * made[i, j]
            of.head[s, a, k], of.trace[s, a, k] = 0.5 * (product - d + w.logdet[0]), trace
    of.due[s, a] = n + 1 + min(n // 20, 1000)
