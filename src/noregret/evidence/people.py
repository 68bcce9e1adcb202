"""A log as arrays for weighing: what was done, with which chance, and how likely the policy would have done it.

People are rows, steps are columns. A step counts while the probabilities of all actions so far are known; what comes
after an episode's early end, or after a probability that nobody wrote down, is not seen.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from ..problem.asked import Policies
from ..problem.log import Log
from ..problem.problem import Problem

_SLACK = 1e-9


class People(NamedTuple):
    """n people, H steps. Where a step was not seen: seen is False, actions and states are 0, rewards nan, chances 1."""

    place: NDArray[np.int64]  # [n], their places in the log
    X: Floats  # [n, d]
    states: NDArray[np.int64]  # [n, H]
    actions: NDArray[np.int64]  # [n, H]
    rewards: Floats  # [n, H], in [0, 1]; nan where not seen
    chances: Floats  # [n, H], of the logged actions
    seen: NDArray[np.bool_]  # [n, H]

    @property
    def complete(self) -> NDArray[np.bool_]:
        """[n], whose every step and reward was seen."""
        return np.asarray(self.seen.all(1) & ~np.isnan(self.rewards).any(1))

    def among(self, kept: Any) -> "People":
        return People(*(part[kept] for part in self))


class Target(NamedTuple):
    """What a policy does where these people were."""

    chances: Floats  # [n, H, A], of its actions in the states that were met
    ratio: Floats  # [n, H], its chance of the logged action over the logged one; 0 where not seen
    weights: Floats  # [n, H], products of ratios up to a step

    def among(self, kept: Any) -> "Target":
        return Target(*(part[kept] for part in self))


def people_of(log: Log) -> People:
    """Everybody with the probability of their first action."""
    p, n = log.problem, len(log)
    H = p.horizon
    states, actions = np.zeros((n, H), np.int64), np.zeros((n, H), np.int64)
    rewards, chances, seen = np.full((n, H), np.nan), np.ones((n, H)), np.zeros((n, H), bool)
    for i, e in enumerate(log):
        m = len(e.actions)
        unknown = np.flatnonzero(np.isnan(e.probabilities))
        m = int(unknown[0]) if unknown.size else m
        states[i, :m], actions[i, :m], seen[i, :m] = e.states[:m], e.actions[:m], True
        rewards[i, :m], chances[i, :m] = p.scale.inside(e.rewards[:m]), e.probabilities[:m]
    X = np.array([e.context for e in log]).reshape(n, p.context_dim)
    made = People(np.arange(n), X, states, actions, rewards, chances, seen)
    return made.among(seen[:, 0] if n else np.zeros(0, bool))


def target_of(people: People, policies: Policies) -> Target:
    """What the policies, one for every person of the log, do where they were."""
    chances = policies.at(people.place, people.states)
    done = np.take_along_axis(chances, people.actions[:, :, None], 2)[:, :, 0]
    ratio: Floats = np.where(people.seen, done / people.chances, 0.0)
    return Target(chances, ratio, np.asarray(np.cumprod(ratio, 1), np.float64))


def logged_target(people: People) -> Target:
    """The logging rule itself: weights 1. Its other chances are not known."""
    ones: Floats = people.seen.astype(np.float64)
    return Target(np.zeros((*ones.shape, 0)), ones, ones.copy())


def one_rule(people: People, problem: Problem) -> Floats | None:
    """The chances [H, S, A] of the rule that logged, if it looked at step and state alone: each action always had the
    same, and those of a state sum to 1. What nobody got has what is left, evenly. None: it was not such a rule."""
    may = problem.layout.available
    least, most = np.full((problem.horizon, *may.shape), np.inf), np.zeros((problem.horizon, *may.shape))
    i, h = np.nonzero(people.seen)
    at = h, people.states[i, h], people.actions[i, h]
    np.minimum.at(least, at, people.chances[i, h])
    np.maximum.at(most, at, people.chances[i, h])
    met = most > 0.0
    if ((most - least)[met] > _SLACK).any():
        return None
    left, never = 1.0 - most.sum(2), may & ~met
    others = never.sum(2)
    if (left < -_SLACK).any() or (np.where(others == 0, left, 0.0) > _SLACK).any():
        return None
    share = np.divide(np.maximum(left, 0.0), others, out=np.zeros_like(left), where=others > 0)
    return np.asarray(np.where(never, share[..., None], most))
