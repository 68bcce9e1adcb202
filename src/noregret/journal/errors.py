"""What can go wrong with a journal although everybody did the right thing, and how drivers' errors become sentences."""

import re
from typing import Any


class JournalUnavailable(OSError):
    """The database cannot be reached, is busy, or has no room. Nothing was written; or, where a connection broke in the
    middle of a commit, it is not known whether it was: ask `head` before going on."""


class JournalDamaged(ValueError):
    """The database is not what was written: `Journal.verify` says where."""


class RowDamaged(JournalDamaged):
    """One row is not. The others can be read, and whoever it is not about need not suffer from it."""


class NotTheWriter(RuntimeError):
    """Somebody else holds the writer's lock, or has written since this journal was last asked for its head. Nothing was
    written. Whatever was computed from the events before lacks theirs."""


class KeyTaken(ValueError):
    """A key is in the journal already; nothing was written."""


DAMAGED = "what the journal has here is damaged: noregret journal verify says where"
_ABSENT = re.compile(r"no such (table|column)|has no column named|syntax error")  # SQLite calls these operational, too


def sentence(error: BaseException) -> str:
    """What a driver says, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def translated(error: Any, shown: str) -> Exception:
    """A driver's error (sqlite3's or psycopg's: both follow PEP 249) as one of ours, with the database named.

    What may pass by itself is JournalUnavailable; what is no journal, or a damaged one, JournalDamaged."""
    names = {kind.__name__ for kind in type(error).__mro__}
    text = sentence(error)
    if "OperationalError" in names and not _ABSENT.search(text):
        return JournalUnavailable(f"the journal in {shown} is not available: {text}")
    if names & {"InterfaceError", "InternalError"}:
        return JournalUnavailable(f"the journal in {shown} is not available: {text}")
    return JournalDamaged(f"{shown} is no journal, or it is damaged: {text}")
