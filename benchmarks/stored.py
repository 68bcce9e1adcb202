"""Agents with stored sets: what a plan takes, and one refresh of a pair, by the number of people learned.

    python -m benchmarks.stored FOLDER [--people 100,1000,10000] [--world S,A,H,d]

FOLDER keeps the agents that have learned, so that two versions of the code can be measured on the same ones by turns.
"uniform": from people who were treated at random, so that all pairs are known alike; "played": from people whom
PSRL-GLM treated. Processor time, milliseconds.
"""

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np

import noregret as nr
from noregret.compiler.jit import kernel
from noregret.estimators.mixture.sets import apply_mixture

PLANS, PAIRS = 40, 8


@kernel
def refresh(par, state, work, store, s, a, log):
    """One pair, from the compiled side: a call from Python would take the time of packing the arguments."""
    apply_mixture(par.refresh, (par, state, work, store, s, a, log))


def agents(folder: Path, world: nr.World, kind: str, sizes: list[int]) -> Any:
    """(people, an agent that has learned from them), each from a file, made where there is none."""
    p = world.problem
    if not all((folder / f"{kind}{n}.npz").exists() for n in sizes):
        if kind == "uniform":
            log = world.log(sizes[-1], seed=1, explore=1.0, rule=np.zeros((p.horizon, p.n_states), int))
        else:
            log = nr.logged(nr.PSRLGLM(p), world, people=sizes[-1], seed=1)
        agent, done = nr.CertifiedPSRL(p, sets="stored"), 0
        for n in sizes:
            agent.learn_from(dataclasses.replace(log, episodes=log.episodes[done:n]))
            agent.save(folder / f"{kind}{n}.npz")
            done = n
    for n in sizes:
        yield n, nr.load(folder / f"{kind}{n}.npz")


def spread(seconds: list[float]) -> str:
    quarter, half = np.quantile(seconds, [0.25, 0.5]) * 1e3
    return f"median {half:.2f} lower quartile {quarter:.2f}"


def measure(agent: Any, world: nr.World) -> tuple[list[float], list[float], float]:
    """Seconds of plans and of refreshes, and the sum of the plans' certificates."""
    plans, made, total = [], [], 0.0
    for k in range(PLANS + 1):
        x, start = world.context(3, k), time.process_time()
        plan = agent.begin_episode(x)
        plans.append(time.process_time() - start)
        total += plan.certificate
        agent.end_episode()
    par, state = agent.par, agent.state
    for i in range(PAIRS + 1):
        s, a = i % agent.problem.n_states, i % agent.problem.n_actions
        start = time.process_time()
        refresh(par.transitions, state.transitions, agent.work.transitions, state.store, s, a, par.log_transition)
        made.append(time.process_time() - start)
    return plans[1:], made[1:], total  # the first of each may have compiled something


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--people", default="100,1000,10000")
    parser.add_argument("--world", default="10,4,10,8")
    parser.add_argument("--kinds", default="uniform,played")
    told = parser.parse_args()
    told.folder.mkdir(parents=True, exist_ok=True)
    world = nr.worlds.random_logit(*(int(n) for n in told.world.split(",")), seed=0)
    print(nr.__file__, flush=True)
    for kind in told.kinds.split(","):
        for n, agent in agents(told.folder, world, kind, [int(n) for n in told.people.split(",")]):
            plans, made, total = measure(agent, world)
            print(f"{kind} {n}: plan {spread(plans)}; refresh {spread(made)}; certificates {total!r}", flush=True)


if __name__ == "__main__":
    main()
