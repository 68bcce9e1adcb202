"""Random truths that keep to a design: weights of next states and of mean rewards within the bounds of its blocks."""

import math

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats
from ..problem.design import Blocks, Design, RewardDesign
from ..problem.problem import Problem

_FARTHEST = 8.0  # no row of weights is drawn longer: odds of 3000 to 1 for a context of norm 1
_SLACK = 1e-9


def random_design(
    n_states: int = 50,
    n_actions: int = 5,
    features: int = 8,
    blocks: int = 1,
    bound: float = 4.0,
    seed: int = 0,
    *,
    context_dim: int | None = None,
    moderators: int | None = None,
) -> Design:
    """A design whose features phi(s, a, j) are uniform on the unit sphere of R^q, q = `features`.

    blocks: pairs are dealt out to so many blocks at random, as evenly as can be. With contexts in R^d there are
    p = blocks q d parameters, whatever the number of states: 5 features and d = 6 make 30, 8 and d = 14 make 112.
    moderators: a feature goes with entry 0 of the context, the intercept, and so many others, drawn for each, out of
    `context_dim`. Then p = blocks q (1 + moderators). None: every feature goes with every entry.

    >>> import noregret as nr
    >>> print(nr.worlds.random_design(n_states=50, n_actions=5, features=8).describe(context_dim=6).splitlines()[0])
    48 parameters in 1 block; 73500 if every pair had its own
    """
    S, A = check.integer("n_states", n_states), check.integer("n_actions", n_actions)
    q, B = check.integer("features", features), check.integer("blocks", blocks)
    if B > S * A:
        raise ValueError(f"blocks must be at most the number of pairs, {S * A}, got {B}")
    check.memory(f"a design with n_states = {S}, n_actions = {A}, features = {q}", 24.0 * S * S * A * q)
    g = np.random.default_rng(check.integer("seed", seed, 0))
    phi = g.standard_normal((S, A, S, q))
    phi /= np.linalg.norm(phi, axis=-1, keepdims=True)
    dealt = g.permutation(np.arange(S * A) % B).reshape(S, A)
    return Design(phi, bound, dealt, moderators=_moderators(q, context_dim, moderators, g))


def _moderators(
    q: int, context_dim: int | None, moderators: int | None, g: np.random.Generator
) -> NDArray[np.bool_] | None:
    """bool [q, d]: entry 0, and so many others in every row; None: no moderators."""
    if moderators is None:
        return None
    if context_dim is None:
        raise ValueError("context_dim must be given with moderators: they are entries of a context")
    d, m = check.integer("context_dim", context_dim), check.integer("moderators", moderators, 0)
    if m >= d:
        raise ValueError(f"moderators must be at most context_dim - 1 = {d - 1}, got {m}")
    made = np.zeros((q, d), bool)
    made[:, 0] = True
    for row in made:
        row[1 + g.choice(d - 1, m, replace=False)] = True
    return made


def _free(blocks: Blocks, d: int) -> NDArray[np.bool_]:
    """[B, Q, d]: which entries of Theta may differ from 0, in coordinates of `blocks`."""
    made = np.zeros((blocks.size.size, blocks.features.shape[-1], d), bool)
    for b, i in np.ndindex(*made.shape[:2]):
        made[b, i, blocks.column[b, blocks.start[b, i] : blocks.start[b, i + 1]]] = True
    return made


def _drawn(blocks: Blocks, d: int, g: np.random.Generator) -> Floats:
    """Theta [B, Q, d] in coordinates of `blocks`, in random directions, of norm 1; 0 in blocks that say nothing."""
    theta = g.standard_normal((blocks.size.size, blocks.features.shape[-1], d))
    theta[~_free(blocks, d)] = 0.0
    norms = np.linalg.norm(theta, axis=(1, 2), keepdims=True)
    unit: Floats = theta / np.where(norms > 0.0, norms, 1.0)
    return unit


def transition_weights(problem: Problem, g: np.random.Generator) -> Floats:
    """Slots [S, A, M, d] of a random truth in the problem's design. Every Theta_b has the norm of its bound, or less
    where a row would be longer than 8."""
    blocks = problem.blocks
    assert blocks is not None
    theta = _drawn(blocks, problem.context_dim, g) * blocks.bound[:, None, None]
    slots: Floats = np.einsum("samq,saqd->samd", blocks.features, theta[blocks.block])
    longest = np.linalg.norm(slots, axis=-1).max(2)
    for b in range(blocks.size.size):
        at = blocks.block == b
        slots[at] *= min(1.0, _FARTHEST / max(float(longest[at].max()), 1e-300))
    return slots


def reward_weights(problem: Problem, design: RewardDesign, g: np.random.Generator) -> Floats:
    """[S, A, d] of a random truth in a design of rewards, for contexts (1, u)/sqrt 2 with ||u|| <= 1 (d = 1: 1). Where
    features have moderators, those that go with the intercept set the level at u = 0.

    Means at u = 0 begin at 1/2, or as near to it as the features allow. To that a random Theta_b is added, as much as
    leaves the means of all pairs of the block in [0, 1] for all u. If it is then longer than its bound it is shrunk,
    which moves means towards 0 and no further."""
    d, layout = problem.context_dim, problem.layout
    unit = np.full(d, math.sqrt(2.0)) if d > 1 else np.ones(1)
    weights = np.zeros((*design.block.shape, d))
    free = np.ones((design.features.shape[-1], d), bool) if design.moderators is None else design.moderators
    for b in range(design.n_blocks):
        at = (design.block == b) & layout.available
        psi = design.features[at]
        middle = np.linalg.lstsq(psi * free[:, 0], np.full(len(psi), 0.5), rcond=None)[0]
        level = psi @ middle
        if (level < -_SLACK).any() or (level > 1.0 + _SLACK).any():
            raise ValueError(
                f"reward_design must have features with which all mean rewards can be between 0 and 1, such as the "
                f"constant '1': those of {design.block_names[b]} cannot"
            )
        theta = g.standard_normal((psi.shape[1], d)) * free
        shift, swing = psi @ theta[:, 0], np.linalg.norm(psi @ theta[:, 1:], axis=1)
        room = np.concatenate([np.clip(level, 0.0, 1.0), np.clip(1.0 - level, 0.0, 1.0)])
        need = np.concatenate([swing - shift, swing + shift])
        tight = need > 1e-12 * np.abs(need).max(initial=0.0)
        theta *= (room[tight] / need[tight]).min(initial=1e3)
        theta[:, 0] += middle
        theta *= unit
        theta *= min(1.0, design.bound[b] / max(float(np.linalg.norm(theta)), 1e-300))
        weights[at] = psi @ theta
    return weights
