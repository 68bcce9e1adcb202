"""What only somebody who knows the truth can see: did the sets hold, was optimism justified, how wide were the widths.

Counted per episode, at planning time, with cumulative totals in `COLUMNS` order:

    optimism_failures       some value V_h(s) of the plan lay below the optimal one
    set_failures            the true weights of some pair lay outside the confidence set, or a mean reward outside its
                            interval
    justified_failures      optimism failed although every set held (GLM-ORL only; unscaled, a proof says: never)
    transition_width        xi_p summed over the steps taken (1-norm; 2-norm for the linear link)
    reward_width            xi_r summed over the steps taken
    steps                   steps taken
    worst_ratio             largest squared distance / radius over pairs and episodes so far (not a total)
    excess                  V_0(s_0) as planned minus the return observed: what bound (i) adds up (`theory.bounds`)
    bonuses                 min(2 phi_h, H - h) over the steps taken, phi_h the whole bonus: what bound (ii) adds up
    mistakes                episodes whose policy was worse than optimal by more than epsilon (if epsilon was given)
    certificate             what the plan was certified to fall short by at most, at the initial state, summed
    certificate_failures    the policy fell short by more than its certificate, or its value lay outside its bounds, in
                            some state and step

For agents that keep sets of one individual's logits (`local_sets`), the sets checked are those, at the contexts met;
worst_ratio is the squared distance of the true logits from their centre over rho^2, and transition_width twice `half`.
"""

import math
from typing import Any

from .._jit import inlined, kernel
from .._linear_algebra import cholesky
from ..agents.base import Agent
from ..agents.certified import Certified
from ..agents.glm import GLMAgent
from ..agents.set_agent import SetAgent
from ..local_sets import unpack
from ..planning import spread_of

COLUMNS = (
    "optimism_failures",
    "set_failures",
    "justified_failures",
    "transition_width",
    "reward_width",
    "steps",
    "worst_ratio",
    "excess",
    "bonuses",
    "mistakes",
    "certificate",
    "certificate_failures",
)
_SLACK = 1e-9


@kernel
def below_optimal(truth, out):
    """Whether a planned value lies below the optimal one somewhere."""
    H, S = out.policy.shape
    for h in range(H):
        for s in range(S):
            if out.values[h, s] < truth.optimal[h, s] - _SLACK:
                return True
    return False


@inlined
def watch_optimism(truth, out, held, tally):
    """Whether the values are below optimal ones, whether the sets held, and the first although the second."""
    failed = below_optimal(truth, out)
    if failed:
        tally[0] += 1.0
    if not held:
        tally[1] += 1.0
    if failed and held:
        tally[2] += 1.0


@inlined
def watch_mistakes(meter):
    if meter.gap[0] > meter.epsilon[0]:
        meter.tally[9] += 1.0


@kernel
def watch_values(par, state, work, truth, path, out, meter):
    """For agents without confidence sets of their own."""
    if below_optimal(truth, out):
        meter.tally[0] += 1.0
    meter.tally[5] += out.policy.shape[0]
    watch_mistakes(meter)


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
                tally[6] = max(tally[6], v)
                error = abs(work.belief.reward[s, a] - truth.r[s, a])
                held = held and v <= 1.0 + _SLACK and error <= work.belief.interval[s, a] + _SLACK
    watch_optimism(truth, out, held, tally)
    tally[7] += out.values[0, path.states[0]]
    for h in range(H):
        s, a = path.states[h], path.actions[h]
        tally[3] += work.belief.width[s, a]
        tally[4] += work.belief.interval[s, a]
        scale, limit = spread_of(out.values[h + 1], par.belief.spread)
        bonus = min(scale * work.xi[s, a], limit) + par.scale * work.belief.interval[s, a]
        tally[7] -= path.rewards[h]
        tally[8] += min(2.0 * bonus, float(H - h))
    tally[5] += H
    watch_mistakes(meter)


