"""Questions that stand: what data that came after a question was fixed say in its direction (docs/joint.md, section 9).

A direction must be known before the step it is used for. So the policies and the people of the question must have been
fixed before person number `since`; from then on aims are made anew whenever the number of people has grown by two
fifths, each from the people before it alone, by regularised maximum likelihood. They are the same whenever one asks:
they depend on nothing that came later.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import checks as check
from ...beliefs.joint import JointSet, space_of, whole_root
from ...checks import Floats
from ...estimators.store import Store
from ...numerics.kronecker_sums import summed_products
from ...planning.directional import PLANNED, Direction, Steps, direction_of
from ...planning.joint import aim_of
from ...problem.design import Blocks, places
from ...problem.layout import used_slots

RATIO = 1.4  # of the people at the beginnings of two batches
SCALE = 1.0  # of the standard deviation of lambda, over sqrt(since)
SHADE = 0.9  # of the lambda that is planned for: squares come out larger more often, and large lambda cost more
NEWTON_STEPS = 30


def stored_steps(store: Store, people: int, n_actions: int, offset: float) -> Steps:
    """The steps of the first so many people, in the order in which they were taken; rewards with their offset, so that
    their means are linear."""
    person, h = np.nonzero(store.pairs[:people] > 0)
    pair, reward = store.pairs[person, h] - 1, store.rewards[person, h]
    seen = np.where(reward < 0.0, np.nan, reward + offset)
    return Steps(
        store.contexts[:people].copy(), person, pair // n_actions, pair % n_actions, store.outcomes[person, h], seen
    )


class Standing(NamedTuple):
    """What was fixed together with a question, before person `since` came."""

    since: int
    delta: float
    until: int | None = None  # about how many people there will be when it matters most; None: that is open


def standing_of(agent: Any, since: int | None, until: int | None, delta: float) -> Standing | None:
    """The arguments of `SetAgent.compare` with these names, checked; None: the question does not stand."""
    if since is None:
        if until is not None:
            raise ValueError("until needs since, the person before whom the question was fixed")
        return None
    if agent.sets != "stored" or agent.problem.design is None:
        raise ValueError('since needs sets="stored" and a problem with a design: it goes over the data again')
    if agent.state.store.order[1] > 0:
        raise ValueError(
            'since needs people who were learned in the order in which they came, as by Live(order="begin"): '
            "somebody was learned after others who began later"
        )
    first, share = check.integer("since", since), check.positive("delta", delta, below=1.0)
    return Standing(first, share, None if until is None else check.integer("until", until, first + 1))


def asked_direction(joint: JointSet, steps: Steps, question: dict[str, Any], asked: Standing) -> Direction:
    """What the steps of person `since` and of those after them say, with probability 1 - delta.

    With `until` the limit is tuned to sum xi*^2 = (until - since) times what one of the second half of those before
    `since` brings, at weights and along an aim made from the first half."""
    since, delta = asked.since, asked.delta
    starts, aims = aims_of(joint, steps, question, since)
    late, planned = part_of(steps, steps.person >= since), 0.0
    if asked.until is not None:
        half = since // 2
        known = known_after(joint, part_of(steps, steps.person < half))
        next_ones = part_of(steps, (steps.person >= half) & (steps.person < since))
        each = square_of(known, next_ones, aim_of(known, people=half, **question)) / (since - half)
        wanted = 2.0 * math.log(2.0 / (PLANNED * delta)) / max(each * (asked.until - since), 1e-300)
        planned = SHADE * math.sqrt(wanted)
    return direction_of(joint, late, aims, batches_of(starts, late), SCALE / math.sqrt(since), delta, planned)


def square_of(known: JointSet, steps: Steps, aim: Floats) -> float:
    """sum xi^2 at the centre of `known`, for steps that all have one aim."""
    space, used, total = space_of(known), used_slots(known.layout), 0.0
    which = known.blocks.block[steps.state, steps.action]
    for b in range(known.blocks.size.size):
        at = which == b
        s, a, x, y = steps.state[at], steps.action[at], steps.X[steps.person[at]], steps.slot[at]
        p = _chances(known.blocks.features[s, a], used[s, a], known.centre[b], x)
        v = np.einsum("tkm,tm->tk", space.features[s, a], x @ aim.T)
        w = (space.reward_features[s, a] * (x @ aim.T)).sum(1)
        rewards = known.reward_centre[known.reward_blocks.block[s, a]]
        mean = np.einsum("tq,tqd,td->t", known.reward_blocks.features[s, a, 0], rewards, x)
        missed = np.where(np.isnan(steps.reward[at]), 0.0, mean - steps.reward[at])
        total += float((((p * v).sum(1) - v[np.arange(len(y)), y] + w * missed) ** 2).sum())
    return total


def aims_of(joint: JointSet, steps: Steps, question: dict[str, Any], since: int) -> tuple[list[int], Floats]:
    """(the first person of every batch, the aim of each [K, m, d]).

    direct = Lambda^-1 g is where the answer changes most for what the m people before a batch say: Lambda is their
    information, g the gradient there. Earlier aims were made with worse estimates. `done` is the slope of the sum so
    far, as it is seen now. The aim of the batch from m to e makes up for it: with Lambda/m for each person to come

        done + (e - m) Lambda/m aim  =  (e - since) Lambda/m direct
    """
    starts, known = [since], None
    aims: list[Floats] = []
    while starts[-1] < len(steps.X):
        starts.append(int(RATIO * starts[-1]) + 1)
    for k, (m, end) in enumerate(pairwise(starts)):
        before = part_of(steps, steps.person < m)
        known = known_after(joint, before, known)
        aim = aim_of(known, people=m, **question)
        if k:
            done = slope_of(known, before, aims, batches_of(starts, before))
            root = whole_root(space_of(known), aim.shape[1])
            made = (root @ (root.T @ done.ravel())).reshape(aim.shape)  # Lambda^-1 done
            aim = ((end - since) * aim - m * made) / (end - m)
        aims.append(aim * _free_rows(joint).reshape(aim.shape))
    return starts[:-1], np.array(aims)


def known_after(joint: JointSet, steps: Steps, start: JointSet | None = None) -> JointSet:
    """What these steps alone know: in the place of `joint` the most likely weights, their information, and radii of 1.
    start: the same for fewer steps, from which the search begins."""
    (centre, precision), (reward_centre, reward_precision) = _fitted(joint, steps, start), _regressed(joint, steps)
    return joint._replace(
        centre=centre,
        precision=precision,
        radius=(joint.radius > 0.0).astype(np.float64),
        reward_centre=reward_centre,
        reward_precision=reward_precision,
        reward_radius=(joint.reward_radius > 0.0).astype(np.float64),
    )


def batches_of(starts: Sequence[int], steps: Steps) -> NDArray[np.int64]:
    """[T], the batch of every step; -1: of somebody before the first."""
    return np.searchsorted(np.array(starts), steps.person, side="right") - 1


def part_of(steps: Steps, at: NDArray[np.bool_]) -> Steps:
    return Steps(steps.X, steps.person[at], steps.state[at], steps.action[at], steps.slot[at], steps.reward[at])


def _chances(phi: Floats, used: NDArray[np.bool_], theta: Floats, x: Floats) -> Floats:
    """[T, M], of next states, for features [T, M, Q], weights [Q, d] and contexts [T, d]."""
    z = np.where(used, np.einsum("tkq,tq->tk", phi, x @ theta.T), -np.inf)
    p = np.exp(z - z.max(1, keepdims=True, initial=-1e300))
    return np.asarray(p / p.sum(1, keepdims=True))


def slope_of(known: JointSet, steps: Steps, aims: Sequence[Floats], batch: NDArray[np.int64]) -> Floats:
    """[m, d], at the centre, of the sum of the steps (`planning.directional`); batch -1: no aim yet."""
    space, used, made = space_of(known), used_slots(known.layout), np.zeros(aims[0].shape)
    which = known.blocks.block[steps.state, steps.action]
    for k, b in np.ndindex(len(aims), known.blocks.size.size):
        at = (batch == k) & (which == b)
        s, a, x = steps.state[at], steps.action[at], steps.X[steps.person[at]]
        features, paying, moved = space.features[s, a], space.reward_features[s, a], x @ aims[k].T
        p = _chances(known.blocks.features[s, a], used[s, a], known.centre[b], x)
        v = np.einsum("tkm,tm->tk", features, moved)
        change = np.einsum("tkm,tk->tm", features, p * (v - (p * v).sum(1, keepdims=True)))
        w = np.where(np.isnan(steps.reward[at]), 0.0, (paying * moved).sum(1))
        made += (change + w[:, None] * paying).T @ x
    return made


def _fitted(joint: JointSet, steps: Steps, start: JointSet | None) -> tuple[Floats, Floats]:
    """Theta and the information there, per block, with a regulariser of p/B^2. Newton's method begins at `start`."""
    blocks, (B, Q, d) = joint.blocks, joint.centre.shape
    centre = np.zeros((B, Q, d)) if start is None else start.centre.copy()
    precision, used = np.zeros_like(joint.precision), used_slots(joint.layout)
    for b in range(B):
        free, prior = _free(blocks, b, d), Q * d / blocks.bound[b] ** 2
        at = blocks.block[steps.state, steps.action] == b
        s, a, y, x = steps.state[at], steps.action[at], steps.slot[at], steps.X[steps.person[at]]
        phi, on, theta = blocks.features[s, a], used[s, a], centre[b].ravel()
        for _ in range(NEWTON_STEPS):
            p = _chances(phi, on, theta.reshape(Q, d), x)
            mean = np.einsum("tk,tkq->tq", p, phi)
            curve = np.einsum("tk,tkq,tkr->tqr", p, phi, phi, optimize=True) - mean[:, :, None] * mean[:, None]
            information = _among(summed_products(curve, x), free, prior)
            slope = free * ((mean - phi[np.arange(len(y)), y]).T @ x).ravel() + prior * theta
            step = np.linalg.solve(information, slope)
            theta = theta - step / max(1.0, float(np.abs(step).max()))
            if float(slope @ step) < 1e-8:
                break
        centre[b], precision[b] = theta.reshape(Q, d), information
    return centre, precision


