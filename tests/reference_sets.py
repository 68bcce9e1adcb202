"""A slow second implementation of the agents with local sets, written from docs/semantics-sets.md and the formulas.

Plain NumPy, one pair at a time: every matrix is accumulated and solved afresh, nothing is updated by rank-one formulas,
distances between logits are taken over all ordered pairs of outcomes. Random numbers, mean rewards, the world and its
values are those of `reference`. Nothing is imported from noregret.

"page" below is docs/semantics-sets.md.
"""

import itertools
import math
from collections import Counter
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np

import reference
from reference import mix, prior_cap, project_simplex, softmax, uniforms, words

POSTERIOR, PERTURBATION = 6, 7
REWARD_SHARE = 0.8
SIGN_UNION_REGULARIZATION, SIGN_UNION_SLACK = 2.0, 1e-9
SCALES = [0.2 * (0.76 / 0.2) ** (i / 5) for i in range(6)]
quantile = NormalDist().inv_cdf


def lower_curvature(r):
    """g(r) = (e^-r + r - 1)/r^2, by its series near 0."""
    if r < 0.1:
        return sum((-r) ** k / math.factorial(k + 2) for k in range(12))
    return (math.exp(-r) + r - 1) / r**2


def upper_curvature(r):
    """psi(r) = (e^r - r - 1)/r^2, by its series near 0."""
    if r < 0.1:
        return sum(r**k / math.factorial(k + 2) for k in range(12))
    return (math.exp(r) - r - 1) / r**2


def factor_of(cov):
    """The lower Cholesky factor of cov + (1e-12 tr cov) I; 0 for 0, which is the context 0."""
    trace = np.trace(cov)
    return np.linalg.cholesky(cov + 1e-12 * trace * np.eye(len(cov))) if trace > 0 else np.zeros_like(cov)


