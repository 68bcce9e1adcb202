"""A `Live` whose events are kept in a journal: what is written, when, and how memory and journal stay one.

Everything that can fail is computed first; then the event is written; then, in one assignment, memory follows. Only
`begin` is done in memory before it is written, because an expert may be asked in it. From the moment before a write
until memory has followed, memory counts as stale, and whatever happens in between (a database that is away, a disk that
is full, Ctrl-C at any line) leaves it so: the next verb then throws it away and folds the journal again. So a verb
that failed was done if its event is in the journal, and not otherwise."""

import contextlib
import json
import warnings
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import numpy as np

from .. import checks as check
from ..agents.base import Agent
from ..agents.contents import fingerprint
from ..agents.files import handed_in
from ..journal.errors import JournalUnavailable
from ..journal.event import Entry, Event
from ..storage.archive import unseal_bytes
from ..storage.version import __version__
from .decision import Decision, plainly, row_of
from .fold import fold
from .outcomes import same
from .people import Person, Who

EVERY = 10_000  # events between two snapshots that a `Live` keeps by itself

Read = Callable[[bytes, str], Any]  # a `Live` without a journal from the bytes of a snapshot, and their name


# What is written --------------------------------------------------------------------------------------------------
def made_entry(agent: Agent, live: dict[str, Any], time: str) -> Entry:
    """The first event: which agent this is, and the options of its `Live`."""
    told = {
        "agent": agent.name, "seed": agent.seed, "options": plainly(agent), "live": live, "version": __version__,
        "fingerprint": fingerprint(agent),
    }  # fmt: skip
    return Entry("made", time, payload=told)


def begin_entry(agent: Agent, who: Who, x: Any, unavailable: Any, time: str) -> Entry:
    """Of somebody who begins; x as it was given, a row as the encoder's columns of it."""
    row = row_of(agent.encoder, x)
    if row is None:
        given: Any = np.asarray(x, np.float64).tolist()
    else:
        given = row
        again = agent.problem.context(agent.encoded(row))
        if not np.array_equal(again, agent.problem.context(agent.encoded(x))):
            raise ValueError(f"x must be a row of numbers and text, to be kept in a journal, got {check.shown(x)}")
    return Entry("begin", time, who, {"x": given, "unavailable": _listed(unavailable)})


def _listed(value: Any) -> Any:
    """Actions, by name or number, or a mask [S, A], as JSON has them."""
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_listed(one) for one in value] if isinstance(value, list | tuple) else value


def decide_entry(made: Decision) -> Entry:
    told = {
        "step": made.step, "state": made.state, "action": made.action, "by": "caller" if made.by_other else "agent",
        "probability": made.probability, "advice": made.advice,
    }  # fmt: skip
    answer = {"certificate": made.certificate, "referred": made.referred, "version": made.version}
    return Entry("decide", made.time, made.who, told, json.dumps(answer))


def outcome_entries(before: Person, after: Person, time: str) -> Iterator[Entry]:
    """What was told of somebody between two records of them."""
    n, who = before.steps, before.who
    for h in range(after.steps):
        state, reward = after.states[h + 1], after.rewards[h]
        told = {"step": h, "reward": None if np.isnan(reward) else reward}
        if h == n:
            yield Entry("outcome", time, who, told | {"next_state": state})
        elif state != before.states[h + 1]:
            yield Entry("correction", time, who, told | {"next_state": state})
        elif not same(reward, before.rewards[h]):
            yield Entry("reward" if np.isnan(before.rewards[h]) else "correction", time, who, told)


# What is read -----------------------------------------------------------------------------------------------------
def latest(journal: Any, read: Read, most: int | None = None) -> tuple[Any, int]:
    """(a `Live` from the newest snapshot that can be used, how many events it has folded); most: of at most so many.

    A snapshot that is damaged, or of another version, is passed over with a warning."""
    said = ""
    for kept in journal.snapshots():
        if most is not None and kept.number > most:
            continue
        try:
            return read(journal.snapshot(kept.number), f"snapshot {kept.number}"), kept.number
        except ValueError as error:
            said = said or str(error)
            warnings.warn(f"{error}: an earlier snapshot is used", UserWarning, stacklevel=2)
    raise ValueError(f"journal has no snapshot that can be used{f': {said}' if said else ''}")


