"""The mixture set of one block of a design in plain NumPy, from the formulas of docs/beyond.md (section 3) alone: rows
of features and contexts written out, sums over lists of steps, inverses from scratch. Imports no kernel."""

import numpy as np

INTERVALS = 8


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def rows(blocks, count, b, s, a, x):
    """A [n, p] of a step of pair (s, a) at x."""
    q, n, d = int(blocks.size[b]), int(count[s, a]), len(x)
    start, column = blocks.start[b], blocks.column[b]
    free = np.array([i * d + column[e] for i in range(q) for e in range(start[i], start[i + 1])])
    return np.stack([np.kron(row, x)[free] for row in blocks.features[s, a, :n, :q]])


def loss(A, y, theta):
    z = A @ theta
    return np.log(np.exp(z - z.max()).sum()) + z.max() - z[y]


def gradient(A, y, theta):
    return A.T @ (softmax(A @ theta) - np.eye(len(A))[y])


def hessian(A, theta):
    p = softmax(A @ theta)
    return A.T @ (np.diag(p) - np.outer(p, p)) @ A


def excess(p, q):
    """j: the smaller of the two bounds on E lse(z + u) - lse(z), u ~ N(0, q)."""
    n = len(p)
    off = np.eye(n) - p[None, :]  # u_k - p'u
    variances = np.diag(off @ q @ off.T)
    C = np.eye(n) - 1.0 / n
    return min(np.log(p @ np.exp(variances / 2.0)), 0.25 * np.trace(C @ q))


def form(c):
    return np.diag(c) - np.outer(c, c) / c.sum()


def curvature(p, r):
    """K from below: eight intervals (docs, "The integral, from below")."""
    h, K = 1.0 / INTERVALS, np.zeros((len(p), len(p)))
    for i in range(INTERVALS):
        c0, c1 = (p / (np.exp(t * r) @ p) for t in (i * h, (i + 1) * h))
        middle = c1 * (3.0 * c0 - c1) / (c0 + c1)
        weight = h * (1.0 - i * h)
        K += (weight - 2.0 * h * h / 3.0) * form(c1) + (weight - h * h / 3.0) * form(middle)
    return K


def pair_bounds(z, at, cov, rho, reach):
    """r[k, l] >= v_l - v_k for v = z* - z."""
    n = len(z)
    r = np.zeros((n, n))
    for k in range(n):
        for m in range(n):
            if k != m:
                ball = at[m] - at[k] + rho * np.sqrt(max(cov[m, m] + cov[k, k] - 2.0 * cov[m, k], 0.0))
                r[k, m] = max(min(ball, reach[k, m]) - (z[m] - z[k]), 0.0)
    return r


class Refresh:
    """What a refresh at theta_hat says. steps: [(episode, s, a, y, x)]; lams: components (first episode, Lam, around
    0?) in use; known: (centre, cov, radius2) of the set before."""

    def __init__(self, problem, b, steps, theta, lams, known, log):
        self.theta, self.lams, self.bound = theta, lams, float(problem.blocks.bound[b])
        blocks, count = problem.blocks, problem.layout.count
        centre, cov, radius2 = known
        made = [(k, rows(blocks, count, b, s, a, x), y, s, a, x) for k, s, a, y, x in steps]
        self.g, self.H, self.A, self.beta = [], [], [], []
        for since, lam, around_zero in lams:
            mine = [step for step in made if step[0] >= since]
            g, H, bend = np.zeros(len(theta)), np.zeros_like(lam), np.zeros_like(lam)
            for _, A, y, s, a, x in mine:
                g, H = g + gradient(A, y, theta), H + hessian(A, theta)
                phi = blocks.features[s, a, : len(A), : int(blocks.size[b])]
                r = pair_bounds(A @ theta, A @ centre, A @ cov @ A.T, np.sqrt(radius2), self._reach(problem, phi, x))
                bend = bend + A.T @ curvature(softmax(A @ theta), r) @ A
            Q = np.linalg.inv(H + lam)
            beta = log + 0.5 * np.linalg.slogdet(np.eye(len(theta)) + np.linalg.solve(lam, H))[1]
            beta += sum(excess(softmax(A @ theta), A @ Q @ A.T) for _, A, *_ in mine) - 0.5 * np.trace(H @ Q)
            beta += 0.5 * theta @ lam @ theta if around_zero else 0.0
            for to, one in ((self.g, g), (self.H, H), (self.A, bend), (self.beta, beta)):
                to.append(one)

    def _reach(self, problem, phi, x):
        n = len(phi)
        made = np.full((n, n), 2.0 * problem.weight_bound)
        made[n - 1] = made[:, n - 1] = problem.weight_bound
        apart = self.bound * np.linalg.norm(phi[:, None] - phi[None], axis=-1)
        return np.minimum(made, apart) * np.linalg.norm(x)

    def ellipsoid(self, share, tau, log_weight):
        """(centre, E, squared radius) of Theorem 2."""
        E, g, beta = tau * np.eye(len(self.theta)), tau * self.theta, 0.0
        for w, (_, lam, around_zero), gc, A, b in zip(share, self.lams, self.g, self.A, self.beta, strict=True):
            if w > 0.0:
                E, g = E + w * (A - (0.0 if around_zero else lam)), g + w * gc
                beta += w * (b + log_weight + np.log(w))
        beta += 0.5 * tau * (self.bound**2 - self.theta @ self.theta)
        return self.theta - np.linalg.solve(E, g), E, 2.0 * beta + g @ np.linalg.solve(E, g)
