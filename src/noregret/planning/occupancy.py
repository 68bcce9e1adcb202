"""How often a policy can be at a state at a step, at most, under any weights of a joint set.

Backwards, per place (step and state) that may be reached: U = 1 there, and for the pair at hand, with p the row of the
centre and R = span(v),

    <p*, U> <= min( <p, U> + max Cov_p(U, v) + sum_k (U_k - <p, U>)_+ J_1,k away_k^2,
                    <p, U> + span(U) tanh(R/4),   sum_k most_k U_k,   max U )

for all weights of the set (docs/joint.md, section 5). Two policies that agree at every
state met so far have gone the same way. So places are kept apart by whether they have: `Visits`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..beliefs.displaced import Rows
from ..checks import Floats
from ..problem.layout import Layout
from .derivatives import dense, step_of


class Visits(NamedTuple):
    """Upper bounds on probabilities, [n, H, S]."""

    together: Floats  # at s after policies that agreed at every state met so far, and they agree at s
    apart: Floats  # the first policy: at s, and the two have differed, here or before
    other: Floats  # the second policy, likewise


class _Backup:
    """The four bounds above for the pairs of a policy."""

    def __init__(self, rows: Rows, layout: Layout, full: Floats) -> None:
        self.rows, self.layout, self.full = rows, layout, full
        self.most = dense(layout, rows.most)
        self.second = dense(layout, rows.moments[0] * rows.away**2)
        n, S, A, M, m = rows.slope.shape
        moved = rows.slope.transpose(0, 4, 1, 2, 3).reshape(n * m, S, A, M)
        self.slope = dense(layout, moved).reshape(n, m, S, A, -1).transpose(0, 2, 3, 4, 1)

    def __call__(self, U: Floats, policy: NDArray[np.int64], h: int) -> Floats:
        """[n, T, S] from U [n, T, S'], both for T places."""
        pick = step_of(self.layout, policy, h).pick
        n, T, S = U.shape
        if T == 0:
            return U
        span = (U.max(-1) - U.min(-1))[..., None]
        slope = self.slope[pick].transpose(0, 2, 1, 3).reshape(n, S, -1)
        rising = np.sqrt(((U @ slope).reshape(n, T, S, -1) ** 2).sum(-1))
        half, mean = np.tanh(0.25 * self.rows.span[pick])[:, None], U @ self.full[pick].swapaxes(1, 2)
        for s in range(S):
            above = np.maximum(U - mean[:, :, s, None], 0.0)
            rising[:, :, s] += (above @ self.second[pick][:, s, :, None])[..., 0]
        found = np.minimum(mean + np.minimum(rising, span * half), U @ self.most[pick].swapaxes(1, 2))
        made: Floats = np.minimum(found, U.max(-1)[..., None])
        return made


def visits(
    rows: Rows,
    layout: Layout,
    full: Floats,
    start: Floats,
    policy: NDArray[np.int64],
    other: NDArray[np.int64] | None,
) -> Visits:
    """start [n, S]: where individuals begin; other: None where there is one policy only."""
    backup = _Backup(rows, layout, full)
    n, H, S = policy.shape
    agree = np.zeros((n, H, S), bool) if other is None else policy == other
    none = np.zeros((n, H, S))
    if other is None:
        return Visits(none, _apart(backup, start, policy, agree), none)
    together, U = none, np.zeros((n, 0, S))
    for h in range(H - 1, -1, -1):
        U = np.concatenate([np.broadcast_to(np.eye(S), (n, S, S)), backup(U, policy, h)], axis=1)
        U = U * agree[:, h, None, :]
    together = (U @ start[..., None])[..., 0].reshape(n, H, S)
    return Visits(together, _apart(backup, start, policy, agree), _apart(backup, start, other, agree))


def _apart(backup: _Backup, start: Floats, policy: NDArray[np.int64], agree: NDArray[np.bool_]) -> Floats:
    """Places in the order of their steps; `met`: from before the policies have differed, `free`: from after."""
    n, H, S = policy.shape
    met = free = np.zeros((n, 0, S))
    here = np.broadcast_to(np.eye(S), (n, S, S))
    for h in range(H - 1, -1, -1):
        same = agree[:, h, None, :]
        later = backup(free, policy, h)
        before = backup(met, policy, h) if same.any() else later
        met = np.concatenate([here * ~same, np.where(same, before, later)], axis=1)
        free = np.concatenate([here, later], axis=1)
    made: Floats = (met @ start[..., None])[..., 0].reshape(n, H, S)
    return made
