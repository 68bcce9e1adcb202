"""One tabular model for each group of contexts: counts of what followed, sums of rewards.

The agents of this family differ in their plan kernel; they share the types of par, state and work and `learn`.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Floats
from ....compiler.jit import inlined, kernel
from ....planning.bellman import planner_address
from ....problem.layout import Layout, slot_of
from ....problem.problem import Problem
from ...endings import ModelWork, model_work
from ..groups import distance2, group_of


class GroupPar(NamedTuple):
    seed: int
    layout: Layout
    planner: Any  # slot of a planner (`planning.bellman.planner_address`)
    radius: float  # of a ball; 0 where the centres are given: everybody goes to the nearest one
    enough: int  # samples that are kept of each pair; a pair with as many is known
    prefix: int  # steps of uniform play
    smoothing: float  # prior weight of every outcome
    slack: Floats  # [H+1], added to the planned values


class GroupState(NamedTuple):
    centres: Floats  # [N, d]
    cells: NDArray[np.int64]  # [1], how many groups are in use; named as files have it
    forced: NDArray[np.int64]  # [1], episodes that had to be put in a ball they lie outside of
    visits: NDArray[np.int64]  # [N, S, A], transitions kept
    counts: NDArray[np.int64]  # [N, S, A, M], of each outcome
    rated: NDArray[np.int64]  # [N, S, A], rewards kept
    total: Floats  # [N, S, A], their sum

    def limits(self, problem: Problem) -> dict[str, tuple[float, float]]:
        return {"cells": (0, len(self.centres))}


@inlined
def outside(par, state, b, x):
    """Whether x lies outside of ball b."""
    return distance2(state.centres[b], x) > par.radius * par.radius


@inlined
def ball_of(par, state, x):
    """The first ball that x lies in; -1 if none does; but the nearest one if there is no room for another."""
    n = state.cells[0]
    for b in range(n):
        if not outside(par, state, b, x):
            return b
    return group_of(state.centres, x) if n == state.centres.shape[0] else -1


@kernel
def learn(par, state, work, x, k, n, path):
    """Count the first `enough` transitions and rewards of every pair of the ball; open a ball where there is none."""
    b = ball_of(par, state, x)
    if b < 0:
        b = state.cells[0]
        for j in range(x.shape[0]):
            state.centres[b, j] = x[j]
        state.cells[0] = b + 1
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        if state.visits[b, s, a] < par.enough:
            state.counts[b, s, a, slot_of(par.layout, s, a, path.states[h + 1])] += 1
            state.visits[b, s, a] += 1
        if state.rated[b, s, a] < par.enough and not math.isnan(path.rewards[h]):
            state.total[b, s, a] += path.rewards[h]
            state.rated[b, s, a] += 1


def group_parts(
    problem: Problem, seed: int, centres: Floats, used: int, **fields: Any
) -> tuple[GroupPar, GroupState, ModelWork]:
    """centres [N, d], the first `used` of them in use; fields of par that are not what they are without a cover."""
    p, f, i = problem, np.zeros, np.int64
    (S, A, M), N = p.layout.outcomes.shape, len(centres)
    known: dict[str, Any] = {
        "radius": 0.0,
        "enough": 2**62,
        "prefix": 0,
        "smoothing": 0.0,
        "slack": f(p.horizon + 1),
    } | fields
    par = GroupPar(seed, p.layout, planner_address(p.layout), **known)
    counts = f((N, S, A), i), f((N, S, A, M), i), f((N, S, A), i)
    state = GroupState(centres.copy(), np.full(1, used, i), f(1, i), *counts, f((N, S, A)))
    return par, state, model_work(p.layout)
