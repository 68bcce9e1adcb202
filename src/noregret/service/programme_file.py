"""Programme files: one agent, one house rule, one journal under a name, in TOML or JSON. `load_programme` reads one and
says where it is wrong, with the line and the key."""

import hashlib
import json
import re
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from .. import checks as check
from ..agents import make_agent
from ..agents.base import Agent
from ..agents.composed.referral import CRITERIA, Referral
from ..agents.files import declared_in, load
from ..agents.registry import agent_class, why_not
from ..live.several import Live
from ..problem.encoder import Encoder
from ..problem.links import LinearCombination, MultinomialLogit
from ..problem.problem import Problem
from ..simulation.catalogue import agent_options
from ..storage.mistakes import mistake
from .house import House
from .standing import Rules

_LINKS = {"logit": MultinomialLogit, "linear": LinearCombination}
_OWN = ("link", "available", "agent_file")  # keys of [problem] that `Problem` does not take as they are
AT_ONCE = 4  # people whom one event of a journal teaches the agent: 1 to 2 ms at the medium size


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class About(_Section):
    """[programme]. seed: of the agent and of the house rule."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)
    title: str = Field(default="", max_length=200)
    seed: int = Field(default=0, ge=0, lt=2**63)


class ProblemTable(_Section):
    """[problem]: the arguments of `noregret.Problem`, or the file of an agent that has one.

    Sizes may be left out where names say them; context_dim where there is an encoder. link: "logit" or "linear".
    available: {state: actions}, states that are not named have all."""

    agent_file: str | None = None
    n_states: int | None = None
    n_actions: int | None = None
    horizon: int | None = None
    context_dim: int | None = None
    state_names: list[str] | None = None
    action_names: list[str] | None = None
    feature_names: list[str] | None = None
    initial_states: list[int | str] | None = None
    link: Literal["logit", "linear"] = "logit"
    context_bound: float | None = None
    weight_bound: float | None = None
    reward_bound: float | None = None
    rewards: Literal["linear", "logistic"] = "linear"
    reward_range: list[float] | None = None
    long_contexts: Literal["raise", "rescale"] = "raise"
    support: Any = None
    available: Any = None


class AgentTable(BaseModel):
    """[agent]: a name, and options of it."""

    model_config = ConfigDict(extra="allow", strict=True)

    name: str


class HouseTable(_Section):
    """[house]. rule: {state: action} or {state: {action: probability}}; floor: `House`."""

    rule: dict[str, Any]
    floor: float = Field(default=0.0, ge=0.0, le=1.0)


class ReferralTable(_Section):
    """[referral]: above the threshold the house rule decides; criterion: `noregret.Referral`."""

    threshold: float = Field(ge=0.0)
    expert: Literal["house"] = "house"
    criterion: str = "certificate"

    @field_validator("criterion")
    @classmethod
    def _one_of(cls, value: str) -> str:
        return check.one_of("criterion", value, CRITERIA)


class LearningTable(_Section):
    """[learning]. order: of `noregret.Live`; wait: how many more people are to begin before somebody who ended is
    learned, "close": until that is asked for."""

    order: Literal["begin", "end"] = "begin"
    wait: int | Literal["close"] = 0

    @field_validator("wait")
    @classmethod
    def _from_0(cls, value: Any) -> Any:
        return value if value == "close" else check.integer("wait", value, 0)


class ServiceTable(_Section):
    """[service].

    deadline_ms       from arrival until the house rule answers instead of the agent
    queue             requests that may wait; one more is refused with 503
    snapshot_every    events between snapshots; snapshot_minutes: at most so long between them, where anything happened
    shadow            the house rule decides throughout, the agent beside it in silence
    draws             `noregret.Live`: plans drawn at every `begin` for probabilities; 0: none, unless they are exact"""

    deadline_ms: float = Field(default=25.0, gt=0.0, le=60_000.0)
    queue: int = Field(default=4096, ge=1, le=1_000_000)
    snapshot_every: int = Field(default=20_000, ge=10, le=10_000_000)
    snapshot_minutes: float = Field(default=10.0, gt=0.0)
    shadow: bool = False
    draws: int = Field(default=0, ge=0, le=10_000)


class Settings(BaseModel):
    """A programme as its file has it; `problem`, `house` and `live` make what it speaks of.

    >>> table = {
    ...     "programme": {"name": "demo"},
    ...     "problem": {"state_names": ["ill", "well"], "action_names": ["wait", "drug"], "horizon": 3,
    ...                 "context_dim": 2, "weight_bound": 2.0, "reward_bound": 1.0},
    ...     "agent": {"name": "certified-psrl"},
    ...     "house": {"rule": {"ill": "drug", "well": "wait"}},
    ... }
    >>> settings = programme_from(table)
    >>> settings.programme.name, settings.made_problem().n_states, settings.service.deadline_ms
    ('demo', 2, 25.0)
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    programme: About
    problem: ProblemTable
    encoder: dict[str, Any] | None = None
    agent: AgentTable | None = None
    house: HouseTable
    referral: ReferralTable | None = None
    learning: LearningTable = LearningTable()
    service: ServiceTable = ServiceTable()

    @model_validator(mode="after")
    def _agent_or_file(self) -> "Settings":
        if (self.agent is None) == (self.problem.agent_file is None):
            raise ValueError("one of [agent] and problem.agent_file must be given, and not both")
        return self

    @property
    def name(self) -> str:
        return self.programme.name

    def table(self) -> dict[str, Any]:
        """All of it, for JSON; `programme_from` reads it."""
        return self.model_dump(mode="json", exclude_none=True)

    def identity(self) -> str:
        """SHA-256 of what the agent depends on: a journal is of one agent."""
        kept = {k: v for k, v in self.table().items() if k in ("problem", "encoder", "agent", "referral")}
        kept |= {"seed": self.programme.seed, "order": self.learning.order, "draws": self.service.draws}
        kept |= {"house": self.house.rule} if self.referral is not None else {}
        kept |= {"problem": self._file} if self._file is not None else {}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()

    @cached_property
    def _file(self) -> str | None:
        """SHA-256 of the agent's file: another one under its name is another agent, and it may be moved."""
        path = self.problem.agent_file
        return None if path is None else hashlib.sha256(Path(path).read_bytes()).hexdigest()

    def made_encoder(self) -> Encoder | None:
        if self.problem.agent_file is not None:
            return declared_in(self.problem.agent_file)[1]
        return None if self.encoder is None else Encoder.from_dict(self.encoder)

    def made_problem(self) -> Problem:
        """Of the file, or of the agent's. Compiles nothing."""
        told = self.problem
        if told.agent_file is not None:
            return declared_in(told.agent_file)[0]
        given = {k: v for k, v in told.model_dump(exclude_none=True).items() if k not in _OWN}
        given = {k: tuple(v) if k.endswith("_names") or k in _TUPLES else v for k, v in given.items()}
        for size, names in (("n_states", "state_names"), ("n_actions", "action_names")):
            if size not in given and names in given:
                given[size] = len(given[names])
        if self.encoder is not None:
            encoder = Encoder.from_dict(self.encoder)
            given = {"context_dim": encoder.context_dim, "feature_names": encoder.feature_names} | given
        for size in ("n_states", "n_actions", "horizon", "context_dim"):
            if size not in given:
                raise ValueError(f"{size} must be given")
        if told.available is not None:
            given["available"] = _available(told.available, given)
        return Problem(**given, link=_LINKS[told.link]())

    def made_rules(self, problem: Problem, house: House) -> Rules:
        """What requests are held against."""
        if self.problem.agent_file is not None:
            masks = declared_in(self.problem.agent_file)[2]
        else:
            assert self.agent is not None
            masks = bool(getattr(agent_class(self.agent.name), "masks", False))
        expert = None if self.referral is None else house.policy
        wait = None if self.learning.wait == "close" else int(self.learning.wait)
        return Rules(problem, self.made_encoder(), wait, masks, expert)

    def made_house(self, problem: Problem) -> House:
        return House(problem, self.house.rule, self.house.floor, self.programme.seed)

    def live_options(self) -> dict[str, Any]:
        """Of the `Live` of a new journal, which the journal's first event keeps."""
        own = {"draws": self.service.draws, "order": self.learning.order, "audit": False, "rows": False}
        return own | {"at_once": AT_ONCE}

    def made_live(self, options: dict[str, Any] | None = None) -> Live:
        """A new agent under a new `Live` with these options, by default `live_options`. Compiles, which may take a
        minute."""
        if self.problem.agent_file is not None:
            agent: Agent = load(self.problem.agent_file)
        else:
            assert self.agent is not None
            problem = self.made_problem()
            agent = make_agent(self.agent.name, problem, seed=self.programme.seed, **(self.agent.model_extra or {}))
            agent.encoder = self.made_encoder()
        if self.referral is not None:
            encoder = agent.encoder
            expert = self.made_house(agent.problem).policy
            agent = Referral(agent, expert, self.referral.threshold, self.referral.criterion)
            agent.encoder = encoder
        return Live(agent, **(self.live_options() if options is None else options))


