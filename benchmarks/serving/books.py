"""Whether the books balance: what was acknowledged is in the journal, once, with the answer that was given; the chain
holds; folding again comes to the same bits."""

import time
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import noregret as nr

from .load import Record


@dataclass
class Books:
    """events, keys   in the journal; of them with a key
    lost       acknowledged and not there
    twice      keys that are there more than once
    other      answers that are not the stored one
    surplus    there, never acknowledged: committed and the answer lost on its way, by callers who gave up
    open       sentences about anything else that is wrong"""

    events: int = 0
    keys: int = 0
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    surplus: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    replay_seconds: float = 0.0
    replayed: Any = None

    @property
    def balanced(self) -> bool:
        return not (self.lost or self.twice or self.other or self.open)

    def sentence(self) -> str:
        counts = {"lost": self.lost, "twice": self.twice, "other answer": self.other, "wrong": self.open}
        found = ", ".join(f"{len(v)} {k} ({v[0][:200]})" if v else f"0 {k}" for k, v in counts.items())
        return f"{self.events} events, {self.keys} keys, {len(self.surplus)} not acknowledged; {found}"


def balance(url: str, programme: str, *records: Record, replay: bool = True) -> Books:
    """Hold the journal against what callers were told; the service must have stopped."""
    told: dict[str, bytes] = {}
    books = Books()
    for record in records:
        books.open += record.wrong
        for key, mark in record.acknowledged.items():
            if told.setdefault(key, mark) != mark:
                books.other.append(key)
    with nr.Journal(url, programme, create=False) as journal:
        seen: set[str] = set()
        decided: Counter[Any] = Counter()
        for event in journal.events():
            books.events += 1
            books.kinds[event.kind] += 1
            if event.kind == "decide":
                decided[event.who, event.payload["step"]] += 1
            if event.key is None:
                continue
            if event.key in seen:
                books.twice.append(event.key)
            seen.add(event.key)
            if event.key not in told:
                books.surplus.append(event.key)
            elif blake2b(event.answer.encode(), digest_size=16).digest() != told[event.key]:
                books.other.append(event.key)
        books.keys = len(seen)
        books.lost = [key for key in told if key not in seen]
        books.twice += [f"{who}, step {step}: {n} decisions" for (who, step), n in decided.items() if n > 1]
        verified = journal.verify()
        if not verified.ok:
            books.open.append(f"the chain: {verified}")
        if replay:
            start = time.perf_counter()
            books.replayed = nr.replay(journal)
            books.replay_seconds = time.perf_counter() - start
            if not books.replayed.ok:
                books.open.append(f"the replay: {books.replayed}")
    return books
