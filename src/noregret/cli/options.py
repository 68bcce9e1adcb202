"""Worlds and agents on the command line: `name:option=value:option=value`."""

import ast
import inspect
from typing import Any

import numpy as np
from rich.console import Console

from .. import _checks as check
from ..agents import agent_class, kmeans, make_agent
from ..agents import names as agent_names
from ..agents.base import Agent
from ..agents.controls import Oracle
from ..worlds import World, make_world
from ..worlds.contexts import Adversary


def terminal() -> Console:
    """Where to print; files and pipes get lines as long as they need to be."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, 140))


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """ "glm-orl:delta=0.1:constants=paper" -> ("glm-orl", {"delta": 0.1, "constants": "paper"})."""
    name, *rest = text.strip().split(":")
    options: dict[str, Any] = {}
    for item in rest:
        key, equals, value = item.partition("=")
        if not (key and equals):
            raise ValueError(f"{text!r} must be a name followed by :option=value, {item!r} is not")
        try:
            options[key.replace("-", "_")] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[key.replace("-", "_")] = value
    return name, options


def world_from(text: str, episodes: int | None = None) -> World:
    """`episodes`: how many will be run, for worlds that are tuned to it unless the text says otherwise."""
    name, options = parse(text)
    if episodes is not None and name.startswith("hard-"):
        options.setdefault("episodes", episodes)
    world = make_world(name, **options)
    world.name = text.strip()  # results say which world it was
    return world


def cells_of(world: World, n_cells: Any) -> Any:
    """Centres of so many cells of the world's contexts: k-means on a few thousand of them."""
    if isinstance(world.contexts, Adversary):
        raise ValueError("cells need a world whose contexts do not look at the agent")
    X = np.empty((4096, world.problem.context_dim))
    world.contexts.fill(0, 0, X)
    return kmeans(world.problem.contexts(X), check.integer("cells", n_cells))


def agents_from(text: str, world: World) -> list[Agent]:
    """Comma-separated agents; "all" stands for all that are for such a problem. The oracle is told the truth here, at
    the seam between world and learner."""
    fitting = [name for name in agent_names() if agent_class(name).refusal(world.problem) is None]
    items = [name for item in text.split(",") for name in (fitting if item.strip() == "all" else [item])]
    parts = [parse(item) for item in items]
    for name, options in parts:  # all of them before the first is compiled
        agent_class(name)
        if "seed" in options:
            raise ValueError(f"agent {name}: seed is not an option here, --seeds decides")
    made: list[Agent] = []
    for name, options in parts:
        if agent_class(name) is Oracle:
            options |= {"weights": world.weights, "reward_weights": world.reward_weights}
        if "cells" in options and "centres" in inspect.signature(agent_class(name)).parameters:
            options["centres"] = cells_of(world, options.pop("cells"))
        made.append(make_agent(name, world.problem, **options))
    return made
