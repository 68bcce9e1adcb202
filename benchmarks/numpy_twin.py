"""GLM-ORL (corrected constants, logit link, full support) in plain vectorised NumPy, step for step what the kernels do.

The twin of `noregret bench`: the same state and the same steps in the same order, each vectorised over all S A pairs,
with NumPy's own functions. Contexts and random numbers are drawn for many episodes at once, so that they cost it next
to nothing. `numpy_rearranged` is how fast NumPy gets when the computation is rearranged.
"""

import math
from typing import Any

import numpy as np

from benchmarks.numpy_rearranged import tie_breakers, words
from noregret.checks import Floats
from noregret.estimators.newton.online_newton import SLACK
from noregret.numerics.linear_algebra import REFRESH
from noregret.numerics.random import LUCK
from noregret.planning.bellman import TIED_WITHIN
from noregret.theory.constants import logit_alpha_centred
from noregret.worlds import World

CHUNK = 1024


def glm_orl(world: World, episodes: int, seed: int = 0, delta: float = 0.05) -> Floats:
    """Cumulative regret [episodes] of `GLMORL(world.problem, delta)` in a logit world with full supports."""
    p = world.problem
    S, A, H, d, B = p.n_states, p.n_actions, p.horizon, p.context_dim, p.weight_bound
    kappa = (2 - SLACK) * logit_alpha_centred(S, p.reach)
    norm2 = p.link.weight_norm2(S, B, d, "corrected")
    lam = 2 * d / (kappa * norm2)
    log = math.log((2 * S * A + 1) / delta)
    newton, ridge = Newton(S, A, d, lam, norm2), Ridge(S, A, d)
    rows, steps = np.arange(S), np.arange(H)
    total, curve = 0.0, np.zeros(episodes)
    for first in range(0, episodes, CHUNK):
        n = min(CHUNK, episodes - first)
        X = np.empty((n, d))
        world.contexts.fill(seed, first, X)
        starts = np.zeros(n, np.int64)
        world.fill_starts(seed, first, starts)
        ks = np.arange(first, first + n, dtype=np.uint64)
        luck_u, luck_v = uniforms(seed, ks[:, None], steps.astype(np.uint64), LUCK)
        breakers = tie_breakers(seed, ks, H * S).reshape(n, H, S)
        for i in range(n):
            x = X[i]
            norm = math.sqrt(x @ x)
            M = B * norm
            step = kappa if norm >= p.context_bound * (1 - 1e-12) else (2 - SLACK) * logit_alpha_centred(S, M)
            # believe
            z = newton.W @ x
            v, moved = project(z, M)
            P = softmax(v)
            r_hat = np.minimum(np.maximum(ridge.theta @ x, 0.0), 1.0)
            w2 = (newton.gamma + (2 / SLACK) * log) * ((newton.inverse @ x) @ x) - moved
            w = np.sqrt(np.where(w2 >= 0.0, w2, np.inf))
            xi = np.minimum(2 * np.tanh(w / (2 * math.sqrt(2))), prior_cap(P, M))
            radius = p.reward_bound + 0.5 * np.sqrt(2 * log + ridge.logdet)
            r = r_hat + np.minimum(1.0, radius * np.sqrt((ridge.inverse @ x) @ x))
            # plan
            policy, V = np.zeros((H, S), np.int64), np.zeros(S)
            for h in range(H - 1, -1, -1):
                half = 0.5 * (V.max() - V.min())
                Q = np.minimum(np.maximum(r + P @ V + half * xi, 0.0), H - h)
                V = Q.max(1)
                tied = V[:, None] - TIED_WITHIN <= Q
                count = tied.sum(1)
                if count.max() > 1:
                    policy[h] = pick(tied, count, breakers[i, h])
                else:
                    policy[h] = tied.argmax(1)
            # the truth: model, exact regret, one trajectory
            true_P, true_r = softmax(world.weights @ x), np.minimum(np.maximum(world.reward_weights @ x, 0.0), 1.0)
            best, own = np.zeros(S), np.zeros(S)
            for h in range(H - 1, -1, -1):
                best = (true_r + true_P @ best).max(1)
                a = policy[h]
                own = true_r[rows, a] + true_P[rows, a] @ own
            s = starts[i]
            total += best[s] - own[s]
            curve[first + i] = total
            for h in range(H):
                a = policy[h, s]
                y = min(int(true_P[s, a].cumsum().searchsorted(luck_u[i, h], side="right")), S - 1)
                reward = float(luck_v[i, h] < true_r[s, a])
                # learn
                newton.learn(s, a, y, x, M, step)
                ridge.learn(s, a, reward, x)
                s = y
    return curve


def uniforms(seed: int, episodes: Any, steps: Any, purpose: int) -> tuple[Floats, Floats]:
    """Two uniforms on [0, 1) for every episode and step, broadcast."""
    a, b, c, d = words(seed, episodes, steps, purpose)
    five, six = np.uint64(5), np.uint64(6)
    return ((a >> five) * 2.0**26 + (b >> six)) * 2.0**-53, ((c >> five) * 2.0**26 + (d >> six)) * 2.0**-53


