"""One direction in which the data say more than an ellipsoid does. docs/joint.md, section 9.

The radius of a joint set pays for all parameters. A question psi has one gradient. So let u_i be directions in the
space of weights, each fixed from data before step i, and v_i the displacements of the logits of step i along u_i. With
y_i the next state that came and p*_i its true distribution,

    M = Int prod_i exp( lambda v_i,y_i - lse(z*_i + lambda v_i) + lse(z*_i) ) N(d lambda; 0, tau^2)

is a nonnegative martingale of mean one. On the event M <= 1/delta the sum S* = sum_i <p*_i, v_i> - v_i,y_i is at most
c in size. S* is a known function of Theta*, up to a rest that is bounded as in `remainder`:

    S* = start + <slope, Delta> + Delta'bend Delta + rest,     |rest| <= Delta'rest Delta,     |S*| <= limit

and so is one more thing known about Delta, which `joint_interval` may use with any multiplier.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..beliefs.joint import JointSet, Space, space_of, whole_root
from ..checks import Floats
from ..problem.layout import used_slots
from .displaced import Rows, rows_at
from .remainder import group_norm, row_weights
from .trust import largest_quadratic

_PEOPLE = 200  # at a time
_NODES = 401


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
    start: float
    slope: Floats
    bend: Floats
    rest: Floats
    spread: Floats  # [3]: sums of Var_p(v), of the most it can be, and the largest span of v
    spread_slope: Floats
    spread_rest: Floats


def transition_direction(
    joint: JointSet, steps: Steps, aims: Floats, batch: NDArray[np.int64], tau: Sequence[float], delta: float
) -> Direction:
    """aims [K, m, d], rows as in `beliefs.joint.Space`; batch [T]: the aim of each step. An aim, tau and where batches
    begin must be known before the first step they are used for: that is what the martingale needs, and it cannot be
    checked here. tau: standard deviations of lambda, mixed with equal weights. Holds with probability 1 - delta, beside
    the event of the joint set."""
    space = space_of(joint)
    d = steps.X.shape[1]
    total: list[Any] = []
    for first in range(0, steps.X.shape[0], _PEOPLE):
        at = np.nonzero((steps.person >= first) & (steps.person < first + _PEOPLE))[0]
        found = _sums(joint, space, steps, aims[batch[at]], at, first)
        if total:
            widest = max(float(total[4][2]), float(found.spread[2]))
            total = [a + b for a, b in zip(total, found, strict=True)]
            total[4][2] = widest
        else:
            total = [np.asarray(part) for part in found]
    start, slope, bend, rest, spread, spread_slope, spread_rest = total
    root = whole_root(space, d)
    groups = tuple((a * d, b * d) for a, b in space.starts)
    more = largest_quadratic(root.T @ spread_slope, 2.0 * root.T @ spread_rest @ root, groups)
    most = min(float(spread[0]) + more, float(spread[1]))
    return Direction(float(start), slope, bend, rest, limit_of(most, float(spread[2]), tau, delta))


def _sums(joint: JointSet, space: Space, steps: Steps, aims: Floats, at: NDArray[np.int64], first: int) -> _Sums:
    """Of the steps `at`, those of individuals first, first + 1, ...; aims [T, m, d], per step."""
    rows: Rows = rows_at(joint, space, steps.X[first : first + _PEOPLE])
    s, a = steps.state[at], steps.action[at]
    pick, x = (steps.person[at] - first, s, a), steps.X[steps.person[at]]
    used = used_slots(joint.layout)[s, a]
    v = np.einsum("tkm,tmd,td->tk", space.features[s, a], aims, x, optimize=True)
    P, c, J1 = rows.P[pick], rows.centred[pick], rows.moments[0][pick]
    mean = (P * v).sum(-1)
    tilde = (v - mean[:, None]) * used
    square = tilde**2
    span = np.where(used, v, -np.inf).max(-1) - np.where(used, v, np.inf).min(-1)
    start = float((mean - v[np.arange(at.size), steps.slot[at]]).sum())
    weights = row_weights(v, span, rows, space.starts, pick)
    variance = (P * square).sum(-1)
    far = np.abs(square - variance[:, None]) * used
    steepest = group_norm((square[:, None, :] @ rows.slope[pick])[:, 0], space.starts)
    spread = np.array([variance.sum(), (rows.most[pick] * square).sum(), span.max(initial=0.0)])
    return _Sums(
        start,
        _linear(P * tilde, c, x),
        _square(0.5 * P * tilde, c, x),
        _square(weights, c, x),
        spread,
        _linear(P * square, c, x),
        _square((far + steepest[:, None]) * J1, c, x),
    )


def _linear(weights: Floats, c: Floats, x: Floats) -> Floats:
    """sum over steps of sum_k w_k c_k (x) x, [m d]."""
    return np.asarray(np.einsum("tkm,tk->tm", c, weights, optimize=True).T @ x).ravel()


def _square(weights: Floats, c: Floats, x: Floats) -> Floats:
    """sum over steps of sum_k w_k c_k c_k' (x) xx', [m d, m d]."""
    (_, _, m), d = c.shape, x.shape[1]
    forms = ((weights[..., None] * c).swapaxes(1, 2) @ c).reshape(-1, m * m)
    squares = (x[:, :, None] * x[:, None, :]).reshape(-1, d * d)
    made: Floats = (forms.T @ squares).reshape(m, m, d, d).transpose(0, 2, 1, 3).reshape(m * d, m * d)
    return made


def limit_of(spread: float, widest: float, tau: Sequence[float], delta: float) -> float:
    """The smallest c for which the bound on ln M exceeds ln(1/delta), rounded up:

        ln Int exp( lambda c - lambda^2 psi(|lambda| r) h ) N(d lambda; 0, tau^2),    psi(r) = (e^r - r - 1)/r^2

    The exponent is concave, so between nodes the integrand is at least its interpolation in logarithms, and what is
    outside of them is left out: the sum is below the integral, and c above its root."""
    if not (math.isfinite(spread) and math.isfinite(widest)):
        return math.inf
    low, high = 0.0, 1.0
    while _log_mixture(high, spread, widest, tau) < math.log(1.0 / delta):
        low, high = high, 2.0 * high
    for _ in range(30):  # high is above the root at any moment
        c = 0.5 * (low + high)
        low, high = (c, high) if _log_mixture(c, spread, widest, tau) < math.log(1.0 / delta) else (low, c)
    return high * (1.0 + 1e-9)


def _log_mixture(c: float, spread: float, widest: float, tau: Sequence[float]) -> float:
    parts = [_log_integral(c, spread, max(widest, 1e-6), t) for t in tau]
    top = max(parts)
    return top + math.log(sum(math.exp(part - top) for part in parts) / len(parts))


def _log_integral(c: float, h: float, r: float, t: float) -> float:
    """Around the largest value of the integrand, which a bisection finds."""
    low, high = 0.0, min(c * t * t, 300.0 / r)
    for _ in range(50):
        at = 0.5 * (low + high)
        low, high = (at, high) if c - h * math.expm1(at * r) / r - at / t**2 > 0.0 else (low, at)
    width = 1.0 / math.sqrt(1.0 / t**2 + h * math.exp(low * r))
    nodes = low + np.linspace(-9.0, 9.0, _NODES) * width
    x = np.abs(nodes) * r
    far = np.minimum(x, 600.0)
    cost = np.where(x < 1e-4, 0.5 + x / 3.0, (np.expm1(far) - far) / np.maximum(x, 1e-9) ** 2) * nodes**2 * h
    f = nodes * c - cost - 0.5 * (nodes / t) ** 2 - 0.5 * math.log(2.0 * math.pi) - math.log(t)
    gap = np.abs(np.diff(f))
    mean = np.where(gap < 1e-6, 1.0 - 0.5 * gap, -np.expm1(-gap) / np.maximum(gap, 1e-9))
    logs = np.maximum(f[1:], f[:-1]) + np.log(mean * np.diff(nodes))
    best = float(logs.max())
    return best + math.log(float(np.exp(logs - best).sum()))


def reward_direction(
    joint: JointSet, steps: Steps, aims: Floats, batch: NDArray[np.int64], tau: float, delta: float
) -> Direction:
    """The same for rewards in [0, 1] whose means are linear. With w_i = g_i'aim x_i, |sum_i w_i (mean_i - reward_i)| is
    at most

        sqrt( 2/tau^2 (1 + tau^2 W/4) (ln(1/delta) + 1/2 ln(1 + tau^2 W/4)) ),     W = sum_i w_i^2

    and is linear in the weights: there is no rest. Rewards that are nan were not observed."""
    at = ~np.isnan(steps.reward)
    space, x, s, a = space_of(joint), steps.X[steps.person[at]], steps.state[at], steps.action[at]
    features = space.reward_features[s, a]
    w = np.einsum("tm,tmd,td->t", features, aims[batch[at]], x, optimize=True)
    centre = np.einsum("bqd,td->tbq", joint.reward_centre, x)
    own = joint.reward_blocks.features[s, a, 0]
    mean = (own * centre[np.arange(x.shape[0]), joint.reward_blocks.block[s, a]]).sum(-1)
    slope = ((w[:, None] * features).T @ x).ravel()
    seen = 1.0 + 0.25 * tau**2 * float(w @ w)
    limit = math.sqrt(2.0 / tau**2 * seen * (math.log(1.0 / delta) + 0.5 * math.log(seen)))
    none = np.zeros((slope.size, slope.size))
    return Direction(float(w @ (mean - steps.reward[at])), slope, none, none, limit)
