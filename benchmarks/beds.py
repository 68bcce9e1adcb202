"""Beds: what regret is compared on. `for bed in beds(): bed.play(agent, seed)`.

A bed knows how to make its problem for a seed and how to play an agent on it. Of a bed of worlds the regret is exact,
as in `simulate`. Of a data set it is the reward lost against always right. Beds whose data are not installed are left
out.
"""

import importlib.util
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import noregret as nr
from noregret.agents.base import Agent
from noregret.simulation.engine import PythonSession, Setup
from noregret.worlds import World

LOGGED = 3000  # people in the log of beds that begin with one
LOG_SEED = 1_000_003  # added to the seed: other people than those met later
LOGISTIC_BOUND = 30.0  # what agents are told about ||theta|| of a data set with logistic rewards
SETS = ("digits", "wine", "breast_cancer", "iris")


class Size(NamedTuple):
    """How long a bed is played, and with how many seeds 0, 1, ..."""

    episodes: int
    seeds: int


@dataclass(frozen=True)
class Bed:
    """One bed. full, quick: its sizes; heavy: left out of the quick mode; compared: whether other libraries play, too.
    Some of them need hours on large tables."""

    name: str
    full: Size
    quick: Size
    heavy: bool = False
    compared: bool = True

    def problem(self, seed: int = 0) -> nr.Problem:
        """What agents are told."""
        raise NotImplementedError

    def play(self, agent: Any, seed: int, episodes: int) -> float:
        """Regret of a fresh agent, made for `problem(seed)`, after so many episodes."""
        raise NotImplementedError


@dataclass(frozen=True)
class WorldBed(Bed):
    """A world, or a family of worlds with one for each seed. logged: people whose log is learned before the first."""

    make: Callable[[int], World] = field(kw_only=True)
    logged: int = 0

    def world(self, seed: int) -> World:
        return _world(self.make, seed)

    def problem(self, seed: int = 0) -> nr.Problem:
        return self.world(seed).problem

    def play(self, agent: Any, seed: int, episodes: int) -> float:
        world = self.world(seed)
        if isinstance(agent, Agent) and not self.logged:
            return float(nr.simulate(agent, world, episodes, [seed], every=episodes, workers=1).final[0])
        if self.logged:
            agent.learn_from(_log(self.make, seed, self.logged))
        session = PythonSession(agent, Setup(world, seed, episodes, episodes))
        session.prepare()
        while session.done < episodes:
            session.advance()
        return float(session.meter.total[0])


@dataclass(frozen=True)
class DataBed(Bed):
    """A classification set as a bandit: one arm a class, reward 1 for the right one. Rows come in the seed's order,
    each once. Contexts are (1, standardised features). Our agents get them divided by the largest norm, since they are
    told a bound for it; those of other libraries as they are, since their defaults are meant for that."""

    data: str = field(kw_only=True)
    rewards: str = "linear"

    def problem(self, seed: int = 0) -> nr.Problem:
        X, labels, bound, _ = rows_of(self.data)
        told = bound if self.rewards == "linear" else LOGISTIC_BOUND
        return nr.Problem(
            1, int(labels.max()) + 1, 1, X.shape[1], weight_bound=1.0, reward_bound=told,
            rewards=self.rewards,  # type: ignore[arg-type]
        )  # fmt: skip

    def play(self, agent: Any, seed: int, episodes: int) -> float:
        X, labels, _, norm = rows_of(self.data)
        if not isinstance(agent, Agent):
            X = X * norm
        lost = 0
        for i in np.random.default_rng(seed).permutation(len(X))[:episodes]:
            agent.begin_episode(X[i])
            right = agent.act(0) == labels[i]
            agent.observe(float(right), 0)
            agent.end_episode()
            lost += not right
        return float(lost)


@dataclass(frozen=True)
class GradedBed(Bed):
    """A linear bandit of five arms whose rewards use a twentieth of the range that agents are told, with little noise:
    means .025 + .01 (w_a + theta_a'u), rewards with a standard deviation of .005 beside them, x = (1, u)/sqrt(2)."""

    def problem(self, seed: int = 0) -> nr.Problem:
        return nr.Problem(1, 5, 1, 5, weight_bound=1.0, reward_bound=1.0)

    def play(self, agent: Any, seed: int, episodes: int) -> float:
        g, lost = np.random.default_rng(seed), 0.0
        theta, level = _directions(g, 5, 4), g.uniform(-1.0, 1.0, 5)
        for u in _directions(g, episodes, 4):
            means = 0.025 + 0.01 * (level + theta @ u)
            rewards = np.clip(means + 0.005 * g.standard_normal(5), 0.0, 1.0)
            agent.begin_episode(np.r_[1.0, u] / math.sqrt(2.0))
            a = agent.act(0)
            agent.observe(float(rewards[a]), 0)
            agent.end_episode()
            lost += float(means.max() - means[a])
        return lost


