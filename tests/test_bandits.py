"""The bandit agents: plain Python versions written from the formulas, their sets, their promises, their refusals."""

import dataclasses
import functools
import math

import numpy as np
import pytest
from scipy import optimize

import noregret as nr
import reference
from noregret.theory import bandits, constants
from noregret.verification.chance import allowed
from test_agreement import masked

pytestmark = pytest.mark.deep

NAMES = ("oful", "glm-ucb", "ol2m", "gloc", "ofuglb", "glb-omd")
STORED = ("glm-ucb", "ofuglb")  # agents that fit all they have seen anew in every episode
SEEDS = 24


def sigma(z):
    return 1 / (1 + math.exp(-z))


@functools.cache
def masked_world(logistic, bound=2.0):
    """One step, unavailable pairs, small supports, contexts of different lengths, every state a start."""
    base = masked(nr.MultinomialLogit(), False)
    problem = dataclasses.replace(base.problem, horizon=1, rewards="logistic" if logistic else "linear")
    theta = base.reward_weights
    if logistic:
        problem = dataclasses.replace(problem, reward_bound=bound)
        theta = np.random.default_rng(3).standard_normal(theta.shape)
        theta *= bound / np.linalg.norm(theta, axis=-1, keepdims=True)
    return nr.World(problem, base.weights, theta, base.contexts, base.initial_state)


# The slow versions ---------------------------------------------------------------------------------------------------
class Slow:
    """Shared: what was seen of every pair, and the choice of the best score with the library's ties."""

    def __init__(self, problem, delta=0.05, constants="corrected", bonus_scale=1.0, regularization=None, **more):
        self.p, self.scale, self.paper, self.more = problem, bonus_scale, constants == "paper", more
        self.B, self.R, self.d = problem.reward_bound, problem.context_bound, problem.context_dim
        self.slope = sigma(self.B * self.R) * (1 - sigma(self.B * self.R))
        self.lam = self.recommended() if regularization is None else regularization
        self.log = math.log(problem.n_pairs / delta)
        self.seen = {(s, a): [] for s in range(problem.n_states) for a in range(problem.n_actions)}
        self.boundary = 0  # how often a constraint was active

    def recommended(self):
        return 1.0

    def learn(self, pair, x, r):
        if not math.isnan(r):
            self.seen[pair].append((x, r))

    def data(self, pair):
        seen = self.seen[pair]
        return np.array([x for x, _ in seen]).reshape(-1, self.d), np.array([r for _, r in seen])

    def gram(self, X):
        return self.lam * np.eye(self.d) + X.T @ X

    def growth(self, Z, lam=None):
        return np.linalg.slogdet(Z)[1] - self.d * math.log(lam or self.lam)

    def plan(self, x, k, seed):
        S, A = self.p.n_states, self.p.n_actions
        policy, values = np.zeros((1, S), int), np.zeros((2, S))
        key = reference.words(seed, k, 0, reference.TIE)[0]
        for s in range(S):
            scores = [self.score((s, a), x, k) if self.p.layout.available[s, a] else -math.inf for a in range(A)]
            tied = [a for a in range(A) if scores[a] >= max(scores) - 1e-9]
            policy[0, s] = tied[(reference.mix(key, s) * len(tied)) >> 32] if len(tied) > 1 else tied[0]
            values[0, s] = self.value(max(scores), x)
        return policy, values

    def value(self, score, x):
        return sigma(min(score, self.B * np.linalg.norm(x)))


class SlowOFUL(Slow):
    def score(self, pair, x, k):
        X, r = self.data(pair)
        V = self.gram(X)
        rho = math.sqrt(self.lam) * self.B + 0.5 * math.sqrt(2 * self.log + self.growth(V))
        return np.linalg.solve(V, X.T @ r) @ x + self.scale * rho * math.sqrt(x @ np.linalg.solve(V, x))

    def value(self, score, x):
        return min(max(score, 0), 1)


