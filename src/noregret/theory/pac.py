"""Rmax with approximate models: how many visits, how small a ball, how far off, how many mistakes.

Values are sums of rewards over H steps (not averages), epsilon is in the same unit, steps count from 0. If the models
of all known pairs satisfy |r - r_hat| <= e_r and ||P - P_hat||_1 <= e_p, and unknown pairs are worth H - h, then

    V*_h <= V_h + slack_h,    slack_h = (H - h) e_r + (H - h)(H - h - 1)/4 e_p            (1)

(induction: |<P - P_hat, V*_{h+1}>| is at most half the span of V*_{h+1}, which is at most H - h - 1, times e_p). The
same argument bounds from below what the plan is worth, up to H times the chance p of meeting an unknown pair:

    V*_0 - V^pi_0 <= 2 slack_0 + H p                                                      (2)

With 2 slack_0 <= epsilon/2 a plan that is worse than optimal by more than epsilon has p > epsilon/(2H). If unknown
pairs can be visited `escapes` times in all, the mistakes are at most (Chernoff: n trials with chance p each succeed
fewer than n p/2 times with probability exp(-n p/8))

    mistakes <= (4H/epsilon) max(escapes, 4 ln(1/delta))                                  (3)

The structure is that of Modi, Jiang, Singh and Tewari (2018); the constants are derived here. `printed_visits` and
`printed_radius` are theirs, from memory; they seem to belong to values averaged over the horizon, whose epsilon is H
times smaller than the one of sums.

>>> from noregret.theory import pac
>>> # (1), step by step
>>> pac.slack(horizon=3, reward_error=0.01, transition_error=0.02).round(3).tolist()
[0.06, 0.03, 0.01, 0.0]
>>> # contexts can be uncertain so often, and no oftener
>>> pac.kwik_samples(context_dim=2, alpha=0.1)
1302
>>> 2 * pac.SHARE  # of epsilon, for 2 slack_0 in (2); the rest is for the unknown pairs
0.5
"""

import math

import numpy as np

from .. import checks as check
from ..checks import Floats, or_a_sentence

SHARE = 0.25  # of epsilon that slack_0 may take, so that 2 slack_0 <= epsilon/2


@or_a_sentence
def slack(horizon: int, reward_error: float, transition_error: float) -> Floats:
    """How far planning can be off, slack_h of (1), [H + 1].

    >>> from noregret.theory import pac
    >>> # 2 * 0.1 + 2/4 * 0.2 first
    >>> pac.slack(horizon=2, reward_error=0.1, transition_error=0.2).round(3).tolist()
    [0.3, 0.1, 0.0]
    """
    check.memory(f"slack with horizon = {check.integer('horizon', horizon, 0)}", 8.0 * horizon)
    left = horizon - np.arange(horizon + 1.0)
    made = left * reward_error + 0.25 * left * (left - 1.0) * transition_error
    return np.asarray(made, dtype=np.float64)


@or_a_sentence
def reward_rate(log: float) -> float:
    """Hoeffding's rate, both sides: |mean of m rewards - their mean means| <= rate/sqrt(m).

    With probability 1 - exp(-log).

    >>> import math
    >>> from noregret.theory import pac
    >>> round(pac.reward_rate(math.log(20)), 3)  # sqrt(ln(40)/2), at 95 %
    1.358
    """
    return math.sqrt(0.5 * (math.log(2.0) + log))


@or_a_sentence
def transition_rate(n_outcomes: int, log: float) -> float:
    """The rate in the 1-norm: ||frequencies of m outcomes - mean distribution||_1 <= rate/sqrt(m).

    With probability 1 - exp(-log). One Hoeffding bound (range 2) for each of the fewer than 2^n sets of outcomes; 0
    for a single outcome. The samples may come from different distributions, each chosen after the samples before it
    (Azuma).

    >>> from noregret.theory import pac
    >>> [round(pac.transition_rate(n, log=3.0), 2) for n in (1, 2, 10, 100)]  # about sqrt(2 n ln 2)
    [0.0, 2.96, 4.46, 12.03]
    """
    return 0.0 if n_outcomes == 1 else math.sqrt(2.0 * (n_outcomes * math.log(2.0) + log))


