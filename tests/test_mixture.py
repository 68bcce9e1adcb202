"""Sets from stored data: the curvature lemma and its quadrature, the inequality of every component against numerical
integration, a NumPy twin of the refresh, coverage."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special

import noregret as nr
from noregret.estimators import store
from noregret.estimators.mixture import curvature as pairwise_curvature
from noregret.estimators.mixture import refresh as mixture_refresh
from noregret.estimators.mixture import sets as mixture
from noregret.estimators.mixture import walks as mixture_walks
from noregret.verification.chance import allowed
from noregret.verification.coverage import KINDS, coverage

pytestmark = pytest.mark.deep

KIND = {kind.name: kind for kind in KINDS}


def centring_form(c):
    """M(c) = diag c - c c'/1'c."""
    return np.diag(c) - np.outer(c, c) / c.sum()


def least_probabilities(p, r, t):
    """c_k(t) = p_k / sum_l p_l exp(t r_kl)."""
    return p / (p * np.exp(t * r)).sum(1)


def exact_curvature(p, r):
    nodes, weights = np.polynomial.legendre.leggauss(100)
    t = 0.5 * (nodes + 1.0)
    return sum(w * (1.0 - u) * centring_form(least_probabilities(p, r, u)) for w, u in zip(weights, t, strict=True))


def twin_curvature(p, r, intervals=pairwise_curvature.INTERVALS):
    """On each cell the line from M(a) to M(c(t_1)), integrated against 2 (1 - t) by Gauss's rule (exact). Where some
    r is above 4 and it has the larger trace, the bound of one number."""
    nodes, weights = np.polynomial.legendre.leggauss(2)
    total, h = np.zeros((p.size, p.size)), 1.0 / intervals
    for i in range(intervals):
        c0, c1 = least_probabilities(p, r, i * h), least_probabilities(p, r, (i + 1) * h)
        a = c1 * (3.0 * c0 - c1) / (c0 + c1)
        for w, u in zip(weights, 0.5 * (nodes + 1.0), strict=True):
            line = (1.0 - u) * centring_form(a) + u * centring_form(c1)
            total += w * h * (1.0 - (i + u) * h) * line
    m = r.max()
    plain = 2.0 * (m - 1.0 + np.exp(-m)) / m**2 * centring_form(p) if m > 4.0 else 0.0 * total
    return plain if np.trace(plain) > np.trace(total) else total


def differences(v):
    """r_kl = (v_l - v_k)_+."""
    return np.maximum(v[None, :] - v[:, None], 0.0)


@pytest.mark.long
def test_curvature_is_below_the_log_sum_exp():
    """On random displacements within their box, up to differences of 60: also where the box is exactly the
    displacement, where the bound is sharpest. The same rule with intervals' left ends is not a bound."""
    g = np.random.default_rng(0)
    tight, wrong = 0.0, 0
    for _ in range(3000):
        m = int(g.integers(2, 6))
        z, v = 3.0 * g.standard_normal(m), g.standard_normal(m)
        v *= 60.0 ** g.random() / np.ptp(v)
        p = special.softmax(z)
        r = differences(v) + g.choice([0.0, 1.0]) * g.random((m, m)) * np.ptp(v)
        gap = special.logsumexp(z + v) - special.logsumexp(z) - p @ v
        bound = 0.5 * v @ pairwise_curvature.curvature_bound(p, r) @ v
        assert bound <= gap * (1.0 + 1e-9) + 1e-12
        assert bound >= -1e-12
        tight = max(tight, bound / gap)
        left = sum(
            ((1.0 - i / 8) ** 2 - (1.0 - (i + 1) / 8) ** 2) * centring_form(least_probabilities(p, r, i / 8))
            for i in range(8)
        )
        wrong += 0.5 * v @ left @ v > gap * (1.0 + 1e-9) + 1e-12
    assert tight > 0.99
    assert wrong > 300