class SlowGLMUCB(Slow):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.found = {}

    def estimate(self, pair):
        if self.found.get(pair, (-1, None))[0] != len(self.seen[pair]):
            self.found[pair] = len(self.seen[pair]), self.solve(pair)
        return self.found[pair][1]

    def penalty(self):
        return self.slope * self.lam

    def solve(self, pair):
        """Stationarity with a multiplier mu >= 0 for the ball: Newton for each mu, root-finding over mu."""
        X, r = self.data(pair)

        def at(mu):
            def pull(theta):
                return X.T @ (1 / (1 + np.exp(-X @ theta)) - r) + (self.penalty() + mu) * theta

            def hessian(theta):
                p = 1 / (1 + np.exp(-X @ theta))
                return (X.T * (p * (1 - p))) @ X + (self.penalty() + mu) * np.eye(self.d)

            theta = np.zeros(self.d)
            for _ in range(100):
                step = np.linalg.solve(hessian(theta), pull(theta))
                theta = theta - step
                if np.abs(step).max() < 1e-15:
                    break
            assert np.abs(pull(theta)).max() < 1e-10
            return theta

        if np.linalg.norm(at(0.0)) <= self.B:
            return at(0.0)
        self.boundary += 1
        return at(optimize.brentq(lambda mu: np.linalg.norm(at(mu)) - self.B, 0.0, 1e3, xtol=1e-14, rtol=1e-14))

    def score(self, pair, x, k):
        theta, V = self.estimate(pair), self.gram(self.data(pair)[0])
        rho = 0.25 / self.slope * (
            0.5 * math.sqrt(2 * self.log + self.growth(V)) + self.slope * math.sqrt(self.lam) * self.B
        )  # fmt: skip
        if self.paper:
            t, d = max(k + 1, 2), self.d
            rho = 2 * 0.25 / self.slope * math.sqrt(3 + 2 * math.log(1 + 2 * self.R**2 / self.lam))
            rho *= math.sqrt(2 * d * math.log(t) * (math.log(2 * d * t) + self.log))
        return sigma(theta @ x) + self.scale * rho * math.sqrt(x @ np.linalg.solve(V, x))

    def value(self, score, x):
        return min(score, sigma(self.B * np.linalg.norm(x)))


class SlowNewton(Slow):
    def walk(self, pair, kappa, lam):
        """theta after each observation, with the gradients and predictions, and the last Z."""
        theta, Z, path = np.zeros(self.d), lam * np.eye(self.d), []
        for x, r in self.seen[pair]:
            z = theta @ x
            g = sigma(z) - r
            Z = Z + kappa * np.outer(x, x)
            theta = theta - g * np.linalg.solve(Z, x)
            path.append((z, g * g * (x @ np.linalg.solve(Z, x))))
            self.boundary += np.linalg.norm(theta) > self.B
            theta = reference.project_row_ball(theta, Z, self.B)
        return theta, Z, path


class SlowOL2M(SlowNewton):
    def beta(self):
        given = self.more.get("curvature") if hasattr(self, "more") else None
        return 1 / (2 * (1 + math.exp(self.B * self.R))) if given is None else given

    def recommended(self):
        return 2 * self.d / (self.beta() * self.B**2)

    def score(self, pair, x, k):
        beta, M = self.beta(), self.B * self.R
        theta, Z, path = self.walk(pair, beta / 2, self.lam)
        gamma = self.lam * self.B**2 + 2 * self.log + 2 / beta * self.growth(Z)
        if self.paper:
            t = max(len(path), 1)
            tau = math.log(2 * max(1, math.ceil(2 * math.log2(t))) * t * t) + self.log
            inner = 4 * M + (4 / beta + 8 * M / 3) * tau + self.growth(Z) / beta
            gamma = self.lam * self.B**2 + 2 * inner
        return theta @ x + self.scale * math.sqrt(gamma * (x @ np.linalg.solve(Z, x)))


class SlowGLOC(SlowNewton):
    def score(self, pair, x, k):
        kappa, S2 = self.slope, self.B**2
        _, _, path = self.walk(pair, kappa, kappa * self.lam)
        X, z, total = self.data(pair)[0], np.array([z for z, _ in path]), sum(q for _, q in path)
        if self.paper:
            R, B = 0.5, total / 2 + 2 * kappa * S2 * self.lam
            delta = math.exp(-self.log)
            inside = 1 + 2 * B / kappa + 4 * R**4 / (kappa**4 * delta**2)
            errors = 1 + 4 * B / kappa + 8 * R**2 / kappa**2 * math.log(2 / delta * math.sqrt(inside))
        else:
            s, B = 0.25, total / 2 + kappa * self.lam * S2 / 2
            errors = (2 / (1 - s) * B + 2 / (s * (1 - s)) * self.log) / kappa
        V = self.gram(X)
        centre = np.linalg.solve(V, X.T @ z)
        # what is subtracted is the least value of sum (theta'x_i - z_i)^2 + lambda ||theta||^2
        least = np.sum((X @ centre - z) ** 2) + self.lam * centre @ centre
        square = errors + self.lam * S2 - least
        return centre @ x + self.scale * math.sqrt(square * (x @ np.linalg.solve(V, x)))


