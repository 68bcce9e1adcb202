"""Products in registers against NumPy, and learning an episode at once against learning it step by step."""

from itertools import pairwise

import numpy as np
import pytest

import noregret as nr
from noregret import _eight as eight
from noregret import _tiles as tiles
from noregret._jit import kernel
from noregret.agents.base import Trajectory
from noregret.agents.set_learning import learn_outcomes
from noregret.estimators import likelihood_half as half
from noregret.estimators import likelihood_small as small
from noregret.estimators.likelihood_ratio import half_size, likelihood_parts, likelihood_step


@kernel
def all_tiles(C, A, B, out, less):
    for r in range(0, 8, 4):
        for e in range(0, 24, 8):
            tiles.add_products(C, r * 24 + e, 24, A, r, 1, 8, B, e, 24, 5)
    tiles.subtract_wide_products(less, 0, 24, A, 0, 1, 8, B, 0, 24, 5)
    for e in range(0, 24, 8):
        tiles.subtract_products(less, 96 + e, 24, A, 4, 1, 8, B, e, 24, 5)
        tiles.subtract_product(less, 192 + e, 0, A, 3, 0, 8, B, e, 24, 5)
    tiles.set_wide_product(out, 0, 0, A, 3, 0, 8, B, 0, 24, 5)
    tiles.set_product(out, 24, 0, A, 3, 0, 8, B, 8, 24, 5)
    tiles.set_square_product(out, 32, 24, A, 2, 1, 8, B, 0, 24, 5)
    tiles.set_sixfold_product(out, 104, 0, A, 1, 0, 8, B, 0, 0, 1)


