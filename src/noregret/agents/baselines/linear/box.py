"""The largest mean of V over distributions known entry by entry: low_j <= p_j <= high_j, with or without sum p = 1.

Without the sum constraint (and V >= 0) every entry is at its upper end. With it, start from the lower ends and pour
what is left of the mass into the best next states first, each up to its upper end: a linear programme solved by one
sort.

slots [S'] says in which entry a next state is kept, -1: outside the support; order [S'] lists the states by falling V.
"""

from ....compiler.jit import inlined

EMPTY = 1e-12  # sums of ends beyond 1 by no more than this are rounding


@inlined
def sort_down(V, order):
    """order, a permutation of the states, <- the one by falling V; insertion, quick where the old order nearly fits."""
    for i in range(1, order.shape[0]):
        state, j = order[i], i
        while j > 0 and V[order[j - 1]] < V[state]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = state


@inlined
def close_box(P, width, scale, count, low, high):
    """low, high [M] <- the box P -+ scale width within [0, 1]. If it holds no distribution it becomes one point, its
    nearer end normalised (uniform if that is 0), and 1 is returned; else 0."""
    bottom, top, empty = 0.0, 0.0, 0
    for j in range(count):
        low[j], high[j] = max(0.0, P[j] - scale * width[j]), min(1.0, P[j] + scale * width[j])
        bottom += low[j]
        top += high[j]
    if bottom > 1.0 + EMPTY or top < 1.0 - EMPTY:
        empty = 1
        for j in range(count):
            p = low[j] / bottom if bottom > 1.0 else high[j] / top if top > 0.0 else 1.0 / count
            low[j], high[j] = p, p
    return empty


@inlined
def poured(low, high, slots, order, V):
    """max of sum p V over the box with sum p = 1; a box that holds a distribution, as `close_box` leaves it."""
    left, total = 1.0, 0.0
    for i in range(order.shape[0]):
        j = slots[order[i]]
        if j >= 0:
            left -= low[j]
    for i in range(order.shape[0]):
        j = slots[order[i]]
        if j >= 0:
            more = max(0.0, min(high[j] - low[j], left))
            left -= more
            total += (low[j] + more) * V[order[i]]
    return total
