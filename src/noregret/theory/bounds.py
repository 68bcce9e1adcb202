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

>>> from noregret.theory import bounds
>>> for episodes in (100, 10_000):  # a sum of returns, from its mean: the square root of K and a logarithm
...     print(round(bounds.martingale_deviation(bounds.return_sigma(horizon=5), episodes, delta=0.05)))
82
975
"""

import math
from typing import NamedTuple

from .._jit import answering
from . import radii

RANDOM_OPTIMISM = 2.0 / math.erfc(1.0 / math.sqrt(2.0))
"""c = 1/F(-1) = 6.303, F the standard normal distribution function: GLM-RLSVI is optimistic with chance 1/c."""


# Martingales -----------------------------------------------------------------------------------------------------
@answering
def martingale_deviation(sigma: float, episodes: float, delta: float) -> float:
    """sigma sqrt((K + 1) ln((K + 1)/delta^2)): a martingale with sigma-sub-Gaussian increments stays below it for all
    K at once, with probability 1 - delta.

    Method of mixtures: exp(u M - u^2 sigma^2 K/2) averaged over u ~ N(0, 1/sigma^2) is a supermartingale, equal to
    (K + 1)^{-1/2} exp(M^2/(2 sigma^2 (K + 1))); Ville's inequality."""
    return sigma * math.sqrt((episodes + 1.0) * (math.log(episodes + 1.0) - 2.0 * math.log(delta)))


@answering
def martingale_deviation_fixed(sigma: float, episodes: float, delta: float) -> float:
    """sigma sqrt(2 K ln(1/delta)): the same for one K fixed beforehand (Azuma and Hoeffding).

    Caveat: not for a K that depends on the data, such as the number of mistakes."""
    return sigma * math.sqrt(2.0 * episodes * math.log(1.0 / delta))


@answering
def return_sigma(horizon: int) -> float:
    """H/2: an episode's return lies in [0, H] (Hoeffding's lemma)."""
    return 0.5 * horizon


@answering
def trajectory_sigma(horizon: int) -> float:
    """sigma_H = sqrt(H (H-1)(2H-1)/24), of the difference between an expected and an observed sum of bonuses.

    With T_h = clip(V_h - V^pi_h, 0, H - h), h from 0, the increments P T_{h+1} - T_{h+1}(s_{h+1}) have range
    H - h - 1; a quarter of the sum of their squares is sigma_H^2."""
    return math.sqrt(horizon * (horizon - 1) * (2 * horizon - 1) / 24.0)


# Sums of widths --------------------------------------------------------------------------------------------------
@answering
def potential(
    n_pairs: int,
    context_dim: int,
    kappa: float,
    episodes: float,
    horizon: int,
    context_bound: float,
    regularization: float,
) -> float:
    """n d ln(1 + kappa K H R^2/(lambda d n)), n = n_pairs: bounds D = sum over pairs of ln det Z_end/det Z_1.

    Arithmetic and geometric mean of the eigenvalues for one pair, concavity of ln over pairs. Where kappa varies, it is
    the largest one; for rewards it is 1."""
    shares = context_dim * n_pairs
    return shares * math.log1p(kappa * episodes * horizon * context_bound**2 / (regularization * shares))


@answering
def largest_radius(
    weight_norm2: float,
    regularization: float,
    log_weight: float,
    kappa_min: float,
    kappa_max: float,
    context_dim: int,
    context_bound: float,
    samples: float,
    delta: float,
    gradient2: float = 2.0,
) -> float:
    """No squared radius gamma of Theorems A and B exceeds, during the first t samples of a pair,

        lambda B_0^2 + log_weight ln(1/delta) + (2d/kappa_min) ln(1 + kappa_max t R^2/(lambda d)).

    ||a_i||^2 <= gradient2 = 2 for two distributions (1 for a single logistic predictor),
    kappa_i ||x_i||^2_{Z_{i+1}^{-1}} = u/(1 + u) <= ln(1 + u) with u = kappa_i ||x_i||^2_{Z_i^{-1}}, and `potential` for
    one pair; displacements are dropped. As gamma itself may fall, this is a bound on its maximum. t = K H is the worst
    case of a whole run."""
    growth = math.log1p(kappa_max * samples * context_bound**2 / (regularization * context_dim))
    log_term = log_weight * math.log(1.0 / delta)
    return regularization * weight_norm2 + log_term + gradient2 * context_dim / kappa_min * growth


