"""`noregret replay` and `noregret audit`: a journal folded again, whole or for one decision."""

import sys
from typing import Annotated

import typer

from .. import checks as check
from ..live.audit import audit as audited
from ..live.replay import replay as replayed

Url = Annotated[str, typer.Argument(help="a path, sqlite:///path or postgresql://user@host/database")]
Programme = Annotated[str | None, typer.Option(help="which, where the database has several")]


def only_programme(url: str, programme: str | None) -> str:
    """The programme that was named, or the only one there is; a sentence where there are several, or none."""
    from ..journal.journal import Journal

    found = Journal.programmes(url)
    if programme is not None:
        if programme not in found:
            raise ValueError(f"--programme: the database has no {check.shown(programme)} (it has: {', '.join(found)})")
        return programme
    if len(found) != 1:
        said = f"has several, {', '.join(found)}: name one" if found else "has none"
        raise ValueError(f"--programme: the database {said}")
    return found[0]


def replay(
    url: Url,
    *,
    programme: Programme = None,
    start: Annotated[
        int | None, typer.Option("--from", help="begin with the last snapshot of at most so many events", min=0)
    ] = None,
) -> None:
    """Fold a journal again and compare every decision with what was written; exit status 1 where one differs."""
    from ..journal.journal import Journal

    with Journal(url, only_programme(url, programme), create=False) as journal:
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
    from ..journal.journal import Journal

    with Journal(url, only_programme(url, programme), create=False) as journal:
        number = who.lstrip("-").isdecimal() and not journal.of(who)
        found = audited(journal, int(who) if number else who, step)
    print(found)
    sys.exit(0 if found.reproduced else 1)
