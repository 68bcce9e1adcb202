"""`noregret referral`: what handing the doubtful cases to an expert is worth."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .. import checks as check
from ..agents.composed.referral import CRITERIA, Referral
from ..agents.registry import with_kernel
from ..report.run_figures import referral_figure
from ..simulation import referral_study, save_tables
from ..worlds import World
from .options import AsCSV, Episodes, Out, Seeds, Workers, WorldName, agents_from, check_counts, world_from
from .screen import Command, progress, writable

SHARES = (0.05, 0.1, 0.2, 0.4, 0.8)  # of the largest value there is: thresholds where none are given


def referral(
    agent: Annotated[
        str,
        typer.Option(
            help=f"one with certificates (built in: {', '.join(with_kernel('certificate_kernel')) or 'none'}); options "
            "follow as :name=value"
        ),
    ] = "certified-psrl",
    world: WorldName = "clinic",
    *,
    expert: Annotated[str, typer.Option(help="an agent, with options as :name=value")] = "oracle",
    threshold: Annotated[
        str | None,
        typer.Option(help="comma-separated numbers; unless given, 5, 10, 20, 40 and 80% of the largest value"),
    ] = None,
    criterion: Annotated[str, typer.Option(help=f"one of {', '.join(CRITERIA)}")] = "certificate",
    episodes: Episodes = 20_000,
    seeds: Seeds = 4,
    workers: Workers = None,
    out: Out = Path("results"),
    csv: AsCSV = False,
) -> None:
    """Let an agent refer to an expert at several thresholds; print a table, draw the trade-off, keep the numbers."""
    command = Command()
    check_counts(episodes, seeds, workers)
    check.one_of("criterion", criterion, CRITERIA)
    place = world_from(world, episodes)
    largest = place.problem.horizon * place.problem.scale.unit if criterion != "doubt" else 1.0
    limits = _thresholds(threshold or "", largest)
    player, helper = _one(agent, expert, place)
    Referral(player, helper, max(limits), criterion)  # better now than after the simulation
    writable(out)
    with progress() as bars:
        task = bars.add_task("simulating", total=episodes * seeds * (len(limits) + 2))
        study = referral_study(
            player, helper, place, episodes, limits, seeds, criterion=criterion, workers=workers or None,
            progress=lambda n: bars.advance(task, n),
        )  # fmt: skip
    command.say(study.about)
    command.say_rows(study.rows())
    meaning = "certified: sum of the certificates of those kept; " if criterion == "certificate" else ""
    command.say(f"at end: over the last tenth; {meaning}saved: against the agent alone", "dim")
    figure, numbers = out / "referral.png", out / ("referral.csv" if csv else "referral.parquet")
    referral_figure(study, figure, place.name)
    save_tables([study], numbers)
    command.close(figure=figure, numbers=numbers)


def _thresholds(text: str, largest: float) -> list[float]:
    try:
        return [float(t) for t in text.split(",")] if text.strip() else [largest * share for share in SHARES]
    except ValueError:
        raise ValueError(f"threshold must be comma-separated numbers, got {check.shown(text)}") from None


def _one(agent: str, expert: str, place: World) -> list[Any]:
    """Agent and expert, one each."""
    made = [agents_from(text, place) for text in (agent, expert)]
    if any(len(some) != 1 for some in made):
        raise ValueError("agent and expert must each name one agent")
    return [some[0] for some in made]
