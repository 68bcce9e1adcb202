"""The set of one block of a design in plain NumPy, from the formulas of docs/beyond.md alone: dense matrices, inverses
from scratch, rows A of features and contexts written out. Imports nothing of the library's kernels."""

import numpy as np


def _softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def _lower_curvature(r):
    return 0.5 - r / 6.0 + r * r / 24.0 if r < 1e-4 else (np.exp(-r) + r - 1.0) / r**2


def _unscented(z, cov, y):
    """phat(y)/p(y): sigma points of the logits, the last of which is known."""
    n = len(z)
    m, p = n - 1, _softmax(z)
    F = np.linalg.cholesky(cov[:m, :m] + (1e-12 * np.trace(cov[:m, :m]) + 1e-290) * np.eye(m))
    points = [p / n]
    for i in range(m):
        for sign in (1.0, -1.0):
            moved = z.copy()
            moved[:m] += sign * np.sqrt(n) * F[:, i]
            points.append(_softmax(moved) / (2.0 * n))
    return sum(points)[y] / p[y]


def _unscented_features(phi, t, B, y):
    """The same by sigma points of t = Theta x, where features are fewer than predictions."""
    q, p = len(t), _softmax(phi @ t)
    L = np.linalg.cholesky(B + (1e-14 * np.trace(B) + 1e-290) * np.eye(q))
    points = [p / (q + 1.0)]
    for i in range(q):
        for sign in (1.0, -1.0):
            points.append(_softmax(phi @ (t + sign * np.sqrt(q + 1.0) * L[:, i])) / (2.0 * (q + 1.0)))
    return sum(points)[y] / p[y]


class SharedSet:
    """theta, precision and squared radius of block b of a problem's design."""

    def __init__(self, problem, b, lam, log, posterior):
        self.blocks, self.count, self.weight_bound = problem.blocks, problem.layout.count, problem.weight_bound
        self.q, self.d = int(self.blocks.size[b]), problem.context_dim
        self.bound, self.posterior = float(self.blocks.bound[b]), posterior
        start, column = self.blocks.start[b], self.blocks.column[b]
        self.free = np.array([i * self.d + column[e] for i in range(self.q) for e in range(start[i], start[i + 1])])
        self.theta = np.zeros(self.free.size)
        self.precision = lam * np.eye(self.free.size)
        self.radius2 = lam * self.bound**2 + 2.0 * log

    def learn(self, s, a, y, x):
        n = int(self.count[s, a])
        if n == 1:
            return
        phi = self.blocks.features[s, a, :n, : self.q]
        A = np.stack([np.kron(row, x)[self.free] for row in phi])
        z = A @ self.theta
        p, cov = _softmax(z), A @ np.linalg.solve(self.precision, A.T)
        c, gain = 0.5, 0.0
        if not self.posterior:
            c = _lower_curvature(self._span(phi, z, cov, np.linalg.norm(x)))
            if n - 1 <= self.q:
                gain = np.log(_unscented(z, cov, y))
            else:
                X = np.kron(np.eye(self.q), x[:, None])[self.free]
                t, B = X.T @ self.theta, X.T @ np.linalg.solve(self.precision, X)
                gain = np.log(_unscented_features(phi, t, B, y))
        gradient = A.T @ (p - np.eye(n)[y])
        self.precision = self.precision + 2.0 * c * A.T @ (np.diag(p) - np.outer(p, p)) @ A
        step = np.linalg.solve(self.precision, gradient)
        self.theta = self.theta - step
        self.radius2 += gradient @ step - 2.0 * gain

    def _span(self, phi, z, cov, norm):
        n, largest = len(z), 0.0
        rho = np.sqrt(self.radius2) if self.radius2 >= 0.0 else np.inf
        if n > 12 and n - 1 > self.q:  # the two farthest from their mean stand for all
            centred = cov - cov.mean(0) - cov.mean(1)[:, None] + cov.mean()
            far = np.sort(np.sqrt(np.maximum(np.diag(centred), 0.0)))
            most = max(
                min((1.0 if n - 1 in (j, k) else 2.0) * self.weight_bound, self.bound * np.linalg.norm(phi[j] - phi[k]))
                for j in range(n)
                for k in range(n)
                if j != k
            )
            return min(rho * (far[-1] + far[-2]), most * norm + z.max() - z.min())
        for j in range(n):
            for k in range(n):
                if j != k:
                    rows = (1.0 if n - 1 in (j, k) else 2.0) * self.weight_bound
                    bound = min(rows, self.bound * np.linalg.norm(phi[j] - phi[k])) * norm
                    width = rho * np.sqrt(max(cov[j, j] + cov[k, k] - 2.0 * cov[j, k], 0.0))
                    largest = max(largest, min(width, bound - (z[j] - z[k])))
        return largest
