"""Everybody who is not learned yet: who they are, in which order they are learned, and what an interruption left.

Interruptions. Ctrl-C or too little memory, at whatever line, leaves a verb undone or done, never in between: everything
that can fail comes first, then one step that counts (an assignment, or a compiled call), and what follows from it is
made up for by `_catch_up`, at once or when the next verb is called."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..agents.base import Agent
from ..agents.explaining import explained
from ..agents.locks import locked
from ..problem.masks import barred
from .outcomes import refutation
from .people import Person, Who

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


class Ward:
    """The part of `Live` that keeps people and learns them. Whatever is interrupted, `_catch_up` finishes."""

    belief: int  # draws for what is believed of a plan, 0: none

    def __init__(self, agent: Agent, order: str) -> None:
        self.order = order
        self.agent = agent
        self.lock = agent.lock  # people and agent are changed together
        self._people: dict[Who, Person] = {}  # in the order in which they began
        self._coming: tuple[Who, str, NDArray[np.int16], dict[str, Any] | None] | None = None
        self._loose = False  # whether something may have been begun that was not finished
        self._unexamined = False  # whether somebody was learned and the tests of what is assumed were not asked since
        agent.hand_to(self)

    @property
    @locked
    def open(self) -> tuple[Who, ...]:
        """Keys of those who have begun and not ended, in the order in which they began."""
        self._catch_up()
        return tuple(q.who for q in self._people.values() if not q.ended)

    @property
    @locked
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
        for person in tuple(self._people.values()):
            if person.learned:
                del self._people[person.who]
            elif agent.refuted is None and (h := person.impossible(p)) is not None:
                agent.refute(refutation(person, p, h))
        self._loose = False

    def _arrived(self, who: Who, mark: str, drawn: NDArray[np.int16], row: dict[str, Any] | None) -> Person:
        """The individual whose episode the agent has open, from the agent's own buffers."""
        agent, plan = self.agent, self.agent.plan_made()
        floor = None if plan.plans is None else plan.floor
        if plan.plans is not None:
            drawn = plan.plans.astype(np.int16)
        if (drawn < 0).any():  # drawn plans that are the expert's, who was asked for this one
            drawn = np.where(drawn < 0, plan.policy, drawn).astype(np.int16)
        said = explained(plan, agent).belief(self.belief) if self.belief > 0 else None
        return Person(
            who, agent.episode, tuple(agent.context.tolist()), plan.policy, plan.upper, plan.certificate,
            getattr(plan, "referred", None), mark, drawn, row, floor=floor,
            unavailable=barred(agent.problem, agent.mask),
            belief=None if said is None else (max(said.mean, 0.0), said.quantile),
        )  # fmt: skip

    def _settle(self) -> None:
        """Catch up, then learn whoever is due, in order: nobody twice, nobody dropped unlearned."""
        self._catch_up()
        agent, p = self.agent, self.agent.problem
        for q in self._due():
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
        begun, found = self.agent.episode, []
        for q in sorted(self._people.values(), key=lambda q: q.episode):
            if q.due(begun):
                found.append(q)
            elif self.order == "begin":
                break
        return found

    def _note(self, news: dict[Who, Person]) -> None:
        """Take these people as they are now, all at once."""
        p = self.agent.problem
        news = {who: person for who, person in news.items() if person is not self._people[who]}
        refuting = any(person.impossible(p) is not None for person in news.values())
        with finished(self._catch_up):
            self._loose = refuting
            self._people.update(news)

    def _put(self, person: Person) -> None:
        """Take somebody as they are now, and learn whoever is due then."""
        with finished(self._settle):
            self._people[person.who] = person

    def _with(self, people: list[Person]) -> Self:
        """The same with these people, of a file; whoever is due is learned."""
        self._people = {q.who: q for q in people}
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
