"""The stored-data set of one pair, to be used by hand: feed it observations, ask what it knows."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ... import checks as check
from ...beliefs.local import local_sets
from ...checks import Floats
from ...compiler.announcements import announced
from ...compiler.jit import direct
from ...problem.links import MultinomialLogit
from ...problem.problem import Problem
from ..level import RaisedLevel
from ..single import Observer
from ..store import empty_store, remember, with_room
from .refresh import mixture_refresh
from .sets import mixture_due, mixture_fill, mixture_parts


class MixtureSet(Observer, RaisedLevel):
    """Weights of one multinomial logit, from all its observations, within an ellipsoid (`estimators.mixture.sets`).

    >>> import noregret as nr
    >>> est = nr.estimators.MixtureSet(n_outcomes=3, context_dim=2, weight_bound=1.0)
    >>> for outcome in (2, 2, 0, 2):
    ...     est.update([0.6, 0.8], outcome)
    >>> est.samples, est.contains(est.weights)
    (4, True)

    With probability 1 - delta the set contains W* at all times together. It is made anew when the observations since
    the last time may matter (a walk over all of them); `refresh()` does it now. form "plain" is the plainer set. delta
    may be raised later; before the first observation, lowered, too: `radius`, `distance` and `contains` are about the
    new one, `logits` and widths stay those of the old."""

    def __init__(
        self,
        n_outcomes: int,
        context_dim: int,
        weight_bound: float,
        context_bound: float = 1.0,
        delta: float = 0.05,
        form: str = "mixture",
        regularization: float | None = None,
    ) -> None:
        m = check.integer("n_outcomes", n_outcomes)
        self._level = self._made_for = check.positive("delta", delta, below=1.0)
        self.link, self.constants, self.n_outcomes = MultinomialLogit(), "corrected", m
        self._problem = Problem(1, 1, 1, context_dim, self.link, context_bound, weight_bound, reward_bound=1.0)
        check.memory(f"n_outcomes = {m}, context_dim = {context_dim}", 8.0 * ((m * context_dim) ** 2 + m**2))
        d, count = self._problem.context_dim, np.full((1, 1), m, np.int64)
        bounds = self._problem.weight_bound, self._problem.context_bound
        self._store = empty_store(1, 1, 1, d, 16)
        with announced(f"the estimator {type(self).__name__}"):
            self._par, self._state, self._work = mixture_parts(count, d, *bounds, form, regularization)
            parts: Any = self._par, self._state, self._work
            self._refresh = direct(mixture_refresh, *parts, self._store, 0, 0, 1.0)
            self._due = direct(mixture_due, *parts, self._store, 0, 0, np.zeros(d))
        self._form: Floats | None = None  # E, once asked for
        self._local = local_sets(Problem(m, 1, 1, d, weight_bound=1.0, reward_bound=1.0).layout)

    def update(self, x: ArrayLike, outcome: int) -> None:
        """Learn from one observation: context x [d], outcome in 0..m-1."""
        x, y = self._observation(x, outcome)
        n = self.samples
        self._store = with_room(self._store, n + 1)
        self._store.contexts[n] = x
        remember(self._store, n, 0, 0, 0, y, -1.0)
        if self._due(self._par, self._state, self._work, self._store, 0, 0, x):
            self.refresh()

    def refresh(self) -> None:
        """Make the set from all observations now."""
        log = math.log(1.0 / self._made_for)
        self._refresh(self._par, self._state, self._work, self._store, 0, 0, log)
        self._form = None

    @property
    def weights(self) -> Floats:
        """Centre of the set, W [m, d], rows summing to 0."""
        return np.array(self._state.centre[0, 0])

    @property
    def covariance(self) -> Floats:
        """E^{-1} [m d, m d] of the ellipsoid, on centred weights; entry (row j, column b) has number j d + b."""
        return np.array(self._state.cov[0, 0])

    @property
    def inverse(self) -> Floats:
        """[d, d]: x' inverse x is the trace of the logits' covariance at x."""
        m, d = self._state.centre.shape[2:]
        return np.asarray(self.covariance.reshape(m, d, m, d)[np.arange(m), :, np.arange(m)].sum(0))

    @property
    def radius(self) -> float:
        """Squared radius. After `delta` was raised: of the same ellipsoid at that delta."""
        return float(self._state.radius[0, 0] + (self._sharper() if self.component >= 0 else 0.0))

    @property
    def component(self) -> int:
        """Number of the component the set came from (`mixture.sets`); -1 while it is only what is assumed."""
        return int(self._state.component[0, 0])

    @property
    def samples(self) -> int:
        return int(self._store.visits[0, 0])

    @property
    def empty(self) -> int:
        """Refreshes at which a set was empty: an assumption must be wrong, and the set fell back on what is assumed."""
        return int(self._state.empty[0, 0])

    def distance(self, W: ArrayLike) -> float:
        """(W - centre)' E (W - centre) for weights W [m, d], centred first; at most `radius` for members of the set."""
        W = check.array("W", W, self._state.centre.shape[2:])
        if self._form is None:
            self._form = np.asarray(np.linalg.pinv(self.covariance, hermitian=True), np.float64)
        error = (W - W.mean(0) - self.weights).ravel()
        return float(error @ self._form @ error)

    def contains(self, W: ArrayLike) -> bool:
        """Whether weights W [m, d] (in any coordinates) are in the set."""
        return self.distance(W) <= self.radius

    def logits(self, x: ArrayLike) -> tuple[Floats, Floats, float, float]:
        """At x: centre [m] and covariance [m, m] of the logits, radius rho, and a bound on how far apart two of them
        can move from the centre (`LocalSets`)."""
        x, one = self._problem.context(x, "x"), self._local
        mixture_fill(self._par, self._state, 0, 0, x, float(np.linalg.norm(x)), one)
        return one.z[0, 0].copy(), one.cov[0, 0].copy(), float(one.rho[0, 0]), float(one.span[0, 0])

    def probabilities(self, x: ArrayLike) -> Floats:
        """Distribution of the outcome at x at the centre of the set, [m]."""
        z = self.logits(x)[0]
        p = np.exp(z - z.max())
        return np.asarray(p / p.sum())

    def l1_width(self, x: ArrayLike) -> float:
        """Bound on the 1-norm between that and the true distribution, while the set holds: 2 tanh(span/4)."""
        return 2.0 * math.tanh(0.25 * self.logits(x)[3])
