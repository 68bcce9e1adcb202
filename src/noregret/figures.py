"""Figures: regret curves with their spread over seeds, regret against the share referred, and the lower bound."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .simulation import ReferralStudy, Run

if TYPE_CHECKING:
    from .verification.frontier import Standing
    from .verification.scaling import Point

# Okabe and Ito (2008): told apart by colour-blind readers and in print. Controls are grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#332288", "#882255")
_CONTROLS = {"uniform-random": ("#555555", (0, (1, 1.5))), "oracle": ("#111111", (0, (5, 2)))}


MANY = 9  # runs: from here on one panel a group


def regret_figure(runs: Sequence[Run], path: Any, title: str | None = None) -> None:
    """Left: cumulative regret. Right: regret per episode in the recent past, on logarithmic axes.

    Lines are means over seeds, bands reach from the lowest to the highest seed. Many runs get a panel for each group of
    agents instead (`grouped_figure`)."""
    if len(runs) >= MANY:
        grouped_figure(runs, path, title)
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, FuncFormatter

    rows = len(runs) // 3 if max(len(run.label) for run in runs) > 30 else len(runs) // 6
    figure = Figure(figsize=(11, 4.4 + 0.2 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    colours = iter(_COLOURS * 4)
    ends = []
    for run in runs:
        colour, style = _CONTROLS.get(run.agent) or (next(colours), "-")
        mean = run.regret.mean(0)
        line = {"color": colour, "linestyle": style, "linewidth": 1.6, "label": run.label}
        left.plot(run.episodes, mean, **line)
        left.fill_between(run.episodes, run.regret.min(0), run.regret.max(0), color=colour, alpha=0.18, linewidth=0)
        ends.append(mean[-1])
        if run.agent == "oracle":
            continue
        at, recent = _recent(run.episodes, run.regret, least=1e-12)
        right.plot(at, recent.mean(0), **line)
        right.fill_between(at, recent.min(0), recent.max(0), color=colour, alpha=0.18, linewidth=0)
    seeds = len(runs[0].seeds)
    left.set(xlabel="episode", ylabel="cumulative regret", xlim=(0, runs[0].episodes[-1]))
    top = max(max(ends), 1e-3)
    left.set_ylim(-0.03 * top, 1.05 * top)
    for axis in (left.xaxis, left.yaxis):
        axis.set_major_formatter(EngFormatter(sep=""))
    right.set(xlabel="episode", ylabel="regret per episode", xscale="log", yscale="log")
    right.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    right.yaxis.set_minor_formatter(FuncFormatter(lambda v, _: f"{v:g}" if f"{v:e}"[0] in "25" else ""))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.92", linewidth=0.8)
        axes.set_axisbelow(True)
    handles, labels = left.get_legend_handles_labels()
    columns = max(1, min(4, len(labels), 136 // (max(map(len, labels)) + 6)))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    about = f"mean and range over {seeds} seeds" if seeds > 1 else "one seed"
    figure.suptitle(f"{title or runs[0].world}: regret, {about}", x=0.01, ha="left", fontsize=11)
    figure.savefig(path, dpi=150)


def grouped_figure(runs: Sequence[Run], path: Any, title: str | None = None) -> None:
    """Regret per episode in the recent past, one panel a group of agents on the same logarithmic axes; the runs of the
    other groups stay behind in light grey, uniform play dotted in every panel.

    Lines are means over seeds, bands (of the group's own) from the lowest to the highest seed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    shown = [run for run in runs if run.agent != "oracle"]
    groups = list(dict.fromkeys(run.group for run in shown))
    columns = min(3, len(groups))
    rows = -(-len(groups) // columns)
    figure = Figure(figsize=(4.3 * columns, 0.5 + 3.7 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    curves = {id(run): _recent(run.episodes, run.regret, least=1e-12) for run in shown}
    for axes, group in zip(grid.flat, groups, strict=False):
        colours = iter(_COLOURS * 4)
        for run in sorted(shown, key=lambda run: run.group == group):
            at, recent = curves[id(run)]
            if run.group == group:
                colour, style = _CONTROLS.get(run.agent) or (next(colours), "-")
                axes.fill_between(at, recent.min(0), recent.max(0), color=colour, alpha=0.15, linewidth=0)
                axes.plot(at, recent.mean(0), color=colour, linestyle=style, linewidth=1.6, label=run.label)
            elif run.agent == "uniform-random":
                axes.plot(at, recent.mean(0), color="#555555", linestyle=(0, (1, 1.5)), linewidth=1.2)
            else:
                axes.plot(at, recent.mean(0), color="0.86", linewidth=0.9, zorder=1)
        axes.set(xscale="log", yscale="log", title=group)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.94", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.legend(fontsize=7.5, frameon=False, loc="lower left")
    values = np.concatenate([recent.mean(0) for _, recent in curves.values()])
    grid.flat[0].set_ylim(max(values.min(), 1e-4 * values.max()), 1.5 * values.max())
    for axes in grid.flat[len(groups) :]:
        axes.set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel("episode")
    for row in grid:
        row[0].set_ylabel("regret per episode")
    seeds = len(runs[0].seeds)
    about = f"mean and range over {seeds} seeds" if seeds > 1 else "one seed"
    figure.suptitle(f"{title or runs[0].world}: regret per episode by group, {about}", x=0.01, ha="left", fontsize=11)
    figure.savefig(path, dpi=150)


def referral_figure(study: ReferralStudy, path: Any, title: str | None = None) -> None:
    """Left: regret at the end against the share of individuals handed over, a point a threshold. Right: how often the
    agent referred in the recent past, against the episode.

    Lines and points are means over seeds, bars and bands reach from the lowest to the highest seed."""
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, PercentFormatter

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    order = np.argsort(study.thresholds)
    shades = colormaps["viridis"](np.linspace(0.85, 0.1, order.size))
    share, regret = study.share.mean(1), study.regret[:, :, -1]
    left.plot(share[order], regret.mean(1)[order], color="0.7", linewidth=1.2, zorder=1)
    for colour, i in zip(shades, order, strict=True):
        name, mean = f"{study.thresholds[i]:g}", regret[i].mean()
        reach = [[mean - regret[i].min()], [regret[i].max() - mean]]
        left.errorbar(share[i], mean, yerr=reach, color=colour, marker="o", markersize=6, elinewidth=1.2, capsize=3)
        at, rates = _recent(study.episodes, study.referred[i].astype(float))
        right.plot(at, rates.mean(0), color=colour, linewidth=1.6, label=name)
        right.fill_between(at, rates.min(0), rates.max(0), color=colour, alpha=0.18, linewidth=0)
    ends = {"agent alone": (study.alone, "#D55E00", "--"), "expert alone": (study.expert_alone, "#111111", ":")}
    for name, (curve, colour, style) in ends.items():
        left.axhline(curve[:, -1].mean(), color=colour, linestyle=style, linewidth=1.4, label=name, zorder=0)
    top = max(regret.max(), study.alone[:, -1].mean(), study.expert_alone[:, -1].mean(), 1e-3)
    left.set(xlabel="share of individuals referred", ylabel="regret at the end", xlim=(-0.02, 1.02))
    left.set_ylim(-0.04 * top, 1.08 * top)
    left.yaxis.set_major_formatter(EngFormatter(sep=""))
    left.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    right.set(xlabel="episode", ylabel="referral rate in the recent past", xscale="log", ylim=(-0.03, 1.03))
    right.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.92", linewidth=0.8)
        axes.set_axisbelow(True)
    left.legend(frameon=False, loc="best", fontsize=9)
    figure.legend(
        *right.get_legend_handles_labels(), loc="outside lower center", ncols=min(order.size, 8), frameon=False,
        title=f"threshold on the {study.criterion}", title_fontsize=9,
    )  # fmt: skip
    seeds = len(study.seeds)
    about = f"mean and range over {seeds} seeds" if seeds > 1 else "one seed"
    heading = f"{title or study.world}: {study.agent} refers to {study.expert}, {about}"
    figure.suptitle(heading, x=0.01, ha="left", fontsize=11)
    figure.savefig(path, dpi=150)


def _recent(
    episodes: NDArray[Any], total: NDArray[Any], windows: int = 40, least: float = 0.0
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Growth per episode of a running total [seeds, points] between consecutive points of a logarithmic grid:
    (episodes [w], [seeds, w]), none below `least`."""
    grid = np.unique(np.geomspace(1, episodes.size, windows).astype(int)) - 1
    total = np.concatenate([np.zeros((total.shape[0], 1)), total[:, grid]], axis=1)
    at = np.concatenate([[0], episodes[grid]])
    return episodes[grid], np.maximum(np.diff(total, axis=1) / np.diff(at), least)


def scaling_figure(points: "Sequence[Point]", path: Any) -> None:
    """Regret / (H sqrt(d S A K)) on the worlds of the lower bound: a row a link, a panel a variable, all else fixed.

    Points are means over worlds, bars two standard errors."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from .verification.scaling import SYMBOLS

    links, agents = list(dict.fromkeys(p.link for p in points)), list(dict.fromkeys(p.agent for p in points))
    figure = Figure(figsize=(12, 0.9 + 2.5 * len(links)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(links), len(SYMBOLS), sharey=True, squeeze=False)
    colours = ("#555555", *_COLOURS)
    for row, link in zip(grid, links, strict=True):
        for axes, (variable, symbol) in zip(row, SYMBOLS.items(), strict=True):
            for i, agent in enumerate(agents):
                some = [p for p in points if (p.link, p.variable, p.agent) == (link, variable, agent)]
                x = np.array([p.value for p in some]) * 1.03 ** (i - 0.5 * len(agents))  # side by side
                mean = [p.ratio.mean() for p in some]
                bar = [2.0 * p.ratio.std(ddof=1) / np.sqrt(p.ratio.size) for p in some]
                style = {"linestyle": ":" if i == 0 else "-", "marker": "o", "markersize": 3.5, "linewidth": 1.3}
                axes.errorbar(x, mean, yerr=bar, color=colours[i], label=agent, elinewidth=1.0, **style)
            ticks = [p.value for p in points if (p.link, p.variable, p.agent) == (link, variable, agents[0])]
            axes.set(xscale="log", xlabel=symbol if link == links[-1] else "")
            axes.set_xticks(ticks, [f"{t // 1000}k" if t >= 10_000 or t % 1000 == 0 else f"{t}" for t in ticks])
            axes.set_xticks([], minor=True)
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(color="0.92", linewidth=0.8)
            axes.set_axisbelow(True)
        row[0].set(ylabel=f"{link} link", ylim=(0.0, None))
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    count = points[0].ratio.size
    title = f"Regret / (H sqrt(d S A K)) on the worlds of the lower bound, one size at a time ({count} worlds each)"
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    figure.savefig(path, dpi=150)


def frontier_figure(made: Sequence["Standing"], path: Any) -> None:
    """Three panels over the episodes, on logarithmic axes: regret, certificates, and the 1-norm width of the
    transitions at the pairs visited (2 is the most that can be). Lines are means over worlds, bands the range."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(13, 4.7), layout="constrained")
    FigureCanvasAgg(figure)
    left, middle, right = figure.subplots(1, 3)
    for s, colour in zip(made, _COLOURS * 2, strict=False):
        line = {"color": colour, "linewidth": 1.6, "label": s.label}
        for axes, curves in ((left, s.regret), (middle, s.certificate), (right, s.width)):
            if np.isfinite(curves).all():
                axes.plot(s.episodes, curves.mean(0), **line)
                axes.fill_between(s.episodes, curves.min(0), curves.max(0), color=colour, alpha=0.15, linewidth=0)
    right.axhline(2.0, color="#555555", linewidth=1.0, linestyle=(0, (1, 1.5)))
    right.annotate("nothing is known", (made[0].episodes[0], 2.0), (0, 4), textcoords="offset points", fontsize=8)
    for axes, name in ((left, "cumulative regret"), (middle, "certificate"), (right, "1-norm width of transitions")):
        axes.set(xlabel="episode", xscale="log", yscale="log")
        axes.set_title(name, loc="left", fontsize=10)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,g}"))
        axes.yaxis.set_minor_formatter(FuncFormatter(lambda v, _: f"{v:,g}" if f"{v:e}"[0] in "25" else ""))
        axes.tick_params(axis="y", which="minor", labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.92", linewidth=0.8)
        axes.set_axisbelow(True)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    worlds = made[0].regret.shape[0]
    figure.suptitle(
        f"The constants of the guarantees: mean and range over {worlds} worlds", x=0.01, ha="left", fontsize=11
    )
    figure.savefig(path, dpi=150)
