"""Where individuals come from: sources of context vectors.

A source fills rows for a range of episodes: `fill(seed, first, X)` puts the contexts of episodes first, first + 1, ...
into X [n, d]. It is a pure function of (seed, episode), so any chunk can be made again. `Adversary` alone looks at the
learner.

>>> import noregret as nr
>>> world = nr.worlds.random_logit(context_dim=2)
>>> cycle = nr.contexts.Table([[0.6, 0.8], [0.8, 0.0]], order="cycle")
>>> people = nr.World(world.problem, world.weights, [[[0.1, 0.0]] * 3] * 5, contexts=cycle)
>>> [people.context(seed=0, episode=k).tolist() for k in range(3)]
[[0.6, 0.8], [0.8, 0.0], [0.6, 0.8]]
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import checks as check
from ..checks import Floats
from ..compiler.jit import strict
from ..numerics.random import CONTEXT, normals, uniforms


@strict
def _fill_sphere(seed, first, radius, intercept, X):
    n, d = X.shape
    start = 1 if intercept > 0.0 and d > 1 else 0
    for k in range(n):
        total = 0.0
        for j in range(start, d, 2):
            u, v = normals(seed, first + k, j, CONTEXT)
            X[k, j] = u
            total += u * u
            if j + 1 < d:
                X[k, j + 1] = v
                total += v * v
        scale = radius * math.sqrt(1.0 - intercept * intercept) if start == 1 else radius
        for j in range(start, d):
            X[k, j] *= scale / math.sqrt(total)
        if intercept > 0.0:
            X[k, 0] = radius * intercept if d > 1 else radius


@strict
def _fill_simplex(seed, first, X):
    n, d = X.shape
    for k in range(n):
        total = 0.0
        for j in range(0, d, 2):
            u, v = uniforms(seed, first + k, j, CONTEXT)
            X[k, j] = -math.log(1.0 - u)
            total += X[k, j]
            if j + 1 < d:
                X[k, j + 1] = -math.log(1.0 - v)
                total += X[k, j + 1]
        for j in range(d):
            X[k, j] /= total


@strict
def _fill_rows(seed, first, rows, shuffle, X):
    m = rows.shape[0]
    for k in range(X.shape[0]):
        i = (first + k) % m
        if shuffle:
            u, _ = uniforms(seed, first + k, 0, CONTEXT)
            i = int(u * m)
        for j in range(X.shape[1]):
            X[k, j] = rows[i, j]


class Contexts:
    """Base of the sources: `dim` is d, and `fill` makes the contexts.

    >>> import numpy as np
    >>> import noregret as nr
    >>> class Ageing(nr.contexts.Contexts):  # the second coordinate grows from episode to episode
    ...     dim = 2
    ...
    ...     def fill(self, seed, first, X):
    ...         X[:, 0], X[:, 1] = 0.6, [0.8 * k / (k + 1) for k in range(first, first + len(X))]
    >>> X = np.empty((3, 2))
    >>> Ageing().fill(seed=0, first=1, X=X)
    >>> X.round(3).tolist()  # episodes 1, 2 and 3
    [[0.6, 0.4], [0.6, 0.533], [0.6, 0.6]]
    """

    dim: int
    support: Floats | None = None  # [m, d]: the contexts that occur, equally often in the long run, if finitely many

    def fill(self, seed: int, first: int, X: Floats) -> None:
        raise NotImplementedError


class Sphere(Contexts):
    """Uniform on the sphere of the given radius, or on the part of it with a constant first coordinate.

    With intercept = a, the first coordinate is the constant a * radius and the others are uniform on the sphere of
    radius sqrt(1 - a^2) * radius (d = 1: the constant radius).

    >>> import numpy as np
    >>> import noregret as nr
    >>> X = np.empty((2, 3))
    >>> nr.contexts.Sphere(3, radius=2.0, intercept=0.5).fill(seed=0, first=0, X=X)
    >>> X[:, 0].tolist(), np.linalg.norm(X, axis=1).round(6).tolist()
    ([1.0, 1.0], [2.0, 2.0])
    """

    def __init__(self, dim: int, radius: float = 1.0, intercept: float = 0.0) -> None:
        self.dim, self.radius = check.integer("dim", dim), check.positive("radius", radius)
        self.intercept = check.nonnegative("intercept", intercept)
        if self.intercept >= 1.0:
            raise ValueError(f"intercept must be below 1, got {check.shown(intercept)}")

    def fill(self, seed: int, first: int, X: Floats) -> None:
        _fill_sphere(seed, first, self.radius, self.intercept, X)


class Simplex(Contexts):
    """Uniform on the probability simplex.

    >>> import numpy as np
    >>> import noregret as nr
    >>> X = np.empty((4000, 4))
    >>> nr.contexts.Simplex(4).fill(seed=0, first=0, X=X)
    >>> float(abs(X.sum(1) - 1.0).max().round(6)), X.mean(0).round(2).tolist()
    (0.0, [0.25, 0.25, 0.25, 0.25])
    """

    def __init__(self, dim: int) -> None:
        self.dim = check.integer("dim", dim)

    def fill(self, seed: int, first: int, X: Floats) -> None:
        _fill_simplex(seed, first, X)


class Table(Contexts):
    """Rows of a table [m, d]: drawn uniformly with replacement, or in turn with order="cycle".

    >>> import numpy as np
    >>> import noregret as nr
    >>> X = np.empty((10, 1))
    >>> for order in ("random", "cycle"):
    ...     nr.contexts.Table([[0.1], [0.2], [0.3]], order).fill(seed=0, first=0, X=X)
    ...     print(X[:, 0].tolist())
    [0.2, 0.3, 0.1, 0.3, 0.3, 0.2, 0.3, 0.2, 0.1, 0.2]
    [0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.1]
    """

    def __init__(self, rows: ArrayLike, order: str = "random") -> None:
        self.support = made = check.rows("rows", rows)
        self.dim, self.order = made.shape[1], check.one_of("order", order, ("random", "cycle"))

    def fill(self, seed: int, first: int, X: Floats) -> None:
        _fill_rows(seed, first, self.support, self.order == "random", X)


class Cycle(Table):
    """The indicator vectors e_1, ..., e_d in turn, times `scale`: d tabular problems that share nothing.

    >>> import numpy as np
    >>> import noregret as nr
    >>> X = np.empty((3, 2))
    >>> nr.contexts.Cycle(2, scale=0.5).fill(seed=0, first=7, X=X)
    >>> X.tolist()  # episodes 7, 8 and 9
    [[0.0, 0.5], [0.5, 0.0], [0.0, 0.5]]
    """

    def __init__(self, dim: int, scale: float = 1.0) -> None:
        check.memory(f"a cycle with dim = {check.integer('dim', dim)}", 8.0 * float(dim) ** 2)
        super().__init__(check.positive("scale", scale) * np.eye(dim), order="cycle")


class Adversary(Contexts):
    """A function (seed, episode, agent) -> context [d]. It may look at the learner (not touch it) and choose the worst.

    Called once per episode, so a simulation runs at the speed of the function.

    >>> import numpy as np
    >>> import noregret as nr
    >>> def newcomer(seed, episode, agent):  # a context like none before, as long as there is one
    ...     return np.eye(3)[min(episode, 2)]
    >>> X = np.empty((4, 3))
    >>> nr.contexts.Adversary(3, newcomer).fill(seed=0, first=0, X=X)
    >>> X.argmax(1).tolist()
    [0, 1, 2, 2]
    """

    def __init__(self, dim: int, function: Callable[[int, int, Any], ArrayLike]) -> None:
        if not callable(function):
            raise ValueError(f"function must be callable with (seed, episode, agent), got {check.shown(function)}")
        self.dim, self.function = check.integer("dim", dim), function

    def fill(self, seed: int, first: int, X: Floats, agent: Any = None) -> None:
        for i in range(X.shape[0]):
            try:
                x = check.numbers("its value", self.function(seed, first + i, agent))
            except (TypeError, ValueError, ArithmeticError, LookupError) as error:
                raise ValueError(f"contexts: the function failed for episode {first + i} ({error})") from error
            if x.shape != (self.dim,):
                raise ValueError(f"contexts: the function must return shape ({self.dim},), got {x.shape}")
            X[i] = x
