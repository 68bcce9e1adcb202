"""Journals on SQLite: one file, with a write-ahead log beside it that is flushed to the disk at every commit."""

import contextlib
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.exc import OperationalError

from .chain import COLUMNS
from .errors import JournalUnavailable

LOOK = 0.1  # seconds for which a lock is believed in
BUSY = 5.0  # seconds that a commit waits for those of other programmes in the same file
INSERT = f"INSERT INTO journal_events VALUES ({', '.join('?' * len(COLUMNS))})"
_EVENTS = f"SELECT {', '.join(COLUMNS)} FROM journal_events"  # the planner has no statistics: it is told which index


_TURNS: dict[str, Any] = {}  # of each file, for the threads of this process


class SQLite:
    """One file. `connect` gives connections that commit by themselves unless they are told to begin."""

    dialect, begin, mark = "sqlite://", "BEGIN IMMEDIATE", "?"
    lazily = ("PRAGMA synchronous=NORMAL", "BEGIN IMMEDIATE"), ("PRAGMA synchronous=FULL",)  # around a transaction
    private = True  # nobody else's tables are in it
    by_who = f"{_EVENTS} INDEXED BY journal_events_who WHERE who = ? AND programme = ? ORDER BY number"

    def __init__(self, path: str) -> None:
        self.path = Path(path).absolute()
        self.url, self.shown = f"sqlite:///{self.path}", str(self.path)
        # SQLite's own waiting for a lock sleeps longer and longer: threads of one process wait for each other here.
        self.turn = _TURNS.setdefault(str(self.path), threading.RLock())
        self._file: tuple[int, int] | None = None  # which file had this name when it was opened

    def check(self) -> None:
        """Whether the file is still the one that was opened: SQLite would go on with one that has no name any more, and
        a new connection to another file would spoil its log."""
        try:
            found = os.stat(self.path)
            same = self._file in (None, (found.st_dev, found.st_ino))
        except OSError:
            same = self._file is None
        if not same:
            raise JournalUnavailable(f"the journal in {self.shown} was removed or replaced by another file")

    def connect(self, create: bool = False) -> sqlite3.Connection:
        self.check()
        if not self.path.exists() and not create:
            raise ValueError(f"there is no journal in {self.shown}: no such file")
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise ValueError(f"url must be that of a file in a folder that exists, got {self.shown}")
        mode = "rwc" if create else "rw"
        made = sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY
        )
        found = os.stat(self.path)
        self._file = found.st_dev, found.st_ino
        made.execute("PRAGMA synchronous=FULL")  # NORMAL can lose commits when the power fails
        made.execute("PRAGMA secure_delete=ON")  # what is erased or dropped is overwritten in the file, too
        return made

    def settle(self, connection: Any) -> None:
        """The write-ahead log is a property of the file: set once. SQLite does not wait for others here, so we do."""
        until = time.monotonic() + BUSY
        while True:
            try:
                modes = (connection.exec_driver_sql(f"PRAGMA journal_mode{to}").scalar() for to in ("", "=WAL"))
                if "wal" not in modes:
                    raise ValueError(f"{self.shown} is in a place where SQLite cannot have a write-ahead log")
                return
            except OperationalError as error:
                if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)

    def alone(self, connection: Any) -> None:
        """BEGIN IMMEDIATE is enough."""

    @staticmethod
    def by_keys(keys: list[str], programme: str) -> tuple[str, tuple[Any, ...]]:
        """The query for events that came with these keys, and its parameters; few texts of queries, to be kept."""
        filled = keys + keys[-1:] * ((1 << (len(keys) - 1).bit_length()) - len(keys))
        marks = ",".join("?" * len(filled))
        where = f"INDEXED BY journal_events_key WHERE key IN ({marks}) AND programme = ?"
        return f"{_EVENTS} {where}", (*filled, programme)

    def asker(self) -> "Asker":
        """A connection for queries of `by_who` and `by_keys`."""
        return Asker(self.connect())

    @staticmethod
    def errors() -> tuple[type[BaseException], ...]:
        return (sqlite3.Error,)

    @staticmethod
    def taken(error: BaseException) -> str | None:
        """What a failed insertion ran into: "number", "key", or None where it was something else."""
        if not isinstance(error, sqlite3.IntegrityError):
            return None
        return (
            "key" if "journal_events.key" in str(error) else "number" if "journal_events.number" in str(error) else None
        )

    def writer(self, programme: str) -> "SQLiteWriter":
        return SQLiteWriter(self, programme)


class Asker:
    """A connection for queries."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection, self.close = connection, connection.close

    def ask(self, query: str, parameters: tuple[Any, ...]) -> list[Any]:
        return self.connection.execute(query, parameters).fetchall()


class SQLiteWriter:
    """The one who appends: a connection of its own, and a lock on a file beside the journal's.

    The system takes the lock away when the process ends, however it ends. Whoever removes the lock's file or the
    write-ahead log, or puts another file in the journal's place, is noticed at the next write."""

    def __init__(self, server: SQLite, programme: str) -> None:
        self.server = server
        self.lock_path = f"{server.path}.{programme}.lock"
        self._lock: int | None = None
        self._looked = 0.0
        self._connection: sqlite3.Connection | None = None
        self._log_path = f"{server.path}-wal"
        self._log: tuple[int, int] | None = None  # which file the connection writes to

    @property
    def held(self) -> bool:
        """Whether the lock is ours. That nobody has removed its file is looked at ten times a second at most: two
        writers would still be kept apart by the primary key."""
        now = time.monotonic()
        if self._lock is not None and now > self._looked + LOOK:
            if not _same(self._lock, self.lock_path):
                self.unlock()
            self._looked = now
        return self._lock is not None

    def lock(self) -> bool:
        """Take the lock, if nobody has it."""
        if self.held:
            return True
        self.unlock()
        while True:
            try:
                handle = os.open(self.lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise JournalUnavailable(f"the journal in {self.server.shown} cannot be locked: {error}") from None
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                return False
            except OSError as error:
                os.close(handle)
                raise JournalUnavailable(f"the journal in {self.server.shown} cannot be locked: {error}") from None
            if _same(handle, self.lock_path):
                self._lock, self._looked = handle, time.monotonic()
                return True
            os.close(handle)  # the file was removed meanwhile

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def close(self) -> None:
        self.unlock()
        self.drop()

    def drop(self) -> None:
        """A connection that something went wrong with is not used again."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        self._log = None

    def append(self, rows: Sequence[tuple[Any, ...]]) -> None:
        with self.transaction() as connection:
            connection.executemany(INSERT, rows)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._open()
        with self.server.turn:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
                if self._log is None:
                    self._log = _identity(self._log_path)
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def _open(self) -> sqlite3.Connection:
        self.server.check()
        if self._connection is None:
            self._connection = self.server.connect()
        elif self._log is not None and self._log != _identity(self._log_path):
            # What was committed since is in a file without a name, which ends with the process: save it.
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.drop()
            raise JournalUnavailable(f"the write-ahead log of the journal in {self.server.shown} was removed")
        return self._connection

    def erase(self, rows: Sequence[tuple[Any, ...]], update: str, *of: str) -> None:
        """Empty rows and append that it was done, in one transaction; the write-ahead log, where they may still be, is
        emptied into the file (by the next one who can, while others read)."""
        with self.transaction() as connection:
            connection.execute(update, of)
            connection.executemany(INSERT, rows)
        self._open().execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _identity(path: str) -> tuple[int, int] | None:
    """Which file has this name."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _same(handle: int, path: str) -> bool:
    """Whether the open file is the one of this name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False
