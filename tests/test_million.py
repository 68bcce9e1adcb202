"""A million certified episodes in worlds with designs, extreme ones among them: no certificate is wrong where the sets
held, and sets miss no more often than delta = 0.3 allows."""

import numpy as np
import pytest

import noregret as nr
from noregret.verification.chance import allowed
from noregret.worlds.random_worlds import without_design

DELTA, SEEDS = 0.3, 4
AGENTS = {
    "psrl": lambda p: nr.CertifiedPSRL(p, delta=DELTA),
    "optimism": lambda p: nr.LRORL(p, delta=DELTA),
    "bernstein": lambda p: nr.CertifiedPSRL(p, delta=DELTA, bonus="sharp", reward_sets="bernstein"),
    "close": lambda p: nr.CertifiedPSRL(p, delta=DELTA, kappa=0.1, certificates="close"),
}


def places():
    """24 worlds: one block to one per pair; truths as long as their bound, which leaves next states nearly alike (.5)
    to nearly certain (12); rewards per pair and shared; a programme with impossible next states, and a pair alone."""
    made = []
    for bound in (0.5, 2.0, 12.0):
        for blocks in (1, 2, 6):
            for shared in (False, True):
                n = len(made)
                design = nr.worlds.random_design(3, 2, 3, blocks, bound, n)
                g = np.random.default_rng(n)
                rewards = nr.RewardDesign(g.dirichlet(np.ones(2), (3, 2)), 2.0) if shared else None
                made.append(
                    nr.worlds.random_logit(horizon=3, context_dim=2, seed=n, design=design, reward_design=rewards)
                )
    made += [nr.worlds.programme(horizon=3, context_dim=4, seed=seed) for seed in range(3)]
    made += [without_design(made[n]) for n in (0, 8, 16)]
    return made


def certified(n, world, episodes):
    """(wrong certificates, those of runs whose sets held; runs whose sets missed) of one of the agents, by turns."""
    agent = list(AGENTS.values())[n % len(AGENTS)](world.problem)
    counts = nr.simulate(agent, world, episodes, SEEDS, every=episodes, diagnostics=True).diagnostics
    wrong, missed = counts["certificate_failures"][:, -1], counts["set_failures"][:, -1] > 0
    justified = counts["justified_failures"][:, -1].sum()
    return int(wrong.sum()), int(wrong[~missed].sum() + justified), int(missed.sum())


@pytest.mark.slow
def test_a_million_certified_episodes():
    worlds, episodes = places(), 10_500
    found = np.array([certified(n, world, episodes) for n, world in enumerate(worlds)])
    wrong, unjustified, missed = found.sum(axis=0)
    runs = SEEDS * len(worlds)
    print(f"{runs * episodes:,} episodes, {len(worlds)} worlds: {wrong} certificates wrong, {missed} runs missed")
    assert runs * episodes >= 1_000_000
    assert unjustified == 0
    assert missed <= allowed(runs, DELTA)


@pytest.mark.long
def test_certificates_in_extreme_worlds():
    """A few episodes of every world, every agent."""
    for n, world in enumerate(places()):
        assert certified(n + n // len(AGENTS), world, 20)[1] == 0
