"""The agents, by name. An agent is estimator x confidence set x planner; its module reads like its pseudo-code."""

from typing import Any

from .. import _checks as check
from ..problem import Problem
from .base import Agent
from .controls import CertaintyEquivalence, EpsilonGreedy, Oracle, UniformRandom
from .glm_orl import GLMORL
from .glm_rlsvi import GLMRLSVI
from .tabular_orlc import ORLC
from .tabular_psrl import PSRL
from .tabular_rlsvi import TabularRLSVI
from .tabular_ucbvi import UCBVI, UCBVIBF
from .tabular_ucrl2 import UCRL2

_GLM: tuple[type[Agent], ...] = (GLMORL, GLMRLSVI)
_TABULAR: tuple[type[Agent], ...] = (UCRL2, UCBVI, UCBVIBF, ORLC, PSRL, TabularRLSVI)
_CONTROLS: tuple[type[Agent], ...] = (EpsilonGreedy, CertaintyEquivalence, UniformRandom, Oracle)
_AGENTS: dict[str, type[Agent]] = {cls.name: cls for cls in (*_GLM, *_TABULAR, *_CONTROLS)}

__all__ = ["Agent", "make_agent", "names"]


def names() -> list[str]:
    """Every agent's name, for `make_agent` and the command line."""
    return list(_AGENTS)


def agent_class(name: str) -> type[Agent]:
    return check.known("agent", name, _AGENTS)


def make_agent(name: str, problem: Problem, /, **options: Any) -> Agent:
    """`make_agent("glm-orl", problem, delta=0.1)` is `GLMORL(problem, delta=0.1)`."""
    cls = agent_class(name)
    check.fits(f"agent {name}", cls, problem, **options)
    return cls(problem, **options)
