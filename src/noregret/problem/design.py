"""Designs: which parameters pairs have in common.

In the paper every pair has a weight matrix of its own. A design puts pairs into blocks. Block b has one unknown
Theta_b [q_b, d], and a pair of it has known features phi(s, a, j) in R^q for each possible next state j:

    z_j = phi(s, a, j)' Theta_b x,     P(j | s, a, x) = softmax(z)_j         (logit link),     ||Theta_b||_F <= B_b

One block per pair with phi(s, a, j) = e_j is the paper's model. One block with features made of attributes of states,
actions and next states is the multinomial-logit MDP (Hwang and Oh 2023) with contexts. Rewards have a design of their
own (`RewardDesign`): their mean is psi(s, a)' Theta_r x, or sigma of it where rewards are logistic.

The softmax sees differences of logits alone. So phi(s, a, j) - phi(s, a, last) is kept, in a basis of the directions
that are met by some pair of the block (`identified`). The others say nothing, and are dropped. Distances between
features and |Theta|_F on what is left do not grow, so the bounds stay true. A feature may go with some entries of the
context only (`moderators`); then features are kept as they are, but for those that never move any odds.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import checks as check
from ..checks import Floats
from .layout import Layout, full_layout
from .terms import Tables, blocks_of, columns_of

_UNSEEN = 1e-9  # a direction is dropped where no odds can move by more than this, as a logarithm
_ROUNDING = 1e-13  # singular values below this part of the largest are rounding
_STEEPEST = 1e6  # logits beyond this, as features and bounds allow them, are no model
_LEAST, _LARGEST = 1e-12, 1e12


class Blocks(NamedTuple):
    """A design as estimators take it. B blocks, Q the largest number of features of one; what is beyond is 0.

    Weights of a block are one vector theta [p]: entry e is Theta[i, column[e]] for start[i] <= e < start[i+1]. Without
    moderators that is every entry, e = i d + c. E is the largest p."""

    block: NDArray[np.int64]  # [S, A]
    features: Floats  # [S, A, M, Q], relative to the last possible next state, 0 there; rewards: [S, A, 1, Q]
    size: NDArray[np.int64]  # [B], features of a block
    bound: Floats  # [B], of ||Theta_b||_F
    start: NDArray[np.int64]  # [B, Q+1], where the entries of a feature begin; the last is p_b
    column: NDArray[np.int64]  # [B, E], the entry of the context that one of theta goes with


def every_entry(size: NDArray[np.int64], Q: int, context_dim: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(start, column) of `Blocks` whose features go with all entries of the context."""
    start = np.minimum(np.arange(Q + 1), size[:, None]) * context_dim
    return start.astype(np.int64), np.tile(np.arange(context_dim), (size.size, Q))


def pair_blocks(layout: Layout, weight_bound: float, context_dim: int) -> Blocks:
    """A block per pair, a feature per next state but the last: the model of a problem without a design. Rows of weights
    relative to the last one are at most B_p long, so their matrix is at most B_p sqrt(n - 1)."""
    (S, A, M), count = layout.outcomes.shape, layout.count
    features = np.zeros((S, A, M, max(M - 1, 1)))
    for j in range(M - 1):
        features[:, :, j, j] = (j < count - 1) & layout.available
    size = np.where(layout.available, count - 1, 0).ravel()
    bound = weight_bound * np.sqrt(np.maximum(size, 1))
    entries = every_entry(size, features.shape[3], context_dim)
    return Blocks(np.arange(S * A).reshape(S, A), features, size, bound, *entries)


