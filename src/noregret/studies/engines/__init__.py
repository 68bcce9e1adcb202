"""Where tasks are run. An engine runs each task it is given at least once and says what came of it, in any order.

    submit(task)     take one more
    next(timeout)    (task, answer) of one that is over; None if none is within so many seconds
    waiting          how many tasks it holds
    slots            how many run at a time
    close()          stop now, whatever is running

Since a task may run twice, its answer must not depend on when or where: cells are keyed by their seeds, so it does not.
"""

from typing import Protocol

from ..work import Answer, Task


class Engine(Protocol):
    slots: int

    def submit(self, task: Task) -> None: ...

    def next(self, timeout: float) -> tuple[Task, Answer] | None: ...

    @property
    def waiting(self) -> int: ...

    def close(self) -> None: ...
