"""Agents from files: plain arrays with a JSON header and a checksum (`storage.archive`), no pickle either way."""

import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import checks as check
from ..problem.encoder import Encoder
from ..problem.links import LinearCombination, Link, MultinomialLogit
from ..problem.masks import from_barred
from ..problem.problem import Problem
from ..storage.archive import unseal
from .base import Agent
from .contents import ARRAYS, DESIGN_ARRAYS, DESIGN_NAMES, DESIGNS, NAMES, carried, contents, described_class
from .controls import first_actions
from .limits import check_clock, check_state, named, nodes
from .registry import own_class, stored_class

Table = dict[str, Any]  # a file's header, or a part of it; or its arrays, by name
Own = dict[str, type[Agent]]  # classes that are not the library's, by the names of their agents

_LINKS: dict[str, Callable[[], Link]] = {"logit": MultinomialLogit, "linear": LinearCombination}
_COUNTS = ("memory", "max_balls", "clusters", "draws", "plans")  # options that say how much room to take
_OUT_OF_RANGE = "the clock, the plan or the path is out of range"
_MODEST, _TIMES = 2**25, 16  # bytes that any file may ask for, and how many for each of its own


def load(
    path: Any,
    link: Link | None = None,
    expert: Callable[..., Any] | None = None,
    memory: float | None = None,
    agent: Any = None,
) -> Agent:
    """The agent that `save` wrote, ready to go on.

    A custom link is code, not data: hand it in again (`link`); likewise, where it was a function, the expert of a
    `Referral` or the baseline of a `Conservative` (`expert`), and the class of an agent of your own (`agent`: a class
    derived from `nr.Agent`, its name as "module:Class", or a list of these). memory: bytes that may be taken for what
    the file asks for; None: 32 MiB, or 16 times the file's length.

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
    return rebuilt(path, header, arrays, link, expert, memory, agent)


def rebuilt(
    path: Any, header: Table, arrays: Table, link: Link | None, expert: Any, memory: Any = None, agent: Any = None
) -> Agent:
    """The agent in a file's `contents`; ValueError where they make none. agent: classes of the user's own, as `load`
    has them; whatever a file says, no other is imported."""
    given = [] if agent is None else list(agent) if isinstance(agent, list | tuple) else [agent]
    own = {cls.name: cls for cls in map(own_class, given)}
    held = sum(a.nbytes for a in arrays.values())
    limit = max(_MODEST, _TIMES * held) if memory is None else check.positive("memory", memory)
    try:
        _plausible(header, arrays, held)
        made = check.within_budget(
            limit, lambda: revived(header, arrays, _problem(header["problem"], "", arrays, link), link, expert, own)
        )
        _works(made)
        return made
    except MemoryError:
        raise ValueError(f"{path} cannot be loaded: it needs more memory than there is") from None
    except Exception as error:  # contents that no agent wrote, or code that was not handed in
        said = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) and error.args else error
        raise ValueError(f"{path} cannot be loaded: {' '.join(str(said).split())[:400]}") from None


def declared_in(path: Any, link: Link | None = None) -> tuple[Problem, Encoder | None, bool]:
    """The problem of the agent in a file, its encoder, and whether it surely plans for people who cannot get every
    action; without making the agent: nothing is compiled."""
    header, arrays = unseal(path)
    try:
        problem = _problem(header["problem"], "", arrays, link)
        encoder = Encoder.from_dict(header["encoder"]) if "encoder" in header else None
        masks = not header.get("parts") and "class" not in header and stored_class(header["agent"]).masks
        return problem, encoder, masks
    except Exception as error:  # contents that no agent wrote
        raise ValueError(f"{path} cannot be loaded: {' '.join(str(error).split())[:400]}") from None


def _plausible(header: Table, arrays: Table, held: int) -> None:
    """Before anything is made for it: whether an agent of the declared sizes can have written so short a file."""
    own = header["problem"]
    S, H, d = own["n_states"], own["horizon"], own["context_dim"]
    shapes = {"plan.policy": (H, S), "plan.values": (H + 1, S), "context": (d,)}
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has the shape {arrays[name].shape}, the problem's sizes ask for {shape}")
    for spec in _specs(header):
        for name in _COUNTS:
            value = spec["options"].get(name) or 0
            if not 0 <= value <= max(10**6, held):
                raise ValueError(f"{name} is {value}, for a file of {held} bytes")


def _specs(spec: Table, depth: int = 0) -> Iterator[Table]:
    """The agent described and those it is made of."""
    if depth > 8:
        raise ValueError("agents are made of agents more than eight deep")
    yield spec
    for part in spec.get("parts", {}).values():
        yield from _specs(part, depth + 1)


def revived(
    header: Table, arrays: Table, problem: Problem, link: Link | None = None, expert: Any = None, own: Own | None = None
) -> Agent:
    """The agent with these `contents`, for a problem that is the one it was made for."""
    told = [spec["agent"] for spec in _specs(header) if "class" in spec]
    for name, cls in (own or {}).items():
        if name not in told:
            raise ValueError(f"agent: it holds no agent of your own called {name!r} ({cls.__name__})")
    agent = _construct(header, "", arrays, problem, link, own or {}, expert)
    fixed = named(agent.state, "fixed")
    episode, step, asked, opened = header["clock"]
    if (type(episode), type(step), type(asked), type(opened)) != (int, int, bool, bool):
        raise ValueError("the clock is not one")
    if not 0 <= episode < 2**62:
        raise ValueError(_OUT_OF_RANGE)
    rows = episode + opened
    agent.make_room(rows - agent.episode)
    met = named(agent.state, "by_episode")
    for key, whole in carried(agent):
        array = whole[:rows] if key in met else whole
        if key not in arrays or arrays[key].shape != array.shape or arrays[key].dtype != array.dtype:
            raise ValueError(f"{key} is missing or has the wrong shape or type")
        lacks = ~np.isfinite(arrays[key]) if key == "evidence" else np.isnan(arrays[key])
        if key.startswith(("state.", "evidence")) and lacks.any():
            raise ValueError(f"{key} has numbers that are none")
        if key in fixed and not np.array_equal(arrays[key], array):
            raise ValueError(f"{key} is not what the problem and the options make it")
        array[...] = arrays[key]
    for key, node in nodes("state", agent.state):
        check_state(key, node, problem)
    p, path, (policy, _, plans, floor) = problem, agent._path, agent._out
    within = ((path.states, p.n_states), (path.actions, p.n_actions), (policy, p.n_actions), (plans, p.n_actions))
    outside = not 0 <= step <= p.horizon or any(a.size and (a.min() < 0 or a.max() >= n) for a, n in within)
    outside = outside or not 0.0 <= floor[0] <= 1.0
    if outside or (asked and (not opened or step == p.horizon)):
        raise ValueError(_OUT_OF_RANGE)
    agent._set_clock(episode, step, asked, opened)
    check_clock(agent)
    if opened:
        for one in (policy, *plans):
            p.policy(one, "the plan")
        agent._mask[...] = from_barred(p, header.get("unavailable"))
        agent.check_open()
        for h in range(agent._step):
            s, a = int(path.states[h]), int(path.actions[h])
            agent._open_action(a, s)  # the next state may be one that refutes the support
            p.reward(p.scale.outside(float(path.rewards[h])))
        p.context(agent._x)
    agent._others[_steps_in(header.get("others", []), p.horizon)] = True
    agent._refutation, agent._caveats = _said(header)
    if "encoder" in header:
        agent.encoder = Encoder.from_dict(header["encoder"])
    return agent


def _steps_in(value: Any, horizon: int) -> list[int]:
    if not isinstance(value, list) or any(type(h) is not int or not 0 <= h < horizon for h in value):
        raise ValueError("others must be steps")
    return value


def _said(header: Table) -> tuple[str | None, tuple[str, ...]]:
    """What speaks against the agent, and the conditions of its promises."""
    refuted, caveats = header["refuted"], header["caveats"]
    few = (refuted is None or isinstance(refuted, str)) and isinstance(caveats, list) and len(caveats) <= 100
    if not few or not all(isinstance(c, str) and len(c) <= 1000 for c in [refuted or "", *caveats]):
        raise ValueError("refuted and caveats must be sentences")
    return refuted, tuple(caveats)


def _works(agent: Agent) -> None:
    """Have a copy plan for somebody, learn a step and plan again: a ValueError where that leads to no numbers."""
    twin, p = copy_of(agent, ask=False), agent.problem
    twin._set_clock(agent.episode)
    x = np.full(p.context_dim, min(p.context_bound, 1.0) / p.context_dim)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # nobody like x may ever come: what refutes the copy is no news
        for _ in range(2):
            plan, s = twin.begin_episode(x), int(p.starts[0])
            if not np.isfinite(plan.values).all():
                raise ValueError("what it has learned leads to no numbers")
            twin.observe(p.reward_range[1], int(p.layout.outcomes[s, twin.act(s), 0]))
            twin.end_episode()


def copy_of(agent: Agent, ask: bool = True) -> Agent:
    """Another agent that will do the same. ask=False: where it has an expert who is a function, the copy asks nobody,
    and takes the first available action for what they say."""
    with agent.lock.held:
        header, arrays = contents(agent)
        kept = {name: np.array(array) for name, array in arrays.items()}
    link = agent.problem.link if agent.problem.link.name not in _LINKS else None
    made = revived(json.loads(json.dumps(header)), kept, agent.problem, link, agent._ask, own_classes(agent))
    if made.asks_function and not ask:
        first = first_actions(agent.problem)
        made._ask = lambda x: first
    return made


def handed_in(agent: Agent) -> Table:
    """What `load` must be given to read this agent's file: code, which no file holds."""
    link, own = agent.problem.link, list(own_classes(agent).values())
    return {"link": link if link.name not in _LINKS else None, "expert": agent._ask, "agent": own or None}


