"""The writer: who owns the journal of a programme and answers its requests.

One round, over and over:

    1. take what waits in the queue, at most MOST
    2. keys that were answered before get the stored answer (another body: 409); one query for all
    3. hold every other request against its person's standing: refuse it, or make it an item
    4. fold what is quickly done (`Player.beside`); hand the rest to the player: who begins, ends or withdraws
    5. of what was handed over, now or before: what it has claimed is ready, in that order, and what nobody has claimed
       at its deadline the house rule decides
    6. number what was quickly done and what is ready, write it in one transaction, answer

So a person who is planned for, or learned, keeps nobody else waiting: a round goes on without them, and they are
written by the one that finds them ready. Numbers are given when events are written. They may be in another order than
requests came in, where those are about different people; what the agent knows is the same in both orders.

Refusals change nothing and are not written: the same request may be taken later. Where a commit fails nobody knows what
the journal has: all are told to come again (503), and standing, answers and agent are forgotten and read again. A key
of a request that was written after all then gets its answer."""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ..journal.errors import JournalUnavailable, NotTheWriter
from ..journal.event import Entry
from .answers import Phrasing
from .asking import Answer, Ask, Refusal, refused
from .counts import Counts
from .house import House
from .items import AGENT, CALLER, GIVEN_UP, HOUSE, REFUSED, Batch, Item
from .player import Player
from .recall import Recall
from .standing import Rules
from .waiting import Waiting

MOST = 64  # requests in one commit: a round of so many takes some milliseconds, in which nothing is read
GRACE = 0.001  # seconds that a round waits for what it has just handed over: most plans are made by then
LATE = 0.05  # seconds that the player has for late items where nobody waits for a decision
Answers = list[tuple[Ask, Answer]]
_IN_ORDER = ("attach", "erase", "erase now", "pause", "resume")  # before these all that is on its way is written
_AGAIN = refused(503, "the journal could not be written: ask again with the same key", 1)
_OTHER = refused(409, "this key was used for another request: a key belongs to one request and its repetitions")
_UNSURE = refused(503, "the agent is not there to say whether this person was learned already: ask again", 1)


