"""The online Newton step for generalized linear models with categorical outcomes, and its confidence set.

Model: outcome y ~ grad Phi(W* x). State per pair: W, the Gram matrix Z with its inverse and log-determinant, and the
squared radius gamma of the set ||W - W*||_Z^2 <= gamma, which holds at all times together with probability 1 - delta.

    Z <- Z + kappa x x';    a = grad Phi(W x) - y;    W <- W - a (Z^{-1} x)'                         O(m d + d^2) a step

as printed   (Modi and Tewari 2020, Algorithm 1) kappa = alpha/2; rows of W pinned; after each step every row longer
             than B_p is projected on its ball in the Z-norm; gamma of their Theorem 3.1
corrected    before each step W is moved, in the Z-norm, to the nearest weights whose prediction at this x is possible
             (`Link.region`): W += (v - W x)(Z^{-1} x)'/||x||^2_{Z^{-1}}, v the nearest possible prediction. Centred
             coordinates, kappa = (2 - s) alpha(B_p ||x||) and Theorem A for the logit link; kappa = 3/2 alpha and
             Theorem B elsewhere. gamma begins with lambda B_0^2 + ln(1/delta) (2/s, or 1/((2 - 3/2) alpha)), where
             B_0^2 >= ||W* - W_1||^2 (`Link.weight_norm2`), and a step adds ||a||^2 ||x||^2_{Z^{-1}}, Z after it, less
             ||v - W x||^2/||x||^2_{Z^{-1}}, Z before it

alpha(M), M = B_p ||x||, is the least eigenvalue that the Hessian of Phi can have at this x on vectors that sum to 0;
of the logit's, diag p - pp' with p any prediction possible there (`theory.constants.logit_alpha_centred`, exact).

Neither cost nor memory depends on the number of observations. The inverse is recomputed from Z now and then
(`numerics.linear_algebra.refresh_due`).
Caveat: the set is about W*, not about the data: a link or bound that is wrong makes it wrong, silently.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import checks as check
from ...checks import Floats
from ...compiler.jit import inlined, kernel
from ...compiler.slots import EMPTY, slot
from ...numerics.linear_algebra import dot, least_regularization, project_on_ball, rank_one, refresh_address, times
from ...problem.layout import slot_of
from ...problem.links import Constants, Link, apply_gradient, apply_projection
from ...theory import radii
from ...theory.constants import logit_alpha_centred
from ...theory.radii import printed_growth
from ..gram import count_and_refresh, first_grams, stable
from ..single import OnePair

SLACK = 0.25  # s of Theorem A
STEP = 1.5  # c of Theorem B

PRINTED, THEOREM_A, THEOREM_B = 0, 1, 2


class NewtonPar(NamedTuple):
    """Fixed at construction; the arrays are [S, A] because pairs may differ in their number of outcomes."""

    gradient: Any  # slot of the link's gradient
    region: Any  # slot of the link's projection
    refresh: Any  # slot of `refresh_inverse`
    finish: Any  # slot of `finish_printed`, under PRINTED
    form: int  # PRINTED, THEOREM_A or THEOREM_B
    pinned: int  # 1: the last row stays 0
    centred: int  # 1: the rows sum to 0
    regularization: float
    weight_bound: float
    context_bound: float
    alpha: Floats  # [S, A], at the bound B_p R
    kappa: Floats  # [S, A], at the bound B_p R
    norm2: Floats  # [S, A], bound on ||W* - W_1||_F^2
    log_weight: Floats  # [S, A], coefficient of ln(1/delta) in gamma


class NewtonState(NamedTuple):
    weights: Floats  # [S, A, M, d]
    gram: Floats  # Z, [S, A, d, d]
    inverse: Floats  # Z^{-1}
    logdet: Floats  # ln det Z / lambda^d, [S, A]
    radius: Floats  # gamma without its ln(1/delta) term, [S, A]
    samples: NDArray[np.int64]  # [S, A]


class NewtonWork(NamedTuple):
    z: Floats  # [1, M]
    before: Floats  # [M]
    moved: Floats  # [1]
    zx: Floats  # [d]
    factor: Floats  # [d, d]
    target: Floats  # [d]
    step: Floats  # [d]


def newton_parts(
    link: Link,
    count: NDArray[np.int64],
    context_dim: int,
    weight_bound: float,
    context_bound: float,
    constants: Constants,
    regularization: float | None,
) -> tuple[NewtonPar, NewtonState, NewtonWork]:
    """Parameters, initial state and scratch for one estimator per pair; count [S, A] is the number of outcomes."""
    (S, A), M, d, reach = count.shape, int(count.max()), context_dim, weight_bound * context_bound
    form = PRINTED if constants == "paper" else THEOREM_A if link.form == "A" else THEOREM_B

    def per_pair(f: Callable[[int], float]) -> Floats:
        values = np.zeros(M + 1)
        for m in np.unique(count):
            values[m] = f(int(m))
        return np.ascontiguousarray(values[count])

    def alpha_of(m: int) -> float:
        return check.positive(f"alpha of {link!r} for {m} outcomes", link.alpha(m, reach, constants))

    alpha, norm2 = per_pair(alpha_of), per_pair(lambda m: link.weight_norm2(m, weight_bound, d, constants))
    if form == PRINTED:
        kappa = alpha / 2.0
        log_weight = per_pair(lambda m: radii.printed_log_weight(weight_bound, context_bound, alpha_of(m)))
    elif form == THEOREM_A:
        kappa, log_weight = (2.0 - SLACK) * alpha, np.full((S, A), radii.theorem_a_log_weight(SLACK))
    else:
        kappa, log_weight = STEP * alpha, per_pair(lambda m: radii.theorem_b_log_weight(alpha_of(m), STEP))
    least = least_regularization(float(kappa.max()), context_bound, d)
    lam = stable(regularization, default_regularization(form, d, float(kappa.min()), float(norm2.max())), least)
    f = np.zeros
    work = NewtonWork(f((1, M)), f(M), f(1), f(d), f((d, d)), f(d), f(d))
    addresses = link.gradient_address(), link.region_address(constants), refresh_address(d), EMPTY
    kept = link.coordinates_for(constants)
    flags = form, int(kept == "pinned"), int(kept == "centred")
    par = NewtonPar(*addresses, *flags, lam, weight_bound, context_bound, alpha, kappa, norm2, log_weight)
    weights = np.zeros((S, A, M, d)) + per_pair(lambda m: link.initial_weight(m, constants))[:, :, None, None]
    weights[np.arange(M) >= count[..., None]] = 0.0
    state = NewtonState(weights, *first_grams(lam, (S, A), d), f((S, A)), lam * norm2, np.zeros((S, A), np.int64))
    if form == PRINTED:
        for m in np.unique(count):  # pairs with as many outcomes begin alike
            s, a = np.argwhere(count == m)[0]
            state.radius[count == m] = printed_radius(par, state, s, a, m)
        par = par._replace(finish=apply_finish.fill(finish_printed, par, state, work, 0, 0, 1))
    return par, state, work


def default_regularization(form: int, context_dim: int, kappa: float, norm2: float) -> float:
    """lambda = 2 d / (kappa B_0^2) under Theorem A: the prior's share of gamma, lambda B_0^2, then equals the slope of
    the gradient sum's bound (2 d/kappa) ln(1 + ...). 1 elsewhere. Any positive value is valid, and not too small a one
    (`numerics.linear_algebra.least_regularization`) survives rounding: at least that is taken."""
    return 2.0 * context_dim / (kappa * norm2) if form == THEOREM_A and norm2 > 0.0 else 1.0


@inlined
def printed_radius(par, state, s, a, live):
    """gamma of Theorem 3.1 without its ln(1/delta) term: `theory.radii.printed` at delta = 1."""
    grown = printed_growth(live, state.samples[s, a], state.logdet[s, a], par.alpha[s, a], par.log_weight[s, a])
    return par.regularization * par.norm2[s, a] + 8.0 * par.weight_bound * par.context_bound + grown


@kernel
def finish_printed(par, state, work, s, a, live):
    """After a step as printed: rows outside their ball are projected on it in the Z-norm; gamma of Theorem 3.1."""
    W, bound = state.weights[s, a], par.weight_bound
    for j in range(live - par.pinned):
        if dot(W[j], W[j]) > bound * bound:
            project_on_ball(state.gram[s, a], bound, W[j], work.factor, work.target, work.step)
    state.radius[s, a] = printed_radius(par, state, s, a, live)


apply_finish = slot("finish")  # by address, and compiled for the printed constants only


@inlined
def newton_step(par, state, work, count, pair, y, x, norm):
    """Learn that pair (s, a), with count[0] outcomes, was followed by its outcome y at context x; norm = ||x||."""
    (s, a), d, live = pair, x.shape[0], count[0]
    W, inverse = state.weights[s, a], state.inverse[s, a]
    rows = live - par.pinned
    z, before, zx = work.z, work.before, work.zx
    times(W, x, z[0])
    times(inverse, x, zx)
    q, gain = dot(zx, x), 0.0  # gain: how gamma changes
    if par.form != PRINTED:
        for j in range(live):
            before[j] = z[0, j]
        apply_projection(par.region, (z, par.weight_bound * norm, count, work.moved))
        if work.moved[0] > 0.0 and q > 0.0:
            gain -= work.moved[0] / q
            for j in range(rows):
                v = (z[0, j] - before[j]) / q
                for b in range(d):
                    W[j, b] += v * zx[b]
    apply_gradient(par.gradient, (z, count))
    z[0, y] -= 1.0
    kappa = par.kappa[s, a]
    if par.form == THEOREM_A and norm < par.context_bound * (1.0 - 1e-12):
        kappa = (2.0 - SLACK) * logit_alpha_centred(live, par.weight_bound * norm)
    rank_one(state.gram[s, a], inverse, state.logdet[s, a : a + 1], x, zx, q, kappa)
    shrink, size = 1.0 / (1.0 + kappa * q), 0.0  # with the new Z: Z^{-1} x = shrink zx, ||x||^2_{Z^{-1}} = shrink q
    for j in range(rows):
        v = z[0, j] * shrink
        size += z[0, j] * z[0, j]
        for b in range(d):
            W[j, b] -= v * zx[b]
    count_and_refresh(par, state, s, a, work.factor, work.target)
    if par.form == PRINTED:
        apply_finish(par.finish, (par, state, work, s, a, live))
    else:
        state.radius[s, a] += gain + size * q * shrink


@kernel
def newton_learn(par, state, work, layout, x, norm, n, path):
    """The n steps of an episode. y: the place of the next state among those of the pair; with full support the state
    itself."""
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        y = slot_of(layout, s, a, path.states[h + 1])
        newton_step(par, state, work, layout.count[s, a : a + 1], (s, a), y, x, norm)


class OnlineNewton(OnePair):
    """One estimator on its own.

    >>> import noregret as nr
    >>> est = nr.estimators.OnlineNewton(nr.MultinomialLogit(), n_outcomes=3, context_dim=2, weight_bound=1.0)
    >>> est.update([0.6, 0.8], 2)
    >>> est.probabilities([0.6, 0.8]).round(3).tolist()
    [0.322, 0.322, 0.356]

    regularization=None takes the recommended value (`default_regularization`). `constants="paper"` is Algorithm 1 of
    Modi and Tewari with Theorem 3.1 as printed. The linear link expects contexts in the simplex."""

    _step = staticmethod(newton_step)

    def _parts(self, regularization: float | None) -> tuple[NewtonPar, NewtonState, NewtonWork]:
        p = self._problem
        bounds = p.weight_bound, p.context_bound
        return newton_parts(self.link, self._count[None], p.context_dim, *bounds, self.constants, regularization)
