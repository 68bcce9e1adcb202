"""How many failures chance explains."""

import math


def tail(count: int, runs: int, rate: float) -> float:
    """P(X > count) for X binomial(runs, rate), summed from the small end."""
    total = 0.0
    for k in range(runs, count, -1):
        log = math.lgamma(runs + 1) - math.lgamma(k + 1) - math.lgamma(runs - k + 1)
        total += math.exp(log + k * math.log(rate) + (runs - k) * math.log1p(-rate))
    return min(total, 1.0)


def allowed(runs: int, rate: float, error: float = 1e-6) -> int:
    """The smallest n such that an event of probability `rate` happens in more than n of `runs` independent runs with
    probability at most `error`."""
    low, high = -1, runs  # tail(high) <= error < tail(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(middle, runs, rate) <= error else (middle, high)
    return high
