"""`noregret plan-trial`: how many people a programme needs, before the first."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import checks as check
from ..agents.files import load
from ..report.trial import trial_figure, write_trial
from ..simulation import save_tables
from ..studies.engines.local import LocalEngine
from ..studies.trial import plan_trial
from .options import AsCSV, Out, parse, policy_of
from .pilot import NAME
from .screen import Command, writable
from .study_view import View


def plan(
    *,
    world: Annotated[
        list[str] | None,
        typer.Option(help="a world that may be the programme's; options follow as :name=value; may be given again"),
    ] = None,
    pilot: Annotated[
        Path | None, typer.Option(help="or: file of an agent that has learned a pilot; worlds are drawn from it")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="the pilot's log: who comes; goes with --pilot")] = None,
    rule: Annotated[
        str | None, typer.Option(help="what is done today: state=action,... by name or number; goes with --pilot")
    ] = None,
    threshold: Annotated[float, typer.Option(help="certificates at most this are good enough")],
    people: Annotated[int, typer.Option(help="who come in each replication")] = 10_000,
    share: Annotated[float, typer.Option(help="of the people whose certificate should be good enough")] = 0.9,
    agent: Annotated[str, typer.Option(help="one with certificates; options as :name=value")] = "certified-psrl",
    replications: Annotated[int, typer.Option(help="runs in each world; a world with a seed is drawn anew")] = 10,
    workers: Annotated[int | None, typer.Option(help="processes; unless given, one per core")] = None,
    out: Out = Path("results/trial"),
    csv: AsCSV = False,
) -> None:
    """People until plans are certified, regret and gain over the rule as they come, and the chance to show the gain.

    By simulation in worlds that may be the programme's: expected, not proved. After an interruption, the same command
    goes on where it stood. Example: noregret plan-trial --world programme --threshold 5 --share 0.5 --people 20000"""
    command = Command()
    places = [_table(text) for text in world or []] + _piloted(pilot, log, rule)
    if not places:
        raise ValueError("plan-trial needs --world, or --pilot with --log: where would it take place?")
    count = check.integer("workers", workers or 0, 0) or None
    writable(out)
    try:
        made = plan_trial(
            places, _table(agent), people=people, threshold=threshold, share=share, replications=replications,
            folder=out, engine=LocalEngine(count), watcher=View(command.console),
        )  # fmt: skip
    except KeyboardInterrupt:
        print(f"noregret: interrupted; what is done is kept in {out}, the same command goes on", file=sys.stderr)
        raise typer.Exit(130) from None
    command.say(made.about)
    for sentence in made.sentences():
        command.say(sentence)
    command.say_rows(made.rows())
    typed = shlex.join(["noregret", *sys.argv[1:]])
    page, figure = write_trial(made, out, typed), out / "trial.png"
    trial_figure(made).draw(figure)
    numbers = out / ("trial.csv" if csv else "trial.parquet")
    save_tables([made], numbers)
    command.close(page=page, figure=figure, numbers=numbers)


def _piloted(agent: Path | None, log: Path | None, rule: str | None) -> list[dict[str, object]]:
    """The table of a world that a pilot suggests."""
    if agent is None:
        if log is not None or rule is not None:
            raise ValueError("log and rule go with --pilot")
        return []
    if log is None:
        raise ValueError("pilot needs log: whose people come")
    if rule is not None:
        policy_of(rule, load(agent).problem)  # better now than in every worker
    return [{"name": NAME, "agent": str(agent.resolve()), "log": str(log.resolve()), "rule": rule}]


def _table(text: str) -> dict[str, object]:
    name, options = parse(text)
    return {"name": name, **options}
