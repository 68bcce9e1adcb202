"""Worlds and agents from their names and options, as the command line and study files give them. A name of the form
`module:Class` is something of the user's own, and is imported.

What a name alone cannot say is said here, at the seam between the truth and the learner: the oracle is told the truth,
cells of the contexts are found, agents made of others get their parts, the rule is the world's, a world of the lower
bound is tuned to the episodes.
"""

import inspect
from typing import Any

import numpy as np

from .. import checks as check
from ..agents import kmeans, make_agent
from ..agents.composed.certified import Certified
from ..agents.composed.conservative import Conservative
from ..agents.composed.referral import Referral
from ..agents.controls import FixedPolicy, Oracle
from ..agents.lottery import NONE
from ..agents.registry import agent_class, why_not
from ..worlds import World, make_world, world_maker
from ..worlds.contexts import Adversary

# Made of other agents: options `agent`, `expert` and `baseline` are tables with a name.
COMPOSED: dict[str, Any] = {cls.name: cls for cls in (Referral, Certified, Conservative)}
PARTS = ("agent", "expert", "baseline")
RULE = "rule"  # an agent that follows the world's rule: what is done today
_TABLES = {"design", "reward_design"}  # of worlds: no plain values either, and their default, None, is not written down
_GIVEN = {"problem", "seed", "weights", "reward_weights", *PARTS}  # not by a user, or not as a plain value
_NO_RULE = "the agent 'rule' needs a world with a rule"


def defaults_of(make: Any) -> dict[str, Any]:
    """The defaults of a class or function that are plain values, and so can be written down."""
    plain = (bool, int, float, str, tuple, type(None))
    return {k: p.default for k, p in inspect.signature(make).parameters.items() if isinstance(p.default, plain)}


def world_options(name: str, options: dict[str, Any], episodes: int | None = None) -> dict[str, Any]:
    """All options of a world, defaults filled in; a world of the lower bound is tuned to `episodes` unless told."""
    make = world_maker(name)
    check.fits(f"world {name}", make, **options)
    known = inspect.signature(make).parameters
    made = {k: v for k, v in defaults_of(make).items() if k not in _TABLES} | options
    if episodes is not None and "episodes" in known and "episodes" not in options:
        made["episodes"] = episodes
    return made


def agent_options(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """All options of an agent, defaults filled in; the agents it is made of likewise, each a table with its name."""
    if "seed" in options:
        raise ValueError(f"agent {name}: seed is not an option here, the seeds of the run decide")
    if name == RULE:
        if options:
            raise ValueError(f"agent {name}: got an unexpected option {next(iter(options))!r} (it has none)")
        return {}
    cls = COMPOSED.get(name) or agent_class(name)
    if check.is_own(name):  # the problem comes first, the other arguments are options
        check.fits(f"agent {name}", cls, None, **options)
        return {k: v for k, v in defaults_of(cls).items() if k != "seed"} | options
    known = inspect.signature(cls).parameters
    allowed = {k: p.default for k, p in known.items() if k not in _GIVEN}
    allowed |= dict.fromkeys(k for k in PARTS if k in known)
    if "centres" in allowed:
        del allowed["centres"]  # a table of numbers; here their number is given
        allowed["cells"] = None
    for key in options:
        if key not in allowed:
            raise ValueError(f"agent {name}: got an unexpected option {key!r} (options: {', '.join(allowed)})")
    made = allowed | options
    for key, value in made.items():
        if value is inspect.Parameter.empty or (key in PARTS and value is None):
            raise ValueError(f"agent {name}: missing option {key!r} (options: {', '.join(allowed)})")
        if key in PARTS:
            inner = {"name": value} if isinstance(value, str) else dict(value)
            if "name" not in inner:
                raise ValueError(
                    f"agent {name}: {key} must be an agent's name, or a table with one, got {check.shown(value)}"
                )
            part = str(inner.pop("name"))
            made[key] = {"name": part} | agent_options(part, inner)
    return {k: v for k, v in made.items() if not (k == "cells" and v is None) and not (k in NONE and v == NONE[k])}


def named_world(name: str, options: dict[str, Any], episodes: int | None = None) -> World:
    """`episodes`: how many will be run, for worlds that are tuned to it unless `options` says otherwise."""
    return make_world(name, **world_options(name, options, episodes))


def named_agent(name: str, options: dict[str, Any], world: World) -> Any:
    """An agent for the world's problem; of the user's own, any object with the verbs."""
    if name in COMPOSED:
        given = agent_options(name, options)
        for key in set(PARTS) & set(given):
            inner = dict(given[key])
            given[key] = named_agent(inner.pop("name"), inner, world)
        return COMPOSED[name](**given)
    if name == RULE:
        if world.rule is None:
            raise ValueError(_NO_RULE)
        return FixedPolicy(world.problem, world.rule)
    if "seed" in options:
        raise ValueError(f"agent {name}: seed is not an option here, the seeds of the run decide")
    cls, options = agent_class(name), dict(options)
    if check.is_own(name):
        return make_agent(name, world.problem, **options)
    if cls is Oracle:
        options |= {"weights": world.stored, "reward_weights": world.reward_weights}
    if "cells" in options and "centres" in inspect.signature(cls).parameters:
        options["centres"] = cells_of(world, options.pop("cells"))
    return make_agent(name, world.problem, **options)


def refusal(name: str, options: dict[str, Any], world: World) -> str | None:
    """Why this agent, or one it is made of, is not for that world; None if it is."""
    if name in COMPOSED:
        for key in set(PARTS) & set(options):
            inner = dict(options[key])
            why = refusal(inner.pop("name"), inner, world)
            if why is not None:
                return why
        return None
    if name == RULE:
        return _NO_RULE if world.rule is None else None
    return why_not(name, world.problem)


def cells_of(world: World, n_cells: Any) -> Any:
    """Centres of so many cells of the world's contexts: k-means on a few thousand of them."""
    if isinstance(world.contexts, Adversary):
        raise ValueError("cells need a world whose contexts do not look at the agent")
    X = np.empty((4096, world.problem.context_dim))
    world.contexts.fill(0, 0, X)
    return kmeans(world.problem.contexts(X), check.integer("cells", n_cells))
