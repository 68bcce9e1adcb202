"""`noregret frontier`: the paper's constants and what lies beyond them, measured."""

import time
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from .. import _checks as check
from .._announce import announce_with
from ..agents import agent_class, names
from ..agents.base import Agent
from ..agents.controls import Oracle
from ..figures import frontier_figure
from ..verification.frontier import AGENTS, Standing, population
from ..verification.frontier import frontier as study
from ..worlds import World
from .options import agents_from, parse, terminal


def frontier(
    worlds: Annotated[int, typer.Option(help="random worlds, seeds 0, 1, ...")] = 10,
    episodes: Annotated[int, typer.Option(help="individuals per world")] = 20_000,
    weight_bound: Annotated[float, typer.Option(help="B_p of the worlds: how strongly contexts matter")] = 2.0,
    agents: Annotated[str, typer.Option(help="comma-separated, or all; the first is what others are a part of")] = "",
    out: Annotated[Path, typer.Option(help="folder for the figure")] = Path("results"),
) -> None:
    """Regret and certificates of guaranteed agents with the constants of their guarantees, nothing tuned.

    Worlds: random_logit, S=4 A=3 H=4 d=3. Example: noregret frontier --worlds 3 --episodes 5000"""
    console, start = terminal(), time.perf_counter()
    check.integer("worlds", worlds)
    check.integer("episodes", episodes)
    check.positive("weight_bound", weight_bound)
    place = population(0, weight_bound)
    fitting = [name for name in names() if name != Oracle.name and agent_class(name).refusal(place.problem) is None]
    items = [name for item in agents.split(",") for name in (fitting if item.strip() == "all" else [item])]
    for item in items if agents else ():
        agent_class(parse(item)[0])
    players = [partial(_player, item) for item in items] if agents else AGENTS
    for player in players:
        player(place)  # better now than in the middle
    out.mkdir(parents=True, exist_ok=True)
    made: list[Standing] = []
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TaskProgressColumn(), TimeRemainingColumn())
    with (
        Progress(*columns, console=console, transient=True) as bars,
        announce_with(lambda line: console.print(line, style="dim", highlight=False)),
    ):
        task = bars.add_task("playing", total=worlds * episodes * len(players))
        for standing in study(worlds, episodes, weight_bound, players, done=lambda n: bars.advance(task, n)):
            made.append(standing)
            bars.update(task, description=standing.label)
    console.print(_table(made, episodes))
    console.print(
        "regret: mean over worlds; of first: as a part of the first row's; certificate: mean over the last twentieth "
        "of the episodes; wrong: episodes with a wrong certificate; sets missed: those in which a set missed the truth",
        style="dim", highlight=False,
    )  # fmt: skip
    figure = out / "frontier.png"
    frontier_figure(made, figure)
    console.print(f"figure   {figure}", highlight=False)
    console.print(f"{time.perf_counter() - start:.1f} s", style="dim", highlight=False)


def _player(text: str, world: World) -> Agent:
    return agents_from(text, world)[0]


def _table(made: list[Standing], episodes: int) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("agent", overflow="fold")
    for name in ("regret", "se", "of first", "certificate", "wrong", "sets missed", "episodes/s"):
        table.add_column(name, justify="right", no_wrap=True)
    base = made[0].final.mean()
    for s in made:
        error = s.final.std(ddof=1) / np.sqrt(s.final.size) if s.final.size > 1 else np.nan
        certified = np.isfinite(s.last_certificate)
        table.add_row(
            s.label, f"{s.final.mean():,.0f}", f"{error:,.0f}" if np.isfinite(error) else "-",
            f"1/{base / max(s.final.mean(), 1e-9):.1f}", f"{s.last_certificate:.3f}" if certified else "-",
            f"{s.failures:,}" if certified else "-",
            f"{s.set_failures:,}" if np.isfinite(s.width).all() else "-", f"{s.speed:,.0f}",
        )  # fmt: skip
    return table
