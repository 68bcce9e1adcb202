"""`noregret compare`: agents side by side in one world."""

import tempfile
import threading
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from .. import _checks as check
from .._announce import announce_with
from ..agents import agent_class
from ..agents import names as agent_names
from ..figures import MANY, regret_figure
from ..simulation import Run, save_tables, simulate
from ..worlds import names as world_names
from .options import agents_from, terminal, world_from

AGENTS = (
    "certified-psrl,glm-orl,glm-rlsvi,epsilon-greedy,certainty-equivalence,glm-orl:constants=paper,"
    "uniform-random,oracle"
)
POINTS = 1000  # recorded per curve, at most


def compare(
    world: Annotated[
        str, typer.Option(help=f"one of {', '.join(world_names())}; options follow as :name=value")
    ] = "clinic",
    agents: Annotated[
        str,
        typer.Option(help=f"comma-separated, of {', '.join(agent_names())}, or all; options follow as :name=value"),
    ] = AGENTS,
    episodes: Annotated[int, typer.Option(help="individuals per seed")] = 100_000,
    seeds: Annotated[int, typer.Option(help="independent repetitions")] = 8,
    every: Annotated[int, typer.Option(help="record the curve after every so many episodes; 0: about 1000 points")] = 0,
    workers: Annotated[int, typer.Option(help="threads; 0: one per core")] = 0,
    out: Annotated[Path, typer.Option(help="folder for the figure and the numbers")] = Path("results"),
    csv: Annotated[bool, typer.Option("--csv", help="write the numbers as CSV instead of Parquet")] = False,
) -> None:
    """Run agents side by side; print a table, draw the regret, keep the numbers.

    Example: noregret compare --world random-logit:n_states=4 --agents glm-orl,glm-orl:bonus_scale=0.1"""
    console = terminal()

    def say(line: str) -> None:
        console.print(line, style="dim", highlight=False)

    check.integer("episodes", episodes)
    check.integer("seeds", seeds)
    check.integer("workers", workers, 0)
    step = check.integer("every", every or max(episodes // POINTS, 1))
    if step > episodes:
        raise ValueError(f"every must be at most episodes = {episodes}, got {every}")
    place = world_from(world, episodes)
    with announce_with(say):
        players = agents_from(agents, place)
    if "all" in [item.strip() for item in agents.split(",")]:
        left = [name for name in agent_names() if agent_class(name).refusal(place.problem) is not None]
        if left:
            say(f"not for this problem: {', '.join(left)}")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=out):  # better now than after the simulation
        pass
    p = place.problem
    sizes = f"S={p.n_states} A={p.n_actions} H={p.horizon} d={p.context_dim}, {p.link.name} link"
    console.print(f"[bold]{place.name}[/] ({sizes}): {episodes:,} episodes, seeds: {seeds}", highlight=False)
    runs: list[Run] = []
    start = time.perf_counter()
    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=24), TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=console.is_terminal) as bars, announce_with(say):
        tasks = [bars.add_task(_short(p.label), total=episodes * seeds, start=False, rate="") for p in players]
        lock = threading.Lock()
        for player, task in zip(players, tasks, strict=True):
            bars.start_task(task)
            begun = time.perf_counter()

            def tick(n: int, task: int = task, begun: float = begun) -> None:
                with lock:
                    bars.advance(task, n)  # type: ignore[arg-type]
                    done = bars.tasks[task].completed
                    bars.update(task, rate=f"{done / (time.perf_counter() - begun):,.0f}/s")  # type: ignore[arg-type]

            runs.append(simulate(player, place, episodes, seeds, every=step, workers=workers or None, progress=tick))
    console.print(_table(runs))
    console.print("at end: over the last tenth; episodes/s: per core", style="dim", highlight=False)
    if any("no guarantee" in run.label for run in runs):
        console.print("A scaled bonus carries no guarantee, whatever its regret was here.", style="yellow")
    figure, numbers = out / "regret.png", out / ("regret.csv" if csv else "regret.parquet")
    regret_figure(runs, figure, place.name)
    save_tables(runs, numbers)
    console.print(f"figure   {figure}\nnumbers  {numbers}", highlight=False)
    console.print(f"{time.perf_counter() - start:.1f} s", style="dim", highlight=False)


def _short(label: str, width: int = 27) -> str:
    return label if len(label) <= width else label[: width - 3] + "..."


def _table(runs: list[Run]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("agent", overflow="fold")
    for name in ("final regret", "sd over seeds", "per episode at end", "episodes/s"):
        table.add_column(name, justify="right", no_wrap=True)
    grouped = len(runs) >= MANY
    order = list(dict.fromkeys(run.group for run in runs))
    shown = sorted(runs, key=lambda run: (order.index(run.group), run.final.mean())) if grouped else runs
    for i, run in enumerate(shown):
        if grouped and (i == 0 or shown[i - 1].group != run.group):
            table.add_row(f"[bold]{run.group}[/]" if i == 0 else f"\n[bold]{run.group}[/]")
        spread = f"{run.final.std(ddof=1):,.1f}" if len(run.seeds) > 1 else "-"
        table.add_row(
            run.label, f"{abs(run.final.mean()):,.1f}", spread, f"{abs(run.late.mean()):.4f}", f"{run.speed:,.0f}"
        )
    return table
