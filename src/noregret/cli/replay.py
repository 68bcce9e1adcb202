"""`noregret replay` and `noregret audit`: a journal folded again, whole or for one decision."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from .. import checks as check
from ..live.audit import audit as audited
from ..live.replay import replay as replayed

if TYPE_CHECKING:  # what a database needs is imported by the commands that open one
    from ..journal.journal import Journal

Url = Annotated[str, typer.Argument(help="a path, sqlite:///path or postgresql://user@host/database")]
Programme = Annotated[str | None, typer.Option(help="which, where the database has several")]


def opened(url: str, programme: str | None) -> "Journal":
    """The programme that was named, or the only one there is; a sentence where there are several, or none."""
    from ..journal.journal import Journal

    found = Journal.programmes(url)
    if programme is not None and programme not in found:
        raise ValueError(f"--programme: the database has no {check.shown(programme)} (it has: {', '.join(found)})")
    if programme is None and len(found) != 1:
        said = f"has several, {', '.join(found)}: name one" if found else "has none"
        raise ValueError(f"--programme: the database {said}")
    return Journal(url, programme or found[0], create=False)


def person_in(journal: "Journal", who: str) -> str | int:
    """The person's key: a whole number is one where no text is."""
    return int(who) if who.lstrip("-").isdecimal() and not journal.of(who) else who


def replay(
    url: Url,
    *,
    programme: Programme = None,
    start: Annotated[
        int | None, typer.Option("--from", help="begin with the last snapshot of at most so many events", min=0)
    ] = None,
) -> None:
    """Fold a journal again and compare every decision with what was written; exit status 1 where one differs."""
    with opened(url, programme) as journal:
        found = replayed(journal, start)
    print(found)
    sys.exit(0 if found.ok else 1)


def audit(
    url: Url,
    who: Annotated[str, typer.Argument(help="the person's key; a whole number is one where no text is")],
    step: Annotated[int, typer.Argument(help="which of their decisions, from 0", min=0)],
    *,
    programme: Programme = None,
) -> None:
    """Make one decision again from the journal: what was known, the plan, every action with its bounds."""
    with opened(url, programme) as journal:
        found = audited(journal, person_in(journal, who), step)
    print(found)
    sys.exit(0 if found.reproduced else 1)
