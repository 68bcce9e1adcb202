"""A `Referral` as the engine sees it: two agents side by side, and the choice between their plans."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...checks import Floats
from ...compiler.jit import inlined, kernel
from ...compiler.slots import slot
from ..base import PlanBuffer, part_learn, part_plan

part_certificate = slot("certificate")  # (par, state, work, out, gap) of an agent
part_doubt = slot("doubt")  # (par, state, work, out, x, k, gap), of belief_kernel, too


class ReferralPar(NamedTuple):
    plan: Any  # slots of the agent's kernels
    learn: Any
    measure: Any  # certificate_kernel, doubt_kernel or belief_kernel
    expert_plan: Any  # slots of the expert's
    expert_learn: Any
    doubtful: int  # 1: measure is one of the latter
    threshold: float
    starts: NDArray[np.int64]  # initial states the problem allows
    agent: Any
    expert: Any


class ReferralState(NamedTuple):
    agent: Any
    expert: Any
    referred: NDArray[np.int64]  # [room], by episode: 1 handed over, 0 kept, -1 not met
    gap: Floats  # [room], what was compared with the threshold

    def by_episode(self) -> tuple[str, ...]:
        return "referred", "gap"

    def limits(self, problem: Any) -> dict[str, tuple[float, float]]:
        return {"referred": (-1, 1)}


class ReferralWork(NamedTuple):
    agent: Any
    expert: Any
    plan: PlanBuffer  # the expert's
    gap: Floats  # [S]


@inlined
def hand_over(plan, out):
    """out <- the policy of the expert's plan, and the lottery that it was drawn from, or its certainty; out.values
    stay."""
    H, S = out.policy.shape
    several = plan.plans.shape[0] > 0
    if out.plans.shape[0] > 0:
        out.floor[0] = plan.floor[0] if several else 0.0
    for h in range(H):
        for s in range(S):
            out.policy[h, s] = plan.policy[h, s]
            for i in range(out.plans.shape[0]):
                out.plans[i, h, s] = plan.plans[i, h, s] if several else plan.policy[h, s]


@kernel
def referral_plan(par, state, work, x, k, out):
    """out.policy <- the agent's, or the expert's; out.values <- the agent's in either case."""
    part_plan(par.plan, (par.agent, state.agent, work.agent, x, k, out))
    if par.doubtful == 1:
        part_doubt(par.measure, (par.agent, state.agent, work.agent, out, x, k, work.gap))
    else:
        part_certificate(par.measure, (par.agent, state.agent, work.agent, out, work.gap))
    part_plan(par.expert_plan, (par.expert, state.expert, work.expert, x, k, work.plan))
    largest = work.gap[par.starts[0]]
    for i in range(par.starts.shape[0]):
        gap = work.gap[par.starts[i]]
        if not gap == gap:
            raise ValueError("a certificate is not a number")
        largest = max(largest, gap)
    state.gap[k] = largest
    state.referred[k] = 0
    if largest > par.threshold:
        state.referred[k] = 1
        hand_over(work.plan, out)


@kernel
def referral_learn(par, state, work, x, k, n, path):
    part_learn(par.learn, (par.agent, state.agent, work.agent, x, k, n, path))
    part_learn(par.expert_learn, (par.expert, state.expert, work.expert, x, k, n, path))
