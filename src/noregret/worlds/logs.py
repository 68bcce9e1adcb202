"""What a rule that explores a little would have logged of a world's individuals."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats
from ..compiler.announcements import announced
from ..compiler.jit import strict
from ..numerics.random import LOGGED, uniforms
from ..problem.log import Log, LoggedEpisode
from ..problem.problem import Problem
from .contexts import Adversary
from .truth import individual, transition


@strict
def _logged(truth, X, rule, explore, states, actions, rewards):
    """states [n, H+1], whose first column is given, actions [n, H] and rewards [n, H] of individuals X [n, d]."""
    n, H = actions.shape
    A = truth.r.shape[1]
    for k in range(n):
        individual(truth, X[k])
        for h in range(H):
            s = states[k, h]
            a = rule[h, s]
            u, v = uniforms(truth.seed, k, h, LOGGED)
            if u < explore:
                count = 0
                for b in range(A):
                    count += int(truth.layout.available[s, b])
                left = int(v * count)
                a = -1
                while left >= 0:
                    a += 1
                    left -= int(truth.layout.available[s, a])
            actions[k, h] = a
            transition(truth, k, h, s, a, rewards[k, h:], states[k, h + 1 :])


def recorded(world: Any, people: int, seed: int, explore: float, rule: NDArray[np.int64]) -> Log:
    """The log of the first so many individuals of a seed."""
    p = world.problem
    if isinstance(world.contexts, Adversary):
        raise ValueError("log needs a world whose contexts do not look at the agent")
    H, d = p.horizon, p.context_dim
    check.memory(f"a log of people = {people}", 8.0 * people * (2 * d + 6 * H))
    X, states = np.empty((people, d)), np.zeros((people, H + 1), np.int64)
    actions, rewards, starts = np.zeros((people, H), np.int64), np.zeros((people, H)), np.zeros(people, np.int64)
    world.contexts.fill(seed, 0, X)
    X = p.contexts(X)
    world.fill_starts(seed, 0, starts, X)
    states[:, 0] = starts
    with announced("the world"):
        _logged(world.truth(seed), X, np.array(rule), explore, states, actions, rewards)
    scale = world.problem.scale
    rewards = np.where(rewards > 0.5, scale.high, scale.low)
    chances = mixed(p, rule, explore)[np.arange(H), states[:, :H], actions]
    rows = zip(X, states, actions, rewards, chances, strict=True)
    return Log(p, tuple(LoggedEpisode(k, *seen) for k, seen in enumerate(rows)))


def mixed(problem: Problem, rule: NDArray[np.int64], explore: float) -> Floats:
    """Probabilities [H, S, A] of a rule that takes an available action at random with chance `explore`."""
    may = problem.layout.available
    made: Floats = np.broadcast_to(explore * may / may.sum(1, keepdims=True), (len(rule), *may.shape)).copy()
    h, s = np.ogrid[: len(rule), : len(may)]
    made[h, s, rule] += 1.0 - explore
    return made
