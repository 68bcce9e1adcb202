"""The parts of a report about what was promised: bounds on the regret, certificates, and whether they held."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..problem.links import LinearCombination, MultinomialLogit
from ..problem.problem import Problem
from . import figures, statistics
from .blocks import Column, Folded, Heading, Row, Section, Shown, Table, Text, counted, number
from .compared import BAND, MANY
from .data import Group, Setting
from .drawing import Look
from .figures import CORRECTED, LOWER, PRINTED

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
    return Problem(facts["S"], facts["A"], facts["H"], facts["d"], link(), **limits)


def _world(cell: Any) -> Any:
    if hasattr(cell, "make_world"):
        return cell.make_world()
    from ..worlds import make_world

    return make_world(cell.world, **cell.world_options)


def prior(place: Setting, problem: Problem | None, points: int) -> dict[str, Prior]:
    """Label -> bounds known before the first episode, as functions of K (at so many), for agents that have one and keep
    its constants."""
    from ..simulation.claims import claims

    found: dict[str, Prior] = {}
    made: dict[float, list[Any]] = {}
    first = max(int(place.groups[0].at[0]), 1)
    at = np.unique(np.geomspace(first, place.episodes, points).astype(np.int64)) if points > 1 else [place.episodes]
    for g in place.compared:
        if problem is None or g.name not in _CLAIMS or g.options.get("bonus_scale", 1.0) != 1.0:
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


def bounds(places: Sequence[Setting], looks: Mapping[str, Look], folder: Path) -> Section | None:
    """Regret beside every bound on it."""
    made = Section("bounds", "Regret and bounds on it")
    made.blocks.append(
        Text(
            "Bounds computed from what an agent saw hold with its probability for all episodes at once. Bounds known "
            "beforehand are worst cases over everything the assumptions allow, and often above H K, the most that can "
            "be lost: they then say nothing yet."
        )
    )
    together: list[Row] = []
    for place in places:
        known = prior(place, problem_of(place), 1 if len(places) > MANY else 14)
        shown = [g for g in place.compared if g.label in known or any(g.has(c) for c in figures.BOUNDS)]
        if not shown:
            continue
        rows = [_bounded(place, g, known.get(g.label, {}), looks, len(places) > MANY) for g in shown]
        if len(places) > MANY:
            together += rows
            continue
        if len(places) > 1:
            made.blocks.append(Heading(place.title, f"bounds-{place.key}"))
        picture = figures.bounds(place, shown, known).save(folder, f"bounds-{place.key}")
        note = " The order of the lower bound has no proved constant." if _hard(place) else ""
        caption = f"Regret and bounds in {place.title}, a panel an agent, both axes logarithmic. {BAND}{note}"
        made.blocks.append(Shown(picture, caption, [i for g in shown for i in g.ids]))
        made.blocks.append(_bounds_table(f"{place.title}: regret and bounds after the last episode", rows, False))
    if together:
        made.blocks.append(_folded(_bounds_table("Regret and bounds after the last episode", together, True)))
    return made if len(made.blocks) > 1 else None


def _folded(table: Table) -> Any:
    """Folded where it is long."""
    return table if len(table.rows) <= 30 else Folded(f"{table.caption}: {len(table.rows)} rows", [table])


def _bounds_table(caption: str, rows: Sequence[Row], several: bool) -> Table:
    columns = [Column("agent", False), *([Column("setting", False)] if several else []), Column("regret")]
    columns += [Column(name) for name, _ in figures.BOUNDS.values()]
    columns += [Column("beforehand, corrected"), Column("beforehand, as printed"), Column("H K")]
    keep = [i for i in range(len(columns)) if any(row.entries[i] != "–" for row in rows)]
    rows = [Row([row.entries[i] for i in keep], row.ids, row.look) for row in rows]
    notes = ["In brackets: the bound over the regret. Means over seeds."]
    if any("!" in entry for row in rows for entry in row.entries):
        notes.append("! below the regret in some run: the bound did not hold there.")
    return Table(caption, [columns[i] for i in keep], rows, notes)


def _hard(place: Setting) -> bool:
    return bool(place.first.cell.world.startswith("hard-"))


def _bounded(place: Setting, g: Group, known: Prior, looks: Mapping[str, Look], several: bool) -> Row:
    regret = float(g.final.mean())
    most = place.horizon * place.episodes

    def entry(value: float, broken: bool = False) -> str:
        times = f"\n(x{number(value / regret, 2, 1e4)})" if regret > 0.0 else ""
        return number(value, most=1e6) + times + (" !" if broken else "")

    entries = [g.label, *([place.title] if several else []), number(regret)]
    for column in figures.BOUNDS:
        if not g.has(column):
            entries.append("–")
            continue
        curve = g.curve(column)
        entries.append(entry(float(curve[:, -1].mean()), bool((g.regret > curve + 1e-6).any())))
    for name in (CORRECTED, PRINTED):
        entries.append(entry(float(known[name][1][-1])) if name in known else "–")
    return Row([*entries, number(most)], g.ids, looks[g.label])


def certificates(places: Sequence[Setting], looks: Mapping[str, Look], folder: Path) -> Section | None:
    """Certificates and sets: how sharp, and how often wrong."""
    made = Section("certificates", "Certificates and sets")
    together: list[Row] = []
    for place in places:
        shown = [g for g in place.compared if any(g.has(c) for c in ("certificate_failures", "set_failures"))]
        if not shown:
            continue
        rows = [_held(place, g, looks, len(places) > MANY) for g in shown]
        if len(places) > MANY:
            together += rows
            continue
        if len(places) > 1:
            made.blocks.append(Heading(place.title, f"certificates-{place.key}"))
        picture = figures.certificates(place, shown, looks).save(folder, f"certificates-{place.key}")
        caption = f"Certificates and sets in {place.title}, logarithmic axes. {BAND}"
        made.blocks.append(Shown(picture, caption, [i for g in shown for i in g.ids]))
        made.blocks.append(_held_table(f"{place.title}: did they hold?", rows, False))
    if together:
        made.blocks.append(_folded(_held_table("Did they hold?", together, True)))
    if not made.blocks:
        return None
    made.blocks += [
        Text(
            "Certificate at end: mean over the last tenth of the episodes. Wrong, missed, failed: episodes of all "
            "seeds together in which it happened; 0 is what is promised, with probability 1 - delta for a whole run.",
            "note",
        ),
        Text(
            "Runs with a failure: of a certificate, or of a set where plans are not certified. Upper limit: exact "
            "one-sided 95% limit (binomial) of the probability that a run has one. Runs are independent; the episodes "
            "of a run, which share their data, are not.",
            "note",
        ),
    ]
    return made


def _held_table(caption: str, rows: Sequence[Row], several: bool) -> Table:
    columns = [
        Column("agent", False), *([Column("setting", False)] if several else []), Column("certificate at end"),
        Column("episodes"), Column("certificates wrong"), Column("sets missed"), Column("optimism failed"),
        Column("runs with a failure"), Column("upper limit"), Column("delta"),
    ]  # fmt: skip
    return Table(caption, columns, rows)


def failures(g: Group, column: str) -> tuple[int, int, int, int] | None:
    """(episodes that failed, episodes, runs with a failure, runs), or None where it was not recorded."""
    if not g.has(column):
        return None
    last = g.curve(column)[:, -1]
    return round(float(last.sum())), g.episodes * last.size, int((last > 0.5).sum()), last.size


def _held(place: Setting, g: Group, looks: Mapping[str, Look], several: bool) -> Row:
    def told(column: str) -> str:
        found = failures(g, column)
        return "–" if found is None else f"{found[0]:,}"

    counts = failures(g, "certificate_failures") or failures(g, "set_failures")
    assert counts is not None
    _, episodes, bad, runs = counts
    late = number(float(g.late("certificate").mean())) if g.has("certificate") else "–"
    entries = [
        g.label, *([place.title] if several else []), late, f"{episodes:,}", told("certificate_failures"),
        told("set_failures"), told("optimism_failures"), f"{bad} of {runs}",
        number(statistics.binomial_upper(bad, runs), 2), "–" if g.delta is None or not g.guarantee else f"{g.delta:g}",
    ]  # fmt: skip
    return Row(entries, g.ids, looks[g.label])


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
