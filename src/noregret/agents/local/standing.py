"""Questions that stand: what data that came after a question was fixed say in its direction (docs/joint.md, section 9).

A direction must be known before the step it is used for. So the policies and the people of the question must have been
fixed before person number `since`; from then on aims are made anew whenever the number of people has doubled, each from
the people before it alone, by regularised maximum likelihood. They are the same whenever one asks: they depend on
nothing that came later.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...beliefs.joint import JointSet
from ...checks import Floats
from ...estimators.store import Store
from ...numerics.kronecker_sums import summed_products
from ...planning.directional import Direction, Steps, reward_direction, transition_direction
from ...planning.joint import aim_of
from ...problem.design import Blocks, places
from ...problem.layout import used_slots

TAUS = (0.3, 0.1, 0.03, 0.01)  # of transitions, for aims as long as `aim_of` makes them
REWARD_TAUS = (0.07,)  # within 2% of the best from 5,000 to 100,000 people
QUESTION_REWARD_SHARE = 0.8  # of the delta of a question, for what rewards say: they are the larger part of most widths
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


def directions_of(
    joint: JointSet, steps: Steps, question: dict[str, Any], since: int, delta: float, offset: float = 0.0
) -> list[Direction]:
    """What the steps of person `since` and of those after them say, with probability 1 - delta. offset: of rewards."""
    starts = [since]
    while 2 * starts[-1] < len(steps.X):
        starts.append(2 * starts[-1])
    aims = np.array([_aim(joint, _before(steps, m), question, m) for m in starts])
    late = _part(steps, steps.person >= since)
    batch = np.searchsorted(np.array(starts), late.person, side="right") - 1
    learned = bool((joint.reward_radius > 0.0).any())
    share = (1.0 - QUESTION_REWARD_SHARE) * delta if learned else delta
    made = [transition_direction(joint, late, aims, batch, TAUS, share)]
    if learned:
        made.append(reward_direction(joint, late, aims, batch, REWARD_TAUS, QUESTION_REWARD_SHARE * delta, offset))
    return made


def _part(steps: Steps, at: NDArray[np.bool_]) -> Steps:
    return Steps(steps.X, steps.person[at], steps.state[at], steps.action[at], steps.slot[at], steps.reward[at])


def _before(steps: Steps, people: int) -> Steps:
    return _part(steps, steps.person < people)


def _aim(joint: JointSet, steps: Steps, question: dict[str, Any], people: int) -> Floats:
    """The direction in which the answer changes most for what these steps know."""
    centre, precision = _fitted(joint, steps)
    reward_centre, reward_precision = _regressed(joint, steps)
    sizes = {name: (getattr(joint, name) > 0.0).astype(np.float64) for name in ("radius", "reward_radius")}
    known = joint._replace(
        centre=centre, precision=precision, reward_centre=reward_centre, reward_precision=reward_precision, **sizes
    )
    return aim_of(known, people=people, **question)


def _fitted(joint: JointSet, steps: Steps) -> tuple[Floats, Floats]:
    """Theta and the information there, per block, with a regulariser of p/B^2, or a large one where an entry is 0."""
    blocks, (B, Q, d) = joint.blocks, joint.centre.shape
    centre, precision = np.zeros((B, Q, d)), np.zeros_like(joint.precision)
    used = used_slots(joint.layout)
    for b in range(B):
        prior = np.diag(np.where(_fixed(blocks, b, d), 1e6, Q * d / blocks.bound[b] ** 2))
        at = blocks.block[steps.state, steps.action] == b
        s, a, y, x = steps.state[at], steps.action[at], steps.slot[at], steps.X[steps.person[at]]
        phi, on, theta = blocks.features[s, a], used[s, a], np.zeros(Q * d)
        for _ in range(NEWTON_STEPS):
            z = np.where(on, np.einsum("tkq,tq->tk", phi, x @ theta.reshape(Q, d).T), -np.inf)
            p = np.exp(z - z.max(1, keepdims=True, initial=-1e300))
            p /= p.sum(1, keepdims=True)
            mean = np.einsum("tk,tkq->tq", p, phi)
            curve = np.einsum("tk,tkq,tkr->tqr", p, phi, phi, optimize=True) - mean[:, :, None] * mean[:, None]
            information = summed_products(curve, x) + prior
            slope = ((mean - phi[np.arange(len(y)), y]).T @ x).ravel() + prior @ theta
            step = np.linalg.solve(information, slope)
            theta = theta - step / max(1.0, float(np.abs(step).max()))
            if float(slope @ step) < 1e-8:
                break
        centre[b], precision[b] = theta.reshape(Q, d), information
    return centre, precision


def _fixed(blocks: Blocks, b: int, d: int) -> NDArray[np.bool_]:
    """[Q d]: entries of Theta_b that are 0, by the design's moderators or beyond the features of a block. A matter of
    the design alone: what an aim depends on must not change with data that came after it."""
    made = np.ones(blocks.features.shape[3] * d, np.bool_)
    made[places(blocks, b, d)] = False
    return made


def _regressed(joint: JointSet, steps: Steps) -> tuple[Floats, Floats]:
    """Reward weights by ridge regression, and its Gram matrix."""
    blocks, (Q, d) = joint.reward_blocks, joint.reward_centre.shape[1:]
    centre, gram = joint.reward_centre.copy(), joint.reward_precision.copy()
    seen = ~np.isnan(steps.reward)
    for b in np.flatnonzero(joint.reward_radius > 0.0):
        at = seen & (blocks.block[steps.state, steps.action] == b)
        psi, x = blocks.features[steps.state[at], steps.action[at], 0], steps.X[steps.person[at]]
        u = (psi[:, :, None] * x[:, None]).reshape(-1, Q * d)
        prior = np.diag(np.where(_fixed(blocks, int(b), d), 1e6, 1.0))
        gram[b] = u.T @ u + prior
        centre[b] = np.linalg.solve(gram[b], u.T @ steps.reward[at]).reshape(Q, d)
    return centre, gram
