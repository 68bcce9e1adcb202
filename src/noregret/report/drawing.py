"""Panels with lines and bands, for commands and reports: the one palette, saved as PNG and SVG for papers, and as
inline SVG panels for a page.

A page shows each panel as an SVG of its own, so that panels wrap on a narrow screen; text stays text, and the colours
are CSS variables, so that a dark page gets lighter ones. What is drawn is also kept as numbers.
"""

import base64
import csv
import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..storage.spreadsheets import guarded
from .svg import inline

HEAVY = 300_000  # characters of inline SVG from which a page shows the PNG instead
INK, MUTED, GRID = "#1f2328", "#6b7280", "#e4e6e9"
# Okabe and Ito (2008): told apart by colour-blind readers and in print. The page has lighter ones for dark screens.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#332288", "#882255")
# For an order such as thresholds: light to dark (viridis).
SHADES = ("#8fd744", "#55c667", "#29af7f", "#20908d", "#2d708e", "#39558c", "#453781", "#481567")
BESIDE = tuple(c for c in COLOURS if c not in ("#009e73", "#332288"))  # those that look like none of the shades
_VARIABLES = {INK: "ink", MUTED: "muted", GRID: "grid"} | {c: f"c{i}" for i, c in enumerate(COLOURS)}
_VARIABLES |= {c: f"o{i}" for i, c in enumerate(SHADES)}
_STYLES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
_SHARPNESS = 150  # dots per inch
_TOGETHER = 1.0  # points: a line that is nearer to a later one is hidden by it
_PART = 0.1  # of a line that must be hidden before it is shown again
_RC: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "noregret", "font.size": 9.0, "text.color": INK, "axes.edgecolor": MUTED,
    "axes.labelcolor": INK, "xtick.color": MUTED, "ytick.color": MUTED, "xtick.labelcolor": INK,
    "ytick.labelcolor": INK, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.8, "axes.axisbelow": True,
    "axes.facecolor": "none", "axes.linewidth": 0.8, "path.simplify": True, "path.simplify_threshold": 0.3,
    "text.parse_math": False,
}  # fmt: skip


class Look(NamedTuple):
    """Colour and dashes of one series, the same in every figure of a report."""

    colour: str
    style: Any = "-"

    @property
    def variable(self) -> str:
        return _VARIABLES[self.colour]

    @property
    def dashes(self) -> str:
        """For stroke-dasharray, in units of the swatch."""
        named = {"--": (5, 2), ":": (1, 1.5)}
        pattern = named.get(self.style) if isinstance(self.style, str) else self.style[1]
        return " ".join(f"{2 * p:g}" for p in pattern) if pattern else ""


CONTROLS = {"uniform-random": Look(MUTED, (0, (1, 1.5))), "oracle": Look(INK, (0, (5, 2)))}
FAINT = Look(GRID)  # for what stays in the background


class Curve(NamedTuple):
    """A line with its band, or points with their bars: [points] each. low and high nan: none."""

    x: Any
    y: Any
    low: Any = np.nan
    high: Any = np.nan


