"""Workers of a dask cluster: on this machine, or wherever a scheduler has them (extra `cluster`).

Slurm, Kubernetes and others: start the cluster with dask's own launchers (dask-jobqueue, dask-kubernetes, `dask
scheduler` and `dask worker`) and give its scheduler's address. Workers need noregret of the same version, and no shared
disk: results and checkpoints travel back as bytes, and only the process that runs the study writes files.
"""

import queue
from typing import Any

from ... import __version__
from ... import _checks as check
from ..work import Answer, Task, work

RETRIES = 5  # workers that may die under a task before it counts as failed


def _version() -> str:
    return __version__


class DaskEngine:
    """scheduler: an address ("tcp://host:8786"), or None to start one here with `workers` processes (default: one per
    core). dask gives a task whose worker died to another one; a task under which several died has failed."""

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
        self._running: dict[Any, Task] = {}
        self._count = 0
        self._check_versions()

    def _check_versions(self) -> None:
        try:
            others = set(self._client.run(_version).values()) - {__version__}
        except Exception as error:
            self.close()
            raise ValueError(f"the cluster's workers cannot import noregret: {error}") from None
        if others:
            self.close()
            raise ValueError(f"the cluster's workers have noregret {', '.join(sorted(others))}, this is {__version__}")

    @property
    def slots(self) -> int:
        return max(int(sum(self._client.nthreads().values())), 1)

    @property
    def waiting(self) -> int:
        return len(self._running)

    def submit(self, task: Task) -> None:
        self._count += 1
        future = self._client.submit(work, task, key=f"noregret-{task.cell.id}-{self._count}", pure=False)
        self._running[future] = task
        future.add_done_callback(self._over.put)

    def next(self, timeout: float) -> tuple[Task, Answer] | None:
        try:
            future = self._over.get(timeout=timeout)
        except queue.Empty:
            return None
        task = self._running.pop(future)
        try:
            return task, future.result()
        except Exception as error:  # KilledWorker, CancelledError and what else a cluster may say
            return task, Answer(task.cell.id, failure=f"the cluster lost this cell: {type(error).__name__}: {error}")

    def close(self) -> None:
        self._running.clear()
        for thing in (self._client, self._cluster):
            if thing is not None:
                thing.close()
