"""`noregret report`: a study's results as one page with its figures."""

from pathlib import Path
from typing import Annotated

import typer

from .options import terminal


def report(
    study: Annotated[Path, typer.Argument(help="the folder of a study's results, or the study file")],
    out: Annotated[
        Path | None, typer.Option(help="folder for report.html and figures/", show_default="report/ in the former")
    ] = None,
) -> None:
    """Write one page about a study: what was run, regret, tests, bounds, certificates. Its figures lie beside it.

    Example: noregret report results/beyond"""
    from ..report import write
    from .study import _results

    results, _ = _results(study, None)
    made = write(results, out if out is not None else results.folder / "report")
    console = terminal()
    console.print(f"page     {made.page}\nfigures  {made.page.parent / 'figures'}", highlight=False)
    left = [f"{n} {what}" for n, what in ((made.failed, "failed"), (made.missing, "missing")) if n]
    if left:
        said = f"{made.cells} cells finished, {', '.join(left)}: the page says so at its top"
        console.print(said, style="yellow", highlight=False)
