"""Journals on PostgreSQL, by psycopg. Tables of others may be in the same database."""

import contextlib
import select
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from .chain import COLUMNS
from .errors import JournalUnavailable, sentence

CONNECT = 5  # seconds to wait for a connection
LINGER = 2.0  # seconds that the server may take to notice that a connection of ours was closed
_ROW = f"({', '.join(['%s'] * len(COLUMNS))})"
INSERT = f"INSERT INTO journal_events VALUES {_ROW}"
FEW = 2  # rows that an INSERT takes sooner than COPY does, which asks the server twice
# The number of an advisory lock, which is the database's: tables of the same name in another schema are other ones.
_LOCK = "hashtextextended('noregret journal ' || current_schema() || ' ' || %s::text, 0)"
_BY_KEYS = f"SELECT {', '.join(COLUMNS)} FROM journal_events WHERE key = ANY(%s) AND programme = %s"
# Plans are made anew for every query: one that is kept was made when the table was empty, and reads all keys for ever.
# A server that went away is noticed within seconds, and it notices within seconds that a client did: its lock is free.
_ALIVE = {
    "connect_timeout": CONNECT, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3,
    "tcp_user_timeout": 10_000, "application_name": "noregret",
    "options": "-c synchronous_commit=on -c plan_cache_mode=force_custom_plan -c tcp_keepalives_idle=5 "
               "-c tcp_keepalives_interval=2 -c tcp_keepalives_count=3",
}  # fmt: skip


def _driver() -> Any:
    try:
        import psycopg
    except ImportError:
        raise ValueError(
            "a journal on PostgreSQL needs psycopg, which is not installed: pip install 'noregret[postgres]'"
        ) from None
    return psycopg


class Postgres:
    """One database of a server."""

    dialect, begin, mark = "postgresql+psycopg://", "BEGIN", "%s"
    lazily: tuple[tuple[str, ...], tuple[str, ...]] = ("BEGIN", "SET LOCAL synchronous_commit = off"), ()
    private = False
    turn = contextlib.nullcontext()  # its writers do not wait for each other
    by_who = f"SELECT {', '.join(COLUMNS)} FROM journal_events WHERE who = %s AND programme = %s ORDER BY number"

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        place = parts.netloc.rpartition("@")
        user = place[0].partition(":")[0]  # no password in a message
        self.shown = urlunsplit((parts.scheme, (f"{user}@" if user else "") + place[2], parts.path, "", ""))

    def connect(self, create: bool = False) -> Any:
        psycopg = _driver()
        try:
            told = psycopg.conninfo.conninfo_to_dict(self.url)
        except psycopg.ProgrammingError as error:
            raise ValueError(f"url must be that of a PostgreSQL database: {sentence(error)}") from None
        options = f"{_ALIVE['options']} {told.pop('options', '')}"
        return psycopg.connect(**(_ALIVE | told | {"options": options}), autocommit=True)

    def settle(self, connection: Any) -> None:
        """Texts are stored as they come only in UTF-8."""
        coding = connection.exec_driver_sql("SHOW server_encoding").scalar()
        if coding != "UTF8":
            raise ValueError(f"the database in {self.shown} must have the encoding UTF8, it has {coding}")

    @staticmethod
    def by_keys(keys: list[str], programme: str) -> tuple[str, tuple[Any, ...]]:
        """The query for events that came with these keys, and its parameters."""
        return _BY_KEYS, (keys, programme)

    def alone(self, connection: Any) -> None:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})", ("tables",))

    @staticmethod
    def errors() -> tuple[type[BaseException], ...]:
        return (_driver().Error,)

    @staticmethod
    def taken(error: Any) -> str | None:
        """What a failed insertion ran into: "number", "key", or None where it was something else."""
        if type(error).__name__ != "UniqueViolation":
            return None
        return "key" if error.diag.constraint_name == "journal_events_key" else "number"

    def writer(self, programme: str) -> "PostgresWriter":
        return PostgresWriter(self, programme)


