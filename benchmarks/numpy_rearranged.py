"""The whole GLM-ORL simulation (corrected constants, logit link) in vectorised NumPy: the yardstick of `bench`.

It computes what docs/semantics.md says. Python loops over episodes, over the H steps of backward induction and of a
roll-out, and over repeated visits; all else is batched: over the n = S A pairs (planning), over the pairs met in an
episode (learning), over a chunk of episodes (random numbers, true MDPs, exact values). What makes it fast, besides:

 *  Pair (s, a) has number i = a S + s and pairs are the last axis: maxima over actions and sums over outcomes run along
    contiguous rows. A Bellman backup is one product, [V, span V, 1] times [P_hat; xi_p/2; r_hat + xi_r] [S+2, n].
 *  Weights are kept as differences to the last outcome's row, whose predictor is then 0 (softmax does not notice): the
    region of possible predictions is a box, and one maximum and one minimum tell whether anything must be projected.
 *  All steps of an episode share x, so learning happens among predictions, from what planning has found: a visit moves
    y = W x by -a ||x||^2_{Z^-1} (new Z), and W += (change of y)(Z^-1 x)'/||x||^2_{Z^-1} (old Z) once an episode.

Left out, in the twin's favour: Gram matrices, which the compiled loop keeps to re-invert them every thousand steps.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noregret.checks import Floats
from noregret.estimators.newton.online_newton import SLACK
from noregret.numerics.random import LUCK, TIE
from noregret.planning.bellman import TIED_WITHIN
from noregret.problem.links import MultinomialLogit
from noregret.theory.constants import logit_alpha_centred
from noregret.worlds import World

alpha = lru_cache(64)(logit_alpha_centred)  # contexts of equal length are common
ROOM = 1 << 19  # numbers in the transition probabilities of a chunk: more would not stay in the cache


def words(seed: int, episodes: Any, steps: Any, purpose: int) -> tuple[Any, Any, Any, Any]:
    """Philox4x32-10: four arrays of 32-bit words (in uint64), of the shape of episodes and steps broadcast."""
    u, low, half = np.uint64, np.uint64(0xFFFFFFFF), np.uint64(32)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    c0, c1, c2, c3 = np.broadcast_arrays(episodes & low, episodes >> half, u(steps), u(purpose))
    for _ in range(10):
        a, b = u(0xD2511F53) * c0, u(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (b >> half) ^ c1 ^ u(k0), b & low, (a >> half) ^ c3 ^ u(k1), a & low
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def tie_breakers(seed: int, episodes: Any, size: int) -> Floats:
    """mix(key, index) 2^-32 for index = 0, ..., size - 1: [episodes, size]."""
    u = np.uint32  # sums and products wrap
    h = words(seed, episodes, 0, TIE)[0].astype(u)[:, None] + np.arange(size, dtype=u) * u(0x9E3779B9)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h ^= h >> u(shift)
        h *= u(factor)
    return np.asarray(h * 2.0**-32)


def project(y: Floats, bound: float) -> tuple[Floats, Floats]:
    """Nearest possible predictions to y [S-1, u], and the squared distances [u], both as in centred coordinates.

    The point is clip(y + t) with t + sum_j (y_j + t - clip(y_j + t)) = 0: Newton's method, all columns at once."""
    t = np.zeros(y.shape[1])
    for _ in range(100):
        inside = np.clip(y + t, -bound, bound)
        excess = y + t - inside
        step = (t + excess.sum(0)) / (1.0 + np.count_nonzero(excess, axis=0))
        if (np.abs(step) <= 1e-15 * (1.0 + np.abs(t))).all():
            break
        t -= step
    return inside, (excess * excess).sum(0) + t * t


