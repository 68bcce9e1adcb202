"""What is said while something is compiled for the first time."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event


def _to_stderr(line: str) -> None:
    print(f"noregret: {line}", file=sys.stderr, flush=True)


_say: list[Callable[[str], None]] = [_to_stderr]  # the last one speaks


class _OnCompile(event.Listener):  # type: ignore[misc]
    """Numba triggers `numba:compile` only when the cache had nothing: the first one is worth a line."""

    def __init__(self, what: str) -> None:
        self.what, self.said = what, False

    def on_start(self, event: Any) -> None:
        if not self.said:
            self.said = True
            if not os.environ.get("NOREGRET_QUIET"):
                _say[-1](f"compiling {self.what} (once; kept for later runs)")

    def on_end(self, event: Any) -> None:
        pass


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Say that `what` is being compiled, if it is and NOREGRET_QUIET is not set: on stderr unless `announce_with` is
    active."""
    with event.install_listener("numba:compile", _OnCompile(what)):
        yield


@contextmanager
def announce_with(say: Callable[[str], None]) -> Iterator[None]:
    """Send announcements to `say` for a while."""
    _say.append(say)
    try:
        yield
    finally:
        _say.remove(say)
