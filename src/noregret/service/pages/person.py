"""The page of one person: what happened to them, by their own events, and what the plan was, made again beside."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ...journal.event import Event
from ...report.blocks import Row, Section, Table, Text
from ...report.texts import NONE, counted, number
from . import charts
from .about import About
from .blocks import Cell, Chart, Charts, Grid, Legend
from .dashboard import BY, REASONS, moment

CELLS = 400  # of a plan that are shown as a table; larger ones are a picture


class Visit:
    """One time that somebody came: their events from `begin` on."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.begin = events[0]
        self.told = _read(events[0].answer)
        self.decided: dict[int, Event] = {}
        self.came: dict[int, dict[str, Any]] = {}
        self.fate = "open"
        for event in events[1:]:
            self._add(event, event.payload or {})

    def _add(self, event: Event, told: dict[str, Any]) -> None:
        if event.kind == "decide":
            self.decided[int(told.get("step", 0))] = event
        elif event.kind in ("outcome", "correction", "reward"):
            self.came.setdefault(int(told.get("step", 0)), {}).update(told)
        elif event.kind == "end":
            self.fate = "ended"
        elif event.kind == "withdraw":
            self.fate = "withdrew"

    @property
    def key(self) -> str:
        """Which answer is wanted of the process beside: another one after every decision."""
        return f"{self.begin.number}-{self.events[-1].number}"

    @property
    def path(self) -> dict[int, Any]:
        """step -> state."""
        return {h: (e.payload or {}).get("state") for h, e in sorted(self.decided.items())}


def visits(events: Sequence[Event]) -> list[Visit]:
    """Every time they came, the first first. Events before a `begin` belong to nobody."""
    starts = [i for i, e in enumerate(events) if e.kind == "begin"]
    return [Visit(events[a:b]) for a, b in pairwise([*starts, len(events)])]


def facts_of(visit: Visit, about: About) -> list[tuple[str, str]]:
    referred, certificate = visit.told.get("referred"), visit.told.get("certificate")
    made = [
        ("came", f"{moment(visit.begin.time)} UTC"), ("now", visit.fate),
        ("steps decided", f"{len(visit.decided)} of {about.problem.horizon}"),
        ("certificate", number(certificate) if isinstance(certificate, int | float) else NONE),
        ("referred", NONE if referred is None else "yes" if referred else "no"),
    ]  # fmt: skip
    rewards = [told["reward"] for told in visit.came.values() if told.get("reward") is not None]
    return [*made, ("rewards so far", number(float(sum(rewards))) if rewards else NONE)]


def path_section(visit: Visit, about: About) -> Section:
    rows = []
    for h, event in sorted(visit.decided.items()):
        told, came = event.payload or {}, visit.came.get(h, {})
        by, reason = str(told.get("by", "agent")), _read(event.answer).get("reason")
        chance, reward, after = told.get("probability"), came.get("reward"), came.get("next_state")
        advice = told.get("advice")
        rows.append(Row({
            "step": str(h), "state": about.state(told.get("state")), "action": about.action(told.get("action")),
            "by": BY.get(by, by) + (f": {REASONS.get(reason, reason)}" if reason else ""),
            "the plan's": NONE if advice is None or advice == told.get("action") else about.action(advice),
            "probability": NONE if chance is None else number(chance),
            "next state": NONE if after is None else about.state(after),
            "reward": NONE if reward is None else number(reward), "time": moment(event.time),
        }))  # fmt: skip
    words = {"state", "action", "by", "the plan's", "next state", "time"}
    said = Table("What happened", rows, words=words) if rows else Text("Nothing was decided yet.")
    return Section("path", "Path so far", [said])


def plan_section(visit: Visit, found: Mapping[str, Any], about: About) -> Section:
    """States by steps: the action in each, its value and bounds."""
    policy = np.array(found["policy"])
    H, S = policy.shape
    met = {h: about.state_number(s) for h, s in visit.path.items()}
    used = sorted({int(a) for a in np.unique(policy)})
    key = Legend([(about.action(a), a % 8) for a in used])
    if H * S > CELLS:
        picture = charts.mosaic(policy, met, "the plan: steps across, states down, a colour per action")
        return Section("plan", "The plan", [
            Charts([Chart(picture, "What to do", "Steps across, states down; circles: where they were.")]), key
        ])  # fmt: skip
    rows = []
    for s in range(S):
        cells = [_cell(found, h, s, int(policy[h, s]), visit, met, about) for h in range(H)]
        rows.append((about.state(s), cells))
    notes = ["Value: the planner's own number for this step and state, in the units of rewards."]
    if found.get("lower") is not None:
        notes.append(
            "Below it: proved bounds, what this plan is worth at least and any at most, with the agent's probability."
        )
    notes.append("Framed: where they were when something was decided.")
    return Section("plan", "The plan", [key, Grid("What to do, by state and step", range(H), rows, notes)])


