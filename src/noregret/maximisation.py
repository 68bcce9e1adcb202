"""temporary"""

from typing import NamedTuple

import numpy as np

from ._checks import Floats
from ._jit import kernel


class MaximisationWork(NamedTuple):
    a: Floats


def maximisation_work(M: int) -> MaximisationWork:
    return MaximisationWork(np.zeros(M))


@kernel
def largest_mean(z, V, cov, rho, n, limit, work):
    return limit
