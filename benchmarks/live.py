"""What the verbs of `Live` cost: `python benchmarks/live.py [--open 1 1000] [--order begin end]`.

S=10, A=4, H=10, d=8, CertifiedPSRL, audit=False, no journal: medians in microseconds over 500 people, with so many
others open, and the two compiled calls that planning and learning consist of, alone."""

import argparse
import time
from collections import defaultdict

import numpy as np

import noregret as nr
from noregret.agents import base

PEOPLE, FIRST = 600, 100  # who come, and how many of them are not counted


def timed(name, work, spent):
    def call(*args):
        began = time.perf_counter()
        made = work(*args)
        spent[name].append(time.perf_counter() - began)
        return made

    return call


def measure(opened, order):
    """Median seconds by verb, and of the kernels alone."""
    world = nr.worlds.random_logit(n_states=10, n_actions=4, horizon=10, context_dim=8, seed=0)
    contexts = [world.context(seed=0, episode=k) for k in range(opened + PEOPLE)]
    live = nr.Live(nr.CertifiedPSRL(world.problem, seed=1), audit=False, order=order)
    rng, spent = np.random.default_rng(0), defaultdict(list)
    for k in range(opened):
        live.begin(k, contexts[k])
    kept = base.opened, base.learned
    base.opened, base.learned = timed("plan kernel", kept[0], spent), timed("learn kernel", kept[1], spent)
    begin, act, observe, end = (timed(v, getattr(live, v), spent) for v in ("begin", "act", "observe", "end"))
    try:
        for k in range(opened, opened + PEOPLE):
            begin(k, contexts[k])
            who, s = k - opened, 0
            for h in range(world.problem.horizon):
                act(who, s)
                s = int(rng.integers(world.problem.n_states))
                observe(who, float(rng.random() < 0.5), s, h)
            end(who)
    finally:
        base.opened, base.learned = kept
    return {name: float(np.median(all_[len(all_) * FIRST // PEOPLE :])) for name, all_ in spent.items()}


def main():
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--open", type=int, nargs="+", default=[1, 1000])
    asked.add_argument("--order", nargs="+", default=["begin", "end"])
    told = asked.parse_args()
    for order in told.order:
        for opened in told.open:
            found = ", ".join(f"{name} {1e6 * value:.0f}" for name, value in measure(opened, order).items())
            print(f'{opened:,} open, order="{order}", microseconds: {found}', flush=True)


if __name__ == "__main__":
    main()
