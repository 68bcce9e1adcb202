"""Values and columns of a table as an `Encoder` reads them, with a sentence where they cannot be read."""

import math
from typing import Any

import numpy as np

from .. import checks as check


def value_of(row: Any, column: str) -> Any:
    try:
        return row[column]
    except KeyError:
        raise ValueError(
            f"row must have the column {check.shown(column)}, got {', '.join(map(str, row.keys()))}"
        ) from None


def number_of(column: str, value: Any) -> float:
    try:
        if isinstance(value, complex | np.complexfloating | np.ndarray):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{column} must be a number, got {check.shown(value)}") from None


def level_of(column: str, value: Any) -> str:
    """A level as text; whole numbers without a point, however they were kept."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    if not isinstance(value, str | int | float | np.generic):
        raise ValueError(f"{column} must be a level (text or a number), got {check.shown(value)}")
    return str(value)


def listed(name: str, value: Any) -> list[str]:
    if isinstance(value, str) or not np.iterable(value):
        raise ValueError(f"{name} must be a sequence of columns, got {check.shown(value)}")
    return [str(v) for v in value]


def chosen_among(name: str, value: Any, known: list[str]) -> tuple[str, ...]:
    made = listed(name, value)
    for column in made:
        if column not in known:
            raise ValueError(f"{name} must name columns among {', '.join(known) or 'none'}, got {check.shown(column)}")
    return tuple(made)


def range_of(column: str, ends: Any) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in ends)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (low < high and math.isfinite(high - low)):
        raise ValueError(
            f"numbers[{check.shown(column)}] must be a range (low, high) with low < high, got {check.shown(ends)}"
        )
    return low, high


def levels_of(column: str, levels: Any) -> tuple[str, ...]:
    if isinstance(levels, str) or not np.iterable(levels):
        raise ValueError(f"categories[{check.shown(column)}] must be a sequence of levels, got {check.shown(levels)}")
    made = tuple(level_of(column, v) for v in levels)
    if not made or len(set(made)) < len(made) or "" in made:
        raise ValueError(
            f"categories[{check.shown(column)}] must be at least one level, all different, got {check.shown(levels)}"
        )
    return made
