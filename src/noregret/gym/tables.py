"""The transition table of a Gymnasium environment as arrays, with one more state for "over".

Toy-text environments carry `P[s][a]`, a list of (probability, next state, reward, terminated). Needs no Gymnasium: any
object with such a table, `observation_space.n` and `action_space.n` will do.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats

_ROUNDING = 1e-6  # how far from 1 the probabilities of a pair may sum, before they are divided by their sum


class RewardMap(NamedTuple):
    """The affine map that takes an environment's rewards from [low, high] to [0, 1], and back.

    u = (reward - low)/(high - low),    return = u_1 + ... + u_H times (high - low), plus H low

    >>> import noregret as nr
    >>> scale = nr.gym.RewardMap(-100.0, 0.0)  # of CliffWalking
    >>> scale.unit(-1.0)  # a step, for an agent that wants rewards in [0, 1]
    0.99
    >>> round(scale.returns(13 * 0.99 + 7 * 1.0, 20), 6)  # 13 steps and then nothing, 20 in all: a return of -13
    -13.0
    """

    low: float
    high: float

    def unit(self, reward: Any) -> Any:
        """A reward of the environment on the scale from 0 to 1."""
        return (reward - self.low) / (self.high - self.low)

    def returns(self, values: Any, steps: Any) -> Any:
        """Values on the scale from 0 to 1, of that many steps, as returns of the environment."""
        return values * (self.high - self.low) + self.low * steps


def reward_map(name: str, value: Any) -> RewardMap:
    """`value`, a pair (low, high) with low < high, as a map."""
    try:
        low, high = (float(v) for v in value)
    except (TypeError, ValueError):
        low = high = np.nan
    if not -np.inf < low < high < np.inf:
        raise ValueError(f"{name} must be two numbers (low, high) with low below high, got {check.shown(value)}")
    return RewardMap(low, high)


class Table(NamedTuple):
    """One environment; the last of its S states is the sink, where an episode is after it has terminated."""

    P: Floats  # [S, A, S']
    rewards: Floats  # [S, A], mean rewards on the environment's own scale; the sink pays 0
    available: NDArray[np.bool_]  # [S, A]: pairs with at least one outcome
    low: float  # the smallest reward that can occur, and the largest; 0, which the sink pays, is among them
    high: float
    start: Floats | None  # [S], the distribution of the initial state, where the environment says


def size(name: str, space: Any) -> int:
    """n of a Discrete space that starts at 0."""
    n = getattr(space, "n", None)
    if n is None or getattr(space, "shape", ()) != () or int(getattr(space, "start", 0)) != 0:
        raise ValueError(f"env must have a Discrete {name} that starts at 0, got {space}")
    return int(n)


def title(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return str(getattr(spec, "id", None) or type(getattr(env, "unwrapped", env)).__name__)


def read(env: Any) -> Table:
    """The table of `env`, looked for below all wrappers, whose changes to rewards or actions are not seen.

    Outcomes of one pair with the same next state are merged, outcomes of probability 0 left out."""
    bare = getattr(env, "unwrapped", env)
    given = getattr(bare, "P", None)
    if given is None:
        raise ValueError(
            f"env must have a table P of transitions, as FrozenLake, CliffWalking and Taxi have; {title(env)} has none "
            "(noregret.gym.play lets an agent decide in any finite environment)"
        )
    if getattr(bare, "fickle_passenger", False):
        raise ValueError("env must not have a fickle passenger: its table P does not say when the destination changes")
    n, A = size("observation_space", bare.observation_space), size("action_space", bare.action_space)
    P, rewards, available = np.zeros((n + 1, A, n + 1)), np.zeros((n + 1, A)), np.ones((n + 1, A), bool)
    low = high = 0.0
    P[n, :, n] = 1.0
    for s in range(n):
        for a in range(A):
            total = 0.0
            for chance, after, reward, terminated in _outcomes(given, s, a):
                if chance == 0.0:
                    continue
                if not (chance > 0.0 and np.isfinite(reward) and 0 <= after < n):
                    raise ValueError(f"env.P[{s}][{a}] has an impossible outcome: {(chance, after, reward)}")
                P[s, a, n if terminated else int(after)] += chance
                rewards[s, a] += chance * reward
                total, low, high = total + chance, min(low, reward), max(high, reward)
            available[s, a] = total > 0.0
            if total == 0.0:
                P[s, a, n] = 1.0
            elif abs(total - 1.0) > _ROUNDING:
                raise ValueError(f"env.P[{s}][{a}] must have probabilities that sum to 1, they sum to {total:.6g}")
            else:
                P[s, a] /= total
                rewards[s, a] /= total
    return Table(P, rewards, available, float(low), float(high), _start(bare, n))


def _outcomes(given: Any, s: int, a: int) -> Iterable[tuple[float, int, float, bool]]:
    found: Any = None
    try:
        found = given[s][a]
        return [(float(p), int(after), float(r), bool(over)) for p, after, r, over in found]
    except (KeyError, IndexError):
        return []
    except (TypeError, ValueError):
        raise ValueError(
            f"env.P[{s}][{a}] must be a list of (probability, next state, reward, terminated), got {check.shown(found)}"
        ) from None


def _start(bare: Any, n: int) -> Floats | None:
    given = getattr(bare, "initial_state_distrib", None)
    return None if given is None else np.append(check.array("env.initial_state_distrib", given, (n,)), 0.0)
