"""Agents as files: plain arrays with a JSON header and a checksum (`_sealed`), no pickle in either direction."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import _checks as check
from .._files import write_whole
from .._sealed import digest, seal, unseal
from ..links import LinearCombination, Link, MultinomialLogit
from ..problem import Problem
from .base import Agent
from .trusted import by_episode, check_clock, check_state, fixed_in, nodes

_LINKS: dict[str, Callable[[], Link]] = {"logit": MultinomialLogit, "linear": LinearCombination}
_SIZES = ("n_states", "n_actions", "horizon", "context_dim")
_FIELDS = (*_SIZES, "context_bound", "weight_bound", "reward_bound", "long_contexts", "rewards")
_ARRAYS = ("support", "available", "known_rewards")
_COUNTS = ("memory", "max_balls", "clusters", "draws")  # options that say how much room to take
_MODEST, _TIMES = 2**25, 16  # bytes that any file may ask for, and how many for each of its own
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
    yield "evidence", agent._evidence


def _describe(agent: Agent, prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """What it takes to construct an agent: a JSON object, and arrays under names that begin with `prefix`. The agents
    it is made of are described in it, each with its own problem where that is another object."""
    options: dict[str, Any] = {}
    for key, value in agent.options.items():
        if isinstance(value, np.ndarray):
            arrays[f"{prefix}option.{key}"] = value
        else:
            options[key] = value
    made = {"agent": agent.name, "seed": agent.seed, "options": options}
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
    """(header, arrays) of an agent's file. Of what is kept for every individual, those met: room is no part of it."""
    arrays, rows = dict(_live(agent)), agent.episode + agent._open
    arrays |= {name: arrays[name][:rows] for name in by_episode(agent.state)}
    header = _describe(agent, "", arrays)
    header["problem"] = _describe_problem(agent.problem, "", arrays)
    header["clock"] = [agent.episode, agent._step, agent._asked, agent._open]
    header["others"] = [int(h) for h in np.flatnonzero(agent._others)]
    header["refuted"], header["caveats"] = agent._refutation, list(agent._caveats)
    if agent.encoder is not None:
        header["encoder"] = agent.encoder.to_dict()
    return header, arrays


def fingerprint(agent: Agent) -> str:
    """SHA-256 over what decides how the agent goes on from here: all of its file but the buffers of the last
    episode."""
    with agent._lock.held:
        header, arrays = contents(agent)
        header["clock"], header["others"] = agent.episode, []
        kept = {name: a for name, a in arrays.items() if name != "context" and not name.startswith(("plan.", "path."))}
        return digest(header, kept)


def write(agent: Agent, path: Any) -> None:
    with agent._lock.held:
        header, arrays = contents(agent)
        write_whole(path, lambda file: seal(file, {"holds": "agent"} | header, arrays))


def load(
    path: Any, link: Link | None = None, expert: Callable[..., Any] | None = None, memory: float | None = None
) -> Agent:
    """The agent that `save` wrote, ready to go on.

    A custom link is code, not data: hand it in again (`link`); likewise the `expert` of a `Referral`, where it was a
    function. memory: bytes that may be taken for what the file asks for; None: 32 MiB, or 16 times the file's length.

    A file that is damaged, cut short, of another program or of a newer version is refused with a sentence; nothing in a
    file is ever run.

    >>> import tempfile
    >>> import numpy as np
    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> x = world.context(seed=0, episode=0)
    >>> agent = nr.PSRLGLM(world.problem, seed=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     agent.save(f"{folder}/agent.npz")
    ...     again = nr.load(f"{folder}/agent.npz")
    >>> again.label, again.seed
    ('psrl-glm', 3)
    >>> np.array_equal(again.begin_episode(x).policy, agent.begin_episode(x).policy)  # the same draw
    True
    """
    header, arrays = unseal(path)
    if header.get("holds") == "live":
        raise ValueError(f"{path} holds an agent with open individuals: read it with noregret.Live.load")
    if header.get("holds") != "agent":
        raise ValueError(f"{path} holds no agent")
    return rebuilt(path, header, arrays, link, expert, memory)


def rebuilt(
    path: Any, header: dict[str, Any], arrays: dict[str, Any], link: Link | None, expert: Any, memory: Any = None
) -> Agent:
    """The agent in a file's `contents`; ValueError where they make none."""
    held = sum(a.nbytes for a in arrays.values())
    limit = max(_MODEST, _TIMES * held) if memory is None else check.positive("memory", memory)
    try:
        _plausible(header, arrays, held)
        with check.budget(limit):
            agent = revived(header, arrays, _problem(header["problem"], "", arrays, link), link, expert)
        _works(agent)
        return agent
    except MemoryError:
        raise ValueError(f"{path} cannot be loaded: it needs more memory than there is") from None
    except Exception as error:  # contents that no agent wrote, or code that was not handed in
        said = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) and error.args else error
        raise ValueError(f"{path} cannot be loaded: {' '.join(str(said).split())[:400]}") from None


