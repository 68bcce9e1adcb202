"""A slow second implementation of runs, written from docs/semantics.md and the formulas, to compare the library with.

Plain NumPy: every matrix is accumulated and solved afresh, constants come from brute force over the vertices of their
region, projections from bisection. Nothing is imported from noregret; of a world only its public data are used (sizes,
bounds, masks, weights, contexts).

Sources are named as "theory n" (section n of the theory the package implements) and "semantics" (docs/semantics.md).
"""

import functools
import itertools
import math
from types import SimpleNamespace

import numpy as np

CONTEXT, LUCK, START, TIE, EXPLORE, NOISE = range(6)
SLACK = 0.25  # s of Theorem A
C = 1.5  # kappa = C alpha in Theorem B
MASK = 0xFFFFFFFF


# Random numbers (semantics, "Random numbers") ------------------------------------------------------------------------
def philox(counter, key):
    """Philox4x32-10 (Salmon et al., 2011): four words of counter, two of key -> four words."""
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(second >> 32) ^ c[1] ^ k[0], second & MASK, (first >> 32) ^ c[3] ^ k[1], first & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def words(seed, episode, step, purpose):
    return philox((episode & MASK, episode >> 32, step, purpose), (seed & MASK, seed >> 32))


def uniforms(seed, episode, step, purpose):
    """Two uniforms on [0, 1) of 53 bits."""
    w = words(seed, episode, step, purpose)
    return tuple(((w[i] >> 5) * 2**26 + (w[i + 1] >> 6)) / 2**53 for i in (0, 2))


def normals(seed, episode, step, purpose):
    """Box-Muller."""
    u, v = uniforms(seed, episode, step, purpose)
    r = math.sqrt(-2 * math.log(1 - u))
    return r * math.cos(2 * math.pi * v), r * math.sin(2 * math.pi * v)


def mix(key, index):
    """The finaliser of MurmurHash3 on key + index * golden ratio."""
    h = (key + index * 0x9E3779B9) & MASK
    h ^= h >> 16
    h = (h * 0x85EBCA6B) & MASK
    h ^= h >> 13
    h = (h * 0xC2B2AE35) & MASK
    return h ^ (h >> 16)


# Links: gradients, regions, constants (theory 1) ---------------------------------------------------------------------
def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def bisect(rising, low, high):
    """The zero of an increasing function, to the last bit."""
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return middle
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)


def project_simplex(z):
    """Nearest distribution: max(z - t, 0) with t such that it sums to 1."""
    if z.min() >= 0 and abs(z.sum() - 1) <= 1e-15:
        return z
    t = bisect(lambda t: 1 - np.maximum(z - t, 0).sum(), z.min() - 1, z.max())
    kept = z > t
    t = (z[kept].sum() - 1) / kept.sum()
    return np.maximum(z - t, 0)


def project_centred_box(z, bound):
    """Nearest point of {C y: |y_i| <= bound, y_last = 0} to z, which sums to zero: C y with y = clip(z + c), y_last = 0
    and c the minimiser of sum_{i<last} dist(z_i + c, [-bound, bound])^2 + (z_last + c)^2 (theory 3)."""
    if np.abs(z - z[-1]).max() <= bound:
        return z
    free = z[:-1]

    def slope(c):
        return (free + c - np.clip(free + c, -bound, bound)).sum() + z[-1] + c

    reach = np.abs(z).max() + bound
    c = bisect(slope, -reach, reach)
    high, low = free + c > bound, free + c < -bound
    c = -((free[high] - bound).sum() + (free[low] + bound).sum() + z[-1]) / (1 + high.sum() + low.sum())
    y = np.append(np.clip(free + c, -bound, bound), 0.0)
    return y - y.mean()


def project_row_ball(row, Z, bound):
    """Nearest point to `row` in the Z-norm, of those of 2-norm at most `bound`: (Z + mu I)^{-1} Z row (theory 3(b))."""
    if np.linalg.norm(row) <= bound:
        return row
    eye = np.eye(len(row))

    def at(mu):
        return np.linalg.solve(Z + mu * eye, Z @ row)

    high = 1.0
    while np.linalg.norm(at(high)) > bound:
        high *= 2
    return at(bisect(lambda mu: bound - np.linalg.norm(at(mu)), 0.0, high))


