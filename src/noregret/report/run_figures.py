"""The figures of commands: regret of runs, of a referral study, and on the worlds of the lower bound.

Lines are means over seeds (or worlds), bands reach from the lowest to the highest."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..simulation import ReferralStudy, Run
from ..verification.frontier import Standing
from ..verification.scaling import Point
from .curves import Series, Threshold, extent, linear_panel, logarithmic_panel, mean, positive, trade_off, window
from .data import SIZES
from .drawing import BESIDE, COLOURS, CONTROLS, FAINT, MUTED, Curve, Drawing, Look, looks, shades

MANY = 9  # runs: from here on one panel a group


def regret_figure(runs: Sequence[Run], path: Any, title: str | None = None) -> None:
    """Left: cumulative regret. Right: regret per episode in the recent past, on logarithmic axes.

    Many runs get a panel for each group of agents instead (`grouped_figure`)."""
    if len(runs) >= MANY:
        grouped_figure(runs, path, title)
        return
    made = Drawing(2, 2, f"{title or runs[0].world}: regret, {_over(len(runs[0].seeds))}", panel=(5.5, 4.0))
    left, right = made.axes
    made.head(left, "cumulative regret", "episode")
    made.head(right, "regret per episode, recent", "episode")
    series = _series(runs)
    linear_panel(made, left, series)
    logarithmic_panel(made, right, series, Series.recent)
    made.draw(path)


def grouped_figure(runs: Sequence[Run], path: Any, title: str | None = None) -> None:
    """Regret per episode in the recent past, one panel a group of agents on the same logarithmic axes; the runs of the
    other groups stay behind in light grey, uniform play dotted in every panel."""
    shown = [run for run in runs if run.agent != "oracle"]
    groups = list(dict.fromkeys(run.group for run in shown))
    about = f"{title or runs[0].world}: regret per episode by group, {_over(len(runs[0].seeds))}"
    made = Drawing(len(groups), 3, about, panel=(4.3, 3.7), share=True)
    curves = {run.label: positive(series.recent()) for run, series in zip(shown, _series(shown), strict=True)}
    for axes, group in zip(made.axes, groups, strict=True):
        made.head(axes, group, "episode")
        for run in shown:
            if run.group != group:
                uniform = run.agent == "uniform-random"
                look, width = (CONTROLS[run.agent], 1.2) if uniform else (FAINT, 0.9)
                made.curve(axes, run.label, curves[run.label], look, label=None, width=width, band=False)
        for label, look in looks([(run.label, run.agent) for run in shown if run.group == group]).items():
            made.curve(axes, label, curves[label], look)
        axes.legend(fontsize=7.5, frameon=False, loc="lower left")
    window(made.axes[0], [curve.y for curve in curves.values()])
    for axes in made.axes:
        made.logarithmic(axes)
    made.legend.clear()  # every panel has its own
    made.draw(path)


def referral_figure(study: ReferralStudy, path: Any, title: str | None = None) -> None:
    """Left: regret at the end against the share of individuals handed over, a point a threshold. Right: how often the
    agent referred in the recent past, against the episode."""
    about = f"{title or study.world}: {study.agent} refers to {study.expert}, {_over(len(study.seeds))}"
    found = [
        Threshold(
            f"{study.criterion} above {study.thresholds[i]:g}", study.regret[i, :, -1], study.episodes,
            study.referred[i].astype(float),
        )
        for i in np.argsort(study.thresholds)
    ]  # fmt: skip
    alone = {"agent alone": study.alone[:, -1], "expert alone": study.expert_alone[:, -1]}
    trade_off(about, found, alone, extent).draw(path)


def scaling_figure(points: Sequence[Point], path: Any) -> None:
    """Regret / (H sqrt(d S A K)) on the worlds of the lower bound: a row a link, a panel a variable, all else fixed.

    Points are means over worlds, bars two standard errors."""
    of: dict[tuple[str, str], dict[str, list[Point]]] = {}
    for p in points:
        of.setdefault((p.link, p.variable), {}).setdefault(p.agent, []).append(p)
    variables = len({variable for _, variable in of})
    title = f"Regret / (H sqrt(d S A K)) on the worlds of the lower bound, one size at a time ({points[0].ratio.size} "
    made = Drawing(len(of), variables, f"{title}worlds each)", panel=(12.0 / variables, 2.7))
    for axes, ((link, variable), agents) in zip(made.axes, of.items(), strict=True):
        made.head(axes, f"{link} link", SIZES[variable])
        for i, (agent, some) in enumerate(agents.items()):
            x = np.array([p.value for p in some]) * 1.03 ** (i - 0.5 * len(agents))  # side by side
            y = np.array([p.ratio.mean() for p in some])
            reach = 2.0 * np.array([p.ratio.std(ddof=1) for p in some]) / np.sqrt([p.ratio.size for p in some])
            look = Look(COLOURS[i - 1]) if i else Look(MUTED, ":")
            made.points(axes, agent, Curve(x, y, y - reach, y + reach), look, joined=True)
        made.sizes(axes, [p.value for p in next(iter(agents.values()))])
    for link in {link for link, _ in of}:
        row = [axes for axes, (other, _) in zip(made.axes, of, strict=True) if other == link]
        top = max(axes.get_ylim()[1] for axes in row)
        for axes in row:
            axes.set_ylim(0.0, top)
    made.draw(path)


def frontier_figure(made: Sequence[Standing], path: Any) -> None:
    """Left and middle: regret and certificates over the episodes. Right: the regret at the end against the last
    certificates, with standard errors over worlds; agents that differ in kappa alone are joined, and one without
    certificates is a line across, unless it is far above the others."""
    n = made[0].regret.shape[0]
    title = f"The constants of the guarantees: mean over {n} worlds" if n > 1 else "The constants of the guarantees"
    drawn = Drawing(3, 3, title, panel=(4.6, 4.2))
    own = _looks(made)
    left, middle, right = drawn.axes
    drawn.head(left, "cumulative regret", "episode")
    drawn.head(middle, "certificate, recent", "episode")
    for s in made:
        drawn.curve(left, s.label, positive(mean(s.episodes, s.regret, extent)), own[s.label], band=False)
        if np.isfinite(s.certificate).all():
            total = np.cumsum(s.certificate * np.diff(s.episodes, prepend=0.0), axis=1)
            recent = Series(s.label, own[s.label], s.episodes, total, extent).recent()
            drawn.curve(middle, s.label, positive(recent), own[s.label], band=False)
    for axes in (left, middle):
        drawn.logarithmic(axes)
    _trade(drawn, right, made, own)
    drawn.draw(path)


def _looks(made: Sequence[Standing]) -> dict[str, Look]:
    """Shades for those that differ in kappa alone, the darker the stricter, colours for the others."""
    families = [s.family for s in made]
    own = looks([(s.label, s.name) for s in made if families.count(s.family) == 1], BESIDE)
    for family in dict.fromkeys(families):
        members = sorted((s for s in made if s.family == family), key=lambda s: -s.kappa)
        if len(members) > 1:
            own |= {s.label: look for s, look in zip(members, shades(len(members)), strict=True)}
    return own


def _trade(drawn: Drawing, axes: Any, made: Sequence[Standing], own: dict[str, Look]) -> None:
    drawn.head(axes, "regret at the end, and the last certificates", "certificate, last twentieth of the episodes")
    most = 2.0 * max((s.final.mean() for s in made if np.isfinite(s.last_certificate)), default=np.inf)
    for family in dict.fromkeys(s.family for s in made if s.final.mean() < most):
        members = sorted((s for s in made if s.family == family), key=lambda s: s.kappa)
        at = [[s.last_certificate for s in members], [s.final.mean() for s in members]]
        axes.plot(*at, color=MUTED, linewidth=1.0, zorder=1)
        for s, x, y in zip(members, *at, strict=True):
            if np.isnan(x):
                drawn.level(axes, s.label, y, own[s.label]._replace(style=(0, (1, 1.5))))
                continue
            bars = {"elinewidth": 1.0, "marker": "o", "markersize": 6}
            axes.errorbar(x, y, _error(s.final), _error(s.last), color=own[s.label].colour, **bars)
            if len(members) > 1:
                axes.annotate(f"kappa {s.kappa:g}", (x, y), (7, 5), textcoords="offset points", fontsize=8)
    axes.set_xlim(left=0.0)
    drawn.linear(axes, "x")
    drawn.logarithmic(axes, "y")


def _error(values: Any) -> float:
    """A standard error, 0 of one value."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else 0.0


def _series(runs: Sequence[Run]) -> list[Series]:
    own = looks([(run.label, run.agent) for run in runs])
    return [Series(run.label, own[run.label], run.episodes, run.regret, extent) for run in runs]


def _over(seeds: int) -> str:
    return f"mean and range over {seeds} seeds" if seeds > 1 else "one seed"
