"""What an expert's presence is worth: one agent with a `Referral` at several thresholds, without it, and the expert."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import checks as check
from ..agents.base import Agent
from ..agents.composed.referral import Referral
from ..agents.controls import FixedPolicy
from ..checks import Floats
from ..planning.plans import Plan
from ..storage.text import table_of
from ..worlds import World
from .engine import Setup, session_kind
from .run import Session, chosen_seeds, play_all, recorded_episodes, simulate


class _Asked:
    """A function x -> policy as an agent, for the expert on its own."""

    def __init__(self, problem: Any, ask: Callable[[Floats], ArrayLike]) -> None:
        self.problem, self.ask = problem, ask

    def fresh(self, seed: int) -> "_Asked":
        return _Asked(self.problem, self.ask)

    def begin_episode(self, x: Floats) -> Plan:
        self.policy, self.h = self.problem.policy(self.ask(x), "the expert's policy"), 0
        return Plan(self.policy, np.zeros((self.problem.horizon + 1, self.problem.n_states)))

    def act(self, state: int) -> int:
        return int(self.policy[self.h, state])

    def observe(self, reward: float, next_state: int) -> None:
        self.h += 1

    def end_episode(self) -> None:
        pass


@dataclass(frozen=True, repr=False)
class ReferralStudy:
    """Regret, exact and cumulative, against the share of individuals handed over.

    thresholds [T]; episodes [points]; referred, regret [T, seeds, points]: how many were handed over so far, and the
    regret of everybody, the expert's own shortfall included; kept_regret [T, seeds]: the part of those the agent kept;
    certified [T, seeds]: the sum of their certificates (or doubts); alone, expert_alone [seeds, points]: regret of the
    agent without the expert and of the expert without the agent. All with the same individuals and luck.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic(horizon=3)
    >>> oracle = nr.Oracle(world.problem, world.weights, world.reward_weights)
    >>> study = nr.referral_study(nr.CertifiedPSRL(world.problem), oracle, world, 200, thresholds=[2.9], seeds=2)
    >>> study.referred.shape, study.alone.shape
    ((1, 2, 200), (2, 200))
    >>> bool((study.kept_regret <= study.certified).all())  # what the certificates promised of those kept
    True
    >>> bool((study.saved > 15.0).all())
    True
    """

    agent: str
    expert: str
    world: str
    criterion: str
    seeds: tuple[int, ...]
    episodes: NDArray[np.int64]
    thresholds: Floats
    referred: NDArray[np.int64]
    regret: Floats
    kept_regret: Floats
    certified: Floats
    alone: Floats
    expert_alone: Floats

    @property
    def share(self) -> Floats:
        """Share handed over, [T, seeds]."""
        return np.asarray(self.referred[:, :, -1] / self.episodes[-1])

    @property
    def saved(self) -> Floats:
        """Regret that the expert's presence saved, [T, seeds]; negative where it cost."""
        return np.asarray(self.alone[:, -1] - self.regret[:, :, -1])

    def table(self) -> dict[str, Any]:
        """One row a threshold, seed and recorded episode, cumulative."""
        T, n, m = self.regret.shape
        return {
            "agent": [self.agent] * (T * n * m),
            "expert": [self.expert] * (T * n * m),
            "world": [self.world] * (T * n * m),
            "threshold": np.repeat(self.thresholds, n * m),
            "seed": np.tile(np.repeat(self.seeds, m), T),
            "episode": np.tile(self.episodes, T * n),
            "referred": self.referred.ravel(),
            "regret": self.regret.ravel(),
            "regret_alone": np.tile(self.alone.ravel(), T),
            "regret_expert_alone": np.tile(self.expert_alone.ravel(), T),
        }

    def rows(self) -> list[dict[str, str]]:
        """What `str` shows, a row a threshold, means over seeds."""
        late = max(self.episodes.size * 9 // 10 - 1, 0)
        span = max(int(self.episodes[-1] - self.episodes[late]), 1)
        return [
            {
                "threshold": f"{threshold:g}",
                "referred": f"{self.share[i].mean():.1%}",
                "at end": f"{(self.referred[i, :, -1] - self.referred[i, :, late]).mean() / span:.1%}",
                "regret": f"{self.regret[i, :, -1].mean():,.1f}",
                "of those kept": f"{self.kept_regret[i].mean():,.1f}",
                "certified": f"{self.certified[i].mean():,.1f}",
                "agent alone": f"{self.alone[:, -1].mean():,.1f}",
                "expert alone": f"{self.expert_alone[:, -1].mean():,.1f}",
                "saved": f"{self.saved[i].mean():,.1f}",
            }
            for i, threshold in enumerate(self.thresholds)
        ]

    @property
    def about(self) -> str:
        """Who refers to whom, where, how often."""
        size = f"{self.episodes[-1]:,} episodes, seeds: {len(self.seeds)}"
        return f"{self.agent} refers to {self.expert} in {self.world}: {size}"

    def __str__(self) -> str:
        return f"{self.about}\n{table_of(self.rows())}"


def referral_study(
    agent: Agent,
    expert: Any,
    world: World,
    episodes: int,
    thresholds: Sequence[float],
    seeds: int | Iterable[int] = 1,
    *,
    every: int | None = None,
    criterion: str = "certificate",
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> ReferralStudy:
    """Fresh copies of `agent` with `expert` at each threshold, alone, and the expert alone, on the same seeds.

    agent, expert and criterion as for `Referral`; the rest as for `simulate` (every: about 1000 points by default). The
    expert alone is an agent that learns from its own play, where it is an agent that learns.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic(horizon=3)
    >>> oracle = nr.Oracle(world.problem, world.weights, world.reward_weights)
    >>> study = nr.referral_study(nr.CertifiedPSRL(world.problem), oracle, world, 300, thresholds=[0.0, 2.9, 3.0])
    >>> study.share[:, 0].round(1).tolist()  # everybody is handed over, some are, nobody is
    [1.0, 0.9, 0.0]
    >>> bool(study.regret[1, 0, -1] < 0.1 * study.alone[0, -1])
    True
    """
    check.instance("world", world, World, "a noregret.World")
    episodes = check.integer("episodes", episodes)
    every = check.integer("every", every if every is not None else max(episodes // 1000, 1))
    points, chosen = recorded_episodes(episodes, every), chosen_seeds(seeds)
    limits = [check.nonnegative("thresholds", t) for t in np.atleast_1d(np.asarray(thresholds, object))]
    if not limits:
        raise ValueError("thresholds must name at least one threshold")
    pairs = [Referral(agent.fresh(), _fresh(expert), t, criterion) for t in limits]
    if not world.problem.same_shape(agent.problem):
        raise ValueError("agent was made for a problem of another shape than the world's")
    kind, where = session_kind(pairs[0], True), list(np.ndindex(len(limits), len(chosen)))
    shape = len(limits), len(chosen)
    referred, regret = np.zeros((*shape, points.size), np.int64), np.zeros((*shape, points.size))
    kept, certified = np.zeros(shape), np.zeros(shape)

    def begin(i: int, j: int) -> Session:
        return kind(pairs[i].fresh(chosen[j]), Setup(world, chosen[j], episodes))

    def take(job: int, part: Session, seconds: float) -> None:
        at, who, curve = where[job], part.agent.referred, part.meter.curve * world.problem.scale.unit
        regret[at], referred[at] = curve[points - 1], np.cumsum(who)[points - 1]
        kept[at], certified[at] = np.diff(curve, prepend=0.0)[~who].sum(), part.agent.gaps[~who].sum()

    play_all([partial(begin, i, j) for i, j in where], workers, progress, take)
    rest: dict[str, Any] = {"every": every, "workers": workers, "progress": progress}
    one = simulate(agent, world, episodes, chosen, **rest)
    other = simulate(_as_agent(expert, agent), world, episodes, chosen, **rest)
    return ReferralStudy(
        one.label, "the expert" if other.agent == "_Asked" else other.label, world.name, criterion, chosen, points,
        np.array(limits), referred, regret, kept, certified, one.regret, other.regret,
    )  # fmt: skip


def _fresh(expert: Any) -> Any:
    return expert.fresh() if isinstance(expert, Agent) else expert


def _as_agent(expert: Any, agent: Agent) -> Any:
    """The expert as something `simulate` runs."""
    if isinstance(expert, Agent):
        return expert
    return _Asked(agent.problem, expert) if callable(expert) else FixedPolicy(agent.problem, expert)
