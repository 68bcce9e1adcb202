"""`noregret journal`: programmes, verify, export, erase."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import checks as check
from .screen import Command, plain_table, writable

if TYPE_CHECKING:  # what a database needs is imported by the commands that open one
    from ..journal.journal import Journal

app = typer.Typer(help="Journals: what a programme's database says, and whether it is right.", no_args_is_help=True)

URL = Annotated[str, typer.Argument(help="a path, sqlite:///path or postgresql://user@host/database")]
Programme = Annotated[str | None, typer.Option(help="which one; needed where the database has several")]


@app.command()
def programmes(url: URL) -> None:
    """The programmes of a database: how many events, people and snapshots each has, and its chain.

    Example: noregret journal programmes school.db"""
    from ..journal.journal import Journal

    command = Command()
    table = plain_table("programme", "chain", "events", "begun", "erased", "snapshots", "last event", left=2)
    for name in Journal.programmes(url):
        with Journal(url, name, create=False) as journal:
            begun = sum(1 for _ in journal.events(kinds=["begin"]))
            erased = sum((e.payload or {}).get("events", 0) for e in journal.events(kinds=["erased"]))
            head, chain = journal.head, journal.chain
            last = next(iter(journal.events(head - 1, head))).time
            kept = len(journal.snapshots())
        table.add_row(name, chain.hex(), f"{head:,}", f"{begun:,}", f"{erased:,}", f"{kept:,}", last)
    command.say(table)
    command.close()


@app.command()
def verify(
    url: URL,
    *,
    programme: Programme = None,
    start: Annotated[int, typer.Option(help="the first event to look at")] = 0,
    known: Annotated[
        list[str] | None,
        typer.Option(
            help="a chain noted elsewhere, as EVENTS:CHAIN (`noregret journal programmes`); may be given again"
        ),
    ] = None,
) -> None:
    """Compute all digests and the chain again: rows altered, removed, swapped or inserted are found (exit status 1).

    Example: noregret journal verify school.db --known 1200:5f3a..."""
    command = Command()
    noted = dict(map(_noted, known or []))
    with _open(url, programme) as journal:
        found = journal.verify(start, noted)
    command.say(str(found))
    command.close()
    if not found.ok:
        raise typer.Exit(1)


@app.command()
def export(
    url: URL,
    *,
    programme: Programme = None,
    out: Annotated[Path, typer.Option(help="folder for the four files")] = Path("results/journal"),
) -> None:
    """Parquet files for those who analyse: events, decisions with their probabilities, outcomes, people.

    Example: noregret journal export school.db --out results/school"""
    command = Command()
    with _open(url, programme) as journal:
        paths = journal.export(writable(out))
    command.close(**{path.stem: path for path in paths})


@app.command()
def erase(
    url: URL,
    who: Annotated[str, typer.Argument(help="the person, as the caller named them", show_default=False)],
    *,
    programme: Programme = None,
    integer: Annotated[bool, typer.Option("--integer", help="the name is an integer, not text")] = False,
    learned: Annotated[
        int | None,
        typer.Option(help="how many events had been folded when they were learned from, where that was later"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Take away what one person said and was told. It cannot be undone; the chain can still be verified.

    Whoever serves the programme must not be running: ask it instead. Backups and exports are not reached.

    Example: noregret journal erase school.db "pupil 12" """
    command = Command()
    key: int | str = who
    if integer:
        try:
            key = int(who)
        except ValueError:
            raise ValueError(f"who must be an integer, got {check.shown(who)}") from None
    with _open(url, programme) as journal:
        if not yes:
            typer.confirm(f"Erase {len(journal.of(key))} events of {check.shown(key)} for ever?", abort=True)
        event = journal.erase(key, learned)
    command.say(f"{(event.payload or {})['events']} events of {check.shown(key)} erased; event {event.number} says so")
    command.close()


def _open(url: str, programme: str | None) -> "Journal":
    from ..journal.journal import Journal

    there = Journal.programmes(url)
    if programme is None and len(there) != 1:
        raise ValueError(f"programme must be named, the database has {len(there)}: {', '.join(there) or 'none'}")
    if programme is not None and programme not in there:
        raise ValueError(f"programme must be one of {', '.join(there) or 'none'}, got {check.shown(programme)}")
    return Journal(url, programme or there[0], create=False)


def _noted(text: str) -> tuple[int, bytes]:
    number, colon, chain = text.partition(":")
    try:
        made = int(number), bytes.fromhex(chain)
    except ValueError:
        made = -1, b""
    if not colon or made[0] < 0 or len(made[1]) != 32:
        raise ValueError(f"known must be EVENTS:CHAIN, a number and 64 hexadecimal digits, got {check.shown(text)}")
    return made
