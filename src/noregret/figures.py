"""Figures: regret curves with their spread over seeds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .simulation import Run

# Okabe and Ito (2008): told apart by colour-blind readers and in print. Controls are grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#332288", "#882255")
_CONTROLS = {"uniform-random": ("#555555", (0, (1, 1.5))), "oracle": ("#111111", (0, (5, 2)))}


def regret_figure(runs: Sequence[Run], path: Any, title: str | None = None) -> None:
    """Left: cumulative regret. Right: regret per episode in the recent past, on logarithmic axes.

    Lines are means over seeds, bands reach from the lowest to the highest seed."""
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
        at, recent = _recent(run)
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


def _recent(run: Run, windows: int = 40) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean regret per episode between consecutive points of a logarithmic grid: (episodes [w], [seeds, w])."""
    grid = np.unique(np.geomspace(1, run.episodes.size, windows).astype(int)) - 1
    total = np.concatenate([np.zeros((run.regret.shape[0], 1)), run.regret[:, grid]], axis=1)
    at = np.concatenate([[0], run.episodes[grid]])
    return run.episodes[grid], np.maximum(np.diff(total, axis=1) / np.diff(at), 1e-12)
