"""What is believed about the weights of all pairs together: an ellipsoid per block of a design.

`LocalSets` forgets that pairs share weights. A `JointSet` keeps it: block b of the transitions has weights Theta_b
[q_b, d], block b of the rewards weights Theta_r,b, and

    ||vec(Theta*_b - centre_b)||_precision_b <= radius_b          for every block, of transitions and of rewards

`planning.joint` bounds values of policies on that event. How the ellipsoids were found is not its concern.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats
from ..problem.design import Blocks
from ..problem.layout import Layout


class JointSet(NamedTuple):
    """Feature i and column c of a block's weights have the index i d + c; what is beyond a block's size is not looked
    at. Where a radius is 0, the weights are known and are the centre's; where it is infinite, nothing is known."""

    layout: Layout
    blocks: Blocks  # of the transitions
    centre: Floats  # [B, Q, d]
    precision: Floats  # [B, Q d, Q d]
    radius: Floats  # [B], not squared
    reward_blocks: Blocks  # features [S, A, 1, Q_r]
    reward_centre: Floats  # [B_r, Q_r, d]
    reward_precision: Floats  # [B_r, Q_r d, Q_r d]
    reward_radius: Floats  # [B_r]
    horizon: int


def checked(joint: JointSet) -> JointSet:
    """The same, if its parts fit together: shapes, finite numbers, radii that are not negative."""
    S, A, M = joint.layout.outcomes.shape
    check.integer("horizon", joint.horizon)
    d = joint.centre.shape[-1]
    parts = (
        ("", joint.blocks, joint.centre, joint.precision, joint.radius, M),
        ("reward_", joint.reward_blocks, joint.reward_centre, joint.reward_precision, joint.reward_radius, 1),
    )
    for name, blocks, centre, precision, radius, slots in parts:
        B, Q = blocks.size.size, blocks.features.shape[-1]
        check.array(f"{name}blocks.features", blocks.features, (S, A, slots, Q))
        check.array(f"{name}centre", centre, (B, Q, d))
        check.array(f"{name}precision", precision, (B, Q * d, Q * d))
        if radius.shape != (B,) or not (radius >= 0.0).all():  # inf: a set that says nothing
            raise ValueError(f"{name}radius must be at least 0 for each of {B} blocks")
    return joint


class Space(NamedTuple):
    """The unknown weights of a `JointSet` one after the other. Delta [m, d] has a row per feature of every block whose
    radius is not 0, transitions first; one individual sees u = Delta x in R^m. Ellipsoids are numbered by groups."""

    starts: tuple[tuple[int, int], ...]  # per group: its rows of Delta
    features: Floats  # [S, A, M, m]
    reward_features: Floats  # [S, A, m]
    roots: tuple[Floats, ...]  # per group [p, p]: {root y: ||y|| <= 1} is the ellipsoid, p = rows d

    @property
    def rows(self) -> int:
        return int(self.features.shape[-1])


def space_of(joint: JointSet) -> Space:
    """Where the unknown weights are, and the ellipsoids as images of unit balls: root = radius precision^{-1/2}."""
    d, roots, found = joint.centre.shape[-1], [], []
    starts: list[tuple[int, int]] = []
    parts = (
        (joint.blocks, joint.precision, joint.radius),
        (joint.reward_blocks, joint.reward_precision, joint.reward_radius),
    )
    for blocks, precision, radius in parts:
        group = np.full(blocks.size.size, -1, np.int64)
        for b in np.nonzero((radius > 0.0) & (blocks.size > 0))[0]:
            first, size = (starts[-1][1] if starts else 0), int(blocks.size[b])
            group[b] = len(starts)
            starts.append((first, first + size))
            roots.append(_root(precision[b, : size * d, : size * d], float(radius[b])))
        found.append(group)
    m = max(starts[-1][1] if starts else 0, 1)
    placed = [_placed(blocks, group, starts, m) for (blocks, _, _), group in zip(parts, found, strict=True)]
    return Space(tuple(starts), placed[0], placed[1][:, :, 0], tuple(roots))


def whole_root(space: Space, d: int) -> Floats:
    """The roots of all groups in one matrix, [m d, m d]."""
    made = np.zeros((space.rows * d, space.rows * d))
    for (first, last), own in zip(space.starts, space.roots, strict=True):
        made[first * d : last * d, first * d : last * d] = own
    return made


def _root(precision: Floats, radius: float) -> Floats:
    try:
        lower = np.linalg.cholesky(0.5 * (precision + precision.T))
    except np.linalg.LinAlgError:
        raise ValueError("precision must be positive definite wherever a radius is not 0") from None
    root: Floats = radius * np.linalg.solve(lower.T, np.eye(lower.shape[0]))
    return root


def _placed(blocks: Blocks, group: NDArray[np.int64], starts: list[tuple[int, int]], m: int) -> Floats:
    """Features [S, A, M, m] in the rows of their group, 0 elsewhere."""
    made = np.zeros((*blocks.features.shape[:3], m))
    for b, g in enumerate(group):
        if g >= 0:
            at, (first, last) = blocks.block == b, starts[g]
            made[at, :, first:last] = blocks.features[at][..., : last - first]
    return made
