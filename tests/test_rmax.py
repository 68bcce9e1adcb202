"""Rmax over a cover of context space and over linear regressions, and cells with uniform play, against plain twins."""

import itertools
import math

import numpy as np
import pytest

import noregret as nr
import reference as ref
from noregret.agents.baselines.rmax.cover_rmax import reward_lipschitz_of, transition_lipschitz
from noregret.theory import pac

TIE = 1e-9


# A slow planner, from docs/semantics.md -------------------------------------------------------------------------------
def backward(P, r, available, H, seed, k, clip):
    """policy [H, S], values [H+1, S] for P [S, A, S'], r [S, A]; ties are broken by the episode's word."""
    S, A = r.shape
    key = ref.words(seed, k, 0, ref.TIE)[0]
    policy, V = np.zeros((H, S), int), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            Q = np.full(A, -np.inf)
            for a in range(A):
                if available[s, a]:
                    Q[a] = r[s, a] + sum(P[s, a, y] * V[h + 1, y] for y in range(S))
                    if clip:
                        Q[a] = min(max(Q[a], 0.0), H - h)
            V[h, s] = Q.max()
            tied = [a for a in range(A) if Q[a] >= Q.max() - TIE]
            policy[h, s] = tied[(ref.mix(key, h * S + s) * len(tied)) >> 32 if len(tied) > 1 else 0]
    return policy, V


class Twin:
    """What the twins share: the history of every episode, nothing else."""

    def __init__(self, problem, seed):
        self.p, self.seed, self.past = problem, seed, []
        p = problem
        self.S, self.A, self.H = p.n_states, p.n_actions, p.horizon
        self.available = np.ones((self.S, self.A), bool) if p.available is None else np.asarray(p.available)
        self.support = np.ones((self.S, self.A, self.S), bool) if p.support is None else np.asarray(p.support)

    def samples(self, chosen, limit=math.inf):
        """Counts [S, A, S'] and reward sums and counts [S, A] over the episodes in `chosen`, at most `limit` each."""
        n, total, rated = np.zeros((self.S, self.A, self.S)), np.zeros((self.S, self.A)), np.zeros((self.S, self.A))
        for k, (_, steps) in enumerate(self.past):
            if k in chosen:
                for s, a, r, y in steps:
                    if n[s, a].sum() < limit:
                        n[s, a, y] += 1
                    if rated[s, a] < limit and not math.isnan(r):
                        total[s, a] += r
                        rated[s, a] += 1
        return n, total, rated

    def explore(self, policy, k, steps):
        for h in range(steps):
            for s in range(self.S):
                actions = np.flatnonzero(self.available[s])
                u, _ = ref.uniforms(self.seed, k, h * self.S + s, ref.EXPLORE)
                policy[h, s] = actions[int(u * len(actions))]
        return policy


class CoverTwin(Twin):
    def __init__(self, problem, seed, m, r0, max_balls, slack):
        super().__init__(problem, seed)
        self.m, self.r0, self.max_balls, self.slack = m, r0, max_balls, slack

    def balls(self):
        """Centres, and the ball of every past episode."""
        centres, member = [], []
        for x, _ in self.past:
            b = self.ball(centres, x)
            if b is None:
                b = len(centres)
                centres.append(x)
            member.append(b)
        return centres, member

    def ball(self, centres, x):
        inside = [b for b, c in enumerate(centres) if np.linalg.norm(c - x) <= self.r0]
        if inside:
            return inside[0]
        return int(np.argmin([np.linalg.norm(c - x) for c in centres])) if len(centres) == self.max_balls else None

    def plan(self, x, k):
        centres, member = self.balls()
        b = self.ball(centres, x)
        n, total, rated = self.samples({i for i, c in enumerate(member) if c == b}, self.m)
        P, r = np.zeros((self.S, self.A, self.S)), np.full((self.S, self.A), float(self.H))
        for s, a in itertools.product(range(self.S), range(self.A)):
            if n[s, a].sum() >= self.m and rated[s, a] >= self.m:
                P[s, a], r[s, a] = n[s, a] / n[s, a].sum(), total[s, a] / rated[s, a]
        policy, V = backward(P, r, self.available, self.H, self.seed, k, True)
        left = self.H - np.arange(self.H + 1.0)
        return policy, np.minimum(V + np.asarray(self.slack)[:, None], left[:, None])


