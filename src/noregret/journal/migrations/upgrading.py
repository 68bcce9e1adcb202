"""Bring a database to the version of today; imported only where it has another one."""

import threading
from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory

from ..schema import VERSIONS

FOLDER = Path(__file__).parent
_ONE = threading.Lock()  # alembic keeps what it works on in a module of its own: two threads would get each other's


def upgrade(connection: Any, more: tuple[str, ...] = ()) -> None:
    """Run all migrations that this database has not had, on a connection that is in a transaction; the caller commits.

    more   further folders with migrations, after ours"""
    script = ScriptDirectory(str(FOLDER), version_locations=[str(FOLDER / "versions"), *more])
    work = EnvironmentContext(Config(), script, fn=lambda now, _: script._upgrade_revs("heads", now))
    with _ONE, work as environment:
        environment.configure(connection=connection, version_table=VERSIONS, transactional_ddl=False)
        environment.run_migrations()