@answering
def largest_reward_radius(
    reward_bound: float, regularization: float, context_dim: int, context_bound: float, samples: float, delta: float
) -> float:
    """zeta = sqrt(lambda_r) B_r + 1/2 sqrt(2 ln(1/delta) + d ln(1 + t R^2/(lambda_r d))), which bounds the factor of
    ||x||_{V^{-1}} in `widths.reward_interval` during the first t samples of a pair."""
    logdet = context_dim * math.log1p(samples * context_bound**2 / (regularization * context_dim))
    return math.sqrt(regularization) * reward_bound + 0.5 * math.sqrt(2.0 * math.log(1.0 / delta) + logdet)


class Growth(NamedTuple):
    """A sum over K episodes that is at most root sqrt(K) + constant."""

    root: float
    constant: float


@answering
def bonus_growth(
    horizon: int,
    l1: float,
    radius: float,
    kappa_min: float,
    transition_potential: float,
    reward_radius: float,
    reward_potential: float,
) -> Growth:
    """sum_{k,h} min(2 phi_{k,h}, H - h) <= root sqrt(K) + constant, over any K episodes of a run, with

        root      2 sigma_H L sqrt(Gamma D_Z/(kappa_min ln 2)) + 2 zeta sqrt(H D_V/ln 2)
        constant  (H (H+1)/2)(D_Z + D_V)/ln 2

    where the sets hold. Gamma: no squared radius exceeds it in any of these episodes (`largest_radius`); zeta likewise;
    D_Z, D_V: log-determinants at the end of the run or `potential`. 2 phi_h <= (H-h-1) L sqrt(Gamma) ||x||_{Z^{-1}}
    + 2 zeta ||x||_{V^{-1}}, h from 0, because span(V_{h+1}) <= H-h-1.

    A pair with N visits in an episode is bad if N kappa ||x||^2_{Z^{-1}} > 1 at its start: that doubles det Z, so at
    most D_Z/ln 2 are, and each costs at most sum_h (H - h). For the others u <= ln(1 + u)/ln 2 with
    u = N kappa ||x||^2, so their squared norms sum to D_Z/(kappa_min ln 2) and Cauchy and Schwarz give the root,
    sum_h (H-h-1)^2 being 4 sigma_H^2. (Bounding H-h-1 by H-1 first, as usual, costs a factor of nearly sqrt 3.)"""
    squares = transition_potential / math.log(2) / kappa_min
    widths = 2.0 * trajectory_sigma(horizon) * l1 * math.sqrt(radius) * math.sqrt(squares)
    rewards = 2.0 * reward_radius * math.sqrt(horizon * reward_potential / math.log(2))
    doublings = (transition_potential + reward_potential) / math.log(2)
    return Growth(widths + rewards, 0.5 * horizon * (horizon + 1) * doublings)


# GLM-ORL ---------------------------------------------------------------------------------------------------------
@answering
def regret_from_returns(excess: float, horizon: int, episodes: float, delta: float) -> float:
    """(i)  R(K) <= sum_k (V_{k,0}(s_0) - G_k) + u_{H/2}(K), for all K: excess is the sum of the optimistic values less
    the observed returns G_k. The tightest of the three. Needs every reward of every episode.

    (i) and (ii) are about different martingales: to report both, or the smaller, each takes its own delta."""
    return excess + martingale_deviation(return_sigma(horizon), episodes, delta)


@answering
def regret_from_bonuses(bonuses: float, horizon: int, episodes: float, delta: float) -> float:
    """(ii)  R(K) <= sum_{k,h} min(2 phi_{k,h}, H - h) + u_{sigma_H}(K), for all K, h from 0: bonuses is that sum over
    the pairs visited, phi the whole bonus of a step."""
    return bonuses + martingale_deviation(trajectory_sigma(horizon), episodes, delta)