@pytest.mark.long
def test_quadrature_is_below_the_integral_and_close():
    g = np.random.default_rng(1)
    for scale in (0.0, 0.3, 2.0, 8.0, 27.0, 60.0):
        for _ in range(30):
            m = int(g.integers(2, 6))
            p, r = special.softmax(2.0 * g.standard_normal(m)), scale * g.random((m, m))
            np.fill_diagonal(r, 0.0)
            made, exact = pairwise_curvature.curvature_bound(p, r), exact_curvature(p, r)
            np.testing.assert_allclose(made, twin_curvature(p, r), rtol=1e-9, atol=1e-15)
            assert np.linalg.eigvalsh(exact - made).min() >= -1e-13
            simple = sum(
                ((1.0 - i / 8) ** 2 - (1.0 - (i + 1) / 8) ** 2) * centring_form(least_probabilities(p, r, (i + 1) / 8))
                for i in range(8)
            )
            if scale <= 2.0:  # never worse than right ends of the intervals
                assert np.linalg.eigvalsh(made - simple).min() >= -1e-13
            if scale <= 2.0:
                assert np.trace(made) >= 0.98 * np.trace(exact)
            if scale == 0.0:
                np.testing.assert_allclose(made, np.diag(p) - np.outer(p, p), atol=1e-14)
            worst = r.max()
            plain = pairwise_curvature.local_curvature(worst) * centring_form(p)
            assert np.linalg.eigvalsh(exact - plain).min() >= -1e-13  # one number for all pairs is never better


def test_curvature_decreases_along_the_way_and_survives_the_largest_bounds():
    g = np.random.default_rng(2)
    for _ in range(100):
        p, r = special.softmax(g.standard_normal(4)), 20.0 * g.random((4, 4))
        np.fill_diagonal(r, 0.0)
        forms = [centring_form(least_probabilities(p, r, t)) for t in np.linspace(0.0, 1.0, 9)]
        for first, second in itertools.pairwise(forms):
            assert np.linalg.eigvalsh(first - second).min() >= -1e-13
    huge = np.full((3, 3), 1400.0) - 1400.0 * np.eye(3)
    for p in (np.ones(3) / 3.0, special.softmax([0.0, -350.0, 350.0])):
        made = pairwise_curvature.curvature_bound(p, huge)
        assert np.isfinite(made).all()
        assert np.linalg.eigvalsh(made).min() >= -1e-15


def test_curvature_of_wide_spans_is_not_below_that_of_one_number():
    """The grid alone has a tenth of it at 40, and nothing at 160."""
    g = np.random.default_rng(8)
    for scale in (3.0, 8.0, 20.0, 60.0, 250.0):
        for _ in range(20):
            p, r = special.softmax(2.0 * g.standard_normal(3)), scale * g.random((3, 3))
            np.fill_diagonal(r, 0.0)
            made = pairwise_curvature.curvature_bound(p, r)
            plain = pairwise_curvature.local_curvature(r.max()) * centring_form(p)
            assert np.trace(made) >= np.trace(plain) * (1.0 - (1e-12 if r.max() > 4.0 else 0.01))
            exact = sum(2.0 * (1.0 - t) * centring_form(least_probabilities(p, r, t)) for t in TIMES) / len(TIMES)
            assert np.linalg.eigvalsh(exact - made).min() >= -1e-3 * np.trace(exact) - 1e-15


TIMES = (np.arange(4000) + 0.5) / 4000


def test_one_number_curvature():
    for m in (0.0, 1e-9, 1e-3, 0.0499, 0.0501, 1.0, 30.0, 700.0):
        exact = integrate.quad(lambda t, m=m: 2.0 * (1.0 - t) * math.exp(-m * t), 0.0, 1.0, epsabs=1e-14, limit=200)[0]
        assert pairwise_curvature.local_curvature(m) == pytest.approx(exact, rel=1e-7, abs=1e-12)
        assert pairwise_curvature.local_curvature(m) <= exact * (1.0 + 1e-12)


def test_pair_bounds_hold_on_the_set_and_on_the_box():
    g = np.random.default_rng(3)
    r = np.zeros((4, 4))
    for _ in range(300):
        z, centre, root, reach = g.standard_normal(4), g.standard_normal(4), g.standard_normal((4, 4)), 1.5
        rho = g.random() * 2.0
        worst = pairwise_curvature.pair_bounds(z, centre, root @ root.T, rho, reach, 4, r)
        assert worst == r.max()
        for _ in range(50):
            u = g.standard_normal(4)
            true = centre + rho * root @ u / np.linalg.norm(u)
            pinned = true - true[-1]
            if np.abs(pinned).max() <= reach:
                v = true - z
                assert (v[None, :] - v[:, None] <= r + 1e-12).all()