def test_products():
    g = np.random.default_rng(0)
    C, A, B, out = g.normal(size=(8, 24)), g.normal(size=(5, 8)), g.normal(size=(5, 24)), np.zeros(152)
    flat = C.ravel().copy()
    less = np.concatenate([flat, C[3]])
    all_tiles(flat, A.ravel(), B.ravel(), out, less)
    product = A.T @ B
    np.testing.assert_allclose(flat.reshape(8, 24), C + product, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(less.reshape(9, 24), np.vstack([C - product, C[3] - product[3]]), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(out[:24], product[3], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(out[24:32], product[3, 8:16], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(out[32:104].reshape(3, 24), product[2:5], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(out[104:], A[0, 1] * B.ravel()[:48], rtol=1e-12, atol=1e-13)


@kernel
def all_eight(A, out):
    u, v = eight.load(A, 0), eight.load(A, 8)
    results = u + v, u - 2.0, 2.0 * v, u / v, eight.least(u, v), eight.most(u, v), eight.root(u * u)
    for i, w in enumerate(results):
        eight.store(out, 8 * i, w)
    eight.store(out, 56, eight.either(u, v, eight.same(1.0), eight.same(-1.0)))
    eight.store(out, 64, eight.exps(u))
    eight.store(out, 72, eight.dots(A, 1, 9, v))
    out[80], out[81] = eight.total(u), eight.highest(u)
    eight.turn(A, 2, 9, out, 82)


def test_eight_numbers_at_once():
    A, out = np.random.default_rng(1).normal(size=80), np.zeros(146)
    all_eight(A, out)
    u, v = A[:8], A[8:16]
    wanted = [u + v, u - 2.0, 2.0 * v, u / v, np.minimum(u, v), np.maximum(u, v), abs(u), np.where(u < v, 1.0, -1.0)]
    wanted += [np.exp(u), [A[1 + 9 * r : 9 + 9 * r] @ v for r in range(8)]]
    np.testing.assert_allclose(out[:80].reshape(10, 8), wanted, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(out[80:82], [u.sum(), u.max()], rtol=1e-14)
    np.testing.assert_array_equal(out[82:].reshape(8, 8), np.array([A[2 + 9 * r : 10 + 9 * r] for r in range(8)]).T)


@pytest.mark.parametrize(("m", "d"), [(1, 1), (3, 5), (9, 8), (2, 8), (4, 16), (5, 24)])
def test_what_queries_need_of_a_symmetric_matrix(m, d):
    g, E, J = np.random.default_rng(m), tiles.padded(m * d), tiles.padded(m * (m + 1) // 2)
    root, x = g.normal(size=(m * d, m * d)), g.normal(size=d)
    square, kept, forms = np.zeros((E, E)), np.zeros(half_size(m, d)), np.full(d * (d + 1) // 2 * J, np.nan)
    square[: m * d, : m * d] = root @ root.T
    keep(square.ravel(), kept, m, d, E)
    half.fold(kept, m, d, J, np.zeros(16, np.int64), forms)
    products, packed = np.array([x[b] * x[c] for b in range(d) for c in range(b, d)]), np.zeros(J + 80)
    half.form_at(forms, products, m, d, J, packed, 8)
    X = np.kron(np.eye(m), x[:, None])
    wanted = (X.T @ square[: m * d, : m * d] @ X)[np.triu_indices(m)]
    np.testing.assert_allclose(packed[8 : 8 + len(wanted)], wanted, rtol=1e-11, atol=1e-10)


@kernel
def keep(square, kept, m, d, E):
    half.keep_half(square, kept, m, d, E)


@pytest.mark.parametrize(("n", "d"), [(2, 3), (4, 2), (10, 3), (5, 8), (3, 16)])
def test_an_episode_at_once(n, d):
    """Every pair's visits among its predictions, in the kernel that agents learn with."""
    g, problem = np.random.default_rng(n), nr.Problem(n, 1, 4 * n, d, weight_bound=1.0, reward_bound=1.0)
    H, layout = problem.horizon, problem.layout
    path = Trajectory(np.zeros(H + 1, np.int64), np.zeros(H, np.int64), np.zeros(H))
    whole, single = (likelihood_parts(layout.count, d, 1.0, 3.0, 0.5) for _ in range(2))
    for _ in range(6):
        x = g.normal(size=d) / 2
        path.states[:] = g.integers(0, n, path.states.shape)
        norm = float(np.linalg.norm(x))
        learn_outcomes(layout, *whole, x, H, path, norm, 0, np.zeros(0))
        for s, y in pairwise(path.states.tolist()):
            likelihood_step(*single, layout.count[s], s, 0, y, x, norm)
    for name in ("weights", "precision", "inverse", "radius", "samples"):
        ours, theirs = getattr(whole[1], name), getattr(single[1], name)
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-11, err_msg=name)
    state = whole[1]
    for s in range(n):
        np.testing.assert_allclose(state.precision[s, 0] @ state.inverse[s, 0], np.eye(n * d), atol=1e-10)


@pytest.mark.parametrize(("m", "least"), [(1, 1e-3), (3, 1e-12), (4, 1e-3), (9, 1e-6), (9, 1e-200)])
def test_the_gain_of_a_visit(m, least):
    """V'V = (D^-1 + C)^-1, D = 2 c (diag p - pp') over the first m outcomes, V a lower triangle; ROOT'ROOT = C."""
    g, lanes = np.random.default_rng(m), np.zeros(small.room(m))
    p = np.maximum(g.dirichlet(np.full(m + 1, 0.3), 8), least)
    p /= p.sum(1, keepdims=True)
    root, c = g.normal(size=(8, m, m)), g.random(8)
    C = root @ root.swapaxes(1, 2)
    entries = np.arange(m)[:, None] * (m + 2) + np.arange(m)

    def of(which):
        start = small.matrix(m, which)
        return lanes[start : start + small.matrix(m, 1)].reshape(-1, 8)[entries].transpose(2, 0, 1)

    start = small.matrix(m, small.C)
    lanes[start : start + small.matrix(m, 1)].reshape(-1, 8)[entries] = C.transpose(1, 2, 0)
    start = small.vector(m, small.P)
    lanes[start : start + 8 * (m + 1)] = p.T.ravel()
    start = small.vector(m, small.SCALARS) + 8 * small.CURVATURE
    lanes[start : start + 8] = c
    small.factors(lanes, m, small.V, 1)
    small.solve(lanes, m, small.V, 1)
    V, ROOT = np.tril(of(small.V)), np.triu(of(small.ROOT))
    D = 2.0 * c[:, None, None] * (p[:, :m, None] * np.eye(m) - p[:, :m, None] * p[:, None, :m])
    wanted = np.linalg.solve(np.eye(m) + D @ C, D)
    np.testing.assert_allclose(V.swapaxes(1, 2) @ V, wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ROOT.swapaxes(1, 2) @ ROOT, C, rtol=1e-9, atol=1e-9)
