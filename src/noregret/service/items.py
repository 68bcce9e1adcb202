"""What the writer hands to the player: events to be, and who decided them.

A decision belongs to whoever claims it first. `Item.by` is written once, under the batch's lock: by the player
("agent", when it has computed the action) or by the writer ("house", when time is up). What the player computed for a
decision that it did not get is overwritten by folding the house rule's action, which `Live.act` takes as if asked
once."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from .asking import Ask
from .standing import Standing
from .waiting import gate

LONG = frozenset(("begin", "end", "close", "withdraw"))  # kinds that make a plan, or may have somebody learned
AGENT, HOUSE, CALLER, TAKEN, REFUSED, GIVEN_UP = "agent", "house", "caller", "taken", "refused", "given up"


class Item:
    """An event to be: kind, who, payload and time, as `live.fold` takes them.

    ask     whom to answer, None for the writer's own events; late: whether it depends on people learned (`standing`)
    by      None until claimed. "agent", "house", "caller" of begin and decide; of late ones "taken" while the player
            has it, then "agent", or "refused"; "given up": nobody came in time, it is not written
    reason  why the house rule decided; made: the plan, the decision, or the sentence of a refusal
    standing  of the person, where it is about one
    folded  by the player, where it was handed over; stored: in the journal, or refused"""

    __slots__ = (
        "ask", "by", "folded", "kind", "late", "made", "payload", "reason", "standing", "stored", "time", "who",
    )  # fmt: skip

    def __init__(
        self, kind: str, who: Any, payload: dict[str, Any], time: str, ask: Ask | None = None, late: bool = False
    ) -> None:
        self.kind, self.who, self.payload, self.time = kind, who, payload, time
        self.ask, self.late = ask, late
        self.by: str | None = None
        self.reason: str | None = None
        self.made: Any = None
        self.standing: Standing | None = None
        self.folded = self.stored = False

    @property
    def awaited(self) -> bool:
        """Whether the writer waits for the player to look at it."""
        return self.by is None and (self.late or self.kind in ("begin", "decide"))

    @property
    def written(self) -> bool:
        return self.by not in (REFUSED, GIVEN_UP)


class Batch:
    """Items that the player folds, and are written together when it has claimed those awaited.

    until    monotonic time from which on nobody waits for the claims; closed: it has passed
    place    of the batch among those handed to the player; written: it is in the journal"""

    __slots__ = ("claims", "closed", "items", "left", "opened", "place", "until", "written")

    def __init__(self, items: list[Item], until: float = 0.0) -> None:
        self.items, self.until = items, until
        self.closed = self.written = False
        self.left, self.place = sum(item.awaited for item in items), 0
        self.claims = threading.Lock()
        self.opened: Callable[[], None] | None = None  # the gate, where somebody waits at it

    def claim(self, item: Item, by: str, made: Any = None) -> bool:
        """For the player: whether the item is its own. Opens the gate after the last one awaited."""
        with self.claims:
            if item.by is not None:
                return False
            item.made, item.by = made, by
            if by != TAKEN:
                self._less()
        return True

    def settle(self, item: Item, by: str, made: Any = None) -> None:
        """For the player: what became of an item it had taken."""
        with self.claims:
            item.made, item.by = made, by
            self._less()

    def _less(self) -> None:
        self.left -= 1
        if self.left == 0 and self.opened is not None:
            self.opened()

    async def wait(self, seconds: float | None) -> bool:
        """For the writer: whether all were claimed in that time; None: however long it takes."""
        here, opened = gate()
        with self.claims:
            if not self.left:
                return True
            before, self.opened = self.opened, opened
        timer = None if seconds is None else asyncio.get_running_loop().call_later(max(seconds, 0.0), opened)
        await here
        self.opened = before
        if timer is not None:
            timer.cancel()
        return not self.left

    def close(self, claim: Callable[[Item], None]) -> None:
        """For the writer: time is up. `claim` writes the house rule's action into every decision that nobody has; late
        items are given up. What the player has taken is left: it is at work on it."""
        with self.claims:
            self.closed = True
            for item in self.items:
                if item.awaited:
                    if item.late:
                        item.by = GIVEN_UP
                    else:
                        claim(item)
                        item.by = HOUSE
                    self.left -= 1
