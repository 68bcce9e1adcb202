"""Snapshots of the fold, in pieces: a large one does not keep the writer waiting, and is there whole or not at all.
Nobody waits until a piece is on the disk; the row that describes them all is flushed, and they with it."""

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import and_, delete, exists, func, insert, select

from .. import checks as check
from .database import Database
from .errors import JournalUnavailable
from .schema import parts, snapshots

PIECE = 64 * 1024  # bytes in one transaction
PAUSE = 0.002  # seconds between two, so that whoever waits to write comes first


@dataclass(frozen=True)
class Snapshot:
    """What is known of a snapshot without reading it.

    number   how many events had been folded
    version  what wrote it; time: when, UTC; size: bytes; sha256: of them"""

    number: int
    version: str
    time: str
    size: int
    sha256: bytes


class Shelf:
    """The snapshots of one programme. The row that describes one is written last and removed first."""

    def __init__(self, database: Database, programme: str) -> None:
        self.database, self.programme = database, programme
        self._busy = threading.Lock()

    def keep(self, number: Any, blob: Any, version: Any) -> Snapshot:
        n = check.integer("number", number, 0)
        if not isinstance(blob, bytes | bytearray | memoryview):
            raise ValueError(f"blob must be bytes, got {type(blob).__name__}")
        if not isinstance(version, str) or not version.isascii() or not version.isprintable() or len(version) > 200:
            raise ValueError(f"version must be printable ASCII text of at most 200 characters, got {check.shown(version)}")  # fmt: skip  # noqa: E501
        data = bytes(blob)
        made = Snapshot(n, version, datetime.now(UTC).isoformat(timespec="microseconds"), len(data), sha256(data).digest())  # fmt: skip  # noqa: E501
        with self._busy:
            self._remove(n)
            self._sweep()
            for i, at in enumerate(range(0, max(len(data), 1), PIECE)):
                with self.database.transaction(lazily=True) as connection:
                    row = {"programme": self.programme, "number": n, "part": i, "data": data[at : at + PIECE]}
                    connection.execute(insert(parts).values(**row))
                time.sleep(PAUSE)
            with self.database.transaction() as connection:
                there = connection.execute(select(func.count()).select_from(parts).where(self._of(parts, n))).scalar()
                if there != i + 1:
                    raise JournalUnavailable("the snapshot was swept away by another who keeps one: keep it again")
                connection.execute(insert(snapshots).values(programme=self.programme, **vars(made)))
        return made

    def all(self) -> list[Snapshot]:
        """Newest first."""
        c = snapshots.c
        wanted = (
            select(c.number, c.version, c.time, c.size, c.sha256)
            .where(c.programme == self.programme)
            .order_by(c.number.desc())
        )
        rows = self.database.read(lambda connection: connection.execute(wanted).all())
        return [Snapshot(*row[:4], bytes(row[4])) for row in rows]

    def get(self, number: Any) -> bytes:
        n = check.integer("number", number, 0)
        known = next((s for s in self.all() if s.number == n), None)
        if known is None:
            raise ValueError(f"number must be that of a snapshot of {self.programme}, there is none of {n} events")
        wanted = select(parts.c.data).where(self._of(parts, n)).order_by(parts.c.part)
        rows = self.database.read(lambda connection: connection.execute(wanted).all())
        data = b"".join(bytes(row[0]) for row in rows)
        if len(data) != known.size or sha256(data).digest() != known.sha256:
            raise ValueError(f"the snapshot of {self.programme} after {n} events is damaged: its SHA-256 is not the one noted")  # fmt: skip  # noqa: E501
        return data

    def drop(self, number: Any) -> None:
        with self._busy:
            self._remove(check.integer("number", number, 0))

    def _of(self, table: Any, number: int) -> Any:
        return and_(table.c.programme == self.programme, table.c.number == number)

    def _remove(self, number: int) -> None:
        with self.database.transaction(lazily=True) as connection:
            connection.execute(delete(snapshots).where(self._of(snapshots, number)))
        self._remove_parts(number)

    def _remove_parts(self, number: int) -> None:
        wanted = select(parts.c.part).where(self._of(parts, number)).order_by(parts.c.part)
        for row in self.database.read(lambda connection: connection.execute(wanted).all()):
            with self.database.transaction(lazily=True) as connection:
                connection.execute(delete(parts).where(self._of(parts, number), parts.c.part == row[0]))
            time.sleep(PAUSE)

    def _sweep(self) -> None:
        """Remove pieces of a snapshot that was never finished."""
        whole = exists().where(snapshots.c.programme == parts.c.programme, snapshots.c.number == parts.c.number)
        wanted = select(parts.c.number).where(parts.c.programme == self.programme, ~whole).distinct()
        for row in self.database.read(lambda connection: connection.execute(wanted).all()):
            self._remove_parts(row[0])
