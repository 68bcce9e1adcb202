"""Service processes and PostgreSQL: started, killed, started again."""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from noregret.worlds import World


def programme_text(world: World, name: str = "load", **settings: Any) -> str:
    """A programme file for a world's problem: CertifiedPSRL, and a house rule that takes action 0 or 1.

    settings   of the tables: agent={...}, service={...}, house={...}, learning={...}; None: leave it out"""
    p = world.problem
    tables: dict[str, dict[str, Any]] = {
        "programme": {"name": name, "title": "Simulated people", "seed": 1},
        "problem": {
            "n_states": p.n_states, "n_actions": p.n_actions, "horizon": p.horizon, "context_dim": p.context_dim,
            "weight_bound": float(p.weight_bound), "reward_bound": float(p.reward_bound), "initial_states": [0],
        },
        "agent": {"name": "certified-psrl"},
        "house": {"rule": {str(s): s % 2 for s in range(p.n_states)}},
    }  # fmt: skip
    for table, more in settings.items():
        if more is None or "agent_file" in more:  # whose problem is in the file
            tables.pop(table)
        if more is not None:
            tables[table] = tables.get(table, {}) | more
    return "\n".join(f"[{t}]\n" + "".join(f"{k} = {_toml(v)}\n" for k, v in rows.items()) for t, rows in tables.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Server:
    """`noregret serve` as a process of its own.

    files     programme files; url: where the journals are; options: more words for the command line
    before    words before the command, such as a `prlimit`"""

    def __init__(
        self, folder: Path, files: list[Path], url: str, *, port: int | None = None, options: tuple[str, ...] = (),
        before: tuple[str, ...] = (), environment: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.files, self.url, self.options, self.before = folder, files, url, options, before
        self.port, self.log, self.environment = port or free_port(), folder / "server.log", environment or {}
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def words(self) -> list[str]:
        """The command line, after `noregret`."""
        files = [word for file in self.files for word in ("--programme", str(file))]
        return ["serve", "--journal", self.url, "--demo", "--port", str(self.port), *self.options, *files]

    def start(self, until: str | None = "ready", seconds: float = 300.0) -> float:
        """Start it and wait until /health or /ready says so (None: do not wait). How long that took."""
        begun = time.perf_counter()
        words = [*self.before, sys.executable, "-m", "noregret", *self.words()]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, env=os.environ | self.environment)
        self.starts += 1
        if until is not None:
            self.wait(until, seconds)
        return time.perf_counter() - begun

    def wait(self, path: str = "ready", seconds: float = 300.0) -> None:
        limit = time.perf_counter() + seconds
        while self.get(f"/{path}")[0] != 200:
            assert self.process is not None
            if self.process.poll() is not None or time.perf_counter() > limit:
                raise RuntimeError(f"the server did not become {path}: {self.tail()}")
            time.sleep(0.02)

    def get(self, path: str, timeout: float = 5.0) -> tuple[int, bytes]:
        """(status, body); status 0 where nobody answers."""
        return fetch(f"http://127.0.0.1:{self.port}{path}", timeout=timeout)

    def post(self, path: str, body: Any = None, key: str | None = None, timeout: float = 10.0) -> tuple[int, bytes]:
        data = json.dumps({} if body is None else body).encode()
        return fetch(f"http://127.0.0.1:{self.port}{path}", data, key, timeout)

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, seconds: float = 60.0) -> int:
        """As Ctrl-C or systemd would; the exit status."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"the server did not stop within {seconds} s: {self.tail()}") from None

    def tail(self, length: int = 2000) -> str:
        return self.log.read_text(errors="replace")[-length:] if self.log.exists() else ""

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()


def fetch(url: str, data: bytes | None = None, key: str | None = None, timeout: float = 5.0) -> tuple[int, bytes]:
    asked = urllib.request.Request(url, data=data, method="GET" if data is None else "POST")
    if data is not None:
        asked.add_header("Content-Type", "application/json")
    if key is not None:
        asked.add_header("Idempotency-Key", key)
    try:
        with urllib.request.urlopen(asked, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


class Postgres:
    """A PostgreSQL of our own: data and socket in a folder of its own, no TCP, everything as in production (fsync). As
    root it runs as the user `postgres`."""

    def __init__(self) -> None:
        found = self.found()
        if found is None:
            raise RuntimeError("PostgreSQL's programs were not found")
        folder = Path(tempfile.mkdtemp(prefix="nr-serve-pg-", dir="/tmp"))  # a socket's path must be short
        self.bin, self.folder, self.data = found, folder, folder / "data"
        self.process: subprocess.Popen[bytes] | None = None
        self.as_user: list[str] = []
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
            self.as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        words = [
            str(self.bin / "initdb"),
            "-D",
            str(self.data),
            "-U",
            "noregret",
            "-A",
            "trust",
            "--locale=C.UTF-8",
            "-N",
        ]
        subprocess.run([*self.as_user, *words], check=True, capture_output=True, cwd=folder)

    @staticmethod
    def found() -> Path | None:
        """The folder of its programs, the newest; None where there is none."""
        on_path = shutil.which("initdb")
        if on_path:
            return Path(on_path).resolve().parent
        places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
        if not places or (os.getuid() == 0 and not _user("postgres")):
            return None
        return places[-1]

    @property
    def url(self) -> str:
        return f"postgresql://noregret@/postgres?host={self.folder}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        words = [str(self.bin / "postgres"), "-D", str(self.data), "-k", str(self.folder), "-c", "listen_addresses="]
        with (self.folder / "postgres.log").open("ab") as log:
            self.process = subprocess.Popen([*self.as_user, *words], stdout=log, stderr=log, cwd=self.folder)
        ask = [str(self.bin / "pg_isready"), "-q", "-h", str(self.folder)]
        limit = time.perf_counter() + 60
        while subprocess.run(ask, check=False).returncode:
            if time.perf_counter() > limit:
                raise RuntimeError("PostgreSQL did not start: " + (self.folder / "postgres.log").read_text()[-1000:])
            time.sleep(0.05)

    def kill(self) -> None:
        """As a crash of the machine would: kill -9 of the postmaster and of all its children."""
        from .machine import children

        for pid in children(self.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        assert self.process is not None
        self.process.wait()
        time.sleep(0.1)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def restart(self) -> None:
        """As an upgrade would: connections are broken, and some time later it is back."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        self.start()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)

    def __enter__(self) -> "Postgres":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _user(name: str) -> bool:
    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False
