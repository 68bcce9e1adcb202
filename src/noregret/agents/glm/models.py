"""`Agent.model` of the GLM agents: estimates, and widths where the agent's sets promise something."""

from typing import Any

import numpy as np

from ...beliefs.individual import IndividualModel, entry_widths
from ...beliefs.point import EUCLIDEAN
from ...checks import Floats
from ...compiler.announcements import announced
from ...compiler.jit import direct
from ...estimators.weights import pair_weights, reward_estimate, reward_vectors
from ...problem.problem import Problem


def glm_weights(agent: Any) -> tuple[Floats, Floats]:
    """Estimated weights: slots [S, A, M, d], and of rewards [S, A, d] in the problem's units."""
    p, par, state = agent.problem, agent.par, agent.state
    d, theta = p.context_dim, reward_estimate(par.rewards, state.rewards)
    slots = pair_weights(par.transitions, state.transitions.weights, d)
    return slots, p.scale.unit * reward_vectors(par.rewards, theta, d)


def glm_model(agent: Any, x: Floats, believe: Any) -> IndividualModel:
    """P_hat, r_hat and the widths of one individual; believe(par, state, work, x, log): a kernel."""
    p: Problem = agent.problem
    par, state, work = agent.par, agent.state, agent.work
    args = par, state, work, x, float(par.log_confidence)
    with announced(f"the model of {agent.name}"):
        direct(believe, *args)(*args)
    belief, low, unit = work.belief, p.scale.low, p.scale.unit
    P, r = p.from_slots(belief.P), low + unit * np.clip(belief.reward, 0.0, 1.0)
    sound = agent.steady and agent.uses_widths and agent.options["constants"] == "corrected"
    widths: Any = None, None
    if sound and agent.refuted is None:
        half = belief.width if par.belief.width == EUCLIDEAN else 0.5 * belief.width  # both sum to 1
        widths = entry_widths(P, half), unit * belief.interval
    slots, theta = glm_weights(agent)
    return IndividualModel(P, r, P_width=widths[0], r_width=widths[1], weights=slots, reward_weights=theta, problem=p)