def vertices(n_outcomes, bound):
    """Vertices of the pinned box, [2^(m-1), m]."""
    signs = itertools.product((-bound, bound), repeat=n_outcomes - 1)
    return np.array([(*v, 0.0) for v in signs])


@functools.cache
def alpha_centred(n_outcomes, bound):
    """1/alpha = max over vertices of lambda_max of the pseudo-inverse D C diag(1/u) C of the Hessian (theory 1.2)."""
    n, worst = n_outcomes - 1, 0.0
    if n == 0:
        return 1.0
    centre = np.eye(n_outcomes) - 1 / n_outcomes
    for high in range(n + 1):
        u = np.exp(np.array([bound] * high + [-bound] * (n - high) + [0.0]))
        worst = max(worst, u.sum() * np.linalg.eigvalsh(centre @ np.diag(1 / u) @ centre)[-1])
    return 1 / worst


@functools.cache
def _extremes(n_outcomes, bound):
    """For every set U of outcomes: its indicator, and the largest mass a member of the pinned box gives to it."""
    sets = np.array(list(itertools.product((0.0, 1.0), repeat=n_outcomes)))
    y = np.where(sets > 0, bound, -bound)
    y[:, -1] = 0.0
    mass = (np.exp(y) * sets).sum(1) / np.exp(y).sum(1)
    return sets, mass


def prior_cap(p, bound):
    """max ||softmax(y) - p||_1 over the pinned box = 2 max over sets U and y of softmax(y)(U) - p(U) (theory 1.3)."""
    sets, mass = _extremes(len(p), bound)
    return 2 * (mass - sets @ p).max()


def zero_sum_l1(n_outcomes):
    """max ||v||_1/||v||_2 over v that sum to zero: half the coordinates of either sign, nearly (theory 1.3)."""
    if n_outcomes == 1:
        return 0.0
    a, b = n_outcomes // 2, n_outcomes - n_outcomes // 2
    v = np.array([1 / a] * a + [-1 / b] * b)
    return np.abs(v).sum() / np.linalg.norm(v)


