"""A small adaptive-treatment clinic: patients who need different drugs, and what it costs to treat them all alike."""

import math

import numpy as np

from ..problem.links import MultinomialLogit
from ..problem.problem import Problem
from .contexts import Table
from .world import World

STATES = ("remission", "mild", "moderate", "severe")
TREATMENTS = ("wait", "drug A", "drug B")
FEATURES = ("intercept", "age", "marker")

# Log-odds that the patient gets better rather than worse in the next step: intercept, age (-1 young .. 1 old) and
# marker (-1 or 1). Drug A works for marker 1 and harms marker -1, drug B the other way round, and the old bear drugs
# badly.
_BETTER = {"wait": (-0.4, 0.0, 0.0), "drug A": (0.3, -0.5, 2.4), "drug B": (0.3, -0.5, -2.4)}
_STAY_WELL = (1.6, -0.6, 0.0)  # in remission, where there is nothing to treat

# Mean reward: how the patient feels, and what treatment costs; the old feel drugs more.
_COMFORT = {"remission": 1.0, "mild": 0.7, "moderate": 0.4, "severe": 0.1}
_BURDEN = (0.07, 0.03, 0.0)  # of a drug: intercept, age, marker


def clinic(horizon: int = 6) -> World:
    """Four states, three treatments, three patient features; every step a patient gets one level better or worse.

    Patients are the six combinations of age -1, 0, 1 and marker -1, 1, drawn evenly; the context is
    (1, age, marker)/sqrt 3. All start in the moderate state. In remission the only choice is to wait; severe patients
    must be treated. The next state has two possible values, so the supports are small and the logit is binary.

    Ignoring the context: the best policy that treats every patient alike loses a fifth of the attainable value (see
    `noregret.worlds.blind_optimum`, which computes it exactly, and docs/results.md for the number).

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> world.problem.action_names
    ('wait', 'drug A', 'drug B')
    >>> for marker in (-1, 1):  # the same age, the other marker: the other drug
    ...     patient = [3**-0.5, 0, marker * 3**-0.5]
    ...     best = world.optimal(patient)
    ...     print(world.problem.action_names[best.policy[0, 2]], round(float(best.values[0, 2]), 2))
    drug B 4.61
    drug A 4.61
    """
    S, A, d, unit = len(STATES), len(TREATMENTS), len(FEATURES), math.sqrt(3.0)
    support, weights = np.zeros((S, A, S), bool), np.zeros((S, A, S, d))
    available, theta = np.ones((S, A), bool), np.zeros((S, A, d))
    available[0, 1:] = False
    available[3, 0] = False
    for s, state in enumerate(STATES):
        better, worse = max(s - 1, 0), min(s + 1, S - 1)
        for a, treatment in enumerate(TREATMENTS):
            support[s, a, [better, worse]] = True
            weights[s, a, better] = np.array(_STAY_WELL if s == 0 else _BETTER[treatment]) * unit
            theta[s, a, 0] = _COMFORT[state] * unit
            if a > 0:
                theta[s, a] -= np.array(_BURDEN) * unit
    ages, markers = np.meshgrid([-1.0, 0.0, 1.0], [-1.0, 1.0], indexing="ij")
    patients = np.stack([np.ones(6), ages.ravel(), markers.ravel()], axis=1) / unit
    problem = Problem(
        S, A, horizon, d, MultinomialLogit(), weight_bound=4.4, reward_bound=unit, support=support, available=available,
        initial_states=("moderate",),
        state_names=STATES, action_names=TREATMENTS, feature_names=FEATURES,
    )  # fmt: skip
    return World(problem, weights, theta, Table(patients), initial_state="moderate", name="clinic")
