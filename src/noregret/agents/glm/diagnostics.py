"""What the truth says about the sets of the GLM agents."""

import math

from ...compiler.jit import inlined, kernel
from ...estimators.likelihood.shared import logits_of
from ...numerics.linear_algebra import cholesky
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
def logits_ratio(par, state, work, truth, s, a, log):
    """Squared distance of the true logits of the individual just planned for from the estimated ones, in the norm of
    cov^{-1}, over gamma: where weights are shared, of pair (s, a). Differences from the last outcome."""
    n, z, shape, factor = truth.layout.count[s, a], work.z, work.cov, work.pull
    m, b, v = n - 1, par.block[s, a], work.start
    logits_of(par, work, s, a, z, shape)  # relative to the last outcome already
    trace, far, last = 0.0, 0.0, math.log(truth.P[s, a, m])
    for j in range(m):
        trace += shape[j, j]
        v[j] = math.log(truth.P[s, a, j]) - last - z[j]
        far = max(far, abs(v[j]))
    if trace <= 0.0:  # nothing can be learned of this individual: the set is a point
        return 0.0 if far <= SLACK else math.inf
    cholesky(shape[:m, :m], 1e-13 * trace, factor[:m, :m])
    total = 0.0
    for j in range(m):  # forward substitution
        for k in range(j):
            v[j] -= factor[j, k] * v[k]
        v[j] /= factor[j, j]
        total += v[j] * v[j]
    radius = state.radius[b] + par.log_weight * log
    return total / radius if radius > 0.0 else math.inf


@kernel
def watch_sets(par, state, work, truth, path, out, meter):
    """For the GLM agents, with the widths of the plan just made."""
    held = True
    for s in range(truth.r.shape[0]):
        for a in range(truth.r.shape[1]):
            if truth.layout.available[s, a]:
                v = ratio(par.transitions, state.transitions, truth, s, a, work.log[0])
                held = within(work.belief, truth, s, a, v, 0.0, meter.tally) and held
    watch_plan(par, work, truth, path, out, meter, held)


@kernel
def watch_blocks(par, state, work, truth, path, out, meter):
    """The same where pairs share weights: the sets checked are those of the logits at the contexts met."""
    held = True
    for s in range(truth.r.shape[0]):
        for a in range(truth.r.shape[1]):
            if truth.layout.available[s, a]:
                far, w = 0.0, work.transitions
                v = logits_ratio(par.transitions, state.transitions, w, truth, s, a, work.log[0])
                for j in range(truth.layout.count[s, a]):
                    far += abs(truth.P[s, a, j] - work.belief.P[s, a, j])
                held = within(work.belief, truth, s, a, v, far - work.belief.width[s, a], meter.tally) and held
    watch_plan(par, work, truth, path, out, meter, held)


@inlined
def within(belief, truth, s, a, v, beyond, tally):
    """Whether a pair's sets hold: v, squared distance over radius, at most 1, beyond at most 0, and the mean reward in
    its interval."""
    tally[column.WORST_RATIO] = max(tally[column.WORST_RATIO], v)
    error = abs(belief.reward[s, a] - truth.r[s, a])
    return v <= 1.0 + SLACK and beyond <= SLACK and error <= belief.interval[s, a] + SLACK


@inlined
def watch_plan(par, work, truth, path, out, meter, held):
    H, tally = out.policy.shape[0], meter.tally
    watch_optimism(truth, out, held, tally)
    tally[column.EXCESS] += out.values[0, path.states[0]]
    for h in range(H):
        s, a = path.states[h], path.actions[h]
        tally[column.TRANSITION_WIDTH] += work.belief.width[s, a]
        tally[column.REWARD_WIDTH] += work.belief.interval[s, a]
        scale, limit = spread_of(out.values[h + 1], par.belief.spread)
        bonus = min(scale * work.xi[s, a], limit) + work.belief.bonus[s, a]
        tally[column.EXCESS] -= path.rewards[h]
        tally[column.BONUSES] += min(2.0 * bonus, float(H - h))
    tally[column.STEPS] += H
    watch_mistakes(meter)