class Lost(Exception):
    """The journal could not be written, or is another process's (`taken`)."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        self.taken = isinstance(error, NotTheWriter)


class Writer:
    """The rounds of one programme while it holds the journal's lock; `Programme` runs them.

    queue    of requests. Those without a key are the programme's own: `own` says what to do with each verb
    deliver  is given the answers of a round
    why      says why the house rule decides now ("paused", "shadow", "loading", "failed"), None: the agent does
    deadline seconds from a request's arrival until the house rule decides"""

    def __init__(
        self, journal: Any, player: Player, house: House, rules: Rules, queue: Waiting,
        *, deliver: Callable[[Answers], None], why: Callable[[], str | None], deadline: float, counts: Counts,
        own: dict[str, Callable[[Ask], Item | None]],
    ) -> None:  # fmt: skip
        self.journal, self.player, self.house, self.rules, self.queue = journal, player, house, rules, queue
        self.deliver, self.why, self.deadline, self.counts, self.own = deliver, why, deadline, counts, own
        self.problem = house.problem
        self.phrasing = Phrasing(self.problem, house)
        self.recall = Recall(journal, self.problem)
        self.head: int = journal.head
        self._put_off: list[Ask] = []  # until the next round
        self._stalled = False  # whether the next round waits for all that was handed over
        self._later: list[Ask] = []  # until something of `_slow` is written
        self._slow: deque[Batch] = deque()  # handed to the player and not written, in that order
        self._handed: deque[Batch] = deque()  # handed to the player, and not folded or not written
        self._busy: dict[Any, Item] = {}  # whose items are in them: the last of each
        self._writing: list[Batch] = []  # being written
        self._last: Batch | None = None  # what was handed over before a mark: in order until it is written

    async def round(self, last: bool = False) -> None:
        """One round of those who wait. `Lost` where the journal was; whoever asked is told to come again then. last: it
        waits for everything that the player has."""
        asks = self._taken()
        answers: Answers = []
        try:
            waits = last or self._stalled or self.player.inbox is None
            if self._slow and (waits or any(ask.verb in _IN_ORDER for ask in asks)):
                await self._drain(answers)
            self._stalled = False
            if asks or self._slow or self.player.wanted:
                await self._round(asks, answers)
        except Exception as error:
            self.counts.failures += 1
            told = {id(ask) for ask, _ in answers}
            answers += [(ask, _AGAIN) for ask in {*asks, *self._under_way()} if ask.key and id(ask) not in told]
            for ask in asks:
                if ask.verb in ("alarm", "erase now"):  # the latter is answered, as all who wait then are
                    self.queue.put(ask)
            if isinstance(error, JournalUnavailable | NotTheWriter | OSError):
                raise Lost(error) from error
            raise
        finally:
            if answers:
                self.deliver(answers)

    async def _round(self, asks: list[Ask], answers: Answers) -> None:
        self.recall.trim(people=not self._slow)
        self._settle()
        if self.player.mark():
            self._last = self._handed[-1] if self._handed else None
        if any(ask.verb == "erase now" for ask in asks):  # takes long, and others may be on the same loop
            items = await asyncio.to_thread(self._items, asks, answers)
        else:
            items = self._items(asks, answers)
        first = not self._slow
        quick, slow = self._parted(items)
        if slow:
            batch = Batch(slow, self._until(slow))
            batch.opened = self.queue.wake
            self._slow.append(batch)
            self._handed.append(batch)
            self._busy.update((item.who, item) for item in slow)
            self.player.hand(batch)
            if first and batch.left and self.player.inbox is not None:
                await batch.wait(min(GRACE, batch.until - time.monotonic()))
        # What was quickly done comes first: what was handed over may be a later request of the same person.
        self._commit([*quick, *self._ready()], answers)

    @property
    def behind(self) -> bool:
        """Whether there is something to do."""
        slow = self._slow
        return bool(self._put_off) or len(self.queue) > 0 or bool(slow and not slow[0].left) or self.player.wanted

    @property
    def patience(self) -> float:
        """Seconds until something is due whether or not it is claimed; inf: nothing was handed over."""
        if not self._slow:
            return math.inf
        first = self._slow[0]
        return LATE if first.closed else max(first.until - time.monotonic(), 0.0)

    def give_up(self) -> None:
        """Tell everybody who waits here to come again."""
        waiting = [(ask, _AGAIN) for ask in self._under_way() if ask.key is not None]
        if waiting:
            self.deliver(waiting)

    def _under_way(self) -> list[Ask]:
        """Whose requests are put off, or with the player; they are let go of."""
        found = [*self._put_off, *self._later]
        batches = [*self._writing, *self._slow]
        found += [item.ask for batch in batches for item in batch.items if item.ask is not None]
        self._put_off, self._later = [], []
        self._slow.clear()
        return found

    def wrote_by_itself(self, kind: str) -> None:
        """The journal wrote an event of its own, before those of this round: the player counts it."""
        self.head += 1
        self.player.hand(Batch([Item(kind, None, {}, "")]))
        self.counts.committed([kind])

    # What is asked ------------------------------------------------------------------------------------------------
    def _taken(self) -> list[Ask]:
        asks, self._put_off = self._put_off, []
        return asks + self.queue.take(MOST - len(asks))

    def _items(self, asks: list[Ask], answers: Answers) -> list[Item]:
        """Requests as items, in their order. Those answered already, or refused, go to `answers`. What has a key that
        is on its way is put off until that is written; and so is everything from a request on that is about somebody
        whose last one the player may still refuse: who was learned depends on others, in the order of arrival. Erasing
        is done at once, and so put off where there is something of the person here, which must be written before."""
        known = self.recall.answered([ask.key for ask in asks if ask.key is not None])
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        items: list[Item] = []
        keys: set[str] = set()
        under_way = [item for batch in self._slow for item in batch.items]
        far = {item.ask.key for item in under_way if item.ask is not None}
        unsure = {item.who for item in under_way if item.late}
        for i, ask in enumerate(asks):
            before = known.get(ask.key) if ask.key is not None else None
            if before is not None:
                answers.append((ask, before.answer if before.asked == ask.asked else _OTHER))
                self.counts.again += 1
                continue
            if ask.key is not None and (ask.key in keys or ask.key in far):
                (self._later if ask.key in far else self._put_off).append(ask)
                continue
            if ask.who is not None and (ask.who in unsure or (ask.verb == "erase now" and _about(items, ask.who))):
                self._put_off += asks[i:]
                self._stalled = True
                break
            try:
                item = self.own[ask.verb](ask) if ask.verb in self.own else self._item(ask, now)
            except Refusal as no:
                answers.append((ask, no.answer))
                self.counts.refusals[no.answer.status] += 1
                continue
            if item is not None:
                item.time = now
                items.append(item)
                if ask.key is not None:
                    keys.add(ask.key)
                if item.late:
                    unsure.add(ask.who)
        return items

    def _item(self, ask: Ask, now: str) -> Item:
        standing = self.recall.standing(ask.who)
        kind, payload, late = self.rules.event(ask.verb, ask.body, standing)
        item = Item(kind, ask.who, payload, now, ask, late)
        item.standing = standing
        if kind == "decide":
            item.by = None if payload["action"] is None else CALLER
        if not late:
            standing.take(kind, payload, self.problem)
        return item

    # Who decides --------------------------------------------------------------------------------------------------
    def _settle(self) -> None:
        """Forget what was handed over and is folded and written; where the player is away it reads the journal."""
        player, handed = self.player, self._handed
        while handed and handed[0].written and (handed[0].place <= player.played or player.inbox is None):
            for item in handed.popleft().items:
                if self._busy.get(item.who) is item:
                    del self._busy[item.who]
        if self._last is not None and self._last.written:
            self._last = None

    def _parted(self, items: list[Item]) -> tuple[list[Item], list[Item]]:
        """(items that are folded, those that the player must fold). Nobody's item overtakes an earlier one of
        theirs."""
        reason = self.why()
        if reason is not None:
            for item in items:
                if item.awaited and not item.late:
                    self._by_house(item, reason)
                    item.by = HOUSE
        if self._last is not None or self.player.orderly:
            return [], items
        quick: list[Item] = []
        slow: list[Item] = []
        here: set[Any] = set()
        for item in items:
            last = None if item.who is None else self._busy.get(item.who)
            free = item.who not in here and (last is None or (last.folded and last.stored))
            if free and self.player.beside(item):
                quick.append(item)
            else:
                slow.append(item)
                if item.who is not None:
                    here.add(item.who)
        return quick, slow

    def _until(self, items: list[Item]) -> float:
        """When nobody waits for the claims any more: the first deadline, of a decision or of somebody who begins."""
        decided = [item.ask.arrived for item in items if item.awaited and not item.late and item.ask is not None]
        return min(decided) + self.deadline if decided else time.monotonic() + max(self.deadline, LATE)

    def _ready(self) -> list[Item]:
        """What was handed over, is claimed or given up, and can be written."""
        found: list[Item] = []
        while self._slow:
            batch = self._slow[0]
            if batch.left and not batch.closed and (batch.until <= time.monotonic() or self.player.inbox is None):
                batch.close(lambda item: self._by_house(item, "deadline"))
            if batch.left:
                break
            self._slow.popleft()
            self._writing.append(batch)
            found += batch.items
        return found

    async def _drain(self, answers: Answers) -> None:
        """Everything that was handed over is claimed, or given up, and written."""
        for batch in list(self._slow):
            seconds = 0.0 if self.player.inbox is None else max(batch.until - time.monotonic(), 0.0)
            if not batch.closed and not await batch.wait(seconds):
                batch.close(lambda item: self._by_house(item, "deadline"))
            await batch.wait(None)
        self._commit(self._ready(), answers)

    def _by_house(self, item: Item, reason: str) -> None:
        item.reason = reason
        if item.kind == "decide":
            told, who = item.payload, item.standing
            assert who is not None
            told["action"], told["probability"] = self.house.decide(
                item.who, who.visits, told["step"], told["state"], who.mask
            )
            told["by"] = HOUSE
            self.counts.house[reason] += 1

    # Writing ------------------------------------------------------------------------------------------------------
    def _commit(self, items: list[Item], answers: Answers) -> None:
        written: list[Item] = []
        entries: list[Entry] = []
        begun = self.counts.kinds["begin"]
        for item in items:
            ask = item.ask
            if item.by == REFUSED or item.by == GIVEN_UP:
                if ask is not None:
                    answers.append((ask, refused(409, item.made) if item.by == REFUSED else _UNSURE))
                continue
            if item.kind == "decide" and item.by == AGENT:
                made, told = item.made, item.payload
                told["by"], told["action"], told["probability"] = AGENT, made.action, made.probability
                told["advice"] = made.advice
            elif item.kind == "snapshot":  # where counting goes on after a restart
                item.payload["counts"] = dict(self.counts.kinds + Counter(entry.kind for entry in entries))
            text = None if ask is None else self.phrasing.text(item, self.head + len(entries), begun)
            begun += item.kind == "begin"
            key, asked = (None, None) if ask is None else (ask.key, ask.asked)
            entries.append(_entry(item, text, key, asked))
            written.append(item)
        if entries:
            self.journal.write(entries)
            self.head += len(entries)
            self.counts.committed([entry.kind for entry in entries])
        if self._writing:
            for batch in self._writing:
                batch.written = True
                for item in batch.items:
                    item.stored = True
            self._writing = []
            self._put_off += self._later
            self._later = []
        for item, entry in zip(written, entries, strict=True):
            if item.late and item.standing is not None:
                item.standing.take(item.kind, item.payload, self.problem)
            if item.ask is not None and item.ask.key is not None:
                answer = Answer(200, entry.answer or "")
                self.recall.note(item.ask.key, item.ask.asked, answer)
                answers.append((item.ask, answer))


def _about(items: list[Item], who: Any) -> bool:
    return any(item.who == who for item in items)


def _entry(item: Item, answer: str | None, key: str | None, asked: bytes | None) -> Entry:
    """`Entry(...)`, in a third of the time: frozen dataclasses are made slowly."""
    made = object.__new__(Entry)
    made.__dict__.update(
        kind=item.kind, time=item.time, who=item.who, payload=item.payload, answer=answer, key=key, asked=asked
    )
    return made