def test_excess_bounds_the_expected_log_sum_exp():
    """j against exact quadrature in one dimension (two outcomes) and Monte Carlo in two (five standard errors)."""
    g = np.random.default_rng(4)
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    for _ in range(60):
        z, scale = 2.0 * g.standard_normal(2), math.exp(3.0 * g.random() - 1.5)
        u = np.outer(nodes, [scale, 0.0])  # only the difference matters
        true = weights @ special.logsumexp(z + u, axis=1) / weights.sum() - special.logsumexp(z)
        made = mixture_walks.excess(special.softmax(z), np.diag([scale**2, 0.0]), 2, np.zeros(2))
        assert true <= made + 1e-9
        if scale < 0.3:
            assert made <= true + 0.1 * scale**2
    for _ in range(20):
        z, root = g.standard_normal(3), g.standard_normal((3, 3))
        u = g.standard_normal((4000, 3)) @ root.T
        u = np.concatenate([u, -u])
        gaps = special.logsumexp(z + u, axis=1) - special.logsumexp(z)
        pairs = gaps.reshape(2, -1).mean(0)
        made = mixture_walks.excess(special.softmax(z), root @ root.T, 3, np.zeros(3))
        assert made >= pairs.mean() - 5.0 * pairs.std() / math.sqrt(pairs.size)


# One pair at the level of the kernels ---------------------------------------------------------------------------------
LOG = math.log(1.0 / 0.3)


def observations(m, d, bound, n, seed, contexts="random"):
    g = np.random.default_rng(seed)
    W = g.standard_normal((m, d))
    W *= bound / np.linalg.norm(W, axis=1, keepdims=True)
    W[-1] = 0.0
    X = g.standard_normal((n, d))
    X *= (1.0 - 0.5 * g.random((n, 1))) / np.linalg.norm(X, axis=1, keepdims=True)
    if contexts == "one":
        X[:] = np.eye(d)[0]
    P = special.softmax(X @ W.T, axis=1)
    y = (P.cumsum(1) < g.random((n, 1))).sum(1).clip(0, m - 1)
    return W, X, y


def stored(X, y, horizon=3):
    """The observations as a store of episodes of `horizon` steps, of which every second is another pair's."""
    n, d = X.shape
    made = store.empty_store(2, 1, 2, d, n)
    for k in range(n):
        made.contexts[k] = X[k]
        store.remember(made, k, 0, 1, 0, 0, -1.0)
        store.remember(made, k, 1, 0, 0, int(y[k]), -1.0)
    return made


