"""The exploration of PSRL-GLM and Certified PSRL in plain NumPy, from docs/exploration.md and the formulas.

Rewards are kept in a list and solved for from scratch, Gram matrices are accumulated, covariances are solved for. The
posterior of the transitions is that of `reference_sets` (docs/semantics-sets.md), of `reference_shared` with a design.
Nothing is imported from noregret."""

import itertools
import math
from types import SimpleNamespace

import numpy as np

import reference
import reference_sets
from reference import Laplace, mix, softmax, words
from reference_shared import SharedSet


# Mean rewards --------------------------------------------------------------------------------------------------------
class Calibrated:
    """Ridge regression with the noise and contexts of the data; R: the longest context, lam: lambda at first;
    everybody: the learners of all pairs."""

    def __init__(self, dim, R, everybody, lam=None):
        self.R, self.X, self.y, self.measured, self.rest = R, np.zeros((0, dim)), np.zeros(0), 0, 0.0
        self.everybody, self.own = everybody, []
        everybody.append(self)
        self.level = R**2 if lam is None else lam
        self.factor = self.level / R**2

    @property
    def V(self):
        return self.level * np.eye(self.X.shape[1]) + self.X.T @ self.X

    @property
    def theta(self):
        return np.linalg.solve(self.V, self.X.T @ self.y)

    @property
    def inside(self):
        return sum(0 < r < 1 for r in self.own)

    @property
    def noise(self):
        used, graded, weight = 1.0, [one for one in self.everybody if one.inside], 4 if self.inside else 8
        if self.inside:
            seen = np.ptp(np.concatenate([one.own for one in self.everybody]))
            free = sum(max(one.measured - one.X.shape[1], 0) for one in graded)
            tau = math.sqrt((8 * seen**2 / 4 + sum(one.rest for one in graded)) / (8 + free))
            m = math.sqrt(self.inside * sum(one.inside for one in graded))
            used = ((8 + m * min(seen, 2 * tau) ** 0.85) / (8 + m)) ** (1 / 0.85)
        return (weight * used**2 / 4 + self.rest) / (weight + self.measured)

    def update(self, x, reward):
        self.X, self.y = np.vstack([self.X, x]), np.append(self.y, reward)
        self.own.append(reward)
        n = len(self.y)
        if n >= 1.5 * self.measured:
            self.rest = max((self.y**2).sum() - self.theta @ self.X.T @ self.y, 0.0)
            length = max((self.X**2).sum() / n, 1e-8 * self.R**2)
            self.measured = n
            self.level = self.factor * max(4 * self.noise, 1e-3) * length

    def at(self, u):
        """(mean, spread, share)."""
        q = u @ np.linalg.solve(self.V, u)
        if len(self.y) == 0 and q > 0:
            return 0.0, 0.5, 1.0
        share = min(self.level * q / (u @ u), 1.0) if u @ u > 0 else 0.0
        return min(max(self.theta @ u, 0.0), 1.0), math.sqrt(self.noise * q), share


class Known:
    def __init__(self, theta, logistic):
        self.theta, self.logistic = theta, logistic

    def update(self, x, reward):
        pass

    def at(self, u):
        return reference.mean_reward(self.theta @ u, self.logistic), 0.0, 0.0


class Rewards:
    """All pairs: one learner per pair, or per block of the reward design."""

    def __init__(self, problem, lam=None):
        p = self.problem = problem
        self.pairs, logistic = list(np.ndindex(p.n_states, p.n_actions)), p.rewards == "logistic"
        blocks = self.blocks = p.reward_blocks
        if p.known_rewards is not None:
            self.of = {pair: Known(p.known_rewards[pair], logistic) for pair in self.pairs}
            return
        dim, R, bound, names = p.context_dim, p.context_bound, p.reward_bound, self.pairs
        if blocks is not None:  # in units of the blocks' bounds
            part = blocks.bound / blocks.bound.max()
            self.psi = blocks.features[:, :, 0] * part[blocks.block][..., None]
            dim, names = blocks.column.shape[1], range(blocks.size.size)
            R, bound = R * np.linalg.norm(self.psi, axis=-1).max(), blocks.bound.max()
        all_of = []
        self.of = {name: Laplace(dim, bound, lam) if logistic else Calibrated(dim, R, all_of, lam) for name in names}

    def place(self, pair, x):
        """(learner, u): what the mean is linear in."""
        if self.blocks is None:
            return self.of[pair], x
        b = int(self.blocks.block[pair])
        u, start = np.zeros(self.blocks.column.shape[1]), self.blocks.start[b]
        for i, psi in enumerate(self.psi[pair]):
            for e in range(start[i], start[i + 1]):
                u[e] = psi * x[self.blocks.column[b, e]]
        return self.of[b], u

    def update(self, pair, x, reward):
        learner, u = self.place(pair, x)
        learner.update(u, reward)

    def at(self, pair, x):
        learner, u = self.place(pair, x)
        return learner.at(u)


