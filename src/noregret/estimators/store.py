"""Every step that was taken, kept by pair: for estimators that go back over their data.

Step h of episode k has number k H + h. The steps of one pair form a chain from the last to the first: `last[s, a]`,
then `previous[k, h]`, until -1. A walk over a pair's n steps touches n rows, whatever else is stored; one context is
kept per episode. Kernels allocate nothing, so `with_room` makes the arrays longer between episodes, by doubling.

Where pairs share weights the steps of a block are gone over episode by episode, those of one individual together: what
depends on the context alone is then found once. So the pair of every step is kept as well (`pairs`).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats
from ..compiler.jit import inlined
from ..problem.problem import Problem


class Store(NamedTuple):
    contexts: Floats  # [N, d], one row per episode
    outcomes: NDArray[np.int64]  # [N, H], slots of the next states
    rewards: Floats  # [N, H]; -1 where it was not observed
    previous: NDArray[np.int64]  # [N, H], number of the pair's step before, or -1
    last: NDArray[np.int64]  # [S, A], likewise
    visits: NDArray[np.int64]  # [S, A]
    pairs: NDArray[
        np.int64
    ]  # [N, H], 1 + s A + a of the step, 0 where none was taken; [N, 0] where pairs share nothing
    order: NDArray[np.int64]  # [2]: the newest episode there is, and how many steps were learned after a newer episode

    def by_episode(self) -> tuple[str, ...]:
        return BY_EPISODE

    def limits(self, problem: Problem) -> dict[str, tuple[float, float]]:
        n, M = self.previous.size, problem.layout.outcomes.shape[2]
        steps = {"previous": (-1, n - 1), "last": (-1, n - 1), "visits": (0, n)}
        longest = problem.context_bound * (1.0 + 1e-9)
        steps |= {"order": (0, n)}
        return steps | {"outcomes": (0, M - 1), "pairs": (0, self.last.size), "contexts": (-longest, longest)}

    def fault(self) -> str | None:
        newest = 0
        for at in np.ndindex(*self.last.shape):
            places = chain(self.last[at], self.previous.ravel())
            if places is None:
                return ENDLESS
            if len(places) != self.visits[at]:
                return "has a chain of another length than it says"
            number = 1 + np.ravel_multi_index(at, self.last.shape)
            if self.pairs.size and set(np.flatnonzero(self.pairs == number).tolist()) != places:
                return "has steps of other pairs than it says"
            newest = max(newest, *(place // self.previous.shape[1] for place in places), 0)
        return None if newest == self.order[0] else "has another newest episode than it says"

    def kept(self) -> set[int]:
        chains = (chain(first, self.previous.ravel()) for first in self.last.ravel())
        return {at // self.previous.shape[1] for places in chains for at in places or ()}


BY_EPISODE = ("contexts", "outcomes", "rewards", "previous", "pairs")
ENDLESS = "has a chain that does not end"


def chain(first: Any, before: Any) -> set[int] | None:
    """The places of a chain, from its end; None where it goes in a circle or out of `before`."""
    at, met = int(first), set[int]()
    while at >= 0:
        if at in met or at >= len(before):
            return None
        met.add(at)
        at = int(before[at])
    return met


def empty_store(
    n_states: int, n_actions: int, horizon: int, context_dim: int, episodes: int, shared: bool = False
) -> Store:
    """Room for `episodes` episodes (0: nothing is ever stored); shared: pairs of steps are kept, too."""
    N, H, i = episodes, horizon, np.int64
    pairs = (n_states, n_actions)
    return Store(
        np.zeros((N, context_dim)), np.zeros((N, H), i), np.zeros((N, H)), np.zeros((N, H), i), np.full(pairs, -1, i),
        np.zeros(pairs, i), np.zeros((N, H if shared else 0), i), np.zeros(2, i),
    )  # fmt: skip


def with_room(store: Store, episodes: int) -> Store:
    """The same store with room for at least `episodes` episodes, which may be itself."""
    have = store.contexts.shape[0]
    if episodes <= have:
        return store
    check.memory(
        f"the data of {episodes} episodes",
        8.0 * episodes * (store.contexts.shape[1] + 3 * store.outcomes.shape[1] + store.pairs.shape[1]),
    )
    more = max(episodes, 2 * have) - have

    def longer(a: NDArray[np.generic]) -> NDArray[np.generic]:
        return np.concatenate([a, np.zeros((more, *a.shape[1:]), a.dtype)])

    grown = {name: longer(getattr(store, name)) for name in BY_EPISODE}
    return store._replace(**grown)  # type: ignore[arg-type]


@inlined
def remember(store, k, h, s, a, y, reward):
    """Step h of episode k: pair (s, a), slot y of the next state; reward -1 if it was not observed. Its context must be
    in store.contexts[k]."""
    if k < store.order[0]:
        store.order[1] += 1
    store.order[0] = max(store.order[0], k)
    store.outcomes[k, h] = y
    store.rewards[k, h] = reward
    store.previous[k, h] = store.last[s, a]
    store.last[s, a] = k * store.outcomes.shape[1] + h
    store.visits[s, a] += 1
    if store.pairs.shape[1] > 0:
        store.pairs[k, h] = 1 + s * store.last.shape[1] + a
