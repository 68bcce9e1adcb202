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
from scipy.special import log_ndtr

from ..beliefs.displaced import Rows, rows_at
from ..beliefs.joint import JointSet, Space, space_of, whole_root
from ..checks import Floats
from ..numerics.kronecker_sums import summed_products
from ..numerics.largest_quadratic import largest_quadratic
from ..problem.layout import used_slots
from .remainder import group_norm, row_weights

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
    return summed_products((weights[..., None] * c).swapaxes(1, 2) @ c, x)


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
    joint: JointSet,
    steps: Steps,
    aims: Floats,
    batch: NDArray[np.int64],
    tau: Sequence[float],
    delta: float,
    offset: float = 0.0,
) -> Direction:
    """The same for rewards whose means are linear, and which lie in [0, 1] after `offset` was taken off. With w_i =
    g_i'aim x_i, |sum_i w_i (mean_i - reward_i)| is at most the smaller of two limits of one martingale,

        from Hoeffding's lemma     `limit_of` with the spread W/4, W = sum_i w_i^2, and no widest
        from the means themselves  `limit_within` with the spread sum_i w_i^2 nu_i, nu_i = `variance_proxy` of the means
                                   that the set allows at step i, for tilts up to most |w_i|

    and is linear in the weights: there is no rest. Rewards that are nan were not observed."""
    at = ~np.isnan(steps.reward)
    space, x, s, a = space_of(joint), steps.X[steps.person[at]], steps.state[at], steps.action[at]
    features = space.reward_features[s, a]
    w = np.einsum("tm,tmd,td->t", features, aims[batch[at]], x, optimize=True)
    mean, half = _means(joint, s, a, x)
    slope = ((w[:, None] * features).T @ x).ravel()
    low, high = np.clip(mean - half - offset, 0.0, 1.0), np.clip(mean + half - offset, 0.0, 1.0)
    limit = limit_of(0.25 * float(w @ w), 0.0, tau, delta)
    for t in tau:  # tilts that matter; others are left out of the integral
        precision = 0.25 * float(w @ w) + 1.0 / t**2
        most = limit / precision + 4.0 / math.sqrt(precision)
        spread = float((w**2 * variance_proxies(low, high, most * np.abs(w))).sum()) * (1.0 + 1e-9)
        limit = min(limit, limit_within(spread, most, t, delta / len(tau)))
    none = np.zeros((slope.size, slope.size))
    return Direction(float(w @ (mean - steps.reward[at])), slope, none, none, limit)


def variance_proxies(low: Floats, high: Floats, r: Floats) -> Floats:
    """`estimators.rewards.tilts.variance_proxy` of many ranges of means and reaches r at once: the largest of 2
    chi(mu, u)/u^2 over low <= mu <= high and |u| <= r, chi(mu, u) = ln(1 - mu + mu e^u) - mu u. docs/beyond.md,
    section 4."""
    m = np.where(high < 0.5, high, np.where(low > 0.5, 1.0 - low, 0.5))
    inner = np.clip(m, 1e-12, 0.499)
    u = np.maximum(np.minimum(r, 2.0 * np.log((1.0 - inner) / inner)), 1e-3)
    found = 2.0 * (np.log1p(inner * np.expm1(u)) - inner * u) / u**2 * (1.0 + 1e-6)
    return np.where(m >= 0.499, 0.25, np.minimum(found, 0.25))


def limit_within(spread: float, most: float, tau: float, delta: float) -> float:
    """The smallest c, rounded up, for which

        ln Int over |lambda| <= most of exp( lambda c - lambda^2 h/2 ) N(d lambda; 0, tau^2)  >=  ln(1/delta)

    With k = h + 1/tau^2 it is c^2/(2k) - 1/2 ln(tau^2 k) plus the logarithm of what N(c/k, 1/k) has in [-most, most].
    It increases with c: the integrand is even in lambda but for e^{lambda c}. inf where no c up to 1e6 sqrt(k) does."""
    k = spread + 1.0 / tau**2
    if not math.isfinite(k):
        return math.inf
    s = 1.0 / math.sqrt(k)

    def enough(c: float) -> bool:
        above, below = float(log_ndtr((most - c / k) / s)), float(log_ndtr((-most - c / k) / s))
        inside = above + math.log(-math.expm1(below - above)) if below < above else -math.inf
        return 0.5 * c * c / k - 0.5 * math.log(tau**2 * k) + inside >= math.log(1.0 / delta)

    low, high = 0.0, math.sqrt(k)
    while not enough(high):
        low, high = high, 2.0 * high
        if high > 1e6 * math.sqrt(k):
            return math.inf
    for _ in range(60):  # high is enough at any moment
        c = 0.5 * (low + high)
        low, high = (low, c) if enough(c) else (c, high)
    return high * (1.0 + 1e-9)


def _means(joint: JointSet, s: NDArray[np.int64], a: NDArray[np.int64], x: Floats) -> tuple[Floats, Floats]:
    """(mean rewards at the centre [T], at most how far from them the true ones are [T]) of pairs at contexts [T, d]."""
    blocks, radius = joint.reward_blocks, joint.reward_radius
    which = blocks.block[s, a]
    u = (blocks.features[s, a, 0][:, :, None] * x[:, None, :]).reshape(len(x), -1)
    mean, half = (u * joint.reward_centre.reshape(len(radius), -1)[which]).sum(-1), np.zeros(len(x))
    for b in np.flatnonzero(radius > 0.0):
        at = which == b
        white = np.linalg.solve(np.linalg.cholesky(joint.reward_precision[b]), u[at].T)
        half[at] = radius[b] * np.sqrt((white**2).sum(0)) * (1.0 + 1e-9)
    return mean, half
