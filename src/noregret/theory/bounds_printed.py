"""Bounds as printed by Modi and Tewari (2020), step size eta = 1, to compare with. Notation as in `bounds`.

`theory.bounds` has these names, too. Each caveat says what is wrong or missing; docs/errata.md has the checks.
"""

import math

from ..checks import or_a_sentence
from . import radii


@or_a_sentence
def deviation_printed(n_states: int, horizon: int, episodes: float, delta: float) -> float:
    """The deviation in the proof of Theorem 4.1, in the appendix: S H^2 sqrt(K log(6 log(2K)/delta_1)).

    Caveat: the main text has S H, which the weighted sum of visits it stands for exceeds: with two states, one of them
    absorbing with bonuses H - h, it deviates by H (H-1)/4 with probability 1/2. S H^2 is enough, and so is H^2.

    >>> from noregret.theory import bounds
    >>> round(bounds.deviation_printed(n_states=5, horizon=10, episodes=1000, delta=0.05))
    41279
    >>> round(bounds.martingale_deviation(bounds.trajectory_sigma(10), 1000, delta=0.05))  # enough
    959
    """
    return n_states * horizon**2 * math.sqrt(episodes * math.log(6.0 * math.log(2.0 * episodes) / delta))


@or_a_sentence
def radius_printed(
    n_outcomes: int,
    weight_norm2: float,
    weight_bound: float,
    context_bound: float,
    alpha: float,
    regularization: float,
    *,
    context_dim: int,
    samples: int,
    delta: float,
) -> float:
    """The radius gamma-bar of the proof, with f for `radii.printed` less its log-determinant and samples = K H.

        alpha/(2S) + f(KH, delta_p) + (8d/alpha) log(1 + K H R^2/(lambda d))

    Caveat: the logarithm lacks kappa = alpha/2, harmless for alpha <= 2.

    >>> from noregret.theory import bounds
    >>> shared = {"weight_norm2": 1.0, "regularization": 1.0, "context_dim": 2}
    >>> shared |= {"context_bound": 1.0, "samples": 1000, "delta": 0.05}
    >>> round(bounds.radius_printed(3, weight_bound=1.0, alpha=0.04, **shared))
    6672
    >>> theorem_a = {"log_weight": 2.0, "kappa_min": 0.04, "kappa_max": 0.04}
    >>> round(bounds.largest_radius(**theorem_a, **shared))
    311
    """
    fixed = n_outcomes, weight_norm2, weight_bound, context_bound, alpha, regularization
    start = radii.printed(*fixed, samples=samples, logdet=0.0, delta=delta)
    growth = math.log1p(samples * context_bound**2 / (regularization * context_dim))
    return alpha / (2.0 * n_outcomes) + start + 8.0 * context_dim / alpha * growth


@or_a_sentence
def regret_printed(
    n_states: int,
    n_actions: int,
    horizon: int,
    episodes: int,
    *,
    context_dim: int,
    context_bound: float,
    alpha: float,
    beta: float,
    regularization: float,
    radius: float,
    delta: float,
) -> float:
    """The explicit last lines of the proof of Theorem 4.1, radius = `radius_printed`, delta = delta_1.

        S H^2 sqrt(K log(6 log(2K)/delta_1))
        + 4 beta H sqrt(2 S gamma-bar K H/alpha) sqrt(2 H S A d log(1 + K H R^2/(lambda d)))

    Caveat: the reward terms are left out, as printed ("lower order"); invalid with an invalid alpha.

    >>> from noregret.theory import bounds
    >>> # two states, actions and steps; 2 K would be the worst of all regrets
    >>> setting = {"context_dim": 1, "context_bound": 1.0, "alpha": 0.1, "beta": 1.0}
    >>> setting |= {"regularization": 1.0, "radius": 7000.0, "delta": 0.05}
    >>> for K in (10**6, 10**8, 10**10):
    ...     print(round(bounds.regret_printed(2, 2, 2, K, **setting) / (2 * K), 2))
    45.62
    5.24
    0.58
    """
    growth = math.log1p(episodes * horizon * context_bound**2 / (regularization * context_dim))
    widths = math.sqrt(radius) * math.sqrt(2.0 * n_states * episodes * horizon / alpha)
    pairs = math.sqrt(2.0 * horizon * n_states * n_actions * context_dim * growth)
    return deviation_printed(n_states, horizon, episodes, delta) + 4.0 * beta * horizon * widths * pairs


@or_a_sentence
def mistakes_printed(
    epsilon: float,
    n_states: int,
    n_actions: int,
    horizon: int,
    episodes: int,
    *,
    context_dim: int,
    context_bound: float,
    beta: float,
    regularization: float,
    radius: float,
) -> float:
    """The number of mistakes in the appendix's proof, radius = gamma_{K+1}.

        16 (lambda + H) beta^2 d S^2 A H^4 gamma_{K+1}/(lambda epsilon^2) log(1 + R^2 K H/lambda)

    Caveat: not proved. The printed argument counts pairs that are not visited, has (lambda + H)/lambda on the wrong
    side, and treats Z as if kappa were 1 (a factor of 1/alpha).

    >>> import math
    >>> from noregret.theory import bounds
    >>> setting = {"context_dim": 1, "context_bound": 1.0, "beta": 1.0, "regularization": 1.0}
    >>> n = bounds.mistakes_printed(1.0, 1, 1, horizon=1, episodes=99, radius=1.0, **setting)
    >>> round(n / math.log(100), 6)  # 16 (1 + 1)
    32.0
    """
    scale = 16.0 * (regularization + horizon) * beta**2 * context_dim * n_states**2 * n_actions * horizon**4 * radius
    growth = math.log1p(context_bound**2 * episodes * horizon / regularization)
    return scale / regularization / epsilon / epsilon * growth


@or_a_sentence
def rlsvi_order_printed(
    n_states: int,
    n_actions: int,
    horizon: int,
    episodes: float,
    context_dim: int,
    alpha: float,
    beta: float,
    weight_norm: float,
) -> float:
    """GLM-RLSVI's theorem: (sqrt(d) max ||W||_F/sqrt(alpha) + d/alpha) beta sqrt(H^7 S^3 A K), an order only.

    Caveat: no constant and no logarithm is printed, so this number bounds nothing.

    >>> from noregret.theory import bounds
    >>> setting = {"context_dim": 4, "alpha": 0.25, "beta": 1.0, "weight_norm": 1.0}
    >>> for H, K in ((1, 1), (1, 100), (4, 1)):  # 2/0.5 + 4/0.25; times sqrt(100); times 4^3.5
    ...     print(bounds.rlsvi_order_printed(1, 1, H, episodes=K, **setting))
    20.0
    200.0
    2560.0
    """
    scale = math.sqrt(context_dim) * weight_norm / math.sqrt(alpha) + context_dim / alpha
    return scale * beta * math.sqrt(float(horizon) ** 7 * n_states**3 * n_actions * episodes)