class Population:
    """What the episodes of a chunk meet, whatever the agent does. Chunks of at most c episodes, buffers made once."""

    def __init__(self, world: World, seed: int, c: int) -> None:
        p = world.problem
        S, A, H, d = self.shape = p.n_states, p.n_actions, p.horizon, p.context_dim
        self.world, self.seed = world, seed
        self.W = world.weights.transpose(3, 2, 1, 0).reshape(d, -1)  # [d, S' n]
        self.theta = world.reward_weights.transpose(2, 1, 0).reshape(d, -1)  # [d, n]
        self.x, self.r, self.start = np.empty((c, d)), np.empty((c, S * A)), np.zeros(c, np.int64)
        self.P, self.edges = np.empty((c, S, S * A)), np.empty((c, S - 1, S * A))  # edges: P cumulated, less the last
        self.policies = np.empty((c, H, S), np.intp)

    def meet(self, first: int, c: int) -> None:
        """Contexts, constants, random numbers and true MDPs of episodes first, ..., first + c - 1."""
        p, (S, _, H, _) = self.world.problem, self.shape
        x, r, P, edges, self.start = self.x[:c], self.r[:c], self.P[:c], self.edges[:c], self.start[:c]
        self.world.contexts.fill(self.seed, first, x)
        self.world.fill_starts(self.seed, first, self.start)
        self.xx = (x[:, :, None] * x[:, None, :]).reshape(c, -1)
        self.bound = p.weight_bound * np.sqrt(np.einsum("kb,kb->k", x, x))
        kappa = [(2.0 - SLACK) * alpha(S, b) for b in self.bound.tolist()]
        self.growth = np.stack((kappa, np.ones(c)), 1)[:, :, None]  # of Z and V, in x x': [c, 2, 1]
        # The most mass k outcomes can have, without and with the last one [c, 2, S, 1]; how many k will usually do [c].
        k, high = np.arange(S)[:, None], np.exp(self.bound)[:, None, None, None]
        self.mass = (k * high + [[[0.0]], [[1.0]]]) / (1.0 + k * high + (S - 1 - k) / high)
        self.needed = 2 * (np.diff(self.mass[..., 0]) > 1.0 / S).sum(2).max(1) + 4
        episodes = np.arange(first, first + c, dtype=np.uint64)
        w = np.stack(words(self.seed, episodes[:, None], np.arange(H), LUCK), -1)
        self.luck = ((w[..., ::2] >> np.uint64(5)) * 2.0**26 + (w[..., 1::2] >> np.uint64(6))) * 2.0**-53  # [c, H, 2]
        self.ties = tie_breakers(self.seed, episodes, H * S).reshape(c, H, S)
        np.dot(x, self.W, out=P.reshape(c, -1))
        np.exp(P, out=P)
        P *= 1.0 / P.sum(1, keepdims=True)
        edges[:, 0] = P[:, 0]
        for j in range(1, S - 1):  # several times as fast as np.cumsum
            np.add(edges[:, j - 1], P[:, j], out=edges[:, j])
        np.dot(x, self.theta, out=r)
        np.clip(r, 0.0, 1.0, out=r)

    def shortfalls(self) -> Floats:
        """V*(s_0) - V^pi(s_0) of every episode of the chunk under self.policies: [c]."""
        c, (S, A, H, _) = len(self.start), self.shape
        V, Q = np.zeros((c, 2, S)), np.empty((c, 2, S * A))  # of the optimal policy, of ours
        P, r, q, flat = self.P[:c], self.r[:c, None], Q.reshape(c, 2, A, S), Q.reshape(-1)
        chosen = self.policies[:c] * S + np.arange(S) + (np.arange(c)[:, None, None] * 2 + 1) * S * A  # places in flat
        for h in range(H - 1, -1, -1):
            np.matmul(V, P, out=Q)
            Q += r
            np.maximum.reduce(q[:, 0], axis=1, out=V[:, 0])
            V[:, 1] = flat.take(chosen[:, h])
        optimal, own = V[np.arange(c), :, self.start].T
        return np.asarray(optimal - own)


