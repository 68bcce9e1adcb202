"""One direction in which the data say more than an ellipsoid does. docs/joint.md, section 9.

The radius of a joint set pays for all parameters. A question psi has one gradient. So let U_i be directions in the
space of weights, each fixed from data before step i. Along it the logits of step i are displaced by v_i, and the mean
reward by w_i. With y_i the next state that came, p*_i its true distribution, r_i the reward and mu*_i its true mean,

    xi*_i = <p*_i, v_i> - v_i,y_i + w_i (mu*_i - r_i)

has mean 0 given the past, however next state and reward depend on each other, and |xi*_i| <= c_i = span(v_i) + |w_i|,
which is known before the step. So

    M = Int over |lambda| max c_i < 1 of prod_i (1 + lambda xi*_i) N(d lambda; 0, tau^2)

is a nonnegative supermartingale that begins at most at 1. On the event M < 1/delta the sum S* = sum_i xi*_i is at most
`limit` in size. S* is a known function of Theta*, up to a rest that is bounded as in `remainder`:

    S* = start + <slope, Delta> + Delta'bend Delta + rest,     |rest| <= Delta'rest Delta,     |S*| <= limit

and so is one more thing known about Delta, which `joint_interval` may use with any multiplier.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..beliefs.displaced import rows_at
from ..beliefs.joint import JointSet, Space, space_of, whole_root
from ..checks import Floats
from ..numerics.kronecker_sums import summed_products
from ..numerics.largest_quadratic import largest_quadratic
from ..problem.layout import used_slots
from .remainder import row_weights

_PEOPLE = 200  # at a time
_REACH = 0.9  # |lambda| max c_i: beyond it the bound on ln(1 + x) is poor, and nothing is to be had
_WIDTHS = 40.0  # of the integrand: what is farther out is nothing
_NODES = 2001
_CELLS = 1000  # of sizes, each rounded up
PLANNED = 0.8  # the share of the mixture that is tuned, where there is a plan


class Steps(NamedTuple):
    """Steps in the order in which they were taken."""

    X: Floats  # [n, d], contexts of individuals
    person: NDArray[np.int64]  # [T], which of them
    state: NDArray[np.int64]  # [T]
    action: NDArray[np.int64]  # [T]
    slot: NDArray[np.int64]  # [T], of the next state
    reward: Floats  # [T], nan: not observed


class Direction(NamedTuple):
    """What the data say along one direction: |start + <slope, Delta> + Delta'bend Delta + rest| <= limit."""

    start: float
    slope: Floats  # [p], p = m d
    bend: Floats  # [p, p]
    rest: Floats  # [p, p]
    limit: float


class _Sums(NamedTuple):
    """Over steps; xi is at the centre. square, square_slope, square_rest: sum xi*^2 is at most square + <square_slope,
    Delta> + Delta'square_rest Delta."""

    start: float
    slope: Floats
    bend: Floats
    rest: Floats
    square: float
    square_slope: Floats
    square_rest: Floats


def direction_of(
    joint: JointSet,
    steps: Steps,
    aims: Floats,
    batch: NDArray[np.int64],
    tau: float,
    delta: float,
    planned: float = 0.0,
) -> Direction:
    """aims [K, m, d], rows as in `beliefs.joint.Space`; batch [T]: the aim of each step. planned: the lambda that the
    limit is tuned for, 0: none. An aim, tau, planned and where batches begin must be known before the first step they
    are used for: that is what the martingale needs, and it cannot be checked here. Rewards lie in a range of length 1
    and have linear means. Whether one is observed may depend on the past, and on nothing that tells of the reward: not
    on the next state where the two depend on each other. Holds with probability 1 - delta, beside the event of the
    joint set."""
    space, d = space_of(joint), steps.X.shape[1]
    parts, sizes, widths = [], [], [np.zeros(1)]
    for first in range(0, steps.X.shape[0], _PEOPLE):
        at = np.nonzero((steps.person >= first) & (steps.person < first + _PEOPLE))[0]
        if at.size:
            found, size, width = _sums(joint, space, steps, aims[batch[at]], at, first)
            parts.append(found)
            sizes.append(size)
            widths.append(width)
    if not parts:
        none = np.zeros(space.rows * d)
        return Direction(0.0, none, np.outer(none, none), np.outer(none, none), 0.0)
    total = _Sums(*(np.sum(part, axis=0) for part in zip(*parts, strict=True)))
    root, groups = whole_root(space, d), tuple((a * d, b * d) for a, b in space.starts)
    more = largest_quadratic(root.T @ total.square_slope, 2.0 * root.T @ total.square_rest @ root, groups)
    size, widest = np.concatenate(sizes), float(np.concatenate(widths).max())
    square = min(float(total.square) + more, float(size @ size))
    if planned > 0.0:
        tuned = planned_limit_of(square, size, widest, planned, PLANNED * delta)
        limit = min(tuned, limit_of(square, size, widest, tau, (1.0 - PLANNED) * delta))
    else:
        limit = limit_of(square, size, widest, tau, delta)
    return Direction(float(total.start), total.slope, total.bend, total.rest, limit)


