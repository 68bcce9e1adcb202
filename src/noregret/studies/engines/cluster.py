"""Workers of a dask cluster: on this machine, or wherever a scheduler has them (extra `cluster`).

Slurm, Kubernetes and others: start the cluster with dask's own launchers (dask-jobqueue, dask-kubernetes, `dask
scheduler` and `dask worker`) and give its scheduler's address. Workers need noregret of the same version, and no shared
disk: results and checkpoints travel back as bytes, and only the process that runs the study writes files.

A worker of another version that joins later gets no cells; what it had been given before anybody noticed is done again.
Every answer says which version made it.
"""

import contextlib
import logging
import queue
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

from ... import checks as check
from ...storage.version import __version__
from ..work import Answer, Task, work
from . import Lost

RETRIES = 5  # workers that may die under a task before it is tried once more, at the end
LOOKS = 2.0  # seconds between two looks at who is there, where some may have nothing


def _version() -> str:
    return __version__


class DaskEngine:
    """scheduler: an address ("tcp://host:8786"), or None to start one here with `workers` processes (default: one per
    core). dask gives a task whose worker died to another one. A task under which several died is tried once more when
    all others are done, and has failed if that ends in the same way. A scheduler that is gone or was started anew knows
    nothing of the tasks: `Lost`."""

    def __init__(self, scheduler: str | None = None, workers: int | None = None, timeout: float = 20.0) -> None:
        try:
            import dask
            import distributed
        except ImportError:
            raise ValueError("engine dask needs the extra: pip install 'noregret[cluster]'") from None
        if workers is not None:
            check.integer("workers", workers)
        dask.config.set({"distributed.scheduler.allowed-failures": RETRIES})
        self._cluster: Any = None
        if scheduler is None:
            self._cluster = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
            )
        elif workers is not None:
            raise ValueError("workers goes with a scheduler started here; the one at that address has its own")
        try:
            self._client = distributed.Client(self._cluster or scheduler, timeout=timeout)
        except (OSError, ValueError, TimeoutError) as error:
            raise ValueError(
                f"scheduler must be the address of a running dask scheduler, got {check.shown(scheduler)}: {error}"
            ) from None
        self._over: queue.Queue[Any] = queue.Queue()
        self._running: dict[Any, tuple[Task, set[str]]] = {}  # the workers it may go to; none: any
        self._held: list[Task] = []  # while there are workers of other versions only
        self._last: list[Task] = []
        self._once_more: set[str] = set()
        self._count, self._looked = 0, time.monotonic()
        self._news: list[str] = []
        self._known: dict[str, bool] = {}  # address -> whether it has this version
        self._where = scheduler or "here"
        try:
            right = all(self._look().values())
        except Lost:
            self.close()
            raise
        if not right:
            self.close()
            raise ValueError(f"every worker must have noregret {__version__}: {self._news[0]}")

    @contextlib.contextmanager
    def _connected(self) -> Iterator[None]:
        """Around whatever asks the scheduler."""
        gone = f"the dask scheduler ({self._where}) is gone, or was started anew"
        if self._client.status != "running":
            raise Lost(gone)
        try:
            yield
        except (OSError, TimeoutError, RuntimeError, CancelledError) as error:
            raise error if isinstance(error, Lost) else Lost(gone) from None

    def _look(self) -> dict[str, bool]:
        """Address -> whether it has this version, of all workers that are there; who is new is asked."""
        with self._connected():
            there = set(self._client.nthreads())
            new = there - self._known.keys()
            found = self._client.run(_version, workers=sorted(new), on_error="return") if new else {}
        for address, said in found.items():
            if isinstance(said, OSError):
                continue  # it has left, or cannot be reached now
            self._known[address] = said == __version__
            if said != __version__:
                has = f"has noregret {said}" if isinstance(said, str) else f"cannot import noregret ({said})"
                self._news.append(f"worker {address} {has} and gets no cells, this is {__version__}")
        self._looked = time.monotonic()
        return {address: self._known[address] for address in there if address in self._known}

    def news(self) -> list[str]:
        said, self._news = self._news, []
        return said

    @property
    def slots(self) -> int:
        with self._connected():
            return max(int(sum(n for a, n in self._client.nthreads().items() if self._known.get(a, True))), 1)

    @property
    def waiting(self) -> int:
        return len(self._running) + len(self._held) + len(self._last)

    def submit(self, task: Task) -> None:
        there = self._look()
        good = {address for address, right in there.items() if right}
        if there and not good:
            self._held.append(task)
            return
        only = set() if len(good) == len(there) else good
        self._count += 1
        key = f"noregret-{task.cell.id}-{self._count}"
        with self._connected():
            future = self._client.submit(work, task, key=key, pure=False, workers=sorted(only) or None)
        self._running[future] = task, only
        future.add_done_callback(self._over.put)

    def next(self, timeout: float) -> tuple[Task, Answer] | None:
        if time.monotonic() - self._looked > LOOKS:
            self._give_out_again()
        if not self._running and not self._held and self._last:
            self.submit(self._last.pop())
        try:
            future = self._over.get(timeout=timeout)
        except queue.Empty:
            return None
        if future not in self._running:
            return None  # given to others since
        task, _ = self._running.pop(future)
        return self._judged(task, future)

    def _judged(self, task: Task, future: Any) -> tuple[Task, Answer] | None:
        from distributed import KilledWorker

        key = task.cell.id
        try:
            answer: Answer = future.result()
        except KilledWorker as error:
            if key in self._once_more:
                return task, Answer(key, failure=f"the workers died under this cell, time after time: {error}")
            self._once_more.add(key)
            self._last.append(task)
            return None
        except CancelledError:
            raise Lost(f"the dask scheduler ({self._where}) is gone, or was started anew") from None
        except Exception as error:  # what else a cluster may say
            return task, Answer(key, failure=f"the cluster lost this cell: {type(error).__name__}: {error}")
        if answer.version != __version__:
            other = answer.version or "of another version"
            self._news.append(f"{key} was run by noregret {other}, this is {__version__}: it is run again")
            self.submit(task)
            return None
        return task, answer

    def _give_out_again(self) -> None:
        """What waits for a worker of this version, or for workers that are all gone."""
        there = self._look()
        lost = [future for future, (_, only) in self._running.items() if only and not only & there.keys()]
        again = [self._running.pop(future)[0] for future in lost] + self._held
        self._held = []
        for future in lost:
            future.cancel()
        for task in again:
            self.submit(task)

    def close(self) -> None:
        self._running.clear()
        self._held.clear()
        self._last.clear()
        log = logging.getLogger("distributed.client")
        before, log.disabled = log.disabled, True  # of a client that is told to stop while it looks for its scheduler
        try:
            for thing in (self._client, self._cluster):
                if thing is not None:
                    thing.close()
        finally:
            log.disabled = before
