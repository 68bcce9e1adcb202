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

Lambda is known along the all-ones vector (lambda), so the rest is kept, m = n - 1 outcomes relative to the last one:
half of Sigma, the inverse there, and beside it what queries need of it, in their order; and the sum of the
2 c (diag p - pp') (x) xx' without its symmetric copies, the last few terms waiting beside it.
`LikelihoodState.precision` and `.inverse` are in full.
How it is learned: `estimators.likelihood_learn`.

Memory per pair: about 8 (md)^2 bytes. Cost of a step O(m (md)^2/2), of a query O((md)^2/2); KRON: O(d^2 + nd), O(d^2).
Caveat: a radius below 0 is an empty set, some assumption is wrong; the set then says nothing (rho = inf in queries).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import Floats
from .._jit import address, direct, inlined, kernel
from .._linear_algebra import refresh_address
from .._memory import room_for
from .._tiles import WIDTH, padded
from ..links import MultinomialLogit
from .kronecker import logits_at
from .likelihood_half import WAITING, fold, form_at, keep_half, products_of, renew
from .likelihood_learn import (
    GIVEN,
    PLUG_IN,
    UNSCENTED,
    kron_visit,
    likelihood_close,
    likelihood_kron,
    likelihood_open,
    likelihood_step,
    likelihood_visit,
    together,
)
from .likelihood_small import learn_lanes, room

PREDICTORS = ("plug-in", "unscented", "given")

__all__ = [
    "GIVEN",
    "PLUG_IN",
    "PREDICTORS",
    "UNSCENTED",
    "LikelihoodPar",
    "LikelihoodState",
    "LikelihoodWork",
    "form_at",
    "kron_covariance",
    "likelihood_close",
    "likelihood_cov",
    "likelihood_kron",
    "likelihood_open",
    "likelihood_parts",
    "likelihood_query",
    "likelihood_step",
    "likelihood_visit",
    "one_inverse",
    "products_of",
    "together",
]  # fmt: skip


class LikelihoodPar(NamedTuple):
    refresh: Any  # address of `refresh_inverse`
    renew: Any  # address of `likelihood_half.renew`
    learn: Any  # address of `likelihood_small.learn_lanes`
    open: Any  # addresses of `likelihood_open`, `likelihood_visit`, `likelihood_close`
    visit: Any
    close: Any
    one: Any  # address of `kron_visit`, under KRON
    predictor: int  # PLUG_IN, UNSCENTED or GIVEN
    posterior: int  # 1: c = 1/2, no set
    kron: int  # 1: the KRON form
    weight_bound: float
    regularization: float  # lambda
    size: int  # E, (M-1) d padded
    pairs: int  # J, M(M-1)/2 padded


class LikelihoodState(NamedTuple):
    """T = d(d+1)/2. Of a pair with n outcomes, m = n - 1 of the M - 1 are used."""

    weights: Floats  # [S, A, M, d], rows sum to 0
    gram: Floats  # [S, A, T J], sum of 2 c (diag p - pp') (x) xx' at b <= c, j <= k; KRON: Z, [S, A, dd]
    covariance: Floats  # half of Sigma, [S, A, about E E/2], as `likelihood_learn` has it; KRON: Z^{-1}, [S, A, dd]
    forms: Floats  # [S, A, T J], what X' Sigma X needs of Sigma, for queries; KRON: [S, A, 0]
    recent: Floats  # [S, A, WAITING (J + d + 8)], D and x of episodes that gram lacks; KRON: [S, A, 0]
    pending: NDArray[np.int64]  # [S, A], how many
    radius: Floats  # rho2, [S, A]
    samples: NDArray[np.int64]  # [S, A]
    outcomes: NDArray[np.int64]  # n, [S, A]
    prior: Floats  # lambda, [S, A]

    @property
    def precision(self) -> Floats:
        """Lambda [S, A, Md, Md], index (row j, column b) -> j d + b, the identity beyond n d; KRON: Z [S, A, d, d]."""
        return _in_full(self, _precision)

    @property
    def inverse(self) -> Floats:
        """Its inverse, likewise."""
        return _in_full(self, _inverse)


class LikelihoodWork(NamedTuple):
    """Whole groups of eight are written, so all have some to spare."""

    z: Floats  # [M padded to eight]
    logp: Floats  # [M]
    p: Floats  # [M padded to eight]
    given: Floats  # [M], the user's prediction
    step: Floats  # [M padded to eight]
    cov: Floats  # [M, M]
    factor: Floats  # [M, M]
    x: Floats  # [d], then zeros
    lanes: Floats  # small matrices of eight pairs, `likelihood_small`
    rows: Floats  # [8, ...], K' of eight pairs, rows of E
    turned: Floats  # V K' or -G K', rows of E
    products: Floats  # [WAITING, T], x_b x_c
    packed: Floats  # [8, J + 8], flat, covariances
    column: Floats  # [E]
    square: Floats  # [E E], of re-inversions; KRON: [d, d] in `squares`
    squares: Floats  # KRON: [3, d, d]
    logdet: Floats  # [1]
    used: NDArray[np.int64]  # [1], how many pairs are open
    who: NDArray[np.int64]  # [8], which: s A + a
    y: NDArray[np.int64]  # [8], outcomes to learn
    visits: NDArray[np.int64]  # [9], of each so far, and of any of them
    places: NDArray[np.int64]  # [16], of `fold`
    cursor: NDArray[np.int64]  # [8], steps of the episode where they are visited next


def likelihood_parts(
    count: NDArray[np.int64],
    context_dim: int,
    weight_bound: float,
    log_inverse_delta: float,
    regularization: float,
    predictor: int = UNSCENTED,
    posterior: bool = False,
    kron: bool = False,
    kept: bool = True,
) -> tuple[LikelihoodPar, LikelihoodState, LikelihoodWork]:
    """Parameters, initial state and scratch for one set per pair; count [S, A] is the number of outcomes. kept=False:
    a state of no pairs, where types alone matter."""
    M, d, lam, f = int(count.max()), context_dim, regularization, room_for
    count = count if kept else count[:0]
    S, A = count.shape
    norm2 = np.array(
        [0.0] + [MultinomialLogit().weight_norm2(m, weight_bound, d, "corrected") for m in range(1, M + 1)]
    )
    radius = np.ascontiguousarray(lam * norm2[count] + 2.0 * log_inverse_delta)
    E, J, T = padded((M - 1) * d), padded(M * (M - 1) // 2), d * (d + 1) // 2
    work = likelihood_work(M, d, E, J, kron)
    learn = address(learn_lanes, work.lanes, 1, 0, 0.0, 0, 0) if kept else 0
    par = LikelihoodPar(
        refresh_address(1), 0, learn, 0, 0, 0, 0, predictor, int(posterior), int(kron), weight_bound, float(lam), E, J
    )  # fmt: skip
    head, tail = f((S, A, M, d)), (radius, f((S, A), np.int64), count.astype(np.int64), np.full((S, A), float(lam)))
    none = f((S, A), np.int64)
    if kron:
        eye = np.eye(d).ravel()
        state = LikelihoodState(
            head, np.tile(lam * eye, (S, A, 1)), np.tile(eye / lam, (S, A, 1)), f((S, A, 0)), f((S, A, 0)), none, *tail
        )
    else:
        room = max(half_size(m, d) for m in range(M))
        state = LikelihoodState(
            head, f((S, A, padded(T, 4) * J)), f((S, A, room)), f((S, A, T * J)), f((S, A, WAITING * (J + d + WIDTH))),
            none, *tail,
        )  # fmt: skip
        for n in np.unique(count):
            m = int(n) - 1
            square, half = f((E, E)), f(state.covariance.shape[2])
            square[: m * d, : m * d] = np.kron(np.eye(m) + 1.0, np.eye(d)) / lam
            keep_half(square.ravel(), half, m, d, E)
            state.covariance[count == n] = half
            forms, parts = f(T * J), (m, d, J, work.places)
            direct(fold, half, *parts, forms)(half, *parts, forms)
            state.forms[count == n] = forms
    if not kept:
        return par, state, work
    par, x = par._replace(renew=address(renew, par, state, work, 1, 1, 0, 0)), f(d)
    if kron:
        return par._replace(one=address(kron_visit, par, state, work, 1, 0, 0, 0, x, 0.0)), state, work
    kernels = {
        "open": address(likelihood_open, par, state, work, 1, x, 0, work.packed),
        "visit": address(likelihood_visit, par, state, work, 1, 0.0),
        "close": address(likelihood_close, par, state, work, 1, x),
    }
    return par._replace(**kernels), state, work


def half_size(m: int, d: int) -> int:
    """Room for what is kept of Sigma [md, md], and for reading eight rows at a time."""
    at, room = 0, WIDTH
    for j in range(m):
        width = padded(m * d) - j * d // WIDTH * WIDTH
        room = max(room, at + padded(d) * width + WIDTH)
        at += d * width
    return padded(room)


def likelihood_work(M: int, d: int, E: int, J: int, kron: bool) -> LikelihoodWork:
    f, i = np.zeros, np.int64
    T, slack = padded(d * (d + 1) // 2, 4), 2 * WIDTH
    return LikelihoodWork(
        f(padded(M)), f(M), f(padded(M)), f(M), f(padded(M)), f((M, M)), f((M, M)), f(padded(d) + slack),
        f(room(max(M - 1, 1))), f((WIDTH, M * E + padded(WIDTH * d) + slack)), f((M + 1) * E + slack), f(T * WAITING),
        f(WIDTH * (J + WIDTH) + slack), f(max(E, d) + slack), f(0 if kron else E * E + slack),
        f((3, d, d) if kron else (3, 0, 0)), f(1), f(1, i), f(WIDTH, i), f(WIDTH, i), f(WIDTH + 1, i),
        f(2 * WIDTH, i), f(WIDTH, i),
    )  # fmt: skip


def one_inverse(state: LikelihoodState, s: int, a: int) -> Floats:
    """Lambda^{-1} of pair (s, a), [n, d, n, d], of centred weights; KRON: I (x) Z^{-1}, centred."""
    n, d = int(state.outcomes[s, a]), state.weights.shape[3]
    if state.gram.shape[2] == d * d:
        centring = np.eye(n) - 1.0 / n
        return np.asarray(np.einsum("jk,bc->jbkc", centring, state.covariance[s, a].reshape(d, d)))
    return _inverse(state, s, a, n, d).transpose(1, 0, 3, 2)


def _in_full(state: LikelihoodState, of: Any) -> Floats:
    S, A, M, d = state.weights.shape
    if state.gram.shape[2] == d * d:  # KRON
        return (state.gram if of is _precision else state.covariance).reshape(S, A, d, d)
    made = np.tile(np.eye(M * d), (S, A, 1, 1))
    for s, a in np.ndindex(S, A):
        n = int(state.outcomes[s, a])
        made[s, a, : n * d, : n * d] = of(state, s, a, n, d).transpose(1, 0, 3, 2).reshape(n * d, n * d)
    return made


def _precision(state: LikelihoodState, s: int, a: int, n: int, d: int) -> Floats:
    """[d, n, d, n]. A form given relative to the last outcome has that outcome's entries too: rows sum to 0."""
    T, m = d * (d + 1) // 2, n - 1
    J = state.gram.shape[2] // padded(T, 4)
    (b, c), (j, k), made = np.triu_indices(d), np.triu_indices(m), np.zeros((d, n, d, n))
    packed = state.gram[s, a].reshape(-1, J)[:T, : m * n // 2].copy()
    for waiting in state.recent[s, a].reshape(WAITING, -1)[: state.pending[s, a]]:
        x = waiting[J : J + d]
        packed += (x[b] * x[c])[:, None] * waiting[: m * n // 2]
    for i, at in enumerate(zip(b, c, strict=True)):
        for p, q in (at, at[::-1]):
            made[p, j, q, k] = made[p, k, q, j] = packed[i]
    made[:, m] = -made[:, :m].sum(1)
    made[:, :, :, m] = -made[:, :, :, :m].sum(3)
    return np.asarray(made + state.prior[s, a] * np.eye(n * d).reshape(d, n, d, n))


def _inverse(state: LikelihoodState, s: int, a: int, n: int, d: int) -> Floats:
    """[d, n, d, n]: centred, with 1/lambda along the all-ones vector."""
    m, end, at = n - 1, padded((n - 1) * d), 0
    made, square = np.zeros((d, n, d, n)), np.zeros((m, d, m * d))
    for j in range(m):
        first = j * d // WIDTH * WIDTH
        size = d * (end - first)
        block = state.covariance[s, a, at : at + size].reshape(d, end - first)
        square[j, :, j * d :] = block[:, j * d - first : m * d - first]
        at += size
    flat = square.reshape(m * d, m * d)
    flat = np.where(np.kron(np.tri(m), np.ones((d, d))) > np.kron(np.eye(m), np.ones((d, d))), flat.T, flat)
    made[:, :m, :, :m] = flat.reshape(m, d, m, d).transpose(1, 0, 3, 2)
    made -= made.mean(1, keepdims=True)
    made -= made.mean(3, keepdims=True)
    return np.asarray(made + np.kron(np.eye(d), np.full((n, n), 1.0 / (n * state.prior[s, a]))).reshape(d, n, d, n))


@inlined
def likelihood_cov(par, forms, work, n, d, norm, cov):
    """cov [n, n] <- (I (x) x') Lambda^{-1} (I (x) x), after `products_of`."""
    m, total, packed, mean = n - 1, 0.0, work.packed, work.step
    form_at(forms, work.products, m, d, par.pairs, packed, 0)
    for j in range(n):
        mean[j] = 0.0
    at, scale = 0, 1.0 / n
    for j in range(m):
        own = packed[at]
        for k in range(j + 1, m):
            v = packed[at + k - j]
            own += v
            mean[k] += v
        mean[j] += own
        at += m - j
    for j in range(m):
        mean[j] *= scale
        total += mean[j]
    at, total = 0, scale * (total + norm * norm / par.regularization)
    for j in range(m):
        for k in range(j, m):
            v = packed[at + k - j] - mean[j] - mean[k] + total
            cov[j, k] = v
            cov[k, j] = v
        at += m - j
        cov[j, m] = total - mean[j]
        cov[m, j] = total - mean[j]
    cov[m, m] = total


@inlined
def kron_covariance(inverse, x, n, cov):
    """cov [n, n] <- ||x||^2_{Z^{-1}} I."""
    total, d = 0.0, x.shape[0]
    for b in range(d):
        for c in range(d):
            total += x[b] * inverse[b * d + c] * x[c]
    for j in range(n):
        for k in range(n):
            cov[j, k] = total if j == k else 0.0


@kernel
def likelihood_query(par, state, work, n, s, a, x, norm, z, cov):
    """z [n], cov [n, n] <- the ellipsoid of logits at x; returns rho, inf where the set is empty."""
    logits_at(state.weights[s, a], x, n, z)
    if par.kron == 1:
        kron_covariance(state.covariance[s, a], x, n, cov)
    else:
        products_of(x, work.products)
        likelihood_cov(par, state.forms[s, a], work, n, x.shape[0], norm, cov)
    radius = state.radius[s, a]
    return math.sqrt(radius) if radius >= 0.0 else math.inf
