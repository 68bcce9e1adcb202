"""How many failures chance explains."""

import numpy as np
from scipy.special import bdtrc


def tail(count: int, runs: int, rate: float) -> float:
    """P(X > count) for X binomial(runs, rate)."""
    return float(bdtrc(count, runs, rate)) if count < runs else 0.0


def allowed(runs: int, rate: float, error: float = 1e-6) -> int:
    """The smallest n such that an event of probability `rate` happens in more than n of `runs` independent runs with
    probability at most `error`."""
    return int(np.argmax(bdtrc(np.arange(runs + 1), runs, rate) <= error))
