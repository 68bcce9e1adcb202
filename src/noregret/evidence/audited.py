"""A log gone through by somebody who bets against its model (`estimators.audit`), and what the model can answer.

Predictions are those of online estimates, richer ones of components with features that the model has not. They are
fixed before outcomes are seen, in the order of the log. What the declared weights can have predicted at most is found
from all steps (`evidence.prices`), so that no set has to hold for it.
"""

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..agents.local.lr_orl import LRORL
from ..checks import Floats
from ..estimators.audit import KINDS, AuditState, least_squares, mixed
from ..estimators.rewards.shared import scaled_blocks
from ..problem.design import Blocks, free_entries
from ..problem.links import LinearCombination, MultinomialLogit
from ..problem.log import Log
from ..problem.problem import Problem
from .log_steps import Steps, steps_of
from .prices import Seen, most_likely, most_likely_linear

FREELY = 5.0  # bounds are so many times as large where the link, the design or drift is asked about
STEEP = 10.0  # weight_bound of the logit estimates that predict where the link is another
FIRST = 25  # people at the first look


class Look(NamedTuple):
    """What the bets had come to after so many people: ln of the e-process of every kind."""

    people: int
    logs: dict[str, float]


def auditor(problem: Problem) -> LRORL:
    """An agent with online sets that bets closely. Under another link than the logit it predicts by a logit, too."""
    linear = isinstance(problem.link, LinearCombination)
    p = replace(problem, link=MultinomialLogit(), weight_bound=STEEP / problem.context_bound) if linear else problem
    made = LRORL(p)
    made.bet_closely()
    return made


