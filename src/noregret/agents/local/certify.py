"""Bounds for any policy of one individual: what `SetAgent.certify` does."""

from typing import Any

import numpy as np

from ...checks import Floats
from ...compiler.announcements import announced
from ...compiler.jit import direct
from ...compiler.memory import apart, room_for
from ...planning.plans import Plan
from ...problem.policies import action_chances, is_randomised
from .lottery import judge_chances
from .sets import judge_closely
from .zero import counts, from_zero, zero_work


def certified(agent: Any, x: Floats, policy: Any, *, bounds_alone: bool = False) -> Plan:
    """The plan of a policy: actions [H, S], or probabilities [H, S, A]. agent: a `SetAgent` that certifies.
    bounds_alone: whoever asks does not look at the certificate."""
    p, work = agent.problem, agent.work
    if not agent.par.close:  # room for what a shortfall asks for
        kept, loose = (room_for((p.horizon, p.n_states, p.n_actions), kind) for kind in (np.float64, np.int64))
        work = work._replace(search=work.search._replace(kept=kept, loose=loose))
    randomised, f = is_randomised(policy), np.zeros
    made = action_chances(p, policy) if randomised else p.policy(policy)
    scratch = (f(made.shape),) if randomised else ()
    x, made, *rest = apart((x, made, *scratch, f(work.values.shape)))
    args = agent.par, agent.state, work, x, agent.episode, made, *rest
    kind = judge_chances if randomised else judge_closely
    if kind not in agent._judges:
        with announced(f"the certificates of {agent.name}"):
            agent._judges[kind] = direct(kind, *args)
    agent._judges[kind](*args)
    if not (randomised or bounds_alone or agent.par.close) and counts(p, agent.par.rewards):
        _count_from_zero(agent, work, x, made)
    lower, values, upper = (p.scale.values(v) for v in (work.lower, work.upper, rest[-1]))
    gap = float(work.short[0][p.starts].max()) * p.scale.unit
    if randomised:
        return Plan(made.argmax(2), values, upper, lower, gap, p, randomised=made)
    return Plan(made, values, upper, lower, gap, p)


def _count_from_zero(agent: Any, work: Any, x: Floats, policy: Any) -> None:
    """work.short <- no more than it was; after a judge, for the same individual and policy."""
    work = work._replace(zero=apart(zero_work(agent.problem, agent.par.rewards, True)))
    args = agent.par, agent.state, work, x, policy
    if from_zero not in agent._judges:
        with announced(f"the certificates of {agent.name}"):
            agent._judges[from_zero] = direct(from_zero, *args)
    agent._judges[from_zero](*args)
