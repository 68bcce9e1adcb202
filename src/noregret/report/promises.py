"""The parts of a report about what was promised: bounds on the regret, certificates, and whether they held."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..problem.links import LinearCombination, MultinomialLogit
from ..problem.problem import Problem
from . import figures, statistics
from .blocks import Folded, Heading, Row, Section, Shown, Table
from .compared import BAND, MANY
from .data import Group, Setting
from .drawing import Drawing, Look
from .figures import CORRECTED, LOWER, PRINTED
from .texts import NONE, counted, number

_CLAIMS = {  # agent's name -> names in `noregret.claims` of the corrected and the printed bound
    "glm-orl": ("regret of GLM-ORL", "regret of GLM-ORL"),
    "glm-rlsvi": ("E regret of GLM-RLSVI", "order for GLM-RLSVI"),
}
Prior = dict[str, tuple[Any, Any]]


def problem_of(place: Setting) -> Problem | None:
    """The problem of a setting, masks included: from the world itself; else from the sizes and bounds noted with its
    runs; None where its link is somebody's own."""
    cell, facts = place.first.cell, place.problem
    try:
        found: Problem = _world(cell).problem
        sizes = (found.n_states, found.n_actions, found.horizon, found.context_dim)
        if sizes == tuple(facts.get(k) for k in ("S", "A", "H", "d")):
            return found
    except ValueError:  # a world by another name, or with other options, than this version knows
        pass
    link = {"logit": MultinomialLogit, "linear": LinearCombination}.get(str(facts.get("link")))
    limits: dict[str, Any] = {k: facts.get(k) for k in ("weight_bound", "context_bound", "reward_bound")}
    if link is None or None in limits.values():
        return None
    limits["reward_range"] = facts.get("reward_range", (0.0, 1.0))
    return Problem(facts["S"], facts["A"], facts["H"], facts["d"], link(), **limits)


def _world(cell: Any) -> Any:
    if hasattr(cell, "make_world"):
        return cell.make_world()
    from ..worlds import make_world

    return make_world(cell.world, **cell.world_options)


def prior(place: Setting, problem: Problem | None, points: int) -> dict[str, Prior]:
    """Label -> bounds known before the first episode, as functions of K (at so many), for agents that have one and keep
    its constants."""
    from ..verification.claims import claims

    found: dict[str, Prior] = {}
    made: dict[float, list[Any]] = {}
    first = max(int(place.groups[0].at[0]), 1)
    at = np.unique(np.geomspace(first, place.episodes, points).astype(np.int64)) if points > 1 else [place.episodes]
    for g in place.compared:
        if (
            problem is None
            or not problem.scale.plain
            or g.name not in _CLAIMS
            or g.options.get("bonus_scale", 1.0) != 1.0
        ):
            continue
        delta, (corrected, printed) = g.delta or 0.05, _CLAIMS[g.name]
        if delta not in made:
            made[delta] = [claims(problem, int(k), delta) for k in at]
        curves: Prior = {}
        if g.guarantee:
            curves[CORRECTED] = at, np.array([c[corrected].corrected for c in made[delta]], dtype=float)
        curves[PRINTED] = at, np.array([c[printed].printed for c in made[delta]], dtype=float)
        if _hard(place):
            curves[LOWER] = at, np.array([c["H sqrt(d S A K)"].printed for c in made[delta]], dtype=float)
        found[g.label] = {name: curve for name, curve in curves.items() if np.isfinite(curve[1]).all()}
    return found


class _Telling:
    """A section with a figure and a table for each setting; where these are many, one table of all."""

    def __init__(self, section: Section, places: Sequence[Setting], folder: Path, title: str) -> None:
        self.section, self.places, self.folder, self.title = section, places, folder, title
        self.many, self.rows = len(places) > MANY, list[Row]()

    def add(
        self, place: Setting, shown: Sequence[Group], row: Callable[[Group], dict[str, str]], looks: Mapping[str, Look],
        draw: Callable[[], Drawing], caption: str,
    ) -> None:  # fmt: skip
        """The agents `shown` of a setting: what `row` says of each, and the figure."""
        where = {"setting": place.title} if self.many else {}
        rows = [Row({"agent": g.label} | where | row(g), g.ids, looks[g.label]) for g in shown]
        if self.many or not rows:
            self.rows += rows
            return
        key, blocks = f"{self.section.key}-{place.key}", self.section.blocks
        if len(self.places) > 1:
            blocks.append(Heading(place.title, key))
        blocks.append(Shown(draw().save(self.folder, key), caption, [i for g in shown for i in g.ids]))
        blocks.append(Table(f"{place.title}: {self.title}", rows, _notes(rows)))

    def told(self) -> Section | None:
        """The section, with the table of all settings, folded where it is long; None where there is nothing in it."""
        if self.rows:
            table = Table(self.title[0].upper() + self.title[1:], self.rows, _notes(self.rows))
            long = Folded(f"{table.caption}: {len(table.rows)} rows", [table])
            self.section.blocks.append(table if len(table.rows) <= 30 else long)
        return self.section if self.section.blocks else None


