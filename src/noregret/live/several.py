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
certificate is. Agents that plan again within an episode (`pause`) are refused.

Interruptions. Ctrl-C or too little memory, at whatever line, leaves a verb undone or done, never in between: everything
that can fail comes first, then one step that counts (an assignment, or a compiled call), and what follows from it is
made up for by `_catch_up`, at once or when the next verb is called."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _checks as check
from .._threads import locked
from ..agents.base import Agent
from ..agents.files import fingerprint
from ..agents.own import OwnAgent
from ..links import Link
from ..planning import Plan
from .decision import Decision, described
from .outcomes import refutation, same, with_outcome, with_reward
from .people import Person, Who, key_of, read_people, write_people
from .probabilities import check_draws, from_policies, known_exactly, plans_ahead
from .tables import columns, is_missing, whole

_LEARNED = np.array([1, 0, 0, 0], np.int64)
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


def _everybody(agent: Agent) -> Iterator[Agent]:
    yield agent
    for part in agent._made_of().values():
        yield from _everybody(part)


def _now() -> datetime:
    return datetime.now(UTC)


class Live:
    """Individuals under keys of your own, open at the same time, who come back when they come back.

    agent   any agent of the library that plans whole episodes; it is taken over: begin no episodes with it yourself.
            `agent.save` keeps what it has learned, `Live.save` everybody who is open as well
    draws   plans drawn at every `begin` for the probabilities in the decisions; 0: none are recorded
    order   "begin": people are learned from in the order of arrival, so that the sets hold whatever decides when
            somebody ends; "end": at once, which needs ends that do not depend on outcomes (module docstring)
    audit   whether decisions carry a fingerprint of the agent; costs a pass over its arrays for each individual
    rows    whether decisions carry the row given at `begin` (the encoder's columns)
    clock   a function that says the time, for the decisions: a datetime with a time zone; None: this machine's

    Keys are integers of 64 bits or text of at most 200 characters. The module docstring says what is guaranteed. Memory
    for each open individual: a plan, and 2 H S bytes a draw.

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
    ) -> None:
        if not isinstance(agent, Agent):
            raise ValueError(f"agent must be an agent of noregret, got {type(agent).__name__}")
        if agent.pause:
            raise ValueError(f"agent must plan whole episodes, {agent.name} plans again within them")
        if any(isinstance(part, OwnAgent) for part in _everybody(agent)):
            raise ValueError(f"agent must be one of the library's throughout, {agent.label} has an agent of your own")
        if agent._free("agent")._open:
            raise ValueError("agent must not be in the middle of an episode")
        if clock is not None and not callable(clock):
            raise ValueError(f"clock must be a function that returns a datetime, or None, got {check.shown(clock)}")
        self.draws = check_draws(draws, 0)
        if draws > 0 and agent.problem.n_actions > np.iinfo(np.int16).max:
            raise ValueError(f"draws must be 0 with more than {np.iinfo(np.int16).max} actions, got {draws}")
        self.order, self.audit = check.one_of("order", order, ("end", "begin")), check.flag("audit", audit)
        self.rows, self._time = check.flag("rows", rows), _now if clock is None else clock
        self.agent = agent
        self._lock = agent._lock  # people and agent are changed together
        self._people: dict[Who, Person] = {}  # in the order in which they began
        self._coming: tuple[Who, str, NDArray[np.int16], dict[str, Any] | None] | None = None
        self._loose = False  # whether something may have been begun that was not finished
        self._unexamined = False  # whether somebody was learned and the tests of what is assumed were not asked since
        agent._keep(self)

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

    @property
    def guarantee(self) -> str | None:
        """What is proved about the agent, and what that takes with several people at a time; None if nothing is."""
        own = self.agent.guarantee
        return None if own is None else f"{own}; {_ORDERS[self.order]}"

    def __repr__(self) -> str:
        opened, ended = len(self.open), len(self.waiting)
        late = f", {ended} ended and not learned yet" if ended else ""
        return f"<Live {self.agent.label}, {self.agent.episode} begun, {opened} open{late}>"

    # What an interruption may have left -----------------------------------------------------------------------------
    def _catch_up(self) -> None:
        """Finish what was begun: whoever the agent has planned for is noted, whoever was learned is dropped, and an
        outcome that refutes the problem is told to the agent. Doing it twice is doing it once."""
        if not self._loose:
            return
        agent, p = self.agent, self.agent.problem
        if agent._open and self._coming is not None:
            person = self._arrived(*self._coming)
            self._people[person.who] = person
            agent._set_clock(person.episode + 1)
        for person in tuple(self._people.values()):
            if person.learned:
                del self._people[person.who]
            elif agent.refuted is None and (h := person.impossible(p)) is not None:
                agent.refute(refutation(person, p, h))
        self._loose = False

    def _arrived(self, who: Who, mark: str, drawn: NDArray[np.int16], row: dict[str, Any] | None) -> Person:
        """The individual whose episode the agent has open, from the agent's own buffers."""
        agent, plan = self.agent, self.agent._plan_made()
        if (drawn < 0).any():  # drawn plans that are the expert's, who was asked for this one
            drawn = np.where(drawn < 0, plan.policy, drawn).astype(np.int16)
        return Person(
            who, agent.episode, tuple(agent._x.tolist()), plan.policy, plan.upper, plan.certificate,
            getattr(plan, "referred", None), mark, drawn, row,
        )  # fmt: skip

    def _settle(self) -> None:
        """Catch up, then learn whoever is due, in order: nobody twice, nobody dropped unlearned."""
        self._catch_up()
        agent, p = self.agent, self.agent.problem
        for q in self._due():
            self._loose = self._unexamined = True
            h = q.impossible(p)
            n = q.steps if h is None else h
            agent._learn_steps(
                q.episode, np.array(q.context), np.array([*q.states, 0][: n + 1], np.int64),
                np.array(q.actions[:n], np.int64), np.array(q.rewards[:n], np.float64), q.upper, q.mark, _LEARNED,
            )  # fmt: skip
            self._catch_up()
        if self._unexamined:
            agent._examine()
            self._unexamined = False

    def _due(self) -> list[Person]:
        begun, found = self.agent.episode, []
        for q in sorted(self._people.values(), key=lambda q: q.episode):
            if q.due(begun):
                found.append(q)
            elif self.order == "begin":
                break
        return found

    # One individual -----------------------------------------------------------------------------------------------
    @locked
    def begin(self, who: Who, x: ArrayLike | dict[str, Any]) -> Plan:
        """Plan for a new individual with context x [d], or with a row where the agent has an encoder."""
        self._settle()
        who = key_of(who)
        if who in self._people:
            late = (
                "has ended and is not learned yet: late outcomes could not be told apart, begin them under another key"
            )
            raise ValueError(f"who: {check.shown(who)} {late if self._people[who].ended else 'is open already'}")
        agent = self.agent
        agent._examine()  # before the plans are drawn, which depend on it
        context = agent.problem.context(agent.encoded(x))
        row = self._row(x) if self.rows else None
        mark = fingerprint(agent) if self.audit else ""
        if self.draws > 0 and known_exactly(agent, 0, 0) is None:
            drawn = plans_ahead(agent, context, self.draws)
        else:
            drawn = np.zeros((0, *agent._out.policy.shape), np.int16)
        try:
            self._coming = who, mark, drawn, row
            self._loose = True
            plan = agent._begin(context)
            self._settle()
        except BaseException:
            self._settle()
            raise
        return plan

    def _row(self, x: Any) -> dict[str, Any] | None:
        """The encoder's columns of a row, as plain values."""
        encoder = self.agent.encoder
        if encoder is None or not hasattr(x, "keys"):
            return None
        found = {column: x[column] for column in encoder.columns}
        plain = {c: v.item() if isinstance(v, np.generic) else v for c, v in found.items()}
        return {
            c: None if is_missing(v) else v if isinstance(v, str | int | float) else str(v) for c, v in plain.items()
        }

    @locked
    def act(
        self, who: Who, state: int | str, action: int | str | None = None, time: datetime | str | None = None
    ) -> Decision:
        """The action for `state` at this individual's step; action: somebody else chose that one; time: when that was,
        with a time zone. Asking again changes nothing."""
        self._catch_up()
        person, p = self._person(who, ended=False), self.agent.problem
        h = person.steps
        if h == p.horizon:
            raise RuntimeError(f"act: all {h} steps of {check.shown(who)} are taken, call end")
        s = p.state(state) if h > 0 else p.started(state)
        if h > 0 and s != person.states[h]:
            raise ValueError(
                f"state must be the next_state observed last, {p.state_text(person.states[h])}, got {p.state_text(s)}"
            )
        advice = int(person.policy[h, s])
        chosen = advice if action is None else p.action(action, s)
        person = replace(
            person, states=(*person.states[:h], s), actions=(*person.actions[:h], chosen),
            others=(*person.others[:h], action is not None),
        )  # fmt: skip
        made = self._decision(person, h, s, chosen, advice, _utc(self._time() if time is None else time))
        self._people[person.who] = person
        return made

    def _decision(self, person: Person, h: int, s: int, chosen: int, advice: int, time: str) -> Decision:
        from .. import __version__

        agent = self.agent
        states, actions = agent.problem.state_names, agent.problem.action_names
        chance: tuple[float, int, float] | tuple[None, None, None] = (None, None, None)
        if self.draws > 0:
            found = known_exactly(agent, h, s)
            if found is None and len(person.drawn):
                found = from_policies(
                    person.drawn, person.states, person.actions[:h], person.others, s, agent.problem.n_actions
                )  # fmt: skip
            if found is not None and (found.exact or found.draws > 0):
                chance = float(found.probabilities[chosen]), found.draws, float(found.error[chosen])
        return Decision(
            who=person.who, episode=person.episode, step=h, context=person.context, state=s, action=chosen,
            advice=advice, by_other=person.others[h], probability=chance[0], draws=chance[1], error=chance[2],
            certificate=person.certificate if agent.refuted is None else None, referred=person.referred,
            agent=agent.name, options=json.loads(json.dumps(described(agent))), seed=agent.seed, version=__version__,
            fingerprint=person.fingerprint, time=time, state_name=states[s] if states else None,
            action_name=actions[chosen] if actions else None, advice_name=actions[advice] if actions else None,
            row=None if person.row is None else dict(person.row), refuted=agent.refuted,
        )  # fmt: skip

    @locked
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

    def _note(self, news: dict[Who, Person]) -> None:
        """Take these people as they are now, all at once."""
        p = self.agent.problem
        news = {who: person for who, person in news.items() if person is not self._people[who]}
        refuting = any(person.impossible(p) is not None for person in news.values())
        try:
            self._loose = refuting
            self._people.update(news)
            self._catch_up()
        except BaseException:
            self._catch_up()
            raise

    @locked
    def reward(self, who: Who, step: int, value: float) -> None:
        """The reward of an earlier step: one that was nan until now, or a correction; also after `end`, until the
        individual was learned."""
        self._catch_up()
        person = self._person(who)
        self._note({person.who: with_reward(person, self.agent.problem, step, value)})

    @locked
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
        news: dict[Who, Person] = {}
        met: dict[tuple[Who, Any], tuple[float, Any]] = {}
        for i, who in enumerate(data["who"]):
            try:
                person = self._person(whole(who))
                person = news.get(person.who, person)
                given, after = data["reward"][i], whole(data["next_state"][i])
                r = self.agent.problem.reward(float("nan") if is_missing(given) else given)
                step = whole(data["step"][i]) if "step" in data else None
                step = None if is_missing(step) else step
                before = met.setdefault((person.who, step), (r, after))
                if not (same(before[0], r) and before[1] == after):
                    raise ValueError(f"step {step} of {check.shown(person.who)} is there twice, with another outcome")
                if is_missing(after) and step is not None and person.steps > check.integer("step", step, 0):
                    news[person.who] = with_reward(person, self.agent.problem, step, r)
                else:
                    news[person.who] = with_outcome(person, self.agent.problem, r, after, step)
            except (ValueError, RuntimeError) as error:
                raise ValueError(f"row {i}: {error}") from None
        self._note(news)
        return len(data["who"])

    @locked
    def end(self, who: Who, wait: int | None = 0) -> None:
        """Learn from the steps observed, which may be fewer than H; with order="begin" when everybody who began before
        has ended and waits for nothing.

        wait   how many more people are to begin before this one is learned; None: as many as it takes until `close`.
               Until then outcomes and corrections are taken. Whether a reward comes in time must not depend on it"""
        n = None if wait is None else check.integer("wait", wait, 0)
        self._settle()
        person = self._person(who, ended=False)
        until = None if n is None else self.agent.episode + n
        self._put(replace(person, ended=True, until=until))

    @locked
    def close(self, who: Who) -> None:
        """Nothing more is waited for: learn from somebody who has ended as soon as the order allows."""
        self._settle()
        person = self._person(who)
        if not person.ended:
            raise RuntimeError(f"close: {check.shown(who)} is open, call end first")
        self._put(replace(person, until=0))

    def _put(self, person: Person) -> None:
        """Take somebody as they are now, and learn whoever is due then."""
        try:
            self._people[person.who] = person
            self._settle()
        except BaseException:
            self._settle()
            raise

    @locked
    def abandon(self, who: Who, learn: bool = False) -> None:
        """Forget the individual; or, with learn=True, learn the steps seen, as `end` does. Either keeps the guarantees
        only if it does not depend on outcomes."""
        if check.flag("learn", learn):
            self.end(who)
            return
        self._settle()
        person = self._person(who)
        try:
            del self._people[person.who]
            self._settle()
        except BaseException:
            self._settle()
            raise

    def _person(self, who: Any, ended: bool = True) -> Person:
        """Somebody who is open or, with `ended`, has ended and is not learned yet."""
        key = int(who) if isinstance(who, np.integer) else who
        known = isinstance(key, int | str) and not isinstance(key, bool) and key in self._people
        if not known or (self._people[key].ended and not ended):
            late = ", or ended and not learned yet" if ended else ""
            said = f"{check.shown(who)} has ended" if known else f"got {check.shown(who)}"
            raise ValueError(f"who must be somebody open{late}, {said}")
        return self._people[key]

    # Files --------------------------------------------------------------------------------------------------------
    @locked
    def save(self, path: Any) -> None:
        """Write the agent and everybody not learned yet, as `Agent.save` does; `Live.load` reads it."""
        self._catch_up()
        own = {"draws": self.draws, "order": self.order, "audit": self.audit, "rows": self.rows}
        write_people(path, self.agent, own, list(self._people.values()))

    @classmethod
    def load(
        cls,
        path: Any,
        link: Link | None = None,
        expert: Any = None,
        clock: Callable[[], datetime] | None = None,
        memory: float | None = None,
    ) -> Self:
        """What `save` wrote, ready to go on; link, expert and memory as for `noregret.load`, clock as for `Live`."""
        agent, own, people = read_people(path, link, expert, memory)
        try:
            made = cls(agent, **own, clock=clock)
        except ValueError as error:
            raise ValueError(f"{path} cannot be loaded: {error}") from None
        made._people = {q.who: q for q in people}
        made._loose = True
        made._settle()
        return made


def _utc(time: Any) -> str:
    """A time with a zone (a datetime, or ISO 8601 text) as text in UTC."""
    try:
        made = datetime.fromisoformat(time) if isinstance(time, str) else time
        if not isinstance(made, datetime) or made.tzinfo is None:
            raise ValueError
        return made.astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        raise ValueError(
            f"time must be a datetime with a time zone, or such a time in ISO 8601, got {check.shown(time)}"
        ) from None
