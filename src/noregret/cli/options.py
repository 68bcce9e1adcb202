"""Worlds and agents on the command line: `name:option=value:option=value`."""

import ast
from typing import Any

from rich.console import Console

from ..agents import agent_class, make_agent
from ..agents import names as agent_names
from ..agents.base import Agent
from ..agents.controls import Oracle
from ..worlds import World, make_world


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


def world_from(text: str) -> World:
    name, options = parse(text)
    world = make_world(name, **options)
    world.name = text.strip()  # results say which world it was
    return world


def agents_from(text: str, world: World) -> list[Agent]:
    """Comma-separated agents, or "all" that suit the problem. The oracle is told the truth here, at the seam between
    world and learner."""
    made: list[Agent] = []
    every = [name for name in agent_names() if agent_class(name).suits(world.problem)]
    for item in every if text.strip() == "all" else text.split(","):
        name, options = parse(item)
        if "seed" in options:
            raise ValueError(f"agent {name}: seed is not an option here, --seeds decides")
        if agent_class(name) is Oracle:
            options |= {"weights": world.weights, "reward_weights": world.reward_weights}
        made.append(make_agent(name, world.problem, **options))
    return made
