"""A programme at work: its three threads, its queue, and what is done when the journal is lost or another's.

Rounds of the writer run where they are cheapest. On a file they run on the event loop that reads the requests: a round
then takes no change of threads, and a commit holds the loop up, and whatever else is on it, for as long as the disk
takes. Somebody else who keeps SQLite's write lock (a VACUUM, a backup that is no `.backup`) holds it up for as long as
they do, 5 s at most. A server over the network may be silent for seconds: there, and without an event loop, they run in
the programme's own thread.

standing by   another process has the journal, or it cannot be reached: requests are told to come again
loading       the house rule decides, the agent is being loaded or catches up
ready         the agent decides
paused        the house rule decides because somebody said so; the agent learns on
failed        the house rule decides because the agent cannot go on. Where the journal is of another agent than the
              file says, nothing is decided at all"""

import asyncio
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import uvloop

from ..journal.errors import JournalUnavailable, NotTheWriter
from ..journal.journal import Journal
from ..live.several import Live
from ..storage.version import __version__
from .asking import Answer, Ask, refused
from .programme_file import Settings
from .sealing import Sealer
from .shadow import contexts_of, report
from .tenure import Desk, Tenure, now_text
from .writer import Answers, Lost, Writer

IDLE = 0.5  # seconds after which the writer looks whether it still has the lock
FEW = 100  # events that are folded faster than a snapshot is taken
RETRY = 0.5  # seconds between attempts to reach the journal
_FULL = refused(503, "too many requests are waiting: ask again", 1)
_AWAY = refused(503, "the journal cannot be reached: ask again with the same key", 1)
_STANDBY = refused(503, "another process has this programme: ask again", 1)