def _sums(
    joint: JointSet, space: Space, steps: Steps, aims: Floats, at: NDArray[np.int64], first: int
) -> tuple[_Sums, Floats, Floats]:
    """Of the steps `at`, those of individuals first, first + 1, ...; aims [T, m, d], per step. Also, for each step, at
    least |xi*| on the set, and c, which is at least |xi*| whatever is true."""
    rows = rows_at(joint, space, steps.X[first : first + _PEOPLE])
    s, a = steps.state[at], steps.action[at]
    pick, x, used = (steps.person[at] - first, s, a), steps.X[steps.person[at]], used_slots(joint.layout)[s, a]
    v = np.einsum("tkm,tmd,td->tk", space.features[s, a], aims, x, optimize=True)
    P, c, most = rows.P[pick], rows.centred[pick], rows.most[pick]
    mean = (P * v).sum(-1)
    tilde = (v - mean[:, None]) * used
    span = np.where(used, v, -np.inf).max(-1) - np.where(used, v, np.inf).min(-1)
    paying = space.reward_features[s, a]
    tilt = np.einsum("tm,tmd,td->t", paying, aims, x, optimize=True)
    seen, (expected, half) = ~np.isnan(steps.reward[at]), _means(joint, s, a, x)
    w = np.where(seen, tilt, 0.0)
    xi = mean - v[np.arange(at.size), steps.slot[at]] + w * np.where(seen, expected - steps.reward[at], 0.0)
    width = span + np.abs(tilt)
    size = np.abs(xi) + (rows.off[pick] * np.abs(tilde)).sum(-1) + np.abs(w) * half
    left = row_weights(v, span, rows, space.starts, pick)
    curved = xi[:, None] * P * tilde + 2.0 * np.abs(xi)[:, None] * left
    curved += 2.0 * (most * tilde**2).sum(-1, keepdims=True) * most
    made = _Sums(
        float(xi.sum()),
        _linear(P * tilde, c, x) + _linear(w[:, None], paying[:, None], x),
        _square(0.5 * P * tilde, c, x),
        _square(left, c, x),
        float(xi @ xi),
        2.0 * (_linear(xi[:, None] * P * tilde, c, x) + _linear((xi * w)[:, None], paying[:, None], x)),
        _square(curved, c, x) + _square(2.0 * w[:, None] ** 2, paying[:, None], x),
    )
    return made, np.minimum(size, width), width


def _linear(weights: Floats, c: Floats, x: Floats) -> Floats:
    """sum over steps of sum_k w_k c_k (x) x, [m d]."""
    return np.asarray(np.einsum("tkm,tk->tm", c, weights, optimize=True).T @ x).ravel()


def _square(weights: Floats, c: Floats, x: Floats) -> Floats:
    """sum over steps of sum_k w_k c_k c_k' (x) xx', [m d, m d]."""
    return summed_products((weights[..., None] * c).swapaxes(1, 2) @ c, x)