class CellTwin(Twin):
    def __init__(self, problem, seed, centres, explore, smoothing):
        super().__init__(problem, seed)
        self.centres, self.steps, self.c = np.asarray(centres), explore, smoothing

    def cell(self, x):
        return int(np.argmin(np.linalg.norm(self.centres - x, axis=1)))

    def plan(self, x, k):
        n, total, rated = self.samples({i for i, (z, _) in enumerate(self.past) if self.cell(z) == self.cell(x)})
        prior = self.c * self.support
        P = (n + prior) / (n + prior).sum(2, keepdims=True).clip(1e-300)
        r = (total + self.c) / (rated + 2 * self.c)
        policy, V = backward(P, r, self.available, self.H, self.seed, k, False)
        return self.explore(policy, k, self.steps), V


class KwikTwin(Twin):
    def __init__(self, problem, seed, alpha, always, slack):
        super().__init__(problem, seed)
        self.alpha, self.always, self.slack = alpha, always, slack

    def regressions(self):
        """{(kind, s, a): (contexts, targets)} of the samples taken: where Z did not know, one after the other."""
        kept = {}
        for x, steps in self.past:
            for s, a, r, y in steps:
                for kind, target in (("P", np.eye(self.S)[y]), ("r", r)):
                    X, Y = kept.setdefault((kind, s, a), ([], []))
                    if not np.isnan(target).any() and (self.always or self.width(X, x) > self.alpha):
                        X.append(x)
                        Y.append(target)
        return kept

    def width(self, X, x):
        Z = np.eye(len(x)) + sum((np.outer(z, z) for z in X), np.zeros((len(x), len(x))))
        return math.sqrt(x @ np.linalg.solve(Z, x))

    def plan(self, x, k):
        kept, d = self.regressions(), len(x)
        P, r = np.zeros((self.S, self.A, self.S)), np.full((self.S, self.A), float(self.H))
        for s, a in itertools.product(range(self.S), range(self.A)):
            data = [kept.get((kind, s, a), ([], [])) for kind in "Pr"]
            if all(self.width(X, x) <= self.alpha for X, _ in data):
                guess = []
                for X, Y in data:
                    Z = np.eye(d) + np.array(X).T @ np.array(X)
                    guess.append(np.linalg.solve(Z, np.array(X).T @ np.array(Y)).T @ x)
                on = self.support[s, a]
                P[s, a, on] = ref.project_simplex(guess[0][on])
                r[s, a] = min(max(guess[1], 0.0), 1.0)
        policy, V = backward(P, r, self.available, self.H, self.seed, k, True)
        left = self.H - np.arange(self.H + 1.0)
        return policy, np.minimum(V + np.asarray(self.slack)[:, None], left[:, None])


def masked_linear():
    """A linear world in which some next states cannot occur and some actions may not be taken."""
    support, available = np.ones((3, 2, 3), bool), np.ones((3, 2), bool)
    support[0, 0, 1] = support[1, 1, 0] = support[2, 0, :2] = False
    available[1, 0] = False
    g = np.random.default_rng(3)
    W = g.random((3, 2, 3, 2)) * support[..., None]
    problem = nr.Problem(3, 2, 3, 2, nr.LinearCombination(), reward_bound=2.0, support=support, available=available)
    return nr.World(problem, W / W.sum(2, keepdims=True), g.random((3, 2, 2)))


