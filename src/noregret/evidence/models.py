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
    """Of every one of these policies. People with the same context and policy are looked at once a lesson."""
    (n, H), A, steps = people.states.shape, log.problem.n_actions, np.arange(log.problem.horizon)
    found = [Predicted(np.zeros((n, H, A)), np.zeros((n, H))) for _ in policies]
    agent, known = CertaintyEquivalence(log.problem), _Known({}, {})
    most = H - steps[:, None].astype(float)
    for i, (k, x) in enumerate(zip(people.place.tolist(), people.X, strict=True)):
        if k > (1.0 + GROWTH) * agent.episode:
            agent.learn_from(Log(log.problem, log.episodes[agent.episode : k]))
            known = _Known({}, {})
        who = x.tobytes()
        if who not in known.models:
            known.models[who] = believed(agent, x)
        for made, of in zip(found, policies, strict=True):
            key, s = (who, of.number(k)), people.states[i]
            if key not in known.values:
                known.values[key] = values_by(*known.models[who], of[k])[0]
            Q = np.clip(known.values[key][steps, s], 0.0, most)
            made.Q[i], made.V[i] = Q, (of[k][steps, s] * Q).sum(1)
    return found


class _Known(NamedTuple):
    """What was worked out since the last lesson."""

    models: dict[bytes, tuple[Floats, Floats]]
    values: dict[tuple[bytes, int], Floats]