class PostgresWriter:
    """The one who appends. Its connection holds the lock: whoever has lost the one has lost the other."""

    def __init__(self, server: Postgres, programme: str) -> None:
        self.server = server
        self._name = f"writer {programme}"
        self._connection: Any = None
        self._locked = False
        self._former: int | None = None  # the server's process of a connection that was closed with the lock

    @property
    def held(self) -> bool:
        """Whether the lock is ours. A server that ended the connection has sent something that nobody asked for: then
        it is asked, and whoever waits without writing hears of it, too."""
        connection = self._connection
        if not self._locked or connection is None or connection.closed:
            return False
        waiting = select.poll()  # not `select`, which ends at file 1023
        waiting.register(connection, select.POLLIN)
        if waiting.poll(0):
            try:
                connection.execute("SELECT 1")
            except _driver().Error:
                self.drop()
        return self._locked

    def lock(self) -> bool:
        """Take the lock, if nobody has it. We may seem to: the server ends a closed connection a little later."""
        if self.held:
            return True
        connection = self._open()
        until = time.monotonic() + LINGER
        while not self._tried(connection) and self._lingers(connection) and time.monotonic() < until:
            time.sleep(0.01)
        self._former = None
        return self._locked or self._tried(connection)

    def _tried(self, connection: Any) -> bool:
        asked = connection.execute(f"SELECT pg_try_advisory_lock({_LOCK})", (self._name,))
        self._locked = bool(asked.fetchone()[0])
        return self._locked

    def _lingers(self, connection: Any) -> bool:
        """Whether the server still has the connection that we closed; its lock is free before it leaves the list."""
        if self._former is None:
            return False
        asked = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", (self._former,))
        return bool(asked.fetchone()[0])

    def unlock(self) -> None:
        """Give it back: said, because a connection that is closed is noticed a little later."""
        if self.held:
            with contextlib.suppress(_driver().Error):
                self._connection.execute(f"SELECT pg_advisory_unlock({_LOCK})", (self._name,))
        self.drop()

    close = unlock

    def drop(self) -> None:
        """Close the connection; the lock goes with it."""
        if self._locked and self._connection is not None:
            self._former = self._connection.pgconn.backend_pid or self._former
        self._locked = False
        if self._connection is not None:
            with contextlib.suppress(_driver().Error):
                self._connection.close()
            self._connection = None

    def append(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """One statement is one transaction: an INSERT, or COPY, which takes half the time where there are several."""
        self._check()
        if len(rows) <= FEW:
            self._connection.execute(INSERT + f", {_ROW}" * (len(rows) - 1), [value for row in rows for value in row])
            return
        with self._connection.cursor().copy("COPY journal_events FROM STDIN") as copy:
            copy.write("".join(map(_line, rows)))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        self._check()
        with self._connection.transaction():
            yield self._connection

    def _check(self) -> None:
        if not self.held:
            raise JournalUnavailable(f"the connection to {self.server.shown} is gone")

    def _open(self) -> Any:
        if self._connection is None or self._connection.closed:
            self._locked = False
            self._connection = self.server.connect()
        return self._connection

    def erase(self, rows: Sequence[tuple[Any, ...]], update: str, *of: str) -> None:
        """Empty rows and append that it was done, in one transaction; then have the server give up the old rows."""
        with self.transaction() as connection:
            connection.execute(update, of)
            connection.cursor().executemany(INSERT, rows)
        with contextlib.suppress(_driver().Error):
            self._connection.execute("VACUUM journal_events")


_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _line(row: tuple[Any, ...]) -> str:
    """A row as COPY takes it."""
    return "\t".join(map(_field, row)) + "\n"


def _field(value: Any) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, str):
        return value if value.isprintable() and "\\" not in value else value.translate(_ESCAPES)
    if isinstance(value, bytes):
        return "\\\\x" + value.hex()
    return str(value)
