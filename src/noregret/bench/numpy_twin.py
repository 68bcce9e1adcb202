"""GLM-ORL (corrected constants, logit link, full support) in plain vectorised NumPy, step for step what the kernels do.

The twin of `noregret bench`: the same steps in the same order, each vectorised over all S A pairs, with NumPy's own
functions. Random numbers and contexts are drawn for many episodes at once, so that they cost it next to nothing, and it
keeps no Gram matrices for re-inversion. `numpy_rearranged` is how fast NumPy gets when the computation is rearranged.
"""

import math
from typing import Any

import numpy as np

from .._checks import Floats
from .._random import LUCK
from .._random import TIE as TIES
from ..estimators.online_newton import SLACK
from ..planning import TIE
from ..theory.constants import logit_alpha_centred
from ..worlds import World
from .numpy_rearranged import words

CHUNK = 1024


def glm_orl(world: World, episodes: int, seed: int = 0, delta: float = 0.05) -> Floats:
    """Cumulative regret [episodes] of `GLMORL(world.problem, delta)` in a logit world with full supports."""
    p = world.problem
    S, A, H, d, B = p.n_states, p.n_actions, p.horizon, p.context_dim, p.weight_bound
    kappa = (2 - SLACK) * logit_alpha_centred(S, p.reach)
    norm2 = p.link.weight_norm2(S, B, d, "corrected")
    lam = 2 * d / (kappa * norm2)
    log = math.log((2 * S * A + 1) / delta)
    eye = np.eye(d)
    W, Zinv, gamma = np.zeros((S, A, S, d)), np.tile(eye / lam, (S, A, 1, 1)), np.full((S, A), lam * norm2)
    gamma += (2 / SLACK) * log
    theta, Vinv, logdet = np.zeros((S, A, d)), np.tile(eye, (S, A, 1, 1)), np.zeros((S, A))
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
        keys = words(seed, ks, np.uint64(0), TIES)[0]
        for i in range(n):
            x = X[i]
            norm = math.sqrt(x @ x)
            M = B * norm
            step = kappa if norm >= p.context_bound * (1 - 1e-12) else (2 - SLACK) * logit_alpha_centred(S, M)
            # believe
            z = W @ x
            v, moved = project(z, M)
            P = softmax(v)
            r_hat = np.clip(theta @ x, 0.0, 1.0)
            q = (Zinv @ x) @ x
            w = np.sqrt(np.maximum(np.maximum(gamma, 0.0) * q - moved, 0.0))
            xi = np.minimum(2 * np.tanh(w / (2 * math.sqrt(2))), prior_cap(P, M))
            radius = p.reward_bound + 0.5 * np.sqrt(2 * log + logdet)
            r = r_hat + np.minimum(1.0, radius * np.sqrt((Vinv @ x) @ x))
            # plan
            policy, V = np.zeros((H, S), np.int64), np.zeros(S)
            for h in range(H - 1, -1, -1):
                half = 0.5 * (V.max() - V.min())
                Q = np.clip(r + P @ V + half * xi, 0.0, H - h)
                V = Q.max(1)
                tied = V[:, None] - TIE <= Q
                count = tied.sum(1)
                if count.max() > 1:
                    policy[h] = pick(tied, count, keys[i], h * S + rows)
                else:
                    policy[h] = tied.argmax(1)
            # the truth: model, exact regret, one trajectory
            true_P, true_r = softmax(world.weights @ x), np.clip(world.reward_weights @ x, 0.0, 1.0)
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
                y = min(int(np.searchsorted(np.cumsum(true_P[s, a]), luck_u[i, h], side="right")), S - 1)
                reward = float(luck_v[i, h] < true_r[s, a])
                # learn
                learn_transition(W[s, a], Zinv[s, a], gamma[s, a : a + 1], x, y, M, step)
                learn_reward(theta[s, a], Vinv[s, a], logdet[s, a : a + 1], x, reward)
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


def pick(tied: Any, count: Any, key: Any, index: Any) -> Any:
    """One of the tied actions of every state, by the hash of docs/semantics.md."""
    low = np.uint64(0xFFFFFFFF)
    h = (key + index.astype(np.uint64) * np.uint64(0x9E3779B9)) & low
    h = ((h ^ (h >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & low
    h = ((h ^ (h >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & low
    h ^= h >> np.uint64(16)
    skip = (h * count.astype(np.uint64)) >> np.uint64(32)
    return (np.cumsum(tied, axis=1) > skip[:, None]).argmax(1)


def learn_transition(W: Floats, Zinv: Floats, gamma: Floats, x: Floats, y: int, M: float, kappa: float) -> None:
    """One online Newton step of one pair, in place: W [S, d], Z^-1 [d, d], gamma [1]."""
    z, zx = W @ x, Zinv @ x
    q = zx @ x
    u = z - z[-1]
    v = z
    if np.abs(u).max() > M:
        out, moved = project(z[None], M)
        v = out[0]
        W += np.outer(v - z, zx / q)
        gamma -= moved[0] / q
    a = softmax(v)
    a[y] -= 1.0
    f = 1.0 / (1.0 + kappa * q)
    W -= np.outer(a, zx * f)
    gamma += (a @ a) * q * f
    Zinv -= np.outer(zx, zx * (kappa * f))


def learn_reward(theta: Floats, Vinv: Floats, logdet: Floats, x: Floats, reward: float) -> None:
    """One ridge regression step of one pair, in place."""
    zx = Vinv @ x
    q = zx @ x
    theta += zx * ((reward - theta @ x) / (1.0 + q))
    Vinv -= np.outer(zx, zx / (1.0 + q))
    logdet += math.log1p(q)
