"""The online likelihood-ratio set for multinomial logit outcomes: constant cost in time, no 1/alpha, nothing hidden.

State per pair, in centred coordinates (rows of W sum to 0): W [n, d], the precision Lambda [nd, nd] with its inverse,
and the squared radius rho2. At a context x, with z = W x, p = softmax(z), cov = (I (x) x') Lambda^{-1} (I (x) x):

    r   >= max v - min v for every v = (W' - W) x in the set (`local_sets.largest_span`),   c = g(r)
    Lambda <- Lambda + 2 c (diag p - pp') (x) xx'
    W      <- W - Lambda^{-1} (p - e_y) (x) x
    rho2   <- rho2 + ||(p - e_y) (x) x||^2_{Lambda^{-1}} - 2 ln( phat(y) / p(y) )

from Lambda = lambda I, W = 0, rho2 = lambda B_0^2 + 2 ln(1/delta). Then ||W* - W||^2_Lambda <= rho2 at all times
together with probability 1 - delta (docs/beyond.md), g = `theory.widths.lower_curvature`. phat is any distribution
fixed before y is seen; the better it predicts, the smaller the set:

    PLUG_IN    phat = p
    UNSCENTED  the mean of softmax over the 2(n-1) + 1 sigma points of N(z, cov), pinned: close to the mean over the
               posterior, which pays for n samples with (n-1) d ln n only. The default
    GIVEN      a distribution of the user's (`LikelihoodRatioSet.update`)

With c = 1/2 the same recursion is the online Laplace approximation of a posterior N(W, Lambda^{-1}): what posterior
sampling draws from, and no confidence set (as one it fails).

The KRON form keeps only Z [d, d], Z <- Z + 2 c min(p) xx', and stands for I (x) Z <= Lambda: (diag p - pp') >= min(p)
on vectors that sum to 0. Memory d^2 instead of (nd)^2, wider, still free of a global curvature constant.

Cost of a step O(n (nd)^2), of a query O((nd)^2); KRON: O(d^2 + nd) and O(d^2).
Caveat: a radius below 0 is an empty set, some assumption is wrong; the set then says nothing (rho = inf in queries).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import Floats
from .._jit import inlined, kernel
from .._linear_algebra import apply_refresh, cholesky, refresh_address
from ..links import MultinomialLogit, exp
from ..local_sets import largest_span, log_softmax
from ..theory.widths import lower_curvature

PLUG_IN, UNSCENTED, GIVEN = 0, 1, 2
PREDICTORS = ("plug-in", "unscented", "given")
REFRESH = 1000  # steps between direct inversions of one pair's precision


class LikelihoodPar(NamedTuple):
    refresh: Any  # address of `refresh_inverse`
    predictor: int  # PLUG_IN, UNSCENTED or GIVEN
    posterior: int  # 1: c = 1/2, no set
    kron: int  # 1: the KRON form
    weight_bound: float


class LikelihoodState(NamedTuple):
    weights: Floats  # [S, A, M, d], rows sum to 0
    precision: Floats  # Lambda, [S, A, Md, Md]; KRON: Z, [S, A, d, d]
    inverse: Floats  # likewise
    radius: Floats  # rho2, [S, A]
    samples: NDArray[np.int64]  # [S, A]


class LikelihoodWork(NamedTuple):
    z: Floats  # [M]
    logp: Floats  # [M]
    p: Floats  # [M]
    given: Floats  # [M], the user's prediction
    cov: Floats  # [M, M]
    shape: Floats  # [M, M]
    factor: Floats  # [M, M]
    step: Floats  # [M]
    rows: Floats  # [M, Md], Lambda^{-1} (e_k (x) x)
    turned: Floats  # [M, Md]
    square: Floats  # [Md, Md], of re-inversions
    column: Floats  # [Md]
    logdet: Floats  # [1]


def likelihood_parts(
    count: NDArray[np.int64],
    context_dim: int,
    weight_bound: float,
    log_inverse_delta: float,
    regularization: float,
    predictor: int = UNSCENTED,
    posterior: bool = False,
    kron: bool = False,
) -> tuple[LikelihoodPar, LikelihoodState, LikelihoodWork]:
    """Parameters, initial state and scratch for one set per pair; count [S, A] is the number of outcomes."""
    (S, A), M, d, f = count.shape, int(count.max()), context_dim, np.zeros
    D = d if kron else M * d
    norm2 = np.array(
        [0.0] + [MultinomialLogit().weight_norm2(m, weight_bound, d, "corrected") for m in range(1, M + 1)]
    )
    radius = regularization * norm2[count] + 2.0 * log_inverse_delta
    eye = np.eye(D)
    state = LikelihoodState(
        f((S, A, M, d)), np.tile(regularization * eye, (S, A, 1, 1)), np.tile(eye / regularization, (S, A, 1, 1)),
        np.ascontiguousarray(radius), np.zeros((S, A), np.int64),
    )  # fmt: skip
    par = LikelihoodPar(refresh_address(D), predictor, int(posterior), int(kron), weight_bound)
    return par, state, likelihood_work(M, d, D)


def likelihood_work(M: int, d: int, D: int) -> LikelihoodWork:
    f, wide = np.zeros, (M, M * d)
    return LikelihoodWork(
        f(M), f(M), f(M), f(M), f((M, M)), f((M, M)), f((M, M)), f(M), f(wide), f(wide), f((D, D)), f(D), f(1)
    )


@inlined
def predictions(weights, x, n, z):
    """z [n] <- W x."""
    for j in range(n):
        v = 0.0
        for b in range(x.shape[0]):
            v += weights[j, b] * x[b]
        z[j] = v


@inlined
def covariance(inverse, x, n, column, cov):
    """cov [n, n] <- (I (x) x') inverse (I (x) x), from its upper half; column [Md] is scratch."""
    d = x.shape[0]
    for j in range(n):
        for i in range(j * d, n * d):
            column[i] = 0.0
        for b in range(d):
            row, v = j * d + b, x[b]
            for i in range(j * d, n * d):
                column[i] += v * inverse[row, i]
        for k in range(j, n):
            v = 0.0
            for b in range(d):
                v += x[b] * column[k * d + b]
            cov[j, k] = v
            cov[k, j] = v


@inlined
def kron_covariance(inverse, x, n, cov):
    """cov [n, n] <- ||x||^2_{Z^{-1}} I."""
    total = 0.0
    for b in range(x.shape[0]):
        for c in range(x.shape[0]):
            total += x[b] * inverse[b, c] * x[c]
    for j in range(n):
        for k in range(n):
            cov[j, k] = total if j == k else 0.0


@kernel
def likelihood_query(par, state, work, n, s, a, x, norm, z, cov):
    """z [n], cov [n, n] <- the ellipsoid of logits at x; returns rho, inf where the set is empty."""
    predictions(state.weights[s, a], x, n, z)
    if par.kron == 1:
        kron_covariance(state.inverse[s, a], x, n, cov)
    else:
        covariance(state.inverse[s, a], x, n, work.rows[0], cov)
    radius = state.radius[s, a]
    return math.sqrt(radius) if radius >= 0.0 else math.inf


@kernel
def log_prediction(work, cov, y, n):
    """ln phat(y) of the unscented mixture: weight 1/n at z, 1/(2n) at each z +- sqrt(n) C_i, C the Cholesky factor of
    cov with the last outcome as the reference."""
    m = n - 1
    trace = 0.0
    for j in range(m):
        for k in range(m):
            work.shape[j, k] = cov[j, k] - cov[j, m] - cov[k, m] + cov[m, m]
        trace += work.shape[j, j]
    cholesky(work.shape[:m, :m], 1e-12 * trace + 1e-290, work.factor[:m, :m])
    scale, best = math.sqrt(float(n)), work.logp[y] + math.log(2.0)
    total = 1.0
    for i in range(m):
        for sign in (-1.0, 1.0):
            top = work.z[m]
            for j in range(m):
                work.step[j] = work.z[j] + (sign * scale * work.factor[j, i] if j >= i else 0.0)
                top = max(top, work.step[j])
            work.step[m] = work.z[m]
            mass = 0.0
            for j in range(n):
                mass += exp(work.step[j] - top)
            v = work.step[y] - top - math.log(mass)
            if v > best:
                total = total * math.exp(best - v) + 1.0
                best = v
            else:
                total += math.exp(v - best)
    return best + math.log(total) - math.log(2.0 * n)


@kernel
def likelihood_step(par, state, work, count, s, a, y, x, norm):
    """Learn outcome y of pair (s, a), one of count[0], at context x with norm = ||x||."""
    n, d = count[0], x.shape[0]
    state.samples[s, a] += 1
    if n == 1:  # nothing to learn
        return
    z, p, logp, cov = work.z, work.p, work.logp, work.cov
    inverse, precision, rows = state.inverse[s, a], state.precision[s, a], work.rows
    predictions(state.weights[s, a], x, n, z)
    log_softmax(z, n, logp, p)
    if par.kron == 1:
        kron_covariance(inverse, x, n, cov)
    else:
        for k in range(n):
            for i in range(n * d):
                rows[k, i] = 0.0
            for b in range(d):
                v = x[b]
                for i in range(n * d):
                    rows[k, i] += v * inverse[k * d + b, i]
            for j in range(n):
                v = 0.0
                for b in range(d):
                    v += x[b] * rows[k, j * d + b]
                cov[j, k] = v
    rho2 = state.radius[s, a]
    if par.posterior == 1:
        c, gain = 0.5, 0.0
    else:
        c = lower_curvature(
            largest_span(cov, math.sqrt(rho2) if rho2 >= 0.0 else math.inf, z, par.weight_bound * norm, n)
        )
        gain = 0.0
        if par.predictor == UNSCENTED:
            gain = log_prediction(work, cov, y, n) - logp[y]
        elif par.predictor == GIVEN:
            gain = math.log(work.given[y]) - logp[y]
    p[y] -= 1.0  # from here on the gradient in the predictor, p - e_y
    if par.kron == 1:
        form = kron_update(par, state, work, s, a, n, y, c, x)
    else:
        form = full_update(par, state, work, s, a, n, y, c, x)
    p[y] += 1.0
    state.radius[s, a] = rho2 + form - 2.0 * gain
    if state.samples[s, a] % REFRESH == 0:
        apply_refresh(par.refresh, (precision, inverse, work.logdet, 0.0, work.square, work.column))


@inlined
def full_update(par, state, work, s, a, n, y, c, x):
    """Lambda, its inverse and W; returns ||gradient||^2 in the new inverse. work.p holds p - e_y.

    With F = diag(sqrt p) - p sqrt(p)', FF' = diag p - pp', and B = I/(2c) + F' cov F, the inverse loses
    rows' F B^{-1} F' rows (Woodbury)."""
    d, cov, grad = x.shape[0], work.cov, work.p
    B, T, q = work.shape, work.factor, work.step
    precision, inverse, rows, turned = state.precision[s, a], state.inverse[s, a], work.rows, work.turned
    mean = 0.0
    grad[y] += 1.0
    for j in range(n):
        v = 0.0
        for k in range(n):
            v += cov[j, k] * grad[k]
        q[j] = v
        mean += v * grad[j]
    for j in range(n):
        for k in range(n):
            h = -grad[j] * grad[k]
            v = math.sqrt(grad[j] * grad[k]) * (cov[j, k] - q[j] - q[k] + mean)
            if j == k:
                h += grad[j]
                v += 0.5 / c
            B[j, k] = v
            h *= 2.0 * c
            for b in range(d):
                for e in range(d):
                    precision[j * d + b, k * d + e] += h * x[b] * x[e]
    cholesky(B[:n, :n], 0.0, T[:n, :n])
    # turned = L^{-1} F' rows, one row of L at a time; F' rows = sqrt(p_k) (rows_k - sum_j p_j rows_j)
    for i in range(n * d):
        v = 0.0
        for k in range(n):
            v += grad[k] * rows[k, i]
        work.column[i] = v
    for k in range(n):
        root = math.sqrt(grad[k])
        for i in range(n * d):
            turned[k, i] = root * (rows[k, i] - work.column[i])
        for j in range(k):
            v = T[k, j]
            for i in range(n * d):
                turned[k, i] -= v * turned[j, i]
        v = 1.0 / T[k, k]
        for i in range(n * d):
            turned[k, i] *= v
    for i in range(n * d):
        for k in range(n):
            v = turned[k, i]
            for e in range(n * d):
                inverse[i, e] -= v * turned[k, e]
    grad[y] -= 1.0
    # Lambda^{-1} (gradient (x) x), from the new inverse: rows - turned' (turned' x)
    for i in range(n * d):
        v = 0.0
        for k in range(n):
            v += grad[k] * rows[k, i]
        work.column[i] = v
    for k in range(n):
        v = 0.0
        for j in range(n):
            w = 0.0
            for b in range(d):
                w += x[b] * turned[k, j * d + b]
            v += w * grad[j]
        for i in range(n * d):
            work.column[i] -= v * turned[k, i]
    form = 0.0
    for j in range(n):
        for b in range(d):
            form += grad[j] * x[b] * work.column[j * d + b]
            state.weights[s, a, j, b] -= work.column[j * d + b]
    return form


@inlined
def kron_update(par, state, work, s, a, n, y, c, x):
    """The same in the KRON form."""
    d, grad = x.shape[0], work.p
    precision, inverse = state.precision[s, a], state.inverse[s, a]
    least, square = math.inf, 0.0
    for j in range(n):
        least = min(least, grad[j] + (1.0 if j == y else 0.0))
        square += grad[j] * grad[j]
    kappa, total = 2.0 * c * least, work.cov[0, 0]
    shrink = 1.0 / (1.0 + kappa * total)
    for b in range(d):
        v = 0.0
        for e in range(d):
            v += inverse[b, e] * x[e]
        work.column[b] = v
    for b in range(d):
        for e in range(d):
            inverse[b, e] -= kappa * shrink * work.column[b] * work.column[e]
            precision[b, e] += kappa * x[b] * x[e]
    for j in range(n):
        for b in range(d):
            state.weights[s, a, j, b] -= grad[j] * shrink * work.column[b]
    return square * total * shrink
