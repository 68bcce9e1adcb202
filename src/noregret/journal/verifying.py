"""Whether a journal still says what was written into it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .chain import ERASABLE, START, digest_of, event_of, next_chain

MOST = 20  # findings that are told in words


@dataclass(frozen=True)
class Verified:
    """What `Journal.verify` found.

    events   how many rows were looked at; erased: how many of them have nothing left but their digests
    chain    the chain after the last of them: note it elsewhere, and nobody can write another past
    wrong    a sentence for each event that is not as it was written, in order, 20 at most; found: how many there are"""

    events: int
    erased: int
    chain: bytes
    wrong: tuple[str, ...] = ()
    found: int = 0

    @property
    def ok(self) -> bool:
        return not self.found

    def __str__(self) -> str:
        head = f"{self.events:,} events, {self.erased:,} of them erased, chain {self.chain.hex()}"
        if self.ok:
            return f"{head}: as they were written"
        more = [f"... and {self.found - len(self.wrong):,} more"] if self.found > len(self.wrong) else []
        return "\n".join([f"{head}: {self.found:,} not as they were written", *self.wrong, *more])


class _Findings:
    def __init__(self) -> None:
        self.told: list[str] = []
        self.count = 0

    def __call__(self, sentence: str) -> None:
        self.count += 1
        if len(self.told) < MOST:
            self.told.append(sentence)


def verify(
    programme: str,
    rows: Iterable[Any],
    start: int = 0,
    before: bytes = START,
    snapshots: Iterable[int] = (),
    known: Mapping[int, bytes] | None = None,
) -> Verified:
    """Compute every digest and the chain again.

    rows       in the order of COLUMNS, from number `start` on; before: the chain there
    snapshots  numbers of events that had been folded when snapshots were made: so many there must be
    known      number of events -> chain after them, as noted elsewhere"""
    wrong = _Findings()
    expected, chain, erased, noted = start, before, 0, dict(known or {})
    emptied: set[int] = set()
    explained: set[int] = set()
    for row in rows:
        _, number, kind, time, *_, salt, digest, kept, gone = row
        digest, kept = bytes(digest), bytes(kept)
        if number > expected:
            wrong(_missing(expected, number))
        _contents(row, wrong)
        if bool(gone):
            erased += 1
            emptied.add(number)
        chain = next_chain(chain, programme, number, kind, time, digest)
        if chain != kept:
            wrong(f"event {number} does not follow the one before it: its chain is another")
        chain = kept
        if kind == "erased" and not gone and salt is not None:
            explained |= _named(row)
        expected = number + 1
        if expected in noted and noted.pop(expected) != chain:
            wrong(f"after event {number} the chain is not the one noted elsewhere")
    for number in sorted(emptied - explained):
        wrong(f"event {number} was emptied, and no event says that somebody was erased there")
    for number in sorted({*snapshots, *noted}):
        if number > expected:
            wrong(f"there were {number} events once, now there are {expected}: the last ones are missing")
    return Verified(max(expected - start, 0), erased, chain, tuple(wrong.told), wrong.count)


def _missing(expected: int, number: int) -> str:
    if number == expected + 1:
        return f"event {expected} is missing"
    return f"events {expected} to {number - 1} are missing"


def _contents(row: Any, wrong: _Findings) -> None:
    """Whether a row's digest is that of what it says, or it is empty and says so."""
    number, gone = row[1], bool(row[12])
    who, key, asked, payload, answer, salt, digest = row[4:11]
    if gone:
        if any(v is not None for v in (who, key, asked, payload, answer, salt)):
            wrong(f"event {number} is marked as erased and is not: it has one of {', '.join(ERASABLE)}")
        return
    try:
        fields = [v if v is None else v.encode() if isinstance(v, str) else bytes(v) for v in row[4:9]]
        right = salt is not None and digest_of(bytes(salt), *fields) == bytes(digest)
    except (TypeError, ValueError, AttributeError):
        right = False
    if not right:
        wrong(f"event {number} was altered: its digest is not that of what it says")


def _named(row: Any) -> set[int]:
    """The numbers that an "erased" event says were emptied."""
    try:
        told = (event_of(row).payload or {}).get("numbers", [])
        return {n for n in told if isinstance(n, int)}
    except (ValueError, TypeError, AttributeError):
        return set()
