"""Where tasks are run. An engine runs each task it is given at least once and says what came of it, in any order.

    submit(task)     take one more
    next(timeout)    (task, answer) of one that is over; None if none is within so many seconds
    waiting          how many tasks it holds
    slots            how many run at a time
    close()          stop now, whatever is running
    news()           lines for people that have come up since it was asked last

An engine that can do no more raises `Lost` from any of these: what was given to it is neither done nor failed.

Since a task may run twice, its answer must not depend on when or where: cells are keyed by their seeds, so it does not.
"""

from typing import Protocol

from ..work import Answer, Task


class Lost(RuntimeError):
    """The engine is gone, through no fault of a cell; the sentence says how."""


class Engine(Protocol):
    @property
    def slots(self) -> int: ...

    def submit(self, task: Task) -> None: ...

    def next(self, timeout: float) -> tuple[Task, Answer] | None: ...

    @property
    def waiting(self) -> int: ...

    def close(self) -> None: ...

    def news(self) -> list[str]: ...
