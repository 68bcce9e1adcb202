"""The dashboard of a programme: sections made of its figures, and sentences."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

import numpy as np
from markupsafe import Markup

from ...journal.event import Who
from ...planning.plans import ALL
from ...report.blocks import Row, Section, Table, Text
from ...report.drawing import COLOURS
from ...report.texts import NONE, counted, number
from . import charts
from .about import About
from .blocks import Chart, Charts, Legend, Tile
from .charts import Line, Part
from .figures import AGENT, CALLER, ENDED, ERASED, HOUSE, WITHDRAWN, Figures, mean_over_people, over_people
from .groups import parts_of

EVERYBODY = "everybody"
NO_WORDS: frozenset[str] = frozenset()
BY = {AGENT: "the agent", HOUSE: "the house rule", CALLER: "a caller", ERASED: "not known: erased"}
REASONS = {
    "loading": "while the agent was being loaded", "deadline": "the agent did not answer in time",
    "paused": "the programme was paused", "failed": "the agent had failed", "shadow": "shadow mode",
    "fallback": "the agent could not answer",
}  # fmt: skip


def sections(figures: Figures, about: About) -> list[Section]:
    """Everything that comes from the figures."""
    if not figures.people:
        return [Section("people", "Who came", [Text("Nobody has come yet.")])]
    made = [
        Section("people", "Who came", _people(figures, about)),
        Section("decisions", "What was decided", _decisions(figures, about)),
        Section("by", "By whom", _by_whom(figures)),
        Section("sure", "How sure", _sure(figures, about)),
    ]
    groups = _groups(figures, about)
    return [s for s in [*made, Section("groups", "Subgroups", groups)] if s.blocks]


def tiles(figures: Figures) -> list[Tile]:
    fates = figures.each("fates")
    made = [
        Tile(f"{figures.people:,}", "people came", "people"), Tile(f"{figures.open:,}", "open", "open"),
        Tile(f"{int((fates == ENDED).sum()):,}", "ended", "ended"),
        Tile(f"{figures.waiting:,}", "of them not yet learned", "waiting"),
        Tile(f"{figures.decisions:,}", "decisions", "decisions"),
    ]  # fmt: skip
    if (fates == WITHDRAWN).any():
        made.insert(4, Tile(f"{int((fates == WITHDRAWN).sum()):,}", "withdrew", "withdrawn"))
    return made


def summary(figures: Figures, about: About) -> list[str]:
    """Sentences about what happened."""
    if not figures.people:
        return ["Nobody has come yet. This page moves by itself as soon as somebody does."]
    made, n = [], figures.decisions
    if about.shadow:
        made.append("Shadow mode: the house rule decides, the agent beside it in silence.")
    if n:
        parts = [f"{BY[by]} {figures.by(by):,} ({figures.by(by) / n:.0%})" for by in BY if figures.by(by)]
        made.append(f"Of {counted(n, 'decision')}: {', '.join(parts)}.")
    referred = figures.each("referred")
    if (referred >= 0).any():
        share = (referred[referred >= 0] == 1).mean()
        made.append(f"{share:.0%} of the people were referred to the house rule ({int((referred == 1).sum()):,}).")
    known = figures.each("certificates")
    known = known[np.isfinite(known)]
    if known.size:
        recent = known[-max(known.size // 10, 1) :]
        said = f"Half of the latest plans are proved to be at most {number(float(np.median(recent)))} short of optimal"
        silent = float((recent > ALL * about.most).mean())
        made.append(f"{said}, of {number(about.most)} that can be gained; {silent:.0%} of them say nothing yet.")
    return made


# Sections ---------------------------------------------------------------------------------------------------------
def person_link(programme: str, who: Who, text: str = "") -> Markup:
    """A link to somebody's page; a key may be anything, so it stands in the query."""
    kind = "&kind=number" if isinstance(who, int) else ""
    target = f"/programmes/{quote(programme, safe='')}/person?key={quote(str(who), safe='')}{kind}"
    return Markup('<a href="{}">{}</a>').format(target, text or str(who))


def _people(figures: Figures, about: About) -> list[Any]:
    picture = charts.bars_over_time(figures.each("began"), "people by time of arrival")
    rows = [
        Row({"latest": person_link(about.name, who), "came": moment(time)})
        for who, time in reversed(figures.latest)
    ]  # fmt: skip
    made: list[Any] = [Charts([Chart(picture, "Arrivals", "People by the time they came, UTC.")])]
    if rows:
        made.append(Table("Latest people", rows, words={"came"}))
    return made


def _decisions(figures: Figures, about: About) -> list[Any]:
    """A bar per state."""
    counts: dict[str, dict[str, int]] = {}
    order: dict[str, int] = {}
    actions: dict[str, int] = {}
    for (state, action), n in figures.pairs.items():
        if n:
            s, a = about.state(state), about.action(action)
            counts.setdefault(s, {})
            counts[s][a] = counts[s].get(a, 0) + n
            order[s], actions[a] = about.state_number(state), about.action_number(action)
    if not counts:
        return [Text("Nothing was decided yet.")]
    rows = []
    named = sorted(actions, key=lambda a: (actions[a], a))
    for s in sorted(counts, key=lambda s: (order[s], s)):
        total = sum(counts[s].values())
        parts = [Part(counts[s].get(a, 0), actions[a], f"{a}: {counts[s].get(a, 0):,}") for a in named]
        shares = {a: f"{counts[s].get(a, 0) / total:.0%}" if counts[s].get(a) else NONE for a in named}
        rows.append(Row({"state": s, "": charts.shares(parts, f"actions in {s}"), "decisions": f"{total:,}", **shares}))
    key = [(a, actions[a] % len(COLOURS)) for a in named]
    return [Legend(key), Table("Actions by state", rows, words={""})]


