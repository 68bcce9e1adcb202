"""One lock per agent: its public verbs and readings happen one after another, whoever calls them.

Kernels release Python's own lock and share the agent's scratch arrays, so that two of an agent's methods at the same
time would read each other's half-done work. A method under `locked` sees the agent before or after any other one.

A process that is forked has the forking thread alone. A lock that another thread held at that moment would never be
free again in the child, and what it guards may be half done: there it refuses with a sentence."""

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Lock:
    """A lock that one thread may take several times. What is copied has a new one, free: it is no part of a state.

    held   for `with`"""

    __slots__ = ("__weakref__", "held")

    def __init__(self) -> None:
        self.held: Any = threading.RLock()
        _locks.add(self)

    def __deepcopy__(self, memo: Any) -> "Lock":
        return Lock()

    def __reduce__(self) -> tuple[type["Lock"], tuple[()]]:
        return Lock, ()


class _Lost:
    """In the place of a lock whose holder stayed behind in the parent process."""

    def __enter__(self) -> None:
        raise RuntimeError(
            "another thread was at work with this agent when the process was forked, so that it may be half done here: "
            "load a saved copy in the child, or fork while nobody is at work"
        )

    def __exit__(self, *_: Any) -> None: ...


_locks: "weakref.WeakSet[Lock]" = weakref.WeakSet()


def _in_child() -> None:
    for lock in list(_locks):
        if isinstance(lock.held, _Lost):
            continue
        if lock.held.acquire(blocking=False):  # free, or this thread's own
            lock.held.release()
        else:
            lock.held = _Lost()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def locked(method: F) -> F:
    """The method, under the lock of its object."""

    @functools.wraps(method)
    def alone(self: Any, *args: Any, **options: Any) -> Any:
        with self.lock.held:
            return method(self, *args, **options)

    return alone  # type: ignore[return-value]
