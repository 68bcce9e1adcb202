"""The terms of a bonus put together (`planning.optimism` has the formula), and what both planners over sets share."""

import math

from ..compiler.jit import inlined, kernel, merged
from ..compiler.slots import slot

EXACT, GLANCE, UPPER_AGAIN = 0, 1, 2  # how upper values of a policy are made: `optimism.assess`

call_rows = slot("rows of a pair")  # `beliefs.local.make_rows` or `make_root`: (local, i, n)
call_first = slot("first-order terms")  # `shared.first_of`: (par, local, V, n, work)
call_perturb = slot("perturb")  # (seed, count, k, h, factor)


@inlined
def low_and_high(V):
    low, high = V[0], V[0]
    for s in range(1, V.shape[0]):
        low, high = min(low, V[s]), max(high, V[s])
    return low, high


@inlined
def least_term(second, half, rho, first, mean, low, high):
    """The minimum of the three terms of a bonus, for values between low and high with the given mean."""
    most = min((high - low) * half, high - mean)
    taylor = first + (high - low) * second
    return max(min(most, taylor if rho < math.inf else math.inf), 0.0)


@inlined
def least_of(local, s, a, first, mean, low, high):
    """The same for one pair."""
    return least_term(local.second[s, a], local.half[s, a], local.rho[s, a], first, mean, low, high)


@kernel
def first_matters(par, local, work):
    """Whether a first-order term can decide the bonus of any pair. Where second >= half it cannot, not being negative:
    so for all pairs as long as their sets are wide. Then work.first <- 0. Perturbed, it may be negative."""
    if par.perturbations > 0.0:
        return True
    second, half, first, wide = merged(local.second), merged(local.half), merged(work.first), 0
    for i in range(first.shape[0]):
        wide += 1 if second[i] >= half[i] else 0
    if wide < first.shape[0]:
        return True
    for i in range(first.shape[0]):
        first[i] = 0.0
    return False
