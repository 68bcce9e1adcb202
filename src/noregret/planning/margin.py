"""How much better one policy is than a share of another, at least: a bound that follows both through the same model.

With c the share, W = V^pi - c V^beta. The obvious bound, L^pi - c U^beta, takes one model for pi and another for beta.
Where both take the same action the rewards and next states are the same as well, and

    W_h(s) = (1 - c) r_a + P_a W_{h+1}  >=  (1 - c) low_a + P-_a W_{h+1},

P- the least mean that the set of the pair allows, P+ the largest. Where pi takes a and beta takes b, since V^pi = W + c
V^beta,

    W_h(s)  >=  low_a + P-_a max(L^pi, W + c L^beta)  -  c (high_b + P+_b min(U^beta, (U^pi - W)/c)).

The larger of this and of the obvious bound is a bound (docs/beyond.md, Theorem 14). Of one policy with itself it is (1
- c) times a lower value, so what two policies have in common costs nothing."""

from typing import NamedTuple

import numpy as np

from ..checks import Floats
from ..compiler.jit import inlined, kernel
from ..compiler.slots import slot
from .bellman import expectation
from .bonuses import EXACT
from .optimism import assess, bonus, highest_mean


class MarginWork(NamedTuple):
    """Bounds on the values of two policies, [H+1, S] each, and on the margin between them."""

    upper: Floats  # of the first
    lower: Floats
    other_upper: Floats  # of the second
    other_lower: Floats
    least: Floats  # at least V^pi - c V^beta
    below: Floats  # [S], of the next step: at most V^pi
    above: Floats  # [S], at least V^beta


def margin_work(horizon: int, n_states: int) -> MarginWork:
    f, shape = np.zeros, (horizon + 1, n_states)
    return MarginWork(f(shape), f(shape), f(shape), f(shape), f(shape), f(n_states), f(n_states))


call_margin = slot("margin")  # (search, local, search work, policy, other, share, work)


@inlined
def lowest(par, local, s, a, V, work):
    """The least mean of V [S] over the next states of a pair that its set allows."""
    return expectation(local.P, par.layout, s, a, V) - bonus(par, local, s, a, V, -1.0, work)


@kernel
def margin(par, local, work, policy, other, share, made):
    """made.least [H+1, S] <- a lower bound on the values of `policy` [H, S] less `share` in [0, 1] of those of `other`;
    the rest of `made` <- bounds on either. par, local, work as for `optimism.assess`."""
    (H, S), below, above = policy.shape, made.below, made.above
    assess(par, local, work, policy, made.upper, made.lower, EXACT)
    assess(par, local, work, other, made.other_upper, made.other_lower, EXACT)
    made.least[H] = 0.0
    for h in range(H - 1, -1, -1):
        W = made.least[h + 1]
        for s in range(S):
            below[s] = max(made.lower[h + 1, s], W[s] + share * made.other_lower[h + 1, s])
            above[s] = made.other_upper[h + 1, s]
            if share > 0.0:
                above[s] = min(above[s], (made.upper[h + 1, s] - W[s]) / share)
        for s in range(S):
            a, b = policy[h, s], other[h, s]
            least = made.lower[h, s] - share * made.other_upper[h, s]
            if a == b:
                own = (1.0 - share) * local.low[s, a] + lowest(par, local, s, a, W, work)
            else:
                own = local.low[s, a] + lowest(par, local, s, a, below, work)
                own -= share * (local.high[s, b] + highest_mean(par, local, s, b, above, work))
            made.least[h, s] = max(least, own)
