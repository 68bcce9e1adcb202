"""`replay`: a journal folded again from its first snapshot, and every decision compared with what was written.

A decision is the same if advice, action, probability, certificate and who was referred come out again to the last bit.
A probability is compared where the agent chose, a certificate where one was told; the house rule's own draw is not the
agent's to repeat. A service tells certificates until it knows that the problem is refuted, which its alarm says: people
are decided for while others are learned. At every snapshot all of memory is compared with it. Where somebody was erased
their events cannot be folded: the next snapshot leads past that stretch, which is named."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import checks as check
from ..journal.event import Event
from ..planning.plans import Plan
from ..problem.links import Link
from .decision import Decision
from .fold import ErasedError, Folded, FoldError, OtherAction, fold
from .people import marked
from .several import Live

MOST = 1_000  # differences that are kept; all are counted


@dataclass(frozen=True)
class Difference:
    """What did not come out again: number of the event, whose it is, and what; recorded and again, as they are."""

    number: int
    who: int | str | None
    what: str
    recorded: Any
    again: Any

    def __str__(self) -> str:
        whose = "" if self.who is None else f", {self.who}"
        return f"event {self.number}{whose}: {self.what} was {self.recorded}, and is now {self.again}"


@dataclass(frozen=True)
class Replayed:
    """What `replay` found; `print` it.

    start        events folded in the snapshot that it began with; head: events in the journal
    folded       events folded again; people: who began in them; decisions: compared, of which `own` were the agent's
    snapshots    that were compared
    differences  the first thousand; different: how many there were
    skipped      stretches (from, to, why) that could not be folded
    seconds      it took

    ok: nothing differs. Stretches without an erased person are reproduced then, all others are named in `skipped`"""

    start: int
    head: int
    folded: int
    people: int
    decisions: int
    own: int
    snapshots: int
    different: int
    differences: tuple[Difference, ...]
    skipped: tuple[tuple[int, int, str], ...]
    seconds: float

    @property
    def ok(self) -> bool:
        return self.different == 0

    def __str__(self) -> str:
        said = [
            f"{self.folded:,} events folded again, from event {self.start:,} to {self.head:,}, in {self.seconds:.1f} s",
            f"{self.people:,} people began, {self.decisions:,} decisions were compared ({self.own:,} the agent's own), "
            f"and {self.snapshots:,} {'snapshot' if self.snapshots == 1 else 'snapshots'}",
        ]
        said += [f"events {a:,} to {b - 1:,} were not folded: {why}" for a, b, why in self.skipped]
        said += [str(d) for d in self.differences[:20]]
        said.append("all reproduced" if self.ok else f"NOT reproduced: {self.different:,} differences")
        return "\n".join(said)


class _Replay:
    def __init__(self, journal: Any, given: dict[str, Any], start: int | None, progress: Any) -> None:
        self.journal, self.given, self.progress = journal, given, progress
        self.head = journal.head
        numbers = sorted(s.number for s in journal.snapshots() if s.number <= self.head)
        if not numbers:
            raise ValueError("journal has no snapshot to begin with")
        before = [n for n in numbers if start is None or n <= start]
        self.first = numbers[0] if start is None or not before else before[-1]
        self.least = min(1, self.first) if start is None else self.first
        self.left = [n for n in numbers if n >= self.first]  # snapshots still to come, oldest first
        self.folded = self.people = self.decisions = self.own = self.snapshots = self.different = 0
        self.alarmed = True  # whether the journal has said that the problem is refuted, if it is
        self.found: list[Difference] = []
        self.skipped: list[tuple[int, int, str]] = []

    def differ(self, number: int, who: Any, what: str, recorded: Any, again: Any) -> None:
        self.different += 1
        if len(self.found) < MOST:
            self.found.append(Difference(number, who, what, recorded, again))

    def read(self, number: int) -> Live | None:
        try:
            return Live.from_bytes(self.journal.snapshot(number), name=f"snapshot {number}", **self.given)
        except ValueError as error:
            if any(s.number == number for s in self.journal.snapshots()):  # else a service has dropped it meanwhile
                self.differ(number, None, "the snapshot before it", "whole", str(error))
            return None

    def onward(self, at: int, least: int, why: str) -> tuple[Live | None, int]:
        """The next good snapshot of `least` events or more; `at` have been folded."""
        while self.left:
            number = self.left.pop(0)
            live = self.read(number) if number >= least else None
            if live is not None:
                self.skipped += [(at, number, why)] if number > at else []
                return live, number
        self.skipped.append((at, self.head, why))
        return None, self.head

    def go(self) -> None:
        live, at = self.onward(self.least, self.first, "no earlier snapshot can be used")
        if live is None:
            why = self.found[0].again if self.found else "they were dropped meanwhile"
            raise ValueError(f"journal has no snapshot that can be used: {why}")
        self.first = at
        while live is not None and at < self.head:
            lost = None
            for event in self.journal.events(at, self.head):
                self.meet(live, event.number)
                try:
                    self.one(live, event)
                except FoldError as error:
                    gone = isinstance(error, ErasedError)
                    lost = event.number, "somebody was erased" if gone else str(error)
                    if not gone:
                        self.differ(event.number, event.who, event.kind, "folded", str(error))
                    break
                self.folded += 1
                if self.progress is not None and event.number % 1000 == 0:
                    self.progress(event.number, self.head)
            if lost is None:
                break
            live, at = self.onward(lost[0], lost[0] + 1, lost[1])
        if live is not None:
            self.meet(live, self.head)

    def meet(self, live: Live, number: int) -> None:
        """Compare memory with the snapshots of so many events."""
        while self.left and self.left[0] <= number:
            kept = self.left.pop(0)
            other = self.read(kept) if kept == number else None
            if other is not None:
                self.snapshots += 1
                if (again := marked(live)) != (recorded := marked(other)):
                    self.differ(number, None, "the agent in the snapshot before it", recorded[:12], again[:12])

    def one(self, live: Live, event: Event) -> None:
        try:
            made = fold(live, event)
        except OtherAction as other:
            told = event.payload or {}
            self.differ(event.number, event.who, "action", told["action"], other.decision.action)
            made = live.act(event.who, told["state"], told["action"], event.time)  # type: ignore[arg-type]
        refuted = live.agent.refuted is not None
        self.alarmed = refuted and (self.alarmed or (event.payload or {}).get("what") == "refuted")
        for what, recorded, again in compared(event, made):
            if what == "certificate" and again is None and refuted and not self.alarmed:
                continue
            if recorded != again:
                self.differ(event.number, event.who, what, recorded, again)
        self.people += event.kind == "begin"
        if event.kind == "decide":
            self.decisions += 1
            self.own += (event.payload or {}).get("by", "agent") == "agent"


def compared(event: Event, made: Folded) -> list[tuple[str, Any, Any]]:
    """(what, as recorded, as it is now) of everything about a plan or a decision that can be compared."""
    if not isinstance(made, Plan | Decision) or event.payload is None:
        return []
    told = event.payload
    pairs: list[tuple[str, Any, Any]] = []
    own = told.get("by", "agent") == "agent"
    if isinstance(made, Decision):
        pairs.append(("action", told["action"], made.action))
        if told.get("advice") is not None:
            pairs.append(("advice", told["advice"], made.advice))
        if own and "probability" in told:
            pairs.append(("probability", told["probability"], made.probability))
    answer = json.loads(event.answer) if event.answer else {}
    for name in ("certificate", "referred"):
        if isinstance(answer, dict) and answer.get(name) is not None:
            pairs.append((name, answer[name], getattr(made, name, None)))
    return pairs


def replay(
    journal: Any,
    start: int | None = None,
    *,
    link: Link | None = None,
    expert: Any = None,
    agent: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> Replayed:
    """Fold a journal again and compare, decision by decision, with what was written; the journal is only read.

    start     begin with the last snapshot of at most so many events; None: with the first one
    link, expert, agent   code that no snapshot holds, as for `noregret.load`
    progress  a function that is told (events, of how many)

    >>> import tempfile
    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> with tempfile.TemporaryDirectory() as folder, nr.Journal(f"{folder}/clinic.db") as journal:
    ...     live = nr.Live(nr.CertifiedPSRL(world.problem), journal=journal)
    ...     plan = live.begin("Ms B", world.context(seed=0, episode=0))
    ...     decision = live.act("Ms B", "moderate")
    ...     found = nr.replay(journal)
    >>> found.ok, found.decisions, found.people
    (True, 1, 1)
    """
    if start is not None:
        start = check.integer("start", start, 0)
    began = time.perf_counter()
    made = _Replay(journal, {"link": link, "expert": expert, "agent": agent}, start, progress)
    made.go()
    return Replayed(
        made.first, made.head, made.folded, made.people, made.decisions, made.own, made.snapshots, made.different,
        tuple(made.found), tuple(made.skipped), time.perf_counter() - began,
    )  # fmt: skip
