"""Processes on this machine, one a core. A worker that dies takes no result with it."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from ... import _checks as check
from ..work import Answer, Task, work

CHANCES = 3  # times a task may be around when a worker dies, before it is tried alone
# Cells are one thread each; libraries that start their own would get in each other's way.
_SINGLE = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")}


def _begin(parent: int) -> None:
    """In a new worker: leave Ctrl-C to the parent, and go when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


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
    A task that was around at several deaths is run alone, so that the next one is surely its own, and then fails."""

    def __init__(self, workers: int | None = None, work: Callable[[Task], Answer] = work) -> None:
        self.slots = check.integer("workers", workers if workers is not None else os.cpu_count() or 1)
        self._work, self._pool = work, self._fresh(self.slots)
        self._running: dict[Future[Answer], Task] = {}
        self._deaths: dict[str, int] = {}
        self._alone: list[Task] = []
        self._over: list[tuple[Task, Answer]] = []

    def _fresh(self, workers: int) -> ProcessPoolExecutor:
        os.environ.update({name: value for name, value in _SINGLE.items() if name not in os.environ})
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(os.getpid(),))

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
            return self._tried_alone(self._alone.pop())
        if not self._over:
            done, _ = wait(self._running, timeout, FIRST_COMPLETED)
            broken = []
            for future in done:
                task = self._running.pop(future)
                try:
                    self._over.append((task, future.result()))
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

    def _tried_alone(self, task: Task) -> tuple[Task, Answer]:
        for _ in range(2):
            with self._fresh(1) as pool:
                try:
                    with _without_main():
                        future = pool.submit(self._work, task)
                    return task, future.result()
                except BrokenProcessPool:
                    pass
        why = "the worker process died twice while running this cell alone (killed, out of memory, or a crash)"
        return task, Answer(task.cell.id, failure=why)

    def close(self) -> None:
        processes = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
        self._running.clear()