def _directions(g: np.random.Generator, n: int, d: int) -> NDArray[np.float64]:
    made = g.standard_normal((n, d))
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True))


@cache
def rows_of(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64], float, float]:
    """Contexts [n, d] of norm 1 at most, labels [n], a bound for the weights: the largest norm of a class's ridge
    regression (lambda = 1) on all rows, rounded up to the next half; and what the contexts were divided by."""
    datasets: Any = importlib.import_module("sklearn.datasets")
    made = getattr(datasets, f"load_{name}")()
    Z, labels = np.asarray(made.data, float), np.asarray(made.target, np.int64)
    spread = Z.std(0)
    X = np.c_[np.ones(len(Z)), (Z - Z.mean(0)) / np.where(spread > 0.0, spread, 1.0)]
    norm = float(np.linalg.norm(X, axis=1).max()) * (1.0 + 1e-12)
    X /= norm
    right = np.eye(labels.max() + 1)[labels]
    theta = np.linalg.solve(X.T @ X + np.eye(X.shape[1]), X.T @ right)
    return X, labels, math.ceil(2.0 * float(np.linalg.norm(theta, axis=0).max())) / 2.0, norm


@cache
def _world(make: Callable[[int], World], seed: int) -> World:
    return make(seed)


@cache
def _log(make: Callable[[int], World], seed: int, people: int) -> Any:
    return _world(make, seed).log(people, seed=LOG_SEED + seed)


# The worlds -----------------------------------------------------------------------------------------------------------
def lock(seed: int, n_states: int = 6, horizon: int = 12) -> World:
    """A lock: in every state one secret action moves on with chance 0.9, all others fall back to the first state. Only
    the last state pays; falling back pays a little, at once. The context tilts how often a step succeeds.

    A greedy agent takes the little and never sees the last state."""
    g = np.random.default_rng(seed)
    S, A, d = n_states, 3, 2
    right = g.integers(A, size=S)
    support, P = np.zeros((S, A, S), bool), np.zeros((S, A, S, d))
    theta = np.zeros((S, A, d))
    for s in range(S):
        after = min(s + 1, S - 1)
        support[s, :, [0, after]] = True
        for a in range(A):
            if after != 0:
                # log-odds of moving on: 2.2 for the secret action, -2.2 for others; u moves them by 0.5
                P[s, a, after] = np.array([2.2 if a == right[s] else -2.2, 0.5]) * math.sqrt(2.0)
            theta[s, a, 0] = (0.0 if a == right[s] else 0.05) * math.sqrt(2.0)
    theta[S - 1, :, 0] = 0.0
    theta[S - 1, right[S - 1], 0] = 0.9 * math.sqrt(2.0)
    problem = nr.Problem(S, A, horizon, d, weight_bound=3.3, reward_bound=1.5, support=support, initial_states=(0,))
    return World(problem, P, theta, nr.contexts.Sphere(d, intercept=math.sqrt(0.5)), name="lock")


def deep_sea(seed: int, rows: int = 6) -> World:
    """A deep sea (Osband et al. 2016): every step goes down, one secret action of each place to the right, the other to
    the left. Left pays .01, right nothing; only who always went right finds 1 at the end. Nothing else is by chance."""
    g = np.random.default_rng(seed)
    right, S = g.integers(2, size=rows * rows), rows * rows
    P, theta = np.zeros((S, 2, S, 1)), np.zeros((S, 2, 1))
    for s in range(S):
        row, column = divmod(s, rows)
        below = row * rows if row == rows - 1 else (row + 1) * rows
        P[s, right[s], below + min(column + 1, rows - 1)] = 1.0
        P[s, 1 - right[s], below + max(column - 1, 0)] = 1.0
        theta[s, 1 - right[s]] = 0.01
    theta[S - 1, right[S - 1]] = 1.0
    problem = nr.Problem(S, 2, rows, 1, nr.LinearCombination(), reward_bound=1.0, initial_states=(0,))
    return World(problem, P, theta, np.ones((1, 1)), initial_state=0, name="deep-sea")


def arms(seed: int) -> World:
    """Ten arms without contexts that pay 1 with probability .5, one of them with .6."""
    theta = np.full((1, 10, 1), 0.5)
    theta[0, np.random.default_rng(seed).integers(10)] = 0.6
    problem = nr.Problem(1, 10, 1, 1, nr.LinearCombination(), reward_bound=1.0)
    return World(problem, np.ones((1, 10, 1, 1)), theta, np.ones((1, 1)), name="arms")


