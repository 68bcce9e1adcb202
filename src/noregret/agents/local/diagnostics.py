"""What the truth says about the sets of one individual's logits and mean rewards."""

import math

from ...beliefs.local import covariance_of, is_shared
from ...compiler.jit import inlined, kernel
from ...numerics.linear_algebra import cholesky
from ...planning.bonuses import EXACT
from ...planning.optimism import assess
from .. import diagnostics as column
from ..diagnostics import SLACK, watch_mistakes, watch_optimism
from .sets import conceded


@inlined
def logits_ratio(local, truth, s, a, shape, factor):
    """Squared distance of the true logits from their centre, in units of rho^2, for one pair; shape and factor [M, M]
    are scratch. Differences from the last outcome, in which the ellipsoid is a proper one."""
    n, cov, rho = truth.layout.count[s, a], factor, local.rho[s, a]
    m = n - 1
    if m == 0 or rho == math.inf:
        return 0.0
    covariance_of(local, s, a, n, cov)
    last, trace = math.log(truth.P[s, a, m]) - local.z[s, a, m], 0.0
    for j in range(m):
        for k in range(m):
            shape[j, k] = cov[j, k] - cov[j, m] - cov[k, m] + cov[m, m]
        trace += shape[j, j]
    if trace <= 0.0:  # a context of length 0: the set is a point
        for j in range(m):
            if abs(math.log(truth.P[s, a, j]) - local.z[s, a, j] - last) > SLACK:
                return math.inf
        return 0.0
    cholesky(shape[:m, :m], 1e-13 * trace, factor[:m, :m])
    total = 0.0
    for j in range(m):  # forward substitution; the entries are kept in the last column of shape
        v = math.log(truth.P[s, a, j]) - local.z[s, a, j] - last
        for k in range(j):
            v -= factor[j, k] * shape[k, m]
        shape[j, m] = v / factor[j, j]
        total += shape[j, m] * shape[j, m]
    return total / (rho * rho) if rho > 0.0 else math.inf


@inlined
def watch_certified(par, work, truth, path, out, meter):
    """What `watch_local` and `watch_judge` do, for the par and work of the sets."""
    (H, S), A, local, tally = out.policy.shape, truth.r.shape[1], work.local, meter.tally
    held = True
    for s in range(S):
        for a in range(A):
            if truth.layout.available[s, a]:
                distance = 0.0
                for j in range(truth.layout.count[s, a]):
                    distance += abs(truth.P[s, a, j] - local.P[s, a, j])
                held = held and distance <= 2.0 * local.half[s, a] + SLACK
                held = held and local.low[s, a] - SLACK <= truth.r[s, a] <= local.high[s, a] + SLACK
                if par.logits == 1:
                    v = logits_ratio(local, truth, s, a, work.squares[0], work.squares[1])
                    tally[column.WORST_RATIO] = max(tally[column.WORST_RATIO], v)
                    held = held and v <= 1.0 + 1e-6
    watch_optimism(truth, out, held, tally)
    for h in range(H):
        s, a = path.states[h], path.actions[h]
        tally[column.TRANSITION_WIDTH] += 2.0 * local.half[s, a]
        tally[column.REWARD_WIDTH] += 0.5 * (local.high[s, a] - local.low[s, a])
    tally[column.STEPS] += H
    start = path.states[0]
    tally[column.EXCESS] += out.values[0, start]
    for h in range(H):
        tally[column.EXCESS] -= path.rewards[h]
    if par.certify == 1:
        certificate = conceded(par, work, out.values, 0, start)
        tally[column.CERTIFICATE] += certificate
        if certificate > meter.epsilon[0]:
            tally[column.UNCERTIFIED] += 1.0
        wrong = False
        for h in range(H):
            for s in range(S):
                own = truth.own[h, s]
                wrong = wrong or own < work.lower[h, s] - SLACK or own > work.upper[h, s] + SLACK
                wrong = wrong or truth.optimal[h, s] - own > conceded(par, work, out.values, h, s) + SLACK
        if wrong:
            tally[column.CERTIFICATE_FAILURES] += 1.0
    watch_mistakes(meter)


@kernel
def watch_local(par, state, work, truth, path, out, meter):
    """For agents that keep sets of logits."""
    glanced = work.search.rough[0] == 1 or (par.close == 0 and is_shared(work.local))
    if par.certify == 1 and glanced:  # a plan may have but glanced at upper values
        assess(par.search, work.local, work.search, out.policy, work.upper, work.lower, EXACT)
    watch_certified(par, work, truth, path, out, meter)
    refused = 0
    for i in range(1, state.gate.shape[0]):
        refused += state.gate[i]
    meter.tally[column.REFUSED] = refused
