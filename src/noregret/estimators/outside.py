"""Sets that no longer meet the ball of the assumed bound: proof, as sure as the sets, that an assumption is wrong.

An ellipsoid {u: (u - c)' Sigma^{-1} (u - c) <= rho2} of weights u = (u_1, ..., u_m), each in R^d, and the assumption
||u_j|| <= B for every j. With l_j >= 0 and L = diag(l_j) (x) I_d, by weak duality,

    min over the balls of (c - u)' Sigma^{-1} (c - u)  >=  c' L (I + Sigma L)^{-1} c - B^2 sum_j l_j     for every l

so whatever l is tried, a right-hand side above rho2 says that the ellipsoid and the balls have no point in common. The
l here come from a fixed number of steps l_j <- l_j ||u_j(l)||/B, u(l) = (I + Sigma L)^{-1} c the minimiser, which rest
where ||u_j|| = B. Reward mixtures are no ellipsoid: there one vector h that contradicts the ball suffices
(`estimators.rewards.mixture`): |h'(sum x_i r_i - G theta)| is bounded, and h'G theta <= B_r ||G h||.

All of it is about the sets as they are kept, in NumPy, for a look now and then; O((md)^3) for a pair whose centre lies
outside of the balls, nothing for the others.
"""

import math
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from ..compiler.jit import direct
from ..problem.design import Blocks
from ..problem.layout import Layout
from ..theory.widths import ridge_radius
from .likelihood.precision import lengths2
from .likelihood.sets import LikelihoodState, is_kron, one_inverse, relative_inverse
from .likelihood.shared import SharedState
from .mixture.sets import MixtureState
from .mixture.shared import BlockMixtureState
from .rewards.forms import RewardPar, RewardState
from .rewards.mixture import mixture_width
from .rewards.regression import BERNSTEIN, HOEFFDING, LOGISTIC, RIDGE

STEPS = 30  # of the search for l
LARGEST = 400  # m d beyond which rows are looked at one by one
SLACK = 1e-6  # relative, for rounding
SHIFTS = (1e-3, 0.05, 0.2, 1.0)  # of the regressions that say which h to try, times the trace of the Gram matrix


def distance2(centre: Floats, cov: Floats, bound: float) -> float:
    """A lower bound on the squared distance, in the norm of cov^{-1}, of `centre` [m, d] from the weights whose rows
    are at most `bound` long; cov [m, d, m, d]. Never more than the distance itself, up to rounding."""
    m, d = centre.shape
    norms = np.linalg.norm(centre, axis=1)
    if not (norms > bound).any():
        return 0.0
    sigma, c = cov.reshape(m * d, m * d), centre.ravel()
    multiplier = np.maximum(norms / bound - 1.0, 0.0) * (m * d) / max(float(np.trace(sigma)), 1e-300)
    best = 0.0
    for _ in range(STEPS):
        weights = np.repeat(multiplier, d)
        try:
            near = np.linalg.solve(np.eye(m * d) + sigma * weights, c)
        except np.linalg.LinAlgError:  # beyond what can be computed: what was found so far holds
            break
        best = max(best, float(c @ (weights * near)) - bound**2 * float(multiplier.sum()))
        multiplier = multiplier * (np.linalg.norm(near.reshape(m, d), axis=1) / bound)
    return best


def block_sets_outside(state: SharedState | BlockMixtureState, blocks: Blocks) -> NDArray[np.bool_]:
    """[B]: which blocks' sets are empty, or have no point within the bound of their block."""
    empty = state.empty > 0 if isinstance(state, BlockMixtureState) else (state.radius < 0.0) & (state.samples > 0)
    made, bound = np.array(empty), blocks.bound
    for b in np.flatnonzero(~made & (np.linalg.norm(state.weights, axis=1) > bound)):
        n = int(blocks.start[b, -1])
        centre, cov = state.weights[b][None, :n], state.inverse[b][None, :n, None, :n]
        made[b] = distance2(centre, cov, float(bound[b])) > float(state.radius[b]) * (1.0 + SLACK) + SLACK
    return np.asarray(made)


def transition_sets_outside(state: Any, layout: Layout, bound: float) -> NDArray[np.bool_]:
    """[S, A]: which pairs' sets are empty, or lie outside of the balls. For `LikelihoodState` and `MixtureState`; other
    sets assume no bound, and none of theirs is. Of sets of blocks see `block_sets_outside`."""
    made = np.zeros(layout.available.shape, np.bool_)
    if isinstance(state, LikelihoodState):
        centres = state.weights
        made |= (state.radius < 0.0) & (state.samples > 0)
    elif isinstance(state, MixtureState):
        centres = state.centre
        made |= state.empty > 0
    else:
        return made
    if not centres.shape[0]:
        return made
    last = np.maximum(layout.count - 1, 0)
    rows = centres - np.take_along_axis(centres, last[..., None, None], 2)
    longest2 = np.einsum("sajb,sajb->saj", rows, rows).max(-1)
    suspects = layout.available & ~made & (layout.count > 1) & (longest2 > bound * bound)
    at, radius2 = np.argwhere(suspects), state.radius[suspects] * (1.0 + SLACK) + SLACK
    each = layout.count[suspects]
    for n in sorted(set(each.tolist())):
        own = each == n
        far = _far(state, at[own], radius2[own], rows[suspects][own, : n - 1], bound)
        for (s, a), most, centre in zip(*far, strict=True):
            made[s, a] = _distance(centre, _covariance(state, s, a, n), bound) > most
    return made