def _free(blocks: Blocks, b: int, d: int) -> NDArray[np.bool_]:
    """[Q d]: entries of Theta_b that are not 0 by the design's moderators or beyond the features of a block. A matter
    of the design alone: what an aim depends on must not change with data that came after it."""
    made = np.zeros(blocks.features.shape[3] * d, np.bool_)
    made[places(blocks, b, d)] = True
    return made


def _free_rows(joint: JointSet) -> NDArray[np.bool_]:
    """[m d], of all unknown weights, in the order of `Space`."""
    d, parts = joint.centre.shape[2], ((joint.blocks, joint.radius), (joint.reward_blocks, joint.reward_radius))
    made = [
        _free(blocks, int(b), d)[: blocks.size[b] * d]
        for blocks, radius in parts
        for b in np.flatnonzero((radius > 0.0) & (blocks.size > 0))
    ]
    return np.concatenate(made)


def _among(information: Floats, free: NDArray[np.bool_], prior: float) -> Floats:
    """The information about the free entries, with a prior for each; others stand alone."""
    made = information * np.outer(free, free)
    made[np.diag_indices_from(made)] += np.where(free, prior, 1e6)
    return made


def _regressed(joint: JointSet, steps: Steps) -> tuple[Floats, Floats]:
    """Reward weights by ridge regression, and its Gram matrix."""
    blocks, (Q, d) = joint.reward_blocks, joint.reward_centre.shape[1:]
    centre, gram = joint.reward_centre.copy(), joint.reward_precision.copy()
    seen = ~np.isnan(steps.reward)
    for b in np.flatnonzero(joint.reward_radius > 0.0):
        at = seen & (blocks.block[steps.state, steps.action] == b)
        psi, x = blocks.features[steps.state[at], steps.action[at], 0], steps.X[steps.person[at]]
        u, free = (psi[:, :, None] * x[:, None]).reshape(-1, Q * d), _free(blocks, int(b), d)
        gram[b] = _among(u.T @ u, free, 1.0)
        centre[b] = np.linalg.solve(gram[b], free * (u.T @ steps.reward[at])).reshape(Q, d)
    return centre, gram