def compare(agent, twin, world, episodes, blind=()):
    """Plans of both in every episode; rewards of steps in `blind` are not seen."""
    for k in range(episodes):
        someone = world.individual(k, 5)
        plan = agent.begin_episode(someone.context)
        policy, V = twin.plan(np.array(someone.context), k)
        assert np.allclose(plan.values, V, rtol=0, atol=1e-9), k
        assert np.array_equal(plan.policy, policy), k
        steps = []
        for h in range(world.problem.horizon):
            s = someone.state
            a = agent.act(s)
            r, y = someone.step(a)
            r = math.nan if (k, h) in blind else r
            agent.observe(r, y)
            steps.append((s, a, r, y))
        agent.end_episode()
        twin.past.append((np.array(someone.context), steps))


WORLDS = {
    "logit": lambda: nr.worlds.random_logit(3, 2, 3, 2, seed=1),
    "linear": lambda: nr.worlds.random_linear(3, 2, 4, 2, seed=1),
    "clinic": nr.worlds.clinic,
}
BLIND = {(k, k % 3) for k in range(0, 60, 4)}


@pytest.mark.parametrize("where", WORLDS)
def test_cover_rmax_is_its_formula(where):
    world = WORLDS[where]()
    agent = nr.agents.CoverRmax(world.problem, m=3, r0=0.4, max_balls=3, seed=2)
    compare(agent, CoverTwin(world.problem, 2, 3, 0.4, 3, np.zeros(world.problem.horizon + 1)), world, 60, BLIND)
    assert (agent.state.visits == 3).sum() > 3
    assert agent.state.visits.max() == 3
    if where == "clinic":
        assert agent.state.forced[0] > 0  # more than three balls were needed


@pytest.mark.parametrize("where", WORLDS)
def test_cece_x_is_its_formula(where):
    world = WORLDS[where]()
    centres = nr.agents.kmeans([world.context(9, k) for k in range(30)], 2)
    agent = nr.agents.CECEx(world.problem, centres, explore=2, smoothing=0.7, seed=2)
    compare(agent, CellTwin(world.problem, 2, centres, 2, 0.7), world, 60, BLIND)
    assert (agent.state.visits.sum((1, 2)) > 10).all()


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("where", ["linear", "masked"])
def test_kwik_lr_rmax_is_its_formula(where, always):
    world = masked_linear() if where == "masked" else WORLDS["linear"]()
    agent = nr.agents.KWIKLRRmax(world.problem, alpha0=0.4, keep_learning=always, seed=2)
    twin = KwikTwin(world.problem, 2, 0.4, always, np.zeros(world.problem.horizon + 1))
    compare(agent, twin, world, 60, BLIND)
    kept = twin.regressions()
    for (kind, s, a), (X, _) in kept.items():
        regression = agent.state.transitions if kind == "P" else agent.state.rewards
        assert regression.samples[s, a] == len(X)
        Z = np.eye(2) + sum((np.outer(z, z) for z in X), np.zeros((2, 2)))
        assert np.allclose(regression.logdet[s, a], np.linalg.slogdet(Z)[1], atol=1e-9)
    assert (agent.begin_episode(world.context(0, 0)).values[0] < world.problem.horizon).any()  # something was known


def test_reported_values_add_what_the_models_may_be_off():
    """Theoretical constants: an unknown pair is worth H - h; the slack is that of (1), from m and r0."""
    world = small()
    agent = nr.agents.CoverRmax(world.problem, epsilon=1.9, max_balls=1, delta=0.3, seed=2)
    log = math.log(4 * 1 * 4 / 0.3)
    m, r0 = agent.par.enough, agent.par.radius
    e_r = math.sqrt((math.log(2) + log) / 2 / m) + 2 * reward_lipschitz_of(world.problem) * r0
    e_p = math.sqrt(2 * (2 * math.log(2) + log) / m) + 2 * transition_lipschitz(world.problem) * r0
    slack = [2 * e_r + 0.5 * e_p, e_r, 0.0]
    assert np.allclose(agent.par.slack, slack, atol=1e-12)
    assert slack[0] <= 1.9 / 4 < slack[0] * 1.01
    twin = CoverTwin(world.problem, 2, m, r0, 1, slack)
    compare(agent, twin, world, 30)
    nr.simulate(agent, world, 10)


