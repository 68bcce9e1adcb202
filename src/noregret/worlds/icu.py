"""ICU-Sepsis as a population: the treatment of sepsis in intensive care, from real records, for patients who differ.

The package `icu-sepsis` (Choudhary, Gupta and Thomas 2024; `pip install 'noregret[icu]'`) has a tabular MDP that was
estimated from the MIMIC-III records: 713 states of a patient, found by clustering, and death, survival and the end; 25
doses (5 levels of fluids times 5 of vasopressors), of which only those that were given at least 20 times in a state are
admissible there. Its files are read as they are; the package itself, which wants an old `gym`, is not imported.
"""

import importlib.util
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import checks as check
from ..checks import Floats
from .tilt import tilt
from .world import World

DIED, SURVIVED, ENDED = 713, 714, 715
SEVEREST = 24.0  # of the SOFA score


class SepsisTables(NamedTuple):
    """What the package icu-sepsis knows: S = 716 states, A = 25 actions.

    >>> import noregret as nr
    >>> tables = nr.worlds.sepsis_tables()
    >>> died, survived = tables.P[:713, :, 713].max(), tables.P[:713, :, 714].max()
    >>> print(f"at most {died:.2f} and {survived:.2f} in a step")
    at most 0.40 and 0.71 in a step
    >>> int(tables.admissible[0].sum())  # doses that were given often enough in state 0
    4
    """

    P: Floats  # [S, A, S']; of an inadmissible action, the mean over the admissible ones
    admissible: NDArray[np.bool_]  # [S, A]; every action where there is nothing to decide any more
    start: Floats  # [S]
    expert: Floats  # [S, A], how often clinicians chose each action, on admissible actions (see `sepsis_tables`)
    sofa: Floats  # [S], mean SOFA score of each state; 0 for the last three
    centres: Floats  # [S, 47], mean measurements of each state, standardised


def _folder() -> Path:
    """Where the package keeps its files."""
    found = importlib.util.find_spec("icu_sepsis")
    if found is None or not found.submodule_search_locations:
        raise ValueError("world icu-sepsis needs the extra: pip install 'noregret[icu]'")
    return Path(found.submodule_search_locations[0]) / "envs" / "assets"


def sepsis_tables() -> SepsisTables:
    """The arrays of the installed package.

    In its expert policy 16% of the choices, on average over states, are inadmissible actions. To the package these have
    the mean effect of the admissible ones, so that share is spread evenly over these: the same values exactly. In the
    last three states, where it says nothing, the expert is uniform.

    >>> import noregret as nr
    >>> tables = nr.worlds.sepsis_tables()
    >>> tables.P.shape, int(tables.admissible[:713].sum())
    ((716, 25, 716), 2238)
    """
    folder = _folder()
    with np.load(folder / "dynamics.npz", allow_pickle=False) as file:
        P, start, given = (np.array(file[n], np.float64) for n in ("tx_mat", "d_0", "expert_policy"))
        sofa, centres = (np.array(file[n], np.float64) for n in ("sofa_scores", "state_cluster_centers"))
    if P.shape != (716, 25, 716):
        raise ValueError(f"icu_sepsis knows version 2.0.1 of icu-sepsis, the one installed has P of shape {P.shape}")
    admissible = np.zeros(P.shape[:2], bool)
    for s, line in enumerate((folder / "admissible_actions.txt").read_text().splitlines()[1:]):
        admissible[s, [int(a) for a in line.split()]] = True
    share = 1.0 - np.where(admissible, given, 0.0).sum(1, keepdims=True)
    expert = np.where(admissible, given + share / admissible.sum(1, keepdims=True), 0.0)
    return SepsisTables(P, admissible, start, expert, sofa, centres)


def icu_sepsis(
    horizon: int = 20,
    severity: float = 1.0,
    patients: ArrayLike = (-1.0, -0.5, 0.0, 0.5, 1.0),
    known_rewards: bool = True,
) -> World:
    """Patients with sepsis in intensive care, estimated from real records, who differ in severity u.

    716 states, 25 actions of which 1 to 13 are admissible in a state, contexts (intercept, u): 2,241 pairs with 94,973
    possible next states in all, at most 189 of one pair. Needs the extra `icu`.

    patients        u, drawn evenly; u = 0 is the package's MDP itself, u > 0 are the severely ill
    severity        ln of the factor by which u = 1 multiplies the odds of dying rather than surviving, in every step.
                    In between the tilt is by the mean SOFA score of the next state over 24 (`worlds.tilt`)
    known_rewards   whether the learner is told that survival, and nothing else, is worth 1

    The reward is 1 in the step after the patient has survived: a mean reward that is a function of the pair alone, and
    so linear in the context, while the probability of surviving is not. The value is the probability of having survived
    within horizon - 1 steps. Where the episode is decided there is one action. Not a model to treat anybody by.

    >>> import noregret as nr
    >>> world = nr.worlds.icu_sepsis(horizon=10)
    >>> for x in world.contexts.support[[0, 2, 4]]:  # u = -1, 0 and 1: treated optimally, who survives
    ...     print(f"{world.initial_state @ world.optimal(x).values[0]:.2f}")
    0.72
    0.61
    0.47
    """
    scale = check.positive("severity", severity)
    t = sepsis_tables()
    features = t.sofa / SEVEREST
    features[[DIED, SURVIVED, ENDED]] = 1.0, 0.0, 0.0
    available, rewards = t.admissible.copy(), np.zeros(t.admissible.shape)
    available[DIED:, 1:] = False
    rewards[SURVIVED, 0] = 1.0
    states = (*(f"state {s}" for s in range(DIED)), "died", "survived", "ended")
    doses = tuple(f"fluids {a // 5}, vasopressors {a % 5}" for a in range(25))
    return tilt(
        t.P, features[:, None], rewards=rewards, horizon=horizon, scale=scale, individuals=patients,
        available=available, known_rewards=known_rewards, initial_state=t.start, name="icu-sepsis",
        initial_states=tuple(int(s) for s in np.flatnonzero(t.start)), state_names=states, action_names=doses,
        feature_names=("intercept", "severity"),
    )  # fmt: skip


def mixed_value(world: World, probabilities: ArrayLike, x: ArrayLike) -> float:
    """Exact value of a stochastic policy [S, A], the same at every step, for context x.

    In any world with a fixed initial state or distribution, at which the value is taken. Cost O(H S A M).

    >>> import numpy as np
    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> may = world.problem.layout.available
    >>> uniform = may / may.sum(1, keepdims=True)  # each available action equally often
    >>> values = [nr.worlds.mixed_value(world, uniform, x) for x in world.contexts.support]
    >>> print(f"{np.mean(values):.3f}")
    2.555
    """
    p, layout = world.problem, world.problem.layout
    pi = check.array("probabilities", probabilities, (p.n_states, p.n_actions))
    if pi.min() < 0.0 or np.abs(pi.sum(1) - 1.0).max() > 1e-9 or pi[~layout.available].any():
        raise ValueError("probabilities must be a distribution over the available actions of every state")
    if callable(world.initial_state):
        raise ValueError("world must have a fixed initial state or distribution")
    P, r, V = world._transitions(x), (pi * world.rewards(x)).sum(1), np.zeros(p.n_states)
    s, a = np.nonzero(pi)
    P, outcomes = P[s, a] * pi[s, a, None], layout.outcomes[s, a]
    for _ in range(p.horizon):
        V = r + np.bincount(s, (P * V[outcomes]).sum(1), p.n_states)
    start = world.initial_state
    return float(V @ np.asarray(start, float)) if np.ndim(start) == 1 else float(V[world.start(0, 0)])
