"""Ridge regression of the outcome indicators under the linear link, with a 1-norm width from a union over outcome sets.

Model: y ~ W* x, x in the simplex, the columns of W* distributions over n outcomes. Ridge started from the uniform
distribution, and its prediction:

    Z = lambda I + sum x x',   W = (lambda/n 1 1' + sum e_y x') Z^{-1},   P_hat = W x projected on the simplex

With probability 1 - delta, for all times and all x of the simplex at once,

    1/2 ||P_hat - W* x||_1  <=  (1 - 1/n) max(p, m) + 1/n min(p, m)  +  1/2 sqrt(ln det Z/lambda^d + 2 L) ||x||_{Z^{-1}}

    b = lambda Z^{-1} x,  p = sum max(b_j, 0),  m = sum max(-b_j, 0),      L = ln((2^{n-1} - 1)/delta)

and never more than 1 - min_j P_hat_j. The first two terms are what starting from the uniform distribution can cost; the
last is what chance can do to the n outcomes, taken together in all 2^{n-1} - 1 ways to split them in two. The proof is
in docs/beyond.md. Contexts and actions may depend on everything seen before.

A step costs O(n d + d^2), a width O(n d + d^2) per pair, memory is constant in time. The inverse, and W with it, are
recomputed now and then. Caveat: contexts outside the simplex void the set; a `Problem` refuses them.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ... import checks as check
from ...beliefs.local import LocalSets, local_sets
from ...checks import Floats
from ...compiler.jit import inlined, kernel, merged
from ...numerics.linear_algebra import least_regularization, predictors, rank_one, refresh_address, times
from ...problem.layout import Layout
from ...problem.links import LinearCombination, apply_projection
from ..gram import count_and_refresh, first_grams, stable
from ..level import FixedLevel
from ..single import OnePair

REGULARIZATION = 2.0  # within 2% of the best sum of widths for d = 1 to 16, n = 3 to 20, up to 10^4 observations
SLACK = 1e-9  # contexts may miss the simplex by so much, and widths are larger by so much


class SignUnionPar(NamedTuple):
    region: Any  # slot of the projection on the simplex
    refresh: Any  # slot of `refresh_inverse`
    regularization: float
    log: Floats  # [S, A], L = ln((2^{n-1} - 1)/delta) of each pair


class SignUnionState(NamedTuple):
    weights: Floats  # W, [S, A, M, d]
    gram: Floats  # Z, [S, A, d, d]
    inverse: Floats  # Z^{-1}
    logdet: Floats  # ln det Z / lambda^d, [S, A]
    moment: Floats  # lambda/n 1 1' + sum e_y x', [S, A, M, d]
    samples: NDArray[np.int64]  # [S, A]


class SignUnionWork(NamedTuple):
    z: Floats  # [M]
    zx: Floats  # [d]
    factor: Floats  # [d, d]
    moved: Floats  # [S * A]


def log_splits(n_outcomes: int) -> float:
    """ln(2^{n-1} - 1): in how many ways n outcomes fall into two sets, neither empty; 0 for one outcome, where nothing
    need be split."""
    n = n_outcomes - 1
    return n * math.log(2.0) + math.log1p(-(2.0**-n)) if n > 0 else 0.0


def sign_union_parts(
    count: NDArray[np.int64], context_dim: int, regularization: float | None, log_confidence: ArrayLike
) -> tuple[SignUnionPar, SignUnionState, SignUnionWork]:
    """Parameters, initial state and scratch for one estimator per pair; count [S, A] is the number of outcomes,
    log_confidence ln(1/delta) of each pair's set, a number or [S, A]."""
    (S, A), M, d, f = count.shape, int(count.max()), context_dim, np.zeros
    lam = stable(regularization, REGULARIZATION, least_regularization(1.0, 1.0, context_dim))
    splits = np.zeros(M + 1)
    for n in np.unique(count):
        splits[n] = log_splits(int(n))
    log = np.ascontiguousarray(np.broadcast_to(np.asarray(log_confidence, np.float64), (S, A)) + splits[count])
    weights = np.repeat((1.0 / np.maximum(count, 1.0))[..., None, None], d, axis=3) * np.ones((M, 1))
    weights[np.arange(M) >= count[..., None]] = 0.0
    where = LinearCombination().region_address("corrected"), refresh_address(d)
    grams = first_grams(lam, (S, A), d)
    state = SignUnionState(weights, *grams, f((S, A)), lam * weights, np.zeros((S, A), np.int64))
    return SignUnionPar(*where, lam, log), state, SignUnionWork(f(M), f(d), f((d, d)), f(S * A))


