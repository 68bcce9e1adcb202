"""Where episodes start, when that depends on the episode's number or on who comes."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats
from ..compiler.jit import strict
from ..numerics.random import START, uniforms
from ..problem.problem import Problem


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


class StartsByContext:
    """Initial states that depend on who comes: function(x) is a state, or a distribution [S] over states.

    For `World(initial_state=...)`: the sick arrive in another state than the well. A distribution is drawn from with
    the seed and the episode's number, so that the same individual starts in the same state whoever treats them.

    >>> from dataclasses import replace
    >>> import noregret as nr
    >>> world = nr.worlds.random_logit(context_dim=2)
    >>> problem = replace(world.problem, initial_states=(0, 1, 2))
    >>> start = nr.worlds.StartsByContext(lambda x: 2 if x[1] > 0 else [0.5, 0.5, 0, 0, 0])
    >>> wards = nr.World(problem, world.weights, world.reward_weights, world.contexts, initial_state=start)
    >>> people = [wards.individual(k) for k in range(200)]
    >>> {p.state for p in people if p.context[1] > 0}, {p.state for p in people if p.context[1] < 0}
    ({2}, {0, 1})
    """

    def __init__(self, function: Callable[[Floats], Any]) -> None:
        if not callable(function):
            raise ValueError(f"function must take a context to a state or a distribution, got {check.shown(function)}")
        self.function = function

    def __call__(self, x: Floats) -> Any:
        return self.function(x)

    def distribution(self, problem: Problem, x: Floats) -> Floats:
        """Probabilities [S] of the initial states of somebody with context x, checked."""
        said = self.function(x.copy())
        if check.alone(said):
            made = np.zeros(problem.n_states)
            made[problem.state(said, "initial_state")] = 1.0
        else:
            made = distribution("initial_state", said, problem.n_states)
        for s in np.flatnonzero(made):
            allowed(problem, int(s))
        return made

    def fill(self, problem: Problem, seed: int, first: int, X: Floats, out: NDArray[np.int64]) -> None:
        """out [n] <- initial states of episodes first, first + 1, ... with contexts X [n, d]."""
        for i, x in enumerate(X):
            edges = np.cumsum(self.distribution(problem, x))
            u, _ = uniforms(seed, first + i, 0, START)
            last = int(np.flatnonzero(np.diff(edges, prepend=0.0))[-1])  # rounding may leave u above all edges
            out[i] = min(int(np.searchsorted(edges, u, side="right")), last)


def distribution(name: str, value: Any, n_states: int) -> Floats:
    """`value` as probabilities [S]."""
    weights = check.array(name, value, (n_states,))
    if weights.min() < 0 or abs(weights.sum() - 1) > 1e-9:
        raise ValueError(f"{name} must be a state, a distribution that sums to 1, or a function")
    return weights


def allowed(problem: Problem, s: int) -> int:
    """A state that an episode may begin in."""
    if problem.initial_states is not None and s not in problem.initial_states:
        raise ValueError(f"initial_state must be among the problem's initial_states {problem.initial_states}, got {s}")
    return s
