"""`noregret frontier`: the paper's constants and what lies beyond them, measured."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from .. import checks as check
from ..agents.controls import Oracle
from ..agents.registry import agent_class
from ..report.run_figures import frontier_figure
from ..verification.frontier import AGENTS, Standing, population
from ..verification.frontier import frontier as study
from ..worlds import World
from .options import agents_from, items_of, parse
from .screen import Command, plain_table, progress, writable


def frontier(
    worlds: Annotated[int, typer.Option(help="random worlds, seeds 0, 1, ...")] = 10,
    episodes: Annotated[int, typer.Option(help="individuals per world")] = 20_000,
    weight_bound: Annotated[float, typer.Option(help="B_p of the worlds: how strongly contexts matter")] = 2.0,
    agents: Annotated[
        str | None,
        typer.Option(
            help="comma-separated, or all; the others are compared with the first. Unless given: GLM-ORL as printed "
            "and as corrected, LR-ORL, CertifiedPSRL and PSRL-GLM as they are, and with stored sets CertifiedPSRL "
            "with kappa from 4 to 0.1 and LR-ORL"
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="folder for the figure")] = Path("results"),
) -> None:
    """Regret and certificates of guaranteed agents with the constants of their guarantees, nothing tuned.

    Worlds: random_logit, S=4 A=3 H=4 d=3. Example: noregret frontier --worlds 3 --episodes 5000"""
    command = Command()
    check.integer("worlds", worlds)
    check.integer("episodes", episodes)
    check.positive("weight_bound", weight_bound)
    place = population(0, weight_bound)
    players = [partial(_player, item) for item in _items(agents, place)] if agents else AGENTS
    for player in players:
        player(place)  # better now than in the middle
    writable(out)
    made: list[Standing] = []
    with progress() as bars:
        task = bars.add_task("playing", total=worlds * episodes * len(players))
        for standing in study(worlds, episodes, weight_bound, players, done=lambda n: bars.advance(task, n)):
            made.append(standing)
            bars.update(task, description=standing.label)
    command.say(_table(made))
    command.say(
        "regret: mean over worlds; of first: as a part of the first row's; certificate: mean over the last twentieth "
        "of the episodes; wrong: episodes with a wrong certificate; sets missed: those in which a set missed the truth",
        "dim",
    )
    figure = out / "frontier.png"
    frontier_figure(made, figure)
    command.close(figure=figure)


def _items(text: str, place: World) -> list[str]:
    items = items_of(text, place, Oracle.name)
    for item in items:
        agent_class(parse(item)[0])
    return items


def _player(text: str, world: World) -> Any:
    return agents_from(text, world)[0]


def _table(made: list[Standing]) -> Table:
    columns = "regret", "se", "of first", "certificate", "wrong", "sets missed", "episodes/s"
    table = plain_table("agent", *columns)
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
