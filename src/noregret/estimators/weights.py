"""Weights of every pair from what estimators keep, block by block where there is a design."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from .likelihood.sets import is_kron, relative_inverse
from .rewards.calibrated import noise_of_all
from .rewards.forms import RewardPar, RewardState
from .rewards.regression import BERNSTEIN, CALIBRATED, HOEFFDING, KNOWN, RIDGE


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


def drawn_logits(state: Any, scale: float, g: np.random.Generator) -> Floats:
    """Weights drawn from N(W, scale^2 Lambda^{-1}): by pair, [S, A, M, d], or by block, [B, E]."""
    made = np.array(state.weights)
    if made.ndim == 2:
        return np.asarray(made + scale * _drawn(state.inverse, g))
    if is_kron(state):
        roots = np.linalg.cholesky(state.covariance)
        return np.asarray(made + scale * np.einsum("sabc,samc->samb", roots, g.standard_normal(made.shape)))
    d = made.shape[3]
    for s, a in np.ndindex(*made.shape[:2]):
        m = int(state.outcomes[s, a]) - 1
        if m > 0:  # relative to the last outcome, which stays
            cov = relative_inverse(state, s, a).reshape(m * d, m * d)
            made[s, a, :m] += scale * _drawn(cov, g).reshape(m, d)
    return made


def drawn_rewards(par: RewardPar, state: RewardState, g: np.random.Generator) -> Floats:
    """What is to be added to theta, [S, A, d] or [B, 1, E], for a draw: N(0, sigma^2 V^{-1}), sigma 1/2 or as measured,
    1 of logistic means; 0 of known ones."""
    if par.form == KNOWN:
        return np.zeros_like(state.theta)
    sigma: Any = 0.5 if par.form == RIDGE else 1.0
    if par.form == CALIBRATED:
        sigma = np.sqrt(noise_of_all(state))[..., None]
    return np.asarray(sigma * _drawn(state.inverse, g))


def _drawn(cov: Floats, g: np.random.Generator) -> Floats:
    """N(0, cov), [..., n] for cov [..., n, n]."""
    n = cov.shape[-1]
    size = np.trace(cov, axis1=-2, axis2=-1)[..., None, None]
    root = np.linalg.cholesky(0.5 * (cov + np.swapaxes(cov, -1, -2)) + 1e-12 * size * np.eye(n))
    return np.asarray(np.einsum("...ij,...j->...i", root, g.standard_normal(cov.shape[:-1])))
