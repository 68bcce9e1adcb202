"""Parts of the people who came, by what they came with: rows' columns, or features of contexts."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...live.groups import groups_of
from ...report.board import FEW

COLUMNS = 6  # looked at
VALUES = 4  # of a column that make a group each; numbers with more are cut in the middle


def parts_of(columns: Mapping[str, Sequence[Any]]) -> dict[str, NDArray[np.bool_]]:
    """Names -> who [n]. A column with few values makes a group for each; numbers with more are cut at their median;
    text with more makes none. Groups of fewer than five people are left out, for their privacy.

    >>> made = parts_of({"sex": ["f", "m"] * 6, "age": list(range(12)), "site": ["x"] * 12})
    >>> {name: int(who.sum()) for name, who in made.items()}
    {'sex f': 6, 'sex m': 6, 'age < 5.5': 6, 'age >= 5.5': 6}
    """
    made: dict[str, NDArray[np.bool_]] = {}
    for name, values in list(columns.items())[:COLUMNS]:
        kinds = {v for v in values if v is not None}
        if len(kinds) < 2:
            continue
        numbers = all(isinstance(v, int | float) for v in kinds)
        if len(kinds) <= VALUES:
            told = [None if v is None else _text(v) if numbers else v for v in values]
            made |= groups_of(_plain(name), told)
        elif numbers:
            X = np.array([math.nan if v is None else float(v) for v in values])
            cut = float(np.nanmedian(X))
            made |= {f"{name} < {_text(cut)}": cut > X, f"{name} >= {_text(cut)}": cut <= X}
    return {name: who for name, who in made.items() if who.sum() >= FEW}


def _text(v: float) -> str:
    return f"{v:.4g}"


def _plain(name: str) -> str:
    """A column's name as `groups_of` takes it: there "=" says where to cut."""
    return name.replace("=", " ").strip() or "column"
