"""Long questions are answered by a process beside the service: it has its own lock of the interpreter and gives way to
everybody else (nice 19), so that nobody who waits for a decision waits for a page.

One process for all programmes, started with the first question, ended when nothing was asked for some minutes.
Questions and answers are lines of JSON. A question that is asked again gets the answer that is known."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

KEPT = 200  # answers
IDLE = 300.0  # seconds
LONGEST = 600.0  # seconds that a question may take
AGAIN = 30.0  # seconds after which a question that had no answer is asked again


class Aside:
    """`ask(question)` gives a future of the answer, a dict; "error" in it where there is none."""

    def __init__(self, command: tuple[str, ...] = ("-m", "noregret.service.pages.answering")) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._pool = ThreadPoolExecutor(1, "aside")
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[float, Future[dict[str, Any]]]] = OrderedDict()  # when, and what
        self._timer: threading.Timer | None = None

    def ask(self, key: str, question: dict[str, Any]) -> "Future[dict[str, Any]]":
        """The answer, which is computed once for each key."""
        with self._lock:
            since, known = self._known.get(key, (0.0, None))
            late = time.monotonic() - since > AGAIN
            if known is not None and not (late and known.done() and _failed(known)):
                self._known.move_to_end(key)
                return known
            made = self._pool.submit(self._answer, question)
            self._known[key] = time.monotonic(), made
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
            return made

    def forget(self) -> None:
        """No answer is kept: somebody was erased."""
        with self._lock:
            self._known.clear()

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._end()

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Asked once more where the process had ended, or was ended by somebody."""
        said = self._once(question) or self._once(question)
        self._rest()
        return said or {"error": "the process that answers has ended"}

    def _once(self, question: dict[str, Any]) -> dict[str, Any] | None:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        watch = threading.Timer(LONGEST, process.kill)
        watch.daemon = True
        watch.start()
        try:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            made = json.loads(process.stdout.readline())
        except (OSError, ValueError):
            self._end()
            return None
        finally:
            watch.cancel()
        return made if isinstance(made, dict) else None

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._timer is not None:
            self._timer.cancel()
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, *self._command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        return self._process

    def _rest(self) -> None:
        self._timer = threading.Timer(IDLE, self._end_later)
        self._timer.daemon = True
        self._timer.start()

    def _end_later(self) -> None:
        """In the thread that asks, so that no question is under way."""
        try:
            self._pool.submit(self._end)
        except RuntimeError:  # closed already
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()


def _failed(made: "Future[dict[str, Any]]") -> bool:
    return made.cancelled() or made.exception() is not None or "error" in made.result()
