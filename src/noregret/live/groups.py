"""Who is in which part of the population, by columns of the rows that people came with or by features of contexts."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..storage.tables import is_missing

MOST = 12  # values of a column that make groups; more are numbers to be cut


def groups_of(by: str, values: Sequence[Any]) -> dict[str, NDArray[np.bool_]]:
    """Names -> who [n], of values [n] by one column: "sex", a group for every value; "age=40,60", groups below 40, from
    40 to below 60, and from 60 on. Whoever has no value is in a group "COLUMN not known".

    >>> {name: who.tolist() for name, who in groups_of("age=60", [40, None, 61.5]).items()}
    {'age < 60': [True, False, False], 'age >= 60': [False, False, True], 'age not known': [False, True, False]}
    >>> list(groups_of("sex", ["f", "m", "f"]))
    ['sex f', 'sex m']
    """
    column, cuts = split(by)
    unknown = np.array([is_missing(v) for v in values], bool)
    made = _cut(column, cuts, values, unknown) if cuts else _valued(column, values, unknown)
    if unknown.any():
        made[f"{column} not known"] = unknown
    return made


def split(by: str) -> tuple[str, list[float]]:
    """(column, where to cut it) of "age=40,60"; nowhere of "sex"."""
    column, equals, rest = by.partition("=")
    if not column.strip() or (equals and not rest.strip()):
        raise ValueError(f"by must be a column, or COLUMN=CUT,CUT, got {check.shown(by)}")
    try:
        cuts = sorted({float(v) for v in rest.split(",")} if equals else set())
    except ValueError:
        raise ValueError(f"by must have numbers after {column}=, got {check.shown(by)}") from None
    if not np.isfinite(cuts).all():
        raise ValueError(f"by must have numbers after {column}=, got {check.shown(by)}")
    return column.strip(), cuts


def _cut(column: str, cuts: list[float], values: Sequence[Any], unknown: NDArray[np.bool_]) -> dict[str, Any]:
    try:
        numbers = np.array([np.nan if u else float(v) for v, u in zip(values, unknown, strict=True)])
    except (TypeError, ValueError):
        raise ValueError(f"by must name a column of numbers where it is cut, {column} has others") from None
    names = [f"{column} < {cuts[0]:g}"]
    names += [f"{column} {low:g} to {high:g}" for low, high in pairwise(cuts)]
    names.append(f"{column} >= {cuts[-1]:g}")
    with np.errstate(invalid="ignore"):
        which = np.where(unknown, -1, np.searchsorted(cuts, numbers, side="right"))
    return {name: which == i for i, name in enumerate(names)}


def _valued(column: str, values: Sequence[Any], unknown: NDArray[np.bool_]) -> dict[str, Any]:
    shown = ["" if u else f"{v:g}" if isinstance(v, float) else str(v) for v, u in zip(values, unknown, strict=True)]
    found = sorted({v for v, u in zip(shown, unknown, strict=True) if not u})
    if len(found) > MOST:
        raise ValueError(f"by must name a column with at most {MOST} values, or say where to cut it: {column}=40,60")
    told = np.array(shown, object)
    return {f"{column} {v}": (told == v) & ~unknown for v in found}


def column_of(name: str, rows: Sequence[dict[str, Any] | None], features: dict[str, Any]) -> list[Any]:
    """Values [n] of a column of the rows people came with, or else of a feature of their contexts."""
    if all(row is not None and name in row for row in rows):
        return [row[name] for row in rows if row is not None]
    if name not in features:
        known = [*sorted({k for row in rows if row is not None for k in row}), *features]
        raise ValueError(
            f"by must be a column of the rows or a feature of the contexts, {name!r} is none of {', '.join(known)}"
        )
    return list(features[name])
