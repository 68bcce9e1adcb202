"""Link kernels: the exponential, the projections against a generic solver, and a link of one's own."""

import numpy as np
import pytest
from scipy.optimize import minimize

import noregret as nr
from noregret.problem import links


def test_exp_to_about_an_ulp_and_finite_everywhere():
    x = np.concatenate([np.random.default_rng(0).uniform(-30, 30, 3000), [0.0, -700.0, 700.0]])
    ours = np.array([links.exp(v) for v in x])
    assert (np.abs(ours - np.exp(x.astype(np.longdouble))) / np.spacing(np.exp(x))).max() < 1.5
    assert np.isfinite([links.exp(v) for v in (-1e300, 1e300)]).all()


def rows(n, m, scale, seed):
    return scale * np.random.default_rng(seed).standard_normal((n, m))


def project(kernel, z, bound, count):
    z, moved = z.copy(), np.zeros(len(z))
    kernel(z, bound, count, moved)
    return z, moved


@pytest.mark.parametrize("m", [2, 3, 6])
def test_centred_box_projection_is_the_nearest_point(m):
    """min over y in the pinned box of ||C y - z||, by a generic bounded solver."""
    C = np.eye(m) - 1 / m
    count = np.full(8, m)
    z = rows(8, m, 3.0, m) @ C
    ours, moved = project(links.centred_box_rows, z, 1.2, count)
    for i in range(8):
        found = minimize(
            lambda y, i=i: ((np.append(y, 0.0) @ C - z[i]) ** 2).sum(), np.zeros(m - 1), bounds=[(-1.2, 1.2)] * (m - 1),
            options={"ftol": 1e-15, "gtol": 1e-12},
        )  # fmt: skip
        assert moved[i] == pytest.approx(found.fun, abs=1e-9)
        assert moved[i] == pytest.approx(((ours[i] - z[i]) ** 2).sum(), abs=1e-12)
        assert abs(ours[i].sum()) < 1e-12
        assert np.abs(ours[i] - ours[i, -1]).max() <= 1.2 + 1e-12
    again, still = project(links.centred_box_rows, ours, 1.2 + 1e-12, count)
    assert np.array_equal(again, ours)
    assert (still == 0).all()


@pytest.mark.parametrize("m", [1, 2, 3, 7])
def test_simplex_projection_satisfies_its_optimality_conditions(m):
    """v = max(z - t, 0) with sum 1: unique, and <z - v, w - v> <= 0 for every corner w of the simplex."""
    z = rows(50, m, 2.0, m)
    ours, moved = project(links.simplex_rows, z, 1.0, np.full(50, m))
    assert np.allclose(ours.sum(1), 1, atol=1e-12)
    assert ours.min() >= 0
    for v, point, d2 in zip(ours, z, moved, strict=True):
        assert max((point - v) @ (corner - v) for corner in np.eye(m)) <= 1e-10
        assert d2 == pytest.approx(((point - v) ** 2).sum())


def test_padding_is_left_out():
    count = np.array([2, 4])
    z = rows(2, 4, 1.0, 0)
    z[0, 2:] = 0.0
    p = z.copy()
    links.softmax_rows(p, count)
    assert np.allclose(p.sum(1), 1)
    assert (p[0, 2:] == 0).all()
    assert np.allclose(p[0, :2], np.exp(z[0, :2]) / np.exp(z[0, :2]).sum())


def lapse_rows(z, count):
    """With probability 0.2 the outcome is uniform, otherwise logit."""
    for i in range(z.shape[0]):
        total = 0.0
        for j in range(count[i]):
            z[i, j] = np.exp(z[i, j])
            total += z[i, j]
        for j in range(count[i]):
            z[i, j] = 0.8 * z[i, j] / total + 0.2 / count[i]
        for j in range(count[i], z.shape[1]):
            z[i, j] = 0.0


def lapse_link():
    """Phi(y) = 0.8 lse(y) + 0.2 mean(y): a link that is neither of the two, strongly convex once pinned."""
    return nr.Link(
        gradient=lapse_rows,
        alpha=lambda m, bound: 0.8 * nr.theory.constants.logit_alpha_pinned(m, bound),
        beta=0.8 * 0.5,
        coordinates="pinned",
        l1=0.8 * nr.theory.constants.LOGIT_L1,
        name="lapse",
    )


def test_own_link_from_end_to_end():
    """World, exact planning, GLM-ORL with its confidence set (Theorem B), saving, and the sets hold at delta = 0.3.

    If the guarantee were exactly tight, 20 runs would have more than 15 failures with probability below 1e-4."""
    base = nr.worlds.random_logit(3, 2, 3, 2, weight_bound=0.5, seed=1)
    q = base.problem
    problem = nr.Problem(3, 2, 3, 2, lapse_link(), weight_bound=0.5, reward_bound=q.reward_bound)
    world = nr.World(problem, base.weights, base.reward_weights, base.contexts)
    x = world.context(0, 0)
    assert np.allclose(world.transitions(x), 0.8 * base.transitions(x) + 0.2 / 3, atol=1e-12)
    run = nr.simulate(nr.GLMORL(problem, delta=0.3), world, 2000, seeds=20, every=100, diagnostics=True)
    assert (run.diagnostics["justified_failures"][:, -1] == 0).all()
    assert (run.diagnostics["set_failures"][:, -1] > 0).sum() <= 15
    assert (run.diagnostics["worst_ratio"][:, -1] > 0).all()
    uniform = nr.simulate(nr.UniformRandom(problem), world, 2000, seeds=4, every=2000)
    greedy = nr.simulate(nr.GLMORL(problem, bonus_scale=0.05), world, 2000, seeds=4, every=2000)
    assert greedy.final.max() < 0.5 * uniform.final.min()


def test_own_link_is_asked_for_again_when_loading(tmp_path):
    problem = nr.Problem(3, 2, 3, 2, lapse_link(), weight_bound=1.0, reward_bound=1.0)
    nr.GLMORL(problem).save(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"link must be given.*lapse"):
        nr.load(tmp_path / "a.npz")
    assert nr.load(tmp_path / "a.npz", link=lapse_link()).problem.link.name == "lapse"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -1.0, "beta": 1.0}, "alpha must be a positive number"),
        ({"alpha": 1.0, "beta": 0.0}, "beta must be a positive number"),
        ({"alpha": 1.0, "beta": 1.0, "coordinates": "polar"}, "coordinates must be"),
    ],
)
def test_bad_link(options, message):
    with pytest.raises(ValueError, match=message):
        nr.Link(gradient=lapse_rows, **options)