@or_a_sentence
def rmax_visits(n_outcomes: int, horizon: int, epsilon: float, log: float) -> int:
    """Visits until a pair is known: after them sampling alone adds at most epsilon/8 to slack_0, half of its share.

    >>> import math
    >>> from noregret.theory import pac
    >>> m = pac.rmax_visits(n_outcomes=5, horizon=10, epsilon=1.0, log=3.0)
    >>> rates = pac.reward_rate(3.0) / math.sqrt(m), pac.transition_rate(5, 3.0) / math.sqrt(m)
    >>> m, round(float(pac.slack(10, *rates)[0]), 4)
    (571532, 0.125)
    """
    need = slack(horizon, reward_rate(log), transition_rate(n_outcomes, log))[0]
    return math.ceil((2.0 * float(need) / (SHARE * epsilon)) ** 2)


@or_a_sentence
def cover_radius(horizon: int, epsilon: float, lipschitz: float, reward_lipschitz: float) -> float:
    """Radius r0 of the balls: contexts of one ball are at most 2 r0 apart, which adds at most epsilon/8 to slack_0.

    >>> from noregret.theory import pac
    >>> # one step: rewards alone matter
    >>> pac.cover_radius(horizon=1, epsilon=1.0, lipschitz=5.0, reward_lipschitz=1.0)
    0.0625
    >>> pac.cover_radius(horizon=1, epsilon=1.0, lipschitz=5.0, reward_lipschitz=0.0)
    inf
    """
    need = slack(horizon, 2.0 * reward_lipschitz, 2.0 * lipschitz)[0]
    return 0.5 * SHARE * epsilon / float(need) if need > 0.0 else math.inf


@or_a_sentence
def mistakes(horizon: int, epsilon: float, escapes: float, delta: float) -> float:
    """Plans worse than optimal by more than epsilon, at most: (3), with probability 1 - delta once the models hold.

    >>> from noregret.theory import pac
    >>> # 160 ln 20; 40 * 100
    >>> [round(pac.mistakes(10, epsilon=1.0, escapes=n, delta=0.05)) for n in (0, 100)]
    [479, 4000]
    """
    return 4.0 * horizon / epsilon * max(escapes, 4.0 * math.log(1.0 / delta))


@or_a_sentence
def printed_visits(n_states: int, n_actions: int, horizon: int, epsilon: float, delta: float) -> int:
    """Visits as published: m = 128 (S ln 2 + ln(SA/delta)) H^2/epsilon^2. From memory of Modi et al. (2018).

    >>> import math
    >>> from noregret.theory import pac
    >>> # an epsilon of 1 for sums of ten rewards
    >>> pac.rmax_visits(5, 10, 1.0, log=math.log(5 * 2 / 0.05))
    795779
    >>> # of sums; of averages
    >>> [pac.printed_visits(5, 2, 10, epsilon, delta=0.05) for epsilon in (1.0, 0.1)]
    [112180, 11217989]
    """
    size = n_states * math.log(2.0) + math.log(n_states * n_actions / delta)
    return math.ceil(128.0 * size * (horizon / epsilon) ** 2)


@or_a_sentence
def printed_radius(horizon: int, epsilon: float, lipschitz: float, reward_lipschitz: float) -> float:
    """Radius as published: r0 = min(epsilon/(8 H L_p), epsilon/(8 L_r)). From memory of Modi et al. (2018).

    >>> from noregret.theory import pac
    >>> pac.printed_radius(10, 1.0, lipschitz=1.0, reward_lipschitz=0.5)
    0.0125
    >>> round(pac.cover_radius(10, 1.0, lipschitz=1.0, reward_lipschitz=0.5), 5)  # for sums
    0.00227
    """
    return min(
        epsilon / (8.0 * horizon * lipschitz) if lipschitz > 0.0 else math.inf,
        epsilon / (8.0 * reward_lipschitz) if reward_lipschitz > 0.0 else math.inf,
    )


