"""A `Conservative` as the engine sees it: two agents side by side, and an account of what their plans are worth."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...beliefs.local import LocalSets
from ...checks import Floats
from ...compiler.jit import kernel
from ...planning.margin import MarginWork, call_margin
from ...planning.optimism import SearchPar, SearchWork
from ..base import PlanBuffer, part_learn, part_plan
from ..commit import put


class ConservativePar(NamedTuple):
    plan: Any  # slots of the agent's kernels
    learn: Any
    baseline_plan: Any  # slots of the baseline's
    baseline_learn: Any
    margin: Any  # slot of `planning.margin.margin`
    search: SearchPar  # of the sets that the bounds rest on
    share: float  # 1 - alpha
    void: int  # 1: nothing is proved any more, and the baseline is played for everybody
    starts: NDArray[np.int64]  # initial states the problem allows
    agent: Any
    baseline: Any


class ConservativeState(NamedTuple):
    agent: Any
    baseline: Any
    held: NDArray[np.int64]  # [room], by episode: 1 the baseline was played, 0 the agent's plan, -1 not met
    margin: Floats  # [room], at least what the agent's plan is worth above the share of the baseline
    budget: Floats  # [room], the sum over all so far of the same for what was played

    def by_episode(self) -> tuple[str, ...]:
        return "held", "margin", "budget"

    def limits(self, problem: Any) -> dict[str, tuple[float, float]]:
        return {"held": (-1, 1)}


class ConservativeWork(NamedTuple):
    agent: Any
    baseline: Any
    plan: PlanBuffer  # the baseline's
    local: LocalSets  # what is known of the individual: the agent's own, filled when it plans
    search: SearchWork  # likewise its scratch
    margin: MarginWork
    lower: Floats  # [H+1, S], of what is played


@kernel
def conservative_plan(par, state, work, x, k, out):
    """out.policy <- the agent's, or the baseline's; out.values <- the agent's in either case.

    The account before this individual is that after the last one, so planning twice for the same one is planning
    once."""
    part_plan(par.plan, (par.agent, state.agent, work.agent, x, k, out))
    part_plan(par.baseline_plan, (par.baseline, state.baseline, work.baseline, x, k, work.plan))
    made, other = work.margin, work.plan.policy
    call_margin(par.margin, (par.search, work.local, work.search, out.policy, other, par.share, made))
    worth, credit = np.inf, np.inf  # at any initial state
    for i in range(par.starts.shape[0]):
        s = par.starts[i]
        worth = min(worth, made.least[0, s])
        credit = min(credit, (1.0 - par.share) * made.other_lower[0, s])
    before = state.budget[k - 1] if k > 0 else 0.0
    if not before + worth + credit == before + worth + credit:
        raise ValueError("a bound on a value is not a number")
    state.margin[k] = worth
    if par.void == 0 and before + worth >= 0.0:
        state.held[k], state.budget[k] = 0, before + worth
        put(made.lower, work.lower)
        return
    state.held[k], state.budget[k] = 1, before + (credit if par.void == 0 else 0.0)
    put(other, out.policy)
    put(made.other_lower, work.lower)


@kernel
def conservative_learn(par, state, work, x, k, n, path):
    """Both learn. Somebody whom nobody planned for, in a log, leaves the account as it was."""
    part_learn(par.learn, (par.agent, state.agent, work.agent, x, k, n, path))
    part_learn(par.baseline_learn, (par.baseline, state.baseline, work.baseline, x, k, n, path))
    if state.held[k] == -1 and k > 0:
        state.budget[k] = state.budget[k - 1]
