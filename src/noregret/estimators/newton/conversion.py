"""From an online learner to a confidence set (Modi and Tewari 2020, section 6; after Abbasi-Yadkori et al. 2012).

A learner predicts u_t, the linear predictors at x_t, before it sees the outcome y_t. If its regret against W* in the
losses l_t(u) = Phi(u) - <y_t, u> is at most B_t, the predictions were close to W* x_t, and regressing them on the
contexts gives a set around W*. With alpha_t the curvature at ||x_t||, W_1 the start and u'_t = u_t - W_1 x_t:

    Z = lambda I + sum alpha_i x_i x_i',   U = sum alpha_i u'_i x_i',   centre W_1 + U Z^{-1}
    ||W* - centre||_Z^2 <= c B_t + log_weight ln(1/delta) + lambda B_0^2 - (sum alpha_i ||u'_i||^2 - <U Z^{-1}, U>)

for all t with probability 1 - delta (`theory.radii.conversion_weights`; proof in docs/theory.md). B_t comes from
hindsight, whatever the learner: by strong convexity no W in a known convex set K that contains W* does better than

    q(W) = sum <a_i, (W - W_1) x_i - u'_i> + alpha_i/2 ||(W - W_1) x_i - u'_i||^2,   a_i = grad Phi(u_i) - y_i
    B_t = -q(W) + max_{V in K} <grad q(W), W - V>        at any W: the second term is the Frank-Wolfe gap

q is a quadratic whose coefficients are sums over the past, so nothing depends on t. K is the Frobenius ball of radius
B_0, or the (2,1)-ball { sum over columns ||W_j|| <= group_bound } for weights with few relevant columns.

Learners (`LEARNERS`):

    ons      online Newton step with kappa = alpha, moved to the possible predictions before each use
    ftrl     follow the regularised leader: W_t minimises q + lambda/2 ||W - W_1||^2
    sparse   follow the leader over the (2,1)-ball, by a few accelerated projected-gradient steps per observation
    given    predictions come from outside (`Conversion` with an object)

The first two need O(m d^2) a step. Caveat: no efficient learner is known to have regret of the order of the number of
relevant columns; `sparse` is measured, not proved, to be better where weights are sparse. Its set is valid anyway.
"""

import math
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ... import checks as check
from ...checks import Floats
from ...compiler.jit import inlined, kernel
from ...compiler.slots import EMPTY
from ...numerics.linear_algebra import dot, rank_one, times
from ...problem.layout import slot_of
from ...problem.links import LinearCombination, Link, MultinomialLogit, apply_gradient, apply_projection
from ...theory import radii
from ...theory.constants import logit_alpha_centred
from ..gram import count_and_refresh
from ..single import OnePair
from .group_ball import apply_group_descent, group_address
from .hindsight import ExactHindsight
from .online_newton import SLACK, THEOREM_A, default_regularization, newton_parts

ONS, FTRL, SPARSE, GIVEN = 0, 1, 2, 3
LEARNERS = ("ons", "ftrl", "sparse")
_FAR = 1e6


class ConversionPar(NamedTuple):
    """The fields of `NewtonPar` that beliefs read, and the learner's."""

    gradient: Any  # slot of the link's gradient
    region: Any  # slot of the link's projection
    refresh: Any  # slot of `refresh_inverse`
    descend: Any  # slot of `group_descent`, for SPARSE
    learner: int
    form: int  # THEOREM_A: alpha varies with ||x||
    pinned: int
    centred: int
    regularization: float
    weight_bound: float
    context_bound: float
    group_bound: float  # 0: K is the Frobenius ball
    regret_weight: float  # c
    alpha: Floats  # [S, A], at the bound B_p R
    kappa: Floats  # the same: the coefficient of x x' in Z
    norm2: Floats  # [S, A], bound on ||W* - W_1||_F^2
    log_weight: Floats  # [S, A], coefficient of ln(1/delta) in the radius
    start: Floats  # [S, A], every entry of W_1