def own_classes(agent: Any) -> Own:
    """The classes of an agent, and of those it is made of, that are not the library's."""
    parts = agent.parts().values() if isinstance(agent, Agent) else ()
    made = {name: cls for part in parts for name, cls in own_classes(part).items()}
    return made | ({agent.name: type(agent)} if isinstance(agent, Agent) and described_class(agent) else {})


def _problem(spec: Table, prefix: str, arrays: Table, link: Link | None) -> Problem:
    spec = dict(spec)
    name = spec.pop("link")
    if link is None:
        if name not in _LINKS:
            raise ValueError(f"link must be given, the agent was saved with the custom link {name!r}")
        link = _LINKS[name]()
    if link.name != name:
        raise ValueError(f"link must be the one the agent was saved with, {name!r}, got {link.name!r}")
    masks: Table = {k: arrays.get(f"{prefix}problem.{k}") for k in ARRAYS}
    spec |= {k: tuple(spec[k]) for k in (*NAMES, "reward_range") if spec.get(k) is not None}
    for name, kind in DESIGNS.items():
        if spec.get(name) is not None:
            kept: Table = {k: arrays.get(f"{prefix}problem.{name}.{k}") for k in DESIGN_ARRAYS}
            spec[name] = kind(**kept, **{k: spec[name][k] for k in DESIGN_NAMES})
    return Problem(link=link, **masks, **spec)


def _construct(
    spec: Table, prefix: str, arrays: Table, problem: Problem, link: Link | None, own: Own, expert: Any = None
) -> Agent:
    start = f"{prefix}option."
    options = spec["options"] | {k[len(start) :]: v for k, v in arrays.items() if k.startswith(start)}
    parts: Table = {} if expert is None else {"expert": expert}
    for name, part in spec.get("parts", {}).items():
        inner = f"{prefix}{name}."
        its = _problem(part["problem"], inner, arrays, link) if "problem" in part else problem
        parts[name] = _construct(part, inner, arrays, its, link, own)
    if "class" in spec and spec["agent"] not in own:
        raise ValueError(
            f"agent must be given, the class that was saved is one of your own, {check.shown(spec['class'])}: nothing "
            "is imported because a file says so"
        )
    cls = own[spec["agent"]] if "class" in spec else stored_class(spec["agent"])
    return cls.rebuild(problem, spec["seed"], options, parts)
