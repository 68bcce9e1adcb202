"""`Level`: delta of an estimator's set, and what may become of it once the set is there."""

import math
from typing import Any

from .. import checks as check


class Level:
    """The attribute `delta`, from 0 to 1. A set holds with probability 1 - delta for a delta that was fixed without
    looking at the data, whenever it is asked for; at which deltas it can be had depends on how it is made.

    free     radii whose data part does not depend on delta: any
    raised   sets that are used to make themselves, by their curvatures (`LikelihoodRatioSet`, `MixtureSet`): the delta
             they were made for, or a larger one. A martingale that stays below 1/delta' for delta' > delta stays below
             1/delta, so all that was derived on that event stands, and the last inequality is sharper by
             ln(delta'/delta). For a smaller delta' nothing stands: where the martingale comes between 1/delta and
             1/delta', W* may have left the set over which curvatures were taken
    fixed    the delta they were made for"""

    _level: float
    samples: Any  # observations so far

    @property
    def delta(self) -> float:
        """The set holds with probability 1 - delta (docs/beyond.md says at which others than the first)."""
        return self._level

    @delta.setter
    def delta(self, value: float) -> None:
        made = check.number(value)
        if not 0.0 < made <= 1.0:
            raise ValueError(f"delta must be a number above 0 and at most 1, got {check.shown(value)}")
        self._check_level(made)
        self._level = made

    def _check_level(self, delta: float) -> None:
        """A sentence where the set cannot be had at that delta; free, unless a subclass says otherwise."""


class RaisedLevel(Level):
    """Of sets that are used to make themselves."""

    _made_for: float

    def _check_level(self, delta: float) -> None:
        if self.samples == 0 and delta < 1.0:
            self._make_for(delta)
        elif delta < self._made_for:
            raise ValueError(
                f"delta must be at least {self._made_for:g}, for which the set was made, got {delta:g}: what it has "
                "learned so far was derived at that delta, and does not hold with a larger probability"
            )

    def _make_for(self, delta: float) -> None:
        """Begin anew at another delta: nothing was learned yet."""
        self._made_for = delta

    def _sharper(self) -> float:
        """What to add to a squared radius at the delta the set was made for."""
        return 2.0 * math.log(self._made_for / self.delta)


class FixedLevel(Level):
    def _check_level(self, delta: float) -> None:
        if delta != self._level:
            raise ValueError(
                f"delta must stay {self._level:g}, for which the set was made, got {delta:g}: make another"
            )
