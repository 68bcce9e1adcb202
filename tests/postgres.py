"""A PostgreSQL server of the tests' own: in a temporary folder, on a socket there, nothing on the network.

Debian's package is enough; the server does not run as root, so root starts it as the user `postgres`. Where there is no
server program, `Server.start` raises Unavailable with a sentence, and tests are skipped with it. `python
tests/postgres.py` starts one, prints a URL, and stops it on Ctrl-C."""

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

SETTINGS = {  # small and quick: what a test loses when the machine loses power does not matter
    "listen_addresses": "", "fsync": "off", "full_page_writes": "off", "shared_buffers": "16MB",
    "max_connections": "60", "max_wal_size": "256MB", "autovacuum": "off", "logging_collector": "off",
}  # fmt: skip


class Unavailable(Exception):
    """There is no server to be had; the message says why."""


def programs():
    """The folder of initdb and postgres, the newest version's."""
    found = shutil.which("postgres")
    if found and shutil.which("initdb"):
        return Path(found).parent
    there = [
        p for p in Path("/usr/lib/postgresql").glob("*/bin") if (p / "postgres").exists() and (p / "initdb").exists()
    ]
    if not there:
        raise Unavailable("PostgreSQL is not installed")
    return max(there, key=lambda p: float(p.parent.name))


class Server:
    """One server. `new()` is the URL of an empty place; `stop`, `kill` and `start` again are for fault tests.

    settings   of postgresql.conf, over SETTINGS: fsync="on" for measurements"""

    def __init__(self, **settings):
        self.bin = programs()
        self.user = []
        if os.getuid() == 0:
            if not shutil.which("setpriv"):
                raise Unavailable("PostgreSQL does not run as root, and there is no setpriv to become another user")
            try:
                owner = pwd.getpwnam("postgres")
            except KeyError:
                raise Unavailable("PostgreSQL does not run as root, and there is no user postgres") from None
            self.user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        self.folder = Path(tempfile.mkdtemp(prefix="nr-pg-", dir="/tmp"))  # a socket's path must be short
        if self.user:
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        self.settings = SETTINGS | settings
        self.process = None
        self._numbers = itertools.count()
        made = subprocess.run(
            [*self.user, self.bin / "initdb", "-D", self.folder / "data", "-A", "trust", "-U", "postgres", "-E", "UTF8",
             "--no-locale", "--no-sync", "--no-instructions"],
            capture_output=True, text=True, cwd="/",
        )  # fmt: skip
        if made.returncode:
            self.close()
            raise Unavailable(f"PostgreSQL could not make its files: {' '.join(made.stderr.split())[:500]}")
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        """Run the server, until it answers. It ends with this process."""
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        last = ["--pdeathsig", "INT"] if self.user else []
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*self.user, *last, self.bin / "postgres", "-D", self.folder / "data", "-k", self.folder, *options],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/", start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(Exception), self.connect():
                return
            time.sleep(0.02)
        raise Unavailable(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-500:]}")

    def connect(self):
        import psycopg

        return psycopg.connect(self.url(), autocommit=True, connect_timeout=5)

    def url(self, schema="public"):
        return f"postgresql://postgres@/postgres?host={self.folder}&options=-csearch_path%3D{schema}"

    def new(self):
        """The URL of a new, empty place: a schema, which is made in no time, where a database takes a while."""
        name = f"t{next(self._numbers)}"
        with self.connect() as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return self.url(name)

    def stop(self):
        """In order, connections cut."""
        self._end(signal.SIGINT)

    def kill(self):
        """Like a crash: at once, everything in memory lost."""
        self._end(signal.SIGQUIT)

    def _end(self, how):
        if self.process is not None:
            if self.process.poll() is None:
                self.process.send_signal(how)
            self.process.wait(60)
            self.process = None

    def close(self):
        self._end(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)


if __name__ == "__main__":
    server = Server()
    try:
        print(server.new(), flush=True)
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
