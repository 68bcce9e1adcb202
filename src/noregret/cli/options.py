"""Worlds and agents on the command line: `name:option=value:option=value`."""

import ast
from typing import Any

from rich.console import Console

from ..agents import agent_class
from ..agents import names as agent_names
from ..agents.base import Agent
from ..simulation.named import agent_options, named_agent, named_world
from ..worlds import World


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
    world = named_world(*parse(text), episodes)
    world.name = text.strip()  # results say which world it was
    return world


def agents_from(text: str, world: World) -> list[Agent]:
    """Comma-separated agents; "all" stands for all that are for such a problem."""
    fitting = [name for name in agent_names() if agent_class(name).refusal(world.problem) is None]
    items = [name for item in text.split(",") for name in (fitting if item.strip() == "all" else [item])]
    parts = [parse(item) for item in items]
    for name, options in parts:  # all of them before the first is compiled
        agent_options(name, options)
    return [named_agent(name, options, world) for name, options in parts]