def limit_of(square: float, sizes: Floats, widest: float, tau: float, delta: float) -> float:
    """The smallest c, rounded up, for which the bound on ln M exceeds ln(1/delta):

        ln Int exp( lambda c - lambda^2 h/2 - sum_i t(|lambda| m_i) ) N(d lambda; 0, tau^2)  over |lambda| widest <= .9

    with h = square >= sum xi*^2, m_i = sizes >= |xi*_i| and ln(1 + x) >= x - x^2/2 - t(|x|), t(b) = -ln(1 - b) - b -
    b^2/2. The exponent is concave, so between nodes the integrand is at least its interpolation in logarithms, and what
    is outside of them is left out: the sum is below the integral, and c above its root."""
    if not (math.isfinite(square) and math.isfinite(widest) and np.isfinite(sizes).all()):
        return math.inf
    precision = square + tau**-2
    reach = min(_REACH / max(widest, 1e-300), _WIDTHS / math.sqrt(precision))
    nodes = reach * np.linspace(-1.0, 1.0, _NODES)
    cost = 0.5 * precision * nodes**2 + _third(np.abs(nodes), sizes, widest)
    wanted = math.log(1.0 / delta) + 0.5 * math.log(2.0 * math.pi) + math.log(tau)

    def enough(c: float) -> bool:
        f = nodes * c - cost
        gap = np.abs(np.diff(f))
        mean = np.where(gap < 1e-6, 1.0 - 0.5 * gap, -np.expm1(-gap) / np.maximum(gap, 1e-9))
        logs = np.maximum(f[1:], f[:-1]) + np.log(mean)
        best = float(logs.max())
        return best + math.log(float(np.exp(logs - best).sum()) * float(nodes[1] - nodes[0])) >= wanted

    low, high = 0.0, math.sqrt(precision)
    while not enough(high):
        low, high = high, 2.0 * high
    for _ in range(40):  # high is enough at any moment
        c = 0.5 * (low + high)
        low, high = (low, c) if enough(c) else (c, high)
    return high * (1.0 + 1e-9)


def planned_limit_of(square: float, sizes: Floats, widest: float, at: float, delta: float) -> float:
    """As `limit_of`, with lambda = at or -at, each with probability 1/2, in the place of the normal law: the smallest
    c, rounded up, with lambda c - lambda^2 h/2 - sum_i t(lambda m_i) - ln 2 >= ln(1/delta). Least, 1.0 times sqrt(2 h
    ln(2/delta)), where lambda is the root of 2 ln(2/delta)/h."""
    if not (math.isfinite(square) and at * widest <= _REACH and np.isfinite(sizes).all()):
        return math.inf
    cost = 0.5 * at**2 * square + float(_third(np.array([at]), sizes, widest)[0])
    return (math.log(2.0 / delta) + cost) / at * (1.0 + 1e-9)


def _third(at: Floats, sizes: Floats, widest: float) -> Floats:
    """sum_i t(lambda m_i) at lambda >= 0 with lambda widest < 1, sizes rounded up to cells."""
    cell = max(widest, 1e-300) / _CELLS
    count = np.bincount(np.minimum(np.ceil(sizes / cell), _CELLS).astype(np.int64), minlength=_CELLS + 1)
    met = np.flatnonzero(count)
    b = at[:, None] * (met * cell)
    t = np.where(b < 1e-3, b**3 / 3.0 / (1.0 - b), -np.log1p(-b) - b - 0.5 * b**2)
    made: Floats = t @ count[met]
    return made


def _means(joint: JointSet, s: NDArray[np.int64], a: NDArray[np.int64], x: Floats) -> tuple[Floats, Floats]:
    """(mean rewards at the centre [T], at most how far from them the true ones are [T]) of pairs at contexts [T, d]."""
    blocks, radius = joint.reward_blocks, joint.reward_radius
    which = blocks.block[s, a]
    u = (blocks.features[s, a, 0][:, :, None] * x[:, None, :]).reshape(len(x), -1)
    mean, half = (u * joint.reward_centre.reshape(len(radius), -1)[which]).sum(-1), np.zeros(len(x))
    for b in np.flatnonzero(radius > 0.0):
        at, p = which == b, int(blocks.size[b]) * x.shape[1]
        white = np.linalg.solve(np.linalg.cholesky(joint.reward_precision[b, :p, :p]), u[at, :p].T)
        half[at] = radius[b] * np.sqrt((white**2).sum(0)) * (1.0 + 1e-9)
    return mean, half