def folded_again(journal: Any, read: Read, most: int | None = None) -> tuple[Any, int]:
    """(a `Live` with everything in the journal, how many events that is): the newest good snapshot, then the events.
    most: the first so many events only."""
    live, number = latest(journal, read, most)
    for event in journal.events(number, most):
        fold(live, event)
        number = event.number + 1
    return live, number


def check_made(event: Event | None, agent: Agent, live: dict[str, Any]) -> None:
    """A sentence where a journal was not begun by this agent, or with other options."""
    told = None if event is None else event.payload
    if event is None or event.kind != "made" or told is None:
        raise ValueError("journal does not begin with the agent that it is about")
    if told["fingerprint"] != fingerprint(agent):
        raise ValueError(
            f"agent must be the one that the journal was begun with, a {told['agent']} with the same options, seed and "
            "log, as it was then; Live.resume needs none"
        )
    for name in {**told["live"], **live}:
        before, now = told["live"].get(name), live.get(name)
        if before != now:
            raise ValueError(f"{name} must be what the journal was begun with, {before!r}, got {now!r}")


class Book:
    """The journal of a `Live`, and how far memory has followed it.

    read     makes a `Live` without a journal of a snapshot
    folded   events that memory has followed; kept: as many in the last snapshot"""

    def __init__(self, journal: Any, read: Read) -> None:
        self.journal, self.read = journal, read
        self.folded = self.kept = 0
        if not all(callable(getattr(journal, name, None)) for name in ("lock", "write", "events", "snapshots")):
            raise ValueError(f"journal must be a noregret.Journal or None, got {check.shown(journal)}")
        if not journal.lock():
            raise RuntimeError(f"journal: somebody else writes it, {journal!r}")

    def write(self, entries: list[Entry]) -> None:
        made = self.journal.write(entries)
        self.folded = made[-1].number + 1

    def again(self) -> Any:
        """Everything from the journal."""
        if not self.journal.lock():
            raise RuntimeError(f"journal: somebody else writes it, {self.journal!r}")
        live, self.folded = folded_again(self.journal, self.read)
        self.kept = max((s.number for s in self.journal.snapshots()), default=0)
        return live

    def start(self, agent: Agent, live: dict[str, Any], blob: Callable[[], bytes], time: str) -> bool:
        """Of a journal without a snapshot: the first event, where there is none, and the first snapshot. Whether there
        is more to be folded."""
        head = self.journal.head
        if head == 0:
            self.write([made_entry(agent, live, time)])
        else:
            check_made(next(iter(self.journal.events(0, 1)), None), agent, live)
        if not self.journal.snapshots():  # a process may have ended between the two
            self.journal.keep_snapshot(1, blob(), __version__)
        self.kept = 1
        return bool(head > 1)

    def keep(self, blob: bytes, time: str) -> tuple[int, Entry]:
        """Keep a snapshot of now: (how many events it has folded, the event that says so)."""
        number = self.folded
        self.journal.keep_snapshot(number, blob, __version__)
        self.kept = number
        return number, Entry("snapshot", time, payload={"folded": number, "sha256": sha256(blob).hexdigest()})

    @property
    def full(self) -> bool:
        return self.folded - self.kept >= EVERY

    @staticmethod
    def quietly() -> Any:
        """A snapshot that cannot be kept now is kept later."""
        return contextlib.suppress(JournalUnavailable)


def holding(journal: Any, who: Who, since: int) -> int:
    """How many events had been folded when a person was certainly learned: more than in any snapshot that still has
    them, `since` at least."""
    for kept in journal.snapshots():
        if kept.number < since:
            break
        with contextlib.suppress(ValueError):
            header, _ = unseal_bytes(journal.snapshot(kept.number), "")
            if any(q["who"] == who for q in header["people"]):
                return int(kept.number) + 1
    return since


def reader(cls: Any, agent: Agent, clock: Any = None) -> Read:
    """How a `Live` with this agent's code is read from bytes."""
    code = handed_in(agent)
    return lambda data, name: cls.from_bytes(data, clock=clock, name=name, **code)
