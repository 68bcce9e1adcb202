"""What people see of objects: small tables for `repr`, signatures for `help`."""

import inspect
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike

WIDTH = 70  # of a signature in one line
_LIKE = {*get_args(ArrayLike)} - {str}  # empty from Python 3.12 on: there the alias keeps its name


def aligned(rows: Sequence[Sequence[str]], right: bool = False) -> str:
    """Rows of equally many texts in columns, two spaces apart.

    >>> print(aligned([["step", "mild"], ["0", "wait"]]))
    step  mild
    0     wait
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    side = ">" if right else "<"
    lines = ("  ".join(f"{text:{side}{n}}" for text, n in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def table_of(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows with the same columns, their names above, texts to the right."""
    return aligned([list(rows[0]), *(list(row.values()) for row in rows)], right=True)


def shortened(items: Sequence[int], most: int) -> list[int | None]:
    """The items, or the first and the last of them with None between, `most` in all.

    >>> shortened(range(100), 5)
    [0, 1, None, 98, 99]
    """
    if len(items) <= most:
        return list(items)
    first, last = most // 2, most - most // 2 - 1
    return [*items[:first], None, *items[len(items) - last :]]


class Readable(inspect.Signature):
    """A signature as people write it: types by their own names, a line per parameter where it is long."""

    def __str__(self) -> str:
        parts: list[str] = []
        for p in self.parameters.values():
            if p.kind is p.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
                parts.append("*")
            parts.append(str(p if p.annotation is p.empty else p.replace(annotation=_Named(p.annotation))))
        back = "" if self.return_annotation is self.empty else f" -> {_Named(self.return_annotation)}"
        line = f"({', '.join(parts)}){back}"
        return line if len(line) <= WIDTH else "(\n" + "".join(f"    {part},\n" for part in parts) + f"){back}"


class _Named:
    """A type that shows itself by its own name, without modules: NDArray[int64], ArrayLike | None."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __repr__(self) -> str:
        kind, origin, parts = self.kind, get_origin(self.kind), get_args(self.kind)
        if origin in (Union, UnionType):
            like = bool(_LIKE) and {*parts} >= _LIKE
            first = min(map(parts.index, _LIKE)) if like else 0
            names = ("ArrayLike" if like and (p in _LIKE or (p is str and parts.index(p) > first)) else repr(_Named(p))
                     for p in parts)  # fmt: skip
            return " | ".join(dict.fromkeys(names))
        if origin is np.ndarray:
            return f"NDArray[{_Named(get_args(parts[1])[0])}]"
        if isinstance(kind, list):  # what a function takes
            return f"[{', '.join(repr(_Named(p)) for p in kind)}]"
        if kind in (None, NoneType, ...):
            return "..." if kind is ... else "None"
        name = str(getattr(kind, "__name__", kind)).rpartition(".")[2]
        inner = [repr(p) if origin is Literal else repr(_Named(p)) for p in parts]
        return f"{name}[{', '.join(inner)}]" if inner else name


def readable(thing: Any) -> None:
    """Let `help` show a function, a class with its methods, inherited ones, too, or all that a module lists or makes,
    with signatures for people."""
    if inspect.ismodule(thing):
        made_here = [name for name, one in vars(thing).items() if getattr(one, "__module__", "") == thing.__name__]
        for name in getattr(thing, "__all__", [name for name in made_here if not name.startswith("_")]):
            readable(vars(thing).get(name))
        return
    own = [kind for kind in getattr(thing, "__mro__", ()) if kind.__module__.startswith("noregret.")]
    for member in [thing, *(member for kind in own for member in vars(kind).values())]:
        function: Any = getattr(member, "__func__", member)  # of class and static methods
        declared = member is thing and inspect.isclass(thing) and vars(thing).get("__signature__") is not None
        if inspect.isfunction(function) or declared:  # declared: by the options of an agent
            made = inspect.signature(function)
            function.__signature__ = Readable(list(made.parameters.values()), return_annotation=made.return_annotation)