# The sets of one pair ------------------------------------------------------------------------------------------------
class LikelihoodSet:
    """The online likelihood-ratio set of one pair; predictor None: its posterior, with c = 1/2 and no radius.

    form "full": Lambda [n d, n d]; "kron": Z [d, d] for Lambda = I (x) Z."""

    def __init__(self, n_outcomes, dim, weight_bound, log=0.0, *, form="full", predictor="unscented", lam=1.0):
        self.n, self.d, self.bound, self.form, self.predictor = n_outcomes, dim, weight_bound, form, predictor
        self.W = np.zeros((n_outcomes, dim))
        self.precision = lam * np.eye(dim if form == "kron" else n_outcomes * dim)
        norm2 = weight_bound**2 / 2 if n_outcomes == 2 else (n_outcomes - 1) * weight_bound**2
        self.rho2 = lam * norm2 + 2 * log
        self.samples = self.capped = self.empty = 0

    def lam(self):
        """Lambda in full, whatever the form."""
        return np.kron(np.eye(self.n), self.precision) if self.form == "kron" else self.precision

    def logits(self, x):
        return self.W @ x

    def cov(self, x):
        """cov_jk = (e_j (x) x)' Lambda^-1 (e_k (x) x)."""
        E = np.kron(np.eye(self.n), x)  # rows e_j (x) x
        return E @ np.linalg.solve(self.lam(), E.T)

    def rho(self):
        return math.sqrt(self.rho2) if self.rho2 >= 0 else math.inf

    def span(self, x):
        """r: no two logits of a member differ by more, beyond what those of the centre do."""
        z, cov, B = self.logits(x), self.cov(x), self.bound * np.linalg.norm(x)
        rho, r = self.rho(), 0.0
        for j, k in itertools.permutations(range(self.n), 2):
            room = (B if self.n - 1 in (j, k) else 2 * B) - (z[j] - z[k])
            variance = max(cov[j, j] + cov[k, k] - 2 * cov[j, k], 0.0)
            distance = rho * math.sqrt(variance) if math.isfinite(rho) else math.inf
            self.capped += room < distance
            r = max(r, min(distance, room))
        return r

    def mixture(self, z, cov):
        """phat: softmax(z), or its average over the 2 n - 1 points of the unscented rule."""
        p, n = softmax(z), self.n
        if self.predictor == "plug-in":
            return p
        last = n - 1
        of_differences = np.array([
            [cov[j, k] - cov[j, last] - cov[k, last] + cov[last, last] for k in range(last)] for j in range(last)
        ])  # fmt: skip
        F = factor_of(of_differences)
        made = p / n
        for i in range(last):
            for sign in (1, -1):
                made = made + softmax(z + sign * math.sqrt(n) * np.append(F[:, i], 0.0)) / (2 * n)
        return made

    def update(self, x, y):
        self.samples += 1
        if self.n == 1:
            return
        z, cov = self.logits(x), self.cov(x)
        p = softmax(z)
        c = 0.5 if self.predictor is None else lower_curvature(self.span(x))
        if self.form == "kron":
            self.precision = self.precision + 2 * c * p.min() * np.outer(x, x)
        else:
            self.precision = self.precision + 2 * c * np.kron(np.diag(p) - np.outer(p, p), np.outer(x, x))
        a = np.kron(p - np.eye(self.n)[y], x)
        step = np.linalg.solve(self.lam(), a)
        self.W = self.W - step.reshape(self.n, self.d)
        if self.predictor is not None:
            self.rho2 += a @ step - 2 * math.log(self.mixture(z, cov)[y] / p[y])
            self.empty += self.rho2 < 0

    def describe(self, x):
        """One individual (page, "One individual"): z, P, cov, rho, r, second, half."""
        if self.n == 1:
            return SimpleNamespace(z=np.zeros(1), P=np.ones(1), cov=np.zeros((1, 1)), rho=0.0, r=0.0, second=0.0,
                                   half=0.0)  # fmt: skip
        z, cov, rho, r = self.logits(x), self.cov(x), self.rho(), self.span(x)
        P = softmax(z)
        B = (np.diag(P) - np.outer(P, P)) @ cov
        size = np.trace(B @ B @ B @ B) ** 0.25
        variance = min(rho**2 * size, r**2 / 4) if math.isfinite(rho) else r**2 / 4
        half = min(math.tanh(r / 4), prior_cap(P, self.bound * np.linalg.norm(x)) / 2)
        return SimpleNamespace(z=z, P=P, cov=cov, rho=rho, r=r, second=variance * upper_curvature(r), half=half)

    def draw(self, x, e, scale):
        """softmax(z + scale F e)."""
        if self.n == 1:
            return np.ones(1)
        cov = self.cov(x)
        return softmax(self.logits(x) + scale * factor_of(cov) @ e[: self.n])


class SignUnion:
    """The set of one pair under the linear link (the docstring of `estimators.sign_union`), from all data at once."""

    def __init__(self, n_outcomes, dim, log, lam=SIGN_UNION_REGULARIZATION):
        self.n, self.d, self.lam, self.samples = n_outcomes, dim, lam, 0
        self.log = log + (math.log(2 ** (n_outcomes - 1) - 1) if n_outcomes > 1 else 0.0)
        self.Z, self.moment = lam * np.eye(dim), np.full((n_outcomes, dim), lam / n_outcomes)

    @property
    def W(self):
        return np.linalg.solve(self.Z, self.moment.T).T

    def update(self, x, y):
        self.Z = self.Z + np.outer(x, x)
        self.moment[y] += x
        self.samples += 1

    def draw(self, x, e, scale):
        """P_hat plus a normal vector with covariance scale^2 ||x||^2_{Z^-1} (diag P_hat - P_hat P_hat'), projected."""
        P, q = self.describe(x).P, x @ np.linalg.solve(self.Z, x)
        noise = np.sqrt(P) * e[: self.n]
        return project_simplex(P + scale * math.sqrt(q) * (noise - P * noise.sum()))

    def describe(self, x):
        n = self.n
        if n == 1:
            return SimpleNamespace(P=np.ones(1), half=0.0, rho=math.inf)
        P = project_simplex(self.W @ x)
        b = np.linalg.solve(self.Z, x)
        up, down = self.lam * b[b > 0].sum(), -self.lam * b[b < 0].sum()
        start = (1 - 1 / n) * max(up, down) + min(up, down) / n
        growth = np.linalg.slogdet(self.Z)[1] - self.d * math.log(self.lam)
        noise = 0.5 * math.sqrt(max(growth, 0.0) + 2 * self.log) * math.sqrt(x @ b)
        return SimpleNamespace(P=P, half=min(min(start + noise, 1 - P.min()) + SIGN_UNION_SLACK, 1.0), rho=math.inf)


