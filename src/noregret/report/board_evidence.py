"""The parts of the page about decisions that rest on the log of outcomes: gain over the rule, and the model's check."""

import math
from collections.abc import Sequence
from typing import Any

from ..evidence.evaluation import Evaluation
from ..evidence.model_check import GREEN, ModelCheck
from .blocks import Row, Section, Table, Text
from .texts import NONE, sentence

WORDS = {"estimator", "rung", "gain", "interval", "what", "level", "sentence"}
RUNGS = (
    "Proved: holds for finite samples, at all times, by the probabilities on record (PDIS, DR) or by the model's "
    "assumptions (model sets). Asymptotic: by a central limit theorem. Believed: by the posterior."
)
NOW = (
    "The policy that is optimal in the agent's fitted model, which is chosen by the same data: the estimate leans "
    "upwards. The proved interval holds all the same, with the agent's probability."
)


def gain_section(found: Evaluation, today: Sequence[tuple[str, str, float, tuple[float, float]]] = ()) -> Section:
    """What was done, over the rule: `evaluate(rule, log, against="log")`, whose differences are turned round. today:
    (what, rung, estimate, interval) of what the agent's model would do now."""
    rows = []
    for row in found:
        told = row.told or row.rung == "proved"
        rows.append(Row({
            "group": row.subgroup, "estimator": row.estimator, "rung": row.rung, "gain": f"{0.0 - row.estimate:+.3g}",
            "interval": f"{0.0 - row.upper:+.3g} to {0.0 - row.lower:+.3g}" if told else NONE,
            "people": f"{row.people:,}", "effective": _weight(row.effective), "largest weight": _weight(row.largest),
            "what": "" if row.told else "cannot tell",
        }))  # fmt: skip
    level = f"{100.0 * (1.0 - found.delta):g}% each"
    looks = "at all times together" if found.looks == "repeated" else "for this one look"
    notes = [f"Intervals: {level}, {looks}. {RUNGS}", *map(sentence, found.notes)]
    said = "Mean value per person of what was done, less what the rule would have brought to the same people."
    made: list[Any] = [Text(said), Table("What was done", rows, notes, WORDS)]
    if today:
        made.append(today_table(today))
    return Section("gain", "Gain over the rule", made)


def today_table(today: Sequence[tuple[str, str, float, tuple[float, float]]]) -> Table:
    """What the agent's model would do now, over the rule: (what, rung, estimate, interval) each."""
    rows = [
        Row({"policy": what, "rung": rung, "gain": f"{gain:+.3g}", "interval": f"{low:+.3g} to {high:+.3g}"})
        for what, rung, gain, (low, high) in today
    ]
    return Table("What the model would do now, over the rule", rows, [NOW], WORDS)


def _weight(value: float) -> str:
    return NONE if math.isnan(value) else f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def gain_sentence(found: Evaluation) -> str:
    """The narrowest interval about everybody that says something, in words."""
    able = [row for row in found if row.told and row.subgroup == found.rows[0].subgroup]
    if not able:
        return "The log cannot tell whether what was done was better than the rule."
    best = min(able, key=lambda row: row.half_width)
    return (
        f"Gain over the rule: {-best.estimate:+.3g} per person, {best.rung} {-best.upper:+.3g} to {-best.lower:+.3g} "
        f"({best.estimator})."
    )


def model_section(found: ModelCheck) -> Section:
    """Alarms, what contexts are worth, and the pairs that fit worst."""
    rows = [
        Row({"part": a.kind, "level": a.level, "ln e": f"{a.log_e:.1f}", "sentence": a.sentence}) for a in found.alarms
    ]
    note = (
        "ln e: the logarithm of what somebody would have won who bet against this part of the model with a stake of 1; "
        f"red: a right model shows as much, ever, with probability at most {found.delta:g}, all parts together."
    )
    far = sorted(found.table(), key=lambda row: -abs(row["z"]))[:5]
    worst = [
        Row({
            "state": str(r["state"]), "action": str(r["action"]), "next state": str(r["next_state"]),
            "seen": f"{r['seen']:.0f}", "expected": f"{r['expected']:.0f}", "z": f"{r['z']:+.1f}",
        }) for r in far if r["visits"]
    ]  # fmt: skip
    made: list[Any] = [
        Table(f"Alarms: {found.level}", rows, [note], WORDS),
        Text(sentence(found.worth.sentence)),
    ]
    if worst:
        made.append(Table("Next states that fit the model worst", worst, words={"action", "next state"}))
    return Section("model", "Is the model right?", made)


def model_alerts(found: ModelCheck) -> list[str]:
    """Alarms that are not green, a sentence each."""
    return [f"{a.level.capitalize()}: {a.sentence}." for a in found.alarms if a.level != GREEN]
