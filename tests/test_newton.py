"""The online Newton estimator: linear algebra over long runs, projections, special cases that are known exactly."""

import numpy as np
import pytest
from scipy.optimize import minimize

import noregret as nr
from noregret.agents.glm.diagnostics import ratio
from noregret.beliefs import point as beliefs
from noregret.estimators.newton.online_newton import newton_parts, newton_step
from noregret.estimators.rewards.forms import reward_parts
from noregret.estimators.rewards.regression import ridge_step
from noregret.numerics.linear_algebra import project_on_ball, rank_one, refresh_inverse
from noregret.theory import widths


def contexts(n, d, seed, radius=1.0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return radius * x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.long
@pytest.mark.deep
def test_a_million_updates_stay_within_1e8_of_a_direct_solve():
    """Both Gram matrices, ill-conditioned contexts (one direction is rare), a million updates of one pair."""
    link, d, n = nr.MultinomialLogit(), 4, 1_000_000
    count = np.full((1, 1), 3)
    par, state, work = newton_parts(link, count, d, 2.0, 1.0, "corrected", 1.0)
    rewards = reward_parts(nr.Problem(1, 1, 1, d, weight_bound=1.0, reward_bound=1.0), "ridge")
    ridge = rewards[1]
    g = np.random.default_rng(0)
    X = contexts(n, d, 1)
    X[:, -1] *= 1e-3
    y, r = g.integers(0, 3, n), g.random(n)
    norms = np.linalg.norm(X, axis=1)
    feed(par, state, work, *rewards, count[0], X, y, r, norms)
    alpha = np.array([nr.theory.constants.logit_alpha_centred(3, 2.0 * m) for m in norms])
    Z = np.eye(d) + (1.75 * alpha * X.T) @ X
    V = np.eye(d) + X.T @ X
    for ours, logdet, direct in ((state, state.logdet, Z), (ridge, ridge.logdet, V)):
        inverse = np.linalg.inv(direct)
        assert np.abs(ours.inverse[0, 0] - inverse).max() / np.abs(inverse).max() < 1e-8
        assert logdet[0, 0] == pytest.approx(np.linalg.slogdet(direct)[1], rel=1e-8)
    assert np.allclose(ridge.theta[0, 0], np.linalg.solve(V, X.T @ r), rtol=1e-8)
    assert state.samples[0, 0] == n


@nr.kernel
def feed(par, state, work, reward_par, ridge, reward_work, count, X, y, r, norms):
    for i in range(X.shape[0]):
        newton_step(par, state, work, count, (0, 0), y[i], X[i], norms[i])
        ridge_step(reward_par, ridge, reward_work, 0, 0, r[i], X[i])


def test_ball_projection_is_the_nearest_point_in_the_gram_norm():
    """Against a generic constrained solver, and by the optimality condition Z (v - w) parallel to -v."""
    g = np.random.default_rng(0)
    for d in (1, 2, 5):
        for _ in range(20):
            root = g.standard_normal((d, d))
            Z = root @ root.T + 0.05 * np.eye(d)
            w = 3 * g.standard_normal(d)
            w *= max(1.0, 1.2 / np.linalg.norm(w))
            v = w.copy()
            project_on_ball(Z, 1.0, v, np.zeros((d, d)), np.zeros(d), np.zeros(d))
            assert np.linalg.norm(v) == pytest.approx(1.0, abs=1e-12)
            pull = Z @ (w - v)
            mu = pull @ v
            assert mu >= 0
            assert np.allclose(pull, mu * v, atol=1e-8 * np.linalg.norm(pull))
    found = minimize(
        lambda u: (u - w) @ Z @ (u - w), w / np.linalg.norm(w), method="SLSQP",
        constraints={"type": "ineq", "fun": lambda u: 1 - u @ u}, options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    assert (v - w) @ Z @ (v - w) <= found.fun + 1e-8


def test_rank_one_and_refresh_against_numpy():
    g = np.random.default_rng(1)
    Z, logdet = 2 * np.eye(3), np.zeros(1)
    inverse = np.linalg.inv(Z)
    for _ in range(30):
        x = g.standard_normal(3)
        rank_one(Z, inverse, logdet, x, inverse @ x, x @ inverse @ x, 0.7)
    assert np.allclose(inverse @ Z, np.eye(3), atol=1e-10)
    assert logdet[0] == pytest.approx(np.linalg.slogdet(Z / 2)[1])
    inverse[:] = 0
    refresh_inverse(Z, inverse, logdet, 3 * np.log(2), np.zeros((3, 3)), np.zeros(3))
    assert np.allclose(inverse, np.linalg.inv(Z), atol=1e-12)
    assert logdet[0] == pytest.approx(np.linalg.slogdet(Z / 2)[1])


DATA = [2, 1, 1, 0, 0, 0, 0, 0, 0, 2]


def estimate(kappa, regularization, start):
    """The library's online Newton step for the linear link with d = 1, x = 1, three outcomes, and a chosen kappa."""
    count = np.full((1, 1), 3)
    par, state, work = newton_parts(nr.LinearCombination(), count, 1, 1.0, 1.0, "corrected", regularization)
    par = par._replace(kappa=np.full((1, 1), kappa))
    state.weights[:] = start
    for y in DATA:
        newton_step(par, state, work, count[0], (0, 0), y, np.ones(1), 1.0)
    return state.weights[0, 0, :, 0]


@pytest.mark.long
def test_one_dimension_gives_the_tabular_counts():
    """theory: kappa = alpha (c = 1) with lambda -> 0 gives the empirical distribution, with lambda > 0 and W_1 = 1/S
    additive smoothing; kappa = alpha/2, as printed, weighs the last samples most: [.733, .067, .2]."""
    counts = np.bincount(DATA, minlength=3)
    assert np.allclose(estimate(1.0, 1.5e-6, 1 / 3), counts / 10, atol=1e-6)
    assert np.allclose(estimate(1.0, 1.0, 1 / 3), (counts + 1 / 3) / 11, atol=1e-12)
    paper = nr.estimators.OnlineNewton(
        nr.LinearCombination(), 3, 1, weight_bound=100.0, constants="paper", regularization=1e-6
    )
    for y in DATA:
        paper.update([1.0], y)
    assert np.allclose(paper.weights[:, 0], [0.733, 0.067, 0.2], atol=5e-4)
    assert np.abs(paper.weights[:, 0] - counts / 10).max() > 0.1  # the printed claim: "the empirical average"


def test_zero_context_teaches_nothing():
    est = nr.estimators.OnlineNewton(nr.MultinomialLogit(), 3, 2, 1.0)
    est.update([0.0, 0.0], 1)
    assert np.array_equal(est.weights, np.zeros((3, 2)))
    assert np.allclose(est.probabilities([0.0, 0.0]), 1 / 3)


def test_recommended_regularization_is_used_and_can_be_overridden():
    auto = nr.estimators.OnlineNewton(nr.MultinomialLogit(), 5, 4, weight_bound=1.0)
    kappa = 1.75 * nr.theory.constants.logit_alpha_centred(5, 1.0)
    assert auto.gram[0, 0] == pytest.approx(2 * 4 / (kappa * 4))
    assert nr.estimators.OnlineNewton(nr.MultinomialLogit(), 5, 4, 1.0, regularization=2.0).gram[0, 0] == 2.0


def test_two_outcomes_centred_have_half_the_norm():
    link = nr.MultinomialLogit()
    assert link.weight_norm2(2, 3.0, 1, "corrected") == pytest.approx(4.5)
    assert link.weight_norm2(2, 3.0, 1, "paper") == pytest.approx(9.0)
    w = np.array([[3.0], [0.0]])
    assert ((w - w.mean(0)) ** 2).sum() == pytest.approx(4.5)


@pytest.mark.long
@pytest.mark.deep
def test_width_shrinks_with_data_and_covers_the_error():
    link, d, m = nr.MultinomialLogit(), 2, 3
    g = np.random.default_rng(3)
    W = np.array([[0.6, -0.3], [-0.2, 0.7], [0.0, 0.0]])
    est = nr.estimators.OnlineNewton(link, m, d, weight_bound=1.0)
    x = contexts(1, d, 9)[0]
    start = est.l1_width(x)
    for u in contexts(40_000, d, 4):
        p = np.exp(W @ u)
        est.update(u, int(g.choice(m, p=p / p.sum())))
    true = np.exp(W @ x) / np.exp(W @ x).sum()
    assert np.abs(est.probabilities(x) - true).sum() <= est.l1_width(x) < start / 3


def test_prior_caps_kernel_against_the_formula():
    """Rows with 1 to 7 outcomes mixed, near uniform and near the corners, small and large bounds."""
    g = np.random.default_rng(4)
    for bound in (0.0, 0.3, 1.0, 3.0):
        count = g.integers(1, 8, 300)
        p = np.zeros((300, 7))
        for i, m in enumerate(count):
            p[i, :m] = g.dirichlet(np.full(m, g.choice([0.1, 1.0, 30.0])))
        width = np.full(300, 2.0)
        beliefs.prior_caps(p, count, np.exp(bound), np.zeros((4, 8)), np.zeros(7), width)
        expected = [widths.logit_prior_cap(row[:m], bound) for row, m in zip(p, count, strict=True)]
        assert np.allclose(width, np.minimum(2.0, expected), atol=1e-12)
        narrow = np.full(300, 0.01)
        beliefs.prior_caps(p, count, np.exp(bound), np.zeros((4, 8)), np.zeros(7), narrow)
        assert np.allclose(narrow, np.minimum(0.01, expected), atol=1e-12)


@pytest.mark.parametrize("kind", ["logit", "linear"])
def test_diagnostics_against_numpy(kind):
    """The distance to the truth in the norm of Z, centred for the logit, over the radius, for every pair."""
    world = (
        nr.worlds.random_logit(3, 2, 4, 2, seed=3) if kind == "logit" else nr.worlds.random_linear(3, 2, 4, 2, seed=3)
    )
    agent = nr.GLMORL(world.problem, delta=0.1)
    for k in range(50):
        someone = world.individual(k)
        agent.begin_episode(someone.context)
        while someone.steps < 4:
            agent.observe(*someone.step(agent.act(someone.state)))
        agent.end_episode()
    newton, log = agent.state.transitions, agent.par.log_confidence
    for s, a in np.ndindex(3, 2):
        target = world.weights[s, a] - (world.weights[s, a].mean(0) if kind == "logit" else 0.0)
        e = newton.weights[s, a] - target
        radius = newton.radius[s, a] + agent.par.transitions.log_weight[s, a] * log
        expected = np.einsum("jb,bc,jc->", e, newton.gram[s, a], e) / radius
        assert ratio(agent.par.transitions, newton, world.truth(0), s, a, log) == pytest.approx(expected, rel=1e-9)
