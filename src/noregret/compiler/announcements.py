"""What is said while something is compiled for the first time: what, how long it takes here, and that it happens once.

How long it takes is known from the last time, which is written down beside the cache: after an update of the package,
say, everything is compiled anew. What is known of Numba here: the event `numba:compile`.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from numba.core import event

from .cache import folder

ROUGHLY = "some seconds, for large agents half a minute"  # where it was never done before
LONG = 1.0  # seconds; shorter waits are not worth a second line


def _to_stderr(line: str) -> None:
    print(f"noregret: {line}", file=sys.stderr, flush=True)


_say: list[Callable[[str], None]] = [_to_stderr]  # the last one speaks


class _OnCompile(event.Listener):  # type: ignore[misc]
    """Numba triggers `numba:compile` only when the cache had nothing: the first one is worth a line."""

    def __init__(self, what: str) -> None:
        self.what, self.started = what, 0.0

    def on_start(self, event: Any) -> None:
        if not self.started:
            self.started = time.monotonic()
            known = _seconds().get(self.what)
            takes = ROUGHLY if known is None else f"about {max(known, 1.0):.0f} s here"
            _tell(f"compiling {self.what} (once; kept for later runs): {takes}")

    def on_end(self, event: Any) -> None:
        pass

    def done(self) -> None:
        took = time.monotonic() - self.started
        if self.started and took >= LONG:
            _note(self.what, took)
            _tell(f"compiling {self.what} took {took:.0f} s")


def _tell(line: str) -> None:
    if not os.environ.get("NOREGRET_QUIET"):
        _say[-1](line)


def _record() -> Path:
    return folder() / "noregret-seconds.json"


def _seconds() -> dict[str, float]:
    """Of what was compiled here before, how long it took."""
    with suppress(Exception):  # no record, or one that somebody else wrote: nothing is known
        return {str(what): float(seconds) for what, seconds in json.loads(_record().read_text()).items()}
    return {}


def _note(what: str, seconds: float) -> None:
    with suppress(OSError):  # a folder that cannot be written to: nothing is kept there either
        whole = _record().with_suffix(f".{os.getpid()}")
        whole.write_text(json.dumps(_seconds() | {what: round(seconds, 1)}))
        whole.replace(_record())


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Say that `what` is being compiled, if it is and NOREGRET_QUIET is not set: on stderr unless `announce_with` is
    active."""
    listener = _OnCompile(what)
    with event.install_listener("numba:compile", listener):
        yield
    listener.done()


@contextmanager
def announce_with(say: Callable[[str], None]) -> Iterator[None]:
    """Send announcements to `say` for a while."""
    _say.append(say)
    try:
        yield
    finally:
        _say.remove(say)