def small(seed=0):
    """Two states, two actions, two steps and one context: m is in the hundreds."""
    return nr.worlds.random_logit(2, 2, 2, 1, seed=seed)


# Formulas ------------------------------------------------------------------------------------------------------------
def test_slack_bounds_what_wrong_models_cost():
    """(1) and (2) of theory.pac on random models within e_r and e_p: never violated, and not by a wide margin."""
    g = np.random.default_rng(0)
    closest = 0.0
    for _ in range(400):
        S, A, H = 3, 2, int(g.integers(1, 5))
        P, r = g.dirichlet(np.full(S, 0.3), (S, A)), g.random((S, A))
        mix = g.random() ** 2
        Q, q = (1 - mix) * P + mix * np.eye(S)[g.integers(0, S, (S, A))], np.clip(r - mix * g.choice([0, 1]), 0, 1)
        e_p, e_r = np.abs(P - Q).sum(2).max(), np.abs(r - q).max()
        every = np.ones((S, A), bool)
        known = g.random((S, A)) < 0.8
        V = backward(P, r, every, H, 0, 0, False)[1]
        policy, W = backward(np.where(known[..., None], Q, 0), np.where(known, q, H), every, H, 0, 0, True)
        slack = pac.slack(H, e_r, e_p)[:, None]
        assert (W + slack + 1e-12 >= V).all()
        closest = max(closest, ((V - W) / np.maximum(slack, 1e-9))[:H].max())
        own, escape = np.zeros((H + 1, S)), np.zeros((H + 1, S))
        for h in reversed(range(H)):
            for s in range(S):
                a = policy[h, s]
                own[h, s] = r[s, a] + P[s, a] @ own[h + 1]
                escape[h, s] = 1.0 if not known[s, a] else P[s, a] @ escape[h + 1]
        assert (V - own <= 2 * slack + H * escape + 1e-12)[0].all()
    assert closest > 0.5


def test_rates_are_those_of_binomials():
    """Frequencies leave their interval no more often than promised: exactly, for two outcomes and m = 50."""
    m, log = 50, math.log(10.0)
    ways = [math.comb(m, i) for i in range(m + 1)]
    for p in (0.5, 0.2, 0.03):
        chance = np.array([w * p**i * (1 - p) ** (m - i) for i, w in enumerate(ways)])
        off = np.abs(np.arange(m + 1) / m - p)
        assert chance[off > pac.reward_rate(log) / math.sqrt(m)].sum() <= 0.1
        assert chance[2 * off > pac.transition_rate(2, log) / math.sqrt(m)].sum() <= 0.1
    assert pac.transition_rate(1, log) == 0.0


def test_smoothness_follows_from_the_bounds():
    """||P_x - P_x'||_1 <= L_p ||x - x'||_2 and likewise for rewards, on random worlds of both links; attained within a
    factor of ten, and never exceeded."""
    for make in (nr.worlds.random_logit, nr.worlds.random_linear):
        world = make(4, 2, 3, 3, seed=2)
        p, closest = world.problem, 0.0
        for k in range(300):
            x, y = world.context(0, k), world.context(1, k)
            apart = np.linalg.norm(x - y)
            moved = np.abs(world.transitions(x) - world.transitions(y)).sum(2).max()
            assert moved <= transition_lipschitz(p) * apart + 1e-12
            assert np.abs(world.rewards(x) - world.rewards(y)).max() <= reward_lipschitz_of(p) * apart + 1e-12
            closest = max(closest, moved / (transition_lipschitz(p) * apart))
        assert closest > 0.1