class Twin:
    """The refresh, from the formulas, in coordinates W = U Theta, U an orthonormal basis of what sums to 0."""

    def __init__(self, m, d, bound, lam, form):
        self.m, self.d, self.bound, self.lam, self.form = m, d, bound, lam, form
        basis = np.linalg.svd(np.eye(m) - 1.0 / m)[0][:, : m - 1]
        self.U, self.D = basis, (m - 1) * d
        rows = np.eye(m)[:-1] - np.eye(m)[-1]
        self.K = np.kron(basis.T @ rows.T @ rows @ basis, np.eye(d))
        self.centre, self.cov, self.rho2 = np.zeros(self.D), np.linalg.inv(self.K), (m - 1) * bound**2 * (1 + 1e-6)
        self.component, self.epochs, self.merged = -1, [], False

    def lift(self, x):
        """(I (x) x) in these coordinates: [D, m] so that lift' theta are the logits."""
        return np.kron(self.U.T, x[:, None])

    def model(self, theta, X, y):
        lifts = [self.lift(x) for x in X]
        P = [special.softmax(J.T @ theta) for J in lifts]
        g = [J @ (p - np.eye(self.m)[k]) for J, p, k in zip(lifts, P, y, strict=True)]
        H = [J @ (np.diag(p) - np.outer(p, p)) @ J.T for J, p in zip(lifts, P, strict=True)]
        return lifts, P, np.array(g).reshape(-1, self.D), np.array(H).reshape(-1, self.D, self.D)

    def fit(self, X, y):
        theta = np.zeros(self.D)
        for _ in range(100):
            _, _, g, H = self.model(theta, X, y)
            step = np.linalg.solve(H.sum(0) + self.lam * np.eye(self.D), g.sum(0) + self.lam * theta)
            theta = theta - step / (1.0 + np.linalg.norm(step))
            if np.linalg.norm(step) < 1e-13:
                break
        return theta

    def refresh(self, X, y):
        theta, n = self.fit(X, y), len(y)
        lifts, P, g, H = self.model(theta, X, y)
        one, lam = np.eye(self.D), self.lam
        if self.form == "plain":
            parts, merges = [(0, lam * one, 0)], 0
            taus = [(lam, one, self.bound**2 * (0.5 if self.m == 2 else self.m - 1))]
        else:
            taus = [(t / self.bound**2, self.K, (self.m - 1) * self.bound**2) for t in (0.0, 0.1, 0.4, 1.6, 6.4)]
            parts, merges = [(c, v * one, 0) for c, v in enumerate((lam / 2.0, 2.0 * lam, 1.0, 4.0, 16.0))], 3
            for e, (begin, shape) in enumerate(self.epochs):
                parts += [(5 + 2 * e + i, mu * (shape + lam * one), begin) for i, mu in enumerate((1.5, 5.0))]
        total = H.sum(0)
        beta = {c: self.beta(c, Lam, begin, theta, X, lifts, P, H) for c, Lam, begin in parts}
        value = self.rho2 * np.trace(self.cov @ (total + lam * one))
        for _ in range(4):
            A = self.curvatures(theta, X, lifts, P)
            E = {c: A[begin:].sum(0) - (Lam if c > 1 else 0.0) for c, Lam, begin in parts}
            slope = {c: g[begin:].sum(0) for c, _, begin in parts}
            before = value

            def attempt(shares, tau, E=E, slope=slope):
                """(score, centre, cov, rho2, largest component) of components in proportions, or None."""
                factor, K, bound = tau
                form = sum(a * E[c] for c, a in shares.items()) + factor * K
                if np.linalg.eigvalsh(form).min() <= 1e-9:
                    return None
                gradient = sum(a * slope[c] for c, a in shares.items()) + factor * K @ theta
                rho2 = 2.0 * sum(a * (beta[c] + math.log(a)) for c, a in shares.items())
                rho2 += factor * (bound - theta @ K @ theta) + gradient @ np.linalg.solve(form, gradient)
                cov = np.linalg.inv(form)
                return (
                    rho2 * np.trace(cov @ (total + lam * one)), theta - cov @ gradient, cov, rho2,
                    max(sorted(shares), key=shares.get),
                )  # fmt: skip

            tries = [({c: 1.0}, tau) for c in beta for tau in taus]
            for merge in range(1 + merges):
                made = [(attempt(*t), *t) for t in tries]
                made = [t for t in made if t[0] is not None and t[0][0] < value]
                if not made:
                    break
                best, shares, tau = min(made, key=lambda t: t[0][0])
                value, self.centre, self.cov, self.rho2, self.component = best
                tries = []
                for c in beta:
                    for part in (0.15, 0.4):
                        mixed = {k: (1.0 - part) * a for k, a in shares.items()}
                        mixed[c] = mixed.get(c, 0.0) + part
                        tries.append((mixed, tau))
                self.merged |= merge > 0
            if value > 0.98 * before:
                break
        for e, least in enumerate((32, 128, 512, 2048)):
            if len(self.epochs) == e and n >= least:
                self.epochs.append((n, total))

    def beta(self, c, Lam, begin, theta, X, lifts, P, H):
        one, total = np.eye(self.D), H[begin:].sum(0)
        if self.form == "plain":
            made = 0.5 * (self.m - 1) * np.linalg.slogdet(np.eye(self.d) + X.T @ X / (2.0 * self.lam))[1]
        else:
            Q = np.linalg.inv(total + Lam)
            made = 0.5 * np.linalg.slogdet(one + np.linalg.solve(Lam, total))[1] - 0.5 * np.trace(total @ Q)
            made += math.log(13) + sum(self.excess(J, p, Q) for J, p in zip(lifts[begin:], P[begin:], strict=True))
        return made + LOG + (0.5 * theta @ Lam @ theta if c < 2 else 0.0)

    def curvatures(self, theta, X, lifts, P):
        made = []
        for x, J, p in zip(X, lifts, P, strict=True):
            z, at, q = J.T @ theta, J.T @ self.centre, J.T @ self.cov @ J
            r = np.zeros((self.m, self.m))
            for k in range(self.m):
                for j in range(self.m):
                    if j != k:
                        ball = math.sqrt(self.rho2 * max(q[j, j] + q[k, k] - 2.0 * q[j, k], 0.0))
                        cap = (1.0 if self.m - 1 in (j, k) else 2.0) * self.bound * np.linalg.norm(x)
                        ahead = z[j] - z[k]
                        r[k, j] = max(0.0, min(at[j] - at[k] - ahead + ball, cap - ahead))
            if self.form == "plain":
                s = r.max()
                K = (2.0 * (s - 1.0 + math.exp(-s)) / s**2 if s > 1e-4 else 1.0 - s / 3.0) * centring_form(p)
            else:
                K = twin_curvature(p, r)
            made.append(J @ K @ J.T)
        return np.array(made)

    def excess(self, J, p, Q):
        q = J.T @ Q @ J
        variances = np.diag(q) - 2.0 * q @ p + p @ q @ p
        centred = np.eye(self.m) - 1.0 / self.m
        return min(special.logsumexp(0.5 * variances, b=p), 0.25 * np.trace(centred @ q))

    def full(self):
        """(centre [m, d], covariance [m d, m d]) in full coordinates."""
        T = np.kron(self.U, np.eye(self.d))
        return (T @ self.centre).reshape(self.m, self.d), T @ self.cov @ T.T


