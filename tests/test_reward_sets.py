"""Ranges of mean rewards: the lemmas by brute force, the mixture against direct integration, twins, coverage."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import noregret as nr
from noregret.estimators.rewards import forms, regression, tilts
from noregret.estimators.rewards import mixture as mix
from noregret.estimators.rewards import refresh as again
from noregret.estimators.rewards.logistic import log_predicted, log_sigma, stable_sigma
from noregret.estimators.store import empty_store, remember
from noregret.theory.widths import lower_curvature
from noregret.verification.rewards import reward_coverage

pytestmark = pytest.mark.deep

NODES, MASS = np.polynomial.hermite_e.hermegauss(80)
MASS = MASS / MASS.sum()


def kappa(mu, u):
    return np.log(1.0 - mu + mu * np.exp(u)) - mu * u


def tilted(mu, u):
    p = mu * np.exp(u) / (1.0 - mu + mu * np.exp(u))
    return p * (1.0 - p)


# Lemmas ---------------------------------------------------------------------------------------------------------------
def test_one_step_expectation_is_at_most_one():
    """E exp(u (r - mu) - kappa(mu, u)) = 1 for a Bernoulli variable, and at most 1 for any other law on [0, 1]."""
    g = np.random.default_rng(0)
    for _ in range(2000):
        u, mu, values, p = 6.0 * g.standard_normal(), g.random(), g.random(3), g.dirichlet(np.ones(3))
        assert (1 - mu) * np.exp(-u * mu) + mu * np.exp(u * (1 - mu)) == pytest.approx(np.exp(kappa(mu, u)))
        mean = p @ values
        assert p @ np.exp(u * (values - mean)) <= np.exp(kappa(mean, u)) * (1 + 1e-12)


@pytest.mark.parametrize("law", [((0.0, 1.0),), ((0.0, 0.5, 1.0),)])
def test_the_mixture_is_a_supermartingale_for_an_adaptive_choice_of_contexts(law):
    """E M_5 over all sequences of rewards, exactly; contexts (d = 1) look at the past. Bernoulli: equal to 1."""
    values, theta = law[0], 0.6
    lambdas, weights = np.array([2.0, 16.0]), np.array([0.3, 0.7])
    total = 0.0
    for path in itertools.product(range(len(values)), repeat=5):
        chance, logs, x = 1.0, np.zeros((2, NODES.size)), 1.0
        for j in path:
            mu, r = theta * x, values[j]
            p = (1 - mu, mu) if len(values) == 2 else (1 - mu - 0.2 * mu, 0.4 * mu, 0.8 * mu)
            chance *= p[j]
            u = NODES / np.sqrt(lambdas)[:, None] * x
            logs += u * (r - mu) - kappa(mu, u)
            x = 1.0 if r > 0.2 else max(0.3, x - 0.4)
        total += chance * float(weights @ (np.exp(logs) @ MASS))
    assert total == pytest.approx(1.0) if len(values) == 2 else 0.5 < total < 1.0 - 1e-3


def test_variance_proxy_is_the_supremum():
    g, u = np.random.default_rng(1), np.linspace(0.05, 1.0, 60)
    for _ in range(500):
        low, high = np.sort(g.random(2)) if g.random() < 0.7 else np.sort(g.random(2)) * 0.05
        r = float(np.exp(g.uniform(-4, 2.5)))
        mu, t = np.meshgrid(np.linspace(low, high, 40), np.concatenate((-r * u, r * u)))
        found = float((2.0 * kappa(mu, t) / t**2).max())
        V = tilts.variance_proxy(low, high, r)
        assert found <= V + 1e-9
        assert found >= V * (1 - 0.02) - 1e-9
        assert V <= 0.25
        t = np.concatenate((t, np.zeros((1, 40)))) * np.ones((t.shape[0] + 1, 1))
        w = tilts.tilted_variance(low, high, r)
        found = float(tilted(np.concatenate((mu, mu[:1])), t).max())
        assert found <= w + 1e-9
        assert found >= w * (1 - 0.02) - 1e-9
    assert tilts.variance_proxy(0.0, 0.0, 1.0) == 0.0
    assert tilts.variance_proxy(0.4, 0.6, 0.0) == 0.25
    assert tilts.variance_proxy(0.0, 0.2, 0.0) == pytest.approx(0.16, rel=1e-6)
    assert tilts.variance_proxy(0.8, 1.0, 0.5) == pytest.approx(tilts.variance_proxy(0.0, 0.2, 0.5), rel=1e-9)
    for mu, u in ((0.3, 2.0), (0.3, -2.0), (0.9, 30.0), (1e-6, 0.5)):
        assert tilts.cumulant(mu, u) == pytest.approx(kappa(mu, u), rel=1e-8)
    assert tilts.cumulant(0.5, 800.0) == pytest.approx(400.0 - math.log(2.0))  # nothing overflows


def test_gaussian_spread_costs_at_most_the_jensen_term():
    """E kappa(mu, a + s Z) <= kappa(mu, a) + p(1-p)(e^{s^2/2} - 1), and <= kappa(mu, a) + s^2/8; with V and w of a
    sample, E kappa <= (V a^2 + w s^2)/2 wherever |a| <= reach s."""
    g = np.random.default_rng(2)
    for _ in range(1000):
        mu, s = g.random() ** 2, float(np.exp(g.uniform(-4, 0.3)))
        reach = 6.0 * g.random()
        a = reach * s * g.uniform(-1, 1)
        spread = float(MASS @ kappa(mu, a + s * NODES))
        assert spread <= kappa(mu, a) + tilted(mu, a) * math.expm1(s * s / 2) + 1e-12
        assert spread <= kappa(mu, a) + s * s / 8 + 1e-12
        low, high = mu * g.random(), mu + (1 - mu) * g.random() * 0.2
        V, w = tilts.sample_bounds(np.array([[s * s]]), reach, np.ones(1), low, high, np.zeros(1))
        assert spread <= (V * a * a + w * s * s) / 2 + 1e-12


# The width against direct integration, d = 1 --------------------------------------------------------------------------
LAMBDAS, WEIGHTS = np.array(mix.LAMBDAS) / 3, np.array(mix.WEIGHTS)  # d = 3 below; any would do here
PRIOR = -0.5 * np.log(LAMBDAS) - np.log(WEIGHTS)


def width_of(V, w, xs, log, reach, prior=PRIOR):
    """`mixture_width` at h = 1 for samples xs [n] of one dimension."""
    problem = nr.Problem(1, 1, 1, 1, reward_bound=1.0, weight_bound=1.0)
    par, state, work = forms.reward_parts(problem, "hoeffding", log)
    par = par._replace(mixture=par.mixture._replace(lambdas=LAMBDAS, prior=prior))
    J, W = np.sum(V * xs * xs), np.sum(w * xs * xs)
    state.mixture.sums[0, 0, :, 0, 0], state.mixture.reach[...] = (J, W), reach
    mix.renew(par, state, work, 0, 0)
    return mix.mixture_width(par, state, 0, 0, float(J), 1.0)


def exact_limit(mu, xs, log, sign):
    """The |S| at which the process itself, at means mu [n] and S = sum x (r - mu) of this sign, reaches 1/delta."""
    groups, n = np.unique(xs, return_counts=True)

    def value(S):
        def part(lam, w):
            def exponent(v):
                return (
                    sign * v * S - sum(m * kappa(mu, v * x) for x, m in zip(groups, n, strict=True)) - lam * v * v / 2
                )

            top = optimize.minimize_scalar(lambda v: -exponent(v), bounds=(-30, 30), method="bounded")
            grid = np.linspace(top.x - 8 / math.sqrt(lam), top.x + 8 / math.sqrt(lam), 20001)
            e = exponent(grid)
            peak = float(e.max())
            area = integrate.simpson(np.exp(e - peak), x=grid)
            return math.log(w) + peak + math.log(area) + 0.5 * math.log(lam / (2 * math.pi))

        return np.logaddexp.reduce([part(*c) for c in zip(LAMBDAS, WEIGHTS, strict=True)]) - log

    return optimize.brentq(value, 1e-3, 20 * math.sqrt(len(xs)) + 200)


CASES = [(0.5, 200), (0.03, 100), (0.03, 2000), (0.2, 1000), (0.9, 400)]


@pytest.mark.parametrize(("mu", "n"), CASES)
def test_width_contains_what_direct_integration_allows(mu, n):
    """No S beyond the computed width keeps the process below 1/delta, on either side; and the width is near: the best
    Gaussian and the variance bound together lose little."""
    log, xs = 5.7, np.where(np.arange(n) % 3 == 0, 0.5, 1.0)
    limits = [exact_limit(mu, xs, log, sign) for sign in (-1, 1)]
    hoeffding = width_of(np.full(n, 0.25), np.full(n, 0.25), xs, log, math.inf)
    assert hoeffding >= max(limits) * (1 - 1e-9)
    if mu == 0.5:
        assert hoeffding <= max(limits) * 1.03
    J0 = mu * (1 - mu) * np.sum(xs * xs)
    reach = 4.8
    V, w = np.array(
        [
            tilts.sample_bounds(np.array([[1 / (J0 + LAMBDAS[0])]]), reach, np.array([x]), mu, mu, np.zeros(1))
            for x in xs
        ]
    ).T
    bernstein = width_of(V, w, xs, log, reach)
    assert bernstein >= max(limits) * (1 - 1e-9)
    assert bernstein <= max(limits) * (1.05 if J0 > 50 else 1.5)
    assert bernstein <= hoeffding * 1.02


def test_mutants_of_the_width_are_outside_what_direct_integration_allows():
    """Without ln(1/w_c), without the Jensen term, or with the variance itself for V, the width is too small."""
    log, n = 5.7, 200
    xs = np.ones(n)
    limit, quarter = exact_limit(0.5, xs, log, 1), np.full(n, 0.25)
    assert width_of(quarter, quarter, xs, log, math.inf) >= limit
    assert width_of(quarter, quarter, xs, log, math.inf, PRIOR + np.log(WEIGHTS)) < 0.97 * limit
    assert width_of(quarter, 0 * quarter, xs, log, math.inf) < 0.99 * limit
    mu, v = 0.03, np.full(n, 0.03 * 0.97)
    assert width_of(v, v, xs, log, math.inf) < 0.97 * exact_limit(mu, xs, log, 1)


# The kernels against twins --------------------------------------------------------------------------------------------
def population(g, n, d=3, level=0.3, slope=0.3):
    u = g.standard_normal((n, d - 1))
    X = np.column_stack((np.ones(n), u / np.linalg.norm(u, axis=1, keepdims=True))) / math.sqrt(2)
    theta = np.concatenate(([level, slope], np.zeros(d - 2))) * math.sqrt(2)
    return X, (g.random(n) < X @ theta).astype(float), theta


class Twin:
    """The mixture from all the data at once, for V, w [n] and a reach."""

    def __init__(self, X, r, V, w, reach, log, bound):
        self.X, self.r, self.reach, self.log, self.bound = X, r, reach, log, bound
        self.G, self.J, self.W = X.T @ X, (X * V[:, None]).T @ X, (X * w[:, None]).T @ X

    def factor(self, beta):
        rho = math.sqrt(2 * beta)
        return rho if rho <= self.reach else beta / self.reach + self.reach / 2

    def raw(self, x, shift=mix.SHIFTS[0]):
        """centre, half-width at any vector x."""
        d = x.size
        h = np.linalg.solve(self.G + shift * np.eye(d), x)
        form, hh, best = h @ self.J @ h, h @ h, (math.inf,)
        for lam, weight in zip(LAMBDAS, WEIGHTS, strict=True):
            Q = np.linalg.inv(self.J + lam * np.eye(d))
            rest = self.log + 0.5 * (np.trace(self.W @ Q) - d - np.linalg.slogdet(Q)[1])
            beta = rest + 0.5 * lam * np.trace(Q) - 0.5 * d * math.log(lam) - math.log(weight)
            best = min(best, (self.factor(beta) * math.sqrt(form + lam * hh), beta, lam, np.trace(Q), rest))
        w, beta, lam, trace, rest = best
        c2 = min(2 * beta, self.reach**2) / (form + lam * hh)
        pi = np.array(mix.WEIGHTS) * np.exp(-0.5 * LAMBDAS * (c2 * hh + trace) + 0.5 * d * np.log(LAMBDAS))
        pi /= pi.sum()
        kl = np.sum(pi * (0.5 * LAMBDAS * trace - 0.5 * d * np.log(LAMBDAS) + np.log((pi + 1e-300) / WEIGHTS)))
        w = min(w, self.factor(rest + kl) * math.sqrt(form + pi @ LAMBDAS * hh))
        return h @ self.X.T @ self.r, w + self.bound * np.linalg.norm(x - self.G @ h)

    def interval(self, x):
        parts = [self.raw(x)]
        if parts[0][1] > 0.2:
            parts.append(self.raw(x, mix.SHIFTS[1]))
        low, high = max(0.0, *(c - w for c, w in parts)), min(1.0, *(c + w for c, w in parts))
        return (low, high) if low <= high else (0.0, 1.0)


@pytest.mark.parametrize("n", [0, 3, 40, 700])
def test_hoeffding_ranges_are_those_of_the_twin(n):
    X, r, _ = population(np.random.default_rng(n), n)
    est = nr.estimators.RewardSet(3, math.sqrt(2), delta=0.01, form="hoeffding")
    for x, y in zip(X, r, strict=True):
        est.update(x, y)
    loose = [est.interval(x) for x in population(np.random.default_rng(9), 20)[0]]
    Q, W = est._state.mixture.Q[0, 0], est._state.mixture.sums[0, 0, 1]  # Q may be old, W is not
    cost = [0.5 * (np.trace(W @ q) - 3 - np.linalg.slogdet(q)[1]) for q in Q]
    np.testing.assert_allclose(est._state.mixture.head[0, 0], cost, atol=1e-9)
    mix.renew(est._par, est._state, est._work, 0, 0)
    twin = Twin(X, r, np.full(n, 0.25), np.full(n, 0.25), math.inf, math.log(100), math.sqrt(2))
    for x, old in zip(population(np.random.default_rng(9), 20)[0], loose, strict=True):
        assert est.interval(x) == pytest.approx(twin.interval(x), abs=3e-7)
        assert est.interval(x) == pytest.approx(old, abs=2e-3)  # covariances up to 5% of the data old cost little
    for reach in (2.0, 4.5):  # tilts that may not go as far as they should
        est._state.mixture.reach[0, 0] = twin.reach = reach
        assert est.interval(x) == pytest.approx(twin.interval(x), abs=3e-7)


def filled(n, seed=3, **kind):
    g = np.random.default_rng(seed)
    X, r, theta = population(g, n, **kind)
    est = nr.estimators.RewardSet(3, math.sqrt(2), delta=0.01)
    for x, y in zip(X, r, strict=True):
        est.update(x, y)
    return est, X, r, theta, population(g, 15)[0]


@pytest.mark.parametrize("n", [20, 300, 2000])
def test_refresh_is_that_of_the_twin_and_extremes_are_worth_their_multipliers(n):
    """J, W, reach and both extremes after a refresh, from the ranges before it; then every range against a search over
    the multipliers of the two constraints."""
    est, X, r, _, queries = filled(n)
    before = np.array([est.interval(x) for x in X])
    state, d = est._state.mixture, 3
    betas = est._par.log + state.head[0, 0] + 0.5 * LAMBDAS * state.trace[0, 0] + est._par.mixture.prior
    k = np.argmin(betas * (1 + LAMBDAS * d / np.trace(state.sums[0, 0, 0])))
    present = state.sums[0, 0, 0].copy()
    est.refresh()
    reach = math.sqrt(2 * betas[k])
    assert state.reach[0, 0] == pytest.approx(reach)
    V0 = np.array([tilts.variance_proxy(*i, 0.0) for i in before])
    A = np.linalg.inv(again.KEPT * present + LAMBDAS[0] * np.eye(d))
    V, w = np.array([tilts.sample_bounds(A, reach, x, *i, np.zeros(d)) for x, i in zip(X, before, strict=True)]).T
    if np.linalg.eigvalsh((X * V[:, None]).T @ X - again.KEPT * present)[0] < 0.0:  # the guess failed
        A = np.linalg.inv((X * V0[:, None]).T @ X + LAMBDAS[0] * np.eye(d))
    V, w = np.array([tilts.sample_bounds(A, reach, x, *i, np.zeros(d)) for x, i in zip(X, before, strict=True)]).T
    twin = Twin(X, r, V, w, reach, math.log(100), math.sqrt(2))
    np.testing.assert_allclose(state.sums[0, 0, 0], twin.J, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state.sums[0, 0, 1], twin.W, rtol=1e-9, atol=1e-12)
    assert (V <= 0.25).all()
    assert (w <= 0.25).all()
    # J covers what it claims: the tilts of every direction stay below reach l_i
    norms = np.sqrt(np.einsum("ij,jk,ik->i", X, np.linalg.inv(twin.J + LAMBDAS[0] * np.eye(d)), X))
    assert (norms <= np.sqrt(np.einsum("ij,jk,ik->i", X, A, X)) * (1 + 1e-9)).all()
    active = state.active[0, 0]
    used = 0
    for x in queries:
        low, high = twin.interval(x)
        for e in np.flatnonzero(active):
            y, sign, b = state.extremes[0, 0, e], 1 - 2 * e, -float(e)
            for t in np.concatenate(([0.0], np.geomspace(1e-3, 4, 120))):
                c, wide = twin.raw(x + t * sign * y)
                high = min(high, c + wide - t * b)
                c, wide = twin.raw(x - t * sign * y)
                low = max(low, c - wide + t * b)
        found = est.interval(x)
        assert low - 6e-3 <= found[0] <= low + 5e-4  # both the search and the formula are only near the best
        assert high - 5e-4 <= found[1] <= high + 6e-3
        used += found != pytest.approx(twin.interval(x), abs=1e-6)
    assert n < 300 or (active[0] == 1 and used > 5)


@pytest.mark.long
def test_extremes_hold_for_every_theta_the_raw_ranges_allow():
    """Members of the set (raw ranges over many directions, means in [0, 1] at both extremes) are in every range."""
    est, _, _, theta, queries = filled(1500, level=0.5, slope=0.5)
    est.refresh()
    state, ends = est._state.mixture, est._work.mixture.ends
    assert state.active[0, 0].tolist() == [1, 1]
    g = np.random.default_rng(4)
    directions = np.concatenate((g.standard_normal((300, 3)), queries))
    low, high = [], []
    active = state.active.copy()
    state.active[:] = 0
    for z in directions:
        ends[:] = -np.inf, np.inf
        mix.mixture_range(est._par, est._state, est._work, 0, 0, z, 0)
        low.append(ends[0])
        high.append(ends[1])
    state.active[:] = active
    members = theta + 0.08 * g.standard_normal((200_000, 3))
    Z = members @ directions.T
    inside = ((np.array(low) <= Z) & (np.array(high) >= Z)).all(1)
    ends = members @ state.extremes[0, 0].T
    inside &= (ends[:, 0] >= 0) & (ends[:, 1] <= 1)
    assert inside.sum() > 100
    for x in queries:
        a, b = est.interval(x)
        means = members[inside] @ x
        means = means[(means >= 0) & (means <= 1)]  # a query is a context too
        assert means.min() >= a - 1e-9
        assert means.max() <= b + 1e-9
        assert means.max() - means.min() > 0.4 * (min(b, 1.0) - max(a, 0.0))


@pytest.mark.long
def test_a_store_with_gaps_or_without_a_reward():
    """Missing rewards are passed over, other pairs too; a store that lacks a learned reward changes nothing."""
    problem = nr.Problem(2, 2, 2, 3, reward_bound=math.sqrt(2), weight_bound=1.0)
    par, state, work = parts = forms.reward_parts(problem, "bernstein", 5.0)
    par, of = forms.with_kernels(*parts, "learn"), state.mixture
    store = empty_store(2, 2, 2, 3, 400)
    X, r, _ = population(np.random.default_rng(5), 400, level=0.03, slope=0.0)
    seen = np.arange(400) % 4 > 0
    alone = nr.estimators.RewardSet(3, math.sqrt(2), delta=math.exp(-5.0), form="hoeffding")
    for k in range(400):
        store.contexts[k] = X[k]
        remember(store, k, 0, 1, 0, 0, r[k] if seen[k] else -1.0)
        remember(store, k, 1, 0, k % 2, 0, 0.5)
        if seen[k]:
            regression.reward_learn(par, state, work, 1, 0, r[k], X[k])
            alone.update(X[k], r[k])
    assert forms.reward_due(par, state, 1, 0) == 1
    assert forms.reward_due(par, state, 0, 0) == 0
    before = np.array([alone.interval(x) for x in X[seen]])
    par = forms.with_refresh(par, state, work, store)
    forms.reward_refresh(par, state, work, store, 1, 0)
    assert forms.reward_due(par, state, 1, 0) == 0
    V0 = np.array([tilts.variance_proxy(*i, 0.0) for i in before])  # the guess of one pass fails: 0.9 J is too much
    A = np.linalg.inv((X[seen] * V0[:, None]).T @ X[seen] + LAMBDAS[0] * np.eye(3))
    samples = zip(X[seen], before, strict=True)
    V = np.array([tilts.sample_bounds(A, of.reach[1, 0], x, *i, np.zeros(3))[0] for x, i in samples])
    np.testing.assert_allclose(of.sums[1, 0, 0], (X[seen] * V[:, None]).T @ X[seen], rtol=1e-9)
    assert np.isinf(of.reach[0, 0])
    store.rewards[9, 0] = -1.0
    kept = of.sums[1, 0, 0].copy()
    again.mixture_refresh(par, state, work, store, 1, 0)
    np.testing.assert_array_equal(kept, of.sums[1, 0, 0])


@pytest.mark.parametrize("d", [3, 8, 16])
def test_ridge_is_that_of_mean_reward_and_known_means_are_points(d):
    X, r, _ = population(np.random.default_rng(6), 300 * d, d)
    est = nr.estimators.RewardSet(d, math.sqrt(2), delta=0.01, form="ridge")
    old = nr.estimators.MeanReward(d, reward_bound=math.sqrt(2), delta=0.01)
    for x, y in zip(X, r, strict=True):
        est.update(x, y)
        old.update(x, y)
    for x in population(np.random.default_rng(7), 20, d)[0]:
        centre, half = float(old.weights @ x), math.sqrt(old.radius * (x @ old.inverse @ x))
        assert est.interval(x) == pytest.approx((max(0.0, centre - half), min(1.0, centre + half)), abs=1e-9)
    for kind in ("linear", "logistic"):
        theta = np.array([[[0.2, 0.5]]])
        problem = nr.Problem(1, 1, 1, 2, rewards=kind, known_rewards=theta, weight_bound=1.0, reward_bound=1.0)
        parts = forms.reward_parts(problem, "bernstein", 3.0)
        low, high = np.zeros((1, 1)), np.zeros((1, 1))
        regression.reward_learn(*parts, 0, 0, 1.0, np.array([0.6, 0.8]))
        ranges, _ = forms.kernel_of("ranges", *parts)
        ranges(*parts, np.array([0.6, 0.8]), low, high)
        assert low[0, 0] == high[0, 0] == pytest.approx(0.52 if kind == "linear" else 1 / (1 + math.exp(-0.52)))


def test_logistic_set_is_that_of_the_twin():
    """The recursion from the formula, and the accounting form: rho2 = lambda B^2 + 2 ln(1/delta) - 2 sum ln q - 2 min
    of the summed lower quadratics."""
    g, bound, delta, d = np.random.default_rng(8), 2.0, 0.05, 2
    lam = d / bound**2
    est = nr.estimators.RewardSet(d, bound, delta=delta, form="logistic")
    theta, L, rho2 = np.zeros(d), lam * np.eye(d), lam * bound**2 + 2 * math.log(1 / delta)
    linear, constant, losses = np.zeros(d), 0.0, 0.0
    for _ in range(150):
        x = g.standard_normal(d)
        x /= max(1.0, np.linalg.norm(x))
        y = float(g.random() < 1 / (1 + math.exp(-(x @ [1.5, -1.0]))))
        z, m = float(theta @ x), float(x @ np.linalg.solve(L, x))
        p = 1 / (1 + math.exp(-z))
        s = math.sqrt(3 * m)
        q = 2 / 3 * p + sum(1 / 6 / (1 + math.exp(-v)) for v in (z + s, z - s))
        c = lower_curvature(min(math.sqrt(rho2 * m), bound * float(np.linalg.norm(x)) + abs(z)))
        loss = -math.log(p if y else 1 - p)
        H = 2 * c * p * (1 - p) * np.outer(x, x)
        grad = (p - y) * x
        linear += grad - H @ theta
        constant += loss - grad @ theta + 0.5 * theta @ H @ theta
        L = L + H
        losses -= math.log(q if y else 1 - q)
        theta = theta - np.linalg.solve(L, grad)
        rho2 += grad @ np.linalg.solve(L, grad) - 2 * math.log((q if y else 1 - q) / (p if y else 1 - p))
        est.update(x, y)
        np.testing.assert_allclose(theta, -np.linalg.solve(L, linear), atol=1e-9)
        least = constant - 0.5 * linear @ np.linalg.solve(L, linear)
        assert rho2 == pytest.approx(lam * bound**2 + 2 * math.log(1 / delta) + 2 * losses - 2 * least)
        np.testing.assert_allclose(est._state.theta[0, 0], theta, atol=1e-9)
        assert est._state.radius[0, 0] == pytest.approx(rho2, abs=1e-8)
    x = np.array([0.6, 0.8])
    z, w = theta @ x, math.sqrt(rho2 * (x @ np.linalg.solve(L, x)))
    ends = max(-bound, z - w), min(bound, z + w)
    assert est.interval(x) == pytest.approx([1 / (1 + math.exp(-v)) for v in ends], abs=1e-8)
    for v in (-800.0, -30.0, -0.1, 0.0, 2.0, 900.0):
        assert log_sigma(v) == pytest.approx(stats.logistic.logcdf(v), rel=1e-12)
        assert 0.0 <= stable_sigma(v) <= 1.0
        assert math.isfinite(log_predicted(v, 5.0))


# Coverage, and what people meet ---------------------------------------------------------------------------------------
@pytest.mark.long
@pytest.mark.parametrize(
    ("form", "contexts", "law"),
    [
        ("bernstein", "random", "bernoulli"),
        ("bernstein", "one", "bernoulli"),
        ("bernstein", "cycle", "beta"),
        ("bernstein", "worst", "bernoulli"),
        ("hoeffding", "one", "bernoulli"),
        ("logistic", "one", "bernoulli"),
        ("logistic", "worst", "bernoulli"),
    ],
)
def test_ranges_cover(form, contexts, law):
    """At delta = 0.3, more failures than `allowed` have probability below 1e-6."""
    found = reward_coverage(form, contexts, law, 60, 150)
    assert found.holds
    assert found.ratios.max() > 0.5


def test_ranges_shrink_as_the_theory_says():
    """Half-widths at some thousand rewards: Bernstein's below Hoeffding's below ridge's; near 0 by far."""
    X, r, _ = population(np.random.default_rng(11), 3000, level=0.1, slope=0.1)
    half = {}
    for form in ("ridge", "hoeffding", "bernstein"):
        est = nr.estimators.RewardSet(3, math.sqrt(2), delta=0.05 / 15, form=form)
        for x, y in zip(X, r, strict=True):
            est.update(x, y)
        half[form] = np.mean([np.diff(est.interval(x))[0] / 2 for x in X[:50]])
    assert half["hoeffding"] < 0.7 * half["ridge"]
    assert half["bernstein"] < 0.8 * half["hoeffding"]


