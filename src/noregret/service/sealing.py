"""The third thread of a programme: snapshots become bytes and are written here, so that neither writer nor player waits
for it; and people are erased, which takes a snapshot without them first."""

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from ..storage.version import __version__

KEPT = 3  # snapshots that stay, beside the first
PATIENCE = 30.0  # seconds until what was folded ahead must have been committed
REST = 2.0  # times as long as a snapshot took to be written, until the next one is taken


class Sealer:
    """open_journal: a journal object of the thread's own; committed: (events committed, generation) of the programme;
    kept: told of every snapshot that was written, with its number and size; failed: told why one was not."""

    def __init__(
        self,
        open_journal: Callable[[], Any],
        committed: Callable[[], tuple[int, int]],
        kept: Callable[[int, int], None],
        failed: Callable[[str], None],
    ) -> None:
        self.open_journal, self.committed, self.kept, self.failed = open_journal, committed, kept, failed
        self._queue: SimpleQueue[Callable[[Any], None] | None] = SimpleQueue()
        self._working = False
        self._rested = 0.0  # when the thread has rested, on the monotonic clock
        self._thread = threading.Thread(target=self._run, name="sealer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout=10.0)

    def seal(self, number: int, generation: int, sealed: Callable[[], bytes]) -> None:
        """Write a snapshot of the first `number` events, as soon as they are committed; never, where they are not."""
        self._queue.put(lambda journal: self._seal(journal, number, generation, sealed))

    @property
    def busy(self) -> bool:
        """Whether a snapshot waits or is being written, or the thread has not rested from the last one. A player takes
        none meanwhile: each holds a copy of the agent, and where they are due sooner than they can be written, nobody
        would come to anything else (an agent that catches up would never be there)."""
        return self._working or not self._queue.empty() or time.monotonic() < self._rested

    def do(self, job: Callable[[Any], None]) -> None:
        """Something else that may take long, with this thread's journal."""
        self._queue.put(job)

    def _run(self) -> None:
        job = self._next()
        while job is not None:
            try:
                with self.open_journal() as journal:
                    while job is not None:
                        job(journal)
                        job = self._next()
            except Exception as error:  # the journal is away, or the disk is full: the next one may be written
                self.failed(f"a snapshot was not written: {' '.join(str(error).split())[:300]}")
                job = self._next()

    def _next(self) -> Callable[[Any], None] | None:
        self._working = False
        job = self._queue.get()
        self._working = job is not None
        return job

    def _seal(self, journal: Any, number: int, generation: int, sealed: Callable[[], bytes]) -> None:
        if not self.comes(number, generation):
            return
        begun = time.monotonic()
        self.keep(journal, number, sealed())
        now = time.monotonic()
        self._rested = now + REST * (now - begun)

    def keep(self, journal: Any, number: int, blob: bytes) -> None:
        """Write it, and drop those that are too old."""
        journal.keep_snapshot(number, blob, __version__)
        self.kept(number, len(blob))
        for old in journal.snapshots()[KEPT:]:
            if old.number > 1:
                journal.drop_snapshot(old.number)

    def comes(self, number: int, generation: int) -> bool:
        """Whether so many events are committed, soon; False where they were thrown away."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            head, current = self.committed()
            if current != generation:
                return False
            if head >= number:
                return True
            time.sleep(0.005)
        return False
