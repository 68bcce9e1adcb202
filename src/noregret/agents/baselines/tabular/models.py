"""`Agent.model` of tabular agents: shares of what was seen in the individual's group."""

from typing import Any

import numpy as np

from ....beliefs.individual import IndividualModel, means_at
from ....checks import Floats
from ....problem.layout import uniform_rows, used_slots
from ....problem.problem import Problem


def tabular_model(agent: Any, x: Floats) -> IndividualModel:
    """Empirical means of the group of x, everywhere alike and half way up where nothing was seen. Agents that draw
    from Dirichlet and Beta posteriors have the means and standard deviations of these instead."""
    p: Problem = agent.problem
    par, state, scale = agent.par, agent.state, p.scale
    b = int(((par.centres - x) ** 2).sum(1).argmin())
    used, counts = used_slots(p.layout), state.counts[b]
    prior = par.prior if agent.samples else 0.0
    shapes = np.where(used, counts + prior, 0.0)
    total = shapes.sum(2, keepdims=True)
    rows = np.where(total > 0.0, shapes / np.maximum(total, 1e-300), uniform_rows(p.layout))
    wins, seen, least = state.reward_sums[b], state.reward_visits[b], 1.0 if agent.samples else 0.0
    mean = np.where(seen + least > 0.0, (wins + least) / np.maximum(seen + 2.0 * least, 1e-300), 0.5)
    known: Any = p.known_rewards
    r = scale.low + scale.unit * mean if known is None else means_at(p, known, x)
    more = {}
    if agent.samples:
        deviation = np.sqrt(rows * (1.0 - rows) / (total + 1.0))
        unsure = scale.unit * np.sqrt(mean * (1.0 - mean) / (seen + 3.0))
        more = {"P_deviation": p.from_slots(deviation), "r_deviation": unsure if known is None else 0.0 * unsure}
    return IndividualModel(p.from_slots(rows), r, problem=p, **more)
