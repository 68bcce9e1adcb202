"""Intervals for the value of a policy, or the difference of two, averaged over contexts, from one set of all weights.

Upper and lower values (`optimism`) let every pair choose weights of its own. Here psi, a weighted mean over contexts of
V^pi or of V^pi - V^other, is a function of the one Delta = Theta* - centre, which lies in a product of ellipsoids:

    psi(Theta*) = psi + <g, Delta> + 1/2 Delta'H Delta + rest,            |rest| <= Delta'Q Delta

g and H are the exact derivatives at the centre, Q is proved (`remainder`, docs/joint.md). The right side is bounded
over the ellipsoids by multipliers, each of which gives a valid bound (`trust`). It does not matter what the policies
were chosen from: the statement is about all of them at once.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import checks as check
from ..beliefs.displaced import rows_at
from ..beliefs.joint import JointSet, Space, checked, space_of, whole_root
from ..checks import Floats
from ..numerics.kronecker_sums import summed_products
from ..numerics.largest_quadratic import largest_quadratic
from .derivatives import Expansion, dense, expand
from .directional import Direction
from .occupancy import Visits, visits
from .unrolled import CUBIC, Asked, rest_form

_MEMORY = 2e8  # bytes at a time


class JointInterval(NamedTuple):
    """lower <= psi(Theta*) <= upper wherever every ellipsoid holds. `numerical_` is the same without any rest: not
    proved. first_order: half the width of what the gradient alone gives. remainder: by how much the rest makes half the
    width larger, in units of first_order."""

    lower: float
    upper: float
    centre: float
    first_order: float
    remainder: float
    numerical_lower: float
    numerical_upper: float


class Totals(NamedTuple):
    """Sums over contexts, in coordinates in which the set is a product of unit balls."""

    value: float
    slope: Floats  # [p]
    bend: Floats  # [p, p]
    rest: Floats  # [p, p]
    error: float  # from ranges of mean rewards


class Question(NamedTuple):
    """What is asked, for n contexts."""

    X: Floats  # [n, d]
    weights: Floats  # [n]
    start: Floats  # [n, S]
    policy: NDArray[np.int64]  # [n, H, S]
    other: NDArray[np.int64] | None
    ranges: tuple[Floats, Floats] | None  # of mean rewards, [n, S, A]


def joint_interval(
    joint: JointSet,
    contexts: ArrayLike,
    policy: ArrayLike,
    other: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    start: ArrayLike = 0,
    reward_ranges: tuple[ArrayLike, ArrayLike] | None = None,
    directions: Sequence[Direction] = (),
    within: tuple[float, float] = (-math.inf, math.inf),
) -> JointInterval:
    """An interval for the mean of V^policy, or of V^policy - V^other, over contexts [N, d].

    policy          actions [H, S] for all contexts, or [N, H, S]; other: likewise, None: the value itself
    weights         of the contexts, at least 0; divided by their sum; None: equal
    start           a state, or a distribution [S] or [N, S] over states
    reward_ranges   (low, high), [N, S, A] or [S, A]: mean rewards lie between them, and the set of rewards is not used.
                    So for rewards that are not linear in the context
    directions      what the data say along directions (`directional`), on events of their own
    within          what psi is known to lie in: the result is the intersection
    """
    asked = _asked(checked(joint), contexts, policy, other, weights, start, reward_ranges)
    if reward_ranges is not None:
        joint = joint._replace(reward_radius=np.zeros_like(joint.reward_radius))
    known = all(np.isfinite(radius).all() for radius in (joint.radius, joint.reward_radius))
    if not known:  # an ellipsoid that says nothing
        joint = joint._replace(
            radius=0.0 * joint.precision[:, 0, 0], reward_radius=0.0 * joint.reward_precision[:, 0, 0]
        )
    space = space_of(joint)
    found = _interval(_totals(joint, space, asked), space, joint.centre.shape[-1], directions, within)
    return found if known else JointInterval(*within, found.centre, math.inf, math.inf, -math.inf, math.inf)


def _asked(joint: JointSet, contexts: Any, policy: Any, other: Any, weights: Any, start: Any, ranges: Any) -> Question:
    S, A = joint.layout.available.shape
    X = check.finite("contexts", check.rows("contexts", contexts, joint.centre.shape[-1]))
    N = X.shape[0]
    shares = np.ones(N) if weights is None else check.finite("weights", check.array("weights", weights, (N,)))
    if shares.min() < 0.0 or not 0.0 < shares.sum() < math.inf:
        raise ValueError("weights must be at least 0 and not all 0")
    begin = np.asarray(start)
    if begin.ndim == 0:
        begin = np.eye(S)[check.integer("start", begin.item(), 0)] if begin.item() < S else np.zeros(S)
    begin = np.broadcast_to(begin, (N, S)).astype(np.float64)
    if not (begin >= 0.0).all() or np.abs(begin.sum(1) - 1.0).max() > 1e-9:
        raise ValueError(f"start must be a state from 0 to {S - 1}, or distributions over states")
    made = _policy("policy", policy, joint, N)
    against = None if other is None else _policy("other", other, joint, N)
    bounds = None
    if ranges is not None:
        low, high = (
            np.broadcast_to(check.finite("reward_ranges", np.asarray(part, float)), (N, S, A)) for part in ranges
        )
        if (low > high).any():
            raise ValueError("reward_ranges must not be empty")
        bounds = low, high
    return Question(X, shares / shares.sum(), begin, made, against, bounds)


def _policy(name: str, given: Any, joint: JointSet, N: int) -> NDArray[np.int64]:
    H, (S, A) = joint.horizon, joint.layout.available.shape
    made = check.anything(name, given)
    if made.dtype.kind not in "iu" or made.shape not in ((H, S), (N, H, S)):
        raise ValueError(f"{name} must be actions, integers of shape {(H, S)} or {(N, H, S)}")
    if made.min() < 0 or made.max() >= A or not joint.layout.available[np.arange(S), made].all():
        raise ValueError(f"{name} must take available actions only")
    return np.broadcast_to(made, (N, H, S)).astype(np.int64)


def _totals(joint: JointSet, space: Space, asked: Question, rest_too: bool = True) -> Totals:
    """Added up over contexts, some at a time; rest_too=False: without the rest."""
    (S, A, M), m, d, H = joint.layout.outcomes.shape, space.rows, asked.X.shape[1], joint.horizon
    each = 8.0 * (S * A * M * (6 * M + 4 * m) + 12 * H * S * m * m + 4 * H * S * S * max(S, m) + 6 * S * M * m * m)
    each += 8.0 * 12 * S * m**3 if m <= CUBIC else 0.0
    size = max(1, int(_MEMORY / each))
    p = m * d
    sums: list[Any] = [0.0, np.zeros((m, d)), np.zeros((p, p)), np.zeros((p, p)), 0.0]
    for i in range(0, asked.X.shape[0], size):
        part = _cut(asked, slice(i, i + size))
        sums = [whole + more for whole, more in zip(sums, _part(joint, space, part, rest_too), strict=True)]
    root = whole_root(space, d)
    value, g, bend, rest, error = sums
    bend, rest = (root.T @ (0.5 * (part + part.T)) @ root for part in (bend, rest))
    return Totals(float(value), root.T @ g.ravel(), bend, rest, float(error))


def _cut(asked: Question, at: slice) -> Question:
    other = None if asked.other is None else asked.other[at]
    ranges = None if asked.ranges is None else (asked.ranges[0][at], asked.ranges[1][at])
    return Question(asked.X[at], asked.weights[at], asked.start[at], asked.policy[at], other, ranges)


def _means(joint: JointSet, asked: Question) -> Floats:
    """Mean rewards at the centre, [n, S, A]."""
    if asked.ranges is not None:
        return 0.5 * (asked.ranges[0] + asked.ranges[1])
    weights = np.einsum("bqd,nd->nbq", joint.reward_centre, asked.X)[:, joint.reward_blocks.block]
    made: Floats = np.einsum("saq,nsaq->nsa", joint.reward_blocks.features[:, :, 0], weights)
    return made


def _part(joint: JointSet, space: Space, asked: Question, rest_too: bool) -> list[Any]:
    """(value, g [m, d], H [m d, m d], Q, error) of some contexts."""
    layout, rows = joint.layout, rows_at(joint, space, asked.X)
    full = dense(layout, rows.P)
    reward = _means(joint, asked), space.reward_features
    expansions = [expand(rows, full, reward, layout, asked.policy)]
    made = expansions[0]
    if asked.other is not None:
        expansions.append(expand(rows, full, reward, layout, asked.other))
        made = Expansion(*(a - b for a, b in zip(*expansions, strict=True)))
    begin = asked.start * asked.weights[:, None]
    value = (begin * made.V[:, 0]).sum()
    g = np.einsum("ns,nsm,nd->md", begin, made.D[:, 0], asked.X, optimize=True)
    H = summed_products(np.einsum("ns,nsij->nij", asked.start, made.E[:, 0]), asked.X, asked.weights)
    if not rest_too:
        return [value, g, H, np.zeros_like(H), 0.0]
    inside = Asked(asked.start, asked.policy, asked.other), tuple(_white(one, rows.roots) for one in expansions)
    inverse = np.linalg.inv(rows.roots)
    rest = inverse @ rest_form(*inside, rows, full, space.starts, layout) @ inverse
    Q = summed_products(rest, asked.X, asked.weights)
    if asked.ranges is None:
        return [value, g, H, Q, 0.0]
    met = visits(rows, layout, full, asked.start, asked.policy, asked.other)
    return [value, g, H, Q, _range_error(asked, met)]


def _white(made: Expansion, roots: Floats) -> Expansion:
    """Derivatives in the coordinates y, u = root y."""
    wide = roots[:, None, None]
    return Expansion(made.V, made.D @ roots[:, None], wide @ made.E @ wide)


def _range_error(asked: Question, met: Visits) -> float:
    """At most what mean rewards away from the middle of their ranges change: nothing while the policies agree."""
    assert asked.ranges is not None
    half, total = 0.5 * (asked.ranges[1] - asked.ranges[0]), 0.0
    i, s = np.arange(half.shape[0])[:, None, None], np.arange(half.shape[1])[None, None]
    for policy, mass in ((asked.policy, met.apart), (asked.other, met.other)):
        if policy is not None:
            total += float((asked.weights[:, None, None] * mass * half[i, s, policy]).sum())
    return total


def _interval(
    totals: Totals, space: Space, d: int, directions: Sequence[Direction], within: tuple[float, float]
) -> JointInterval:
    groups = tuple((first * d, last * d) for first, last in space.starts)
    value, g, bend, rest, error = totals
    if not math.isfinite(value + error):
        raise ValueError("contexts and centre must be such that values are numbers")
    if not groups:
        found = value - error, value + error
        return JointInterval(max(found[0], within[0]), min(found[1], within[1]), value, 0.0, 0.0, *found)
    root = whole_root(space, d)
    known = [
        Direction(one.start, root.T @ one.slope, root.T @ one.bend @ root, root.T @ one.rest @ root, one.limit)
        for one in directions
        if math.isfinite(one.limit)
    ]
    first = float(sum(np.linalg.norm(g[a:b]) for a, b in groups))
    none = np.zeros_like(rest)
    short = [one._replace(rest=none) for one in known]
    above, below = _largest(g, bend, rest, known, groups), _largest(-g, -bend, rest, known, groups)
    up, down = _largest(g, bend, none, short, groups), _largest(-g, -bend, none, short, groups)
    up, down = min(up, above), min(down, below)  # where the search for multipliers ended elsewhere
    more = 0.5 * (above + below - up - down)
    low, high = max(value - below - error, within[0]), min(value + above + error, within[1])
    ratio = more / first if first > 0.0 else (math.inf if more > 0.0 else 0.0)
    return JointInterval(low, high, value, first, ratio, value - down - error, value + up + error)


def _largest(g: Floats, bend: Floats, rest: Floats, known: Sequence[Direction], groups: Any) -> float:
    """At least <g, y> + 1/2 y'bend y + y'rest y on the set. Of every direction a multiple kappa may be taken off, which
    costs kappa start and |kappa| limit; all kappa are valid, and 0 is among those tried."""
    kappas = np.zeros(len(known))

    def bound() -> float:
        slope, form, paid = g, bend + 2.0 * rest, 0.0
        for kappa, one in zip(kappas, known, strict=True):
            slope = slope - kappa * one.slope
            form = form - 2.0 * kappa * one.bend + 2.0 * abs(kappa) * one.rest
            paid += abs(kappa) * one.limit - kappa * one.start
        made = largest_quadratic(slope, form, groups) + paid
        return math.inf if math.isnan(made) else float(made)

    best = bound()
    for i in [*range(len(known))] * (2 if len(known) > 1 else 1):
        one, kept = known[i], float(kappas[i])
        most = float(g @ one.slope) / max(float(one.slope @ one.slope), 1e-300)
        low, high = -1.5, 1.5
        for _ in range(26):  # the bound is convex in kappa
            thirds = low + (high - low) * np.array([0.382, 0.618])
            found = []
            for share in thirds:
                kappas[i] = share * most
                found.append(bound())
            low, high = (low, float(thirds[1])) if found[0] <= found[1] else (float(thirds[0]), high)
            if min(found) < best:
                best, kept = min(found), float(thirds[int(np.argmin(found))]) * most
        kappas[i] = kept
    return best


def aim_of(
    joint: JointSet, contexts: ArrayLike, policy: ArrayLike, other: ArrayLike | None = None, **more: Any
) -> Floats:
    """[m, d], the direction of weights in which psi changes most for what the set knows, precision^{-1} g: an aim for
    `directional`. people=: how many individuals the set has learned from; aim'precision aim is that number, so that
    aims made at different times have about the same length. More options: weights and start of `joint_interval`."""
    people = float(more.pop("people", 1.0))
    asked = _asked(checked(joint), contexts, policy, other, more.get("weights"), more.get("start", 0), None)
    space, d = space_of(joint), joint.centre.shape[-1]
    inside, root = _totals(joint, space, asked, rest_too=False).slope, whole_root(space, d)
    radii = [
        radius[(radius > 0.0) & (blocks.size > 0)]
        for radius, blocks in ((joint.radius, joint.blocks), (joint.reward_radius, joint.reward_blocks))
    ]
    scale = np.concatenate(
        [np.full((b - a) * d, r) for (a, b), r in zip(space.starts, np.concatenate(radii), strict=True)]
    )
    length = math.sqrt(float(((inside / scale) ** 2).sum()))
    made: Floats = (root @ (inside / scale**2)).reshape(space.rows, d) * (math.sqrt(people) / max(length, 1e-300))
    return made
