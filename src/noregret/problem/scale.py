"""The units of rewards: what users tell and are told is in theirs, all that is learned and planned is in [0, 1].

A problem with rewards from low to high has unit = high - low and offset = low/unit. Inside

    r' = (r - low)/unit,    so that mean' = theta'x/unit - offset, and V'_h = (V_h - low (H - h))/unit

Estimators of linear means know the offset (`estimators.rewards.forms`). Everybody else sees rewards in [0, 1], values
in [0, H - h], and differences of values, certificates among them, over the unit. With (0, 1) nothing changes, to the
bit.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from .. import checks as check
from ..checks import Floats

_FARTHEST = 1e6  # a range that is farther from 0 than so many of its lengths leaves too few digits
_LEAST, _LARGEST = 1e-12, 1e12  # of unit


class RewardScale(NamedTuple):
    """Rewards from low to high.

    >>> scale = RewardScale(-1.0, 3.0)
    >>> scale.unit, scale.offset, scale.inside(1.0), scale.outside(0.5)
    (4.0, -0.25, 0.5, 1.0)
    >>> scale.values(np.array([[1.5], [0.0]]))[0].item()  # one step to go
    5.0
    """

    low: float = 0.0
    high: float = 1.0

    @property
    def unit(self) -> float:
        return self.high - self.low

    @property
    def offset(self) -> float:
        return self.low / self.unit

    @property
    def plain(self) -> bool:
        """Whether rewards are in [0, 1] as they come."""
        return self.low == 0.0 and self.high == 1.0

    def reward(self, value: Any, logistic: bool) -> float:
        """`value` as a reward in the user's units, nan where it was not seen."""
        made = float(value) if isinstance(value, bool | np.bool_) else check.number(value)
        if math.isnan(made) and not isinstance(value, float | np.floating):
            made = math.inf  # not seen, and not a number at all, are two things
        if not (math.isnan(made) or self.low <= made <= self.high):
            raise ValueError(
                f"reward must be a number from {self.low:g} to {self.high:g}, or nan where it was not seen, got "
                f"{check.shown(value)}"
            )
        if logistic and 0.0 < made < 1.0:
            raise ValueError(
                f"reward must be 0 or 1 (or nan) where the problem's rewards are logistic, got {check.shown(value)}"
            )
        return made

    def inside(self, reward: Any) -> Any:
        """Rewards, one or an array, in [0, 1]."""
        return (reward - self.low) / self.unit

    def outside(self, reward: float) -> float:
        """A reward in [0, 1] in the user's units."""
        made = self.low + self.unit * reward
        return min(made, self.high) if reward <= 1.0 else made

    def values(self, inside: Floats) -> Floats:
        """Values [H+1, S] in the user's units."""
        left = np.arange(len(inside) - 1.0, -1.0, -1.0)[:, None]
        return np.asarray(self.unit * inside + self.low * left)

    def inner_values(self, values: Floats) -> Floats:
        """The inverse of `values`."""
        left = np.arange(len(values) - 1.0, -1.0, -1.0)[:, None]
        return np.asarray((values - self.low * left) / self.unit)


def reward_scale(value: Any, logistic: bool) -> RewardScale:
    """`value` (low, high) as a scale; a sentence about reward_range where it is none."""
    made = check.anything("reward_range", value)
    if made.shape != (2,) or made.dtype.kind not in "iuf" or not np.isfinite(made).all() or not made[0] < made[1]:
        raise ValueError(f"reward_range must be two numbers (low, high), low < high, got {check.shown(value)}")
    scale = RewardScale(float(made[0]), float(made[1]))
    if not (_LEAST <= scale.unit <= _LARGEST and abs(scale.offset) <= _FARTHEST):
        raise ValueError(
            f"reward_range must be {_LEAST:g} to {_LARGEST:g} long and at most {_FARTHEST:g} times its length from 0, "
            f"got {check.shown(value)}"
        )
    if logistic and not scale.plain:
        raise ValueError(f"reward_range must be (0, 1) where rewards are logistic, got {check.shown(value)}")
    return scale
