"""One clear sentence for bad input: the argument's name, what was expected, what came."""

import contextlib
import difflib
import functools
import importlib
import inspect
import itertools
import math
import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

with contextlib.suppress(ImportError):  # there is none on Windows
    import resource

Floats = NDArray[np.float64]
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


TINY, HUGE = 1e-300, 1e100  # 1/x, and squares and cubes of what is large, are numbers


def shown(value: Any) -> str:
    """What came, in one line of modest length."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer with too many digits, an object that cannot say what it is
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 160 else f"{text[:120]}... ({type(value).__name__})"


def integer(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """An integer of at least `least`, and at most `most`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {shown(value)}")
    if value >= 2**63:
        raise ValueError(f"{name} must be below 2^63, got {shown(value)}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most:,}, got {shown(value)}")
    return int(value)


def number(value: Any) -> float:
    """`value` as a float; nan for whatever is no real number: text, complex numbers, True and False, arrays."""
    if type(value) is float:
        return value
    strange = isinstance(value, bool | np.bool_ | str | bytes | bytearray | complex | np.complexfloating)
    if strange or (isinstance(value, np.ndarray) and (value.ndim > 0 or value.dtype.kind not in "iuf")):
        return math.nan
    try:
        return float(value)
    except Exception:
        return math.nan


def positive(name: str, value: Any, below: float = math.inf, least: float = TINY) -> float:
    """A number in (0, below), of a size that can be calculated with: from `least` on."""
    made = number(value)
    if not 0.0 < made < below or made == math.inf:
        kind = "a positive number" if below == math.inf else f"a number between 0 and {below:g}"
        raise ValueError(f"{name} must be {kind}, got {shown(value)}")
    if not least <= made <= HUGE:
        raise ValueError(f"{name} must be at least {least:g} and at most {HUGE:g}, got {shown(value)}")
    return made


def nonnegative(name: str, value: Any) -> float:
    """A number of at least 0, of a size that can be calculated with."""
    made = number(value)
    if not 0.0 <= made < math.inf:
        raise ValueError(f"{name} must be a number of at least 0, got {shown(value)}")
    if not (made == 0.0 or TINY <= made <= HUGE):
        raise ValueError(f"{name} must be 0, or at least {TINY:g} and at most {HUGE:g}, got {shown(value)}")
    return made


def fraction(name: str, value: Any) -> float:
    """A number from 0 to 1."""
    made = number(value)
    if not 0.0 <= made <= 1.0:
        raise ValueError(f"{name} must be a number from 0 to 1, got {shown(value)}")
    return made


def instance(name: str, value: Any, kind: type, said: str) -> None:
    """A sentence where `value` is none of this kind, which `said` names."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be {said}, got {type(value).__name__}")


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {shown(value)}")
    return str(value)


_budget: ContextVar[list[float] | None] = ContextVar("budget", default=None)


def memory(what: str, needed: float, now: float | None = None) -> None:
    """A sentence where `needed` bytes are more than this machine has, or than is left (`within_budget`), before
    anything of that size is made. now: what is made at once, where others will make the rest, and ask for it."""
    there, left = _memory(), _budget.get()
    if needed > there:
        raise ValueError(f"{what} would need at least {_bytes(needed)} of memory, there are {_bytes(there)}")
    if left is not None:
        left[0] -= needed if now is None else now
        if left[0] < 0.0:
            raise ValueError(f"{what} would need more memory than may be taken for so short a file (memory=...)")


def within_budget(limit: float, make: Callable[[], T]) -> T:
    """make(). What is asked of `memory` meanwhile, all of it together, may be at most so many bytes. The budget is in a
    context of its own: however this ends, an interruption at any line included, nothing of it is left."""

    def limited() -> T:
        _budget.set([limit])
        return make()

    return copy_context().run(limited)


def _memory() -> float:
    """Bytes of memory of this machine, or what is left of the process's limit; 2^46, 64 TiB, where neither is known."""
    try:
        page = float(os.sysconf("SC_PAGE_SIZE"))
        there = page * os.sysconf("SC_PHYS_PAGES")
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            there = min(there, limit - page * int(Path("/proc/self/statm").read_text().split()[0]))
    except (AttributeError, NameError, ValueError, OSError):  # other systems have no such calls, or no /proc
        there = 2.0**46
    return there


def _bytes(n: float) -> str:
    return f"{n / 2**30:.3g} GiB"


def alone(value: Any) -> bool:
    """Whether `value` is one value and not a sequence or an array of several."""
    return not isinstance(value, list | tuple) and getattr(value, "ndim", 0) == 0


