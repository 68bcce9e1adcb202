"""A record of what the library computes, to compare with after a change that must not change a number.

    python tools/golden.py record FILE.json     run the cases and write what came out
    python tools/golden.py compare FILE.json    run them again and print a line for each difference; exit code 1 if any

A case is one agent with some options in one small world. It is simulated on a few seeds, and then played live with the
four verbs. Of the simulation the record keeps the regret at the end of every seed, the counts and bounds of the
diagnostics, and digests of all curves; of the live agent digests of its policies, the last plan's values and bounds,
what it certifies of a given policy where it can, and digests of the arrays in its saved file. Agents and worlds are
made through the public names alone, so that modules may move between a record and its comparison.

    --match TEXT       only the cases whose name contains the text; may be given several times. What else is in the file
                       of a record stays there
    --list             print the names of the cases and stop
    --jobs N           processes; kernels are compiled once for each family of cases
    --plain            few episodes on one seed, for the environment variable NUMBA_DISABLE_JIT=1; a file of its own
    --tolerance T      compare: policies must be the same, regret and sums within T max(1, |value|); digests of numbers
                       that are rounded are not looked at. 0, the default: everything must be the same to the bit
    --ignore FIELD     compare: leave out a part of the record, such as `fingerprint`, which changes with the names of
                       an agent's arrays, or `state`, which does not; may be given several times

A record is of one machine, one set of versions: another processor may round differently, and `compare` says so.
"""

import argparse
import dataclasses
import functools
import hashlib
import json
import math
import multiprocessing
import os
import platform
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import noregret as nr

FORMAT = 1
LINKS = ("logit", "linear")
SUPPORTS = ("dense", "masked")
REWARDS = ("linear", "logistic", "known")
EVERYWHERE = [f"{link}-{support}-{rewards}" for link in LINKS for support in SUPPORTS for rewards in REWARDS]
LOGIT = [name for name in EVERYWHERE if name.startswith("logit")]
LINEAR = [name for name in EVERYWHERE if name.startswith("linear")]
# Every link, every support, every kind of rewards, in five worlds
SOME = [
    "logit-dense-linear",
    "logit-masked-logistic",
    "logit-masked-known",
    "linear-dense-linear",
    "linear-masked-known",
]
TWO = ["logit-dense-linear", "linear-masked-linear"]
BANDITS = ["bandit-logistic", "bandit-linear", "bandit-masked"]
DRAWN = {  # what these agents did by default when they were first recorded
    "psrl-glm": {"exploration": "posterior"},
    "certified-psrl": {"exploration": "posterior", "kappa": 0.5},
}
CENTRES = "three"  # stands for three contexts of the world
MISSED = ("error", "refused")


class Size(NamedTuple):
    episodes: int
    seeds: int
    live: int
    probes: int


JIT, PLAIN = Size(150, 3, 8, 3), Size(6, 1, 3, 1)


# Worlds ---------------------------------------------------------------------------------------------------------------
def masked(link: Any) -> nr.World:
    """Pairs with one, two and three possible next states, unavailable pairs, contexts of several lengths, a random
    initial state."""
    S, A, d, g = 4, 3, 3, np.random.default_rng(5)
    logit = isinstance(link, nr.MultinomialLogit)
    support = np.array([
        [[1, 1, 0, 0], [0, 1, 1, 1], [1, 1, 1, 1]],
        [[1, 0, 0, 1], [0, 0, 1, 0], [1, 0, 1, 1]],
        [[0, 1, 1, 0], [1, 1, 0, 1], [0, 0, 0, 0]],
        [[1, 0, 1, 0], [0, 0, 0, 1], [1, 1, 0, 1]],
    ], bool)  # fmt: skip
    available = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 0], [0, 1, 1]], bool)
    problem = nr.Problem(
        S, A, 4, d, link, 1.0, 1.5 if logit else None, 1.5, support=support, available=available
    )  # fmt: skip
    contexts = g.dirichlet(np.ones(d), 40)
    if logit:
        contexts *= g.uniform(0.2, 1.0, (40, 1)) / np.linalg.norm(contexts, axis=1, keepdims=True)
        W = g.standard_normal((S, A, S, d))
        W *= 0.7 / np.linalg.norm(W, axis=-1, keepdims=True)
    else:
        W = g.random((S, A, S, d)) ** 3 * support[..., None]
        W /= np.maximum(W.sum(2, keepdims=True), 1e-300)
    theta = g.random((S, A, d)) * 0.8
    return nr.World(problem, W, theta, nr.contexts.Table(contexts), [0.2, 0.5, 0.0, 0.3], "masked")


