"""`noregret bench --regret`: what agents lose on the beds, as they come and tuned.

Untuned is the default of the library. Tuned is the best of the default and a small grid of the one scale an agent has.
The least of many noisy means is too small: what was lucky is picked, and its luck is counted. So seeds are dealt into
five folds, and what counts at a seed is the regret of whoever is best on the other folds:

    ratio = sum_i r_i / sum_i t_i,     t_i: the regret at seed i of the least mean over the seeds of the other folds

The mean of t is, without bias, what somebody loses who tuned on four fifths of the seeds. It is a little above the
least true mean, as not always the best is picked. The least mean over all seeds ("luckiest") is below it. So the true
ratio to the best tuned lies, but for noise, between the two. With one seed there are no others.

Seeds are the same for everybody, so the standard error of a ratio is that of the mean of r_i - ratio t_i, over the mean
of t. That the choice itself is random is left out: in simulations errors were 1.2 to 1.5 times as large.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.beds import Bed, beds
from benchmarks.contestants import Contestant, contestants
from noregret.report.drawing import COLOURS, GRID, INK, MUTED
from noregret.storage.spreadsheets import write_table

CONTROL, DEFAULT = "uniform-random", "psrl-glm"
FOLDS = 5
TICKS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0)
_COLOURS = {
    "psrl-glm": (0, "o"), "certified-psrl": (1, "o"), "glm-orl": (2, "o"), "lr-orl": (3, "o"),
    "epsilon-greedy": (4, "s"), "certainty-equivalence": (4, "v"), "oful": (5, "s"), "linucb": (5, "o"),
    "glm-ucb": (5, "^"), "ofuglb": (5, "D"), "glb-omd": (5, "P"), "ucbvi-bf": (6, "s"), "rlsvi": (6, "^"),
    "psrl": (6, "o"), "ucbvi-bf:bonus=practised": (7, "s"), "rlsvi:constants=practised": (7, "^"),
}  # fmt: skip


class Ratio(NamedTuple):
    """To the best tuned of a bed; error: its standard error, nan with one seed."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.2f}" + ("" if np.isnan(self.error) else f" +-{self.error:.2f}")


def ratio_of(regret: NDArray[np.float64], tuned: NDArray[np.float64]) -> Ratio:
    """Of two regrets [seeds], at the same seeds."""
    least, n = max(float(tuned.mean()), 1e-9), regret.size
    value = float(regret.mean()) / least
    error = float((regret - value * tuned).std(ddof=1)) / (least * n**0.5) if n > 1 else float("nan")
    return Ratio(value, error)


def best_on_others(regrets: NDArray[np.float64]) -> NDArray[np.float64]:
    """t [seeds] of regrets [choices, seeds]: at every seed that of the choice with the least mean over the seeds of
    other folds, i and j being in one fold if i = j modulo FOLDS."""
    seeds, made = np.arange(regrets.shape[1]), np.zeros(regrets.shape[1])
    for i in seeds:
        others = (seeds % FOLDS != i % FOLDS) | (seeds.size == 1)
        made[i] = regrets[regrets[:, others].mean(1).argmin(), i]
    return made


class Score(NamedTuple):
    """One contestant on one bed: regret [seeds] for every value of its knob, None being its default."""

    bed: str
    contestant: Contestant
    regret: dict[float | None, NDArray[np.float64]]
    seconds: float  # of processor time, an episode

    @property
    def untuned(self) -> float:
        return float(self.regret[None].mean())

    @property
    def best(self) -> float | None:
        """The value of the knob that was best in hindsight."""
        return min(self.regret, key=lambda value: float(self.regret[value].mean()))

    @property
    def luckiest(self) -> float:
        """Its mean."""
        return float(self.regret[self.best].mean())

    @property
    def all(self) -> NDArray[np.float64]:
        """[values, seeds]."""
        return np.stack(list(self.regret.values()))


