"""Worlds made from what an agent has learned: plans can be tried there before people meet them.

The agent's weights become a world's. Their bounds need not be the problem's, since estimates and draws may be longer:
such a world has a problem with larger bounds, and nothing else changed, so that agents made for the one can be run in
the other."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import checks as check
from ..agents.base import Agent
from ..checks import Floats
from ..problem.layout import used_slots
from ..problem.links import LinearCombination
from ..problem.log import Log
from ..problem.problem import Problem
from ..worlds.world import World

MORE = 1.0 + 1e-6  # bounds are so much larger than what they bound


def world_of(
    agent: Agent,
    contexts: Any,
    draw: int | None = None,
    *,
    initial_state: Any = None,
    rule: ArrayLike | None = None,
    name: str | None = None,
) -> World:
    """A world that simulates from an agent's model: `agent.world(contexts)` is the same.

    contexts        who comes: rows [m, d], a `Log` whose people come again, or anything else that `World` takes
    draw            None: the fitted model; n: model number n from the agent's posterior. Several draws show how much of
                    what a plan seems worth hangs on what is not known yet
    initial_state   as for `World`; None: any of the problem's initial states, equally often
    rule            as for `World`

    Mean rewards outside the range are clipped (`World(clip=True)`). Where weights are longer than the problem's bounds
    allow, the world's problem has larger ones. Under LinearCombination columns are moved to the nearest distributions.
    What happens in such a world is what the agent believes, no more: a plan that is good there may be bad, where the
    agent is wrong.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent, log = nr.PSRLGLM(world.problem), world.log(500, seed=1, rule=[[0, 1, 1, 1]] * world.problem.horizon)
    >>> agent.learn_from(log)
    500
    >>> likely = agent.world(log)
    >>> likely
    <World psrl-glm, fitted: S=4 A=3 H=6 d=3, MultinomialLogit()>
    >>> x = world.context(seed=2, episode=0)
    >>> bool(abs(likely.transitions(x) - agent.model(x).P).max() < 1e-9)
    True
    >>> plan = agent.begin_episode(x)
    >>> worth = [agent.world(log, draw=n).value(plan.policy, x) for n in range(20)]  # so much is not known yet
    >>> bool(min(worth) < likely.value(plan.policy, x) < max(worth))
    True
    """
    check.instance("agent", agent, Agent, "an agent of noregret")
    slots, theta = agent.weights(draw)
    p = agent.problem
    if isinstance(p.link, LinearCombination):
        slots = _distributions(p, slots)
    elif p.link.coordinates != "free":
        slots = slots - np.take_along_axis(slots, (p.layout.count - 1)[..., None, None], axis=2)
    slots[~used_slots(p.layout)] = 0.0
    known = p.known_rewards is not None
    if isinstance(contexts, Log):
        contexts = np.array([e.context for e in contexts])
    if initial_state is None:
        starts = np.isin(np.arange(p.n_states), p.starts)
        initial_state = int(p.starts[0]) if len(p.starts) == 1 else starts / starts.sum()
    wide = _roomy(p, slots, theta)
    weights = slots if slots.shape[2] < p.n_states else p.from_slots(slots)  # which of the two forms, its shape says
    which = "fitted" if draw is None else f"draw {check.integer('draw', draw, 0)}"
    return World(
        wide, weights, None if known else theta, contexts, initial_state, name or f"{agent.name}, {which}",
        misspecified=not agent.shares_weights, rule=rule, clip=True,
    )  # fmt: skip


def _roomy(p: Problem, slots: Floats, theta: Floats) -> Problem:
    """The problem, with larger bounds where these weights are longer."""
    met = p.layout.available
    more: dict[str, Any] = {}
    for weights, design, which, bound in (
        (slots, p.design, "design", "weight_bound"),
        (theta[:, :, None], p.reward_design, "reward_design", "reward_bound"),
    ):
        if which == "reward_design" and p.known_rewards is not None:
            continue
        if design is not None:
            norms = design.fitted(weights, p.layout)[0] * MORE
            if (norms > design.bound).any():
                told = design.names, design.block_names, design.moderators
                more[which] = type(design)(design.features, np.maximum(norms, design.bound), design.block, *told)
        longest = float(np.linalg.norm(weights, axis=-1)[met].max(initial=0.0)) * MORE
        if longest > getattr(p, bound):
            more[bound] = longest
    return replace(p, **more) if more else p


def _distributions(p: Problem, slots: Floats) -> Floats:
    """Every column over the used slots moved to the nearest distribution (Duchi et al. 2008)."""
    made = np.zeros_like(slots)
    for s, a in np.ndindex(*slots.shape[:2]):
        n = int(p.layout.count[s, a])
        v = slots[s, a, :n]
        down = -np.sort(-v, axis=0)
        excess = (np.cumsum(down, axis=0) - 1.0) / np.arange(1, n + 1)[:, None]
        last = (down > excess).sum(0) - 1
        made[s, a, :n] = np.maximum(v - excess[last, np.arange(v.shape[1])], 0.0)
        made[s, a, :n] /= made[s, a, :n].sum(0)
    return made
