"""Keeps the figures of a programme up to date with its journal, a few milliseconds at a time.

A thread of its own reads events through a connection for reading, adds them, and rests as long as it worked: the
threads that decide share this process, and must not wait. It lives while somebody looks at the pages."""

import threading
import time
from collections.abc import Callable
from typing import Any

from .figures import Figures

SLICE = 0.004  # seconds of work between two rests
PATIENCE = 0.4  # seconds that a page waits for what came since
LONGEST = 60.0  # seconds without anybody looking, after which the thread ends


class Follower:
    """Figures of a journal: `with follower as figures` has them, up to the head or nearly after `look`. erased: called
    when somebody was erased, so that nothing of them is kept elsewhere."""

    def __init__(self, journal: Any, erased: Callable[[], None] = lambda: None) -> None:
        self.journal, self._erased = journal, erased
        self.lock = threading.Lock()  # held while events are added, and while the figures are looked at
        self._figures = Figures()
        self._anew = 0  # before this number erasures are known of: the figures were counted after them
        self._asked = 0.0
        self._thread: threading.Thread | None = None
        self._done = threading.Condition()
        self.error: str | None = None

    def __enter__(self) -> Figures:
        self.lock.acquire()
        return self._figures

    def __exit__(self, *told: Any) -> None:
        self.lock.release()

    @property
    def number(self) -> int:
        """Events counted."""
        return self._figures.number

    def look(self, patience: float = PATIENCE) -> None:
        """Catch up with the journal's head, as far as that is possible in so many seconds."""
        self._asked = time.monotonic()
        head = int(self.journal.head)
        with self._done:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="figures", daemon=True)
                self._thread.start()
            self._done.notify_all()
            self._done.wait_for(lambda: self.number >= head or self.error is not None, patience)

    def _run(self) -> None:
        while time.monotonic() - self._asked < LONGEST:
            try:
                self._read()
                self.error = None
            except Exception as error:  # the database is away: say so, and try again when somebody looks
                self.error = f"{type(error).__name__}: {error}"
            with self._done:
                self._done.notify_all()
                self._done.wait(1.0)

    def _read(self) -> None:
        """What came since, in slices."""
        if int(self.journal.head) < self.number:  # another database than before
            self._forget(0)
        began, slept = time.monotonic(), False
        for event in self.journal.events(start=self.number):
            with self.lock:
                if event.kind == "erased" and event.number >= self._anew:
                    self._forget(event.number + 1)  # keys and contexts of whoever was erased are not kept here
                    return
                self._figures.add(event)
            if time.monotonic() - began > SLICE:
                time.sleep(SLICE)
                began, slept = time.monotonic(), True
                with self._done:
                    self._done.notify_all()
        if slept:
            with self._done:
                self._done.notify_all()

    def _forget(self, anew: int) -> None:
        self._figures, self._anew = Figures(), anew
        self._erased()
