"""What posterior draws say of a plan: how far it falls short of optimal, and which action is best where.

Draw m of an individual gives a model. In it V* is the optimal value, V^pi that of the plan, which may be a lottery over
plans with a floor (the mean of their values):

    short[m, s] = V*_0(s) - V^pi_0(s),    own[m, a] = r(s, a) + P V^pi_{h+1},    best[m, a]: Q*_h(s, a) is the largest

If the truth is one more draw from the same posterior, it is at most the k-th smallest of n draws with probability
k/(n + 1) or more: `quantile_place` takes the least k for which that is LEVEL. Draws are of `agents.local.draws`, the
calibrated posterior, whatever the plans explore by. Nothing is proved.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...checks import Floats
from ...compiler.jit import inlined, kernel
from ...numerics.random import BELIEF
from ...planning.bellman import TIED_WITHIN, expectation
from .draws import apply_draw, plan_draw

LEVEL = 0.95
FEW = 39  # draws of `unsure`: the second largest is their 95% quantile
APART = 1_000_000  # numbers of draws kept for one episode: `agents.probabilities.MOST_DRAWS`


def quantile_place(draws: int) -> int:
    """k, from 1: the k-th smallest of so many draws is their quantile; `draws` must be 19 or more for 95%."""
    return math.ceil(LEVEL * (draws + 1) - 1e-9)


@inlined
def action_value(work, layout, s, a, after):
    """r + P V of one pair in the model that was drawn."""
    return work.r[0, s, a] + expectation(work.P[0], layout, s, a, after)


@inlined
def followed(par, work, policy, floor, h0, s0, own):
    """work.tail[0] <- values at step 0 of a policy [H, S], which leaves a share `floor` of its actions to chance, in
    the model that was drawn; own [A] gets what each action at (h0, s0) is worth before the policy, added up."""
    layout, V = par.layout, work.tail
    H, S = policy.shape
    V[H % 2] = 0.0
    for h in range(H - 1, -1, -1):
        now, after = V[h % 2], V[(h + 1) % 2]
        if h == h0:
            for a in range(own.shape[0]):
                if layout.available[s0, a]:
                    own[a] += action_value(work, layout, s0, a, after)
        for s in range(S):
            v = action_value(work, layout, s, policy[h, s], after)
            if floor > 0.0:
                total, n = 0.0, 0.0
                for a in range(own.shape[0]):
                    if layout.available[s, a]:
                        total += action_value(work, layout, s, a, after)
                        n += 1.0
                v = (1.0 - floor) * v + floor * total / n
            now[s] = v


class Question(NamedTuple):
    """About plans, all equally likely."""

    plans: NDArray[np.int64]  # [N, H, S]
    floor: float
    step: int  # and state: where `own` and `best` are asked about
    state: int


class Answers(NamedTuple):
    """Of n draws."""

    short: Floats  # [n, S]
    own: Floats  # [n, A]
    best: Floats  # [n, A]


@kernel
def ask_draws(par, state, work, x, k, question, answers):
    """answers <- what draws say of the plans in question, in episode k. Where several actions are best their shares of
    best[m] are equal."""
    plans, floor, h0, s0 = question.plans, question.floor, question.step, question.state
    short, own, best = answers.short, answers.own, answers.best
    N, S, A = plans.shape[0], short.shape[1], own.shape[1]
    for m in range(short.shape[0]):
        apply_draw(par.draw, (par, state, work, x, k * APART + m, BELIEF))
        plan_draw(par, work, k, work.policy, work.values)
        own[m] = 0.0
        for s in range(S):
            short[m, s] = work.values[0, s]
        for i in range(N):
            followed(par, work, plans[i], floor, h0, s0, own[m])
            for s in range(S):
                short[m, s] -= work.tail[0, s] / N
        tied = 0.0
        for a in range(A):
            own[m, a] /= N
            best[m, a] = 0.0
            if par.layout.available[s0, a]:
                q = action_value(work, par.layout, s0, a, work.values[h0 + 1])
                if q >= work.values[h0, s0] - TIED_WITHIN:
                    best[m, a] = 1.0
                    tied += 1.0
        for a in range(A):
            best[m, a] /= max(tied, 1.0)


@inlined
def two_largest(v, s, largest, second):
    """largest[s] and second[s] of the values so far, with v among them."""
    if v > largest[s]:
        largest[s], second[s] = v, largest[s]
    elif v > second[s]:
        second[s] = v


@kernel
def unsure(par, state, work, out, x, k, gap):
    """gap [S] <- the 95% quantile of the shortfall of the plan over FEW draws: a belief_kernel for `Referral`."""
    largest, second = work.tail[2], work.tail[3]
    for s in range(gap.shape[0]):
        largest[s] = second[s] = -math.inf
    for m in range(FEW):
        apply_draw(par.draw, (par, state, work, x, k * APART + m, BELIEF))
        plan_draw(par, work, k, work.policy, work.values)
        followed(par, work, out.policy, 0.0, -1, 0, gap)
        for s in range(gap.shape[0]):
            two_largest(work.values[0, s] - work.tail[0, s], s, largest, second)
    for s in range(gap.shape[0]):
        gap[s] = max(second[s], 0.0)


def room_for_draws(draws: int, S: int, A: int) -> Answers:
    return Answers(np.zeros((draws, S)), np.zeros((draws, A)), np.zeros((draws, A)))
