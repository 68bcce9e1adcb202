"""`noregret study`: run, status, retry, export."""

import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from .. import _checks as check
from .._announce import announce_with
from .._spreadsheets import write_table
from .options import terminal
from .study_view import View

app = typer.Typer(help="Studies: written down once, run anywhere, resumed at will.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="the study file (TOML)", show_default=False)]
Out = Annotated[Path | None, typer.Option(help="folder of the results", show_default="results/NAME of the study")]
Engine = Annotated[str, typer.Option(help="local: processes on this machine; dask: a cluster")]
Workers = Annotated[int, typer.Option(help="processes; 0: one per core (local), or what the cluster has (dask)")]
Scheduler = Annotated[
    str, typer.Option(help="dask: address of a scheduler; empty: one is started here", show_default=False)
]
Patience = Annotated[float, typer.Option(help="seconds between checkpoints of a long cell")]


@app.command()
def run(
    file: File,
    out: Out = None,
    engine: Engine = "local",
    workers: Workers = 0,
    scheduler: Scheduler = "",
    only: Annotated[str, typer.Option(help="comma-separated ids of cells (or their beginnings) to run again")] = "",
    patience: Patience = 30.0,
) -> None:
    """Run the cells that are missing. After any interruption, the same command goes on where things stood."""
    _run(file, out, engine, workers, scheduler, patience, only=[key.strip() for key in only.split(",") if key.strip()])


@app.command()
def retry(
    file: File,
    out: Out = None,
    engine: Engine = "local",
    workers: Workers = 0,
    scheduler: Scheduler = "",
    patience: Patience = 30.0,
) -> None:
    """Forget the failures, then run what is missing."""
    _run(file, out, engine, workers, scheduler, patience, forgive=True)


@app.command()
def status(file: File, out: Out = None) -> None:
    """What is done, under way, failed and missing. Reads every file, and finds the damaged ones."""
    results, _ = _results(file, out)
    _summary(results)
    _failures(results)


@app.command()
def export(
    file: File,
    to: Annotated[Path, typer.Option(help="a .parquet or .csv file")],
    out: Out = None,
) -> None:
    """All recorded points of all cells as one table, with the options of worlds and agents as columns."""
    if to.suffix not in (".parquet", ".csv"):
        raise ValueError(f"to must end in .parquet or .csv, got {str(to)!r}")
    results, _ = _results(file, out)
    table = results.table()
    if table.num_rows == 0:
        raise ValueError(f"{results.folder} has no finished cells to export")
    write_table(table, to)
    cells, total = len(results.done()), len(results.study.cells)
    terminal().print(f"{table.num_rows:,} rows of {cells} of {total} cells: {to}", highlight=False)


def _results(file: Path, out: Path | None) -> tuple[Any, str]:
    """(results, the file's text). A folder of results stands for the study in it."""
    from ..studies import Results, load
    from ..studies.results import STUDY

    if file.is_dir():
        file, out = file / STUDY, out or file
    if not file.is_file():
        raise ValueError(f"{file} is not a file (a study file in TOML is expected)")
    study = load(file)
    return Results(out or Path("results") / study.name, study), file.read_text(encoding="utf-8")


def _run(
    file: Path, out: Path | None, engine: str, workers: int, scheduler: str, patience: float,
    only: list[str] | None = None, forgive: bool = False,
) -> None:  # fmt: skip
    from ..studies import run as run_study
    from ..studies.engines import Lost

    check.one_of("engine", engine, ("local", "dask"))
    check.integer("workers", workers, 0)
    check.positive("patience", patience)
    if scheduler and engine != "dask":
        raise ValueError("scheduler goes with --engine dask")
    results, text = _results(file, out)
    console = terminal()
    study, folder = results.study, results.folder
    if forgive:
        console.print(f"{results.forgive()} failures forgotten", style="dim", highlight=False)
    for sentence in study.left_out:
        console.print(f"left out: {sentence}", style="dim", highlight=False)
    left = only or results.missing()
    if left:
        with announce_with(lambda line: console.print(line, style="dim", highlight=False)):
            study.rehearse()
    for name in results.damaged:
        console.print(f"damaged, will be run again: {folder / 'cells' / name}", style="yellow", highlight=False)
    console.print(
        f"[bold]{study.name}[/]: {len(left)} of {len(study.cells)} cells to run, into {folder}", highlight=False
    )
    if not left:
        _summary(results)
        _failures(results)
        raise typer.Exit(1 if results.failed() else 0)
    made = _engine(engine, workers, scheduler)
    words = ["noregret", "study", "run", str(file)] + (["--out", str(out)] if out is not None and out != file else [])
    try:
        results = run_study(
            study, folder, made, text, shlex.join(words), only or None, patience, View(console)
        )  # fmt: skip
    except KeyboardInterrupt:
        print(f"noregret: interrupted; what is done is kept in {folder}, the same command goes on", file=sys.stderr)
        raise typer.Exit(130) from None
    except Lost as error:
        print(f"noregret: {error}; what is done is kept in {folder}, the same command goes on", file=sys.stderr)
        raise typer.Exit(1) from None
    _failures(results)
    console.print(f"results  {folder}\nreport   noregret report {folder}", highlight=False)
    if results.failed():
        raise typer.Exit(1)


def _engine(name: str, workers: int, scheduler: str) -> Any:
    if name == "local":
        from ..studies.engines.local import LocalEngine

        return LocalEngine(workers or None)
    from ..studies.engines.cluster import DaskEngine

    return DaskEngine(scheduler or None, workers or None)


def _summary(results: Any) -> None:
    console, done = terminal(), results.done()
    failed, missing = {f.id for f in results.failed()}, {c.id for c in results.missing()}
    begun = {key for key in missing if results.checkpoint(key) is not None}
    seconds = sum(facts["seconds"] for facts in done.values())
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("agent in world", overflow="fold")
    for name in ("done", "under way", "failed", "missing"):
        table.add_column(name, justify="right", no_wrap=True)
    settings = results.study.settings
    rows: dict[str, Counter[str]] = {}
    for key, cell in results.study.cells.items():
        where = f"{cell.describe().split(' in ')[0]} in {settings[key]}"
        kind = "done" if key in done else "failed" if key in failed else "under way" if key in begun else "missing"
        rows.setdefault(where, Counter())[kind] += 1
    for where, count in rows.items():
        cells = [str(count[kind] or "") for kind in ("done", "under way", "failed", "missing")]
        table.add_row(where, cells[0], cells[1], Text(cells[2], style="red"), cells[3])
    console.print(table)
    total = len(results.study.cells)
    console.print(
        f"{len(done)} of {total} cells done ({seconds:,.0f} processor seconds), {len(begun)} under way, "
        f"{len(failed)} failed, {len(missing) - len(begun)} missing", highlight=False,
    )  # fmt: skip
    versions = Counter(facts["version"] for facts in done.values())
    if len(versions) > 1:
        said = ", ".join(f"{n} by {v}" for v, n in versions.items())
        console.print(f"cells were made by different versions: {said}", style="yellow", highlight=False)
    for name in results.damaged:
        console.print(f"damaged: {name}", style="yellow", highlight=False)


def _failures(results: Any) -> None:
    console, failed = terminal(), results.failed()
    for failure in failed[:20]:
        console.print(Text(f"failed  {failure.id}  {failure.cell.describe()}\n        {failure.message}", style="red"))
    if failed:
        more = f" (of {len(failed)}, 20 shown)" if len(failed) > 20 else ""
        console.print(
            f"tracebacks in {results.folder / 'failed'}{more}; noregret study retry tries again", highlight=False
        )