class ConversionState(NamedTuple):
    """The first six as in `NewtonState`: to the beliefs one set is like another."""

    weights: Floats  # the centre, [S, A, M, d]
    gram: Floats  # Z, [S, A, d, d]
    inverse: Floats
    logdet: Floats
    radius: Floats  # without its ln(1/delta) term, [S, A]
    samples: NDArray[np.int64]
    iterate: Floats  # the learner's W_t - W_1, [S, A, M, d]
    moment: Floats  # U
    slope: Floats  # linear coefficients of q: sum (a_i - alpha_i u'_i) x_i', [S, A, M, d]
    totals: Floats  # [S, A, 3]: the constant of q, sum alpha_i ||u'_i||^2, and B_t


class ConversionWork(NamedTuple):
    z: Floats  # [1, M]
    before: Floats  # [M]
    moved: Floats  # [1]
    zx: Floats  # [d]
    factor: Floats  # [d, d]
    target: Floats  # [d]
    point: Floats  # [M, d], where q is looked at
    pull: Floats  # [M, d], its gradient there
    spare: Floats  # [2, M, d]
    columns: Floats  # [d]


def conversion_parts(
    link: Link,
    count: NDArray[np.int64],
    context_dim: int,
    weight_bound: float,
    context_bound: float,
    regularization: float | None,
    learner: int,
    group_bound: float | None,
) -> tuple[ConversionPar, ConversionState, ConversionWork]:
    """As `newton_parts`, with the corrected constants."""
    (S, A), M, d, f = count.shape, int(count.max()), context_dim, np.zeros
    if learner == SPARSE and group_bound is None:
        raise ValueError('group_bound must be given with learner "sparse": a bound on the sum of the columns\' norms')
    if isinstance(group_bound, str):
        raise ValueError(f"group_bound must be a positive number, got {check.shown(group_bound)}")
    group = 0.0 if group_bound is None else check.positive("group_bound", group_bound, least=1e-9)

    def newton(lam: float | None) -> Any:
        return newton_parts(link, count, d, weight_bound, context_bound, "corrected", lam)

    par, _, _ = newton(regularization)
    norm2 = np.minimum(par.norm2, group * group) if group > 0.0 else par.norm2
    if regularization is None:
        regularization = default_regularization(par.form, d, float(par.alpha.min()), float(norm2.max()))
    par, state, work = newton(regularization)
    if par.form == THEOREM_A:
        weight, log_weight = radii.conversion_weights_logit(SLACK)
        logs = np.full((S, A), log_weight)
    else:
        weight, _ = radii.conversion_weights(1.0)
        logs = np.array([[radii.conversion_weights(alpha)[1] for alpha in row] for row in par.alpha])
    descend = group_address(M, d) if learner == SPARSE else EMPTY
    made = ConversionPar(
        par.gradient, par.region, par.refresh, descend, learner, par.form, par.pinned, par.centred, par.regularization,
        weight_bound, context_bound, group, weight, par.alpha, par.alpha, norm2, logs, state.weights.max((2, 3)),
    )  # fmt: skip
    radius = par.regularization * norm2
    cubes = f((S, A, M, d)), f((S, A, M, d)), f((S, A, M, d))
    grams = state.gram, state.inverse, state.logdet
    begun = ConversionState(state.weights, *grams, radius, state.samples, *cubes, f((S, A, 3)))
    scratch = work.z, work.before, work.moved, work.zx, work.factor, work.target
    return made, begun, ConversionWork(*scratch, f((M, d)), f((M, d)), f((2, M, d)), f(d))