def rewarded(base: nr.World, rewards: str, **changes: Any) -> nr.World:
    """The same population with logistic rewards of both signs ("logistic"), with its own rewards told beforehand
    ("known"), both ("known-logistic"), or half as large again and from -1/2 to 3/2 ("signed")."""
    theta = base.reward_weights
    if rewards == "signed":
        theta = 1.5 * theta
        changes |= {"reward_range": (-0.5, 1.5), "reward_bound": 1.5 * base.problem.reward_bound}
    if "logistic" in rewards:
        theta = np.random.default_rng(8).standard_normal(theta.shape)
        theta *= 2.0 / np.linalg.norm(theta, axis=-1, keepdims=True)
        changes |= {"rewards": "logistic", "reward_bound": 2.0}
    if "known" in rewards:
        changes["known_rewards"] = theta
    problem = dataclasses.replace(base.problem, **changes)
    return nr.World(problem, base.weights, theta, base.contexts, base.initial_state)


@functools.cache
def world_of(name: str) -> nr.World:
    if name == "bandit-logistic":
        return nr.worlds.bandit_logistic(3, 3, 2.0, seed=1)
    if name == "bandit-linear":
        return nr.worlds.random_linear(2, 3, 1, 3, seed=1)
    if name == "bandit-signed":
        return rewarded(world_of("bandit-linear"), "signed")
    if name == "bandit-designed":
        psi = np.stack([np.ones((2, 3)), np.linspace(-1.0, 1.0, 6).reshape(2, 3)], axis=-1)
        return nr.worlds.random_logit(horizon=1, context_dim=3, reward_design=nr.RewardDesign(psi, 2.0), seed=1)
    if name == "bandit-masked":
        return rewarded(world_of("logit-masked-linear"), "logistic", horizon=1)
    if name == "clinic":
        return nr.worlds.clinic()
    if name == "design":
        return nr.worlds.shared_logit(4, 2, horizon=3, context_dim=2, features=3, bound=2.0)
    if name == "design-wide":  # more outcomes than features, and rewards by a design
        psi = np.random.default_rng(2).dirichlet(np.ones(3), size=(14, 2))
        design, rewards = nr.worlds.random_design(14, 2, 3, 2, bound=2.0, seed=1), nr.RewardDesign(psi, 2.0)
        return nr.worlds.random_logit(14, 2, 6, 4, seed=1, design=design, reward_design=rewards)
    if name == "programme":
        return nr.worlds.programme(horizon=3, context_dim=4)
    if name == "sparse":
        return nr.worlds.sparse_logit(3, 2, 4, 8, 2, seed=1)
    link, support, rewards = name.split("-", 2)
    if rewards != "linear":
        return rewarded(world_of(f"{link}-{support}-linear"), rewards)
    if support == "masked":
        return masked(nr.MultinomialLogit() if link == "logit" else nr.LinearCombination())
    sizes = {"dense": (4, 3, 4, 3), "wide": (10, 2, 3, 5), "small": (2, 2, 3, 1)}[support]
    return (nr.worlds.random_logit if link == "logit" else nr.worlds.random_linear)(*sizes, seed=1)


# Cases ----------------------------------------------------------------------------------------------------------------
class Case(NamedTuple):
    family: str  # cases of one family share compiled kernels, and are run one after the other
    agent: str
    world: str
    options: tuple[tuple[str, Any], ...]

    @property
    def name(self) -> str:
        said = ",".join(f"{key}={value}" for key, value in self.options)
        return f"{self.agent}/{self.world}" + (f"/{said}" if said else "")


