"""Journals on PostgreSQL, by psycopg. Tables of others may be in the same database.

What every request needs, looking up keys and appending rows, goes through libpq itself (`psycopg.pq`): one call that
waits for the server without Python's lock, where a cursor's `execute` takes the lock several times and four times the
processor time. Statements are prepared once for each connection."""

import contextlib
import functools
import select
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from .chain import COLUMNS
from .errors import JournalUnavailable, sentence

CONNECT = 5  # seconds to wait for a connection
LINGER = 2.0  # seconds that the server may take to notice that a connection of ours was closed
_ROW = f"({', '.join(['%s'] * len(COLUMNS))})"
INSERT = f"INSERT INTO journal_events VALUES {_ROW}"
FEW = 32  # rows that are inserted by a prepared statement; for more, COPY is as good
# The number of an advisory lock, which is the database's: tables of the same name in another schema are other ones.
_LOCK = "hashtextextended('noregret journal ' || current_schema() || ' ' || %s::text, 0)"
_EVENTS = f"SELECT {', '.join(COLUMNS)} FROM journal_events"
_BY_FEW_KEYS = f"{_EVENTS} WHERE key = ANY($1::text[]) AND programme = $2"
# Key by key. Before it was analysed the planner takes a key for that of a two-hundredth of the table, and reads the
# whole table for sixteen of them: 8 ms after 20,000 events, and more the more there are.
_BY_KEYS = (
    f"SELECT e.* FROM unnest($1::text[]) AS asked(key), LATERAL "
    f"({_EVENTS} WHERE programme = $2 AND key = asked.key LIMIT 1) AS e"
)
# Plans are made anew for every query: one that is kept was made when the table was empty, and reads all keys for ever.
# There is only one plan for an INSERT: the writer's is kept.
_PLANNED, _ONCE = "-c plan_cache_mode=force_custom_plan", "-c plan_cache_mode=force_generic_plan"
# A server that went away is noticed within seconds, and it notices within seconds that a client did: its lock is free.
_ALIVE = {
    "connect_timeout": CONNECT, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3,
    "tcp_user_timeout": 10_000, "application_name": "noregret", "client_encoding": "UTF8",
    "options": "-c synchronous_commit=on -c bytea_output=hex -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 "
               "-c tcp_keepalives_count=3",
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
    by_who = f"{_EVENTS} WHERE who = $1 AND programme = $2 ORDER BY number"

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        place = parts.netloc.rpartition("@")
        user = place[0].partition(":")[0]  # no password in a message
        self.shown = urlunsplit((parts.scheme, (f"{user}@" if user else "") + place[2], parts.path, "", ""))

    def connect(self, create: bool = False, planned: str = _PLANNED) -> Any:
        psycopg = _driver()
        try:
            told = psycopg.conninfo.conninfo_to_dict(self.url)
        except psycopg.ProgrammingError as error:
            raise ValueError(f"url must be that of a PostgreSQL database: {sentence(error)}") from None
        options = f"{_ALIVE['options']} {planned} {told.pop('options', '')}"
        return psycopg.connect(**(_ALIVE | told | {"options": options}), autocommit=True)

    def settle(self, connection: Any) -> None:
        """Texts are stored as they come only in UTF-8."""
        coding = connection.exec_driver_sql("SHOW server_encoding").scalar()
        if coding != "UTF8":
            raise ValueError(f"the database in {self.shown} must have the encoding UTF8, it has {coding}")

    @staticmethod
    def by_keys(keys: list[str], programme: str) -> tuple[str, tuple[Any, ...]]:
        """The query for events that came with these keys, and its parameters."""
        quoted = ('"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"' for key in keys)
        return _BY_FEW_KEYS if len(keys) <= 2 else _BY_KEYS, ("{" + ",".join(quoted) + "}", programme)

    def asker(self) -> "Prepared":
        """A connection for queries of `by_who` and `by_keys`."""
        return Prepared(self.connect())

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


class Prepared:
    """A connection whose statements are prepared when they are first used, and then take one call each."""

    def __init__(self, connection: Any) -> None:
        self.connection, self._names = connection, dict[str, bytes]()
        self._good = _driver().pq.ExecStatus.COMMAND_OK, _driver().pq.ExecStatus.TUPLES_OK

    def close(self) -> None:
        self.connection.close()

    def ask(self, query: str, parameters: tuple[Any, ...]) -> list[Any]:
        """Rows of a query for all columns of events."""
        found = self.run(query, [str(one).encode() for one in parameters])
        return [_row(found, i) for i in range(found.ntuples)]

    def run(self, statement: str, parameters: "list[bytes | None]") -> Any:
        """The result; the driver's error where it failed."""
        libpq, name = self.connection.pgconn, self._names.get(statement)
        if name is None:
            name = b"noregret %d" % len(self._names)
            self._checked(libpq.prepare(name, statement.encode()))
            self._names[statement] = name
        return self._checked(libpq.exec_prepared(name, parameters))

    def _checked(self, result: Any) -> Any:
        if result.status in self._good:
            return result
        psycopg = _driver()
        if not result.error_field(psycopg.pq.DiagnosticField.SQLSTATE):  # not the server's: the connection broke
            raise psycopg.OperationalError(result.get_error_message())
        raise psycopg.errors.error_from_result(result)


class PostgresWriter:
    """The one who appends. Its connection holds the lock: whoever has lost the one has lost the other."""

    def __init__(self, server: Postgres, programme: str) -> None:
        self.server = server
        self._name = f"writer {programme}"
        self._connection: Any = None
        self._prepared: Prepared | None = None
        self._locked = False
        self._process = 0  # the server's, of the connection that has the lock
        self._former: int | None = None  # that of one that was closed with it

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
        if self._locked:
            self._process = connection.info.backend_pid  # asked now: a broken connection does not know
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
        if self._locked:
            self._former = self._process
        self._locked = False
        if self._connection is not None:
            with contextlib.suppress(_driver().Error):
                self._connection.close()
            self._connection = None

    def append(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """One statement is one transaction: an INSERT, or COPY where there are many."""
        self._check()
        if len(rows) <= FEW:
            assert self._prepared is not None
            self._prepared.run(_inserting(len(rows)), [_value(value) for row in rows for value in row])
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
            self._connection = self.server.connect(planned=_ONCE)
            self._prepared = Prepared(self._connection)
        return self._connection

    def erase(self, rows: Sequence[tuple[Any, ...]], update: str, *of: str) -> None:
        """Empty rows and append that it was done, in one transaction; then have the server give up the old rows."""
        with self.transaction() as connection:
            connection.execute(update, of, prepare=False)
            connection.cursor().executemany(INSERT, rows)
        with contextlib.suppress(_driver().Error):
            self._connection.execute("VACUUM journal_events")


@functools.cache
def _inserting(rows: int) -> str:
    """The INSERT of so many rows."""
    n = len(COLUMNS)
    marks = ("(" + ", ".join(f"${n * i + j + 1}" for j in range(n)) + ")" for i in range(rows))
    return "INSERT INTO journal_events VALUES " + ", ".join(marks)


def _value(value: Any) -> bytes | None:
    """A parameter as libpq takes it."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return b"\\x" + value.hex().encode()
    return b"f" if value is False else b"t" if value is True else b"%d" % value


def _row(result: Any, i: int) -> tuple[Any, ...]:
    """A row of all columns, from texts."""
    return tuple(read(result.get_value(i, j)) for j, read in enumerate(_READ))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _bytes(value: bytes | None) -> bytes | None:
    return None if value is None else bytes.fromhex(value[2:].decode())


def _flag(value: bytes) -> bool:
    return value == b"t"


_TYPES: dict[str, Callable[[Any], Any]] = {
    "number": int, "asked": _bytes, "salt": _bytes, "digest": _bytes, "chain": _bytes, "erased": _flag,
}  # fmt: skip
_READ = tuple(_TYPES.get(name, _text) for name in COLUMNS)


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