@inlined
def logits_ratio(local, truth, s, a, shape, factor):
    """Squared distance of the true logits from their centre, in units of rho^2, for one pair; shape and factor [M, M]
    are scratch. Differences from the last outcome, in which the ellipsoid is a proper one."""
    n, cov, rho = truth.layout.count[s, a], local.cov[s, a], local.rho[s, a]
    m = n - 1
    if m == 0 or rho == math.inf:
        return 0.0
    last, trace = math.log(truth.P[s, a, m]) - local.z[s, a, m], 0.0
    for j in range(m):
        for k in range(m):
            shape[j, k] = cov[j, k] - cov[j, m] - cov[k, m] + cov[m, m]
        trace += shape[j, j]
    if trace <= 0.0:  # a context of length 0: the set is a point
        for j in range(m):
            if abs(math.log(truth.P[s, a, j]) - local.z[s, a, j] - last) > _SLACK:
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
    unpack(local, truth.layout)
    for s in range(S):
        for a in range(A):
            if truth.layout.available[s, a]:
                distance = 0.0
                for j in range(truth.layout.count[s, a]):
                    distance += abs(truth.P[s, a, j] - local.P[s, a, j])
                held = held and distance <= 2.0 * local.half[s, a] + _SLACK
                held = held and local.low[s, a] - _SLACK <= truth.r[s, a] <= local.high[s, a] + _SLACK
                if par.logits == 1:
                    v = logits_ratio(local, truth, s, a, work.squares[0], work.squares[1])
                    tally[6] = max(tally[6], v)
                    held = held and v <= 1.0 + 1e-6
    watch_optimism(truth, out, held, tally)
    for h in range(H):
        s, a = path.states[h], path.actions[h]
        tally[3] += 2.0 * local.half[s, a]
        tally[4] += 0.5 * (local.high[s, a] - local.low[s, a])
    tally[5] += H
    start = path.states[0]
    tally[7] += out.values[0, start]
    for h in range(H):
        tally[7] -= path.rewards[h]
    if par.certify == 1:
        tally[10] += out.values[0, start] - work.lower[0, start]
        wrong = False
        for h in range(H):
            for s in range(S):
                own = truth.own[h, s]
                wrong = wrong or own < work.lower[h, s] - _SLACK or own > work.upper[h, s] + _SLACK
                wrong = wrong or truth.optimal[h, s] - own > out.values[h, s] - work.lower[h, s] + _SLACK
        if wrong:
            tally[11] += 1.0
    watch_mistakes(meter)


@kernel
def watch_local(par, state, work, truth, path, out, meter):
    """For agents that keep sets of logits."""
    watch_certified(par, work, truth, path, out, meter)


@kernel
def watch_judge(par, state, work, truth, path, out, meter):
    """For `Certified` agents."""
    watch_certified(par.judge, work.judge, truth, path, out, meter)


_WIDTHS = {"set_failures", "transition_width", "reward_width", "worst_ratio"}


def columns_for(agent: Any, mistakes: bool) -> list[str]:
    """The columns that mean something for this agent; mistakes: whether an epsilon was given."""
    shown = {"optimism_failures", "steps"} | ({"mistakes"} if mistakes else set())
    kept = getattr(agent, "judge", agent)
    if isinstance(kept, SetAgent) and kept.uses_sets:
        shown |= _WIDTHS | {"justified_failures", "excess"}
        shown |= {"certificate", "certificate_failures"} if kept.certifies else set()
    elif getattr(agent, "uses_widths", False):
        shown |= _WIDTHS
        shown |= {"justified_failures", "excess", "bonuses"} if getattr(agent, "optimistic", False) else set()
    return [name for name in COLUMNS if name in shown]


def watch_for(agent: Agent) -> Any:
    """The kernel that watches this agent."""
    if isinstance(agent, Certified):
        return watch_judge
    if isinstance(agent, SetAgent) and agent.uses_sets:
        return watch_local
    return watch_sets if isinstance(agent, GLMAgent) and agent.uses_widths else watch_values
