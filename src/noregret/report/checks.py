"""A check of the model as a picture: the evidence as people came, expected against seen, and who was visited."""

import math
from typing import Any

import numpy as np

from .. import checks as check
from ..evidence.model_check import ModelCheck
from .drawing import COLOURS, INK, MUTED, Curve, Drawing, Look

LOWEST, HIGHEST = -30.0, 60.0  # ln e beyond these is drawn at the edge
SHORTEST = 20  # visits of a pair and next state that are expected, below which a residual is not drawn


def check_figure(found: ModelCheck, path: Any, title: str | None = None) -> None:
    """Draw what `noregret.check_model` found to a file, .png, .svg or .pdf.

    Left the evidence by kind as people came; then what was predicted against what was seen, by tenths of the
    prediction; then expected against seen next states, by pair. title: None: the level and how much was seen.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import noregret as nr
    >>> found = nr.check_model(nr.worlds.programme(context_dim=3).log(400, seed=1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     nr.report.check_figure(found, f"{folder}/check.png")
    ...     Path(f"{folder}/check.png").stat().st_size > 1000
    True
    """
    check.instance("found", found, ModelCheck, "what noregret.check_model returns")
    about = title or f"{found.level}: the model against {found.people:,} people, {found.steps:,} steps"
    made = Drawing(3, 3, about, panel=(4.1, 3.6))
    _evidence(made, made.axes[0], found)
    _deciles(made, made.axes[1], found)
    _pairs(made, made.axes[2], found)
    made.draw(path)


def _evidence(made: Drawing, axes: Any, found: ModelCheck) -> None:
    several = len(found.looks) > 1
    made.head(
        axes, f"evidence against the model, ln e, from {LOWEST:g} to {HIGHEST:g}", "people" if several else "bets on"
    )
    people = np.array([look.people for look in found.looks], float)
    for i, alarm in enumerate(found.alarms):
        logs = np.clip([look.logs[alarm.kind] for look in found.looks], LOWEST, HIGHEST)
        look = Look(COLOURS[i % len(COLOURS)])
        if several:
            made.curve(axes, alarm.kind, Curve(people, logs), look)
        else:
            made._keep(axes, alarm.kind, Curve(people, logs))
        axes.plot(people[-1] if several else i, logs[-1], marker="o", markersize=5, color=look.colour)
    made.level(axes, "red from here on", math.log(len(found.alarms) / found.delta), Look(INK, (0, (5, 2))))
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, -5.0), max(high, math.log(len(found.alarms) / found.delta) + 3.0))
    made.linear(axes, "y")
    if several:
        axes.set_xlim(people[0], people[-1] * 1.03)
        made.logarithmic(axes, "x")
    else:
        axes.set_xticks(range(len(found.alarms)), [alarm.kind for alarm in found.alarms])
        axes.set_xlim(-0.5, len(found.alarms) - 0.5)


def _deciles(made: Drawing, axes: Any, found: ModelCheck) -> None:
    made.head(axes, "predicted and seen, by tenths of the prediction", "predicted")
    axes.plot([0.0, 1.0], [0.0, 1.0], color=MUTED, linewidth=1.0, zorder=0)
    for name, deciles, look, shift in (
        ("next states", found.deciles, Look(INK), -0.004),
        ("mean rewards", found.reward_deciles, Look(COLOURS[7]), 0.004),
    ):
        at = deciles[:, 2] >= SHORTEST
        if at.any():
            x, y, n = deciles[at].T
            reach = 1.96 * np.sqrt(np.maximum(y * (1.0 - y), 0.25 / n) / n)
            made.points(axes, name, Curve(x + shift, y, np.maximum(y - reach, 0.0), np.minimum(y + reach, 1.0)), look)
            made.legend.pop(name)  # this panel has its own
            axes.plot([], [], "o", markersize=4, color=look.colour, label=name)
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    made.linear(axes)


def _pairs(made: Drawing, axes: Any, found: ModelCheck) -> None:
    made.head(axes, "expected and seen, by pair and next state", "expected")
    rows = [row for row in found.table() if row["expected"] >= 1.0]
    expected, seen = np.array([(r["expected"], max(r["seen"], 0.5)) for r in rows]).reshape(-1, 2).T
    far = np.array([abs(r["z"]) > 4.0 for r in rows], bool)
    if not len(rows):
        return
    ends = np.array([min(expected.min(), seen.min()), max(expected.max(), seen.max())]) * [0.8, 1.25]
    axes.plot(ends, ends, color=MUTED, linewidth=1.0, zorder=0)
    for name, at, look in (("within four standard deviations", ~far, MUTED), ("beyond four", far, COLOURS[1])):
        if at.any():
            axes.scatter(expected[at], seen[at], s=13, color=look, alpha=0.75, linewidths=0, label=name)
            made._keep(axes, name, Curve(expected[at], seen[at]))
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    made.logarithmic(axes)
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    if far.any():
        worst = sorted((r for r in rows), key=lambda r: -abs(r["z"]))[0]
        text = f"{worst['state']} / {worst['action']}\nto {worst['next_state']}"
        below = worst["seen"] < worst["expected"]
        axes.annotate(
            text, (worst["expected"], max(worst["seen"], 0.5)), fontsize=7.5, color=INK, textcoords="offset points",
            xytext=(6, -34) if below else (-6, 34), ha="center", va="center",
            arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.8},
        )  # fmt: skip
