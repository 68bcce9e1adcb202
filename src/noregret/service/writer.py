"""The writer: who owns the journal of a programme and answers its requests.

One round, over and over:

    1. take what waits in the queue, at most MOST
    2. keys that were answered before get the stored answer (another body: 409); one query for all
    3. hold every other request against its person's standing: refuse it, or make it an item
    4. hand the items to the player; wait until it has claimed every begin and decide, or the first deadline
    5. what nobody has claimed the house rule decides
    6. number the items, write them in one transaction, answer

Refusals change nothing and are not written: the same request may be taken later. Where a commit fails nobody knows what
the journal has: all are told to come again (503), and standing, answers and agent are forgotten and read again. A key
of a request that was written after all then gets its answer."""

import asyncio
import time
from collections import Counter
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
LATE = 0.05  # seconds that the player has for late items where nobody waits for a decision
Answers = list[tuple[Ask, Answer]]
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
        self._put_off: list[Ask] = []

    async def round(self) -> None:
        """One round of those who wait. `Lost` where the journal was; whoever asked is told to come again then."""
        asks = self._taken()
        answers: Answers = []
        try:
            if asks:
                self.recall.trim()
                if any(ask.verb == "erase now" for ask in asks):  # takes long, and others may be on the same loop
                    items = await asyncio.to_thread(self._items, asks, answers)
                else:
                    items = self._items(asks, answers)
                await self._decide(items)
                self._commit(items, answers)
        except Exception as error:
            self.counts.failures += 1
            told = {id(ask) for ask, _ in answers}
            again = refused(503, "the journal could not be written: ask again with the same key", 1)
            answers += [(ask, again) for ask in {*asks, *self._put_off} if ask.key and id(ask) not in told]
            self._put_off = []
            for ask in asks:
                if ask.verb in ("alarm", "erase now"):  # the latter is answered, as all who wait then are
                    self.queue.put(ask)
            if isinstance(error, JournalUnavailable | NotTheWriter | OSError):
                raise Lost(error) from error
            raise
        finally:
            if answers:
                self.deliver(answers)

    @property
    def behind(self) -> bool:
        """Whether somebody waits for a round."""
        return bool(self._put_off) or len(self.queue) > 0

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
        """Requests as items, in their order. Those answered already, or refused, go to `answers`. What has a key of
        this batch is put off until that is answered; and so is everything from a request on that is about somebody
        whose last one the player may still refuse: the order of arrival is that of the journal. Erasing is done at
        once, and so put off where this batch has something of the person, which must be written before."""
        known = self.recall.answered([ask.key for ask in asks if ask.key is not None])
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        items: list[Item] = []
        keys: set[str] = set()
        unsure: set[Any] = set()
        for i, ask in enumerate(asks):
            before = known.get(ask.key) if ask.key is not None else None
            if before is not None:
                answers.append((ask, before.answer if before.asked == ask.asked else _OTHER))
                self.counts.again += 1
                continue
            if ask.key is not None and ask.key in keys:
                self._put_off.append(ask)
                continue
            if ask.who is not None and (ask.who in unsure or (ask.verb == "erase now" and _about(items, ask.who))):
                self._put_off += asks[i:]
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
    async def _decide(self, items: list[Item]) -> None:
        """Have every item claimed, or given up."""
        reason = self.why()
        if reason is not None:
            for item in items:
                if item.awaited and not item.late:
                    self._by_house(item, reason)
                    item.by = HOUSE
        batch = Batch(items)
        self.player.hand(batch)
        if batch.left:
            decided = [item.ask.arrived for item in items if item.awaited and not item.late and item.ask is not None]
            now = time.monotonic()
            seconds = min(decided) + self.deadline - now if decided else max(self.deadline, LATE)
            if self.player.inbox is None or not await batch.wait(seconds):
                batch.close(lambda item: self._by_house(item, "deadline"))
                await batch.wait(None)

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
        if not entries:
            return
        self.journal.write(entries)
        self.head += len(entries)
        self.counts.committed([entry.kind for entry in entries])
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
