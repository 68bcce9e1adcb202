"""The database behind a journal: SQLite or PostgreSQL by its URL, its version, connections for reading."""

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from sqlalchemy import Connection, create_engine, inspect, pool, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError, TimeoutError

from .. import checks as check
from .errors import JournalUnavailable, translated
from .postgres import Postgres
from .schema import VERSION, VERSIONS, metadata
from .sqlite import SQLite

T = TypeVar("T")
_KEEP = ("sqlite:///", "postgresql://", "postgresql+psycopg://", "postgres://")


def server_of(url: Any) -> SQLite | Postgres:
    """What a URL names: a path or sqlite:///path, or postgresql://user@host/database."""
    if not isinstance(url, str | os.PathLike):
        raise ValueError(f"url must be a path, sqlite:///path or postgresql://..., got {check.shown(url)}")
    told = os.fspath(url)
    if not isinstance(told, str) or "\0" in told or not told:
        raise ValueError(f"url must be a path, sqlite:///path or postgresql://..., got {check.shown(url)}")
    scheme = told.partition("://")[0]
    if told.startswith(_KEEP[1:]):
        return Postgres("postgresql://" + told.partition("://")[2])
    if "://" in told and scheme != "sqlite":
        raise ValueError(f"url must be a path, sqlite:///path or postgresql://..., got one of {check.shown(scheme)}")
    path = told[len(_KEEP[0]) :] if told.startswith(_KEEP[0]) else told
    if path.startswith(("sqlite:", ":memory:")) or not path:
        raise ValueError(f"url must name a file (sqlite:///path), got {check.shown(url)}")
    return SQLite(path)


class Database:
    """Connections to one database that has the tables of a journal, or is given them.

    create   whether a database without them is given them; False: a sentence"""

    def __init__(self, url: Any, create: bool = True) -> None:
        self.server = server_of(url)
        self.shown = self.server.shown
        self._plain: deque[Any] = deque()
        self.engine = create_engine(
            self.server.dialect, creator=lambda: self.server.connect(create), poolclass=pool.QueuePool, pool_size=4,
            max_overflow=12, pool_timeout=10.0, isolation_level="AUTOCOMMIT",
        )  # fmt: skip
        try:
            self._prepare(check.flag("create", create))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        while self._plain:
            self._plain.pop().close()
        self.engine.dispose()

    def ask(self, query: str, parameters: tuple[Any, ...]) -> list[Any]:
        """Rows by the plain driver, on a connection that is kept: for what every request asks. As `read`, once more
        where a connection in store turns out to be dead."""
        while True:
            try:
                connection, new = self._plain.pop(), False
            except IndexError:
                connection, new = None, True
            try:
                if connection is None:
                    connection = self.server.asker()
                rows: list[Any] = connection.ask(query, parameters)
                self._plain.append(connection)
                return rows
            except self.server.errors() as error:
                if connection is not None:
                    with contextlib.suppress(*self.server.errors()):
                        connection.close()
                if new:
                    raise translated(error, self.shown) from error

    def read(self, question: Callable[[Connection], T]) -> T:
        """The answer to a question; asked once more on a new connection where the one in store turns out to be dead."""
        for last in (False, True):
            try:
                with self.engine.connect() as connection:
                    return question(connection)
            except DBAPIError as error:
                if last or not error.connection_invalidated:
                    raise translated(error.orig, self.shown) from error
            except TimeoutError:
                raise JournalUnavailable(f"the journal in {self.shown} is not available: all connections are in use") from None  # fmt: skip  # noqa: E501
        raise AssertionError

    @contextlib.contextmanager
    def transaction(self, lazily: bool = False) -> Iterator[Connection]:
        """A connection in a transaction that may write; committed at the end, or undone.

        lazily   it is flushed to the disk by the next commit of anybody who is not lazy, and nobody waits for that.
                 After a power cut it is there or not; nothing that came later is there without it"""
        first, last = self.server.lazily if lazily else ((self.server.begin,), ())
        try:
            with self.server.turn, self.engine.connect() as connection:
                try:
                    for statement in first:
                        connection.exec_driver_sql(statement)
                    yield connection
                    connection.exec_driver_sql("COMMIT")
                except BaseException:
                    with contextlib.suppress(SQLAlchemyError):  # a connection that is gone has nothing to undo
                        connection.exec_driver_sql("ROLLBACK")
                    raise
                finally:
                    for statement in last:
                        connection.exec_driver_sql(statement)
        except DBAPIError as error:
            raise translated(error.orig, self.shown) from error
        except TimeoutError:
            raise JournalUnavailable(f"the journal in {self.shown} is not available: all connections are in use") from None  # fmt: skip  # noqa: E501

    def _prepare(self, create: bool) -> None:
        version = self.read(self._version)
        if version != VERSION:
            if version is None and not create:
                raise ValueError(f"there is no journal in {self.shown}")
            with self.transaction() as connection:
                self.server.alone(connection)  # of those who open an empty database at once, one makes the tables
                if self._version(connection) != VERSION:
                    from .migrations.upgrading import upgrade

                    upgrade(connection)
        self.read(self.server.settle)

    def _version(self, connection: Connection) -> str | None:
        """The version of the tables, "" of none; a sentence where they are of the future or not ours."""
        there = set(inspect(connection).get_table_names())
        ours = {VERSIONS, *metadata.tables}
        if VERSIONS not in there:
            if there & ours or (there and self.server.private):
                raise ValueError(f"{self.shown} is no journal: it is a database with other tables")
            return None
        row = connection.execute(text(f"SELECT version_num FROM {VERSIONS}")).first()
        version = None if row is None else str(row[0])
        if version is not None and version > VERSION:
            raise ValueError(
                f"the journal in {self.shown} was made by a later version of noregret: its tables have version "
                f"{version}, this one knows {VERSION}"
            )
        return version
