"""`noregret verify`: whether what is claimed is true, by experiment."""

import csv
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .. import _checks as check
from .._announce import announce_with
from .options import terminal

QUICK_SECTIONS = "sets,agents,radii,errata"


def verify(
    full: Annotated[
        bool, typer.Option("--full", help="more runs, sizes and seeds: half an hour, not a minute")
    ] = False,
    only: Annotated[
        str,
        typer.Option(help="comma-separated: sets, agents, radii, errata, scaling; default: all but the last"),
    ] = "",
    match: Annotated[str, typer.Option(help="of the sets, only those with this in their name")] = "",
    runs: Annotated[int, typer.Option(help="runs of every experiment with sets; 0: 200, or 500 with --full")] = 0,
    details: Annotated[bool, typer.Option("--details", help="print every row, not the worst of each kind")] = False,
    out: Annotated[Path, typer.Option(help="folder for the table, verify.csv, and the figure")] = Path("results"),
) -> None:
    """Put to the test what the library claims and the paper prints; exit status 1 if an advertised guarantee fails.

    sets: every confidence set contains the truth, at all times together, as often as it says (delta = 0.3), under random, fixed, cycling and adversarial contexts. agents: whole runs keep their promises. radii: the printed and the corrected set on the same data. errata: the paper's slips, as printed and as corrected. scaling: regret on the worlds of the lower bound."""  # noqa: E501
    from ..verification import scaling, suite  # nothing else needs them
    from ..verification.table import Row

    console = terminal()
    text = only or QUICK_SECTIONS + (",scaling" if full else "")
    wanted = [s.strip() for s in text.split(",") if s.strip()]
    if not wanted:
        raise ValueError(f"only must name at least one section ({', '.join(suite.SECTIONS)}), got {check.shown(only)}")
    for section in wanted:
        check.known("section", section, dict.fromkeys(suite.SECTIONS))
    effort = suite.FULL if full else suite.QUICK
    if check.integer("runs", runs, 0):
        effort = replace(effort, runs=runs)
    if not any(match in name for name in suite.set_names()):
        raise ValueError(
            f"match must be part of a set's name ({'; '.join(suite.set_names())}), got {check.shown(match)}"
        )
    out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    points: list[scaling.Point] = []
    start = time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn())

    def say(line: str) -> None:
        console.print(line, style="dim", highlight=False)

    with Progress(*columns, console=console, transient=console.is_terminal) as bars, announce_with(say):
        for section in [s for s in suite.SECTIONS if s in wanted]:
            if section == "sets":
                task = bars.add_task(section, total=suite.set_count(effort, match))
                rows += suite.set_rows(effort, partial(bars.advance, task), match)
            elif section == "scaling":
                task = bars.add_task(section, total=2 * scaling.count())
                for link in ("linear", "logit"):
                    made = []
                    for point in scaling.points(link, effort.worlds):
                        made.append(point)
                        bars.advance(task)
                    rows += suite.scaling_rows(made)
                    points += made
            else:
                jobs = list(suite.jobs(section, effort))
                task = bars.add_task(section, total=len(jobs))
                for name, job in jobs:
                    bars.update(task, description=f"{section}: {name}")
                    rows += job()
                    bars.update(task, advance=1, description=section)
    _print(console, rows, details)
    target = out / "verify.csv"
    with target.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(rows[0])))
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    console.print(f"table    {target}", highlight=False)
    if points:
        from ..figures import scaling_figure

        figure = out / "scaling.png"
        scaling_figure(points, figure)
        console.print(f"figure   {figure}", highlight=False)
    console.print(f"{time.perf_counter() - start:.1f} s", style="dim", highlight=False)
    claimed = [row for row in rows if row.advertised]
    broken = [row for row in claimed if not row.holds]
    if claimed and not broken:
        console.print(f"[green]all {len(claimed)} advertised claims held[/]", highlight=False)
    if broken:
        for row in broken:
            console.print(f"[red]fails[/] {row.section}: {row.name} ({row.setting}) {row.note}", highlight=False)
        raise typer.Exit(1)


