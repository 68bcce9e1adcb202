"""Policies that draw their actions: probabilities [H, S, A]."""

from typing import Any

import numpy as np

from .. import checks as check
from ..checks import Floats
from .problem import Problem

_SLACK = 1e-9


def is_randomised(value: Any) -> bool:
    """Whether it has three axes, as probabilities [H, S, A] have."""
    return np.ndim(value) == 3


def action_chances(problem: Problem, value: Any, name: str = "policy") -> Floats:
    """`value` as probabilities [H, S, A] of its own: of available actions, that sum to 1 in every state and step.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> even = world.log_chances(explore=1.0, rule=world.optimal(world.context(0, 0)).policy)
    >>> nr.problem.policies.action_chances(world.problem, even)[0, 2].round(2)
    array([0.33, 0.33, 0.33])
    """
    shape = problem.horizon, problem.n_states, problem.n_actions
    made = np.array(check.array(name, value, shape), float)
    if made.min() < 0.0 or np.abs(made.sum(2) - 1.0).max() > _SLACK:
        raise ValueError(f"{name} must be probabilities that sum to 1 over the actions, of shape {shape}")
    barred = np.argwhere((made > 0.0) & ~problem.layout.available)
    if barred.size:
        h, s, a = (int(i) for i in barred[0])
        raise ValueError(
            f"{name} takes an action that is not available: {problem.action_text(a)} in state {problem.state_text(s)} "
            f"at step {h}"
        )
    return made