def mapping(name: str, value: Any) -> dict[Any, Any]:
    """A dictionary of its own; empty for None."""
    if value is not None and not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a mapping or None, got {shown(value)}")
    return {} if value is None else dict(value)


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def numbers(name: str, value: Any, shape: str = "") -> Floats:
    """A new C-ordered float64 array of numbers, of any shape; `shape` says in words which one is expected."""
    if type(value) is np.ndarray and value.dtype == np.float64:
        return np.array(value, order="C")
    try:
        found = value if isinstance(value, np.ndarray) else np.asarray(value)
        if found.dtype.kind not in "biufO" or np.ma.is_masked(value):
            raise TypeError
        return np.array(found, dtype=np.float64, order="C")
    except MemoryError:
        raise
    except Exception:  # ragged lists, text, objects: NumPy has many ways to say so
        raise ValueError(f"{name} must be {shape or 'an array of numbers'}, got {shown(value)}") from None


def array(name: str, value: Any, shape: tuple[int, ...]) -> Floats:
    """A new C-ordered float64 array of the given shape, all finite."""
    made = numbers(name, value, f"an array of numbers of shape {shape}")
    if made.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {made.shape}")
    return finite(name, made)


def finite(name: str, made: Floats) -> Floats:
    """The same array, all of whose entries are finite."""
    if not np.isfinite(made).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(made))[0])
        raise ValueError(f"{name} must be finite, got {made[where]} at index {where}")
    return made


def rows(name: str, value: Any, width: int | None = None) -> Floats:
    """A new float64 array [m, d] of finite numbers with m and d at least 1; d = `width`, if that is given."""
    shape = f"(m, {'d' if width is None else width})"
    made = numbers(name, value, f"rows of numbers of shape {shape}")
    if made.ndim != 2 or 0 in made.shape or width not in (None, made.shape[1]):
        raise ValueError(f"{name} must have shape {shape} with m and d at least 1, got {made.shape}")
    return finite(name, made)


def anything(name: str, value: Any) -> NDArray[Any]:
    """`value` as a new array of whatever kind, for checks of its own."""
    try:
        return np.array(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be an array, got {shown(value)}") from None


def mask(name: str, value: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """A new boolean array of the given shape."""
    made = anything(name, value)
    if made.shape != shape or made.dtype != np.bool_:
        raise ValueError(f"{name} must be a boolean array of shape {shape}, got {made.dtype} of shape {made.shape}")
    return made


def known(kind: str, name: str, table: Mapping[str, T]) -> T:
    """table[name], or a sentence with the nearest names."""
    if not isinstance(name, str) or name not in table:
        near = difflib.get_close_matches(name[:100], table, n=3, cutoff=0.4) if isinstance(name, str) else []
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"unknown {kind} {shown(name)}{hint} ({kind}s: {', '.join(table)})")
    return table[name]


def is_own(name: Any) -> bool:
    """Whether a name is of the form `module:Class`: something of the user's own, not of the library's."""
    module, colon, thing = name.partition(":") if isinstance(name, str) else ("", "", "")
    return bool(colon) and thing.isidentifier() and all(part.isidentifier() for part in module.split("."))


def imported(kind: str, name: str) -> Callable[..., Any]:
    """The class or function that `module:Class` names. The module is imported, which runs its code: never call this
    with a name that was read from a file of results."""
    module, _, thing = name.partition(":")
    try:
        found = importlib.import_module(module)
    except Exception as error:
        absent = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        why = "no such module can be found" if absent else f"its import failed, {type(error).__name__}: {error}"
        raise ValueError(f"{kind} {shown(name)}: {why}") from None
    made: Any = getattr(found, thing, None)
    if not callable(made):
        raise ValueError(f"{kind} {shown(name)}: module {module} has no class or function {thing}")
    return made  # type: ignore[no-any-return]


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
    if not isinstance(value, str) and not np.iterable(value):
        raise ValueError(f"{name} must be a sequence of {length} names, got {shown(value)}")
    made = (value,) if isinstance(value, str) else tuple(str(v) for v in itertools.islice(value, length + 1))
    if len(made) != length or len(set(made)) != length:
        raise ValueError(f"{name} must have {length} different entries, got {shown(value)}")
    return made


def or_a_sentence(function: F) -> F:
    """`function`, with one sentence where its arguments lead to no number: a division by zero, the logarithm of what is
    not positive, an overflow, text, nan."""

    @functools.wraps(function)
    def asked(*args: Any, **options: Any) -> Any:
        given = (*args, *options.values())
        kinds = (getattr(getattr(value, "dtype", None), "kind", "") for value in given)
        if not any(isinstance(value, complex) for value in given) and "c" not in kinds:
            try:
                with np.errstate(divide="raise", over="raise", invalid="raise"):
                    made = function(*args, **options)
                if not isinstance(made, complex) and not (isinstance(made, float) and math.isnan(made)):
                    return made
            except (ArithmeticError, TypeError, ValueError, AttributeError, LookupError) as error:
                if type(error) is ValueError and str(error).split(" ")[0] in inspect.signature(function).parameters:
                    raise  # a sentence already, about an argument of this function
        names = inspect.signature(function).bind(*args, **options).arguments  # a TypeError where they do not fit at all
        said = ", ".join(f"{name} = {shown(value)}" for name, value in names.items())
        raise ValueError(f"{function.__name__} has no value at {said}")

    return asked  # type: ignore[return-value]
