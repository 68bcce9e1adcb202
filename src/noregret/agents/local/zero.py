"""Mean rewards counted from another zero at every step, for the shortfall of one policy (docs/beyond.md, section 7).

Whoever is treated for H steps gets H rewards, under any policy. So a number taken off all rewards of a step changes no
difference of values, also one that nobody knows. With a design of the rewards the number that is taken off is the
error, at one's estimate, of the mean reward along the policy: it is common to much that pairs get.

A mean reward is theta_b'X psi, b the block of the pair. Let psi_hb be the mean features of block b along the policy at
step h, in the model of the centre, and w_b(psi) at least |theta*_b'X psi - its estimate|. Then

    e_h = sum_b (theta*_b - theta_b)'X psi_hb,      |e_h| <= common_h = sum_b w_b(psi_hb)

and r(s, a) - e_h is within w_b(psi - psi_hb) + sum over other blocks c of w_c(psi_hc) of the estimate of r(s, a), and
within [low - common_h, high + common_h].
"""

from typing import Any, NamedTuple

import numpy as np

from ...checks import Floats
from ...compiler.jit import kernel
from ...compiler.memory import room_for
from ...compiler.slots import slot
from ...estimators.rewards.regression import BERNSTEIN, HOEFFDING, RIDGE
from ...estimators.rewards.shared import call_shapes, dot_of, width_along
from ...planning.from_zero import Shortfall, StepRanges, common_shortfall
from ...problem.problem import Problem


class ZeroWork(NamedTuple):
    """B blocks of rewards, Q features; empty where nothing is counted from another zero."""

    mass: Floats  # [H, S], how often the policy is where
    psi: Floats  # [H, B, Q], mean features along it
    common: Floats  # [H, B], w_b(psi_hb)
    away: Floats  # [Q]
    ranges: StepRanges
    made: Shortfall


def counts(problem: Problem, rewards: Any) -> bool:
    """Whether there is something to count from another zero: rewards have a design and are linear in it; rewards: their
    par."""
    return problem.reward_design is not None and rewards.form in (RIDGE, HOEFFDING, BERNSTEIN)


def zero_work(problem: Problem, rewards: Any, wanted: bool) -> ZeroWork:
    p, Q = problem, rewards.features.shape[-1]
    (H, S), A, B = (p.horizon if wanted else 0, p.n_states), p.n_actions, rewards.begin.shape[0]
    ranges = StepRanges(room_for((H, S, A)), room_for((H, S, A)))
    made = Shortfall(*(room_for((H + 1 if wanted else 0, S)) for _ in range(4)))
    return ZeroWork(room_for((H, S)), room_for((H, B, Q)), room_for((H, B)), np.zeros(Q), ranges, made)


@kernel
def fill_way(par, rewards, P, policy, zero):
    """zero.mass, zero.psi <- where a policy is in the model P [S, A, M], begun in any of the states that the problem
    allows, and the mean features of its pairs; par: of the agent, rewards: of the rewards."""
    layout, mass, (H, S) = par.layout, zero.mass, policy.shape
    zero.psi[:] = 0.0
    mass[:] = 0.0
    for i in range(par.starts.shape[0]):
        mass[0, par.starts[i]] = 1.0 / par.starts.shape[0]
    for h in range(H):
        for s in range(S):
            a, m = policy[h, s], mass[h, s]
            psi, mean = rewards.features[s, a], zero.psi[h, rewards.block[s, a]]
            for i in range(psi.shape[0]):
                mean[i] += m * psi[i]
            if h < H - 1:
                for j in range(layout.count[s, a]):
                    mass[h + 1, layout.outcomes[s, a, j]] += m * P[s, a, j]


@kernel
def fill_ranges(par, rewards, state, work, zero):
    """zero.ranges <- of r(s, a) - e_h; after `fill_way` and `call_shapes`. Whether none of an available pair is empty.
    state: of the rewards, work: of the agent."""
    local, layout, away, r = work.local, par.layout, zero.away, work.rewards
    H, B, Q = zero.psi.shape
    for h in range(H):
        total = 0.0
        for b in range(B):
            zero.common[h, b] = width_along(rewards, state, r, b, zero.psi[h, b])
            total += zero.common[h, b]
        for s in range(layout.available.shape[0]):
            for a in range(layout.available.shape[1]):
                b, psi = rewards.block[s, a], rewards.features[s, a]
                for i in range(Q):
                    away[i] = psi[i] - zero.psi[h, b, i]
                half = width_along(rewards, state, r, b, away) + total - zero.common[h, b]
                middle = dot_of(psi, r.t[b, 0]) - rewards.offset
                low = max(middle - half, local.low[s, a] - total)
                high = min(middle + half, local.high[s, a] + total)
                if layout.available[s, a] and not low <= high:
                    return False
                zero.ranges.low[h, s, a], zero.ranges.high[h, s, a] = low, high
    return True


@kernel
def from_zero(par, state, work, x, policy):
    """work.short [H+1, S] <- no more than it was, and no more than the `common_shortfall` of the policy. For the
    individual whose sets are in work.local."""
    rewards, zero = par.rewards, work.zero
    call_shapes(rewards.shapes, (rewards, state.rewards, work.rewards, x))
    fill_way(par, rewards, work.local.P, policy, zero)
    if fill_ranges(par, rewards, state.rewards, work, zero):
        common_shortfall(par.search, work.local, work.search, policy, zero.ranges, zero.made)
        for h in range(work.short.shape[0]):
            for s in range(work.short.shape[1]):
                work.short[h, s] = min(work.short[h, s], zero.made.short[h, s])


apply_zero = slot("zero")  # (par, state, work, x, policy)