def curvature_share(a):
    return 0.5 if a == 0 else (a - 1 + math.exp(-a)) / a**2


class SlowOFUGLB(SlowGLMUCB):
    def recommended(self):
        return 0.25 / self.B**2 if self.paper else 0.5 * self.d / self.B**2

    def penalty(self):
        return 2 * self.lam

    def score(self, pair, x, k):
        (X, _), theta, d, B, M = self.data(pair), self.estimate(pair), self.d, self.B, self.B * self.R
        z, lengths = X @ theta, np.linalg.norm(X, axis=1)
        share = np.array([curvature_share(abs(u) + B * n) for u, n in zip(z, lengths, strict=True)])
        if self.paper:
            share[:] = 1 / (2 + 2 * M)
            slope = (1 + M / 2) * self.R * len(X)
            beta = self.log + d * math.log(max(math.e, 2 * math.e * B * slope / d))
        else:
            beta = self.log + d * theta @ theta / (2 * B**2)
            beta += 0.5 * np.linalg.slogdet(np.eye(d) + B**2 / (4 * d) * X.T @ X)[1]
        A = self.lam * np.eye(d) + (X.T * (share * np.exp(-z) / (1 + np.exp(-z)) ** 2)) @ X
        square = beta + self.lam * (B**2 - theta @ theta)
        return theta @ x + self.scale * math.sqrt(max(square, 0) * (x @ np.linalg.solve(A, x)))

    def value(self, score, x):
        return sigma(min(score, self.B * np.linalg.norm(x)))


class SlowGLBOMD(Slow):
    def recommended(self):
        return max(7 * self.d, 0.75 * self.B * self.R) if self.paper else self.d / self.B**2

    def score(self, pair, x, k):
        """Everything anew from the data. The mixture: Gauss-Hermite with five points."""
        nodes, chances = np.polynomial.hermite_e.hermegauss(5)
        chances = chances / chances.sum()
        theta, A, total = np.zeros(self.d), self.lam * np.eye(self.d), self.lam * self.B**2 + self.log
        for y, r in self.seen[pair]:
            z, reach = theta @ y, self.B * np.linalg.norm(y)
            bend = sigma(z) * sigma(-z)
            around = z + math.sqrt(0.5 * y @ np.linalg.solve(A, y)) * nodes
            total -= math.log(sum(c * sigma(u if r == 1 else -u) for c, u in zip(chances, around, strict=True)))
            H = 2 * A + bend * np.outer(y, y)
            new = theta - (sigma(z) - r) * np.linalg.solve(H, y)
            self.boundary += np.linalg.norm(new) > self.B
            new = reference.project_row_ball(new, H, self.B)
            after = new @ y
            left = sigma(after) - sigma(z) - bend * (after - z)
            total += math.log(sigma(after if r == 1 else -after)) + left * after + abs(left) * reach
            total -= (new - theta) @ A @ (new - theta)
            share = 1 / (2 + 2 * self.B * self.R) if self.paper else curvature_share(abs(after) + reach)
            theta, A = new, A + share * sigma(after) * sigma(-after) * np.outer(y, y)
        width = math.sqrt(total * (x @ np.linalg.solve(A, x))) if total >= 0 else math.inf
        return theta @ x + self.scale * width


SLOW = {
    "oful": SlowOFUL, "glm-ucb": SlowGLMUCB, "ol2m": SlowOL2M, "gloc": SlowGLOC, "ofuglb": SlowOFUGLB,
    "glb-omd": SlowGLBOMD,
}  # fmt: skip


def assert_plans_agree(name, world, options, episodes, seed=5, missing=0.1):
    agent, slow = nr.make_agent(name, world.problem, seed=seed, **options), SLOW[name](world.problem, **options)
    g = np.random.default_rng(0)
    for k in range(episodes):
        person = world.individual(k, seed)
        plan, (policy, values) = agent.begin_episode(person.context), slow.plan(person.context, k, seed)
        assert np.array_equal(plan.policy, policy)
        assert np.abs(plan.values - values).max() < 1e-9
        s = person.state
        a = agent.act(s)
        reward, after = person.step(a)
        reward = math.nan if g.random() < missing else reward
        agent.observe(reward, after)
        agent.end_episode()
        slow.learn((s, a), person.context, reward)
    return slow


