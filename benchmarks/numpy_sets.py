"""LR-ORL (online likelihood-ratio sets in full, Taylor bonus, ridge rewards, logit link, full support) in vectorised
NumPy: what `noregret bench` compares the compiled agent with.

It computes what docs/semantics-sets.md says: sets and rewards of every pair, the optimistic plan, the lower bounds of
its policy (the certificate), exact regret. Python loops over episodes, over the H steps of backward induction and of a
roll-out, and over repeated visits; all else is batched over the N = S A pairs (planning), over the pairs met in an
episode (learning), over a chunk of episodes (random numbers, true MDPs, exact values). What makes it fast, besides:

 *  vec(W) is numbered b n + j here (column b, row j), so that Lambda^-1 [N, d n, d n] meets x without being transposed:
    K = (I (x) x)' Lambda^-1 [N, n, d n] and cov = K (I (x) x) are two batched products.
 *  g' cov g = V' Q V with Q = G cov G, G = diag P - P P', the same for all steps h: a backup of all pairs is two
    products, [P; rho^2 Q] V and then V'. Ties are broken for all steps at once, since values do not depend on them.
 *  All steps of an episode share x, so learning happens among predictions. After visits that add D (x) xx' to Lambda,
    Lambda^-1 (I (x) x) = K' R and cov has become cov R, with R = (I + D cov)^-1 [n, n]; a pair's Lambda^-1 and W are
    changed once an episode, by - K' R D K and by - K' sum_t R_t a_t.

Left out, in its favour: Lambda itself, which the compiled agent keeps to invert it afresh now and then.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.numpy_rearranged import tie_breakers
from benchmarks.numpy_twin import uniforms
from noregret.agents.local.family import REWARD_SHARE, SETS_TIMES
from noregret.checks import Floats
from noregret.numerics.random import LUCK
from noregret.planning.bellman import TIED_WITHIN
from noregret.problem.links import MultinomialLogit
from noregret.worlds import World

CHUNK = 256
OPTIONS: dict[str, Any] = {"reward_sets": "ridge"}  # of `LRORL`, for what is computed here

Step = tuple[int, int, int]  # pair, outcome, reward


def softmax(z: Floats) -> Floats:
    e = np.exp(z)
    e /= e.sum(-1, keepdims=True)
    return e


class Population:
    """What the episodes of a chunk meet, whatever the agent does. Pair (s, a) is number a S + s."""

    def __init__(self, world: World, seed: int, first: int, c: int) -> None:
        p = world.problem
        S, A, H, d = p.n_states, p.n_actions, p.horizon, p.context_dim
        self.x, self.start, self.policies = np.empty((c, d)), np.zeros(c, np.int64), np.empty((c, H, S), np.intp)
        world.contexts.fill(seed, first, self.x)
        world.fill_starts(seed, first, self.start)
        episodes = np.arange(first, first + c, dtype=np.uint64)
        self.luck = np.stack(uniforms(seed, episodes[:, None], np.arange(H, dtype=np.uint64), LUCK), 2)  # [c, H, 2]
        self.breakers = tie_breakers(seed, episodes, H * S).reshape(c, H, S)
        W, theta = world.weights.transpose(1, 0, 2, 3).reshape(-1, d), world.reward_weights.swapaxes(0, 1)
        self.P = softmax((self.x @ W.T).reshape(c, S * A, S))
        self.edges = self.P.cumsum(2)[:, :, :-1]
        self.r = np.minimum(np.maximum(self.x @ theta.reshape(-1, d).T, 0.0), 1.0)
        self.best = np.zeros((c, S))
        for _ in range(H):
            self.best = self.backup(self.best).reshape(c, A, S).max(1)

    def backup(self, V: Floats) -> Floats:
        """r + P V of every pair: [c, N]."""
        return np.asarray(self.r + (self.P @ V[:, :, None])[:, :, 0])

    def shortfalls(self) -> Floats:
        """Exact regret of the policies planned: [c]."""
        c, H, S = self.policies.shape
        own, states = np.zeros((c, S)), np.arange(S)
        for h in range(H - 1, -1, -1):
            own = np.take_along_axis(self.backup(own), self.policies[:, h] * S + states, 1)
        people = np.arange(c)
        return np.asarray((self.best - own)[people, self.start])


class Learner:
    """The sets of all pairs, the plan of the last episode, and its certificate."""

    def __init__(self, world: World, delta: float) -> None:
        p = world.problem
        S, A, H, d = self.shape = p.n_states, p.n_actions, p.horizon, p.context_dim
        N, f = S * A, np.zeros
        log = math.log(N / (0.98 * delta))
        lam = SETS_TIMES * d / p.weight_bound**2
        self.W, self.inverse = f((N, S, d)), np.tile(np.eye(S * d) / lam, (N, 1, 1))
        norm2 = p.weight_bound**2 * (0.5 if S == 2 else S - 1)
        self.rho2 = np.full(N, lam * norm2 + 2.0 * (log - math.log(1.0 - REWARD_SHARE)))
        self.theta, self.ridge = f((N, d)), np.tile(np.eye(d), (N, 1, 1))
        self.growth = np.full(N, 2.0 * (log - math.log(REWARD_SHARE)))  # 2 ln(1/delta_r) + ln det V
        self.reward_bound, self.weight_bound = p.reward_bound, p.weight_bound
        self.room = np.full((S, S), 2.0)  # how far two logits can be apart, over B_p ||x||
        self.room[-1] = self.room[:, -1] = 1.0
        self.room[range(S), range(S)] = 0.0
        self.table = np.empty((N + N * S, S))  # P, then rho^2 Q
        self.Q, self.V, self.L = f((H, A, S)), f((H + 1, S)), f((H + 1, S))
        self.states, self.unit, self.eye = np.arange(S), np.eye(S), np.eye(S - 1)
        self.sizes = np.arange(S)

    def plan(self, x: Floats, breakers: Floats) -> NDArray[np.intp]:
        """The optimistic policy [H, S] for context x; fills V and L."""
        S, A, H, d = self.shape
        N = S * A
        # the ellipsoids and how far they reach
        self.bound = self.weight_bound * math.sqrt(x @ x)
        self.z = z = np.dot(self.W.reshape(-1, d), x).reshape(N, S)
        self.P = P = softmax(z)
        self.K = np.matmul(x, self.inverse.reshape(N, d, -1)).reshape(N, S, d * S)
        self.cov = cov = np.matmul(x, self.K.reshape(N, S, d, S))
        self.r = r = self.spans(z, cov, self.rho2)
        gaps = cov - np.matmul(P[:, None], cov)
        B = P[:, :, None] * gaps
        squared = np.matmul(B, B)
        size = np.sqrt(np.sqrt(np.einsum("ijk,ikj->i", squared, squared)))
        held, quarter = self.rho2 >= 0.0, 0.25 * r * r
        second = np.where(held, np.minimum(self.rho2 * size, quarter), quarter) * upper_curvature(r)
        half = np.minimum(np.tanh(0.25 * r), self.prior(P))
        table = self.table
        table[:N] = P
        Q = (B - np.matmul(B, P[:, :, None])) * P[:, None]
        Q *= np.where(held, self.rho2, 0.0)[:, None, None]
        table[N:] = Q.reshape(N * S, S)
        if not held.all():
            second[~held] = np.inf
        # mean rewards
        self.Vx = Vx = np.dot(self.ridge.reshape(-1, d), x).reshape(N, d)
        self.q = q = np.dot(Vx, x)
        self.mean = mean = np.dot(self.theta, x)
        xi = (self.reward_bound + 0.5 * np.sqrt(self.growth)) * np.sqrt(q)
        cap = min(1.0, self.reward_bound * math.sqrt(x @ x))
        high, low = np.minimum(mean + xi, cap), np.maximum(mean - xi, 0.0)
        low, high = np.where(low > high, 0.0, low), np.where(low > high, cap, high)
        # optimism
        minimum, sqrt, V = np.minimum, np.sqrt, self.V
        for h in range(H - 1, -1, -1):
            after = V[h + 1]
            top, rows = after.max(), np.dot(table, after)
            mean, b = rows[:N], np.dot(rows[N:].reshape(N, S), after)
            span = top - after.min()
            if span > 0.0:
                sqrt(np.maximum(b, 0.0, out=b), out=b)
                b += span * second
                minimum(b, span * half, out=b)
                minimum(b, top - mean, out=b)
                b += mean
                b += high
            else:
                b = high + top
            minimum(b, H - h, out=b)
            self.Q[h] = b = b.reshape(A, S)
            b.max(0, out=V[h])
        tied = V[:-1, None] - TIED_WITHIN <= self.Q
        policy = tied.argmax(1)
        count = tied.sum(1)
        if count.max() > 1:
            policy = (np.cumsum(tied, axis=1) > (breakers * count)[:, None]).argmax(1)
        # the certificate
        L, chosen = self.L, policy * S + self.states
        for h in range(H - 1, -1, -1):
            after, pairs = L[h + 1], chosen[h]
            bottom, rows = after.min(), np.dot(table, after)
            mean, b = rows[:N], np.dot(rows[N:].reshape(N, S), after)
            span = after.max() - bottom
            if span > 0.0:
                sqrt(np.maximum(b, 0.0, out=b), out=b)
                b += span * second
                minimum(b, span * half, out=b)
                minimum(b, mean - bottom, out=b)
                np.subtract(mean, b, out=b)
                b += low
            else:
                b = low + bottom
            np.maximum(b.take(pairs), 0.0, out=L[h])
        return np.asarray(policy)

    def spans(self, z: Floats, cov: Floats, rho2: Floats) -> Floats:
        """r of every pair: z [m, n], cov [m, n, n], rho2 [m]."""
        variance = np.einsum("ijj->ij", cov)
        far = variance[:, :, None] - 2.0 * cov
        far += variance[:, None]
        np.maximum(far, 0.0, out=far)
        far *= np.where(rho2 >= 0.0, rho2, 1e300)[:, None, None]
        np.sqrt(far, out=far)
        room = self.bound * self.room - z[:, :, None]
        room += z[:, None]
        np.minimum(far, room, out=far)
        return np.asarray(np.maximum(far.reshape(len(z), -1).max(1), 0.0))

    def prior(self, P: Floats) -> Floats:
        """Half of theory.widths.logit_prior_cap for P [N, n]."""
        n, k, high = P.shape[1] - 1, self.sizes, math.exp(self.bound)
        partition = 1.0 + k * high + (n - k) / high
        smallest = np.zeros(P.shape)
        np.cumsum(np.sort(P[:, :-1], axis=1), axis=1, out=smallest[:, 1:])
        without = (k * high / partition - smallest).max(1)
        within = ((1.0 + k * high) / partition - smallest).max(1) - P[:, -1]
        return np.asarray(np.maximum(without, within))

    def learn(self, path: list[Step], x: Floats) -> None:
        """The steps of an episode that was planned for x. Pairs are worked on together, in order of visits."""
        S, _, _, d = self.shape
        visits: dict[int, list[int]] = {}  # sum of rewards, outcomes
        for i, outcome, reward in path:
            seen_here = visits.setdefault(i, [0])
            seen_here[0] += reward
            seen_here.append(outcome)
        met = sorted(visits.items(), key=lambda v: -len(v[1]))
        pairs, seen = [i for i, _ in met], [v for _, v in met]
        m = len(pairs)
        z, p, cov0, rho2, r = (v[pairs] for v in (self.z, self.P, self.cov, self.rho2, self.r))
        cov, D, R, moved = cov0, np.zeros((m, S, S)), np.empty((m, S, S)), np.zeros((m, S))
        for visit in range(1, len(seen[0])):
            if visit > 1:
                m = sum(len(v) > visit for v in seen)
                z, cov = z[:m], cov[:m]
                p = softmax(z)
                r = self.spans(z, cov, rho2[:m])
            y = [v[visit] for v in seen[:m]]
            weighted = (2.0 * lower_curvature(r))[:, None] * p
            D[:m] -= weighted[:, :, None] * p[:, None]
            np.einsum("ijj->ij", D)[:m] += weighted
            a = p - self.unit[y]
            gain = 2.0 * np.log(self.gains(cov, p, y))
            R[:m] = np.linalg.inv(self.unit + np.matmul(D[:m], cov0[:m]))
            cov = np.matmul(cov0[:m], R[:m])
            step = np.matmul(cov, a[:, :, None])[:, :, 0]
            rho2[:m] += (a * step).sum(1) - gain
            moved[:m] += np.matmul(R[:m], a[:, :, None])[:, :, 0]
            z = z - step
        self.rho2[pairs] = rho2
        change = np.matmul(R, D)
        for k, i in enumerate(pairs):
            K = self.K[i]
            self.W[i] -= np.dot(moved[k], K).reshape(d, S).T
            self.inverse[i] -= np.dot(K.T, np.dot(change[k], K))
        count, total = np.array([len(v) - 1 for v in seen]), np.array([v[0] for v in seen])
        Vx, grown = self.Vx[pairs], 1.0 + count * self.q[pairs]
        self.theta[pairs] += ((total - count * self.mean[pairs]) / grown)[:, None] * Vx
        self.ridge[pairs] -= ((count / grown)[:, None] * Vx)[:, :, None] * Vx[:, None]
        self.growth[pairs] += np.log(grown)

    def gains(self, cov: Floats, p: Floats, y: list[int]) -> Floats:
        """phat(y)/p(y) of the unscented mixture: [m]."""
        m, n = p.shape
        last = cov[:, -1, :-1]
        differences = cov[:, :-1, :-1] - last[:, :, None] - last[:, None] + cov[:, -1:, -1:]
        trace = np.einsum("ijj->i", differences)
        F = np.linalg.cholesky(differences + (1e-12 * trace)[:, None, None] * self.eye)
        up = np.ones((m, 2, n - 1, n))  # e^{+-sqrt(n) F e_i} for the outcomes along the last axis
        np.exp(math.sqrt(n) * F.swapaxes(1, 2), out=up[:, 0, :, :-1])
        np.divide(1.0, up[:, 0, :, :-1], out=up[:, 1, :, :-1])
        up = up.reshape(m, -1, n)
        shares = up[np.arange(m), :, y] / np.matmul(up, p[:, :, None])[:, :, 0]
        return np.asarray((1.0 + 0.5 * shares.sum(1)) / n)


def lower_curvature(r: Floats) -> Floats:
    """theory.widths.lower_curvature."""
    safe = np.maximum(r, 1e-3)
    return np.where(r < 1e-3, 0.5 - r / 6.0 + r * r / 24.0, (1.0 + np.expm1(-safe) / safe) / safe)


def upper_curvature(r: Floats) -> Floats:
    """theory.widths.upper_curvature."""
    safe = np.maximum(r, 1e-3)
    return np.where(r < 1e-3, 0.5 + r / 6.0 + r * r / 24.0, (np.expm1(safe) - safe) / (safe * safe))


def lr_orl(world: World, episodes: int, seed: int = 0, delta: float = 0.05, made: type[Learner] = Learner) -> Floats:
    """Cumulative regret [episodes] of `LRORL(world.problem, delta, **OPTIONS)`."""
    p = world.problem
    S = p.n_states
    if not (isinstance(p.link, MultinomialLogit) and p.layout.dense and p.layout.available.all() and S > 1):
        raise ValueError("the NumPy programs take the logit link, full support and S > 1, all actions available")
    if p.rewards != "linear" or p.known_rewards is not None:
        raise ValueError("the NumPy programs take linear rewards that are not known beforehand")
    learner, regret = made(world, delta), np.empty(episodes)
    for first in range(0, episodes, CHUNK):
        now = Population(world, seed, first, min(CHUNK, episodes - first))
        luck, starts = now.luck.tolist(), now.start.tolist()
        for k, s in enumerate(starts):
            x, edges, means, path = now.x[k], now.edges[k], now.r[k], []
            now.policies[k] = policy = learner.plan(x, now.breakers[k])
            for h, (u, v) in enumerate(luck[k]):
                i = policy.item(h, s) * S + s
                s = edges[i].searchsorted(u, side="right").item()
                path.append((i, s, int(v < means.item(i))))
            learner.learn(path, x)
        regret[first : first + CHUNK] = now.shortfalls()
    return np.cumsum(regret)
