"""The player: the thread that owns the agent. It loads a snapshot, folds what the journal has after it, and then folds
what the writer hands over, in the same order.

    loading   a snapshot, or a new agent; events from the journal until few are left; then it asks the writer to attach
              it, which happens between two commits: from that number on, items come through the inbox
    ready     items from the inbox. It may run ahead of the journal by the batch that is being committed: where that
              fails the writer detaches it, and everything here is thrown away and folded again
    failed    an event could not be folded, or the agent could not be made. The house rule decides until it is detached

Nothing here makes the writer wait longer than a decision's deadline. A player that is far behind goes back to reading
the journal, so that the inbox stays small.

What neither plans nor learns is not handed over: the writer folds it itself, on the spot, while this thread is at
whatever it is at (`beside`, `live.fold.beside`): a decision from a plan that is made waits for nobody's learning. So
events are folded in another order than they are numbered in. Where that matters, for snapshots and for whoever reads,
the writer puts a mark into the inbox (`mark`) and hands everything over until the thread is past it and all that was
handed over before is written: at the mark exactly the first `folded` events are folded."""

import gc
import itertools
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Protocol

from ..live.fold import FoldError, beside, fold
from ..live.several import Live
from .items import AGENT, GIVEN_UP, LONG, REFUSED, TAKEN, Batch, Item
from .programme_file import Settings
from .rehearsal import rehearse

NEAR = 200  # events that are left when the writer is asked to attach
FAR = 50_000  # items in the inbox when it is given up in favour of the journal
POLL = 0.05  # seconds between looks at whether everything was called off


_generations = itertools.count(1)  # none is used twice, whoever the player is


class Office(Protocol):
    """What a player needs of its programme."""

    def open_journal(self) -> Any: ...  # a journal object of the caller's own
    def ask_to_attach(self) -> None: ...
    def alarm(self, what: str, sentence: str) -> None: ...
    def wake(self) -> None: ...  # the writer, which has a mark to set
    def seal(self, number: int, generation: int, sealed: Callable[[], bytes]) -> None: ...
    def sealing(self) -> bool: ...  # whether it is too early for another snapshot


class _Dropped(Exception):
    """What was folded is not what the journal says, or the programme stops."""


