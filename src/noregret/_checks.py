"""One clear sentence for bad input: the argument's name, what was expected, what came."""

import difflib
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
T = TypeVar("T")


def integer(name: str, value: Any, least: int = 1) -> int:
    """An integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    if value >= 2**63:
        raise ValueError(f"{name} must be below 2^63, got {value!r}")
    return int(value)


def positive(name: str, value: Any, below: float = math.inf) -> float:
    """A finite number in (0, below)."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (0.0 < number < below and math.isfinite(number)):
        kind = "a positive number" if below == math.inf else f"a number between 0 and {below:g}"
        raise ValueError(f"{name} must be {kind}, got {value!r}")
    return number


def nonnegative(name: str, value: Any) -> float:
    """A finite number of at least 0."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 <= number < math.inf:
        raise ValueError(f"{name} must be a number of at least 0, got {value!r}")
    return number


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return str(value)


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def array(name: str, value: Any, shape: tuple[int, ...]) -> Floats:
    """A new C-ordered float64 array of the given shape, all finite."""
    try:
        made = np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers of shape {shape}") from None
    if made.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {made.shape}")
    if not np.isfinite(made).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(made))[0])
        raise ValueError(f"{name} must be finite, got {made[where]} at index {where}")
    return made


def mask(name: str, value: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """A new boolean array of the given shape."""
    made = np.array(value)
    if made.shape != shape or made.dtype != np.bool_:
        raise ValueError(f"{name} must be a boolean array of shape {shape}, got {made.dtype} of shape {made.shape}")
    return made


def known(kind: str, name: str, table: Mapping[str, T]) -> T:
    """table[name], or a sentence with the nearest names."""
    if name not in table:
        near = difflib.get_close_matches(name, table, n=3, cutoff=0.4)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"unknown {kind} {name!r}{hint} ({kind}s: {', '.join(table)})")
    return table[name]


def fits(what: str, function: Callable[..., Any], /, *args: Any, **options: Any) -> None:
    """A sentence instead of a TypeError where `function` would not take these options."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **options)
    except TypeError as error:
        names = ", ".join(list(signature.parameters)[len(args) :])
        raise ValueError(f"{what}: {error} (options: {names})") from None


def names(name: str, value: Any, length: int) -> tuple[str, ...] | None:
    if value is None:
        return None
    made = (value,) if isinstance(value, str) else tuple(str(v) for v in value)
    if len(made) != length or len(set(made)) != length:
        raise ValueError(f"{name} must have {length} different entries, got {made!r}")
    return made
