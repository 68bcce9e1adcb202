"""Values of a policy at the centre of a joint set, with their derivatives in what an individual sees of the weights.

u = (Delta x) of all blocks, transitions and rewards; v_k = f_k'u displaces logits, e = g'u mean rewards. With p the row
of the centre at pi_h(s), + the next step, D, E and F the first, second and third derivative along u,

    V_h = r + <p, V+>,    D_h = e + <p, D+> + Cov_p(V+, v),    E_h = <p, E+> + 2 Cov_p(D+, v) + K3(V+, v, v)
    F_h = <p, F+> + 3 Cov_p(E+, v) + 3 K3(D+, v, v) + K4(V+, v, v, v)

K3(V, v, v) = E (V - EV)(v - Ev)^2 and K4(V, v, v, v) = E (V - EV)(v - Ev)^3 - 3 Cov(V, v) Var(v) under p. Mean
rewards are linear, so they enter D alone, and the mixed derivatives of transitions and rewards come by themselves.
docs/joint.md, section 3.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..beliefs.displaced import Rows
from ..checks import Floats
from ..problem.layout import Layout


class Step(NamedTuple):
    """The pairs of one step of a policy, per context and state."""

    pick: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]  # index [n, S] of arrays [n, S, A, ...]
    after: tuple[NDArray[np.int64], NDArray[np.int64]]  # index [n, S, M] of arrays [n, S', ...]
    used: NDArray[np.bool_]  # [n, S, M]


class Expansion(NamedTuple):
    """One policy, or what one policy has more than another."""

    V: Floats  # [n, H+1, S]
    D: Floats  # [n, H+1, S, m]
    E: Floats  # [n, H+1, S, m, m]


def step_of(layout: Layout, policy: NDArray[np.int64], h: int) -> Step:
    """policy [n, H, S]."""
    a = policy[:, h]
    n, S = a.shape
    i, s = np.arange(n)[:, None], np.arange(S)[None, :]
    after = layout.outcomes[s, a]
    used = np.arange(after.shape[2]) < layout.count[s, a][..., None]
    return Step((np.broadcast_to(i, (n, S)), np.broadcast_to(s, (n, S)), a), (i[..., None], after), used)


def dense(layout: Layout, slots: Floats) -> Floats:
    """[n, S, A, S'] from [n, S, A, M]."""
    if layout.dense:
        return slots
    S, A, M = layout.outcomes.shape
    made = np.zeros((*slots.shape[:3], S))
    s, a = np.ogrid[:S, :A]
    for k in range(M):
        made[:, s, a, layout.outcomes[:, :, k]] += slots[..., k]  # padding is 0
    return made


def expand(
    rows: Rows, full: Floats, reward: tuple[Floats, Floats], layout: Layout, policy: NDArray[np.int64]
) -> Expansion:
    """full [n, S, A, S']: P of the centre; reward: means [n, S, A] and features [S, A, m]."""
    means, features = reward
    n, H, S = policy.shape
    m = features.shape[-1]
    made = Expansion(np.zeros((n, H + 1, S)), np.zeros((n, H + 1, S, m)), np.zeros((n, H + 1, S, m, m)))
    for h in range(H - 1, -1, -1):
        step = step_of(layout, policy, h)
        P, f, to = rows.P[step.pick], rows.centred[step.pick], full[step.pick]
        V, D = made.V[:, h + 1], made.D[:, h + 1]
        mean = (to @ V[..., None])[..., 0]
        made.V[:, h] = means[step.pick] + mean
        weighted = P * (V[step.after] - mean[..., None])
        moved = np.einsum("nsk,nskm->nsm", weighted, f)
        made.D[:, h] = features[step.pick[1], step.pick[2]] + to @ D + moved
        cross = (P[..., None] * D[step.after]).swapaxes(-1, -2) @ f
        bent = (weighted[..., None] * f).swapaxes(-1, -2) @ f
        kept = (to @ made.E[:, h + 1].reshape(n, S, m * m)).reshape(n, S, m, m)
        made.E[:, h] = kept + cross + cross.swapaxes(-1, -2) + bent
    return made


def third_derivative(orders: Expansion, F: Floats, rows: Rows, to: Floats, step: Step, h: int) -> Floats:
    """F_h, [n, S, m, m, m], from F_h+1 and from V, D, E of step h+1, in the coordinates y of `Rows.white`: so must D, E
    and F be. to [n, S, S']: the rows of the policy. Symmetric."""
    P, c, slope = rows.P[step.pick], rows.white[step.pick], rows.slope[step.pick]
    n, S, M, m = c.shape
    V, D, E = (part[:, h + 1][step.after] for part in orders)
    weighted = P * (V - (P * V).sum(-1, keepdims=True))
    D = P[..., None] * (D - (P[..., None] * D).sum(2, keepdims=True))
    pairs = (c[..., :, None] * c[..., None, :]).reshape(n, S, M, m * m)
    moved = weighted[..., None] * c
    T = ((moved + 3.0 * D).swapaxes(-1, -2) @ pairs).reshape(n, S, m, m, m)
    T += 3.0 * (slope.swapaxes(-1, -2) @ E.reshape(n, S, M, m * m)).reshape(n, S, m, m, m)
    T -= 3.0 * moved.sum(2)[..., None, None] * (slope.swapaxes(-1, -2) @ c)[:, :, None]
    made: Floats = (to @ F.reshape(n, S, -1)).reshape(n, S, m, m, m)
    made += (T + T.swapaxes(-2, -3) + np.moveaxis(T, -3, -1)) / 3.0
    return made
