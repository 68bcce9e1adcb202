"""`Journal`: one programme's events in a database."""

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, Self

from sqlalchemy import Select, func, select

from .. import checks as check
from .chain import COLUMNS, ERASABLE, START, check_key, check_programme, event_of, made_rows, who_text
from .database import Database
from .erasure import check_erasable
from .errors import KeyTaken, NotTheWriter, RowDamaged, translated
from .event import KINDS, Entry, Event, Who
from .export import export
from .schema import events as table
from .snapshots import Shelf, Snapshot
from .verifying import Verified, verify

CHUNK = 2_000  # rows read at a time
ASKED = 500  # keys looked up by one query
_POLL = 0.05  # seconds between two looks at a lock that somebody else has


class Journal:
    """The events of one programme in a database, in one order, with a hash chain; the database may have several.

    url        a path, "sqlite:///path" or "postgresql://user@host/database"; PostgreSQL needs the extra `postgres`
    programme  the name of the sequence: at most 100 letters, digits, dots, dashes and underscores
    create     whether tables are made in an empty database; False: a sentence

    What `write` has returned is committed and on the disk. One writer at a time: the first to write takes a lock, which
    ends with the process. A writer that lost it cannot write beside another, because (programme, number) is the primary
    key, and it hears of it (`NotTheWriter`). Reading needs no lock, and any thread may. A database that is away or full
    is a `JournalUnavailable`. docs/journal.md has the formulas.

    >>> import tempfile
    >>> import noregret as nr
    >>> from noregret.journal.event import Entry
    >>> with tempfile.TemporaryDirectory() as folder, nr.Journal(f"{folder}/school.db") as journal:
    ...     made = journal.write([Entry("begin", "2026-11-17T09:30:00Z", "Ms B", {"x": [0.5]})])
    ...     [(e.number, e.kind, e.who) for e in journal.events()], journal.verify().ok
    ([(0, 'begin', 'Ms B')], True)
    """

    def __init__(self, url: Any, programme: str = "programme", *, create: bool = True) -> None:
        self.programme = check_programme(programme)
        self._database = Database(url, create)
        self._server = self._database.server
        self._writer = self._server.writer(self.programme)
        self._shelf = Shelf(self._database, self.programme)
        self._busy = threading.RLock()
        self._process = os.getpid()
        self._closed = False
        self._sure = False  # whether what was last seen is what is there: only the holder of the lock can know
        self._seen: tuple[int, bytes] = (0, START)
        try:
            self._look()
        except BaseException:
            self.close()
            raise

    # Where it stands ----------------------------------------------------------------------------------------------
    @property
    def url(self) -> str:
        """Of the database, so that others can open it: with a password, if it has one."""
        return self._server.url

    @property
    def local(self) -> bool:
        """Whether it is a file of this machine, and no server that may be silent for seconds."""
        return self._server.private

    @property
    def head(self) -> int:
        """How many events there are; the number of the next one. Asked for, it is read where it may have changed."""
        return self._known()[0]

    @property
    def chain(self) -> bytes:
        """The chain after the last event; 32 zero bytes before the first."""
        return self._known()[1]

    def __repr__(self) -> str:
        return f"<Journal {self.programme} in {self._server.shown}>"

    def _known(self) -> tuple[int, bytes]:
        with self._busy:
            self._usable()
            if not (self._sure and self._writer.held):
                self._look()
            return self._seen

    def _look(self) -> None:
        """See where the journal stands."""
        held = self._writer.held
        self._seen = self._stand()
        self._sure = held

    def _stand(self) -> tuple[int, bytes]:
        last = self._select("number", "chain").order_by(table.c.number.desc()).limit(1)
        row = self._database.read(lambda connection: connection.execute(last).first())
        return (0, START) if row is None else (row[0] + 1, bytes(row[1]))

    def _usable(self) -> None:
        if self._closed:
            raise RuntimeError("the journal is closed")
        if os.getpid() != self._process:
            raise RuntimeError("a journal must not be used in a process forked from the one that opened it")

    # Who writes ---------------------------------------------------------------------------------------------------
    @property
    def locked(self) -> bool:
        """Whether this journal holds the writer's lock."""
        return self._writer.held

    def lock(self, wait: float = 0.0) -> bool:
        """Become the writer: whether the lock was had within `wait` seconds. The head is read anew then."""
        until = time.monotonic() + check.nonnegative("wait", wait)
        while True:
            with self._busy:
                self._usable()
                if self._writer.held and self._sure:
                    return True
                if self._locked_now():
                    self._look()
                    return True
            if time.monotonic() >= until:
                return False
            time.sleep(_POLL)

    def unlock(self) -> None:
        """Let somebody else write."""
        with self._busy:
            self._sure = False
            self._writer.unlock()

    def _locked_now(self) -> bool:
        try:
            return self._writer.lock()
        except self._errors as error:
            self._writer.drop()
            raise translated(error, self._server.shown) from error

    @property
    def _errors(self) -> tuple[type[BaseException], ...]:
        return self._server.errors()

    def _take(self) -> None:
        """Be the writer, with nothing in the journal that the caller has not seen."""
        if self._sure and self._writer.held:
            return
        if not self._locked_now():
            raise NotTheWriter(f"somebody else writes the journal of {self.programme} in {self._server.shown}")
        stand = self._stand()
        if stand != self._seen:
            raise NotTheWriter(
                f"the journal of {self.programme} in {self._server.shown} has {stand[0]} events, not the "
                f"{self._seen[0]} that were there when it was last looked at: read its head, and what is new, first"
            )
        self._sure = True

    # Writing ------------------------------------------------------------------------------------------------------
    def write(self, entries: Iterable[Entry]) -> list[Event]:
        """Append entries in this order, all or none, and return them as events when they are on the disk.

        ValueError: an entry cannot be written, or its key is taken (`KeyTaken`). NotTheWriter: see there.
        JournalUnavailable: nothing was written, or it is not known: ask `head`. Nothing is half written."""
        told = list(entries)
        with self._busy:
            self._usable()
            self._take()
            number, chain = self._seen
            rows, made = made_rows(self.programme, number, chain, told)
            if made:
                self._sure = False  # until it is committed; a Ctrl-C in between leaves it so
                try:
                    self._writer.append(rows)
                except self._errors as error:
                    self._failed(error)
                self._seen, self._sure = (number + len(made), made[-1].chain), True
            return made

    def _failed(self, error: BaseException) -> NoReturn:
        """Say what a failed transaction ran into. Only a key that is taken leaves us knowing where we stand."""
        what = self._server.taken(error)
        if what == "key":
            self._sure = True
            raise KeyTaken("key must be new: one of these is in the journal already, nothing was written") from error
        if what == "number":
            self._writer.unlock()
        self._writer.drop()
        if what == "number":
            raise NotTheWriter(
                f"somebody else has written to the journal of {self.programme} in {self._server.shown}: nothing was "
                f"written here"
            ) from error
        raise translated(error, self._server.shown) from error

    # Reading ------------------------------------------------------------------------------------------------------
    def _select(self, *columns: str) -> Select[Any]:
        return select(*(table.c[name] for name in columns or COLUMNS)).where(table.c.programme == self.programme)

    def _rows(self, start: int = 0, stop: int | None = None, kinds: Sequence[str] | None = None) -> Iterator[Any]:
        """Rows in order, read a chunk at a time; none is held open in between."""
        number = table.c.number
        while stop is None or start < stop:
            wanted = self._select().where(number >= start).order_by(number).limit(CHUNK)
            wanted = wanted if stop is None else wanted.where(number < stop)
            wanted = wanted if kinds is None else wanted.where(table.c.kind.in_(kinds))
            rows = self._database.read(lambda connection, wanted=wanted: connection.execute(wanted).all())  # type: ignore[misc]
            yield from rows
            if len(rows) < CHUNK:
                return
            start = rows[-1][1] + 1

    def events(self, start: int = 0, stop: int | None = None, kinds: Iterable[str] | None = None) -> Iterator[Event]:
        """Events number `start` to `stop` - 1 (None: to the end), of these kinds only."""
        self._usable()
        first, last = check.integer("start", start, 0), None if stop is None else check.integer("stop", stop, 0)
        wanted = None if kinds is None else [check.one_of("kinds", k, KINDS) for k in kinds]
        return map(event_of, self._rows(first, last, wanted))

    def of(self, who: Who) -> list[Event]:
        """All events of one person, in order."""
        self._usable()
        return [event_of(row) for row in self._database.ask(self._server.by_who, (who_text(who), self.programme))]

    def answered(self, keys: Iterable[str]) -> dict[str, Event]:
        """The events that these keys came with; keys that are new are not in it."""
        self._usable()
        asked = list(keys)
        for key in asked:
            check_key(key)
        found = {}
        for i in range(0, len(asked), ASKED):
            for row in self._database.ask(*self._server.by_keys(asked[i : i + ASKED], self.programme)):
                found[row[5]] = _answered(row)
        return found

    def tally(self, start: int = 0) -> dict[str, int]:
        """How many events of each kind there are from event `start` on; their contents are not read."""
        self._usable()
        kind, number = table.c.kind, table.c.number
        counted = select(kind, func.count()).where(table.c.programme == self.programme, number >= start).group_by(kind)
        return dict(self._database.read(lambda connection: [tuple(row) for row in connection.execute(counted)]))

    # Snapshots ----------------------------------------------------------------------------------------------------
    def keep_snapshot(self, number: int, blob: bytes, version: str) -> Snapshot:
        """Store the fold after `number` events, in small transactions that keep no writer waiting; it replaces an
        earlier one of as many. From any thread, with a connection of its own."""
        self._usable()
        return self._shelf.keep(number, blob, version)

    def snapshots(self) -> list[Snapshot]:
        """Those that are there whole, newest first."""
        self._usable()
        return self._shelf.all()

    def snapshot(self, number: int) -> bytes:
        """A snapshot's bytes; ValueError where there is none of so many events, or it is damaged."""
        self._usable()
        return self._shelf.get(number)

    def drop_snapshot(self, number: int) -> None:
        """Remove a snapshot, if there is one."""
        self._usable()
        self._shelf.drop(number)

    # Whether it is right, and what must go ------------------------------------------------------------------------
    def verify(self, start: int = 0, known: Mapping[int, bytes] | None = None) -> Verified:
        """Compute digests and chain again from event `start` on: altered, missing, swapped and inserted rows are found.

        known   number of events -> chain, as noted elsewhere: a whole journal written anew is found by nothing else"""
        self._usable()
        first, before = check.integer("start", start, 0), START
        if first:
            found = list(self._rows(first - 1, first))
            if not found:
                raise ValueError(f"start must be at most the number of events, there is no event {first - 1}")
            before = bytes(found[0][11])
        kept = [s.number for s in self.snapshots()]
        return verify(self.programme, self._rows(first), first, before, kept, known)

    def erase(self, who: Who, learned: int | None = None) -> Event:
        """Take away what one person said and was told; digests and chain stay, an "erased" event says which rows.

        learned   how many events had been folded when the person was learned from; None: their own last event was
                  enough. Snapshots between their first event and then may have them in them, and are dropped; there
                  must be one after it

        Somebody who is open must be withdrawn first. Backups and exports are not reached."""
        with self._busy:
            self._usable()
            self._take()
            theirs = self.of(who)
            kept = [s.number for s in self.snapshots()]
            first, past = check_erasable(who, theirs, kept, learned)
            for n in kept:
                if first < n < past:
                    self.drop_snapshot(n)
            number, chain = self._seen
            numbers = [e.number for e in theirs]
            entry = Entry("erased", _now(), payload={"events": len(numbers), "numbers": numbers})
            rows, made = made_rows(self.programme, number, chain, [entry])
            self._sure = False
            try:
                self._writer.erase(rows, self._erasing(), who_text(who), self.programme)
            except self._errors as error:
                self._failed(error)
            self._seen, self._sure = (number + 1, made[0].chain), True
            return made[0]

    def _erasing(self) -> str:
        mark = self._server.mark
        gone = ", ".join(f"{name} = NULL" for name in ERASABLE)
        return f"UPDATE journal_events SET {gone}, erased = TRUE WHERE who = {mark} AND programme = {mark}"

    def export(self, folder: Any) -> list[Path]:
        """Parquet files in a folder: events, decisions with probabilities, outcomes, people (`journal.export`)."""
        return export(self.events(), folder)

    @staticmethod
    def programmes(url: Any) -> list[str]:
        """The programmes that have events in a database."""
        database = Database(url, create=False)
        try:
            found: list[str] = []
            while True:
                wanted = select(func.min(table.c.programme)).where(table.c.programme > (found[-1] if found else ""))
                name = database.read(lambda connection, wanted=wanted: connection.execute(wanted).scalar())  # type: ignore[misc]
                if name is None:
                    return found
                found.append(name)
        finally:
            database.close()

    # The end ------------------------------------------------------------------------------------------------------
    def close(self) -> None:
        """Give the lock and all connections back."""
        with self._busy:
            if not self._closed and os.getpid() == self._process:
                self._writer.close()
                self._database.close()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _answered(row: Any) -> Event:
    """An event by its key: what was answered can be said again although the rest of the row is damaged."""
    try:
        return event_of(row)
    except RowDamaged:
        return event_of((*row[:4], None, *row[5:7], None, *row[8:]))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
