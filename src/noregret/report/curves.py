"""Numbers over seeds as lines with bands, and the panels that both reports and commands draw them in.

Everything drawn of regret over episodes passes through here. A band is what `spread` says of the seeds: the interval
of their mean in a report, their range in the figure of a command.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..checks import Floats
from . import statistics
from .drawing import COLOURS, INK, MUTED, Curve, Drawing, Look, shades

MOST_POINTS = 90  # of a curve in a figure
LEAST = 1e-12  # the smallest that is drawn on a logarithmic axis
NO_REGRET = 1e-9  # per episode: a curve that ends below cannot be drawn on a logarithmic axis
Spread = Callable[[Floats], tuple[Floats, Floats]]


def extent(values: Floats) -> tuple[Floats, Floats]:
    """The lowest and the highest seed, of values [n, ...]."""
    return values.min(0), values.max(0)


def mean(x: Any, values: Floats, spread: Spread = statistics.mean_interval) -> Curve:
    """The mean over seeds of values [n, points], with its band."""
    return Curve(x, values.mean(0), *spread(values))


class Series(NamedTuple):
    """A running total of one agent: values [seeds, points] after the episodes `at` [points]."""

    label: str
    look: Look
    at: Any
    values: Floats
    spread: Spread = statistics.mean_interval

    @property
    def drawable(self) -> bool:
        """On a logarithmic axis."""
        return bool(self.values[:, -1].mean() > NO_REGRET * self.at[-1])

    def total(self, most: int = MOST_POINTS) -> Curve:
        kept = _thinned(len(self.at), most)
        return mean(self.at[kept], self.values[:, kept], self.spread)

    def recent(self) -> Curve:
        """The growth per episode in the recent past."""
        return mean(*statistics.recent(self.at, self.values), self.spread)


def _thinned(points: int, most: int) -> Any:
    """Which of so many points to draw: dense early, even later, the last included."""
    if points <= most:
        return np.arange(points)
    both = np.concatenate([np.geomspace(1, points, most // 2), np.linspace(1, points, most // 2)])
    return np.unique(np.round(both).astype(np.int64)) - 1


def positive(curve: Curve) -> Curve:
    """What a logarithmic axis can show of it."""
    y, low, high = (np.where(np.asarray(v) > LEAST, v, np.nan) for v in curve[1:])
    return Curve(curve.x, y, np.where(np.isnan(low) & np.isfinite(high), LEAST, low), high)


def window(axes: Any, curves: Sequence[Any], decades: float = 4.0, room: float = 1.6) -> None:
    """Limits for a logarithmic axis that shows the means, however small the smallest."""
    values = np.concatenate([np.asarray(c)[np.isfinite(c) & (np.asarray(c) > LEAST)] for c in [[], *curves]])
    if values.size:
        axes.set_ylim(max(values.min() / room, values.max() * 10.0**-decades), values.max() * room)


def linear_panel(made: Drawing, axes: Any, series: Sequence[Series], band: bool = True) -> None:
    """Totals on linear axes."""
    top = 1e-3
    for one in series:
        curve = one.total()
        made.curve(axes, one.label, curve, one.look, band=band)
        top = max(top, float(curve.y[-1]), float(np.nan_to_num(curve.high[-1])) if band else 0.0)
    axes.set(xlim=(0, max(one.at[-1] for one in series)), ylim=(-0.03 * top, 1.05 * top))
    made.linear(axes)


def logarithmic_panel(
    made: Drawing, axes: Any, series: Sequence[Series], of: Callable[[Series], Curve] = Series.total,
    *, band: bool = True, width: float = 1.6, decades: float = 4.0,
) -> None:  # fmt: skip
    """Totals, or what `of` makes of the series, on logarithmic axes."""
    shown = [(one, of(one)) for one in series if one.drawable]
    for one, curve in shown:
        made.curve(axes, one.label, positive(curve), one.look, band=band, width=width)
    window(axes, [curve.y for _, curve in shown], decades)
    made.logarithmic(axes)


class Threshold(NamedTuple):
    """An agent that refers above one threshold: final regret [seeds], and a running total of those referred."""

    name: str
    final: Floats
    at: Any
    referred: Floats

    @property
    def share(self) -> float:
        """Referred, of all individuals."""
        return float((self.referred[:, -1] / self.at[-1]).mean())


def trade_off(
    title: str,
    found: Sequence[Threshold],
    alone: Mapping[str, Floats | None],
    spread: Spread = statistics.mean_interval,
) -> Drawing:
    """Left: final regret against the share referred, a point per threshold; beside it that of agent and expert `alone`
    [seeds]. Right: the referral rate in the recent past."""
    from matplotlib.ticker import PercentFormatter  # not needed by other commands

    made = Drawing(2, 2, title, panel=(4.4, 3.2))
    left, right = made.axes
    made.head(left, "regret at the end", "share of individuals referred")
    made.head(right, "referral rate, recent", "episode")
    ends = [mean([one.share], one.final[:, None], spread) for one in found]
    left.plot([e.x[0] for e in ends], [e.y[0] for e in ends], color=MUTED, linewidth=1.0, zorder=1)
    for one, end, look in zip(found, ends, shades(len(found)), strict=True):
        made.points(left, one.name, end, look)
        made.curve(right, one.name, Series(one.name, look, one.at, one.referred, spread).recent(), look)
    tops = [float(np.nanmax([e.y[0], e.high[0]])) for e in ends]
    for (name, final), look in zip(alone.items(), (Look(COLOURS[1], "--"), Look(INK, ":")), strict=True):
        if final is not None:
            tops.append(made.level(left, name, float(final.mean()), look))
    top = max(1e-3, *tops)
    left.set(xlim=(-0.03, 1.03), ylim=(-0.04 * top, 1.08 * top))
    right.set(ylim=(-0.03, 1.03))
    made.linear(left, "y")
    made.logarithmic(right, "x")
    left.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    right.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    return made
