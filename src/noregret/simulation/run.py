"""`simulate`, and the result of it."""

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..agents.base import Agent
from ..agents.diagnostics import COLUMNS, IN_UNITS
from ..agents.registry import VERBS
from ..checks import Floats
from ..storage.spreadsheets import write_table
from ..worlds import World
from .bounds import regret_bounds
from .engine import FusedSession, PythonSession, Setup, session_kind

MOST_SEEDS = 1_000_000
Session = FusedSession | PythonSession


@dataclass(frozen=True, repr=False)
class Run:
    """Curves of one agent in one world.

    episodes [points]; regret [seeds, points], cumulative and exact: the sum of V*_x(s_1) - V^pi_x(s_1). `label` names
    the agent with its non-default options and says where a scaled bonus voids the guarantee. diagnostics: name ->
    [seeds, points], cumulative counts (see `agents.diagnostics`), empty unless asked for. bounds: name -> [seeds,
    points], upper bounds on the regret that need no knowledge of the truth (`simulation.bounds`), where the agent has a
    guarantee and diagnostics were asked for. seconds: processor seconds per seed, [seeds]. refuted: of every seed, what
    was seen that contradicts the agent's assumptions (`Agent.refuted`), None where nothing was.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent = nr.LRORL(world.problem)
    >>> run = nr.simulate(agent, world, 200, seeds=2, every=100, diagnostics=True)
    >>> run.final.shape, run.diagnostics["set_failures"][:, -1].tolist()
    ((2,), [0.0, 0.0])
    >>> bool((run.regret <= run.bounds["certificates"]).all())  # known without knowing the truth
    True
    >>> run.table()["episode"].tolist()
    [100, 200, 100, 200]
    """

    agent: str
    label: str
    world: str
    guarantee: str | None
    seeds: tuple[int, ...]
    episodes: NDArray[np.int64]
    regret: Floats
    seconds: Floats
    diagnostics: dict[str, Floats] = field(default_factory=dict)
    bounds: dict[str, Floats] = field(default_factory=dict)
    group: str = ""  # the heading under which tables and figures put the agent
    refuted: tuple[str | None, ...] = ()

    def __repr__(self) -> str:
        size = f"{self.episodes[-1]:,} episodes, seeds {list(self.seeds)}"
        false = sum(said is not None for said in self.refuted)
        size += f", refuted in {false} of {len(self.seeds)}" if false else ""
        if "refused" in self.diagnostics:
            size += f", gate refused {self.diagnostics['refused'][:, -1].mean():,.0f} plans"
        return f"<Run {self.label} in {self.world}: {size}, final regret {self.final.mean():,.1f}>"

    @property
    def final(self) -> Floats:
        """Regret at the end, [seeds]."""
        return self.regret[:, -1]

    @property
    def late(self) -> Floats:
        """Regret per episode over the last tenth, [seeds]."""
        n = self.episodes.size
        back = max(n - max(n // 10, 1), 1) - 1
        if n == 1:
            return np.asarray(self.regret[:, -1] / self.episodes[-1])
        return np.asarray((self.regret[:, -1] - self.regret[:, back]) / (self.episodes[-1] - self.episodes[back]))

    @property
    def speed(self) -> float:
        """Episodes per processor second."""
        return float(self.episodes[-1] * len(self.seeds) / max(self.seconds.sum(), 1e-9))

    def table(self) -> dict[str, Any]:
        """Long format, one row per seed and point: agent, world, seed, episode, regret, diagnostics, bounds."""
        n, m = self.regret.shape
        columns: dict[str, Any] = {
            "agent": [self.label] * (n * m),
            "world": [self.world] * (n * m),
            "seed": np.repeat(self.seeds, m),
            "episode": np.tile(self.episodes, n),
            "regret": self.regret.ravel(),
        }
        more = self.diagnostics | {f"bound_from_{k}": v for k, v in self.bounds.items()}
        return columns | {k: v.ravel() for k, v in more.items()}

    def save(self, path: Any) -> None:
        """Write `table` as Parquet (.parquet) or CSV (.csv), as `save_tables` does."""
        save_tables([self], path)


class Tabular(Protocol):
    def table(self) -> dict[str, Any]: ...


def save_tables(runs: Iterable[Tabular], path: Any) -> None:
    """One .parquet or .csv file for several runs, or referral studies, in long format.

    The rows of each one's `table()`, below each other; what some of them did not record is empty there. In a CSV file
    text that a spreadsheet would take for a formula has an apostrophe before it. The file is written whole or not at
    all.

    >>> import tempfile
    >>> import pyarrow.parquet as pq
    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agents = nr.PSRLGLM(world.problem), nr.UniformRandom(world.problem)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     runs = [nr.simulate(agent, world, 100, every=50) for agent in agents]
    ...     nr.simulation.save_tables(runs, f"{folder}/runs.parquet")
    ...     table = pq.read_table(f"{folder}/runs.parquet")
    >>> table.column_names
    ['agent', 'world', 'seed', 'episode', 'regret']
    >>> table["agent"].to_pylist()
    ['psrl-glm', 'psrl-glm', 'uniform-random', 'uniform-random']
    """
    import pyarrow as pa

    write_table(pa.concat_tables([pa.table(run.table()) for run in runs], promote_options="default"), path)


def recorded_episodes(episodes: int, every: int) -> NDArray[np.int64]:
    """After which episodes a point is recorded: every so many, and the last."""
    if every > episodes:
        raise ValueError(f"every must be at most episodes = {episodes}, got {every}")
    check.memory(f"recording {episodes // every} points (episodes / every)", 16.0 * (episodes // every))
    made = np.arange(every, episodes + every, every)
    made[-1] = episodes
    return made


def chosen_seeds(seeds: int | Iterable[int]) -> tuple[int, ...]:
    """How many seeds, or which, as a tuple."""
    if isinstance(seeds, int | np.integer) or seeds is None:
        return tuple(range(check.integer("seeds", seeds, most=MOST_SEEDS)))
    if isinstance(seeds, str) or not np.iterable(seeds):
        raise ValueError(f"seeds must be how many, or which, got {check.shown(seeds)}")
    made = tuple(check.integer("seeds", s, 0) for s in itertools.islice(seeds, MOST_SEEDS + 1))
    if not 0 < len(made) <= MOST_SEEDS:
        raise ValueError("seeds must name at least one seed" if not made else f"seeds must be at most {MOST_SEEDS:,}")
    return made


def simulate(
    agent: Any,
    world: World,
    episodes: int,
    seeds: int | Iterable[int] = 1,
    *,
    every: int = 1,
    workers: int | None = None,
    diagnostics: bool = False,
    epsilon: float | None = None,
    compiled: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Run:
    """Run fresh copies of `agent` in `world`, one per seed, on all cores.

    seeds         how many (0, 1, ...), or which. A seed decides the individuals, their luck and the agent's own draws;
                  two agents with the same seed meet the same individuals and the same luck
    every         record the regret after every so many episodes, and after the last one (each episode's regret is
                  counted either way)
    workers       threads; default one per core. The result does not depend on it
    diagnostics   also count failures of the confidence sets and of optimism, and add up the widths; where the agent has
                  a guarantee, also bounds on the regret that hold with the agent's probability (`Run.bounds`)
    epsilon       also count mistakes: episodes whose policy is worse than optimal by more than this (diagnostics), and
                  plans that are not certified to be better than that
    compiled      False runs the live verbs episode by episode: slow, the same result
    progress      called with a number of finished episodes, from the worker threads

    Any object with these verbs is an agent: fresh(seed) -> agent, begin_episode(x) -> something with a `policy` [H, S],
    act(state) -> the policy's action, observe(reward, next_state), end_episode(). An agent made for another problem of
    the same shape may be tried, too; its guarantee is then void.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent = nr.PSRLGLM(world.problem)
    >>> run = nr.simulate(agent, world, episodes=300, seeds=[4, 5], every=100)
    >>> run.episodes.tolist(), run.regret.shape
    ([100, 200, 300], (2, 3))
    >>> alone = nr.simulate(agent, world, episodes=300, seeds=[5], workers=1)
    >>> bool(alone.final[0] == run.final[1])  # nothing but the seed decides
    True
    """
    _check_fits(agent, world)
    episodes, every = check.integer("episodes", episodes), check.integer("every", every)
    recorded, chosen = recorded_episodes(episodes, every), chosen_seeds(seeds)
    compiled, diagnostics = check.flag("compiled", compiled), check.flag("diagnostics", diagnostics)
    if progress is not None and not callable(progress):
        raise ValueError(f"progress must be a function of a number of episodes, got {check.shown(progress)}")
    epsilon = None if epsilon is None else check.positive("epsilon", epsilon)
    diagnostics = diagnostics or epsilon is not None
    kind = session_kind(agent, compiled)

    def begin(seed: int) -> Session:
        return kind(agent.fresh(seed), Setup(world, seed, episodes, every, diagnostics, epsilon))

    made = Measured(chosen, recorded, diagnostics)
    play_all([partial(begin, seed) for seed in chosen], workers, progress, made.take)
    return made.run(agent, world, epsilon is not None)


def _check_fits(agent: Any, world: Any) -> None:
    check.instance("world", world, World, "a noregret.World")
    if isinstance(agent, type) or not all(hasattr(agent, verb) for verb in VERBS):
        raise ValueError(f"agent must be an object with {', '.join(VERBS)}, got {check.shown(agent)}")
    own = getattr(agent, "problem", world.problem)
    if own.reward_range != world.problem.reward_range:
        raise ValueError(
            f"agent must be made for the world's reward_range {world.problem.reward_range}, got {own.reward_range}"
        )
    if own is not world.problem and not world.problem.same_shape(own):
        raise ValueError("agent was made for a problem of another shape than the world's")


def play_all(
    begin: Sequence[Callable[[], Session]], workers: int | None, progress: Callable[[int], None] | None,
    take: Callable[[int, Session, float], None],
) -> None:  # fmt: skip
    """Begin every session and play it to its end, on so many threads (None: one per core), then `take(i, session,
    processor seconds)`, which is called from the threads."""
    threads = check.integer("workers", workers if workers is not None else os.cpu_count() or 1)
    first, stop = [begin[0]()], threading.Event()
    first[0].prepare()  # compiles, once

    def play(i: int) -> None:
        # Agent, truth and scratch of a seed live only as long as it runs: memory does not grow with the seeds.
        part, seconds = first.pop() if i == 0 else begin[i](), 0.0
        if i > 0:
            part.prepare()
        try:
            while part.done < part.episodes and not stop.is_set():
                start = time.thread_time()
                done = part.advance()
                seconds += time.thread_time() - start
                if progress is not None:
                    progress(done)
        except BaseException:
            stop.set()  # one seed's mistake ends the others after their chunk
            raise
        if part.done == part.episodes:
            take(i, part, seconds)

    with ThreadPoolExecutor(min(threads, len(begin))) as pool:
        try:
            list(pool.map(play, range(len(begin))))
        except BaseException:  # Ctrl-C
            stop.set()
            raise


class Measured:
    """What sessions of one agent in one world measured, a row per seed: episodes [points], regret [seeds, points],
    seconds [seeds], tallies [seeds, points, columns] or None, refuted [seeds]."""

    def __init__(self, seeds: tuple[int, ...], episodes: NDArray[np.int64], diagnostics: bool) -> None:
        n, points = len(seeds), episodes.size
        self.seeds, self.episodes, self.regret, self.seconds = seeds, episodes, np.zeros((n, points)), np.zeros(n)
        self.tallies = np.zeros((n, points, len(COLUMNS))) if diagnostics else None
        self.refuted: list[str | None] = [None] * n

    def take(self, i: int, session: Session, seconds: float) -> None:
        """Row i, from a session that has ended."""
        unit = session.world.problem.scale.unit
        self.regret[i], self.seconds[i] = session.meter.curve * unit, seconds
        self.refuted[i] = getattr(session.agent, "refuted", None)
        if self.tallies is not None:
            self.tallies[i] = session.meter.tallies
            self.tallies[i][:, IN_UNITS] *= unit

    def run(self, agent: Any, world: World, mistakes: bool) -> Run:
        """All of it; mistakes: whether they were counted."""
        counts = {}
        if self.tallies is not None:
            shown = agent.watch_columns
            if mistakes:
                shown = shown | {"mistakes"} | ({"uncertified"} if "certificate" in shown else set())
            counts = {name: self.tallies[:, :, i] for i, name in enumerate(COLUMNS) if name in shown}
        sound = _assumptions_hold(agent, world)
        label = getattr(agent, "label", type(agent).__name__)
        return Run(
            agent=getattr(agent, "name", type(agent).__name__),
            label=label if sound else f"{label} (other assumptions than the world's)",
            world=world.name,
            guarantee=getattr(agent, "guarantee", None) if sound else None,
            seeds=self.seeds,
            episodes=self.episodes,
            regret=self.regret,
            seconds=self.seconds,
            diagnostics=counts,
            bounds=regret_bounds(agent, counts, self.episodes) if sound else {},
            group=getattr(agent, "group", "other"),
            refuted=tuple(self.refuted),
        )


def _assumptions_hold(agent: Any, world: World) -> bool:
    """Whether what an agent was told holds in the world; of an agent that wraps another, what that one was told."""
    while isinstance(agent, Agent) and "agent" in agent.parts():
        agent = agent.parts()["agent"]
    assumed, true = getattr(agent, "problem", world.problem), world.problem
    bounds = ("context_bound", "weight_bound", "reward_bound")
    wide = all(getattr(assumed, b) >= getattr(true, b) for b in bounds)
    same_link = type(assumed.link) is type(true.link) and assumed.link.name == true.link.name
    group = getattr(agent, "options", {}).get("group_bound")
    told: Any = assumed.known_rewards
    met = true.layout.available
    return (
        wide
        and same_link
        and set(true.starts.tolist()) <= set(assumed.starts.tolist())
        and assumed.rewards == true.rewards
        and (told is None or np.array_equal(told[met], world.reward_weights[met]))
        and (group is None or world.group_norm() <= group * (1.0 + 1e-9))
    )
