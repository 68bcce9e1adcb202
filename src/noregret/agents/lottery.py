"""A lottery: N plans and a floor, from which what is played is drawn with known chances.

Given the past, plan i has the weight w_i = 1/N before the first step, and in state s at step h action a the chance

    P(a | past) = sum_i w_i p_i(a),    p_i(a) = (1 - floor) 1{pi_i(h, s) = a} + floor/|A(s)|,

A(s) the available actions; then w_i <- w_i p_i(a)/P(a | past) (Bayes' rule). Steps whose action somebody else chose say
nothing about i and leave the weights. The chance of a whole path is the product: exact, given the plans.

What is played is one policy [H, S], drawn when the plans are made: an index i, uniform, and for every (h, s), with
chance `floor`, an available action at random instead of pi_i(h, s). A path meets no (h, s) twice, so its actions have
exactly the law above, and whoever plays a policy can play a lottery. Random numbers: purpose LOTTERY, step 0 for i and
1 + h S + s for (h, s). Plan 0 is made with the random numbers of the agent without a lottery, plan i with those of
episode k + i STREAM.

The value of a lottery is that of the whole draw, the mean over i of the value of pi_i with its floor."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats
from ..compiler.jit import kernel
from ..numerics.random import LOTTERY, uniforms
from ..problem.masks import Mask
from ..problem.problem import Problem
from .buffers import PlanBuffer
from .declared import option

STREAM = 2**48  # episodes between the random numbers of two plans
MOST_PLANS = 1024
Past = tuple[Any, Any, Any]  # states, actions and whether somebody else chose them, one each for the steps taken


@kernel
def random_action(layout, s, u):
    """The floor(u n)-th of the n available actions of state s, u in [0, 1)."""
    n = 0
    for a in range(layout.available.shape[1]):
        if layout.available[s, a]:
            n += 1
    skip, chosen = int(u * n), -1
    while skip >= 0:
        chosen += 1
        if layout.available[s, chosen]:
            skip -= 1
    return chosen


@kernel
def play(par, k, out):
    """out.policy <- drawn from out.plans with out.floor, in episode k. par has `seed` and `layout`."""
    N, H, S = out.plans.shape
    i = int(uniforms(par.seed, k, 0, LOTTERY)[0] * N)
    for h in range(H):
        for s in range(S):
            out.policy[h, s] = out.plans[i, h, s]
            if out.floor[0] > 0.0:
                u, v = uniforms(par.seed, k, 1 + h * S + s, LOTTERY)
                if u < out.floor[0]:
                    out.policy[h, s] = random_action(par.layout, s, v)


PLANS = option(
    1, check.integer, most=MOST_PLANS, doc="Plans of a lottery; more than 1: probabilities of actions are exact."
)
FLOOR = option(0.0, check.fraction, doc="The chance of an available action at random.")
NONE = {"plans": 1, "floor": 0.0}  # no lottery; left out of files and ids, which are then as before there were any


def price(problem: Problem, floor: float) -> float:
    """At most how much less a policy is worth with a floor than without, E(H - T)+ in units of reward: T the first step
    with another action than the policy's, each with chance floor (1 - 1/|A|) at most (docs/beyond.md, section 8)."""
    H, most = problem.horizon, int(problem.layout.available.sum(1).max())
    other = floor * (1.0 - 1.0 / most)
    return problem.scale.unit * sum(other * (1.0 - other) ** h * (H - h) for h in range(H))


def lottery_of(out: PlanBuffer) -> dict[str, Any]:
    """What a `Plan` says of it; nothing without a lottery."""
    return {"plans": out.plans.copy(), "floor": float(out.floor[0])} if len(out.plans) else {}


def chances_of(plans: NDArray[Any], floor: float, mask: Mask, h: int, s: int) -> Floats:
    """p_i(a), [N, A]. mask [S, A]: what is available to this person."""
    may = mask[s]
    made = np.tile(floor * may / may.sum(), (len(plans), 1))
    made[np.arange(len(plans)), plans[:, h, s]] += 1.0 - floor
    return made


def weights_of(plans: NDArray[Any], floor: float, mask: Mask, past: Past) -> Floats:
    """Weights [N] of the plans [N, H, S] after these steps; nan throughout where no plan can have taken them."""
    weights = np.full(len(plans), 1.0 / len(plans))
    for h, (s, a, other) in enumerate(zip(*past, strict=True)):
        if not other:
            weights = weights * chances_of(plans, floor, mask, h, int(s))[:, a]
            total = weights.sum()
            weights = weights / total if total > 0.0 else np.full(len(plans), np.nan)
    return weights


def step_chances(plans: NDArray[Any], floor: float, mask: Mask, past: Past, s: int) -> Floats:
    """P(a | past), [A], in state s after these steps."""
    weights = weights_of(plans, floor, mask, past)
    made: Floats = weights @ chances_of(plans, floor, mask, len(past[1]), s)
    return made
