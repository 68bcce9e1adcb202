"""What rewards that have to be learned cost: `python studies/known_rewards.py`, the second table of docs/beyond.md,
section 11. The worlds of `noregret frontier`, told their mean rewards. Four minutes of one core.
"""

import sys
from dataclasses import replace

import numpy as np

import noregret as nr
from noregret.verification.frontier import LAST, population


def told(seed: int) -> nr.World:
    world = population(seed)
    problem = replace(world.problem, known_rewards=world.reward_weights)
    return nr.World(problem, world.slots, None, world.contexts, name=world.name)


def main(worlds: int = 10, episodes: int = 20_000) -> None:
    for kappa in (0.5, 0.25):
        ends = []
        for seed in range(worlds):
            world = told(seed)
            agent = nr.CertifiedPSRL(world.problem, sets="stored", kappa=kappa)
            run = nr.simulate(agent, world, episodes, [seed], every=episodes // LAST, diagnostics=True)
            last = np.diff(run.diagnostics["certificate"][0])[-1] / (episodes // LAST)
            ends.append((run.final[0], last, run.diagnostics["certificate_failures"][0, -1]))
        regret, certificate, wrong = np.array(ends).T
        error = regret.std(ddof=1) / np.sqrt(worlds) if worlds > 1 else np.nan
        print(f"kappa {kappa:g}: regret {regret.mean():.0f}, se {error:.0f}", end="; ")
        print(f"certificate {certificate.mean():.3f}; wrong {wrong.sum():.0f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
