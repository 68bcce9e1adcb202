"""All experiments as rows of one table.

A row is one experiment: what was claimed, what was measured, whether it holds up. Sections:

    sets        `coverage`, every kind of set under every kind of contexts
    agents      `promises`, every confidence set in every world
    radii       the printed and the corrected set on the same data
    errata      `errata.CHECKS`
    scaling     `scaling`, the exponents of the regret on the worlds of the lower bound
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from . import promises, rewards, scaling
from .coverage import CONTEXTS, KINDS, Coverage, coverage
from .errata import CHECKS
from .radii import radius_rows, sparsity_rows
from .table import Row

REWARD_KINDS = {
    "reward range, hoeffding": ("hoeffding", "bernoulli"),
    "reward range, bernstein": ("bernstein", "bernoulli"),
    "reward range, bernstein, beta": ("bernstein", "beta"),
    "reward range, logistic": ("logistic", "bernoulli"),
}
SECTIONS = ("sets", "agents", "radii", "errata", "scaling")


class Effort(NamedTuple):
    """How much to run. sizes: (outcomes, dimension, bound B_p R); regularizations: lambda, None for the default."""

    runs: int
    steps: int
    sizes: tuple[tuple[int, int, float], ...]
    regularizations: tuple[float | None, ...]
    seeds: int
    episodes: int
    worlds: int
    sparse: tuple[int, ...]  # observations


QUICK = Effort(200, 100, ((3, 2, 1.0),), (None,), 40, 1500, 4, (10_000,))
FULL = Effort(
    500, 400, ((2, 1, 1.0), (3, 2, 1.0), (5, 4, 1.0), (3, 2, 3.0)), (None, 0.05), 200, 5000, 24,
    (1000, 10_000, 100_000),
)  # fmt: skip

Job = Callable[[], list[Row]]


def jobs(section: str, effort: Effort) -> Iterator[tuple[str, Job]]:
    """(what it is, how to do it) for everything in a section, but for `sets` and `scaling`, which use all cores."""
    if section == "agents":
        for confidence, world in promises.PLAYS:
            play = partial(_promise_row, promises.optimism, confidence, world, effort.seeds, effort.episodes)
            yield f"GLM-ORL {confidence}, {world}", play
        for kind, world in promises.CERTIFIED_PLAYS:
            play = partial(_promise_row, promises.certified, kind, world, effort.seeds, effort.episodes)
            yield f"{kind}, {world}", play
        for world in ("logit", "linear", "clinic", "design"):
            yield f"GLM-RLSVI, {world}", partial(_promise_row, promises.perturbed, world, effort.episodes)
    elif section == "radii":
        for model, wanted, steps in (("logit", 100.0, 2000), ("linear", 20.0, 1000)):
            yield f"printed and corrected, {model}", partial(radius_rows, model, wanted, steps)
        for steps in effort.sparse:
            yield f"sparse weights, {steps:,} samples", partial(sparsity_rows, steps)
    elif section == "errata":
        for name in CHECKS:
            yield name, partial(_erratum_row, name)


# Sets ----------------------------------------------------------------------------------------------------------------
def set_names() -> list[str]:
    """Every kind of set, transitions and rewards."""
    return [kind.name for kind in KINDS] + list(REWARD_KINDS)


def set_jobs(effort: Effort, match: str = "") -> list[Job]:
    """Every experiment of the section `sets`, of the kinds whose name has `match` in it."""
    runs, steps = effort.runs, effort.steps
    sets: list[Job] = [
        partial(_set_row, kind.name, contexts, runs, steps, *size, lam)
        for kind in KINDS if match in kind.name
        for contexts in CONTEXTS
        for size in effort.sizes
        for lam in effort.regularizations
    ]  # fmt: skip
    names = [name for name in REWARD_KINDS if match in name]
    return sets + [
        partial(_reward_row, name, contexts, runs, steps, 2) for name in names for contexts in rewards.CONTEXTS
    ]


def _reward_row(name: str, contexts: str, runs: int, steps: int, d: int) -> list[Row]:
    form, law = REWARD_KINDS[name]
    made = rewards.reward_coverage(form, contexts, law, runs, steps, d)
    worst = float(made.ratios.max() ** 2)
    loose = float(np.median(1.0 / np.maximum(made.ratios, 1e-9)) ** 2)
    about = True, made.holds, f"{runs} runs of {steps}"
    return [Row("sets", name, f"{contexts}, d={d}", made.delta, made.failures / runs, worst, loose, *about)]


def _set_row(
    name: str, contexts: str, runs: int, steps: int, m: int, d: int, bound: float, lam: float | None
) -> list[Row]:
    kind = next(kind for kind in KINDS if kind.name == name)
    made: Coverage = coverage(kind, contexts, runs, steps, m, d, bound, lam)
    size = f"d={d}" if "reward" in kind.model else f"S={m} d={d}"
    setting = f"{contexts}, {size}" + ("" if kind.model == "linear" else f" BR={bound:g}")
    setting += "" if lam is None else f", lambda={lam:g}"
    rate, worst = made.failures / runs, float(made.ratios.max())
    about = made.advertised, made.holds, f"{runs} runs of {steps}"
    return [Row("sets", name, setting, made.delta, rate, worst, made.looseness, *about)]


def set_rows(effort: Effort, done: Callable[[], None], match: str = "", workers: int | None = None) -> list[Row]:
    """What `set_jobs` find, on all cores; done() after each. Processes, because the loop is Python's."""
    for kind in KINDS:  # compile here, once
        if match in kind.name:
            coverage(kind, "random", 1, 1)
    for name, (form, law) in REWARD_KINDS.items():
        if match in name:
            rewards.reward_coverage(form, "random", law, 1, 20)
    rows: list[Row] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers or os.cpu_count() or 1, context) as pool:
        for future in [pool.submit(job) for job in set_jobs(effort, match)]:
            rows += future.result()
            done()
    return rows


# Agents --------------------------------------------------------------------------------------------------------------
def _promise_row(play: Callable[..., promises.Promise], *where: Any) -> list[Row]:
    made = play(*where)
    note = f"optimism or a certificate failed {made.refuted} times though the sets held" if made.refuted else ""
    rate = made.failures / made.trials
    return [Row("agents", made.name, made.world, made.claimed, rate, made.worst, made.slack, True, made.holds, note)]


# Errata --------------------------------------------------------------------------------------------------------------
def _erratum_row(name: str) -> list[Row]:
    found = CHECKS[name]()
    fair = found.printed_holds == (found.kind == "looseness")
    nan = float("nan")
    setting = f"E{found.row}, {found.kind}"
    holds = found.corrected_holds and fair
    return [Row("errata", name, setting, nan, nan, nan, nan, True, holds, found.evidence)]


# Scaling -------------------------------------------------------------------------------------------------------------
def scaling_rows(made: list[scaling.Point]) -> list[Row]:
    """Exponents of one link's points in each variable; a lower bound is an order, so nothing here can fail."""
    rows = []
    for agent in scaling.AGENTS:
        for variable, symbol in scaling.SYMBOLS.items():
            some = [p for p in made if p.agent == agent and p.variable == variable]
            slope, error = scaling.exponent(some)
            ratios = ", ".join(f"{p.ratio.mean():.3f}" for p in some)
            rows.append(
                Row("scaling", agent, f"{symbol}, {some[0].link}", 1.0 if symbol == "H" else 0.5, slope, np.nan, np.nan,
                    False, True, f"+- {error:.2f}; regret / (H sqrt(dSAK)): {ratios}")
            )  # fmt: skip
    return rows