@pytest.mark.study(first=8)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", [{}, {"bonus_scale": 0.03, "regularization": 0.3}, {"constants": "paper"}])
def test_plans_agree_with_the_slow_version(name, options):
    if name == "oful" and "constants" in options:
        options = {"delta": 0.4}  # there is one set of constants
    assert_plans_agree(name, masked_world(name != "oful"), options, 60)


@pytest.mark.study(first=1)
@pytest.mark.parametrize("name", NAMES[1:])
def test_plans_agree_where_the_ball_is_met(name):
    """A small ball and little regularization: estimates are on the sphere most of the time."""
    options = {"bonus_scale": 0.02, "regularization": 0.2 if name in ("glm-ucb", "gloc") else 0.02}
    slow = assert_plans_agree(name, masked_world(True, 0.4), options, 60)
    assert slow.boundary > 20


# The estimators are the library's ------------------------------------------------------------------------------------
@pytest.mark.parametrize("curvature", [None, "paper"])
def test_the_estimator_of_glm_orl_with_two_outcomes_is_that_of_ol2m(curvature):
    """beta = e^-M/4 for the same bounds; or beta as recalled, with OnlineNewton told M' = ln((1 + e^M)/2)."""
    B, lam, g = 2.0, 0.3, np.random.default_rng(0)
    R = 1.0 if curvature else math.log((1 + math.exp(B)) / 2) / B
    world = nr.worlds.bandit_logistic(1, 3, B)
    beta = math.exp(-B) / 4 if curvature else None
    agent = nr.agents.OL2M(world.problem, curvature=beta, regularization=lam)
    newton = nr.estimators.OnlineNewton(nr.MultinomialLogit(), 2, 3, B, R, constants="paper", regularization=lam)
    theta, Z, eta, outside = np.zeros(3), 5.0 * lam * np.eye(3), 5.0, 0
    used = 1 / (2 * (1 + math.exp(B))) if beta is None else beta
    for k in range(200):
        x = g.standard_normal(3)
        x *= R * g.random() / np.linalg.norm(x)
        reward = float(g.random() < sigma(5 * x[0]))
        agent.begin_episode(x)
        agent.act(0)
        agent.observe(reward, 0)
        agent.end_episode()
        newton.update(x, 0 if reward == 1 else 1)
        # The published step with step size eta and lambda eta
        Z = Z + eta * used / 2 * np.outer(x, x)
        theta = theta - eta * (sigma(theta @ x) - reward) * np.linalg.solve(Z, x)
        outside += np.linalg.norm(theta) > B
        theta = reference.project_row_ball(theta, Z, B)
        assert np.allclose(agent.state.newton.weights[0, 0], newton.weights, rtol=0, atol=1e-12), k
        assert np.allclose(agent.state.newton.gram[0, 0], newton.gram, rtol=0, atol=1e-12)
        assert np.allclose(newton.weights, [theta, np.zeros(3)], rtol=0, atol=1e-9)
        assert np.allclose(newton.gram, Z / eta, rtol=0, atol=1e-10)
    assert outside > 10


def test_oful_keeps_the_ridge_regression_of_the_library():
    world, seed = nr.worlds.random_linear(1, 1, 1, 3, seed=2), 4
    agent = nr.agents.OFUL(world.problem, seed=seed)
    mean = nr.estimators.MeanReward(3, reward_bound=world.problem.reward_bound)
    for k in range(50):
        person = world.individual(k, seed)
        value = agent.begin_episode(person.context).values[0, 0]
        z = float(mean.weights @ person.context)
        width = math.sqrt(mean.radius * person.context @ mean.inverse @ person.context)
        assert abs(value - min(max(z + width, 0.0), 1.0)) < 1e-12
        reward, after = person.step(agent.act(0))
        agent.observe(reward, after)
        agent.end_episode()
        mean.update(person.context, reward)