@pytest.mark.long
@pytest.mark.parametrize("form", ["mixture", "plain"])
@pytest.mark.parametrize(("m", "d", "bound"), [(3, 2, 3.0), (2, 2, 4.0), (4, 1, 3.0)])
def test_refresh_agrees_with_its_twin(form, m, d, bound):
    """Several refreshes, epochs included, of a pair whose observations lie among another's, in arrays with padding."""
    _, X, y = observations(m, d, bound, 260, 5)
    count = np.array([[m], [m + 1]])
    par, state, work = mixture.mixture_parts(count, d, bound, 1.0, form)
    twin, seen = Twin(m, d, bound, par.regularization, form), set()
    for n in (1, 20, 40, 90, 140, 260):
        mixture_refresh.mixture_refresh(par, state, work, stored(X[:n], y[:n]), 0, 0, LOG)
        twin.refresh(X[:n], y[:n])
        centre, cov = twin.full()
        seen.add(twin.component)
        assert state.component[0, 0] == twin.component
        assert state.radius[0, 0] == pytest.approx(twin.rho2, rel=1e-5)
        np.testing.assert_allclose(state.centre[0, 0, :m], centre, atol=1e-4)
        np.testing.assert_allclose(state.cov[0, 0, : m * d, : m * d], cov, rtol=1e-4, atol=1e-5)
        assert not state.cov[0, 0, m * d :].any()
        assert not state.centre[0, 0, m:].any()
    assert state.empty.sum() == 0
    assert len(seen) > 1
    assert twin.merged == (form == "mixture")
    begun = [n > 20 for n in (40, 140)] if form == "mixture" else []
    assert [b >= 0 for b in state.begins[0, 0, :2]] == [True, True]
    assert begun == begun
    assert list(state.begins[0, 0]) == [40, 140, -1, -1]


