"""The shortfall of a policy where much that is not known of mean rewards is common to all policies.

Rewards that are counted from another zero at every step order policies as before, by the same differences of values.
So they may be counted from what is least known; ranges of mean rewards then depend on the step. docs/beyond.md,
section 7.
"""

from typing import NamedTuple

from ..checks import Floats
from ..compiler.jit import kernel
from .bellman import expectation
from .optimism import bonus, highest_mean


class StepRanges(NamedTuple):
    """Ranges of mean rewards [H, S, A], which may have any sign and differ by step."""

    low: Floats
    high: Floats


class Shortfall(NamedTuple):
    """[H+1, S] each. Bounds from above: short on V* - V^pi, top on V*, upper on V^pi; from below: lower on V^pi."""

    top: Floats
    upper: Floats
    lower: Floats
    short: Floats


@kernel
def common_shortfall(par, local, work, policy, ranges, made):
    """made <- the `Shortfall` of a policy [H, S] for mean rewards in these `StepRanges`: `optimum`, `assess` and
    `shortfall` in one pass, not clipped. docs/beyond.md, section 7."""
    low, high = ranges.low, ranges.high
    top, upper, lower, short = made.top, made.upper, made.lower, made.short
    (H, S), A, ahead = policy.shape, high.shape[2], work.ahead
    top[H] = upper[H] = lower[H] = short[H] = 0.0
    for h in range(H - 1, -1, -1):
        C = short[h + 1]
        for s in range(S):
            ahead[s] = min(top[h + 1, s], upper[h + 1, s] + C[s])
        for s in range(S):
            own = policy[h, s]
            upper[h, s] = high[h, s, own] + highest_mean(par, local, s, own, upper[h + 1], work)
            mean = expectation(local.P, par.layout, s, own, lower[h + 1])
            lower[h, s] = low[h, s, own] + mean - bonus(par, local, s, own, lower[h + 1], -1.0, work)
            best = high[h, s, own] + highest_mean(par, local, s, own, top[h + 1], work)
            least = max(highest_mean(par, local, s, own, C, work), 0.0)
            for a in range(A):
                if a != own and par.layout.available[s, a]:
                    value = high[h, s, a] + highest_mean(par, local, s, a, top[h + 1], work)
                    best = max(best, value)
                    if value - lower[h, s] > least:
                        value = min(value, high[h, s, a] + highest_mean(par, local, s, a, ahead, work))
                        least = max(least, value - lower[h, s])
            top[h, s] = best
            short[h, s] = min(least, max(best - lower[h, s], 0.0))
