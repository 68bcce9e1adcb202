"""How fast journals are: `python benchmarks/journal.py [URL]`, a path or a PostgreSQL database that may be filled.

For groups of 1, 16 and 64 events: events a second, processor time of this process per event (the database server's own
is not in it), and how long `answered` takes for as many keys; then reading everything, and verifying it. Without a URL:
SQLite in a temporary folder, and PostgreSQL by the server of the tests, with fsync on."""

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import noregret as nr
from noregret.journal.chain import START, made_rows
from noregret.journal.event import Entry

ANSWER = json.dumps({
    "who": "person 123", "step": 3, "state": "moderate", "action": "drug B", "probability": 0.8, "certificate": 0.31,
    "referred": False, "by": "agent", "reason": None, "version": "1.0", "number": 12345,
})  # fmt: skip


def group(first, size):
    return [
        Entry(
            "decide", "2026-11-17T09:30:00.000000Z", f"person {i // 10}",
            {"step": i % 10, "state": 3, "action": 1, "by": "agent", "probability": 0.8, "advice": None}, ANSWER,
            f"{i:032x}", hashlib.sha256(b"%d" % i).digest(),
        )
        for i in range(first, first + size)
    ]  # fmt: skip


def clocked(work):
    wall, own = time.perf_counter(), time.process_time()
    count = work()
    wall, own = time.perf_counter() - wall, time.process_time() - own
    return count / wall, own / count * 1e6


def measure(url, seconds):
    with nr.Journal(url, f"bench-{os.getpid()}") as journal:
        number = 0
        rows = group(0, 64)
        _, own = clocked(lambda: sum(len(made_rows("bench", 0, START, rows)[0]) for _ in range(50)))
        print(f"{url.partition('?')[0]}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        print("  group   events/s  us of processor/event   answered: us of processor/key, us of processor/call")
        print(f"  digests, chain and JSON alone: {own:.1f} us of processor/event")
        for size in (1, 16, 64):
            groups, made = [], max(64, int(seconds * (3000 if size == 1 else 15000)) // size)
            for _ in range(made):
                groups.append(group(number, size))
                number += size

            def write(groups=groups, size=size):
                for entries in groups:
                    journal.write(entries)
                return len(groups) * size

            def ask(groups=groups, size=size):
                for entries in groups[:500]:
                    journal.answered([e.key for e in entries])
                return len(groups[:500]) * size

            fast, own = clocked(write)
            _, asked = clocked(ask)
            print(f"  {size:5}  {fast:9,.0f}  {own:21.1f}   {asked:10.1f} {asked * size:10.0f}")
        fast, own = clocked(lambda: sum(1 for _ in journal.events()))
        print(f"  reading {fast:,.0f} events/s, {own:.1f} us each")
        _, own = clocked(lambda: sum(len(journal.of(f"person {i}")) > 0 for i in range(300)))
        print(f"  of one person: {own:.0f} us of processor")
        fast, own = clocked(lambda: journal.verify().events)
        print(f"  verifying {fast:,.0f} events/s, {own:.1f} us each")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?")
    parser.add_argument("--seconds", type=float, default=2.0, help="about how long each group takes")
    told = parser.parse_args()
    if told.url:
        return measure(told.url, told.seconds)
    with tempfile.TemporaryDirectory() as folder:
        measure(f"{folder}/journal.db", told.seconds)
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import postgres

    try:
        server = postgres.Server(fsync="on", full_page_writes="on")
    except postgres.Unavailable as error:
        return print(error)
    try:
        measure(server.new(), told.seconds)
    finally:
        server.close()


if __name__ == "__main__":
    main()
