"""Individuals who come again: where contexts are drawn from a short table, no model and no optimum is computed twice.

What is kept is what would be computed again, so nothing changes but the time it takes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from ..compiler.jit import inlined
from ..worlds import World
from ..worlds.truth import Truth

ROOM, FACES = 2**28, 64  # bytes of what is kept, and number of individuals


class Acquaintances(NamedTuple):
    """Models of individuals who come again and again, one per row of the world's table of contexts: made when they
    first come, and kept. With none (C = 0) every individual's model is made anew in `Truth`."""

    X: Floats  # [C, d]
    known: NDArray[np.int64]  # [C+1], 1: the arrays below are filled in; the last is 0
    P: Floats  # [C, S, A, M]
    r: Floats  # [C, S, A]
    best: NDArray[np.int64]  # [C, H, S]
    optimal: Floats  # [C, H+1, S]


def acquaintances(world: World) -> Acquaintances:
    """Room for every row of the world's table, if there is one, its rows are few, and `ROOM` bytes are enough."""
    p, f = world.problem, np.zeros
    (S, A, M), H, rows = p.layout.outcomes.shape, p.horizon, world.contexts.support
    X = f((0, p.context_dim)) if rows is None else np.unique(p.contexts(rows), axis=0)
    if len(X) > FACES or 8 * len(X) * (S * A * (M + 1) + 2 * (H + 1) * S) > ROOM:
        X = X[:0]
    C = len(X)
    best, optimal = f((C, H, S), np.int64), f((C, H + 1, S))
    return Acquaintances(X, f(C + 1, np.int64), f((C, S, A, M)), f((C, S, A)), best, optimal)


@inlined
def look_up(known, x):
    """The row of `known.X` that is x; one more than the last if there is none."""
    found = known.X.shape[0]
    for c in range(known.X.shape[0]):
        same = True
        for b in range(x.shape[0]):
            same = same and known.X[c, b] == x[b]
        if same:
            found = c
    return found


def models(truth: Truth, known: Acquaintances) -> list[Truth]:
    """For every acquaintance the truth with the arrays of that one for its own."""
    return [
        truth._replace(P=known.P[c], r=known.r[c], best=known.best[c], optimal=known.optimal[c])
        for c in range(len(known.X))
    ]
