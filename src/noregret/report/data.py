"""What a study found, arranged for a report: runs into groups (one agent in one setting), groups into settings.

Reads anything shaped like `studies.Results`: `finished()`, `failed()`, `missing()`, `claims` and words about itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from . import statistics

LATE = 0.1  # "at the end": over the last tenth of the episodes
ORACLE = "oracle"
SIZES = {"context_dim": "d", "n_states": "S", "n_actions": "A", "horizon": "H", "episodes": "K"}


@dataclass(frozen=True)
class Group:
    """One agent in one setting for so many episodes, over seeds.

    runs      by seed
    at        recorded episodes [points], those that all runs have"""

    setting: str
    label: str
    runs: tuple[Any, ...]
    at: NDArray[np.int64]

    @property
    def name(self) -> str:
        return str(self.runs[0].facts["agent"])

    @property
    def family(self) -> str:
        return str(self.runs[0].facts.get("group", ""))

    @property
    def guarantee(self) -> str | None:
        said = self.runs[0].facts.get("guarantee")
        return str(said) if said else None

    @property
    def delta(self) -> float | None:
        said = self.runs[0].facts.get("delta")
        return None if said is None else float(said)

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.runs[0].cell.agent_options)

    @property
    def refers(self) -> bool:
        return bool(self.runs[0].cell.agent == "referral")

    @property
    def on_its_own(self) -> bool:
        """Decides, without an expert and without being told the truth."""
        return not self.refers and self.name != ORACLE

    @property
    def episodes(self) -> int:
        return int(self.runs[0].cell.episodes)

    @property
    def seeds(self) -> list[int]:
        return [run.cell.seed for run in self.runs]

    @property
    def ids(self) -> list[str]:
        return [run.id for run in self.runs]

    @property
    def speed(self) -> float:
        """Episodes a processor second."""
        seconds = sum(float(run.facts.get("seconds") or 0.0) for run in self.runs)
        return self.episodes * len(self.runs) / seconds if seconds > 0.0 else np.nan

    def has(self, column: str) -> bool:
        return all(column in run.columns for run in self.runs)

    def curve(self, column: str = "regret") -> Floats:
        """A column [seeds, points], at `at`."""
        made = [np.asarray(run.columns[column], dtype=np.float64) for run in self.runs]
        episodes = [np.asarray(run.columns["episode"]) for run in self.runs]
        return np.stack([c[np.searchsorted(e, self.at)] for c, e in zip(made, episodes, strict=True)])

    @cached_property
    def regret(self) -> Floats:
        return self.curve()

    @property
    def final(self) -> Floats:
        """Regret after the last episode [seeds]; rounding below zero is zero."""
        return np.maximum(self.regret[:, -1], 0.0)

    def late(self, column: str = "regret") -> Floats:
        """Growth per episode over the last tenth [seeds]."""
        K, curve = int(self.at[-1]), self.curve(column)
        start = int(np.searchsorted(self.at, (1.0 - LATE) * K, side="right")) - 1
        if start < 0:
            return np.asarray(curve[:, -1] / K)
        return np.asarray((curve[:, -1] - curve[:, start]) / max(K - int(self.at[start]), 1))

    @cached_property
    def growth(self) -> statistics.Exponent:
        return statistics.growth(self.at, self.regret)


@dataclass(frozen=True)
class Setting:
    """The groups that met the same worlds for the same number of episodes, in the order of the study."""

    title: str
    label: str
    episodes: int
    groups: tuple[Group, ...]
    key: str  # for file names and anchors

    @property
    def first(self) -> Any:
        return self.groups[0].runs[0]

    @property
    def problem(self) -> dict[str, Any]:
        return dict(self.first.facts.get("problem") or {})

    @property
    def horizon(self) -> float:
        return float(self.problem.get("H", np.nan))

    @property
    def ids(self) -> list[str]:
        return [i for g in self.groups for i in g.ids]

    @property
    def alone(self) -> list[Group]:
        """The agents that decide on their own."""
        return [g for g in self.groups if g.on_its_own]

    @property
    def compared(self) -> list[Group]:
        """Those that regret is shown of: agents with an expert's help have a part of their own, where there are
        others."""
        return [g for g in self.groups if not g.refers] if self.alone else list(self.groups)

    def sizes(self) -> tuple[int, ...]:
        """context_dim, n_states, n_actions, horizon, episodes."""
        p = self.problem
        return (*(int(p[k]) for k in ("d", "S", "A", "H")), self.episodes)

    def kind(self) -> tuple[str, str]:
        """What does not change along a scaling: the world's name and its other options."""
        options = self.first.cell.world_options
        left = set(SIZES) | (set() if " seed=" in self.label else {"seed"})
        return self.first.cell.world, repr(sorted((k, v) for k, v in options.items() if k not in left))


def settings(finished: Iterable[Any]) -> list[Setting]:
    """Every setting of a study with its groups, in the order of the study; equal runs count once."""
    held: dict[tuple[str, int], dict[str, dict[int, Any]]] = {}
    for run in finished:
        seeds = held.setdefault((run.facts["setting"], run.cell.episodes), {}).setdefault(run.facts["label"], {})
        other = seeds.get(run.cell.seed)
        if other is None or len(other.columns) < len(run.columns):  # the same run, recorded in more detail
            seeds[run.cell.seed] = run
    labels = [label for label, _ in held]
    made: list[Setting] = []
    for i, ((label, episodes), agents) in enumerate(held.items()):
        groups = tuple(_group(label, name, list(runs.values())) for name, runs in agents.items())
        title = f"{label}, {episodes:,} episodes" if labels.count(label) > 1 else label
        made.append(Setting(title, label, episodes, groups, f"s{i + 1:02d}"))
    return made


def _group(setting: str, label: str, runs: Sequence[Any]) -> Group:
    ordered = sorted(runs, key=lambda run: run.cell.seed)
    at = np.asarray(ordered[0].columns["episode"], dtype=np.int64)
    for run in ordered[1:]:
        if not np.array_equal(at, run.columns["episode"]):
            at = np.intersect1d(at, run.columns["episode"])
    return Group(setting, label, tuple(ordered), at)
