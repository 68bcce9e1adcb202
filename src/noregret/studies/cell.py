"""A cell: one agent in one world with one seed. Its id is a hash of what it is, so equal cells are one cell."""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self

from .. import checks as check
from ..simulation.catalogue import agent_options, defaults_of, named_agent, named_world, world_options
from ..worlds import World, world_maker

SEMANTICS = 1
"""Part of every id. Raised when the numbers of all cells change meaning, so that old results are not mixed with new."""


@dataclass(frozen=True)
class Cell:
    """One run of one agent in one world with one seed: a study is made of these.

    Plain values only. Options are complete: every default is written out, so that a default stated in a file, or
    changed in the library, is seen for what it is. `id` is a hash of all of it. `every`: episodes between recorded
    points; `closing`: whether the gain over the rule is estimated at the end. `Cell.of` makes one from tables as study
    files have them.

    >>> import noregret as nr
    >>> agent = {"name": "psrl-glm"}
    >>> cell = nr.studies.Cell.of({"name": "clinic"}, agent, seed=0, episodes=100, points=10)
    >>> cell.describe(), cell.every, cell.world_options
    ('psrl-glm in clinic, seed 0, 100 episodes', 10, {'horizon': 6})
    >>> same = nr.studies.Cell.of({"name": "clinic", "horizon": 6}, agent, seed=0, episodes=100, points=10)
    >>> cell.id == same.id  # a default is a default, said or not
    True
    """

    world: str
    world_options: dict[str, Any]
    agent: str
    agent_options: dict[str, Any]
    seed: int
    episodes: int
    every: int
    diagnostics: bool = False
    epsilon: float | None = None
    closing: bool = False

    @classmethod
    def of(
        cls, world: dict[str, Any], agent: dict[str, Any], seed: int, episodes: int, points: int, **rest: Any
    ) -> Self:
        """From tables with a name and options. A world whose seed is "run" is drawn from the run's seed."""
        place, player = dict(world), dict(agent)
        where, who = place.pop("name"), player.pop("name")
        if place.get("seed") == "run":
            place["seed"] = seed
        every = -(-episodes // points)
        return cls(
            where, world_options(where, place, episodes), who, agent_options(who, player), seed, episodes, every, **rest
        )

    @cached_property
    def id(self) -> str:
        """16 hexadecimal digits. 1 and 1.0 are the same value."""
        told = {k: v for k, v in asdict(self).items() if k != "closing" or v}
        content = json.dumps(_plain(told) | {"semantics": SEMANTICS}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    @property
    def run(self) -> dict[str, Any]:
        """What a checkpoint of this cell is told by."""
        return {"cell": self.id, "seed": self.seed, "semantics": SEMANTICS}

    def make_world(self) -> World:
        return named_world(self.world, self.world_options, self.episodes)

    @property
    def has_own_agent(self) -> bool:
        """Whether its agent, or one that is made of, is the user's own."""
        return any(check.is_own(name) for name, _ in parts_of(self.agent, self.agent_options))

    def make_agent(self, world: World) -> Any:
        return named_agent(self.agent, self.agent_options, world).fresh(self.seed)

    def setting(self, drawn: bool = False) -> str:
        """The world with the options that differ from their defaults; drawn: each run draws its own, so no seed."""
        defaults = defaults_of(world_maker(self.world)) | {"episodes": self.episodes}
        said = [f"{k}={_short(v)}" for k, v in self.world_options.items() if k != "seed" and v != defaults.get(k)]
        if "seed" in self.world_options and not drawn:
            said.append(f"seed={self.world_options['seed']}")
        return " ".join([self.world, *said])

    def describe(self) -> str:
        """One line for people."""
        options = ", ".join(f"{k}={_short(v)}" for k, v in _unlike_defaults(self.agent, self.agent_options).items())
        who = f"{self.agent} ({options})" if options else self.agent
        return f"{who} in {self.setting()}, seed {self.seed}, {self.episodes:,} episodes"


def parts_of(name: str, options: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Name and options of an agent; of one that is made of others, those of the others."""
    inner = [dict(v) for v in options.values() if isinstance(v, dict) and "name" in v]
    return [pair for part in inner for pair in parts_of(part.pop("name"), part)] if inner else [(name, options)]


def _unlike_defaults(name: str, options: dict[str, Any]) -> dict[str, Any]:
    try:
        defaults = agent_options(name, {})
    except ValueError:  # composed agents have no defaults for their parts
        defaults = {"criterion": "certificate"}
    return {k: v for k, v in options.items() if k not in defaults or v != defaults[k]}


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(value["name"]) if isinstance(value, dict) and "name" in value else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