class Learner:
    """GLM-ORL: its state, and buffers for one plan."""

    def __init__(self, world: World, delta: float) -> None:
        p = world.problem
        S, A, H, d = self.shape = p.n_states, p.n_actions, p.horizon, p.context_dim
        n, log, self.prior = S * A, math.log((2 * S * A + 1) / delta), p.reward_bound
        norm2 = p.link.weight_norm2(S, p.weight_bound, d, "corrected")
        lam = 2.0 * d / ((2.0 - SLACK) * alpha(S, p.reach) * norm2)
        self.weights = np.zeros((S, n, d))  # W without its last row, then theta
        self.inverse = np.tile(np.eye(d), (2, n, 1, 1)) / np.array([lam, 1.0])[:, None, None, None]  # Z^-1, V^-1
        # One column a pair, so that one `take` fetches what is known of the pairs met: W x and theta'x; P_hat, xi_p/2,
        # r_hat + xi_r; ||x||^2 in Z^-1 and V^-1; gamma/8 and (2 ln(1/delta') + ln det V)/4; radii, i.e. their roots.
        self.sheet = np.zeros((2 * S + 8, n))
        self.z, self.model, self.forms, kept, self.radii = np.split(self.sheet, [S, 2 * S + 2, 2 * S + 4, 2 * S + 6])
        kept[0], kept[1] = (lam * norm2 + 2.0 / SLACK * log) / 8.0, log / 2.0
        self.radii[0], self.radii[1] = np.sqrt(kept[0]), np.sqrt(kept[1]) + self.prior
        self.widths, self.Q, self.V = np.empty((2, n)), np.empty((H, A, S)), np.ones((H, S + 2))  # V: [V, span V, 1]
        self.tied, self.eye, self.ones = np.empty((A, H, S), bool), np.eye(S), np.ones(S)
        self.sums = np.tri(S, S - 1, -1)  # cumulates, starting with 0
        # The same memory in the shapes BLAS wants, and step by step.
        self.rows, self.squares = self.weights.reshape(-1, d), self.inverse.reshape(-1, d * d)
        self.flat_z, self.flat_y, self.flat_forms = self.z.reshape(-1), self.z[:-1].reshape(-1), self.forms.reshape(-1)
        V, Q = self.V, self.Q
        self.steps = [
            (V[h + 1], V[h + 1, :S], Q[h].reshape(-1), Q[h], V[h, :S], np.array(H - h, float))
            for h in range(H - 2, -1, -1)
        ]

    def plan(self, now: Population, k: int) -> None:
        """now.policies[k] [H, S] <- the plan for the chunk's k-th context."""
        S, z, widths, bound = self.shape[0], self.z, self.widths, now.bound[k]
        P, xi, r = self.model[:S], self.model[S], self.model[S + 1]
        np.dot(self.rows, now.x[k], out=self.flat_z)
        np.dot(self.squares, now.xx[k], out=self.flat_forms)
        np.sqrt(self.forms, out=widths)
        widths *= self.radii
        self.y: Floats = z[:-1]
        self.moved: Floats | None = None
        if np.maximum.reduce(self.flat_y) > bound or np.minimum.reduce(self.flat_y) < -bound:
            out = np.flatnonzero((np.abs(self.y) > bound).any(0))
            self.y, self.moved = self.y.copy(), np.zeros(widths.shape[1])
            self.y[:, out], self.moved[out] = project(self.y[:, out], bound)
            widths[0] = np.sqrt(np.maximum(widths[0] ** 2 - self.moved / 8.0, 0.0))
        np.exp(self.y, out=P[:-1])
        P[-1] = 1.0
        P *= 1.0 / np.dot(self.ones, P)
        np.tanh(widths[0], out=xi)
        np.minimum(xi, self.half_caps(P, now.mass[k], now.needed[k]), out=xi)
        np.maximum(z[-1], 0.0, out=r)
        np.minimum(r, 1.0, out=r)
        r += np.minimum(widths[1], 1.0)
        self.induction(now.ties[k], now.policies[k])

    def half_caps(self, P: Floats, mass: Floats, needed: int) -> Any:
        """Half of `theory.widths.logit_prior_cap` of every column of P [S, n]: [n].

        The excess is concave in k, so the `needed` smallest probabilities will do if the last of them adds nothing."""
        smallest = P[:-1].T.copy()
        smallest.sort(axis=1)
        m = smallest.shape[1]
        if needed < m and (mass[:, needed] - mass[:, needed - 1]).max() <= smallest[:, needed - 1].min():
            m = needed
        excess = np.maximum.reduce(mass[:, : m + 1] - np.dot(self.sums[: m + 1, :m], smallest[:, :m].T), axis=1)
        excess[1] -= P[-1]
        return np.maximum(excess[0], excess[1])

    def induction(self, ties: Floats, policy: NDArray[np.intp]) -> None:
        """Maximise from the last step back. Q >= 0, and clipping V instead of Q from above leaves the same ties."""
        S, Q, V = self.shape[0], self.Q, self.V
        Q[-1].reshape(-1)[:] = self.model[S + 1]
        np.minimum(np.maximum.reduce(Q[-1], axis=0), 1.0, out=V[-1, :S])
        for augmented, later, flat, q, v, top in self.steps:
            augmented[S] = max(values := later.tolist()) - min(values)  # no slower than NumPy's up to S = 50
            np.dot(augmented, self.model, out=flat)
            np.maximum.reduce(q, axis=0, out=v)
            np.minimum(v, top, out=v)
        np.greater_equal(Q, V[:, None, :S] - TIED_WITHIN, out=self.tied.transpose(1, 0, 2))
        order = self.tied.view(np.int8)  # becomes: how many of the actions so far are tied
        for a in range(1, len(order)):
            order[a] += order[a - 1]
        rank = (ties * order[-1]).astype(np.int8)  # the first action with order > rank is taken
        policy[:] = np.add.reduce((order <= rank).view(np.int8), axis=0, dtype=np.int8)

    def learn(self, now: Population, k: int, visits: dict[int, list[int]]) -> None:
        """visits: for every pair met, the sum of its rewards, then its outcomes in order."""
        S, _, _, d = self.shape
        bound, kappa = now.bound[k], now.growth.item(k, 0, 0)
        met = sorted(visits.items(), key=lambda item: -len(item[1]))  # so those with more visits to come are a prefix
        pairs, seen = np.array([i for i, _ in met]), [v for _, v in met]
        sheet = self.sheet.take(pairs, axis=1)
        z, p, q, kept, radii = sheet[:S], sheet[S : 2 * S], sheet[-6:-4], sheet[-4:-2], sheet[-2:]
        gain, after, over_q = np.zeros(len(met)), z[:-1].copy(), 1.0 / q[0]
        if self.moved is not None:
            after = self.y.take(pairs, axis=1)
            gain -= self.moved.take(pairs) * over_q
        y, more = after, gain
        for visit in range(1, len(seen[0])):
            if visit > 1:
                seen = [v for v in seen if len(v) > visit]
                m = len(seen)
                y, p, more, over_q = y[:, :m], p[:, :m], more[:m], over_q[:m]
                if y.max() > bound or y.min() < -bound:
                    y[:], moved = project(y, bound)
                    more -= moved * (over_q + (visit - 1) * kappa)
                np.exp(y, out=p[:-1])
                p[-1] = 1.0
                p /= np.dot(self.ones, p)
            p -= self.eye.take([v[visit] for v in seen], axis=1)
            shrunk = 1.0 / (over_q + visit * kappa)
            more += np.dot(self.ones, p * p) * shrunk
            y -= (p[:-1] - p[-1]) * shrunk
        inverse, weights = self.inverse.take(pairs, axis=1), self.weights.take(pairs, axis=1)
        towards = np.dot(inverse.reshape(-1, d), now.x[k]).reshape(2, -1, d)  # Z^-1 x, V^-1 x
        count, total = np.array([len(v) - 1 for _, v in met]), np.array([v[0] for _, v in met])
        scale = now.growth[k] * count
        grown = 1.0 + scale * q
        after -= z[:-1]
        after /= q[0]
        weights[:-1] += after[:, :, None] * towards[0]
        weights[-1] += ((total - count * z[-1]) / grown[1])[:, None] * towards[1]
        self.weights[:, pairs] = weights
        scale /= grown
        inverse -= (scale[:, :, None] * towards)[:, :, :, None] * towards[:, :, None, :]
        self.inverse[:, pairs] = inverse
        kept[0] += gain / 8.0
        kept[1] += np.log(grown[1]) / 4.0
        np.sqrt(np.maximum(kept, 0.0), out=radii)
        radii[1] += self.prior
        self.sheet[-4:, pairs] = sheet[-4:]


