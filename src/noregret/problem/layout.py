"""Which next states of which pairs are kept, and where: what every array with a pair's next states is indexed by."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiler.jit import inlined


class Layout(NamedTuple):
    """Where the supported next states of each pair are kept: slot j of pair (s, a) is state outcomes[s, a, j].

    With a full support slot j is state j and `dense` is 1. With a support mask only M = max_sa (number of supported
    states) slots are stored, and slots from count[s, a] on are padding, which kernels leave alone."""

    count: NDArray[np.int64]  # type: ignore[assignment]  # [S, A]; hides tuple.count
    outcomes: NDArray[np.int64]  # [S, A, M]
    available: NDArray[np.bool_]  # [S, A]
    dense: int


def full_layout(available: NDArray[np.bool_]) -> Layout:
    """Every state may follow every pair."""
    S, A = available.shape
    outcomes = np.broadcast_to(np.arange(S), (S, A, S)).copy()
    return Layout(np.full((S, A), S, np.int64), outcomes, available, 1)


def masked_layout(listed: NDArray[np.int64], available: NDArray[np.bool_]) -> Layout:
    """From next states listed in ascending order, [S, A, m] with -1 in the unused places behind them."""
    S, A, m = listed.shape
    count = (listed >= 0).sum(2)
    if count.min() == S:
        return full_layout(available)
    count = np.maximum(count, 1).astype(np.int64)  # pairs that are never taken still need one slot
    outcomes = np.maximum(listed, 0) if m else np.zeros((S, A, 1), np.int64)
    return Layout(count, np.ascontiguousarray(outcomes[:, :, : count.max()]), available, 0)


def used_slots(layout: Layout) -> NDArray[np.bool_]:
    """[S, A, M]: which slots are a next state's; the others are padding."""
    return np.asarray(np.arange(layout.outcomes.shape[2]) < layout.count[..., None])


def slot_table(layout: Layout) -> NDArray[np.int64]:
    """[S, A, S']: in which slot a next state is kept; -1: outside the support."""
    S, A, _ = layout.outcomes.shape
    s, a, j = np.nonzero(used_slots(layout))
    made = np.full((S, A, S), -1, np.int64)
    made[s, a, layout.outcomes[s, a, j]] = j
    return made


def uniform_rows(layout: Layout) -> NDArray[np.float64]:
    """[S, A, M]: each of a pair's next states equally likely, 0 in the padding."""
    return np.where(used_slots(layout), 1.0 / layout.count[..., None], 0.0)


def listed_support(support: Any, S: int, A: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """(`support` as an array of its own, the same as a list): bool [S, A, S'], or next states [S, A, m] with -1 in
    unused places. Memory and time O(S A m) for the latter."""
    made = np.array(support)
    if made.dtype == np.bool_ and made.shape == (S, A, S):
        m = int(made.sum(2).max())
        s, a, after = np.nonzero(made)
        place = (np.cumsum(made, axis=2, dtype=np.int32) - 1)[s, a, after]
        listed = np.full((S, A, m), -1, np.int64)
        listed[s, a, place] = after
        return made, listed
    if made.dtype.kind not in "iu" or made.ndim != 3 or made.shape[:2] != (S, A):
        raise ValueError(
            f"support must be a boolean array of shape {(S, A, S)}, or next states of shape {(S, A, 'm')} with -1 in "
            f"unused places, got {made.dtype} of shape {made.shape}"
        )
    made = made.astype(np.int64)
    if made.size and (made.min() < -1 or made.max() >= S):
        raise ValueError(f"support must list states 0 to {S - 1}, or -1, got {made.min()} to {made.max()}")
    ordered = np.sort(np.where(made < 0, S, made), axis=2)
    twice = np.argwhere((ordered[:, :, 1:] == ordered[:, :, :-1]) & (ordered[:, :, 1:] < S))
    if twice.size:
        at = int(twice[0, 0]), int(twice[0, 1])
        raise ValueError(f"support must list a next state once, pair {at} has one twice")
    return made, np.where(ordered == S, -1, ordered)


@inlined
def slot_of(layout, s, a, state):
    """In which slot of pair (s, a) the next state is kept."""
    if layout.dense == 1:
        return state
    for j in range(layout.count[s, a]):
        if layout.outcomes[s, a, j] == state:
            return j
    raise ValueError("a next state lies outside the support")