@kernel
def conversion_step(par, state, work, count, pair, y, x, norm):
    """Learn that pair (s, a), with count[0] outcomes, was followed by its outcome y at context x; norm = ||x||.

    Under GIVEN, work.z[0] holds the prediction."""
    (s, a), d, live = pair, x.shape[0], count[0]
    W, U, N = state.iterate[s, a], state.moment[s, a], state.slope[s, a]
    inverse, totals = state.inverse[s, a], state.totals[s, a]
    rows = live - par.pinned
    z, before, zx = work.z, work.before, work.zx
    shift = 0.0
    for b in range(d):
        shift += par.start[s, a] * x[b]
    if par.learner != GIVEN:
        times(W, x, z[0])
        for j in range(live):
            z[0, j] += shift
    times(inverse, x, zx)
    q = dot(zx, x)
    for j in range(live):
        before[j] = z[0, j]
    apply_projection(par.region, (z, par.weight_bound * norm, count, work.moved))
    if par.learner == ONS and work.moved[0] > 0.0 and q > 0.0:
        for j in range(rows):
            for b in range(d):
                W[j, b] += (z[0, j] - before[j]) / q * zx[b]
    for j in range(live):
        before[j] = z[0, j] - shift  # u'
    apply_gradient(par.gradient, (z, count))
    z[0, y] -= 1.0  # a
    alpha = par.alpha[s, a]
    if par.form == THEOREM_A and norm < par.context_bound * (1.0 - 1e-12):
        alpha = logit_alpha_centred(live, par.weight_bound * norm)
    for j in range(rows):
        u, v = before[j], z[0, j]
        totals[0] += 0.5 * alpha * u * u - v * u
        totals[1] += alpha * u * u
        for b in range(d):
            U[j, b] += alpha * u * x[b]
            N[j, b] += (v - alpha * u) * x[b]
    rank_one(state.gram[s, a], inverse, state.logdet[s, a : a + 1], x, zx, q, alpha)
    if par.learner == ONS:
        for j in range(rows):
            for b in range(d):
                W[j, b] -= z[0, j] / (1.0 + alpha * q) * zx[b]
    count_and_refresh(par, state, s, a, work.factor, work.target)
    point = work.point
    if par.learner == SPARSE:
        quadratic = state.gram[s, a], par.regularization, N
        apply_group_descent(par.descend, (*quadratic, par.group_bound, W, work.pull, work.spare, work.columns))
        point = W
    else:
        products(N, inverse, -1.0, point)
        if par.learner == FTRL:
            for j in range(rows):
                for b in range(d):
                    W[j, b] = point[j, b]
    totals[2] = hindsight(par, state, work, s, a, point)
    centre = state.weights[s, a]
    products(U, inverse, 1.0, centre)
    inner = 0.0
    for j in range(rows):
        for b in range(d):
            inner += centre[j, b] * U[j, b]
            centre[j, b] += par.start[s, a]
    spread = par.regularization * par.norm2[s, a] - (totals[1] - inner)
    state.radius[s, a] = par.regret_weight * totals[2] + spread


@kernel
def conversion_learn(par, state, work, layout, x, norm, n, path):
    """The n steps of an episode."""
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        y = slot_of(layout, s, a, path.states[h + 1])
        conversion_step(par, state, work, layout.count[s, a : a + 1], (s, a), y, x, norm)


@inlined
def products(left, matrix, scale, out):
    """out = scale left [m, d] matrix [d, d], the matrix symmetric."""
    m, d = left.shape
    for j in range(m):
        for b in range(d):
            total = 0.0
            for c in range(d):
                total += left[j, c] * matrix[b, c]
            out[j, b] = scale * total


@inlined
def hindsight(par, state, work, s, a, point):
    """B_t = -q + gap at `point` [m, d], with q of curvature gram - regularization I and linear part `slope`."""
    m, d = point.shape
    pull, columns, slope = work.pull, work.columns, state.slope[s, a]
    products(point, state.gram[s, a], 1.0, pull)
    value, along, size = state.totals[s, a, 0], 0.0, 0.0
    columns[:] = 0.0
    for j in range(m):
        for b in range(d):
            g = pull[j, b] - par.regularization * point[j, b] + slope[j, b]
            value += 0.5 * point[j, b] * (g + slope[j, b])
            along += point[j, b] * g
            size += g * g
            columns[b] += g * g
    dual = math.sqrt(par.norm2[s, a] * size)
    if par.group_bound > 0.0:
        steepest = 0.0
        for b in range(d):
            steepest = max(steepest, columns[b])
        dual = min(dual, par.group_bound * math.sqrt(steepest))
    return along + dual - value


class Learner(Protocol):
    """What `Conversion` asks of a learner of yours: linear predictors [m] at x before the outcome is seen, then the
    outcome."""

    def predict(self, x: Floats) -> ArrayLike: ...

    def update(self, x: Floats, outcome: int) -> None: ...


