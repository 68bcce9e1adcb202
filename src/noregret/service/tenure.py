"""One time of holding the journal: from the moment its lock was had until it is lost.

Everything in here was read from the journal at the beginning, and is thrown away at the end: writer, player, standing,
answers, whether the programme is paused."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ..journal.event import Entry
from ..live.several import Live
from ..storage.version import __version__
from .asking import Answer, Ask, Refusal, encoded, refused
from .counts import Counts
from .house import House
from .items import Item
from .player import Player
from .programme_file import Settings
from .sealing import Sealer
from .standing import Rules
from .waiting import Waiting
from .writer import Answers, Writer


@dataclass
class Desk:
    """What outlasts a tenure: the file, what was made of it, the queue, the counts, who delivers and who seals."""

    settings: Settings
    house: House
    rules: Rules
    deliver: Callable[[Answers], None]
    open_journal: Callable[[], Any]
    sealer: Sealer
    queue: Waiting = field(default_factory=Waiting)
    counts: Counts = field(default_factory=Counts)

    def note(self, verb: str, who: Any = None, **body: Any) -> None:
        """The programme asks this of itself."""
        self.queue.put(Ask(verb, who, None, None, body))


class Tenure:
    """journal: its lock is held. writer, player: of this tenure; paused: whether somebody said so."""

    def __init__(self, desk: Desk, journal: Any) -> None:
        self.desk, self.journal, self.settings = desk, journal, desk.settings
        if journal.head == 0:
            journal.write([made_entry(self.settings)])
        check_made(self.settings, journal)
        desk.counts.kinds, self.paused = self._counted()
        self.player = Player(self.settings, self)
        own: dict[str, Callable[[Ask], Item | None]] = {
            "attach": self._attach, "alarm": self._noted, "snapshot": self._noted, "pause": self._pause,
            "resume": self._pause, "erase": self._erase, "erase now": self._erase_now,
        }  # fmt: skip
        self.writer = Writer(
            journal, self.player, desk.house, desk.rules, desk.queue, deliver=desk.deliver, why=self.why,
            deadline=self.settings.service.deadline_ms / 1000.0, counts=desk.counts, own=own,
        )  # fmt: skip

    def why(self) -> str | None:
        """Why the house rule decides now; None: the agent does."""
        player = self.player
        if player.inbox is None:
            return "failed" if player.state == "failed" else "loading"
        if self.paused:
            return "paused"
        return "shadow" if self.settings.service.shadow else None

    def _counted(self) -> tuple[Counter[str], bool]:
        """(events by kind, whether it is paused), from the last note of a snapshot and what came after it."""
        kept = self.journal.snapshots()
        self.desk.counts.alarms.clear()
        for start in [*(one.number for one in kept), 0]:
            notes = [e for e in self.journal.events(start, kinds=["snapshot"]) if "counts" in (e.payload or {})]
            if notes or start == 0:
                break
        since, kinds, paused = 0, Counter[str](), False
        if notes:
            told: dict[str, Any] = notes[-1].payload or {}
            since, kinds, paused = notes[-1].number, Counter(told["counts"]), told["paused"]
        kinds.update(self.journal.tally(since))
        for event in self.journal.events(since, kinds=["pause", "resume"]):
            paused = event.kind == "pause"
        for event in self.journal.events(start, kinds=["alarm"]):
            self.desk.counts.alarms.append({"time": event.time} | (event.payload or {}))
        return kinds, paused

    # The player's office ------------------------------------------------------------------------------------------
    def open_journal(self) -> Any:
        return self.desk.open_journal()

    def ask_to_attach(self) -> None:
        self.desk.note("attach", player=self.player, generation=self.player.generation)

    def alarm(self, what: str, sentence: str) -> None:
        self.desk.note("alarm", what=what, sentence=sentence)

    def wake(self) -> None:
        self.desk.queue.wake()

    def seal(self, number: int, generation: int, sealed: Callable[[], bytes]) -> None:
        self.desk.sealer.seal(number, generation, sealed)

    def sealing(self) -> bool:
        return self.desk.sealer.busy

    # What the programme asks of itself, and what is asked of it as a whole ----------------------------------------
    def _attach(self, ask: Ask) -> None:
        if ask.body["player"] is self.player and ask.body["generation"] == self.player.generation:
            self.player.attach(self.writer.head)

    def _noted(self, ask: Ask) -> Item:
        told = dict(ask.body)
        if ask.verb == "snapshot":
            told["paused"] = self.paused
        else:
            self.desk.counts.alarms.append({"time": now_text()} | told)
        return Item(ask.verb, None, told, "")

    def _pause(self, ask: Ask) -> Item:
        self.paused = ask.verb == "pause"
        if ask.verb == "resume" and self.player.state == "failed":
            self.player.detach()
        return Item(ask.verb, None, {}, "", ask)

    # Erasing somebody: a snapshot that they are not in, made in the sealer's thread; then the rows, in the writer's --
    def _erase(self, ask: Ask) -> None:
        if self.writer.recall.standing(ask.who).open:
            raise Refusal(409, "this person is open: withdraw them first")
        if self.player.inbox is None:
            raise Refusal(503, "the agent is not there, and must have forgotten this person first: ask again", 1)
        self.desk.sealer.do(lambda journal: self._forget(journal, ask))

    def _forget(self, journal: Any, ask: Ask) -> None:
        player = self.player

        def without_them(live: Live) -> Any:
            try:
                live.step_of(ask.who)  # type: ignore[arg-type]
            except ValueError:
                return player.folded, player.generation, live.snapshot()
            return None

        try:
            found = player.read(without_them, 30.0)
        except (RuntimeError, TimeoutError) as error:
            self.desk.deliver([(ask, refused(503, f"this person could not be erased: {error}", 1))])
            return
        if found is None:
            answer = refused(409, "this person has ended and is not learned yet: withdraw or close them first")
            self.desk.deliver([(ask, answer)])
            return
        # Behind the snapshots that the player has asked for meanwhile, which may have them in them.
        self.desk.sealer.do(lambda journal: self._keep_without(journal, ask, *found))

    def _keep_without(self, journal: Any, ask: Ask, number: int, generation: int, sealed: Callable[[], bytes]) -> None:
        sealer = self.desk.sealer
        try:
            if sealer.comes(number, generation):
                sealer.keep(journal, number, sealed())
                self.desk.note("erase now", ask.who, ask=ask, learned=number)
                return
            answer = refused(503, "the journal could not be written: ask again", 1)
        except (OSError, ValueError) as error:
            answer = refused(503, f"this person could not be erased: {error}", 1)
        self.desk.deliver([(ask, answer)])

    def _erase_now(self, told: Ask) -> None:
        ask = told.body["ask"]
        try:
            theirs = self.journal.of(ask.who)
            if not theirs:
                answer = Answer(200, encoded({"who": ask.who, "erased": 0}))
            elif theirs[-1].number >= told.body["learned"]:  # the agent may have them again, and later snapshots
                answer = refused(503, "there is news of this person since: ask again", 1)
            else:
                event = self.journal.erase(ask.who, told.body["learned"])
                self.writer.wrote_by_itself("erased")
                self.writer.recall.drop(ask.who)
                answer = Answer(200, encoded({"who": ask.who, "erased": event.payload["events"]}))
        except ValueError as error:
            answer = refused(409, str(error))
        except Exception:
            self.desk.deliver([(ask, refused(503, "the journal could not be written: ask again", 1))])
            raise
        self.desk.deliver([(ask, answer)])


def made_entry(settings: Settings) -> Entry:
    """The first event: which agent it is about. It is written before the agent is made, which may take a minute;
    snapshot 1 is the agent as it was made."""
    told = settings.table()
    agent = told.get("agent") or {"name": "file", "file": told["problem"]["agent_file"]}
    payload = {
        "agent": agent["name"], "options": {k: v for k, v in agent.items() if k != "name"},
        "live": settings.live_options(), "version": __version__, "fingerprint": None, "settings": told,
        "identity": settings.identity(),
    }  # fmt: skip
    return Entry("made", now_text(), payload=payload)


def check_made(settings: Settings, journal: Any) -> None:
    """A sentence where the journal is of another agent than the file says."""
    made = next(iter(journal.events(0, 1)))
    if made.kind != "made" or (made.payload or {}).get("identity") != settings.identity():
        raise ValueError(
            f"the journal of {settings.name} is of another agent than its file says: problem, encoder, agent, "
            f"referral, order, draws and seed cannot be changed under a name; take another name"
        )


def now_text() -> str:
    """UTC, for people."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
