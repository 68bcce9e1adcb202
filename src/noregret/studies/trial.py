"""What to expect of a programme before its first person: by simulation in worlds that might be its own. Not proved."""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..agents.base import Agent
from ..checks import Floats
from ..simulation.catalogue import RULE, named_agent
from ..simulation.run import simulate
from ..storage.text import table_of
from ..worlds import World, world_maker
from .closing import RUNGS, closing
from .engines import Engine
from .engines.local import LocalEngine
from .results import Results
from .running import Watcher
from .running import run as run_study
from .study import Study

POINTS = 400  # recorded per run
WINDOW = 0.2  # a share is that of the last so many of the people so far
LABEL = "expected, not proved"
SHOWN = (1, 2, 5)  # rows of the table: these times powers of ten, and the last
NO_CERTIFICATES = "agent must be one whose plans have certificates, such as certified-psrl or lr-orl"
_PREDICTED = "certificates at most {:g} for {:.0%} of the people: "


@dataclass(frozen=True, repr=False, eq=False)
class TrialPlan:
    """What `plan_trial` found: one row per replication, each in a world of its own.

    agent, worlds      who was simulated where, in words
    threshold, share   a person is certified where the certificate of their plan is at most `threshold`; the trial aims
                       at this share of them
    people [points]    after how many people the curves are read
    certified          [n, points]: share of certified people among the last fifth of those so far
    regret, rule_regret   [n, points]: sums so far, of the agent and of the rule; the second None without a rule
    closings           [n] tables by rung, "proved", "asymptotic", "believed": (lower, upper) of the interval for the
                       mean gain over the rule at the end, and "true": the gain itself. Empty without a rule

    >>> import noregret as nr
    >>> world = nr.worlds.clinic(horizon=3)
    >>> plan = nr.plan_trial(world, "lr-orl", people=2_000, threshold=2.0, share=0.8, replications=2)
    >>> plan.certified.shape, bool((plan.needed > 100).all())
    ((2, 400), True)
    """

    agent: str
    worlds: tuple[str, ...]
    threshold: float
    share: float
    people: NDArray[np.int64]
    certified: Floats
    regret: Floats
    rule_regret: Floats | None = None
    closings: tuple[dict[str, Any], ...] = field(default=())
    command: str = ""

    @property
    def needed(self) -> Floats:
        """[n]: people until the share is reached and kept to the end; inf: not within `people`."""
        return np.array([_crossing(self.people, row, self.share) for row in self.certified])

    @property
    def expected(self) -> float:
        """The number to plan with: the median of `needed` over the replications; inf: more than were simulated."""
        return float(np.median(self.needed))

    @property
    def referred(self) -> Floats:
        """[n, points]: the share that a `Referral` at this threshold would hand to an expert."""
        return np.asarray(1.0 - self.certified)

    @property
    def gain(self) -> Floats | None:
        """[n, points]: mean gain per person over the rule, of all people so far."""
        return None if self.rule_regret is None else np.asarray((self.rule_regret - self.regret) / self.people)

    def chance(self, rung: str) -> float | None:
        """The share of replications in which the interval of that rung excludes a gain of 0 at the end, from above;
        None where no replication has such an interval."""
        check.one_of("rung", rung, RUNGS)
        found = [c[rung] for c in self.closings if c.get(rung) is not None]
        return float(np.mean([low > 0.0 for low, _ in found])) if found else None

    def sentences(self) -> list[str]:
        """What to tell those who decide."""
        needed, last = self.needed, f"{self.people[-1]:,}"
        about = _PREDICTED.format(self.threshold, self.share)
        if math.isinf(self.expected):
            reached = int(np.isfinite(needed).sum())
            made = [f"{about}more than {last} people ({reached} of {len(needed)} replications got there)"]
        else:
            low, high = _range(needed)
            made = [f"{about}after about {_rounded(self.expected):,} people ({low} to {high} in {len(needed)} worlds)"]
        at_end = self.referred[:, -1].mean()
        made.append(f"at the end, after {last} people, {at_end:.0%} are not certified and would be referred")
        gain = self.gain
        if gain is not None:
            made.append(f"mean gain over the rule, all people: {gain[:, -1].mean():+.3g} ({_span(gain[:, -1])})")
        chances = [f"{rung} {c:.0%}" for rung in RUNGS if (c := self.chance(rung)) is not None]
        if chances:
            made.append(f"chance to show at the end that the gain is above 0, by rung: {', '.join(chances)}")
        return made

    def rows(self) -> list[dict[str, str]]:
        """The table that `str` shows: means over replications, and their range."""
        made, gain = [], self.gain
        for i in _shown(self.people):
            row = {
                "people": f"{self.people[i]:,}",
                "certified": f"{self.certified[:, i].mean():.0%}",
                "range": f"{self.certified[:, i].min():.0%}-{self.certified[:, i].max():.0%}",
                "regret": f"{self.regret[:, i].mean():,.0f}",
                "per person": f"{self.regret[:, i].mean() / self.people[i]:.3g}",
            }
            if gain is not None:
                row |= {"gain over rule": f"{gain[:, i].mean():+.3g}", "gain range": _span(gain[:, i])}
            made.append(row)
        return made

    def table(self) -> dict[str, Any]:
        """One row per replication and point."""
        n, m = self.certified.shape
        made: dict[str, Any] = {
            "replication": np.repeat(np.arange(n), m), "people": np.tile(self.people, n),
            "certified": self.certified.ravel(), "regret": self.regret.ravel(),
        }  # fmt: skip
        return made if self.gain is None else made | {"gain_over_rule": self.gain.ravel()}

    @property
    def about(self) -> str:
        """Who, where, how often."""
        where = self.worlds[0] if len(self.worlds) == 1 else f"{len(self.worlds)} kinds of worlds"
        return f"{self.agent} in {where}: {self.people[-1]:,} people, {len(self.certified)} replications, {LABEL}"

    def __str__(self) -> str:
        return "\n".join([self.about, *self.sentences(), "", table_of(self.rows())])

    __repr__ = __str__


