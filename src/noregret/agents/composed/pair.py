"""Two agents side by side: one that decides, and another who plans for everybody as well and steps in."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ... import checks as check
from ..base import Agent
from ..controls import FixedPolicy, first_actions


class Pair(Agent):
    """The part of `Referral` and `Conservative` that is about having two agents, `agent` and the one beside it.

    Subclasses set `beside`, the other's name among the arguments, and `stands`, what the agent does to it in a
    sentence. The other is an agent, a policy [H, S] of actions, or a function x -> policy, kept in `_ask`."""

    beside: ClassVar[str]
    stands: ClassVar[str]

    def __init__(self, agent: Agent, **options: Any) -> None:
        """After `_join`."""
        super().__init__(agent.problem, agent.seed, **options)
        self._take_over()

    def _join(self, agent: Agent, other: Any) -> None:
        """Both as parts; neither is taken over yet (`_take_over`)."""
        self._ask: Any = other if callable(other) and not isinstance(other, Agent) else None
        self.agent, self.other = agent, self._as_agent(agent, other)
        agent.as_part("agent")
        self.other.as_part(self.beside)

    def _as_agent(self, agent: Agent, other: Any) -> Agent:
        name, p = self.beside, agent.problem
        if other is agent:
            raise ValueError(f"{name} must be another agent than the one {self.stands}")
        if not isinstance(other, Agent):
            return FixedPolicy(p, first_actions(p) if self._ask is not None else p.policy(other, name))
        if not p.same_shape(other.problem):
            raise ValueError(f"{name} was made for a problem of another shape than the agent's")
        if not other.fused:
            raise ValueError(f"{name} must be compiled throughout, part of it is Python")
        return other

    def _take_over(self) -> None:
        """The agent's encoder, buffer, clock and what it has against it; last: whatever was refused before, both are
        still free."""
        agent, other = self.agent, self.other
        self.encoder = agent.encoder
        self._out = agent._out  # one buffer, so that what the agent says of its plan is about this one
        self.bounds_values, self.fused = agent.bounds_values, self._ask is None
        self.consistent_values = agent.consistent_values
        self.group = agent.group
        self._set_clock(max(agent.episode, other.episode))
        self.make_room(0)
        self._refutation, self._caveats = agent._refutation, agent._caveats
        self._own_evidence[:] = agent._own_evidence
        agent._owner = other._owner = self

    def _made_of(self) -> dict[str, Agent]:
        return {"agent": self.agent, self.beside: self.other}

    def parts(self) -> dict[str, Agent]:
        return {"agent": self.agent} if self._ask is not None else self._made_of()

    def fresh(self, seed: int | None = None) -> Self:
        """Likewise, with a fresh agent and a fresh one beside it."""
        other: Any = self.other.fresh(seed) if self._ask is None else self._ask
        make: Any = type(self)
        made: Self = make(self.agent.fresh(seed), other, **self.options)
        return made.with_encoder(self.encoder)

    def _renew(self) -> None:
        self.agent._renew()

    def _room_in(self, state: Any) -> int:
        return int(state[2].size)

    def _roomier(self, state: Any, episodes: int) -> Any:
        """A state is (agent, other, who, *records): who and the records by episode."""
        agent, other, who, *records = state
        if episodes > who.size:
            check.memory(f"the records of {episodes} individuals", 8.0 * (1 + len(records)) * episodes)
        parts = self.agent._roomier(agent, episodes), self.other._roomier(other, episodes)
        return type(state)(*parts, *self._longer(who, episodes, *records))

    def _handed(self) -> NDArray[np.bool_]:
        """Who got what the other one does, [individuals met], in order."""
        who = self.state[2]
        return np.asarray(who[who >= 0] == 1)

    def _first(self) -> int:
        """The first individual met."""
        who = self.state[2]
        return int((who >= 0).argmax()) if who.size else 0

    def _longer(self, who: NDArray[Any], episodes: int, *records: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """who [room], -1 for nobody, and other records by episode with room for so many episodes, at least."""
        have = who.size
        if episodes <= have:
            return who, *records
        more = max(episodes, 2 * have) - have
        none = np.zeros(more)
        return np.concatenate([who, np.full(more, -1)]), *(np.concatenate([r, none]) for r in records)
