"""`noregret report`: a study's results as one page with its figures."""

from pathlib import Path
from typing import Annotated

import typer

from .options import terminal


def report(
    study: Annotated[Path, typer.Argument(help="folder with the results of a study, or its study file")],
    out: Annotated[
        Path | None, typer.Option(help="folder for report.html and figures/", show_default="report/ in that folder")
    ] = None,
) -> None:
    """Write one page about a study: what was run, regret, tests, bounds, certificates. Its figures lie beside it.

    Example: noregret report studies/beyond.toml"""
    from ..report import write
    from ..studies import Results

    results = Results(study)
    made = write(results, out if out is not None else Path(results.folder) / "report")
    console = terminal()
    console.print(f"page     {made.page}\nfigures  {made.page.parent / 'figures'}", highlight=False)
    left = [f"{n} {what}" for n, what in ((made.failed, "failed"), (made.missing, "missing")) if n]
    if left:
        console.print(f"{made.cells} cells; {', '.join(left)}: the page says so at its top", style="yellow")
