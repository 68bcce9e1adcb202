"""The online likelihood-ratio set for multinomial logit outcomes: constant cost in time, no 1/alpha, nothing hidden.

State per pair, in centred coordinates (rows of W sum to 0): W [n, d], the precision Lambda [nd, nd] with its inverse,
and the squared radius rho2. At a context x, with z = W x, p = softmax(z), cov = (I (x) x') Lambda^{-1} (I (x) x):

    r   >= max v - min v for every v = (W' - W) x in the set (`beliefs.local.largest_span`),   c = g(r)
    Lambda <- Lambda + 2 c (diag p - pp') (x) xx'
    W      <- W - Lambda^{-1} (p - e_y) (x) x
    rho2   <- rho2 + ||(p - e_y) (x) x||^2_{Lambda^{-1}} - 2 ln( phat(y) / p(y) )

from Lambda = lambda I, W = 0, rho2 = lambda B_0^2 + 2 ln(1/delta). Then ||W* - W||^2_Lambda <= rho2 at all times
together with probability 1 - delta (docs/beyond.md). B_0^2 = (n - 1) B_p^2, half of B_p^2 for n = 2, is at least
||W*||^2 in these coordinates, and g(r) = (e^-r + r - 1)/r^2 (`theory.widths.lower_curvature`). phat is any distribution
fixed before y is seen; the better it predicts, the smaller the set:

    PLUG_IN    phat = p
    UNSCENTED  the mean of softmax over the 2(n-1) + 1 sigma points of N(z, cov), pinned: close to the mean over the
               posterior, which pays for n samples with (n-1) d ln n only. The default
    GIVEN      a distribution of the user's (`LikelihoodRatioSet.update`)

With c = 1/2 the same recursion is the online Laplace approximation of a posterior N(W, Lambda^{-1}): what posterior
sampling draws from, and no confidence set (as one it fails).

The KRON form (`estimators.likelihood.kron`) keeps only Z [d, d], Z <- Z + 2 c min(p) xx', and stands for I (x) Z <=
Lambda: (diag p - pp') >= min(p) on vectors that sum to 0. Memory d^2 instead of (nd)^2, wider, still free of a global
curvature constant.

Lambda is known along the all-ones vector (lambda), so the rest is kept, m = n - 1 outcomes relative to the last one
(`estimators.likelihood.precision`); `LikelihoodState.precision` and `.inverse` are in full. How it is learned:
`estimators.likelihood.visit`.

Memory per pair: about 6 (md)^2 bytes. Cost of a step O(m (md)^2), of a query O((md)^2/4); KRON: O(d^2 + nd), O(d^2).
Caveat: a radius below 0 is an empty set, some assumption is wrong; the set then says nothing (rho = inf in queries).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...checks import HUGE, TINY, Floats
from ...compiler.jit import inlined, kernel
from ...compiler.memory import room_for
from ...numerics.linear_algebra import norm_of, refresh_address
from ...problem.links import MultinomialLogit
from .kron import kron_form
from .precision import covariance_at, logits_at, packed_order, products_of, sigma_of
from .visit import UNSCENTED, VisitWork, visit_work

PREDICTORS = ("plug-in", "unscented", "given")


class LikelihoodPar(NamedTuple):
    refresh: Any  # slot of `refresh_inverse`, for the KRON form
    predictor: int  # PLUG_IN, UNSCENTED or GIVEN
    posterior: int  # 1: c = 1/2, no set
    kron: int  # 1: the KRON form
    weight_bound: float


class LikelihoodState(NamedTuple):
    """E = (M-1) d, T = d(d+1)/2, J = M(M-1)/2. A pair with n outcomes uses the first m = n - 1 of M - 1."""

    weights: Floats  # [S, A, M, d], rows sum to 0
    gram: Floats  # [S, A, T, J], as `precision` has it; KRON: Z, [S, A, d, d]
    covariance: Floats  # KRON: Z^{-1}, [S, A, d, d]; else [S, A, 0, 0]
    forms: Floats  # [S, A, T, J], of Sigma what queries need; KRON: [S, A, 0, 0]
    turns: Floats  # [S, A, d(d-1)/2, (M-1)(M-2)/2], the rest of Sigma; KRON: [S, A, 0, 0]
    radius: Floats  # rho2, [S, A]
    samples: NDArray[np.int64]  # [S, A]
    outcomes: NDArray[np.int64]  # n, [S, A]
    prior: Floats  # lambda, [S, A]
    waits: NDArray[np.int64]  # [1], 1: lambda waits for the first context (`begin_pairs`)
    loss: Floats  # sum of -ln phat(y), [S, A]

    def fixed(self) -> tuple[str, ...]:
        return ("outcomes",) if self.waits[0] else ("outcomes", "prior", "waits")

    def limits(self, problem: Any) -> dict[str, tuple[float, float]]:
        """For `agents.limits`."""
        return {"prior": (TINY, HUGE), "waits": (0, 1)}

    @property
    def precision(self) -> Floats:
        """Lambda [S, A, Md, Md], index (row j, column b) -> j d + b, the identity beyond n d; KRON: Z [S, A, d, d]."""
        return self.gram if is_kron(self) else _in_full(self, _precision)

    @property
    def inverse(self) -> Floats:
        """Its inverse, likewise."""
        return self.covariance if is_kron(self) else _in_full(self, _inverse)


class LikelihoodWork(NamedTuple):
    visit: VisitWork
    mean: Floats  # [M]
    cov: Floats  # [M, M]
    factor: Floats  # [M, M]
    products: Floats  # [T], x_b x_c
    packed: Floats  # [J]
    K: Floats  # [M-1, E], X' Sigma
    GK: Floats  # [M-1, E]
    panel: Floats  # [M-1, E], a row of blocks of K' G K
    even: Floats  # [d, J], symmetric parts of the blocks of K
    odd: Floats  # [d, J - (M-1)], the others
    above: NDArray[np.uint64]  # [J - (M-1)], places in `panel`
    below: NDArray[np.uint64]
    column: Floats  # [E], or [d]
    square: Floats  # [E, E]; KRON: [d, d]
    logdet: Floats  # [1]


def is_kron(state: LikelihoodState) -> bool:
    return bool(state.forms.shape[2] == 0)


def likelihood_parts(
    count: NDArray[np.int64],
    context_dim: int,
    weight_bound: float,
    log_inverse_delta: float,
    regularization: float,
    *,
    predictor: int = UNSCENTED,
    posterior: bool = False,
    kron: bool = False,
    kept: bool = True,
    waits: bool = False,
) -> tuple[LikelihoodPar, LikelihoodState, LikelihoodWork]:
    """Parameters, initial state and scratch for one set per pair; count [S, A] is the number of outcomes. kept=False:
    a state of no pairs, where types alone matter. waits: `begin_pairs` will be asked."""
    M, d, lam, f = int(count.max()), context_dim, float(regularization), room_for
    count = count if kept else count[:0]
    (S, A), E, T, J = count.shape, (M - 1) * d, d * (d + 1) // 2, M * (M - 1) // 2
    norm2 = np.array(
        [0.0] + [MultinomialLogit().weight_norm2(m, weight_bound, d, "corrected") for m in range(1, M + 1)]
    )
    par = LikelihoodPar(refresh_address(1), predictor, int(posterior), int(kron), weight_bound)
    eye = np.eye(d)
    if kron:
        none = f((S, A, 0, 0))
        matrices = np.tile(lam * eye, (S, A, 1, 1)), np.tile(eye / lam, (S, A, 1, 1)), none, none.copy()
    else:
        matrices = f((S, A, T, J)), f((S, A, 0, 0)), f((S, A, T, J)), f((S, A, T - d, J - M + 1))
        (b, c), starts = np.triu_indices(d), np.zeros((T, J))
        for n in np.unique(count):  # Sigma begins with (I - 11'/n)^-1 (x) I / lambda
            m = int(n) - 1
            starts[b == c, : m * n // 2] = ((np.eye(m) + 1.0) / lam)[packed_order(m)]
            matrices[2][count == n] = starts
    state = LikelihoodState(
        f((S, A, M, d)), *matrices, np.ascontiguousarray(lam * norm2[count] + 2.0 * log_inverse_delta),
        f((S, A), np.int64), count.astype(np.int64), np.full((S, A), lam), np.array([int(waits)]), f((S, A)),
    )  # fmt: skip
    size, rows = (d, 0) if kron else (E, max(M - 1, 1))
    work = LikelihoodWork(
        visit_work(M), f(M), f((M, M)), f((M, M)), f(T), f(J), f((rows, size)), f((rows, size)), f((rows, size)),
        f((d, J)), f((d, max(J - M + 1, 0))), f(J, np.uint64), f(J, np.uint64), f(size), f((size, size)), f(1),
    )  # fmt: skip
    return par, state, work


def one_inverse(state: LikelihoodState, s: int, a: int) -> Floats:
    """Lambda^{-1} of pair (s, a), [n, d, n, d], of centred weights; KRON: I (x) Z^{-1}, centred."""
    n, d = int(state.outcomes[s, a]), state.weights.shape[3]
    if is_kron(state):
        centring = np.eye(n) - 1.0 / n
        return np.asarray(np.einsum("jk,bc->jbkc", centring, state.covariance[s, a]))
    return _inverse(state, s, a, n, d)


def relative_inverse(state: LikelihoodState, s: int, a: int) -> Floats:
    """The same of weights less those of the last outcome, [m, d, m, d], as it is kept; not of the KRON form."""
    n, d = int(state.outcomes[s, a]), state.weights.shape[3]
    return sigma_of(state.forms[s, a], state.turns[s, a], n - 1, d).transpose(1, 0, 3, 2)


def _in_full(state: LikelihoodState, of: Callable[..., Floats]) -> Floats:
    S, A, M, d = state.weights.shape
    made = np.tile(np.eye(M * d), (S, A, 1, 1))
    for s, a in np.ndindex(S, A):
        n = int(state.outcomes[s, a])
        made[s, a, : n * d, : n * d] = of(state, s, a, n, d).reshape(n * d, n * d)
    return made


def _precision(state: LikelihoodState, s: int, a: int, n: int, d: int) -> Floats:
    """[n, d, n, d]. A form given relative to the last outcome has that outcome's entries too: rows sum to 0."""
    m, made = n - 1, np.zeros((n, d, n, d))
    (b, c), (j, k) = np.triu_indices(d), packed_order(m)
    for t, at in enumerate(zip(b, c, strict=True)):
        for p, q in (at, at[::-1]):
            made[j, p, k, q] = made[k, p, j, q] = state.gram[s, a, t, : m * n // 2]
    made[m] = -made[:m].sum(0)
    made[:, :, m] = -made[:, :, :m].sum(2)
    return np.asarray(made + state.prior[s, a] * np.eye(n * d).reshape(n, d, n, d))


def _inverse(state: LikelihoodState, s: int, a: int, n: int, d: int) -> Floats:
    """[n, d, n, d]: centred, with 1/lambda along the all-ones vector."""
    m, made = n - 1, np.zeros((n, d, n, d))
    made[:m, :, :m] = relative_inverse(state, s, a)
    made -= made.mean(0)
    made -= made.mean(2, keepdims=True)
    return np.asarray(made + np.einsum("jk,bc->jbkc", np.full((n, n), 1.0 / (n * state.prior[s, a])), np.eye(d)))


@kernel
def begin_pairs(par, state, root):
    """Before anything was learned: Lambda begins with at least root^2. Afterwards nothing happens."""
    if state.waits[0] == 0:
        return
    state.waits[0] = 0
    for s in range(state.samples.shape[0]):
        for a in range(state.samples.shape[1]):
            lam = max(state.prior[s, a], root * root)
            shrink = state.prior[s, a] / lam
            scaled(state.forms[s, a], shrink)
            scaled(state.covariance[s, a], shrink)
            if par.kron == 1:
                scaled(state.gram[s, a], 1.0 / shrink)
            state.prior[s, a] = lam


@inlined
def scaled(rows, factor):
    """rows [., .] times a number, in place."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            rows[i, j] *= factor


@inlined
def rho_of(state, s, a):
    """The radius of pair (s, a), inf where the set is empty."""
    rho2 = state.radius[s, a]
    return math.sqrt(rho2) if rho2 >= 0.0 else math.inf


@kernel
def likelihood_query(par, state, work, s, a, x):
    """work.visit.z [n], work.cov [n, n] <- W x, and (I (x) x') Lambda^{-1} (I (x) x) with its component along the
    all-ones vector."""
    n, cov, mean = state.outcomes[s, a], work.cov, work.mean
    logits_at(state.weights[s, a], x, n, work.visit.z)
    if par.kron == 1:
        kron_form(state.covariance[s, a], x, n, cov)
        return
    products_of(x, work.products)
    covariance_at(state.forms[s, a], work.products, n, work.packed, cov)
    total = norm_of(x) ** 2 / state.prior[s, a]
    for j in range(n):
        mean[j] = 0.0
        for k in range(n):
            mean[j] += cov[j, k] / n
        total += mean[j]
    for j in range(n):
        for k in range(n):
            cov[j, k] += total / n - mean[j] - mean[k]
