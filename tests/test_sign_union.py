"""The sign-union set of the linear link: a NumPy twin, what each term of its width is for, and coverage."""

import itertools
import math

import numpy as np
import pytest

import noregret as nr
from noregret.beliefs.local import local_sets
from noregret.estimators.linear.sign_union import log_splits, sign_union_parts, sign_union_sets, sign_union_step
from noregret.numerics.linear_algebra import REFRESH
from noregret.verification import chance
from noregret.verification.coverage import DELTA, draw_outcome, draw_truth, next_context

pytestmark = pytest.mark.deep


def project(v):
    """Euclidean projection on the simplex, by sorting."""
    u = np.sort(v)[::-1]
    k = np.arange(1, v.size + 1)
    t = ((np.cumsum(u) - 1.0) / k)[u * k > np.cumsum(u) - 1.0][-1]
    return np.maximum(v - t, 0.0)


def splits(n):
    """One of each two complementary sets of outcomes, neither empty: [2^{n-1} - 1, n]."""
    return np.array([u for u in itertools.product([0.0, 1.0], repeat=n) if u[0] == 1.0 and 0.0 in u])


def start_cost(b, n):
    plus, minus = b[b > 0].sum(), -b[b < 0].sum()
    return (1 - 1 / n) * max(plus, minus) + min(plus, minus) / n


def twin(n, d, lam, log, X, Y, x):
    """(P_hat, half width) from all the data at once."""
    Z = lam * np.eye(d) + X.T @ X
    moment = np.full((n, d), lam / n) + np.eye(n)[Y].T @ X
    p = project(moment @ np.linalg.solve(Z, x)) if n > 1 else np.ones(1)
    if n == 1:
        return p, 0.0
    b = lam * np.linalg.solve(Z, x)
    many = np.linalg.slogdet(Z / lam)[1] + 2 * (log + math.log(2 ** (n - 1) - 1))
    return p, min(start_cost(b, n) + 0.5 * math.sqrt(many * (x @ b) / lam), 1 - p.min())


@nr.kernel
def feed(par, state, work, layout, s, a, X, Y):
    for i in range(X.shape[0]):
        sign_union_step(par, state, work, layout.count[s, a : a + 1], (s, a), Y[i], X[i], 1.0)


