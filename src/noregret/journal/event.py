"""One row of a journal, and which kinds there are."""

from dataclasses import dataclass
from typing import Any

# Kinds that the agent is a fold of; the service, `Live` and `replay` give them the same meaning (`live.fold`).
FOLDED = ("begin", "decide", "outcome", "reward", "correction", "end", "close", "withdraw")
# Kinds that are kept and change nothing in the agent.
KEPT = ("made", "snapshot", "erased", "pause", "resume", "alarm", "note")
KINDS = FOLDED + KEPT

Who = int | str


@dataclass(frozen=True)
class Entry:
    """What is to be written.

    kind     one of KINDS
    who      the person, as the caller names them; None where it is about nobody
    payload  what happened, JSON: all that the fold needs, nothing that it can compute
    answer   what the caller was told, JSON text, given again to whoever asks with the same key
    key      the caller's own key of the request; asked: SHA-256 of what was asked with it
    time     UTC, ISO 8601; for people: nothing depends on it"""

    kind: str
    time: str
    who: Who | None = None
    payload: dict[str, Any] | None = None
    answer: str | None = None
    key: str | None = None
    asked: bytes | None = None


@dataclass(frozen=True)
class Event(Entry):
    """What was written: an entry with its number, from 0, and the chain up to it.

    digest  SHA-256 of a salt and of everything that can be erased; chain: SHA-256 of the chain before and of number,
            kind, time and digest. erased: who, payload, answer and key are gone, the chain can still be verified"""

    number: int = 0
    digest: bytes = b""
    chain: bytes = b""
    erased: bool = False
