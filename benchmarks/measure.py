"""What `noregret bench` measures. Machines are shared and noisy: ratios come from rounds that alternate the two
sides."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import numpy_rearranged, numpy_sets, numpy_sets_twin, numpy_twin
from noregret.agents.glm.orl import GLMORL
from noregret.agents.local.lr_orl import LRORL
from noregret.simulation import simulate
from noregret.worlds import random_logit


class Size(NamedTuple):
    n_states: int
    n_actions: int
    horizon: int
    context_dim: int
    fused: int  # episodes a round, compiled
    twin: int  # episodes a round, NumPy
    wanted: float  # ratio to reach


SIZES = {
    "small": Size(5, 3, 5, 4, 300_000, 2000, 80.0),
    "medium": Size(10, 4, 10, 8, 80_000, 1000, 50.0),
    "large": Size(50, 5, 20, 16, 3000, 300, 5.0),
}


SETS = (10, 4, 10, 8)  # S, A, H, d for LR-ORL
SETS_EPISODES = 4000  # a round; the same for all, since what an episode costs changes with what has been learned


class Speeds(NamedTuple):
    """Episodes per processor second, medians over rounds; ratios are medians of each round's own."""

    fused: float
    twin: float
    rearranged: float
    to_twin: float
    to_rearranged: float


def speeds(name: str, rounds: int = 5) -> Speeds:
    """Fused GLM-ORL loop with exact regret in every episode against the two NumPy programs, one thread each.

    All start from scratch on the same world and seed in every round."""
    size = SIZES[name]
    world = random_logit(*size[:4])
    agent = GLMORL(world.problem)
    simulate(agent, world, 1)  # compile
    rates = np.zeros((rounds, 3))
    for i in range(rounds):
        rates[i] = (
            _rate(size.fused, lambda: simulate(agent, world, size.fused, workers=1)),
            _rate(size.twin, lambda: numpy_twin.glm_orl(world, size.twin)),
            _rate(2 * size.twin, lambda: numpy_rearranged.glm_orl(world, 2 * size.twin)),
        )
    ratios = np.median(rates[:, :1] / rates[:, 1:], axis=0)
    return Speeds(*np.median(rates, axis=0).tolist(), *ratios.tolist())


def set_speeds(rounds: int = 5) -> Speeds:
    """Fused LR-ORL loop, with certificates and exact regret in every episode, against the two NumPy programs, one
    thread each; as `speeds`."""
    world, n = random_logit(*SETS), SETS_EPISODES
    agent = LRORL(world.problem, **numpy_sets.OPTIONS)
    simulate(agent, world, 1)  # compile
    rates = np.zeros((rounds, 3))
    for i in range(rounds):
        rates[i] = (
            _rate(n, lambda: simulate(agent, world, n, workers=1)),
            _rate(n, lambda: numpy_sets_twin.lr_orl(world, n)),
            _rate(n, lambda: numpy_sets.lr_orl(world, n)),
        )
    ratios = np.median(rates[:, :1] / rates[:, 1:], axis=0)
    return Speeds(*np.median(rates, axis=0).tolist(), *ratios.tolist())


def _rate(episodes: int, run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return episodes / (time.process_time() - start)


def latency(name: str = "medium", calls: int = 3000) -> tuple[float, float]:
    """Microseconds of one begin_episode and of one end_episode of a live GLM-ORL, medians over varied contexts."""
    size = SIZES[name]
    world = random_logit(*size[:4])
    agent = GLMORL(world.problem)
    begin, end = [], []
    for k in range(calls):
        someone = world.individual(k)
        start = time.perf_counter_ns()
        agent.begin_episode(someone.context)
        begin.append(time.perf_counter_ns() - start)
        for _ in range(size.horizon):
            agent.observe(*someone.step(agent.act(someone.state)))
        start = time.perf_counter_ns()
        agent.end_episode()
        end.append(time.perf_counter_ns() - start)
    return float(np.median(begin)) / 1e3, float(np.median(end)) / 1e3


def scaling(workers: int = 2, rounds: int = 5) -> float:
    """Wall-clock speed-up of `workers` threads over one, on as many seeds, medium size; median over rounds."""
    size = SIZES["medium"]
    world = random_logit(*size[:4])
    agent = GLMORL(world.problem)
    simulate(agent, world, 1)
    gains = []
    for _ in range(rounds):
        times = []
        for n in (1, workers):
            start = time.perf_counter()
            simulate(agent, world, 60_000, seeds=workers, every=100, workers=n)
            times.append(time.perf_counter() - start)
        gains.append(times[0] / times[1])
    return float(np.median(gains))


_SPEEDS = """
import json, sys
from benchmarks import measure
name, rounds = sys.argv[1], int(sys.argv[2])
print(json.dumps(measure.set_speeds(rounds) if name == "sets" else measure.speeds(name, rounds)))
"""

_MEMORY = """
import json, resource, sys
import noregret as nr
world = nr.worlds.random_logit(5, 3, 5, 4)
nr.simulate(nr.GLMORL(world.problem), world, int(sys.argv[1]), every=int(sys.argv[1]) // 100)
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
"""

_COMPILE = """
import json, sys, time
import noregret as nr
from noregret.agents.registry import agent_class
world, seconds = nr.worlds.random_logit(5, 3, 5, 4), {}
for name in sys.argv[1:]:
    if agent_class(name).refusal(world.problem) is not None:
        continue
    options = {"weights": world.stored, "reward_weights": world.reward_weights} if name == "oracle" else {}
    start = time.perf_counter()
    nr.simulate(nr.make_agent(name, world.problem, **options), world, 1)
    seconds[name] = time.perf_counter() - start
print(json.dumps(seconds))
"""


def _fresh(code: str, *args: Any, **environment: str) -> Any:
    checkout = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {checkout!r})\n{code}", *map(str, args)],
        env={**os.environ, "NOREGRET_QUIET": "1", **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def single_threaded_speeds(name: str, rounds: int) -> Speeds:
    """`speeds`, or `set_speeds` for the name "sets", in a process whose linear algebra keeps to one thread: idle BLAS
    threads spin, and would be counted."""
    one = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "VECLIB", "BLIS")}
    return Speeds(*_fresh(_SPEEDS, name, rounds, **one))


def memory() -> tuple[float, float]:
    """Peak resident size in MiB of a process that simulates ten thousand, and a million episodes."""
    _fresh(_MEMORY, 1000)  # with warm caches
    return _fresh(_MEMORY, 10_000), _fresh(_MEMORY, 1_000_000)


def compile_times(names: list[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds from make to first episode for each agent in turn: with an empty cache, then in a new process.

    Agents for one step only are left out."""
    with tempfile.TemporaryDirectory() as cache:
        cold = _fresh(_COMPILE, *names, NUMBA_CACHE_DIR=cache)
        return cold, _fresh(_COMPILE, *names, NUMBA_CACHE_DIR=cache)