@answering
def regret_explicit(
    horizon: int,
    episodes: float,
    delta: float,
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
    """(iii)  R(K) <= u_{sigma_H}(K) + root sqrt(K) + constant, with the terms of `bonus_growth` and both potentials
    bounded beforehand: known before the first episode, O(H^{3/2} sqrt(K)) up to logarithms.

    radius and reward_radius must hold up to K (t = K H in `largest_radius`), so this is for one K."""
    growth = bonus_growth(
        horizon, l1, radius, kappa_min,
        potential(n_pairs, context_dim, kappa_max, episodes, horizon, context_bound, regularization),
        reward_radius,
        potential(n_pairs, context_dim, 1.0, episodes, horizon, context_bound, reward_regularization),
    )  # fmt: skip
    return regret_from_bonuses(growth.root * math.sqrt(episodes) + growth.constant, horizon, episodes, delta)


@answering
def mistakes(epsilon: float, horizon: int, delta: float, growth: Growth, episodes: int | None = None) -> int:
    """The largest N with epsilon N <= u_{sigma_H}(N) + root sqrt(N) + constant, and at most K: among the first K
    episodes no more have V* - V^pi > epsilon, with probability 1 - delta where the sets hold.

    `growth` is `bonus_growth` with potentials and radii at K. Whether an episode is a mistake is settled before it is
    played, so the bonuses of the mistakes alone obey (ii) with N in place of K; as N is random the deviation must hold
    for all N. The right side is concave and starts above 0, so the N that satisfy it are 0, ..., N*: bisection. One
    epsilon, fixed beforehand."""
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


@answering
def mistakes_closed(epsilon: float, horizon: int, delta: float, growth: Growth, episodes: float) -> float:
    """((A + sqrt(A^2 + 4 epsilon C))/(2 epsilon))^2, at least `mistakes`: the solution of epsilon N = A sqrt(N) + C.

    With v = sigma_H sqrt(ln((K + 1)/delta^2)), A = root + v and C = constant + v: sqrt(N + 1) <= sqrt(N) + 1."""
    v = trajectory_sigma(horizon) * math.sqrt(math.log(episodes + 1.0) - 2.0 * math.log(delta))
    a, c = growth.root + v, growth.constant + v
    root = (a + math.sqrt(a * a + 4.0 * epsilon * c)) / (2.0 * epsilon)
    return root * root


# GLM-RLSVI -------------------------------------------------------------------------------------------------------
@answering
def rlsvi_delta(n_pairs: int, episode: float) -> float:
    """1/(2 n_pairs k^2), the chance that one set of episode k = 1, 2, ... fails: pi^2/6 bad episodes in all."""
    return 1.0 / (2.0 * n_pairs * float(episode) ** 2)


@answering
def rlsvi_regret(
    n_states: int,
    n_pairs: int,
    horizon: int,
    episodes: float,
    l1: float,
    radius: float,
    kappa_min: float,
    transition_potential: float,
    reward_radius: float,
    reward_potential: float,
) -> float:
    """E R(K) <= H pi^2/6 + (2c + 1) { H (1 + H n g) Xi_p + Xi_r + n g (H/2 Xi_p + Xi_r) },  n = sqrt(H S),

        c = 1/F(-1), g = sqrt(2 ln(2 H n_pairs K)), Xi_p = L sqrt(Gamma K H D_Z/(kappa_min ln 2)) + 2 H D_Z/ln 2,
        Xi_r = zeta sqrt(K H D_V/ln 2) + H D_V/ln 2.

    A bound on an expectation: radius, reward_radius and the potentials must be fixed beforehand, the radii at
    delta = `rlsvi_delta`(n_pairs, K). Xi bounds the sum of widths (at most 2) or intervals (at most 1) in every run,
    g the expected largest |noise| in standard deviations, and those are at most H n. H^3 sqrt(K) up to logarithms."""
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


# As printed by Modi and Tewari (2020), step size eta = 1 ---------------------------------------------------------
@answering
def deviation_printed(n_states: int, horizon: int, episodes: float, delta: float) -> float:
    """S H^2 sqrt(K log(6 log(2K)/delta_1)), the proof of Theorem 4.1 in the appendix.

    Caveat: the main text has S H, which the weighted sum of visits it stands for exceeds: with two states, one of them
    absorbing with bonuses H - h, it deviates by H (H-1)/4 with probability 1/2. S H^2 is enough, and so is H^2."""
    return n_states * horizon**2 * math.sqrt(episodes * math.log(6.0 * math.log(2.0 * episodes) / delta))


@answering
def radius_printed(
    n_outcomes: int,
    weight_norm2: float,
    weight_bound: float,
    context_bound: float,
    alpha: float,
    regularization: float,
    context_dim: int,
    samples: int,
    delta: float,
) -> float:
    """gamma-bar = alpha/(2S) + f(KH, delta_p) + (8d/alpha) log(1 + K H R^2/(lambda d)), where f is `radii.printed` less
    its log-determinant; samples = K H. Caveat: the logarithm lacks kappa = alpha/2, harmless for alpha <= 2."""
    start = radii.printed(
        n_outcomes, weight_norm2, weight_bound, context_bound, alpha, regularization, samples, 0.0, delta
    )
    growth = math.log1p(samples * context_bound**2 / (regularization * context_dim))
    return alpha / (2.0 * n_outcomes) + start + 8.0 * context_dim / alpha * growth


@answering
def regret_printed(
    n_states: int,
    n_actions: int,
    horizon: int,
    episodes: int,
    context_dim: int,
    context_bound: float,
    alpha: float,
    beta: float,
    regularization: float,
    radius: float,
    delta: float,
) -> float:
    """The explicit last lines of the proof of Theorem 4.1, radius = `radius_printed`, delta = delta_1:

        S H^2 sqrt(K log(6 log(2K)/delta_1))
        + 4 beta H sqrt(2 S gamma-bar K H/alpha) sqrt(2 H S A d log(1 + K H R^2/(lambda d)))

    Caveat: the reward terms are left out, as printed ("lower order"); invalid with an invalid alpha."""
    growth = math.log1p(episodes * horizon * context_bound**2 / (regularization * context_dim))
    widths = math.sqrt(radius) * math.sqrt(2.0 * n_states * episodes * horizon / alpha)
    pairs = math.sqrt(2.0 * horizon * n_states * n_actions * context_dim * growth)
    return deviation_printed(n_states, horizon, episodes, delta) + 4.0 * beta * horizon * widths * pairs


@answering
def mistakes_printed(
    epsilon: float,
    n_states: int,
    n_actions: int,
    horizon: int,
    episodes: int,
    context_dim: int,
    context_bound: float,
    beta: float,
    regularization: float,
    radius: float,
) -> float:
    """16 (lambda + H) beta^2 d S^2 A H^4 gamma_{K+1}/(lambda epsilon^2) log(1 + R^2 K H/lambda), from the appendix's
    proof of the mistake bound; radius = gamma_{K+1}.

    Caveat: not proved. The printed argument counts pairs that are not visited, has (lambda + H)/lambda on the wrong
    side, and treats Z as if kappa were 1 (a factor of 1/alpha)."""
    scale = 16.0 * (regularization + horizon) * beta**2 * context_dim * n_states**2 * n_actions * horizon**4 * radius
    growth = math.log1p(context_bound**2 * episodes * horizon / regularization)
    return scale / regularization / epsilon / epsilon * growth


@answering
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
    """(sqrt(d) max ||W||_F/sqrt(alpha) + d/alpha) beta sqrt(H^7 S^3 A K): GLM-RLSVI's theorem, an order only.

    Caveat: no constant and no logarithm is printed, so this number bounds nothing."""
    scale = math.sqrt(context_dim) * weight_norm / math.sqrt(alpha) + context_dim / alpha
    return scale * beta * math.sqrt(float(horizon) ** 7 * n_states**3 * n_actions * episodes)
