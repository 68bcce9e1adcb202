"""`LikelihoodRatioSet`: the online likelihood-ratio set of one pair, to be used by hand."""

import math

import numpy as np
from numpy.typing import ArrayLike

from ... import checks as check
from ...beliefs.local import derive, local_sets, local_work
from ...checks import Floats
from ...compiler.announcements import announced
from ...compiler.jit import direct
from ...numerics.linear_algebra import LEAST_REGULARIZATION
from ...problem.layout import Layout
from ...problem.links import MultinomialLogit
from ...problem.problem import Problem
from ..level import RaisedLevel
from ..single import Observer
from .kron import learn_kron_outcome
from .sets import PREDICTORS, likelihood_parts, likelihood_query
from .visit import GIVEN, learn_outcome


class LikelihoodRatioSet(Observer, RaisedLevel):
    """What is known about W* [n_outcomes, context_dim] from outcomes y ~ softmax(W* x), one at a time.

    >>> import noregret as nr
    >>> est = nr.estimators.LikelihoodRatioSet(n_outcomes=3, context_dim=2, weight_bound=1.0)
    >>> for outcome in (2, 2, 0, 2):
    ...     est.update([0.6, 0.8], outcome)
    >>> est.samples, est.contains(est.weights), est.contains([[9.0, 9.0], [0.0, 0.0], [0.0, 0.0]])
    (4, True, False)

        ||W* - weights||^2_precision <= radius,    at all times together, with probability 1 - delta

    for any contexts, also chosen by an adversary who sees the past (`estimators.likelihood.sets`, docs/beyond.md).

    weight_bound     B_p: rows of W*, after the last one has been subtracted from all, have norm at most B_p
    delta            may be raised later; before the first observation, lowered, too
    predictor        "unscented", "plug-in", or "given": then every `update` brings its own prediction
    form             "full", or "kron" for large n_outcomes * context_dim: d x d matrices, a wider set
    regularization   lambda, at least R^2/1000: with less, rounding would make variances too small after many
                     observations. None: 4 d/B_p^2, within a few percent of the narrowest for d = 3 to 8, n = 2 to 10,
                     B_p = 1 to 4 and some thousand observations; or R^2/1000, where that is more"""

    def __init__(
        self,
        n_outcomes: int,
        context_dim: int,
        weight_bound: float,
        context_bound: float = 1.0,
        delta: float = 0.05,
        predictor: str = "unscented",
        form: str = "full",
        regularization: float | None = None,
    ) -> None:
        n = check.integer("n_outcomes", n_outcomes)
        self._level = self._made_for = check.positive("delta", delta, below=1.0)
        self.link, self.constants = MultinomialLogit(), "corrected"
        check.one_of("predictor", predictor, PREDICTORS)
        check.one_of("form", form, ("full", "kron"))
        self.problem = Problem(1, 1, 1, context_dim, self.link, context_bound, weight_bound, reward_bound=1.0)
        self.n_outcomes, self.predictor, self.form, self._problem = n, predictor, form, self.problem
        size = context_dim if form == "kron" else (n - 1) * context_dim
        check.memory(f"n_outcomes = {n}, context_dim = {context_dim}", 8.0 * (size**2 + n**2))
        self._count = np.full((1, 1), n, np.int64)
        natural = 4.0 * self.problem.context_dim / self.problem.weight_bound**2
        least = LEAST_REGULARIZATION * self.problem.context_bound**2
        lam = max(natural, least)
        if regularization is not None:
            lam = check.positive("regularization", regularization, least=least)
        self._par, self._state, self._work = parts = likelihood_parts(
            self._count, self.problem.context_dim, self.problem.weight_bound, math.log(1.0 / self.delta),
            lam, predictor=PREDICTORS.index(predictor), kron=form == "kron",
        )  # fmt: skip
        with announced("the estimator LikelihoodRatioSet"):
            learn = learn_kron_outcome if form == "kron" else learn_outcome
            self._learn = direct(learn, *parts, 0, 0, 0, np.zeros(context_dim))

    def _make_for(self, delta: float) -> None:
        self._state.radius[0, 0] += 2.0 * math.log(self._made_for / delta)
        super()._make_for(delta)

    def update(self, x: ArrayLike, outcome: int, predicted: ArrayLike | None = None) -> None:
        """Learn from one observation: context x [d], outcome in 0..n-1. Under predictor="given", `predicted` [n] is a
        distribution with no zeros that was fixed before the outcome was seen: that it was is yours to see to."""
        x, y = self._observation(x, outcome)
        if (predicted is not None) != (self.predictor == PREDICTORS[GIVEN]):
            raise ValueError('predicted must be given if and only if the set was made with predictor="given"')
        if predicted is not None:
            p = check.array("predicted", predicted, (self.n_outcomes,))
            if p.min() <= 0.0 or abs(p.sum() - 1.0) > 1e-9:
                raise ValueError("predicted must be positive and sum to 1")
            self._work.visit.given[:] = p / p.sum()
        self._learn(self._par, self._state, self._work, 0, 0, y, x)

    @property
    def weights(self) -> Floats:
        """The centre W [n, d]; rows sum to 0."""
        return np.array(self._state.weights[0, 0])

    @property
    def precision(self) -> Floats:
        """Lambda [nd, nd], index (row j, column b) -> j d + b."""
        made = np.array(self._state.precision[0, 0])
        return np.kron(np.eye(self.n_outcomes), made) if self.form == "kron" else made

    @property
    def radius(self) -> float:
        """rho^2. Negative: the set is empty, an assumption must be wrong. After `delta` was raised: of the same
        ellipsoid at that delta (not the one that delta would have led to)."""
        return float(self._state.radius[0, 0] + self._sharper())

    @property
    def inverse(self) -> Floats:
        """[d, d]: x' inverse x is the trace of the logits' covariance at x."""
        made, n, d = self._state.inverse[0, 0], self.n_outcomes, self.problem.context_dim
        if self.form == "kron":
            return np.asarray(n * made)
        return np.asarray(made.reshape(n, d, n, d)[np.arange(n), :, np.arange(n)].sum(0))

    @property
    def samples(self) -> int:
        return int(self._state.samples[0, 0])

    def distance(self, weights: ArrayLike) -> float:
        """||W' - W||^2_Lambda for other weights [n, d], centred first."""
        shape = self.n_outcomes, self.problem.context_dim
        given = check.array("weights", weights, shape)
        v = (given - given.mean(0) - self.weights).ravel()
        return float(v @ self.precision @ v)

    def contains(self, weights: ArrayLike) -> bool:
        """Whether weights [n, d] lie in the set."""
        return self.distance(weights) <= self.radius + 1e-9

    def _local(self, x: ArrayLike) -> tuple[Floats, float]:
        x, n = self.problem.context(x, "x"), self.n_outcomes
        layout = Layout(self._count, np.arange(n)[None, None], np.ones((1, 1), bool), 1)
        local, radius = local_sets(layout), self.radius
        likelihood_query(self._par, self._state, self._work, 0, 0, x)
        local.z[0, 0], local.cov[0, 0] = self._work.visit.z[:n], self._work.cov
        local.rho[0, 0] = math.sqrt(radius) if radius >= 0.0 else math.inf
        derive(local, layout, self.problem.weight_bound * float(np.linalg.norm(x)), local_work(n), 1, 1)
        return local.P[0, 0], float(2.0 * local.half[0, 0])

    def probabilities(self, x: ArrayLike) -> Floats:
        """Estimated distribution of the outcome at x, [n]."""
        return self._local(x)[0]

    def l1_width(self, x: ArrayLike) -> float:
        """Bound on the 1-norm between the estimated and the true distribution at x, while the set holds."""
        return self._local(x)[1]
