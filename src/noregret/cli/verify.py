"""`noregret verify`: whether what is claimed is true, by experiment."""

import csv
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from .. import checks as check
from ..report.run_figures import scaling_figure
from ..verification import scaling, suite
from ..verification.table import Row
from .screen import Command, progress, writable
from .verify_tables import print_rows

QUICK_SECTIONS = "sets,agents,radii,errata"


def verify(
    full: Annotated[
        bool, typer.Option("--full", help="more runs, sizes and seeds: half an hour, not a minute")
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(
            help="comma-separated: sets, agents, radii, errata, scaling; unless given, all but the last, which takes "
            "longest and comes with --full"
        ),
    ] = None,
    match: Annotated[str, typer.Option(help="of the sets, only those with this in their name")] = "",
    runs: Annotated[
        int | None, typer.Option(help="runs of every experiment with sets; unless given 200, or 500 with --full")
    ] = None,
    details: Annotated[bool, typer.Option("--details", help="print every row, not the worst of each kind")] = False,
    out: Annotated[Path, typer.Option(help="folder for the table, verify.csv, and the figure")] = Path("results"),
) -> None:
    """Put to the test what the library claims and the paper prints; exit status 1 if an advertised guarantee fails.

    sets: every confidence set contains the truth, at all times together, as often as it says (delta = 0.3), under random, fixed, cycling and adversarial contexts. agents: whole runs keep their promises. radii: the printed and the corrected set on the same data. errata: the paper's slips, as printed and as corrected. scaling: regret on the worlds of the lower bound."""  # noqa: E501
    command = Command()
    sections, effort = _sections(only, full), _effort(full, runs)
    if not any(match in name for name in suite.set_names()):
        raise ValueError(
            f"match must be part of a set's name ({'; '.join(suite.set_names())}), got {check.shown(match)}"
        )
    writable(out)
    rows: list[Row] = []
    points: list[scaling.Point] = []
    with progress(MofNCompleteColumn(), TimeElapsedColumn()) as bars:
        for section in sections:
            if section == "sets":
                task = bars.add_task(section, total=len(suite.set_jobs(effort, match)))
                rows += suite.set_rows(effort, partial(bars.advance, task), match)
            elif section == "scaling":
                points = _points(bars, effort)
                for link in dict.fromkeys(p.link for p in points):
                    rows += suite.scaling_rows([p for p in points if p.link == link])
            else:
                rows += _jobs(bars, section, effort)
    held = _verdict(command, rows)
    print_rows(command.console, rows, details)
    files = {"table": _written(rows, out / "verify.csv")}
    if points:
        files["figure"] = out / "scaling.png"
        scaling_figure(points, files["figure"])
    command.close(**files)
    if not held:
        raise typer.Exit(1)


def _sections(only: str | None, full: bool) -> list[str]:
    text = only or QUICK_SECTIONS + (",scaling" if full else "")
    wanted = [s.strip() for s in text.split(",") if s.strip()]
    if not wanted:
        raise ValueError(f"only must name at least one section ({', '.join(suite.SECTIONS)}), got {check.shown(only)}")
    for section in wanted:
        check.known("section", section, dict.fromkeys(suite.SECTIONS))
    return [section for section in suite.SECTIONS if section in wanted]


def _effort(full: bool, runs: int | None) -> suite.Effort:
    effort = suite.FULL if full else suite.QUICK
    asked = check.integer("runs", runs or 0, 0)
    return effort._replace(runs=asked) if asked else effort


def _jobs(bars: Progress, section: str, effort: suite.Effort) -> list[Row]:
    jobs, rows = list(suite.jobs(section, effort)), []
    task = bars.add_task(section, total=len(jobs))
    for name, job in jobs:
        bars.update(task, description=f"{section}: {name}")
        rows += job()
        bars.update(task, advance=1, description=section)
    return rows


def _points(bars: Progress, effort: suite.Effort) -> list[scaling.Point]:
    task = bars.add_task("scaling", total=2 * scaling.count())
    points = []
    for link in ("linear", "logit"):
        for point in scaling.points(link, effort.worlds):
            points.append(point)
            bars.advance(task)
    return points


def _verdict(command: Command, rows: list[Row]) -> bool:
    """Say it; whether everything that is advertised held."""
    claimed = [row for row in rows if row.advertised]
    broken = [row for row in claimed if not row.holds]
    if broken:
        command.say(f"[red]{len(broken)} of {len(claimed)} advertised claims failed[/]")
    elif claimed:
        command.say(f"[green]all {len(claimed)} advertised claims held[/]")
    for row in broken:
        command.say(f"[red]fails[/] {row.section}: {row.name} ({row.setting}) {row.note}")
    command.say("")
    return not broken


def _written(rows: list[Row], target: Path) -> Path:
    with target.open("w", newline="") as file:
        csv.writer(file).writerows([Row._fields, *rows])
    return target
