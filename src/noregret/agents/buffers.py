"""What passes between an agent and those who play its plans: arrays that kernels write."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from ..compiler.memory import apart
from ..problem.problem import Problem


class PlanBuffer(NamedTuple):
    policy: NDArray[np.int64]  # [H, S], what is played
    values: Floats  # [H+1, S]
    plans: NDArray[np.int64]  # [N, H, S] of a lottery (`agents.lottery`), from which the policy was drawn; or [0, H, S]
    floor: Floats  # [1], the chance of an action at random instead of the plan's


class Trajectory(NamedTuple):
    states: NDArray[np.int64]  # [H+1]
    actions: NDArray[np.int64]  # [H]
    rewards: Floats  # [H], in [0, 1] (`problem.scale`), nan where not observed


def buffers(problem: Problem, plans: int) -> tuple[PlanBuffer, Trajectory]:
    """Empty ones; plans: N of a lottery, 0 without one."""
    H, S, whole, f = problem.horizon, problem.n_states, np.int64, np.zeros
    out = PlanBuffer(f((H, S), whole), f((H + 1, S)), f((plans, H, S), whole), f(1))
    made: tuple[PlanBuffer, Trajectory] = apart((out, Trajectory(f(H + 1, whole), f(H, whole), f(H))))
    return made
