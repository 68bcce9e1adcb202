"""The online Newton set of one block of a design in plain NumPy, from the formulas of docs/theory.md ("Where pairs
share weights") alone: dense matrices, inverses from scratch, the nearest possible weights by a least-distance
programme. Imports nothing of the library's kernels."""

import math

import numpy as np
from scipy.optimize import nnls


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def lower_curvature(r):
    return 0.5 - r / 6.0 + r * r / 24.0 if r < 1e-4 else (np.exp(-r) + r - 1.0) / r**2


def least_in_box(n, M):
    """The least curvature of log-sum-exp on 1-perp over |y_i| <= M, y_n = 0, by trying every vertex."""
    C, least = np.eye(n) - 1.0 / n, math.inf
    for high in range(n):
        y = np.concatenate([np.full(high, M), np.full(n - 1 - high, -M), [0.0]])
        p = softmax(y)
        least = min(least, np.linalg.eigvalsh(C @ (np.diag(p) - np.outer(p, p)) @ C + np.ones((n, n)))[0])
    return least


def least_in_span(n, D):
    """The same over all y with max y - min y <= D."""
    C, least = np.eye(n) - 1.0 / n, math.inf
    for high in range(n + 1):
        p = softmax(np.concatenate([np.full(high, D), np.zeros(n - high)]))
        least = min(least, np.linalg.eigvalsh(C @ (np.diag(p) - np.outer(p, p)) @ C + np.ones((n, n)))[0])
    return least


class BlockNewton:
    """theta, precision and gamma (without its ln(1/delta) term) of block b of a problem's design; log: ln(1/delta) of
    the set that may bound r, under the Fisher form."""

    def __init__(self, problem, b, lam, fisher, log=math.inf):
        self.blocks, self.count, self.weight_bound = problem.blocks, problem.layout.count, problem.weight_bound
        self.q, self.d, self.fisher, self.log = int(self.blocks.size[b]), problem.context_dim, fisher, log
        self.bound, self.moves = float(self.blocks.bound[b]), 0
        start, column = self.blocks.start[b], self.blocks.column[b]
        self.free = np.array([i * self.d + column[e] for i in range(self.q) for e in range(start[i], start[i + 1])])
        self.theta, self.precision = np.zeros(self.free.size), lam * np.eye(self.free.size)
        self.gamma = lam * self.bound**2

    def rows(self, s, a, x):
        phi = self.blocks.features[s, a, : int(self.count[s, a]), : self.q]
        return np.stack([np.kron(row, x)[self.free] for row in phi])

    def reach(self, A, x):
        n = len(A)
        made = self.bound * np.linalg.norm(A[:, None] - A[None], axis=-1)
        rows = np.full((n, n), 2.0 * self.weight_bound * np.linalg.norm(x))
        rows[-1] = rows[:, -1] = self.weight_bound * np.linalg.norm(x)
        return np.minimum(made, rows)

    def nearest(self, A, reach):
        """The nearest theta with |z_j - z_k| <= reach_jk, and the squared distance: Lawson and Hanson's least-distance
        programme, min ||u|| with G u >= h, where theta' = theta + L'^-1 u, L L' = precision."""
        n, z = len(A), A @ self.theta
        pairs = [(j, k) for j in range(n) for k in range(n) if j != k]
        if all(z[j] - z[k] <= reach[j, k] for j, k in pairs):
            return self.theta, 0.0
        self.moves += 1
        back = np.linalg.inv(np.linalg.cholesky(self.precision)).T
        scale = max(np.abs(self.theta).max(), 1.0)
        G = np.array([-(A[j] - A[k]) @ back for j, k in pairs])
        h = np.array([z[j] - z[k] - reach[j, k] for j, k in pairs]) / scale
        y, _ = nnls(np.vstack([G.T, h]), np.append(np.zeros(len(back)), 1.0), maxiter=10_000)
        rest = np.append(G.T @ y, h @ y - 1.0)
        u = -scale * rest[:-1] / rest[-1]
        return self.theta + back @ u, float(u @ u)

    def learn(self, s, a, y, x):
        n = int(self.count[s, a])
        if n == 1:
            return
        A = self.rows(s, a, x)
        reach = self.reach(A, x)
        self.theta, moved = self.nearest(A, reach)
        self.gamma -= moved
        z, C = A @ self.theta, np.eye(n) - 1.0 / n
        p = softmax(z)
        if self.fisher:
            Q = (
                2.0
                * lower_curvature(self.span(A, z, reach, self.gamma + 2.0 * self.log))
                * (np.diag(p) - np.outer(p, p))
            )
        else:
            far = np.maximum(reach, np.abs(z[:, None] - z[None]))
            Q = 1.75 * max(least_in_box(n, far[:, -1].max()), least_in_span(n, far.max())) * C
        gradient = A.T @ (p - np.eye(n)[y])
        self.precision = self.precision + A.T @ Q @ A
        step = np.linalg.solve(self.precision, gradient)
        self.theta = self.theta - step
        self.gamma += gradient @ step

    def span(self, A, z, reach, gamma):
        cov = A @ np.linalg.solve(self.precision, A.T)
        apart = np.maximum(np.diag(cov)[:, None] + np.diag(cov) - 2.0 * cov, 0.0)
        inside = np.sqrt(gamma * apart) if gamma >= 0.0 and gamma < math.inf else np.full(apart.shape, math.inf)
        return float(np.minimum(inside, reach + np.abs(z[:, None] - z[None])).max())

    def believe(self, s, a, x, log):
        """(P_hat, span, M): see docs/theory.md; M, the bound to the last outcome."""
        if int(self.count[s, a]) == 1:
            return np.ones(1), 0.0, 0.0
        A = self.rows(s, a, x)
        reach = self.reach(A, x)
        theta, moved = self.nearest(A, reach)
        gamma = self.gamma + (2.0 if self.fisher else 8.0) * log - moved
        return softmax(A @ theta), self.span(A, A @ theta, reach, gamma), float(reach[:, -1].max())
