"""Weights of every pair from what estimators keep, block by block where there is a design."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from .rewards.forms import RewardPar, RewardState
from .rewards.regression import BERNSTEIN, HOEFFDING


def spread_out(theta: Floats, start: NDArray[np.int64], column: NDArray[np.int64], context_dim: int) -> Floats:
    """Theta [B, Q, d] of blocks from the entries [B, E] that are free (`problem.design.Blocks`)."""
    B, Q = start.shape[0], start.shape[1] - 1
    made = np.zeros((B, Q, context_dim))
    for b in range(B):
        last = int(start[b, -1])
        feature = np.searchsorted(start[b], np.arange(last), side="right") - 1
        made[b, feature, column[b, :last]] = theta[b, :last]
    return made


def pair_weights(par: Any, theta: Floats, context_dim: int) -> Floats:
    """Slots [S, A, M, d] of transition weights: `theta` itself where it is by pair, [S, A, M, d], else that of blocks,
    [B, E], by the features of par."""
    if theta.ndim == 4:
        return theta.copy()
    full = spread_out(theta, par.start, par.column, context_dim)
    return np.asarray(np.einsum("samq,saqd->samd", par.features, full[par.block]))


def reward_vectors(par: RewardPar, theta: Floats, context_dim: int) -> Floats:
    """Reward weights [S, A, d], in units of the range of rewards: `theta` [S, A, d], or that of blocks, [B, 1, E]."""
    if par.block.size == 0:
        return theta.copy()
    full = spread_out(theta[:, 0], par.begin, par.column, context_dim)
    return np.asarray(np.einsum("saq,saqd->sad", par.features, full[par.block]))


def reward_estimate(par: RewardPar, state: RewardState) -> Floats:
    """The estimate in coordinates of the state: theta, which mixtures do not keep: V^{-1} sum x r for them."""
    if par.form in (HOEFFDING, BERNSTEIN):
        return np.asarray(np.einsum("sabc,sac->sab", state.inverse, state.moment))
    return state.theta
