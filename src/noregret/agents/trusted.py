"""How far a file is believed about what an agent has learned.

Kernels look at no index twice. Whatever in a saved state is a place in an array, or a chain of such places, is checked
here before a kernel sees it, node by node of the nested tuples and by the node's type; so are sizes of numbers, and
that inverses are those of their matrices. Kernels must not fail; whether the numbers are true is another matter."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..problem import Problem

_LARGE = 1e100
_COUNTERS = {"samples", "visits", "refreshed", "begins", "used"}  # steps, of a pair or of all
_FIXED = {"LikelihoodState": ("outcomes", "prior")}


_BY_EPISODE = {
    "Store": ("contexts", "outcomes", "rewards", "previous"),
    "ReferralState": ("referred", "gap"),
}  # a row for each individual


def _kind(node: Any) -> str:
    return type(node).__name__


def fixed_in(node: Any) -> tuple[str, ...]:
    """Arrays of a node that no history changes."""
    return _FIXED.get(_kind(node), ())


def by_episode(state: Any) -> set[str]:
    """Names of the arrays of a state that have a row for each individual, and for those to come."""
    made = {f"{key}.{name}" for key, node in nodes("state", state) for name in _BY_EPISODE.get(_kind(node), ())}
    stored = {key for key, node in nodes("state", state) if _kind(node) == "Store" and not len(node.contexts)}
    return {name for name in made if name.rpartition(".")[0] not in stored}


def nodes(key: str, node: Any) -> Iterator[tuple[str, Any]]:
    """(name, named tuple) of a state and of all it is made of."""
    if hasattr(node, "_fields"):
        yield key, node
        for field in node._fields:
            yield from nodes(f"{key}.{field}", getattr(node, field))


def check_state(key: str, node: Any, p: Problem) -> None:
    """A ValueError where a whole number of the state is none that a history leads to."""
    S, A, M = p.layout.outcomes.shape
    pair: dict[str, tuple[float, float]] = {"states": (0, S - 1), "actions": (0, A - 1)}
    own: dict[str, tuple[float, float]]
    limits: dict[str, dict[str, tuple[float, float]]] = {
        "LikelihoodState": {"pending": (0, 15)},
        "MixtureState": {"component": (-1, 62), "begins": (-1, 2**62)},
        "RewardSetState": {"active": (0, 1), "reach": (0, math.inf)},
        "TabularState": {
            "policy": (0, A - 1),
            "P": (0, 1),
            "stale": (-(2**62), 1),
            "values": (-_LARGE, _LARGE),
            "Q": (-_LARGE, _LARGE),
        },
        "LSVIState": pair | {"seen": (0, 1)},
        "CeceState": pair | {"slots": (0, M - 1), "steps": (0, p.horizon)},
        "ReferralState": {"referred": (-1, 1)},
    }
    own = limits.get(_kind(node), {})
    if _kind(node) == "CellState":
        own = {"cells": (0, len(node.centres))}
    if _kind(node) == "Store":
        n = node.previous.size
        own = {"outcomes": (0, M - 1), "previous": (-1, n - 1), "last": (-1, n - 1), "visits": (0, n)}
    if _kind(node) == "Memory":
        n = len(node.earlier)
        own = {"earlier": (-1, n - 1), "last": (-1, n - 1), "used": (0, n)}
    counts = _kind(node) == "TabularState"
    for name in node._fields:
        array = getattr(node, name)
        if isinstance(array, np.ndarray) and array.dtype.kind in "iuf" and array.size:
            whole = array.dtype.kind in "iu" or counts
            low, high = own.get(name, (0, 2**62) if whole else (-_LARGE, _LARGE))
            if array.min() < low or array.max() > high:
                raise ValueError(f"{key}.{name} has numbers outside {low:g} to {high:g}")
    gram, inverse = getattr(node, "gram", None), getattr(node, "inverse", None)
    if isinstance(gram, np.ndarray) and isinstance(inverse, np.ndarray) and gram.shape == inverse.shape and gram.size:
        close = np.abs(gram @ inverse - np.eye(gram.shape[-1])).max() <= 1e-3
        if not close or np.linalg.eigvalsh(gram).min() <= 0.0:
            raise ValueError(f"{key}.inverse is not the inverse of a Gram matrix")
    if _kind(node) == "Store":
        for at in np.ndindex(*node.last.shape):
            if len(_chain(key, node.last[at], node.previous.ravel())) != node.visits[at]:
                raise ValueError(f"{key} has a chain of another length than it says")
    if _kind(node) == "Memory":
        for first in node.last.ravel():
            _chain(key, first, node.earlier[: int(node.used[0])])


def _chain(key: str, first: Any, before: Any) -> set[int]:
    """The places of a chain, from its end; ValueError where it goes in a circle or out of what is in use."""
    at, met = int(first), set[int]()
    while at >= 0:
        if at in met or at >= len(before):
            raise ValueError(f"{key} has a chain that does not end")
        met.add(at)
        at = int(before[at])
    return met


def check_clock(agent: Any) -> None:
    """A ValueError where the clock, the steps that are kept and the numbers of steps do not go together."""
    met, horizon = agent.episode, agent.problem.horizon
    if any(k >= met for k in stored_episodes(agent.state, horizon)):
        raise ValueError("it keeps steps of individuals that it has not met")
    for key, node in nodes("state", agent.state):
        for name in _COUNTERS & set(node._fields):
            array = getattr(node, name)
            if array.size and array.dtype.kind in "iu" and int(array.max()) > met * horizon:
                raise ValueError(f"{key}.{name} counts more steps than {met} individuals have taken")


def stored_episodes(state: Any, horizon: int) -> set[int]:
    """Numbers of the individuals whose steps are kept."""
    kept = [node for _, node in nodes("state", state) if _kind(node) == "Store"]
    places = (_chain("store", first, s.previous.ravel()) for s in kept for first in s.last.ravel())
    return {at // horizon for met in places for at in met}
