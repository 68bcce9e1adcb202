"""Intervals over seeds, growth exponents, paired tests: the statistics of a report, as pure functions.

Seeds are the independent repetitions; whatever is resampled or flipped is a whole run. Every random number comes from a
fixed seed, so that the same results give the same report.
"""

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats

LEVEL = 0.95
RESAMPLES = 2000
EXACT = 14  # seeds: up to here all 2^n flips of signs are gone through
FLIPS = 20_000  # random ones beyond
PART = 10.0  # growth is read from episodes K/PART to K
FLAT, LINEAR, BEND = 0.05, 0.95, 0.15  # exponents below and above which, and changes from which, words are used


@lru_cache(maxsize=64)
def resamples(n: int) -> Floats:
    """[RESAMPLES, n]: how often each of n seeds is drawn in a resample, over n."""
    return np.random.default_rng(20200101).multinomial(n, np.full(n, 1.0 / n), RESAMPLES) / n


def tail(n: int, level: float = LEVEL) -> float:
    """The probability to cut off at each end of the bootstrap distribution of n seeds' mean.

    Phi(-sqrt(n/(n - 1)) t_{n-1}) instead of (1 - level)/2 (Hesterberg 2015, "expanded percentile"): a plain percentile
    interval is too short by the factor sqrt((n - 1)/n) and knows nothing of Student's t. With fewer than five seeds the
    interval is the range of the resampled means. Caveat: normal data are still missed in 8.3, 5.9 and 5.4% of cases
    with 5, 8 and 12 seeds instead of 5%."""
    from scipy.special import ndtr, stdtrit

    quantile = stdtrit(n - 1, 0.5 + 0.5 * level)
    return float(ndtr(-math.sqrt(n / (n - 1)) * quantile))