def test_published_constants_are_not_for_sums_of_rewards():
    """With epsilon/H, the epsilon of averages, the published constants suffice; with epsilon they are not enough."""
    H, epsilon = 10, 1.0
    log = math.log(20 / 0.05)
    ours = pac.rmax_visits(5, H, epsilon, log)
    assert pac.printed_visits(5, 4, H, epsilon, 0.05) < ours / 3
    assert pac.printed_visits(5, 4, H, epsilon / H, 0.05) > ours
    assert pac.printed_radius(H, epsilon, 1.0, 1.0) > pac.cover_radius(H, epsilon, 1.0, 1.0)
    assert pac.printed_radius(H, epsilon / H, 1.0, 1.0) < pac.cover_radius(H, epsilon, 1.0, 1.0)


def test_kwik_samples_are_as_many_as_fit():
    """Brute force over whole numbers; and a greedy adversary on the sphere stays below."""
    for d, alpha in ((1, 0.5), (2, 0.3), (3, 0.9), (4, 0.1)):
        fits = [n for n in range(20_000) if n * math.log(1 + alpha**2) <= d * math.log(1 + n / d)]
        assert pac.kwik_samples(d, alpha) == max(fits)
    Z, taken = np.eye(3), 0
    while True:
        values, vectors = np.linalg.eigh(Z)
        if values[0] ** -0.5 <= 0.2:
            break
        Z, taken = Z + np.outer(vectors[:, 0], vectors[:, 0]), taken + 1
    assert 0 < taken <= pac.kwik_samples(3, 0.2)


@pytest.mark.long
@pytest.mark.deep
def test_kwik_errors_cover():
    """Samples taken where the regression does not know, contexts chosen at random; afterwards both errors at every
    known context tried lie within their bounds. 50 runs with two events of probability 1e-4 each: the test fails with
    probability at most 0.01 if the bounds are right."""
    g, alpha, d, m = np.random.default_rng(0), 0.35, 2, 3
    e_r, e_p = pac.kwik_errors(alpha, d, m, 1.0, math.log(1e4))
    worst = [0.0, 0.0]
    for _ in range(50):
        W, theta = g.dirichlet(np.full(m, 0.4), d).T, g.random(d) / math.sqrt(d)
        Z, M, b = np.eye(d), np.zeros((m, d)), np.zeros(d)
        for _ in range(200):
            x = g.dirichlet(np.full(d, 0.5))
            if x @ np.linalg.solve(Z, x) > alpha**2:
                M += np.outer(g.multinomial(1, W @ x), x)
                b += (g.random() < theta @ x) * x
                Z += np.outer(x, x)
            else:
                zx = np.linalg.solve(Z, x)
                worst[0] = max(worst[0], abs(b @ zx - theta @ x) / e_r)
                worst[1] = max(worst[1], np.abs(ref.project_simplex(M @ zx) - W @ x).sum() / e_p)
    assert 0.1 < worst[0] <= 1.0
    assert 0.1 < worst[1] <= 1.0


def test_kwik_threshold_spends_its_share():
    for H, d, m, epsilon in ((2, 2, 3, 0.5), (5, 4, 5, 1.0), (1, 1, 1, 0.1)):
        alpha = pac.kwik_threshold(H, epsilon, d, m, 1.0, 5.0)
        spent = pac.slack(H, *pac.kwik_errors(alpha, d, m, 1.0, 5.0))[0]
        assert 0.98 * epsilon / 4 <= spent <= epsilon / 4
    assert pac.kwik_threshold(1, 1e6, 2, 2, 1.0, 5.0) == 1.0


