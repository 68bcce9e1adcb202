"""The range of one pair's mean reward, on its own."""

import math

import numpy as np
from numpy.typing import ArrayLike

from ... import checks as check
from ...compiler.announcements import announced
from ...compiler.jit import direct
from ..level import FixedLevel
from ..store import empty_store, remember, with_room
from .refresh import mixture_refresh
from .sets import BERNSTEIN, FIRST, FORMS, GROWTH, Form, reward_learn, reward_ranges, reward_set_parts
from .single_mean import one_pair, seen


class RewardSet(FixedLevel):
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
    (constant memory), "ridge" (as `MeanReward`), "logistic". Formulas: `estimators.rewards.sets`."""

    def __init__(
        self,
        context_dim: int,
        reward_bound: float = 1.0,
        context_bound: float = 1.0,
        delta: float = 0.05,
        form: Form = "bernstein",
        regularization: float | None = None,
    ) -> None:
        self._level = check.positive("delta", delta, below=1.0)
        check.one_of("form", form, tuple(FORMS))
        rewards = "logistic" if form == "logistic" else "linear"
        self._problem = p = one_pair(context_dim, rewards, reward_bound, context_bound)
        self.form, d = form, p.context_dim
        parts = reward_set_parts(p, form, -math.log(self.delta), regularization)
        self._par, self._state, self._work = parts
        self._store = empty_store(1, 1, 1, d, 64 if form == "bernstein" else 0)
        self._low, self._high = np.zeros((1, 1)), np.zeros((1, 1))
        with announced(f"the estimator RewardSet, {form}"):
            self._learn = direct(reward_learn, *parts, 0, 0, 0.0, np.zeros(d), 0.0)
            self._ranges = direct(reward_ranges, *parts, np.zeros(d), 0.0, self._low, self._high)
            if self._par.form == BERNSTEIN:
                self._refresh = direct(mixture_refresh, *parts, self._store, 0, 0)

    def update(self, x: ArrayLike, reward: float) -> None:
        """Learn from one observation: context x [d], a reward."""
        x = self._problem.context(x, "x")
        r = seen(reward, self.form == "logistic")
        if self._par.form == BERNSTEIN:
            k = self.samples
            self._store = with_room(self._store, k + 1)
            self._store.contexts[k] = x
            remember(self._store, k, 0, 0, 0, 0, r)
        self._learn(self._par, self._state, self._work, 0, 0, r, x, float(np.linalg.norm(x)))
        if self._par.form == BERNSTEIN and FIRST <= self.samples >= GROWTH * self._state.refreshed[0, 0]:
            self.refresh()

    def refresh(self) -> None:
        """Go over the stored rewards once more (form "bernstein"; the others keep none): the set as it is narrows what
        each of them can say."""
        if self._par.form == BERNSTEIN:
            self._refresh(self._par, self._state, self._work, self._store, 0, 0)
            self._state.refreshed[0, 0] = self.samples

    def interval(self, x: ArrayLike) -> tuple[float, float]:
        """(low, high): bounds on the mean reward at x."""
        x = self._problem.context(x, "x")
        norm = float(np.linalg.norm(x))
        self._ranges(self._par, self._state, self._work, x, norm, self._low, self._high)
        return float(self._low[0, 0]), float(self._high[0, 0])

    @property
    def samples(self) -> int:
        return int(self._state.samples[0, 0])
