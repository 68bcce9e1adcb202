"""How long a journal takes to be folded again: `python benchmarks/replay.py [--people 10000] [--folder FOLDER]`.

People of a random problem (S=10, A=4, H=10, d=8, CertifiedPSRL) come one after another, 22 events each, several open at
a time. Their events are written to a journal in SQLite in groups of 1,000, with a snapshot every 50,000; then `replay`
folds everything again and compares every decision. Prints what both took; exits with 1 where something differs."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import noregret as nr
from noregret.journal.event import Entry
from noregret.live.fold import fold
from noregret.live.journaled import begin_entry, decide_entry, made_entry
from noregret.storage.version import __version__

NOON = "2026-01-01T12:00:00+00:00"
GROUP, EVERY, OPEN = 1_000, 50_000, 20  # events written at a time, between snapshots; people open at a time


def filled(journal, people):
    """Let people come, and write what happened; processor seconds of `Live` alone."""
    world = nr.worlds.random_logit(n_states=10, n_actions=4, horizon=10, context_dim=8, seed=0)
    live = nr.Live(nr.CertifiedPSRL(world.problem, seed=1), audit=False)
    journal.write([made_entry(live.agent, {"draws": 0, "order": "begin", "audit": False, "rows": False}, NOON)])
    journal.keep_snapshot(1, live.snapshot()(), __version__)
    rng, waiting, spent, kept = np.random.default_rng(0), [], 0.0, 1

    def done(entry):
        nonlocal spent
        began = time.process_time()
        made = fold(live, entry)
        spent += time.process_time() - began
        waiting.append(decide_entry(made) if entry.kind == "decide" else entry)
        return made

    opened = []
    for k in range(people + OPEN):
        if k < people:
            done(begin_entry(live.agent, k, world.context(seed=0, episode=k), None, NOON))
            opened.append(k)
        if k >= OPEN or k >= people:
            who, s = opened.pop(int(rng.integers(min(len(opened), OPEN)))), 0
            for h in range(world.problem.horizon):
                done(Entry("decide", NOON, who, {"step": h, "state": s, "action": None, "by": "agent"}))
                s = int(rng.integers(world.problem.n_states))
                reward = float(rng.random() < 0.5)
                done(Entry("outcome", NOON, who, {"step": h, "next_state": s, "reward": reward}))
            done(Entry("end", NOON, who, {"wait": 0}))
        if len(waiting) >= GROUP or k == people + OPEN - 1:
            journal.write(waiting)
            waiting.clear()
            if journal.head - kept >= EVERY:
                kept = journal.head
                journal.keep_snapshot(kept, live.snapshot()(), __version__)
    return spent


def main():
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--people", type=int, default=10_000)
    asked.add_argument("--folder", default=None)
    told = asked.parse_args()
    with tempfile.TemporaryDirectory(dir=told.folder) as folder, nr.Journal(Path(folder) / "people.db") as journal:
        spent = filled(journal, told.people)
        print(f"{journal.head:,} events, {spent:.1f} s of processor time in Live", flush=True)
        began = time.process_time()
        found = nr.replay(journal)
        print(f"{found}\n{time.process_time() - began:.1f} s of processor time")
    sys.exit(not found.ok)


if __name__ == "__main__":
    main()
