"""Intervals from the central limit theorem: one look at a time fixed beforehand, or as many as one likes.

Scores are values known beforehand plus a martingale: Z_k = g_k + e_k, E[e_k | past] = v_k - g_k, small or constant.
With V = sum_k (e_k - mean)^2 and q the quantile of Student's t (below),

    once       mean +- q sqrt(V)/n                                                   Wald; false at a second look
    repeated   mean +- sqrt((V + t) (ln(1 + V/t) + 2 ln(1/delta)))/n                 at all times together

The second is Robbins' normal mixture for a Brownian motion at the clock V (Waudby-Smith, Arbour, Sinha, Kennedy and
Ramdas 2024, after Robbins 1970); the clock may be random, so a logger that learns is allowed. t is fixed beforehand, so
that it is narrowest near TUNED people: the scale is taken from the first FIRST of them.

A Wald interval needs the variance to settle. Where the logger learned it may not, and the scores are weighted by
predictable h_k = 1/(standard deviation of recent e), so that every person has about the same variance (Bibaut et al.
2021; Zhan et al. 2021):

    mean of g + (sum h_k e_k)/(sum h_k) +- q sqrt(sum h_k^2 (e_k - mean)^2)/(sum h_k)

Weights have heavy tails, so V itself is uncertain: q has as many degrees of freedom as its variance says
(Satterthwaite; `freedom`). The sequence has no need of it: if e and -e are equally likely, exp(l sum e - l^2 sum e^2/2)
is a supermartingale for every l, whatever the tails (de la Pena 1999), and its boundary is made of nothing else.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from ..checks import Floats

FIRST, TUNED = 50, 1000  # people
RECENT, PRIOR = 200, 50  # people whose e say how large the next is, and how many the prior counts for


class Found(NamedTuple):
    """An estimate and half the width of its interval, rewards in [0, 1]; inf where there are too few people."""

    estimate: float
    half: float


def freedom(*groups: Floats) -> float:
    """Degrees of freedom of the sum of squares of terms d, independent ones with mean 0, in groups that are alike:
    2 V^2/Var V with V = sum d^2 and Var V = sum over groups of sum d^4 - (sum d^2)^2/n (Satterthwaite 1946). n for n
    normal terms, about 2 m where m of many people have all of it.

    >>> round(freedom(np.random.default_rng(0).normal(size=10_000)), -3)
    10000.0
    >>> round(freedom(np.concatenate([np.tile([-1.0, 1.0], 5), np.zeros(990)])), 1)
    20.2
    """
    total, variance, most = 0.0, 0.0, 0
    for terms in groups:
        square = terms**2
        total += float(square.sum())
        variance += float((square**2).sum()) - float(square.sum()) ** 2 / max(len(terms), 1)
        most += len(terms)
    if total <= 0.0:
        return float(most)
    return min(max(2.0 / max(variance / total**2, 1e-12), 2.0), float(most))


def student(delta: float, degrees: float) -> float:
    """How many standard errors Wald's interval has on either side.

    >>> round(student(0.05, 10.0), 2), round(student(0.05, 1e6), 2)
    (2.23, 1.96)
    """
    return float(stdtrit(degrees, 1.0 - 0.5 * delta))


def repeated(guess: Floats, rest: Floats, delta: float) -> Found:
    """The asymptotic confidence sequence for the running mean of guess + rest, after all of these n people.

    >>> e = np.tile([-1.0, 1.0], 500)
    >>> round(repeated(np.zeros(1000), e, 0.05).half, 3), round(wald(np.zeros(1000), e, 0.05).half, 3)
    (0.096, 0.062)
    """
    n, middle = len(rest), float(guess.mean() + rest.mean())
    if n < FIRST:
        return Found(middle, math.inf)
    first, log = float(rest[:FIRST].var()), 2.0 * math.log(1.0 / delta)
    first = first if first > 0.0 else float(rest.var())
    if first == 0.0:
        return Found(middle, math.inf)
    V, t = n * float(rest.var()), TUNED * first / (log + math.log(1.0 + log))
    return Found(middle, math.sqrt((V + t) * (math.log(1.0 + V / t) + log)) / n)


def wald(guess: Floats, rest: Floats, delta: float) -> Found:
    """For one look at the log of a fixed rule."""
    n, moved = len(rest), float(rest.mean())
    half = _spread(rest - moved, delta) / n if n >= FIRST else math.inf
    return Found(float(guess.mean()) + moved, half)


def _spread(terms: Floats, delta: float) -> float:
    """q times the root of the sum of squares."""
    return student(delta, freedom(terms)) * math.sqrt(float((terms**2).sum()))


def recent_scale(rest: Floats, prior: float) -> Floats:
    """[n]: from the people before, how large |e| will be; prior: of the first."""
    k = np.arange(len(rest))
    first = np.maximum(k - RECENT, 0)
    sums = np.concatenate([[0.0], np.cumsum(rest**2)])
    return np.asarray(np.sqrt((PRIOR * prior**2 + sums[k] - sums[first]) / (PRIOR + k - first)))


def stabilised(guess: Floats, rest: Floats, prior: float, delta: float) -> Found:
    """For one look at the log of somebody who learned."""
    n = len(rest)
    h = 1.0 / recent_scale(rest, prior)
    moved = float((h * rest).sum() / h.sum())
    half = _spread(h * (rest - moved), delta) / float(h.sum()) if n >= FIRST else math.inf
    return Found(float(guess.mean()) + moved, half)
