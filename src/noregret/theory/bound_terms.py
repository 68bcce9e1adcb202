"""What the regret bounds are made of: deviations of martingales, and sums of widths. Notation as in `bounds`.

`theory.bounds` has these names, too.

>>> from noregret.theory import bounds
>>> sigma = bounds.return_sigma(horizon=5)
>>> for episodes in (100, 10_000):  # a sum of returns: the square root of K and a logarithm
...     print(round(bounds.martingale_deviation(sigma, episodes, delta=0.05)))
82
975
"""

import math
from typing import NamedTuple

from ..checks import or_a_sentence


# Martingales -----------------------------------------------------------------------------------------------------
@or_a_sentence
def martingale_deviation(sigma: float, episodes: float, delta: float) -> float:
    """A martingale with sigma-sub-Gaussian increments stays below this for all K at once, with probability 1 - delta.

        u_sigma(K) = sigma sqrt((K + 1) ln((K + 1)/delta^2))

    Method of mixtures: exp(u M - u^2 sigma^2 K/2) averaged over u ~ N(0, 1/sigma^2) is a supermartingale, equal to
    (K + 1)^{-1/2} exp(M^2/(2 sigma^2 (K + 1))); Ville's inequality.

    >>> from noregret.theory import bounds
    >>> # the price of all K at once
    >>> for u in (bounds.martingale_deviation, bounds.martingale_deviation_fixed):
    ...     print([round(u(1.0, K, delta=0.05)) for K in (100, 10_000)])
    [33, 390]
    [24, 245]
    """
    return sigma * math.sqrt((episodes + 1.0) * (math.log(episodes + 1.0) - 2.0 * math.log(delta)))


@or_a_sentence
def martingale_deviation_fixed(sigma: float, episodes: float, delta: float) -> float:
    """The same for one K fixed beforehand, sigma sqrt(2 K ln(1/delta)) (Azuma and Hoeffding).

    Caveat: not for a K that depends on the data, such as the number of mistakes.

    >>> import math
    >>> from noregret.theory import bounds
    >>> # 200 rewards in [0, 1]: sqrt(1600)/2
    >>> round(bounds.martingale_deviation_fixed(0.5, 200, delta=math.exp(-4)), 6)
    20.0
    """
    return sigma * math.sqrt(2.0 * episodes * math.log(1.0 / delta))


@or_a_sentence
def return_sigma(horizon: int) -> float:
    """The sigma of a return, H/2: it lies in [0, H] (Hoeffding's lemma).

    >>> from noregret.theory import bounds
    >>> bounds.return_sigma(horizon=10)
    5.0
    """
    return 0.5 * horizon


@or_a_sentence
def trajectory_sigma(horizon: int) -> float:
    """The sigma of the difference between an expected and an observed sum of bonuses.

        sigma_H = sqrt(H (H-1)(2H-1)/24)

    With T_h = clip(V_h - V^pi_h, 0, H - h), h from 0, the increments P T_{h+1} - T_{h+1}(s_{h+1}) have range
    H - h - 1; a quarter of the sum of their squares is sigma_H^2.

    >>> from noregret.theory import bounds
    >>> # with one step there is no difference
    >>> [round(bounds.trajectory_sigma(H), 2) for H in (1, 2, 10, 100)]
    [0.0, 0.5, 8.44, 286.51]
    """
    return math.sqrt(horizon * (horizon - 1) * (2 * horizon - 1) / 24.0)


# Sums of widths --------------------------------------------------------------------------------------------------
@or_a_sentence
def potential(
    n_pairs: int,
    context_dim: int,
    kappa: float,
    episodes: float,
    horizon: int,
    context_bound: float,
    regularization: float,
) -> float:
    """Bound on D = sum over pairs of ln det Z_end/det Z_1: n d ln(1 + kappa K H R^2/(lambda d n)), n = n_pairs.

    Arithmetic and geometric mean of the eigenvalues for one pair, concavity of ln over pairs. Where kappa varies, it is
    the largest one; for rewards it is 1.

    >>> from noregret.theory import bounds
    >>> shared = {"kappa": 1.0, "horizon": 1, "context_bound": 1.0, "regularization": 1.0}
    >>> # one number: Z_end = 1 + K, exactly
    >>> [round(bounds.potential(1, 1, episodes=K, **shared), 3) for K in (1, 99)]
    [0.693, 4.605]
    >>> round(bounds.potential(2, 1, episodes=198, **shared), 3)  # two pairs met as often
    9.21
    """
    shares = context_dim * n_pairs
    return shares * math.log1p(kappa * episodes * horizon * context_bound**2 / (regularization * shares))