# Transitions ---------------------------------------------------------------------------------------------------------
class Transitions:
    """P_hat and the covariance of the logits of every pair, from the posterior with c = 1/2."""

    def __init__(self, problem, form="full", lam=None):
        p = self.problem = problem
        self.outcomes, d = reference.supported(problem), p.context_dim
        sizes = {pair: len(states) for pair, states in self.outcomes.items()}
        self.linear, self.blocks = p.link.name == "linear", p.blocks
        if self.linear:
            self.lam = lam = reference_sets.SIGN_UNION_REGULARIZATION if lam is None else lam
            self.of = {pair: reference_sets.SignUnion(n, d, 1.0, lam) for pair, n in sizes.items()}
        else:
            self.sizes, self.form, self.lam = sizes, form, lam
            self.begin(None)

    def begin(self, x):
        """With the lambda that was given; else at least a quarter of the square of the first x, with a design times the
        mean square of features less their mean over the pair."""
        p, lam, long = self.problem, self.lam, 0.0 if x is None else np.linalg.norm(x) / 2
        if p.blocks is None:
            lam = max(p.context_dim / p.weight_bound**2, long**2) if lam is None else lam
            self.of = {
                pair: reference_sets.LikelihoodSet(
                    n, p.context_dim, p.weight_bound, form=self.form, predictor=None, lam=lam
                )
                for pair, n in self.sizes.items()
            }
        else:
            phi = [p.blocks.features[s, a, : len(ys)] for (s, a), ys in self.outcomes.items()]
            longest = max(np.linalg.norm(rows, axis=-1).max() for rows in phi)
            usual2 = np.mean(np.concatenate([((rows - rows.mean(0)) ** 2).sum(-1) for rows in phi]))
            least = max(1e-3 * (p.context_bound * longest) ** 2, long**2 * usual2)
            lams = np.maximum(p.blocks.start[:, -1] / p.blocks.bound**2, least)
            self.of = [SharedSet(p, b, lams[b], 0.0, posterior=True) for b in range(len(lams))]
        self.untouched = x is None

    def update(self, pair, x, after):
        if not self.linear and self.untouched:
            self.begin(x)
        y = list(self.outcomes[pair]).index(after)
        if self.blocks is None:
            self.of[pair].update(x, y)
        else:
            self.of[int(self.blocks.block[pair])].learn(*pair, y, x)

    def at(self, pair, x):
        """SimpleNamespace(P [n], cov [n, n])."""
        n = len(self.outcomes[pair])
        if n == 1:
            return SimpleNamespace(P=np.ones(1), cov=np.zeros((1, 1)))
        if self.blocks is not None:
            block = self.of[int(self.blocks.block[pair])]
            A = np.stack([np.kron(row, x)[block.free] for row in self.blocks.features[pair][:n, : block.q]])
            return SimpleNamespace(P=softmax(A @ block.theta), cov=A @ np.linalg.solve(block.precision, A.T))
        if self.linear:  # Var_P(V) ||x||^2_{Z^-1} = g' cov g with cov = ||x||^2/diag P
            P, Z = self.of[pair].describe(x).P, self.of[pair].Z
            share = self.lam * np.linalg.solve(Z, x).sum()  # of the uniform distribution, of which an eighth is kept
            P = np.maximum(P - 7 / 8 * min(max(share, 0.0), 1.0) / n, 0.0)
            P = P / P.sum()
            q = x @ np.linalg.solve(self.of[pair].Z, x)
            return SimpleNamespace(P=P, cov=q * np.diag(1 / np.maximum(P, 1e-300)))
        return SimpleNamespace(P=softmax(self.of[pair].logits(x)), cov=self.of[pair].cov(x))


