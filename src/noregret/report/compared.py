"""The parts of a report about regret: agents side by side in each setting, and how regret grows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import figures, statistics
from .blocks import Folded, Heading, Row, Section, Shown, Table, Words
from .data import ORACLE, Group, Setting
from .drawing import Look
from .paired import Comparison
from .texts import NONE, chance, counted, interval, listed, number, power

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
    rows = []
    for g in order:
        e = g.growth
        entries = {
            "agent": g.label,
            "final regret": number(g.final.mean()),
            "95% interval": interval(statistics.mean_interval(g.final)),
            "per episode at end": number(g.late().mean()),
            "growth exponent": power(e.value, e.low, e.high) + ("" if e.kind in ("power", "none") else " *"),
            "guarantee": "yes" if g.guarantee else "no",
            "episodes/s": number(g.speed),
        }
        if test is not None and test.possible:
            entries["letters"] = test.marks.get(g.label, NONE)
        rows.append(Row(entries, g.ids, looks[g.label]))
    caption = f"{place.title}: {counted(place.episodes, 'episode')}, least regret first"
    notes = ["At end: over the last tenth of the episodes. Episodes/s: per processor second."]
    if any(g.growth.kind not in ("power", "none") for g in order):
        notes.append("* linear, flat or bent over the last decade: see how regret grows.")
    blocks: list[Any] = [Table(caption, rows, [n for n in (*notes, _letters(test)) if n])]
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
        Row({
            "less regret": a, "more regret": b, "difference": number(d), "95% interval": interval((low, high)),
            "p": chance(p), "p, Holm": chance(q), "significant": "yes" if q < 1.0 - statistics.LEVEL else "no",
        })
        for a, b, d, low, high, p, q in test.pairs
    ]  # fmt: skip
    notes = ["Means of the differences in final regret, seed by seed; the intervals are not corrected."]
    return Table(f"Pairs of agents, {counted(test.seeds, 'seed')} in common", rows, notes)


def _all(places: Sequence[Setting], tests: Mapping[str, Comparison | None]) -> Table:
    """Setting by agent: mean final regret."""
    labels = list(dict.fromkeys(g.label for place in places for g in place.compared if g.name != ORACLE))
    rows = []
    for place in places:
        found = {g.label: g for g in place.groups}
        test, own = tests[place.key], {g.label for g in place.alone}
        best = next((x for x in test.order if x in own), None) if test is not None else None
        entries = {"setting": place.title}
        for label in labels:
            text = number(found[label].final.mean()) if label in found else NONE
            if label == best:
                text = f"**{text}**"
            elif best and label in own and test is not None and test.possible and not test.differ(label, best):
                text = f"{text} ="
            entries[label] = text
        rows.append(Row(entries, ids(place)))
    notes = [
        "Bold: the least in its row, among agents that decide on their own; = not told apart from it (p of at least "
        "0.05 after Holm). Intervals, exponents and tests: below, setting by setting.",
    ]
    if not any(test is not None and test.possible for test in tests.values()):
        notes[0] = f"Bold: the least in its row. {_letters(next(iter(tests.values())))}"
    return Table("Final regret, mean over seeds", rows, notes)


def growth(places: Sequence[Setting], claims: Sequence[dict[str, Any]], looks: Looks) -> Section | None:
    """The exponents in words. Not shown where no agent has any regret."""
    made = Section("growth", "How regret grows")
    found = [(place, [g for g in place.compared if g.name != ORACLE]) for place in places]
    if len(places) <= MANY:
        for place, groups in found:
            if groups:
                rows = [_exponent({}, g, claims, looks) for g in groups]
                notes = sources(groups, ["episodes"], claims)
                made.blocks.append(Table(f"{place.title}: regret against episodes", rows, notes))
    elif everyone := [(place, g) for place, groups in found for g in groups]:
        rows = [_exponent({"setting": place.title}, g, claims, looks) for place, g in everyone]
        unclear = sum(g.growth.kind != "power" for _, g in everyone)
        title = f"Exponents of {counted(len(rows), 'curve')}, {unclear} of them linear, flat or bent"
        notes = sources([g for _, g in everyone], ["episodes"], claims)
        made.blocks.append(Folded(title, [Table("Regret against episodes", rows, notes)]))
    return made if made.blocks else None


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


def _exponent(where: dict[str, str], g: Group, claims: Sequence[dict[str, Any]], looks: Looks) -> Row:
    e, words = g.growth, g.growth.words
    if e.kind == "power" and np.isfinite(e.low) and e.low <= 0.5 <= e.high:
        words += ", compatible with a square root"
    entries = {
        "exponent": power(e.value, np.nan, np.nan),
        "95% interval": NONE if not np.isfinite(e.low) else f"{e.low:.2f} to {e.high:.2f}",
        "claimed": ", ".join(f"{v:g}" for v, _ in claimed(g, "episodes", claims)) or NONE,
        "reading": words,
    }
    return Row({"agent": g.label} | where | entries, g.ids, looks[g.label])
