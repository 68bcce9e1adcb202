"""The mean reward of one pair, on its own."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ... import checks as check
from ...checks import Floats
from ...compiler.announcements import announced
from ...compiler.jit import direct
from ...numerics.linear_algebra import refresh_address
from ...problem.problem import Problem
from ...theory import widths
from ..level import Level
from .means import logistic_step, reward_parts, ridge_step


def one_pair(context_dim: int, rewards: Any, reward_bound: float, context_bound: float) -> Problem:
    """A problem of one pair, for its rewards alone."""
    made = Problem(
        1, 1, 1, context_dim, context_bound=context_bound, weight_bound=1.0, reward_bound=reward_bound, rewards=rewards
    )
    check.memory(f"context_dim = {made.context_dim}", 24.0 * made.context_dim**2)
    return made


def seen(reward: Any, logistic: bool) -> float:
    """The reward, from 0 to 1, or one of the two."""
    r = float(reward) if isinstance(reward, bool | np.bool_) else check.number(reward)
    if not 0.0 <= r <= 1.0 or (logistic and r not in (0.0, 1.0)):
        kind = "0 or 1" if logistic else "a number from 0 to 1"
        raise ValueError(f"reward must be {kind}, got {check.shown(reward)}")
    return r


class MeanReward(Level):
    """Rewards in [0, 1] with mean theta'x ("linear"), or 0 and 1 with mean sigma(theta'x) ("logistic").

    >>> import noregret as nr
    >>> est = nr.estimators.MeanReward(2, "logistic", reward_bound=2.0)
    >>> for _ in range(50):
    ...     est.update([0.6, 0.8], 1.0)
    >>> round(est.mean([0.6, 0.8]), 3), round(est.interval([0.6, 0.8]), 3)
    (0.876, 0.406)

    The interval holds for all contexts and at all times together with probability 1 - delta. Formulas, costs and the
    recommended regularization (None): `estimators.rewards.means`."""

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
        self._problem = p = one_pair(context_dim, rewards, reward_bound, context_bound)
        self._par, self._state, self.regularization = reward_parts(p, "corrected", regularization, "regularization")
        d = p.context_dim
        self._logistic, self._refresh = rewards == "logistic", refresh_address(d)
        self._scratch = np.zeros(d), np.zeros((d, d))
        with announced(f"the estimator MeanReward, {rewards}"):
            x, head = np.zeros(d), (self._state, self._refresh, 0.0)
            where = 0, 0, 0.0, x, *self._scratch
            if self._logistic:
                self._learn = direct(logistic_step, *head, 0.0, *where)
            else:
                self._learn = direct(ridge_step, *head, *where)

    def _bound(self, x: Floats) -> float:
        return self._problem.reward_bound * float(np.linalg.norm(x))

    def update(self, x: ArrayLike, reward: float) -> None:
        """Learn from one observation: context x [d], a reward."""
        x = self._problem.context(x, "x")
        r = seen(reward, self._logistic)
        bound = (self._bound(x),) if self._logistic else ()
        self._learn(self._state, self._refresh, self._par.start, *bound, 0, 0, r, x, *self._scratch)

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
        growth, log = float(self._state.growth[0, 0]), math.log(1.0 / self.delta)
        if self._logistic:
            return growth + self._par.log_weight * log
        prior = math.sqrt(self.regularization) * self._problem.reward_bound
        return (prior + 0.5 * math.sqrt(2.0 * log + growth)) ** 2

    def mean(self, x: ArrayLike) -> float:
        """Estimated mean reward at x, in [0, 1]."""
        x = self._problem.context(x, "x")
        z, bound = float(self.weights @ x), self._bound(x)
        return widths.sigma(min(max(z, -bound), bound)) if self._logistic else min(max(z, 0.0), 1.0)

    def interval(self, x: ArrayLike) -> float:
        """Half-width around `mean` at x."""
        x = self._problem.context(x, "x")
        w2 = self.radius * float(x @ self.inverse @ x)
        if not self._logistic:
            return min(1.0, math.sqrt(w2))
        z, bound = float(self.weights @ x), self._bound(x)
        v = min(max(z, -bound), bound)
        w2 -= (v - z) ** 2
        return widths.logistic_interval(math.sqrt(w2) if w2 >= 0.0 else math.inf, v, bound)
