"""Rows of a table as contexts that keep the norm bound, whatever the row says.

A row becomes blocks, one for the intercept and one for each column:

    intercept   (1)
    number      (v), v = its place in the declared range, from -1 at the low end to 1 at the high end
                (v, 0), or (0, 1) where the value is missing, for columns declared in `missing`
    category    one-hot over the declared levels, then "other" and "missing" where they are declared

Every block has 2-norm at most 1: |v| <= 1 after clipping, (v, 0) and (0, 1) have norms |v| and 1, a one-hot vector 1.
With B blocks b_1, ..., b_B the context is x = bound/sqrt(B) (b_1, ..., b_B), so

    ||x||^2 = bound^2/B (||b_1||^2 + ... + ||b_B||^2) <= bound^2        for every row.

link="linear": contexts must be probability vectors. A number becomes (t, 1 - t) with t in [0, 1] its place in the range
(with `missing`: (t, 1 - t, 0), or (0, 0, 1)); the other blocks are distributions already. Their average is one:
entries are nonnegative and sum to (1 + ... + 1)/B = 1. Its norm is at most 1/sqrt(B), since the blocks do not overlap.

The bound is a fact of the encoding. That the weights of a model in these coordinates are within `weight_bound` and
`reward_bound` stays an assumption: dividing by sqrt(B) makes the same effects need weights larger by sqrt(B)/bound."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from .. import checks as check
from ..checks import Floats
from ..storage.tables import columns, is_missing
from .links import LinearCombination
from .problem import Problem
from .rows import chosen_among, level_of, levels_of, listed, number_of, range_of, value_of

OTHER, MISSING = "other", "missing"


class Encoder:
    """Rows of a table as contexts whose norm is bounded, whatever a row says.

    numbers      {column: (low, high)}, fixed beforehand; values outside are moved to the nearer end
    categories   {column: levels}; levels are compared as text, so 1, 1.0 and "1" are one
    missing      columns that may lack a value (None, nan, NA or ""): they get an entry that says so
    other        categories that may have a level not declared: they get an entry for all of those
    intercept    a constant entry first, without which a model says nothing of the average individual
    bound        of every context's 2-norm (link="logit"; the linear link's contexts are probability vectors)
    link         "logit" (any link but LinearCombination) or "linear"
    outside      "clip", or "raise" for a sentence where a number is outside its range

    Ranges and levels chosen from the data the agent then learns from are chosen after the fact; `fit` them on a table
    from before. Columns that are not declared are ignored. Module docstring: what a row becomes, and why it is within
    the bound. Cost of a row: a few microseconds a column.

    >>> import noregret as nr
    >>> encoder = nr.Encoder(
    ...     numbers={"age": (18, 90)}, categories={"sex": ("f", "m")}, missing=("age",), other=("sex",)
    ... )
    >>> encoder.feature_names
    ('intercept', 'age', 'age missing', 'sex=f', 'sex=m', 'sex other')
    >>> encoder.encode({"age": 54, "sex": "f"}).round(2)  # the middle of the range is 0
    array([0.58, 0.  , 0.  , 0.58, 0.  , 0.  ])
    >>> encoder.encode({"age": None, "sex": "x"}).round(2)
    array([0.58, 0.  , 0.58, 0.  , 0.  , 0.58])
    """

    def __init__(
        self,
        numbers: Mapping[str, Any] | None = None,
        categories: Mapping[str, Any] | None = None,
        missing: Iterable[str] = (),
        other: Iterable[str] = (),
        intercept: bool = True,
        bound: float = 1.0,
        link: str = "logit",
        outside: str = "clip",
    ) -> None:
        ranges, lists = check.mapping("numbers", numbers), check.mapping("categories", categories)
        self.numbers = {str(c): range_of(str(c), ends) for c, ends in ranges.items()}
        self.categories = {str(c): levels_of(str(c), levels) for c, levels in lists.items()}
        known = [*self.numbers, *self.categories]
        if len(set(known)) < len(known):
            raise ValueError(f"numbers and categories must be different columns, got {known}")
        self.missing = chosen_among("missing", missing, known)
        self.other = chosen_among("other", other, list(self.categories))
        self.intercept, self.bound = check.flag("intercept", intercept), check.positive("bound", bound)
        self.link = check.one_of("link", link, ("logit", "linear"))
        self.outside = check.one_of("outside", outside, ("clip", "raise"))
        if self.link == "linear" and self.bound != 1.0:
            raise ValueError(f"bound must be 1 with link='linear', whose contexts sum to 1, got {check.shown(bound)}")
        self.blocks = int(self.intercept) + len(known)
        if self.blocks == 0:
            raise ValueError("numbers, categories and intercept must make at least one entry, got none")
        self._features = tuple(self._names())
        self._places: dict[str, dict[str, int]] = {}
        for column, levels in self.categories.items():
            ends = (OTHER,) * (column in self.other) + (MISSING,) * (column in self.missing)
            self._places[column] = {level: i for i, level in enumerate(levels + tuple(f"\0{e}" for e in ends))}

    @classmethod
    def fit(
        cls,
        table: Any,
        numbers: Iterable[str] = (),
        categories: Iterable[str] = (),
        missing: Iterable[str] | None = None,
        **options: Any,
    ) -> Self:
        """Ranges and levels from a table (a dict of columns, pandas, polars, Arrow, .parquet or .csv): smallest and
        largest value of each number, levels in order. missing: None takes the columns that lack values in the table.
        Other options as above."""
        data, ranges, levels = columns(table), {}, {}
        chosen = {"numbers": listed("numbers", numbers), "categories": listed("categories", categories)}
        for name, asked in chosen.items():
            for column in asked:
                if column not in data:
                    raise ValueError(
                        f"{name} must be columns of the table ({', '.join(data)}), got {check.shown(column)}"
                    )
        for column in chosen["numbers"]:
            seen = [number_of(column, v) for v in data[column] if not is_missing(v)]
            if not seen or min(seen) == max(seen):
                raise ValueError(f"numbers: {column} has fewer than two different values in the table, leave it out")
            ranges[column] = (min(seen), max(seen))
        for column in chosen["categories"]:
            levels[column] = sorted({level_of(column, v) for v in data[column] if not is_missing(v)})
        if missing is None:
            missing = [c for name in chosen for c in chosen[name] if any(is_missing(v) for v in data[c])]
        return cls(ranges, levels, missing, **options)

    # What it is ---------------------------------------------------------------------------------------------------
    def _names(self) -> Iterable[str]:
        if self.intercept:
            yield "intercept"
        for column in self.numbers:
            yield column
            if self.link == "linear":
                yield f"1 - {column}"
            if column in self.missing:
                yield f"{column} {MISSING}"
        for column, levels in self.categories.items():
            yield from (f"{column}={level}" for level in levels)
            if column in self.other:
                yield f"{column} {OTHER}"
            if column in self.missing:
                yield f"{column} {MISSING}"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """[d], what each entry of a context says."""
        return self._features

    @property
    def context_dim(self) -> int:
        """d, the length of a context."""
        return len(self._features)

    @property
    def context_bound(self) -> float:
        """No context is longer: `bound`, or 1/sqrt(number of blocks) with link="linear"."""
        return self.bound if self.link == "logit" else 1.0 / math.sqrt(self.blocks)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns a row must have."""
        return (*self.numbers, *self.categories)

    def __repr__(self) -> str:
        return (
            f"<Encoder {len(self.numbers)} numbers, {len(self.categories)} categories -> {self.context_dim} entries, "
            f"norm at most {self.context_bound:g}>"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoder) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "numbers": {c: list(ends) for c, ends in self.numbers.items()},
            "categories": {c: list(levels) for c, levels in self.categories.items()},
            "missing": list(self.missing), "other": list(self.other), "intercept": self.intercept,
            "bound": self.bound, "link": self.link, "outside": self.outside,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, made: Mapping[str, Any]) -> Self:
        """The encoder of `to_dict`."""
        options = {str(name): value for name, value in check.mapping("encoder", made).items()}
        check.fits("encoder", cls, **options)
        return cls(**options)

    def check_fits(self, problem: Problem) -> None:
        """A sentence where contexts of this encoder are not contexts of the problem."""
        if self.context_dim != problem.context_dim:
            raise ValueError(
                f"encoder makes contexts of {self.context_dim} entries, the problem has context_dim = "
                f"{problem.context_dim}"
            )
        if isinstance(problem.link, LinearCombination) and self.link != "linear":
            raise ValueError("encoder must have link='linear' for a problem with LinearCombination")
        if self.context_bound > problem.context_bound * (1.0 + 1e-12):
            raise ValueError(
                f"encoder makes contexts of norm up to {self.context_bound:g}, above the problem's context_bound = "
                f"{problem.context_bound:g}"
            )

    # Rows -> contexts ---------------------------------------------------------------------------------------------
    def encode(self, row: Any) -> Floats:
        """The context [d] of one row: a mapping from columns to values, or a row of a data frame."""
        if not hasattr(row, "keys"):
            raise ValueError(f"row must be a mapping from columns to values, got {type(row).__name__}")
        x = np.zeros(self.context_dim)
        self._fill(row, x)
        return x

    def encode_all(self, table: Any) -> Floats:
        """The contexts [n, d] of a table; sentences say which row (from 0)."""
        data = columns(table)
        n = len(next(iter(data.values()), []))
        X = np.zeros((n, self.context_dim))
        for i in range(n):
            try:
                self._fill({c: v[i] for c, v in data.items()}, X[i])
            except ValueError as error:
                raise ValueError(f"row {i}: {error}") from None
        return X

    def _fill(self, row: Any, x: Floats) -> None:
        linear, at = self.link == "linear", 0
        if self.intercept:
            x[0], at = 1.0, 1
        for column, (low, high) in self.numbers.items():
            value = value_of(row, column)
            width = 1 + linear + (column in self.missing)
            if is_missing(value):
                self._may_lack(column)
                x[at + width - 1] = 1.0
            else:
                v = number_of(column, value)
                if self.outside == "raise" and not low <= v <= high:
                    raise ValueError(f"{column} must be from {low:g} to {high:g}, got {check.shown(value)}")
                v = min(max(v, low), high)
                t = min(max((v - low) / (high - low), 0.0), 1.0)
                x[at] = t if linear else 2.0 * t - 1.0
                if linear:
                    x[at + 1] = 1.0 - t
            at += width
        for column, places in self._places.items():
            value = value_of(row, column)
            if is_missing(value):
                self._may_lack(column)
                place = places[f"\0{MISSING}"]
            else:
                level = level_of(column, value)
                if level not in places and column not in self.other:
                    known = ", ".join(self.categories[column])
                    raise ValueError(
                        f"{column} must be one of {known} (other={check.shown(column)} takes any), got "
                        f"{check.shown(value)}"
                    )
                place = places.get(level, places.get(f"\0{OTHER}", -1))
            x[at + place] = 1.0
            at += len(places)
        x *= 1.0 / self.blocks if linear else self.bound / math.sqrt(self.blocks)

    def _may_lack(self, column: str) -> None:
        if column not in self.missing:
            raise ValueError(
                f"{column} is missing; declare it with missing=({check.shown(column)},) if that may happen"
            )
