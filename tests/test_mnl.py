"""UCRL-MNL, UCRL-MNL-OL, RRL-MNL and ORRL-MNL: twins from the formulas, files, and whether they learn.

The twins are plain NumPy: matrices over the whole parameter vector, inverted afresh; fits by SciPy; the projection on a
ball by bisection. They take the design as the library has identified it (`problem.blocks`), or rows relative to the
last next state where there is none."""

import math

import numpy as np
import pytest
from scipy import optimize, special

import noregret as nr
import reference
from noregret.agents.baselines.mnl import radii

CORE = 10
TUNED = {
    "ucrl-mnl": {"kappa": 0.1, "bonus_scale": 0.003},
    "ucrl-mnl-ol": {"regularization": 1.0, "bonus_scale": 0.003},
    "rrl-mnl": {"kappa": 0.1, "bonus_scale": 0.003},
    "orrl-mnl": {"regularization": 1.0, "bonus_scale": 0.003},
}

EXTRA = {name: {key: v for key, v in options.items() if key != "bonus_scale"} for name, options in TUNED.items()}


def shared(seed=0, S=3, A=2, H=4, d=2, known=True, blocks=(), masked=False):
    """A world with a design: attributes of states and actions, one block or one an action, contexts in a disc."""
    g = np.random.default_rng(seed)
    terms = ["change.level", "action.dose * rise.level", "stay"]
    design = nr.Design.from_tables(
        terms, 3.0, {"level": np.linspace(0.0, 1.0, S)}, {"dose": np.arange(A, dtype=float)}, blocks
    )
    theta = g.standard_normal((design.n_blocks, len(terms), d))
    theta *= 2.5 / np.linalg.norm(theta, axis=(1, 2), keepdims=True)
    rewards = np.zeros((S, A, d))
    rewards[..., 0] = g.random((S, A))
    support = None
    if masked:
        support = np.ones((S, A, S), bool)
        support[0, 0] = [True] + [False] * (S - 1)
        support[1, 0, S - 1] = False
    problem = nr.Problem(
        S, A, H, d, design=design, context_bound=1.2, reward_bound=1.0, support=support,
        known_rewards=rewards if known else None,
    )  # fmt: skip
    contexts = np.stack([np.ones(12), g.uniform(-0.6, 0.6, 12)], axis=1)[:, :d]
    return nr.World(problem, design.weights(theta), rewards, contexts, name="shared")


WORLDS = {
    "one block": shared,
    "a block an action, support": lambda: shared(1, S=4, blocks="action", masked=True),
    "rewards unknown": lambda: shared(2, known=False),
    "no design": lambda: nr.worlds.random_logit(3, 2, 3, 2, seed=1),
    "clinic": nr.worlds.clinic,
}


