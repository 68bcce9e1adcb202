"""Importance-weighted scores, one per person, whose mean estimates a policy's mean value.

With ratios pi(a_h | s_h)/b_h of the policy's chance to the logged one, and weights w_h = product of the ratios up to
step h (w_{-1} = 1), rewards in [0, 1] and any Q that was fixed before the person came, V_h = sum_a pi(a) Q_h(s_h, a):

    PDIS    sum_h w_h r_h                                                            Precup, Sutton and Singh (2000)
    WPDIS   sum_h (sum_k w_kh r_kh)/(sum_k w_kh): every step divided by its own sum of weights, over the people
    DR      sum_h w_h r_h + w_{h-1} V_h(s_h) - w_h Q_h(s_h, a_h)                     Jiang and Li (2016)
    MDR     the same with weights by state: visits_h(s_h) pi(a_h | s_h)/b_h for w_h  Kallus and Uehara (2020)

Given the past and the context, PDIS and DR have the mean V^pi(x, s_0) exactly, if b > 0 wherever pi > 0 and b is exact.
WPDIS is biased, and consistent. [n, H] arrays throughout.
"""

import numpy as np

from ..checks import Floats


def before(weights: Floats) -> Floats:
    """[n, H]: products of ratios up to the step before, from `Target.weights`."""
    return np.concatenate([np.ones((len(weights), 1)), weights[:, :-1]], axis=1)


def per_decision(weights: Floats, rewards: Floats) -> Floats:
    """[n]: sum_h w_h r_h.

    >>> per_decision(np.array([[2.0, 4.0]]), np.array([[1.0, 0.5]]))
    array([4.])
    """
    return np.asarray((weights * rewards).sum(1))


def normalised(weights: Floats, rewards: Floats) -> tuple[float, Floats]:
    """(WPDIS, linear parts [n]): the estimate is about the mean of the linear parts, which have a standard error.

    w_h/(mean of w_h) in place of w_h; linear parts sum_h w_h (r_h - m_h)/(mean of w_h) + m_h, m_h the weighted mean
    of step h. A step whose weights are all 0 counts with weight 0.
    """
    total = weights.mean(0)
    scaled = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0.0)
    means = (scaled * rewards).mean(0)
    return float(means.sum()), np.asarray((scaled * (rewards - means) + means).sum(1))


def doubly_robust(weights: Floats, rewards: Floats, Q: Floats, V: Floats) -> Floats:
    """[n]; Q [n, H] of the logged pairs and V [n, H] of the states met, by a model that knows nothing of the person.

    >>> doubly_robust(np.array([[2.0, 4.0]]), np.array([[1.0, 0.5]]), np.zeros((1, 2)), np.zeros((1, 2)))  # PDIS
    array([4.])
    """
    return np.asarray((weights * (rewards - Q) + before(weights) * V).sum(1))


def effective(weights: Floats) -> tuple[float, float]:
    """(effective number of people, largest weight): (sum w)^2/(sum w^2) of the step where it is least; 0 if a step has
    no weight at all."""
    square = (weights**2).sum(0)
    size = np.divide(weights.sum(0) ** 2, square, out=np.zeros_like(square), where=square > 0.0)
    return float(size.min(initial=np.inf)), float(weights.max(initial=0.0))
