"""Many individuals open at a time, outcomes that come late.

Every individual is met in three stages: `begin` plans for them, `act` and `observe` go step by step at their own pace,
`end` learns. Between two of somebody's steps others may begin, act and end.

Numbers. Individual k is the k-th to begin, and the agent's clock then moves on: whoever comes next has other random
numbers. The plan is made once, at `begin`, with what the agent knew then, and is kept; learning looks at the steps and
not at the plan, so `end` changes nothing but what the agent knows. With nobody open at the same time as anybody else,
all decisions and estimates are those of the agent's own four verbs, to the bit.

What delays do not change. Outcomes follow the model given context, state and action, whatever is known of other people.
List all steps in the order in which they were learned. If neither who comes next in this list nor their context and
actions depend on outcomes that stand later in it, each outcome has its model's law given everything before it, and that
is all that confidence sets, upper and lower values and certificates ask for: they hold with the agent's probability
1 - delta, for all individuals at once. A certificate rests on what was learned before its individual began, and is
about the plan made then.

When that is so. With order="end" it takes ends set by the calendar (H visits, a last day) and not by the outcome: where
deaths close a record at once and survivors stay open, those learned from are the dead, and until the others follow
everything is biased. It also takes that nobody's arrival or context depends on outcomes of people who are still open:
theirs stand later in the list. order="begin" is for this: whoever ends waits until all who began before have ended or
were abandoned, the list is that of arrival, and when somebody ends no longer matters. What no order repairs: abandoning
somebody, or withholding a reward, because of an outcome; and choosing one person's actions by the outcomes of another
who began later. `Live.guarantee` says all this in its sentence.

Outcomes that come late, twice, or wrong: `noregret.live.outcomes`. Somebody who has ended can be told of until they are
learned, and `end(who, wait=n)` puts that off until n more people have begun, `wait=None` until `close`. With
order="begin" everybody who began later waits as well. A reward that has not come by then counts as not seen, which must
not depend on what it was.

What delays do change. An agent that has not learned yet decides as if it did not know: a plan made while m people are
open may lack the steps of m others (with order="begin", of all who began after the first of them, too). Bounds on the
regret that a theorem states for one individual after another are not claimed for several at a time; every plan's own
certificate is. Agents that plan again within an episode (`pause`) are refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from .. import checks as check
from ..agents.base import Agent
from ..agents.composed.own import has_player
from ..agents.contents import fingerprint
from ..agents.explaining import check_belief
from ..agents.probabilities import check_draws, known_exactly, plans_ahead
from ..journal.event import Entry
from ..planning.plans import Plan
from ..problem.links import Link
from ..storage.archive import unseal, unseal_bytes
from ..storage.tables import columns
from ..storage.version import __version__
from .decision import Decision, decided, now, plainly, row_of, utc
from .journaled import Book, begin_entry, decide_entry, holding, reader
from .outcomes import told_in, with_outcome, with_reward
from .people import Person, Who, frozen_people, key_of, people_in, write_people
from .ward import Ward, finished, verb

_ALWAYS = (
    "whoever overrules acts on what is recorded, nobody is abandoned because of an outcome, and no reward or next "
    "state is left untold because of what it was; bounds on the regret are not claimed then"
)
_ORDERS = {
    "begin": "with several open at a time this holds if no action follows an outcome of somebody who began later, "
    + _ALWAYS,
    "end": "with several open at a time this holds if nobody's end, closing, arrival or context depends on outcomes of "
    "people not learned yet, no action follows an outcome of somebody learned later, " + _ALWAYS,
}


def _answer(person: Person) -> dict[str, Any]:
    """What `begin` says, for the journal."""
    made = {"episode": person.episode, "certificate": person.certificate, "referred": person.referred}
    return made | {"version": __version__}


class Live(Ward):
    """Individuals under keys of your own, open at the same time, who come back when they come back.

    agent   any agent of the library that plans whole episodes; it is taken over: begin no episodes with it yourself.
            `agent.save` keeps what it has learned, `Live.save` everybody who is open as well
    draws   plans drawn at every `begin` to estimate the probabilities in the decisions; 0: none are recorded. Of an
            agent with several plans or a floor (`PSRLGLM`) they are exact, and recorded in any case
    order   "begin": people are learned from in the order of arrival, so that the sets hold whatever decides when
            somebody ends; "end": at once, which needs ends that do not depend on outcomes (module docstring)
    audit   whether decisions carry a fingerprint of the agent; costs a pass over its arrays for each individual
    rows    whether decisions carry the row given at `begin` (the encoder's columns)
    journal a `noregret.Journal`: every event is written to it before a verb returns. An empty one is begun; one that
            was begun with this agent and these options is folded, and goes on from there (`resume` needs no agent)
    belief  posterior draws at every `begin` for what is believed of the plan's shortfall, in the decisions; 0: none.
            At least 19, of an agent with a posterior. Believed, not proved (`Plan.belief`)
    clock   a function that says the time, for the decisions: a datetime with a time zone; None: this machine's
    at_once how many people a verb learns from at most; None: everybody who is due. With order="begin" many may become
            due together, when the slowest of them ends, and whoever asks next waits until all are learned. Those who
            are left are learned by the next `begin`, `end`, `close` and `abandon`, so many each

    Keys are integers of 64 bits or text of at most 200 characters. The module docstring says what is guaranteed. Memory
    for each open individual: a plan, and 2 H S bytes per draw.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> live = nr.Live(nr.CertifiedPSRL(world.problem))
    >>> for k, who in enumerate(("Mr A", "Ms B")):
    ...     plan = live.begin(who, world.context(seed=0, episode=k))
    >>> live.act("Ms B", "moderate", action="drug B").by_other  # somebody overrules the plan
    True
    >>> live.observe("Ms B", float("nan"), "mild", step=0)  # the reward is not known yet
    >>> live.observe("Ms B", float("nan"), "mild", step=0)  # told twice: nothing changes
    >>> live.end("Ms B")
    >>> live  # Ms B is learned from when Mr A, who came before her, has ended
    <Live certified-psrl, 2 begun, 1 open, 1 ended and not learned yet>
    >>> live.reward("Ms B", 0, 1.0)  # until then her rewards may come in
    """

    def __init__(
        self,
        agent: Agent,
        draws: int = 0,
        order: str = "begin",
        audit: bool = True,
        rows: bool = False,
        clock: Callable[[], datetime] | None = None,
        belief: int = 0,
        *,
        journal: Any = None,
        at_once: int | None = None,
    ) -> None:
        check.instance("agent", agent, Agent, "an agent of noregret")
        if agent.pause:
            raise ValueError(f"agent must plan whole episodes, {agent.name} plans again within them")
        if has_player(agent):
            raise ValueError(f"agent must be one of the library's throughout, {agent.label} has an agent of your own")
        if agent.free("agent").is_open:
            raise ValueError("agent must not be in the middle of an episode")
        if clock is not None and not callable(clock):
            raise ValueError(f"clock must be a function that returns a datetime, or None, got {check.shown(clock)}")
        self.draws = check_draws(draws, 0)
        if (draws > 0 or len(agent.buffers[0].plans)) and agent.problem.n_actions > np.iinfo(np.int16).max:
            raise ValueError(f"draws must be 0, and plans 1, with more than {np.iinfo(np.int16).max} actions")
        check.one_of("order", order, ("end", "begin"))
        self.audit = check.flag("audit", audit)
        self.rows, self._time = check.flag("rows", rows), now if clock is None else clock
        self.belief = check_belief(agent, belief) if check.integer("belief", belief, 0) else 0
        self._described = plainly(agent)
        self.on_plan: Callable[[Plan], Any] | None = None  # told of a plan before `begin` learns from others
        book = None if journal is None else Book(journal, reader(type(self), agent, clock))
        super().__init__(agent, order, None if at_once is None else check.integer("at_once", at_once, 1))
        if book is not None:
            self._book = book
            self._stale = book.start(agent, self._options(), self._frozen(), self._now())
            if self._stale:
                self._fold_again()

    @property
    def guarantee(self) -> str | None:
        """What is proved about the agent, and what that takes with several people at a time; None if nothing is."""
        own = self.agent.guarantee
        return None if own is None else f"{own}; {_ORDERS[self.order]}"

    def __repr__(self) -> str:
        opened, ended = len(self.open), len(self.waiting)
        late = f", {ended} ended and not learned yet" if ended else ""
        return f"<Live {self.agent.label}, {self.agent.episode} begun, {opened} open{late}>"

    # One individual -----------------------------------------------------------------------------------------------
    @verb
    def begin(self, who: Who, x: ArrayLike | dict[str, Any], unavailable: Any = None) -> Plan:
        """Plan for a new individual with context x [d], or with a row where the agent has an encoder. unavailable:
        actions that they cannot get, as for `Agent.begin_episode`."""
        self._settle()
        who = key_of(who)
        if who in self._people:
            late = (
                "has ended and is not learned yet: late outcomes could not be told apart, begin them under another key"
            )
            raise ValueError(f"who: {check.shown(who)} {late if self._people[who].ended else 'is open already'}")
        agent = self.agent
        context = agent.problem.context(agent.encoded(x))
        row, mask = row_of(agent.encoder, x) if self.rows else None, agent.mask_of(unavailable)
        agent.examine()  # before the plans are drawn, which depend on it
        mark = fingerprint(agent) if self.audit else ""
        if self.draws > 0 and not len(agent.buffers[0].plans) and known_exactly(agent, 0, 0) is None:
            drawn = plans_ahead(agent, context, self.draws, mask)
        else:
            drawn = np.zeros((0, agent.problem.horizon, agent.problem.n_states), np.int16)
        told = None if self._book is None else begin_entry(agent, who, x, unavailable, self._now())
        self._stale = told is not None
        try:
            with finished(self._settle):
                self._coming, self._plan = (who, mark, drawn, row), None
                self._loose = True
                self._plan = plan = agent.plan_for(context, unavailable)
                if self.on_plan is not None:
                    self._catch_up()  # they are open now; whoever is due is learned afterwards
                    self.on_plan(plan)
                self._left = self._most
        except ValueError:  # an expert's, for example, who could not be asked
            self._stale = self._stale and (who in self._people or agent.is_open)
            raise
        if told is not None:
            self._tell([replace(told, answer=json.dumps(_answer(self._people[who])))])
        self._stale = False
        return plan

    @verb
    def act(
        self, who: Who, state: int | str, action: int | str | None = None, time: datetime | str | None = None
    ) -> Decision:
        """The action for `state` at this individual's step; action: somebody else chose that one; time: when that was,
        with a time zone. Asking again changes nothing."""
        self._catch_up()
        return self._acted(self._person(who, ended=False), state, action, time)

    def _acted(self, person: Person, state: Any, action: Any, time: datetime | str | None) -> Decision:
        who, p = person.who, self.agent.problem
        h = person.steps
        if h == p.horizon:
            raise RuntimeError(f"act: all {h} steps of {check.shown(who)} are taken, call end")
        s = p.state(state) if h > 0 else p.started(state)
        if h > 0 and s != person.states[h]:
            raise ValueError(
                f"state must be the next_state observed last, {p.state_text(person.states[h])}, got {p.state_text(s)}"
            )
        advice = int(person.policy[h, s])
        chosen = advice if action is None else person.action(p, action, s)
        person = person.changed(
            states=(*person.states[:h], s), actions=(*person.actions[:h], chosen),
            others=(*person.others[:h], action is not None),
        )  # fmt: skip
        when = utc(self._time() if time is None else time)
        made = decided(self.agent, person, s, when, self._described, self.draws > 0, self.belief)
        if self._book is not None and not person.same_steps(self._people[person.who]):
            self._tell([decide_entry(made)])
        self._people[person.who] = person
        self._stale = False
        return made

    @verb
    def step_of(self, who: Who) -> int:
        """The step that this individual is at: how many outcomes were observed."""
        self._catch_up()
        return self._person(who).steps

    @verb
    def observe(self, who: Who, reward: float, next_state: int | str, step: int | None = None) -> None:
        """What the action of `step` led to. A reward that is not known yet is nan; `reward` may bring it later.

        The same outcome again changes nothing; another one for a step already told is a correction, which is taken
        until the individual was learned (a next state only as long as nothing was decided in it). The step may be left
        out where nothing was observed yet: later on nobody could tell an outcome from an earlier one that comes again
        (`noregret.live.outcomes`). A next state outside the problem's support is noted, and refutes the problem:
        `agent.refuted` says so from then on, corrected or not; the steps before it are learned."""
        self._catch_up()
        person = self._person(who)
        self._note({person.who: with_outcome(person, self.agent.problem, reward, next_state, step)})

    @verb
    def reward(self, who: Who, step: int, value: float) -> None:
        """The reward of an earlier step: one that was nan until now, or a correction; also after `end`, until the
        individual was learned."""
        self._catch_up()
        person = self._person(who)
        self._note({person.who: with_reward(person, self.agent.problem, step, value)})

    # Beside another verb --------------------------------------------------------------------------------------------
    def act_beside(
        self, who: Who, step: int, state: int | str, action: int | str | None = None, time: datetime | str | None = None
    ) -> Decision | None:
        """`act` at this step, while another thread may be in a verb about other people, planning or learning for as
        long as that takes; None where it has to wait for it. One thread at a time may do so, and must know that nobody
        else is at something about this individual.

        A plan was made when its individual began, and what they do next is in nobody else's plan and in nothing that is
        learned before they end: the order of both makes no difference. A certificate is told as long as nothing that
        was learned by now refutes the problem."""
        person = self._beside(who)
        if person is None or person.steps != step or (self.draws > 0 and person.floor is None):
            return None
        return self._acted(person, state, action, time)

    def tell_beside(self, who: Who, reward: float, next_state: int | str | None, step: int) -> bool:
        """`observe`, or `reward` where there is no next state, likewise; whether it was taken. What refutes the problem
        is not."""
        person, p = self._beside(who), self.agent.problem
        if person is None:
            return False
        if next_state is None:
            told = with_reward(person, p, step, reward)
        else:
            told = with_outcome(person, p, reward, next_state, step)
        if told.impossible(p) is not None:
            return False
        self._people[person.who] = told
        return True

    def _beside(self, who: Who) -> Person | None:
        """Somebody who is open, where verbs need no journal and nothing else of the agent's."""
        person = self._people.get(who)
        return None if person is None or person.ended or self._book is not None else person

    @verb
    def observe_all(self, table: Any) -> int:
        """Outcomes that arrive as a table with columns who, reward and next_state, and step; how many rows there were.

        Each row is an `observe`; where next_state is empty, it brings the reward of a step observed before. Without the
        column `step`, or where it is empty, the step is left out, which is rarely enough. All rows are checked before
        any is noted."""
        self._catch_up()
        data = columns(table)
        for name in ("who", "reward", "next_state"):
            if name not in data:
                raise ValueError(f"table must have the columns who, reward and next_state, {name} not found")
        news = told_in(data, self._person, self.agent.problem)
        self._note(news)
        return len(data["who"])

    @verb
    def end(self, who: Who, wait: int | None = 0) -> None:
        """Learn from the steps observed, which may be fewer than H; with order="begin" when everybody who began before
        has ended and waits for nothing.

        wait   how many more people are to begin before this one is learned; None: as many as it takes until `close`.
               Until then outcomes and corrections are taken. Whether a reward comes in time must not depend on it"""
        n = None if wait is None else check.integer("wait", wait, 0)
        self._end(who, n, "end", {"wait": n})

    def _end(self, who: Who, wait: int | None, kind: str, told: dict[str, Any]) -> None:
        self._settle()
        person = self._person(who, ended=False)
        until = None if wait is None else self.agent.episode + wait
        self._put(person.changed(ended=True, until=until), kind, told)

    @verb
    def close(self, who: Who) -> None:
        """Nothing more is waited for: learn from somebody who has ended as soon as the order allows."""
        self._settle()
        person = self._person(who)
        if not person.ended:
            raise RuntimeError(f"close: {check.shown(who)} is open, call end first")
        self._put(person.changed(until=0), "close", {})

    @verb
    def abandon(self, who: Who, learn: bool = False) -> None:
        """Forget the individual; or, with learn=True, learn the steps seen, as `end` does. Either keeps the guarantees
        only if it does not depend on outcomes."""
        if check.flag("learn", learn):
            self._end(who, 0, "withdraw", {"learn": True})
            return
        self._settle()
        person = self._person(who)
        if self._book is not None:
            self._tell([Entry("withdraw", self._now(), person.who, {"learn": False})])
        with finished(self._settle):
            del self._people[person.who]
            self._left = self._most
        self._stale = False

    # The journal --------------------------------------------------------------------------------------------------
    @classmethod
    def resume(
        cls,
        journal: Any,
        link: Link | None = None,
        expert: Any = None,
        clock: Callable[[], datetime] | None = None,
        agent: Any = None,
    ) -> Self:
        """A `Live` as its journal says it is: the last good snapshot, then the events. link, expert and agent as for
        `noregret.load`: code that no snapshot holds."""

        given = link, expert, clock, None, agent
        book = Book(journal, lambda data, name: cls.from_bytes(data, *given, name))
        made: Self = book.again()
        made._book = book
        return made

    @property
    def journal(self) -> Any:
        """The journal that events are written to, None without one."""
        return None if self._book is None else self._book.journal

    @verb
    def keep_snapshot(self) -> int:
        """Keep a snapshot in the journal, from which `resume` and `replay` may begin; how many events it has folded.
        One is kept by itself every 10,000 events."""
        if self._book is None:
            raise RuntimeError("keep_snapshot: there is no journal")
        return self._kept(self._book)

    def _kept(self, book: Book) -> int:
        self._settle()
        number, noted = book.keep(self._frozen()(), self._now())
        self._tell([noted])
        self._stale = False
        return number

    def _shelve(self) -> None:
        with Book.quietly():
            self._kept(cast(Book, self._book))

    @verb
    def erase(self, who: Who) -> None:
        """Take what somebody said and was told out of the journal; its chain can still be verified. They must have been
        learned, or withdrawn. What the agent learned stays, and so does what an agent that stores its data has kept."""
        if self._book is None:
            raise RuntimeError("erase: there is no journal")
        self._settle()
        key = key_of(who)
        if key in self._people:
            raise ValueError(f"who: {check.shown(who)} is not learned yet, withdraw them first (abandon)")
        journal, theirs = self._book.journal, self._book.journal.of(key)
        number = self._kept(self._book)
        learned = min(number, holding(journal, key, theirs[-1].number + 1)) if theirs else None
        self._stale = True
        self._book.folded = journal.erase(key, learned).number + 1
        self._stale = False

    def _now(self) -> str:
        return utc(self._time())

    # Files --------------------------------------------------------------------------------------------------------
    def _options(self) -> dict[str, Any]:
        own = {"draws": self.draws, "order": self.order, "audit": self.audit, "rows": self.rows}
        later = {"belief": self.belief or None, "at_once": self.at_once}  # files of earlier versions are without them
        return own | {name: value for name, value in later.items() if value is not None}

    @verb
    def save(self, path: Any) -> None:
        """Write the agent and everybody not learned yet, as `Agent.save` does; `Live.load` reads it."""
        self._catch_up()
        write_people(path, self.agent, self._options(), list(self._people.values()))

    @verb
    def snapshot(self) -> Callable[[], bytes]:
        """A copy of everything as it is now, and a function that makes the bytes of `save`'s file of it, which takes
        longer and may be called at any time, in any thread. `Live.from_bytes` reads them.

        >>> import noregret as nr
        >>> live = nr.Live(nr.CertifiedPSRL(nr.worlds.clinic().problem))
        >>> sealed = live.snapshot()  # milliseconds; `live` may go on
        >>> nr.Live.from_bytes(sealed())
        <Live certified-psrl, 0 begun, 0 open>
        """
        self._catch_up()
        return self._frozen()

    def _frozen(self) -> Callable[[], bytes]:
        return frozen_people(self.agent, self._options(), list(self._people.values()))

    @classmethod
    def load(
        cls,
        path: Any,
        link: Link | None = None,
        expert: Any = None,
        clock: Callable[[], datetime] | None = None,
        memory: float | None = None,
        agent: Any = None,
    ) -> Self:
        """What `save` wrote, ready to go on; link, expert, memory and agent as for `noregret.load`, clock as for
        `Live`."""
        return cls._read(path, unseal(path), clock, (link, expert, memory, agent))

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        link: Link | None = None,
        expert: Any = None,
        clock: Callable[[], datetime] | None = None,
        memory: float | None = None,
        agent: Any = None,
        name: str = "data",
    ) -> Self:
        """The same from the bytes of such a file, or of `snapshot`; name: what they are called in a sentence."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise ValueError(f"data must be bytes, got {check.shown(data)}")
        return cls._read(name, unseal_bytes(bytes(data), name), clock, (link, expert, memory, agent))

    @classmethod
    def _read(cls, path: Any, whole: tuple[Any, Any], clock: Any, given: tuple[Any, ...]) -> Self:
        """From the header and the arrays of a file; given: link, expert, memory and agent."""
        player, own, people = people_in(path, *whole, *given)
        try:
            made = cls(player, **own, clock=clock)
        except ValueError as error:
            raise ValueError(f"{path} cannot be loaded: {error}") from None
        return made._with(people)
