"""Regret on the worlds of the lower bound, against H sqrt(d S A K), as each of H, d, S, A and K grows.

Every point is a world of its own (`worlds.hard_logit`, `worlds.hard_linear`): the gap between the actions shrinks with
K such that K episodes just fail to find the better one. No agent can be below a constant times H sqrt(d S A K) on
average over such worlds; uniform play is above it by a constant, exactly (1 - 1/A in A). An agent that learns lies in
between; with larger problems the ratio must neither fall nor, for an agent with a matching bound, rise.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..agents import make_agent
from ..checks import Floats
from ..simulation import simulate
from ..theory import lower
from ..worlds.hard import hard_linear, hard_logit

BASE = {"horizon": 6, "context_dim": 2, "n_states": 4, "n_actions": 3, "episodes": 8000}
SCALE = 1.0  # of the gap: the smallest at which learners pull away from uniform play
SYMBOLS = {"horizon": "H", "context_dim": "d", "n_states": "S", "n_actions": "A", "episodes": "K"}
FACTORS = {"horizon": (1, 2, 4), "context_dim": (1, 2, 4), "n_states": (1, 2, 4), "n_actions": (1, 2, 4),
           "episodes": (1, 4, 16)}  # fmt: skip
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "uniform play": ("uniform-random", {}),
    "GLM-ORL": ("glm-orl", {}),
    "GLM-ORL, bonuses x 0.05 (no guarantee)": ("glm-orl", {"bonus_scale": 0.05}),
    "epsilon-greedy": ("epsilon-greedy", {}),
}


class Point(NamedTuple):
    """One agent in worlds of one size: regret [worlds], and the order H sqrt(d S A K) it is measured by."""

    agent: str
    link: str
    variable: str
    value: int
    order: float
    regret: Floats

    @property
    def ratio(self) -> Floats:
        return self.regret / self.order


def count() -> int:
    """How many points a link has."""
    return len(AGENTS) * sum(len(factors) for factors in FACTORS.values())


def points(link: str = "linear", worlds: int = 8) -> Iterator[Point]:
    """Every agent in every size, over so many worlds (secret actions and seeds), on all cores."""
    for variable, factors in FACTORS.items():
        for factor in factors:
            size = BASE | {variable: BASE[variable] * factor}
            for agent in AGENTS:
                with ThreadPoolExecutor(os.cpu_count()) as pool:
                    regret = np.array(list(pool.map(partial(_regret, link, agent, size), range(worlds))))
                sizes = (size[k] for k in ("episodes", "n_states", "n_actions", "context_dim", "horizon"))
                yield Point(agent, link, variable, size[variable], lower.order(*sizes), regret)


def _regret(link: str, agent: str, size: dict[str, int], seed: int) -> float:
    options: dict[str, Any] = dict(size)
    world = (hard_linear if link == "linear" else hard_logit)(scale=SCALE, seed=seed, **options)
    name, chosen = AGENTS[agent]
    K = size["episodes"]
    return float(simulate(make_agent(name, world.problem, **chosen), world, K, [seed], every=K).final[0])


def exponent(made: list[Point]) -> tuple[float, float]:
    """Growth exponent of the mean regret over the points of one agent and variable, and its standard error over
    worlds."""
    x = np.log([p.value for p in made])
    slopes = [np.polyfit(x, np.log([p.regret[i] for p in made]), 1)[0] for i in range(made[0].regret.size)]
    return float(np.mean(slopes)), float(np.std(slopes, ddof=1) / np.sqrt(len(slopes)))
