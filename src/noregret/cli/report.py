"""`noregret report`: a study's results as one page with its figures."""

from pathlib import Path
from typing import Annotated

import typer

from ..report import write
from .screen import Command
from .study import results_of


def report(
    study: Annotated[Path, typer.Argument(help="the folder of a study's results, or the study file")],
    out: Annotated[
        Path | None,
        typer.Option(help="folder for report.html and figures/; unless given, report/ in that of the results"),
    ] = None,
) -> None:
    """Write one page about a study: what was run, regret, tests, bounds, certificates. Its figures lie beside it.

    Example: noregret report results/beyond"""
    results, _ = results_of(study, None)
    made = write(results, out if out is not None else results.folder / "report")
    command = Command()
    command.say(f"page     {made.page}\nfigures  {made.page.parent / 'figures'}")
    left = [f"{n} {what}" for n, what in ((made.failed, "failed"), (made.missing, "missing")) if n]
    if left:
        command.say(f"{made.cells} cells finished, {', '.join(left)}: the page says so at its top", "yellow")
