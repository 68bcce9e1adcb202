"""What workers of test_engines.py run: importable in other processes."""

import os
import signal
import time
from pathlib import Path

from noregret.studies.work import Answer, Task, work


def deadly(task: Task) -> Answer:
    """Seed 3 kills the worker it is run by; all others are as usual."""
    if task.cell.seed == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return work(task)


def waiting(task: Task) -> Answer:
    """Says in the folder NOREGRET_TEST that it has begun, and waits to be killed, five times; then works."""
    folder = Path(os.environ["NOREGRET_TEST"])
    begun = len(list(folder.iterdir()))
    (folder / str(begun)).write_text("")
    if begun < 5:
        time.sleep(600)
    return work(task)
