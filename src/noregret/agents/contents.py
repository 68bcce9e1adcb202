"""What an agent's file holds: plain arrays and a JSON header, sealed with a checksum. `agents.files` reads it back."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..problem.design import Design, RewardDesign
from ..problem.masks import barred
from ..problem.problem import Problem
from ..storage.archive import digest, seal
from ..storage.atomic import write_whole
from .limits import named
from .lottery import NONE

SIZES = ("n_states", "n_actions", "horizon", "context_dim")
FIELDS = (*SIZES, "context_bound", "weight_bound", "reward_bound", "long_contexts", "rewards")
ARRAYS = ("support", "available", "known_rewards")
NAMES = ("state_names", "action_names", "feature_names", "initial_states")
DESIGNS = {"design": Design, "reward_design": RewardDesign}
DESIGN_ARRAYS, DESIGN_NAMES = ("features", "block", "bound", "moderators"), ("names", "block_names")


def leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """(name, array) of every array in nested named tuples."""
    if hasattr(value, "_fields"):
        for field in value._fields:
            yield from leaves(f"{prefix}.{field}", getattr(value, field))
    elif isinstance(value, np.ndarray):
        yield prefix, value


def carried(agent: Any) -> Iterator[tuple[str, Any]]:
    """Everything that changes over the agent's life."""
    yield from leaves("state", agent.state)
    drawn = len(agent._out.plans) > 0  # without a lottery there is nothing in those two
    yield from (kept for kept in leaves("plan", agent._out) if drawn or kept[0] not in ("plan.plans", "plan.floor"))
    yield from leaves("path", agent._path)
    yield "context", agent._x
    yield "evidence", agent.evidence


def described_class(agent: Any) -> dict[str, str]:
    """{"class": "module:Class"} of an agent whose class is not the library's; it is said to people, never imported."""
    cls = type(agent)
    return {} if cls.__module__.partition(".")[0] == "noregret" else {"class": f"{cls.__module__}:{cls.__qualname__}"}


def _describe(agent: Any, prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """What it takes to construct an agent: a JSON object, and arrays under names that begin with `prefix`. The agents
    it is made of are described in it, each with its own problem where that is another object."""
    options: dict[str, Any] = {}
    for key, value in agent.options.items():
        if key in NONE and value == NONE[key]:
            continue
        if isinstance(value, np.ndarray):
            arrays[f"{prefix}option.{key}"] = value
        else:
            options[key] = value
    made = {"agent": agent.name, "seed": agent.seed, "options": options} | described_class(agent)
    parts: dict[str, Any] = {}
    for name, part in agent.parts().items():
        inner = f"{prefix}{name}."
        parts[name] = _describe(part, inner, arrays)
        if part.problem is not agent.problem:
            parts[name]["problem"] = _describe_problem(part.problem, inner, arrays)
    return made | {"parts": parts} if parts else made


def _describe_problem(p: Problem, prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    for name in ARRAYS:
        if getattr(p, name) is not None:
            arrays[f"{prefix}problem.{name}"] = getattr(p, name)
    made = {k: getattr(p, k) for k in FIELDS + NAMES} | {"link": p.link.name}
    if not p.scale.plain:
        made["reward_range"] = list(p.reward_range)
    for name in DESIGNS:
        design = getattr(p, name)
        if design is not None:
            kept = {k: getattr(design, k) for k in DESIGN_ARRAYS}
            arrays |= {f"{prefix}problem.{name}.{k}": array for k, array in kept.items() if array is not None}
            made[name] = {k: list(getattr(design, k)) for k in DESIGN_NAMES}
    return made


def contents(agent: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(header, arrays) of an agent's file. Of what is kept for every individual, those met: room is no part of it."""
    arrays, rows = dict(carried(agent)), agent.episode + agent.is_open
    arrays |= {name: arrays[name][:rows] for name in named(agent.state, "by_episode")}
    header = _describe(agent, "", arrays)
    header["problem"] = _describe_problem(agent.problem, "", arrays)
    header["clock"] = [agent.episode, agent._step, agent._asked, agent.is_open]
    header["others"] = [int(h) for h in np.flatnonzero(agent._others)]
    away = barred(agent.problem, agent.mask) if agent.is_open else None
    if away is not None:
        header["unavailable"] = away  # to the person of the open episode
    header["refuted"], header["caveats"] = agent._refutation, list(agent._caveats)
    if agent.encoder is not None:
        header["encoder"] = agent.encoder.to_dict()
    return header, arrays


def fingerprint(agent: Any) -> str:
    """SHA-256 over what decides how the agent goes on from here: all of its file but the buffers of the last
    episode."""
    with agent.lock.held:
        header, arrays = contents(agent)
        header["clock"], header["others"] = agent.episode, []
        header.pop("unavailable", None)
        kept = {name: a for name, a in arrays.items() if name != "context" and not name.startswith(("plan.", "path."))}
        return digest(header, kept)


def write(agent: Any, path: Any) -> None:
    with agent.lock.held:
        header, arrays = contents(agent)
        write_whole(path, lambda file: seal(file, {"holds": "agent"} | header, arrays))
