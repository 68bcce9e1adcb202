"""Study files: worlds x agents x episodes x seeds, in TOML. `load` reads one and says where it is wrong."""

import itertools
import re
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from .. import checks as check
from ..simulation.catalogue import agent_options, named_agent, refusal, world_options
from ..storage.mistakes import mistake
from ..worlds import make_world
from .cell import Cell, parts_of
from .grids import MOST_VALUES, at_most, combinations, is_range, values_of


class Entry(BaseModel):
    """A world or an agent: its name, and options with one value, several, or a range."""

    model_config = ConfigDict(extra="allow", strict=True)

    name: str

    def tables(self) -> list[dict[str, Any]]:
        return list(combinations({"name": self.name} | (self.model_extra or {})))


class ClaimedGrowth(BaseModel):
    """What a paper claims about the growth of an agent's regret, for the report to put beside what was measured."""

    model_config = ConfigDict(extra="forbid", strict=True)

    agent: str
    world: str | None = None  # the worlds it is about; all if not said
    source: str
    exponents: dict[str, float]  # option of the world, or "episodes" -> power


class Study(BaseModel):
    """A study as its file has it. Every combination of a world, an agent, a number of episodes and a seed is a cell.

    episodes, seeds   one or several; `seeds = 10` means seeds 0 to 9. A world's option `seed = "run"` draws the world
                      from the run's seed
    points            recorded per cell, evenly spaced; each episode's regret is counted either way
    diagnostics       also record what only the truth can tell (`agents.diagnostics`), and bounds on the regret
    epsilon           count episodes worse than optimal by more than this
    closing           at the end of each run, estimate the gain over the world's rule from what was seen (`closing`)
    unfit             what to do with an agent that is not for a world: "error" or "skip"

    >>> import noregret as nr
    >>> study = nr.studies.Study(
    ...     name="small", episodes=200, seeds=2, agents=[{"name": "psrl-glm"}],
    ...     worlds=[{"name": "clinic"}, {"name": "random-logit", "n_states": [3, 4], "seed": "run"}],
    ... )
    >>> for cell in list(study.cells.values())[::2]:
    ...     print(cell.describe())
    psrl-glm in clinic, seed 0, 200 episodes
    psrl-glm in random-logit n_states=3 seed=0, seed 0, 200 episodes
    psrl-glm in random-logit n_states=4 seed=0, seed 0, 200 episodes
    >>> len(study.cells)
    6
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)
    title: str = ""
    description: str = ""
    episodes: Any
    seeds: Any = Field(default=1, validate_default=True)
    points: int = Field(default=400, ge=1, le=100_000)
    diagnostics: bool = False
    epsilon: float | None = Field(default=None, gt=0)
    closing: bool = False
    unfit: Literal["error", "skip"] = "error"
    worlds: list[Entry] = Field(min_length=1)
    agents: list[Entry] = Field(min_length=1)
    claims: list[ClaimedGrowth] = []

    @field_validator("episodes")
    @classmethod
    def _counts(cls, value: Any) -> list[int]:
        return [check.integer("episodes", v) for v in values_of(value)]

    @field_validator("seeds")
    @classmethod
    def _seeds(cls, value: Any) -> list[int]:
        several = isinstance(value, list) or is_range(value)
        made = values_of(value) if several else list(range(min(check.integer("seeds", value), MOST_VALUES + 1)))
        if len(made) > MOST_VALUES:
            raise ValueError(f"seeds must be at most {MOST_VALUES:,}")
        return [check.integer("seeds", v, 0) for v in made]

    @cached_property
    def _expanded(self) -> tuple[dict[str, tuple[Cell, str]], list[str]]:
        """(id -> cell and its setting, in the order of the file and each once; sentences about what was left out)."""
        made: dict[str, tuple[Cell, str]] = {}
        left: dict[str, None] = {}
        unfit: dict[str, str | None] = {}
        rest = {"diagnostics": self.diagnostics, "epsilon": self.epsilon, "closing": self.closing}
        places = [table for entry in self.worlds for table in entry.tables()]
        players = [table for entry in self.agents for table in entry.tables()]
        at_most(len(places) * len(players) * len(self.episodes) * len(self.seeds), "a study")
        for place, player, episodes, seed in itertools.product(places, players, self.episodes, self.seeds):
            cell = Cell.of(place, player, seed, episodes, self.points, **rest)
            setting = cell.setting(place.get("seed") == "run")
            key = repr((cell.world, cell.agent, cell.agent_options, _shape(cell.world_options)))
            if key not in unfit:
                unfit[key] = _refusal(cell)
            if unfit[key] is None:
                made.setdefault(cell.id, (cell, setting))
            else:
                left[f"{cell.agent} is not for {setting}: {unfit[key]}"] = None
        if left and self.unfit == "error":
            raise ValueError(f'{next(iter(left))} (unfit = "skip" leaves such cells out)')
        return made, list(left)

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """id -> cell, in the order of the file."""
        return {key: cell for key, (cell, _) in self._expanded[0].items()}

    @cached_property
    def settings(self) -> dict[str, str]:
        """id -> the cell's world without what differs between runs: by this, cells are compared and averaged."""
        return {key: setting for key, (_, setting) in self._expanded[0].items()}

    def rehearse(self) -> None:
        """Make one agent of every kind in one world of every kind, so that a value no agent can take is found before
        anything runs. May compile."""
        kinds = {repr((c.world, _shape(c.world_options), c.agent, c.agent_options)): c for c in self.cells.values()}
        for cell in kinds.values():
            world = make_world(cell.world, **cell.world_options)
            for name, options in parts_of(cell.agent, cell.agent_options):
                try:
                    named_agent(name, options, world)
                except ValueError as error:
                    raise ValueError(f"agent {name} in {cell.setting()}: {error}") from None

    @property
    def left_out(self) -> list[str]:
        """Combinations left out because the agent is not for the world, one sentence each."""
        return self._expanded[1]


