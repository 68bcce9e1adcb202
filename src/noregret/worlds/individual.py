"""Individuals of a world, met step by step."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import checks as check
from ..checks import Floats
from ..compiler.announcements import announced
from ..compiler.jit import direct, kernel
from ..compiler.memory import apart
from .truth import detour, individual, solve, transition


@kernel
def meet(truth, x):
    """truth.P, truth.r, truth.best, truth.optimal <- the MDP of the individual with context x, and how to treat it."""
    individual(truth, x)
    solve(truth)


class _Steps:
    """Somebody who is met step by step, in `episode`."""

    context: Floats
    state: int
    episode: int
    mask: Any  # [S, A], what they can get

    def __init__(self, world: Any, seed: int) -> None:
        self._world, self._truth, self.steps = world, world.truth(seed), 0
        self._reward, self._after = np.zeros(1), np.zeros(1, np.int64)
        self._luck = direct(transition, self._truth, 0, 0, 0, 0, self._reward, self._after)

    def step(self, action: int) -> tuple[float, int]:
        """(reward, next state)."""
        a = self._allowed(action)
        self._luck(self._truth, self.episode, self.steps, self.state, a, self._reward, self._after)
        self.steps, self.state = self.steps + 1, int(self._after[0])
        return self._world.problem.scale.outside(float(self._reward[0])), self.state

    def __repr__(self) -> str:
        kind, p = type(self).__name__, self._world.problem
        where = p.state_names[self.state] if p.state_names else f"state {self.state}"
        return f"<{kind} {self.episode} of {self._world.name}: {where}, {self.steps} of {p.horizon} steps>"

    @property
    def unavailable(self) -> Any:
        """What they cannot get, bool [S, A], for `Agent.begin_episode`; None: they can get everything."""
        return None if self._world.unavailable is None else ~self.mask

    def _allowed(self, action: int) -> int:
        p = self._world.problem
        if self.steps == p.horizon:
            raise RuntimeError(f"step: the episode is over after {p.horizon} steps")
        a = check.integer("action", action, 0)
        if a >= p.n_actions or not self.mask[self.state, a]:
            raise ValueError(f"action {a} is not available in state {self.state}")
        return a


class Individual(_Steps):
    """One individual of a world, to be stepped through live, with the luck that the simulator would give them.

    context [d], state, steps: who they are, where they are, and how many steps were taken; unavailable: what they
    cannot get; step(action) -> (reward, next_state). Made by `World.individual`.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> patient = world.individual(episode=3, seed=1)
    >>> patient
    <Individual 3 of clinic: moderate, 0 of 6 steps>
    >>> patient.state, patient.context.round(2).tolist()
    (2, [0.58, 0.58, -0.58])
    >>> patient.step(2)  # drug B: a reward and the next state
    (1.0, 1)
    >>> world.individual(episode=3, seed=1).step(2)  # the same patient with the same luck
    (1.0, 1)
    """

    def __init__(self, world: Any, episode: int, seed: int) -> None:
        with announced("the world"):
            super().__init__(world, seed)
            self.episode, self.context = episode, world.context(seed, episode)
            self.state, self.mask = world.start(seed, episode, self.context), world.allowed(self.context)
            individual(self._truth, apart(self.context))


class Episodes(_Steps):
    """The individuals of a world in any order, each to be stepped through.

    What `World.individual` meets, to the bit, with one set of scratch arrays for all of them.

    context [d], state, steps    of the individual met last

    Cost O(S^2 A H) to meet one, for the optimal values, and some 20 us per step.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> people = nr.worlds.Episodes(world)
    >>> people.begin(episode=7, seed=0)
    >>> people.state, world.individual(7).state, round(people.optimal_value, 2)
    (2, 2, 4.61)
    >>> reward, state = people.step(1)
    >>> people.steps, people.cost(0) >= 0.0
    (1, True)
    """

    def __init__(self, world: Any) -> None:
        with announced("the world"):
            super().__init__(world, 0)
            self.context, self.mask = np.zeros(world.problem.context_dim), world.problem.layout.available
            self.state, self.steps, self.seed, self.episode = 0, world.problem.horizon, 0, 0
            self._x = apart(self.context.copy())
            self._meet = direct(meet, self._truth, self._x)
            self._detour = direct(detour, self._truth, 0, 0, 0)

    def begin(self, episode: int, seed: int, context: ArrayLike | None = None) -> None:
        """Meet the individual of that episode, or one with the given context at its place."""
        k, s, world = check.integer("episode", episode, 0), check.integer("seed", seed, 0), self._world
        x = world.context(s, k) if context is None else world.problem.context(context)
        world.rewards(x)  # says which pair and context, where mean rewards leave their range
        start = world.start(s, k, x)
        self.seed, self.episode, self.context, self.state, self.steps = s, k, x, start, 0
        self._truth = self._truth._replace(seed=s)
        self._x[:], self.mask = x, world.allowed(x)
        self._truth.layout.available[...] = self.mask
        self._meet(self._truth, self._x)

    @property
    def optimal_value(self) -> float:
        """V*_h of the state the individual is in, h the steps taken: what can still be had."""
        p, inside = self._world.problem, self._truth.optimal[self.steps, self.state]
        return float(p.scale.unit * inside + p.scale.low * (p.horizon - self.steps))

    def cost(self, action: int) -> float:
        """V*_h(s) - Q*_h(s, a), what this action would cost somebody who goes on optimally; 0 for an optimal one."""
        lost = float(self._detour(self._truth, self.steps, self.state, self._allowed(action)))
        return float(max(lost, 0.0) * self._world.problem.scale.unit)