def free_entries(blocks: Blocks, b: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(feature, column) of the entries of theta of a block, [p] each."""
    feature = np.repeat(np.arange(blocks.size[b]), np.diff(blocks.start[b, : blocks.size[b] + 1]))
    return feature, blocks.column[b, : feature.size]


def places(blocks: Blocks, b: int, context_dim: int) -> NDArray[np.int64]:
    """[p]: where the entries of theta are in vec(Theta_b), feature i and column c at i d + c."""
    feature, column = free_entries(blocks, b)
    return np.asarray(feature * context_dim + column, np.int64)


class _Shared:
    """What designs of transitions and of rewards have in common."""

    features: Floats  # [S, A, S', q], of rewards [S, A, q]; read-only
    block: NDArray[np.int64]  # [S, A], numbers from 0; read-only
    bound: Floats  # [B]; read-only
    names: tuple[str, ...]  # of the q features
    block_names: tuple[str, ...]  # of the B blocks
    moderators: NDArray[np.bool_] | None  # [q, d]: which entries of the context a feature goes with; None: all
    _axes = ""

    def __init__(
        self,
        features: ArrayLike,
        bound: float | ArrayLike,
        block: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        block_names: Sequence[str] | None = None,
        moderators: ArrayLike | None = None,
    ) -> None:
        made = check.finite("features", check.numbers("features", features, f"numbers of shape {self._axes}"))
        if made.ndim != self._axes.count(",") + 1 or 0 in made.shape or not self._square(made):
            raise ValueError(f"features must have shape {self._axes} with sizes of at least 1, got {made.shape}")
        if np.abs(made).max() > _LARGEST:
            raise ValueError(f"features must be at most {_LARGEST:g} in size, got {np.abs(made).max():g}")
        S, A, q = made.shape[0], made.shape[1], made.shape[-1]
        blocks = np.zeros((S, A), np.int64) if block is None else check.anything("block", block)
        if blocks.shape != (S, A) or blocks.dtype.kind not in "iu" or blocks.min() < 0:
            raise ValueError(f"block must be the number of a block for every pair, integers of shape {(S, A)}")
        count = int(blocks.max()) + 1
        if count > S * A or np.unique(blocks).size != count:
            raise ValueError("block must number the blocks from 0 without a gap")
        self.features, self.block = made, blocks.astype(np.int64)
        self.bound = self._bounds(bound, count)
        self.names = check.names("names", names, q) or tuple(f"feature {i}" for i in range(q))
        self.block_names = check.names("block_names", block_names, count) or tuple(f"block {b}" for b in range(count))
        self.moderators = None if moderators is None else self._mask(moderators, q)
        for array in (self.features, self.block, self.bound, self.moderators):
            if array is not None:
                array.setflags(write=False)

    @staticmethod
    def _mask(given: Any, q: int) -> NDArray[np.bool_]:
        made = check.anything("moderators", given)
        if made.ndim != 2 or made.shape[0] != q or made.dtype != np.bool_ or not made.any(1).all():
            raise ValueError(f"moderators must be a boolean array of shape ({q}, d) with an entry in every row")
        return made

    def fits(self, context_dim: int) -> None:
        """A sentence where moderators are about contexts of another length."""
        if self.moderators is not None and self.moderators.shape[1] != context_dim:
            raise ValueError(
                f"moderators must be about context_dim = {context_dim} entries, got {self.moderators.shape[1]}"
            )

    @staticmethod
    def _square(features: Floats) -> bool:
        return True

    @staticmethod
    def _bounds(bound: Any, count: int) -> Floats:
        made = check.numbers("bound", bound, "a positive number, or one for every block")
        if made.shape not in ((), (count,)):
            raise ValueError(f"bound must be a positive number, or one for each of {count} blocks, got {made.shape}")
        for value in made.ravel():
            if not _LEAST <= check.positive("bound", float(value)) <= _LARGEST:
                raise ValueError(f"bound must be from {_LEAST:g} to {_LARGEST:g}, got {value:g}")
        return np.array(np.broadcast_to(made, (count,)))

    @property
    def n_blocks(self) -> int:
        return int(self.bound.size)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        arrays = ("features", "block", "bound", "moderators")
        same = all(np.array_equal(getattr(self, k), getattr(other, k)) for k in arrays)  # None is equal to None
        return same and (self.names, self.block_names) == (other.names, other.block_names)

    __hash__ = None  # type: ignore[assignment]

    def _weights(self, theta: Any) -> Floats:
        """features' theta of the pair's block, [S, A, ..., d]; theta [B, q, d], or [q, d] for one block."""
        made = check.numbers("theta", theta, "numbers of shape (B, q, d)")
        made = made[None] if made.ndim == 2 and self.n_blocks == 1 else made
        if made.ndim != 3 or made.shape[:2] != (self.n_blocks, self.features.shape[-1]):
            raise ValueError(f"theta must have shape {(self.n_blocks, self.features.shape[-1], 'd')}, got {made.shape}")
        norms = np.linalg.norm(made, axis=(1, 2))
        if (norms > self.bound * (1.0 + 1e-9)).any():
            b = int(np.argmax(norms / self.bound))
            raise ValueError(f"theta[{b}] has norm {norms[b]:.6g}, above its bound {self.bound[b]:g}")
        if self.moderators is not None:
            self.fits(made.shape[2])
            if made[:, ~self.moderators].any():
                raise ValueError("theta must be 0 where the moderators of a feature leave out an entry of the context")
        weights: Floats = np.einsum("sa...q,saqd->sa...d", self.features, check.finite("theta", made)[self.block])
        return weights

    def _differences(self, layout: Layout) -> Floats:
        """[S, A, M, q]: what estimators see of the features."""
        raise NotImplementedError

    def _bases(self, layout: Layout, context_bound: float) -> list[Floats]:
        """Per block orthonormal columns [q, r] that span the features met by its available pairs, but for directions
        in which the bounds let no logit move by more than _UNSEEN. With moderators features are not mixed: those that
        are not 0 throughout."""
        met, made = self._differences(layout), []
        for b in range(self.n_blocks):
            rows = met[(self.block == b) & layout.available].reshape(-1, met.shape[-1])
            if self.moderators is not None:
                made.append(np.eye(rows.shape[1])[:, np.abs(rows).max(0, initial=0.0) > 0.0])
                continue
            _, values, directions = np.linalg.svd(rows, full_matrices=False)
            largest, reach = float(values.max(initial=0.0)), float(self.bound[b]) * context_bound
            if largest * reach > _STEEPEST:
                raise ValueError(
                    f"bound of {self.block_names[b]} must be smaller: with these features and contexts it lets logits "
                    f"be as large as {largest * reach:.3g}"
                )
            rank = int((values > max(_UNSEEN / reach, _ROUNDING * largest)).sum())
            made.append(np.ascontiguousarray(directions[:rank].T))
        return made

    def _columns(self, basis: Floats, context_dim: int) -> list[NDArray[np.int64]]:
        """Per feature that is left the entries of the context that it goes with."""
        if self.moderators is None:
            return [np.arange(context_dim)] * basis.shape[1]
        return [np.flatnonzero(self.moderators[int(i)]) for i in basis.argmax(0)]

    def identified(self, layout: Layout, context_dim: int, context_bound: float = 1.0) -> Blocks:
        """What can be told apart by the pairs of a problem, in coordinates of its own: see the module."""
        met, bases = self._differences(layout), self._bases(layout, context_bound)
        size = np.array([basis.shape[1] for basis in bases], np.int64)
        Q = max(int(size.max(initial=0)), 1)
        columns = [self._columns(basis, context_dim) for basis in bases]
        lengths = [[len(c) for c in listed] for listed in columns]
        features = np.zeros((*met.shape[:3], Q))
        start = np.zeros((self.n_blocks, Q + 1), np.int64)
        column = np.zeros((self.n_blocks, max(1, *(sum(listed) for listed in lengths))), np.int64)
        for b, basis in enumerate(bases):
            at = self.block == b
            features[at, :, : size[b]] = met[at] @ basis
            ends = np.cumsum(lengths[b], dtype=np.int64)
            start[b, 1 : size[b] + 1] = ends
            start[b, size[b] :] = ends[-1] if size[b] else 0
            if size[b]:
                column[b, : ends[-1]] = np.concatenate(columns[b])
        features[~layout.available] = 0.0
        return Blocks(self.block.copy(), np.ascontiguousarray(features), size, self.bound.copy(), start, column)

    def row_bound(self, layout: Layout) -> float:
        """The largest norm of a pair's weights that the bounds of the blocks allow."""
        norms = np.linalg.norm(self._differences(layout), axis=-1) * self.bound[self.block][..., None]
        return max(float(norms[layout.available].max(initial=0.0)), _LEAST)

    def fitted(self, weights: Floats, layout: Layout) -> tuple[Floats, float]:
        """(norms [B], residual): of the smallest Theta_b whose weights are nearest to `weights` [S, A, M, d], given
        relative to the last slot, and the largest distance of a row from those."""
        theta, near = self.nearest(weights, layout)
        away = np.linalg.norm(near - weights, axis=-1)[layout.available]
        return np.linalg.norm(theta, axis=(1, 2)), float(away.max(initial=0.0))

    def nearest(self, weights: Floats, layout: Layout) -> tuple[Floats, Floats]:
        """(theta [B, q, d], its weights [S, A, M, d]): the smallest Theta_b whose weights are nearest to `weights`, by
        the sum of squares over available pairs; both are given relative to the last slot."""
        met, d = self._differences(layout), weights.shape[-1]
        theta = np.zeros((self.n_blocks, met.shape[-1], d))
        for b in range(self.n_blocks):
            at = (self.block == b) & layout.available
            theta[b] = self._least(met[at].reshape(-1, met.shape[-1]), weights[at].reshape(-1, d))
        return theta, np.einsum("samq,saqd->samd", met, theta[self.block])

    def _least(self, rows: Floats, wanted: Floats) -> Floats:
        """The smallest theta [q, d] for which rows theta is nearest to `wanted`."""
        if self.moderators is None:
            return np.asarray(np.linalg.lstsq(rows, wanted, rcond=_ROUNDING)[0])
        theta = np.zeros((rows.shape[1], wanted.shape[1]))
        for c in range(wanted.shape[1]):
            at = self.moderators[:, c]
            if at.any():
                theta[at, c] = np.linalg.lstsq(rows[:, at], wanted[:, c], rcond=_ROUNDING)[0]
        return theta

    def describe(self, context_dim: int | None = None, layout: Layout | None = None) -> str:
        """How many parameters there are, and which pairs share what, in a few lines. context_dim: of the contexts
        (None: 1, or what moderators say). layout: that of a problem, whose support and pairs count."""
        own = 1 if self.moderators is None else self.moderators.shape[1]
        d, S, A = check.integer("context_dim", own if context_dim is None else context_dim), *self.block.shape
        self.fits(d)
        at = full_layout(np.ones((S, A), bool)) if layout is None else layout
        bases, q = self._bases(at, 1.0), self.features.shape[-1]
        sizes = [basis.shape[1] for basis in bases]
        counts = [sum(map(len, self._columns(basis, d))) for basis in bases]
        total, alone = sum(counts), self._alone(at) * d
        said = [
            f"{total} parameters in {self.n_blocks} block{'s' * (self.n_blocks > 1)}; {alone} if every pair had its own"
        ]
        for b, size in enumerate(sizes[:20]):
            pairs = int(((self.block == b) & at.available).sum())
            dropped = f", {q - size} of {q} dropped: they move no odds" if size < q else ""
            entries = f"{size} features x {d}" if counts[b] == size * d else f"{size} features, {counts[b]} entries"
            said.append(
                f"  {self.block_names[b]}: {pairs} pair{'s' * (pairs != 1)}, {entries}, "
                f"norm at most {self.bound[b]:g}{dropped}"
            )
        if len(sizes) > 20:
            said.append(f"  and {len(sizes) - 20} more blocks")
        shown = ", ".join(self.names[:12]) + (", ..." if len(self.names) > 12 else "")
        return "\n".join([*said, f"  features: {shown}"])

    def _alone(self, layout: Layout) -> int:
        raise NotImplementedError


class Design(_Shared):
    """Which weights of the next states pairs have in common.

    features      phi [S, A, S', q]; next states outside the support do not count
    bound         B_b >= ||Theta_b||_F, one number, or one per block. An assumption, like `Problem.weight_bound`
    block         the block of every pair, integers [S, A]; None: all pairs are in one
    names         of the q features; block_names: of the blocks
    moderators    bool [q, d]: which entries of the context a feature goes with, Theta_b being 0 elsewhere; None: all.
                  A drug's effect may depend on age and sex alone; how people stay where they are, on nothing

    `from_tables` makes the features from attributes by name, `per_pair` and `per_action` without any.

    >>> import noregret as nr
    >>> design = nr.Design.from_tables(
    ...     ["change.health", "action.dose * change.health"],
    ...     bound=3.0,
    ...     states={"health": [0.0, 0.5, 1.0]},
    ...     actions={"dose": [0.0, 1.0]},
    ... )
    >>> print(design.describe(context_dim=4))
    8 parameters in 1 block; 48 if every pair had its own
      block 0: 6 pairs, 2 features x 4, norm at most 3
      features: change.health, action.dose * change.health
    >>> problem = nr.Problem(3, 2, horizon=5, context_dim=4, design=design, reward_bound=1.0)
    >>> problem.weight_bound  # no row of weights can be longer
    4.242640687119286
    """

    _axes = "(S, A, S', q)"

    @staticmethod
    def _square(features: Floats) -> bool:
        return bool(features.shape[2] == features.shape[0])

    @classmethod
    def per_pair(cls, n_states: int, n_actions: int, bound: float | ArrayLike) -> Self:
        """A block per pair, a feature per next state: the paper's model. bound: of the whole matrix of a pair, in
        coordinates in which its rows sum to 0."""
        S, A = check.integer("n_states", n_states), check.integer("n_actions", n_actions)
        features = np.broadcast_to(np.eye(S), (S, A, S, S))
        names = [f"state {s}, action {a}" for s in range(S) for a in range(A)]
        numbers = np.arange(S * A).reshape(S, A)
        return cls(features, bound, numbers, [f"next state {j}" for j in range(S)], names)

    @classmethod
    def per_action(cls, n_states: int, n_actions: int, bound: float | ArrayLike) -> Self:
        """A block per action: every action has a row of weights per next state, the same in all states, and one more
        for staying where one is, so that the state shifts the odds."""
        S, A = check.integer("n_states", n_states), check.integer("n_actions", n_actions)
        features = np.zeros((S, A, S, S + 1))
        features[..., :S] = np.eye(S)
        features[np.arange(S), :, np.arange(S), S] = 1.0
        names = [*(f"next state {j}" for j in range(S)), "stay"]
        return cls(features, bound, np.broadcast_to(np.arange(A), (S, A)), names, [f"action {a}" for a in range(A)])

    @classmethod
    def from_tables(
        cls,
        terms: Sequence[str],
        bound: float | ArrayLike,
        states: Mapping[str, ArrayLike] | None = None,
        actions: Mapping[str, ArrayLike] | None = None,
        blocks: str | Sequence[str] = (),
        contexts: Sequence[str] | None = None,
    ) -> Self:
        """From attributes of states and actions, by name.

        states    {name: a value per state}: numbers (ordered levels), or text for categories
        actions   {name: a value per action}, likewise
        terms     features, each a product of factors joined by *:
                      state.NAME, action.NAME, next.NAME    an attribute; next: of the next state
                      change.NAME, rise.NAME, fall.NAME     next minus present, where that is positive, or negative
                      state, action, next, stay             the state, action or next state itself; next = present
                  A category, and whatever has no NAME, has a feature per value. Behind "by" may stand the entries of
                  the context that the feature goes with: "change.health by intercept, age"; without it, all do
        contexts  names of the entries of the context, where terms name some
        blocks    factors in which pairs must agree to share weights, such as "action"; none: all pairs are one block

        A term without next, change, rise, fall or stay moves all next states alike, so it moves no odds and is dropped.
        """
        tables = Tables(states, actions)
        features, names, moderators = columns_of(tables, terms, True, contexts)
        block, block_names = blocks_of(tables, blocks)
        return cls(features, bound, block, names, block_names, moderators)

    def weights(self, theta: ArrayLike) -> Floats:
        """W [S, A, S', d] of a `World`: row j is phi(s, a, j)' Theta_b. theta [B, q, d], within the bounds."""
        return self._weights(theta)

    def _differences(self, layout: Layout) -> Floats:
        S, A, M = layout.outcomes.shape
        s, a = np.ogrid[:S, :A]
        met: Floats = self.features[s[..., None], a[..., None], layout.outcomes]
        last = np.take_along_axis(met, (layout.count - 1)[..., None, None], axis=2)
        return np.where((np.arange(M) < layout.count[..., None])[..., None], met - last, 0.0)

    def _alone(self, layout: Layout) -> int:
        return int((layout.count - 1)[layout.available].sum())


class RewardDesign(_Shared):
    """Which weights of the mean rewards pairs have in common: features psi [S, A, q], else as `Design`.

    >>> import noregret as nr
    >>> design = nr.RewardDesign.from_tables(
    ...     ["state.health", "action.cost"], bound=1.5,
    ...     states={"health": [0.0, 0.5, 1.0]}, actions={"cost": [0.0, -0.1]},
    ... )
    >>> design.features.shape, design.names
    ((3, 2, 2), ('state.health', 'action.cost'))
    """

    _axes = "(S, A, q)"

    @classmethod
    def per_pair(cls, n_states: int, n_actions: int, bound: float | ArrayLike) -> Self:
        """A block with one feature, 1, per pair: the paper's model."""
        S, A = check.integer("n_states", n_states), check.integer("n_actions", n_actions)
        names = [f"state {s}, action {a}" for s in range(S) for a in range(A)]
        return cls(np.ones((S, A, 1)), bound, np.arange(S * A).reshape(S, A), ["reward"], names)

    @classmethod
    def from_tables(
        cls,
        terms: Sequence[str],
        bound: float | ArrayLike,
        states: Mapping[str, ArrayLike] | None = None,
        actions: Mapping[str, ArrayLike] | None = None,
        blocks: str | Sequence[str] = (),
        contexts: Sequence[str] | None = None,
    ) -> Self:
        """As `Design.from_tables`, with factors of states and actions alone; "1" is the constant."""
        tables = Tables(states, actions)
        features, names, moderators = columns_of(tables, terms, False, contexts)
        block, block_names = blocks_of(tables, blocks)
        return cls(features[:, :, 0], bound, block, names, block_names, moderators)

    def weights(self, theta: ArrayLike) -> Floats:
        """Reward weights [S, A, d] of a `World`: psi(s, a)' Theta_b. theta [B, q, d], within the bounds."""
        return self._weights(theta)

    def _differences(self, layout: Layout) -> Floats:
        return self.features[:, :, None]

    def _alone(self, layout: Layout) -> int:
        return int(layout.available.sum())


def largest_feature(blocks: Blocks, layout: Layout) -> float:
    """The largest norm of a feature vector of an available pair."""
    return max(float(np.linalg.norm(blocks.features, axis=-1)[layout.available].max(initial=0.0)), math.sqrt(_LEAST))