def softmax(z: Floats) -> Floats:
    e = np.exp(z)
    return np.asarray(e / e.sum(-1, keepdims=True))


def project(z: Floats, M: float) -> tuple[Floats, Any]:
    """Rows of z [..., S] on { C y : y_last = 0, |y| <= M }, and squared distances."""
    y = z - z[..., -1:]
    if np.abs(y).max() <= M:
        return z, 0.0
    out, moved = z.copy(), np.zeros(z.shape[:-1])
    for i in zip(*np.nonzero(np.abs(y).max(-1) > M), strict=True):
        row, c = z[i], -z[i][-1]
        for _ in range(100):
            u = row[:-1] + c
            e = u - np.clip(u, -M, M)
            step = (row[-1] + c + e.sum()) / (1 + np.count_nonzero(e))
            c -= step
            if abs(step) <= 1e-15 * (1 + abs(c)):
                break
        out[i] = np.append(np.clip(row[:-1] + c, -M, M), 0.0) - c
        moved[i] = ((out[i] - row) ** 2).sum()
    return out, moved


def prior_cap(P: Floats, M: float) -> Floats:
    """theory.widths.logit_prior_cap for P [S, A, S']."""
    n = P.shape[-1] - 1
    high, k = math.exp(M), np.arange(n + 1)
    partition = 1 + k * high + (n - k) / high
    smallest = np.zeros(P.shape)
    np.cumsum(np.sort(P[..., :-1], axis=-1), axis=-1, out=smallest[..., 1:])
    without = (k * high / partition - smallest).max(-1)
    within = ((1 + k * high) / partition - smallest).max(-1) - P[..., -1]
    return np.asarray(2 * np.maximum(without, within))


def pick(tied: Any, count: Any, breaker: Floats) -> Any:
    """One of the tied actions of every state; breaker [S] in [0, 1) is the hash of docs/semantics.md over 2^32."""
    return (np.cumsum(tied, axis=1) > (breaker * count)[:, None]).argmax(1)


class Newton:
    """The transition estimates of all pairs, as `estimators.newton.online_newton` keeps them."""

    def __init__(self, S: int, A: int, d: int, regularization: float, norm2: float) -> None:
        self.regularization = regularization
        self.W, self.gram = np.zeros((S, A, S, d)), np.tile(regularization * np.eye(d), (S, A, 1, 1))
        self.inverse, self.logdet = np.tile(np.eye(d) / regularization, (S, A, 1, 1)), np.zeros((S, A))
        self.gamma, self.samples = np.full((S, A), regularization * norm2), np.zeros((S, A), np.int64)

    def learn(self, s: int, a: int, y: int, x: Floats, M: float, kappa: float) -> None:
        """One online Newton step of pair (s, a)."""
        W, gram, inverse = self.W[s, a], self.gram[s, a], self.inverse[s, a]
        z, zx = W @ x, inverse @ x
        q = zx @ x
        v = z
        if np.abs(z - z[-1]).max() > M:
            out, moved = project(z[None], M)
            v = out[0]
            W += (v - z)[:, None] * (zx / q)
            self.gamma[s, a] -= moved[0] / q
        e = softmax(v)
        e[y] -= 1.0
        f = 1.0 / (1.0 + kappa * q)
        W -= e[:, None] * (zx * f)
        self.gamma[s, a] += (e @ e) * q * f
        inverse -= zx[:, None] * (zx * (kappa * f))
        gram += x[:, None] * (kappa * x)
        self.logdet[s, a] += math.log1p(kappa * q)
        self.samples[s, a] += 1
        if self.samples[s, a] % REFRESH == 0:
            inverse[:], self.logdet[s, a] = directly(gram, self.regularization)


class Ridge:
    """The reward estimates of all pairs, as `estimators.ridge` keeps them, lambda = 1."""

    def __init__(self, S: int, A: int, d: int) -> None:
        self.theta, self.moment = np.zeros((S, A, d)), np.zeros((S, A, d))
        self.gram, self.inverse = np.tile(np.eye(d), (S, A, 1, 1)), np.tile(np.eye(d), (S, A, 1, 1))
        self.logdet, self.samples = np.zeros((S, A)), np.zeros((S, A), np.int64)

    def learn(self, s: int, a: int, reward: float, x: Floats) -> None:
        """One observed reward of pair (s, a)."""
        theta, gram, inverse = self.theta[s, a], self.gram[s, a], self.inverse[s, a]
        zx = inverse @ x
        q = zx @ x
        theta += zx * ((reward - theta @ x) / (1.0 + q))
        inverse -= zx[:, None] * (zx / (1.0 + q))
        gram += x[:, None] * x
        self.moment[s, a] += reward * x
        self.logdet[s, a] += math.log1p(q)
        self.samples[s, a] += 1
        if self.samples[s, a] % REFRESH == 0:
            inverse[:], self.logdet[s, a] = directly(gram, 1.0)
            theta[:] = inverse @ self.moment[s, a]


def directly(gram: Floats, regularization: float) -> tuple[Floats, float]:
    """Inverse of a Gram matrix, and ln det / lambda^d."""
    return np.asarray(np.linalg.inv(gram), np.float64), float(np.linalg.slogdet(gram / regularization)[1])