def cases() -> list[Case]:
    made: list[Case] = []

    def add(family: str, agent: str, worlds: Any, **options: Any) -> None:
        made.extend(Case(family, agent, world, tuple(options.items())) for world in worlds)

    # The main agents, in the full cross product
    for agent, scale in (("glm-orl", 0.05), ("glm-rlsvi", 0.01)):
        full = EVERYWHERE if agent == "glm-orl" else SOME
        add("glm", agent, [*full, "logit-wide-linear", "logit-small-linear", "logit-masked-known-logistic"])
        add("glm", agent, full, bonus_scale=scale)
        add("glm", agent, full, constants="paper", bonus_scale=scale)
        add("glm", agent, ["logit-dense-linear"], constants="paper")
        add("glm", agent, ["logit-dense-linear"], regularization=2.0, reward_regularization=3.0)
        add("conversion", agent, full, confidence="conversion", bonus_scale=scale)
        add("conversion", agent, TWO, confidence="conversion", learner="ftrl")
        add("conversion", agent, ["sparse"], confidence="conversion", learner="sparse", group_bound=6.0)
    for agent in ("glm-orl", "glm-rlsvi", "epsilon-greedy", "certainty-equivalence", "omg-cmdp"):
        add("design", agent, ["design", "programme"])
        if agent.startswith("glm"):
            add("design", agent, ["design", "programme"], confidence="centred")
            add("design", agent, ["design"], regularization=2.0, bonus_scale=0.05)
    for agent in ("lr-orl", "certified-psrl", "psrl-glm"):
        add("shared", agent, ["design", "design-wide", "programme"])
    for agent in ("lr-orl", "certified-psrl"):
        add("shared", agent, ["design", "design-wide"], predictor="plug-in", certificates="close")
        add("shared", agent, ["design", "design-wide"], sets="stored")
    add("shared", "certified-psrl", ["design-wide", "programme"], kappa=0.05, exploration="posterior")
    add("shared", "lr-orl", ["design"], bonus="sharp", regularization=2.0)
    add("shared", "lr-orl", ["design-wide"], optimism="randomised")
    more = ["logit-wide-linear", "logit-small-linear", "logit-masked-known-logistic", "clinic"]
    for agent in ("lr-orl", "certified-psrl"):
        for bonus in ("taylor", "sharp"):
            for form in ("full", "kron"):
                add("online", agent, LOGIT, sets="online", bonus=bonus, form=form)
            for sets in ("stored", "stored-plain"):
                add("stored", agent, LOGIT, sets=sets, bonus=bonus)
            add("linear", agent, LINEAR, bonus=bonus)
        add("online", agent, more)
        add("stored", agent, more, sets="stored")
        add("linear", agent, ["linear-wide-linear"])
        for kind in ("hoeffding", "bernstein", "ridge"):
            add("online", agent, ["logit-dense-linear", "logit-masked-linear"], reward_sets=kind)
            add("stored", agent, ["logit-dense-linear"], sets="stored", reward_sets=kind)
            add("linear", agent, ["linear-masked-linear"], reward_sets=kind)
        add("online", agent, ["logit-dense-linear", "logit-masked-linear"], predictor="plug-in")
        add("online", agent, ["logit-dense-linear", "logit-masked-linear"], certificates="close")
        add("stored", agent, ["logit-dense-linear"], sets="stored", certificates="close")
        add("online", agent, ["logit-dense-linear"], regularization=2.0, reward_regularization=3.0, delta=0.3)
        add("stored", agent, ["logit-dense-linear"], sets="stored", regularization=2.0, delta=0.3)
        add("linear", agent, ["linear-dense-linear"], regularization=2.0, delta=0.3)
    for scale in (0.1, 0.5):
        add("online", "lr-orl", ["logit-dense-linear", "logit-masked-logistic"], bonus_scale=scale)
        add("stored", "lr-orl", ["logit-dense-linear", "logit-masked-logistic"], sets="stored", bonus_scale=scale)
        add("linear", "lr-orl", ["linear-dense-linear", "linear-masked-known"], bonus_scale=scale)
    for bonus in ("taylor", "sharp"):
        add("online", "lr-orl", ["logit-dense-linear", "logit-masked-known"], optimism="randomised", bonus=bonus)
    add("stored", "lr-orl", ["logit-dense-linear"], optimism="randomised", sets="stored")
    add("linear", "lr-orl", ["linear-masked-linear"], optimism="randomised")
    for kappa in (0.0, 0.05):
        add("online", "certified-psrl", ["logit-dense-linear", "logit-masked-linear"], kappa=kappa)
        add("stored", "certified-psrl", ["logit-dense-linear"], sets="stored", kappa=kappa)
        add("linear", "certified-psrl", ["linear-dense-linear"], kappa=kappa)
    for link in LINKS:
        family, places = ("online", LOGIT) if link == "logit" else ("linear", LINEAR)
        add(family, "psrl-glm", [*places, f"{link}-wide-linear"])
        add(family, "psrl-glm", places, form="kron")
        add(family, "psrl-glm", [f"{link}-dense-linear", f"{link}-masked-logistic"], draws=3, posterior_scale=0.5)

    # The others, along every axis at least once
    add("glm", "orlc-si", SOME)
    add("glm", "orlc-si", TWO, normalise=True, bonus_scale=0.05)
    add("glm", "abbasi-yadkori-neu", SOME)
    add("glm", "abbasi-yadkori-neu", TWO, repaired=True, bonus_scale=0.05)
    add("glm", "omg-cmdp", SOME)
    add("glm", "omg-cmdp", TWO, constants="paper", gamma=5.0)
    for agent in ("epsilon-greedy", "certainty-equivalence"):
        add("glm", agent, SOME)
        add("glm", agent, TWO, constants="paper")
    add("cells", "lsvi-ucb", SOME, bonus_scale=0.001)
    add("cells", "lsvi-ucb", TWO, memory=50)
    add("cells", "cover-rmax", SOME)
    add("cells", "cover-rmax", TWO, m=4, r0=0.5, max_balls=5)
    add("cells", "kwik-lr-rmax", SOME)
    add("cells", "kwik-lr-rmax", [*TWO, "linear-dense-linear"], alpha0=0.5, keep_learning=True)
    add("cells", "cece", SOME, recluster=20, memory=50)
    add("cells", "cece", TWO, clusters=3, explore=2, recluster=15, use_rewards=False)
    add("cells", "cece-x", SOME)
    add("cells", "cece-x", TWO, explore=2, smoothing=0.5, centres=CENTRES)
    for agent in ("ucrl2", "ucbvi-ch", "ucbvi-bf", "orlc", "psrl", "rlsvi"):
        add("tabular", agent, SOME)
        scaled = {} if agent == "psrl" else {"bonus_scale": 0.1}
        add("tabular", agent, TWO, centres=CENTRES, **scaled)
    for bonus in ("hoeffding", "bernstein", "monotone"):
        add("tabular", "ucbvi-bf", TWO, bonus=bonus, episodes=1000)
    add("tabular", "orlc", TWO, constants="paper", bonus_scale=0.1)
    add("tabular", "psrl", TWO, prior=0.5, replan="doubling")
    add("tabular", "ucbvi-bf", SOME, bonus="practised")
    add("tabular", "rlsvi", SOME, constants="practised")
    for agent in ("oful", "glm-ucb", "ol2m", "gloc", "ofuglb", "glb-omd"):
        add("bandit", agent, BANDITS)
        add("bandit", agent, BANDITS, bonus_scale=0.1)
        if agent != "oful":
            add("bandit", agent, BANDITS, constants="paper", bonus_scale=0.1)
    add("bandit", "linucb", BANDITS)
    add("bandit", "linucb", BANDITS, alpha=0.1, regularization=0.5)
    add("bandit", "linucb", ["bandit-designed"])
    add("bandit", "glm-ucb", ["bandit-logistic"], memory=50)
    for agent in ("glm-orl", "psrl-glm", "certified-psrl"):
        add("bandit", agent, ["bandit-logistic", "bandit-linear"])
    for agent in ("psrl-glm", "certified-psrl"):
        places = [*SOME, "logit-masked-logistic", "linear-masked-linear", "bandit-logistic"]
        add("adaptive", agent, dict.fromkeys(places), exploration="adaptive")
    add("adaptive", "certified-psrl", ["logit-dense-linear"], exploration="adaptive", sets="stored", kappa=4.0)
    for agent in ("psrl-glm", "certified-psrl"):
        places = ["logit-dense-linear", "logit-masked-logistic", "linear-masked-known"]
        add("lottery", agent, places, exploration="adaptive", plans=3, floor=0.2)
    add("lottery", "psrl-glm", ["logit-dense-linear"], exploration="posterior", plans=3)
    add("lottery", "certified-psrl", ["logit-dense-linear"], exploration="adaptive", certificates="close", floor=0.2)
    for agent in ("ucrl-mnl", "ucrl-mnl-ol", "rrl-mnl", "orrl-mnl"):
        add("mnl", agent, ["logit-dense-linear", "logit-masked-known"], bonus_scale=0.001)
    signed = ["logit-dense-signed", "logit-masked-signed"]
    for agent in ("glm-orl", "lr-orl", "certified-psrl", "psrl-glm"):
        add("signed", agent, signed)
    for kind in ("ridge", "bernstein"):
        add("signed", "lr-orl", signed, reward_sets=kind)
    for agent in ("psrl", "ucbvi-ch", "oracle", "fixed-policy", "orlc-si", "ucrl-mnl"):
        add("signed", agent, signed[:1])
    add("signed", "oful", ["bandit-signed"])
    add("signed", "referral[certified-psrl,rule]", signed[:1], threshold=5.0)
    add("tabular", "uniform-random", SOME)
    add("tabular", "oracle", SOME)
    add("tabular", "fixed-policy", SOME)

    # Agents made of agents
    for part in ("psrl-glm", "glm-orl", "epsilon-greedy", "psrl"):
        add("composed", f"certified[{part}]", SOME if part == "psrl-glm" else TWO)
    add("composed", "certified[psrl-glm]", ["logit-dense-linear"], sets="stored")
    add("composed", "certified[psrl-glm]", ["logit-masked-linear"], bonus="sharp", form="kron", reward_sets="ridge")
    add("composed", "referral[certified-psrl,rule]", SOME, threshold=2.5)
    add("composed", "referral[certified-psrl,asked]", TWO, threshold=2.5)
    add("composed", "referral[lr-orl,uniform-random]", TWO, threshold=3.0)
    add("composed", "referral[psrl-glm,rule]", TWO, threshold=0.3, criterion="doubt")
    add("composed", "referral[psrl-glm,rule]", TWO[:1], threshold=0.3, criterion="belief")
    add("composed", "referral[certified,rule]", ["logit-dense-linear"], threshold=2.5)
    add("composed", "conservative[certified-psrl,rule]", SOME, alpha=0.3)
    add("composed", "conservative[lr-orl,asked]", TWO, alpha=0.5)
    add("composed", "conservative[certified,uniform-random]", ["logit-dense-linear"], alpha=0.5)
    names = [case.name for case in made]
    twice = [name for name, count in Counter(names).items() if count > 1]
    left_out = set(nr.agents.names()) - {case.agent for case in made}
    if twice or left_out:
        raise SystemExit(f"named twice: {twice}; agents without a case: {sorted(left_out)}")
    return made


