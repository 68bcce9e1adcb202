"""Where arrays lie: apart from each other, and from the beginning of a line of the cache on."""

import math
from typing import Any

import numpy as np

LINE = 64  # bytes of the cache that are read together
APART = 512  # bytes: eight numbers at a time, eight times unrolled


def room_for(shape: Any, dtype: Any = np.float64) -> Any:
    """Zeros [shape] that begin at a multiple of LINE bytes and are followed by APART bytes of their own."""
    size = (math.prod(shape) if isinstance(shape, tuple) else shape) * np.dtype(dtype).itemsize
    room = np.zeros(size + APART + LINE, np.uint8)
    start = -_begin(room) % LINE
    return room[start : start + size].view(dtype).reshape(shape)


def _begin(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def apart(value: Any, _seen: dict[int, Any] | None = None) -> Any:
    """The same array, or nested tuples of arrays, where every array begins at a multiple of LINE bytes and is followed
    by APART bytes of its own; arrays for which that is so already stay the same objects.

    Before a loop that may work on several entries at once, the compiler puts a test that what is written begins not
    just behind what is read. Small arrays that happen to lie side by side fail it, the loop then adds in another order,
    and two agents with the same past differ in the last digit by where their memory came from. And eight numbers that
    lie across two lines of the cache take twice as long to read."""
    seen = {} if _seen is None else _seen
    if isinstance(value, tuple):
        parts = [apart(part, seen) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if not isinstance(value, np.ndarray):
        return value
    base = value.base
    while isinstance(base, np.ndarray) and isinstance(base.base, np.ndarray):
        base = base.base
    if isinstance(base, np.ndarray) and base.dtype == np.uint8 and base.nbytes == value.nbytes + APART + LINE:
        return value  # it comes from `room_for`
    if isinstance(base, np.ndarray) and _begin(value) % LINE == 0:
        if _begin(base) + base.nbytes >= _begin(value) + value.nbytes + APART:
            return value
    if id(value) not in seen:
        made = room_for(value.shape, value.dtype)
        made[...] = value
        made.setflags(write=value.flags.writeable)
        seen[id(value)] = made
    return seen[id(value)]


def copied(value: Any, seen: dict[int, Any]) -> Any:
    """Nested tuples of arrays of their own, laid out like the given ones; what is one array stays one."""
    if isinstance(value, tuple):
        parts = [copied(part, seen) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if not isinstance(value, np.ndarray):
        return value
    if id(value) not in seen:
        seen[id(value)] = apart(value.copy())
    return seen[id(value)]
