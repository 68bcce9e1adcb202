"""What workers of test_engines.py run: importable in other processes."""

import os
import signal

from noregret.studies.work import Answer, Task, work


def deadly(task: Task) -> Answer:
    """Seed 3 kills the worker it is run by; all others are as usual."""
    if task.cell.seed == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return work(task)
