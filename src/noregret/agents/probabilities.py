"""The chance of each action, given everything the agent has seen.

An agent's random numbers are functions of (seed, episode), so what it does is fixed once its past is. The chance meant
here is over other seeds: the plan of this episode is made again with `draws` other seeds, from the same knowledge and
for the same context, in the same episode number (schedules such as epsilon-greedy's depend on it). By the chain rule

    P(a_h | past, a_0, ..., a_{h-1}) = P(a_0, ..., a_h | past) / P(a_0, ..., a_{h-1} | past),

so of the plans drawn only those count that agree with the actions this episode's own plan has taken so far. Steps whose
action somebody else chose say nothing about the plan and are left out. Agents that plan again within an episode
(`pause`) draw that plan from the steps observed as well.

Optimistic agents are random in their ties only; posterior sampling, perturbed values, epsilon-greedy and uniform play
are random throughout. Everything happens on copies: the agent goes on to the bit as if it had not been asked.
Cost: one plan per draw and a copy of the agent's arrays; drawn once per episode, however often it is asked with equal
`draws`."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats
from ..compiler.memory import copied
from ..problem.masks import Mask
from .lottery import Past, step_chances

MOST_DRAWS = 1_000_000  # draws


class NotAsked(ValueError):
    """An expert who is a function would have to be asked for the sake of a number."""


@dataclass(frozen=True)
class ActionProbabilities:
    """The chances with which an agent takes each action, given what its plan for this individual has done so far.

    probabilities   [A], 0 where an action is not available
    draws           how many plans they rest on, those that agree with what was done so far (0: none did, and all are
                    nan; ask for more)
    error           [A], the Monte-Carlo standard error with half a draw added to each side: never 0 by luck
    exact           no Monte Carlo, error 0

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent = nr.PSRLGLM(world.problem)
    >>> plan = agent.begin_episode(world.context(seed=0, episode=0))
    >>> chance = agent.action_probabilities("moderate", draws=400)  # how other draws of the posterior would decide
    >>> chance.probabilities.round(1), chance.draws
    (array([0.3, 0.4, 0.3]), 400)
    >>> bool(chance.error.max() < 0.05), chance.exact
    (True, False)
    """

    probabilities: Floats
    draws: int
    error: Floats
    exact: bool = False


def action_probabilities(agent: Any, state: Any, draws: int = 1000) -> ActionProbabilities:
    """The chance of each action in `state` at the current step of the open episode."""
    if not agent.is_open:
        raise RuntimeError("action_probabilities: no episode is open, call begin_episode first")
    h = agent._step
    if h == agent.problem.horizon:
        raise RuntimeError(f"action_probabilities: all {h} steps of the episode are taken")
    s, path, out = agent.problem.state(state), agent._path, agent._out
    check_draws(draws)
    if len(out.plans):
        past = path.states[:h], path.actions[:h], agent._others[:h]
        return of_lottery(out.plans, float(out.floor[0]), agent.mask, past, s)
    exact = known_exactly(agent, h, s)
    if exact is not None:
        return exact
    policies = drawn_policies(agent, draws)
    return from_policies(
        policies, path.states[: h + 1], path.actions[:h], agent._others[:h], s, agent.problem.n_actions
    )


def of_lottery(plans: NDArray[Any], floor: float, mask: Mask, past: Past, s: int) -> ActionProbabilities:
    """The chances of a lottery over plans [N, H, S]."""
    chances = step_chances(plans, floor, mask, past, s)
    return ActionProbabilities(chances, len(plans), np.zeros_like(chances), True)


def check_draws(draws: Any, least: int = 1) -> int:
    """How many plans to draw: at most MOST_DRAWS, whose standard error is at most 0.0005."""
    return check.integer("draws", draws, least, MOST_DRAWS)


def known_exactly(agent: Any, h: int, s: int) -> ActionProbabilities | None:
    """The chances of agents that need no draws; None for the others."""
    chances = agent._chances(h, s)
    return None if chances is None else ActionProbabilities(chances, 0, np.zeros_like(chances), True)


def from_policies(
    policies: NDArray[Any], states: Any, actions: Any, others: Any, s: int, n_actions: int
) -> ActionProbabilities:
    """From plans [draws, H, S] that were drawn, after steps with these states, actions [h] and marks of who chose."""
    h = len(actions)
    agree = np.ones(len(policies), bool)
    for i in range(h):
        if not others[i]:
            agree &= policies[:, i, states[i]] == actions[i]
    n = int(agree.sum())
    if n == 0:
        nothing = np.full(n_actions, np.nan)
        return ActionProbabilities(nothing, 0, nothing.copy())
    counts = np.bincount(policies[agree, h, s], minlength=n_actions)
    near = (counts + 0.5) / (n + 1.0)
    return ActionProbabilities(counts / n, n, np.sqrt(near * (1.0 - near) / n))


def drawn_policies(agent: Any, draws: int) -> NDArray[np.int64]:
    """Plans [draws, H, S] for the open episode with other seeds."""
    after = agent._step if 0 < agent.pause <= agent._step else 0
    key = (agent.episode, draws, after, agent._x.tobytes())
    if agent._drawn is None or agent._drawn[0] != key:
        agent._drawn = key, _draw(agent, draws)
    policies: NDArray[np.int64] = agent._drawn[1]
    return policies


def _draw(agent: Any, draws: int) -> NDArray[np.int64]:
    seen: dict[int, Any] = {}
    state, work, out, x, path = (copied(v, seen) for v in (agent.state, agent.work, agent._out, agent._x, agent._path))
    check.memory(f"draws = {draws}", 8.0 * draws * out.policy.size)
    k, made = agent.episode, np.zeros((draws, *out.policy.shape), np.int64)
    again = 0 < agent.pause <= agent._impossible()
    for j in range(draws):
        par = reseeded(agent.par, other_seed(agent.seed, k, j))
        agent.plan_on(par, state, work, x, k, out, agent.mask)
        if again:
            agent.replan_on(par, state, work, x, k, path, out)
        made[j] = out.policy
        if agent._hands_over(state, k):
            made[j] = _asked(agent)
    return made


def plans_ahead(agent: Any, x: Floats, draws: int, mask: Any) -> NDArray[np.int16]:
    """The plans [draws, H, S] with other seeds that `drawn_policies` would draw after begin_episode(x), before anything
    is begun; -1 throughout where a draw has the same expert decide, a function, who will be asked at `begin_episode`.
    mask [S, A]: what is available to them.

    Plans write to the state, so a copy first plans with the agent's own seed. None are returned, [0, H, S], where some
    draws would ask a function that the agent itself does not ask. The agent is not changed."""
    seen: dict[int, Any] = {}
    state, work, out, given = (copied(v, seen) for v in (agent.state, agent.work, agent._out, agent._x))
    state = agent._roomier(state, agent.episode + 1)
    check.memory(f"draws = {draws}", 2.0 * draws * out.policy.size)
    given[:] = x
    agent.prepare(x)
    k, made = agent.episode, np.zeros((draws, *out.policy.shape), np.int16)
    agent.plan_on(agent.par, state, work, given, k, out, mask)
    own = agent._hands_over(state, k)
    for j in range(draws):
        agent.plan_on(reseeded(agent.par, other_seed(agent.seed, k, j)), state, work, given, k, out, mask)
        made[j] = out.policy
        if agent._hands_over(state, k):
            if not own:
                return made[:0]
            made[j] = -1
    return made


def _asked(agent: Any) -> NDArray[np.int64]:
    """What the function said for this individual; it is not asked again for the sake of a number."""
    if not agent._hands_over(agent.state, agent.episode):
        raise NotAsked(
            "action_probabilities: by some draws this individual would be handed to the expert, a function that was "
            "not asked about them"
        )
    policy: NDArray[np.int64] = agent.policy
    return policy


def other_seed(seed: int, episode: int, draw: int) -> int:
    """A seed below 2^63 for one draw, from SHA-256: far from any that a person would choose."""
    word = hashlib.sha256(f"noregret {seed} {episode} {draw}".encode()).digest()
    return int.from_bytes(word[:8], "little") >> 1


def reseeded(par: Any, seed: int) -> Any:
    """par with every seed in it replaced."""
    if not hasattr(par, "_fields"):
        return par
    return type(par)(*(seed if f == "seed" else reseeded(getattr(par, f), seed) for f in par._fields))