class Conversion(OnePair):
    """A confidence set from any online learner, with the interface of `OnlineNewton`.

    learner        "ons", "ftrl", "sparse", or an object with predict(x) -> [m], linear predictors, and
                   update(x, outcome). Its predictions are projected on the possible ones
    group_bound    bound on the sum of the 2-norms of the columns of W* - W_1, in the estimator's coordinates (the
                   logit's are centred): needed by "sparse", used by hindsight with every learner
    hindsight      "quadratic": constant cost, as at the top of this module. "exact": keeps the data and bounds the best
                   loss in hindsight itself, at a cost that grows with it; never a larger set

    `weights` and `probabilities` are those of the set's centre, which shrinks towards W_1 and may be a worse estimate
    than the learner's own. Where no prediction has to be projected, "ons" and "ftrl" are the same learner.

    >>> import noregret as nr
    >>> est = nr.estimators.Conversion(nr.MultinomialLogit(), 3, 2, weight_bound=1.0, learner="ftrl")
    >>> est.update([0.6, 0.8], 2)
    >>> est.samples, round(est.regret_bound, 3)
    (1, 1.147)
    """

    _step = staticmethod(conversion_step)

    def __init__(
        self,
        link: Link,
        n_outcomes: int,
        context_dim: int,
        weight_bound: float | None = None,
        context_bound: float = 1.0,
        delta: float = 0.05,
        learner: str | Learner = "ons",
        *,
        group_bound: float | None = None,
        regularization: float | None = None,
        hindsight: str = "quadratic",
    ) -> None:
        check.one_of("hindsight", hindsight, ("quadratic", "exact"))
        if hindsight == "exact" and not isinstance(link, MultinomialLogit | LinearCombination):
            raise ValueError(f'hindsight must be "quadratic" with {link!r}: the losses of an own link are not known')
        self._given: Any = None
        if isinstance(learner, str):
            number = LEARNERS.index(check.one_of("learner", learner, LEARNERS))
        elif not isinstance(learner, type) and hasattr(learner, "predict") and hasattr(learner, "update"):
            number, self._given = GIVEN, learner
        else:
            raise ValueError(
                f"learner must be one of {', '.join(LEARNERS)} or an object with predict and update, got "
                f"{check.shown(learner)}"
            )
        self._learner = number, group_bound
        super().__init__(
            link, n_outcomes, context_dim, weight_bound, context_bound, delta, regularization=regularization
        )
        self._exact = None if hindsight == "quadratic" else ExactHindsight(link, self._par, self._count)

    def _parts(self, regularization: float | None) -> tuple[ConversionPar, ConversionState, ConversionWork]:
        p = self._problem
        head = self.link, self._count[None], p.context_dim, p.weight_bound, p.context_bound
        return conversion_parts(*head, regularization, *self._learner)

    def update(self, x: ArrayLike, outcome: int) -> None:
        x, y = self._observation(x, outcome)
        if self._given is not None:
            self._work.z[0] = self._shifted(self._given.predict(x.copy()))
        if self._exact is not None:
            self._exact.observe(x, y, self._prediction(x))
        self._update(x, y)
        if self._given is not None:
            self._given.update(x.copy(), y)

    def _shifted(self, prediction: ArrayLike) -> Floats:
        """A learner's own predictors in the estimator's coordinates: a shift of all of them changes no probability.

        What lies absurdly far out is brought near enough for the projection on the possible ones to be accurate."""
        z = np.clip(check.array("learner.predict(x)", prediction, (self.n_outcomes,)), -_FAR, _FAR)
        if self._par.centred or self._par.pinned:
            z -= z.mean() if self._par.centred else z[-1]
        return z

    def _prediction(self, x: Floats) -> Floats:
        """u [m], the learner's possible prediction at x."""
        z = self._work.z.copy()
        if self._given is None:
            z[0] = self._state.iterate[0, 0] @ x + self._par.start[0, 0] * x.sum()
        bound = self._problem.weight_bound * float(np.linalg.norm(x))
        self.link.region("corrected")(z, bound, self._count, np.zeros(1))
        return np.asarray(z[0])

    @property
    def regret_bound(self) -> float:
        """B_t: no weights in the Frobenius (or group) ball had a total loss smaller by more than this than the
        learner's."""
        quadratic = float(self._state.totals[0, 0, 2])
        return quadratic if self._exact is None else min(quadratic, self._exact.regret_bound())

    @property
    def radius(self) -> float:
        """The squared radius at this delta. Negative: the set is empty, an assumption must be wrong."""
        quadratic = float(self._state.totals[0, 0, 2])
        return super().radius + float(self._par.regret_weight) * (self.regret_bound - quadratic)