# The estimators (theory 2, 3, 5) -------------------------------------------------------------------------------------
class Newton:
    """Algorithm 1 for one pair. kind: "logit" or "linear"; constants: "corrected" or "paper"; lam None: recommended."""

    def __init__(self, kind, n_outcomes, dim, weight_bound, context_bound=1.0, constants="corrected", lam=None):
        self.kind, self.m, self.d, self.bound = kind, n_outcomes, dim, weight_bound
        self.reach, self.paper = weight_bound * context_bound, constants == "paper"
        self.weight_norm2 = self.largest_norm2()
        self.lam = self.recommended([self]) if lam is None else lam
        self.Z = self.lam * np.eye(dim)
        self.W = np.full((n_outcomes, dim), 1 / n_outcomes if kind == "linear" and not self.paper else 0.0)
        self.samples, self.gradient_sum, self.displacement, self.projections = 0, 0.0, 0.0, 0

    def largest_norm2(self):
        """B_0^2: no W* is farther from W_1, squared and in the coordinates of the estimator."""
        if self.kind == "linear":
            return self.d if self.paper else self.d * (1 - 1 / self.m)
        if self.m == 2 and not self.paper:
            return self.bound**2 / 2
        return (self.m - 1) * self.bound**2  # pinned, and an upper bound when centred

    @staticmethod
    def recommended(estimators):
        """lambda shared by several: 2d/(kappa B_0^2) for the corrected logit, else 1."""
        first = estimators[0]
        if first.kind == "linear" or first.paper:
            return 1.0
        return 2 * first.d / (min(e.kappa(e.reach) for e in estimators) * max(e.weight_norm2 for e in estimators))

    def alpha(self, bound):
        if self.kind == "linear":
            return 1.0
        return math.exp(-self.reach) / self.m**2 if self.paper else alpha_centred(self.m, bound)

    def kappa(self, bound):
        """Coefficient of x x' in Z, for predictors within `bound`."""
        if self.paper:
            return self.alpha(bound) / 2
        return (2 - SLACK if self.kind == "logit" else C) * self.alpha(bound)

    def gradient(self, z):
        return softmax(z) if self.kind == "logit" else z

    def region(self, z, x):
        """Nearest point to z among the values that W* x can take."""
        if self.kind == "linear":
            return project_simplex(z)
        return z if self.paper else project_centred_box(z, self.bound * np.linalg.norm(x))

    def norm2(self, x):
        """||x||^2_{Z^-1}."""
        return x @ np.linalg.solve(self.Z, x)

    @property
    def logdet(self):
        return np.linalg.slogdet(self.Z)[1] - self.d * math.log(self.lam)

    def update(self, x, y):
        outcome = np.eye(self.m)[y]
        if self.paper:
            a = self.gradient(self.W @ x) - outcome
            if self.kind == "logit":
                a[-1] = 0.0
        else:
            z = self.W @ x
            v = self.region(z, x)
            if np.any(v != z):
                q = self.norm2(x)
                self.W = self.W + np.outer(v - z, np.linalg.solve(self.Z, x)) / q
                self.displacement += (v - z) @ (v - z) / q
                self.projections += np.abs(v - z).max() > 1e-12
            a = self.gradient(v) - outcome
        self.Z = self.Z + self.kappa(self.bound * np.linalg.norm(x)) * np.outer(x, x)
        self.W = self.W - np.outer(a, np.linalg.solve(self.Z, x))
        self.gradient_sum += (a @ a) * self.norm2(x)
        self.samples += 1
        if self.paper:
            rows = [project_row_ball(row, self.Z, self.bound) for row in self.W]
            self.projections += sum(np.any(new != old) for new, old in zip(rows, self.W, strict=True))
            self.W = np.array(rows)

    def radius(self, log_weight=0.0):
        """gamma of Theorem A, Theorem B or Theorem 3.1 as printed, with ln(1/delta) = log_weight."""
        start = self.lam * self.weight_norm2
        if self.paper:
            t, alpha, reach = max(self.samples, 1), self.alpha(self.reach), self.reach
            tau = math.log(2 * max(1, math.ceil(2 * math.log(self.m * t))) * t**2) + log_weight
            return start + 8 * reach + 2 * ((4 / alpha + 8 / 3 * reach) * tau + 4 / alpha * self.logdet)
        factor = 2 / SLACK if self.kind == "logit" else 1 / (2 - C)
        return start + factor * log_weight + self.gradient_sum - self.displacement

    def belief(self, x, log_weight):
        """(P_hat, width): the width bounds ||P_hat - P||_2 for the corrected linear link, else ||P_hat - P||_1; not cut
        under the paper's constants (semantics, "Beliefs at planning time")."""
        gamma, z = self.radius(log_weight), self.W @ x
        v = self.region(z, x)
        p = self.gradient(v)
        if self.paper:
            return p, math.sqrt(self.m) * math.sqrt(gamma * self.norm2(x))  # beta = 1 in both
        if self.m == 1:  # one possible outcome: nothing to know
            return p, 0.0
        w2 = gamma * self.norm2(x) - (v - z) @ (v - z)
        w = math.sqrt(w2) if w2 >= 0 else math.inf  # an empty set says nothing
        if self.kind == "linear":
            return p, min(math.sqrt(2), w)
        return p, min(2 * math.tanh(w / (2 * math.sqrt(2))), prior_cap(p, self.bound * np.linalg.norm(x)))

    def probabilities(self, x):
        return self.belief(x, 0.0)[0]

    def l1_width(self, x, log_weight):
        width = self.belief(x, log_weight)[1]
        if self.kind == "linear" and not self.paper:
            width *= zero_sum_l1(self.m)
        return min(2.0, width)


