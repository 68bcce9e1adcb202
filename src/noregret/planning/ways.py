"""What is not known of all steps of a way, added up: what plans that explore hope for (`agents.local.explore`).

A way is what a plan may lead to. Of every step the error has the standard deviation c of the mean reward and b of the
expected next value. Errors of different pairs are independent: their variances add. A pair that is met again errs the
same way: its standard deviations add. From h = H, where all are 0, down, with the action that the plan takes,

    m_h(s, a) = r + P m_{h+1}
    e_h(s, a) = c + b + P e_{h+1}
    u_h(s, a) = c^2 + b^2 + P u_{h+1} + 2 (c + b) ( P e_{h+1}/S + (1 - 1/S) P(s | s, a) e_{h+1}(s) )
    Q_h(s, a) = clip( m + scale min(e, sqrt(2 u)), 0, H - h )

u is a variance if two steps have the correlation 1 where the first one stays in its state, and otherwise 1/S, the
chance that two of S states are the same. With one state u = e^2. For two steps that have nothing to do with each other
and are known equally well sqrt(2 u) = e: up to there standard deviations add whatever the pairs are, beyond it their
squares do. (The uncertainty Bellman equation, O'Donoghue, Osband, Munos and Mnih 2018, has u with correlation 0.)
"""

import math

from ..compiler.jit import inlined
from .bellman import expectations


@inlined
def begin_ways(layout, local, work):
    """work.along [3, S] <- m, u, e of step H; work.ways[3] <- the chance to stay, of all pairs."""
    along, stay, count, outcomes = work.along, work.ways[3], layout.count, layout.outcomes
    for s in range(along.shape[1]):
        along[0, s] = along[1, s] = along[2, s] = 0.0
        for a in range(stay.shape[1]):
            stay[s, a] = 0.0
            for j in range(count[s, a]):
                if outcomes[s, a, j] == s:
                    stay[s, a] = local.P[s, a, j]


@inlined
def expect_ways(layout, local, work):
    """work.ways[0], [1], [2] <- P m, P u, P e of the next step, of all pairs."""
    for i in range(3):
        expectations(local.P, layout, work.along[i], work.ways[i])


@inlined
def way_of(work, s, a, reward, c, b, scale):
    """Q of one pair, not clipped, after `expect_ways`; work.ways <- its m, u, e."""
    ways, apart = work.ways, 1.0 / work.along.shape[1]
    sum_of = ways[2, s, a]
    again = apart * sum_of + (1.0 - apart) * ways[3, s, a] * work.along[2, s]
    mean, sum_of = ways[0, s, a] + reward, sum_of + c + b
    variance = ways[1, s, a] + c * c + b * b + 2.0 * (c + b) * again
    ways[0, s, a], ways[1, s, a], ways[2, s, a] = mean, variance, sum_of
    return mean + scale * min(sum_of, math.sqrt(2.0 * variance))


@inlined
def take_ways(chosen, work):
    """work.along <- m, u, e of the actions chosen [S]."""
    for i in range(3):
        for s in range(chosen.shape[0]):
            work.along[i, s] = work.ways[i, s, chosen[s]]