def play(
    bed: Bed, quick: bool = False, others: bool = True, only: Sequence[str] | None = None, seeds: int | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> list[Score]:  # fmt: skip
    """Everybody on one bed, or `only` those of these names; others: also other libraries; seeds: how many, instead of
    the bed's own number."""
    size, made = bed.quick if quick else bed.full, []
    size = size if seeds is None else size._replace(seeds=seeds)
    for one in contestants(bed.problem(0), others and bed.compared):
        if only is not None and one.name not in only:
            continue
        tell(f"{bed.name}: {one.name}")
        _once(bed, one, 0, None, 1)  # compile
        regret, start = {}, time.process_time()
        for value in (None, *one.values):
            tell(f"{bed.name}: {one.name}" + ("" if value is None else f", {one.knob} {value:g}"))
            regret[value] = np.array([_once(bed, one, seed, value, size.episodes) for seed in range(size.seeds)])
        spent = time.process_time() - start
        made.append(Score(bed.name, one, regret, spent / (len(regret) * size.seeds * size.episodes)))
    return made


def _once(bed: Bed, one: Contestant, seed: int, value: float | None, episodes: int) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a data set keeps to no linear model, and agents say so
        return bed.play(one.make(bed.problem(seed), seed, value), seed, episodes)


def best_tuned(scores: Iterable[Score]) -> NDArray[np.float64]:
    """The regret [seeds] that everybody's is divided by: at every seed that of the best on the other seeds, of all
    contestants and values."""
    return best_on_others(np.concatenate([s.all for s in scores]))


def winner(scores: Iterable[Score]) -> Score:
    """Whose least mean over all seeds is the least."""
    return min(scores, key=lambda s: s.luckiest)


def ratios_of(score: Score, least: NDArray[np.float64]) -> tuple[Ratio, Ratio]:
    """Untuned and tuned, to the `best_tuned` of the bed."""
    return ratio_of(score.regret[None], least), ratio_of(best_on_others(score.all), least)


def table_of(bed: Bed, scores: Sequence[Score], quick: bool) -> Table:
    episodes, least = (bed.quick if quick else bed.full).episodes, best_tuned(scores)
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(f"{bed.name}: {episodes:,} episodes, {least.size} seeds", min_width=44)
    for column in ("untuned", "se", "ratio", "tuned ratio", "luckiest", "by", "us/episode"):
        table.add_column(column, justify="right", no_wrap=True, min_width=8)
    for s in sorted(scores, key=lambda s: s.untuned):
        given, value, (untuned, tuned) = s.regret[None], s.best, ratios_of(s, least)
        error = f"{given.std(ddof=1) / np.sqrt(given.size):,.1f}" if given.size > 1 else "-"
        by = "default" if value is None else f"{s.contestant.knob} {value:g}"
        table.add_row(
            s.contestant.name, f"{s.untuned:,.1f}", error, str(untuned), str(tuned), f"{s.luckiest:,.1f}", by,
            f"{1e6 * s.seconds:,.0f}",
        )  # fmt: skip
    return table


def summary(played: dict[str, list[Score]]) -> Table:
    """Over the beds: worst and geometric mean ratio of everybody, untuned and tuned."""
    ratios: dict[str, list[tuple[float, float]]] = {}
    for scores in played.values():
        least = best_tuned(scores)
        for s in scores:
            untuned, tuned = ratios_of(s, least)
            ratios.setdefault(s.contestant.name, []).append((untuned.value, tuned.value))
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("all beds: ratio to the best tuned", min_width=44)
    for column in ("beds", "untuned mean", "worst", "tuned mean", "worst"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, pairs in sorted(ratios.items(), key=lambda item: _middle(item[1], 0)):
        worst = [max(pair[i] for pair in pairs) for i in (0, 1)]
        table.add_row(
            name, str(len(pairs)), f"{_middle(pairs, 0):.2f}", f"{worst[0]:.2f}", f"{_middle(pairs, 1):.2f}",
            f"{worst[1]:.2f}",
        )  # fmt: skip
    return table


def _middle(pairs: list[tuple[float, float]], i: int) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean([np.log(max(pair[i], 1e-9)) for pair in pairs])))


def rows_of(played: dict[str, list[Score]]) -> Iterator[dict[str, Any]]:
    """One row per bed, contestant, value of the knob and seed."""
    for bed, scores in played.items():
        least = best_tuned(scores)
        for s in scores:
            for value, regrets in s.regret.items():
                ratio = ratio_of(regrets, least)
                for seed, regret in enumerate(regrets):
                    yield {
                        "bed": bed, "agent": s.contestant.name, "library": s.contestant.library,
                        "knob": s.contestant.knob, "value": value, "untuned": value is None,
                        "luckiest": value == s.best, "seed": seed, "regret": float(regret),
                        "best_tuned": float(least[seed]), "ratio_of_mean": ratio.value, "error_of_ratio": ratio.error,
                    }  # fmt: skip


