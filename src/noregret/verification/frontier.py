"""How far from useful are the guarantees? The paper's constants and what lies beyond them, on the same populations.

Every agent plays the same random worlds with the constants its guarantee needs, nothing tuned: one run a world, the
seed of the run being that of the world. Reported for each: regret, the certificates its plans came with (where they
do), how often a certificate or a set was wrong, and the 1-norm width of the transitions at the pairs visited.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import checks as check
from ..agents import make_agent
from ..checks import Floats
from ..simulation import Run, simulate
from ..worlds import World, random_logit

Maker = Callable[[World], Any]  # an agent for a world


def maker(name: str, **options: Any) -> Maker:
    return lambda world: make_agent(name, world.problem, **options)


KAPPAS = 4.0, 0.5, 0.25, 0.1  # from hardly a plan refused to nearly optimism
AGENTS: tuple[Maker, ...] = (
    maker("glm-orl", constants="paper"),
    maker("glm-orl"),
    maker("lr-orl"),
    maker("certified-psrl"),
    maker("psrl-glm"),
    *(maker("certified-psrl", sets="stored", kappa=kappa) for kappa in KAPPAS),
    maker("lr-orl", sets="stored"),
)
POINTS = 200  # recorded per run
LAST = 20  # the last part over which certificates are averaged, one in so many episodes


def population(seed: int, weight_bound: float = 2.0) -> World:
    """S = 4, A = 3, H = 4, d = 3: small enough that a run of 20,000 episodes leaves the sets' infancy."""
    return random_logit(4, 3, 4, 3, weight_bound, seed)


class Standing(NamedTuple):
    """One agent over all worlds. episodes [points]; regret, certificate, width [worlds, points]: cumulative regret, and
    means per episode (per step for the width) since the point before; nan where the agent has none. kappa: of a gate,
    nan without one; family: the agent with its other options, which those that differ in kappa alone have in common."""

    label: str
    name: str
    kappa: float
    family: str
    episodes: Floats
    regret: Floats
    certificate: Floats
    width: Floats
    failures: int  # episodes with a wrong certificate
    set_failures: int  # episodes in which a set missed the truth
    speed: float

    @property
    def final(self) -> Floats:
        """Regret at the end, [worlds]."""
        return np.asarray(self.regret[:, -1])

    @property
    def last(self) -> Floats:
        """Mean certificate over the last twentieth of the episodes, [worlds]."""
        return np.asarray(self.certificate[:, -max(len(self.episodes) // LAST, 1) :].mean(1))

    @property
    def last_certificate(self) -> float:
        """Their mean."""
        return float(self.last.mean())


def frontier(
    worlds: int = 10,
    episodes: int = 20_000,
    weight_bound: float = 2.0,
    agents: Sequence[Maker] = AGENTS,
    done: Callable[[int], None] | None = None,
) -> Iterator[Standing]:
    """One `Standing` an agent, in order; done(n): n episodes were finished."""
    check.integer("worlds", worlds)
    every = max(check.integer("episodes", episodes) // POINTS, 1)
    for make in agents:
        runs: list[Run] = []
        for seed in range(worlds):
            world = population(seed, check.positive("weight_bound", weight_bound))
            agent = make(world)
            runs.append(simulate(agent, world, episodes, [seed], every=every, diagnostics=True, progress=done))
        yield _standing(runs, getattr(agent, "options", {}))


def _standing(runs: list[Run], options: dict[str, Any]) -> Standing:
    first = runs[0]
    spans = np.diff(first.episodes, prepend=0)

    def recent(column: str) -> Floats:
        if column not in first.diagnostics:
            return np.full((len(runs), spans.size), np.nan)
        return np.concatenate([np.diff(run.diagnostics[column], prepend=0.0) for run in runs]) / spans

    def total(column: str) -> int:
        return int(sum(run.diagnostics[column][0, -1] for run in runs if column in run.diagnostics))

    kappa = options.get("kappa")
    others = sorted((key, str(value)) for key, value in options.items() if key != "kappa")
    return Standing(
        first.label, first.agent, np.nan if kappa is None else float(kappa), f"{first.agent} {others}",
        first.episodes.astype(float), np.concatenate([run.regret for run in runs]),
        recent("certificate"), recent("transition_width") / recent("steps"), total("certificate_failures"),
        total("set_failures"), float(np.mean([run.speed for run in runs])),
    )  # fmt: skip
