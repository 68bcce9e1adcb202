"""Constants, radii and widths against brute force: each test could refute its formula."""

import itertools
import math

import numpy as np
import pytest

from noregret.theory import constants as c
from noregret.theory import radii, widths


def hessian(y):
    p = np.exp(y - y.max())
    p /= p.sum()
    return np.diag(p) - np.outer(p, p)


def centring(S):
    return np.eye(S) - 1.0 / S


@pytest.mark.parametrize("S", [2, 3, 4, 5, 7])
@pytest.mark.parametrize("M", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_curvature_is_the_minimum_over_the_box_and_is_attained(S, M):
    g = np.random.default_rng(S)
    corners = [np.append(np.array(v) * M, 0.0) for v in itertools.product((-1, 1), repeat=S - 1)]
    inside = [np.append(g.uniform(-M, M, S - 1), 0.0) for _ in range(200)]
    pinned = [np.linalg.eigvalsh(hessian(y)[:-1, :-1])[0] for y in corners + inside]
    centred = [np.linalg.eigvalsh(hessian(y))[1] for y in corners + inside]  # the smallest is 0, along 1
    assert min(pinned) == pytest.approx(c.logit_alpha_pinned(S, M), rel=1e-9)
    assert min(centred) == pytest.approx(c.logit_alpha_centred(S, M), rel=1e-9)
    assert 0.62 * c.logit_alpha_pinned(S, M) <= c.logit_alpha_simple(S, M) <= c.logit_alpha_pinned(S, M) * (1 + 1e-12)


@pytest.mark.parametrize("S", [2, 3, 5])
@pytest.mark.parametrize("M", [0.0, 1.0, 2.0])
def test_unpinned_curvature(S, M):
    corners = [np.array(v) * M for v in itertools.product((-1.0, 1.0), repeat=S)]
    assert min(np.linalg.eigvalsh(hessian(y))[1] for y in corners) == pytest.approx(c.logit_alpha_unpinned(S, M))


def test_printed_curvature_fails_where_the_documentation_says():
    """Modi and Tewari, Example 2.3: e^{-BR}/S^2 is not a lower bound at S = 3, y = (3, -3, 0), but is for S = 2."""
    assert np.linalg.eigvalsh(hessian(np.array([3.0, -3.0, 0.0]))[:2, :2])[0] < c.logit_alpha_printed(3, 3.0) / 2
    for M in np.linspace(0, 6, 25):
        assert c.logit_alpha_printed(2, M) <= c.logit_alpha_pinned(2, M) * (1 + 1e-12)
    for S, first in ((3, 1.87), (4, 1.77), (5, 1.83), (10, 2.24), (20, 2.78)):
        assert c.logit_alpha_printed(S, first - 0.02) <= c.logit_alpha_pinned(S, first - 0.02)
        assert c.logit_alpha_printed(S, first + 0.02) > c.logit_alpha_pinned(S, first + 0.02)


def test_special_values():
    for S in range(2, 9):
        assert c.logit_alpha_pinned(S, 0.0) == pytest.approx(1 / S**2)
        assert c.logit_alpha_centred(S, 0.0) == pytest.approx(1 / S)
    sigma = 1 / (1 + math.exp(-1.3))
    assert c.logit_alpha_pinned(2, 1.3) == pytest.approx(sigma * (1 - sigma))
    assert c.logit_alpha_centred(2, 1.3) == pytest.approx(2 * sigma * (1 - sigma))


def test_smoothness_is_one_half_and_tight():
    g = np.random.default_rng(0)
    top = max(np.linalg.eigvalsh(hessian(3 * g.standard_normal(4)))[-1] for _ in range(2000))
    assert top <= c.LOGIT_BETA + 1e-12
    assert np.linalg.eigvalsh(hessian(np.array([0.0, 0.0, -40.0])))[-1] == pytest.approx(c.LOGIT_BETA)


def softmax(y):
    p = np.exp(y - y.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def test_l1_width_of_softmax_holds_and_is_attained():
    g = np.random.default_rng(1)
    u, v = 2 * g.standard_normal((2, 20000, 5))
    distance = np.abs(softmax(u) - softmax(v)).sum(-1)
    norm = np.linalg.norm((u - v) @ centring(5), axis=-1)
    bound = np.array([widths.logit_l1(w) for w in norm])
    assert (distance <= bound + 1e-12).all()
    assert (bound <= c.LOGIT_L1 * norm + 1e-12).all()
    a, b = np.array([0.3, -0.3, -60.0]), np.array([-0.3, 0.3, -60.0])
    reached = np.abs(softmax(a) - softmax(b)).sum()
    assert reached == pytest.approx(widths.logit_l1(float(np.linalg.norm(a - b))), rel=1e-9)


@pytest.mark.parametrize("S", [2, 3, 5])
def test_prior_cap_is_the_largest_distance_in_the_box(S):
    g = np.random.default_rng(S)
    for _ in range(20):
        M, p = g.uniform(0, 3), g.dirichlet(np.ones(S))
        corners = np.array([(*v, 0.0) for v in itertools.product((-M, M), repeat=S - 1)])
        inside = np.append(g.uniform(-M, M, (300, S - 1)), np.zeros((300, 1)), axis=1)
        distance = np.abs(softmax(np.vstack([corners, inside])) - p).sum(-1)
        assert distance.max() == pytest.approx(widths.logit_prior_cap(p, M), rel=1e-9)


@pytest.mark.parametrize("S", [1, 2, 3, 5])
def test_diameter_of_the_box(S):
    for M in (0.0, 0.4, 1.5, 3.0):
        corners = softmax(np.array([(*v, 0.0) for v in itertools.product((-M, M), repeat=S - 1)]))
        distance = np.abs(corners[:, None] - corners[None]).sum(-1).max()
        assert widths.logit_diameter(S, M) == pytest.approx(distance, abs=1e-12)


def test_l1_of_differences_of_distributions():
    g = np.random.default_rng(2)
    for S in (2, 3, 4, 7):
        v = g.standard_normal((5000, S))
        v -= v.mean(1, keepdims=True)
        assert (np.abs(v).sum(1) <= c.linear_l1(S) * np.linalg.norm(v, axis=1) + 1e-12).all()
        half = np.array([1.0 / (S // 2)] * (S // 2) + [-1.0 / (S - S // 2)] * (S - S // 2))
        assert np.abs(half).sum() == pytest.approx(c.linear_l1(S) * np.linalg.norm(half))


def test_printed_radius_is_never_below_theorem_b_at_the_same_step():
    """theory: the printed gamma exceeds Theorem B's at kappa = alpha/2 (c = 1/2), q_i <= 2, for valid alpha and S >=
    2."""
    for S, t, alpha, logdet in itertools.product((2, 5), (1, 10, 10**6), (1.0, 1e-3), (0.0, 5.0)):
        gradient = (2 / (alpha / 2)) * logdet
        old = radii.printed(S, 4.0, 1.0, 1.0, alpha, 1.0, samples=t, logdet=logdet, delta=0.05)
        assert old >= radii.theorem_b(4.0, 1.0, alpha, 0.5, gradient, 0.0, 0.05)


def test_radii_are_affine_in_the_log_of_delta():
    step = math.log(10)
    args, run = (5, 4.0, 1.0, 1.0, 0.04, 2.0), {"samples": 17, "logdet": 3.0}
    assert radii.printed(*args, **run, delta=0.01) - radii.printed(*args, **run, delta=0.1) == pytest.approx(
        step * radii.printed_log_weight(1.0, 1.0, 0.04)
    )
    a, b = (4.0, 1.0, 0.25, 3.0, 0.5), (4.0, 1.0, 0.3, 1.5, 3.0, 0.5)
    assert radii.theorem_a(*a, 0.01) - radii.theorem_a(*a, 0.1) == pytest.approx(8 * step)
    assert radii.theorem_b(*b, 0.01) - radii.theorem_b(*b, 0.1) == pytest.approx(step / (0.5 * 0.3))


def test_reward_interval_repairs_the_printed_one():
    """d = 1, B_r = 3, x = 1/3, lambda = 1, delta = .1, no data: the mean reward may be 1, the estimate is 0."""
    w2 = (1 / 3) ** 2
    assert widths.reward_interval_printed(w2, 0.0, 1, 1.0, 0.1) == pytest.approx(0.691, abs=5e-4)
    assert widths.reward_interval(w2, 0.0, 3.0, 1.0, 0.1) == 1.0
