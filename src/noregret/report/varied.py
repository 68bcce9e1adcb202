"""What a study varies while all else stays: one size of the problem at a time, or the threshold of a referral."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from .data import SIZES, Group, Setting


class Axis(NamedTuple):
    """Settings that differ in one size only: variable "n_states" etc., values ascending, one setting each."""

    variable: str
    values: tuple[int, ...]
    settings: tuple[Setting, ...]

    @property
    def labels(self) -> list[str]:
        """Agents that met every size."""
        every = [{g.label for g in s.groups if g.on_its_own} for s in self.settings]
        return [g.label for g in self.settings[0].groups if g.label in set.intersection(*every)]

    def groups(self, label: str) -> list[Group]:
        return [g for s in self.settings for g in s.groups if g.label == label]


class Scaling(NamedTuple):
    """One world made larger along several axes, from a base that they share."""

    world: str
    base: dict[str, int]
    axes: tuple[Axis, ...]

    @property
    def ids(self) -> list[str]:
        return list(dict.fromkeys(i for a in self.axes for n in a.labels for g in a.groups(n) for i in g.ids))


def scalings(places: Sequence[Setting]) -> list[Scaling]:
    """Where sizes vary one at a time around a base: the base that most settings differ from in one size at most (of
    several the smallest, with the most episodes)."""
    kinds: dict[tuple[str, str], dict[tuple[int, ...], Setting]] = {}
    for place in places:
        if place.problem:
            kinds.setdefault(place.kind(), {}).setdefault(place.sizes(), place)
    made: list[Scaling] = []
    names = list(SIZES)
    for (world, _), of in kinds.items():
        base = max(sorted(of, key=lambda v: (v[:-1], -v[-1])), key=lambda b: sum(_apart(b, v) <= 1 for v in of))
        axes = []
        for i, name in enumerate(names):
            along = sorted(v for v in of if all(v[j] == base[j] for j in range(len(names)) if j != i))
            if len(along) > 1:
                axis = Axis(name, tuple(v[i] for v in along), tuple(of[v] for v in along))
                if axis.labels:
                    axes.append(axis)
        if axes:
            made.append(Scaling(world, dict(zip(names, base, strict=True)), tuple(axes)))
    return made


def _apart(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))


class Referrals(NamedTuple):
    """One agent and one expert at several thresholds in one setting; alone and expert where the study has them."""

    setting: Setting
    agent: str
    expert: str
    criterion: str
    thresholds: tuple[float, ...]
    groups: tuple[Group, ...]
    alone: Group | None
    expert_alone: Group | None

    @property
    def ids(self) -> list[str]:
        return [i for g in (*self.groups, self.alone, self.expert_alone) if g is not None for i in g.ids]


def referrals(places: Sequence[Setting]) -> list[Referrals]:
    made: list[Referrals] = []
    for place in places:
        teams: dict[str, list[Group]] = {}
        for g in place.groups:
            if g.refers and g.has("referred"):
                options = g.options
                key = repr([options.get(k) for k in ("agent", "expert", "criterion")])
                teams.setdefault(key, []).append(g)
        for groups in teams.values():
            groups.sort(key=lambda g: float(g.options["threshold"]))
            options = groups[0].options
            agent, expert = options["agent"], options["expert"]
            made.append(
                Referrals(
                    place,
                    *_told(groups[0]),
                    str(options.get("criterion", "certificate")),
                    tuple(float(g.options["threshold"]) for g in groups),
                    tuple(groups),
                    _same(place, agent),
                    _same(place, expert),
                )
            )
    return made


def _told(group: Group) -> tuple[str, str]:
    """Agent and expert with their options, as the label has them; else their names."""
    found = re.fullmatch(r"(.*), refers to (.*) above \S+.*", group.label)
    options = group.options
    return (found[1], found[2]) if found else (str(options["agent"]["name"]), str(options["expert"]["name"]))


def _same(place: Setting, part: dict[str, Any]) -> Group | None:
    """The group whose agent is `part` on its own."""
    for g in place.groups:
        cell = g.runs[0].cell
        if cell.agent == part["name"] and all(cell.agent_options.get(k) == v for k, v in part.items() if k != "name"):
            return g
    return None
