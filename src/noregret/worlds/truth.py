"""The truth as kernels see it: the model of one individual, exact values, luck."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..beliefs.point import NONE
from ..checks import Floats
from ..compiler.jit import inlined, merged, strict
from ..numerics.linear_algebra import pair_predictors, predictors
from ..numerics.random import LUCK, START, uniforms
from ..planning.bellman import UNCLIPPED, Model, Operator, Solution, apply_planner, evaluate, expectation
from ..planning.randomised import evaluate_chances, floored
from ..problem.layout import Layout
from ..problem.links import apply_gradient, sigmoid


class Truth(NamedTuple):
    """A world as kernels see it: parameters of its own, and room for the model of one individual."""

    gradient: Any  # slot of the link
    planner: Any  # slot of the planner
    seed: int
    layout: Layout
    weights: Floats  # [S, A, M, d]
    theta: Floats  # [S, A, d]
    logistic: int  # 1: mean rewards are sigma(theta'x)
    offset: float  # else theta'x less this; rewards, and theta, in units of their range (`problem.scale`)
    clip: int  # 1: means outside the range are moved to its ends; 0: refused
    P: Floats  # [S, A, M]
    r: Floats  # [S, A]
    Q: Floats  # [S, A], scratch
    noise: Floats  # [0, 0, 0]: none
    best: NDArray[np.int64]  # [H, S], an optimal policy
    optimal: Floats  # [H+1, S], its values
    own: Floats  # [H+1, S], values of the policy that is played
    each: Floats  # [H+1, S], of one plan of a lottery
    chances: Floats  # [H, S, A], likewise its actions'


@inlined
def individual(truth, x):
    """truth.P, truth.r <- the MDP of the individual with context x."""
    S, A = truth.r.shape
    rows = merged(truth.P)
    pair_predictors(truth.weights, x, truth.layout, truth.P)
    apply_gradient(truth.gradient, (rows, merged(truth.layout.count)))
    predictors(truth.theta, x, truth.r)
    if truth.logistic == 1:
        sigmoid(merged(truth.r))
    for s in range(S):
        for a in range(A):
            r = truth.r[s, a] - truth.offset
            if truth.clip == 0 and not (r >= -1e-9 and r <= 1.0 + 1e-9) and truth.layout.available[s, a]:
                raise ValueError("reward_weights give a mean reward outside reward_range at a context")
            truth.r[s, a] = min(max(r, 0.0), 1.0)


@inlined
def solve(truth):
    """truth.best, truth.optimal <- an optimal policy in the model of `individual`, and its values."""
    key = np.uint64(0)
    model = Model(truth.P, truth.r, truth.r, truth.noise)
    found = Solution(truth.Q, truth.best, truth.optimal)
    apply_planner(truth.planner, (truth.layout, model, Operator(NONE, UNCLIPPED, key), found))


@inlined
def behind(truth, policy, start):
    """V*(start) - V^policy(start), exactly, after `solve`; all values of the policy in truth.own."""
    evaluate(truth.P, truth.layout, truth.r, policy, truth.own)
    return truth.optimal[0, start] - truth.own[0, start]


@inlined
def behind_lottery(truth, plans, floor, start):
    """V*(start) less the value of a lottery over plans [N, H, S] with a floor, exactly, after `solve`; all values of
    the lottery, means over its plans, in truth.own."""
    (N, H, S), own, each = plans.shape, truth.own, truth.each
    own[:] = 0.0
    for i in range(N):
        floored(truth.layout, plans[i], floor, truth.chances)
        evaluate_chances(truth.P, truth.layout, truth.r, truth.chances, each)
        for h in range(H):
            for s in range(S):
                own[h, s] += each[h, s] / N
    return truth.optimal[0, start] - own[0, start]


@inlined
def shortfall(truth, policy, start):
    """`solve` and `behind`: V*(start) - V^policy(start) in the model of `individual`."""
    solve(truth)
    return behind(truth, policy, start)


@strict
def detour(truth, h, s, a):
    """V*_h(s) - Q*_h(s, a): what taking action a at step h costs somebody who goes on optimally."""
    return truth.optimal[h, s] - truth.r[s, a] - expectation(truth.P, truth.layout, s, a, truth.optimal[h + 1])


@strict
def remainder(truth, policy, h, s):
    """V*_h(s) - V^policy_h(s): what following the policy from step h on costs."""
    evaluate(truth.P, truth.layout, truth.r, policy, truth.own)
    return truth.optimal[h, s] - truth.own[h, s]


@inlined
def transition(truth, k, h, s, a, reward, after):
    """reward[0], after[0] <- what follows action a in state s at step h of episode k: the same luck for every agent.

    Rewards are Bernoulli with the pair's mean: the end points of reward_range."""
    u, v = uniforms(truth.seed, k, h, LUCK)
    n, j = truth.layout.count[s, a], 0
    total = truth.P[s, a, 0]
    while total <= u and j < n - 1:
        j += 1
        total += truth.P[s, a, j]
    after[0] = truth.layout.outcomes[s, a, j]
    reward[0] = 1.0 if v < truth.r[s, a] else 0.0


@strict
def draw_starts(seed, first, edges, out):
    """out [n] <- initial states of episodes first, first + 1, ...; edges [S] are cumulative probabilities."""
    for i in range(out.shape[0]):
        u, _ = uniforms(seed, first + i, 0, START)
        s = 0
        while edges[s] <= u and s < edges.shape[0] - 1:
            s += 1
        out[i] = s