# Linear regression that knows what it knows -------------------------------------------------------------------------
@or_a_sentence
def kwik_samples(context_dim: int, alpha: float, norm: float = 1.0) -> int:
    """How often ||x||_{Z^-1} > alpha can happen if Z starts at I and grows by x x' each time, ||x|| <= norm.

    Each time det Z grows by 1 + alpha^2 or more, and ln det Z <= d ln(1 + n norm^2/d): the largest such n.

    >>> from noregret.theory import pac
    >>> [pac.kwik_samples(context_dim=d, alpha=1.0) for d in (1, 2, 3)]  # n ln 2 <= d ln(1 + n/d)
    [1, 2, 3]
    >>> [pac.kwik_samples(context_dim=1, alpha=alpha) for alpha in (0.3, 0.1)]
    [44, 651]
    """
    alpha, norm = check.positive("alpha", alpha), check.positive("norm", norm)
    context_dim = check.integer("context_dim", context_dim)
    gain, d = math.log1p(alpha * alpha), context_dim

    def possible(n: float) -> bool:
        return n * gain <= d * math.log1p(n * norm * norm / d)

    high = 1.0
    while possible(high):
        high *= 2.0
    low = 0.0 if high == 1.0 else high / 2.0
    while high - low > 1.0:  # both are whole numbers
        middle = math.floor(0.5 * (low + high))
        if middle in (low, high):  # beyond 2^53 whole numbers are more than 1 apart
            break
        low, high = (middle, high) if possible(middle) else (low, middle)
    return int(low)


@or_a_sentence
def kwik_errors(
    alpha: float, context_dim: int, n_outcomes: int, reward_bound: float, log: float, norm: float = 1.0
) -> tuple[float, float]:
    """Errors (e_r, e_p) of ridge regression (lambda = 1) at a context with ||x||_{Z^-1} <= alpha, at any time.

        e_p = (2 (1 - 1/m) sqrt(d) + sqrt(D + 2 (m - 1) ln 2 + 2 log)) alpha
        e_r = (B_r + sqrt(D + 2 log)/2) alpha

    each with probability 1 - exp(-log); P_hat is the projection of the estimate on the simplex, m = n_outcomes. D
    bounds ln det Z: samples are taken only where ||x||_{Z^-1} > alpha. Self-normalised bounds (Abbasi-Yadkori, Pal and
    Szepesvari 2011) for the 2^(m-1) sign vectors; the projection is not a contraction in the 1-norm, so the bias, which
    need not sum to zero, counts 2 (1 - 1/m) times, and the noise, which does, once.

    >>> from noregret.theory import pac
    >>> for m in (1, 2, 5):  # a single outcome is known
    ...     errors = pac.kwik_errors(0.1, 2, n_outcomes=m, reward_bound=1.0, log=3.0)
    ...     print([round(error, 2) for error in errors])
    [0.32, 0.0]
    [0.32, 0.59]
    [0.32, 0.72]
    """
    d, m = context_dim, n_outcomes
    D = d * math.log1p((kwik_samples(d, alpha, norm) + 1) * norm * norm / d)
    reward = reward_bound + 0.5 * math.sqrt(D + 2.0 * log)
    if m == 1:
        return reward * alpha, 0.0
    bias, noise = 2.0 * (1.0 - 1.0 / m) * math.sqrt(d), math.sqrt(D + 2.0 * (m - 1) * math.log(2.0) + 2.0 * log)
    return reward * alpha, (bias + noise) * alpha


@or_a_sentence
def kwik_threshold(
    horizon: int, epsilon: float, context_dim: int, n_outcomes: int, reward_bound: float, log: float, norm: float = 1.0
) -> float:
    """The largest alpha0 (to 1 in 1000) with slack_0 <= epsilon/4.

    >>> from noregret.theory import pac
    >>> alpha = pac.kwik_threshold(5, 2.0, context_dim=2, n_outcomes=3, reward_bound=1.0, log=3.0)
    >>> errors = pac.kwik_errors(alpha, 2, n_outcomes=3, reward_bound=1.0, log=3.0)
    >>> round(alpha, 4), round(float(pac.slack(5, *errors)[0]), 3)
    (0.0088, 0.5)
    """

    def fits(alpha: float) -> bool:
        errors = kwik_errors(alpha, context_dim, n_outcomes, reward_bound, log, norm)
        return bool(slack(horizon, *errors)[0] <= SHARE * epsilon)

    low, high = 1e-9, norm
    if fits(high):
        return high
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
