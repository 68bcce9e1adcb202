"""Regret of agents over online likelihood-ratio sets, known before the first episode: docs/regret.md has the proofs.

A set is about p weights theta*, of a pair or of a block of a design. A visit has logits A theta*, A known, and at the
estimate of the moment the distribution p, the information G = A'(diag p - pp')A and

    Lambda <- Lambda + 2 c G,   c = g(r),       w = largest ||A_j - A_k|| in Lambda^{-1},       r <= wider rho w

A visit is *near* where w^2 <= near/max(wider^2 Gamma, H), *far* elsewhere. Near visits pay what curvature there is at
the estimate, so nothing exponential in the bounds stands before a logarithm of K. Far visits are few: their number has
the least probability that the bounds allow, `least`, in the denominator, and the logarithm of K above it.

`delta` of a set is its share in the agent; `log` arguments are ln(1/delta).

>>> from noregret.theory import likelihood_bounds
>>> size = likelihood_bounds.size_of_pair(n_outcomes=3, context_dim=4, weight_bound=1.0, context_bound=1.0)
>>> for t in (10**3, 10**6, 10**9):
...     limits = likelihood_bounds.likelihood_limits(size, t, 5, near=0.1, log_set=8.0, log_event=10.0)
...     print(round(limits.radius), f"{limits.far:.1e}")
268 1.0e+03
1413 1.0e+06
2168 2.6e+08
>>> likelihood_bounds.NEAR  # any value is right; the best of these is taken
(1.0, 0.5, 0.25, 0.1, 0.03, 0.01)
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from ..checks import or_a_sentence
from .bound_terms import Growth, trajectory_sigma
from .widths import lower_curvature, upper_curvature

_RATIO = 1.5  # eta: a visit has gone astray where the estimate gives an outcome less than 1/eta of its true probability
NEAR = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)  # values of `near` that are tried; any is right
_FLAT = 300.0  # w^2 beyond which e^{w^2} is no number to calculate with
_ROUNDS = 8
_POWERS = (0.6, 0.75, 1.0, 1.5)  # k of the event that bounds the steps; likewise
_MIXTURE_LAMBDAS = (3.0, 24.0, 192.0, 1536.0)  # as in `estimators.rewards.mixture`, times R^2/d
_MIXTURE_WEIGHTS = (0.1, 0.4, 0.4, 0.1)
_SHIFT = 1e-3


class Run(NamedTuple):
    """K episodes of H steps.

    >>> from noregret.theory.likelihood_bounds import Run
    >>> Run(horizon=5, episodes=1000).horizon
    5
    """

    horizon: int
    episodes: float


class SetSize(NamedTuple):
    """What is known of a likelihood-ratio set before any data.

    >>> from noregret.theory.likelihood_bounds import size_of_pair
    >>> size = size_of_pair(2, context_dim=3, weight_bound=2.0, context_bound=1.0)
    >>> size.dim, size.regularization, round(size.least, 3)
    (3, 3.0, 0.119)
    """

    dim: int  # p, of the weights
    norm2: float  # at least ||theta*||^2
    regularization: float  # lambda
    apart: float  # the largest ||A_j - A_k||
    reach: float  # the largest difference of two true logits
    outcomes: int  # n, the largest number of them
    least: float  # the smallest true probability
    points: int  # N of the predictor, 2N - 1 sigma points; 0: plug-in
    wider: float = 1.0  # r <= wider rho w
    slack: float = 0.0  # what rho2 wins at every visit, against rounding


class SetLimits(NamedTuple):
    """What a set cannot exceed during its first visits, with probability 1 - 3 e^{-log_event} where it holds.

    >>> from noregret.theory.likelihood_bounds import SetLimits
    >>> SetLimits(radius=90.0, error=40.0, steps=60.0, far=1000.0, growth=25.0, factor=1.1).far
    1000.0
    """

    radius: float  # Gamma >= rho^2
    error: float  # E >= ||theta* - theta||^2_Lambda
    steps: float  # A >= the sum of ||a||^2, each in the inverse of the next Lambda
    far: float  # visits that are far or have gone astray
    growth: float  # L >= ln det Lambda/lambda^p
    factor: float  # F: tr(Lambda^{-1} G) of near visits, as planned with, is at most F times what ln det Lambda wins


@or_a_sentence
def least_probability(n_outcomes: int, bound: float) -> float:
    """Of an outcome where logits relative to the last one are at most `bound` in absolute value.

        1/(1 + e^M + (n - 2) e^{2M}),   two outcomes: 1/(1 + e^M)

    >>> from noregret.theory.likelihood_bounds import least_probability
    >>> [round(least_probability(n, 1.0), 4) for n in (1, 2, 3)]
    [1.0, 0.2689, 0.09]
    """
    if n_outcomes == 1:
        return 1.0
    return 1.0 / (1.0 + math.exp(bound) + (n_outcomes - 2) * math.exp(2.0 * bound))


@or_a_sentence
def size_of_pair(
    n_outcomes: int,
    context_dim: int,
    weight_bound: float,
    context_bound: float,
    regularization: float | None = None,
    plug_in: bool = False,
) -> SetSize:
    """The set of one pair, in centred coordinates: ||A_j - A_k||^2 = 2 ||x||^2.

    regularization  None: 4 d/B_p^2, at least R^2/1000, as the agents choose it. plug_in: the predictor

    >>> from noregret.theory.likelihood_bounds import size_of_pair
    >>> size_of_pair(3, context_dim=4, weight_bound=2.0, context_bound=1.0).dim
    8
    """
    n, B, R = n_outcomes, weight_bound, context_bound
    lam = max(4.0 * context_dim / B**2, R**2 / 1000.0) if regularization is None else regularization
    norm2 = (0.5 if n == 2 else n - 1.0) * B**2
    reach = B * R * (1.0 if n == 2 else 2.0)
    points = 0 if plug_in else n
    return SetSize((n - 1) * context_dim, norm2, lam, math.sqrt(2.0) * R, reach, n, _least(n, B * R), points)


def _least(n: int, bound: float) -> float:
    return least_probability(n, bound) if bound < 300.0 else 0.0


@or_a_sentence
def log_growth(size: SetSize, samples: float, sets: int = 1) -> float:
    """Bound on ln det Lambda/lambda^p after so many visits, added up over so many sets of this size.

        P ln(1 + t (1 - 1/n) apart^2/(2 lambda P)),   P = p sets

    tr G = sum_j p_j ||A_j - mean||^2 <= (1 - 1/n) apart^2/2 and 2 c <= 1; arithmetic and geometric means.

    >>> from noregret.theory.likelihood_bounds import log_growth, size_of_pair
    >>> size = size_of_pair(2, context_dim=1, weight_bound=2.0, context_bound=1.0)  # lambda = 1
    >>> round(log_growth(size, 198), 3)  # ln(1 + 99)
    4.605
    """
    return _growth(size, samples, sets)


def _growth(size: SetSize, samples: float, sets: int = 1) -> float:
    dim = size.dim * sets
    if dim == 0:
        return 0.0
    largest = 0.5 * (1.0 - 1.0 / size.outcomes) * size.apart**2
    return dim * math.log1p(samples * largest / (size.regularization * dim))


def _tilt(power: float, w2: float) -> float:
    """(e^{k w^2} - 1)/w^2: under p, E e^{k ||a||^2} <= 1 + this times E ||a||^2."""
    return math.expm1(power * w2) / w2 if w2 > 1e-12 else power


def _flatness(r: float) -> float:
    """1/(2 c) at r."""
    return 0.5 / lower_curvature(r)


def _loss(size: SetSize, w2: float) -> float:
    """ln(p/phat) of any outcome is at most this times what ln det Lambda wins times 1/(2 c)."""
    if size.points == 0:
        return 0.0
    y = 0.25 * w2
    return upper_curvature(math.sqrt(size.points * w2)) * (y / math.log1p(y) if y > 1e-12 else 1.0)


def _few(size: SetSize, samples: float, each: float) -> float:
    """At most so many visits can win `each` of ln det Lambda."""
    visits, before = samples, math.inf
    while each > 0.0 and visits < 0.99 * before:
        before, visits = visits, min(visits, _growth(size, visits) / each)
    return visits


@or_a_sentence
def likelihood_limits(
    size: SetSize, samples: float, horizon: int, *, near: float, log_set: float, log_event: float
) -> SetLimits:
    """Radius, error and far visits of an online likelihood-ratio set during its first `samples` visits.

    With tau_k = (e^{k w^2} - 1)/w^2, h = 1/(2 g) and Y_k = sum_t tau_k h(r_t) (what ln det Lambda wins at t),

        E      = lambda B^2 + 2 log_event + 2 Y_{1/2}
        A      = (lambda B^2 + 2 log_event + 2 Y_k)/(2k - 1),   k one of four, the best at first
        Gamma  = lambda B^2 + 2 log_set + A + 2 times the loss of the predictor (+ slack t)

    First with the largest w and an r from sqrt(E) itself: a quadratic equation. Then near, far and stray visits are
    told apart, each with its own w and r, by the bounds of the round before: every round is a bound, the smallest is
    kept.

    >>> from noregret.theory.likelihood_bounds import likelihood_limits, size_of_pair
    >>> size = size_of_pair(2, context_dim=1, weight_bound=1.0, context_bound=1.0, plug_in=True)
    >>> limits = likelihood_limits(size, 0, 5, near=0.1, log_set=3.0, log_event=4.0)
    >>> limits.radius  # no data: lambda B^2 + 2 log_set = 2 + 6, and half of lambda B^2 + 2 log_event for steps
    13.0
    """
    lam, b, kappa, t = size.regularization, size.reach, size.least, float(samples)
    w2, start, L = size.apart**2 / lam, lam * size.norm2, _growth(size, t)
    if size.dim == 0:
        return SetLimits(0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    if w2 > _FLAT or size.points * w2 > _FLAT**2 or not kappa > 0.0:
        return SetLimits(math.inf, math.inf, math.inf, math.inf, L, 1.0)
    w, half, loss, given = math.sqrt(w2), _tilt(0.5, w2), _loss(size, w2), start + 2.0 * log_event
    root = half * L * w
    error = (0.5 * (root + math.sqrt(root * root + 4.0 * (given + 2.0 * half * L * (1.0 + b))))) ** 2
    most = _flatness(2.0 * b + math.sqrt(error) * w) * L
    power, steps = min(((k, (given + 2.0 * _tilt(k, w2) * most) / (2.0 * k - 1.0)) for k in _POWERS), key=_second)
    first, far, factor = start + 2.0 * log_set + size.slack * t, t, 1.0
    radius = first + steps + 2.0 * loss * most
    for _ in range(_ROUNDS):
        most = min(2.0 * b + math.sqrt(error) * w, size.wider * math.sqrt(radius) * w)
        plain = min(most, b + math.log(_RATIO / kappa))
        stray = ((start + steps) / 4.0 + log_event) / (0.5 * kappa * (1.0 - _RATIO**-0.5) ** 2)
        stray = min(t, 1.0 + stray)
        close = min(near / max(size.wider**2 * radius, horizon), w2)
        gained = lower_curvature(plain) * kappa / _RATIO * math.exp(-0.5 * near) * close
        others = _few(size, t, math.log1p(gained))
        parts = L, _growth(size, others), _growth(size, stray)
        two, wild = size.outcomes == 2, most
        if two:  # stray visits with steeper logits have traces that sum to 1 at most
            wild = min(most, b + math.log1p(stray * w2))
        bends = _flatness(math.sqrt(near)), _flatness(plain), _flatness(wild)
        error = min(error, given + 2.0 * (_mixed(_tilt(0.5, close), half, bends, parts) + two * half))
        added = _mixed(_tilt(power, close), _tilt(power, w2), bends, parts) + two * _tilt(power, w2)
        steps = min(steps, (given + 2.0 * added) / (2.0 * power - 1.0))
        lost = _mixed(_loss(size, close), loss, bends, parts) + two * loss
        radius = min(radius, first + steps + 2.0 * lost)
        far = min(far, others + stray, t)
        y = 0.25 * close
        factor = math.exp(1.5 * near) * bends[0] * (y / math.log1p(y) if y > 1e-12 else 1.0)
    return SetLimits(radius, error, steps, far, L, factor)


def _mixed(close: float, largest: float, bends: tuple[float, ...], parts: tuple[float, ...]) -> float:
    """Weights times bends, on the growth of ln det Lambda: `close` on all of it, and what `largest` is more at visits
    that are far, or astray, on their parts."""
    near, plain, stray = close * bends[0], largest * bends[1], largest * bends[2]
    return near * parts[0] + max(plain - near, 0.0) * parts[1] + max(stray - near, 0.0) * parts[2]


def _second(pair: tuple[float, float]) -> float:
    return pair[1]


@or_a_sentence
def likelihood_growth(
    sizes: Iterable[tuple[SetSize, int]],
    run: Run,
    *,
    near: float,
    log_set: float,
    log_event: float,
    rewards: bool = False,
    times: float = 1.0,
) -> Growth:
    """What the widths b(V) + b(-V) of the visits of K episodes sum to, at most, until the first far one of each.

        root      2 times sigma_H sqrt(sum Gamma F L)             (rewards, of span 1: sqrt(H sum Gamma F L))
        constant  2 times (H - 1) psi sum Gamma F L + H far       (rewards: 2 psi sum Gamma F L + H far)

    over sizes, each with its number of sets, psi at sqrt(near); times: how often b(V) + b(-V) is met at a visit. far:
    episodes that are cut short at a far visit, which cost H.

    >>> from noregret.theory.likelihood_bounds import Run, likelihood_growth, size_of_pair
    >>> size = size_of_pair(3, context_dim=4, weight_bound=1.0, context_bound=1.0)
    >>> shared = {"near": 0.1, "log_set": 8.0, "log_event": 10.0}
    >>> [f"{part:.2g}" for part in likelihood_growth([(size, 6)], Run(5, 10**8), **shared)]
    ['7.2e+03', '7.7e+09']
    """
    squares, far, horizon, steps = 0.0, 0.0, run.horizon, run.horizon * float(run.episodes)
    for size, sets in sizes:
        limits = likelihood_limits(size, steps, horizon, near=near, log_set=log_set, log_event=log_event)
        if limits.growth > 0.0:
            growth = _growth(size, steps, sets)
            squares += limits.radius * limits.factor * growth
            far += sets * limits.far
    if not rewards and horizon == 1:  # there is nothing to come that transitions could lead to
        return Growth(0.0, 0.0)
    if not math.isfinite(squares + far):
        return Growth(math.inf, math.inf)
    bend = upper_curvature(math.sqrt(near))
    if rewards:
        return Growth(math.sqrt(horizon * squares), 2.0 * bend * squares + horizon * far)
    root = 2.0 * times * trajectory_sigma(horizon) * math.sqrt(squares)
    return Growth(root, 2.0 * times * (horizon - 1) * bend * squares + horizon * far)


@or_a_sentence
def mixture_reward_growth(
    dim: int, sets: int, context_bound: float, reward_bound: float, log: float, run: Run
) -> Growth:
    """The same of "hoeffding" ranges of mean rewards; dim: of what means are linear in, context_bound: of its length.

        root      2 sqrt(2 beta) ( 1/2 sqrt(H L/ln 2) + sqrt(2 H lambda_k P/shift) ) + 2 B_r sqrt(2 H shift P)
        constant  H L/ln 2
        beta      log + (d/2) ln(1 + t R^2/(4 d lambda_k)) - ln w_k + min(t/20, 1000) R^2/(8 lambda_k)

    for the best component k of the mixture; P = dim sets, L = P ln(1 + K H R^2/(shift P)), shift = R^2/1000.
    Caveat: contexts with a tiny part in a direction that was hardly met make the second root, and it is large; the
    ranges are that wide then.

    >>> from noregret.theory.likelihood_bounds import Run, mixture_reward_growth
    >>> root, constant = mixture_reward_growth(4, 15, 1.0, 1.0, 8.0, Run(5, 10**6))
    >>> round(root), round(constant)
    (28814, 7894)
    """
    P, R2, horizon, steps = dim * sets, context_bound**2, run.horizon, run.horizon * float(run.episodes)
    shift = _SHIFT * R2
    L = P * math.log1p(steps * R2 / (shift * P)) / math.log(2)
    best = math.inf
    for scale, weight in zip(_MIXTURE_LAMBDAS, _MIXTURE_WEIGHTS, strict=True):
        lam = scale * R2 / dim
        beta = log + 0.5 * dim * math.log1p(steps * R2 / (4.0 * dim * lam)) - math.log(weight)
        beta += min(steps / 20.0, 1000.0) * R2 / (8.0 * lam)
        low = math.sqrt(2.0 * horizon * lam * P / shift)
        best = min(best, 2.0 * math.sqrt(2.0 * beta) * (0.5 * math.sqrt(horizon * L) + low))
    return Growth(best + 2.0 * reward_bound * math.sqrt(2.0 * horizon * shift * P), horizon * L)
