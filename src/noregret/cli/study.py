"""`noregret study`: run, status, retry, export."""

import shlex
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from .. import checks as check
from ..storage.spreadsheets import write_table
from ..storage.tables import suffix
from ..studies import Results, load
from ..studies import run as run_study
from ..studies.engines import Engine, Lost
from ..studies.engines.cluster import DaskEngine
from ..studies.engines.local import LocalEngine
from ..studies.results import STUDY
from .options import look_here
from .screen import Command, plain_table
from .study_view import View

app = typer.Typer(help="Studies: written down once, run anywhere, resumed at will.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="the study file (TOML)", show_default=False)]
Out = Annotated[Path | None, typer.Option(help="folder of the results; unless given, results/NAME of the study")]
EngineName = Annotated[str, typer.Option(help="local: processes on this machine; dask: a cluster")]
Workers = Annotated[
    int | None, typer.Option(help="processes; unless given, one per core (local), or what the cluster has (dask)")
]
Scheduler = Annotated[str | None, typer.Option(help="dask: address of a scheduler; unless given, one is started here")]
Patience = Annotated[float, typer.Option(help="seconds between checkpoints of a long cell")]


@app.command()
def run(
    file: File,
    out: Out = None,
    engine: EngineName = "local",
    workers: Workers = None,
    scheduler: Scheduler = None,
    only: Annotated[
        str | None, typer.Option(help="comma-separated ids of cells (or their beginnings) to run again")
    ] = None,
    patience: Patience = 30.0,
) -> None:
    """Run the cells that are missing. After any interruption, the same command goes on where things stood."""
    keys = [key.strip() for key in (only or "").split(",") if key.strip()]
    _run(file, out, _engine(engine, workers, scheduler), patience, keys)


@app.command()
def retry(
    file: File,
    out: Out = None,
    engine: EngineName = "local",
    workers: Workers = None,
    scheduler: Scheduler = None,
    patience: Patience = 30.0,
) -> None:
    """Forget the failures, then run what is missing."""
    _run(file, out, _engine(engine, workers, scheduler), patience, [], forgive=True)


@app.command()
def status(file: File, out: Out = None) -> None:
    """What is done, under way, failed and missing. Reads every file, and finds the damaged ones."""
    command, (results, _) = Command(), results_of(file, out)
    _summary(command, results)
    _failures(command, results)


@app.command()
def export(
    file: File,
    to: Annotated[Path, typer.Option(help="a .parquet or .csv file")],
    out: Out = None,
) -> None:
    """All recorded points of all cells as one table, with the options of worlds and agents as columns."""
    suffix("to", to)
    results, _ = results_of(file, out)
    table = results.table()
    if table.num_rows == 0:
        raise ValueError(f"{results.folder} has no finished cells to export")
    write_table(table, to)
    cells, total = len(results.done()), len(results.study.cells)
    Command().say(f"{table.num_rows:,} rows of {cells} of {total} cells: {to}")


def results_of(file: Path, out: Path | None) -> tuple[Results, str]:
    """(results, the file's text). A folder of results stands for the study in it."""
    if file.is_dir():
        file, out = file / STUDY, out or file
    if not file.is_file():
        raise ValueError(f"{file} is not a file (a study file in TOML is expected)")
    look_here()
    study = load(file)
    return Results(out or Path("results") / study.name, study), file.read_text(encoding="utf-8")


def _engine(name: str, workers: int | None, scheduler: str | None) -> Callable[[], Engine]:
    """How to start it."""
    check.one_of("engine", name, ("local", "dask"))
    count = check.integer("workers", workers or 0, 0) or None
    if name == "dask":
        return partial(DaskEngine, scheduler or None, count)
    if scheduler:
        raise ValueError("scheduler goes with --engine dask")
    return partial(LocalEngine, count)


def _run(
    file: Path, out: Path | None, engine: Callable[[], Engine], patience: float, only: list[str], forgive: bool = False
) -> None:
    check.positive("patience", patience)
    results, text = results_of(file, out)
    command, study, folder = Command(), results.study, results.folder
    if forgive:
        command.say(f"{results.forgive()} failures forgotten", "dim")
    for sentence in study.left_out:
        command.say(f"left out: {sentence}", "dim")
    left = only or results.missing()
    if left:
        study.rehearse()
    for name in results.damaged:
        command.say(f"damaged, will be run again: {folder / 'cells' / name}", "yellow")
    command.say(f"[bold]{study.name}[/]: {len(left)} of {len(study.cells)} cells to run, into {folder}")
    if not left:
        _summary(command, results)
        _failures(command, results)
        raise typer.Exit(1 if results.failed() else 0)
    typed = ["noregret", "study", "run", str(file)] + (["--out", str(out)] if out is not None and out != file else [])
    view, again = View(command.console), f"what is done is kept in {folder}, the same command goes on"
    try:
        results = run_study(study, folder, engine(), text, shlex.join(typed), only or None, patience, view)
    except KeyboardInterrupt:
        print(f"noregret: interrupted; {again}", file=sys.stderr)
        raise typer.Exit(130) from None
    except Lost as error:
        print(f"noregret: {error}; {again}", file=sys.stderr)
        raise typer.Exit(1) from None
    _failures(command, results)
    command.say(f"results  {folder}\nreport   noregret report {folder}")
    if results.failed():
        raise typer.Exit(1)


def _summary(command: Command, results: Results) -> None:
    done = results.done()
    failed, missing = {f.id for f in results.failed()}, {c.id for c in results.missing()}
    begun = {key for key in missing if results.checkpoint(key) is not None}
    seconds = sum(facts["seconds"] for facts in done.values())
    settings = results.study.settings
    rows: dict[str, Counter[str]] = {}
    for key, cell in results.study.cells.items():
        where = f"{cell.describe().split(' in ')[0]} in {settings[key]}"
        kind = "done" if key in done else "failed" if key in failed else "under way" if key in begun else "missing"
        rows.setdefault(where, Counter())[kind] += 1
    kinds = "done", "under way", "failed", "missing"
    table = plain_table("agent in world", *kinds)
    for where, count in rows.items():
        table.add_row(where, *(Text(str(count[k] or ""), style="red" if k == "failed" else "") for k in kinds))
    command.say(table)
    command.say(
        f"{len(done)} of {len(results.study.cells)} cells done ({seconds:,.0f} processor seconds), {len(begun)} under "
        f"way, {len(failed)} failed, {len(missing) - len(begun)} missing"
    )
    versions = Counter(facts["version"] for facts in done.values())
    if len(versions) > 1:
        said = ", ".join(f"{n} by {v}" for v, n in versions.items())
        command.say(f"cells were made by different versions: {said}", "yellow")
    for name in results.damaged:
        command.say(f"damaged: {name}", "yellow")


def _failures(command: Command, results: Results) -> None:
    failed = results.failed()
    for failure in failed[:20]:
        command.say(Text(f"failed  {failure.id}  {failure.cell.describe()}\n        {failure.message}", style="red"))
    if failed:
        more = f" (of {len(failed)}, 20 shown)" if len(failed) > 20 else ""
        command.say(f"tracebacks in {results.folder / 'failed'}{more}; noregret study retry tries again")