def _cell(
    found: Mapping[str, Any], h: int, s: int, action: int, visit: Visit, met: Mapping[int, int], about: About
) -> Cell:
    low, high = (None if found.get(n) is None else found[n][h][s] for n in ("lower", "upper"))
    bounds = f"{number(low)} to {number(high)}" if low is not None and high is not None else ""
    done = ""
    if met.get(h) == s:
        chosen = about.action_number((visit.decided[h].payload or {}).get("action"))
        done = "done" if chosen == action else f"done: {about.action(chosen)}"
    return Cell(about.action(action), action % 8, number(found["values"][h][s]), bounds, done)


def why_section(found: Mapping[str, Any], about: About) -> Section:
    """The alternatives at every step that was decided, the latest first."""
    blocks: list[Any] = []
    for told in reversed(found["steps"]):
        where = f"Step {told['step']}, {about.state(told['state'])}"
        if not told["rows"]:
            blocks.append(Text(f"{where}: {told.get('sentence', 'nothing is known of the alternatives.')}"))
            continue
        if len(told["rows"]) == 1:
            blocks.append(Text(f"{where}: {told['rows'][0]['action']} is the only action there is."))
            continue
        ranked = sorted(told["rows"], key=lambda r: (not r["advised"], -r["value"]))
        pictures = charts.whiskers(
            [(r["value"], r["lower"], r["upper"], r["advised"]) for r in ranked], "value and proved bounds"
        )
        rows = [
            Row({
                "action": f"{r['action']} (advised)" if r["advised"] else r["action"], "": picture,
                "value": number(r["value"]) + ("" if r["deviation"] is None else f" ± {number(r['deviation'], 2)}"),
                "proved": NONE if r["lower"] is None else f"{number(r['lower'])} to {number(r['upper'])}",
                "best": NONE if r["best"] is None else f"{r['best']:.0%}",
            }) for r, picture in zip(ranked, pictures, strict=True)
        ]  # fmt: skip
        blocks.append(Table(where, rows, _notes(told, about), {"", "value", "proved"}))
    if not blocks:
        blocks.append(Text("Nothing was decided yet, so nothing is to be explained."))
    else:
        blocks.append(Text(
            "Value: of taking the action now and following the plan after that, mean and standard deviation over "
            "models drawn from the posterior. Best: the share of them in which it is the best action. Both are "
            "believed. Proved: bounds of the same value, with the agent's probability.", "note",
        ))  # fmt: skip
    return Section("why", "Why this action", blocks)


def _notes(told: Mapping[str, Any], about: About) -> list[str]:
    made = []
    if told.get("against") is not None:
        other = about.action(told["against"])
        more = float(told["advantage"])
        said = f"{number(abs(more))} {'better' if more >= 0.0 else 'worse'} than {other}, the best of the others"
        made.append(f"In the fitted model it is {said}{'' if more >= 0.0 else ': the plan explores'}.")
    moved = sorted(told.get("effects") or (), key=lambda e: -abs(e[2]))[:4]
    if moved:
        parts = [
            f"{name} = {number(value)}: {'+' if change >= 0 else ''}{number(change)}" for name, value, change in moved
        ]
        made.append(f"What the context adds to that, entry by entry: {'; '.join(parts)}.")
    return made


def audit_section(found: Mapping[str, Any]) -> Section:
    """Whether everything came out again as it is in the journal."""
    wrong = [c for c in found["checks"] if not c["same"]]
    head = "Reproduced" if found["reproduced"] else "Not reproduced"
    how = (
        f"The agent was taken from the snapshot after event {found['start']:,}, {counted(found['folded'], 'event')} "
        f"were folded again up to this person's own, and {counted(len(found['checks']), 'number')} compared, to the "
        f"last bit, in {found['seconds']:.1f} s."
    )
    blocks: list[Any] = [Text(f"{head}. {how}", "verdict good" if found["reproduced"] else "verdict bad")]
    if wrong:
        rows = [
            Row({
                "event": f"{c['number']:,}", "what": str(c["what"]), "recorded": str(c.get("recorded", NONE)),
                "again": str(c.get("again", NONE)),
            }) for c in wrong
        ]  # fmt: skip
        blocks.append(Table("What differs", rows, words={"what", "recorded", "again"}))
    if found.get("guarantee"):
        blocks.append(Text(f"Guarantee: {found['guarantee']}.", "note"))
    return Section("audit", "Audit", blocks)


def _read(answer: str | None) -> dict[str, Any]:
    try:
        made = json.loads(answer) if answer else {}
    except ValueError:
        return {}
    return made if isinstance(made, dict) else {}