def plan_trial(
    worlds: Any,
    agent: Any = "certified-psrl",
    *,
    people: int,
    threshold: float,
    share: float = 0.9,
    replications: int = 10,
    folder: Any = None,
    workers: int | None = None,
    engine: Engine | None = None,
    watcher: Watcher | None = None,
) -> TrialPlan:
    """How many people a programme needs, and what it can expect: expected, not proved.

    worlds        where the programme might take place: a world's name or table as in study files ("programme", or
                  {"name": "programme", "misfit": 0.5}), a `World`, or a list of these. A named
                  world that takes a seed is drawn anew in every replication. What a pilot suggests: [agent.world(log,
                  draw=i, rule=rule) for i in range(10)], drawn from the posterior of an agent that has learned it
    agent         its name or table likewise; with `World`s also an agent
    people        how many come in each replication
    replications  runs in each named world; of `World`s, in all of them together, in turn
    threshold     certificates at most this are good enough, in units of reward
    share         of the people whose certificate should be
    folder        where to keep what is done, so that the same call goes on after an interruption (named worlds only)
    workers       processes (folder), or threads; default one per core. The result does not depend on it

    Where the world has a rule, it is simulated beside the agent, on the same people, and at the end of each replication
    the gain over it is estimated from what was seen, by three rungs (`TrialPlan.closings`).

    Caveat: the truth decides. Worlds that are unlike the programme predict nothing about it.

    >>> import noregret as nr
    >>> plan = nr.plan_trial("clinic", "lr-orl", people=4_000, threshold=3.0, share=0.5, replications=2)
    >>> bool(1_000 < plan.expected < 3_000), plan.rule_regret is None
    (True, True)
    """
    K, n = check.integer("people", people, 10), check.integer("replications", replications)
    limit, part = check.positive("threshold", threshold), check.fraction("share", share)
    given = list(worlds) if isinstance(worlds, Sequence) and not isinstance(worlds, str) else [worlds]
    if not given:
        raise ValueError("worlds must name at least one world")
    if all(isinstance(w, World) for w in given):
        if folder is not None:
            raise ValueError("folder needs worlds by name or table: a world that is an object cannot be written down")
        return _in_memory(given, agent, (K, n, limit, part), workers)
    places = [_table(w, "worlds") for w in given]
    table: dict[str, Any] = {
        "name": "trial", "episodes": K, "seeds": n, "points": POINTS, "diagnostics": True, "epsilon": limit,
        "unfit": "skip", "closing": True, "worlds": [_drawn_anew(place) for place in places],
        "agents": [_table(agent, "agent"), {"name": RULE}],
    }  # fmt: skip
    study = Study.model_validate(table)
    study.rehearse()
    return _run(study, folder, workers, part, engine, watcher)


def _table(given: Any, name: str) -> dict[str, Any]:
    if isinstance(given, str):
        return {"name": given}
    if isinstance(given, Mapping) and isinstance(given.get("name"), str):
        return dict(given)
    raise ValueError(f"{name} must be a name or a table with one, got {check.shown(given)}")


def _drawn_anew(place: dict[str, Any]) -> dict[str, Any]:
    """The table of a world, drawn from the run's seed where it takes one and is told none."""
    takes = "seed" in inspect.signature(world_maker(place["name"])).parameters
    return place | {"seed": "run"} if takes and "seed" not in place else place


