"""The mean reward of one pair, on its own: an estimate with an interval, or a range."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ... import checks as check
from ...checks import Floats
from ...compiler.announcements import announced
from ...compiler.jit import direct
from ...problem.problem import Problem
from ...theory.widths import ridge_radius
from ..level import FixedLevel, Level
from ..store import empty_store, remember, with_room
from .forms import FIRST, GROWTH, SETS, Form, SetForm, estimated, kernel_of, reward_parts
from .refresh import mixture_refresh


class OneReward(Level):
    """A form of reward learning for one pair, and one question that is asked of it."""

    _learn: Any  # compiled kernels
    _ask: Any

    def _begin(self, problem: Problem, form: Form, question: str, regularization: float | None) -> None:
        check.memory(f"context_dim = {problem.context_dim}", 24.0 * problem.context_dim**2)
        self._problem = problem
        parts = reward_parts(problem, form, -math.log(self.delta), regularization)
        self._par, self._state, self._work = parts
        with announced(f"the estimator {type(self).__name__}, {form}"):
            for name, attribute in (("learn", "_learn"), (question, "_ask")):
                function, args = kernel_of(name, *parts)
                setattr(self, attribute, direct(function, *args))
        self._first, self._second = np.zeros((1, 1)), np.zeros((1, 1))  # the answer

    def update(self, x: ArrayLike, reward: float) -> None:
        """Learn from one observation: context x [d], a reward."""
        self._update(*self._observed(x, reward))

    def _observed(self, x: ArrayLike, reward: float) -> tuple[Floats, float]:
        """The context, and the reward: from 0 to 1, or one of the two."""
        x, logistic = self._problem.context(x, "x"), self._problem.rewards == "logistic"
        r = float(reward) if isinstance(reward, bool | np.bool_) else check.number(reward)
        if not 0.0 <= r <= 1.0 or (logistic and r not in (0.0, 1.0)):
            kind = "0 or 1" if logistic else "a number from 0 to 1"
            raise ValueError(f"reward must be {kind}, got {check.shown(reward)}")
        return x, r

    def _update(self, x: Floats, reward: float) -> None:
        self._learn(self._par, self._state, self._work, 0, 0, reward, x)


class MeanReward(OneReward):
    """Rewards in [0, 1] with mean theta'x ("linear"), or 0 and 1 with mean sigma(theta'x) ("logistic").

    >>> import noregret as nr
    >>> est = nr.estimators.MeanReward(2, "logistic", reward_bound=2.0)
    >>> for _ in range(50):
    ...     est.update([0.6, 0.8], 1.0)
    >>> round(est.mean([0.6, 0.8]), 3), round(est.interval([0.6, 0.8]), 3)
    (0.876, 0.406)

    The interval holds for all contexts and at all times together with probability 1 - delta. Formulas, and the
    recommended regularization (None): `estimators.rewards.regression`, `estimators.rewards.logistic`."""

    def __init__(
        self,
        context_dim: int,
        rewards: str = "linear",
        reward_bound: float = 1.0,
        context_bound: float = 1.0,
        delta: float = 0.05,
        regularization: float | None = None,
    ) -> None:
        self._level = check.positive("delta", delta, below=1.0)
        check.one_of("rewards", rewards, ("linear", "logistic"))
        problem = one_pair(context_dim, rewards, reward_bound, context_bound)
        self._begin(problem, estimated(problem), "estimates", regularization)
        self.regularization = self._par.regularization

    @property
    def weights(self) -> Floats:
        """theta [d]."""
        return np.array(self._state.theta[0, 0])

    @property
    def gram(self) -> Floats:
        """V [d, d]."""
        return np.array(self._state.gram[0, 0])

    @property
    def inverse(self) -> Floats:
        """V^{-1} [d, d]."""
        return np.array(self._state.inverse[0, 0])

    @property
    def radius(self) -> float:
        """Squared radius of the set ||theta - theta*||_V^2 <= radius at this delta."""
        par, log = self._par, math.log(1.0 / self.delta)
        if par.logistic:
            return float(self._state.radius[0, 0]) + par.log_weight * log
        return ridge_radius(float(self._state.logdet[0, 0]), par.bound, par.regularization, log) ** 2

    def _estimate(self, x: ArrayLike) -> tuple[float, float]:
        x, mean, interval = self._problem.context(x, "x"), self._first, self._second
        bonus = np.zeros((1, 1))
        self._ask(self._par, self._state, self._work, x, math.log(1.0 / self.delta), mean, interval, bonus)
        return float(mean[0, 0]), float(interval[0, 0])

    def mean(self, x: ArrayLike) -> float:
        """Estimated mean reward at x, in [0, 1]."""
        return self._estimate(x)[0]

    def interval(self, x: ArrayLike) -> float:
        """Half-width around `mean` at x."""
        return self._estimate(x)[1]


class RewardSet(OneReward, FixedLevel):
    """Where the mean reward can be: theta'x from rewards in [0, 1], or sigma(theta'x) from rewards 0, 1 ("logistic").

    >>> import noregret as nr
    >>> rewards = nr.estimators.RewardSet(2, reward_bound=1.0)
    >>> for _ in range(200):
    ...     rewards.update([0.6, 0.8], 0.0)
    >>> low, high = rewards.interval([0.6, 0.8])
    >>> low, round(high, 3)
    (0.0, 0.085)

    The intervals hold for all contexts and at all times together with probability 1 - delta. form: "bernstein" (the
    tightest, keeps its data and goes over it when that has grown by 15%, or when `refresh` is called), "hoeffding"
    (constant memory), "ridge" (as `MeanReward`), "logistic". Formulas: `estimators.rewards.forms`."""

    def __init__(
        self,
        context_dim: int,
        reward_bound: float = 1.0,
        context_bound: float = 1.0,
        delta: float = 0.05,
        form: SetForm = "bernstein",
        regularization: float | None = None,
    ) -> None:
        self._level = check.positive("delta", delta, below=1.0)
        check.one_of("form", form, SETS)
        rewards = "logistic" if form == "logistic" else "linear"
        self._begin(one_pair(context_dim, rewards, reward_bound, context_bound), form, "ranges", regularization)
        self.form, self._keeps = form, form == "bernstein"
        self._store = empty_store(1, 1, 1, self._problem.context_dim, 64 if self._keeps else 0)
        if self._keeps:
            with announced(f"the estimator RewardSet, {form}"):
                self._refresh = direct(mixture_refresh, self._par, self._state, self._work, self._store, 0, 0)

    def _update(self, x: Floats, reward: float) -> None:
        if self._keeps:
            k = self.samples
            self._store = with_room(self._store, k + 1)
            self._store.contexts[k] = x
            remember(self._store, k, 0, 0, 0, 0, reward)
        super()._update(x, reward)
        if self._keeps and FIRST <= self.samples >= GROWTH * self._state.mixture.refreshed[0, 0]:
            self.refresh()

    def refresh(self) -> None:
        """Go over the stored rewards once more (form "bernstein"; the others keep none): the set as it is narrows what
        each of them can say."""
        if self._keeps:
            self._refresh(self._par, self._state, self._work, self._store, 0, 0)
            self._state.mixture.refreshed[0, 0] = self.samples

    def interval(self, x: ArrayLike) -> tuple[float, float]:
        """(low, high): bounds on the mean reward at x."""
        x, low, high = self._problem.context(x, "x"), self._first, self._second
        self._ask(self._par, self._state, self._work, x, low, high)
        return float(low[0, 0]), float(high[0, 0])

    @property
    def samples(self) -> int:
        return int(self._state.samples[0, 0])


def one_pair(context_dim: int, rewards: Any, reward_bound: float, context_bound: float) -> Problem:
    """A problem of one pair, for its rewards alone."""
    return Problem(
        1, 1, 1, context_dim, context_bound=context_bound, weight_bound=1.0, reward_bound=reward_bound, rewards=rewards
    )
