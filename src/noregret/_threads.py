"""One lock an agent: its public verbs and readings happen one after another, whoever calls them.

Kernels release Python's own lock and share the agent's scratch arrays, so that two of an agent's methods at the same
time would read each other's half-done work. A method under `locked` sees the agent before or after any other one."""

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Lock:
    """A lock that one thread may take several times. What is copied has a new one, free: it is no part of a state.

    held   for `with`"""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = threading.RLock()

    def __deepcopy__(self, memo: Any) -> "Lock":
        return Lock()

    def __reduce__(self) -> tuple[type["Lock"], tuple[()]]:
        return Lock, ()


def locked(method: F) -> F:
    """The method, under the lock of its object."""

    @functools.wraps(method)
    def alone(self: Any, *args: Any, **options: Any) -> Any:
        with self._lock.held:
            return method(self, *args, **options)

    return alone  # type: ignore[return-value]
