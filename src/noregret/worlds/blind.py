"""What context is worth: the best policy that may not look at it, exactly."""

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats
from .world import World


class BlindOptimum(NamedTuple):
    """Mean values over the population, at the initial state: what `blind_optimum` finds.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic(horizon=3)
    >>> worth = nr.worlds.blind_optimum(world)
    >>> worth.policy[0]  # at the first step, per state: the best that can be done for everybody alike
    array([0, 0, 1, 1])
    >>> values = [world.value(worth.policy, x) for x in world.contexts.support]
    >>> print(f"{worth.blind:.2f} = {sum(values) / 6:.2f}")
    1.32 = 1.32
    """

    contextual: float  # every individual treated optimally
    blind: float  # the best one policy for everybody
    policy: Floats  # [H, S], that policy
    uniform: float  # uniformly random actions


def blind_optimum(world: World, limit: int = 20_000_000) -> BlindOptimum:
    """What context is worth: the best policy that may not look at it, beside the best for each individual.

    Exact: enumerates the deterministic Markov policies that ignore the context (over the states that can be reached).
    For worlds with finitely many contexts and a fixed initial state. Raises if there are more than `limit` policies.

    >>> import noregret as nr
    >>> worth = nr.worlds.blind_optimum(nr.worlds.clinic())
    >>> print(f"context {worth.contextual:.3f}, without {worth.blind:.3f}, at random {worth.uniform:.3f}")
    context 4.587, without 3.650, at random 2.555
    """
    if not isinstance(world, World):
        raise ValueError(f"world must be a noregret.World, got {check.shown(world)}")
    check.integer("limit", limit)
    p, X = world.problem, world.contexts.support
    if X is None or not check.alone(world.initial_state) or callable(world.initial_state):
        raise ValueError("world must have finitely many contexts and a fixed initial state")
    if world.unavailable is not None:
        raise ValueError("world must be one in which everybody can get everything")
    start, H = world.start(0, 0), p.horizon
    P = np.stack([world.transitions(x) for x in X])  # [N, S, A, S']
    r = np.stack([world.rewards(x) for x in X])
    reached = [{start}]
    for _ in range(H - 1):
        possible = (P[:, list(reached[-1])] > 0) & p.layout.available[list(reached[-1])][None, :, :, None]
        reached.append(set(np.flatnonzero(possible.any((0, 1, 2))).tolist()))
    choices = [[(s, np.flatnonzero(p.layout.available[s])) for s in sorted(states)] for states in reached]
    total = math.prod(len(actions) for step in choices for _, actions in step)
    if total > limit:
        raise ValueError(f"world has {total} context-blind policies, more than limit = {limit}")
    # Values of every combination of decisions from step h on: [combinations, N, S]; a Cartesian product per step.
    V = np.zeros((1, len(X), p.n_states))
    picked: Floats = np.zeros((1, 0, p.n_states), np.int64)
    for h in reversed(range(H)):
        states = [s for s, _ in choices[h]]
        rules = np.array(list(itertools.product(*(actions for _, actions in choices[h]))))  # [R, states]
        new = np.zeros((len(rules), len(V), len(X), p.n_states))
        backed = r[None] + np.einsum("nsat,cnt->cnsa", P, V)  # [C, N, S, A]
        for i, s in enumerate(states):
            new[..., s] = np.moveaxis(backed[:, :, s, rules[:, i]], 2, 0)
        rows = np.zeros((len(rules), len(V), 1, p.n_states), np.int64) + p.layout.available.argmax(1)
        rows[:, :, 0, states] = rules[:, None]
        tail = np.broadcast_to(picked, (len(rules), *picked.shape))
        picked = np.concatenate([rows, tail], axis=2).reshape(-1, H - h, p.n_states)
        V = new.reshape(-1, len(X), p.n_states)
        if h > 0:  # a combination that is no better for anyone at any reached state cannot be needed
            keep = _undominated(V[:, :, states].reshape(len(V), -1))
            V, picked = V[keep], picked[keep]
    means = V[:, :, start].mean(1)
    best = int(means.argmax())
    contextual = float(np.mean([world.optimal(x).values[0, start] for x in X]))
    return BlindOptimum(contextual, float(means[best]), picked[best], _uniform(P, r, p.layout.available, H, start))


def _undominated(points: Floats) -> Floats:
    """Indices of the rows that are not below another row in every coordinate (pruning only: keeping more is fine)."""
    order = np.argsort(-points.sum(1), kind="stable")
    kept: list[int] = []
    front = np.empty((0, points.shape[1]))
    for i in order:
        if not (front >= points[i]).all(1).any():
            kept.append(int(i))
            front = np.vstack([front, points[i]])
    return np.array(kept)


def _uniform(P: Floats, r: Floats, available: NDArray[np.bool_], horizon: int, start: int) -> float:
    chance = available / available.sum(1, keepdims=True)
    V = np.zeros(r.shape[:2])
    for _ in range(horizon):
        V = ((r + np.einsum("nsat,nt->nsa", P, V)) * chance).sum(2)
    return float(V[:, start].mean())
