"""At most how likely the data are under any model that is declared: certified maxima of concave log-likelihoods.

For concave L, any w and a convex set W, L(w') <= L(w) + <g, w' - w> with g the gradient at w, so that

    max over W of L  <=  L(w) + max over w' in W of <g, w'> - <g, w>.                                            (gap)

Nothing about w has to be true: a poor one makes the bound larger, never wrong. For weights whose rows (groups) have
norm at most B the maximum is B sum ||g_j||; for columns that are distributions it is the sum of their largest entries.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats

CHUNK = 4_000_000  # numbers of features that are laid out at once
ROUNDS = 40  # of Newton's method and of the search for multipliers, at most
CLOSE = 0.02  # a gap of so many nats is left


class Seen(NamedTuple):
    """What one set of weights has to explain. Logits of step i are rows(i) theta, rows [n, M, p]; groups of entries of
    theta have a norm of at most `bound`."""

    rows: Callable[[NDArray[np.int64]], Floats]  # of steps, [k, M, p]
    came: NDArray[np.int64]  # [n], slots of next states
    used: NDArray[np.int64]  # [n], number of slots
    groups: NDArray[np.int64]  # [p]
    bound: float


def most_likely(seen: Seen, bounds: tuple[float, ...]) -> list[float]:
    """At most sum ln p(y) over weights whose groups are no longer than each of the bounds, from the largest on."""
    p, made, theta = seen.groups.size, [], np.zeros(seen.groups.size)
    if seen.came.size == 0 or p == 0:
        return [float(-np.log(seen.used).sum())] * len(bounds)
    for bound in sorted(bounds, reverse=True):
        best, multipliers = np.inf, np.full(int(seen.groups.max()) + 1, 1e-9 * seen.came.size / max(bound, 1e-9) ** 2)
        for _ in range(ROUNDS):
            theta = _newton(seen, theta, multipliers[seen.groups])
            norms = np.sqrt(np.bincount(seen.groups, theta**2))
            inside = theta * np.minimum(1.0, bound / np.maximum(norms, 1e-300))[seen.groups]
            value, gradient, _ = _likelihood(seen, inside, False)
            gap = bound * float(np.sqrt(np.bincount(seen.groups, gradient**2)).sum()) - float(gradient @ inside)
            best = min(best, value + max(gap, 0.0))
            if gap < CLOSE:
                break
            multipliers = np.maximum(multipliers * np.clip((norms / bound) ** 2, 0.1, 10.0), 1e-12)
            tight = norms >= bound * (1.0 - 1e-3)
            push = np.sqrt(np.bincount(seen.groups, gradient**2)) / bound
            multipliers = np.where(tight, np.maximum(multipliers, 0.5 * push), multipliers)
        made.append(min(best, 0.0))
    order = sorted(bounds, reverse=True)
    return [made[order.index(bound)] for bound in bounds]


def _newton(seen: Seen, theta: Floats, penalty: Floats) -> Floats:
    """Of L - penalty'theta^2/2, from theta on."""
    value, gradient, hessian = _likelihood(seen, theta)
    value -= 0.5 * float(penalty @ theta**2)
    for _ in range(ROUNDS):
        slope = gradient - penalty * theta
        step = np.linalg.solve(hessian + np.diag(penalty + 1e-9 * max(1.0, float(np.trace(hessian)))), slope)
        if float(slope @ step) < 1e-7:
            break
        size = 1.0
        while True:
            new = theta + size * step
            made = _likelihood(seen, new)
            worth = made[0] - 0.5 * float(penalty @ new**2)
            if worth >= value or size < 1e-6:
                break
            size *= 0.5
        if worth < value:
            break
        theta, value, gradient, hessian = new, worth, made[1], made[2]
    return theta


def _likelihood(seen: Seen, theta: Floats, curved: bool = True) -> tuple[float, Floats, Floats]:
    """L, its gradient [p] and minus its Hessian [p, p]."""
    p = theta.size
    value, gradient, hessian = 0.0, np.zeros(p), np.zeros((p, p))
    n, size = seen.came.size, max(16, CHUNK // (p * int(seen.used.max())))
    for i in range(0, n, size):
        at = np.arange(i, min(i + size, n))
        A, y, used = seen.rows(at), seen.came[at], seen.used[at]
        z = np.where(np.arange(A.shape[1]) < used[:, None], A @ theta, -np.inf)
        z -= z.max(1, keepdims=True)
        e = np.exp(z)
        total = e.sum(1, keepdims=True)
        P = e / total
        first = np.arange(len(y))
        value += float((z[first, y] - np.log(total[:, 0])).sum())
        mean = np.einsum("km,kmp->kp", P, A)
        gradient += (A[first, y] - mean).sum(0)
        if curved:
            rooted = (np.sqrt(P)[..., None] * (A - mean[:, None])).reshape(-1, p)
            hessian += rooted.T @ rooted
    return value, gradient, hessian


def most_likely_linear(X: Floats, y: NDArray[np.int64], n: int) -> float:
    """The same where P(j | x) = w_j'x, contexts x [k, d] distributions and every column of W [n, d] one, too: by
    expectation and maximisation."""
    if not len(y):
        return 0.0
    W, best = np.full((n, X.shape[1]), 1.0 / n), 0.0
    for i in range(400):
        p = np.maximum(np.einsum("kd,kd->k", W[y], X), 1e-300)
        G = np.zeros_like(W)
        np.add.at(G, y, X / p[:, None])
        value = float(np.log(p).sum())
        gap = float(G.max(0).sum()) - float((G * W).sum())
        best = min(best, value + gap) if i else value + gap
        if gap < CLOSE:
            break
        W = W * G
        W /= np.maximum(W.sum(0), 1e-300)
        W = np.where(W.sum(0) > 0.5, W, 1.0 / n)
    return min(best, 0.0)