# Chance --------------------------------------------------------------------------------------------------------------
def changes(of):
    return sum(one != before for before, one in itertools.pairwise(of))


class Chance:
    """What every pair led to, without the last steps of episodes, and paid, in lists."""

    def __init__(self, problem, outcomes):
        self.led, self.paid = {pair: [] for pair in outcomes}, {pair: [] for pair in outcomes}
        self.horizon, self.more = problem.horizon, {pair: len(states) > 1 for pair, states in outcomes.items()}

    def learn(self, path):
        for h, (s, a, reward, after) in enumerate(path):
            if h + 1 < self.horizon:
                self.led[s, a].append(after)
            if not math.isnan(reward):
                self.paid[s, a].append(reward)

    def shares(self):
        """(phi of steps, phi of rewards)."""
        varied = {name: sum(changes(of) > 0 for of in seen.values()) for name, seen in self.named}
        first = [len(of) for pair, of in self.led.items() if of and not changes(of) and self.more[pair]]
        second = [len(of) for of in self.paid.values() if of and not changes(of)]
        straight = sum((n - 1) / (n + 1) for n in first)
        equal = sum(1 - math.sqrt(2 / (n + 1)) for n in second)
        of_steps, m = (2 + varied["led"]) / (2 + varied["led"] + straight), varied["paid"]
        both = (12 + varied["led"]) / (12 + varied["led"] + straight), (12 + m) / (12 + m + equal)
        return of_steps, max(both)

    @property
    def named(self):
        return ("led", self.led), ("paid", self.paid)

    @staticmethod
    def part(phi, of):
        """The probability that a pair with these looks has chance; 1 without any."""
        if not of or changes(of):
            return 1.0
        L = 2 / (len(of) + 1)
        return phi * L / (phi * L + 1 - phi)


