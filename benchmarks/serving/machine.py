"""What else the machine did during a run: the disk's fdatasync, processor time, free cores."""

import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

TICK = os.sysconf("SC_CLK_TCK")


def used(pid: int) -> float:
    """Processor seconds of a process, all its threads; 0 where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK


def children(pid: int) -> list[int]:
    """A process and those below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in task.read_text().split():
                found += children(int(child))
        except OSError:
            continue
    return found


def memory(pid: int) -> float:
    """Resident MiB."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


def ticks() -> tuple[float, float]:
    """(idle, all) processor seconds of the machine so far."""
    fields = [int(f) for f in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return (fields[3] + fields[4]) / TICK, sum(fields) / TICK


def wait_for_free(share: float, patience: float) -> float:
    """Wait until this share of the machine was free for two seconds; the share then, or when patience ran out."""
    limit = time.perf_counter() + patience
    while True:
        before = ticks()
        time.sleep(2.0)
        idle, whole = (b - a for a, b in zip(before, ticks(), strict=True))
        free = idle / whole if whole else 0.0
        if free >= share or time.perf_counter() > limit:
            return free


class Beside:
    """Measures beside a run, as a context: fdatasync of 4 KiB in `folder` every `pause` seconds, processor time of
    the processes given (and of those below them), how much of the machine was free."""

    def __init__(self, folder: Path, pids: dict[str, int], pause: float = 0.05) -> None:
        self.folder, self.pids, self.pause = folder, pids, pause
        self.took: list[float] = []
        self._stop = threading.Event()

    def _probe(self) -> None:
        path, block = self.folder / "fdatasync.probe", b"\0" * 4096
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            while not self._stop.wait(self.pause):
                start = time.perf_counter()
                os.pwrite(file, block, 0)
                os.fdatasync(file)
                self.took.append(time.perf_counter() - start)
        finally:
            os.close(file)
            path.unlink(missing_ok=True)

    def _spent(self) -> dict[str, dict[int, float]]:
        return {name: {p: used(p) for p in children(pid)} for name, pid in self.pids.items()}

    def __enter__(self) -> "Beside":
        self._thread = threading.Thread(target=self._probe, daemon=True)
        self._before, self._ticks, self._own = self._spent(), ticks(), time.process_time()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        idle, whole = (b - a for a, b in zip(self._ticks, ticks(), strict=True))
        after = self._spent()
        self.spent = {
            name: sum(now - self._before[name].get(p, 0.0) for p, now in after[name].items()) for name in self.pids
        }
        self.spent["client"] = time.process_time() - self._own
        self.free = idle / whole if whole else 0.0
        took = np.array(self.took) if self.took else np.zeros(1)
        self.fdatasync = {"p50": float(np.median(took)), "p99": float(np.quantile(took, 0.99))}

    def row(self, requests: int) -> dict[str, Any]:
        """Processor microseconds a request for each process, fdatasync in ms, share of the machine that was free."""
        each = {f"us_{name}": round(1e6 * s / max(requests, 1), 1) for name, s in self.spent.items()}
        disk = {f"fdatasync_{q}_ms": round(1e3 * v, 3) for q, v in self.fdatasync.items()}
        return each | disk | {"free": round(self.free, 2)}
