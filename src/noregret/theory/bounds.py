"""Bounds on the regret and on the number of mistakes, from scalars alone: as proved, and as printed.

K episodes of H steps; R bounds the contexts' norm; d their dimension. For each of the pairs (n_pairs of them)
Z = lambda I + sum kappa_t x_t x_t' belongs to its transitions and V = lambda_r I + sum x_t x_t' to its rewards.
kappa_t may depend on the context (logit: (2 - s) alpha(B_p ||x_t||), largest at x = 0): `kappa_max` then enters where Z
is bounded from above, `kappa_min` where a width is bounded through Z. L (`l1`) leads from the predictors' 2-norm to
twice what a value function of span 1 can lose: the Lipschitz constant to the probabilities' 1-norm, or, where the bonus
is ||V - mean||_2 times a 2-norm, `constants.linear_l1` of all S states (2 ||V - mean||_2 <= linear_l1(S) span(V)).

Bounds in functions without `printed` in their name hold for contexts chosen by an adversary who sees the past. They
need complete episodes: a step that was not played has no observed bonus. `delta` is always the share of the one event a
function is about.

The parts are in `bound_terms`, what is printed in `bounds_printed`: all of it can be had from here.

>>> from noregret.theory import bounds
>>> round(bounds.RANDOM_OPTIMISM, 3)  # GLM-RLSVI is optimistic in one episode of so many, or more
6.303
"""

import math

from ..checks import or_a_sentence
from .bound_terms import (
    Growth,
    bonus_growth,
    largest_radius,
    largest_reward_radius,
    martingale_deviation,
    martingale_deviation_fixed,
    potential,
    return_sigma,
    trajectory_sigma,
)
from .bounds_printed import deviation_printed, mistakes_printed, radius_printed, regret_printed, rlsvi_order_printed

__all__ = [
    "RANDOM_OPTIMISM", "Growth", "bonus_growth", "deviation_printed", "largest_radius", "largest_reward_radius",
    "martingale_deviation", "martingale_deviation_fixed", "mistakes", "mistakes_closed", "mistakes_printed",
    "potential", "radius_printed", "regret_explicit", "regret_from_bonuses", "regret_from_returns", "regret_printed",
    "return_sigma", "rlsvi_delta", "rlsvi_order_printed", "rlsvi_regret", "trajectory_sigma",
]  # fmt: skip

RANDOM_OPTIMISM = 2.0 / math.erfc(1.0 / math.sqrt(2.0))
"""c = 1/F(-1) = 6.303, F the standard normal distribution function: GLM-RLSVI is optimistic with chance 1/c."""


# GLM-ORL ---------------------------------------------------------------------------------------------------------
@or_a_sentence
def regret_from_returns(excess: float, horizon: int, episodes: float, delta: float) -> float:
    """Bound (i) on the regret, for all K: optimistic values less the observed returns, and a deviation.

        R(K) <= sum_k (V_{k,0}(s_0) - G_k) + u_{H/2}(K)

    excess is the sum of the optimistic values less the returns G_k. The tightest of the three. Needs every reward of
    every episode. (i) and (ii) are about different martingales: to report both, or the smaller, each takes its own
    delta.

    >>> from noregret.theory import bounds
    >>> # 100 + 2 * 10 sqrt(ln 40000)
    >>> round(bounds.regret_from_returns(100.0, horizon=4, episodes=99, delta=0.05))
    165
    """
    return excess + martingale_deviation(return_sigma(horizon), episodes, delta)


@or_a_sentence
def regret_from_bonuses(bonuses: float, horizon: int, episodes: float, delta: float) -> float:
    """Bound (ii) on the regret, for all K: the bonuses of the pairs visited, and a deviation.

        R(K) <= sum_{k,h} min(2 phi_{k,h}, H - h) + u_{sigma_H}(K),   h from 0

    bonuses is that sum, phi the whole bonus of a step.

    >>> from noregret.theory import bounds
    >>> # one step: nothing deviates
    >>> bounds.regret_from_bonuses(100.0, horizon=1, episodes=99, delta=0.05)
    100.0
    >>> round(bounds.regret_from_bonuses(100.0, horizon=4, episodes=99, delta=0.05))
    161
    """
    return bonuses + martingale_deviation(trajectory_sigma(horizon), episodes, delta)


