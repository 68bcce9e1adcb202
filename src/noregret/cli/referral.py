"""`noregret referral`: what handing the doubtful cases to an expert is worth."""

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from .. import _checks as check
from .._announce import announce_with
from ..agents import with_kernel
from ..agents.referral import CRITERIA, Referral
from ..figures import referral_figure
from ..simulation import referral_study, save_tables
from ..worlds import names as world_names
from .options import agents_from, terminal, world_from

SHARES = (0.05, 0.1, 0.2, 0.4, 0.8)  # of the largest value there is: thresholds where none are given


def referral(
    agent: Annotated[
        str,
        typer.Option(
            help=f"one with certificates (built in: {', '.join(with_kernel('certificate_kernel')) or 'none'}); options "
            "follow as :name=value"
        ),
    ] = "certified-psrl",
    world: Annotated[
        str, typer.Option(help=f"one of {', '.join(world_names())}; options follow as :name=value")
    ] = "clinic",
    expert: Annotated[str, typer.Option(help="an agent, with options as :name=value")] = "oracle",
    threshold: Annotated[
        str, typer.Option(help="comma-separated; empty: 5, 10, 20, 40 and 80% of the largest value")
    ] = "",
    criterion: Annotated[str, typer.Option(help=f"one of {', '.join(CRITERIA)}")] = "certificate",
    episodes: Annotated[int, typer.Option(help="individuals per seed")] = 20_000,
    seeds: Annotated[int, typer.Option(help="independent repetitions")] = 4,
    workers: Annotated[int, typer.Option(help="threads; 0: one per core")] = 0,
    out: Annotated[Path, typer.Option(help="folder for the figure and the numbers")] = Path("results"),
    csv: Annotated[bool, typer.Option("--csv", help="write the numbers as CSV instead of Parquet")] = False,
) -> None:
    """Let an agent refer to an expert at several thresholds; print a table, draw the trade-off, keep the numbers."""
    console = terminal()

    def say(line: str) -> None:
        console.print(line, style="dim", highlight=False)

    check.integer("episodes", episodes)
    check.integer("seeds", seeds)
    check.integer("workers", workers, 0)
    check.one_of("criterion", criterion, CRITERIA)
    place = world_from(world, episodes)
    largest = place.problem.horizon if criterion == "certificate" else 1
    try:
        limits = [float(t) for t in threshold.split(",")] if threshold.strip() else [largest * c for c in SHARES]
    except ValueError:
        raise ValueError(f"threshold must be comma-separated numbers, got {check.shown(threshold)}") from None
    start = time.perf_counter()
    with announce_with(say):
        player, *others = agents_from(agent, place)
        helper, *more = agents_from(expert, place)
        if others or more:
            raise ValueError("agent and expert must each name one agent")
        Referral(player, helper, max(limits), criterion)  # better now than after the simulation
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=out):
        pass
    columns = TextColumn("{task.description}"), BarColumn(bar_width=24), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=console.is_terminal) as bars, announce_with(say):
        task = bars.add_task("simulating", total=episodes * seeds * (len(limits) + 2))
        study = referral_study(
            player, helper, place, episodes, limits, seeds, criterion=criterion, workers=workers or None,
            progress=lambda n: bars.advance(task, n),
        )  # fmt: skip
    console.print(str(study).splitlines()[0], highlight=False)
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in study.HEAD:
        table.add_column(name, justify="right")
    for row in study.rows():
        table.add_row(*row)
    console.print(table)
    meaning = "certified: sum of the certificates of those kept; " if criterion == "certificate" else ""
    console.print(f"at end: over the last tenth; {meaning}saved: against the agent alone", style="dim", highlight=False)
    figure, numbers = out / "referral.png", out / ("referral.csv" if csv else "referral.parquet")
    referral_figure(study, figure, place.name)
    save_tables([study], numbers)
    console.print(f"figure   {figure}\nnumbers  {numbers}", highlight=False)
    console.print(f"{time.perf_counter() - start:.1f} s", style="dim", highlight=False)