@pytest.mark.long
def test_whatever_has_a_small_martingale_is_in_every_ellipsoid():
    """Two outcomes in one dimension, where the integrals can be computed: with the curvature over all that is assumed,
    the left side of each component's inequality is below ln I_c everywhere, by little somewhere; weights with I_c <=
    1/(delta w_c) lie in the component's ellipsoids, and those with sum_c w_c I_c <= 1/delta in the set. (Every refresh
    starts from what is assumed, so that earlier sets, which speak of earlier times, play no part.)"""
    bound, m, d = 1.6, 2, 1
    _, X, y = observations(m, d, 1.2, 200, 6)
    par, state, work = mixture.mixture_parts(np.array([[m]]), d, bound)
    fresh = state.centre.copy(), state.cov.copy(), state.radius.copy(), state.component.copy()
    for n in (5, 34, 60, 130, 200):
        data = store.empty_store(1, 1, 1, d, n)
        for k in range(n):
            data.contexts[k] = X[k]
            store.remember(data, k, 0, 0, 0, int(y[k]), -1.0)
        state.centre[:], state.cov[:], state.radius[:], state.component[:] = fresh
        mixture_refresh.mixture_refresh(par, state, work, data, 0, 0, LOG)
        assert state.empty[0, 0] == 0
    # u is the difference of the rows, W = (u, -u)/2; theta = u/sqrt 2 the coordinate along (1, -1)/sqrt 2
    u, lam, direction = np.linspace(-bound, bound, 101), par.regularization, np.array([1.0, -1.0]) / math.sqrt(2.0)
    theta, nodes_weights = u / math.sqrt(2.0), np.polynomial.hermite_e.hermegauss(80)
    nodes, weights = nodes_weights[0], nodes_weights[1] / nodes_weights[1].sum()

    def losses(theta, first):
        signs = np.where(y[first:] == 0, -1.0, 1.0) * X[first:, 0] * math.sqrt(2.0)
        return np.logaddexp(0.0, np.multiply.outer(theta, signs)).sum(-1)

    def inside(u, centre, cov, radius):
        variance = cov[0, 0] + cov[1, 1] - 2.0 * cov[0, 1]
        return ((u - centre[0] + centre[1]) ** 2 <= radius * variance).all()

    found = state.centre[0, 0, :, 0].copy(), state.cov[0, 0].copy(), state.radius[0, 0]
    state.centre[:], state.cov[:], state.radius[:], state.component[:] = fresh
    mixture_walks.curvature_stage(par, state, work, data, 0, 0, LOG)  # over all that is assumed, so good for every u
    estimate, whole, teeth = state.map[0, 0, :, 0] @ direction, np.zeros(u.size), np.zeros(2, int)
    away, made = theta - estimate, 0
    for c in range(13):
        if work.beta[c] == math.inf:
            whole += 1.0 / 13.0  # not begun: the integral is one
            continue
        epoch = (c - 5) // 2
        begin, part = (state.begins[0, 0, epoch], epoch) if c >= 5 else (0, 4)
        shape = direction @ state.shape[0, 0, epoch] @ direction
        Lam = (lam / 2.0, 2.0 * lam, 1.0, 4.0, 16.0)[c] if c < 5 else (1.5, 5.0)[(c - 5) % 2] * (shape + lam)
        A, slope = direction @ work.curve[part] @ direction, direction @ work.grad[part]
        less = work.beta[c] - LOG - math.log(13.0)
        left = 0.5 * (A - (Lam if c > 1 else 0.0)) * away**2 + slope * away - less
        width = 1.5 / math.sqrt(Lam + direction @ work.hess[part] @ direction)  # Gauss's rule for a wider normal law
        v = estimate + width * nodes
        prior = 0.5 * math.log(Lam) - 0.5 * Lam * (v - (0.0 if c < 2 else theta[:, None])) ** 2
        logs = losses(theta, begin)[:, None] - losses(v, begin) + prior + 0.5 * nodes**2 + math.log(width)
        right = special.logsumexp(logs, b=weights, axis=1)
        assert (left <= right + 1e-6).all(), c
        assert (right - left).min() < 0.3, c
        teeth += [(left + 0.5 * Lam * away**2 > right).any(), (left - slope * away > right).any()]
        whole += np.exp(right) / 13.0
        for tau in par.assumed:
            radius = mixture_refresh.ellipsoid(par, state, work, np.eye(13)[c], tau, 0, 0, d)
            if radius > 0.0:
                made += 1
                allowed_by_c = u[right <= LOG + math.log(13.0)]
                assert inside(allowed_by_c, state.map[0, 0, :, 0] - work.vector, work.inverse, radius), (c, tau)
    member = u[whole <= math.exp(LOG)]
    assert inside(member, *found)
    assert 5 < member.size < 95
    assert made > 25
    assert (teeth >= 2).all()  # without -Lam_c, or without g, the inequality would be wrong


def test_screening_loses_little():
    """With many observations only the most promising components are looked at closely: nearly the same set, in time."""
    W, X, y = observations(3, 2, 2.0, 2500, 7)
    scores = []
    for thorough in (500, 10**9):
        par, state, work = mixture.mixture_parts(np.array([[3]]), 2, 2.0)
        par = par._replace(thorough=thorough)
        for n in (50, 150, 600, 1200, 2500):
            data = store.empty_store(1, 1, 1, 2, n)
            for k in range(n):
                data.contexts[k] = X[k]
                store.remember(data, k, 0, 0, 0, int(y[k]), -1.0)
            mixture_refresh.mixture_refresh(par, state, work, data, 0, 0, LOG)
        assert (np.isinf(work.beta).sum() > 5) == (thorough == 500)
        scores.append(work.best[0])
        error = (W - W.mean(0) - state.centre[0, 0]).ravel()
        assert error @ np.linalg.pinv(state.cov[0, 0]) @ error <= state.radius[0, 0]
    assert scores[1] <= scores[0] * (1.0 + 1e-9)
    assert scores[0] <= 1.01 * scores[1]