def affordable(case: Case, plain: bool) -> bool:
    """Sets over stored data of many outcomes take minutes without a compiler."""
    return not (plain and case.family == "stored" and "-wide-" in case.world)


def rule_for(problem: nr.Problem) -> np.ndarray:
    """The first available action of every state, at every step."""
    free = np.ones((problem.n_states, problem.n_actions), bool) if problem.available is None else problem.available
    return np.tile(np.asarray(free).argmax(1), (problem.horizon, 1))


def made(name: str, problem: nr.Problem, **options: Any) -> nr.Agent:
    return nr.make_agent(name, problem, **(DRAWN.get(name, {}) | options))


def built(name: str, world: nr.World, options: dict[str, Any]) -> nr.Agent:
    problem = world.problem
    if options.get("centres") == CENTRES:
        options["centres"] = np.stack([world.context(seed=9, episode=k) for k in range(3)])
    if name == "oracle":
        return nr.make_agent(name, problem, weights=world.weights, reward_weights=world.reward_weights, **options)
    if name == "fixed-policy":
        return nr.agents.FixedPolicy(problem, rule_for(problem), **options)
    kind, _, inner = name.rstrip("]").partition("[")
    if kind == "certified":
        return nr.Certified(made(inner, problem), **options)
    if kind in ("referral", "conservative"):
        first, second = inner.split(",")
        agent = nr.Certified(made("psrl-glm", problem)) if first == "certified" else made(first, problem)
        rule = rule_for(problem)
        experts = {"rule": lambda: rule, "asked": lambda: lambda x: rule}
        expert = experts.get(second, lambda: made(second, problem))()
        return (nr.Referral if kind == "referral" else nr.Conservative)(agent, expert, **options)
    return made(name, problem, **options)


