"""An agent that decides, and learns, in a Gymnasium environment's own `step`."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import checks as check
from ..checks import Floats
from ..problem.problem import Problem
from . import tables
from .tables import RewardMap


@dataclass(frozen=True, eq=False)
class Played:
    """What came of `play`, episode by episode, on the environment's own scale of rewards.

    returns, steps [K]; terminated, truncated [K]: how each episode ended; contexts [K, d].

    >>> import gymnasium
    >>> import noregret as nr
    >>> lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    >>> world = nr.gym.world_from(lake, horizon=12)
    >>> oracle = nr.Oracle(world.problem, world.weights, world.reward_weights)
    >>> nr.gym.play(oracle, lake, 5)
    <Played 5 episodes: mean return 1, of the last tenth 1; 100% terminated, 0% truncated>
    """

    returns: Floats  # [K], sums of the rewards
    steps: NDArray[np.int64]  # [K], steps of the environment
    terminated: NDArray[np.bool_]  # [K], over before or at step H
    truncated: NDArray[np.bool_]  # [K], cut short by the environment before step H
    contexts: Floats  # [K, d]

    def __repr__(self) -> str:
        K = len(self.returns)
        last = self.returns[-max(K // 10, 1) :].mean()
        ends = f"{self.terminated.mean():.0%} terminated, {self.truncated.mean():.0%} truncated"
        return f"<Played {K} episodes: mean return {self.returns.mean():.4g}, of the last tenth {last:.4g}; {ends}>"


def play(
    agent: Any,
    env: Any,
    episodes: int,
    *,
    context: ArrayLike | Callable[[Any], ArrayLike] | None = None,
    discretise: Callable[[Any], int] | None = None,
    reward_range: tuple[float, float] | None = None,
    sink: int | None = None,
    seed: int = 0,
) -> Played:
    """Let `agent` meet the environment `episodes` times, H steps or until it terminates, and learn from each.

    agent          an agent of this package, or any object with its four verbs and a `problem`
    env            a Gymnasium environment, with its wrappers; its action space must be the problem's
    context        the context [d] of everybody, or a function of the first observation. None: the entry "context" of a
                   dictionary, or (1,) where d = 1
    discretise     a function of the observation to a state number. None: the observation itself, or the entry "obs" of
                   a dictionary
    reward_range   (low, high) taken to [0, 1] before the agent sees rewards; None: they lie in the problem's own range
    sink           the state that stands for "over". None: the last one, where the problem has one state more than the
                   environment's observations, as the worlds of `world_from` have
    seed           of the first `reset`; the following ones carry on with the environment's own randomness

    After termination the agent is shown the sink, which pays the environment's 0, up to step H: that is how it learns
    what being over is worth. An episode that is truncated before step H ends there for the agent, which learns from
    the steps seen: choose H at most the time limit. Unavailable actions are those of the problem; `info["action_mask"]`
    is not looked at. If the environment or a function raises, the agent has learned from the steps before that.

    >>> import gymnasium
    >>> import noregret as nr
    >>> lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    >>> world = nr.gym.world_from(lake, 12, "linear", known_support=False, known_rewards=True)
    >>> played = nr.gym.play(nr.PSRLGLM(world.problem), lake, 60, seed=1)
    >>> print(f"{played.returns[:20].mean():.0%} reached the goal at first, {played.returns[-20:].mean():.0%} at last")
    50% reached the goal at first, 100% at last
    """
    p = agent.problem
    K, first = check.integer("episodes", episodes), check.integer("seed", seed, 0)
    scale = None if reward_range is None else tables.reward_map("reward_range", reward_range)
    if tables.size("action_space", getattr(env, "action_space", None)) != p.n_actions:
        raise ValueError(f"env must have the problem's {p.n_actions} actions, got {env.action_space}")
    if scale is not None and not p.scale.plain:
        raise ValueError(f"reward_range must be None where the problem has one of its own, {p.reward_range}")
    game = _Game(env, p, scale, _sink(p, env, sink), discretise)
    ends = p.scale if scale is None else scale
    if game.sink is not None and not ends.low <= 0.0 <= ends.high:
        raise ValueError(f"reward_range must contain 0, which an episode that is over pays, got {tuple(ends)}")
    terminated, truncated = np.zeros((2, K), bool)
    made = Played(np.zeros(K), np.zeros(K, np.int64), terminated, truncated, np.zeros((K, p.context_dim)))
    for k in range(K):
        seen, _ = env.reset(seed=first if k == 0 else None)
        made.contexts[k] = p.context(_context(p, context, seen))
        start = game.state(seen)
        agent.begin_episode(made.contexts[k])
        try:
            _episode(agent, game, start, made, k)
        finally:
            agent.end_episode()
    return made


class _Game(NamedTuple):
    """The environment, and how to read what it says."""

    env: Any
    problem: Problem
    scale: RewardMap | None
    sink: int | None
    discretise: Callable[[Any], int] | None

    def state(self, seen: Any) -> int:
        if self.discretise is None:
            return self.problem.state(_state_in(seen), "observation")
        return self.problem.state(self.discretise(seen), "discretise(observation)")

    def unit(self, reward: Any) -> float:
        """A reward as the agent is told it: from 0 to 1, or in the problem's own range."""
        scale = self.scale
        own = self.problem.scale
        u = float(own.inside(float(reward)) if scale is None else scale.unit(float(reward)))
        if not (-1e-9 <= u <= 1.0 + 1e-9 or math.isnan(u)):
            ends = own if scale is None else scale
            said = f"is [{ends.low:g}, {ends.high:g}]" + (" unless given" if scale is None else "")
            raise ValueError(f"reward_range must contain every reward: it {said}, and the environment paid {reward}")
        return own.outside(min(max(u, 0.0), 1.0)) if not math.isnan(u) else u


