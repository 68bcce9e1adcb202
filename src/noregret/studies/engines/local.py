"""Processes on this machine, one per core. A worker that dies takes no result with it."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import Any

from ... import checks as check
from ..work import Answer, Task, work
from . import Lost

CHANCES = 3  # times a task may be around when a worker dies, before it is tried alone; deaths alone until it has failed
PATIENCE = 2.0  # seconds between checkpoints of a task that is tried alone: what it gets done speaks for it
KILLS = 20  # workers that may be killed from outside, one after another, before the engine gives up
# Cells are one thread each; libraries that start their own would get in each other's way.
_SINGLE = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")}


_mark: Any = None  # in a worker: where to say that a task has begun


def _begin(parent: int, mark: Any = None) -> None:
    """In a new worker: leave Ctrl-C to the parent, and go when the parent is gone."""
    global _mark
    _mark = mark
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _marked(work: Callable[[Task], Answer], task: Task) -> Answer:
    _mark.value = 1
    return work(task)


@contextlib.contextmanager
def _bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing: where it dies, somebody is killing processes."""
    command = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """New processes import the module of their task, not the caller's script: a script needs no guard against being run
    again in every worker."""
    main = sys.modules["__main__"]
    kept: dict[str, Any] = {name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__}
    main.__dict__["__spec__"] = None
    try:
        yield
    finally:
        main.__dict__.update(kept)


class LocalEngine:
    """A pool of processes. When one dies, the pool is broken: it is made anew, and what was in it is given to it again.

    A task that was around at several deaths, and got nothing done between them, is run alone, beside a process that
    does nothing. A death there is its own if it had begun and the bystander lives; after several in a row it has
    failed. Other deaths were brought from outside, and are nobody's: the task is tried again, and after many the engine
    is `Lost`. Whoever kills only the workers that are busy, again and again, cannot be told from a task that does."""

    def __init__(self, workers: int | None = None, work: Callable[[Task], Answer] = work) -> None:
        self.slots = check.integer("workers", workers if workers is not None else os.cpu_count() or 1)
        self._work, self._pool = work, self._fresh(self.slots)
        self._running: dict[Future[Answer], Task] = {}
        self._deaths: dict[str, int] = {}  # since the task last got anything done
        self._reached: dict[str, int] = {}  # episodes
        self._alone: list[Task] = []
        self._over: list[tuple[Task, Answer]] = []

    def _fresh(self, workers: int, mark: Any = None) -> ProcessPoolExecutor:
        os.environ.update({name: value for name, value in _SINGLE.items() if name not in os.environ})
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(os.getpid(), mark))

    @property
    def waiting(self) -> int:
        return len(self._running) + len(self._alone) + len(self._over)

    def submit(self, task: Task) -> None:
        try:
            with _without_main():  # submitting is what starts processes
                self._running[self._pool.submit(self._work, task)] = task
        except BrokenProcessPool:
            self._mend([task])

    def next(self, timeout: float) -> tuple[Task, Answer] | None:
        if not self._running and not self._over and self._alone:
            return self._taken(*self._tried_alone(self._alone.pop()))
        if not self._over:
            done, _ = wait(self._running, timeout, FIRST_COMPLETED)
            broken = []
            for future in done:
                task = self._running.pop(future)
                try:
                    self._over.append(self._taken(task, future.result()))
                except BrokenProcessPool:
                    broken.append(task)
            if broken:
                self._mend(broken)
        return self._over.pop() if self._over else None

    def _mend(self, broken: list[Task]) -> None:
        """A new pool for all that was in the old one."""
        lost = broken
        for future, task in self._running.items():
            lost.append(task)
            future.cancel()
        self._running.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._fresh(self.slots)
        for task in lost:
            # Those at the head of the queue may have been running; who knows. Each gets several chances.
            self._deaths[task.cell.id] = self._deaths.get(task.cell.id, 0) + 1
            if self._deaths[task.cell.id] >= CHANCES:
                self._alone.append(task)
            else:
                self.submit(task)

    def _taken(self, task: Task, answer: Answer) -> tuple[Task, Answer]:
        """The same; a task that got further than ever is no suspect any more."""
        if answer.done > self._reached.get(task.cell.id, 0):
            self._reached[task.cell.id] = answer.done
            self._deaths.pop(task.cell.id, None)
        return task, answer

    def _tried_alone(self, task: Task) -> tuple[Task, Answer]:
        hurried = replace(task, patience=min(task.patience, PATIENCE))
        own = 0
        for kills in range(KILLS):
            mark = multiprocessing.get_context("spawn").RawValue("i", 0)
            with _bystander() as other, self._fresh(1, mark) as pool:
                try:
                    with _without_main():
                        future = pool.submit(_marked, self._work, hurried)
                    return task, future.result()
                except BrokenProcessPool:
                    time.sleep(0.5)  # whoever kills may come to the bystander last
                    own = own + 1 if mark.value and other.poll() is None else 0
            if own == CHANCES:
                why = f"the worker process died {own} times while running this cell alone"
                return task, Answer(task.cell.id, failure=f"{why} (killed, out of memory, or a crash)")
            time.sleep(0.0 if own else min(0.2 * kills, 2.0))
        raise Lost(f"somebody is killing the workers: {KILLS} died one after another, through no fault of a cell")

    def news(self) -> list[str]:
        return []

    def close(self) -> None:
        processes = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
        self._running.clear()