# What came out --------------------------------------------------------------------------------------------------------
def digest(*arrays: Any) -> str:
    made = hashlib.sha256()
    for array in arrays:
        a = np.ascontiguousarray(array)
        made.update(f"{a.dtype.str} {a.shape}\n".encode())
        made.update(a.tobytes())
    return made.hexdigest()


def total(array: Any) -> float:
    """The same sum whatever NumPy does: rounded once."""
    values = [float(v) for v in np.asarray(array, np.float64).ravel()]
    return math.fsum(values) if all(map(math.isfinite, values)) else float(np.sum(values))


def arrays_in(table: dict[str, Any]) -> dict[str, Any]:
    names = sorted(table)
    return {"sha256": digest(*(table[n] for n in names)), "sums": {n: total(table[n]) for n in names}}


def bounds_of(plan: nr.Plan) -> dict[str, Any]:
    named = {n: getattr(plan, n) for n in ("values", "upper", "lower", "certificate")}
    return arrays_in({n: np.asarray(v, np.float64) for n, v in named.items() if v is not None})


def saved(agent: nr.Agent) -> dict[str, Any]:
    """Digests of what the agent carries from episode to episode, as its file has it: with all names (`fingerprint`),
    and of every array alone (`state`)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.npz"
        try:
            agent.save(path)
        except ValueError as error:
            return {"fingerprint": f"not saved: {error}"[:60], "state": {}}
        with np.load(path) as file:
            parts = {name: file[name] for name in file.files}
    header = json.loads(parts.pop("header").tobytes())
    header = {k: v for k, v in header.items() if k not in ("sha256", "version", "noregret")}
    kept = {n: a for n, a in parts.items() if n != "context" and not n.startswith(("plan.", "path."))}
    each = {n: digest(kept[n])[:16] for n in sorted(kept)}
    whole = json.dumps(header, sort_keys=True) + "".join(f"{n} {digest(kept[n])}\n" for n in sorted(kept))
    return {"fingerprint": hashlib.sha256(whole.encode()).hexdigest(), "state": each}


def outcome(case: Case, size: Size) -> dict[str, Any]:
    """What a case comes to; a refusal to make the agent is an outcome, too."""
    world = world_of(case.world)
    try:
        agent = built(case.agent, world, dict(case.options))
    except ValueError as error:
        return {"refused": " ".join(str(error).split())[:200]}
    made: dict[str, Any] = {}
    run = nr.simulate(agent, world, size.episodes, seeds=size.seeds, workers=1)
    made["regret"] = {"sha256": digest(run.regret), "final": run.final.tolist()}
    if "asked" not in case.agent:  # an expert who is a function is not compiled, and has no diagnostics
        told = nr.simulate(agent, world, size.episodes, seeds=size.seeds, workers=1, diagnostics=True, epsilon=0.5)
        bounds = {f"bound:{name}": curve for name, curve in told.bounds.items()}
        made["diagnostics"] = arrays_in({"regret": told.regret} | told.diagnostics | bounds)
    live, policies = agent.fresh(3), []
    for k in range(size.live):
        someone = world.individual(k, seed=1)
        plan = live.begin_episode(someone.context)
        policies.append(plan.policy)
        while someone.steps < world.problem.horizon:
            live.observe(*someone.step(live.act(someone.state)))
        policies.append(live.policy)
        live.end_episode()
    made["plan"] = bounds_of(plan)
    made |= saved(live)
    for k in range(size.probes):
        plan = live.begin_episode(world.context(seed=2, episode=k))
        policies.append(plan.policy)
        live.end_episode()
    made["policies"] = digest(*(np.asarray(p, np.int64) for p in policies))
    made["probe"] = bounds_of(plan)
    if hasattr(live, "certify") and getattr(live, "certifies", True):
        made["certified"] = bounds_of(live.certify(world.context(seed=2, episode=9), rule_for(world.problem)))
    return made


def attempt(case: Case, size: Size) -> dict[str, Any]:
    try:
        return outcome(case, size)
    except Exception as error:  # the others are still to be run
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}


# Running --------------------------------------------------------------------------------------------------------------
def work(todo: Any, done: Any, size: Size) -> None:
    """Take groups of cases until there are none."""
    warnings.simplefilter("ignore")
    while (group := todo.get()) is not None:
        for case in group:
            start = time.process_time()
            made = attempt(case, size)
            done.put((case.name, made, time.process_time() - start))
    done.put(None)


def grouped(chosen: list[Case], plain: bool) -> list[list[Case]]:
    """Largest families first; without a compiler every case is a group."""
    if plain:
        return [[case] for case in chosen]
    families: dict[str, list[Case]] = {}
    for case in chosen:
        families.setdefault(case.family, []).append(case)
    return sorted(families.values(), key=len, reverse=True)


def run_all(chosen: list[Case], plain: bool, jobs: int, each: Any) -> None:
    """Run the cases; each(name, outcome, seconds) as they end."""
    context = multiprocessing.get_context("spawn")
    todo, done = context.Queue(), context.Queue()
    for group in grouped(chosen, plain):
        todo.put(group)
    workers = [
        context.Process(target=work, args=(todo, done, PLAIN if plain else JIT), daemon=True) for _ in range(jobs)
    ]
    for process in workers:
        todo.put(None)
        process.start()
    left = jobs
    while left:
        try:
            result = done.get(timeout=5.0)
        except Exception:  # nothing came: is anybody still there?
            if any(process.exitcode not in (None, 0) for process in workers):
                raise SystemExit("a process has died") from None
            continue
        if result is None:
            left -= 1
        else:
            each(*result)
    for process in workers:
        process.join()


def machine(plain: bool) -> dict[str, Any]:
    import llvmlite.binding as llvm
    import numba

    versions = {m.__name__: m.__version__ for m in (np, numba)} | {"python": platform.python_version()}
    size = (PLAIN if plain else JIT)._asdict()
    return {"format": FORMAT, "plain": plain, "size": size, "versions": versions, "processor": llvm.get_host_cpu_name()}


def put(path: Path, record: dict[str, Any]) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(record, indent=1) + "\n")
    os.replace(part, path)


def record(path: Path, chosen: list[Case], plain: bool, jobs: int) -> int:
    order = {case.name: i for i, case in enumerate(cases())}
    found: dict[str, Any] = {}
    start, spent, count, last = time.time(), 0.0, 0, time.time()
    path.parent.mkdir(parents=True, exist_ok=True)
    if len(chosen) < sum(affordable(case, plain) for case in cases()) and path.exists():
        kept = json.loads(path.read_text())
        if kept["machine"] != machine(plain):
            raise SystemExit(f"{path} is of {kept['machine']}, this is {machine(plain)}")
        found = {n: made for n, made in kept["cases"].items() if n in order}

    def write() -> None:
        put(path, {"machine": machine(plain), "cases": {n: found[n] for n in sorted(found, key=order.__getitem__)}})

    def each(name: str, made: dict[str, Any], seconds: float) -> None:
        nonlocal spent, count, last
        found[name], spent, count = made, spent + seconds, count + 1
        said = next((f"{key}: {made[key]}" for key in MISSED if key in made), "")
        print(f"{count}/{len(chosen)} {seconds:6.1f} s  {name}  {said}", flush=True)
        if time.time() - last > 10.0:
            write()
            last = time.time()

    run_all(chosen, plain, jobs, each)
    write()
    missed = {key: sum(key in made for made in found.values()) for key in MISSED}
    print(
        f"{len(found)} cases in {path}, {missed['refused']} refused, {missed['error']} errors; "
        f"{time.time() - start:.0f} s, {spent:.0f} s of processor time"
    )
    return int(missed["error"] > 0)


# Comparing ------------------------------------------------------------------------------------------------------------
def near(a: Any, b: Any, tolerance: float) -> bool:
    if a == b or (a != a and b != b):
        return True
    return math.isfinite(a) and math.isfinite(b) and abs(a - b) <= tolerance * max(1.0, abs(a))


def numbers(a: Any, b: Any, tolerance: float, where: str) -> list[str]:
    """Differences between two lists, or tables, of numbers."""
    pairs = dict(enumerate(a)) if isinstance(a, list) else a, dict(enumerate(b)) if isinstance(b, list) else b
    said = []
    for key in [*pairs[0], *(k for k in pairs[1] if k not in pairs[0])]:
        x, y = pairs[0].get(key), pairs[1].get(key)
        if x is None or y is None:
            said.append(f"{where}[{key}] was {x}, is {y}")
        elif not near(x, y, tolerance):
            said.append(f"{where}[{key}] was {x!r}, is {y!r}, off by {abs(x - y):.3g}")
    return said


def states(a: dict[str, str], b: dict[str, str]) -> list[str]:
    """Arrays that are in one file and under no name in the other."""
    gone, come = Counter(a.values()) - Counter(b.values()), Counter(b.values()) - Counter(a.values())
    lost, new = [n for n in a if a[n] in gone], [n for n in b if b[n] in come]
    return [f"state: was {', '.join(lost) or 'nothing'}, is {', '.join(new) or 'nothing'}"] if lost or new else []


def differences(old: dict[str, Any], new: dict[str, Any], tolerance: float, ignore: set[str]) -> list[str]:
    for key in MISSED:
        if key in old or key in new:
            same = key in old and key in new and key == "refused"
            return [] if same else [f"{key}: was {old.get(key, 'none')}, is {new.get(key, 'none')}"]
    said: list[str] = []
    for field in sorted((old.keys() | new.keys()) - ignore):
        a, b = old.get(field), new.get(field)
        if a == b:
            continue
        if a is None or b is None:
            said.append(f"{field}: was {'there' if b is None else 'not there'}, is not so now")
        elif field == "policies" or (field == "fingerprint" and tolerance == 0.0):
            said.append(f"{field}: not the same")
        elif field == "state" and tolerance == 0.0:
            said += states(a, b)
        elif isinstance(a, dict) and "sha256" in a:
            part = "final" if field == "regret" else "sums"
            off = numbers(a[part], b[part], tolerance, f"{field}.{part}")
            if not off and tolerance == 0.0 and a["sha256"] != b["sha256"]:
                off = [f"{field}: the sums are the same, the numbers are not"]
            said += off
    return said


def compare(path: Path, chosen: list[Case], jobs: int, tolerance: float, ignore: set[str], match: list[str]) -> int:
    kept = json.loads(path.read_text())
    plain, here = kept["machine"]["plain"], machine(kept["machine"]["plain"])
    check_compiler(plain)
    if kept["machine"] != here:
        print(f"note: the record is of {kept['machine']}, this is {here}")
    wanted = {n: made for n, made in kept["cases"].items() if not match or any(text in n for text in match)}
    chosen = [case for case in chosen if affordable(case, plain)]
    known = {case.name for case in chosen}
    lines, start, count = 0, time.time(), 0

    def say(name: str, said: list[str]) -> None:
        nonlocal lines
        for line in said:
            print(f"{name}: {line}", flush=True)
        lines += len(said)

    def each(name: str, made: dict[str, Any], seconds: float) -> None:
        nonlocal count
        count += 1
        say(name, differences(wanted[name], made, tolerance, ignore))

    for name in wanted.keys() - known:
        say(name, ["in the record, and not a case any more"])
    for name in sorted(known - wanted.keys()):
        print(f"note: {name} is not in the record")
    run_all([case for case in chosen if case.name in wanted], plain, jobs, each)
    print(f"{count} cases compared in {time.time() - start:.0f} s, {lines} differences")
    return int(lines > 0 or count == 0)


def check_compiler(plain: bool) -> None:
    disabled = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
    if plain != disabled:
        raise SystemExit(f"the compiler must be {'disabled (NUMBA_DISABLE_JIT=1)' if plain else 'enabled'} for this")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "compare"), nargs="?", default="record")
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--match", action="append", default=[])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--tolerance", type=float, default=0.0)
    parser.add_argument("--ignore", action="append", default=[])
    told = parser.parse_args()
    chosen = [case for case in cases() if not told.match or any(text in case.name for text in told.match)]
    if told.plain:
        chosen = [case for case in chosen if affordable(case, True)]
    if told.list:
        print("\n".join(case.name for case in chosen))
        return 0
    if told.file is None:
        parser.error("a file must be given")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # takes the other processes along
    print(f"noregret from {Path(nr.__file__).parent}, {len(chosen)} cases", flush=True)
    if told.what == "compare":
        return compare(told.file, chosen, told.jobs, told.tolerance, set(told.ignore), told.match)
    check_compiler(told.plain)
    return record(told.file, chosen, told.plain, told.jobs)


if __name__ == "__main__":
    sys.exit(main())
