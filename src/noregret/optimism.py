"""Planning over sets of models: how much better or worse than its estimate an expectation can be, and what follows.

For one pair and next values V, over the ellipsoid of logits of `local_sets`,

    <P*, V> - <P, V>  <=  bonus(V) = min( rho sqrt(g' cov g) + span(V) second,  span(V) half,  max V - <P, V> )

g = P * (V - <P, V>), span(V) = max V - min V over the pair's possible next states; the first term is Bernstein-shaped
(its square is about the variance of V over the number of samples), the second is what the curvature of the softmax
adds. Downwards the same with -V. Under SHARP bonuses the minimum includes the certified maximum over the ellipsoid
(`maximisation`). docs/beyond.md has the proofs.

Three passes of the Bellman operator use it, all clipped to [0, H - h], with mean rewards at the end that suits:

    upwards over all actions (`planning.backward_induction_with` and `add_bonus`): at least the optimal values
    upwards and downwards along a given policy (`bound_policy`): its own values lie between
"""

import math
from typing import NamedTuple

import numpy as np

from ._checks import Floats
from ._jit import inlined, kernel
from .maximisation import MaximisationWork, largest_mean, maximisation_work

TAYLOR, SHARP = 0, 1


class PassWork(NamedTuple):
    v: Floats  # [M], next values of one pair, signed
    g: Floats  # [M]
    search: MaximisationWork


def pass_work(M: int) -> PassWork:
    return PassWork(np.zeros(M), np.zeros(M), maximisation_work(M))


@inlined
def gather(local, layout, s, a, V, sign, work):
    """work.v [n] <- sign V at the pair's next states; its mean, smallest and largest entry."""
    mean, low, high = 0.0, math.inf, -math.inf
    for j in range(layout.count[s, a]):
        v = sign * V[layout.outcomes[s, a, j]]
        work.v[j] = v
        mean += local.P[s, a, j] * v
        low, high = min(low, v), max(high, v)
    return mean, low, high


@inlined
def first_order(local, layout, s, a, mean, work):
    """sqrt(g' cov g) for the values in work.v."""
    n, p, cov, v, g = layout.count[s, a], local.P[s, a], local.cov[s, a], work.v, work.g
    form = 0.0
    for j in range(n):
        g[j] = p[j] * (v[j] - mean)
    for j in range(n):
        t = 0.0
        for k in range(n):
            t += cov[j, k] * g[k]
        form += g[j] * t
    return math.sqrt(max(form, 0.0))


@kernel
def bonus(local, layout, kind, s, a, V, sign, work):
    """Bound on sign <P* - P, V> for one pair; sign 1.0: how much larger the mean can be, -1.0: how much smaller."""
    mean, low, high = gather(local, layout, s, a, V, sign, work)
    span, rho = high - low, local.rho[s, a]
    if span <= 0.0:
        return 0.0
    most = min(span * local.half[s, a], high - mean)
    if rho < math.inf:
        most = min(most, rho * first_order(local, layout, s, a, mean, work) + span * local.second[s, a])
        if kind == SHARP:
            n = layout.count[s, a]
            best = largest_mean(local.z[s, a], work.v, local.cov[s, a], rho, n, mean + most, work.search)
            most = min(most, best - mean)
    return max(most, 0.0)


@kernel
def random_bonus(local, layout, s, a, V, factor, work):
    """`bonus` upwards with its first-order term times `factor`, which is random; never negative."""
    mean, low, high = gather(local, layout, s, a, V, 1.0, work)
    span, rho = high - low, local.rho[s, a]
    if span <= 0.0:
        return 0.0
    most = min(span * local.half[s, a], high - mean)
    if rho < math.inf:
        most = min(most, rho * factor * first_order(local, layout, s, a, mean, work) + span * local.second[s, a])
    return max(most, 0.0)


@kernel
def add_bonus(local, layout, kind, scale, V, Q, work):
    """Q [S, A] += scale * bonus(V) of every available pair."""
    for s in range(Q.shape[0]):
        for a in range(Q.shape[1]):
            if layout.available[s, a]:
                Q[s, a] += scale * bonus(local, layout, kind, s, a, V, 1.0, work)


@kernel
def bound_policy(local, layout, kind, policy, upper, lower, work):
    """upper, lower [H+1, S] <- bounds on the values of a policy [H, S]."""
    H, S = policy.shape
    for s in range(S):
        upper[H, s] = 0.0
        lower[H, s] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            a = policy[h, s]
            up, down = local.high[s, a], local.low[s, a]
            for j in range(layout.count[s, a]):
                t = layout.outcomes[s, a, j]
                up += local.P[s, a, j] * upper[h + 1, t]
                down += local.P[s, a, j] * lower[h + 1, t]
            up += bonus(local, layout, kind, s, a, upper[h + 1], 1.0, work)
            down -= bonus(local, layout, kind, s, a, lower[h + 1], -1.0, work)
            upper[h, s] = min(max(up, 0.0), float(H - h))
            lower[h, s] = min(max(down, 0.0), float(H - h))
