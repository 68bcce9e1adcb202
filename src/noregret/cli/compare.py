"""`noregret compare`: agents side by side in one world."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import ProgressColumn, Task, TaskProgressColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from .. import checks as check
from ..agents import names as agent_names
from ..agents.registry import agent_class
from ..report.run_figures import MANY, regret_figure
from ..simulation import Run, save_tables, simulate
from .options import AsCSV, Episodes, Out, Seeds, Workers, WorldName, agents_from, check_counts, world_from
from .screen import Command, plain_table, progress, writable

AGENTS = (
    "certified-psrl,glm-orl,glm-rlsvi,epsilon-greedy,certainty-equivalence,glm-orl:constants=paper,"
    "uniform-random,oracle"
)
POINTS = 1000  # recorded per curve, at most


def compare(
    world: WorldName = "clinic",
    agents: Annotated[
        str,
        typer.Option(
            help=f"comma-separated, of {', '.join(agent_names())}, or all; options follow as :name=value. "
            f"Unless given: {AGENTS.replace(',', ', ')}",
            show_default=False,
        ),
    ] = AGENTS,
    episodes: Episodes = 100_000,
    seeds: Seeds = 8,
    every: Annotated[
        int | None, typer.Option(help=f"record the curve after every so many episodes; unless given, {POINTS} times")
    ] = None,
    workers: Workers = None,
    out: Out = Path("results"),
    csv: AsCSV = False,
) -> None:
    """Run agents side by side; print a table, draw the regret, keep the numbers.

    Example: noregret compare --world random-logit:n_states=4 --agents glm-orl,glm-orl:bonus_scale=0.1"""
    command = Command()
    check_counts(episodes, seeds, workers)
    step = check.integer("every", every or max(episodes // POINTS, 1))
    if step > episodes:
        raise ValueError(f"every must be at most episodes = {episodes}, got {every}")
    place = world_from(world, episodes)
    players = agents_from(agents, place)
    if "all" in [item.strip() for item in agents.split(",")]:
        left = [name for name in agent_names() if agent_class(name).refusal(place.problem) is not None]
        if left:
            command.say(f"not for this problem: {', '.join(left)}", "dim")
    writable(out)
    p = place.problem
    sizes = f"S={p.n_states} A={p.n_actions} H={p.horizon} d={p.context_dim}, {p.link.name} link"
    command.say(f"[bold]{place.name}[/] ({sizes}): {episodes:,} episodes, seeds: {seeds}")
    runs: list[Run] = []
    with progress(TaskProgressColumn(), _Rate(), TimeRemainingColumn()) as bars:
        labels = [_short(getattr(player, "label", type(player).__name__)) for player in players]
        tasks = [bars.add_task(label, total=episodes * seeds, start=False) for label in labels]
        for player, task in zip(players, tasks, strict=True):
            bars.start_task(task)
            tick = partial(bars.advance, task)
            runs.append(simulate(player, place, episodes, seeds, every=step, workers=workers or None, progress=tick))
    command.say(_table(runs))
    command.say("at end: over the last tenth; episodes/s: per core", "dim")
    if any("no guarantee" in run.label for run in runs):
        command.say("A scaled bonus carries no guarantee, whatever its regret was here.", "yellow")
    figure, numbers = out / "regret.png", out / ("regret.csv" if csv else "regret.parquet")
    regret_figure(runs, figure, place.name)
    save_tables(runs, numbers)
    command.close(figure=figure, numbers=numbers)


class _Rate(ProgressColumn):
    """Episodes per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


def _short(label: str, width: int = 27) -> str:
    return label if len(label) <= width else label[: width - 3] + "..."


def _table(runs: list[Run]) -> Table:
    table = plain_table("agent", "final regret", "sd over seeds", "per episode at end", "episodes/s")
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