def _by_whom(figures: Figures) -> list[Any]:
    n, rows = figures.decisions, []
    if not n:
        return []
    for (by, reason), count in sorted(figures.chosen.items(), key=lambda item: (list(BY).index(item[0][0]), -item[1])):
        if count:
            why = "" if reason is None else REASONS.get(reason, reason)
            rows.append(Row({"by": BY[by], "why": why, "decisions": f"{count:,}", "share": f"{count / n:.1%}"}))
    known = figures.with_probability
    note = f"The probability of the action is on record for {known:,} of {n:,} decisions."
    made: list[Any] = [Table("Who chose", rows, [note], {"why"})]
    decided = figures.each("decided")
    some = decided > 0
    lines = []
    for name, colour in (("by_house", 1), ("by_caller", 2)):
        share = figures.each(name) / np.maximum(decided, 1)
        lines.append(Line(*mean_over_people(share, some), colour=colour))
    picture = charts.lines(lines, "share of decisions that others made, by person", top=1.0, percent=True)
    legend = [("by the house rule", 1), ("by callers", 2)]
    made.append(Charts([Chart(picture, "Not by the agent", "Share of decisions, over the tenth before.", legend)]))
    return made


def _sure(figures: Figures, about: About) -> list[Any]:
    certificates, referred = figures.each("certificates"), figures.each("referred")
    shown = []
    x, q = over_people(certificates)
    if len(x):
        line = Line(x, q[:, 1], q[:, 0], q[:, 2])
        picture = charts.lines([line], "certificates by person: median and the middle 80%")
        shown.append(Chart(
            picture, "Certificates", "How far a plan can be short of optimal, with the agent's probability: the median "
            "and 10% to 90%, over the tenth of the people before.", [("median", 0)],
        ))  # fmt: skip
    if (referred >= 0).any():
        line = Line(*mean_over_people((referred == 1).astype(float), referred >= 0), colour=1)
        picture = charts.lines([line], "share referred by person", top=1.0, percent=True)
        limit = "" if about.threshold is None else f" Above a threshold of {number(about.threshold)}."
        shown.append(
            Chart(picture, "Referred to the house rule", f"Share, over the tenth of the people before.{limit}")
        )
    ended = figures.each("fates") == ENDED
    if ended.any():
        line = Line(*mean_over_people(figures.each("returns"), ended), colour=2)
        picture = charts.lines([line], "sum of rewards by person")
        shown.append(Chart(picture, "Rewards", "Sum per person as far as it was told, mean over the tenth before."))
    if not len(x):
        return [Text("No plan had a certificate.", "note"), *([Charts(shown)] if shown else [])]
    return [Charts(shown)]


def _groups(figures: Figures, about: About) -> list[Any]:
    columns = figures.columns(about.problem.feature_names)
    parts = {EVERYBODY: np.ones(figures.people, bool)} | parts_of(columns)
    if len(parts) == 1:
        return []
    rows = []
    each = {n: figures.each(n) for n in ("certificates", "referred", "returns", "decided", "by_house", "by_caller")}
    ended = figures.each("fates") == ENDED
    for name, who in parts.items():
        known = each["certificates"][who & np.isfinite(each["certificates"])]
        said = each["referred"][who & (each["referred"] >= 0)]
        done, n = each["returns"][who & ended], max(int(each["decided"][who].sum()), 1)
        rows.append(Row({
            "group": name, "people": f"{int(who.sum()):,}",
            "rewards": number(float(done.mean())) if done.size else NONE,
            "median certificate": number(float(np.median(known))) if known.size else NONE,
            "referred": f"{said.mean():.0%}" if said.size else NONE,
            "by the house rule": f"{each['by_house'][who].sum() / n:.0%}",
            "by callers": f"{each['by_caller'][who].sum() / n:.0%}",
        }))  # fmt: skip
    note = "Rewards: mean sum of those who ended. Groups of fewer than five people are not shown, for their privacy."
    return [Table("What was done for whom", rows, [note], NO_WORDS)]


# Sentences ----------------------------------------------------------------------------------------------------------
def alarms_of(kept: Iterable[tuple[str, Mapping[str, Any]]], facts: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(time, what, sentence) of what the journal has, and of what the service says besides; the oldest first."""
    said: dict[tuple[str, str], str] = {}
    told: list[Mapping[str, Any]] = [({"time": time} | dict(payload)) for time, payload in kept]
    told += [a if isinstance(a, Mapping) else {"sentence": a} for a in facts.get("alarms") or ()]
    for alarm in told:
        what, sentence = (
            str(alarm.get("what", "alarm")),
            _sentence(str(alarm.get("sentence") or "nothing is said of it")),
        )
        said.setdefault((what, sentence), str(alarm.get("time", "")))
    return [(time, what, sentence) for (what, sentence), time in said.items()]


def alarm_section(alarms: list[tuple[str, str, str]], level: str | None) -> Section:
    """level: of the model's check, None: not asked yet."""
    rows = [Row({"time": moment(time), "what": what, "sentence": text}) for time, what, text in reversed(alarms[-20:])]
    blocks: list[Any] = [Table("Alarms", rows, words={"what", "sentence"})] if rows else [Text("There was no alarm.")]
    if level is not None:
        blocks.append(Text(f"The model's check is {level}."))
    return Section("alarms", "Alarms", blocks)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "!", "?")) else ".")


def moment(time: str) -> str:
    """A time of the journal for people, UTC."""
    return time[:19].replace("T", " ") if len(time) >= 19 else time