class Conversion(Newton):
    """A confidence set from an online learner, for one pair (theory 10; semantics, 'confidence="conversion"').

    Batch: the history of contexts x_i, shifted predictions u_i' = u_i - W_1 x_i, gradients a_i and curvatures alpha_i
    is kept, and everything but the iterate of "ons" is computed from it whenever it is asked for.

    learner: "ons", "ftrl", or an object with predict(x) -> [m] and update(x, y) whose predictions are taken as they are
    but for the region. It may have point(), the weights (less W_1) at which hindsight is taken; -N Z^-1 otherwise."""

    def __init__(self, kind, n_outcomes, dim, weight_bound, context_bound=1.0, lam=None, learner="ons",
                 group_bound=None):  # fmt: skip
        self.kind, self.m, self.d, self.bound = kind, n_outcomes, dim, weight_bound
        self.reach, self.paper, self.learner, self.group = weight_bound * context_bound, False, learner, group_bound
        self.weight_norm2 = self.largest_norm2()
        if group_bound is not None:
            self.weight_norm2 = min(self.weight_norm2, group_bound**2)
        self.lam = self.recommended([self]) if lam is None else lam
        self.start = np.full((n_outcomes, dim), 1 / n_outcomes if kind == "linear" else 0.0)
        self.iterate = np.zeros((n_outcomes, dim))  # of "ons", less W_1
        self.history, self.samples, self.projections = np.zeros((16, dim + 2 * n_outcomes + 1)), 0, 0

    def kappa(self, bound):
        """Coefficient of x x' in Z: the curvature itself."""
        return self.alpha(bound)

    def columns(self):
        """X [n, d], U' [n, m], A [n, m], alpha [n, 1]."""
        return np.split(self.history[: self.samples], np.cumsum([self.d, self.m, self.m]), axis=1)

    def remember(self, *row):
        if self.samples == len(self.history):
            self.history = np.concatenate([self.history, np.zeros_like(self.history)])
        self.history[self.samples] = np.concatenate(row)
        self.samples += 1

    @property
    def Z(self):
        X, _, _, alpha = self.columns()
        return self.lam * np.eye(self.d) + X.T @ (alpha * X)

    @property
    def moment(self):
        """U = sum alpha u' x'."""
        X, U, _, alpha = self.columns()
        return (alpha * U).T @ X

    @property
    def W(self):
        """The centre W_1 + U Z^-1."""
        return self.start + np.linalg.solve(self.Z, self.moment.T).T

    def quadratic(self, V):
        """q(V) = sum <a_i, V x_i - u_i'> + alpha_i/2 ||V x_i - u_i'||^2 and its gradient at V, term by term."""
        X, U, A, alpha = self.columns()
        gaps = X @ V.T - U
        return np.sum(A * gaps) + 0.5 * np.sum(alpha * gaps**2), (A + alpha * gaps).T @ X

    def leader(self):
        """-N Z^-1: minimises q(V) + lambda/2 ||V||^2."""
        slope = self.quadratic(np.zeros((self.m, self.d)))[1]  # N, the gradient at 0
        return -np.linalg.solve(self.Z, slope.T).T

    def regret_bound(self, V=None):
        """B = -q(V) + max over K of <grad q(V), V - W>, K the ball of radius B_0 or (also) the (2,1)-ball."""
        if V is None:
            V = self.learner.point() if hasattr(self.learner, "point") else self.leader()
        value, g = self.quadratic(V)
        dual = math.sqrt(self.weight_norm2) * np.linalg.norm(g)
        if self.group is not None:
            dual = min(dual, self.group * np.linalg.norm(g, axis=0).max())
        return -value + np.sum(g * V) + dual

    def residual(self):
        """min over W of sum alpha_i ||W x_i - u_i||^2 + lambda ||W - W_1||^2, as the sum it is at the centre."""
        X, U, _, alpha = self.columns()
        V = self.W - self.start
        return np.sum(alpha * (X @ V.T - U) ** 2) + self.lam * np.sum(V**2)

    def radius(self, log_weight=0.0):
        if self.kind == "logit":
            factor, slope = 2 / (1 - SLACK), 2 / (SLACK * (1 - SLACK))
        else:
            factor, slope = 4.0, 4.0
        start = self.lam * self.weight_norm2 + slope * log_weight
        return start + factor * self.regret_bound() - self.residual() if self.samples else start

    def predict(self, x):
        """u, and the prediction it is the projection of."""
        if self.learner == "ons":
            z = (self.iterate + self.start) @ x
        elif self.learner == "ftrl":
            z = (self.leader() + self.start) @ x
        else:
            z = np.asarray(self.learner.predict(x))
            z = z - z.mean() if self.kind == "logit" else z
        return self.region(z, x), z

    def loss(self, u, y):
        """Phi(u) - u_y."""
        return (np.logaddexp.reduce(u) if self.kind == "logit" else 0.5 * u @ u) - u[y]

    def update(self, x, y):
        u, z = self.predict(x)
        self.projections += np.abs(u - z).max() > 1e-12
        if self.learner == "ons" and np.any(u != z):
            self.iterate = self.iterate + np.outer(u - z, np.linalg.solve(self.Z, x)) / self.norm2(x)
        a = self.gradient(u) - np.eye(self.m)[y]
        self.remember(x, u - self.start @ x, a, [self.alpha(self.bound * np.linalg.norm(x))])
        if self.learner == "ons":
            self.iterate = self.iterate - np.outer(a, np.linalg.solve(self.Z, x))
        elif self.learner != "ftrl":
            self.learner.update(x, y)


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