@or_a_sentence
def regret_explicit(
    horizon: int,
    episodes: float,
    delta: float,
    *,
    n_pairs: int,
    context_dim: int,
    context_bound: float,
    l1: float,
    radius: float,
    kappa_min: float,
    kappa_max: float,
    regularization: float,
    reward_radius: float,
    reward_regularization: float,
) -> float:
    """Bound (iii) on the regret, known before the first episode: O(H^{3/2} sqrt(K)) up to logarithms.

        R(K) <= u_{sigma_H}(K) + root sqrt(K) + constant

    with the terms of `bonus_growth` and both potentials bounded beforehand. radius and reward_radius must hold up to K
    (t = K H in `largest_radius`), so this is for one K.

    >>> from noregret.theory import bounds
    >>> setting = {"n_pairs": 4, "context_dim": 1, "context_bound": 1.0, "l1": 0.7, "radius": 400.0}
    >>> setting |= {"kappa_min": 0.1, "kappa_max": 0.2, "regularization": 1.0}
    >>> setting |= {"reward_radius": 4.0, "reward_regularization": 1.0}
    >>> for K in (10**3, 10**5, 10**7):  # per episode
    ...     print(round(bounds.regret_explicit(2, K, 0.05, **setting) / K, 3))
    9.612
    1.313
    0.16
    """
    growth = bonus_growth(
        horizon, l1, radius, kappa_min,
        potential(n_pairs, context_dim, kappa_max, episodes, horizon, context_bound, regularization),
        reward_radius,
        potential(n_pairs, context_dim, 1.0, episodes, horizon, context_bound, reward_regularization),
    )  # fmt: skip
    return regret_from_bonuses(growth.root * math.sqrt(episodes) + growth.constant, horizon, episodes, delta)