def _shape(options: dict[str, Any]) -> Any:
    return {k: v for k, v in options.items() if k != "seed"}


def _refusal(cell: Cell) -> str | None:
    """Why the agent is not for the world."""
    return refusal(cell.agent, cell.agent_options, make_world(cell.world, **cell.world_options))


def load(path: Any) -> Study:
    """The study in a TOML file, checked: every world and agent exists and takes the options it is given.

    A mistake is a ValueError with the line, the key and what is allowed. Values of agents' options are looked at by
    `Study.rehearse`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import noregret as nr
    >>> text = '''
    ... name = "small"
    ... episodes = [100, 200]
    ... seeds = 3
    ... [[worlds]]
    ... name = "clinic"
    ... [[agents]]
    ... name = "glm-orl"
    ... bonus_scale = { from = 0.01, to = 1, steps = 3, scale = "log" }
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "small.toml"
    ...     _ = file.write_text(text)
    ...     study = nr.studies.load(file)
    >>> len(study.cells)  # 1 world, 3 agents, 2 numbers of episodes, 3 seeds
    18
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"{path} is not a study file: its values are nested too deeply") from None
    except ValueError as error:  # TOML, UTF-8, or a number that is too long for Python
        strange = isinstance(error, tomllib.TOMLDecodeError | UnicodeDecodeError)
        why = str(error) if strange else "a number in it has thousands of digits"
        raise ValueError(f"{path} is not a TOML file: {why}") from None
    try:
        study = Study.model_validate(table)
    except ValidationError as error:
        found = [_sentence(path, text, e["loc"], e["msg"]) for e in error.errors()]
        raise ValueError("\n".join(found)) from None
    for kind, entries in (("worlds", study.worlds), ("agents", study.agents)):
        for i, entry in enumerate(entries):
            _check_entry(path, text, kind, i, entry)
    try:
        study.cells  # noqa: B018  (expands it)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return study


def _check_entry(path: Any, text: str, kind: str, i: int, entry: Entry) -> None:
    """Names and options of one entry, key by key, so that the sentence can say where."""
    fill = world_options if kind == "worlds" else agent_options
    options = entry.model_extra or {}
    key = "name"
    try:
        for key in options:
            values_of(options[key])  # a range that is none, or too many values
        key = "name"
        for table in entry.tables():
            fill(entry.name, {k: v for k, v in table.items() if k != "name"})
    except ValueError as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        named = next((k for k in options if repr(k) in said), key)
        raise ValueError(_sentence(path, text, (kind, i, named), said)) from None


def _sentence(path: Any, text: str, loc: tuple[Any, ...], message: str) -> str:
    return mistake(path, line_of(text, loc), loc, message, (ClaimedGrowth if len(loc) > 1 else Study).model_fields)


def line_of(text: str, loc: tuple[Any, ...]) -> int | None:
    """The line, from 1, where the key at `loc` stands: the i-th [[table]] and its `key = `, or the key at the top."""
    kind, lines, head = str(loc[0]), list(enumerate(text.splitlines(), 1)), None
    key = kind
    if len(loc) > 1 and isinstance(loc[1], int):
        heads = [n for n, line in lines if re.match(rf"\s*\[\[\s*{kind}\s*\]\]", line)]
        if loc[1] >= len(heads):
            return line_of(text, loc[:1])
        head, key = heads[loc[1]], str(loc[2]) if len(loc) > 2 else ""
    for n, line in lines[head or 0 :]:
        if re.match(r"\s*\[", line) and not (head and re.match(rf"\s*\[\s*{kind}\.", line)):
            break
        if key and re.match(rf"""\s*["']?{re.escape(key)}["']?\s*[.=]""", line):
            return n
    return head