# Sets and promises ---------------------------------------------------------------------------------------------------
def promised_worlds(name):
    if name == "oful":
        return [nr.worlds.random_linear(2, 3, 1, 3, seed=1), masked_world(False)]
    return [nr.worlds.bandit_logistic(3, 3, 2.0, seed=1), masked_world(True)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "options"), [(name, {}) for name in NAMES] + [(name, {"constants": "paper"}) for name in NAMES[2:]]
)
def test_values_are_upper_bounds(name, options):
    """At delta = 0.3 at most `allowed` of 24 runs may fail, or a right guarantee was refuted with probability 1e-6; at
    the default none did. Those that fit all they have seen anew in every episode have shorter runs."""
    episodes = 500 if name in STORED else 1500
    for world in promised_worlds(name):
        agent = nr.make_agent(name, world.problem, **options)
        assert "0.95" in agent.guarantee
        run = nr.simulate(agent, world, episodes, seeds=SEEDS, every=episodes, diagnostics=True)
        assert run.diagnostics["optimism_failures"].sum() == 0
        loose = nr.make_agent(name, world.problem, delta=0.3, **options)
        run = nr.simulate(loose, world, episodes, seeds=SEEDS, every=episodes, diagnostics=True)
        assert (run.diagnostics["optimism_failures"][:, -1] > 0).sum() <= allowed(SEEDS, 0.3)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_values_are_upper_bounds_whoever_comes(name):
    """An adversary sends the individual about whom the agent knows least; delta = 0.3, none of 20 runs failed."""
    base = promised_worlds(name)[0]
    pool = np.array([base.context(99, k) for k in range(12)])

    def worst(seed, episode, agent):
        inverse = (agent.state.newton if name in ("ol2m", "ofuglb", "glb-omd") else agent.state.ridge).inverse
        return pool[np.argmax(np.einsum("cd,sade,ce->c", pool, inverse, pool))]

    world = nr.World(base.problem, base.weights, base.reward_weights, worst)
    agent = nr.make_agent(name, base.problem, delta=0.3)
    run = nr.simulate(agent, world, 200, seeds=20, every=200, diagnostics=True)
    assert run.diagnostics["optimism_failures"].sum() == 0


def distance(agent, pair, truth):
    """||theta - theta*||^2 in the agent's norm over its squared radius, from its state and the formulas."""
    p, state, o = agent.problem, agent.state, agent.options
    B, log, lam = p.reward_bound, math.log(p.n_pairs / o["delta"]), agent.par.regularization
    slope = constants.logistic_alpha(B * p.context_bound)
    if agent.name == "ol2m":
        centre, gram = state.newton.weights[pair][0], state.newton.gram[pair]
        beta = bandits.ol2m_curvature(B * p.context_bound)
        square = bandits.ol2m(B, beta, lam, state.newton.logdet[pair], log)
    elif agent.name == "ofuglb":
        centre, gram = state.memory.theta[pair], state.newton.gram[pair]
        weight = o["regularization"] or 0.5 * p.context_dim / B**2
        square = bandits.ofuglb(p.context_dim, B, centre @ centre, state.ridge.logdet[pair], log)
        square += state.totals[pair][0] + weight * (B**2 - centre @ centre)
    elif agent.name == "glb-omd":
        centre, gram = state.newton.weights[pair][0], state.newton.gram[pair]
        square = lam * B**2 + log + state.totals[pair][0]
    elif agent.name == "glm-ucb":
        centre, gram = state.memory.theta[pair], state.ridge.gram[pair]
        square = bandits.constrained_mle(B, slope, lam, state.ridge.logdet[pair], state.totals[pair][0], log) ** 2
    else:
        centre, gram = state.ridge.theta[pair], state.ridge.gram[pair]
        if agent.name == "gloc":
            square = bandits.gloc(state.totals[pair][1], B, slope, lam, 0.25, log) + lam * B**2
            square -= state.totals[pair][0] - centre @ state.ridge.moment[pair]
        else:
            square = (math.sqrt(lam) * B + 0.5 * math.sqrt(2 * log + state.ridge.logdet[pair])) ** 2
    return (centre - truth) @ gram @ (centre - truth) / square


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_sets_hold_and_are_not_vacuous(name):
    """delta = 0.3, one arm: theta* within its set at all times in all but `allowed` of 40 runs; and somewhere its
    squared distance was a fifth of the squared radius, so that one a few times too small would show."""
    world = nr.worlds.random_linear(1, 1, 1, 2, seed=3) if name == "oful" else nr.worlds.bandit_logistic(1, 2, 1.5)
    failed, worst = 0, 0.0
    for seed in range(40):
        agent, ratio = nr.make_agent(name, world.problem, seed=seed, delta=0.3, regularization=1.0), 0.0
        for k in range(150):
            person = world.individual(k, seed)
            agent.begin_episode(person.context)
            agent.observe(*person.step(agent.act(0)))
            agent.end_episode()
            ratio = max(ratio, distance(agent, (0, 0), world.reward_weights[0, 0]))
        failed, worst = failed + (ratio > 1), max(worst, ratio)
    assert failed <= allowed(40, 0.3)
    assert worst > 0.2


