"""An agent of the user's own, any object with the verbs, as a part of an agent of the library."""

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import checks as check
from ...checks import Floats
from ...compiler.memory import apart
from ...problem.problem import Problem
from ..base import Agent
from ..controls import NONE_KEPT, FixedPar, Nothing, first_actions, fixed_plan, nothing
from ..registry import VERBS


def is_own(agent: Any) -> bool:
    """Whether it has the five verbs and a problem, and is no agent of the library."""
    verbs = all(callable(getattr(agent, verb, None)) for verb in VERBS)
    return verbs and not isinstance(agent, type | Agent) and isinstance(getattr(agent, "problem", None), Problem)


class OwnAgent(Agent):
    """`player` plans in Python; kernels find its policy in a table [H, S], which is filled before they look.

    What the player keeps is its own affair: it is not saved, and an error of its own leaves it as it left itself."""

    name, group = "own", "own"
    any_range = True
    plan_kernel = staticmethod(fixed_plan)
    learn_kernel = staticmethod(nothing)
    fused = False

    def __init__(self, player: Any) -> None:
        self.player = player
        self._heard: tuple[Floats, NDArray[np.int64]] | None = None  # planned for, and not begun yet
        super().__init__(player.problem)

    def build(self) -> tuple[FixedPar, Nothing, Nothing]:
        return FixedPar(apart(first_actions(self.problem))), *NONE_KEPT

    @property
    def label(self) -> str:
        return str(getattr(self.player, "label", type(self.player).__name__))

    def hear(self, x: Floats) -> None:
        """Have the player plan for x. Interrupted before the episode has begun, it is not asked twice about the same
        person; about another one, it ends the first without a step."""
        if self._heard is not None and not np.array_equal(self._heard[0], x):
            self._heard = None
            self.player.end_episode()
        if self._heard is None:
            plan = self.player.begin_episode(x.copy())
            self._heard = x, self.problem.policy(getattr(plan, "policy", plan), f"plan.policy of {self.label}")
        self.par.policy[...] = self._heard[1]

    def begun(self) -> None:
        self._heard = None

    def acted(self, state: int, action: int | None) -> None:
        """Tell the player of the step; somebody else's action where its `act` takes one."""
        h = int(self._clock[1])
        if action is None:
            chosen, planned = self.player.act(state), int(self.par.policy[h, state])
            if chosen != planned:
                raise ValueError(
                    f"{self.label}.act returned {check.shown(chosen)} in state {state} at step {h}, its plan.policy "
                    f"says {planned}: bounds are those of the plan, so both must agree"
                )
        elif "action" in inspect.signature(self.player.act).parameters:
            self.player.act(state, action=action)
        else:
            raise ValueError(f"action must be None: {self.label}.act cannot be told what somebody else chose")


def has_player(agent: Agent) -> bool:
    """Whether the agent, or one it works on, is an object of the user's own."""
    return isinstance(agent, OwnAgent) or any(map(has_player, agent._made_of().values()))
