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
everything is biased. order="begin" is for this: whoever ends waits until all who began before have ended or were
abandoned, the list is that of arrival, and when somebody ends no longer matters. What no order repairs: abandoning
somebody, or withholding a reward, because of an outcome; and choosing one person's actions by the outcomes of another
who began later.

What delays do change. An agent that has not learned yet decides as if it did not know: a plan made while m people are
open may lack the steps of m others (with order="begin", of all who began after the first of them, too). Bounds on the
regret that a theorem states for one individual after another are not claimed for several at a time; every plan's own
certificate is. Agents that plan again within an episode (`pause`) are refused."""

import json
import math
from contextlib import suppress
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .. import _checks as check
from .._threads import locked
from ..agents.base import Agent
from ..agents.files import fingerprint
from ..links import Link
from ..planning import Plan
from .decision import Decision, described
from .people import Person, Who, read_people, write_people
from .probabilities import NotAsked, check_draws, drawn_policies, from_policies, known_exactly
from .tables import columns, is_missing, whole


class Live:
    """Individuals under keys of your own, open at the same time, who come back when they come back.

    agent   any agent of the library that plans whole episodes; it is taken over: begin no episodes with it yourself.
            `agent.save` keeps what it has learned, `Live.save` everybody who is open as well
    draws   plans drawn at every `begin` for the probabilities in the decisions; 0: none are recorded
    order   "begin": people are learned from in the order of arrival, so that the sets hold whatever decides when
            somebody ends; "end": at once, which needs ends that do not depend on outcomes (module docstring)
    audit   whether decisions carry a fingerprint of the agent; costs a pass over its arrays for each individual

    Keys are integers or text. The module docstring says what is guaranteed. Memory for each open individual: a plan,
    and 2 H S bytes a draw.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> live = nr.Live(nr.CertifiedPSRL(world.problem))
    >>> for k, who in enumerate(("Mr A", "Ms B")):
    ...     plan = live.begin(who, world.context(seed=0, episode=k))
    >>> live.act("Ms B", "moderate", action="drug B").by_other  # somebody overrules the plan
    True
    >>> live.observe("Ms B", float("nan"), "mild")  # the reward is not known yet
    >>> live.reward("Ms B", 0, 1.0)  # now it is, of step 0
    >>> live.end("Ms B")
    >>> live  # Ms B is learned from when Mr A, who came before her, has ended
    <Live certified-psrl, 2 begun, 1 open, 1 ended and not learned yet>
    """

    def __init__(self, agent: Agent, draws: int = 0, order: str = "begin", audit: bool = True) -> None:
        if not isinstance(agent, Agent):
            raise ValueError(f"agent must be an agent of noregret, got {type(agent).__name__}")
        if agent.pause:
            raise ValueError(f"agent must plan whole episodes, {agent.name} plans again within them")
        if agent._free("agent")._open:
            raise ValueError("agent must not be in the middle of an episode")
        self.agent, self.draws = agent, check_draws(draws, 0)
        self.order, self.audit = check.one_of("order", order, ("end", "begin")), check.flag("audit", audit)
        self._lock = agent._lock  # people and agent are changed together
        self._people: dict[Who, Person] = {}
        self._waiting: list[Person] = []  # ended, not learned yet: order="begin"
        agent._keep(self)

    @property
    @locked
    def open(self) -> tuple[Who, ...]:
        """Keys of those who have begun and not ended, in the order in which they began."""
        return tuple(self._people)

    def __repr__(self) -> str:
        waiting = f", {len(self._waiting)} ended and not learned yet" if self._waiting else ""
        return f"<Live {self.agent.label}, {self.agent.episode} begun, {len(self._people)} open{waiting}>"

    # One individual -----------------------------------------------------------------------------------------------
    @locked
    def begin(self, who: Who, x: ArrayLike | dict[str, Any]) -> Plan:
        """Plan for a new individual with context x [d], or with a row where the agent has an encoder."""
        if isinstance(who, bool) or not isinstance(who, int | str | np.integer):
            raise ValueError(f"who must be an integer or text, got {check.shown(who)}")
        who = int(who) if isinstance(who, np.integer) else who
        if who in self._people:
            raise ValueError(f"who: {check.shown(who)} is open already")
        agent, k = self.agent, self.agent.episode
        mark = fingerprint(agent) if self.audit else ""
        plan = agent._begin(x)
        drawn = np.zeros((0, *plan.policy.shape), np.int16)
        if self.draws > 0 and known_exactly(agent, 0, 0) is None:
            with suppress(NotAsked):
                drawn = drawn_policies(agent, self.draws).astype(np.int16)
        agent._set_clock(k + 1)
        self._people[who] = Person(
            who, k, agent._x.tolist(), plan.policy.copy(), plan.certificate, getattr(plan, "referred", None), mark,
            drawn,
        )  # fmt: skip
        return plan

    @locked
    def act(self, who: Who, state: int | str, action: int | str | None = None) -> Decision:
        """The action for `state` at this individual's step; action: somebody else chose that one. Asking again changes
        nothing."""
        person, p = self._person(who), self.agent.problem
        h = person.steps
        if h == p.horizon:
            raise RuntimeError(f"act: all {h} steps of {check.shown(who)} are taken, call end")
        s = p.state(state)
        if h > 0 and s != person.states[h]:
            raise ValueError(f"state must be the next_state observed last, {person.states[h]}, got {s}")
        starts = p.initial_states
        if h == 0 and starts is not None and s not in starts:
            raise ValueError(f"state must be one of the problem's initial_states {starts} at step 0, got {s}")
        advice = int(person.policy[h, s])
        chosen = advice if action is None else p.action(action, s)
        person.states[h:], person.actions[h:], person.others[h:] = [s], [chosen], [action is not None]
        return self._decision(person, h, s, chosen, advice)

    def _decision(self, person: Person, h: int, s: int, chosen: int, advice: int) -> Decision:
        from .. import __version__

        agent = self.agent
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
            who=person.who, episode=person.episode, step=h, context=tuple(person.context), state=s, action=chosen,
            advice=advice, by_other=person.others[h], probability=chance[0], draws=chance[1], error=chance[2],
            certificate=person.certificate, referred=person.referred, agent=agent.name,
            options=json.loads(json.dumps(described(agent))), seed=agent.seed, version=__version__,
            fingerprint=person.fingerprint,
        )  # fmt: skip

    @locked
    def observe(self, who: Who, reward: float, next_state: int | str) -> None:
        """What the action led to. A reward that is not known yet is nan; `reward` may bring it later."""
        person = self._person(who)
        self._note(person, *self._outcome(person, reward, next_state))

    def _outcome(self, person: Person, reward: Any, next_state: Any) -> tuple[float, int]:
        if not person.asked:
            raise RuntimeError(f"observe: nothing was done with {check.shown(person.who)} since, call act first")
        h, p = person.steps, self.agent.problem
        after = p.next_state(next_state, person.states[h], person.actions[h])
        return p.reward(reward), after

    @staticmethod
    def _note(person: Person, reward: float, after: int) -> None:
        person.rewards.append(reward)
        person.states.append(after)

    @locked
    def reward(self, who: Who, step: int, value: float) -> None:
        """The reward of an earlier step, which was nan until now."""
        person = self._person(who)
        person.rewards[self._late(person, step)] = self.agent.problem.reward(value)

    @staticmethod
    def _late(person: Person, step: Any) -> int:
        h = check.integer("step", step, 0)
        if h >= person.steps:
            raise ValueError(
                f"step must be one that was observed, below {person.steps} for {check.shown(person.who)}, got {h}"
            )
        if not math.isnan(person.rewards[h]):
            raise ValueError(f"step {h} of {check.shown(person.who)} has a reward already, {person.rewards[h]:g}")
        return h

    @locked
    def observe_all(self, table: Any) -> int:
        """Outcomes that arrive as a table with columns who, reward and next_state; how many rows there were.

        With a column `step`, a row of a step that was observed before brings its late reward (next_state is then
        empty). All rows are checked before any is noted."""
        data = columns(table)
        for name in ("who", "reward", "next_state"):
            if name not in data:
                raise ValueError(f"table must have the columns who, reward and next_state, {name} not found")
        news: list[tuple[Any, ...]] = []
        met: set[tuple[Who, int]] = set()
        for i, who in enumerate(data["who"]):
            try:
                who = whole(who)
                person = self._person(who)
                reward, after = data["reward"][i], whole(data["next_state"][i])
                reward = math.nan if is_missing(reward) else reward
                step = whole(data["step"][i]) if "step" in data else person.steps
                if (who, step) in met:
                    raise ValueError(f"step {step} of {check.shown(who)} is there twice")
                met.add((who, step))
                if step != person.steps:
                    news.append((person, self._late(person, step), self.agent.problem.reward(reward)))
                else:
                    news.append((person, None, self._outcome(person, reward, after)))
            except (ValueError, RuntimeError) as error:
                raise ValueError(f"row {i}: {error}") from None
        for person, step, what in news:
            if step is None:
                self._note(person, *what)
            else:
                person.rewards[step] = what
        return len(news)

    @locked
    def end(self, who: Who) -> None:
        """Learn from the steps observed, which may be fewer than H; with order="begin" when everybody who began before
        has ended."""
        person = self._person(who)
        if self.agent._open:
            raise RuntimeError("end: the agent has an episode of its own open, which Live does not allow")
        del self._people[who]
        person.ended = True
        self._waiting.append(person)
        self._learn()

    @locked
    def abandon(self, who: Who, learn: bool = False) -> None:
        """Forget the individual; or, with learn=True, learn the steps seen, as `end` does. Either keeps the guarantees
        only if it does not depend on outcomes."""
        if check.flag("learn", learn):
            self.end(who)
            return
        self._person(who)
        del self._people[who]
        self._learn()

    def _learn(self) -> None:
        first = min((p.episode for p in self._people.values()), default=math.inf)
        ready = [p for p in self._waiting if self.order == "end" or p.episode < first]
        for p in sorted(ready, key=lambda p: p.episode):
            self._waiting.remove(p)
            n = p.steps
            mark = np.zeros(4, np.int64)
            self.agent._learn_steps(
                p.episode, p.context, [*p.states, 0][: n + 1], p.actions[:n], p.rewards, None, mark, mark
            )

    def _person(self, who: Any) -> Person:
        who = int(who) if isinstance(who, np.integer) else who
        if not isinstance(who, int | str) or who not in self._people:
            raise ValueError(f"who must be somebody open, got {check.shown(who)}")
        return self._people[who]

    # Files --------------------------------------------------------------------------------------------------------
    @locked
    def save(self, path: Any) -> None:
        """Write the agent and everybody open, as `Agent.save` does; `Live.load` reads it."""
        own = {"draws": self.draws, "order": self.order, "audit": self.audit}
        write_people(path, self.agent, own, [*self._people.values(), *self._waiting])

    @classmethod
    def load(cls, path: Any, link: Link | None = None, expert: Any = None) -> Self:
        """What `save` wrote, ready to go on; link and expert as for `noregret.load`."""
        agent, own, people = read_people(path, link, expert)
        try:
            made = cls(agent, **own)
        except ValueError as error:
            raise ValueError(f"{path} cannot be loaded: {error}") from None
        made._waiting = [p for p in people if p.ended]
        made._people = {p.who: p for p in people if not p.ended}
        return made