def test_sets_of_all_pairs_against_numpy():
    """Pairs with one to four outcomes, some seen often enough for the inverse to be refreshed, different delta."""
    g, d, lam = np.random.default_rng(0), 3, 0.7
    support = np.zeros((4, 2, 4), bool)
    for i, n in enumerate([1, 2, 3, 4, 4, 3, 2, 1]):
        support[i // 2, i % 2, g.permutation(4)[:n]] = True
    problem = nr.Problem(4, 2, 2, d, nr.LinearCombination(), support=support, reward_bound=1.0)
    layout, log = problem.layout, g.uniform(1.0, 6.0, (4, 2))
    par, state, work = sign_union_parts(layout.count, d, lam, log)
    sets, seen = local_sets(layout), {}
    for s, a in np.ndindex(4, 2):
        m, n = [0, 1, 7, 40, 2 * REFRESH + 5, 300, 90, 20][2 * s + a], layout.count[s, a]
        seen[s, a] = g.dirichlet(np.ones(d), m), g.integers(0, n, m)
        feed(par, state, work, layout, s, a, *seen[s, a])
    for x in (*np.eye(d), *g.dirichlet(np.ones(d), 4)):
        sign_union_sets(par, state, work, layout, x, sets)
        for s, a in np.ndindex(4, 2):
            n = layout.count[s, a]
            p, half = twin(n, d, lam, log[s, a], *seen[s, a], x)
            assert np.allclose(sets.P[s, a, :n], p, atol=1e-10)
            assert (sets.P[s, a, n:] == 0.0).all()
            assert sets.half[s, a] == pytest.approx(half, abs=1e-8)
            assert half <= sets.half[s, a] <= 1.0
    for name in ("z", "cov", "second"):
        assert not getattr(sets, name).any()
    assert np.isinf(sets.span).all()
    assert np.isinf(sets.rho).all()


def test_projection_must_start_from_errors_that_sum_to_zero():
    """Eight outcomes, no data, lambda = 500: ridge from zero predicts 0; with sqrt(lambda d) for the start its width is
    1.177, and projecting 0 on the simplex is off by 1.75. From the uniform distribution the same prediction comes with
    a width that holds."""
    n, lam, delta = 8, 500.0, 0.05
    width = (math.sqrt(lam) + math.sqrt(2 * (n - 1) * math.log(2) + 2 * math.log(1 / delta))) / math.sqrt(lam)
    assert width == pytest.approx(1.177, abs=1e-3)
    truth = np.eye(n)[0]
    assert np.abs(project(np.zeros(n)) - truth).sum() == pytest.approx(1.75)
    est = nr.estimators.SignUnionSet(n, 1, delta, regularization=lam)
    assert np.abs(est.probabilities([1.0]) - truth).sum() == pytest.approx(1.75)
    assert est.l1_width([1.0]) >= 1.75
    g = np.random.default_rng(1)
    for _ in range(2000):
        m = g.integers(2, 7)
        p, e = g.dirichlet(np.full(m, 0.3)), g.standard_normal(m) * g.choice([0.1, 1.0, 5.0])
        e -= e.mean()
        assert np.abs(project(p + e) - p).sum() <= np.abs(e).sum() + 1e-12


def test_what_the_start_costs_is_attained_and_never_more_than_by_cauchy_and_schwarz():
    """Over all truths with deterministic columns, the largest 1/2 ||sum_j b_j (w_j - 1/n)||_1 is the formula's; the
    form with sqrt(lambda d) ||x||_{Z^{-1}} is never smaller, and tends to exceed it more and more."""
    g = np.random.default_rng(2)
    for n, d in ((2, 3), (3, 3), (4, 2), (5, 3)):
        for m in (0, 3, 200):
            X = g.dirichlet(np.full(d, 0.4), m)
            lam, x = g.choice([0.1, 1.0, 10.0]), g.dirichlet(np.full(d, 0.4))
            Z = lam * np.eye(d) + X.T @ X
            b = lam * np.linalg.solve(Z, x)
            worst = max(
                0.5 * np.abs((np.eye(n)[list(columns)] - 1 / n).T @ b).sum()
                for columns in itertools.product(range(n), repeat=d)
            )
            assert start_cost(b, n) == pytest.approx(worst, rel=1e-12)
            crude = (1 - 1 / n) * math.sqrt(lam * d * (x @ np.linalg.solve(Z, x)))
            assert start_cost(b, n) <= crude + 1e-12
            if m == 200:
                assert start_cost(b, n) < 0.7 * crude


def test_one_dimension_is_additive_smoothing_and_deterministic_outcomes_meet_the_start_exactly():
    n, lam = 4, 2.0
    est = nr.estimators.SignUnionSet(n, 1, regularization=lam)
    for _ in range(50):
        est.update([1.0], 3)
    expected = (np.array([0, 0, 0, 50]) + lam / n) / (50 + lam)
    assert np.allclose(est.probabilities([1.0]), expected)
    assert 0.5 * np.abs(expected - np.eye(n)[3]).sum() == pytest.approx((1 - 1 / n) * lam / (50 + lam))
    assert est.samples == 50


def test_one_outcome_has_nothing_to_learn_and_splits_are_counted():
    est = nr.estimators.SignUnionSet(1, 2)
    est.update([0.5, 0.5], 0)
    assert est.l1_width([1.0, 0.0]) == 0.0
    for n in range(2, 7):
        assert math.exp(log_splits(n)) == pytest.approx(len(splits(n)))
    assert log_splits(5000) == pytest.approx(4999 * math.log(2))
    with pytest.raises(ValueError, match=r"regularization must be at least 0\.001"):
        nr.estimators.SignUnionSet(3, 2, regularization=1e-9)
    with pytest.raises(ValueError, match="x must be nonnegative and sum to 1"):
        est.update([0.5, 0.6], 0)


def experiment(how, runs, steps, n, d, lam, even=False):
    """Each run's largest ||S_U||^2/radius over sets of outcomes U and times, and without ln(1/delta); and whether a
    width ever failed at a corner, at the middle or at a random point although no ratio exceeded 1."""
    U, X = splits(n), np.vstack([np.eye(d), np.full(d, 1 / d)])
    ratios, without, broken = np.zeros(runs), np.zeros(runs), 0
    for run in range(runs):
        g = np.random.default_rng([run, n, d])
        W = np.full((n, d), 1 / n) if even else draw_truth("linear", n, d, 1.0, g)
        est = nr.estimators.SignUnionSet(n, d, DELTA, lam)
        for t in range(steps):
            x = next_context(how, True, est, t, d, g)
            est.update(x, int(draw_outcome("linear", W @ x, g)))
            gram = est.gram
            S = est.weights @ gram - lam / n - W @ (gram - lam * np.eye(d))
            largest = np.einsum("ub,bc,uc->u", U @ S, est.inverse, U @ S).max()
            ratios[run] = max(ratios[run], largest / est.radius)
            without[run] = max(without[run], largest / (est.radius - 0.5 * math.log(1 / DELTA)))
            if t % 10 == 9 and ratios[run] <= 1.0:
                for v in (*X, g.dirichlet(np.ones(d))):
                    broken += np.abs(est.probabilities(v) - W @ v).sum() > est.l1_width(v)
    return ratios, without, broken


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "n", "d", "lam"),
    [("random", 4, 2, 2.0), ("one", 2, 2, 0.01), ("cycle", 2, 3, 0.01), ("worst", 3, 2, 0.1)],
)
def test_coverage(how, n, d, lam):
    """At delta = 0.3 the sets of all times hold together in all but as many of 120 runs as chance allows (at one in a
    million), and wherever they hold, so do the widths."""
    ratios, _, broken = experiment(how, 120, 120, n, d, lam)
    assert (ratios > 1.0).sum() <= chance.allowed(120, DELTA)
    assert broken == 0
    assert ratios.max() > 0.3


@pytest.mark.long
def test_coverage_would_notice_a_wrong_radius():
    """Where the experiment has power, a fair coin: without ln(1/delta), or with half the radius, it fails."""
    ratios, without, _ = experiment("one", 120, 300, 2, 1, 5.0, even=True)
    assert (ratios > 1.0).sum() <= chance.allowed(120, DELTA)
    assert (without > 1.0).sum() > chance.allowed(120, DELTA)
    assert (2.0 * ratios > 1.0).sum() > chance.allowed(120, DELTA)