def spread(resampled: Floats, n: int, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Ends of the interval from resampled statistics [RESAMPLES, ...] of n seeds; nan where there is one seed.
    Resamples in which the statistic does not exist (nan) are left out; if they are one in ten, there is no interval."""
    shape = resampled.shape[1:]
    if n < 2:
        return np.full(shape, np.nan), np.full(shape, np.nan)
    cut = tail(n, level)
    if np.isfinite(resampled).all():
        low, high = np.quantile(resampled, [cut, 1.0 - cut], axis=0)
        return low, high
    enough = np.isfinite(resampled).mean(0) > 0.9
    filled = np.where(enough, resampled, 0.0)
    low, high = np.nanquantile(filled, [cut, 1.0 - cut], axis=0)
    return np.where(enough, low, np.nan), np.where(enough, high, np.nan)


def mean_interval(values: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Of the mean over seeds, values [n, ...]: bootstrap over the first axis, each entry on its own."""
    n = values.shape[0]
    flat = values.reshape(n, -1)
    low, high = spread(resamples(n) @ flat, n, level)
    return low.reshape(values.shape[1:]), high.reshape(values.shape[1:])


def slope_weights(x: Floats) -> Floats:
    """c with c'y = the slope of the least-squares line through (x, y)."""
    centred = x - x.mean()
    return np.asarray(centred / (centred @ centred))


class Exponent(NamedTuple):
    """A fitted power with its interval, and what to make of it in words; nan where there is none.

    kind    "power", "flat", "linear", "faster", "bends", "few" or "none"
    off     largest distance of a mean from the fitted line, as a share (scaling only)"""

    value: float
    low: float
    high: float
    kind: str
    words: str
    off: float = math.nan


def growth(episodes: NDArray[np.int64], curves: Floats, least: float = 1e-9) -> Exponent:
    """Slope of log(mean regret) against log(episode) over the last decade, episodes K/10 to K.

    curves [n, points], cumulative. About 24 recorded points, evenly spaced in log(episode), count equally. A mean below
    `least` a episode counts as zero regret, which has no exponent. The interval resamples seeds."""
    K = int(episodes[-1])
    inside = np.flatnonzero(episodes >= K / PART)
    at = inside[np.unique(np.searchsorted(episodes[inside], np.geomspace(episodes[inside[0]], K, 24)))]
    start, n = int(episodes[inside[0]]), curves.shape[0]
    nothing = (math.nan, math.nan, math.nan)
    mean = curves.mean(0)[at]
    if mean[-1] <= least * K:
        return Exponent(*nothing, "none", "no regret: nothing grows")
    if mean[0] <= least * K:
        return Exponent(*nothing, "none", f"no regret before episode {start:,}: no power to fit")
    if at.size < 5:
        return Exponent(*nothing, "few", "too few recorded points to fit a power")
    x = np.log(episodes[at])
    half = at.size // 2
    whole, early, late = slope_weights(x), np.zeros(at.size), np.zeros(at.size)
    early[: half + 1], late[half:] = slope_weights(x[: half + 1]), slope_weights(x[half:])
    functionals = np.stack([whole, early, late, late - early], axis=1)
    value, first, last, bend = (np.log(mean) @ functionals).tolist()
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = resamples(n) @ curves[:, at]
        made = np.log(np.where(drawn > least * K, drawn, np.nan)) @ functionals
    lows, highs = spread(made, n)
    kind, words = _reading(value, first, last, bend, (float(lows[3]), float(highs[3])), float(highs[0]))
    return Exponent(value, float(lows[0]), float(highs[0]), kind, words)


def _reading(
    value: float, first: float, last: float, bend: float, bends: tuple[float, float], high: float
) -> tuple[str, str]:
    sure = not bends[0] <= 0.0 <= bends[1]  # also where there is no interval
    if last < FLAT:
        return "flat", "flat: hardly any regret was added, so the exponent says little"
    if value > 2.0 - LINEAR:
        return "faster", "faster than linear so far: the late episodes lose more than the early ones"
    if value > LINEAR or (value > LINEAR - 0.05 and high >= 1.0):
        return "linear", "linear so far: no levelling off within this many episodes"
    if abs(bend) > BEND and sure:
        way = "still levelling off" if bend < 0.0 else "growing faster"
        return "bends", f"not a power law: slope {first:.2f} early and {last:.2f} late in this part, {way}"
    return "power", "a power law describes this part"


def scaling(sizes: Floats, finals: Sequence[Floats], paired: bool) -> Exponent:
    """Slope of log(mean final regret) against log(size), with its interval over seeds.

    sizes [m]; finals: m arrays of final regrets over seeds; paired: the i-th entries belong to one seed, and are
    resampled together. The mean is taken before the logarithm: regret bounds are about means."""
    means = np.array([f.mean() for f in finals])
    if (means <= 0.0).any() or sizes.size < 2:
        return Exponent(math.nan, math.nan, math.nan, "none", "no regret at some size: no power to fit")
    x = np.log(sizes)
    c = slope_weights(x)
    value = float(c @ np.log(means))
    fitted = np.exp(np.log(means).mean() + value * (x - x.mean()))
    n = min(f.size for f in finals)
    if paired:
        drawn = resamples(n) @ np.stack(finals, axis=1)
    else:  # a shuffled copy of the weights for every size
        order = np.random.default_rng(7)
        drawn = np.stack([order.permutation(resamples(f.size)) @ f for f in finals], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = spread(np.log(np.where(drawn > 0.0, drawn, np.nan)) @ c, n)
    off = float(np.abs(means / fitted - 1.0).max())
    words = "two sizes: a slope, no check that it is a power" if sizes.size == 2 else ""
    return Exponent(value, float(low), float(high), "few" if words else "power", words, off=off)


@lru_cache(maxsize=16)
def _signs(n: int) -> NDArray[np.float64]:
    """Rows of -1 and 1: all 2^n, or FLIPS random ones."""
    if n <= EXACT:
        return np.array(list(itertools.product((1.0, -1.0), repeat=n)))
    return np.random.default_rng(20200102).choice((-1.0, 1.0), (FLIPS, n))


def sign_flip(differences: Floats) -> Floats:
    """Two-sided p-values of paired differences [n, tests]: the share of flips of signs whose mean is as far from 0.

    Exact for up to EXACT seeds; else (1 + count)/(1 + FLIPS). Tests that the differences are symmetric around 0, as
    they are where it makes no difference which agent is which. `scipy.stats.permutation_test` gives the same, one test
    at a time."""
    n = differences.shape[0]
    signs, observed = _signs(n), np.abs(differences.sum(0))
    slack = 1e-12 * np.abs(differences).sum(0)
    count = np.zeros(differences.shape[1])
    for rows in np.array_split(signs, max(1, signs.shape[0] // 4096)):
        count += (np.abs(rows @ differences) >= observed - slack).sum(0)
    return np.asarray(count / signs.shape[0] if n <= EXACT else (1.0 + count) / (1.0 + FLIPS))


def smallest_p(n: int) -> float:
    """The least that `sign_flip` can give with n seeds."""
    return 2.0 ** (1 - n) if 1 <= n <= EXACT else 1.0 / (1 + FLIPS)


def holm(p: Floats) -> Floats:
    """Adjusted p-values of Holm (1979): the i-th smallest times (m - i + 1), never falling, at most 1."""
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    made = np.empty_like(p)
    made[order] = np.minimum(raised, 1.0)
    return made


def letters(different: NDArray[np.bool_]) -> list[str]:
    """Compact letters: two share one exactly if they are not different [m, m]. Rows are taken in the order given, so
    that letters go down the table (Piepho 2004, insert and absorb)."""
    m = different.shape[0]
    columns: list[frozenset[int]] = [frozenset(range(m))]
    for i, j in itertools.combinations(range(m), 2):
        if different[i, j]:
            split = [c - {k} for c in columns if {i, j} <= c for k in (i, j)]
            kept = [c for c in columns if not {i, j} <= c] + split
            columns = [c for c in dict.fromkeys(kept) if not any(c < other for other in kept)]
    columns.sort(key=sorted)
    names = [_name(k) for k in range(len(columns))]
    return ["".join(name for name, c in zip(names, columns, strict=True) if i in c) for i in range(m)]


def _name(k: int) -> str:
    return chr(ord("a") + k) if k < 26 else f"({k + 1})"


def binomial_upper(failures: int, trials: int, level: float = LEVEL) -> float:
    """Exact one-sided upper limit of a probability (Clopper and Pearson 1934): the p at which so few failures have
    probability 1 - level."""
    from scipy.special import betaincinv

    if trials == 0 or failures >= trials:
        return 1.0
    return float(betaincinv(failures + 1, trials - failures, level))


def recent(episodes: NDArray[Any], total: Floats, windows: int = 40) -> tuple[NDArray[Any], Floats]:
    """Growth per episode of a running total [n, points] between neighbouring points of a logarithmic grid of recorded
    points: (episodes [w], [n, w])."""
    K = episodes[-1]
    grid = np.unique(np.searchsorted(episodes, np.geomspace(min(episodes[0], K), K, windows)))
    total = np.concatenate([np.zeros((total.shape[0], 1)), total[:, grid]], axis=1)
    at = np.concatenate([[0], episodes[grid]])
    return episodes[grid], np.diff(total, axis=1) / np.diff(at)