# Promises ------------------------------------------------------------------------------------------------------------
def test_cover_rmax_is_never_below_the_optimum_and_stops_making_mistakes():
    """Theoretical constants, delta = 1e-4, 24 worlds and seeds: by the guarantee some run fails with probability at
    most 0.0024. After learning, plans are within epsilon."""
    for seed in range(24):
        world = small(seed)
        agent = nr.agents.CoverRmax(world.problem, epsilon=1.0, delta=1e-4, max_balls=1)
        run = nr.simulate(agent, world, 20_000, seeds=[seed], every=1000, diagnostics=True, epsilon=1.0)
        assert run.guarantee is not None
        assert run.diagnostics["optimism_failures"][0, -1] == 0
        mistakes = run.diagnostics["mistakes"][0]
        assert mistakes[-1] <= agent.mistake_bound
        assert mistakes[-1] == mistakes[-3]
        assert run.late[0] <= 0.5 * run.regret[0, 0] / 1000


def test_two_balls_are_two_learners():
    """Contexts far apart, radius between: each ball sees its own samples, and optimism holds in both (delta = 1e-4 and
    20 seeds: some run fails with probability at most 0.002)."""
    base = nr.worlds.random_logit(2, 2, 2, 2, seed=4)
    world = nr.World(base.problem, base.weights, base.reward_weights, [[0.7, 0.7], [0.7, -0.7]])
    agent = nr.agents.CoverRmax(world.problem, epsilon=1.5, delta=1e-4, max_balls=2)
    assert agent.par.radius < 1.0
    run = nr.simulate(agent, world, 20_000, seeds=20, every=2000, diagnostics=True, epsilon=1.5)
    assert (run.diagnostics["optimism_failures"] == 0).all()
    assert (run.diagnostics["mistakes"][:, -1] == run.diagnostics["mistakes"][:, -2]).all()
    # A third individual finds no room: the nearest ball takes it, and nothing is claimed any more.
    crowd = nr.World(base.problem, base.weights, base.reward_weights, [[0.7, 0.7], [0.7, -0.7], [0.7, 0.0]])
    live = nr.agents.CoverRmax(world.problem, epsilon=1.5, delta=0.3, max_balls=2)
    claimed = []
    for k in range(12):
        claimed.append(live.begin_episode(crowd.context(0, k)).upper is not None)
        live.end_episode()
    assert claimed[0]
    assert not claimed[-1]
    assert live.guarantee is None


def test_practical_cover_rmax_and_cece_x_learn():
    """Six kinds of patients, a ball and a cell for each. Regret per episode over the last tenth against uniform play,
    whose seeds spread by a few percent: at most a tenth for Rmax, at most 0.7 for uniform play in the first step."""
    world = nr.worlds.clinic()
    uniform = nr.simulate(nr.UniformRandom(world.problem), world, 5_000, seeds=4, every=100).late.mean()
    rmax = nr.simulate(nr.agents.CoverRmax(world.problem, m=20, r0=0.1), world, 20_000, seeds=4, every=100)
    assert rmax.late.max() <= 0.1 * uniform
    cells = nr.simulate(nr.agents.CECEx(world.problem, world.contexts.support), world, 20_000, seeds=4, every=100)
    assert cells.late.mean() <= 0.7 * uniform
    first = cells.regret[:, 4] / cells.episodes[4]
    assert (cells.late < first).all()


@pytest.mark.long
def test_kwik_lr_rmax_is_never_below_the_optimum_and_stops_making_mistakes():
    """Theoretical constants, delta = 1e-4, 24 worlds and seeds: by the guarantee some run fails with probability at
    most 0.0024. Unknown visits end: a pair has at most 24,010 of them, so that four pairs can take up no more than
    96,040 of the 120,000 steps, and at the end regret per episode is below a fifth of what it was at the start."""
    for seed in range(24):
        world = nr.worlds.random_linear(2, 2, 2, 2, seed=seed)
        agent = nr.agents.KWIKLRRmax(world.problem, epsilon=1.5, delta=1e-4)
        run = nr.simulate(agent, world, 60_000, seeds=[seed], every=1000, diagnostics=True, epsilon=1.5)
        assert run.guarantee is not None
        assert pac.kwik_samples(2, math.sqrt(agent.par.threshold)) == 24_010
        assert run.diagnostics["optimism_failures"][0, -1] == 0
        mistakes = run.diagnostics["mistakes"][0]
        assert mistakes[-1] <= agent.mistake_bound
        assert mistakes[-1] == mistakes[-3]
        assert run.late[0] <= 0.2 * run.regret[0, 0] / 1000


