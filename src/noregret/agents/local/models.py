"""`Agent.model` of agents with local sets: the posterior where there is one, and widths where there are sets.

The posterior of a pair's logits is normal with covariance cov (`agents.local.explore`). To first order p = softmax(z)
then has the standard deviations

    sd(p_j) = p_j sqrt( (e_j - p)' cov (e_j - p) ),

cut to sqrt(p_j (1 - p_j)), which no distribution on [0, 1] with that mean exceeds. The sets say |<P* - P, V>| <= half
span(V) of every V, with an indicator of a next state for V: no entry is farther off than half.
"""

from typing import Any

import numpy as np

from ...beliefs.individual import IndividualModel, entry_widths, means_at
from ...beliefs.local import LocalSets
from ...checks import Floats
from ...compiler.announcements import announced
from ...compiler.jit import direct, kernel
from ...compiler.slots import EMPTY
from ...estimators.weights import drawn_logits, drawn_rewards, pair_weights, reward_estimate, reward_vectors
from ...problem.problem import Problem
from .explore import apply_believe, with_belief
from .sets import apply_describe, reward_means


@kernel
def posterior_now(par, state, work, x):
    """work.local, mean and deviation <- the posterior of the individual with context x."""
    apply_believe(par.believe, (par, state, work, x))
    reward_means(par, state, work, x)


@kernel
def sets_now(par, state, work, x):
    """work.local <- the sets of the individual with context x."""
    apply_describe(par.describe, (par, state, work, x, 0))


def logit_deviations(local: LocalSets) -> Floats:
    """[S, A, M], as above."""
    p = local.P
    if local.columns.shape[2] > 0:
        root = np.einsum("sakq,sakm->saqm", local.factor[local.block], local.columns)
        away = root - np.einsum("saqm,sam->saq", root, p)[..., None]
        squares = np.einsum("saqm,saqm->sam", away, away)
    else:
        c = np.einsum("sajk,sak->saj", local.cov, p)
        squares = np.einsum("sajj->saj", local.cov) - 2.0 * c + np.einsum("saj,saj->sa", c, p)[..., None]
    made = p * np.sqrt(np.maximum(squares, 0.0))
    return np.asarray(np.minimum(made, np.sqrt(np.maximum(p * (1.0 - p), 0.0))))


def local_weights(agent: Any) -> tuple[Floats, Floats]:
    """Estimated weights: slots [S, A, M, d], and of rewards [S, A, d] in the problem's units. The posterior's where
    there is one, else the centres of the sets."""
    p: Problem = agent.problem
    par, state, d = agent.par, agent.state, p.context_dim
    if agent.draws_models and par.logits == 1:
        slots = pair_weights(par.sampler, state.sampler.weights, d)
    else:
        kept, of = state.transitions, par.transitions
        slots = pair_weights(getattr(of, "shared", of), kept.centre if hasattr(kept, "centre") else kept.weights, d)
    rewards = (par.means, state.means) if par.estimates == 1 else (par.rewards, state.rewards)
    return slots, p.scale.unit * reward_vectors(rewards[0], reward_estimate(*rewards), d)


def drawn_weights(agent: Any, number: int) -> tuple[Floats, Floats]:
    """Such weights from the posterior, as `agents.local.draws` has it for one individual: theta ~ N(theta, scale^2
    Lambda^{-1}), rewards likewise with the noise of the estimate. Rewards are not conditioned on being in their range;
    `World` clips them. A function of (seed, episode, number)."""
    if not agent.draws_models or agent.par.logits == 0:
        raise ValueError(f"draw must be None: {agent.label} keeps no posterior of weights to draw from")
    p, par, state = agent.problem, agent.par, agent.state
    g = np.random.default_rng([agent.seed, agent.episode, number])
    d, scale = p.context_dim, agent.posterior_scale
    slots = pair_weights(par.sampler, drawn_logits(state.sampler, scale, g), d)
    theta = reward_estimate(par.means, state.means) + scale * drawn_rewards(par.means, state.means, g)
    return slots, p.scale.unit * reward_vectors(par.means, theta, d)


def local_model(agent: Any, x: Floats) -> IndividualModel:
    """P, r, their posterior deviations and their widths, for one individual."""
    p: Problem = agent.problem
    slots, theta = local_weights(agent)
    low, unit, more = p.scale.low, p.scale.unit, {}
    P = r = None
    if agent.draws_models:
        if agent.par.believe == EMPTY:
            with announced(f"the posterior of {agent.name}"):
                agent.par = with_belief(p, agent.par, agent.state, agent.work)
        _run(agent, posterior_now, x)
        work, scale = agent.work, agent.posterior_scale
        P, r = p.from_slots(work.local.P), low + unit * work.mean
        more = {"P_deviation": scale * p.from_slots(logit_deviations(work.local)), "r_deviation": unit * work.deviation}
        more["r_deviation"] = scale * more["r_deviation"]
    if agent.uses_sets and agent.par.describe != EMPTY:
        _run(agent, sets_now, x)
        local = agent.work.local
        centre, ends = p.from_slots(local.P), (low + unit * local.low, low + unit * local.high)
        if P is None or r is None:
            P, r, away = centre, np.clip(means_at(p, theta, x), *ends), 0.0
        else:
            away = np.abs(P - centre)
        if agent.refuted is None:
            width = entry_widths(centre, local.half) + away
            more |= {
                "P_width": np.minimum(width, np.maximum(P, 1.0 - P)),
                "r_width": np.maximum(ends[1] - r, r - ends[0]),
            }
    assert P is not None
    assert r is not None
    return IndividualModel(P, r, weights=slots, reward_weights=theta, problem=p, **more)


def _run(agent: Any, function: Any, x: Floats) -> None:
    args = agent.par, agent.state, agent.work, x
    with announced(f"the model of {agent.name}"):
        direct(function, *args)(*args)
