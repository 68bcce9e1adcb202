"""Everybody who is not learned yet: who they are, in which order they are learned, and what an interruption left.

Interruptions. Ctrl-C or too little memory, at whatever line, leaves a verb undone or done, never in between: everything
that can fail comes first, then one step that counts (an assignment, or a compiled call), and what follows from it is
made up for by `_catch_up`, at once or when the next verb is called."""

import copy
import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..agents.base import Agent
from ..agents.explaining import askable
from ..journal.event import Entry
from ..planning.plans import Plan
from ..problem.masks import barred
from .journaled import Book, outcome_entries
from .outcomes import refutation
from .people import Person, Who

F = TypeVar("F", bound=Callable[..., Any])
_LEARNED = np.array([1, 0, 0, 0], np.int64)


@contextmanager
def finished(finish: Callable[[], None]) -> Iterator[None]:
    """Finish what is done within, also where that was interrupted."""
    try:
        yield
        finish()
    except BaseException:
        finish()
        raise


def verb(method: F) -> F:
    """The method, under the lock of its object, with everything in memory that is in its journal."""

    @functools.wraps(method)
    def alone(self: Any, *args: Any, **options: Any) -> Any:
        with self.lock.held:
            if self._stale:
                self._fold_again()
            made = method(self, *args, **options)
            if self._book is not None and self._book.full:
                self._shelve()
            return made

    return alone  # type: ignore[return-value]