@or_a_sentence
def largest_radius(
    weight_norm2: float,
    regularization: float,
    log_weight: float,
    kappa_min: float,
    kappa_max: float,
    *,
    context_dim: int,
    context_bound: float,
    samples: float,
    delta: float,
    gradient2: float = 2.0,
) -> float:
    """No squared radius gamma of Theorems A and B exceeds this during the first t samples of a pair.

        lambda B_0^2 + log_weight ln(1/delta) + (2d/kappa_min) ln(1 + kappa_max t R^2/(lambda d))

    ||a_i||^2 <= gradient2 = 2 for two distributions (1 for a single logistic predictor),
    kappa_i ||x_i||^2_{Z_{i+1}^{-1}} = u/(1 + u) <= ln(1 + u) with u = kappa_i ||x_i||^2_{Z_i^{-1}}, and `potential` for
    one pair; displacements are dropped. As gamma itself may fall, this is a bound on its maximum. t = K H is the worst
    case of a whole run.

    >>> from noregret.theory import bounds, radii
    >>> shared = {"weight_norm2": 4.0, "regularization": 1.0, "delta": 0.05}
    >>> run = {"log_weight": 2.0, "kappa_min": 0.1, "kappa_max": 0.2, "context_bound": 1.0}
    >>> for t in (0, 100, 10_000):
    ...     print(round(bounds.largest_radius(context_dim=1, samples=t, **run, **shared), 1))
    10.0
    70.9
    162.0
    >>> # before any data
    >>> round(radii.theorem_a(slack=1.0, gradient_sum=0.0, displacement=0.0, **shared), 1)
    10.0
    """
    growth = math.log1p(kappa_max * samples * context_bound**2 / (regularization * context_dim))
    log_term = log_weight * math.log(1.0 / delta)
    return regularization * weight_norm2 + log_term + gradient2 * context_dim / kappa_min * growth


@or_a_sentence
def largest_reward_radius(
    reward_bound: float, regularization: float, context_dim: int, context_bound: float, samples: float, delta: float
) -> float:
    """Bound zeta on the factor of ||x||_{V^{-1}} in `widths.reward_interval` during the first t samples of a pair.

        zeta = sqrt(lambda_r) B_r + 1/2 sqrt(2 ln(1/delta) + d ln(1 + t R^2/(lambda_r d)))

    >>> import math
    >>> from noregret.theory import bounds, widths
    >>> run = {"context_dim": 1, "context_bound": 1.0, "samples": 100, "delta": 0.05}
    >>> round(bounds.largest_reward_radius(1.0, regularization=1.0, **run), 3)
    2.628
    >>> # attained by one number, d = 1
    >>> round(widths.ridge_radius(math.log(101), 1.0, 1.0, log=math.log(20)), 3)
    2.628
    """
    logdet = context_dim * math.log1p(samples * context_bound**2 / (regularization * context_dim))
    return math.sqrt(regularization) * reward_bound + 0.5 * math.sqrt(2.0 * math.log(1.0 / delta) + logdet)


class Growth(NamedTuple):
    """A sum over K episodes that is at most root sqrt(K) + constant.

    >>> from noregret.theory import bounds
    >>> root, constant = bounds.Growth(root=2.0, constant=5.0)
    >>> root * 100**0.5 + constant
    25.0
    """

    root: float
    constant: float


@or_a_sentence
def bonus_growth(
    horizon: int,
    l1: float,
    radius: float,
    kappa_min: float,
    transition_potential: float,
    reward_radius: float,
    reward_potential: float,
) -> Growth:
    """What the bonuses of any K episodes of a run sum to, at most, where the sets hold.

        sum_{k,h} min(2 phi_{k,h}, H - h) <= root sqrt(K) + constant
        root      2 sigma_H L sqrt(Gamma D_Z/(kappa_min ln 2)) + 2 zeta sqrt(H D_V/ln 2)
        constant  (H (H+1)/2)(D_Z + D_V)/ln 2

    Gamma: no squared radius exceeds it in any of these episodes (`largest_radius`); zeta likewise; D_Z, D_V:
    log-determinants at the end of the run or `potential`. 2 phi_h <= (H-h-1) L sqrt(Gamma) ||x||_{Z^{-1}}
    + 2 zeta ||x||_{V^{-1}}, h from 0, because span(V_{h+1}) <= H-h-1.

    A pair with N visits in an episode is bad if N kappa ||x||^2_{Z^{-1}} > 1 at its start: that doubles det Z, so at
    most D_Z/ln 2 are, and each costs at most sum_h (H - h). For the others u <= ln(1 + u)/ln 2 with
    u = N kappa ||x||^2, so their squared norms sum to D_Z/(kappa_min ln 2) and Cauchy and Schwarz give the root,
    sum_h (H-h-1)^2 being 4 sigma_H^2. (Bounding H-h-1 by H-1 first, as usual, costs a factor of nearly sqrt 3.)

    >>> import math
    >>> from noregret.theory import bounds
    >>> D = 9 * math.log(2)  # nine doublings of each determinant
    >>> for H in (1, 2):  # 2 * 3, and 1 * 18; 2 * 1/2 * 3 + 2 * sqrt(18), and 3 * 18
    ...     print([round(part, 2) for part in bounds.bonus_growth(H, 1.0, 1.0, 1.0, D, 1.0, D)])
    [6.0, 18.0]
    [11.49, 54.0]
    """
    squares = transition_potential / math.log(2) / kappa_min
    widths = 2.0 * trajectory_sigma(horizon) * l1 * math.sqrt(radius) * math.sqrt(squares)
    rewards = 2.0 * reward_radius * math.sqrt(horizon * reward_potential / math.log(2))
    doublings = (transition_potential + reward_potential) / math.log(2)
    return Growth(widths + rewards, 0.5 * horizon * (horizon + 1) * doublings)