class Ridge:
    """theta_hat = V^{-1} sum x r, V = lambda I + sum x x' (theory 5)."""

    def __init__(self, dim, lam):
        self.lam, self.V, self.moment = lam, lam * np.eye(dim), np.zeros(dim)

    def update(self, x, reward):
        self.V = self.V + np.outer(x, x)
        self.moment = self.moment + reward * x

    @property
    def theta(self):
        return np.linalg.solve(self.V, self.moment)

    def width(self, x, reward_bound, log_weight, scale):
        logdet = np.linalg.slogdet(self.V)[1] - len(x) * math.log(self.lam)
        radius = math.sqrt(self.lam) * reward_bound + 0.5 * math.sqrt(2 * log_weight + logdet)
        return min(1.0, scale * radius * math.sqrt(x @ np.linalg.solve(self.V, x)))

    def belief(self, x, reward_bound, log_weight, scale=1.0):
        """(r_hat, xi_r), the set's radius times `scale`."""
        return min(max(self.theta @ x, 0.0), 1.0), self.width(x, reward_bound, log_weight, scale)


class Logistic:
    """Rewards 0 or 1 with mean sigma(theta'x): Theorem A with one predictor (theory 5). lam None: recommended."""

    def __init__(self, dim, lam, reward_bound, context_bound):
        self.bound = reward_bound
        self.lam = dim / (self.kappa(reward_bound * context_bound) * reward_bound**2) if lam is None else lam
        self.V, self.theta = self.lam * np.eye(dim), np.zeros(dim)
        self.gradient_sum = self.displacement = 0.0
        self.projections = 0

    @staticmethod
    def kappa(reach):
        return (2 - SLACK) * sigmoid(reach) * sigmoid(-reach)

    def norm2(self, x):
        return x @ np.linalg.solve(self.V, x)

    def update(self, x, reward):
        reach, z = self.bound * np.linalg.norm(x), self.theta @ x
        v = min(max(z, -reach), reach)
        if v != z:
            self.theta = self.theta + (v - z) * np.linalg.solve(self.V, x) / self.norm2(x)
            self.displacement += (v - z) ** 2 / self.norm2(x)
            self.projections += 1
        error = sigmoid(v) - reward
        self.V = self.V + self.kappa(reach) * np.outer(x, x)
        self.theta = self.theta - error * np.linalg.solve(self.V, x)
        self.gradient_sum += error**2 * self.norm2(x)

    def radius(self, log_weight=0.0):
        return self.lam * self.bound**2 + 2 / SLACK * log_weight + self.gradient_sum - self.displacement

    def belief(self, x, reward_bound, log_weight, scale=1.0):
        reach, z = reward_bound * np.linalg.norm(x), self.theta @ x
        v = min(max(z, -reach), reach)
        w2 = self.radius(log_weight) * self.norm2(x) - (v - z) ** 2
        width = math.tanh(scale * math.sqrt(w2) / 4) if w2 >= 0 else 1.0
        mean = sigmoid(v)
        return mean, min(width, max(sigmoid(reach) - mean, mean - sigmoid(-reach)))


class Laplace:
    """Rewards 0 or 1 with mean sigma(theta'x), learned with the curvature at the estimate (docs/exploration.md)."""

    def __init__(self, dim, bound, lam=None):
        self.least = self.level = dim / bound**2 if lam is None else lam
        self.curved, self.theta, self.lengths, self.measured = np.zeros((dim, dim)), np.zeros(dim), [], 0

    @property
    def V(self):
        return self.level * np.eye(len(self.theta)) + self.curved

    def update(self, x, reward):
        p = sigmoid(self.theta @ x)
        self.curved = self.curved + max(p * (1 - p), 1e-4) * np.outer(x, x)
        self.theta = self.theta - (p - reward) * np.linalg.solve(self.V, x)
        self.lengths.append(x @ x)
        if len(self.lengths) >= 1.5 * self.measured:
            self.measured = len(self.lengths)
            self.level = max(self.least, np.mean(self.lengths) / 4)

    def at(self, u):
        p, q = sigmoid(self.theta @ u), u @ np.linalg.solve(self.V, u)
        deviation = math.sqrt(q) if self.lengths else min(math.sqrt(q), 2.0)
        return p, p * (1 - p) * deviation, min(self.level * q / (u @ u), 1.0) if u @ u > 0 else 0.0

    def belief(self, x, reward_bound, log_weight, scale=1.0):
        """The estimate; its interval is used by nobody."""
        reach = reward_bound * np.linalg.norm(x)
        return sigmoid(min(max(self.theta @ x, -reach), reach)), math.inf