def bounds(places: Sequence[Setting], looks: Mapping[str, Look], folder: Path) -> Section | None:
    """Regret beside every bound on it."""
    section = Section("bounds", "Regret and bounds on it")
    made = _Telling(section, places, folder, "regret and bounds after the last episode")
    for place in places:
        known = prior(place, problem_of(place), 1 if made.many else 14)
        shown = [g for g in place.compared if g.label in known or any(g.has(c) for c in figures.BOUNDS)]
        note = " The order of the lower bound has no proved constant." if _hard(place) else ""
        caption = f"Regret and bounds in {place.title}, a panel an agent, both axes logarithmic. {BAND}{note}"
        draw = partial(figures.bounds, place, shown, known)
        made.add(place, shown, partial(_bounded, place, known), looks, draw, caption)
    return made.told()


def _notes(rows: Sequence[Row]) -> list[str]:
    """Of a table of bounds."""
    if "H K" not in rows[0].entries:
        return []
    notes = ["In brackets: the bound over the regret. Means over seeds."]
    if any("!" in entry for row in rows for entry in row.entries.values()):
        notes.append("! below the regret in some run: the bound did not hold there.")
    return notes


def _hard(place: Setting) -> bool:
    return bool(place.first.cell.world.startswith("hard-"))


def _bounded(place: Setting, known: Mapping[str, Prior], g: Group) -> dict[str, str]:
    regret, most, prior = float(g.final.mean()), place.largest * place.episodes, known.get(g.label, {})

    def entry(value: float, broken: bool = False) -> str:
        times = f"\n(x{number(value / regret, 2, 1e4)})" if regret > 0.0 else ""
        return number(value, most=1e6) + times + (" !" if broken else "")

    entries = {"regret": number(regret)}
    for column, (name, _) in figures.BOUNDS.items():
        curve = g.curve(column) if g.has(column) else None
        entries[name] = NONE if curve is None else entry(curve[:, -1].mean(), bool((g.regret > curve + 1e-6).any()))
    for name, key in (("corrected", CORRECTED), ("as printed", PRINTED)):
        entries[f"beforehand, {name}"] = entry(float(prior[key][1][-1])) if key in prior else NONE
    return entries | {"H K": number(most)}


def certificates(places: Sequence[Setting], looks: Mapping[str, Look], folder: Path) -> Section | None:
    """Certificates and sets: how sharp, and how often wrong."""
    made = _Telling(Section("certificates", "Certificates and sets"), places, folder, "did they hold?")
    for place in places:
        shown = [g for g in place.compared if g.has("certificate_failures") or g.has("set_failures")]
        draw = partial(figures.certificates, place, shown, looks)
        caption = f"Certificates and sets in {place.title}, logarithmic axes. {BAND}"
        made.add(place, shown, _held, looks, draw, caption)
    return made.told()


def failures(g: Group, column: str) -> tuple[int, int, int, int] | None:
    """(episodes that failed, episodes, runs with a failure, runs), or None where it was not recorded."""
    if not g.has(column):
        return None
    last = g.curve(column)[:, -1]
    return round(float(last.sum())), g.episodes * last.size, int((last > 0.5).sum()), last.size


def _held(g: Group) -> dict[str, str]:
    found = {column: failures(g, column) for column in figures.FAILURES}
    counts = found["certificate_failures"] or found["set_failures"]
    assert counts is not None
    _, episodes, bad, runs = counts
    told = {column: NONE if count is None else f"{count[0]:,}" for column, count in found.items()}
    return {
        "certificate at end": number(g.late("certificate").mean()) if g.has("certificate") else NONE,
        "plans refused": f"{round(float(g.curve('refused')[:, -1].sum())):,}" if g.has("refused") else NONE,
        "episodes": f"{episodes:,}",
        "certificates wrong": told["certificate_failures"],
        "sets missed": told["set_failures"],
        "optimism failed": told["optimism_failures"],
        "runs with a failure": f"{bad} of {runs}",
        "upper limit": number(statistics.binomial_upper(bad, runs), 2),
        "delta": NONE if g.delta is None or not g.guarantee else f"{g.delta:g}",
    }


def broken(places: Sequence[Setting]) -> list[str]:
    """A sentence for each kind of promise that was recorded: how often it was broken, of how many."""
    said = []
    for column, name in (("certificate_failures", "certificate"), ("set_failures", "confidence set")):
        found = [f for place in places for g in place.groups if g.guarantee and (f := failures(g, column)) is not None]
        if not found:
            continue
        episodes, total, bad, runs = (sum(f[i] for f in found) for i in range(4))
        verb = "was wrong" if column == "certificate_failures" else "missed the truth"
        said.append(
            f"Of the agents with a guarantee, a {name} {verb} in {episodes:,} of {counted(total, 'episode')}, in "
            f"{bad} of {counted(runs, 'run')}."
        )
    return said
