"""How far a file is believed about what an agent has learned.

Kernels look at no index twice. Whatever in a saved state is a place in an array, or a chain of such places, is checked
here before a kernel sees it, node by node of the nested tuples; so are sizes of numbers, and that inverses are those of
their matrices. Kernels must not fail; whether the numbers are true is another matter.

A state says itself what is special about its arrays, next to its fields; whatever it does not mention is bounded by
what every history keeps to.

    limits(problem)   {name: (smallest, largest)} of arrays; others: whole numbers from 0, numbers of a sensible size
    fault()           what else is wrong with it, the rest of a sentence, or None
    fixed()           names of arrays that no history changes
    by_episode()      names of arrays with a row for each individual, and for those to come
    kept()            numbers of the individuals whose steps it keeps

Arrays named `gram` and `inverse`, of the same shape, are each other's inverses; those in `COUNTERS` count steps."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..problem.problem import Problem

_LARGE = 1e100
COUNTERS = {"samples", "visits", "refreshed", "begins", "used"}  # of a pair or of all


def nodes(key: str, node: Any) -> Iterator[tuple[str, Any]]:
    """(name, named tuple) of a state and of all it is made of."""
    if hasattr(node, "_fields"):
        yield key, node
        for field in node._fields:
            yield from nodes(f"{key}.{field}", getattr(node, field))


def named(state: Any, kind: str) -> set[str]:
    """Names of the arrays that are "fixed", or kept "by_episode", in a state and in all it is made of."""
    return {f"{key}.{name}" for key, node in nodes("state", state) for name in getattr(node, kind, tuple)()}


def check_state(key: str, node: Any, problem: Problem) -> None:
    """A ValueError where a whole number of the state is none that a history leads to."""
    own = node.limits(problem) if hasattr(node, "limits") else {}
    for name in node._fields:
        array = getattr(node, name)
        if isinstance(array, np.ndarray) and array.dtype.kind in "iuf" and array.size:
            low, high = own.get(name, (0, 2**62) if array.dtype.kind in "iu" else (-_LARGE, _LARGE))
            if array.min() < low or array.max() > high:
                raise ValueError(f"{key}.{name} has numbers outside {low:g} to {high:g}")
    gram, inverse = getattr(node, "gram", None), getattr(node, "inverse", None)
    if isinstance(gram, np.ndarray) and isinstance(inverse, np.ndarray) and gram.shape == inverse.shape and gram.size:
        close = np.abs(gram @ inverse - np.eye(gram.shape[-1])).max() <= 1e-3
        if not close or np.linalg.eigvalsh(gram).min() <= 0.0:
            raise ValueError(f"{key}.inverse is not the inverse of a Gram matrix")
    fault = node.fault() if hasattr(node, "fault") else None
    if fault is not None:
        raise ValueError(f"{key} {fault}")


def check_clock(agent: Any) -> None:
    """A ValueError where the clock, the steps that are kept and the numbers of steps do not go together."""
    met, horizon = agent.episode, agent.problem.horizon
    if any(k >= met for k in stored_episodes(agent.state)):
        raise ValueError("it keeps steps of individuals that it has not met")
    for key, node in nodes("state", agent.state):
        for name in COUNTERS & set(node._fields):
            array = getattr(node, name)
            if array.size and array.dtype.kind in "iu" and int(array.max()) > met * horizon:
                raise ValueError(f"{key}.{name} counts more steps than {met} individuals have taken")


def stored_episodes(state: Any) -> set[int]:
    """Numbers of the individuals whose steps are kept."""
    return {k for _, node in nodes("state", state) if hasattr(node, "kept") for k in node.kept()}
