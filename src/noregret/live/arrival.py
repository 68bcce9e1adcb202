"""The order in which the people of a log came: a column of times or numbers, their keys, or the rows of the table."""

import math
import re
from datetime import date, datetime, time
from itertools import pairwise
from typing import Any

import numpy as np

from .. import checks as check
from ..storage.tables import is_missing

COLUMNS = ("arrival", "time")  # looked for where nothing else is said, in this order
WORDS = ("key", "row")  # said by the caller: that is the order
UNKNOWN = (
    "the order of arrival is not known (no column arrival or time tells the people apart, and arrival= was not given), "
    "so the episodes are taken in the order of their keys. Where an action, a context or who came next followed the "
    "outcomes of somebody whose key is larger, confidence sets learned from this log promise nothing"
)


def arrival_column(arrival: Any, names: list[str], taken: list[str]) -> str | None:
    """What decides: a column among `names`, "key" or "row"; None where nobody has said. A column in `taken`, one of the
    context's, is used only if it was asked for."""
    if arrival is None:
        return next((c for c in COLUMNS if c in names and c not in taken), None)
    if not isinstance(arrival, str) or arrival not in (*WORDS, *names):
        raise ValueError(
            f'arrival must be a column of source, "key" or "row", got {check.shown(arrival)} (columns: '
            f"{', '.join(names)})"
        )
    if arrival in WORDS and arrival in names:
        raise ValueError(f"arrival must not be {arrival!r} where source has a column of that name: rename the column")
    return arrival


def moment_of(column: str, value: Any) -> float | datetime:
    """A cell of that column as a number or a time. Dates are their midnight, text is ISO 8601."""
    made = value
    if isinstance(value, np.datetime64):
        made = value.astype("datetime64[us]").item()
    elif isinstance(value, str):
        try:
            made = datetime.fromisoformat(value.strip())
        except ValueError:
            made = None
    elif isinstance(value, date) and not isinstance(value, datetime):
        made = datetime.combine(value, time())
    if isinstance(made, datetime):
        return made
    number = math.nan if isinstance(value, str) else check.number(value)
    if not math.isfinite(number):
        raise ValueError(
            f"{column} must be a number, a date or a time (ISO 8601 where it is text), got {check.shown(value)}"
        )
    return int(value) if isinstance(value, int | np.integer) else number


def kind_of(moment: float | datetime) -> str:
    """What it can be compared with."""
    if not isinstance(moment, datetime):
        return "a number"
    return "a time without a zone" if moment.utcoffset() is None else "a time with a zone"


def moments(column: str, values: list[Any], episodes: dict[Any, list[int]]) -> dict[Any, float | datetime]:
    """When each episode began: the cell of its first step. episodes: the rows of each, in the order of their steps.
    Later steps may lack theirs, and must not be earlier than those before them."""
    made: dict[Any, float | datetime] = {}
    kind, where = "", -1
    for key, rows in episodes.items():
        last: Any = None
        for i in rows:
            if is_missing(values[i]) and last is not None:
                continue
            try:
                if is_missing(values[i]):
                    raise ValueError(f"{column} is missing at the first step of episode {check.shown(key)}")
                here: Any = moment_of(column, values[i])
                if where >= 0 and kind_of(here) != kind:
                    raise ValueError(f"{column} is {kind_of(here)}, and {kind} in row {where}")
                if last is not None and here < last:
                    raise ValueError(f"{column} goes back within episode {check.shown(key)}")
            except ValueError as error:
                raise ValueError(f"row {i}: {error}") from None
            kind, where, last = kind_of(here), i, here
            made.setdefault(key, here)
    return made


def in_order_of_keys(keys: Any, told: bool = False) -> list[Any]:
    """told: the caller says that this is the order of arrival; then there must be one order that is meant."""
    try:
        made = sorted(keys)
    except TypeError:
        if told:
            raise ValueError('arrival cannot be "key" where some keys are numbers and others text') from None
        return sorted(keys, key=lambda k: (type(k).__name__, str(k)))
    if told and all(isinstance(key, str) for key in made):
        natural = sorted(made, key=_by_numbers)
        if natural != made:
            raise ValueError(
                'arrival cannot be "key" where keys are text with numbers of several lengths in it: pad them with '
                "zeros, or name a column"
            )
    return made


def _by_numbers(key: str) -> list[Any]:
    """Text with its numbers read as numbers."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", key) if part]


def in_order(by: str | None, data: dict[str, list[Any]], episodes: dict[Any, list[int]]) -> tuple[list[Any], int]:
    """(keys in the order of arrival, how many came at the same moment as the one before). by: as `arrival_column`
    has it, None being "key"; episodes: the rows of each, in the order of their steps. Those who came at the same moment
    stay in the order of their first rows in the table."""
    first = {key: min(rows) for key, rows in episodes.items()}
    if by is None or by == "key":
        return in_order_of_keys(episodes, told=by is not None), 0
    if by == "row":
        return sorted(episodes, key=first.__getitem__), 0
    when: dict[Any, Any] = moments(by, data[by], episodes)
    keys = sorted(episodes, key=lambda k: (when[k], first[k]))
    return keys, sum(when[a] == when[b] for a, b in pairwise(keys))