class Programme:
    """One programme of a service.

    settings    its file; url: of its journal
    on_answers  is called with the answers of a round, from wherever it was run
    poll        seconds between attempts to get the journal that another process has; eager: the first one is at once

    >>> import tempfile
    >>> import noregret as nr
    >>> from noregret.service.asking import ask
    >>> from noregret.service.programme_file import programme_from
    >>> settings = programme_from({
    ...     "programme": {"name": "demo"},
    ...     "problem": {"state_names": ["ill", "well"], "action_names": ["wait", "drug"], "horizon": 3,
    ...                 "context_dim": 2, "weight_bound": 2.0, "reward_bound": 1.0},
    ...     "agent": {"name": "certified-psrl"},
    ...     "house": {"rule": {"ill": "drug", "well": "wait"}},
    ... })
    >>> with tempfile.TemporaryDirectory() as folder, Programme(settings, f"{folder}/journal.db") as programme:
    ...     begun = programme.ask(ask("begin", "Ms B", "key 1", {"x": [0.6, 0.8]}))
    ...     again = programme.ask(ask("begin", "Ms B", "key 1", {"x": [0.6, 0.8]}))
    >>> begun.status, begun == again
    (200, True)
    """

    def __init__(
        self,
        settings: Settings,
        url: Any,
        on_answers: Callable[[Answers], None] | None = None,
        poll: float = 0.25,
        eager: bool = True,
    ) -> None:
        self.settings, self.url, self.name = settings, url, settings.name
        self.poll, self.eager = poll, eager
        self.problem, self.encoder = settings.made_problem(), settings.made_encoder()
        self.house = settings.made_house(self.problem)
        rules = settings.made_rules(self.problem, self.house)
        sealer = Sealer(self.open_journal, self._committed, self._kept, self._not_kept)
        self._desk = Desk(settings, self.house, rules, self._deliver, self.open_journal, sealer)
        self.counts, self._queue = self._desk.counts, self._desk.queue
        self._on_answers, self._limit = on_answers, settings.service.queue
        self._mine: dict[int, Any] = {}  # requests of `ask`, which wait here
        self._closed: Answer | None = _STANDBY  # what everybody is told while nothing can be written
        self._wrong = ""  # why nothing ever can
        self._tenure: Tenure | None = None
        self.last_snapshot: dict[str, Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"writer {self.name}", daemon=True)

    # For callers --------------------------------------------------------------------------------------------------
    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """loop: that of the thread that asks, where there is one."""
        self._loop = loop
        self._desk.sealer.start()
        self._thread.start()

    def stop(self) -> None:
        """Answer what waits, and let go of the journal. Not to be called on the loop itself, which may be needed."""
        self._stopping.set()
        self._queue.wake()
        if self._thread.is_alive():
            self._thread.join(timeout=30.0)
        self._desk.sealer.stop()

    def __enter__(self) -> "Programme":
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def submit(self, ask: Ask) -> Answer | None:
        """Let a request wait; never blocks. An answer at once where it cannot: nothing was accepted then."""
        if self._closed is not None:
            return self._closed
        if len(self._queue) >= self._limit:
            self.counts.full += 1
            return _FULL
        self._queue.put(ask)
        return None

    def ask(self, ask: Ask, timeout: float = 30.0) -> Answer:
        """The answer, waited for; a programme that does not have its journal yet is waited for, too."""
        place: list[Any] = [threading.Event(), None]
        self._mine[id(ask)] = place
        until = time.monotonic() + timeout
        try:
            said = self.submit(ask)
            while said is _STANDBY and time.monotonic() < until:
                time.sleep(0.002)
                said = self.submit(ask)
            if said is not None:
                return said
            if not place[0].wait(max(until - time.monotonic(), 0.0)):
                raise TimeoutError(f"no answer within {timeout:g} seconds")
            return place[1]  # type: ignore[no-any-return]
        finally:
            self._mine.pop(id(ask), None)

    @property
    def state(self) -> str:
        now = self._tenure
        if self._wrong:
            return "failed"
        if self._closed is not None or now is None:
            return "standing by"
        return ("paused" if now.paused else "ready") if now.player.state == "ready" else now.player.state

    def read(self, function: Callable[[Live], Any], timeout: float = 5.0) -> Any:
        """function(live) in the player's thread, between two events: it must change nothing. RuntimeError while there
        is no agent, TimeoutError where it was busy for so long."""
        now = self._tenure
        if now is None or self._closed is not None:
            raise RuntimeError("the programme is standing by")
        return now.player.read(function, timeout)

    def shadow(self) -> dict[str, Any]:
        """Whether the agent is certified not to be worse than the house rule, for the people who came last: people,
        lower, upper, certified, sentence (`service.shadow`). Takes a while; whether it decides makes no difference."""
        with self.open_journal() as journal:
            contexts = contexts_of(journal, self._desk.rules.context)
        return report(self.read, self.house, contexts)

    def keep(self, timeout: float = 10.0) -> bool:
        """A snapshot of now, waited for, so that whoever starts next has little to fold; whether it was worth one."""
        now, before = self._tenure, self.last_snapshot
        if now is None or self.state not in ("ready", "paused"):
            return False
        player, done = now.player, threading.Event()
        try:
            number, mine, sealed = self.read(lambda live: (player.folded, player.generation, live.snapshot()), timeout)
        except (RuntimeError, TimeoutError):
            return False
        if before is not None and number - before["number"] < FEW:
            return False
        self._desk.sealer.seal(number, mine, sealed)
        self._desk.sealer.do(lambda journal: done.set())
        return done.wait(timeout)

    def open_journal(self) -> Any:
        """A journal object of one's own, for reading."""
        return Journal(self.url, self.name)

    def facts(self) -> dict[str, Any]:
        """Numbers for metrics and pages; nothing personal."""
        now = self._tenure
        player, told = None if now is None else now.player, self.settings.service
        return self.counts.facts() | {
            "name": self.name, "title": self.settings.programme.title, "state": self.state,
            "paused": now is not None and now.paused, "shadow": told.shadow, "queue": len(self._queue),
            "limit": self._limit, "head": 0 if now is None else now.writer.head,
            "folded": 0 if player is None else player.folded,
            "failure": self._wrong or ("" if player is None else player.failure), "snapshot": self.last_snapshot,
            "deadline_ms": told.deadline_ms, "version": __version__,
        }  # fmt: skip

    # For the sealer -----------------------------------------------------------------------------------------------
    def _committed(self) -> tuple[int, int]:
        now = self._tenure
        return (0, -1) if now is None else (now.writer.head, now.player.generation)

    def _kept(self, number: int, size: int) -> None:
        self.last_snapshot = {"number": number, "size": size, "time": now_text()}
        self._desk.note("snapshot", number=number, size=size)

    def _not_kept(self, sentence: str) -> None:
        self._desk.note("alarm", what="snapshot", sentence=sentence)

    # The programme's thread ---------------------------------------------------------------------------------------
    def _run(self) -> None:
        first = not self.eager  # whoever prefers it may have it first
        while not self._stopping.is_set():
            try:
                with self.open_journal() as journal:
                    while not self._stopping.is_set():
                        if not first and journal.lock():
                            self._serve(journal)
                        else:
                            self._turn_away(_STANDBY, self.poll)
                            first = False
            except Lost as lost:
                self._turn_away(_STANDBY if lost.taken else _AWAY, 0.0)
            except NotTheWriter:
                self._turn_away(_STANDBY, self.poll)
            except (JournalUnavailable, OSError):
                self._turn_away(_AWAY, RETRY)
            except Exception as error:  # a defect, or a journal that is not this programme's
                self._wrong = f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
                if not any(one.get("sentence") == self._wrong for one in self.counts.alarms):
                    self.counts.alarms.append({"time": now_text(), "what": "failed", "sentence": self._wrong})
                self._turn_away(refused(503, "the programme cannot be served: look at its alarms"), 5.0)
        self._turn_away(_STANDBY, 0.0)

    def _turn_away(self, answer: Answer, seconds: float) -> None:
        """Tell everybody who waits to come again, for so long."""
        self._closed = answer
        self._refuse(answer)
        self._stopping.wait(seconds)
        self._refuse(answer)  # those who were about to wait when it was closed

    def _refuse(self, answer: Answer) -> None:
        waiting = self._queue.take(len(self._queue))
        asks = [ask.body["ask"] if ask.verb == "erase now" else ask for ask in waiting]
        self._deliver([(ask, answer) for ask in asks if ask.key is not None])
        for ask in waiting:
            if ask.verb == "alarm":  # written when that can be done again
                self._queue.put(ask)

    def _deliver(self, answers: Answers) -> None:
        self.counts.answers += len(answers)
        if self._mine:
            for ask, answer in answers:
                place = self._mine.get(id(ask))
                if place is not None:
                    place[1] = answer
                    place[0].set()
        if self._on_answers is not None:
            self._on_answers(answers)

    def _serve(self, journal: Any) -> None:
        """Rounds, for as long as the lock is held."""
        tenure = self._tenure = Tenure(self._desk, journal)
        self._closed, self._wrong = None, ""
        try:
            tenure.player.start()
            rounds = self._rounds(tenure.writer, journal)
            if self._loop is not None and journal.local:
                asyncio.run_coroutine_threadsafe(rounds, self._loop).result()
            else:
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as here:
                    here.run(rounds)
        finally:
            tenure.player.stop(5.0 if self._stopping.is_set() else 0.0)

    async def _rounds(self, writer: Writer, journal: Any) -> None:
        try:
            while not self._stopping.is_set():
                if writer.behind:
                    await asyncio.sleep(0.0)  # whoever else is on this loop has a turn
                else:
                    await self._queue.somebody(min(IDLE, writer.patience), lambda: writer.behind)
                await writer.round()
                if not journal.locked:
                    raise Lost(NotTheWriter("the lock was lost"))
            self._closed = _STANDBY
            while writer.behind or writer.patience < math.inf:
                await writer.round(last=True)
        finally:
            self._closed = self._closed or _AWAY
            writer.give_up()
