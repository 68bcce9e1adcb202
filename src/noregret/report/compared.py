"""The parts of a report about regret: agents side by side in each setting, and how regret grows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import figures, statistics
from .blocks import (  # fmt: skip
    Column,
    Folded,
    Heading,
    Row,
    Section,
    Shown,
    Table,
    Text,
    Words,
    chance,
    counted,
    interval,
    listed,
    number,
    power,
)
from .data import ORACLE, Group, Setting
from .drawing import Look
from .paired import Comparison

MANY = 4  # settings: more are drawn together, and told one by one only when unfolded
Looks = Mapping[str, Look]
BAND = (
    "Lines are means over seeds, bands 95% bootstrap intervals of the mean, point by point. A line that another one "
    "hides shows as dashes on it."
)


def regret(places: Sequence[Setting], tests: Mapping[str, Comparison | None], looks: Looks, folder: Path) -> Section:
    """Agents side by side: a table and a figure a setting; many settings get one table and one figure for all first."""
    made = Section("regret", "Regret")
    if len(places) <= MANY:
        for place in places:
            made.blocks.append(Heading(place.title, f"regret-{place.key}"))
            picture = figures.regret(place, looks).save(folder, f"regret-{place.key}")
            short = f"Regret of {counted(len(place.compared), 'agent')} in {place.title}. {BAND} "
            recent = "Recent: between neighbouring points of a logarithmic grid of 40."
            made.blocks.append(Shown(picture, short + _no_zero(place) + recent, ids(place)))
            made.blocks += _told(place, tests[place.key], looks)
        return made
    made.blocks.append(_all(places, tests))
    for i in range(0, len(places), figures.PANELS):
        some = places[i : i + figures.PANELS]
        page = "" if len(places) <= figures.PANELS else f", settings {i + 1} to {i + len(some)}"
        name = "regret" if not page else f"regret-{i // figures.PANELS + 1}"
        picture = figures.overview(some, looks, page).save(folder, name)
        caption = f"Cumulative regret in {len(some)} settings, both axes logarithmic. {BAND}"
        made.blocks.append(Shown(picture, caption, [x for place in some for x in ids(place)]))
    made.blocks.append(Heading("Each setting", "regret-each"))
    for place in places:
        made.blocks.append(Folded(place.title, _told(place, tests[place.key], looks), key=f"regret-{place.key}"))
    return made


def ids(place: Setting) -> list[str]:
    return [i for g in place.compared for i in g.ids]


def _no_zero(place: Setting) -> str:
    zero = [g.label for g in place.compared if g.final.max() <= 1e-9 * place.episodes]
    return f"{listed(zero)} had no regret and cannot be drawn on logarithmic axes. " if zero else ""


def _told(place: Setting, test: Comparison | None, looks: Looks) -> list[Any]:
    order = sorted(place.compared, key=lambda g: float(g.final.mean()))
    rows, lettered = [], test is not None and test.possible
    for g in order:
        low, high = statistics.mean_interval(g.final)
        e = g.growth
        marks = test.marks.get(g.label, "") if test is not None else ""
        entries = [
            g.label, number(float(g.final.mean())), interval(float(low), float(high)), number(float(g.late().mean())),
            power(e.value, e.low, e.high) + ("" if e.kind in ("power", "none") else " *"),
            "yes" if g.guarantee else "no", number(g.speed), *([marks or "–"] if lettered else []),
        ]  # fmt: skip
        rows.append(Row(entries, g.ids, looks[g.label]))
    columns = [
        Column("agent", False), Column("final regret"), Column("95% interval"), Column("per episode at end"),
        Column("growth exponent"), Column("guarantee", False), Column("episodes/s"),
        *([Column("letters", False)] if lettered else []),
    ]  # fmt: skip
    caption = f"{place.title}: {counted(place.episodes, 'episode')}, least regret first"
    notes = ["At end: over the last tenth of the episodes. Episodes/s: per processor second."]
    if any(g.growth.kind not in ("power", "none") for g in order):
        notes.append("* linear, flat or bent over the last decade: see how regret grows.")
    notes.append(_letters(test))
    blocks: list[Any] = [Table(caption, columns, rows, [n for n in notes if n])]
    said = [(g.label, g.guarantee) for g in order if g.guarantee]
    if said:
        blocks.append(Folded("What is guaranteed", [Words(said)]))
    if test is not None and test.pairs:
        blocks.append(Folded(f"All {counted(len(test.pairs), 'pair')}: differences and tests", [_pairs(test)]))
    return blocks


def _letters(test: Comparison | None) -> str:
    if test is None:
        return ""
    n = counted(test.seeds, "seed")
    if not test.possible:
        if test.seeds < 2:
            return f"No tests: {n} in common."
        return (
            f"No letters: {n} give p = {chance(test.least)} at best, which {counted(len(test.order), 'agent')} "
            "compared in pairs raise above 0.05. More seeds are needed before any difference can be called significant."
        )
    return (
        "Agents that share a letter could not be told apart; agents that share none differ in final regret, p < 0.05 "
        f"in a paired sign-flip test over {n}, corrected by Holm for all pairs (the smallest p that so "
        f"many seeds can give is {chance(test.least)})."
    )


def _pairs(test: Comparison) -> Table:
    rows = [
        Row([a, b, number(d), interval(low, high), chance(p), chance(q), "yes" if q < 1.0 - statistics.LEVEL else "no"])
        for a, b, d, low, high, p, q in test.pairs
    ]
    columns = [
        Column("less regret", False), Column("more regret", False), Column("difference"), Column("95% interval"),
        Column("p"), Column("p, Holm"), Column("significant", False),
    ]  # fmt: skip
    notes = ["Means of the differences in final regret, seed by seed; the intervals are not corrected."]
    return Table(f"Pairs of agents, {counted(test.seeds, 'seed')} in common", columns, rows, notes)


def _all(places: Sequence[Setting], tests: Mapping[str, Comparison | None]) -> Table:
    """Setting by agent: mean final regret."""
    labels = list(dict.fromkeys(g.label for place in places for g in place.compared if g.name != ORACLE))
    rows = []
    for place in places:
        found = {g.label: g for g in place.groups}
        test, own = tests[place.key], {g.label for g in place.alone}
        best = next((x for x in test.order if x in own), None) if test is not None else None
        entries = [place.title]
        for label in labels:
            text = number(float(found[label].final.mean())) if label in found else "–"
            tied = best is not None and label in found and label in own and label != best
            if label == best:
                text = f"**{text}**"
            elif tied and test is not None and test.possible and not test.differ(label, str(best)):
                text = f"{text} ="
            entries.append(text)
        rows.append(Row(entries, ids(place)))
    notes = [
        "Bold: the least in its row, among agents that decide on their own; = not told apart from it (p of at least "
        "0.05 after Holm). Intervals, exponents and tests: below, setting by setting.",
    ]
    if not any(test is not None and test.possible for test in tests.values()):
        notes[0] = f"Bold: the least in its row. {_letters(next(iter(tests.values())))}"
    return Table("Final regret, mean over seeds", [Column("setting", False), *map(Column, labels)], rows, notes)


def growth(places: Sequence[Setting], claims: Sequence[dict[str, Any]], looks: Looks) -> Section | None:
    """The exponents in words. Not shown where no agent has any regret."""
    text = Text(
        "The slope of log mean regret against log episode over the last decade (episodes K/10 to K), with a bootstrap "
        "interval over seeds. 0.5 is growth like a square root, 1 is no learning. A slope over one decade describes "
        "these episodes; it does not show what happens later."
    )
    made = Section("growth", "How regret grows", [text])
    found = [(place, [g for g in place.compared if g.name != ORACLE]) for place in places]
    if len(places) <= MANY:
        for place, groups in found:
            rows = [_exponent(place, g, claims, looks, False) for g in groups]
            made.blocks += [_exponents(f"{place.title}: regret against episodes", rows, groups, claims)] if rows else []
    else:
        everyone = [g for _, groups in found for g in groups]
        rows = [_exponent(place, g, claims, looks, True) for place, groups in found for g in groups]
        unclear = sum(g.growth.kind != "power" for g in everyone)
        title = f"Exponents of {counted(len(rows), 'curve')}, {unclear} of them linear, flat or bent"
        made.blocks += [Folded(title, [_exponents("Regret against episodes", rows, everyone, claims)])] if rows else []
    return made if len(made.blocks) > 1 else None


def claimed(g: Group, variable: str, claims: Sequence[dict[str, Any]]) -> list[tuple[float, str]]:
    """(exponent, source) of the claims about this agent in such a world; a scaled bonus is another agent."""
    scaled = g.options.get("bonus_scale", 1.0) != 1.0
    return [
        (float(c["exponents"][variable]), str(c["source"]))
        for c in claims
        if variable in c.get("exponents", {})
        and c.get("world") in (None, g.runs[0].cell.world)
        and (c["agent"] == g.label or (c["agent"] == g.name and not scaled))
    ]


def sources(groups: Sequence[Group], variables: Sequence[str], claims: Sequence[dict[str, Any]]) -> list[str]:
    """Who claims what is in the column "claimed"."""
    found = dict.fromkeys((g.name, source) for g in groups for v in variables for _, source in claimed(g, v, claims))
    return [f"Claimed for {name}: {source}." for name, source in found]


def _exponents(caption: str, rows: list[Row], groups: Sequence[Group], claims: Sequence[dict[str, Any]]) -> Table:
    columns = [Column("agent", False), Column("exponent"), Column("95% interval"), Column("claimed")]
    if len(rows[0].entries) > 5:
        columns.insert(1, Column("setting", False))
    at = len(columns) - 1
    if all(row.entries[at] == "–" for row in rows):
        columns.pop()
        rows = [Row([c for i, c in enumerate(r.entries) if i != at], r.ids, r.look) for r in rows]
    return Table(caption, [*columns, Column("reading", False)], rows, sources(groups, ["episodes"], claims))


def _exponent(place: Setting, g: Group, claims: Sequence[dict[str, Any]], looks: Looks, several: bool) -> Row:
    e, words = g.growth, g.growth.words
    if e.kind == "power" and np.isfinite(e.low) and e.low <= 0.5 <= e.high:
        words += ", compatible with a square root"
    said = ", ".join(f"{v:g}" for v, _ in claimed(g, "episodes", claims)) or "–"
    value, ends = power(e.value, np.nan, np.nan), "–" if not np.isfinite(e.low) else f"{e.low:.2f} to {e.high:.2f}"
    return Row([g.label, *([place.title] if several else []), value, ends, said, words], g.ids, looks[g.label])
