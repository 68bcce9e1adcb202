"""Values by a model that has learned from the people before: what makes importance weighting doubly robust.

Person k's values come from a model of people 0, ..., k - 1 at most (it learns again when the people have grown by a
tenth), so they are known before person k is treated. Whether the model is right does not matter for validity, only for
the width.

Where one rule logged, the model also says how much more often the policy is where a person was than the rule is,

    visits_h = p^policy_h(s_h | x, s_0)/p^rule_h(s_h | x, s_0),

which in Markov states is the mean of the weights w_{h-1} of all paths that lead there.
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
    visits: Floats | None = None  # [n, H], of those states; None where the rule that logged is not known

    def among(self, kept: Any) -> "Predicted":
        return Predicted(self.Q[kept], self.V[kept], None if self.visits is None else self.visits[kept])


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


def visited(P: Floats, chances: Floats, start: int) -> Floats:
    """[H, S]: how likely somebody who began in `start` is where at each step.

    >>> visited(np.array([[[0.5, 0.5]], [[0.0, 1.0]]]), np.ones((3, 2, 1)), 0)[2].tolist()
    [0.25, 0.75]
    """
    H, S, A = chances.shape
    made, flat = np.zeros((H, S)), P.reshape(S * A, S)
    made[0, start] = 1.0
    for h in range(H - 1):
        made[h + 1] = (made[h][:, None] * chances[h]).ravel() @ flat
    return made


def predicted(log: Log, people: People, policies: list[Policies], rule: Floats | None = None) -> list[Predicted]:
    """Of every one of these policies; rule [H, S, A]: that which logged, for visits. Between two lessons, people with
    one context, start and policy are looked at once."""
    p, (n, H) = log.problem, people.states.shape
    found = [
        Predicted(np.zeros((n, H, p.n_actions)), np.zeros((n, H)), None if rule is None else np.ones((n, H)))
        for _ in policies
    ]
    agent, first = CertaintyEquivalence(p), 0
    while first < n:
        learned = int(people.place[first])
        if learned > agent.episode:
            agent.learn_from(Log(p, log.episodes[agent.episode : learned]))
        last = int(np.searchsorted(people.place, (1.0 + GROWTH) * agent.episode, side="right"))
        cut = slice(first, max(last, first + 1))
        some, models = people.among(cut), _Models(agent)
        for made, of in zip(found, policies, strict=True):
            made.Q[cut], made.V[cut] = _between(models, some, of)
            if rule is not None and made.visits is not None:
                made.visits[cut] = _more_often(models, some, of, rule)
        first = cut.stop
    return found


class _Models:
    """What an agent that does not learn believes, context by context."""

    def __init__(self, agent: Any) -> None:
        self.agent, self.kept = agent, dict[bytes, tuple[Floats, Floats]]()

    def __getitem__(self, x: Floats) -> tuple[Floats, Floats]:
        key = x.tobytes()
        if key not in self.kept:
            self.kept[key] = believed(self.agent, x)
        return self.kept[key]


def _between(models: _Models, people: People, policies: Policies) -> tuple[Floats, Floats]:
    """(Q [m, H, A], V [m, H]) of people for whom the model is the same one."""
    steps = np.arange(people.states.shape[1])
    tables: dict[tuple[bytes, int], int] = {}
    kept: list[Floats] = []
    which = np.zeros(len(people.X), np.int64)
    for i, (k, x) in enumerate(zip(people.place.tolist(), people.X, strict=True)):
        key = x.tobytes(), policies.number(k)
        if key not in tables:
            tables[key] = len(kept)
            kept.append(values_by(*models[x], policies[k])[0])
        which[i] = tables[key]
    at = which[:, None], steps, people.states
    Q = np.clip(np.array(kept)[at], 0.0, (len(steps) - steps[:, None]).astype(float))
    return Q, np.asarray((policies.at(people.place, people.states) * Q).sum(2))


def _more_often(models: _Models, people: People, policies: Policies, rule: Floats) -> Floats:
    """Visits [m, H] of these people's states, 1 where a step was not seen."""
    steps, made = np.arange(people.states.shape[1]), np.ones(people.states.shape)
    tables: dict[tuple[bytes, int, int], Floats] = {}
    for i, (k, x) in enumerate(zip(people.place.tolist(), people.X, strict=True)):
        start = int(people.states[i, 0])
        key = x.tobytes(), policies.number(k), start
        if key not in tables:
            ours, theirs = (visited(models[x][0], chances, start) for chances in (policies[k], rule))
            tables[key] = np.divide(ours, theirs, out=np.zeros_like(ours), where=theirs > 0.0)
        made[i] = np.where(people.seen[i], tables[key][steps, people.states[i]], 1.0)
    return made