def _readme(seed: int) -> World:
    return nr.worlds.random_logit(4, 3, 4, 3, seed=seed)


def _big(seed: int) -> World:
    return nr.worlds.random_logit(6, 3, 8, 8, seed=seed)


def _clinic(seed: int) -> World:
    return nr.worlds.clinic()


def _hard_logit(seed: int) -> World:
    return nr.worlds.hard_logit(episodes=4000, scale=1.0, seed=seed)


def _hard_linear(seed: int) -> World:
    return nr.worlds.hard_linear(episodes=4000, scale=1.0, seed=seed)


def _sparse(seed: int) -> World:
    return nr.worlds.sparse_logit(seed=seed)


def _river(seed: int) -> World:
    return nr.worlds.riverswim_logit(known_rewards=False, shared=False)


def _programme(seed: int) -> World:
    return nr.worlds.programme(seed=seed)


def _bandit(seed: int) -> World:
    return nr.worlds.bandit_logistic(4, 5, seed=seed)


def _tabular(seed: int) -> World:
    return nr.worlds.random_linear(10, 4, 10, 1, seed=seed)


def _sepsis(seed: int) -> World:
    return nr.worlds.icu_sepsis()


def _toy(name: str, horizon: int) -> Callable[[int], World]:
    @cache
    def make(seed: int) -> World:
        gymnasium: Any = importlib.import_module("gymnasium")
        registered = [f"{name}-v{n}" for n in range(9) if f"{name}-v{n}" in gymnasium.registry]
        return nr.gym.world_from(gymnasium.make(registered[-1]), horizon=horizon)

    return make


_WORLDS = (
    WorldBed("readme", Size(20_000, 10), Size(1500, 2), make=_readme),
    WorldBed("big", Size(5000, 6), Size(400, 1), make=_big),
    WorldBed("clinic", Size(10_000, 8), Size(1000, 2), make=_clinic),
    WorldBed("hard-logit", Size(4000, 12), Size(2000, 3), make=_hard_logit),
    WorldBed("hard-linear", Size(4000, 12), Size(2000, 3), make=_hard_linear),
    WorldBed("sparse", Size(4000, 8), Size(300, 1), make=_sparse),
    WorldBed("river", Size(3000, 12), Size(1000, 2), make=_river),
    WorldBed("lock", Size(3000, 12), Size(1000, 2), make=lock),
    WorldBed("programme", Size(3000, 6), Size(400, 1), make=_programme),
    WorldBed("programme-log", Size(3000, 6), Size(300, 1), make=_programme, logged=LOGGED, heavy=True),
    WorldBed("bandit-logistic", Size(10_000, 8), Size(1500, 2), make=_bandit),
    WorldBed("tabular", Size(500, 12), Size(200, 2), make=_tabular),
    WorldBed("deep-sea", Size(1000, 12), Size(300, 2), make=deep_sea),
    WorldBed("arms", Size(10_000, 24), Size(2000, 2), make=arms),
)
_GRADED = GradedBed("small-rewards", Size(2000, 12), Size(500, 2))
_TOYS = (
    WorldBed("frozen-lake", Size(3000, 8), Size(500, 1), compared=False, make=_toy("FrozenLake", 30)),
    WorldBed("cliff-walking", Size(1000, 4), Size(200, 1), compared=False, make=_toy("CliffWalking", 20)),
    WorldBed("taxi", Size(1000, 2), Size(100, 1), compared=False, make=_toy("Taxi", 20), heavy=True),
)
_SEPSIS = WorldBed("icu-sepsis", Size(300, 2), Size(20, 1), make=_sepsis, heavy=True)


def _sets() -> Iterator[Bed]:
    for name in SETS:
        n = len(rows_of(name)[0])
        for rewards in ("linear", "logistic"):
            full, quick = Size(n, 5 if n > 1000 else 10), Size(min(n, 300), 2)
            yield DataBed(f"{name.replace('_', '-')}-{rewards}", full, quick, data=name, rewards=rewards)


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def beds(names: str | None = None) -> list[Bed]:
    """All beds whose data are installed, or those of that name, comma-separated, in this order."""
    made: list[Bed] = [*(_sets() if installed("sklearn") else ()), *_WORLDS, _GRADED]
    made += _TOYS if installed("gymnasium") else ()
    made += [_SEPSIS] if installed("icu_sepsis") else []
    if names is None:
        return made
    known = {bed.name: bed for bed in made}
    for name in names.split(","):
        if name.strip() not in known:
            raise ValueError(f"unknown bed {name.strip()!r} (beds here: {', '.join(known)})")
    return [known[name.strip()] for name in names.split(",")]
