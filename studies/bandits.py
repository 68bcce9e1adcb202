"""Regret of the agents for one decision per individual, untuned, over worlds: `python studies/bandits.py`.

The table of docs/agents-bandits.md: 8 worlds `bandit_logistic(3, 3, bound, seed)`, one run of 800 people each."""

import numpy as np

import noregret as nr

AGENTS = ("linucb", "psrl-glm", "ofuglb", "glb-omd", "ol2m", "oful", "glm-ucb", "gloc")


def lost(name: str, bound: float, people: int = 800, worlds: int = 8) -> float:
    """Mean regret."""
    made = []
    for seed in range(worlds):
        world = nr.worlds.bandit_logistic(3, 3, bound, seed=seed)
        run = nr.simulate(nr.make_agent(name, world.problem), world, people, [seed], every=people)
        made.append(run.final[0])
    return float(np.mean(made))


if __name__ == "__main__":
    for bound in (2.0, 8.0):
        print(f"bound {bound:g}:", ", ".join(f"{name} {lost(name, bound):.0f}" for name in AGENTS))