def glm_orl(world: World, episodes: int, seed: int = 0, delta: float = 0.05) -> Floats:
    """Cumulative regret of GLM-ORL: [episodes]."""
    p = world.problem
    S, A = p.n_states, p.n_actions
    if not (isinstance(p.link, MultinomialLogit) and p.layout.dense and p.layout.available.all() and S > 1 and A < 128):
        raise ValueError("the NumPy twin takes the logit link, full support, S > 1 and A < 128, all available")
    c = min(max(ROOM // (S * S * A), 8), 2048, episodes)
    now, learner, regret = Population(world, seed, c), Learner(world, delta), np.empty(episodes)
    for first in range(0, episodes, c):
        now.meet(first, min(c, episodes - first))
        for k, s in enumerate(now.start.tolist()):
            learner.plan(now, k)
            policy, edges, means = now.policies[k], now.edges[k], now.r[k]
            visits: dict[int, list[int]] = {}
            for h, (u, v) in enumerate(now.luck[k].tolist()):
                i = policy.item(h, s) * S + s
                s = edges[:, i].searchsorted(u, side="right").item()
                seen = visits.setdefault(i, [0])
                seen[0] += v < means.item(i)
                seen.append(s)
            learner.learn(now, k, visits)
        regret[first : first + c] = now.shortfalls()
    return np.cumsum(regret)
