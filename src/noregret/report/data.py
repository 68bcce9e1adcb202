"""What a study found, arranged for a report: runs into groups (one agent in one setting), groups into settings.

Reads anything shaped like `studies.Results`: `finished()`, `failed()`, `missing()`, `claims` and words about itself.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..checks import Floats
from . import statistics

LATE = 0.1  # "at the end": over the last tenth of the episodes
ORACLE = "oracle"
SIZES = {"context_dim": "d", "n_states": "S", "n_actions": "A", "horizon": "H", "episodes": "K"}


class Group:
    """One agent in one setting for so many episodes, over seeds.

    runs      by seed
    at        recorded episodes [points], those that all runs have"""

    def __init__(self, label: str, runs: Iterable[Any]) -> None:
        self.label, self.runs = label, sorted(runs, key=lambda run: run.cell.seed)
        self.seeds, self.ids = [run.cell.seed for run in self.runs], [run.id for run in self.runs]
        cell, facts = self.runs[0].cell, self.runs[0].facts
        self.name, self.episodes, self.options = str(facts["agent"]), int(cell.episodes), dict(cell.agent_options)
        self.guarantee: str | None = facts.get("guarantee") or None
        self.delta: float | None = facts.get("delta")
        self.refers = cell.agent == "referral"
        self.on_its_own = not self.refers and self.name != ORACLE  # without an expert and without being told the truth
        self.at = np.asarray(self.runs[0].columns["episode"], dtype=np.int64)
        for run in self.runs[1:]:
            if not np.array_equal(self.at, run.columns["episode"]):
                self.at = np.intersect1d(self.at, run.columns["episode"])

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


class Setting:
    """The groups that met the same worlds for the same number of episodes, in the order of the study. key: for file
    names and anchors; alone: the agents that decide on their own; compared: those that regret is shown of, since agents
    with an expert's help have a part of their own where there are others."""

    def __init__(self, title: str, label: str, episodes: int, groups: Sequence[Group], key: str) -> None:
        self.title, self.label, self.episodes, self.groups, self.key = title, label, episodes, groups, key
        self.first = groups[0].runs[0]
        self.problem: dict[str, Any] = dict(self.first.facts.get("problem") or {})
        low, high = self.problem.get("reward_range", (0.0, 1.0))
        self.largest = float(self.problem.get("H", np.nan)) * (high - low)  # no episode loses more
        self.alone = [g for g in groups if g.on_its_own]
        self.compared = [g for g in groups if not g.refers] if self.alone else list(groups)

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
        groups = [Group(name, runs.values()) for name, runs in agents.items()]
        title = f"{label}, {episodes:,} episodes" if labels.count(label) > 1 else label
        made.append(Setting(title, label, episodes, groups, f"s{i + 1:02d}"))
    return made
