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
"""

import math
from typing import Any

from .._jit import inlined, kernel
from ..agents.base import Agent
from ..agents.glm import GLMAgent
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
    failed = below_optimal(truth, out)
    if failed:
        tally[0] += 1.0
    if not held:
        tally[1] += 1.0
    if failed and held:
        tally[2] += 1.0
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


def columns_for(agent: Any, mistakes: bool) -> list[str]:
    """The columns that mean something for this agent; mistakes: whether an epsilon was given."""
    hidden = set() if mistakes else {"mistakes"}
    if not getattr(agent, "uses_widths", False):
        hidden |= set(COLUMNS) - {"optimism_failures", "steps", "mistakes"}
    elif not getattr(agent, "optimistic", False):
        hidden |= {"justified_failures", "excess", "bonuses"}
    return [name for name in COLUMNS if name not in hidden]


def watch_for(agent: Agent) -> Any:
    """The kernel that watches this agent."""
    return watch_sets if isinstance(agent, GLMAgent) and agent.uses_widths else watch_values