class Known:
    """Mean rewards that are told: nothing is learned."""

    def __init__(self, theta, logistic, lam):
        self.theta, self.logistic, self.lam, self.V = theta, logistic, lam, None

    def update(self, x, reward):
        pass

    def belief(self, x, reward_bound, log_weight, scale=1.0):
        return mean_reward(self.theta @ x, self.logistic), 0.0


# The agents (theory 6, 7; semantics, "Planning") ---------------------------------------------------------------------
class Learner:
    """kind: "glm-orl", "glm-rlsvi", "certainty-equivalence" or "epsilon-greedy"."""

    def __init__(self, problem, kind, seed=0, *, constants="corrected", bonus_scale=1.0, delta=0.05, exploration=1 / 3,
                 regularization=None, reward_regularization=None, confidence="newton", learner="ons",
                 group_bound=None):  # fmt: skip
        p = self.problem = problem
        self.kind, self.seed, self.paper, self.scale = kind, seed, constants == "paper", bonus_scale
        self.delta, self.exploration, self.link = delta, exploration, p.link.name
        S, A = p.n_states, p.n_actions
        self.available = np.ones((S, A), bool) if p.available is None else np.asarray(p.available)
        self.outcomes = supported(problem)

        def make(s, a, lam):
            sizes = self.link, len(self.outcomes[s, a]), p.context_dim, p.weight_bound, p.context_bound
            if confidence == "newton":
                return Newton(*sizes, constants, lam)
            return Conversion(*sizes, lam, learner, group_bound)

        pairs = list(itertools.product(range(S), range(A)))
        if regularization is None:
            regularization = Newton.recommended([make(s, a, 1.0) for s, a in pairs])
        self.newton = {pair: make(*pair, regularization) for pair in pairs}
        if confidence != "newton" and callable(learner):  # a learner of its own for every pair
            for newton in self.newton.values():
                newton.learner = learner(newton)
        self.rewards = {pair: self.reward_learner(pair, reward_regularization) for pair in pairs}
        self.decisions = self.ties = 0  # choices among several actions so far, and how many of them were ties
        self.limited = 0  # bonuses that were cut at the span of V

    def reward_learner(self, pair, lam):
        p = self.problem
        logistic = p.rewards == "logistic"
        if p.known_rewards is not None:
            return Known(p.known_rewards[pair], logistic, 1.0 if lam is None else lam)
        if logistic and self.kind in ("certainty-equivalence", "epsilon-greedy"):  # no interval is asked for
            return Laplace(p.context_dim, p.reward_bound, lam)
        if logistic:
            return Logistic(p.context_dim, lam, p.reward_bound, p.context_bound)
        least = (1e-3 if p.context_dim > 1 else 1e-6) * p.context_bound**2
        return Ridge(p.context_dim, max(1.0, least) if lam is None else lam)

    def log_weight(self, k):
        """ln(1/delta') in episode k."""
        p, n_pairs = self.problem, int(self.available.sum())
        if self.kind == "glm-rlsvi":
            return math.log(2 * n_pairs) + 2 * math.log(k + 1)
        if self.paper:
            return math.log((2 * p.n_states * p.n_actions + p.n_states * p.horizon) / self.delta)
        return math.log((2 * n_pairs + 1) / self.delta)

    def beliefs(self, x, k):
        """P_hat [S, A, S'], r_hat, xi_p, xi_r [S, A] for an individual with context x; GLM-ORL's xi_r is scaled."""
        p, log_weight = self.problem, self.log_weight(k)
        S, A = p.n_states, p.n_actions
        P, r, xi_p, xi_r = np.zeros((S, A, S)), np.zeros((S, A)), np.zeros((S, A)), np.zeros((S, A))
        scale = self.scale if self.kind == "glm-orl" else 1.0
        for (s, a), newton in self.newton.items():
            reward = self.rewards[s, a]
            P[s, a, self.outcomes[s, a]], xi_p[s, a] = newton.belief(x, log_weight)
            if self.paper and isinstance(reward, Ridge):  # eq. CI_r as printed: the Z of the transitions
                r[s, a] = reward.theta @ x
                root = math.sqrt(reward.lam * len(x)) + math.sqrt((newton.logdet + 2 * log_weight) / 4)
                xi_r[s, a] = scale * root * math.sqrt(newton.norm2(x))
            else:
                r[s, a], xi_r[s, a] = reward.belief(x, p.reward_bound, log_weight, scale)
            if self.kind == "glm-rlsvi":
                if self.paper:
                    xi_p[s, a] = min(2.0, xi_p[s, a])
                    xi_r[s, a] = min(p.reward_bound * p.context_bound, xi_r[s, a])
                elif self.link == "linear":
                    xi_p[s, a] = min(2.0, zero_sum_l1(newton.m) * xi_p[s, a])
        return P, r, xi_p, xi_r

    def noise(self, k, h, xi_p, xi_r):
        """b_h [S, A] of GLM-RLSVI."""
        p = self.problem
        S, A, H = p.n_states, p.n_actions, p.horizon
        b = np.zeros(S * A)
        for i in range(0, S * A, 2):
            b[i : i + 2] = normals(self.seed, k, h * S * A + i, NOISE)[: S * A - i]
        if self.paper:
            deviation = np.sqrt(S * H * ((H - h - 1) * xi_p + xi_r))
        else:
            deviation = math.sqrt(S * H) * ((H - h - 1) / 2 * xi_p + xi_r)
        return b.reshape(S, A) * self.scale * deviation

    def q_values(self, h, V, model, b):
        """Q_h [S, A] from V_{h+1} [S]."""
        P, r, xi_p, xi_r = model
        Q = np.zeros(r.shape)
        span = V.max() - V.min()
        for s, a in np.ndindex(*r.shape):
            Q[s, a] = r[s, a] + P[s, a] @ V
            if self.kind == "glm-orl":
                width = self.scale * xi_p[s, a]
                if self.paper:
                    bonus = V.max() * width
                else:
                    spread = np.linalg.norm(V - V.mean()) if self.link == "linear" else span / 2
                    self.limited += spread * width > span
                    bonus = min(spread * width, span)
                Q[s, a] = min(max(Q[s, a] + xi_r[s, a] + bonus, 0.0), self.problem.horizon - h)
            elif self.kind == "glm-rlsvi":
                Q[s, a] += b[s, a]
        return Q

    def plan(self, x, k):
        """(policy [H, S], values [H+1, S]) for context x in episode k."""
        p = self.problem
        S, H = p.n_states, p.horizon
        model = self.beliefs(x, k)
        policy, V = np.zeros((H, S), int), np.zeros((H + 1, S))
        key = words(self.seed, k, 0, TIE)[0]
        for h in reversed(range(H)):
            b = self.noise(k, h, *model[2:]) if self.kind == "glm-rlsvi" else None
            Q = self.q_values(h, V[h + 1], model, b)
            for s in range(S):
                actions = np.flatnonzero(self.available[s])
                V[h, s] = Q[s, actions].max()
                best = [a for a in actions if Q[s, a] >= V[h, s] - 1e-9]
                self.decisions += len(actions) > 1
                self.ties += len(best) > 1
                policy[h, s] = best[(mix(key, h * S + s) * len(best)) >> 32]
                if self.kind == "epsilon-greedy":
                    u, v = uniforms(self.seed, k, h * S + s, EXPLORE)
                    if u < (k + 1) ** -self.exploration:
                        policy[h, s] = actions[math.floor(v * len(actions))]
        return policy, V

    def learn(self, x, path):
        """path: (state, action, reward, next state) in order; a reward of nan was not seen."""
        for s, a, reward, after in path:
            self.newton[s, a].update(x, list(self.outcomes[s, a]).index(after))
            if not math.isnan(reward):
                self.rewards[s, a].update(x, reward)


