"""Every step that was taken, kept by pair: for estimators that go back over their data.

Step h of episode k has number k H + h. The steps of one pair form a chain from the last to the first: `last[s, a]`,
then `previous[k, h]`, until -1. A walk over a pair's n steps touches n rows, whatever else is stored; one context is
kept per episode. Kernels allocate nothing, so `with_room` makes the arrays longer between episodes, by doubling.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _checks as check
from .._checks import Floats
from .._jit import inlined


class Store(NamedTuple):
    contexts: Floats  # [N, d], one row an episode
    outcomes: NDArray[np.int64]  # [N, H], slots of the next states
    rewards: Floats  # [N, H]; -1 where it was not observed
    previous: NDArray[np.int64]  # [N, H], number of the pair's step before, or -1
    last: NDArray[np.int64]  # [S, A], likewise
    visits: NDArray[np.int64]  # [S, A]


def empty_store(n_states: int, n_actions: int, horizon: int, context_dim: int, episodes: int) -> Store:
    """Room for `episodes` episodes (0: nothing is ever stored)."""
    N, H, i = episodes, horizon, np.int64
    pairs = (n_states, n_actions)
    return Store(
        np.zeros((N, context_dim)), np.zeros((N, H), i), np.zeros((N, H)), np.zeros((N, H), i), np.full(pairs, -1, i),
        np.zeros(pairs, i),
    )  # fmt: skip


def with_room(store: Store, episodes: int) -> Store:
    """The same store with room for at least `episodes` episodes, which may be itself."""
    have = store.contexts.shape[0]
    if episodes <= have:
        return store
    check.memory(
        f"the data of {episodes} episodes", 8.0 * episodes * (store.contexts.shape[1] + 3 * store.outcomes.shape[1])
    )
    more = max(episodes, 2 * have) - have

    def longer(a: NDArray[np.generic]) -> NDArray[np.generic]:
        return np.concatenate([a, np.zeros((more, *a.shape[1:]), a.dtype)])

    grown = {name: longer(getattr(store, name)) for name in ("contexts", "outcomes", "rewards", "previous")}
    return store._replace(**grown)  # type: ignore[arg-type]


@inlined
def remember(store, k, h, s, a, y, reward):
    """Step h of episode k: pair (s, a), slot y of the next state; reward -1 if it was not observed. Its context must be
    in store.contexts[k]."""
    store.outcomes[k, h] = y
    store.rewards[k, h] = reward
    store.previous[k, h] = store.last[s, a]
    store.last[s, a] = k * store.outcomes.shape[1] + h
    store.visits[s, a] += 1
