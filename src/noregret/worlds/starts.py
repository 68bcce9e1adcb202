"""Where episodes start, when that depends on the episode's number."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..compiler.jit import strict


@strict
def _fill_turns(first, states, hold, out):
    for i in range(out.shape[0]):
        out[i] = states[(first + i) // hold % states.shape[0]]


class InTurn:
    """Initial states in turn, each for `hold` episodes: episode k starts in states[floor(k / hold) mod len(states)].

    For `World(initial_state=...)`: a function (seed, episode) -> state like any other, filled at compiled speed.

    >>> from dataclasses import replace
    >>> import noregret as nr
    >>> start = nr.worlds.InTurn([2, 0], hold=3)
    >>> [start(0, k) for k in range(8)]
    [2, 2, 2, 0, 0, 0, 2, 2]
    >>> world = nr.worlds.random_logit()
    >>> problem = replace(world.problem, initial_states=(0, 2))
    >>> wards = nr.World(problem, world.weights, world.reward_weights, world.contexts, initial_state=start)
    >>> [wards.individual(k).state for k in range(8)]
    [2, 2, 2, 0, 0, 0, 2, 2]
    """

    def __init__(self, states: Iterable[int], hold: int = 1) -> None:
        if not np.iterable(states) or not hasattr(states, "__len__"):
            raise ValueError(f"states must be a sequence of states, got {check.shown(states)}")
        self.states: NDArray[np.int64] = np.array([check.integer("states", s, 0) for s in states], np.int64)
        if self.states.size == 0:
            raise ValueError("states must name at least one state")
        self.states.setflags(write=False)  # a World checks them once
        self.hold = check.integer("hold", hold)

    def __call__(self, seed: int, episode: int) -> int:
        return int(self.states[episode // self.hold % self.states.size])

    def fill(self, seed: int, first: int, out: NDArray[np.int64]) -> None:
        """out [n] <- initial states of episodes first, first + 1, ..."""
        _fill_turns(first, self.states, self.hold, out)