def bonus(set_, V, factor=1.0, binding=None):
    """b(V) of the page for the values V of the pair's outcomes; factor: of the first-order term. binding: a Counter of
    which of the bounds was the smallest (0: half, 1: the largest value, 2: Taylor; -1: V is constant)."""
    mean, span = set_.P @ V, V.max() - V.min()
    bounds = [span * set_.half, V.max() - mean]
    if math.isfinite(set_.rho):
        g = set_.P * (V - mean)
        first = set_.rho * math.sqrt(max(g @ set_.cov @ g, 0.0))
        bounds.append(factor * first + span * set_.second)
    if binding is not None:
        binding[int(np.argmin(bounds)) if span > 0 else -1] += 1
    return max(min(bounds), 0.0)


# The agents ----------------------------------------------------------------------------------------------------------
class Learner:
    """name: "lr-orl", "psrl-glm" or "certified-psrl". Between episodes `begin(x)` plans, `observe` takes the steps and
    `end` learns from them."""

    def __init__(self, problem, name, seed=0, *, delta=0.05, optimism="bonus", bonus_scale=1.0, predictor="unscented",
                 form="full", regularization=None, reward_regularization=None, draws=1, posterior_scale=1.0,
                 kappa=0.5):  # fmt: skip
        p = self.problem = problem
        self.name, self.seed, self.k, self.optimism, self.scale = name, seed, 0, optimism, bonus_scale
        self.draws, self.posterior_scale, self.kappa = draws, posterior_scale, kappa
        S, A, d = p.n_states, p.n_actions, p.context_dim
        self.available = np.ones((S, A), bool) if p.available is None else np.asarray(p.available)
        self.outcomes = reference.supported(problem)
        self.pairs = list(itertools.product(range(S), range(A)))
        self.n_slots = max(len(states) for states in self.outcomes.values())
        n_pairs, share = int(self.available.sum()), REWARD_SHARE if p.known_rewards is None else 0.0
        log_p = math.log(n_pairs / (0.98 * delta * (1 - share)))
        self.log_r = math.log(n_pairs / (0.98 * delta * REWARD_SHARE))
        natural = d / p.weight_bound**2
        least = {"sets": 1e-3 * p.context_bound**2, "posterior": 0.0}
        lam = {
            name: regularization or max(times * natural, least[name])
            for name, times in (("sets", 4.0), ("posterior", 1.0))
        }
        sizes = {pair: (len(states), d) for pair, states in self.outcomes.items()}
        lam_linear = SIGN_UNION_REGULARIZATION if regularization is None else regularization

        def made(size, **options):
            if p.link.name == "linear":
                return SignUnion(*size, log_p, lam_linear)
            which = "posterior" if options["predictor"] is None else "sets"
            return LikelihoodSet(*size, p.weight_bound, log_p, form=form, lam=lam[which], **options)

        self.sets = self.posterior = None
        if name != "psrl-glm":
            self.sets = {pair: made(size, predictor=predictor) for pair, size in sizes.items()}
        if name != "lr-orl":
            self.posterior = {pair: made(size, predictor=None) for pair, size in sizes.items()}
        self.rewards = {pair: self.reward_learner(pair, reward_regularization) for pair in self.pairs}
        self.decisions = self.ties = 0
        self.binding = Counter()
        self.gate = []  # per episode of certified-psrl: 0 for the draw, 1 to 6 for a scale, 7 for optimism

    reward_learner = reference.Learner.reward_learner

    # The four verbs
    def begin(self, x):
        self.x, self.path = np.asarray(x, float), []
        self.plan = self.make_plan(self.x)
        return self.plan

    def observe(self, state, action, reward, after):
        self.path.append((state, action, reward, after))

    def end(self):
        for s, a, reward, after in self.path:
            y = list(self.outcomes[s, a]).index(after)
            for family in (self.sets, self.posterior):
                if family is not None:
                    family[s, a].update(self.x, y)
            if not math.isnan(reward):
                self.rewards[s, a].update(self.x, reward)
        self.k += 1

    # Planning
    def make_plan(self, x):
        """SimpleNamespace(policy [H, S], values, upper, lower [H+1, S] or None)."""
        self.key = words(self.seed, self.k, 0, reference.TIE)[0]
        if self.sets is not None:
            self.locals = {pair: set_.describe(x) for pair, set_ in self.sets.items()}
            self.ranges = {pair: self.reward_range(pair, x) for pair in self.pairs}
        if self.name == "lr-orl":
            policy, values = self.induct(self.optimistic(self.scale, self.optimism == "randomised"))
            return SimpleNamespace(policy=policy, values=values, upper=values, lower=self.lower(policy))
        models = self.draw_models(x, self.draws)
        if self.name == "psrl-glm":
            policy, values = self.induct(self.sampled(models))
            return SimpleNamespace(policy=policy, values=values, upper=None, lower=None)
        cautious, values = self.induct(self.optimistic(1.0))
        for number, q in enumerate([self.sampled(models), *(self.optimistic(c) for c in SCALES)]):
            policy = self.induct(q)[0]
            lower = self.lower(policy)
            if self.passes(values, self.upper(policy), lower):
                self.gate.append(number)
                return SimpleNamespace(policy=policy, values=values, upper=values, lower=lower)
        self.gate.append(7)
        return SimpleNamespace(policy=cautious, values=values, upper=values, lower=self.lower(cautious))

    def passes(self, values, upper, lower):
        return all(
            values[0, s] - upper[0, s] <= self.kappa * (upper[0, s] - lower[0, s]) + 1e-12 for s in self.problem.starts
        )

    def reward_range(self, pair, x):
        """(mean, low, high) of the mean reward."""
        rewards, bound = self.rewards[pair], self.problem.reward_bound
        mean, _ = rewards.belief(x, bound, self.log_r)
        if not isinstance(rewards, reference.Ridge):
            return mean, mean, mean
        logdet = np.linalg.slogdet(rewards.V)[1] - len(x) * math.log(rewards.lam)
        radius = math.sqrt(rewards.lam) * bound + 0.5 * math.sqrt(2 * self.log_r + logdet)
        xi, cap = radius * math.sqrt(x @ np.linalg.solve(rewards.V, x)), min(1.0, bound * np.linalg.norm(x))
        low, high = max(rewards.theta @ x - xi, 0.0), min(rewards.theta @ x + xi, cap)
        if low > high:
            low, high = 0.0, cap
        return min(max(mean, low), high), low, high

    def clip(self, h, value):
        return min(max(value, 0.0), self.problem.horizon - h)

    def optimistic(self, c, randomised=False):
        """Q_h(s, a) of optimism over the sets, from V_{h+1} [S]."""
        p = self.problem
        S, A, H = p.n_states, p.n_actions, p.horizon
        tries = math.ceil(1 + math.log(S * A * H) / 0.17275)

        def q(h, s, a, V):
            mean, _, high = self.ranges[s, a]
            after, set_, factor = V[self.outcomes[s, a]], self.locals[s, a], 1.0
            if randomised:
                factor = quantile(uniforms(self.seed, self.k, (h * S + s) * A + a, PERTURBATION)[0] ** (1 / tries))
            return self.clip(
                h, mean + c * (high - mean) + set_.P @ after + c * bonus(set_, after, factor, self.binding)
            )

        return q

    def sampled(self, models):
        """Q_h(s, a) of the best of the models drawn."""

        def q(h, s, a, V):
            after = V[self.outcomes[s, a]]
            return self.clip(h, max(r[s, a] + P[s, a] @ after for P, r in models))

        return q

    def draw_models(self, x, draws):
        p, width = self.problem, self.n_slots + 1
        S, A, scale = p.n_states, p.n_actions, self.posterior_scale
        half = math.ceil(draws * S * A * width / 2)
        pool = [uniforms(self.seed, self.k, 2 * i, POSTERIOR) for i in range(half)]
        numbers = np.array([quantile(max(u[i], 2.0**-54)) for i in (0, 1) for u in pool])
        models = []
        for m in range(draws):
            P, r = {}, {}
            for s, a in self.pairs:
                e = numbers[((m * S + s) * A + a) * width :][:width]
                P[s, a] = self.posterior[s, a].draw(x, e, scale)
                r[s, a] = reward = self.rewards[s, a].belief(x, p.reward_bound, self.log_r)[0]
                if isinstance(self.rewards[s, a], reference.Ridge):
                    norm = math.sqrt(x @ np.linalg.solve(self.rewards[s, a].V, x))
                    r[s, a] = min(max(reward + scale / 2 * norm * e[self.n_slots], 0.0), 1.0)
            models.append((P, r))
        return models

    def induct(self, q):
        """(policy [H, S], V [H+1, S]) from Q_h(s, a) = q(h, s, a, V_{h+1})."""
        S, H = self.problem.n_states, self.problem.horizon
        policy, V = np.zeros((H, S), int), np.zeros((H + 1, S))
        for h in reversed(range(H)):
            for s in range(S):
                actions = np.flatnonzero(self.available[s]).tolist()
                Q = [q(h, s, a, V[h + 1]) for a in actions]
                V[h, s] = max(Q)
                best = [a for a, value in zip(actions, Q, strict=True) if value >= V[h, s] - 1e-9]
                self.decisions += len(actions) > 1
                self.ties += len(best) > 1
                policy[h, s] = best[(mix(self.key, h * S + s) * len(best)) >> 32]
                if hasattr(q, "chosen"):
                    q.chosen(h, s, policy[h, s])
        return policy, V

    def bounds(self, policy, sign):
        """U (sign 1) or L (sign -1) of a policy: [H+1, S]."""
        S, H = self.problem.n_states, self.problem.horizon
        V = np.zeros((H + 1, S))
        for h in reversed(range(H)):
            for s in range(S):
                pair = s, int(policy[h, s])
                after, (_, low, high) = V[h + 1, self.outcomes[pair]], self.ranges[pair]
                change = sign * bonus(self.locals[pair], sign * after, 1.0, self.binding)
                V[h, s] = self.clip(h, (high if sign > 0 else low) + self.locals[pair].P @ after + change)
        return V

    def upper(self, policy):
        return self.bounds(policy, 1)

    def lower(self, policy):
        return self.bounds(policy, -1)


def run(world, name, episodes, seed, **options):
    """The whole run: cumulative regret [episodes], the plan of every episode, and the learner at the end."""
    p = world.problem
    learner = Learner(p, name, seed, **options)
    regret, plans, total = [], [], 0.0
    for k in range(episodes):
        x = reference.context(world, seed, k)
        P, r = reference.individual(world, x)
        start = reference.start_state(world, seed, k)
        plan = learner.begin(x)
        best = reference.optimal_values(P, r, learner.available, p.horizon)
        total += best[start] - reference.policy_values(P, r, plan.policy)[start]
        for step in reference.rollout(P, r, learner.outcomes, plan.policy, start, seed, k):
            learner.observe(*step)
        learner.end()
        regret.append(total)
        plans.append(plan)
    return SimpleNamespace(regret=np.array(regret), plans=plans, learner=learner)
