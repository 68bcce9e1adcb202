"""Several programmes in one process, and several processes on one database.

Every process may be given every programme. A database lock says who has which; the others stand by and look again,
those that are preferred here soon, the others after a grace, so that each process first gets its own. When a process
dies its locks are free, and whoever looks next goes on from the journal: callers are told to come again for as long as
that takes (503 with Retry-After), and a repeated key gets the committed answer.

Programmes that another process has created are found in the database, where the first event of each has its file."""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from ..journal.errors import JournalUnavailable
from ..journal.journal import Journal
from .programme import Programme
from .programme_file import Settings, programme_from
from .writer import Answers

SOON, GRACE = 0.25, 2.0  # seconds between two looks at a journal that another process has
LOOK = 5.0  # seconds between two looks for programmes that others have created
SWITCH = 0.0005  # seconds after which a thread that computes lets others have Python's lock


class Host:
    """The programmes of one process.

    url         of the database; "{programme}" in it stands for the name, where each programme has one of its own
    settings    programme files
    on_answers  as for `Programme`, of all of them
    preferred   names that this process tries to get at once; None: all that it was given
    grace       seconds between its attempts to get any other
    look        seconds between looks for programmes that others have created; 0: never

    >>> import tempfile
    >>> from noregret.service.programme_file import programme_from
    >>> table = {
    ...     "programme": {"name": "demo"},
    ...     "problem": {"n_states": 2, "n_actions": 2, "horizon": 3, "context_dim": 2, "weight_bound": 2.0,
    ...                 "reward_bound": 1.0},
    ...     "agent": {"name": "certified-psrl"}, "house": {"rule": {"0": 1, "1": 0}},
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Host(f"{folder}/journal.db", [programme_from(table)]) as host:
    ...         sorted(host.programmes), host.find("nobody") is None
    (['demo'], True)
    """

    def __init__(
        self,
        url: str,
        settings: Iterable[Settings] = (),
        on_answers: Callable[[Answers], None] | None = None,
        *,
        preferred: Iterable[str] | None = None,
        grace: float = GRACE,
        look: float = LOOK,
    ) -> None:
        told = list(settings)
        names = [one.name for one in told]
        if len(set(names)) < len(names):
            raise ValueError(f"settings must have different names, got {', '.join(sorted(names))}")
        self.url, self.on_answers, self.grace, self.look = url, on_answers, grace, look
        self.preferred = set(names if preferred is None else preferred)
        self.programmes: dict[str, Programme] = {one.name: self._programme(one) for one in told}
        self._started = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="host", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """loop: that of the thread that asks, where there is one (`Programme.start`)."""
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH))
        self._started, self._loop = True, loop
        for programme in self.programmes.values():
            programme.start(loop)
        if self.look > 0.0 and "{programme}" not in self.url:
            self._look()  # what was created before a restart is there when the first caller comes
            self._thread.start()

    def stop(self) -> None:
        """All programmes answer what waits and let go of their journals, side by side."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10.0)
        stopping = [threading.Thread(target=programme.stop) for programme in self.programmes.values()]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()

    def keep(self) -> None:
        """Snapshots of all programmes, one after the other: before a stop that nobody hurries."""
        for programme in self.programmes.values():
            programme.keep()

    def __enter__(self) -> "Host":
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def find(self, name: str) -> Programme | None:
        return self.programmes.get(name)

    def create(self, settings: Settings) -> Programme:
        """A new programme, at once; the one that is there where it has the same file. A ValueError where the name is
        taken by another."""
        with self._lock:
            there = self.programmes.get(settings.name)
            if there is not None:
                if there.settings.table() != settings.table():
                    raise ValueError(f"programme.name: {settings.name} is taken by another programme")
                return there
            self.preferred.add(settings.name)
            return self._add(settings)

    def _programme(self, settings: Settings) -> Programme:
        eager = settings.name in self.preferred
        url, poll = self.url.replace("{programme}", settings.name), SOON if eager else self.grace
        return Programme(settings, url, self.on_answers, poll, eager)

    def _add(self, settings: Settings) -> Programme:
        made = self._programme(settings)
        self.programmes = self.programmes | {settings.name: made}  # readers have the one before, or this one
        if self._started:
            made.start(self._loop)
        return made

    def _run(self) -> None:
        while not self._stopping.wait(self.look):
            self._look()

    def _look(self) -> None:
        with contextlib.suppress(JournalUnavailable, OSError, ValueError):  # it is away, or there is none yet
            self.look_around()

    def look_around(self) -> None:
        """Stand by for programmes in the database that this process does not know. One that it cannot serve, whose
        agent's file is on another machine for example, keeps it from no other."""
        for name in Journal.programmes(self.url):
            if name in self.programmes:
                continue
            with contextlib.suppress(ValueError):
                with Journal(self.url, name, create=False) as journal:
                    made = next(iter(journal.events(0, 1)), None)
                told = None if made is None or made.payload is None else made.payload.get("settings")
                if told is not None:
                    with self._lock:
                        self._add(programme_from(told, f"the journal of {name}"))