def go_through(log: Log) -> tuple[list[Look], LRORL]:
    """(looks, the auditor): each time the number of people has doubled, and at the end."""
    made, steps, at, looks, done = auditor(log.problem), steps_of(log), [len(log)], [], 0
    while at[0] >= 2 * FIRST:
        at.insert(0, at[0] // 2)
    for people in at:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it refutes is said by the check
            made.learn_from(replace(log, episodes=log.episodes[done:people]))
        done = people
        looks.append(Look(people, _logs(log.problem, made, _of_first(steps, people))))
    return looks, made


def _of_first(steps: Steps, people: int) -> Steps:
    n = int(np.searchsorted(steps.person, people))
    parts: list[Any] = [part[:n] for part in steps[2:]]
    return Steps(*steps[:2], *parts)


def _logs(problem: Problem, agent: Any, steps: Steps) -> dict[str, float]:
    """ln of the e-processes, by kind."""
    audit, kinds = agent.state.audit, agent.par.audit.kind
    free, bounded = transition_prices(problem, steps)
    made = {}
    for kind in np.unique(kinds):
        made[KINDS[int(kind)]] = mixed(audit.gain[:, kinds == kind] - free[:, None])
    if not isinstance(problem.link, LinearCombination):
        loss = agent.state.transitions.loss.reshape(-1, 1)
        made["bound"] = mixed(-loss - bounded[:, None])
    made["rewards"] = mixed(reward_evidence(problem, agent, steps))
    return made


def transition_prices(problem: Problem, steps: Steps) -> tuple[Floats, Floats]:
    """[N] each: at most sum ln p(y) of every set of weights, with bounds FREELY times as large, and with the bounds."""
    p, A = problem, problem.n_actions
    pairs = steps.s * A + steps.a
    place = np.arange(p.n_states * A) if p.blocks is None else p.blocks.block.ravel()
    made = np.zeros((2, int(place.max()) + 1))
    for b in np.unique(place[pairs]):
        at = np.flatnonzero((place[pairs] == b) & (p.layout.count.ravel()[pairs] > 1))
        if not at.size:
            continue
        if isinstance(p.link, LinearCombination):
            n = int(p.layout.count.ravel()[b])
            made[:, b] = most_likely_linear(steps.X[steps.person[at]], steps.slot[at], n)
            continue
        seen = _seen_by_pair(p, steps, at) if p.blocks is None else _seen_by_block(p, p.blocks, int(b), steps, at)
        made[:, b] = most_likely(seen, (FREELY * seen.bound, seen.bound))
    return made[0], made[1]


def _seen_by_pair(p: Problem, steps: Steps, at: NDArray[np.int64]) -> Seen:
    n, d = int(p.layout.count[steps.s[at[0]], steps.a[at[0]]]), p.context_dim
    X = steps.X[steps.person[at]]

    def rows(k: NDArray[np.int64]) -> Floats:
        made = np.zeros((k.size, n, n - 1, d))
        made[:, np.arange(n - 1), np.arange(n - 1)] = X[k][:, None]
        return made.reshape(k.size, n, (n - 1) * d)

    return Seen(rows, steps.slot[at], np.full(at.size, n), np.repeat(np.arange(n - 1), d), p.weight_bound)


def _seen_by_block(p: Problem, blocks: Blocks, b: int, steps: Steps, at: NDArray[np.int64]) -> Seen:
    feature, column = free_entries(blocks, b)
    s, a, X = steps.s[at], steps.a[at], steps.X[steps.person[at]]

    def rows(k: NDArray[np.int64]) -> Floats:
        made: Floats = blocks.features[s[k], a[k]][:, :, feature] * X[k][:, None, column]
        return made

    groups = np.zeros(feature.size, np.int64)
    return Seen(rows, steps.slot[at], p.layout.count[s, a], groups, float(blocks.bound[b]))


def reward_evidence(problem: Problem, agent: Any, steps: Steps) -> Floats:
    """[R, C+1]: of every set of reward weights and component, the estimates of the model themselves among them."""
    par, state, audit = agent.par.rewards, agent.state.rewards, agent.state.audit
    C = audit.logs.shape[1] - 1
    if problem.known_rewards is not None:
        return np.asarray(audit.logs[:, :C] - audit.logs[:, C:])
    if problem.rewards == "logistic":
        return np.asarray(audit.logs - logistic_prices(problem, audit, steps)[:, None])
    d = state.gram.shape[3]
    gram, moment = state.gram.reshape(-1, d, d) - par.regularization * np.eye(d), state.moment.reshape(-1, d)
    most = least_squares(gram, moment, par.bound)
    least = np.maximum(audit.squares[:, C + 1] - most, 0.0)
    return np.where(state.samples.reshape(-1, 1) > 0, 2.0 * (least[:, None] - audit.squares[:, : C + 1]), 0.0)


def logistic_prices(problem: Problem, audit: AuditState, steps: Steps) -> Floats:
    """[R]: at most the sum of ln p(r), where rewards are 0 or 1 and logistic."""
    p, seen = problem, ~np.isnan(steps.reward)
    pairs, blocks = steps.s * p.n_actions + steps.a, scaled_blocks(p)
    place = np.arange(p.n_states * p.n_actions) if blocks is None else blocks.block.ravel()
    made = np.zeros(audit.logs.shape[0])
    for b in np.unique(place[pairs[seen]]):
        at = np.flatnonzero(seen & (place[pairs] == b))
        U, came = steps.X[steps.person[at]], (steps.reward[at] < 0.5).astype(np.int64)
        if blocks is not None:
            feature, column = free_entries(blocks, int(b))
            psi = blocks.features[steps.s[at], steps.a[at], 0]
            U = psi[:, feature] * U[:, column]
        bound = p.unit_reward_bound if blocks is None else float(blocks.bound[b])

        def rows(k: NDArray[np.int64], U: Floats = U) -> Floats:
            return np.stack([U[k], np.zeros_like(U[k])], axis=1)

        used, groups = np.full(at.size, 2), np.zeros(U.shape[1], np.int64)
        made[b] = most_likely(Seen(rows, came, used, groups, bound), (bound,))[0]
    return made
