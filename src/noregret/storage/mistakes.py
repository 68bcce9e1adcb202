"""One sentence about a mistake in a file that people write: which file, which line, which key, what was expected."""

from collections.abc import Iterable
from typing import Any


def mistake(path: Any, line: int | None, loc: tuple[Any, ...], message: str, keys: Iterable[str]) -> str:
    """ "studies/x.toml, line 14, agents[1].delta: must be ..."; loc and message as pydantic has them, keys: those that
    are known where a key is not.

    >>> mistake("x.toml", 3, ("agents", 1, "odd"), "Extra inputs are not permitted", ["name", "delta"])
    'x.toml, line 3, agents[1].odd: unknown key (keys: name, delta)'
    """
    message = message.removeprefix("Value error, ")
    if message == "Extra inputs are not permitted":
        message = f"unknown key (keys: {', '.join(keys)})"
    elif message == "Field required":
        message = "is missing"
    where = "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in loc).removeprefix(".")
    return f"{path}, {f'line {line}, ' if line else ''}{f'{where}: ' if where else ''}{message}"
