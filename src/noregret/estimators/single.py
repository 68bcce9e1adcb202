"""What the estimators of one pair share: arguments, the confidence set they keep, and what it says at a context."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import checks as check
from ..checks import Floats
from ..compiler.announcements import announced
from ..compiler.jit import direct
from ..problem.links import Constants, Link
from ..problem.problem import Problem
from ..theory import widths
from .level import Level


class Observer(Level):
    """Learns the outcomes of one pair, of which there are `n_outcomes`, at contexts of `_problem`."""

    n_outcomes: int
    _problem: Problem

    def _observation(self, x: ArrayLike, outcome: int) -> tuple[Floats, int]:
        x = self._problem.context(x, "x")
        y = check.integer("outcome", outcome, 0)
        if y >= self.n_outcomes:
            raise ValueError(f"outcome must be below n_outcomes = {self.n_outcomes}, got {check.shown(outcome)}")
        return x, y


class OnePair(Observer):
    """An estimator with a set ||W - W*||_Z^2 <= radius. Subclasses fill in `_parts` and `_step`."""

    _step: Any  # kernel (par, state, work, count, pair, y, x, norm)

    def __init__(
        self,
        link: Link,
        n_outcomes: int,
        context_dim: int,
        weight_bound: float | None = None,
        context_bound: float = 1.0,
        delta: float = 0.05,
        constants: Constants = "corrected",
        regularization: float | None = None,
    ) -> None:
        m = check.integer("n_outcomes", n_outcomes)
        check.one_of("constants", constants, ("corrected", "paper"))
        self._level = check.positive("delta", delta, below=1.0)
        # A problem of one pair checks the other arguments and the contexts.
        bound: Any = weight_bound
        self._problem = Problem(1, 1, 1, context_dim, link, context_bound, bound, reward_bound=1.0)
        self.link, self.constants, self.n_outcomes = link, constants, m
        check.memory(f"n_outcomes = {m}, context_dim = {context_dim}", 8.0 * (2 * m * context_dim + 3 * context_dim**2))
        self._count = np.full(1, m, np.int64)
        self._par, self._state, self._work = parts = self._parts(regularization)
        with announced(f"the estimator {type(self).__name__}"):
            self._learn = direct(self._step, *parts, self._count, (0, 0), 0, np.zeros(context_dim), 0.0)

    def _parts(self, regularization: float | None) -> tuple[Any, Any, Any]:
        """(par, state, work) of one pair."""
        raise NotImplementedError

    def update(self, x: ArrayLike, outcome: int) -> None:
        """Learn from one observation: context x [d], outcome in 0..m-1."""
        self._update(*self._observation(x, outcome))

    def _update(self, x: Floats, y: int) -> None:
        self._learn(self._par, self._state, self._work, self._count, (0, 0), y, x, float(np.linalg.norm(x)))

    @property
    def weights(self) -> Floats:
        """W [m, d], in the coordinates of the estimator (pinned, centred or free: `Link.coordinates_for`)."""
        return np.array(self._state.weights[0, 0])

    @property
    def gram(self) -> Floats:
        """Z [d, d]."""
        return np.array(self._state.gram[0, 0])

    @property
    def inverse(self) -> Floats:
        """Z^{-1} [d, d], as the updates keep it."""
        return np.array(self._state.inverse[0, 0])

    @property
    def logdet(self) -> float:
        """ln det Z / lambda^d."""
        return float(self._state.logdet[0, 0])

    @property
    def radius(self) -> float:
        """gamma, the squared radius at this delta. Negative: the set is empty, an assumption must be wrong."""
        log_term = self._par.log_weight[0, 0] * math.log(1.0 / self.delta)
        return float(self._state.radius[0, 0] + log_term)

    @property
    def samples(self) -> int:
        return int(self._state.samples[0, 0])

    def _predict(self, x: ArrayLike) -> tuple[Floats, float]:
        """Distribution [m] at x, and w >= ||W_hat x - W* x||_2 on the event that the set holds."""
        x = self._problem.context(x, "x")
        z, moved = (self._state.weights[0, 0] @ x)[None], np.zeros(1)
        self.link.region(self.constants)(z, self._problem.weight_bound * float(np.linalg.norm(x)), self._count, moved)
        self.link.gradient(z, self._count)
        w2 = self.radius * float(x @ self._state.inverse[0, 0] @ x)
        if self.constants == "corrected":  # Pythagoras: moving to the possible predictions only brought it nearer
            w2 -= moved[0]
        return z[0], math.sqrt(w2) if w2 >= 0.0 else math.inf  # an empty set says nothing

    def probabilities(self, x: ArrayLike) -> Floats:
        """Estimated distribution of the outcome at x, [m]."""
        return self._predict(x)[0]

    def l1_width(self, x: ArrayLike) -> float:
        """Bound on the 1-norm between the estimated and the true distribution at x, while the set holds; at most 2."""
        p, w = self._predict(x)
        if self.constants == "paper" or self.link.width != "tanh":
            return min(2.0, self.link.l1(self.n_outcomes, self.constants) * w)
        reach = self._problem.weight_bound * float(np.linalg.norm(self._problem.context(x)))
        return min(widths.logit_l1(w), widths.logit_prior_cap(p, reach))
