"""The figures of a report. Lines are means over seeds, bands 95% bootstrap intervals of them."""

import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from . import statistics
from .curves import Series, Threshold, linear_panel, logarithmic_panel, mean, positive, trade_off, window
from .data import SIZES, Group, Setting
from .drawing import COLOURS, INK, MUTED, Curve, Drawing, Look
from .varied import Axis, Referrals, Scaling

PANELS = 24  # of a figure of many settings
CROWDED = 9  # agents: more are drawn without bands
Looks = Mapping[str, Look]


def _series(group: Group, look: Look, column: str = "regret") -> Series:
    return Series(group.label, look, group.at, group.curve(column))


def regret(place: Setting, looks: Looks) -> Drawing:
    """Cumulative regret on linear and on logarithmic axes, and regret per episode in the recent past."""
    made = Drawing(3, 3, f"{place.title}: regret")
    linear, log, late = made.axes
    made.head(linear, "cumulative regret", "episode")
    made.head(log, "cumulative regret, logarithmic", "episode")
    made.head(late, "regret per episode, recent", "episode")
    series, band = [_series(g, looks[g.label]) for g in place.compared], len(place.compared) <= CROWDED
    linear_panel(made, linear, series, band)
    logarithmic_panel(made, log, series, band=band)
    logarithmic_panel(made, late, series, Series.recent, band=band)
    return made


def overview(places: Sequence[Setting], looks: Looks, page: str) -> Drawing:
    """Many settings, a panel each: cumulative regret on logarithmic axes."""
    made = Drawing(len(places), 4, f"Cumulative regret{page}", panel=(2.9, 2.4))
    for axes, place in zip(made.axes, places, strict=True):
        made.head(axes, wrapped(place.title, 40), size=7.5)
        series = [_series(g, looks[g.label]) for g in place.compared]
        logarithmic_panel(made, axes, series, partial(Series.total, most=36), width=1.3, decades=3.0)
    return made


def wrapped(text: str, width: int) -> str:
    """In lines of about so many characters."""
    return "\n".join(textwrap.wrap(text, width)) or text


BOUNDS = {
    "bound_from_returns": ("from the returns seen", (0, (6, 2, 1, 2))),
    "bound_from_bonuses": ("from the bonuses", (0, (5, 2))),
    "bound_from_certificates": ("from the certificates", (0, (2, 1.2))),
}
_FROM = (COLOURS[1], COLOURS[3], COLOURS[2])
CORRECTED, PRINTED = "bound known beforehand, corrected", "bound known beforehand, as printed"
LOWER = "H sqrt(d S A K), the order of the lower bound"
PRIOR = {CORRECTED: Look(MUTED, (0, (5, 2))), PRINTED: Look(MUTED, (0, (2, 1.2))), LOWER: Look(COLOURS[5])}


def bounds(place: Setting, groups: Sequence[Group], prior: Mapping[str, Mapping[str, tuple[Any, Any]]]) -> Drawing:
    """A panel an agent: its regret, the bounds computed from what it saw, and those known beforehand.

    prior: agent's label -> name -> (episodes, bound)."""
    columns = 2 if len(groups) in (2, 4) else 3
    made = Drawing(len(groups), columns, f"{place.title}: regret and bounds on it", share=True)
    for axes, g in zip(made.axes, groups, strict=True):
        made.head(axes, wrapped(g.label, 44), "episode")
        made.curve(axes, "regret", positive(_series(g, Look(COLOURS[0])).total()), Look(COLOURS[0]), width=2.0)
        for (column, (name, style)), colour in zip(BOUNDS.items(), _FROM, strict=True):
            if g.has(column):
                look = Look(colour, style)
                made.curve(axes, f"bound {name}", positive(_series(g, look, column).total()), look, band=False)
        for name, (at, values) in prior.get(g.label, {}).items():
            made.curve(axes, name, Curve(at, values), PRIOR[name], width=1.3)
        if np.isfinite(place.largest):
            ends = g.at[[0, -1]]
            made.curve(axes, "H K, the most there can be", Curve(ends, place.largest * ends), Look(INK, ":"), width=1)
        made.logarithmic(axes)
    return made