# The world (semantics, "An episode") ---------------------------------------------------------------------------------
def supported(problem):
    """(s, a) -> supported next states in order; a pair that can never be taken may have none, and gets state 0."""
    S, A = problem.n_states, problem.n_actions
    everything = np.ones((S, A, S), bool) if problem.support is None else np.asarray(problem.support)
    made = {}
    for s, a in np.ndindex(S, A):
        if everything.dtype == bool:
            states = np.flatnonzero(everything[s, a])
        else:  # next states themselves, -1 for none
            states = np.array(sorted({int(j) for j in everything[s, a]} - {-1}), dtype=int)
        made[s, a] = states if states.size else np.array([0])
    return made


def mean_reward(z, logistic):
    return sigmoid(z) if logistic else min(max(z, 0.0), 1.0)


def individual(world, x):
    """P [S, A, S'] and mean rewards [S, A] of the individual with context x."""
    p = world.problem
    S, A = p.n_states, p.n_actions
    P, r = np.zeros((S, A, S)), np.zeros((S, A))
    for (s, a), states in supported(p).items():
        z = world.weights[s, a, states] @ x
        P[s, a, states] = softmax(z) if p.link.name == "logit" else z
        r[s, a] = mean_reward(world.reward_weights[s, a] @ x, p.rewards == "logistic")
    return P, r


