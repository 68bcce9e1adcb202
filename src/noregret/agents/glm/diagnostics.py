"""What the truth says about the sets of the GLM agents."""

import math

from ...compiler.jit import kernel
from ...planning.bellman import spread_of
from .. import diagnostics as column
from ..diagnostics import SLACK, watch_mistakes, watch_optimism


@kernel
def ratio(par, estimates, truth, s, a, log):
    """||W - W*||_Z^2 / gamma of one pair. In centred coordinates W* is C W*, and ||C D||_Z^2 is what ||D||_Z^2 is
    without its mean row."""
    d, n = truth.theta.shape[2], truth.layout.count[s, a]
    total = 0.0
    for b in range(d):
        for c in range(d):
            product, left, right = 0.0, 0.0, 0.0
            for j in range(n):
                u = estimates.weights[s, a, j, b] - truth.weights[s, a, j, b]
                v = estimates.weights[s, a, j, c] - truth.weights[s, a, j, c]
                product += u * v
                left += u
                right += v
            if par.centred == 1:
                product -= left * right / n
            total += estimates.gram[s, a, b, c] * product
    radius = estimates.radius[s, a] + par.log_weight[s, a] * log
    return total / radius if radius > 0.0 else math.inf


@kernel
def watch_sets(par, state, work, truth, path, out, meter):
    """For the GLM agents, with the widths of the plan just made."""
    H, tally = out.policy.shape[0], meter.tally
    S, A = truth.r.shape
    held = True
    for s in range(S):
        for a in range(A):
            if truth.layout.available[s, a]:
                v = ratio(par.transitions, state.transitions, truth, s, a, work.log[0])
                tally[column.WORST_RATIO] = max(tally[column.WORST_RATIO], v)
                error = abs(work.belief.reward[s, a] - truth.r[s, a])
                held = held and v <= 1.0 + SLACK and error <= work.belief.interval[s, a] + SLACK
    watch_optimism(truth, out, held, tally)
    tally[column.EXCESS] += out.values[0, path.states[0]]
    for h in range(H):
        s, a = path.states[h], path.actions[h]
        tally[column.TRANSITION_WIDTH] += work.belief.width[s, a]
        tally[column.REWARD_WIDTH] += work.belief.interval[s, a]
        scale, limit = spread_of(out.values[h + 1], par.belief.spread)
        bonus = min(scale * work.xi[s, a], limit) + par.scale * work.belief.interval[s, a]
        tally[column.EXCESS] -= path.rewards[h]
        tally[column.BONUSES] += min(2.0 * bonus, float(H - h))
    tally[column.STEPS] += H
    watch_mistakes(meter)
