"""The fourth thread of a programme: stored sets are made anew here, beside the player, and put in place by an event.

The player begins a refresh, which holds on to all that it takes; this thread computes it, without Python's lock; the
writer writes the event `refresh` when it is done, and the player puts the set in place when it comes to that event. So
nobody waits for a refresh: whoever begins meanwhile is planned for with the set of before. Who folds the journal again
computes it when the event comes, and has the same set from there on.

One refresh is under way at a time, and the thread rests after each for twice as long as it took: at most a third of a
core. Data that comes in meanwhile waits for the next one."""

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

REST = 0.02  # seconds, at least: each costs a commit


class Refresher:
    """done: told of every refresh that was computed; failed: told why one was not."""

    def __init__(self, done: Callable[[Any], None], failed: Callable[[Any, str], None]) -> None:
        self.done, self.failed = done, failed
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, refresh: Any) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="refresher", daemon=True)
            self._thread.start()
        self._queue.put(refresh)

    def stop(self) -> None:
        self._stopping.set()
        self._queue.put(None)

    def _run(self) -> None:
        while (refresh := self._queue.get()) is not None:
            begun = time.monotonic()
            try:
                refresh.compute()
            except Exception as error:  # no memory for the copies: the set of before goes on
                self.failed(refresh, f"a stored set was not refreshed: {type(error).__name__}")
            else:
                self.done(refresh)
            if self._stopping.wait(max(REST, 2.0 * (time.monotonic() - begun))):
                return