class Player:
    """state: "loading", "ready" or "failed"; folded: how many events `live` has seen; failure: the sentence."""

    def __init__(self, settings: Settings, office: Office) -> None:
        self.settings, self.office = settings, office
        self.state, self.failure = "loading", ""
        self._folded = self._beside = 0  # by this thread, by the writer
        self.generation = next(_generations)
        self.inbox: SimpleQueue[Any] | None = None
        self._next: SimpleQueue[Any] | None = None
        self._attached_at: int | None = None
        self._change = threading.Event()
        self._stopping = False
        self._refuted = False
        self._kept_at, self._kept_time = 0, time.monotonic()
        self._live: Live | None = None  # what the writer may fold on, while `_follow` is at its inbox
        self.handed = self.played = 0  # batches through the inbox, and those of them that are folded
        self._wanted: deque[tuple[Any, Any]] = deque()  # what is to be read at the next mark
        self._marked = self._met = 0  # marks set, and those that the thread is past
        self._keeping = False  # whether one of them is for a snapshot
        self._thread = threading.Thread(target=self._run, name=f"player {settings.name}", daemon=True)

    @property
    def folded(self) -> int:
        """How many events were."""
        return self._folded + self._beside

    # The writer's side --------------------------------------------------------------------------------------------
    def start(self) -> None:
        self._thread.start()

    def stop(self, wait: float = 0.0) -> None:
        """Throw everything away; wait so many seconds for the thread, which may be in the middle of something long."""
        self._stopping = True
        self.detach()
        if wait and self._thread.is_alive():
            self._thread.join(timeout=wait)

    def attach(self, head: int) -> None:
        """From event `head` on, items come through the inbox. Called between two commits."""
        if self._next is None:
            self.handed = self.played = self._marked = self._met = 0
            self._keeping = False
            self._next = self.inbox = SimpleQueue()
            self._attached_at = head
            self._change.set()

    def detach(self) -> None:
        """A commit failed, or the lock was lost: throw everything away and begin with a snapshot."""
        self.generation = next(_generations)
        old, self.inbox = self.inbox, None
        if old is not None:
            old.put(None)
        self._change.set()

    def hand(self, batch: Batch) -> None:
        """Items in their order. A thread that is too far behind reads on in the journal."""
        inbox = self.inbox
        if inbox is None:
            return
        self.handed += 1
        batch.place = self.handed
        inbox.put(batch)
        if inbox.qsize() > FAR:
            self.inbox = None
            inbox.put("far behind")

    def beside(self, item: Item) -> bool:
        """Whether the item was folded here, in the writer's thread; if it was a decision that nobody has made, it is
        the agent's now. The writer knows that nothing about the same person is on its way. An item that cannot be
        folded is the thread's to fail with."""
        live, inbox = self._live, self.inbox
        if live is None or inbox is None or item.late or item.kind in LONG:
            return False
        own = item.by is None and item.kind == "decide"
        try:
            done, made = beside(live, item, own)  # type: ignore[arg-type]
        except Exception as error:
            self.inbox = None
            inbox.put(error)
            return False
        if done:
            self._beside += 1
            if own:
                item.made, item.by = made, AGENT
        return done

    def mark(self) -> bool:
        """Whether something must happen between two events and was put into the inbox. From then on everything is to be
        handed over, while `orderly` says so and until what was handed over before is written."""
        inbox = self.inbox
        if inbox is None or not self.wanted:
            return False
        if not self._keeping and self._due():
            self._keeping = True
            self._marked += 1
            inbox.put("keep")
        while self._wanted:
            self._marked += 1
            inbox.put(self._wanted.popleft())
        return True

    @property
    def wanted(self) -> bool:
        """Whether there is something to set a mark for."""
        return self.inbox is not None and (bool(self._wanted) or (not self._keeping and self._due()))

    @property
    def orderly(self) -> bool:
        """Whether there is a mark that the thread is not past."""
        return self._marked != self._met

    def read(self, function: Callable[[Live], Any], timeout: float) -> Any:
        """function(live), between two events: all before are folded, none after."""
        found = Future[Any]()
        if self.inbox is None:
            raise RuntimeError(f"the agent is {self.state}")
        self._wanted.append((function, found))
        self.office.wake()
        return found.result(timeout)

    # The thread ---------------------------------------------------------------------------------------------------
    def _run(self) -> None:
        while not self._stopping:
            mine = self.generation
            self._next, self._attached_at = None, None
            try:
                self._live_through(mine)
            except _Dropped:
                self.state = "loading" if not self._stopping else self.state
            except Exception as error:
                self._fail(error, mine)

    def _fail(self, error: Exception, mine: int) -> None:
        self.inbox = None
        self.failure = f"{type(error).__name__}: {_words(error)}"
        self.state = "failed"
        where = traceback.extract_tb(error.__traceback__)[-1]
        self.office.alarm("failed", f"the agent failed, the house rule decides: {self.failure} ({where.name})")
        while self.generation == mine:
            self._change.wait(POLL)
            self._change.clear()
        self.state = "loading"

    def _live_through(self, mine: int) -> None:
        with self.office.open_journal() as journal:
            live, self._folded = self._loaded(journal, mine)
            self._beside = 0
            self._refuted = live.agent.refuted is not None
            self._kept_at, self._kept_time = self.folded, time.monotonic()
            while True:
                self._catch_up(live, journal, mine)
                self._settle_memory()
                self.state = "ready"
                self._follow(live, mine)
                self.state = "loading"  # far behind

    def _loaded(self, journal: Any, mine: int) -> tuple[Live, int]:
        """The newest snapshot that can be read, or a new agent."""
        for kept in journal.snapshots():
            self._check(mine)
            try:
                if kept.number <= journal.head:
                    return Live.from_bytes(journal.snapshot(kept.number), name=f"snapshot {kept.number}"), kept.number
            except ValueError as error:
                self.office.alarm("snapshot", f"snapshot {kept.number} was passed over: {error}")
        made = next(iter(journal.events(0, 1)))
        live = self.settings.made_live(made.payload["live"])
        rehearse(live)  # a snapshot that is read was tried out already
        self._check(mine)
        self.office.seal(1, mine, live.snapshot())
        return live, 1

    def _catch_up(self, live: Live, journal: Any, mine: int) -> None:
        """Fold what the journal has, until attached and all before that is folded."""
        self._next, self._attached_at = None, None
        while True:
            self._read_on(live, journal, mine, None)
            if journal.head - self.folded <= NEAR:
                break
        self.office.ask_to_attach()
        while self._attached_at is None:
            self._check(mine)
            self._change.wait(POLL)
            self._change.clear()
        self._check(mine)
        self._read_on(live, journal, mine, self._attached_at)

    def _read_on(self, live: Live, journal: Any, mine: int, stop: int | None) -> None:
        for event in journal.events(self.folded, stop):
            self._check(mine)
            fold(live, event)
            self._count(live, mine)
        if stop is not None and self.folded != stop:
            raise RuntimeError(f"the journal has {self.folded} events where it should have {stop}")

    def _follow(self, live: Live, mine: int) -> None:
        inbox = self._next
        assert inbox is not None
        self._live = live
        try:
            while True:
                given = inbox.get()
                if given is None:
                    raise _Dropped
                if isinstance(given, Batch):
                    for item in given.items:
                        self._folded += self._play(live, item, given)
                        item.folded = True
                    self._check(mine)
                    self.played += 1
                elif isinstance(given, Exception):
                    raise given
                elif given == "far behind":
                    return
                else:
                    if given == "keep":
                        self.keep(live, mine)
                        self._keeping = False
                    else:
                        _answer(live, *given)
                    self._met += 1
        finally:
            self._live = None

    def _play(self, live: Live, item: Item, batch: Batch) -> bool:
        """Fold one item; claim it where it waits to be. Whether it is an event."""
        if item.late:
            if not batch.claim(item, TAKEN):
                return False  # given up
            try:
                _check_learned(live, item)
                made = fold(live, item)  # type: ignore[arg-type]
            except Refused as no:
                batch.settle(item, REFUSED, str(no))
                return False
            except BaseException:
                batch.settle(item, GIVEN_UP)
                raise
            batch.settle(item, AGENT, made)
        elif item.by is None and item.kind == "decide":
            try:
                made = live.act(item.who, item.payload["state"], time=item.time)
            except (ValueError, RuntimeError) as error:
                raise FoldError(f"a new decide cannot be folded: {error}") from error
            if not batch.claim(item, AGENT, made):
                fold(live, item)  # type: ignore[arg-type]
        elif item.kind == "begin":

            def planned(plan: Any) -> None:
                """Nobody waits for those who are learned after it."""
                item.folded = True
                batch.claim(item, AGENT, plan)

            live.on_plan = planned
            try:
                batch.claim(item, AGENT, fold(live, item))  # type: ignore[arg-type]
            finally:
                live.on_plan = None
        else:
            fold(live, item)  # type: ignore[arg-type]
        if item.kind not in ("decide", "reward") and not self._refuted and live.agent.refuted is not None:
            self._refuted = True
            self.office.alarm("refuted", live.agent.refuted)
        return True

    def _count(self, live: Live, mine: int) -> None:
        """One event more; a snapshot where it is time for one."""
        self._folded += 1
        if self._due():
            self.keep(live, mine)

    def _due(self) -> bool:
        """Whether a snapshot is."""
        told, since = self.settings.service, self.folded - self._kept_at
        late = since > 0 and time.monotonic() - self._kept_time > 60.0 * told.snapshot_minutes
        return (since >= told.snapshot_every or late) and not self.office.sealing()

    def keep(self, live: Live, mine: int) -> None:
        self._kept_at, self._kept_time = self.folded, time.monotonic()
        self.office.seal(self.folded, mine, live.snapshot())

    def _check(self, mine: int) -> None:
        if self.generation != mine or self._stopping:
            raise _Dropped

    def _settle_memory(self) -> None:
        """What was loaded stays: later collections need not look at it, which takes up to a third of a second. What was
        thrown away before goes now."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()


def _words(error: Exception) -> str:
    """What an exception says. Why an event cannot be folded may quote whose it is, and stays here: alarms are read by
    many, and are not erased with a person."""
    said = " ".join(str(error).split())[:400]
    if isinstance(error, FoldError) and error.__cause__ is not None:
        return f"{said.partition(':')[0]} ({type(error.__cause__).__name__})"
    return said


class Refused(Exception):
    """A late item that comes too late, or too early."""


def _check_learned(live: Live, item: Item) -> None:
    try:
        live.step_of(item.who)
        waiting = True
    except ValueError:
        waiting = False
    if item.kind == "begin" and waiting:
        raise Refused(
            "this person has ended and is not learned yet: late outcomes could not be told apart, begin them under "
            "another name"
        )
    if item.kind != "begin" and not waiting:
        raise Refused("this person was learned already: nothing more can be taken of them")


def _answer(live: Live, function: Callable[[Live], Any], found: "Future[Any]") -> None:
    try:
        found.set_result(function(live))
    except Exception as error:
        found.set_exception(error)
