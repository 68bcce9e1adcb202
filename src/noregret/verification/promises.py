"""Do agents keep their promises in whole runs? For every confidence set, in worlds that meet the assumptions.

GLM-ORL, delta = 0.3. A run fails if in any episode any pair's set misses its truth, the planned values lie below the
optimal ones anywhere, or the regret exceeds one of the two bounds the run itself computes: the guarantee says that all
of this happens with probability at most delta. Besides, optimism that fails although all sets held refutes a proof.

Agents with certificates, delta = 0.3. The same, and a run fails as well if in any episode the plan falls short of
optimal by more than its certificate, or its value lies outside its bounds, in any state and step, or if the regret
exceeds the sum of the certificates. A certificate that is wrong in a run whose sets all held refutes a proof.

GLM-RLSVI. An episode fails if its planned value lies below the optimal one: at most 1 - F(-1) = 0.841 of them, given
the past, as long as the sets hold.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..agents.base import Agent
from ..agents.composed.certified import Certified
from ..agents.glm.orl import GLMORL
from ..agents.glm.rlsvi import GLMRLSVI
from ..agents.local.certified_psrl import CertifiedPSRL
from ..agents.local.lr_orl import LRORL
from ..agents.local.psrl_glm import PSRLGLM
from ..problem.problem import Problem
from ..simulation import simulate
from ..worlds import World, clinic, group_norm, programme, random_linear, random_logit, shared_logit, sparse_logit
from .chance import allowed
from .coverage import DELTA


class Promise(NamedTuple):
    """claimed: the probability of failure a guarantee allows; failures among trials (runs, or episodes); refuted:
    episodes in which optimism, or a certificate, failed though all sets held; worst: largest squared distance / radius;
    slack: the smaller data-dependent bound / regret at the end, median over runs (nan where there is none)."""

    name: str
    world: str
    claimed: float
    trials: int
    failures: int
    refuted: int
    worst: float
    slack: float

    @property
    def holds(self) -> bool:
        return self.refuted == 0 and self.failures <= allowed(self.trials, self.claimed)


def adversarial(world: World, candidates: int = 12) -> World:
    """The same world under an adversary who sends the individual about whom the learner knows least."""
    pool = np.empty((candidates, world.problem.context_dim))
    world.contexts.fill(99, 0, pool)

    def worst(seed: int, episode: int, agent: Any) -> Any:
        kept = getattr(agent.state, "judge", agent.state)
        inverse = kept.means.inverse if hasattr(kept, "means") else kept.transitions.inverse
        return pool[np.argmax(np.einsum("cd,sade,ce->c", pool, inverse, pool))]

    return World(world.problem, world.stored, world.reward_weights, worst, name=f"{world.name}, adversary")


def logistic_rewards(seed: int = 3) -> World:
    """`random_logit` transitions with logistic rewards."""
    base, g = random_logit(3, 2, 3, 2, weight_bound=1.0, seed=seed), np.random.default_rng(seed)
    theta = g.standard_normal((3, 2, 2))
    theta *= 2.0 / np.linalg.norm(theta, axis=-1, keepdims=True)
    problem = Problem(3, 2, 3, 2, weight_bound=1.0, reward_bound=2.0, rewards="logistic")
    return World(problem, base.stored, theta, base.contexts, name="logistic rewards")


WORLDS: dict[str, Callable[[], World]] = {
    "logit": lambda: random_logit(3, 2, 3, 2, weight_bound=1.0, seed=2),
    "linear": lambda: random_linear(3, 2, 3, 2, seed=2),
    "clinic": clinic,
    "logistic rewards": logistic_rewards,
    "sparse": lambda: sparse_logit(3, 2, 3, 8, 2, weight_bound=1.0, seed=1),
    "design": lambda: shared_logit(4, 2, horizon=3, context_dim=2, features=3, bound=2.0),
    "programme": lambda: programme(horizon=3, context_dim=4),
    "logit adversary": lambda: adversarial(WORLDS["logit"]()),
    "linear adversary": lambda: adversarial(WORLDS["linear"]()),
}


DESIGNED = ("design", "programme")  # worlds in which pairs share weights


def _options(confidence: str, world: World) -> dict[str, Any]:
    if confidence in ("newton", "centred"):
        return {"confidence": confidence}
    learner = confidence.removeprefix("conversion ")
    group = {"group_bound": group_norm(world.weights)} if learner == "sparse" else {}
    return {"confidence": "conversion", "learner": learner, **group}


PLAYS = tuple(
    (confidence, world)
    for confidence in ("newton", "centred", "conversion ons", "conversion ftrl", "conversion sparse")
    for world in WORLDS
    if not (confidence == "conversion sparse" and world in ("linear", "linear adversary", "clinic"))
    and (confidence == "newton" or (confidence == "centred") == (world in DESIGNED))  # conversion learns pairs alone
)


def optimism(confidence: str, world: str, seeds: int = 40, episodes: int = 1500) -> Promise:
    """GLM-ORL in one of `WORLDS`."""
    place = WORLDS[world]()
    agent = GLMORL(place.problem, delta=DELTA, **_options(confidence, place))
    return _kept(f"GLM-ORL, {confidence}", agent, world, place, seeds, episodes)


def _kept(name: str, agent: Agent, world: str, place: World, seeds: int, episodes: int) -> Promise:
    """What came of the agent's promises; an adversary's world runs a fifth of the episodes, at the speed of Python."""
    run = simulate(agent, place, max(episodes // (5 if "adversary" in world else 1), 1), seeds, diagnostics=True)
    counts = {column: values[:, -1] for column, values in run.diagnostics.items()}
    over = np.any([(run.regret > bound + 1e-6).any(1) for bound in run.bounds.values()], axis=0)
    missed, wrong = counts["set_failures"] > 0, counts.get("certificate_failures", np.zeros(seeds))
    failed = missed | (counts["optimism_failures"] > 0) | (wrong > 0) | over
    smaller = np.min([bound[:, -1] for bound in run.bounds.values()], axis=0)
    slack = float(np.median(smaller / np.maximum(run.final, 1e-9)))
    refuted = int(counts["justified_failures"].sum() + wrong[~missed].sum())
    worst = float(counts["worst_ratio"].max())
    return Promise(name, world, DELTA, seeds, int(failed.sum()), refuted, worst, slack)


CERTIFIED: dict[str, Callable[[Problem], Agent]] = {
    "LR-ORL": lambda p: LRORL(p, delta=DELTA),
    "CertifiedPSRL": lambda p: CertifiedPSRL(p, delta=DELTA),
    "CertifiedPSRL, stored": lambda p: CertifiedPSRL(p, delta=DELTA, sets="stored"),
    "CertifiedPSRL, Bernstein rewards": lambda p: CertifiedPSRL(p, delta=DELTA, bonus="sharp", reward_sets="bernstein"),
    "CertifiedPSRL, close": lambda p: CertifiedPSRL(p, delta=DELTA, kappa=0.1, certificates="close"),
    "Certified PSRL-GLM": lambda p: Certified(PSRLGLM(p), delta=DELTA),
}
CERTIFIED_PLAYS = tuple(
    (kind, world)
    for kind in CERTIFIED
    for world in ("logit", "linear", "clinic", "logistic rewards", *DESIGNED, "logit adversary")
    if not (world == "linear" and "stored" in kind)
    and (kind != "Certified PSRL-GLM" or world in ("logit", "clinic"))  # its judge is LR-ORL's
)
SLOWER = 10  # an agent with stored sets runs so much less


def certified(kind: str, world: str, seeds: int = 40, episodes: int = 1500) -> Promise:
    """One of `CERTIFIED` in one of `WORLDS`, with fewer episodes where they cost more."""
    place = WORLDS[world]()
    fewer = episodes // (SLOWER if "stored" in kind else 1)
    return _kept(kind, CERTIFIED[kind](place.problem), world, place, seeds, fewer)


def perturbed(world: str, episodes: int = 1000) -> Promise:
    """GLM-RLSVI, one run, met live; the planned against the optimal value of the initial state."""
    place = WORLDS[world]()
    agent = GLMRLSVI(place.problem)
    below = 0
    for k in range(episodes):
        someone = place.individual(k, seed=1)
        start = someone.state
        value = agent.begin_episode(someone.context).values[0, start]
        below += int(value < place.optimal(someone.context).values[0, start])
        while someone.steps < place.problem.horizon:
            agent.observe(*someone.step(agent.act(someone.state)))
        agent.end_episode()
    claimed = 1.0 - 0.5 * math.erfc(math.sqrt(0.5))
    return Promise("GLM-RLSVI, newton", world, claimed, episodes, below, 0, math.nan, math.nan)