@or_a_sentence
def mistakes(epsilon: float, horizon: int, delta: float, growth: Growth, episodes: int | None = None) -> int:
    """The largest N with epsilon N <= u_{sigma_H}(N) + root sqrt(N) + constant, and at most K.

    Among the first K episodes no more have V* - V^pi > epsilon, with probability 1 - delta where the sets hold.

    `growth` is `bonus_growth` with potentials and radii at K. Whether an episode is a mistake is settled before it is
    played, so the bonuses of the mistakes alone obey (ii) with N in place of K; as N is random the deviation must hold
    for all N. The right side is concave and starts above 0, so the N that satisfy it are 0, ..., N*: bisection. One
    epsilon, fixed beforehand.

    >>> from noregret.theory import bounds
    >>> growth = bounds.Growth(root=2.0, constant=0.0)
    >>> # (2/epsilon)^2: one step, no deviation
    >>> [bounds.mistakes(epsilon, 1, 0.05, growth) for epsilon in (0.5, 0.25)]
    [16, 64]
    >>> bounds.mistakes(0.5, 5, 0.05, growth), bounds.mistakes(0.5, 5, 0.05, growth, episodes=100)
    (538, 100)
    """
    if not math.isfinite(growth.root + growth.constant):
        raise ValueError(f"growth must be finite, got {growth}")
    sigma = trajectory_sigma(horizon)

    def possible(n: int) -> bool:
        return epsilon * n <= martingale_deviation(sigma, n, delta) + growth.root * math.sqrt(n) + growth.constant

    if episodes is not None and possible(episodes):
        return episodes
    low, high = 0, 1
    while possible(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if possible(middle) else (low, middle)
    return low


@or_a_sentence
def mistakes_closed(epsilon: float, horizon: int, delta: float, growth: Growth, episodes: float) -> float:
    """A closed form that is at least `mistakes`: the solution of epsilon N = A sqrt(N) + C.

        ((A + sqrt(A^2 + 4 epsilon C))/(2 epsilon))^2

    With v = sigma_H sqrt(ln((K + 1)/delta^2)), A = root + v and C = constant + v: sqrt(N + 1) <= sqrt(N) + 1.

    >>> from noregret.theory import bounds
    >>> growth = bounds.Growth(root=2.0, constant=0.0)
    >>> [round(bounds.mistakes_closed(0.5, H, 0.05, growth, episodes=10_000)) for H in (1, 5)]
    [16, 685]
    >>> [bounds.mistakes(0.5, H, 0.05, growth, episodes=10_000) for H in (1, 5)]
    [16, 538]
    """
    v = trajectory_sigma(horizon) * math.sqrt(math.log(episodes + 1.0) - 2.0 * math.log(delta))
    a, c = growth.root + v, growth.constant + v
    root = (a + math.sqrt(a * a + 4.0 * epsilon * c)) / (2.0 * epsilon)
    return root * root


# GLM-RLSVI -------------------------------------------------------------------------------------------------------
@or_a_sentence
def rlsvi_delta(n_pairs: int, episode: float) -> float:
    """The chance that one set of episode k = 1, 2, ... fails, 1/(2 n_pairs k^2): pi^2/6 bad episodes in all.

    >>> from noregret.theory import bounds
    >>> bounds.rlsvi_delta(n_pairs=10, episode=1)
    0.05
    >>> # twenty sets: transitions and rewards
    >>> round(sum(20 * bounds.rlsvi_delta(10, k) for k in range(1, 10_000)), 3)
    1.645
    """
    return 1.0 / (2.0 * n_pairs * float(episode) ** 2)


@or_a_sentence
def rlsvi_regret(
    n_states: int,
    n_pairs: int,
    horizon: int,
    episodes: float,
    *,
    l1: float,
    radius: float,
    kappa_min: float,
    transition_potential: float,
    reward_radius: float,
    reward_potential: float,
) -> float:
    """Bound on the expected regret of GLM-RLSVI: H^3 sqrt(K) up to logarithms.

        E R(K) <= H pi^2/6 + (2c + 1) { H (1 + H n g) Xi_p + Xi_r + n g (H/2 Xi_p + Xi_r) }

        c = 1/F(-1),   g = sqrt(2 ln(2 H n_pairs K)),   n = sqrt(H S)
        Xi_p = L sqrt(Gamma K H D_Z/(kappa_min ln 2)) + 2 H D_Z/ln 2
        Xi_r = zeta sqrt(K H D_V/ln 2) + H D_V/ln 2

    A bound on an expectation: radius, reward_radius and the potentials must be fixed beforehand, the radii at
    delta = `rlsvi_delta`(n_pairs, K). Xi bounds the sum of widths (at most 2) or intervals (at most 1) in every run,
    g the expected largest |noise| in standard deviations, and those are at most H n.

    >>> from noregret.theory import bounds
    >>> setting = {"n_states": 3, "n_pairs": 6, "horizon": 6}
    >>> setting |= {"l1": 1.0, "radius": 50.0, "kappa_min": 0.1, "reward_radius": 3.0}
    >>> # all known, D = 0: only the bad episodes, pi^2
    >>> for K, D in ((10**6, 0.0), (10**6, 10.0), (10**8, 10.0)):
    ...     potentials = {"transition_potential": D, "reward_potential": D}
    ...     print(f"{bounds.rlsvi_regret(episodes=K, **potentials, **setting):.3g}")
    9.87
    2.85e+09
    3.18e+10
    """
    g = math.sqrt(2.0 * math.log(2.0 * horizon * n_pairs * episodes))
    noise = math.sqrt(horizon * n_states) * g
    steps = episodes * horizon / math.log(2)
    doublings, reward_doublings = transition_potential / math.log(2), reward_potential / math.log(2)
    widths = l1 * math.sqrt(radius) * math.sqrt(steps * transition_potential / kappa_min) + 2.0 * horizon * doublings
    intervals = reward_radius * math.sqrt(steps * reward_potential) + horizon * reward_doublings
    errors = horizon * (1.0 + horizon * noise) * widths + intervals
    return horizon * math.pi**2 / 6.0 + (2.0 * RANDOM_OPTIMISM + 1.0) * (
        errors + noise * (0.5 * horizon * widths + intervals)
    )
