"""Servers that start within a fraction of a second: forked from a process that has imported and compiled everything.

A kill -9 of such a server is a kill -9 like any other; only its birth is shorter, so that a thousand of them fit in an
hour. Lines on standard input are command lines (JSON) of `noregret`; the answer is the new process's number."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from .server import Server


def _warm() -> None:
    """Import what a server needs and compile or load an agent's kernels, in this thread."""
    import noregret as nr
    import noregret.cli

    from .people import medium

    nr.Journal  # noqa: B018
    for agent in (nr.CertifiedPSRL(medium().problem), nr.CertifiedPSRL(nr.worlds.clinic().problem)):
        live = nr.Live(agent)
        d = agent.problem.context_dim
        live.begin("a", [1.0 / d**0.5] * d if d == 3 else [0.5**0.5, *[0.0] * (d - 2), 0.5**0.5])
        state = agent.problem.initial_states[0] if agent.problem.initial_states else 0
        live.act("a", int(state))
        live.end("a")


def main() -> None:
    _warm()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are buried at once
    print("warm", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _child(asked)
        print(pid, flush=True)


def _child(asked: dict[str, object]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(str(asked["log"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    words = list(asked["words"])  # type: ignore[call-overload]
    sys.argv = ["noregret", *words]
    from noregret.cli import app

    try:
        app(words)
    except SystemExit as done:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(done.code or 0) if not isinstance(done.code, str) else 1)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


class Zygote:
    """The process that forks servers; `serve` gives one that works as `Server` does."""

    def __init__(self, folder: Path) -> None:
        words = [sys.executable, "-m", "benchmarks.serving.zygote"]
        with (folder / "zygote.log").open("ab") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        if self.process.stdout.readline().strip() != "warm":
            raise RuntimeError("the zygote did not start: " + (folder / "zygote.log").read_text()[-2000:])

    def fork(self, words: list[str], log: Path) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"words": words, "log": str(log)}) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def __enter__(self) -> "Zygote":
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)


class Born:
    """A forked server, with what `subprocess.Popen` offers of it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return -1
        return None

    def send_signal(self, number: int) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return

    def wait(self, seconds: float = 30.0) -> int:
        limit = time.perf_counter() + seconds
        while self.poll() is None:
            if time.perf_counter() > limit:
                raise subprocess.TimeoutExpired("server", seconds)
            time.sleep(0.002)
        return 0


class ForkedServer(Server):
    """A `Server` whose processes come from a zygote."""

    zygote: Zygote

    def __enter__(self) -> "ForkedServer":
        return self

    def start(self, until: str | None = "ready", seconds: float = 300.0) -> float:
        begun = time.perf_counter()
        self.process = Born(self.zygote.fork(self.words(), self.log))  # type: ignore[assignment]
        self.starts += 1
        if until is not None:
            self.wait(until, seconds)
        return time.perf_counter() - begun


if __name__ == "__main__":
    main()
