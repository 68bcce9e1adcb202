"""docs/regret.md: lemmas by attack, radii of real estimators and widths of real agents against what bounds them."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

import noregret as nr
from noregret.estimators.rewards.mixture import LAMBDAS, SHIFTS, WEIGHTS
from noregret.theory import likelihood_bounds as lb
from noregret.theory.widths import lower_curvature, upper_curvature
from noregret.verification.claims_sets import SetRegret, shares_of, transition_sizes

RNG = np.random.default_rng(20)


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def visit_of(g, n, p, scale):
    """(A [n, p], Lambda [p, p], theta [p]): a visit of a set, some of them extreme."""
    A = g.normal(size=(n, p)) * scale
    root = g.normal(size=(p, p)) * np.exp(g.normal() - 1.0)
    return A, root @ root.T + np.exp(g.normal()) * np.eye(p), g.normal(size=p) * np.exp(0.7 * g.normal())


def described(A, precision, theta):
    z = A @ theta
    p = softmax(z)
    curved = np.diag(p) - np.outer(p, p)
    cov = A @ np.linalg.solve(precision, A.T)
    apart = np.add.outer(np.diag(cov), np.diag(cov)) - 2.0 * cov
    return z, p, curved, cov, math.sqrt(apart.max())


def logdet(matrix):
    return np.linalg.slogdet(matrix)[1]


# Lemmas ----------------------------------------------------------------------------------------------------------
def test_what_a_visit_adds_to_the_determinant_bounds_its_traces():
    """Lemma 2: tr(Lambda'^-1 2cG) <= ln det Lambda'/Lambda, tr(Lambda^-1 G) <= chi h that and <= w^2/2 (1 - 1/n), mu <=
    w^2/4, and G >= p_j p_k/(p_j + p_k) d d'."""
    tight = np.zeros(4)
    for _ in range(3000):
        n, dim = int(RNG.integers(2, 6)), int(RNG.integers(1, 5))
        A, precision, theta = visit_of(RNG, n, dim, np.exp(RNG.normal()))
        _, p, curved, _, w = described(A, precision, theta)
        if p.min() < 1e-6:  # rounding would decide
            continue
        c = lower_curvature(5.0 * RNG.random())
        G = A.T @ curved @ A
        after = precision + 2.0 * c * G
        grown = logdet(after) - logdet(precision)
        y = 0.25 * w * w
        chi = y / math.log1p(y)
        traces = np.trace(np.linalg.solve(after, 2.0 * c * G)), np.trace(np.linalg.solve(precision, G))
        largest = np.linalg.eigvals(np.linalg.solve(precision, G)).real.max()
        j, k = RNG.choice(n, 2, replace=False)
        d = A[j] - A[k]
        share = p[j] * p[k] / (p[j] + p[k])
        ratios = (
            traces[0] / grown, traces[1] / (chi * grown / (2.0 * c)), traces[1] / (0.5 * w * w * (1.0 - 1.0 / n)),
            largest / (0.25 * w * w),
        )  # fmt: skip
        tight = np.maximum(tight, ratios)
        assert np.linalg.eigvalsh(G - share * np.outer(d, d)).min() >= -1e-9 * max(np.trace(G), 1e-300)
    assert (tight <= 1.0 + 1e-9).all()
    assert (tight > 0.9).all()  # none of them is loose


@pytest.mark.long
def test_a_predictor_loses_little_against_the_plug_in():
    """Lemma 3: ln p/phat <= psi(sqrt(N) w) tr(Lambda^-1 G), for any root of cov. Attacked by ascent on the quotient."""

    def quotient(v, n, dim):
        v = 6.0 * np.tanh(v / 6.0)
        A, p, N = v[: n * dim].reshape(n, dim), softmax(v[n * dim :]), dim + 1
        A = A - p @ A
        ratio = 1.0  # outcome 0; rows of A' are sigma points, Lambda = I
        for u in math.sqrt(N) * A.T:
            ratio += 0.5 * sum(math.exp(s * u[0]) / (p @ np.exp(s * u)) for s in (1.0, -1.0))
        cov, trace = A @ A.T, float(p @ (A**2).sum(1))
        w2 = (np.add.outer(np.diag(cov), np.diag(cov)) - 2.0 * cov).max()
        return -math.log(ratio / N) / (upper_curvature(math.sqrt(N * w2)) * trace) if trace > 1e-9 else 0.0

    best = 0.0
    for trial in range(40):
        n, dim = int(RNG.integers(2, 5)), int(RNG.integers(1, 4))
        start = RNG.normal(size=n * dim + n) * np.repeat([0.1 + 0.4 * (trial % 3), 2.0], [n * dim, n])
        found = minimize(
            lambda v, n=n, dim=dim: -quotient(v, n, dim), start, method="Nelder-Mead", options={"maxiter": 400}
        )
        best = max(best, -found.fun)
    assert 0.9 < best <= 1.0 + 1e-6  # attained by small sets and an outcome at the mean


def test_the_change_of_measure_is_a_supermartingale():
    """Lemma 4: the sum over y of p_y e^{k s_y} is at most exp(tau_k(w) tr(Lambda'^-1 G)). Attacked by ascent on the
    quotient of the logarithms, for two to four outcomes."""

    def quotient(v, n, dim, k):
        v = 5.0 * np.tanh(v / 5.0)
        A, p, c = v[: n * dim].reshape(n, dim), softmax(v[n * dim : n * dim + n]), 0.5 / (1.0 + v[-1] ** 2)
        A = A - p @ A  # Lambda = I
        w2 = max(float(((A[j] - A[i]) ** 2).sum()) for j in range(n) for i in range(j))
        G = (A * p[:, None]).T @ A
        after = np.linalg.inv(np.eye(dim) + 2.0 * c * G)
        steps = np.einsum("ji,ik,jk->j", A, after, A)  # p - e_y gives minus row y of the centred A
        trace = float(p @ steps)
        assert trace == pytest.approx(np.trace(after @ G))
        return math.log(p @ np.exp(k * steps)) / (lb._tilt(k, w2) * trace) if trace > 1e-6 else 0.0

    best = 0.0
    for trial in range(30):
        n, dim, k = 2 + trial % 3, int(RNG.integers(1, 4)), (0.5, 0.75, 1.5)[trial % 3]
        start = RNG.normal(size=n * dim + n + 1)
        found = minimize(
            lambda v, n=n, dim=dim, k=k: -quotient(v, n, dim, k), start, method="Nelder-Mead", options={"maxiter": 300}
        )
        best = max(best, -found.fun)
    assert 0.9 < best <= 1.0 + 1e-6


@pytest.mark.long
def test_an_episode_of_near_visits_moves_little():
    """Lemma 6: with any outcomes, and any c <= 1/2, what is planned with is at most F times what is learned with."""
    worst = 0.0
    for trial in range(1500):
        g = np.random.default_rng(trial)
        H, dim, near = int(g.integers(1, 7)), int(g.integers(1, 4)), float(g.choice([0.1, 0.5, 1.0, 3.0]))
        _, planned, theta = visit_of(g, 2, dim, 1.0)
        precision, centre, limit = planned.copy(), theta.copy(), near / max(H, 1)
        for _ in range(H):
            A = visit_of(g, int(g.integers(2, 5)), dim, 1.0)[0]
            if g.random() < 0.7:  # again and again in one direction
                A = np.outer(A[:, 0], np.eye(dim)[0])
            *_, w = described(A, planned, theta)
            A *= math.sqrt(limit) / max(w, 1e-12) * (1.0 if g.random() < 0.8 else g.random())
            _, _, curved, *_ = described(A, planned, theta)
            _, p, learned, _, now = described(A, precision, centre)
            if p.min() < 1e-5:
                break
            c = float(g.choice([0.5, lower_curvature(math.sqrt(near))]))
            after = precision + 2.0 * c * A.T @ learned @ A
            grown = logdet(after) - logdet(precision)
            factor = math.exp(1.5 * near) * 0.5 / c * (0.25 * limit) / math.log1p(0.25 * limit)
            trace = np.trace(np.linalg.solve(planned, A.T @ curved @ A))
            worst = max(worst, trace / max(factor * grown, 1e-300) if grown > 1e-8 else 0.0)
            assert logdet(precision) - logdet(planned) <= 0.5 * near + 1e-9
            y = int(p.argmin()) if g.random() < 0.7 else int(g.integers(len(p)))
            precision = after
            centre = centre - np.linalg.solve(after, A.T @ (p - np.eye(len(p))[y]))
            assert now <= math.sqrt(limit) * (1.0 + 1e-9)
    assert 0.5 < worst <= 1.0 + 1e-6


def test_what_strays_shows_in_hellingers_distance_and_odds_bound_the_logits():
    """Lemma 5: some p(y) < p*(y)/eta costs (1 - eta^-1/2)^2 least; without it spans of z are at most ln(eta/least)."""
    for _ in range(3000):
        n = int(RNG.integers(2, 6))
        truth, p = softmax(RNG.normal(size=n) * 2.0), softmax(RNG.normal(size=n) * 2.0)
        least, distance = truth.min(), ((np.sqrt(truth) - np.sqrt(p)) ** 2).sum()
        if (p < truth / lb._RATIO).any():
            assert distance >= least * (1.0 - lb._RATIO**-0.5) ** 2 - 1e-12
        else:
            assert np.ptp(np.log(p)) <= math.log(lb._RATIO / least) + 1e-9


def test_least_probability_is_attained():
    for n, M in ((2, 1.3), (4, 0.8)):
        z = np.array([-M] + [M] * (n - 2) + [0.0])  # one below, the others above, the last pinned
        assert softmax(z).min() == pytest.approx(lb.least_probability(n, M))
        drawn = np.concatenate([RNG.uniform(-M, M, (4000, n - 1)), np.zeros((4000, 1))], axis=1)
        assert min(softmax(row).min() for row in drawn) >= lb.least_probability(n, M)


def test_constants_are_those_of_the_estimators():
    assert (LAMBDAS, WEIGHTS, SHIFTS[0]) == (lb._MIXTURE_LAMBDAS, lb._MIXTURE_WEIGHTS, lb._SHIFT)


# Estimators -------------------------------------------------------------------------------------------------------
class Course:
    """A real likelihood-ratio set followed along a run: what Theorem 11 adds up, from the realised r and w."""

    def __init__(self, n, d, bound, predictor, power):
        self.set = nr.estimators.LikelihoodRatioSet(n, d, bound, delta=0.05, predictor=predictor)
        self.n, self.bound, self.power = n, bound, power
        self.tilted = self.halves = self.losses = self.steps = self.grown = self.stray = 0.0

    def visit(self, x, y, truth):
        n, made = self.n, self.set
        W, precision = made.weights, made.precision
        A = np.kron(np.eye(n), x[None])
        _, p, curved, _, w = described(A, precision, W.ravel())
        z = W @ x
        reach = self.bound * np.linalg.norm(x)
        rho = math.sqrt(made.radius)
        cov = A @ np.linalg.solve(precision, A.T)
        r = 0.0
        for j in range(n):
            for k in range(n):
                if j != k:
                    cap = (1.0 if n - 1 in (j, k) else 2.0) * reach - (z[j] - z[k])
                    r = max(r, min(rho * math.sqrt(max(cov[j, j] + cov[k, k] - 2 * cov[j, k], 0.0)), cap))
        error = made.distance(truth)
        G = A.T @ curved @ A
        made.update(x, y)
        after = made.precision
        grown = logdet(after) - logdet(precision)
        bend = 0.5 / lower_curvature(r)
        assert np.allclose(after - precision, G / bend, atol=1e-7 * np.trace(after))  # this r is the set's own
        a = A.T @ (p - np.eye(n)[y])
        step = float(a @ np.linalg.solve(after, a))
        true = softmax((truth - truth[-1]) @ x)
        surprise = 2.0 * math.log(p[y] / true[y])
        assert made.distance(truth) <= error + surprise + step + 1e-7  # Lemma 1
        w2 = w * w
        self.steps += step
        self.grown += grown
        self.tilted += math.expm1(self.power * w2) / w2 * bend * grown
        self.halves += math.expm1(0.5 * w2) / w2 * bend * grown
        y4 = 0.25 * w2
        self.losses += upper_curvature(math.sqrt(n * w2)) * y4 / math.log1p(y4) * bend * grown
        self.stray += 0.5 * ((np.sqrt(p) - np.sqrt(true)) ** 2).sum()
        return w


def hostile(g, d, t, direction):
    """Contexts: repeated ones, tiny ones, rare directions."""
    x = np.zeros(d)
    if t % 7 == 0:
        x[direction] = 1.0
    elif t % 7 < 4:
        x = g.normal(size=d)
        x /= np.linalg.norm(x)
    else:
        x[(direction + 1) % d] = 0.2
        x[direction] = 0.05
    return x


@pytest.mark.long
@pytest.mark.parametrize(("n", "d", "bound"), [(2, 1, 3.0), (3, 2, 2.0), (4, 3, 1.0)])
def test_real_sets_stay_within_what_is_known_beforehand(n, d, bound):
    """Theorem 11, along 40 runs of real sets with the truth at the edge of what is assumed. The events are
    taken at probability 1/5 instead of a millionth, and the sums with the r and w of the run: far below the a-priori
    bound. An event of probability 1/5 at most fails in more than 18 of 40 runs with probability below 2 10^-4."""
    log_event, power = math.log(5.0), 1.0
    size = lb.size_of_pair(n, d, bound, 1.0)
    failures = np.zeros(3)
    for seed in range(40):
        g = np.random.default_rng(100 + seed)
        truth = g.normal(size=(n, d))
        truth[-1] = 0.0
        truth[:-1] *= bound / np.linalg.norm(truth[:-1], axis=1, keepdims=True)
        course = Course(n, d, bound, "unscented", power)
        start, most = course.set.radius - 2.0 * math.log(20.0), 0.0
        assert start == pytest.approx(size.regularization * size.norm2)
        failed = np.zeros(3, bool)
        for t in range(120):
            x = hostile(g, d, t, seed % d)
            y = int(g.choice(n, p=softmax(truth @ x)))
            course.visit(x, y, truth)
            most = max(most, course.set.radius)
            given = start + 2.0 * log_event
            failed[0] |= course.set.distance(truth) > given + 2.0 * course.halves
            failed[1] |= course.steps > (given + 2.0 * course.tilted) / (2.0 * power - 1.0)
            failed[2] |= course.stray > (start + course.steps) / 4.0 + log_event
            assert course.set.radius <= start + 2.0 * math.log(20.0) + course.steps + 2.0 * course.losses + 1e-9
            assert course.grown <= lb.log_growth(size, t + 1) + 1e-9
        failures += failed
        for near in (1.0, 0.1):
            limits = lb.likelihood_limits(size, 120, 1, near=near, log_set=math.log(20.0), log_event=log_event)
            assert most <= limits.radius
            assert course.steps <= limits.steps
            assert course.set.distance(truth) <= limits.error
    assert (failures <= 18).all()


def test_limits_are_fixed_points_worked_out_by_hand():
    """Without data, with one round's arithmetic in full, and how they grow."""
    size = lb.size_of_pair(3, 2, 1.5, 1.0)
    lam = size.regularization
    assert (lam, size.norm2, size.dim) == pytest.approx((8.0 / 2.25, 4.5, 4))
    logs = {"log_set": 3.0, "log_event": 5.0}
    none = lb.likelihood_limits(size, 0, 4, near=0.1, **logs)
    given = lam * size.norm2 + 10.0
    assert (none.error, none.growth, none.far) == pytest.approx((given, 0.0, 0.0))
    assert none.radius == pytest.approx(lam * size.norm2 + 6.0 + given / 2.0)  # the best power is 1.5 then
    t, near, w2 = 10**13, 0.25, 2.0 / lam
    made = lb.likelihood_limits(size, t, 4, near=near, **logs)
    # one more round, written from docs/regret.md: nothing moves any more
    start, b, eta, kappa, w = lam * size.norm2, size.reach, 1.5, size.least, math.sqrt(w2)
    omega2 = near / max(made.radius, 4)
    most = min(2.0 * b + math.sqrt(made.error) * w, math.sqrt(made.radius) * w)
    plain = min(most, b + math.log(eta / kappa))
    stray = 1.0 + ((start + made.steps) / 4.0 + 5.0) / (kappa * (1.0 - eta**-0.5) ** 2 / 2.0)
    far = made.far - stray
    gained = math.log1p(lower_curvature(plain) * kappa * math.exp(-near / 2.0) * omega2 / eta)
    assert far == pytest.approx(lb.log_growth(size, far) / gained, rel=0.02)
    growth = made.growth, lb.log_growth(size, far), lb.log_growth(size, stray)
    h = [0.5 / lower_curvature(r) for r in (math.sqrt(near), plain, most)]

    def added(weight):
        """Y of Theorem 11, split into near, far and stray visits."""
        each = weight(omega2) * h[0], weight(w2) * h[1], weight(w2) * h[2]
        return each[0] * growth[0] + (each[1] - each[0]) * growth[1] + (each[2] - each[0]) * growth[2]

    def lost(v2):
        return upper_curvature(math.sqrt(3.0 * v2)) * (v2 / 4.0) / math.log1p(v2 / 4.0)

    assert made.error == pytest.approx(given + 2.0 * added(lambda v2: math.expm1(0.5 * v2) / v2), rel=0.02)
    choices = [
        (given + 2.0 * added(lambda v2, k=k: math.expm1(k * v2) / v2)) / (2.0 * k - 1.0) for k in (0.6, 0.75, 1.0, 1.5)
    ]
    assert min(abs(made.steps / found - 1.0) for found in choices) < 0.02
    assert made.radius == pytest.approx(start + 6.0 + made.steps + 2.0 * added(lost), rel=0.02)
    chi = omega2 / 4.0 / math.log1p(omega2 / 4.0)
    assert made.factor == pytest.approx(math.exp(1.5 * near) * h[0] * chi, rel=1e-6)
    rows = [lb.likelihood_limits(size, 10**e, 4, near=0.25, **logs) for e in (3, 6, 9, 12, 15, 18)]
    assert all(a.radius < b.radius and a.error < b.error for a, b in itertools.pairwise(rows))
    # in the end three parts in two of the growth for the steps, and one for the predictor: nothing exponential
    last = (rows[-1].radius - rows[-2].radius) / (rows[-1].growth - rows[-2].growth)
    assert 1.5 < last < 8.0
    steep = lb.likelihood_limits(lb.size_of_pair(3, 2, 200.0, 1.0), 10**4, 4, near=0.25, **logs)
    assert steep.radius == math.inf


# Agents -----------------------------------------------------------------------------------------------------------
WORLDS = {
    "pairs": lambda: nr.worlds.random_logit(3, 2, 3, 2, weight_bound=1.5, seed=3),
    "design": lambda: nr.worlds.shared_logit(4, 2, horizon=4, context_dim=2, features=3, seed=2),
    "logistic": lambda: logistic_world(),
}


def logistic_world():
    like = nr.worlds.random_logit(3, 2, 3, 2, weight_bound=1.0, seed=1)
    problem = nr.Problem(3, 2, 3, 2, weight_bound=1.0, reward_bound=1.0, rewards="logistic")
    return nr.World(problem, like.weights, np.random.default_rng(0).uniform(-0.7, 0.7, (3, 2, 2)), like.contexts)


@pytest.mark.parametrize("name", WORLDS)
def test_sizes_and_shares_are_the_agents_own(name):
    problem = WORLDS[name]().problem
    agent, sizes, shares = nr.LRORL(problem), transition_sizes(problem), shares_of(problem, 0.05)
    assert agent._shares() == pytest.approx((shares.transitions, shares.rewards))
    par, state = agent.par.transitions, agent.state.transitions
    lam = state.prior if agent.problem.blocks is None else par.regularization
    assert sorted({s.regularization for s, _ in sizes}) == pytest.approx(sorted(set(np.ravel(lam).tolist())))
    first = agent.state.transitions.radius
    expected = {round(s.regularization * s.norm2 + 2.0 * shares.transitions, 9) for s, _ in sizes}
    assert {round(float(v), 9) for v in first.ravel()} == expected
    agent.begin_episode(np.full(problem.context_dim, problem.context_bound / math.sqrt(problem.context_dim)))
    local, reach = agent.work.local, max(s.reach for s, _ in sizes)
    assert local.span.max() <= reach + 1e-9  # nothing but what is assumed, at z = 0
    if problem.blocks is not None:
        root = np.einsum("sakq,sakm->saqm", local.factor[local.block], local.columns)
        cov = np.einsum("saij,saik->sajk", root, root)
    else:
        cov = local.cov
    diagonal = np.einsum("sajj->saj", cov)
    apart2 = (diagonal[..., :, None] + diagonal[..., None, :] - 2.0 * cov).max()
    (size, _), *_ = sizes
    assert apart2 <= size.apart**2 / size.regularization * (1.0 + 1e-9)


@pytest.mark.long
@pytest.mark.parametrize("name", ["pairs", "design"])
def test_near_visits_pay_what_the_determinant_wins(name):
    """Lemma 6, in the real agent: until the first far visit of an episode the traces as planned with are at most F
    times the growth of ln det at the visit, and the bonuses what the proof of Theorem 12 says."""
    world = WORLDS[name]()
    problem, near = world.problem, 2.0
    H, agent = problem.horizon, nr.LRORL(problem)
    sets, layout = agent.state.transitions, problem.layout
    traces = won = 0.0
    seen = checked = 0
    for k in range(3500):
        person = world.individual(k)
        if k < 3000:  # visits are far at first
            agent.begin_episode(person.context)
            while person.steps < H:
                agent.observe(*person.step(agent.act(person.state)))
            agent.end_episode()
            continue
        plan = agent.begin_episode(person.context)
        local = agent.work.local
        gamma = float(sets.radius.max()) if problem.blocks is not None else float(sets.radius[layout.available].max())
        limit = near / max(gamma, H)
        before = _grams(agent)
        path, cut = [], False
        while person.steps < H:
            s = person.state
            a = agent.act(s)
            agent.observe(*person.step(a))
            path.append((s, a, person.state))
        planned = {}
        for h, (s, a, _) in enumerate(path):
            n = int(layout.count[s, a])
            cov = _cov(local, s, a, n)
            P = local.P[s, a, :n]
            diagonal = np.diag(cov)
            w2 = float((np.add.outer(diagonal, diagonal) - 2.0 * cov).max())
            cut = cut or w2 > limit
            if cut:
                break
            trace = float(np.trace((np.diag(P) - np.outer(P, P)) @ cov))
            planned[h] = trace
            V = plan.values[h + 1][layout.outcomes[s, a, :n]]
            span, mean = np.ptp(V), P @ V
            g = P * (V - mean)
            first = local.rho[s, a] * math.sqrt(max(g @ cov @ g, 0.0))
            bonus = min(first + span * local.second[s, a], span * local.half[s, a], V.max() - mean)
            bend = upper_curvature(math.sqrt(near))
            assert bonus <= local.rho[s, a] * 0.5 * span * math.sqrt(trace) + span * gamma * trace * bend + 1e-9
            checked += 1
        agent.end_episode()
        if planned and len(planned) == H:
            after = _grams(agent)
            won += sum(logdet(after[i]) - logdet(before[i]) for i in range(len(before)))
            traces += sum(planned.values())
            seen += 1
    y = 0.25 * near / H
    factor = math.exp(1.5 * near) * 0.5 / lower_curvature(math.sqrt(near)) * y / math.log1p(y)
    assert seen > 50
    assert checked > 200
    assert traces <= factor * won
    assert traces > 0.2 * won  # the comparison is one


def _cov(local, s, a, n):
    if local.columns.shape[2] > 0:
        root = (local.factor[local.block[s, a]].T @ local.columns[s, a])[:, :n]
        return root.T @ root
    return local.cov[s, a][:n, :n].copy()


def _grams(agent):
    state, blocks = agent.state.transitions, agent.problem.blocks
    if blocks is not None:
        return [state.gram[b, :n, :n].copy() for b, n in enumerate(blocks.start[:, -1])]
    full = state.precision
    S, A = full.shape[:2]
    return [full[s, a].copy() for s in range(S) for a in range(A)]


@pytest.mark.parametrize("name", WORLDS)
def test_regret_and_widths_stay_below_the_bound(name):
    world = WORLDS[name]()
    bound = SetRegret(world.problem, 0.05)
    for made, most in ((nr.LRORL, bound.lr_orl), (nr.CertifiedPSRL, bound.certified)):
        run = nr.simulate(made(world.problem), world, episodes=300, seeds=2, diagnostics=True)
        certificates = np.asarray(run.bounds["certificates"])
        assert (run.final <= most(300)).all()
        assert (certificates[..., -1] <= bound.certified(300)).all()


def test_regret_bounds_grow_like_the_root_of_the_episodes():
    """Two agents, with and without a design; in the end K^1/2 up to logarithms, and the leading term does not know the
    bounds on weights but through logarithms and lambda."""
    design = nr.worlds.random_design(n_states=3, n_actions=2, features=2, bound=1.0)
    problem = nr.worlds.random_logit(horizon=3, context_dim=2, design=design).problem
    for shared in (True, False):
        of = SetRegret(problem, 0.05, shared)
        for bound in (of.lr_orl, of.certified):
            assert bound(1e18) / bound(1e16) < 13.0
        assert of.lr_orl(1e9) < of.certified(1e9, 0.5) < 6.0 * of.lr_orl(1e9) < 2.0 * of.certified(1e9)
    assert SetRegret(problem, 0.05).lr_orl(1e20) < SetRegret(problem, 0.05, False).lr_orl(1e20)
    roots = []
    for B in (1.0, 2.0, 4.0):
        size = lb.size_of_pair(3, 4, B, 1.0, regularization=16.0)
        logs = {"near": 0.01, "log_set": 8.0, "log_event": 10.0}
        roots.append(lb.likelihood_growth([(size, 6)], lb.Run(5, 1e60), **logs).root)
    assert roots[2] < 2.0 * roots[0]  # while 1/least is 400 times larger


@pytest.mark.parametrize("kind", ["tiny", "mixed"])
def test_widths_of_hoeffding_ranges_sum_to_no_more_than_is_known_beforehand(kind):
    """Step by step against 2 sqrt(2 beta)(...) for every component, and in sum; "tiny": contexts with a small part in
    a direction that is hardly ever met, for which the bound is as large as it is."""
    g, d, T, log, bound = np.random.default_rng(8), 2, 1500, math.log(20.0), 1.5
    ranges = nr.estimators.RewardSet(d, bound, delta=0.05, form="hoeffding")
    gram, total, norms, forms = lb._SHIFT * np.eye(d), 0.0, 0.0, 0.0
    for t in range(T):
        x = np.array([0.9, 0.02 * math.sqrt(1.0 / (t + 1.0))])
        if kind == "mixed":
            x = g.normal(size=d)
            x /= np.linalg.norm(x)
        low, high = ranges.interval(x)
        h = np.linalg.solve(gram, x)
        q, s = float(x @ h), float(h @ h)
        for scale, weight in zip(lb._MIXTURE_LAMBDAS, lb._MIXTURE_WEIGHTS, strict=True):
            lam = scale / d
            beta = (
                log + 0.5 * d * math.log1p(t / (4.0 * d * lam)) - math.log(weight) + min(t / 20.0, 1000.0) / (8 * lam)
            )
            half = math.sqrt(2.0 * beta) * (0.5 * math.sqrt(q) + math.sqrt(lam * s)) + bound * lb._SHIFT * math.sqrt(s)
            assert high - low <= 2.0 * half + 2.1e-7
        if q <= 1.0:
            total, norms, forms = total + high - low, norms + s, forms + q
        gram += np.outer(x, x)
        ranges.update(x, float(g.random() < 0.5))
    growth = math.log(np.linalg.det(gram) / lb._SHIFT**d)
    assert forms <= growth / math.log(2.0) <= d * math.log1p(T / (lb._SHIFT * d)) / math.log(2.0)
    assert norms <= 2.0 * d / lb._SHIFT
    made = lb.mixture_reward_growth(d, 1, 1.0, bound, log, lb.Run(1, T))
    assert total <= made.root * math.sqrt(T) + made.constant