@pytest.mark.study(first=1)
@pytest.mark.parametrize("name", NAMES)
def test_regret_is_far_below_uniform_play(name):
    world = promised_worlds(name)[0]
    uniform = nr.simulate(nr.UniformRandom(world.problem), world, 4000, seeds=3, every=400)
    run = nr.simulate(nr.make_agent(name, world.problem), world, 4000, seeds=3, every=400)
    assert run.final.max() < uniform.final.min() / 2
    assert run.late.mean() < 0.5 * uniform.late.mean()


def test_recalled_radii_are_at_least_the_proved_ones():
    for M in np.linspace(0.1, 8, 20):
        beta, kappa = bandits.ol2m_curvature(M), constants.logistic_alpha(M)
        assert beta <= kappa
        for t, logdet, log in [(0, 0.0, 0.1), (1, 0.01, 1.0), (50, 3.0, 3.0), (10**6, 40.0, 20.0)]:
            assert bandits.ol2m_recalled(M, M, beta, 1.0, t, logdet, log) >= bandits.ol2m(M, beta, 1.0, logdet, log)
            regret = 0.5 * logdet / kappa + 0.5 * kappa * M**2
            proved = 4 * regret / kappa + 2 / kappa**2 * log  # Hoeffding's lemma
            assert bandits.gloc_recalled(logdet / kappa, M, kappa, 1.0, log) >= proved
    exact = bandits.constrained_mle(2.0, 0.1, 1.0, 3.0, 0.0, 2.0)
    assert exact == pytest.approx((0.5 * math.sqrt(7.0) + 0.2) / 0.1)
    assert bandits.constrained_mle(2.0, 0.1, 1.0, 3.0, 0.1, 2.0) > exact


def test_the_share_of_the_curvature():
    """int (1 - v) sigma'(z + v h) dv >= sigma'(z) curvature_share(|h|) >= sigma'(z)/(2 + |h|), on a grid."""
    v, w = np.polynomial.legendre.leggauss(60)
    v, w = (v + 1) / 2, w / 2
    for z in np.linspace(-8, 8, 33):
        for h in np.linspace(-12, 12, 49):
            p = 1 / (1 + np.exp(-(z + v * h)))
            left = w @ ((1 - v) * p * (1 - p))
            share = bandits.curvature_share(abs(h))
            assert left >= sigma(z) * sigma(-z) * share * (1 - 1e-9)
            assert share >= 1 / (2 + abs(h)) - 1e-12
    assert bandits.curvature_share(1e-3) == pytest.approx(curvature_share(1e-3), rel=1e-6)
    assert bandits.curvature_share(0.9e-3) == pytest.approx(curvature_share(0.9e-3), rel=1e-6)


@pytest.mark.parametrize("bound", [2.0, 8.0])
def test_sets_that_follow_the_curvature_are_smaller_where_rewards_are_nearly_certain(bound):
    """The mean regret over 8 worlds of GLM-UCB, whose radius has 1/kappa in it, and theirs: less than 0.6 of it.
    Measured: 33 and 34 of 75 at a bound of 2, 105 and 94 of 296 at 8."""
    lost = dict.fromkeys(("glm-ucb", "ofuglb", "glb-omd"), 0.0)
    for seed in range(8):
        world = nr.worlds.bandit_logistic(3, 3, bound, seed=seed)
        for name in lost:
            lost[name] += nr.simulate(nr.make_agent(name, world.problem), world, 800, [seed], every=800).final[0]
    assert max(lost["ofuglb"], lost["glb-omd"]) < 0.6 * lost["glm-ucb"]


@pytest.mark.slow
@pytest.mark.parametrize("constants", ["corrected", "paper"])
@pytest.mark.parametrize("name", ["ofuglb", "glb-omd"])
def test_coverage_in_hundreds_of_runs(name, constants):
    """delta = 0.3, one arm, 400 runs of 150 rewards at worlds of their own: misses are at most `allowed`."""
    missed = 0
    for seed in range(400):
        world = nr.worlds.bandit_logistic(1, 2, 1.5, seed=seed)
        agent = nr.make_agent(name, world.problem, delta=0.3, constants=constants, seed=seed)
        run = nr.simulate(agent, world, 150, [seed], every=150, diagnostics=True)
        missed += run.diagnostics["optimism_failures"][0, -1] > 0
    assert missed <= allowed(400, 0.3)


