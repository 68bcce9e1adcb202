"""A log as arrays, and what its steps weigh where whoever decided was learning.

Given the past and the action, the score of a step has mean 0 in a right model, whatever chose the action. But how much
is learned about what then depends on the luck of earlier people, and a sum of scores over its standard error need not
be normal. Zhang, Janson and Murphy (2021) multiply the score of a step by the root of a stabilised propensity,

    W = sqrt(e(a | h, s) / P(a | past)),        E[W^2 score score' | past] = sum_a e(a | h, s) information(s, a, x)

with e fixed beforehand: the variance no longer depends on what was learned. P is in the log. Here a "step" weight is
that of the action alone, given where the person is; a "path" weight is the product over the steps of the person so far,
for which the variance of a person's scores, given earlier people, is that under e. docs/evidence-asymptotic.md.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats
from ..problem.layout import slot_table
from ..problem.log import Log
from ..problem.problem import Problem

_SLACK = 1e-9


class Steps(NamedTuple):
    """T steps of n people, person by person."""

    X: Floats  # [n, d]
    begin: NDArray[np.int64]  # [n], states people began in
    person: NDArray[np.int64]  # [T]
    h: NDArray[np.int64]  # [T]
    s: NDArray[np.int64]  # [T]
    a: NDArray[np.int64]  # [T]
    slot: NDArray[np.int64]  # [T], of the next state
    reward: Floats  # [T], nan where not seen
    chance: Floats  # [T], of the action, nan where not written down


def steps_of(log: Log) -> Steps:
    """The steps of a log, in its order."""
    people = log.episodes
    if not people:
        raise ValueError("log must have at least one episode")
    length = np.array([len(e.actions) for e in people])
    states = [e.states for e in people]
    before, after = np.concatenate([s[:-1] for s in states]), np.concatenate([s[1:] for s in states])
    a = np.concatenate([e.actions for e in people])
    return Steps(
        np.stack([e.context for e in people]),
        np.array([s[0] for s in states]),
        np.repeat(np.arange(len(people)), length),
        np.concatenate([np.arange(n) for n in length]),
        before,
        a,
        slot_table(log.problem.layout)[before, a, after],
        np.concatenate([e.rewards for e in people]),
        np.concatenate([e.probabilities for e in people]),
    )


def same_for_all(steps: Steps, problem: Problem) -> bool:
    """Whether the probabilities are those of one rule that looked at step and state alone, so that nobody learned: each
    action has one and the same, and those of a state add up to at most 1."""
    if np.isnan(steps.chance).any():
        return False
    shape = problem.horizon, problem.n_states, problem.n_actions
    least, most = np.full(shape, np.inf), np.zeros(shape)
    at = steps.h, steps.s, steps.a
    np.minimum.at(least, at, steps.chance)
    np.maximum.at(most, at, steps.chance)
    seen = most > 0.0
    same = bool((most - least <= _SLACK)[seen].all())
    return same and bool((np.where(seen, most, 0.0).sum(2) <= 1.0 + _SLACK).all())


def stabilising(problem: Problem, given: Any) -> Floats:
    """Probabilities [H, S, A] of the stabilising policy; None: every available action alike."""
    may = problem.layout.available
    if given is None:
        even: Floats = np.broadcast_to(may / may.sum(1, keepdims=True), (problem.horizon, *may.shape))
        return even
    made = check.finite("stabiliser", check.array("stabiliser", given, (problem.horizon, *may.shape)))
    if made.min() < 0.0 or np.abs(made.sum(2) - 1.0).max() > 1e-6 or (made[:, ~may] > 0.0).any():
        raise ValueError("stabiliser must be probabilities (H, S, A) of available actions that sum to 1")
    return made


def step_weights(steps: Steps, policy: Floats, kind: str) -> Floats:
    """W [T]: "no", "step" or "path", see the module."""
    if kind == "no":
        return np.ones(steps.a.size)
    if np.isnan(steps.chance).any():
        raise ValueError(
            "log must have the probability of every action where it is weighted for a logger that learned "
            '(adaptive="no" takes it as the log of a fixed rule)'
        )
    ratio: Floats = policy[steps.h, steps.s, steps.a] / steps.chance
    if kind == "path":
        first = np.flatnonzero(np.diff(steps.person, prepend=-1))
        logs = np.cumsum(np.log(np.maximum(ratio, 1e-300)))
        before = np.repeat(np.concatenate([[0.0], logs[first[1:] - 1]]), np.diff([*first, logs.size]))
        ratio = np.exp(logs - before)
    return np.sqrt(ratio)
