"""A programme at work: its three threads, its queue, and what is done when the journal is lost or another's.

standing by   another process has the journal, or it cannot be reached: requests are told to come again
loading       the house rule decides, the agent is being loaded or catches up
ready         the agent decides
paused        the house rule decides because somebody said so; the agent learns on
failed        the house rule decides because the agent cannot go on. Where the journal is of another agent than the
              file says, nothing is decided at all"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Any

from ..journal.errors import JournalUnavailable, NotTheWriter
from ..journal.event import Entry
from ..journal.journal import Journal
from ..live.several import Live
from ..storage.version import __version__
from .asking import Answer, Ask, Refusal, encoded, refused
from .counts import Counts
from .items import Item
from .player import Player
from .programme_file import Settings
from .sealing import Sealer
from .standing import Rules
from .writer import Answers, Lost, Writer

IDLE = 0.5  # seconds after which the writer looks whether it still has the lock
RETRY = 0.5  # seconds between attempts to reach the journal
_FULL = refused(503, "too many requests are waiting: ask again", 1)
_AWAY = refused(503, "the journal cannot be reached: ask again with the same key", 1)
_STANDBY = refused(503, "another process has this programme: ask again", 1)


class Programme:
    """One programme of a service.

    settings    its file; url: of its journal
    on_answers  is called from the writer's thread with the answers of a round
    poll        seconds between attempts to get the journal that another process has

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
    ) -> None:
        self.settings, self.url, self.name, self.poll = settings, url, settings.name, poll
        self.problem, self.encoder = settings.made_problem(), settings.made_encoder()
        self.house = settings.made_house(self.problem)
        wait = settings.learning.wait
        self.rules = Rules(self.problem, self.encoder, None if wait == "close" else int(wait))
        self.counts, self.paused, self.since = Counts(), False, time.monotonic()
        self._on_answers, self._limit = on_answers, settings.service.queue
        self._queue: SimpleQueue[Ask | None] = SimpleQueue()
        self._mine: dict[int, Any] = {}  # requests of `ask`, which wait here
        self._closed: Answer | None = _STANDBY  # what everybody is told while nothing can be written
        self._wrong = ""  # why nothing ever can
        self._stopping = threading.Event()
        self._player: Player | None = None
        self._writer: Writer | None = None
        self._tenure = 0
        self.last_snapshot: dict[str, Any] | None = None
        self._sealer = Sealer(self.open_journal, self._committed, self._kept, lambda why: self.alarm("snapshot", why))
        self._thread = threading.Thread(target=self._run, name=f"writer {self.name}", daemon=True)

    # For callers --------------------------------------------------------------------------------------------------
    def start(self) -> None:
        self._sealer.start()
        self._thread.start()

    def stop(self) -> None:
        """Answer what waits, and let go of the journal."""
        self._stopping.set()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout=30.0)
        self._sealer.stop()

    def __enter__(self) -> "Programme":
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def submit(self, ask: Ask) -> Answer | None:
        """Let a request wait; never blocks. An answer at once where it cannot: nothing was accepted then."""
        if self._closed is not None:
            return self._closed
        if self._queue.qsize() >= self._limit:
            self.counts.full += 1
            return _FULL
        self._queue.put(ask)
        return None

    def ask(self, ask: Ask, timeout: float = 30.0) -> Answer:
        """The answer, waited for; a programme that is about to have its journal is waited for, too."""
        done = threading.Event()
        place: list[Any] = [done, None]
        self._mine[id(ask)] = place
        until = time.monotonic() + timeout
        try:
            said = self.submit(ask)
            while said is not None and said is _STANDBY and time.monotonic() < min(until, self.since + timeout):
                time.sleep(0.002)
                said = self.submit(ask)
            if said is not None:
                return said
            if not done.wait(max(until - time.monotonic(), 0.0)):
                raise TimeoutError(f"no answer within {timeout:g} seconds")
            return place[1]  # type: ignore[no-any-return]
        finally:
            self._mine.pop(id(ask), None)

    @property
    def state(self) -> str:
        player = self._player
        if self._wrong:
            return "failed"
        if self._closed is not None or player is None:
            return "standing by"
        if player.state == "failed" or player.state == "loading":
            return player.state
        return "paused" if self.paused else "ready"

    def read(self, function: Callable[[Live], Any], timeout: float = 5.0) -> Any:
        """function(live) in the player's thread, between two events: it must change nothing. RuntimeError while there
        is no agent, TimeoutError where it was busy for so long."""
        player = self._player
        if player is None:
            raise RuntimeError("the programme is standing by")
        return player.read(function, timeout)

    def open_journal(self) -> Any:
        """A journal object of one's own, for reading."""
        return Journal(self.url, self.name)

    def facts(self) -> dict[str, Any]:
        """Numbers for metrics and pages; nothing personal."""
        player, writer = self._player, self._writer
        return self.counts.facts() | {
            "name": self.name, "title": self.settings.programme.title, "state": self.state, "paused": self.paused,
            "shadow": self.settings.service.shadow, "queue": self._queue.qsize(), "limit": self._limit,
            "head": 0 if writer is None else writer.head, "folded": 0 if player is None else player.folded,
            "failure": self._wrong or ("" if player is None else player.failure), "snapshot": self.last_snapshot,
            "deadline_ms": self.settings.service.deadline_ms, "version": __version__,
        }  # fmt: skip

    # The player's office ------------------------------------------------------------------------------------------
    def ask_to_attach(self, player: Player) -> None:
        self._queue.put(Ask("attach", None, None, None, {"player": player}))

    def alarm(self, what: str, sentence: str) -> None:
        self._queue.put(Ask("alarm", None, None, None, {"what": what, "sentence": sentence}))

    def seal(self, number: int, generation: int, sealed: Callable[[], bytes]) -> None:
        self._sealer.seal(number, generation, sealed)

    def _committed(self) -> tuple[int, int]:
        writer, player = self._writer, self._player
        return (0, -1) if writer is None or player is None else (writer.head, player.generation)

    def _kept(self, number: int, size: int) -> None:
        self.last_snapshot = {"number": number, "size": size, "time": _now()}
        self._queue.put(Ask("snapshot", None, None, None, {"number": number, "size": size}))

    # The writer's thread ------------------------------------------------------------------------------------------
    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self.open_journal() as journal:
                    while not self._stopping.is_set():
                        if journal.lock():
                            self._serve(journal)
                        else:
                            self._turn_away(_STANDBY, self.poll)
            except Lost as lost:
                self._turn_away(_STANDBY if lost.taken else _AWAY, 0.0)
            except NotTheWriter:
                self._turn_away(_STANDBY, self.poll)
            except (JournalUnavailable, OSError):
                self._turn_away(_AWAY, RETRY)
            except Exception as error:  # a defect, or a journal that is not this programme's
                self._wrong = f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
                self._turn_away(refused(503, "the programme cannot be served: look at its alarms"), 5.0)
        self._turn_away(_STANDBY, 0.0)

    def _turn_away(self, answer: Answer, seconds: float) -> None:
        """Tell everybody who waits to come again, for so long."""
        self._closed = answer
        until = time.monotonic() + seconds
        while True:
            try:
                ask = self._queue.get(timeout=max(until - time.monotonic(), 0.0))
            except Empty:
                return
            if ask is not None and ask.key is not None:
                self._deliver([(ask, answer)])
            elif ask is None:
                return

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
        if journal.head == 0:
            journal.write([self._made()])
        self._check_made(journal)
        self.counts.kinds, self.paused = self._counted(journal)
        player = self._player = Player(self.settings, self)
        own = {
            "attach": self._attach, "alarm": self._noted, "snapshot": self._noted, "pause": self._pause,
            "resume": self._pause, "erase": self._erase, "erase now": self._erase_now,
        }  # fmt: skip
        writer = self._writer = Writer(
            journal, player, self.house, self.rules, self._queue, deliver=self._deliver, why=self._why,
            deadline=self.settings.service.deadline_ms / 1000.0, counts=self.counts, own=own,
        )  # fmt: skip
        self._closed, self._wrong = None, ""
        try:
            player.start()
            while not self._stopping.is_set():
                writer.round(IDLE)
                if not journal.locked:
                    raise Lost(NotTheWriter("the lock was lost"))
            self._closed = _STANDBY
            while self._queue.qsize():
                writer.round(0.0)
        finally:
            self._closed, self._writer = self._closed or _AWAY, None
            player.stop()

    def _why(self) -> str | None:
        """Why the house rule decides now."""
        player = self._player
        if player is None or player.inbox is None:
            return "failed" if player is not None and player.state == "failed" else "loading"
        if self.paused:
            return "paused"
        return "shadow" if self.settings.service.shadow else None

    def _made(self) -> Entry:
        """The first event: which agent it is about. It is written before the agent is made, which may take a minute;
        snapshot 1 is the agent as it was made."""
        told = self.settings.table()
        agent = told.get("agent") or {"name": "file", "file": told["problem"]["agent_file"]}
        live = {
            "draws": self.settings.service.draws,
            "order": self.settings.learning.order,
            "audit": False,
            "rows": False,
        }
        payload = {
            "agent": agent["name"], "options": {k: v for k, v in agent.items() if k != "name"}, "live": live,
            "version": __version__, "fingerprint": None, "settings": told, "identity": self.settings.identity(),
        }  # fmt: skip
        return Entry("made", _now(), payload=payload)

    def _check_made(self, journal: Any) -> None:
        made = next(iter(journal.events(0, 1)))
        if made.kind != "made" or (made.payload or {}).get("identity") != self.settings.identity():
            raise ValueError(
                f"the journal of {self.name} is of another agent than its file says: problem, encoder, agent, referral, "
                f"order, draws and seed cannot be changed under a name; take another name"
            )

    def _counted(self, journal: Any) -> tuple[Counter[str], bool]:
        """(events by kind, whether it is paused), from the last note of a snapshot and what came after it."""
        kept = journal.snapshots()
        for start in (kept[0].number if kept else 0, 0):
            kinds, paused, found = Counter[str](), False, start == 0
            for event in journal.events(start):
                told = event.payload or {}
                if event.kind == "snapshot" and "counts" in told:
                    kinds, paused, found = Counter(told["counts"]), told["paused"], True
                kinds[event.kind] += 1
                paused = paused if event.kind not in ("pause", "resume") else event.kind == "pause"
                if event.kind == "alarm":
                    self._remember_alarm(event.time, told)
            if found:
                break
        return kinds, paused

    # What the programme asks of itself, and what is asked of it as a whole ------------------------------------------
    def _attach(self, ask: Ask) -> None:
        player, writer = self._player, self._writer
        if player is not None and writer is not None and player is ask.body["player"]:
            player.attach(writer.head)

    def _noted(self, ask: Ask) -> Item:
        told = dict(ask.body)
        if ask.verb == "snapshot":
            told["paused"] = self.paused
        else:
            self._remember_alarm(_now(), told)
        return Item(ask.verb, None, told, "")

    def _remember_alarm(self, when: str, told: dict[str, Any]) -> None:
        self.counts.alarms.append({"time": when} | told)

    def _pause(self, ask: Ask) -> Item:
        self.paused = ask.verb == "pause"
        if ask.verb == "resume" and self._player is not None and self._player.state == "failed":
            self._player.reload()
        return Item(ask.verb, None, {}, "", ask)

    def _erase(self, ask: Ask) -> None:
        """Somebody is to be erased: in the sealer's thread, a snapshot that they are not in; then back here."""
        player, writer = self._player, self._writer
        assert writer is not None
        if writer.recall.standing(ask.who).open:
            raise Refusal(409, "this person is open: withdraw them first")
        if player is None or player.inbox is None:
            raise Refusal(503, "the agent is not there, and must forget this person first: ask again", 1)
        self._sealer.do(lambda journal: self._forget(journal, player, ask))

    def _forget(self, journal: Any, player: Player, ask: Ask) -> None:
        def apart(live: Live) -> Any:
            try:
                live.step_of(ask.who)  # type: ignore[arg-type]
            except ValueError:
                return player.folded, player.generation, live.snapshot()
            return None

        try:
            found = player.read(apart, 30.0)
            if found is None:
                answer = refused(409, "this person has ended and is not learned yet: withdraw or close them first")
            elif not self._sealer.comes(found[0], found[1]):
                answer = refused(503, "the journal could not be written: ask again", 1)
            else:
                journal.keep_snapshot(found[0], found[2](), __version__)
                self._kept(found[0], 0)
                self._queue.put(Ask("erase now", None, None, None, {"ask": ask, "learned": found[0]}))
                return
        except (RuntimeError, TimeoutError, OSError, ValueError) as error:
            answer = refused(503, f"this person could not be erased: {error}", 1)
        self._deliver([(ask, answer)])

    def _erase_now(self, told: Ask) -> None:
        ask, writer, player = told.body["ask"], self._writer, self._player
        assert writer is not None and player is not None
        try:
            if writer.recall.standing(ask.who).visits == 0:
                answer = Answer(200, encoded({"who": ask.who, "erased": 0}))
            else:
                event = writer.journal.erase(ask.who, told.body["learned"])
                writer.wrote_by_itself("erased")
                writer.recall.drop(ask.who)
                answer = Answer(200, encoded({"who": ask.who, "erased": event.payload["events"]}))
        except ValueError as error:
            answer = refused(409, str(error))
        except Exception:
            self._deliver([(ask, refused(503, "the journal could not be written: ask again", 1))])
            raise
        self._deliver([(ask, answer)])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
