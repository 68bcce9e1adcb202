"""The tables of a journal, as they are today; `migrations/` says how a database came to have them."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)  # fmt: skip

VERSION = "0001"  # of the newest migration
VERSIONS = "journal_version"  # the table that says which version a database has

metadata = MetaData()

events = Table(
    "journal_events",
    metadata,
    Column("programme", String(100), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(20), nullable=False),
    Column("time", String(40), nullable=False),
    Column("who", Text),
    Column("key", Text),
    Column("asked", LargeBinary),
    Column("payload", Text),
    Column("answer", Text),
    Column("salt", LargeBinary),
    Column("digest", LargeBinary, nullable=False),
    Column("chain", LargeBinary, nullable=False),
    Column("erased", Boolean, nullable=False),
    sqlite_with_rowid=False,
)
Index(
    "journal_events_key", events.c.programme, events.c.key, unique=True,
    sqlite_where=text("key IS NOT NULL"), postgresql_where=text("key IS NOT NULL"),
)  # fmt: skip
Index(
    "journal_events_who", events.c.programme, events.c.who, events.c.number,
    sqlite_where=text("who IS NOT NULL"), postgresql_where=text("who IS NOT NULL"),
)  # fmt: skip

snapshots = Table(
    "journal_snapshots",
    metadata,
    Column("programme", String(100), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("version", Text, nullable=False),
    Column("time", String(40), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("sha256", LargeBinary, nullable=False),
)
parts = Table(
    "journal_snapshot_parts",
    metadata,
    Column("programme", String(100), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)