# The agent -----------------------------------------------------------------------------------------------------------
class Explorer:
    """`plan(x, k)` and `learn(x, path)`."""

    def __init__(self, problem, seed=0, *, form="full", posterior_scale=1.0, regularization=None,
                 reward_regularization=None):  # fmt: skip
        p = self.problem = problem
        self.seed, self.scale = seed, posterior_scale
        self.available = np.ones((p.n_states, p.n_actions), bool) if p.available is None else np.asarray(p.available)
        self.transitions = Transitions(problem, form, regularization)
        self.rewards = Rewards(problem, reward_regularization)
        self.outcomes, self.decisions, self.ties, self.bold, self.capped = self.transitions.outcomes, 0, 0, 0, 0
        self.chance = Chance(problem, self.outcomes)
        self.trusted = {"led": 0, "paid": 0}  # pairs without a change, where that changed anything
        self.summed = self.added = 0  # pairs and steps where standard deviations add, or variances

    def known_of(self, pair, x, phi):
        """((mean, spread, share), transitions) of a pair, with what is known of chance."""
        (mean, spread, share), t = self.rewards.at(pair, x), self.transitions.at(pair, x)
        if self.problem.design is not None or self.problem.reward_design is not None:
            return (mean, spread, share), t
        led, paid = self.chance.led[pair], self.chance.paid[pair]
        steps, pays = self.chance.part(phi[0], led), self.chance.part(phi[1], paid)
        if paid and self.problem.known_rewards is None:
            mean, spread, share = pays * mean + (1 - pays) * paid[-1], math.sqrt(pays) * spread, pays * share
        if led and len(t.P) > 1:
            t.P, t.cov = steps * t.P + (1 - steps) * (self.outcomes[pair] == led[-1]), steps * t.cov
        self.trusted["led"] += steps < 0.9
        self.trusted["paid"] += pays < 0.9
        return (mean, spread, share), t

    def values_of(self, x, k):
        """Q_h(s, a) from V_{h+1} [S]; told by q.chosen(h, s, a) which action the plan takes there."""
        p, (z, other) = self.problem, reference.normals(self.seed, k, 0, reference_sets.POSTERIOR)
        bold = abs(other) > reference_sets.quantile(1.0 - 0.01 * (1.0 + 4.0 * math.log(max(k, 1000) / 1000)))
        self.bold += bold
        times = self.scale * abs(z) * (1.0 if bold else 0.5)
        pairs = list(itertools.product(range(p.n_states), range(p.n_actions)))
        phi = self.chance.shares()
        if p.design is None and p.reward_design is None and p.known_rewards is None:
            times *= phi[1]
        about = {pair: self.known_of(pair, x, phi) for pair in pairs}
        S, H, made = p.n_states, p.horizon, {}
        along = np.zeros((H + 1, S, 3))  # mean, variance and sum of standard deviations of the plan from there on
        apart = p.design is None and p.reward_design is None

        def q(h, s, a, V):
            (mean, spread, share), t = about[s, a]
            after = V[self.outcomes[s, a]]
            expected = t.P @ after
            g = t.P * (after - expected)
            deviation = math.sqrt(max(g @ t.cov @ g, 0.0))
            self.capped += deviation > after.max() - expected
            reward = mean + (1 - mean) * share / (4 if p.rewards == "logistic" else 2)
            most = min(deviation, max(after.max() - expected, 0.0))
            if not apart:
                return min(max(reward + expected + times * (spread + most), 0.0), H - h)
            m, u, e = t.P @ along[h + 1, self.outcomes[s, a]]
            same = np.where(np.equal(self.outcomes[s, a], s), 1.0, 1 / S)  # correlations with the step after
            met = t.P @ (same * along[h + 1, self.outcomes[s, a], 2])
            u += spread**2 + most**2 + 2 * (spread + most) * met
            made[h, s, a] = m + reward, u, e + spread + most
            self.summed += math.sqrt(2 * u) > e + spread + most
            self.added += math.sqrt(2 * u) < e + spread + most
            return min(max(m + reward + times * min(e + spread + most, math.sqrt(2 * u)), 0.0), H - h)

        def chosen(h, s, a):
            if apart:
                along[h, s] = made[h, s, a]

        q.chosen = chosen
        return q

    def plan(self, x, k):
        S, H = self.problem.n_states, self.problem.horizon
        x, policy, V = np.asarray(x, float), np.zeros((H, S), int), np.zeros((H + 1, S))
        q, key = self.values_of(x, k), words(self.seed, k, 0, reference.TIE)[0]
        for h in reversed(range(H)):
            for s in range(S):
                actions = np.flatnonzero(self.available[s]).tolist()
                Q = [q(h, s, a, V[h + 1]) for a in actions]
                V[h, s] = max(Q)
                best = [a for a, value in zip(actions, Q, strict=True) if value >= V[h, s] - 1e-9]
                self.decisions += len(actions) > 1
                self.ties += len(best) > 1
                policy[h, s] = best[(mix(key, h * S + s) * len(best)) >> 32]
                q.chosen(h, s, policy[h, s])
        return policy, V

    def learn(self, x, path):
        x = np.asarray(x, float)
        self.chance.learn(path)
        for s, a, reward, after in path:
            self.transitions.update((s, a), x, after)
            if not math.isnan(reward):
                self.rewards.update((s, a), x, reward)


class Gate(reference_sets.Learner):
    """Certified PSRL around it, with ridge sets of rewards."""

    def __init__(self, problem, seed=0, **options):
        super().__init__(problem, "certified-psrl", seed, **options)
        self.explorer = Explorer(problem, seed)

    def draw_models(self, x, draws):
        return x

    def sampled(self, models):
        return self.explorer.values_of(models, self.k)

    def reward_range(self, pair, x):
        _, low, high = super().reward_range(pair, x)
        return min(max(self.explorer.rewards.at(pair, x)[0], low), high), low, high

    def end(self):
        self.explorer.learn(self.x, self.path)
        super().end()


def run(world, episodes, seed, **options):
    """Cumulative regret [episodes], and the learner."""
    p, learner, regret = world.problem, Explorer(world.problem, seed, **options), []
    for k in range(episodes):
        x = reference.context(world, seed, k)
        P, r = reference.individual(world, x)
        start = reference.start_state(world, seed, k)
        policy, _ = learner.plan(x, k)
        best = reference.optimal_values(P, r, learner.available, p.horizon)
        regret.append(best[start] - reference.policy_values(P, r, policy)[start])
        learner.learn(x, reference.rollout(P, r, learner.outcomes, policy, start, seed, k))
    return np.cumsum(regret), learner