def _far(state: Any, at: Any, radius2: Floats, centres: Floats, bound: float) -> tuple[Any, Floats, Floats]:
    """Of some pairs with centres [N, m, d] those for which the nearest weights row by row, which need not be the
    nearest of all, are not in the ellipsoid. Where they are it meets the balls, and nothing is left to show: mostly
    so."""
    far = np.maximum(np.sqrt((centres * centres).sum(2)), bound)[..., None]
    gaps = centres * (1.0 - bound / far)
    if isinstance(state, LikelihoodState) and not is_kron(state):
        lengths = lengths2(state.gram[at[:, 0], at[:, 1]], state.prior[at[:, 0], at[:, 1]], gaps)
    else:
        lengths = np.full(len(at), np.inf)
        for i, (s, a) in enumerate(at):
            gap, cov = gaps[i].ravel(), _covariance(state, s, a, gaps.shape[1] + 1)
            with suppress(np.linalg.LinAlgError):
                lengths[i] = gap @ np.linalg.solve(cov.reshape(gap.size, gap.size), gap)
    out = ~(lengths <= radius2)
    return at[out], radius2[out], centres[out]


def _distance(centre: Floats, cov: Floats, bound: float) -> float:
    m, d = centre.shape
    if m * d <= LARGEST:
        return distance2(centre, cov, bound)
    return max(distance2(centre[j : j + 1], cov[j : j + 1, :, j : j + 1], bound) for j in range(m))


def _covariance(state: LikelihoodState | MixtureState, s: int, a: int, n: int) -> Floats:
    """[n-1, d, n-1, d]: the covariance of rows less the last one."""
    d = state[0].shape[3]
    if isinstance(state, LikelihoodState) and not is_kron(state):
        return relative_inverse(state, s, a)
    if isinstance(state, LikelihoodState):
        cov = one_inverse(state, s, a)
    else:
        cov = state.cov[s, a, : n * d, : n * d].reshape(n, d, n, d)
    made: Floats = cov - cov[-1:]
    made = made - made[:, :, -1:]
    return np.ascontiguousarray(made[:-1, :, :-1])


def reward_sets_outside(par: RewardPar, state: RewardState, available: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[S, A], or [B, 1] with a design: which sets of reward weights are empty, or have no point of norm at most the
    assumed B_r."""
    met = state.samples > 0 if par.block.size else available & (state.samples > 0)
    if par.form in (HOEFFDING, BERNSTEIN):
        return _mixture_outside(par, state, met)
    if par.form not in (RIDGE, LOGISTIC):
        return np.zeros(met.shape, np.bool_)
    made = met & (state.radius < 0.0) & (par.form == LOGISTIC)
    for s, a in np.argwhere(met & ~made & (np.linalg.norm(state.theta, axis=-1) > par.bound)):
        radius2 = float(state.radius[s, a])
        if par.form == RIDGE:
            radius2 = ridge_radius(float(state.logdet[s, a]), par.bound, par.regularization, par.log) ** 2
            gap = state.theta[s, a] * (1.0 - par.bound / math.sqrt(float(state.theta[s, a] @ state.theta[s, a])))
            if float(gap @ state.gram[s, a] @ gap) <= radius2:  # the nearest weights in the ball's norm are in the set
                continue
        far = distance2(state.theta[s, a][None], state.inverse[s, a][None, :, None], par.bound)
        made[s, a] = far > radius2 * (1.0 + SLACK) + SLACK
    return made


def _mixture_outside(par: RewardPar, state: RewardState, met: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[S, A]: where some h has h'sum x_i r_i above what the mixture and the ball allow together. Tried are the vectors
    h = (G + shift I)^{-1} x, x the direction of the regression theta with that shift; any h would be as right."""
    made, at = np.zeros(met.shape, np.bool_), np.argwhere(met)
    gram, moment = state.gram[met] - par.regularization * np.eye(state.gram.shape[3]), state.moment[met]
    for shift in SHIFTS:
        scale = np.maximum(np.einsum("kbb->k", gram), 1e-100)[:, None, None] * np.eye(moment.shape[1])
        regular = gram + shift * scale  # its condition is at most d/shift: contexts may be long, and all the same
        theta = np.linalg.solve(regular, moment[..., None])
        h = np.linalg.solve(regular, theta / np.maximum(np.linalg.norm(theta, axis=1, keepdims=True), 1e-300))[..., 0]
        least = np.einsum("kb,kb->k", h, moment)
        ball = par.bound * np.linalg.norm(np.einsum("kbc,kc->kb", gram, h), axis=1)
        # Without a shift no regression is longer than the bound unless this one is: others are not asked any more
        out = least > ball
        gram, moment, at, h, least, ball = (each[out] for each in (gram, moment, at, h, least, ball))
        sums, hh = state.mixture.sums[at[:, 0], at[:, 1], 0], np.einsum("kb,kb->k", h, h)
        form = np.maximum(np.einsum("kb,kbc,kc->k", h, sums, h), 0.0)
        narrow = np.sqrt(2.0 * par.log * (form + par.mixture.lambdas.min() * hh))  # no width is less
        for k in np.flatnonzero(least > narrow + ball):
            s, a = at[k]
            width = direct(mixture_width, par, state, 0, 0, 0.0, 0.0)(par, state, int(s), int(a), form[k], hh[k])
            made[s, a] = made[s, a] or least[k] > (width + ball[k]) * (1.0 + SLACK)
    return made