def start_state(world, seed, k):
    start = world.initial_state
    if callable(start):
        return start(seed, k)
    if isinstance(start, str):
        return world.problem.state_names.index(start)
    if np.ndim(start) == 0:
        return int(start)
    edges = np.cumsum(start)
    u, _ = uniforms(seed, k, 0, START)
    return int(min(np.sum(edges <= u), len(edges) - 1))


def optimal_values(P, r, available, horizon):
    V = np.zeros(len(r))
    for _ in range(horizon):
        V = np.where(available, r + P @ V, -np.inf).max(1)
    return V


def policy_values(P, r, policy):
    V, states = np.zeros(len(r)), np.arange(len(r))
    for actions in policy[::-1]:
        V = r[states, actions] + P[states, actions] @ V
    return V


def rollout(P, r, outcomes, policy, state, seed, k):
    """The path (state, action, reward, next state) of one episode."""
    path = []
    for h in range(len(policy)):
        u, v = uniforms(seed, k, h, LUCK)
        a, total, after = policy[h, state], 0.0, None
        for after in outcomes[state, a]:  # the last one stays if none exceeds u
            total += P[state, a, after]
            if total > u:
                break
        path.append((state, a, 1.0 if v < r[state, a] else 0.0, after))
        state = after
    return path


def context(world, seed, k):
    X = np.empty((1, world.problem.context_dim))
    world.contexts.fill(seed, k, X)
    return X[0]


def run(world, agent_kind, episodes, seed, **options):
    """The whole run: cumulative regret [episodes]; policies [H, S] and values [H+1, S] as planned, per episode; the
    learner at the end, with its weights [S, A, M, d] (0 in the padding), radii without ln(1/delta) [S, A] and
    theta [S, A, d]."""
    p = world.problem
    learner = Learner(p, agent_kind, seed, **options)
    regret, policies, values, total = [], [], [], 0.0
    for k in range(episodes):
        x = context(world, seed, k)
        P, r = individual(world, x)
        start = start_state(world, seed, k)
        policy, V = learner.plan(x, k)
        total += optimal_values(P, r, learner.available, p.horizon)[start] - policy_values(P, r, policy)[start]
        learner.learn(x, rollout(P, r, learner.outcomes, policy, start, seed, k))
        regret.append(total)
        policies.append(policy)
        values.append(V)
    return SimpleNamespace(regret=np.array(regret), policies=policies, values=values, learner=learner, **final(learner))


def final(learner):
    """What a learner holds, as arrays."""
    p, n_slots = learner.problem, max(len(states) for states in learner.outcomes.values())
    S, A, d = p.n_states, p.n_actions, p.context_dim
    weights, radii, theta = np.zeros((S, A, n_slots, d)), np.zeros((S, A)), np.zeros((S, A, d))
    for (s, a), newton in learner.newton.items():
        weights[s, a, : newton.m] = newton.W
        radii[s, a] = newton.radius()
        theta[s, a] = learner.rewards[s, a].theta
    return {"weights": weights, "radii": radii, "theta": theta}
