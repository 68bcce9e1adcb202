"""Several draws of one agent, and bounds for what is drawn from them (`agents.lottery`)."""

import math

import numpy as np

from ...compiler.jit import inlined, kernel
from ...compiler.slots import slot
from ...numerics.random import BELIEF, DOUBT, POSTERIOR, tie_key
from ...planning.bellman import TIED_WITHIN, Solution
from ...planning.optimism import optimum
from ...planning.randomised import bound_randomised, floored, shortfall_randomised
from ...problem.problem import Problem
from ..lottery import STREAM, play
from .belief import APART, FEW, followed, two_largest
from .draws import DRAWS, apply_draw, apply_several, plan_draw
from .explore import prepare, venture
from .sets import LotteryWork, apply_describe


def lottery_work(problem: Problem, plans: int) -> LotteryWork:
    """Scratch; none without a lottery."""
    H, S, A, f = problem.horizon, problem.n_states, problem.n_actions, np.zeros
    H, S = (H, S) if plans else (0, 0)
    rows = H + 1 if plans else 0
    return LotteryWork(f((H, S, A)), f((H, S, A)), f((rows, S)), f((rows, S)), f((rows, S)))


apply_proposals = slot("proposals")  # (par, state, work, x, k, out)


@inlined
def add(out, n, total):
    """total += out/n, [H+1, S]."""
    for h in range(total.shape[0]):
        for s in range(total.shape[1]):
            total[h, s] += out[h, s] / n


@kernel
def explore_several(par, state, work, x, k, out):
    """out.plans <- plans of episode k that explore, each with a number z of its own; out.values <- their mean."""
    phi = prepare(par, state, work, x)
    out.values[:] = 0.0
    for i in range(out.plans.shape[0]):
        venture(par, work, phi, k, k + i * STREAM, out.plans[i], work.values)
        add(work.values, out.plans.shape[0], out.values)


@kernel
def draw_several(par, state, work, x, k, out):
    """The same with plans for models drawn from the posterior."""
    out.values[:] = 0.0
    for i in range(out.plans.shape[0]):
        draw = k + i * STREAM
        apply_draw(par.draw, (par, state, work, x, draw, POSTERIOR))
        if work.P.shape[0] == 1:
            plan_draw(par, work, draw, out.plans[i], work.values)
        else:
            found, key = Solution(work.Q, out.plans[i], work.values), tie_key(par.seed, draw)
            apply_several(par.several, (par.layout, par.best_draw, work.P, work.r, key, draw, found))
        add(work.values, out.plans.shape[0], out.values)


@kernel
def plan_lottery(par, state, work, x, k, out):
    """The plan_kernel of `PSRLGLM` with several plans or a floor."""
    apply_proposals(par.proposals, (par, state, work, x, k, out))
    out.floor[0] = par.floor
    play(par, k, out)


@kernel
def assess_lottery(par, work, out):
    """work.upper, lower [H+1, S] <- bounds on the value of the lottery in `out`, the means of those of its plans with
    their floor; work.short <- on its shortfall, likewise, where plans are certified so. After `optimum` with the
    individual's sets, whose values are out.values."""
    n, own = out.plans.shape[0], work.lottery
    work.search.rough[0] = 0
    work.upper[:] = 0.0
    work.lower[:] = 0.0
    work.short[:] = 0.0
    for i in range(n):
        floored(par.layout, out.plans[i], out.floor[0], own.chances)
        bound_randomised(par.search, work.local, work.search, own.chances, own.each, own.upper, own.lower)
        add(own.upper, n, work.upper)
        add(own.lower, n, work.lower)
        if par.close == 1:
            values = own.each, out.values, own.upper, own.lower
            shortfall_randomised(par.search, work.local, work.search, own.chances, values, own.short)
            add(own.short, n, work.short)


@kernel
def judge_lottery(par, state, work, x, k, out):
    """`sets.judge` for a lottery: out.values <- optimistic values; bounds in `work`. The rest of out stays as it is."""
    apply_describe(par.describe, (par, state, work, x, 0))
    optimum(par.search, work.local, work.search, work.mean, k, 1.0, work.policy, out.values)
    assess_lottery(par, work, out)


@kernel
def judge_chances(par, state, work, x, k, chances, each, values):
    """values, work.upper, lower, short <- optimistic values, and bounds for a randomised policy [H, S, A]."""
    apply_describe(par.describe, (par, state, work, x, 0))
    optimum(par.search, work.local, work.search, work.mean, k, 1.0, work.policy, values)
    bound_randomised(par.search, work.local, work.search, chances, each, work.upper, work.lower)
    known = each, values, work.upper, work.lower
    shortfall_randomised(par.search, work.local, work.search, chances, known, work.short)


@kernel
def doubt_lottery(par, state, work, out, x, k, gap):
    """A doubt_kernel: gap [S] <- the mean over DRAWS models, and over the draw from the lottery, of how often the first
    action is not an optimal one. It does not look at what was drawn: who is referred must not depend on it."""
    n = out.plans.shape[0]
    gap[:] = 0.0
    for m in range(DRAWS):
        apply_draw(par.draw, (par, state, work, x, k * DRAWS + m, DOUBT))
        plan_draw(par, work, k, work.policy, work.values)
        for i in range(n):
            floored(par.layout, out.plans[i], out.floor[0], work.lottery.chances)
            for s in range(gap.shape[0]):
                for a in range(work.Q.shape[1]):
                    if work.lottery.chances[0, s, a] > 0.0 and work.Q[s, a] < work.values[0, s] - TIED_WITHIN:
                        gap[s] += work.lottery.chances[0, s, a] / (n * DRAWS)


@kernel
def unsure_lottery(par, state, work, out, x, k, gap):
    """A belief_kernel: `belief.unsure` for the value of the lottery."""
    largest, second, n = work.tail[2], work.tail[3], out.plans.shape[0]
    for s in range(gap.shape[0]):
        largest[s] = second[s] = -math.inf
    for m in range(FEW):
        apply_draw(par.draw, (par, state, work, x, k * APART + m, BELIEF))
        plan_draw(par, work, k, work.policy, work.values)
        for i in range(n):
            followed(par, work, out.plans[i], out.floor[0], -1, 0, work.Q[0])
            for s in range(gap.shape[0]):
                work.values[0, s] -= work.tail[0, s] / n
        for s in range(gap.shape[0]):
            two_largest(work.values[0, s], s, largest, second)
    for s in range(gap.shape[0]):
        gap[s] = max(second[s], 0.0)
