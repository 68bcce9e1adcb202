"""`PutOff`: the refreshes of an agent's stored sets, left to whoever asks for them (`estimators.mixture.put_off`).

Learning then adds to the store and counts, and leaves every set as it is. Who asks decides when, and says which steps
it is about: that belongs into the journal (`live.fold`), for the time at which a set was put in place follows from
nothing else. Ranges of mean rewards are refreshed where they always are: that takes a hundredth of the time."""

from dataclasses import dataclass
from typing import Any

from ... import checks as check
from ...compiler.announcements import announced
from ...estimators.mixture.put_off import Held, Scratch, due, hold, never, rehearsed
from ...estimators.mixture.sets import MixturePar
from ...estimators.mixture.shared import BlockMixturePar
from .sets import SetPar

_TOLD = {"part", "place", "visits"}


@dataclass
class Refresh:
    """A refresh that was begun: `compute` in any thread, then `PutOff.put`. told: what an event says of it."""

    told: dict[str, Any]
    held: Held

    def compute(self) -> "Refresh":
        self.held.compute()
        return self


class PutOff:
    """agent: its refreshes are put off once `take` was called; nothing of it changes before."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self._sets = dict(_sets_in("", agent.par))  # with the growth after which a refresh is due
        self._works = {part: Scratch(_at(agent.work, part).transitions) for part in self._sets}
        if self._sets:
            with announced(f"the refreshes of {agent.name}"):
                for part, par in self._sets.items():
                    state = _at(agent.state, part)
                    rehearsed(par.transitions, state.transitions, self._works[part], state.store)

    def take(self) -> None:
        self.agent.par = _without(self.agent.par)

    def next(self) -> Refresh | None:
        """The refresh of the set whose data has grown most, among those that are due; None: none is."""
        found = []
        for part, par in self._sets.items():
            own = _at(self.agent.state, part)
            found += [(*first, part) for first in due(par.transitions, own.transitions, own.store)[:1]]
        if not found:
            return None
        _, place, part = max(found, key=lambda one: one[0])
        return self._begun(part, place, None)

    def begun(self, told: Any) -> Refresh:
        """The refresh that an event tells of; a ValueError where there can be none like it."""
        if not isinstance(told, dict) or set(told) != _TOLD or told["part"] not in self._sets:
            raise ValueError(f"a refresh says {', '.join(sorted(_TOLD))} of one of the agent's sets")
        place, visits = (tuple(check.integer("refresh", i, 0) for i in told[name]) for name in ("place", "visits"))
        return self._begun(told["part"], place, visits)

    def _begun(self, part: str, place: Any, visits: Any) -> Refresh:
        par, state = self._sets[part], _at(self.agent.state, part)
        kept = state.transitions, self._works[part], state.store
        held = hold(par.transitions, *kept, place, par.log_transition, visits)
        return Refresh({"part": part, "place": list(held.place), "visits": list(held.visits)}, held)

    def fits(self, refresh: Refresh) -> bool:
        """Whether it was begun here, from the set as it still is."""
        mine = refresh.told["part"] in self._sets and refresh.held.of is self._of(refresh.told["part"])
        return mine and refresh.held.before == self._of(refresh.told["part"]).refreshed[refresh.held.place]

    def _of(self, part: str) -> Any:
        return _at(self.agent.state, part).transitions

    def put(self, refresh: Refresh) -> None:
        """In its place, in one compiled call."""
        root, part = self.agent._root(), refresh.told["part"]
        refresh.compute()
        root._changes += 1
        refresh.held.put(self._of(part), _at(self.agent.state, part).store)


def _sets_in(path: str, par: Any) -> Any:
    """(path, par) of every agent with stored sets in nested named tuples; states and scratch lie under the same."""
    if isinstance(par, SetPar):
        if isinstance(par.transitions, MixturePar | BlockMixturePar):
            yield path, par
        return
    for name in getattr(par, "_fields", ()):
        yield from _sets_in(f"{path}.{name}" if path else name, getattr(par, name))


def _at(node: Any, path: str) -> Any:
    for name in path.split(".") if path else ():
        node = getattr(node, name)
    return node


def _without(par: Any) -> Any:
    """par whose learning refreshes no stored set."""
    if isinstance(par, MixturePar | BlockMixturePar):
        return never(par)
    if not hasattr(par, "_fields"):
        return par
    return type(par)(*(_without(getattr(par, name)) for name in par._fields))
