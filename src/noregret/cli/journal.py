"""`noregret journal`: programmes, verify, export, erase."""

from pathlib import Path
from typing import Annotated

import typer

from .. import checks as check
from ..journal.errors import NotTheWriter
from ..live.several import Live
from .replay import Programme, Url, opened, person_in
from .screen import Command, plain_table, writable

app = typer.Typer(help="Journals: what a programme's database says, and whether it is right.", no_args_is_help=True)


@app.command()
def programmes(url: Url) -> None:
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
    url: Url,
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
    with opened(url, programme) as journal:
        found = journal.verify(start, noted)
    command.say(str(found))
    command.close()
    if not found.ok:
        raise typer.Exit(1)


@app.command()
def export(
    url: Url,
    *,
    programme: Programme = None,
    out: Annotated[Path, typer.Option(help="folder for the four files")] = Path("results/journal"),
) -> None:
    """Parquet files for those who analyse: events, decisions with their probabilities, outcomes, people.

    Example: noregret journal export school.db --out results/school"""
    command = Command()
    with opened(url, programme) as journal:
        paths = journal.export(writable(out))
    command.close(**{path.stem: path for path in paths})


@app.command()
def erase(
    url: Url,
    who: Annotated[str, typer.Argument(help="the person's key; a whole number is one where no text is")],
    *,
    programme: Programme = None,
    learned: Annotated[
        int | None,
        typer.Option(help="fold nothing: they were learned from when so many events had been, and there is a snapshot"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Take away what one person said and was told. It cannot be undone; the chain can still be verified.

    The agent is folded first, for a snapshot without them. Whoever serves the programme must not be running: ask it
    instead. Backups and exports are not reached.

    Example: noregret journal erase school.db "pupil 12" """
    command = Command()
    with opened(url, programme) as journal:
        key = person_in(journal, who)
        if not yes:
            typer.confirm(f"Erase {len(journal.of(key))} events of {check.shown(key)} for ever?", abort=True)
        if not journal.lock():
            raise NotTheWriter(f"somebody else writes the journal of {journal.programme}: ask them to erase")
        if learned is None and journal.snapshots():
            Live.resume(journal).erase(key)
        else:
            journal.erase(key, learned)
        (event,) = journal.events(journal.head - 1)
    command.say(f"{(event.payload or {})['events']} events of {check.shown(key)} erased; event {event.number} says so")
    command.close()


def _noted(text: str) -> tuple[int, bytes]:
    number, colon, chain = text.partition(":")
    try:
        made = int(number), bytes.fromhex(chain)
    except ValueError:
        made = -1, b""
    if not colon or made[0] < 0 or len(made[1]) != 32:
        raise ValueError(f"known must be EVENTS:CHAIN, a number and 64 hexadecimal digits, got {check.shown(text)}")
    return made
