"""From a set around the weights to a distance between distributions, and intervals for mean rewards.

w is always sqrt(gamma) ||x||_{Z^{-1}}: the 2-norm by which the linear predictor of a member of the set can differ from
the estimated one.

>>> from noregret.theory import widths
>>> # two distributions are never more than 2 apart
>>> [round(widths.logit_l1(w), 3) for w in (0.1, 1.0, 10.0)]
[0.071, 0.679, 1.997]
>>> round(widths.logit_diameter(3, 1.0), 3)  # nor, with |w_j'x| <= 1, more than this
1.15
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from .. import checks as check
from ..checks import or_a_sentence
from ..compiler.jit import formula


@formula
def logit_l1(w: float) -> float:
    """From w to the 1-norm of two softmax distributions: 2 tanh(w / (2 sqrt 2)).

        ||softmax(u) - softmax(v)||_1 <= 2 tanh(span(u - v)/4) <= 2 tanh(||C(u - v)|| / (2 sqrt 2))

    the first attained, and with two outcomes both.

    >>> from noregret.theory import widths
    >>> round(widths.logit_l1(2.0**0.5), 3)
    0.924
    >>> round(2.0 * (widths.sigma(1.0) - widths.sigma(-1.0)), 3)  # u = (1/2, -1/2), v = -u
    0.924
    """
    return 2.0 * math.tanh(w / (2.0 * math.sqrt(2.0)))


@or_a_sentence
def logit_prior_cap(p: ArrayLike, bound: float) -> float:
    """What is known before any data: max ||softmax(y) - p||_1 over the pinned box (y_S = 0, |y_i| <= bound otherwise).

    Twice the largest excess of mass on a set U of outcomes; the best y has U high and the rest low, and for a given
    size U takes the k smallest p_i, without or with the pinned outcome. p [S] is any distribution.

    >>> from noregret.theory import widths
    >>> # 2 sigma(M) - 1
    >>> [round(widths.logit_prior_cap([0.5, 0.5], bound), 3) for bound in (0.0, 1.0, 10.0)]
    [0.0, 0.462, 1.0]
    """
    p = np.asarray(p, float)
    n = p.size - 1
    high = math.exp(bound)
    k = np.arange(n + 1)
    smallest = np.concatenate(([0.0], np.cumsum(np.sort(p[:-1]))))
    partition = 1.0 + k * high + (n - k) / high
    without = k * high / partition - smallest
    with_pinned = (1.0 + k * high) / partition - smallest - p[-1]
    return float(2.0 * max(without.max(), with_pinned.max()))


@or_a_sentence
def logit_diameter(n_outcomes: int, bound: float) -> float:
    """No width need be larger: max ||softmax(y) - softmax(z)||_1 over y, z in the pinned box.

    Twice the largest change of the mass of a set of k free outcomes, all high and the rest low against the opposite.

    >>> from noregret.theory import widths
    >>> # 2 tanh(M/2) for two outcomes
    >>> [round(widths.logit_diameter(2, bound), 3) for bound in (0.0, 1.0, 10.0)]
    [0.0, 0.924, 2.0]
    """
    check.memory(f"logit_diameter with n_outcomes = {check.integer('n_outcomes', n_outcomes)}", 40.0 * n_outcomes)
    n, high = n_outcomes - 1, math.exp(bound)
    k = np.arange(n + 1)
    top, bottom = k * high / (1.0 + k * high + (n - k) / high), k / high / (1.0 + k / high + (n - k) * high)
    return float(2.0 * (top - bottom).max())


@formula
def reward_interval(w2: float, logdet: float, reward_bound: float, regularization: float, delta: float) -> float:
    """Half-width for a mean reward theta'x with rewards in [0, 1] (1/2-sub-Gaussian), its own Gram matrix V.

        ( sqrt(lambda) B_r + 1/2 sqrt(2 ln(1/delta) + ln det V/lambda^d) ) ||x||_{V^{-1}},  at most 1

    w2 = ||x||^2_{V^{-1}}. Abbasi-Yadkori, Pal and Szepesvari (2011); Lattimore and Szepesvari (2020), Theorem 20.5.

    >>> import math
    >>> from noregret.theory import widths
    >>> for n in (0, 100, 10_000):  # n rewards at x = 1: V = 1 + n
    ...     w2, logdet = 1 / (1 + n), math.log(1 + n)
    ...     print(round(widths.reward_interval(w2, logdet, 1.0, regularization=1.0, delta=0.05), 3))
    1.0
    0.262
    0.029
    """
    return min(1.0, ridge_radius(logdet, reward_bound, regularization, math.log(1.0 / delta)) * math.sqrt(w2))


@formula
def ridge_radius(logdet: float, reward_bound: float, regularization: float, log: float) -> float:
    """The V-norm within which ridge regression finds theta: the factor of ||x||_{V^{-1}} in `reward_interval`.

        sqrt(lambda) B_r + 1/2 sqrt(2 log + logdet),   log = ln(1/delta), logdet = ln det V/lambda^d

    >>> from noregret.theory import widths
    >>> # 2 * 2 + sqrt(16)/2
    >>> widths.ridge_radius(logdet=0.0, reward_bound=2.0, regularization=4.0, log=8.0)
    6.0
    """
    return math.sqrt(regularization) * reward_bound + 0.5 * math.sqrt(2.0 * log + logdet)


@formula
def reward_interval_printed(w2: float, logdet: float, dim: int, regularization: float, delta: float) -> float:
    """The interval as printed by Modi and Tewari (eq. CI_r): sqrt(lambda d) for sqrt(lambda) B_r, and Z for V.

    Z, the matrix of the transitions, is meant in both w2 and logdet. Caveat: fails when B_r > sqrt(d).

    >>> from noregret.theory import widths
    >>> # theta = 3, x = 1/3: the mean reward is 1, and 0 what is estimated at first
    >>> shared = {"w2": 1 / 900, "logdet": 0.0, "regularization": 100.0, "delta": 0.05}
    >>> round(widths.reward_interval_printed(dim=1, **shared), 2)
    0.37
    >>> widths.reward_interval(reward_bound=3.0, **shared)
    1.0
    """
    return (math.sqrt(regularization * dim) + math.sqrt(0.25 * (logdet + 2.0 * math.log(1.0 / delta)))) * math.sqrt(w2)


@formula
def sigma(z: float) -> float:
    """The logistic function 1/(1 + e^-z).

    >>> from noregret.theory import widths
    >>> [round(widths.sigma(z), 3) for z in (-2.0, 0.0, 2.0)]  # sigma(-z) = 1 - sigma(z)
    [0.119, 0.5, 0.881]
    """
    return 1.0 / (1.0 + math.exp(-z))


@formula
def logistic_interval(w: float, z: float, bound: float) -> float:
    """Half-width for a mean reward sigma(theta'x) around sigma(z), where |theta'x - z| <= w and |theta'x| <= bound.

        min( tanh(w/4), max(sigma(bound) - sigma(z), sigma(z) - sigma(-bound)) )

    tanh(w/4) is the largest difference of two values of sigma at distance w (attained around 0); the rest is what is
    known before any data.

    >>> from noregret.theory import widths
    >>> # tanh(0.1); sigma(1) - 1/2
    >>> [round(widths.logistic_interval(w, z=0.0, bound=1.0), 3) for w in (0.4, 4.0)]
    [0.1, 0.231]
    """
    prior = max(sigma(bound) - sigma(z), sigma(z) - sigma(-bound))
    return min(math.tanh(0.25 * w), prior)


@formula
def lower_curvature(r: float) -> float:
    """The function g(r) = (e^-r + r - 1)/r^2, r >= 0: from 1/2 at 0 down to 0 at inf, at least 1/(2 + r).

    For p = softmax(z) and max v - min v <= r, with Var_p(v) = sum_j p_j (v_j - <p, v>)^2,

        logsumexp(z + v) - logsumexp(z) - <p, v> >= g(r) Var_p(v)

    Along z + t v the second derivative is a variance, whose own derivative, a third central moment, is at most r times
    it: it stays above e^{-r t} Var_p(v); integrate against 1 - t. Approached by two outcomes as the mass of the lower
    one vanishes. Right to a few units of 1e-16, relatively, everywhere (a series below 1/2).

    >>> import math
    >>> from noregret.theory import widths
    >>> left = math.log((math.e + 1) / 2) - 0.5  # p = (1/2, 1/2), v = (1, 0), whose variance is 1/4
    >>> around = widths.lower_curvature(1.0) / 4, left, widths.upper_curvature(1.0) / 4
    >>> [round(side, 3) for side in around]
    [0.092, 0.12, 0.18]
    """
    if r < 0.5:
        total = 1.0
        for k in range(14, 0, -1):
            total = 1.0 - total * r / (k + 2)
        return 0.5 * total
    return (1.0 + math.expm1(-r) / r) / r


@formula
def upper_curvature(r: float) -> float:
    """The function psi(r) = (e^r - r - 1)/r^2, r >= 0: 1/2 at 0, increasing.

    The other side of `lower_curvature`, with e^{r t}:

        logsumexp(z + v) - logsumexp(z) - <p, v> <= psi(r) Var_p(v)
        | <softmax(z + v), V> - <p, V> - Cov_p(V, v) | <= (max V - min V) psi(r) Var_p(v)

    the second because the derivative of Cov_{p_t}(V, v) in t is E_{p_t}[(V - E V)(v - E v)^2]. Both are approached by
    two outcomes as the mass of the higher one vanishes. Caveat: inf from r = 700 on, where nothing is said; a product
    with a variance that rounds to 0 is then nan.

    >>> from noregret.theory import widths
    >>> [round(widths.upper_curvature(r), 3) for r in (0.0, 1.0, 5.0, 1000.0)]  # e - 2 at 1
    [0.5, 0.718, 5.697, inf]
    >>> left = abs(widths.sigma(1.0) - 0.5 - 0.25)  # p = (1/2, 1/2), v = V = (1, 0): second line
    >>> round(left, 3), round(widths.upper_curvature(1.0) / 4, 3)
    (0.019, 0.18)
    """
    if r < 0.5:
        total = 1.0
        for k in range(14, 0, -1):
            total = 1.0 + total * r / (k + 2)
        return 0.5 * total
    if not r < 700.0:
        return math.inf
    return (math.expm1(r) - r) / (r * r)
