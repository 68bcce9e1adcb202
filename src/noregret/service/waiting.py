"""Requests that wait for a round of the writer."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable

from .asking import Ask


class Waiting:
    """In the order of arrival. Any thread may put one in; a coroutine, one at a time, waits for them and takes them.

    >>> import asyncio
    >>> from noregret.service.asking import ask
    >>> waiting = Waiting()
    >>> waiting.put(ask("end", "Ms B", "k1"))
    >>> asyncio.run(waiting.somebody(60.0))
    >>> len(waiting), waiting.take(10), len(waiting)
    (1, [<Ask end>], 0)
    """

    def __init__(self) -> None:
        self._asks: deque[Ask] = deque()
        self._wake: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._asks)

    def put(self, ask: Ask) -> None:
        self._asks.append(ask)
        self.wake()

    def wake(self) -> None:
        """Whoever waits looks around."""
        wake, self._wake = self._wake, None
        if wake is not None:
            wake()

    def take(self, most: int) -> list[Ask]:
        return [self._asks.popleft() for _ in range(min(most, len(self._asks)))]

    async def somebody(self, seconds: float, already: Callable[[], bool] = lambda: False) -> None:
        """Until somebody waits, or woken, or for so long; not at all where `already` says so."""
        here, opened = gate()
        self._wake = opened
        if not self._asks and not already():  # looked at after `_wake` was set: who comes now, from anywhere, wakes
            timer = asyncio.get_running_loop().call_later(seconds, opened)
            await here
            timer.cancel()
        self._wake = None


def gate() -> "tuple[asyncio.Future[None], Callable[[], None]]":
    """(a future of the running loop, a function that any thread may call, once or several times, to set it)."""
    loop, thread = asyncio.get_running_loop(), threading.get_ident()
    here: asyncio.Future[None] = loop.create_future()

    def opened() -> None:
        if not here.done():
            here.set_result(None)

    def from_anywhere() -> None:
        if threading.get_ident() == thread:
            opened()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(opened)

    return here, from_anywhere
