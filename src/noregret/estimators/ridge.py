"""Ridge regression for mean rewards theta'x, one independent problem per pair, on its own Gram matrix.

    V = lambda I + sum x x',   theta = V^{-1} sum x r,   r_hat = clip(theta'x, 0, 1)

The interval is `theory.widths.reward_interval`. A missing reward (nan) updates nothing.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import Floats
from .._jit import inlined
from .._linear_algebra import apply_refresh, rank_one, times

REFRESH = 1000  # observations between direct inversions


class RidgeState(NamedTuple):
    theta: Floats  # [S, A, d]
    gram: Floats  # V, [S, A, d, d]
    inverse: Floats  # V^{-1}
    logdet: Floats  # ln det V / lambda^d, [S, A]
    moment: Floats  # sum x r, [S, A, d]
    samples: NDArray[np.int64]  # [S, A]


def ridge_state(n_states: int, n_actions: int, context_dim: int, regularization: float) -> RidgeState:
    S, A, d = n_states, n_actions, context_dim
    gram = np.tile(regularization * np.eye(d), (S, A, 1, 1))
    inverse = np.tile(np.eye(d) / regularization, (S, A, 1, 1))
    return RidgeState(
        np.zeros((S, A, d)), gram, inverse, np.zeros((S, A)), np.zeros((S, A, d)), np.zeros((S, A), np.int64)
    )


@inlined
def ridge_step(state, refresh, start, s, a, reward, x, zx, factor):
    """One observed reward of pair (s, a); refresh: address of `refresh_inverse`, start = d ln lambda; zx [d] and
    factor [d, d] are scratch."""
    d = x.shape[0]
    theta, inverse, gram = state.theta[s, a], state.inverse[s, a], state.gram[s, a]
    times(inverse, x, zx)
    q, error = 0.0, reward
    for b in range(d):
        q += zx[b] * x[b]
        error -= theta[b] * x[b]
        state.moment[s, a, b] += reward * x[b]
    rank_one(gram, inverse, state.logdet[s, a : a + 1], x, zx, q, 1.0)
    for b in range(d):
        theta[b] += zx[b] * (error / (1.0 + q))
    state.samples[s, a] += 1
    if state.samples[s, a] % REFRESH == 0:
        apply_refresh(refresh, (gram, inverse, state.logdet[s, a : a + 1], start, factor, zx))
        times(inverse, state.moment[s, a], theta)
