"""Mean values of policies over contexts in a fitted model, and their derivatives in all of its weights.

With p the next states of a pair, r its mean reward, pi(a) the chance of an action and m_h(s) that of being at s at step
h, all for one context,

    V_h(s) = sum_a pi(a) Q_h(s, a),    Q_h = r + <p, V_{h+1}>,    m_{h+1}(j) = sum_{s, a} m_h(s) pi(a) p_j
    dV/dz_k(s, a) = sum_h m_h(s) pi(a) p_k (V_{h+1}(k) - <p, V_{h+1}>),        dV/dr(s, a) = sum_h m_h(s) pi(a)

z the logits. One pass back and one forth, whatever the number of weights: `planning.derivatives` goes along every
weight, for second derivatives, and is the oracle of this one in the tests. Policies may be randomised.
"""

from typing import Any, NamedTuple

import numpy as np

from .. import checks as check
from ..checks import Floats
from ..problem.problem import Problem
from .fit import LOGISTIC, NEXT, Fitted

_MEMORY = 1e8


class Question(NamedTuple):
    """Whose mean value is asked for, N contexts."""

    X: Floats  # [N, d]
    share: Floats  # [N], sums to 1
    start: Floats  # [N, S]
    policy: Floats  # [N or 1, H, S, A], chances of actions
    other: Floats | None  # likewise


class Answer(NamedTuple):
    """values [N]: of the policy, less the other's; slopes: per fitted block [p], of their mean."""

    values: Floats
    slopes: list[Floats]


def policies(name: str, given: Any, problem: Problem, X: Floats) -> Floats:
    """Chances [N or 1, H, S, A]: from actions (H, S) or (N, H, S), integers; from chances (H, S, A) or (N, H, S, A),
    floats; or from a function of a context to either for one person."""
    N, H, (S, A) = len(X), problem.horizon, problem.layout.available.shape
    if callable(given):
        return np.concatenate([policies(name, given(x.copy()), problem, x[None]) for x in X])
    made = check.anything(name, given)
    if made.dtype.kind == "f" and made.shape in ((H, S, A), (N, H, S, A)):
        made = made.reshape(-1, H, S, A).astype(np.float64)
        if not (made >= 0.0).all() or np.abs(made.sum(3) - 1.0).max() > 1e-6:
            raise ValueError(f"{name} must be probabilities that sum to 1 over actions")
        if (made[:, :, ~problem.layout.available] > 0.0).any():
            raise ValueError(f"{name} must take available actions only")
        return made
    if made.ndim == 3 and len(made) == N and made.dtype.kind in "iu":
        actions = np.stack([problem.policy(one, f"{name}[{i}]") for i, one in enumerate(made)])
    else:
        actions = problem.policy(given, name)[None]
    chosen: Floats = (actions[..., None] == np.arange(A)).astype(np.float64)
    return chosen


def _model(fitted: list[Fitted], problem: Problem, X: Floats) -> tuple[Floats, Floats]:
    """(P [n, S, A, M] slot by slot, mean rewards [n, S, A]) of people X."""
    S, A, M = problem.layout.outcomes.shape
    z, r = np.zeros((len(X), S, A, M)), np.zeros((len(X), S, A))
    if problem.known_rewards is not None:
        r = np.moveaxis(np.asarray(problem.known_rewards, float) @ X.T, 2, 0)
    for one in fitted:
        at, u = one.part.members, X @ one.theta.T
        moved = np.einsum("nq,pmq->npm", u, one.part.features[at], optimize=True)
        if one.part.kind == NEXT:
            z[:, at[0], at[1]] = moved
        else:
            r[:, at[0], at[1]] = moved[..., 0]
    if problem.rewards == "logistic":
        r = 1.0 / (1.0 + np.exp(-np.clip(r, -700.0, 700.0)))
    used = np.arange(M) < problem.layout.count[..., None]
    e = np.exp(z - np.where(used, z, -np.inf).max(-1, keepdims=True)) * used
    return e / e.sum(-1, keepdims=True), r


def _one(
    problem: Problem, model: tuple[Floats, Floats], policy: Floats, start: Floats, slopes_too: bool
) -> tuple[Floats, Floats, Floats]:
    """(values [n], dV/dz [n, S, A, M], dV/dr [n, S, A]) of one policy."""
    P, r = model
    n, S, A, M = P.shape
    H, to = problem.horizon, problem.layout.outcomes
    V = np.zeros((H + 1, n, S))
    for h in range(H - 1, -1, -1):
        Q = r + (P * V[h + 1][:, to]).sum(-1)
        V[h] = (policy[:, h] * Q).sum(-1)
    if not slopes_too:
        return (start * V[0]).sum(1), r, r
    by_logit, by_reward, mass = np.zeros_like(P), np.zeros_like(r), start
    flat = np.zeros((S * A * M, S))
    flat[np.arange(S * A * M), to.ravel()] = 1.0
    for h in range(H):
        there = mass[:, :, None] * policy[:, h]
        moved = there[..., None] * P
        after = V[h + 1][:, to]
        by_logit += moved * (after - (P * after).sum(-1, keepdims=True))
        by_reward += there
        mass = moved.reshape(n, -1) @ flat
    return (start * V[0]).sum(1), by_logit, by_reward


def touched(one: Fitted, asked: Question) -> bool:
    """Whether a policy takes one of the actions of a block anywhere."""
    taken = [c[:, :, one.part.members[0], one.part.members[1]] for c in (asked.policy, asked.other) if c is not None]
    return any(bool((c > 0.0).any()) for c in taken)


def answer(fitted: list[Fitted], problem: Problem, asked: Question, slopes_too: bool = True) -> Answer:
    """Mean values, and how they change with the weights of every block."""
    S, A, M = problem.layout.outcomes.shape
    size = max(1, int(_MEMORY / (64.0 * S * A * M)))
    values, slopes = [], [np.zeros(one.theta.shape) for one in fitted]
    for i in range(0, len(asked.X), size):
        cut = slice(i, i + size)
        X, start, share = asked.X[cut], asked.start[cut], asked.share[cut]
        model = _model(fitted, problem, X)
        found = _one(problem, model, _cut(asked.policy, cut), start, slopes_too)
        if asked.other is not None:
            less = _one(problem, model, _cut(asked.other, cut), start, slopes_too)
            found = found[0] - less[0], found[1] - less[1], found[2] - less[2]
        values.append(found[0])
        if slopes_too:
            _add(slopes, fitted, model[1], found, X * share[:, None])
    return Answer(np.concatenate(values), [s.ravel()[one.part.at] for s, one in zip(slopes, fitted, strict=True)])


def _cut(policy: Floats, cut: slice) -> Floats:
    return policy if len(policy) == 1 else policy[cut]


def _add(
    slopes: list[Floats],
    fitted: list[Fitted],
    r: Floats,
    found: tuple[Floats, Floats, Floats],
    weighted: Floats,
) -> None:
    """slopes [q, d] <- plus sum over people of (derivative in Theta x) (x) x; weighted [n, d]: x times its share."""
    for slope, one in zip(slopes, fitted, strict=True):
        at = one.part.members
        if one.part.kind == NEXT:
            seen = np.einsum("npm,pmq->nq", found[1][:, at[0], at[1]], one.part.features[at], optimize=True)
        else:
            rate = found[2][:, at[0], at[1]]
            if one.part.kind == LOGISTIC:
                mean = r[:, at[0], at[1]]
                rate = rate * mean * (1.0 - mean)
            seen = rate @ one.part.features[at][:, 0]
        slope += seen.T @ weighted
