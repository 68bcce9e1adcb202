"""Agents as files: one zip of plain arrays (`.npz`) with a JSON header, no pickle in either direction."""

import json
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._files import write_whole
from ..links import LinearCombination, Link, MultinomialLogit
from ..problem import Problem
from .base import Agent

FORMAT = 1
_LINKS: dict[str, Callable[[], Link]] = {"logit": MultinomialLogit, "linear": LinearCombination}
_SIZES = ("n_states", "n_actions", "horizon", "context_dim")
_FIELDS = (*_SIZES, "context_bound", "weight_bound", "reward_bound", "long_contexts", "rewards")
_ARRAYS = ("support", "available", "known_rewards")
_NAMES = ("state_names", "action_names", "feature_names", "initial_states")


def _leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """(name, array) of every array in nested named tuples."""
    if hasattr(value, "_fields"):
        for field in value._fields:
            yield from _leaves(f"{prefix}.{field}", getattr(value, field))
    elif isinstance(value, np.ndarray):
        yield prefix, value


def _live(agent: Agent) -> Iterator[tuple[str, Any]]:
    """Everything that changes over the agent's life."""
    yield from _leaves("state", agent.state)
    yield from _leaves("plan", agent._out)
    yield from _leaves("path", agent._path)
    yield "context", agent._x


def _describe(agent: Agent, prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """What it takes to construct an agent: a JSON object, and arrays under names that begin with `prefix`. The agents
    it is made of are described in it, each with its own problem where that is another object."""
    options: dict[str, Any] = {}
    for key, value in agent.options.items():
        if isinstance(value, np.ndarray):
            arrays[f"{prefix}option.{key}"] = value
        else:
            options[key] = value
    made = {"agent": agent.name, "seed": agent.seed, "options": options, "room": agent.room}
    parts: dict[str, Any] = {}
    for name, part in agent.parts().items():
        inner = f"{prefix}{name}."
        parts[name] = _describe(part, inner, arrays)
        if part.problem is not agent.problem:
            parts[name]["problem"] = _describe_problem(part.problem, inner, arrays)
    return made | {"parts": parts} if parts else made


def _describe_problem(p: Problem, prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    for name in _ARRAYS:
        if getattr(p, name) is not None:
            arrays[f"{prefix}problem.{name}"] = getattr(p, name)
    return {k: getattr(p, k) for k in _FIELDS + _NAMES} | {"link": p.link.name}


def contents(agent: Agent) -> tuple[dict[str, Any], dict[str, Any]]:
    """(header, arrays) of an agent's file."""
    arrays = dict(_live(agent))
    header = {"noregret": FORMAT} | _describe(agent, "", arrays)
    header["problem"] = _describe_problem(agent.problem, "", arrays)
    header["clock"] = [agent.episode, agent._step, agent._asked, agent._open]
    return header, arrays


def write(agent: Agent, path: Any) -> None:
    header, arrays = contents(agent)
    head = np.frombuffer(json.dumps(header).encode(), np.uint8)
    write_whole(path, lambda file: np.savez(file, header=head, **arrays))


def load(path: Any, link: Link | None = None, expert: Callable[..., Any] | None = None) -> Agent:
    """The agent that `save` wrote, ready to go on. A custom link is code, not data: hand it in again; likewise the
    expert of a `Referral`, where it was a function."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(bytes(arrays.pop("header")).decode())
        version = header["noregret"]
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{path} is not an agent saved by noregret, or it is damaged") from None
    if version != FORMAT:
        raise ValueError(f"{path} has format {version}, this version of noregret reads format {FORMAT}")
    try:
        return _rebuild(header, arrays, link, expert)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} cannot be loaded: {error}") from None


def _rebuild(header: dict[str, Any], arrays: dict[str, Any], link: Link | None, expert: Any) -> Agent:
    return revived(header, arrays, _problem(header["problem"], "", arrays, link), link, expert)


def revived(
    header: dict[str, Any], arrays: dict[str, Any], problem: Problem, link: Link | None = None, expert: Any = None
) -> Agent:
    """The agent with these `contents`, for a problem that is the one it was made for."""
    agent = _construct(header, "", arrays, problem, link, expert)
    for key, array in _live(agent):
        if key not in arrays or arrays[key].shape != array.shape or arrays[key].dtype != array.dtype:
            raise ValueError(f"{key} is missing or has the wrong shape or type")
        if key.startswith("state.") and np.isnan(arrays[key]).any():
            raise ValueError(f"{key} has numbers that are none")
        array[...] = arrays[key]
    agent.episode, agent._step, agent._asked, agent._open = header["clock"]
    return agent


def _problem(spec: dict[str, Any], prefix: str, arrays: dict[str, Any], link: Link | None) -> Problem:
    spec = dict(spec)
    name = spec.pop("link")
    if link is None:
        if name not in _LINKS:
            raise ValueError(f"link must be given, the agent was saved with the custom link {name!r}")
        link = _LINKS[name]()
    if link.name != name:
        raise ValueError(f"link must be the one the agent was saved with, {name!r}, got {link.name!r}")
    masks: dict[str, Any] = {k: arrays.get(f"{prefix}problem.{k}") for k in _ARRAYS}
    spec |= {k: tuple(spec[k]) for k in _NAMES if spec.get(k) is not None}
    return Problem(link=link, **masks, **spec)


def _construct(
    spec: dict[str, Any], prefix: str, arrays: dict[str, Any], problem: Problem, link: Link | None, expert: Any = None
) -> Agent:
    from . import stored_class

    start = f"{prefix}option."
    options = spec["options"] | {k[len(start) :]: v for k, v in arrays.items() if k.startswith(start)}
    parts: dict[str, Any] = {} if expert is None else {"expert": expert}
    for name, part in spec.get("parts", {}).items():
        inner = f"{prefix}{name}."
        own = _problem(part["problem"], inner, arrays, link) if "problem" in part else problem
        parts[name] = _construct(part, inner, arrays, own, link)
    agent = stored_class(spec["agent"]).rebuild(problem, spec["seed"], options, parts)
    agent.restore_room(spec.get("room", 0))
    return agent
