"""Small pictures as SVG text, with classes instead of colours so that one style sheet has light, dark and print.

Everything that is text goes through `markupsafe`: names may be hostile. Nothing has a style attribute, which the pages'
Content-Security-Policy would refuse."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from ...checks import Floats

WIDE, TALL = 340.0, 170.0  # of the drawing, in its own units: about pixels on a narrow screen
LEFT, RIGHT, TOP, BOTTOM = 42.0, 12.0, 8.0, 24.0
COLOURS = 8  # classes c0 to c7


class Line(NamedTuple):
    """A series: x, y [n]; low, high [n]: a band around it, or none; colour: 0 to 7."""

    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    colour: int = 0


class Part(NamedTuple):
    """A share of a bar: how much, and its colour; 8 and more are striped."""

    size: float
    colour: int
    title: str = ""


def lines(series: Sequence[Line], label: str, *, top: float | None = None, percent: bool = False) -> Markup:
    """Curves over the order of arrival; y from 0. top: where the axis ends, None: what is largest."""
    known = [v for one in series for values in (one.y, one.high) if values is not None for v in values.tolist()]
    high = top if top is not None else max([v for v in known if math.isfinite(v)], default=1.0)
    low = min([0.0, *(v for one in series for v in one.y.tolist() if math.isfinite(v))])
    ends = [v for one in series for v in one.x.tolist()]
    axes = _Axes(min(ends, default=0.0), max(ends, default=1.0), low, high if high > low else low + 1.0)
    made = [axes.frame(percent), axes.counts()]
    for one in series:
        if one.low is not None and one.high is not None and len(one.x) > 1:
            there = [f"{axes.x(a):.1f},{axes.y(b):.1f}" for a, b in zip(one.x, one.high, strict=True)]
            back = [f"{axes.x(a):.1f},{axes.y(b):.1f}" for a, b in zip(one.x[::-1], one.low[::-1], strict=True)]
            made.append(f'<polygon class="band c{one.colour}" points="{" ".join(there + back)}"/>')
    for one in series:
        points = [f"{axes.x(a):.1f},{axes.y(b):.1f}" for a, b in zip(one.x, one.y, strict=True)]
        if len(points) == 1:
            at = points[0].split(",")
            made.append(f'<circle class="dot c{one.colour}" cx="{at[0]}" cy="{at[1]}" r="3.5"/>')
        elif points:
            made.append(f'<polyline class="line c{one.colour}" points="{" ".join(points)}"/>')
    return _svg("".join(made), WIDE, TALL, label)


def bars_over_time(seconds: Floats, label: str, bins: int = 24) -> Markup:
    """How many came when: bars over the time from the first to the last."""
    some = seconds[np.isfinite(seconds)]
    if not some.size:
        return Markup("")
    first, last = float(some.min()), float(some.max())
    last = max(last, first + 60.0)
    counts, edges = np.histogram(some, bins=bins, range=(first, last))
    axes = _Axes(first, last, 0.0, float(counts.max()))
    made = [axes.frame(False, least=1.0)]
    for n, a, b in zip(counts, edges, edges[1:], strict=False):
        if n:
            left, up = axes.x(float(a)), axes.y(float(n))
            made.append(
                f'<rect class="fill c0" x="{left + 0.5:.1f}" y="{up:.1f}" width="{axes.x(float(b)) - left - 1.0:.1f}" '
                f'height="{axes.y(0.0) - up:.1f}"/>'
            )
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        at = first + share * (last - first)
        text = _moment(at, last - first)
        made.append(f'<text x="{axes.x(at):.1f}" y="{TALL - 6:.1f}" text-anchor="{anchor}">{escape(text)}</text>')
    return _svg("".join(made), WIDE, TALL, label)


def shares(parts: Sequence[Part], label: str) -> Markup:
    """One bar of parts that add up to the whole."""
    total, at, made = sum(p.size for p in parts), 0.0, []
    for part in parts if total > 0 else ():
        wide = 100.0 * part.size / total
        if wide > 0:
            made.append(
                f'<rect class="fill c{part.colour % COLOURS}{" other" if part.colour >= COLOURS else ""}" '
                f'x="{at:.2f}" y="0" width="{wide:.2f}" height="10"><title>{escape(part.title)}</title></rect>'
            )
        at += wide
    return _svg("".join(made), 100.0, 10.0, label, "bar", stretch=True)


def whiskers(rows: Sequence[tuple[float, float | None, float | None, bool]], label: str) -> Sequence[Markup]:
    """A row each: a value with its bounds on a common scale, (value, lower, upper, chosen)."""
    told = [v for value, low, high, _ in rows for v in (value, low, high) if v is not None and math.isfinite(v)]
    first, last = min(told, default=0.0), max(told, default=1.0)
    last = last if last > first else first + 1.0

    def x(v: float) -> float:
        return 4.0 + 192.0 * (v - first) / (last - first)

    made = []
    for value, low, high, chosen in rows:
        inside = '<line class="grid" x1="4" y1="8" x2="196" y2="8"/>'
        if low is not None and high is not None and math.isfinite(low + high):
            inside += f'<line class="whisker" x1="{x(low):.1f}" y1="8" x2="{x(high):.1f}" y2="8"/>'
        if math.isfinite(value):
            inside += f'<circle class="{"dot c0" if chosen else "dot plain"}" cx="{x(value):.1f}" cy="8" r="4"/>'
        made.append(_svg(inside, 200.0, 16.0, label, "whiskers"))
    return made


def mosaic(policy: NDArray[np.int64], path: Mapping[int, int], label: str) -> Markup:
    """A large plan: steps across, states down, a colour per action; path: step -> state, marked."""
    H, S = policy.shape
    wide, tall = 320.0 / H, max(min(320.0 / H, 400.0 / S), 2.0)
    made = [
        f'<rect class="fill c{int(a) % COLOURS}" x="{h * wide:.2f}" y="{s * tall:.2f}" width="{wide * 0.94:.2f}" '
        f'height="{tall * 0.94:.2f}"/>'
        for (h, s), a in np.ndenumerate(policy)
    ]
    for h, s in path.items():
        at = (h + 0.47) * wide, (s + 0.47) * tall
        made.append(f'<circle class="met" cx="{at[0]:.2f}" cy="{at[1]:.2f}" r="{0.3 * min(wide, tall):.2f}"/>')
    return _svg("".join(made), 320.0, S * tall, label)


class _Axes(NamedTuple):
    """From numbers to places in the drawing."""

    left: float
    right: float
    low: float
    high: float

    def x(self, v: float) -> float:
        width = self.right - self.left
        return LEFT + (WIDE - LEFT - RIGHT) * ((v - self.left) / width if width > 0 else 0.5)

    def y(self, v: float) -> float:
        return TOP + (TALL - TOP - BOTTOM) * (1.0 - (v - self.low) / (self.high - self.low))

    def frame(self, percent: bool, least: float = 0.0) -> str:
        """Lines across with their numbers, at least so far from each other."""
        made = []
        for v in _ticks(self.low, self.high, least):
            y, text = self.y(v), f"{v:.0%}" if percent else f"{v:,g}"
            made.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDE - RIGHT}" y2="{y:.1f}"/>')
            made.append(f'<text x="{LEFT - 5:.1f}" y="{y + 3.5:.1f}" text-anchor="end">{escape(text)}</text>')
        return "".join(made)

    def counts(self) -> str:
        """The order of arrival, below."""
        made = []
        for v, anchor in {self.left: "start", self.right: "end"}.items():
            text = f"person {v:,.0f}" if anchor == "start" else f"{v:,.0f}"
            made.append(f'<text x="{self.x(v):.1f}" y="{TALL - 6:.1f}" text-anchor="{anchor}">{escape(text)}</text>')
        return "".join(made)


def _ticks(low: float, high: float, least: float = 0.0) -> list[float]:
    """Round numbers, two to five of them where they may be so near to each other.

    >>> _ticks(0.0, 9.7), _ticks(0.0, 1.0, least=1.0)
    ([0.0, 2.5, 5.0, 7.5], [0.0, 1.0])
    """
    span = high - low
    unit = 10.0 ** math.floor(math.log10(span))
    step = next((s * unit for s in (0.2, 0.25, 0.5, 1.0, 2.0) if span / (s * unit) <= 4.5), 2.5 * unit)
    step = max(step, least)
    first = math.ceil(low / step - 1e-9)
    return [step * i for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _moment(seconds: float, span: float) -> str:
    at = datetime.fromtimestamp(seconds, UTC)
    if span > 400 * 86400:
        return f"{at:%b %Y}"
    if span > 3 * 86400:
        return f"{at:%d %b}"
    return f"{at:%d %b %H:%M}" if span > 7200 else f"{at:%H:%M:%S}"


def _svg(inside: str, wide: float, tall: float, label: str, kind: str = "chart", stretch: bool = False) -> Markup:
    more = Markup(' preserveAspectRatio="none"') if stretch else ""
    return Markup('<svg class="{}" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}"{}>{}</svg>').format(
        kind, wide, tall, label, more, Markup(inside)
    )
