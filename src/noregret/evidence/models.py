"""Values by a model that has learned from the people before: what makes importance weighting doubly robust.

Person k's values come from a model of people 0, ..., k - 1 at most (it learns again when the people have grown by a
tenth), so they are known before person k is treated. Whether the model is right does not matter for validity, only for
the width.
"""

from typing import Any, NamedTuple

import numpy as np

from ..agents.controls import CertaintyEquivalence
from ..checks import Floats
from ..problem.asked import Policies
from ..problem.log import Log
from .people import People

GROWTH = 0.1


class Predicted(NamedTuple):
    """What the model says of a policy where these people were, rewards in [0, 1]."""

    Q: Floats  # [n, H, A], of all actions in the states that were met
    V: Floats  # [n, H], of those states

    def among(self, kept: Any) -> "Predicted":
        return Predicted(self.Q[kept], self.V[kept])


def believed(agent: Any, x: Floats) -> tuple[Floats, Floats]:
    """(P_hat [S, A, S'], r_hat [S, A] in [0, 1]) of a person, by an agent with a model."""
    found = agent.model(x)
    return found.P, np.clip(agent.problem.scale.inside(found.r), 0.0, 1.0)


def values_by(P: Floats, r: Floats, chances: Floats) -> tuple[Floats, Floats]:
    """(Q [H, S, A], V [H+1, S]) of chances [H, S, A] in the model (P, r); actions that are not taken have a Q, too.

    >>> Q, V = values_by(np.ones((1, 2, 1)), np.array([[0.0, 1.0]]), np.array([[[0.5, 0.5]], [[0.0, 1.0]]]))
    >>> V[:, 0].tolist(), Q[0, 0].tolist()
    ([1.5, 1.0, 0.0], [1.0, 2.0])
    """
    H, S, _ = chances.shape
    Q, V = np.zeros(chances.shape), np.zeros((H + 1, S))
    for h in range(H - 1, -1, -1):
        Q[h] = r + P @ V[h + 1]
        V[h] = (chances[h] * Q[h]).sum(1)
    return Q, V


def predicted(log: Log, people: People, policies: list[Policies]) -> list[Predicted]:
    """Of every one of these policies. Between two lessons, people with one context and policy are looked at once."""
    p, (n, H) = log.problem, people.states.shape
    found = [Predicted(np.zeros((n, H, p.n_actions)), np.zeros((n, H))) for _ in policies]
    agent, first = CertaintyEquivalence(p), 0
    while first < n:
        learned = int(people.place[first])
        if learned > agent.episode:
            agent.learn_from(Log(p, log.episodes[agent.episode : learned]))
        last = int(np.searchsorted(people.place, (1.0 + GROWTH) * agent.episode, side="right"))
        cut = slice(first, max(last, first + 1))
        for made, of in zip(found, policies, strict=True):
            made.Q[cut], made.V[cut] = _between(agent, people.among(cut), of)
        first = cut.stop
    return found


def _between(agent: Any, people: People, policies: Policies) -> tuple[Floats, Floats]:
    """(Q [m, H, A], V [m, H]) of people for whom the model is the same one."""
    steps = np.arange(people.states.shape[1])
    models: dict[bytes, tuple[Floats, Floats]] = {}
    tables: dict[tuple[bytes, int], int] = {}
    kept: list[Floats] = []
    which = np.zeros(len(people.X), np.int64)
    for i, (k, x) in enumerate(zip(people.place.tolist(), people.X, strict=True)):
        key = x.tobytes(), policies.number(k)
        if key not in tables:
            if key[0] not in models:
                models[key[0]] = believed(agent, x)
            tables[key] = len(kept)
            kept.append(values_by(*models[key[0]], policies[k])[0])
        which[i] = tables[key]
    at = which[:, None], steps, people.states
    Q = np.clip(np.array(kept)[at], 0.0, (len(steps) - steps[:, None]).astype(float))
    return Q, np.asarray((policies.at(people.place, people.states) * Q).sum(2))