class Twin:
    """What the four agents have in common; the blocks of a problem and one parameter vector for each."""

    def __init__(self, problem, seed, delta=0.05, bonus_scale=1.0, regularization=None, ceiling="left", **more):
        p = self.p = problem
        self.seed, self.scale, self.more, layout = seed, bonus_scale, more, p.layout
        self.ceiling = ceiling
        S, A, M = layout.outcomes.shape
        if p.blocks is None:
            self.block, self.phi = np.arange(S * A).reshape(S, A), np.zeros((S, A, M, max(M - 1, 1)))
            for s, a in np.argwhere(layout.available):
                for j in range(layout.count[s, a] - 1):
                    self.phi[s, a, j, j] = 1.0
            size = [int(layout.count[s, a] - 1) * int(layout.available[s, a]) for s in range(S) for a in range(A)]
            bound = [p.weight_bound * math.sqrt(max(n, 1)) for n in size]
        else:
            self.block, self.phi, size, bound = p.blocks.block, p.blocks.features, p.blocks.size, p.blocks.bound
        self.B, R = len(size), p.context_bound
        self.U = int(layout.count[layout.available].max())
        self.dim = [max(float(n) * p.context_dim, 1.0) for n in size]
        self.bound = [float(b) for b in bound]
        mine = [(self.block == b) & layout.available for b in range(self.B)]
        self.L = [(np.linalg.norm(self.phi[at], axis=-1).max(initial=0.0) or 1.0) * R for at in mine]
        most = [int(layout.count[at].max(initial=1)) for at in mine]
        self.kappa = [
            more.get("kappa") or self.curvature(min(L * b, p.weight_bound * R), n)
            for L, b, n in zip(self.L, self.bound, most, strict=True)
        ]
        self.eta = [more.get("step_size") or self.steps(L, b) for L, b in zip(self.L, self.bound, strict=True)]
        self.lam = [regularization or self.prior(b) for b in range(self.B)]
        known = p.known_rewards is not None
        self.log = math.log(self.B / (delta if known else delta / 2))
        self.rewards = [[self.reward(s, a) for a in range(A)] for s in range(S)]
        self.log_reward = math.log(2 * p.n_pairs / delta)
        q = self.phi.shape[3] * p.context_dim
        self.theta = np.zeros((self.B, q))
        self.A = np.stack([lam * np.eye(q) for lam in self.lam])
        self.n = [0] * self.B
        self.k = 0

    def reward(self, s, a):
        known = self.p.known_rewards
        if known is not None:
            return reference.Known(known[s, a], self.p.rewards == "logistic", 1.0)
        return reference.Ridge(self.p.context_dim, 1.0)

    @staticmethod
    def curvature(reach, n):
        """The least P(j) P(last), by brute force over the corners of the box of logits."""
        if n < 2:
            return 1.0
        corners = np.stack(np.meshgrid(*[[-reach, reach]] * (n - 1), indexing="ij"), -1).reshape(-1, n - 1)
        P = special.softmax(np.c_[corners, np.zeros(len(corners))], axis=1)
        return float((P[:, :-1].min(1) * P[:, -1]).min())

    def steps(self, L, B):
        return 1.0

    def rows(self, s, a, x):
        """Feature rows (x) x of the next states that can follow, [n, Q d]."""
        return np.stack([np.kron(self.phi[s, a, j], x) for j in range(self.p.layout.count[s, a])])

    def predicted(self, s, a, x):
        b = self.block[s, a]
        return special.softmax(self.rows(s, a, x) @ self.theta[b])

    def plan(self, x):
        p, layout, key = self.p, self.p.layout, reference.words(self.seed, self.k, 0, reference.TIE)[0]
        S, A, H = p.n_states, p.n_actions, p.horizon
        inverse = [np.linalg.inv(a) for a in self.A]
        policy, V = np.zeros((H, S), int), np.zeros((H + 1, S))
        reward, interval = self.mean_rewards(x)
        for h in reversed(range(H)):
            draws = self.drawn(h, x, inverse)
            for s in range(S):
                Q = np.full(A, -np.inf)
                for a in np.flatnonzero(layout.available[s]):
                    after = V[h + 1][layout.outcomes[s, a, : layout.count[s, a]]]
                    b = self.block[s, a]
                    bonus = self.bonus(self.rows(s, a, x), self.predicted(s, a, x), b, inverse[b], draws)
                    mean = reward[s, a] + interval[s, a]
                    most = H if self.ceiling == "horizon" else H - h
                    Q[a] = np.clip(mean + self.predicted(s, a, x) @ after + bonus, 0.0, most)
                tied = np.flatnonzero(Q.max() - 1e-9 <= Q)
                policy[h, s] = tied[reference.mix(key, h * S + s) * len(tied) >> 32]
                V[h, s] = Q.max()
        return policy, V

    def mean_rewards(self, x):
        made = [
            [one.belief(x, self.p.reward_bound, self.log_reward, self.scale) for one in row] for row in self.rewards
        ]
        return np.moveaxis(np.array(made), 2, 0)

    def drawn(self, h, x, inverse):
        return None

    def deviates(self, h, x, inverse, count):
        """`count` vectors of N(0, Sigma) per block, times I (x) x: [B, count, Q]."""
        Q, d = self.phi.shape[3], len(x)
        made = np.zeros((self.B, count, Q))
        lift = np.kron(np.eye(Q), x[:, None])
        for b in range(self.B):
            factor = np.linalg.cholesky(lift.T @ inverse[b] @ lift)
            first = (b * self.p.horizon + h) * count * Q
            z = [reference.normals(self.seed, self.k, i // 2, CORE)[i % 2] for i in range(first, first + count * Q)]
            made[b] = np.reshape(z, (count, Q)) @ factor.T
        assert lift.shape == (Q * d, Q)
        return made

    def learn(self, x, steps):
        """steps: (s, a, reward, slot of the next state)."""
        for s, a, reward, y in steps:
            if self.p.layout.count[s, a] > 1:
                self.step(self.block[s, a], self.rows(s, a, x), y)
                self.n[self.block[s, a]] += 1
            if not math.isnan(reward):
                self.rewards[s][a].update(x, reward)
        self.k += 1

    def projected(self, theta, matrix, b):
        """The point of the ball nearest in the norm of `matrix`, by bisection in its eigenvectors."""
        if np.linalg.norm(theta) <= self.bound[b]:
            return theta
        values, vectors = np.linalg.eigh(matrix)
        t = vectors.T @ theta
        size = lambda mu: np.linalg.norm(t * values / (values + mu))  # noqa: E731
        high = 1.0
        while size(high) > self.bound[b]:
            high *= 2.0
        mu = optimize.brentq(lambda m: size(m) - self.bound[b], 0.0, high, xtol=1e-15, rtol=1e-15)
        return vectors @ (t * values / (values + mu))


class Stored(Twin):
    """UCRL-MNL."""

    def __init__(self, *args, growth=1.1, **options):
        super().__init__(*args, **options)
        self.growth, self.data, self.fitted = growth, [[] for _ in range(self.B)], [0] * self.B

    def prior(self, b):
        return self.L[b] ** 2

    def step(self, b, rows, y):
        self.A[b] += rows.T @ rows
        self.data[b].append((rows, y))

    def learn(self, x, steps):
        super().learn(x, steps)
        for b in range(self.B):
            if self.n[b] > self.fitted[b] and self.n[b] >= self.growth * self.fitted[b]:
                self.theta[b], self.fitted[b] = self.fit(b), self.n[b]

    def fit(self, b):
        def loss(theta):
            total = self.lam[b] / 2 * theta @ theta
            gradient, hessian = self.lam[b] * theta, self.lam[b] * np.eye(len(theta))
            for rows, y in self.data[b]:
                z = rows @ theta
                p = special.softmax(z)
                total += special.logsumexp(z) - z[y]
                gradient = gradient + rows.T @ (p - np.eye(len(p))[y])
                hessian = hessian + rows.T @ (np.diag(p) - np.outer(p, p)) @ rows
            return total, gradient, hessian

        made = optimize.minimize(lambda t: loss(t)[:2], self.theta[b], jac=True, method="BFGS").x
        for _ in range(5):  # polished
            _, gradient, hessian = loss(made)
            made = made - np.linalg.solve(hessian, gradient)
        return made

    def bonus(self, rows, p, b, inverse, draws):
        L, lam, t = self.L[b], self.lam[b], self.n[b] + 1
        inside = self.dim[b] * math.log(1 + t * self.U * L**2 / (self.dim[b] * lam)) + 2 * self.log
        beta = self.scale * (math.sqrt(inside) + math.sqrt(lam) * self.bound[b]) / self.kappa[b]
        return 2 * self.p.horizon * beta * max(math.sqrt(r @ inverse @ r) for r in rows)


class Newton(Twin):
    """RRL-MNL."""

    def prior(self, b):
        return self.L[b] ** 2

    def step(self, b, rows, y):
        p = special.softmax(rows @ self.theta[b])
        self.A[b] += self.kappa[b] / 2 * rows.T @ rows
        moved = self.theta[b] - np.linalg.solve(self.A[b], rows.T @ (p - np.eye(len(p))[y]))
        self.theta[b] = self.projected(moved, self.A[b], b)

    def drawn(self, h, x, inverse):
        self.x = x
        return self.deviates(h, x, inverse, math.ceil(1 - math.log(self.p.horizon) / math.log(special.ndtr(1))))

    def alpha(self, b):
        d, L, B, U, lam, kappa = self.dim[b], self.L[b], self.bound[b], self.U, self.lam[b], self.kappa[b]
        k = self.n[b] + 1
        log = math.log((1 + math.ceil(2 * math.log2(k * U * L * B))) * k**2) + self.log
        first = 8 * d / kappa * math.log(1 + k * U * L**2 / (d * lam))
        return math.sqrt(first + (32 * L * B / 3 + 16 / kappa) * log + 2 * math.sqrt(2) + 2 * lam * B**2)

    def bonus(self, rows, p, b, inverse, draws):
        sizes = np.array([r @ inverse @ r for r in rows])
        longest = rows[np.flatnonzero(sizes >= sizes.max() * (1 - 1e-8))[0]]
        phi = longest.reshape(-1, len(self.x)) @ self.x / (self.x @ self.x)
        return self.scale * self.p.horizon * self.alpha(b) * (draws[b] @ phi).max()


class Descent(Twin):
    """UCRL-MNL-OL."""

    second = 2.5

    def steps(self, L, B):
        return 0.5 * math.log(1 + self.U) + L * B + 1

    def prior(self, b):
        L, B = self.L[b], self.bound[b]
        return 84 * math.sqrt(2) * self.steps(L, B) * (L * B + self.dim[b]) * L**2

    def step(self, b, rows, y):
        p, eta = special.softmax(rows @ self.theta[b]), self.eta[b]
        matrix = self.A[b] + eta * rows.T @ (np.diag(p) - np.outer(p, p)) @ rows
        moved = self.theta[b] - eta * np.linalg.solve(matrix, rows.T @ (p - np.eye(len(p))[y]))
        self.theta[b] = self.projected(moved, matrix, b)
        p = special.softmax(rows @ self.theta[b])
        self.A[b] += rows.T @ (np.diag(p) - np.outer(p, p)) @ rows

    def beta(self, b):
        d, L, B, U, lam, k = self.dim[b], self.L[b], self.bound[b], self.U, self.lam[b], self.n[b] + 1
        alpha, M = 2 * self.eta[b], 3 * math.log(U * k) + L * B
        gamma = 5 / 4 * M * lam + 4 * M * (math.log(self.p.horizon * math.sqrt(1 + 2 * k)) + self.log) + 2
        delta = math.sqrt(6) * 2 * alpha / 3 * d * math.log(1 + 2 * k * L**2 / (d * lam))
        return self.scale * math.sqrt(alpha * (gamma + delta) + lam * B**2)

    def bonus(self, rows, p, b, inverse, draws):
        H, beta, centred = self.p.horizon, self.beta(b), rows - p @ rows
        first = self.first(centred, p, b, inverse, draws)
        return H * beta * first + self.second * H * beta**2 * max(r @ inverse @ r for r in rows)

    def first(self, centred, p, b, inverse, draws):
        return sum(q * math.sqrt(r @ inverse @ r) for q, r in zip(p, centred, strict=True))


class Randomised(Descent):
    """ORRL-MNL."""

    second = 3.0

    def steps(self, L, B):
        return (math.log(self.U) + 2 * (1 + L * B)) / 2

    def prior(self, b):
        L, alpha = self.L[b], 2 * self.steps(self.L[b], self.bound[b])
        return max(1, 12 * math.sqrt(2) * L**3 * alpha, 48 * L**2 * self.dim[b] * alpha)

    def drawn(self, h, x, inverse):
        self.x = x
        tries = math.ceil(1 - math.log(self.p.horizon * self.U) / math.log(special.ndtr(1)))
        return self.deviates(h, x, inverse, tries)

    def first(self, centred, p, b, inverse, draws):
        phi = centred.reshape(len(p), -1, len(self.x)) @ self.x / (self.x @ self.x)
        return p @ (phi @ draws[b].T).max(1)


TWINS = {"ucrl-mnl": Stored, "ucrl-mnl-ol": Descent, "rrl-mnl": Newton, "orrl-mnl": Randomised}


def walk(agent, twin, world, episodes):
    """Both see the same; policies agree, and values to 1e-9."""
    for k in range(agent.episode, agent.episode + episodes):
        someone = world.individual(k, seed=3)
        plan = agent.begin_episode(someone.context)
        policy, V = twin.plan(someone.context)
        assert np.allclose(plan.values, V, rtol=0, atol=1e-9)
        assert np.array_equal(plan.policy, policy)
        steps = []
        for h in range(world.problem.horizon - (k % 7 == 3)):
            s = someone.state
            a = agent.act(s)
            reward, after = someone.step(a)
            reward = math.nan if (k + h) % 6 == 1 else reward
            agent.observe(reward, after)
            steps.append((s, a, reward, world.problem.layout.outcomes[s, a].tolist().index(after)))
        twin.learn(someone.context, steps)
        agent.end_episode()


@pytest.mark.long
@pytest.mark.parametrize("where", WORLDS)
@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("tuned", [False, True], ids=["printed", "tuned"])
def test_plans_and_estimates_agree_with_the_formulas(name, where, tuned):
    """25 episodes, some rewards missing, some cut short: policies, values, parameters and matrices."""
    world, options = WORLDS[where](), TUNED[name] if tuned else {}
    agent = nr.make_agent(name, world.problem, seed=3, **options)
    twin = TWINS[name](world.problem, 3, **options)
    walk(agent, twin, world, 25)
    assert np.allclose(agent.state.theta, twin.theta, rtol=0, atol=1e-9)
    scale = np.abs(twin.A).max()
    assert np.allclose(agent.state.gram, twin.A, rtol=0, atol=1e-9 * scale)
    assert np.allclose(agent.state.gram @ agent.state.inverse, np.eye(twin.A.shape[1]), rtol=0, atol=1e-9)
    assert agent.state.samples.tolist() == twin.n


@pytest.mark.parametrize("name", TWINS)
def test_values_go_up_to_the_horizon_where_they_are_asked_to(name):
    """ceiling="horizon", with sparse and dense next states: as the formulas have it, and above what can be got."""
    for world, options in ((shared(6, masked=True), {}), (shared(6), {"bonus_scale": 0.01, **EXTRA[name]})):
        agent = nr.make_agent(name, world.problem, seed=3, ceiling="horizon", **options)
        walk(agent, TWINS[name](world.problem, 3, ceiling="horizon", **options), world, 4)
        assert agent.begin_episode(world.context(0, 9)).values[-2].max() > 1.0
        agent.end_episode()


@pytest.mark.parametrize("name", TWINS)
def test_steps_that_leave_the_ball_come_back_to_its_nearest_point(name):
    """A weak prior and large steps: the parameters are at their bound at some time, and the twin's all the time."""
    world = shared(3)
    options = {"regularization": 0.02, "bonus_scale": 0.001, "seed": 3}
    options |= {"step_size": 30.0} if name in ("ucrl-mnl-ol", "orrl-mnl") else {"kappa": 0.01}
    agent, twin = nr.make_agent(name, world.problem, **options), TWINS[name](world.problem, **options)
    longest = 0.0
    for _ in range(6):
        walk(agent, twin, world, 1)
        longest = max(longest, float(np.linalg.norm(agent.state.theta)))
        assert np.allclose(agent.state.theta, twin.theta, rtol=0, atol=1e-9)
    if name == "ucrl-mnl":  # nothing keeps a fit within the ball
        assert longest > 0.0
    else:
        assert longest == pytest.approx(world.problem.blocks.bound[0], rel=1e-12)


@pytest.mark.parametrize("name", TWINS)
def test_a_tuned_agent_learns(name):
    """The second half of 800 episodes costs less than a third of uniform play's."""
    world = shared(4, S=4, H=5)
    run = nr.simulate(nr.make_agent(name, world.problem, **TUNED[name]), world, 800, seeds=4, every=400)
    uniform = nr.simulate(nr.UniformRandom(world.problem), world, 800, seeds=4, every=400)
    assert (run.regret[:, 1] - run.regret[:, 0]).mean() < 0.33 * (uniform.regret[:, 1] - uniform.regret[:, 0]).mean()


@pytest.mark.parametrize("name", TWINS)
def test_live_verbs_and_files_go_on_to_the_bit(name, tmp_path):
    """With a design: the compiled loop and the verbs agree, and so do an agent and its copy from a file."""
    world = shared(5, blocks="action", masked=True)
    agent = nr.make_agent(name, world.problem, **TUNED[name])
    fast, slow = (nr.simulate(agent, world, 90, seeds=[3], compiled=c).regret for c in (True, False))
    assert np.array_equal(fast, slow)
    other = None
    for k in range(90):
        if k == 80:
            agent.save(tmp_path / "agent.npz")
            other = nr.load(tmp_path / "agent.npz")
        someone, made = world.individual(k, 3), [one for one in (agent, other) if one is not None]
        plans = [one.begin_episode(someone.context) for one in made]
        assert all(np.array_equal(plans[0].values, plan.values) for plan in plans)
        while someone.steps < world.problem.horizon:
            action, *others = [one.act(someone.state) for one in made]
            assert all(action == one for one in others)
            seen = someone.step(action)
            for one in made:
                one.observe(*seen)
        for one in made:
            one.end_episode()
    assert np.array_equal(agent.state.theta, other.state.theta)


def test_a_design_with_a_block_a_pair_is_the_model_without_one():
    """The same predictions, in coordinates of its own: a fit with hardly any prior knows no coordinates."""
    world = nr.worlds.random_logit(3, 2, 3, 2, seed=1)
    p = world.problem
    design = nr.Design.per_pair(3, 2, 2.0 * p.weight_bound)
    same = nr.Problem(3, 2, 3, 2, design=design, reward_bound=p.reward_bound, context_bound=p.context_bound)
    agents = [nr.agents.UCRLMNL(one, regularization=2e-3, growth=1.0) for one in (p, same)]
    for k in range(300):
        someone = world.individual(k)
        for agent in agents:
            agent.begin_episode(someone.context)
        while someone.steps < 3:
            action = k % 2
            for agent in agents:
                agent.act(someone.state, action=action)
            seen = someone.step(action)
            for agent in agents:
                agent.observe(*seen)
        for agent in agents:
            agent.end_episode()
    x = world.context(0, 999)
    first, second = (agent.begin_episode(x) and agent.work.P for agent in agents)
    assert np.allclose(first, second, atol=1e-3)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_kappa_is_a_lower_bound(n):
    g = np.random.default_rng(n)
    z = np.c_[g.uniform(-2.0, 2.0, (20_000, n - 1)), np.zeros(20_000)]
    P = special.softmax(z, axis=1)
    least = radii.least_curvature(2.0, n)
    assert (P[:, :-1] * P[:, -1:]).min() >= least
    assert radii.least_curvature(2.0, n) == pytest.approx(Twin.curvature(2.0, n), rel=1e-12)
    assert radii.least_curvature(400.0, n) == radii.LEAST_KAPPA
    assert radii.least_curvature(2.0, 1) == 1.0


@pytest.mark.long
def test_the_radius_of_the_stored_fit_covers():
    """`likelihood_radius` at delta = 0.1, kappa exact for the parameters met: no failure in 300 runs of 40 steps."""
    g, failed = np.random.default_rng(0), 0
    for _ in range(300):
        theta, A = g.standard_normal(3), np.eye(3)
        theta *= 1.0 / np.linalg.norm(theta)
        data = []
        for _ in range(40):
            rows = np.vstack([g.uniform(-1, 1, (2, 3)) / math.sqrt(3), np.zeros(3)])
            y = g.choice(3, p=special.softmax(rows @ theta))
            data.append((rows, y))
            A += rows.T @ rows
        made = np.zeros(3)
        for _ in range(30):
            gradient, hessian = made.copy(), np.eye(3)
            for rows, y in data:
                p = special.softmax(rows @ made)
                gradient += rows.T @ (p - np.eye(3)[y])
                hessian += rows.T @ (np.diag(p) - np.outer(p, p)) @ rows
            made = made - np.linalg.solve(hessian, gradient)
        kappa = radii.least_curvature(max(1.0, float(np.linalg.norm(made))), 3)
        radius = radii.likelihood_radius((3.0, 1.0, 1.0, 3.0), kappa, 1.0, 41.0, math.log(10.0))
        failed += (made - theta) @ A @ (made - theta) > radius**2
    assert failed == 0


def test_nothing_is_claimed_and_bad_options_are_refused():
    problem, linear = shared().problem, nr.worlds.random_linear(3, 2, 3, 2).problem
    for name in TWINS:
        agent = nr.make_agent(name, problem)
        assert agent.guarantee is None
        assert agent.group == "contextual"
        assert agent.begin_episode([1.0, 0.0]).upper is None
        with pytest.raises(ValueError, match=f"link must be MultinomialLogit for {name}"):
            nr.make_agent(name, linear)
        with pytest.raises(ValueError, match=r"regularization must be at least .* for stable arithmetic"):
            nr.make_agent(name, problem, regularization=1e-9)
    for name, options, message in (
        ("ucrl-mnl", {"growth": 0.9}, "growth must be"),
        ("rrl-mnl", {"ceiling": "H"}, "ceiling must be"),
        ("ucrl-mnl", {"kappa": 1.0}, "kappa must be"),
        ("rrl-mnl", {"kappa": 1e-200}, "kappa must be"),
        ("rrl-mnl", {"samples": 0}, "samples must be an integer of at least 1"),
        ("orrl-mnl", {"step_size": 0.0}, "step_size must be"),
        ("ucrl-mnl-ol", {"delta": 1.0}, "delta must be a number between 0 and 1"),
    ):
        with pytest.raises(ValueError, match=message):
            nr.make_agent(name, problem, **options)


def test_only_the_stored_fit_grows():
    world = shared()
    for name in TWINS:
        agent = nr.make_agent(name, world.problem, **TUNED[name])
        agent.make_room(200)
        assert agent.room == (200 if name == "ucrl-mnl" else 0)


STEPS = {name: {"kappa": 0.25} if name in ("ucrl-mnl", "rrl-mnl") else {"step_size": 2.0} for name in TWINS}


def in_the_river(name, episodes=200, told=True, **options):
    """Regret per episode in the river of Cho et al. (2024), S = 4 and H = 12, an estimator per step."""
    world = nr.worlds.riverswim_logit(4, 12, features="pairs", per_step=True, known_support=told)
    return nr.simulate(nr.make_agent(name, world.problem, **options), world, episodes).final[0] / episodes


@pytest.mark.parametrize("name", TWINS)
def test_in_the_river_nobody_needs_a_bonus(name):
    """Rewards are known and the first guess of every row is uniform: planning with that is optimal already."""
    assert in_the_river(name, bonus_scale=0.0) < 1e-9


@pytest.mark.parametrize("name", TWINS)
def test_in_the_river_there_is_something_to_learn_where_the_support_is_not_told(name):
    """Left and right look alike at first: the first 100 episodes cost what those told are spared, and are learned from.
    By then nobody has lost half of what uniform play has."""
    lost = in_the_river(name, 100, told=False, bonus_scale=0.0, regularization=1.0, **STEPS[name])
    assert 0.2 < lost < 0.5 * 2.55


@pytest.mark.parametrize("name", TWINS)
def test_in_the_river_printed_constants_draw_lots_below_the_horizon_and_swim_right_below_what_is_left(name):
    """Values at their ceiling H tie whatever is done, at H - h those who swim left have one reward less. Swimming right
    always costs 0.00075 an episode, uniform play 2.55."""
    assert in_the_river(name, ceiling="left") == pytest.approx(0.00075, abs=2e-5)
    uniform = in_the_river("uniform-random")
    assert in_the_river(name, ceiling="horizon") == pytest.approx(uniform, rel=0.05)