def certificates(place: Setting, groups: Sequence[Group], looks: Looks) -> Drawing:
    """What plans were certified to, beside what they really fell short by; how often something did not hold, where
    anything failed; how wide the sets were."""
    failing = [(g, c) for g in groups for c in FAILURES if g.has(c) and g.curve(c)[:, -1].any()]
    widths = [g for g in groups if g.has("transition_width") and g.has("steps")]
    certified = [g for g in groups if g.has("certificate")]
    made = Drawing(bool(certified) + bool(failing) + bool(widths), 3, f"{place.title}: certificates and sets")
    panels = iter(made.axes)
    if certified:
        _certified(made, next(panels), place, certified, looks)
    if failing:
        axes = next(panels)
        made.head(axes, "share of episodes that failed, so far", "episode")
        for g, column in failing:
            x, *rest = _series(g, looks[g.label], column).total()
            style = {"certificate_failures": "-", "set_failures": (0, (5, 2))}.get(column, ":")
            share = Curve(x, *(v / x for v in rest))
            made.curve(axes, f"{g.label}: {FAILURES[column]}", share, Look(looks[g.label].colour, style))
        made.logarithmic(axes, "x")
    if widths:
        axes = next(panels)
        made.head(axes, "width of the transition sets met, recent", "episode")
        for g in widths:
            at, width = statistics.recent(g.at, g.curve("transition_width"))
            steps = statistics.recent(g.at, g.curve("steps"))[1]
            made.curve(axes, g.label, mean(at, width / np.maximum(steps, 1e-9)), looks[g.label])
        made.logarithmic(axes)
    return made


FAILURES = {
    "certificate_failures": "certificate wrong",
    "set_failures": "a set missed the truth",
    "optimism_failures": "a planned value below the optimal one",
}


def _certified(made: Drawing, axes: Any, place: Setting, groups: Sequence[Group], looks: Looks) -> None:
    made.head(axes, "certificate and (thin) regret per episode", "episode")
    means = [np.array([place.largest])]
    for g in groups:
        look = looks[g.label]
        certificate, regret = (positive(_series(g, look, column).recent()) for column in ("certificate", "regret"))
        made.curve(axes, g.label, certificate, look)
        made.curve(axes, f"{g.label}: regret", Curve(regret.x, regret.y), look, label=None, width=0.8)
        means += [certificate.y, regret.y]
    made.level(axes, "H, which says nothing", place.largest, Look(INK, ":"))
    window(axes, means)
    made.logarithmic(axes)


def scaling(one: Scaling, fits: Mapping[tuple[str, str], Any], looks: Looks) -> Drawing:
    """Final regret against each size, all else at the base; bars are intervals, thin lines the fitted powers."""
    made = Drawing(len(one.axes), 3, f"{one.world}: final regret as one size grows", panel=(3.3, 2.7))
    for axes, axis in zip(made.axes, one.axes, strict=True):
        made.head(axes, f"{axis.variable} ({SIZES[axis.variable]})", SIZES[axis.variable])
        for label in axis.labels:
            _sizes(made, axes, axis, label, fits.get((axis.variable, label)), looks[label])
        made.logarithmic(axes)
        made.sizes(axes, axis.values)
    return made


def _sizes(made: Drawing, axes: Any, axis: Axis, label: str, fit: Any, look: Look) -> None:
    sizes, groups = np.array(axis.values, dtype=float), axis.groups(label)
    final = np.array([g.final.mean() for g in groups])
    if not (final > 0.0).all():
        return
    low, high = np.array([statistics.mean_interval(g.final) for g in groups]).T
    made.points(axes, label, Curve(sizes, final, low, high), look)
    if fit is not None and np.isfinite(fit.value):
        centre = np.exp(np.log(final).mean() - fit.value * np.log(sizes).mean())
        axes.plot(sizes, centre * sizes**fit.value, color=look.colour, linestyle=look.style, linewidth=1.1)


def referral(one: Referrals) -> Drawing:
    """Regret against the share referred, a point a threshold; and the referral rate over time."""
    found = [
        Threshold(f"{one.criterion} above {limit:g}", g.final, g.at, g.curve("referred"))
        for limit, g in zip(one.thresholds, one.groups, strict=True)
    ]
    ends = {f"{one.agent} alone": one.alone, f"{one.expert} alone": one.expert_alone}
    alone = {name: None if group is None else group.final for name, group in ends.items()}
    return trade_off(f"{one.setting.title}: {one.agent} refers to {one.expert}", found, alone)
