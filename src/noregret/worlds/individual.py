"""One individual of a world, met step by step."""

from typing import Any

import numpy as np

from .. import checks as check
from ..compiler.announcements import announced
from ..compiler.jit import direct
from ..compiler.memory import apart
from .truth import individual, transition


class Individual:
    """One individual of a world, to be stepped through live, with the luck that the simulator would give them.

    context [d], state, steps: who they are, where they are, and how many steps were taken;
    step(action) -> (reward, next_state). Made by `World.individual`.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> patient = world.individual(episode=3, seed=1)
    >>> patient.state, patient.context.round(2).tolist()
    (2, [0.58, 0.58, -0.58])
    >>> patient.step(2)  # drug B: a reward and the next state
    (1.0, 1)
    >>> world.individual(episode=3, seed=1).step(2)  # the same patient with the same luck
    (1.0, 1)
    """

    def __init__(self, world: Any, episode: int, seed: int) -> None:
        self._world, self._episode, self.steps = world, episode, 0
        with announced("the world"):
            self._truth = world.truth(seed)
            self.context = world.context(seed, episode)
            self.state = world.start(seed, episode)
            individual(self._truth, apart(self.context))
            self._reward, self._after = np.zeros(1), np.zeros(1, np.int64)
            self._luck = direct(transition, self._truth, 0, 0, 0, 0, self._reward, self._after)

    def step(self, action: int) -> tuple[float, int]:
        p = self._world.problem
        if self.steps == p.horizon:
            raise RuntimeError(f"step: the episode is over after {p.horizon} steps")
        a = check.integer("action", action, 0)
        if a >= p.n_actions or not p.layout.available[self.state, a]:
            raise ValueError(f"action {a} is not available in state {self.state}")
        self._luck(self._truth, self._episode, self.steps, self.state, a, self._reward, self._after)
        self.steps, self.state = self.steps + 1, int(self._after[0])
        return float(self._reward[0]), self.state
