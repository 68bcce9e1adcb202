"""The figures of a report. Lines are means over seeds, bands 95% bootstrap intervals of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._checks import Floats
from . import statistics
from .data import MOST_POINTS, SIZES, Group, Setting
from .drawing import COLOURS, INK, MUTED, Drawing, Look, shades
from .varied import Axis, Referrals, Scaling

PANELS = 24  # of a figure of many settings
_LEAST = 1e-12
Looks = Mapping[str, Look]


def _recent(group: Group, column: str = "regret") -> tuple[Any, Floats, Floats, Floats]:
    """(episodes, mean, low, high) of the growth per episode in the recent past."""
    at, values = statistics.recent(group.at, group.curve(column))
    low, high = statistics.mean_interval(values)
    return at, values.mean(0), low, high


def _total(group: Group, column: str = "regret", points: int = MOST_POINTS) -> tuple[Any, Floats, Floats, Floats]:
    at = group.thinned(points)
    values = group.curve(column)[:, at]
    low, high = statistics.mean_interval(values)
    return group.at[at], values.mean(0), low, high


def _positive(curve: tuple[Any, Floats, Floats, Floats]) -> tuple[Any, Floats, Floats, Floats]:
    x, *rest = curve
    y, low, high = (np.where(np.asarray(v) > _LEAST, v, np.nan) for v in rest)
    return x, y, np.where(np.isnan(low) & np.isfinite(high), _LEAST, low), high


def _window(axes: Any, curves: Sequence[Floats], decades: float = 4.0, room: float = 1.6) -> None:
    """Limits for a logarithmic axis that shows the means, however small the smallest."""
    values = np.concatenate([c[np.isfinite(c) & (c > _LEAST)] for c in curves]) if curves else np.array([])
    if values.size:
        axes.set_ylim(max(values.min() / room, values.max() * 10.0**-decades), values.max() * room)


def regret(place: Setting, looks: Looks) -> Drawing:
    """Cumulative regret on linear and on logarithmic axes, and regret per episode in the recent past."""
    made = Drawing(3, 3, f"{place.title}: regret")
    linear, log, late = made.axes
    made.head(linear, "cumulative regret", "episode")
    linear.set(xlim=(0, place.episodes))
    made.head(log, "cumulative regret, logarithmic", "episode")
    made.head(late, "regret per episode, recent", "episode")
    totals, recents, top = [], [], 1e-3
    crowded = len(place.compared) > 9
    for g in place.compared:
        total, look = _total(g), looks[g.label]
        made.curve(linear, g.label, *total, look, band=not crowded)
        top = max(top, float(total[1][-1]), 0.0 if crowded else float(np.nan_to_num(total[3][-1])))
        if total[1][-1] <= 1e-9 * place.episodes:
            continue
        made.curve(log, g.label, *_positive(total), look, band=not crowded)
        made.curve(late, g.label, *_positive(_recent(g)), look, band=not crowded)
        totals.append(total[1])
        recents.append(_recent(g)[1])
    linear.set_ylim(-0.03 * top, 1.05 * top)
    made.linear(linear)
    for axes, curves in ((log, totals), (late, recents)):
        _window(axes, curves)
        made.logarithmic(axes)
    return made


def overview(places: Sequence[Setting], looks: Looks, page: str) -> Drawing:
    """Many settings, a panel each: cumulative regret on logarithmic axes."""
    made = Drawing(len(places), 4, f"Cumulative regret{page}", panel=(2.9, 2.4))
    for axes, place in zip(made.axes, places, strict=True):
        made.head(axes, wrapped(place.title, 40), size=7.5)
        curves = []
        for g in place.compared:
            total = _total(g, points=36)
            if total[1][-1] > 1e-9 * place.episodes:
                made.curve(axes, g.label, *_positive(total), looks[g.label], width=1.3)
                curves.append(total[1])
        _window(axes, curves, 3.0)
        made.logarithmic(axes)
    return made


def wrapped(text: str, width: int) -> str:
    """In lines of about so many characters."""
    import textwrap

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
        made.curve(axes, "regret", *_positive(_total(g)), Look(COLOURS[0]), width=2.0)
        for (column, (name, style)), colour in zip(BOUNDS.items(), _FROM, strict=True):
            if g.has(column):
                made.curve(axes, f"bound {name}", *_positive(_total(g, column)), Look(colour, style), band=False)
        for name, (at, values) in prior.get(g.label, {}).items():
            made.curve(axes, name, at, values, np.nan, np.nan, PRIOR[name], width=1.3)
        if np.isfinite(place.horizon):
            line = place.horizon * g.at[[0, -1]]
            made.curve(axes, "H K, the most there can be", g.at[[0, -1]], line, np.nan, np.nan, Look(INK, ":"), width=1)
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
        axes = next(panels)
        made.head(axes, "certificate and (thin) regret per episode", "episode")
        curves = []
        for g in certified:
            curve = _positive(_recent(g, "certificate"))
            made.curve(axes, g.label, *curve, looks[g.label])
            at, mean, *_ = _positive(_recent(g))
            made.curve(axes, f"{g.label}: regret", at, mean, np.nan, np.nan, looks[g.label], label=None, width=0.8)
            curves += [curve[1], mean]
        axes.axhline(place.horizon, color=INK, linewidth=1.0, linestyle=":")
        made.legend.setdefault("H, which says nothing", Look(INK, ":"))
        _window(axes, [*curves, np.array([place.horizon])])
        made.logarithmic(axes)
    if failing:
        axes = next(panels)
        made.head(axes, "share of episodes that failed, so far", "episode")
        for g, column in failing:
            x, *rest = _total(g, column)
            style = {"certificate_failures": "-", "set_failures": (0, (5, 2))}.get(column, ":")
            name = f"{g.label}: {FAILURES[column]}"
            mean, low, high = (v / x for v in rest)
            made.curve(axes, name, x, mean, low, high, Look(looks[g.label].colour, style))
        made.logarithmic(axes, "x")
    if widths:
        axes = next(panels)
        made.head(axes, "width of the transition sets met, recent", "episode")
        for g in widths:
            at, width = statistics.recent(g.at, g.curve("transition_width"))
            steps = statistics.recent(g.at, g.curve("steps"))[1]
            each = width / np.maximum(steps, 1e-9)
            low, high = statistics.mean_interval(each)
            made.curve(axes, g.label, at, each.mean(0), low, high, looks[g.label])
        made.logarithmic(axes)
    return made


FAILURES = {
    "certificate_failures": "certificate wrong",
    "set_failures": "a set missed the truth",
    "optimism_failures": "a planned value below the optimal one",
}


def scaling(one: Scaling, fits: Mapping[tuple[str, str], Any], looks: Looks) -> Drawing:
    """Final regret against each size, all else at the base; bars are intervals, thin lines the fitted powers."""
    made = Drawing(len(one.axes), 3, f"{one.world}: final regret as one size grows", panel=(3.3, 2.7))
    for axes, axis in zip(made.axes, one.axes, strict=True):
        made.head(axes, f"{axis.variable} ({SIZES[axis.variable]})", SIZES[axis.variable])
        sizes = np.array(axis.values, dtype=float)
        for label in axis.labels:
            _points(made, axes, axis, label, sizes, fits.get((axis.variable, label)), looks[label])
        made.logarithmic(axes)
        from matplotlib.ticker import NullLocator

        axes.set_xticks(sizes, [f"{v:,.0f}" if v < 1e4 else f"{v / 1e3:g}k" for v in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
    return made


def _points(made: Drawing, axes: Any, axis: Axis, label: str, sizes: Floats, fit: Any, look: Look) -> None:
    groups = axis.groups(label)
    mean = np.array([g.final.mean() for g in groups])
    if not (mean > 0.0).all():
        return
    ends = [statistics.mean_interval(g.final) for g in groups]
    low, high = np.array([e[0] for e in ends]), np.array([e[1] for e in ends])
    bars = None if np.isnan(low).any() else np.stack([mean - low, high - mean])
    axes.errorbar(sizes, mean, yerr=bars, color=look.colour, linestyle="", marker="o", markersize=4, elinewidth=1.1)
    if fit is not None and np.isfinite(fit.value):
        centre = np.exp(np.log(mean).mean() - fit.value * np.log(sizes).mean())
        axes.plot(sizes, centre * sizes**fit.value, color=look.colour, linestyle=look.style, linewidth=1.1)
    made.keep(axes, label, sizes, mean, low, high)
    made.legend.setdefault(label, look)


def referral(one: Referrals) -> Drawing:
    """Regret against the share referred, a point a threshold; and the referral rate over time."""
    from matplotlib.ticker import PercentFormatter

    title = f"{one.setting.title}: {one.agent} refers to {one.expert}"
    made = Drawing(2, 2, title, panel=(4.2, 3.0))
    left, right = made.axes
    made.head(left, "regret at the end", "share of individuals referred")
    left.set(xlim=(-0.03, 1.03))
    made.head(right, "referral rate, recent", "episode")
    right.set(ylim=(-0.03, 1.03))
    share = np.array([(g.curve("referred")[:, -1] / g.episodes).mean() for g in one.groups])
    final = np.array([g.final.mean() for g in one.groups])
    ends = [statistics.mean_interval(g.final) for g in one.groups]
    low, high = np.array([e[0] for e in ends]), np.array([e[1] for e in ends])
    left.plot(share, final, color=MUTED, linewidth=1.0, zorder=1)
    for i, (g, look) in enumerate(zip(one.groups, shades(len(one.groups)), strict=True)):
        name = f"{one.criterion} above {one.thresholds[i]:g}"
        reach = None if np.isnan(low[i]) else [[final[i] - low[i]], [high[i] - final[i]]]
        left.errorbar(share[i], final[i], yerr=reach, color=look.colour, marker="o", markersize=5, capsize=2.5)
        made.keep(left, name, [share[i]], [final[i]], low[i], high[i])
        made.curve(right, name, *_recent(g, "referred"), look)
    top = max(float(np.nanmax(np.where(np.isnan(high), final, high))), 1e-3)
    ends_of = {f"{one.agent} alone": (one.alone, COLOURS[1], "--"), f"{one.expert} alone": (one.expert_alone, INK, ":")}
    for name, (group, colour, style) in ends_of.items():
        if group is not None:
            mean = float(group.final.mean())
            left.axhline(mean, color=colour, linestyle=style, linewidth=1.3, zorder=0)
            made.keep(left, name, [0.0, 1.0], [mean, mean], np.nan, np.nan)
            made.legend.setdefault(name, Look(colour, style))
            top = max(top, mean)
    left.set_ylim(-0.04 * top, 1.08 * top)
    made.linear(left, "y")
    made.logarithmic(right, "x")
    left.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    right.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    return made