def looks(labels: Sequence[tuple[str, str]], colours: Sequence[str] = COLOURS) -> dict[str, Look]:
    """A look for each (label, agent's name), in order: colours first, then dashes; controls are grey."""
    made: dict[str, Look] = {}
    taken = 0
    for label, name in labels:
        if label in made:
            continue
        if name in CONTROLS and CONTROLS[name] not in made.values():
            made[label] = CONTROLS[name]
            continue
        made[label] = Look(colours[taken % len(colours)], _STYLES[taken // len(colours) % len(_STYLES)])
        taken += 1
    return made


def shades(count: int) -> list[Look]:
    """Looks in an order, from light to dark."""
    at = np.linspace(0, len(SHADES) - 1, count).round().astype(int) if count > 1 else [4]
    return [Look(SHADES[i]) for i in at]


class Picture(NamedTuple):
    """What the page needs of a figure: panels as inline SVG (or one PNG), the legend, the files."""

    name: str
    panels: list[str]
    legend: list[tuple[str, Look]]
    image: str | None  # data URI of the PNG, where the SVG is too heavy
    numbers: str  # CSV
    columns: int
    wide: float  # widest a panel should be shown, in CSS pixels

    @property
    def download(self) -> str:
        return "data:text/csv;base64," + base64.b64encode(self.numbers.encode()).decode()


@dataclass
class Drawing:
    """A grid of panels. `axes` is flat, in reading order; unused panels at the end are hidden."""

    count: int
    columns: int
    title: str
    panel: tuple[float, float] = (3.5, 2.7)  # inches
    share: bool = False  # the axes of all panels
    legend: dict[str, Look] = field(default_factory=dict)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    lines: dict[Any, list[Any]] = field(default_factory=dict)  # axes -> what `curve` drew there

    def __post_init__(self) -> None:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.columns = min(self.columns, self.count)
        lines = -(-self.count // self.columns)
        with rc_context(_RC):
            self.figure = Figure(figsize=(self.panel[0] * self.columns, self.panel[1] * lines), layout="constrained")
            FigureCanvasAgg(self.figure)
            grid = self.figure.subplots(lines, self.columns, sharex=self.share, sharey=self.share, squeeze=False)
            self.axes: list[Any] = list(grid.flat)[: self.count]
            for axes in self.axes:
                axes.tick_params(length=2.5, labelsize=8, labelbottom=True, labelleft=True)
                axes.tick_params(which="minor", length=1.5, labelsize=7)
            for axes in list(grid.flat)[self.count :]:
                axes.set_visible(False)

    def head(self, axes: Any, title: str, xlabel: str = "", size: float = 9.5) -> None:
        axes.set_title(title, loc="left", fontsize=size)
        axes.set_xlabel(xlabel, fontsize=8.5)

    def curve(
        self, axes: Any, series: str, curve: Curve, look: Look, *, label: str | None = "", width: float = 1.6,
        band: bool = True,
    ) -> None:  # fmt: skip
        """A line with its band. label: in the legend, `series` unless told; None: not in it."""
        style = {"color": look.colour, "linestyle": look.style, "linewidth": width}
        (line,) = axes.plot(curve.x, np.asarray(curve.y, float), label="_" if label is None else series, **style)
        self.lines.setdefault(axes, []).append(line)
        if band and np.isfinite(curve.low).any():
            axes.fill_between(curve.x, curve.low, curve.high, color=look.colour, alpha=0.16, linewidth=0)
        self._keep(axes, series, curve)
        if label is not None:
            self.legend.setdefault(label or series, look)

    def points(self, axes: Any, series: str, at: Curve, look: Look, joined: bool = False) -> None:
        """Points with their bars, joined by a line or not."""
        y, low, high = (np.broadcast_to(np.asarray(v, float), np.shape(at.y)) for v in at[1:])
        bars = None if np.isnan(low).any() else np.maximum([y - low, high - y], 0.0)  # a mean is rounded
        line = {"linestyle": look.style if joined else "", "linewidth": 1.3, "elinewidth": 1.1}
        axes.errorbar(at.x, y, yerr=bars, color=look.colour, marker="o", markersize=4, **line)
        self._keep(axes, series, at)
        self.legend.setdefault(series, look)

    def level(self, axes: Any, series: str, value: float, look: Look) -> float:
        """A line across the panel; its height."""
        axes.axhline(value, color=look.colour, linestyle=look.style, linewidth=1.2, zorder=0)
        self._keep(axes, series, Curve([0.0, 1.0], [value, value]))
        self.legend.setdefault(series, look)
        return value

    def _keep(self, axes: Any, series: str, curve: Curve) -> None:
        """Into the numbers beside the figure."""
        panel = axes.get_title(loc="left").replace("\n", " ")
        low, high = (np.broadcast_to(v, np.shape(curve.y)) for v in (curve.low, curve.high))
        self.rows += [(panel, series, *v) for v in zip(np.asarray(curve.x).tolist(), curve.y, low, high, strict=True)]

    def logarithmic(self, axes: Any, which: str = "xy") -> None:
        """Logarithmic axes with plain numbers, also at 2 and 5 where they span little; for axes with their limits."""
        from matplotlib.ticker import FuncFormatter, NullFormatter

        for way in which:
            axis = axes.xaxis if way == "x" else axes.yaxis
            getattr(axes, f"set_{way}scale")("log")
            low, high = getattr(axes, f"get_{way}lim")()
            axis.set_major_formatter(FuncFormatter(lambda v, _: plain(v)))
            digits = "123456789" if high < 4.0 * low else "25"
            some = FuncFormatter(lambda v, _, digits=digits: plain(v) if f"{v:.0e}"[0] in digits else "")
            most = 1000.0 if self.panel[1] > 3.5 else 30.0  # a large panel has room for more
            axis.set_minor_formatter(some if high < most * low else NullFormatter())

    def linear(self, axes: Any, which: str = "xy") -> None:
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        for way in which:
            axis = axes.xaxis if way == "x" else axes.yaxis
            axis.set_major_locator(MaxNLocator(5))
            axis.set_major_formatter(FuncFormatter(lambda v, _: plain(v)))

    def sizes(self, axes: Any, values: Sequence[float]) -> None:
        """A logarithmic axis below with these ticks and no others."""
        axes.set_xscale("log")
        axes.set_xticks(values, [f"{v:,.0f}" if v < 1e4 else f"{v / 1e3:g}k" for v in values])
        axes.set_xticks([], minor=True)

    def draw(self, path: Any) -> None:
        """Write it as an image."""
        from matplotlib import rc_context

        with rc_context(_RC):
            self._finish()
            self.figure.savefig(path, dpi=_SHARPNESS)

    def _finish(self) -> None:
        """Title, legend, room for both; lines that coincide are told apart."""
        from matplotlib.lines import Line2D

        figure, room = self.figure, 0.35
        handles = [Line2D([], [], color=v.colour, linestyle=v.style, linewidth=1.6) for v in self.legend.values()]
        if handles:
            across = 14.0 * self.panel[0] * self.columns / (max(map(len, self.legend)) + 6)  # characters an inch
            ncols = max(1, min(len(handles), int(across)))
            room += 0.19 * -(-len(handles) // ncols) + 0.1
            figure.legend(handles, list(self.legend), loc="outside lower center", ncols=ncols, frameon=False)
        title = textwrap.fill(self.title, int(12.0 * figure.get_figwidth()))  # so many characters an inch
        room += 0.18 * title.count("\n")
        figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, color=INK)
        figure.set_figheight(figure.get_figheight() + room)
        for axes, lines in self.lines.items():
            for i, line in enumerate(lines):
                hidden = [(other, part) for other in lines[:i] if (part := _covered(axes, other, line)) is not None]
                for k, (other, part) in enumerate(hidden[-2:]):  # shown as dashes on top, side by side
                    x, y = other.get_data()
                    style = {"color": other.get_color(), "linewidth": other.get_linewidth()}
                    axes.plot(x, np.where(part, y, np.nan), linestyle=(4.0 * k, (4.0, 8.0)), zorder=2.5, **style)

    def save(self, folder: Path, name: str) -> Picture:
        """Write name.png, name.svg and name.csv; what the page shows of it."""
        from matplotlib import rc_context

        figure = self.figure
        with rc_context(_RC):
            self._finish()
            png = io.BytesIO()
            figure.savefig(png, dpi=_SHARPNESS, format="png", metadata={"Software": None})
            boxes = self._boxes()
            figure.set_layout_engine(None)  # done above
            svg = io.StringIO()
            figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        numbers = self._numbers()
        (folder / f"{name}.png").write_bytes(png.getvalue())
        (folder / f"{name}.svg").write_text(svg.getvalue(), encoding="utf-8")
        (folder / f"{name}.csv").write_text(numbers, encoding="utf-8")
        panels, image = inline(svg.getvalue(), boxes, name, _VARIABLES), None
        if sum(map(len, panels)) > HEAVY:
            panels, image = [], "data:image/png;base64," + base64.b64encode(png.getvalue()).decode()
        wide = 96.0 * self.panel[0] * 1.3
        return Picture(name, panels, list(self.legend.items()), image, numbers, self.columns, wide)

    def _boxes(self) -> list[tuple[float, float, float, float]]:
        """A view box for each panel, in points: its axes with room for the labels, the same room for all."""
        scale, height = 72.0 / self.figure.dpi, self.figure.get_figheight() * 72.0
        renderer = self.figure.canvas.get_renderer()  # type: ignore[attr-defined]
        inner = [axes.get_window_extent(renderer).extents * scale for axes in self.axes]
        outer = [axes.get_tightbbox(renderer).extents * scale for axes in self.axes]
        margin = np.max(np.abs(np.array(outer) - np.array(inner)), axis=0) + 3.0
        made = []
        for x0, y0, x1, y1 in inner:
            left, right, bottom, top = x0 - margin[0], x1 + margin[2], y0 - margin[1], y1 + margin[3]
            made.append((left, height - top, right - left, top - bottom))
        return made

    def _numbers(self) -> str:
        out = io.StringIO()
        write = csv.writer(out, lineterminator="\n")
        write.writerow(("panel", "series", "x", "y", "low", "high"))
        for panel, series, *values in self.rows:
            write.writerow((guarded(panel), guarded(series), *(f"{v:.5g}" if np.isfinite(v) else "" for v in values)))
        return out.getvalue()


def _covered(axes: Any, below: Any, above: Any) -> Any:
    """Where one line of a panel lies under another [points]; None where that is hardly anywhere."""
    with np.errstate(all="ignore"):
        a, b = (axes.transData.transform(line.get_xydata()) for line in (below, above))
    shown = b[np.isfinite(b).all(1)]
    if not len(shown):
        return None
    apart = np.abs(a[:, 1] - np.interp(a[:, 0], shown[:, 0], shown[:, 1], left=np.nan, right=np.nan))
    near = apart * 72.0 / axes.figure.dpi < _TOGETHER
    return near if near.mean() > _PART else None


def plain(v: float) -> str:
    """A tick: 0.01, 1, 200, 5k, 2M; no mathematics, which pages cannot set in their own font."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(v) >= unit * (1.0 - 1e-9):
            return f"{v / unit:.4g}{letter}"
    return "0" if abs(v) < 1e-12 else f"{v:.4g}"