def test_practical_kwik_lr_rmax_learns():
    """Regret per episode over the last tenth is at most a fifth of uniform play's, whose seeds spread by a few
    percent."""
    world = nr.worlds.random_linear(4, 3, 4, 3, seed=1)
    uniform = nr.simulate(nr.UniformRandom(world.problem), world, 5_000, seeds=4, every=100).late.mean()
    for options in ({"alpha0": 0.1}, {"alpha0": 0.3, "keep_learning": True}):
        run = nr.simulate(nr.agents.KWIKLRRmax(world.problem, **options), world, 20_000, seeds=4, every=100)
        assert run.late.max() <= 0.2 * uniform


def test_what_is_claimed():
    p = small().problem
    assert nr.agents.CoverRmax(p).guarantee is not None
    for options in ({"m": 10}, {"r0": 0.5}, {"constants": "paper"}):
        agent = nr.agents.CoverRmax(p, **options)
        assert agent.guarantee is None
        assert not agent.bounds_values
        assert agent.mistake_bound is None
        assert "no guarantee" in agent.label
    more = nr.agents.CoverRmax(p, m=10**6, r0=1e-3)
    assert more.guarantee is not None
    assert nr.agents.CECEx(p).guarantee is None
    q = WORLDS["linear"]().problem
    assert nr.agents.KWIKLRRmax(q).guarantee is not None
    assert nr.agents.KWIKLRRmax(q, alpha0=1e-4).guarantee is not None
    for options in ({"alpha0": 0.5}, {"keep_learning": True}):
        agent = nr.agents.KWIKLRRmax(q, **options)
        assert agent.guarantee is None
        assert not agent.bounds_values
        assert agent.mistake_bound is None
        assert "no guarantee" in agent.label
    flat = nr.agents.CoverRmax(p, lipschitz=0.0, reward_lipschitz=0.0)  # the same MDP for everybody: one ball
    assert flat.par.radius >= 2.0
    assert flat.guarantee is not None


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cover-rmax", {"epsilon": 0}, "epsilon must be a positive number, got 0"),
        ("cover-rmax", {"m": 0}, "m must be an integer of at least 1, got 0"),
        ("cover-rmax", {"lipschitz": -1}, "lipschitz must be a number of at least 0, got -1"),
        ("cover-rmax", {"constants": "old"}, "constants must be one of 'corrected', 'paper', got 'old'"),
        ("kwik-lr-rmax", {}, r"link must be LinearCombination\(\) for kwik-lr-rmax, got MultinomialLogit\(\)"),
        ("cece-x", {"centres": [1.0, 2.0]}, r"centres must have shape \(m, 1\) with m and d at least 1, got \(2,\)"),
        (
            "cece-x",
            {"centres": [[1.0], [2.0, 3.0]]},
            r"centres must be rows of numbers of shape \(m, 1\), got \[\[1.0\], \[2.0, 3.0\]\]",
        ),
        ("cece-x", {"centres": []}, r"centres must have shape \(m, 1\) with m and d at least 1, got \(0,\)"),
        ("cece-x", {"centres": 3.0}, r"centres must have shape \(m, 1\) with m and d at least 1, got \(\)"),
        ("cece-x", {"explore": 3}, "explore must be at most horizon = 2, got 3"),
        ("cece-x", {"smoothing": 0}, "smoothing must be a positive number, got 0"),
    ],
)
def test_options(name, options, message):
    with pytest.raises(ValueError, match=message):
        nr.make_agent(name, small().problem, **options)