_TUPLES = ("initial_states", "reward_range")


def _available(told: Any, given: dict[str, Any]) -> Any:
    """Flags [S, A] of {state: actions}, or as given."""
    if not isinstance(told, dict):
        return told
    names = Problem(
        given["n_states"], given["n_actions"], 1, 1, weight_bound=1.0, reward_bound=1.0,
        state_names=given.get("state_names"), action_names=given.get("action_names"),
    )  # fmt: skip
    made = [[True] * names.n_actions for _ in range(names.n_states)]
    for state, actions in told.items():
        s = names.state(int(state) if state.isdigit() else state, "available: each key")
        allowed = {names.action(a, name="available: it") for a in actions}
        made[s] = [a in allowed for a in range(names.n_actions)]
    return made


# Reading ----------------------------------------------------------------------------------------------------------
def load_programme(path: Any) -> Settings:
    """The programme in a .toml or .json file, checked; a mistake is a ValueError with the line and the key. An
    `agent_file` is looked for beside it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        table = json.loads(text) if str(path).endswith(".json") else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "JSON" if str(path).endswith(".json") else "TOML"
        raise ValueError(f"{path} is not a {kind} file: {error}") from None
    return programme_from(table, path, text)


def programme_from(table: Any, path: Any = "programme", text: str = "") -> Settings:
    """The programme in a table. path, text: what sentences about it name, and where they find the line."""
    if not isinstance(table, dict):
        raise ValueError(f"{path} must be a table, got {check.shown(table)}")
    told = table.get("problem")
    if text and isinstance(told, dict) and isinstance(told.get("agent_file"), str):
        beside = Path(path).parent / told["agent_file"]
        table = table | {"problem": told | {"agent_file": str(beside)}}
    try:
        made = Settings.model_validate(table)
    except ValidationError as error:
        raise ValueError("\n".join(_sentence(path, text, e["loc"], e["msg"]) for e in error.errors())) from None
    try:
        json.dumps(table, allow_nan=False)  # it goes into the journal
    except ValueError:
        raise ValueError(f"{path}: numbers must be finite, one in [problem], [agent] or [encoder] is not") from None
    except TypeError as error:  # TOML has dates
        raise ValueError(f"{path}: values must be numbers, texts, lists and tables: {error}") from None
    encoded = "encoder" if made.encoder is not None else "problem"
    for section, make in ((encoded, made.made_encoder), ("problem", made.made_problem), ("agent", _agent_of(made))):
        _tried(path, text, table, section, make)
    problem = made.made_problem()
    house = _tried(path, text, table, "house", lambda: made.made_house(problem))
    if made.referral is not None:
        _tried(path, text, table, "house", lambda: house.policy)
    made.identity()  # of the agent's file as it is now
    return made


def _agent_of(made: Settings) -> Any:
    def fits() -> None:
        if made.agent is None:
            return
        agent_options(made.agent.name, made.agent.model_extra or {})
        why = why_not(made.agent.name, made.made_problem())
        if why is not None:
            raise ValueError(why)

    return fits


def _tried(path: Any, text: str, table: Any, section: str, make: Any) -> Any:
    """What `make` makes; its ValueError with the place of the key that it names first."""
    try:
        return make()
    except (ValueError, OSError) as error:
        said = str(error)
        keys = table.get(section) if isinstance(table.get(section), dict) else {}
        named = [k for k in keys if re.search(rf"(^|\W){re.escape(str(k))}(\W|$)", said)]
        usual = {"agent": "name"}.get(section) or ("agent_file" if "agent_file" in keys else None)
        first = min(named, key=lambda k: said.index(str(k)), default=usual)
        raise ValueError(_sentence(path, text, (section,) if first is None else (section, first), said)) from None


def _sentence(path: Any, text: str, loc: tuple[Any, ...], message: str) -> str:
    return mistake(path, line_of(text, loc), loc, message, _keys(loc))


def _keys(loc: tuple[Any, ...]) -> list[str]:
    """Those known where `loc` is."""
    model: Any = Settings if len(loc) <= 1 else Settings.model_fields[loc[0]].annotation
    inner = [a for a in getattr(model, "__args__", ()) if a is not type(None)]
    return list(getattr(inner[0] if inner else model, "model_fields", {}))


def line_of(text: str, loc: tuple[Any, ...]) -> int | None:
    """The line, from 1, where the key at `loc` stands, or that of the table it would be in; TOML and JSON."""
    found = None
    lines = list(enumerate(text.splitlines(), 1))
    at = 0
    path = [str(k) for k in loc if not isinstance(k, int)]
    for depth, key in enumerate(path):
        name = re.escape(key)
        whole = r"\.".join(re.escape(k) for k in path[: depth + 1])
        here = rf"""\s*\[\s*{whole}\s*\]|\s*[{{,]?\s*["']?{name}["']?\s*[.=:]"""
        for n, line in lines[at:]:
            if depth and re.match(r"\s*\[", line) and not re.match(rf"\s*\[\s*{re.escape(path[0])}\b", line):
                break
            if re.match(here, line) or (depth and re.search(rf"""[{{,]\s*["']?{name}["']?\s*[=:]""", line)):
                found, at = n, n - 1 if depth else n
                break
    return found
