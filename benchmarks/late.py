"""What an episode of a large design costs early and late in a run: `python -m benchmarks.late`.

Each agent plays the world of docs/performance.md (S=50 A=5 H=20, 40 parameters, a reward design of 32) up to so many
episodes, and is kept there. Then rounds: of each agent kept, read anew from its file, a number of further episodes in
processor time. Ratios are of episodes in the same round, since neighbours on a shared machine slow them alike. With a
folder to keep agents in, the second call measures at once: so two versions of the code can be measured by turns.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import noregret as nr
from noregret.simulation.engine import FusedSession, Setup

AGENTS = {"certified-psrl": nr.CertifiedPSRL, "lr-orl": nr.LRORL}
POINTS = (1_000, 10_000, 100_000)


def large_design() -> nr.World:
    """The world of "Large designs" in docs/performance.md."""
    psi = np.random.default_rng(2).dirichlet(np.ones(4), size=(50, 5))
    design, rewards = nr.worlds.random_design(50, 5, 5, seed=1), nr.RewardDesign(psi, 2.0)
    return nr.worlds.random_logit(50, 5, 20, 8, seed=1, design=design, reward_design=rewards)


def session(agent: nr.Agent, world: nr.World, last: int) -> FusedSession:
    """`simulate` of this agent from where it is to episode `last`."""
    made = FusedSession(agent, Setup(world, 0, last, every=last))
    made.done = agent.episode
    made.prepare()
    return made


def play(agent: nr.Agent, world: nr.World, last: int) -> float:
    """Processor seconds of the episodes from where the agent is to `last`, with exact regret."""
    run = session(agent, world, last)
    begin = time.process_time()
    while run.done < last:
        run.advance()
    return time.process_time() - begin


def keep(name: str, world: nr.World, points: list[int], folder: Path) -> None:
    """Play up to every point and write the agent there, unless that was done before."""
    missing = [n for n in points if not place(folder, name, n).exists()]
    if missing:
        agent = AGENTS[name](world.problem)
        for n in points:
            play(agent, world, n)
            agent.save(place(folder, name, n))


def place(folder: Path, name: str, n: int) -> Path:
    return folder / f"{name}-{n}.npz"


def measure(name: str, world: nr.World, points: list[int], folder: Path, further: int, rounds: int) -> np.ndarray:
    """[rounds, points]: microseconds an episode."""
    made = np.zeros((rounds, len(points)))
    for i in range(rounds):
        for j, n in enumerate(points):
            agent = nr.load(place(folder, name, n))
            play(agent, world, n + further // 10)
            made[i, j] = 1e6 * play(agent, world, n + further) / (further - further // 10)
    return made


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--agents", default="certified-psrl,lr-orl", help="comma-separated")
    ask.add_argument("--points", default=",".join(map(str, POINTS)), help="after how many episodes, comma-separated")
    ask.add_argument("--further", type=int, default=500, help="episodes measured at each")
    ask.add_argument("--rounds", type=int, default=5)
    ask.add_argument("--keep", type=Path, help="folder of agents that were brought so far, or will be")
    told = ask.parse_args()
    world, points = large_design(), sorted(map(int, told.points.split(",")))
    with tempfile.TemporaryDirectory() as scratch:
        folder = told.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in told.agents.split(","):
            keep(name, world, points, folder)
            found = measure(name, world, points, folder, told.further, told.rounds)
            for j, n in enumerate(points):
                ratio = np.median(found[:, j] / found[:, 0])
                print(
                    f"{name:15} {n:8,} episodes: {np.median(found[:, j]):6.0f} us an episode, "
                    f"least {found[:, j].min():6.0f}, {ratio:5.3f} times the first"
                )


if __name__ == "__main__":
    main()
