"""Values in study files: one, several, or a range; and every combination of them.

    n_states = 4                                one value
    n_states = [4, 8, 16]                       several
    n_states = { from = 4, to = 16, times = 2 }     4, 8, 16
    bonus_scale = { from = 0.2, to = 1, by = 0.2 }  0.2, 0.4, ..., 1
    bonus_scale = { from = 0.01, to = 1, steps = 5, scale = "log" }     5 values, evenly on a logarithmic scale

A table with other keys is one value, its own entries expanded likewise (the two agents of a referral). Both ends of a
range belong to it; values are rounded to 12 digits, so that 0.2 + 0.2 + 0.2 is 0.6 in every file.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MOST_VALUES = 100_000  # values in a range, cells in a study: more is a slip of the pen


class Range(BaseModel):
    """from, from + by, ... up to `to`; or from, from times, ...; or so many `steps` from one to the other."""

    model_config = ConfigDict(extra="forbid", strict=True)

    start: float | int = Field(alias="from")
    to: float | int
    by: float | int | None = None
    times: float | int | None = None
    steps: int | None = Field(default=None, ge=2, le=MOST_VALUES)
    scale: Literal["linear", "log"] = "linear"

    @model_validator(mode="after")
    def _one_way(self) -> "Range":
        if sum(v is not None for v in (self.by, self.times, self.steps)) != 1:
            raise ValueError("a range has from, to and exactly one of by, times, steps")
        if self.to < self.start or not (math.isfinite(self.start) and math.isfinite(self.to)):
            raise ValueError(f"a range goes up: to must be at least from = {self.start:g}, got {self.to:g}")
        if self.scale == "log" and self.steps is None:
            raise ValueError("scale goes with steps")
        if (self.times is not None or self.scale == "log") and self.start <= 0:
            raise ValueError(f"from must be positive where a range grows by a factor, got {self.start:g}")
        if self.by is not None and not self.by > 0:
            raise ValueError(f"by must be positive, got {self.by:g}")
        if self.times is not None and not self.times > 1:
            raise ValueError(f"times must be above 1, got {self.times:g}")
        return self

    def values(self) -> list[float | int]:
        a, b, slack = self.start, self.to, 1e-9
        if self.steps is not None:
            shares = [i / (self.steps - 1) for i in range(self.steps)]
            made = [a * (b / a) ** t if self.scale == "log" else a + (b - a) * t for t in shares]
            made[0], made[-1] = a, b
        elif self.by is not None:
            count = math.floor(min((b - a) / self.by, MOST_VALUES) + slack) + 1
            made = [a + i * self.by for i in range(count)]
        else:
            assert self.times is not None
            count = math.floor(min((math.log(b) - math.log(a)) / math.log(self.times), MOST_VALUES) + slack) + 1
            made = [a * self.times**i for i in range(count)]
        if len(made) > MOST_VALUES:
            raise ValueError(f"a range has at most {MOST_VALUES:,} values")
        whole = isinstance(a, int) and all(math.isclose(v, round(v), rel_tol=1e-12) for v in made)
        return [round(v) if whole else float(f"{v:.12g}") for v in made]


def is_range(value: Any) -> bool:
    return isinstance(value, dict) and "from" in value


def number_of(value: Any) -> int:
    """How many values an entry stands for, without making them."""
    if isinstance(value, list):
        return sum(number_of(item) if isinstance(item, dict) else 1 for item in value)
    if is_range(value):
        return len(Range.model_validate(value).values())  # at most MOST_VALUES
    if isinstance(value, dict):
        return math.prod(number_of(item) for item in value.values())
    return 1


def at_most(number: int, what: str) -> None:
    if number > MOST_VALUES:
        raise ValueError(f"{what} has at most {MOST_VALUES:,} combinations of values, this one has {number:,}")


def values_of(value: Any) -> list[Any]:
    """The values that an entry of a study file stands for; a ValueError where they are more than anybody means."""
    at_most(number_of(value), "an entry")
    if isinstance(value, list):
        return [one for item in value for one in (values_of(item) if isinstance(item, dict) else [item])]
    if is_range(value):
        return list(Range.model_validate(value).values())
    if isinstance(value, dict):
        return list(combinations(value))
    return [value]


def combinations(table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the values of a table's entries, the last entry changing fastest; a ValueError before any
    is made where they are too many."""
    at_most(number_of(table), "a table")
    for chosen in itertools.product(*(values_of(v) for v in table.values())):
        yield dict(zip(table, chosen, strict=True))