def _run(
    study: Study, folder: Any, workers: int | None, share: float, engine: Engine | None, watcher: Watcher | None
) -> TrialPlan:
    """The plan from the cells of a study, those that are missing run first."""
    with TemporaryDirectory() as scratch:
        where = Path(scratch if folder is None else folder)
        chosen = engine if engine is not None else LocalEngine(workers)
        results = run_study(study, where, chosen, watcher=watcher)
        failed = results.failed()
        if failed:
            raise RuntimeError(f"{failed[0].cell.describe()} failed: {failed[0].message}")
        return plan_of(results, share)


def plan_of(results: Results, share: float) -> TrialPlan:
    """The plan in the folder of a trial, all of whose cells are done."""
    cells = results.finished()
    own = [c for c in cells if c.cell.agent != RULE]
    rules = {(c.cell.world, repr(c.cell.world_options), c.cell.seed): c for c in cells if c.cell.agent == RULE}
    beside = [rules.get((c.cell.world, repr(c.cell.world_options), c.cell.seed)) for c in own]
    if not own or "uncertified" not in own[0].columns:
        raise ValueError(NO_CERTIFICATES)
    people = own[0].columns["episode"]
    known = all(c is not None for c in beside)
    return TrialPlan(
        str(own[0].facts["label"]), tuple(dict.fromkeys(str(c.facts["setting"]) for c in own)),
        float(own[0].cell.epsilon or 0.0), share, people,
        np.array([recent_share(people, c.columns["uncertified"]) for c in own]),
        np.array([c.columns["regret"] for c in own]),
        np.array([c.columns["regret"] for c in beside if c is not None]) if known else None,
        tuple(c.facts["closing"] for c in own if c.facts.get("closing")),
    )  # fmt: skip


def _in_memory(worlds: list[World], agent: Any, sizes: tuple[int, int, float, float], workers: int | None) -> TrialPlan:
    """Likewise in worlds that are objects: replication i is in world i modulo their number."""
    K, n, limit, share = sizes
    every = -(-K // POINTS)
    certified, regret, rules, closings, label = [], [], [], [], ""
    for i in range(n):
        world = worlds[i % len(worlds)]
        player = agent if isinstance(agent, Agent) else _named(_table(agent, "agent"), world)
        run = simulate(player, world, K, [i], every=every, diagnostics=True, epsilon=limit, workers=workers)
        if "uncertified" not in run.diagnostics:
            raise ValueError(NO_CERTIFICATES)
        label = run.label
        certified.append(recent_share(run.episodes, run.diagnostics["uncertified"][0]))
        regret.append(run.regret[0])
        if world.rule is not None:
            rules.append(simulate(_named({"name": RULE}, world), world, K, [i], every=every, workers=workers).regret[0])
            closings.append(closing(player, world, K, i))
    known = len(rules) == n
    names = tuple(dict.fromkeys(w.name for w in worlds))
    return TrialPlan(
        label, names, limit, share, run.episodes, np.array(certified), np.array(regret),
        np.array(rules) if known else None, tuple(c for c in closings if c),
    )  # fmt: skip


def _named(table: dict[str, Any], world: World) -> Any:
    rest = dict(table)
    return named_agent(rest.pop("name"), rest, world)


def recent_share(people: NDArray[Any], uncertified: Floats) -> Floats:
    """[points]: share of certified people among the last fifth of those so far, from running counts [points]."""
    before, count = np.concatenate([[0], people]), np.concatenate([[0.0], uncertified])
    end = np.arange(1, len(before))
    begin = np.minimum(np.searchsorted(before, (1.0 - WINDOW) * people), end - 1)
    return np.asarray(1.0 - (count[end] - count[begin]) / (before[end] - before[begin]))


def _crossing(people: NDArray[Any], share: Floats, wanted: float) -> float:
    """From how many people on the share is kept to the end, between points in logarithms; inf: it is not."""
    below = np.flatnonzero(share < wanted)
    if below.size == 0:
        return float(people[0])
    i = int(below[-1])
    if i == len(people) - 1:
        return math.inf
    (a, b), ends = share[[i, i + 1]], np.log(people[[i, i + 1]])
    return float(math.exp(ends[0] + (wanted - a) / (b - a) * (ends[1] - ends[0])))


def _shown(people: NDArray[Any]) -> list[int]:
    """Points of the table."""
    last = int(people[-1])
    wanted = [k * 10**e for e in range(1, 10) for k in SHOWN if 20 * people[0] <= k * 10**e < last]
    return sorted({int(np.abs(people - k).argmin()) for k in [*wanted, last]})


def _rounded(value: float) -> int:
    """Two digits: more would be pretence."""
    digits = max(math.floor(math.log10(value)) - 1, 0)
    return int(round(value / 10**digits) * 10**digits)


def _range(needed: Floats) -> tuple[str, str]:
    low, high = float(needed.min()), float(needed.max())
    return f"{_rounded(low):,}", "more than simulated" if math.isinf(high) else f"{_rounded(high):,}"


def _span(values: Floats) -> str:
    return f"{values.min():+.3g} to {values.max():+.3g}"