def save(played: dict[str, list[Score]], path: Path) -> None:
    """`rows_of` as CSV."""
    import pyarrow as pa

    write_table(pa.Table.from_pylist(list(rows_of(played))), path)


def draw(played: dict[str, list[Score]], path: Path) -> None:
    """A dot per agent and bed at its ratio to the best tuned, filled as it comes and hollow tuned; other libraries
    grey."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(9.0, 1.2 + 0.42 * len(played)), layout="constrained")
    axes, shown, most = figure.add_subplot(), dict[str, tuple[str, str]](), 1.0
    for row, scores in enumerate(played.values()):
        least, drawn = best_tuned(scores), [s for s in scores if s.contestant.name != CONTROL]
        for i, s in enumerate(drawn):
            name, (untuned, tuned) = s.contestant.name, ratios_of(s, least)
            most = max(most, untuned.value)
            number, marker = _COLOURS.get(name, (None, "d"))
            colour = MUTED if number is None else COLOURS[number]
            shown.setdefault(name if number is not None else "other libraries", (colour, marker))
            y = row + 0.7 * (i / max(len(drawn) - 1, 1) - 0.5)
            axes.plot([tuned.value, untuned.value], [y, y], color=colour, lw=0.6, alpha=0.6)
            axes.plot(tuned.value, y, marker, ms=4.5, mfc="white", mec=colour, mew=0.9)
            axes.plot(untuned.value, y, marker, ms=4.5, color=colour)
        if row:
            axes.axhline(row - 0.5, color=GRID, lw=0.8)
    axes.set_xscale("log")
    axes.set_xticks([tick for tick in TICKS if tick <= 1.2 * most], minor=False)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_yticks(range(len(played)), list(played))
    axes.set_ylim(len(played) - 0.5, -0.5)
    axes.axvline(1.0, color=INK, lw=0.8)
    axes.set_xlabel("regret over that of the best tuned agent (filled: as it comes, hollow: tuned on the other seeds)")
    axes.spines[["top", "right"]].set_visible(False)
    marks = [Line2D([], [], color=c, marker=m, ls="", ms=5, label=name) for name, (c, m) in shown.items()]
    figure.legend(handles=marks, loc="outside right upper", frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)


def bar(played: dict[str, list[Score]], name: str) -> Table:
    """One contestant, bed by bed: as it comes, beside the best tuned."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(f"{name}, untuned", min_width=24)
    for column in ("seeds", "regret", "best tuned", "ratio", "luckiest", "ratio", "by"):
        table.add_column(column, justify="right", no_wrap=True)
    for bed, scores in played.items():
        least, top = best_tuned(scores), winner(scores)
        for s in scores:
            if s.contestant.name == name:
                by = top.contestant.name + ("" if top.best is None else f", {top.contestant.knob} {top.best:g}")
                table.add_row(
                    bed, str(least.size), f"{s.untuned:,.1f}", f"{least.mean():,.1f}",
                    str(ratio_of(s.regret[None], least)), f"{top.luckiest:,.1f}",
                    str(ratio_of(s.regret[None], top.regret[top.best])), by,
                )  # fmt: skip
    return table


def show(
    console: Console, chosen: str | None, quick: bool, others: bool, out: Path, seeds: int | None = None,
    agents: str | None = None,
) -> None:  # fmt: skip
    """Play, print, and write `regret.csv` and `regret.png`; files are written anew after every bed."""
    only = None if agents is None else tuple(name.strip() for name in agents.split(","))
    picked = [bed for bed in beds(chosen) if chosen is not None or not (quick and bed.heavy)]
    out.mkdir(parents=True, exist_ok=True)
    played: dict[str, list[Score]] = {}
    for bed in picked:
        with console.status("") as status:
            played[bed.name] = play(bed, quick, others, only, seeds, status.update)
        if not played[bed.name]:
            raise ValueError(f"none of the agents asked for plays on {bed.name}")
        console.print(table_of(bed, played[bed.name], quick), "")
        save(played, out / "regret.csv")
    console.print(summary(played), "")
    console.print(bar(played, DEFAULT), "")
    draw(played, out / "regret.png")
    console.print(f"numbers  {out / 'regret.csv'}\nfigure   {out / 'regret.png'}", highlight=False)
