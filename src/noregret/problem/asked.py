"""Policies as questions about people take them: one for all, one per person, or a function of the context."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats
from .policies import action_chances
from .problem import Problem


def actions_of(p: Problem, name: str, given: Any, X: Floats) -> NDArray[np.int64]:
    """[N, H, S]: one policy for all, one per person, or a function from a context to one."""
    if callable(given):
        return np.stack([p.policy(given(x.copy()), name) for x in X])
    made = check.anything(name, given)
    if made.ndim == 3 and len(made) == len(X):
        return np.stack([p.policy(one, f"{name}[{i}]") for i, one in enumerate(made)])
    return np.broadcast_to(p.policy(given, name), (len(X), p.horizon, p.n_states))


class Policies:
    """The policy of every one of N people: `policies[i]` are the chances [H, S, A] of its actions.

    given: actions [H, S] or chances [H, S, A] (numbers with a fraction) for all, one of them per person, or a function
    from a context to either.

    >>> import numpy as np
    >>> import noregret as nr
    >>> problem = nr.Problem(2, 2, 1, 1, weight_bound=2.0, reward_bound=1.0)
    >>> two = Policies(problem, "policy", [[1, 0]], np.ones((2, 1)))
    >>> len(two), two[1].tolist(), two.fixed
    (2, [[[0.0, 1.0], [1.0, 0.0]]], True)
    >>> Policies(problem, "policy", lambda x: [[[0.5, 0.5], [1.0, 0.0]]], np.ones((2, 1))).fixed
    False
    """

    def __init__(self, p: Problem, name: str, given: Any, X: Floats) -> None:
        self._problem = p
        if callable(given):
            self._kept = [self._one(given(x.copy()), name) for x in X]
            return
        made = check.anything(name, given)
        single = 3 if made.dtype.kind == "f" else 2
        if made.ndim == single + 1 and len(made) == len(X):
            self._kept = [self._one(one, f"{name}[{i}]") for i, one in enumerate(given)]
        else:
            self._kept = [self._one(given, name)] * len(X)

    def _one(self, given: Any, name: str) -> NDArray[Any]:
        """Actions [H, S] where nothing is drawn, which take less room; else chances [H, S, A]."""
        if check.anything(name, given).dtype.kind != "f":
            return self._problem.policy(given, name)
        made = action_chances(self._problem, given, name)
        return made.argmax(2) if (made.max(2) == 1.0).all() else made

    def __len__(self) -> int:
        return len(self._kept)

    def __getitem__(self, i: int) -> Floats:
        kept = self._kept[i]
        if kept.ndim == 3:
            return kept
        made: Floats = np.zeros((*kept.shape, self._problem.n_actions))
        h, s = np.ogrid[: kept.shape[0], : kept.shape[1]]
        made[h, s, kept] = 1.0
        return made

    def number(self, i: int) -> int:
        """The same for people who were given one and the same policy."""
        return id(self._kept[i])

    def at(self, people: NDArray[np.int64], states: NDArray[np.int64]) -> Floats:
        """Chances [m, H, A] of these people's actions in the states [m, H] that they met."""
        H, A = self._problem.horizon, self._problem.n_actions
        made, steps = np.zeros((len(people), H, A)), np.arange(H)
        numbers = np.array([self.number(i) for i in people.tolist()])
        order = np.argsort(numbers, kind="stable")
        for alike in np.split(order, 1 + np.flatnonzero(np.diff(numbers[order]))):
            made[alike] = self[int(people[alike[0]])][steps, states[alike]]
        return made

    @property
    def fixed(self) -> bool:
        """Whether no action is drawn, for anybody."""
        return all(kept.ndim == 2 for kept in self._kept)

    def same(self, other: "Policies") -> bool:
        """Whether everybody has the same policy in both."""
        return all(np.array_equal(u, v) for u, v in zip(self._kept, other._kept, strict=True))

    def kept(self, people: Any) -> list[NDArray[Any]]:
        """Actions [H, S] or chances [H, S, A] of these people."""
        return [self._kept[i] for i in people]

    def whole(self) -> NDArray[Any]:
        """Everybody's in one array: actions [H, S] or [N, H, S], or chances [H, S, A] or [N, H, S, A]."""
        if all(kept is self._kept[0] for kept in self._kept):
            return self._kept[0]
        return np.stack(self._kept if self.fixed else [self[i] for i in range(len(self))])
