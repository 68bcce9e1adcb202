"""Kernels of the online likelihood-ratio sets against their formulas in NumPy."""

from itertools import pairwise

import numpy as np
import pytest

import noregret as nr
from noregret.agents.base import Trajectory
from noregret.estimators.likelihood import precision, visit
from noregret.estimators.likelihood.sets import likelihood_parts
from noregret.estimators.likelihood.visit import learn_outcome, learn_outcomes


def symmetric(g, size):
    root = g.normal(size=(size, size))
    return root @ root.T


def packed_of(matrix):
    return matrix[precision.packed_order(len(matrix))]


def kept_of(sigma, m, d):
    """Scratch, and (forms, turns) of Sigma, all else in them nan."""
    work = likelihood_parts(np.full((1, 1), m + 1), d, 1.0, 3.0, 0.5)[2]
    for scratch in (work.K, work.GK, work.panel, work.even, work.odd, work.packed):
        scratch[...] = np.nan
    forms = np.full((d * (d + 1) // 2, m * (m + 1) // 2), np.nan)
    turns = np.full((d * (d - 1) // 2, m * (m - 1) // 2), np.nan)
    precision.set_to(sigma, m, d, work, forms, turns)
    return work, forms, turns


def in_full(forms, turns, m, d):
    return precision.sigma_of(forms, turns, m, d).reshape(m * d, m * d)


@pytest.mark.parametrize(("m", "d"), [(1, 1), (3, 5), (9, 8), (2, 8), (4, 16), (5, 24)])
def test_what_queries_need_of_sigma(m, d):
    """X' Sigma X from the forms, and X' Sigma from all of Sigma, X = x (x) I."""
    g = np.random.default_rng(m)
    sigma, x, C = symmetric(g, m * d), g.normal(size=d), np.full((m + 1, m + 1), np.nan)
    work, forms, turns = kept_of(sigma, m, d)
    np.testing.assert_allclose(in_full(forms, turns, m, d), sigma, rtol=1e-13, atol=1e-13)
    products = np.array([x[b] * x[c] for b in range(d) for c in range(b, d)])
    precision.covariance_at(forms, products, m + 1, work.packed, C)
    precision.rows_at(forms, turns, x, m, work.even, work.odd, work.K)
    X = np.kron(x[:, None], np.eye(m))
    np.testing.assert_allclose(C[:m, :m], X.T @ sigma @ X, rtol=1e-11, atol=1e-10)
    np.testing.assert_array_equal(C[m], 0.0)
    np.testing.assert_array_equal(C[:, m], 0.0)
    np.testing.assert_allclose(work.K, X.T @ sigma, rtol=1e-11, atol=1e-10)
    np.testing.assert_allclose(x @ work.even, packed_of(X.T @ sigma @ X), rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize(("m", "d"), [(1, 1), (1, 2), (2, 1), (3, 5), (4, 2), (9, 8), (6, 3), (5, 4)])
def test_what_an_episode_does_to_sigma(m, d):
    """Sigma - K'GK, odd and even sizes, and the inverse of the precision that D (x) xx' was added to."""
    g, size, lam = np.random.default_rng(d), m * d, 0.7
    sigma, G, K = symmetric(g, size), symmetric(g, m), g.normal(size=(m, size))
    work, forms, turns = kept_of(sigma, m, d)
    precision.subtract(forms, turns, K, G, m, d, work)
    np.testing.assert_allclose(in_full(forms, turns, m, d), sigma - K.T @ G @ K, rtol=1e-11, atol=1e-10)
    gram, full = np.zeros((d * (d + 1) // 2, m * (m + 1) // 2)), lam * np.kron(np.eye(d), np.eye(m) - 1.0 / (m + 1))
    for _ in range(3):
        D, x = symmetric(g, m), g.normal(size=d)
        products = np.array([x[b] * x[c] for b in range(d) for c in range(b, d)])
        precision.add_outer(gram, packed_of(D), products, len(packed_of(D)))
        full += np.kron(np.outer(x, x), D)
    rows = g.normal(size=(2, m, d))
    lengths = precision.lengths2(np.stack([gram, 2.0 * gram]), np.array([lam, 2.0 * lam]), rows)
    wanted = [u.T.ravel() @ full @ u.T.ravel() for u in rows]
    np.testing.assert_allclose(lengths, [wanted[0], 2.0 * wanted[1]], rtol=1e-12)
    precision.invert_precision(gram, lam, m, d, work, forms, turns)
    np.testing.assert_allclose(in_full(forms, turns, m, d) @ full, np.eye(size), atol=1e-8)
    start = lam * (1.0 - 1.0 / (m + 1)) * size
    assert precision.trace_of(gram, m, d) == pytest.approx(np.trace(full) - start, rel=1e-12)


@pytest.mark.parametrize(("count", "size"), [(1, 1), (3, 7), (5, 9), (9, 72)])
def test_a_form_is_subtracted(count, size):
    """Sigma - K'GK in full, where pairs share weights."""
    g = np.random.default_rng(size)
    sigma, G, K = symmetric(g, size), symmetric(g, count), g.normal(size=(count, size))
    wanted = sigma - K.T @ G @ K
    precision.subtract_form(sigma, K, G, count, size, np.zeros((count, size)))
    np.testing.assert_allclose(sigma, wanted, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize(("n", "d"), [(2, 3), (4, 2), (10, 3), (5, 8), (3, 16)])
def test_an_episode_at_once(n, d):
    """Every pair's visits among its predictions, in the kernel that agents learn with; one outcome at a time."""
    g, problem = np.random.default_rng(n), nr.Problem(n, 1, 4 * n, d, weight_bound=1.0, reward_bound=1.0)
    H, layout = problem.horizon, problem.layout
    path = Trajectory(np.zeros(H + 1, np.int64), np.zeros(H, np.int64), np.zeros(H))
    whole, single = (likelihood_parts(layout.count, d, 1.0, 3.0, 0.5) for _ in range(2))
    for _ in range(6):
        x = g.normal(size=d) / 2
        path.states[:] = g.integers(0, n, path.states.shape)
        learn_outcomes(layout, *whole, x, H, path)
        for s, y in pairwise(path.states.tolist()):
            learn_outcome(*single, s, 0, y, x)
    for name in ("weights", "precision", "inverse", "radius", "samples"):
        ours, theirs = getattr(whole[1], name), getattr(single[1], name)
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-11, err_msg=name)
    state = whole[1]
    for s in range(n):
        np.testing.assert_allclose(state.precision[s, 0] @ state.inverse[s, 0], np.eye(n * d), atol=1e-10)


@pytest.mark.parametrize(("m", "least"), [(1, 1e-3), (3, 1e-12), (4, 1e-3), (9, 1e-6), (9, 1e-200)])
def test_the_gain_of_a_visit(m, least):
    """V'V = (D^-1 + C)^-1, D = 2 c (diag p - pp') over the first m outcomes, V a lower triangle."""
    g = np.random.default_rng(m)
    for _ in range(8):
        w, c = visit.visit_work(m + 1), float(g.random())
        p = np.maximum(g.dirichlet(np.full(m + 1, 0.3)), least)
        p /= p.sum()
        C = symmetric(g, m)
        w.p[:], w.C[:m, :m] = p, C
        visit.gain_root(w, c, m)
        V = w.V[:m, :m]
        np.testing.assert_array_equal(V, np.tril(V))
        D = 2.0 * c * (np.diag(p[:m]) - np.outer(p[:m], p[:m]))
        np.testing.assert_allclose(V.T @ V, np.linalg.solve(np.eye(m) + D @ C, D), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 6, 10])
def test_the_unscented_ratio(n):
    """phat(y)/p(y), phat the mean of the softmax over z and z +- sqrt(n) F e_i, F F' = C, the last logit fixed."""
    g, m = np.random.default_rng(n), n - 1
    w, z, C = visit.visit_work(n), g.normal(size=n), symmetric(g, m) / m
    p = np.exp(z - z.max())
    w.p[:], w.C[:m, :m] = p / p.sum(), C
    moves = np.sqrt(n) * np.linalg.cholesky(C)
    points = [np.zeros(m), *moves.T, *-moves.T]
    weights = [1.0 / n] + [0.5 / n] * (2 * m)
    at = [np.exp(z + np.append(v, 0.0)) for v in points]
    mean = sum(u * e / e.sum() for u, e in zip(weights, at, strict=True))
    for y in range(n):
        assert visit.unscented_ratio(w, n, y) == pytest.approx(mean[y] / w.p[y], rel=1e-9)
