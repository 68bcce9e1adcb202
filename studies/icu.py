"""What is learned on ICU-Sepsis, how fast, and in how much memory: `python studies/icu.py psrl:replan=doubling 100000`.

One seed of each agent named, one after the other. Values are the probability of having survived, averaged over the five
kinds of patient and the initial states: of the optimum, the expert and uniform choice exactly, of an agent as the
optimum less its mean regret over the last tenth of the episodes.
"""

import resource
import sys
import time

import numpy as np

import noregret as nr
from noregret.cli.options import parse
from noregret.simulation.catalogue import named_agent


def ends() -> tuple[float, float, float]:
    """Mean values of the optimum, the expert, and a uniform choice among admissible actions."""
    may, tables, X = world.problem.layout.available, nr.worlds.sepsis_tables(), world.contexts.support
    uniform, expert = may / may.sum(1, keepdims=True), np.where(may, tables.expert, 0.0)
    expert /= expert.sum(1, keepdims=True)
    best = [float(world.optimal(x).values[0] @ tables.start) for x in X]
    others = [[nr.worlds.mixed_value(world, policy, x) for x in X] for policy in (expert, uniform)]
    for name, row in zip(("optimum", "expert", "uniform"), [best, *others], strict=True):
        print(f"{name:10}", " ".join(f"{v:.4f}" for v in row), f"  mean {np.mean(row):.4f}", flush=True)
    return float(np.mean(best)), float(np.mean(others[0])), float(np.mean(others[1]))


if __name__ == "__main__":
    *agents, episodes = sys.argv[1:]
    world, K = nr.worlds.icu_sepsis(), int(episodes)
    best = ends()[0]
    for spec in agents:
        start = time.perf_counter()
        run = nr.simulate(named_agent(*parse(spec), world), world, K, every=max(K // 10, 1), workers=1)
        values = best - np.diff(run.regret[0], prepend=0.0) / np.diff(run.episodes, prepend=0)
        wall, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{run.label}: {K:,} episodes, {wall:.0f} s ({run.seconds[0]:.0f} s of one core), {used:.2f} GiB")
        print("    value by tenths of the run:", " ".join(f"{v:.4f}" for v in values), flush=True)