@inlined
def sign_union_step(par, state, work, count, pair, y, x, norm):
    """Learn that pair (s, a), with count[0] outcomes, was followed by its outcome y at context x. norm is not needed;
    the arguments are those of `newton_step`."""
    (s, a), d, z, zx = pair, x.shape[0], work.z, work.zx
    W, inverse, moment = state.weights[s, a], state.inverse[s, a], state.moment[s, a]
    times(W, x, z)
    times(inverse, x, zx)
    q = 0.0
    for b in range(d):
        q += zx[b] * x[b]
        moment[y, b] += x[b]
    rank_one(state.gram[s, a], inverse, state.logdet[s, a : a + 1], x, zx, q, 1.0)
    shrink = 1.0 / (1.0 + q)
    z[y] -= 1.0
    for j in range(count[0]):
        v = z[j] * shrink
        for b in range(d):
            W[j, b] -= v * zx[b]
    if count_and_refresh(par, state, s, a, work.factor, zx):
        for j in range(count[0]):
            times(inverse, moment[j], W[j])


@kernel
def sign_union_sets(par, state, work, layout, x, sets):
    """sets <- P_hat and half the 1-norm width of every pair at context x; no ellipsoid: rho and span inf, z and second
    0 (cov, low and high are left alone)."""
    rows, count, inverse = merged(sets.P), merged(layout.count), merged(state.inverse)
    predictors(merged(state.weights), x, rows)
    apply_projection(par.region, (rows, 0.0, count, work.moved))
    log, logdet, half = merged(par.log), merged(state.logdet), merged(sets.half)
    rho, span, second, centre = merged(sets.rho), merged(sets.span), merged(sets.second), merged(sets.z)
    zx, lam = work.zx, par.regularization
    for i in range(rows.shape[0]):
        rho[i], second[i], span[i], half[i] = math.inf, 0.0, math.inf, 0.0
        for j in range(rows.shape[1]):
            centre[i, j] = 0.0
        n = count[i]
        if n > 1:
            times(inverse[i], x, zx)
            q, plus, minus, least = 0.0, 0.0, 0.0, 1.0
            for b in range(zx.shape[0]):
                q += zx[b] * x[b]
                plus += max(zx[b], 0.0)
                minus += max(-zx[b], 0.0)
            for j in range(n):
                least = min(least, rows[i, j])
            if not q >= 0.0:
                raise ValueError("a Gram matrix is no longer positive definite: a context or a bound is out of range")
            start = lam * (max(plus, minus) * (1.0 - 1.0 / n) + min(plus, minus) / n)
            noise = 0.5 * math.sqrt(max(logdet[i], 0.0) + 2.0 * log[i]) * math.sqrt(q)
            half[i] = min(min(start + noise, 1.0 - least) + SLACK, 1.0)


class SignUnionSet(FixedLevel, OnePair):
    """The set of one pair on its own. Contexts are points of the simplex.

    >>> import noregret as nr
    >>> est = nr.estimators.SignUnionSet(n_outcomes=3, context_dim=2)
    >>> for _ in range(500):
    ...     est.update([0.5, 0.5], 2)
    >>> est.probabilities([0.5, 0.5]).round(3).tolist()
    [0.003, 0.003, 0.995]
    >>> round(est.l1_width([0.5, 0.5]), 3), round(est.l1_width([1.0, 0.0]), 3)
    (0.171, 1.995)

    regularization=None takes REGULARIZATION."""

    _step = staticmethod(sign_union_step)

    def __init__(
        self, n_outcomes: int, context_dim: int, delta: float = 0.05, regularization: float | None = None
    ) -> None:
        check.memory(f"n_outcomes = {check.integer('n_outcomes', n_outcomes)}", 32.0 * float(n_outcomes) ** 2)
        super().__init__(LinearCombination(), n_outcomes, context_dim, delta=delta, regularization=regularization)
        n = self.n_outcomes
        layout = Layout(self._count[None], np.arange(n)[None, None], np.ones((1, 1), bool), 1)
        self._sets, self._layout = local_sets(layout), layout

    def _parts(self, regularization: float | None) -> tuple[SignUnionPar, SignUnionState, SignUnionWork]:
        d, log = self._problem.context_dim, math.log(1.0 / self.delta)
        return sign_union_parts(self._count[None], d, regularization, log)

    @property
    def radius(self) -> float:
        """Squared Z^{-1}-norm within which the noise of every set of outcomes stays: 1/4 (ln det Z/lambda^d + 2 L)."""
        return 0.25 * (self.logdet + 2.0 * float(self._par.log[0, 0]))

    def _at(self, x: ArrayLike) -> LocalSets:
        sign_union_sets(self._par, self._state, self._work, self._layout, self._problem.context(x, "x"), self._sets)
        return self._sets

    def probabilities(self, x: ArrayLike) -> Floats:
        """Estimated distribution of the outcome at x, [n]."""
        return np.array(self._at(x).P[0, 0])

    def l1_width(self, x: ArrayLike) -> float:
        """Bound on the 1-norm between the estimated and the true distribution at x, while the set holds."""
        return 2.0 * float(self._at(x).half[0, 0])