# One pair, for people -------------------------------------------------------------------------------------------------
def test_set_says_what_local_sets_need():
    g = np.random.default_rng(9)
    W, X, y = observations(4, 3, 2.0, 300, 9)
    est = nr.estimators.MixtureSet(4, 3, 2.0)
    for x, k in zip(X, y, strict=True):
        est.update(x, int(k))
    cov, m, d = est.covariance, 4, 3
    np.testing.assert_allclose(cov, cov.T)
    np.testing.assert_allclose(cov.reshape(m, d, m, d).sum(0), 0.0, atol=1e-9)
    np.testing.assert_allclose(est.weights.sum(0), 0.0, atol=1e-9)
    for _ in range(200):
        x = g.standard_normal(d)
        x /= max(1.0, np.linalg.norm(x))
        z, q, rho, span = est.logits(x)
        np.testing.assert_allclose(z, est.weights @ x, atol=1e-12)
        np.testing.assert_allclose(q, np.kron(np.eye(m), x) @ cov @ np.kron(np.eye(m), x).T, atol=1e-10)
        u = g.standard_normal(m * d)
        member = est.weights + rho * (cov @ u / math.sqrt(u @ cov @ u)).reshape(m, d)
        assert est.distance(member) == pytest.approx(est.radius, rel=1e-4)
        if (np.linalg.norm(member - member[-1], axis=1) <= 2.0).all():
            assert np.ptp((member - est.weights) @ x) <= span + 1e-6
        assert np.ptp(z) + span >= 0.0
        assert span <= 2.0 * 2.0 * np.linalg.norm(x) + np.ptp(z) + 1e-12
        p = special.softmax(W @ x)
        assert np.abs(p - est.probabilities(x)).sum() <= est.l1_width(x)


def test_refreshes_are_rare_but_not_too_rare():
    """n grows by 1.15 between two refreshes at most, and a context never seen makes one due soon."""
    _, X, y = observations(3, 2, 1.0, 1500, 10, "one")
    est = nr.estimators.MixtureSet(3, 2, 1.0)
    refreshed, times = 0, []
    for n, (x, k) in enumerate(zip(X, y, strict=True), 1):
        est.update(x, int(k))
        if est._state.refreshed[0, 0] != refreshed:
            refreshed = est._state.refreshed[0, 0]
            times.append(n)
        assert n < 1.15 * refreshed + 1
    assert len(times) < 70
    for _ in range(9):
        est.update([0.0, 1.0], 0)
    assert est._state.refreshed[0, 0] > refreshed


def test_what_is_assumed_comes_first_and_an_empty_set_is_flagged():
    est = nr.estimators.MixtureSet(3, 1, 0.05, delta=0.9)
    assert est.contains([[0.05], [-0.05], [0.0]])
    assert not est.contains([[0.05], [-0.06], [0.0]])
    for _ in range(3000):  # impossible under the bound
        est.update([1.0], 0)
    assert est.empty > 0
    assert est.contains([[0.05], [-0.05], [0.0]])
    single = nr.estimators.MixtureSet(1, 2, 1.0)
    single.update([0.6, 0.8], 0)
    assert single.logits([1.0, 0.0])[3] == 0.0
    assert single.probabilities([1.0, 0.0]) == pytest.approx([1.0])


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "m", "d", "how", "runs"),
    [
        ("mixture set, logit", 3, 2, "worst", 40),
        ("mixture set, logit", 2, 1, "lengths", 40),
        ("plain stored set, logit", 2, 1, "one", 60),
    ],
)
def test_sets_cover(name, m, d, how, runs):
    """Failures at delta = 0.3 are explained by chance (one in a million otherwise); a tenth of the radius is not."""
    found = coverage(KIND[name], how, runs, 200, m, d, 4.0)
    assert found.holds
    assert found.ratios.max() > 0.2
    assert (10.0 * found.ratios > 1.0).sum() > (allowed(runs, found.delta) if how != "one" else runs // 8)


def test_bad_input():
    with pytest.raises(ValueError, match="form must be"):
        nr.estimators.MixtureSet(3, 2, 1.0, form="mix")
    est = nr.estimators.MixtureSet(3, 2, 1.0)
    with pytest.raises(ValueError, match="outcome must be below"):
        est.update([0.0, 1.0], 3)
    with pytest.raises(ValueError, match="x has norm"):
        est.update([3.0, 1.0], 0)
    with pytest.raises(ValueError, match="W must"):
        est.contains([1.0])
