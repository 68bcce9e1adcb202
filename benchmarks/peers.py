"""Other libraries' agents on the same tabular MDP, if they are installed. Nothing is installed from here."""

import importlib
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from noregret.agents import make_agent
from noregret.simulation import simulate
from noregret.worlds import World, random_linear

SIZE = (10, 4, 10)  # S, A, H
EPISODES, OURS = 300, 30_000


class Peer(NamedTuple):
    """module and agent: what to import; ours: the agent of this library that is the same algorithm; wanted: ratio."""

    name: str
    module: str
    agent: str
    ours: str
    wanted: float


PEERS = (
    Peer("rlberry-scool UCBVI", "rlberry_scool.agents", "UCBVIAgent", "ucbvi-bf", 100.0),
    Peer("rlberry-research PSRL", "rlberry_research.agents", "PSRLAgent", "psrl", 10.0),
    Peer("rlberry-research RLSVI", "rlberry_research.agents", "RLSVIAgent", "rlsvi", 10.0),
)


class Result(NamedTuple):
    """Episodes per processor second, theirs and ours, medians; ratio: median of each round's own. Theirs None: not
    installed, `reason` says what was missing."""

    peer: Peer
    theirs: float | None
    ours: float
    ratio: float | None
    reason: str


def compare(rounds: int = 3) -> list[Result]:
    """One MDP for everybody (S = 10, A = 4, H = 10), library defaults, alternating rounds in one process."""
    S, A, H = SIZE
    world = random_linear(S, A, H, 1)
    results = []
    for peer in PEERS:
        agent = make_agent(peer.ours, world.problem)
        simulate(agent, world, 1)  # compile
        run, reason = _runner(peer, world)
        rates = np.zeros((rounds, 2))
        for i in range(rounds):
            rates[i, 1] = _rate(OURS, partial(simulate, agent, world, OURS, workers=1, every=OURS))
            rates[i, 0] = np.nan if run is None else _rate(EPISODES, run)
        theirs, ours = np.median(rates, axis=0)
        if run is None:
            results.append(Result(peer, None, float(ours), None, reason))
        else:
            ratio = float(np.median(rates[:, 1] / rates[:, 0]))
            results.append(Result(peer, float(theirs), float(ours), ratio, ""))
    return results


def _rate(episodes: int, run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return episodes / (time.process_time() - start)


def _runner(peer: Peer, world: World) -> tuple[Callable[[], Any] | None, str]:
    """A function that trains a fresh agent of the peer's for EPISODES episodes, or None and why."""
    try:
        made = getattr(importlib.import_module(peer.module), peer.agent)
        model = importlib.import_module("rlberry.envs").FiniteMDP
    except (ImportError, AttributeError) as error:
        return None, str(error)
    logging.disable(logging.WARNING)
    P, r = world.transitions([1.0]), world.rewards([1.0])

    def run() -> None:
        made(model(r, P, initial_state_distribution=0), gamma=1.0, horizon=world.problem.horizon).fit(EPISODES)

    run()  # compile, where it compiles
    return run, ""
