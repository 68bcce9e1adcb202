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
    off = A - p @ A
    return off.T @ (p[:, None] * off)


def excess(p, q):
    """j, the smaller of the two bounds on E lse(z + u) - lse(z), u ~ N(0, q), and the tilted law t that goes with
    it."""
    n = len(p)
    off = np.eye(n) - p[None, :]  # u_k - p'u
    w = np.diag(off @ q @ off.T) / 2.0
    first, second = np.log(p @ np.exp(w)), 0.25 * np.trace((np.eye(n) - 1.0 / n) @ q)
    tilted = p * np.exp(w)
    return (first, tilted / tilted.sum()) if first <= second else (second, p)


def growth(m):
    """2 phi(m) = 2 (e^m - 1 - m)/m^2."""
    return 2.0 * np.expm1(m) / m**2 - 2.0 / m if m > 1e-3 else 1.0 + m / 3.0 + m * m / 12.0


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
    m = r.max()
    plain = 2.0 * (m - 1.0 + np.exp(-m)) / m**2 * form(p) if m > 4.0 else K
    return plain if np.trace(plain) > np.trace(K) else K


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
    0?) in use; known: (centre, cov, radius2) of the set before. Per component: g, H, A and beta; lean (b_c),
    steep, leap (s_c) and sides, the (r_i, H_i) of its steps ("Closer to theta*")."""

    def __init__(self, problem, b, steps, theta, lams, known, log):
        self.theta, self.lams, self.bound = theta, lams, float(problem.blocks.bound[b])
        blocks, count = problem.blocks, problem.layout.count
        centre, cov, radius2 = known
        made = [(k, rows(blocks, count, b, s, a, x), y, s, a, x) for k, s, a, y, x in steps]
        self.g, self.H, self.A, self.beta = [], [], [], []
        self.lean, self.steep, self.leap, self.sides = [], [], [], []
        for since, lam, around_zero in lams:
            mine = [step for step in made if step[0] >= since]
            g, H, bend, sides = np.zeros(len(theta)), np.zeros_like(lam), np.zeros_like(lam), []
            for _, A, y, s, a, x in mine:
                g, H = g + gradient(A, y, theta), H + hessian(A, theta)
                phi = blocks.features[s, a, : len(A), : int(blocks.size[b])]
                r = pair_bounds(A @ theta, A @ centre, A @ cov @ A.T, np.sqrt(radius2), self._reach(problem, phi, x))
                bend = bend + A.T @ curvature(softmax(A @ theta), r) @ A
                sides.append((r.max(), hessian(A, theta)))
            Q = np.linalg.inv(H + lam)
            beta = log + 0.5 * np.linalg.slogdet(np.eye(len(theta)) + np.linalg.solve(lam, H))[1]
            beta += 0.5 * theta @ lam @ theta if around_zero else 0.0
            beta -= 0.5 * np.trace(H @ Q)
            lean, steep = np.zeros(len(theta)), 1.0
            for _, A, *_ in mine:
                p = softmax(A @ theta)
                j, t = excess(p, A @ Q @ A.T)
                beta, lean, steep = beta + j, lean + A.T @ (t - p), max(steep, (t / p).max())
            leap = 0.0 if around_zero else min(1.0 - np.trace(H @ Q) / len(theta), 0.5)
            for to, one in ((self.g, g), (self.H, H), (self.A, bend), (self.beta, beta)):
                to.append(one)
            for to, one in ((self.lean, lean), (self.steep, steep), (self.leap, leap), (self.sides, sides)):
                to.append(one)

    def _reach(self, problem, phi, x):
        n = len(phi)
        made = np.full((n, n), 2.0 * problem.weight_bound)
        made[n - 1] = made[:, n - 1] = problem.weight_bound
        apart = self.bound * np.linalg.norm(phi[:, None] - phi[None], axis=-1)
        return np.minimum(made, apart) * np.linalg.norm(x)

    def risen(self, i):
        """sum 2 phi(r_i/2) H_i of component number i."""
        return sum((growth(r / 2.0) * H for r, H in self.sides[i]), start=np.zeros_like(self.H[i]))

    def steepest(self, i, s, exact=False):
        """U_c of component number i, as it is run: at most (1 - 2s) + 2s 2 phi(r/2) in the place of 2 phi(s r)."""
        if exact:
            return self.steep[i] * sum((growth(s * r) * H for r, H in self.sides[i]), start=np.zeros_like(self.H[i]))
        return self.steep[i] * ((1.0 - 2.0 * s) * self.H[i] + 2.0 * s * self.risen(i))

    def ellipsoid(self, share, tau, log_weight, leaps):
        """(centre, E, squared radius) of Theorem 2, components being taken with s = leaps."""
        E, g, beta = tau * np.eye(len(self.theta)), tau * self.theta, 0.0
        for i, (w, s) in enumerate(zip(share, leaps, strict=True)):
            if w > 0.0:
                _, lam, around_zero = self.lams[i]
                left = self.A[i] - s * s * self.steepest(i, s) - (0.0 if around_zero else (1.0 - s) ** 2 * lam)
                E, g = E + w * left, g + w * ((1.0 - s) * self.g[i] - s * self.lean[i])
                beta += w * (self.beta[i] + log_weight + np.log(w))
        beta += 0.5 * tau * (self.bound**2 - self.theta @ self.theta)
        return self.theta - np.linalg.solve(E, g), E, 2.0 * beta + g @ np.linalg.solve(E, g)
