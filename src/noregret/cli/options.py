"""Worlds and agents on the command line, `name:option=value:option=value`, and the options that commands share."""

import ast
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .. import checks as check
from ..agents import names as agent_names
from ..agents.registry import why_not
from ..problem.problem import Problem
from ..simulation.catalogue import COMPOSED, agent_options, named_agent, named_world
from ..worlds import World
from ..worlds import names as world_names

_NAMES = {*agent_names(), *world_names(), *COMPOSED}

WorldName = Annotated[str, typer.Option(help=f"one of {', '.join(world_names())}; options follow as :name=value")]
Episodes = Annotated[int, typer.Option(help="individuals per seed")]
Seeds = Annotated[int, typer.Option(help="independent repetitions")]
Workers = Annotated[int | None, typer.Option(help="threads; unless given, one per core")]
Out = Annotated[Path, typer.Option(help="folder for the figure and the numbers")]
AsCSV = Annotated[bool, typer.Option("--csv", help="write the numbers as CSV instead of Parquet")]


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """ "glm-orl:delta=0.1:constants=paper" -> ("glm-orl", {"delta": 0.1, "constants": "paper"}). Something of your own
    is "module:Class", and the current folder is looked at, too: "my_lab.ensemble:Ensemble:members=3"."""
    name, *rest = text.strip().split(":")
    if rest and name not in _NAMES and check.is_own(f"{name}:{rest[0]}"):
        name = f"{name}:{rest.pop(0)}"
        look_here()
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


def look_here() -> None:
    """Let modules of the current folder be imported, after all others: agents and worlds of one's own."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def world_from(text: str, episodes: int | None = None) -> World:
    """`episodes`: how many will be run, for worlds that are tuned to it unless the text says otherwise."""
    world = named_world(*parse(text), episodes)
    world.name = text.strip()  # results say which world it was
    return world


def check_counts(episodes: int, seeds: int, workers: int | None) -> None:
    check.integer("episodes", episodes)
    check.integer("seeds", seeds)
    check.integer("workers", workers or 0, 0)


def items_of(text: str, world: World, *but: str) -> list[str]:
    """Comma-separated agents, one by one; "all" stands for all that are for such a problem, `but` these."""
    fitting = [name for name in agent_names() if name not in but and why_not(name, world.problem) is None]
    return [name for item in text.split(",") for name in (fitting if item.strip() == "all" else [item])]


def agents_from(text: str, world: World) -> list[Any]:
    """The agents of `items_of`."""
    parts = [parse(item) for item in items_of(text, world)]
    for name, options in parts:  # all of them before the first is compiled
        agent_options(name, options)
    return [named_agent(name, options, world) for name, options in parts]


def policy_of(text: str, problem: Problem) -> Any:
    """Actions [H, S] of "state=action,state=action,...", the same at every step; every state must be named."""
    told: dict[int, int] = {}
    for item in text.split(","):
        state, equals, action = (part.strip() for part in item.partition("="))
        if not equals:
            raise ValueError(f"rule must be state=action,state=action,..., {item!r} is not")
        s = problem.state(_named(state))
        told[s] = problem.action(_named(action), s)
    lacking = [problem.state_text(s) for s in range(problem.n_states) if s not in told]
    if lacking:
        raise ValueError(f"rule must name an action for every state, none for {', '.join(map(str, lacking))}")
    return np.tile([told[s] for s in range(problem.n_states)], (problem.horizon, 1))


def _named(text: str) -> Any:
    return int(text) if text.lstrip("-").isdigit() else text
