"""Finite Gymnasium environments as worlds: exact values, exact regret, the compiled simulator.

A world of n states becomes one of n + 1: the last is the sink, where an episode stays from its termination to step H.
Staying there is worth what the environment pays after an episode is over, nothing, whatever the scale of its rewards.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import checks as check
from ..checks import Floats
from ..problem.links import LinearCombination, MultinomialLogit
from ..problem.problem import Problem
from ..worlds import World
from ..worlds.contexts import Contexts, Simplex
from . import tables
from .tables import RewardMap, Table

_EXACT = 1e-9


class GymWorld(World):
    """A `World` made from environments with transition tables.

    reward_map   takes the environment's rewards to [0, 1]; `world.returns(values)` takes values back
    sink         the state that stands for "over": the last one

    Mean rewards are those of the table, so every policy has its value of the environment. The noise differs: the
    simulator draws rewards 0 or 1 with the pair's mean, independently of the next state, where the environment pays a
    number that may depend on it. Transitions are the same in distribution.

    >>> import gymnasium
    >>> import noregret as nr
    >>> world = nr.gym.world_from(gymnasium.make("CliffWalking-v1"), horizon=20)
    >>> world.sink, world.problem.n_states
    (48, 49)
    >>> value = world.value(world.optimal([1.0]).policy, [1.0])
    >>> print(f"{value:.2f} in [0, 1] a step, a return of {world.returns(value):.0f}")
    19.87 in [0, 1] a step, a return of -13
    """

    reward_map: RewardMap

    @property
    def sink(self) -> int:
        return self.problem.n_states - 1

    def returns(self, values: ArrayLike, steps: int | None = None) -> Any:
        """Values of this world as returns of the environment: a number, or [H+1, S] with fewer steps to go in each row.

        steps   how many steps the values cover, where that is neither"""
        v, H = np.asarray(values, np.float64), self.problem.horizon
        left: Any = H if steps is None else check.integer("steps", steps, 0)
        if steps is None and v.shape == (H + 1, self.problem.n_states):
            left = H - np.arange(H + 1)[:, None]
        made = self.reward_map.returns(v, left)
        return float(made) if v.ndim == 0 else made


def world_from(
    env: Any,
    horizon: int | None = None,
    link: Literal["logit", "linear"] = "logit",
    *,
    known_support: bool = True,
    known_rewards: bool = False,
    reward_range: tuple[float, float] | None = None,
    initial_state: int | ArrayLike | None = None,
) -> GymWorld:
    """The world of one environment with a transition table, the context always (1,).

    horizon         H; None: the time limit of the environment's registration
    link            "logit": weights ln P on the support, exactly, relative to the last supported state; weight_bound is
                    the largest norm that needs. "linear": weights P
    known_support   whether learners are told which next states can occur (with a deterministic table that is
                    everything); False needs the linear link, since no finite logit is 0
    known_rewards   whether learners are told the mean rewards
    reward_range    (low, high) taken to [0, 1]; None: the smallest and largest rewards of the table, and 0 for the sink
    initial_state   a state or a distribution over the environment's n states; None: the environment's own

    The same policy has the same value, up to `world.returns`. Cost and memory O(S^2 A), once.

    >>> import gymnasium
    >>> import noregret as nr
    >>> lake = gymnasium.make("FrozenLake-v1")
    >>> world = nr.gym.world_from(lake, horizon=30)
    >>> best = world.optimal([1.0])
    >>> print(f"{world.returns(best.values)[0, 0]:.3f}")  # the chance of reaching the goal within 30 steps
    0.348
    """
    check.one_of("link", link, ("logit", "linear"))
    if link == "linear":
        return mixture_world(
            [env], horizon, known_support=known_support, known_rewards=known_rewards,
            reward_range=reward_range, initial_state=initial_state,
        )  # fmt: skip
    if not check.flag("known_support", known_support):
        raise ValueError('known_support=False needs link="linear": under the logit every told outcome can occur')
    return contextual_world(
        [env], horizon, known_rewards=known_rewards, reward_range=reward_range, initial_state=initial_state
    )


def mixture_world(
    envs: Sequence[Any],
    horizon: int | None = None,
    contexts: Contexts | ArrayLike | None = None,
    *,
    known_support: bool = True,
    known_rewards: bool = False,
    reward_range: tuple[float, float] | None = None,
    initial_state: int | ArrayLike | None = None,
) -> GymWorld:
    """Mixtures of environments under the linear link: P_x = sum_j x_j P_j and r_x = sum_j x_j r_j.

    Contexts x lie in the simplex. This is the environment in which each step is environment j's with probability x_j,
    and where one argument enters the probabilities linearly it is exact: FrozenLake with success rate q is the mixture
    (q, 1 - q) of those with rates 1 and 0. `contexts` are a source from `noregret.contexts` or rows [m, d] to draw
    from; None: uniform on the simplex.
    The other arguments as in `world_from`. The environments must have equally many states and actions.

    >>> import gymnasium
    >>> import noregret as nr
    >>> lakes = [gymnasium.make("FrozenLake-v1", success_rate=q) for q in (1.0, 0.0)]
    >>> rates = (0.35, 0.5, 0.95)
    >>> world = nr.gym.mixture_world(lakes, 25, contexts=[[q, 1 - q] for q in rates])
    >>> for q in rates:
    ...     print(f"{q}: {world.optimal([q, 1 - q]).values[0, 0]:.2f}")
    0.35: 0.28
    0.5: 0.37
    0.95: 0.95
    """
    given = _Given(envs, _read(envs), horizon, known_rewards, initial_state)
    weights = np.stack([t.P for t in given.read], axis=-1)
    support: NDArray[np.bool_] = np.any(weights > 0.0, axis=-1)
    if not check.flag("known_support", known_support):
        support[:-1] = True  # the sink is ours: nothing about it is to be found out
    scale, means = _rewards(given.read, reward_range)
    truth = _Truth(support, weights, np.moveaxis(means, 0, -1), scale)
    return _world(given, truth, LinearCombination(), Simplex(len(envs)) if contexts is None else contexts, 1.0)


def contextual_world(
    envs: Sequence[Any],
    horizon: int | None = None,
    contexts: ArrayLike | None = None,
    *,
    known_rewards: bool = False,
    reward_range: tuple[float, float] | None = None,
    initial_state: int | ArrayLike | None = None,
) -> GymWorld:
    """Environment i for the individuals with context x_i, under the multinomial logit; individuals are drawn evenly.

    Weights W_sa are the shortest ones with W_sa x_i = ln P_i(. | s, a), relative to the last supported next state, and
    reward weights those with theta_sa'x_i = r_i(s, a). Contexts [m, d], None: e_1, ..., e_m, every environment a column
    of its own. Linearly independent contexts always fit; others only where the environments are that alike, and this
    raises where one would not be met to 1e-9. All environments must have the same supports (for a slippery lake and a
    dry one take `mixture_world`). The other arguments as in `world_from`.

    >>> import gymnasium
    >>> import noregret as nr
    >>> lakes = [gymnasium.make("FrozenLake-v1", success_rate=q) for q in (0.4, 0.6, 0.8)]
    >>> world = nr.gym.contextual_world(lakes, 25)
    >>> for x in world.contexts.support:  # one for each lake
    ...     print(x, f"{world.optimal(x).values[0, 0]:.2f}")
    [1. 0. 0.] 0.29
    [0. 1. 0.] 0.52
    [0. 0. 1.] 0.81
    """
    given = _Given(envs, _read(envs), horizon, known_rewards, initial_state)
    read, m = given.read, len(envs)
    X = np.eye(m) if contexts is None else np.array(contexts, np.float64)
    if X.ndim != 2 or len(X) != m or not np.isfinite(X).all():
        raise ValueError(f"contexts must be {m} rows of finite numbers, one for each environment, got shape {X.shape}")
    support = read[0].P > 0.0
    for i, t in enumerate(read):
        differs = np.argwhere((t.P > 0.0) != support)
        if differs.size:
            s, a, after = (int(v) for v in differs[0])
            raise ValueError(
                f"envs must have the same supports for the logit: environments 0 and {i} differ in whether {after} can "
                f"follow state {s}, action {a} (mixture_world takes such environments)"
            )
    last = support.shape[2] - 1 - support[..., ::-1].argmax(-1)
    logits = np.stack([np.log(t.P, where=support, out=np.zeros_like(t.P)) for t in read])
    logits = np.where(support, logits - np.take_along_axis(logits, last[None, ..., None], axis=3), 0.0)
    scale, means = _rewards(read, reward_range)
    weights, theta = (_fitted(X, y) for y in (logits, means))
    truth = _Truth(support, weights, theta, scale)
    longest = float(np.linalg.norm(weights, axis=-1).max())
    bounds = float(np.linalg.norm(X, axis=1).max()), longest * (1 + _EXACT) if longest > 0.0 else 1.0
    return _world(given, truth, MultinomialLogit(), X, *bounds)


# What they share ------------------------------------------------------------------------------------------------------
class _Given(NamedTuple):
    """The arguments that all of them have, and the tables of the environments."""

    envs: Sequence[Any]
    read: list[Table]
    horizon: Any
    known_rewards: Any
    initial_state: Any


class _Truth(NamedTuple):
    support: NDArray[np.bool_]  # [S, A, S]
    weights: Floats  # [S, A, S, d]
    theta: Floats  # [S, A, d], on the scale from 0 to 1
    scale: RewardMap


def _read(envs: Sequence[Any]) -> list[Table]:
    if not isinstance(envs, list | tuple) or not envs:
        raise ValueError(f"envs must be a list of environments, got {check.shown(envs)}")
    read = [tables.read(env) for env in envs]
    for i, t in enumerate(read[1:], 1):
        if t.P.shape != read[0].P.shape or not np.array_equal(t.available, read[0].available):
            raise ValueError(f"envs must have the same states and actions, environments 0 and {i} differ")
    return read


def _rewards(read: list[Table], given: Any) -> tuple[RewardMap, Floats]:
    """The map, and mean rewards on its scale, [m, S, A]."""
    low, high = min(t.low for t in read), max(t.high for t in read)
    if given is None:
        scale = RewardMap(low, high if high > low else low + 1.0)
    else:
        scale = tables.reward_map("reward_range", given)
        if low < scale.low or high > scale.high:
            raise ValueError(
                f"reward_range must contain every reward and 0, which the sink pays: [{low:g}, {high:g}], got "
                f"{check.shown(given)}"
            )
    means = scale.unit(np.stack([t.rewards for t in read]))
    return scale, np.clip(means, 0.0, 1.0)


def _fitted(X: Floats, y: Floats) -> Floats:
    """The shortest w [..., d] with X w = y [m, ...]; raises where there is none."""
    m, d = X.shape
    flat = y.reshape(m, -1)
    w = np.linalg.pinv(X) @ flat
    error = np.abs(X @ w - flat).max(axis=1)
    if error.max() > _EXACT * max(1.0, float(np.abs(flat).max())):
        i = int(error.argmax())
        raise ValueError(
            f"contexts must determine the environments: the best fit misses environment {i} by {error[i]:.3g} "
            "(linearly independent contexts always fit)"
        )
    return np.ascontiguousarray(np.moveaxis(w.reshape(d, *y.shape[1:]), 0, -1))


def _start(read: list[Table], given: Any) -> Floats:
    """The distribution of the initial state, [S]; never the sink."""
    n = len(read[0].P) - 1
    if given is not None:
        if np.ndim(given) == 0:
            s = check.integer("initial_state", given, 0)
            if s >= n:
                raise ValueError(f"initial_state must be a state from 0 to {n - 1}, got {s}")
            made: Floats = np.eye(n + 1)[s]
            return made
        return np.append(check.array("initial_state", given, (n,)), 0.0)
    if read[0].start is None or any(not np.array_equal(t.start, read[0].start) for t in read):  # type: ignore[arg-type]
        raise ValueError("initial_state must be given: the environments do not say, or do not agree")
    return read[0].start


def _world(
    given: _Given, truth: _Truth, link: Any, contexts: Any, context_bound: float, weight_bound: Any = None
) -> GymWorld:
    horizon, support, available = given.horizon, truth.support, given.read[0].available
    if horizon is None:
        horizon = getattr(getattr(given.envs[0], "spec", None), "max_episode_steps", None)
        if horizon is None:
            raise ValueError("horizon must be given: the environment has no time limit")
    start = _start(given.read, given.initial_state)
    S, A, d = truth.theta.shape
    problem = Problem(
        S, A, horizon, d, link, context_bound, weight_bound,
        max(float(np.linalg.norm(truth.theta, axis=-1).max()), 1.0) * (1 + _EXACT),
        support=None if support.all() else support, available=None if available.all() else available,
        known_rewards=truth.theta if check.flag("known_rewards", given.known_rewards) else None,
        initial_states=tuple(int(s) for s in np.flatnonzero(start)),
    )  # fmt: skip
    first: Any = int(start.argmax()) if start.max() == 1.0 else start
    name = tables.title(given.envs[0]) + (f" and {len(given.envs) - 1} more" if len(given.envs) > 1 else "")
    made = GymWorld(problem, truth.weights, truth.theta, contexts, first, name)
    made.reward_map = truth.scale
    return made
