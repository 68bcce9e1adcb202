"""The agents, by name. An agent is estimator x confidence set x planner; its module reads like its pseudo-code."""

import difflib
from typing import Any

from ..problem import Problem
from .base import Agent
from .controls import CertaintyEquivalence, EpsilonGreedy, Oracle, UniformRandom
from .glm_orl import GLMORL
from .glm_rlsvi import GLMRLSVI

_AGENTS: dict[str, type[Agent]] = {
    cls.name: cls for cls in (GLMORL, GLMRLSVI, EpsilonGreedy, CertaintyEquivalence, UniformRandom, Oracle)
}

__all__ = ["Agent", "make_agent", "names"]


def names() -> list[str]:
    """Every agent's name, for `make_agent` and the command line."""
    return list(_AGENTS)


def agent_class(name: str) -> type[Agent]:
    if name not in _AGENTS:
        near = difflib.get_close_matches(name, _AGENTS, n=3, cutoff=0.4)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"unknown agent {name!r}{hint} (agents: {', '.join(_AGENTS)})")
    return _AGENTS[name]


def make_agent(name: str, problem: Problem, **options: Any) -> Agent:
    """`make_agent("glm-orl", problem, delta=0.1)` is `GLMORL(problem, delta=0.1)`."""
    cls = agent_class(name)
    try:
        return cls(problem, **options)
    except TypeError as error:
        raise ValueError(f"agent {name}: {str(error).split('__init__() ')[-1]}") from None