def _plausible(header: dict[str, Any], arrays: dict[str, Any], held: int) -> None:
    """Before anything is made for it: whether an agent of the declared sizes can have written so short a file."""
    own = header["problem"]
    S, H, d = own["n_states"], own["horizon"], own["context_dim"]
    shapes = {"plan.policy": (H, S), "plan.values": (H + 1, S), "context": (d,)}
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has the shape {arrays[name].shape}, the problem's sizes ask for {shape}")
    for spec in _specs(header, 0):
        asked = {name: spec["options"].get(name) or 0 for name in _COUNTS}
        for name, value in asked.items():
            if not 0 <= value <= max(10**6, held):
                raise ValueError(f"{name} is {value}, for a file of {held} bytes")


def _specs(spec: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    """The agent described and those it is made of."""
    if depth > 8:
        raise ValueError("agents are made of agents more than eight deep")
    yield spec
    for part in spec.get("parts", {}).values():
        yield from _specs(part, depth + 1)


def revived(
    header: dict[str, Any], arrays: dict[str, Any], problem: Problem, link: Link | None = None, expert: Any = None
) -> Agent:
    """The agent with these `contents`, for a problem that is the one it was made for."""
    agent = _construct(header, "", arrays, problem, link, expert)
    fixed = {f"{key}.{name}" for key, node in nodes("state", agent.state) for name in fixed_in(node)}
    episode, step, asked, opened = header["clock"]
    if (type(episode), type(step), type(asked), type(opened)) != (int, int, bool, bool):
        raise ValueError("the clock is not one")
    if not 0 <= episode < 2**62:
        raise ValueError("the clock, the plan or the path is out of range")
    rows = episode + opened
    agent.make_room(rows - agent.episode)
    met = by_episode(agent.state)
    for key, whole in _live(agent):
        array = whole[:rows] if key in met else whole
        if key not in arrays or arrays[key].shape != array.shape or arrays[key].dtype != array.dtype:
            raise ValueError(f"{key} is missing or has the wrong shape or type")
        if key == "evidence" and not np.isfinite(arrays[key]).all():
            raise ValueError("evidence has numbers that are none")
        if key.startswith("state.") and np.isnan(arrays[key]).any():
            raise ValueError(f"{key} has numbers that are none")
        if key in fixed and not np.array_equal(arrays[key], array):
            raise ValueError(f"{key} is not what the problem and the options make it")
        array[...] = arrays[key]
    for key, node in nodes("state", agent.state):
        check_state(key, node, problem)
    p, path, policy = problem, agent._path, agent._out.policy
    within = ((path.states, p.n_states), (path.actions, p.n_actions), (policy, p.n_actions))
    if not 0 <= step <= p.horizon or any(a.min() < 0 or a.max() >= n for a, n in within):
        raise ValueError("the clock, the plan or the path is out of range")
    if asked and (not opened or step == p.horizon):
        raise ValueError("the clock, the plan or the path is out of range")
    agent._set_clock(episode, step, asked, opened)
    check_clock(agent)
    if opened:
        p.policy(policy, "the plan")
        for h in range(agent._step):
            s, a = int(path.states[h]), int(path.actions[h])
            p.action(a, s)  # the next state may be one that refutes the support
            p.reward(float(path.rewards[h]))
        p.context(agent._x)
    agent._others[_steps_in(header.get("others", []), p.horizon)] = True
    agent._refutation, agent._caveats = _said(header)
    if "encoder" in header:
        from ..live.encoder import Encoder

        agent.encoder = Encoder.from_dict(header["encoder"])
    return agent


def _steps_in(value: Any, horizon: int) -> list[int]:
    if not isinstance(value, list) or any(type(h) is not int or not 0 <= h < horizon for h in value):
        raise ValueError("others must be steps")
    return value


def _said(header: dict[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    """What speaks against the agent, and the conditions of its promises."""
    refuted, caveats = header["refuted"], header["caveats"]
    if not (refuted is None or isinstance(refuted, str)) or not isinstance(caveats, list):
        raise ValueError("refuted and caveats must be sentences")
    if len(caveats) > 100 or not all(isinstance(c, str) and len(c) <= 1000 for c in [refuted or "", *caveats]):
        raise ValueError("refuted and caveats must be sentences")
    return refuted, tuple(caveats)


def _works(agent: Agent) -> None:
    """Have a copy plan for somebody, learn a step and plan again: a ValueError where that leads to no numbers."""
    twin, p = copy_of(agent), agent.problem
    if getattr(twin, "_ask", None) is not None:  # nobody is asked for the sake of a file
        first = np.tile(p.layout.available.argmax(1), (p.horizon, 1))
        twin._ask = lambda x: first  # type: ignore[attr-defined]
    twin._set_clock(agent.episode)
    x = np.full(p.context_dim, min(p.context_bound, 1.0) / p.context_dim)
    for _ in range(2):
        plan, s = twin.begin_episode(x), int(p.starts[0])
        if not np.isfinite(plan.values).all():
            raise ValueError("what it has learned leads to no numbers")
        twin.observe(1.0, int(p.layout.outcomes[s, twin.act(s), 0]))
        twin.end_episode()


def copy_of(agent: Agent) -> Agent:
    """Another agent that will do the same."""
    with agent._lock.held:
        header, arrays = contents(agent)
        kept = {name: np.array(array) for name, array in arrays.items()}
    link = agent.problem.link if agent.problem.link.name not in _LINKS else None
    return revived(json.loads(json.dumps(header)), kept, agent.problem, link, getattr(agent, "_ask", None))


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
    return stored_class(spec["agent"]).rebuild(problem, spec["seed"], options, parts)
