"""What a programme counts of itself, for metrics and pages."""

import threading
from collections import Counter, deque
from typing import Any

ALARMS = 200  # kept in memory; all are in the journal


class Counts:
    """Written by the writer, read by anybody.

    kinds     events by kind, of the whole journal; house: decisions by reason, refusals: by status, since the start
    commits, batches   commits since the start, and how large: {largest power of 2 that is not above: how many}
    again     requests that were answered before; failures: commits that failed
    alarms    {time, what, sentence}, newest last"""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.house: Counter[str] = Counter()
        self.refusals: Counter[int] = Counter()
        self.batches: Counter[int] = Counter()
        self.commits = self.again = self.failures = self.answers = self.full = 0
        self.alarms: deque[dict[str, Any]] = deque(maxlen=ALARMS)
        self.lock = threading.Lock()

    def committed(self, kinds: list[str]) -> None:
        with self.lock:
            self.kinds.update(kinds)
            self.commits += 1
            self.batches[1 << (len(kinds).bit_length() - 1)] += 1

    def facts(self) -> dict[str, Any]:
        with self.lock:
            return {
                "events": dict(self.kinds), "house": dict(self.house), "commits": self.commits,
                "batches": dict(sorted(self.batches.items())), "again": self.again, "failures": self.failures,
                "refusals": dict(self.refusals), "answers": self.answers, "full": self.full,
                "alarms": list(self.alarms),
            }  # fmt: skip