_HEADS = {
    "sets": ("confidence sets", "worst at", "claimed", "failed", "d2/r", "loose"),
    "agents": ("agents", "worst in", "claimed", "failed", "d2/r", "bound/R"),
    "radii": ("printed / corrected, of the", "on", "wanted", "least", "", "mean"),
}
_LEGENDS = {
    "sets": "claimed, failed: probability that the truth is ever outside, and how often it was; d2/r: largest squared "
    "distance / radius (above 1 in a run that failed); loose: median factor by which the radius was too large",
    "agents": "claimed, failed: as above, for sets, optimism, certificates and regret bounds of a whole run together "
    "(GLM-RLSVI: for the chance that an episode is not optimistic, 1 - 0.159); bound/R: data-dependent bound / regret, "
    "median",
    "radii": "least: smallest ratio in any run; mean: ratio of the means. gamma alone lives in two different norms",
    "scaling": "exponents with standard errors over worlds. Every world's gap is tuned to its size, so the family "
    "itself fixes the exponents, also those of uniform play; what an agent achieves is its ratio to it, in the figure",
}


def _print(console: Console, rows: list[Any], details: bool) -> None:
    for section, head in _HEADS.items():
        some = [row for row in rows if row.section == section]
        if not some:
            continue
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
        for i, column in enumerate((*head, "")):
            table.add_column(column, justify="left" if i < 2 else "right", no_wrap=i != 1)
        for row in some if details or section == "radii" else _worst_of_each(some):
            verdict = "[green]holds[/]" if row.holds else "[red]fails[/]"
            verdict = verdict if row.advertised else f"[dim]({'holds' if row.holds else 'fails'})[/]"
            numbers = map(_number, (row.claimed, row.measured, row.worst, row.looseness))
            where = row.setting if details or section != "sets" else row.setting.split(",")[0]
            table.add_row(row.name, where, *numbers, verdict)
        console.print(table)
        console.print(_LEGENDS[section] + "; in brackets: not claimed by the library", style="dim", highlight=False)
        console.print()
    errata, growth = ([row for row in rows if row.section == name] for name in ("errata", "scaling"))
    if errata:
        _print_errata(console, errata, details)
    if growth:
        _print_scaling(console, growth)


def _worst_of_each(rows: list[Any]) -> list[Any]:
    """For every kind the row with the largest measured failure rate, then the largest ratio."""
    kinds = dict.fromkeys(row.name for row in rows)
    return [max((r for r in rows if r.name == k), key=lambda r: (not r.holds, r.measured, r.worst)) for k in kinds]


def _print_errata(console: Console, rows: list[Any], details: bool) -> None:
    if details:
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
        for column in ("errata", "entry", "evidence"):
            table.add_column(column, no_wrap=column != "evidence")
        for row in rows:
            table.add_row(row.name, row.setting, row.note)
        console.print(table)
    kinds = {kind: [r for r in rows if r.setting.endswith(kind)] for kind in ("error", "looseness", "notation")}
    counts = ", ".join(f"{len(some)} {kind}" for kind, some in kinds.items())
    good = sum(row.holds for row in rows)
    console.print(f"[bold]errata[/]  {len(rows)} checks ({counts}): {good} as docs/errata.md says", highlight=False)
    console.print()


def _print_scaling(console: Console, rows: list[Any]) -> None:
    """Exponents, one line an agent, one column a variable, one table a link."""
    symbols = list(dict.fromkeys(row.setting.split(",")[0] for row in rows))
    bounds = {row.setting.split(",")[0]: row.claimed for row in rows}
    for link in dict.fromkeys(row.setting.split(", ")[1] for row in rows):
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
        for i, column in enumerate((f"growth of regret, {link}", *symbols)):
            table.add_column(column, justify="right" if i else "left", no_wrap=i > 0)
        table.add_row("[dim]lower bound[/]", *(f"[dim]{bounds[symbol]:.2f}    [/]" for symbol in symbols))
        for agent in dict.fromkeys(row.name for row in rows):
            some = {row.setting: row for row in rows if row.name == agent}
            cells = [some[f"{symbol}, {link}"] for symbol in symbols]
            errors = (cell.note.split(";")[0].replace("+- 0", "±") for cell in cells)
            table.add_row(agent, *(f"{c.measured:.2f}{e}" for c, e in zip(cells, errors, strict=True)))
        console.print(table)
    console.print(_LEGENDS["scaling"], style="dim", highlight=False)
    console.print()


def _number(value: float) -> str:
    if value != value:
        return ""
    return f"{value:.2f}" if abs(value) < 100.0 else f"{value:,.0f}"