def _episode(agent: Any, game: _Game, s: int, made: Played, k: int) -> None:
    """Episode k from state s on; what comes of it goes into `made`."""
    H = game.problem.horizon
    for h in range(H):
        seen, reward, terminated, truncated, _ = game.env.step(agent.act(s))
        unit = game.unit(reward)
        made.returns[k] += float(reward)
        made.steps[k] += 1
        made.terminated[k] = terminated
        if terminated and game.sink is not None:
            agent.observe(unit, game.sink)
            for _ in range(h + 1, H):
                agent.act(game.sink)
                agent.observe(game.unit(0.0), game.sink)
            return
        s = game.state(seen)
        agent.observe(unit, s)
        if h + 1 < H and terminated:
            raise ValueError(
                f"sink must be given, the state that stands for over: the environment terminated after {h + 1} "
                f"of {H} steps"
            )
        if h + 1 < H and truncated:
            made.truncated[k] = True
            return


def _sink(p: Problem, env: Any, given: Any) -> int | None:
    if given is not None:
        return p.state(given, "sink")
    n = getattr(getattr(env, "observation_space", None), "n", None)
    return p.n_states - 1 if n is not None and n == p.n_states - 1 else None


def _state_in(seen: Any) -> Any:
    """The state in an observation that holds one."""
    value = seen["obs"] if isinstance(seen, dict) and "obs" in seen else seen
    if np.size(value) == 1 and np.asarray(value).dtype.kind in "iu":
        return int(np.asarray(value).item())
    raise ValueError(f"discretise must be given: an observation is not a state number, such as {check.shown(seen)}")


def _context(p: Problem, given: Any, seen: Any) -> Any:
    if callable(given):
        return given(seen)
    if given is not None:
        return given
    if isinstance(seen, dict) and "context" in seen:
        if isinstance(seen["context"], dict):
            raise ValueError(
                f"context must be a function of the observation, whose own is {check.shown(seen['context'])}"
            )
        return np.ravel(seen["context"])
    if p.context_dim == 1:
        return [1.0]
    raise ValueError(f"context must be given: observations have none and the problem's has {p.context_dim} features")