class Ward:
    """The part of `Live` that keeps people and learns them. Whatever is interrupted, `_catch_up` finishes; with a
    journal, what is in memory is thrown away then, and folded again (`live.journaled`)."""

    belief: int  # draws for what is believed of a plan, 0: none

    def __init__(self, agent: Agent, order: str, at_once: int | None = None) -> None:
        self.order, self.at_once = order, at_once
        self._most = math.inf if at_once is None else at_once  # people whom one event learns
        self._left = math.inf if at_once is None else 0.0  # how many of them the last event has not learned yet
        self.agent = agent
        self.lock = agent.lock  # people and agent are changed together
        self._people: dict[Who, Person] = {}  # in the order in which they began
        self._coming: tuple[Who, str, NDArray[np.int16], dict[str, Any] | None] | None = None
        self._plan: Plan | None = None  # of whoever is coming
        self._loose = False  # whether something may have been begun that was not finished
        self._about: tuple[Who, ...] = ()  # with whom, beside whoever is coming
        self._hints: list[tuple[int, int, Who]] = []  # heap of (until, episode, who): who may be due, order="end"
        self._unexamined = False  # whether somebody was learned and the tests of what is assumed were not asked since
        self._book: Book | None = None  # the journal
        self._stale = False  # whether memory may differ from it
        agent.hand_to(self)

    def __copy__(self) -> Self:
        """With an agent and people of its own, as a deep copy."""
        return copy.deepcopy(self)

    @property
    @verb
    def open(self) -> tuple[Who, ...]:
        """Keys of those who have begun and not ended, in the order in which they began."""
        self._catch_up()
        return tuple(q.who for q in self._people.values() if not q.ended)

    @property
    @verb
    def waiting(self) -> tuple[Who, ...]:
        """Keys of those who have ended and are not learned yet, likewise."""
        self._catch_up()
        return tuple(q.who for q in self._people.values() if q.ended)

    def _catch_up(self) -> None:
        """Finish what was begun: whoever the agent has planned for is noted, whoever was learned is dropped, and an
        outcome that refutes the problem is told to the agent. Doing it twice is doing it once."""
        if not self._loose:
            return
        agent, p = self.agent, self.agent.problem
        if agent.is_open and self._coming is not None:
            person = self._arrived(*self._coming)
            self._people[person.who] = person
            agent.met(1)
            self._plan = None
        for person in [self._people[who] for who in self._about if who in self._people]:
            if person.learned:
                del self._people[person.who]
            elif agent.refuted is None and (h := person.impossible(p)) is not None:
                agent.refute(refutation(person, p, h))
        self._loose = False

    def _arrived(self, who: Who, mark: str, drawn: NDArray[np.int16], row: dict[str, Any] | None) -> Person:
        """The individual whose episode the agent has open, from their plan or, where that was lost, the agent's own
        buffers."""
        agent, plan = self.agent, self.agent.plan_made() if self._plan is None else self._plan
        policy, upper = plan.policy.copy(), None if plan.upper is None else plan.upper.copy()  # those are the caller's
        floor = None if plan.plans is None else plan.floor
        if plan.plans is not None:
            drawn = plan.plans.astype(np.int16)
        if (drawn < 0).any():  # drawn plans that are the expert's, who was asked for this one
            drawn = np.where(drawn < 0, plan.policy, drawn).astype(np.int16)
        said = askable(plan, agent).belief(self.belief) if self.belief > 0 else None
        return Person(
            who, agent.episode, tuple(agent.context.tolist()), policy, upper, plan.certificate,
            getattr(plan, "referred", None), mark, drawn, row, floor=floor,
            unavailable=barred(agent.problem, agent.mask),
            belief=None if said is None else (max(said.mean, 0.0), said.quantile),
        )  # fmt: skip

    def _settle(self) -> None:
        """Catch up, then learn whoever is due, in order: nobody twice, nobody dropped unlearned. At most as many as the
        last event may: who is learned when follows from the events alone, and never from a verb that was refused."""
        self._catch_up()
        agent, p = self.agent, self.agent.problem
        for q in self._due():
            self._left -= 1
            self._about = (q.who,)
            self._loose = self._unexamined = True
            h = q.impossible(p)
            n = q.steps if h is None else h
            agent.learn_steps(
                q.episode, np.array(q.context), np.array([*q.states, 0][: n + 1], np.int64),
                np.array(q.actions[:n], np.int64), np.array(q.rewards[:n], np.float64), q.upper,
                mark=q.mark, told=_LEARNED,
            )  # fmt: skip
            self._catch_up()
        if self._unexamined:
            agent.examine()
            self._unexamined = False

    def _due(self) -> list[Person]:
        """Whose turn it is to be learned, in the order in which they began, which is that of `_people`; as many as are
        left to the last event."""
        begun, people = self.agent.episode, self._people
        found: dict[int, Person] = {}
        if self.order == "begin":
            for q in people.values():
                if not q.due(begun) or len(found) >= self._left:
                    break
                found[q.episode] = q
            return list(found.values())
        hints = self._hints
        while hints and self._hinted(hints[0]) is None:
            heappop(hints)
        places = [0] if hints and hints[0][0] <= begun else []
        for i in places:  # down the heap, as far as hints are of those who are due
            person = self._hinted(hints[i])
            if person is not None and person.due(begun):
                found[person.episode] = person
            places += [j for j in (2 * i + 1, 2 * i + 2) if j < len(hints) and hints[j][0] <= begun]
        return [found[k] for k in sorted(found)[: len(found) if self.at_once is None else int(self._left)]]

    def _hinted(self, hint: tuple[int, int, Who]) -> Person | None:
        """Whom a hint is about, None where that is over. Hints come before what they hint at, and go after it: one too
        many does no harm."""
        until, episode, who = hint
        person = self._people.get(who)
        return person if person is not None and (person.episode, person.until) == (episode, until) else None

    def _hint(self, person: Person) -> None:
        if self.order == "end" and person.ended and person.until is not None:
            heappush(self._hints, (person.until, person.episode, person.who))

    def _note(self, news: dict[Who, Person]) -> None:
        """Take these people as they are now, all at once."""
        p = self.agent.problem
        news = {who: person for who, person in news.items() if person is not self._people[who]}
        refuting = any(person.impossible(p) is not None for person in news.values())
        if self._book is not None:
            now = self._now()
            self._tell([e for who, q in news.items() for e in outcome_entries(self._people[who], q, now)])
        with finished(self._catch_up):
            self._about, self._loose = tuple(news), refuting
            self._people.update(news)
        self._stale = False

    def _put(self, person: Person, kind: str, told: dict[str, Any]) -> None:
        """Take somebody as they are now, and learn whoever is due then; kind and what is told: of the event."""
        if self._book is not None:
            self._tell([Entry(kind, self._now(), person.who, told)])
        with finished(self._settle):
            self._hint(person)
            self._people[person.who] = person
            self._left = self._most
        self._stale = False

    # The journal --------------------------------------------------------------------------------------------------
    def _now(self) -> str:
        raise NotImplementedError

    def _tell(self, entries: list[Entry]) -> None:
        """Write events; memory is stale from here until the caller says that it has followed."""
        if self._book is not None and entries:
            self._stale = True
            self._book.write(entries)

    def _fold_again(self) -> None:
        """Throw away what is in memory, and fold the journal again."""
        if self._book is not None:
            self._stale = True
            self._adopt(self._book.again())
        self._stale = False

    def _adopt(self, other: Any) -> None:
        """Be as the other is, which is given up; agents change, the lock stays."""
        agent = other.agent
        agent.share_lock(self.lock)
        agent.hand_to(self)
        self.agent, self._people, self._hints = agent, other._people, other._hints
        self._left = other._left
        self._coming, self._plan, self._about, self._loose, self._unexamined = None, None, (), False, False

    def _shelve(self) -> None:
        raise NotImplementedError

    def _with(self, people: list[Person]) -> Self:
        """The same with these people, of a file; whoever is due is learned."""
        self._people = {q.who: q for q in sorted(people, key=lambda q: q.episode)}
        for person in people:
            self._hint(person)
        self._about = tuple(self._people)
        self._loose = True
        self._settle()
        return self

    def _person(self, who: Any, ended: bool = True) -> Person:
        """Somebody who is open or, with `ended`, has ended and is not learned yet."""
        key = int(who) if isinstance(who, np.integer) else who
        known = isinstance(key, int | str) and not isinstance(key, bool) and key in self._people
        if not known or (self._people[key].ended and not ended):
            late = ", or ended and not learned yet" if ended else ""
            said = f"{check.shown(who)} has ended" if known else f"got {check.shown(who)}"
            raise ValueError(f"who must be somebody open{late}, {said}")
        return self._people[key]
