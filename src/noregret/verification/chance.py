"""How many failures chance explains."""

import numpy as np
from scipy.special import bdtrc


def allowed(runs: int, rate: float, error: float = 1e-6) -> int:
    """The smallest n such that an event of probability `rate` happens in more than n of `runs` independent runs with
    probability at most `error`."""
    return int(np.argmax(bdtrc(np.arange(runs + 1), runs, rate) <= error))