# What is particular --------------------------------------------------------------------------------------------------
def test_glm_ucb_keeps_each_context_of_a_pair_once_and_stops_learning_without_room():
    base = nr.worlds.clinic(horizon=1)
    problem = dataclasses.replace(base.problem, rewards="logistic")
    world = nr.World(problem, base.weights, base.reward_weights, base.contexts, "moderate")
    agents = {room: nr.agents.GLMUCB(problem, memory=room) for room in (18, 5)}  # six patients, three treatments
    for agent in agents.values():
        for k in range(300):
            person = world.individual(k)
            agent.begin_episode(person.context)
            agent.observe(*person.step(agent.act(person.state)))
            agent.end_episode()
    assert agents[18].state.memory.used[0] <= 18
    assert agents[18].state.ridge.samples.sum() == 300
    small = agents[5].state
    assert small.memory.used[0] == 5
    assert small.memory.times.sum() == small.ridge.samples.sum() < 300  # what was not kept was not learned either
    run = nr.simulate(nr.agents.GLMUCB(problem, memory=5), world, 500, 4, every=500, diagnostics=True)
    assert (run.diagnostics["optimism_failures"] == 0).all()


def test_refusals():
    logistic = nr.worlds.bandit_logistic().problem
    for name in NAMES:
        with pytest.raises(ValueError, match=f"{name} is for problems with horizon 1, got horizon 5"):
            nr.make_agent(name, nr.worlds.random_logit().problem)
        known = dataclasses.replace(logistic, known_rewards=np.zeros((1, 3, 3)))
        with pytest.raises(ValueError, match=f"{name} is for rewards that are not known beforehand"):
            nr.make_agent(name, known)
        for options in ({"delta": 1.0}, {"bonus_scale": -1.0}, {"regularization": 0.0}):
            with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
                nr.make_agent(name, logistic, **options)
    for name, reach in (("glm-ucb", 31.0), ("gloc", 201.0)):
        far = dataclasses.replace(logistic, reward_bound=reach)
        with pytest.raises(ValueError, match="reward_bound \\* context_bound must be at most"):
            nr.make_agent(name, far)
        wide = dataclasses.replace(logistic, context_bound=5.0)
        with pytest.raises(ValueError, match=r"^regularization must be at least"):
            nr.make_agent(name, wide, regularization=1e-9)
    for name in NAMES[1:]:
        with pytest.raises(ValueError, match=f"{name} is for problems with rewards=\"logistic\", got 'linear'"):
            nr.make_agent(name, nr.worlds.random_linear(horizon=1).problem)
        with pytest.raises(ValueError, match="constants must be one of"):
            nr.make_agent(name, logistic, constants="printed")
    with pytest.raises(ValueError, match="memory must be an integer of at least 1"):
        nr.agents.GLMUCB(logistic, memory=0)
    with pytest.raises(ValueError, match="curvature must be a positive number"):
        nr.agents.OL2M(logistic, curvature=-1)


def test_what_is_claimed():
    logistic = nr.worlds.bandit_logistic().problem
    for name in NAMES[1:]:
        assert nr.make_agent(name, logistic).bounds_values
        assert nr.make_agent(name, logistic, bonus_scale=0.5).guarantee is None
        assert nr.make_agent(name, logistic).group == "bandit"
    assert nr.agents.OL2M(logistic, constants="paper").guarantee is not None
    assert nr.agents.OL2M(logistic, curvature=0.2).guarantee is None
    assert nr.agents.GLMUCB(logistic, constants="paper").guarantee is None
    assert nr.agents.OFUL(logistic).guarantee is None
    assert nr.agents.OFUL(nr.worlds.random_linear(horizon=1).problem).guarantee is not None


def test_all_agents_on_the_command_line_are_those_that_fit():
    from noregret.cli.options import agents_from

    made = {agent.name for agent in agents_from("all", nr.worlds.clinic())}
    assert not made & set(NAMES)
    assert set(NAMES) <= {agent.name for agent in agents_from("all", nr.worlds.bandit_logistic())}
