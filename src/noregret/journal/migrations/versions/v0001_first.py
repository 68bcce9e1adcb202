"""Events and snapshots."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "journal_events",
        sa.Column("programme", sa.String(100), primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("time", sa.String(40), nullable=False),
        sa.Column("who", sa.Text),
        sa.Column("key", sa.Text),
        sa.Column("asked", sa.LargeBinary),
        sa.Column("payload", sa.Text),
        sa.Column("answer", sa.Text),
        sa.Column("salt", sa.LargeBinary),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("chain", sa.LargeBinary, nullable=False),
        sa.Column("erased", sa.Boolean, nullable=False),
        sqlite_with_rowid=False,
    )
    for name, columns, unique in (("key", ["programme", "key"], True), ("who", ["programme", "who", "number"], False)):
        op.create_index(
            f"journal_events_{name}", "journal_events", columns, unique=unique,
            sqlite_where=sa.text(f"{name} IS NOT NULL"), postgresql_where=sa.text(f"{name} IS NOT NULL"),
        )  # fmt: skip
    op.create_table(
        "journal_snapshots",
        sa.Column("programme", sa.String(100), primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("time", sa.String(40), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "journal_snapshot_parts",
        sa.Column("programme", sa.String(100), primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
