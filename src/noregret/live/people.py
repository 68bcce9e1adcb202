"""Individuals whose path is not learned yet, and the file that keeps them with their agent."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _checks as check
from .._files import write_whole
from .._sealed import seal, unseal
from ..agents.base import Agent
from ..agents.files import contents, rebuilt
from ..agents.trusted import stored_episodes
from ..links import Link
from ..problem import Problem

Who = int | str
_ARRAYS = ("policy", "drawn")


@dataclass
class Person:
    """An individual whose path is not learned yet."""

    who: Who
    episode: int
    context: list[float]
    policy: NDArray[np.int64]  # [H, S]
    certificate: float | None
    referred: bool | None
    fingerprint: str
    drawn: NDArray[np.int64]  # [draws, H, S], plans with other random numbers
    states: list[int] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    others: list[bool] = field(default_factory=list)
    ended: bool = False

    @property
    def steps(self) -> int:
        """Steps whose outcome was observed."""
        return len(self.rewards)

    @property
    def asked(self) -> bool:
        return len(self.actions) > self.steps


def write_people(path: Any, agent: Agent, own: dict[str, Any], people: list[Person]) -> None:
    """The agent, the options of its `Live` and these people, in one file."""
    header, arrays = contents(agent)
    kept = []
    for i, person in enumerate(people):
        made = asdict(person)
        for name in _ARRAYS:
            arrays[f"people.{i}.{name}"] = made.pop(name)
        kept.append(made)
    write_whole(path, lambda file: seal(file, {"holds": "live", "live": own, "people": kept} | header, arrays))


def read_people(path: Any, link: Link | None, expert: Any) -> tuple[Agent, dict[str, Any], list[Person]]:
    """What `write_people` wrote."""
    header, arrays = unseal(path)
    if header.get("holds") != "live":
        raise ValueError(f"{path} holds no open individuals: read it with noregret.load")
    agent = rebuilt(path, header, arrays, link, expert)
    try:
        own, people = header["live"], []
        check.fits("live", lambda draws, order, audit: None, **own)
        for i, kept in enumerate(header["people"]):
            people.append(Person(**kept, **{name: arrays[f"people.{i}.{name}"] for name in _ARRAYS}))
            _possible(people[-1], agent.problem, agent.episode)
        numbers = [p.episode for p in people]
        if len(set(numbers)) < len(numbers) or stored_episodes(agent.state, agent.problem.horizon) & set(numbers):
            raise ValueError("somebody is there twice, or was learned from already")
    except Exception as error:  # contents that no Live wrote
        raise ValueError(f"{path} cannot be loaded: {error}") from None
    return agent, own, people


def _possible(person: Person, p: Problem, begun: int) -> None:
    """A sentence where nobody can be like that."""
    if isinstance(person.who, bool) or not isinstance(person.who, int | str):
        raise ValueError(f"who must be an integer or text, got {check.shown(person.who)}")
    p.policy(person.policy)
    p.context(person.context)
    n, h = person.steps, len(person.actions)
    if not (
        n <= h <= min(n + 1, p.horizon) and len(person.states) == max(h, n + (n > 0)) and 0 <= person.episode < begun
    ):
        raise ValueError(f"the path of {check.shown(person.who)} is not one")
    if person.drawn.shape[1:] != person.policy.shape or len(person.others) != h:
        raise ValueError(f"the plan of {check.shown(person.who)} is not one")
    for s, a in zip(person.states, person.actions, strict=False):
        p.action(a, p.state(s))
    for s in person.states:
        p.state(s)
    for r in person.rewards:
        p.reward(r)