def test_one_direction_is_learned_although_the_rest_is_unknown():
    est = nr.estimators.RewardSet(4, 1.0, delta=0.05)
    x = np.array([0.6, 0.8, 0.0, 0.0])
    for k in range(1000):
        est.update(x, float(k % 2))
    low, high = est.interval(x)
    assert low < 0.5 < high
    assert high - low < 0.2
    assert est.interval([0.0, 0.0, 1.0, 0.0]) == (0.0, 1.0)
    near = est.interval(np.array([0.6, 0.79, 0.02, 0.0]))  # what is unknown is at most 0.02 B_r
    assert near[1] - near[0] < 0.4
    assert est.interval(np.zeros(4)) == pytest.approx((0.0, 0.0), abs=1e-11)
    assert est.samples == 1000


def test_bad_input_is_one_sentence():
    RewardSet = nr.estimators.RewardSet
    for wrong, name in (({"delta": 1.5}, "delta"), ({"form": "best"}, "form"), ({"reward_bound": -1}, "reward_bound")):
        with pytest.raises(ValueError, match=rf"^{name} must be"):
            RewardSet(2, **wrong)
    with pytest.raises(ValueError, match=r"^regularization must be None"):
        RewardSet(2, regularization=2.0)
    with pytest.raises(ValueError, match=r"^reward must be a number from 0 to 1, got 2"):
        RewardSet(2).update([0.6, 0.8], 2)
    with pytest.raises(ValueError, match=r"^reward must be 0 or 1"):
        RewardSet(2, form="logistic").update([0.6, 0.8], 0.5)
    with pytest.raises(ValueError, match=r'^form must be "logistic" exactly'):
        forms.reward_parts(nr.Problem(1, 1, 1, 2, rewards="logistic", weight_bound=1.0, reward_bound=1.0), "ridge", 3.0)
