"""Confidence sets from online learners: against batch recomputation, against generic solvers, in coverage experiments.

The batch recomputation is `reference.Conversion`: it keeps the history and solves afresh. The iterate of the "sparse"
learner comes from the library (an inexact solver has no second implementation); everything made from it does not.
"""

import functools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

import noregret as nr
import reference
from live import follow, saved_and_continued
from noregret.estimators.newton.group_ball import group_descent, project_on_group_ball
from test_agreement import LINKS, assert_close, assert_state_agrees
from test_agreement import world as plain_world

pytestmark = pytest.mark.deep

DELTA = 0.3
LEARNERS = ["ons", "ftrl", "sparse"]


class Follow:
    """The iterate of a library's estimator, for the reference: `est` must be fed through `update` only."""

    def __init__(self, est, start):
        self.est, self.start = est, start

    def point(self):
        return np.array(self.est._state.iterate[0, 0])

    def predict(self, x):
        return (self.point() + self.start) @ x

    def update(self, x, y):
        self.est.update(x, int(y))


# Whole runs ----------------------------------------------------------------------------------------------------------
@functools.cache
def world(name):
    """Worlds of test_agreement; "lengths": contexts of norm 0.1 to 1, so that the curvature varies."""
    if name != "lengths":
        return plain_world(name)
    w, g = plain_world("masked-logit"), np.random.default_rng(4)
    contexts = g.standard_normal((50, 3))
    contexts *= g.uniform(0.1, 1.0, (50, 1)) / np.linalg.norm(contexts, axis=1, keepdims=True)
    problem = nr.Problem(4, 3, 4, 3, weight_bound=1.5, rewards="logistic", reward_bound=1.5)
    return nr.World(problem, 0.7 * w.weights, w.reward_weights, contexts, [0.2, 0.5, 0.0, 0.3])


def assert_runs_agree(name, kind, seed, episodes=40, reference_options=None, **options):
    """Regret to 1e-9; then live: every plan, and everything the agent has learnt."""
    w, options = world(name), {"confidence": "conversion", **options}
    wanted = reference.run(w, kind, episodes, seed, **(options | (reference_options or {})))
    run = nr.simulate(nr.make_agent(kind, w.problem, **options), w, episodes, seeds=[seed])
    assert np.all(np.abs(run.regret[0] - wanted.regret) < 1e-9)
    agent = nr.make_agent(kind, w.problem, seed=seed, **options)
    for k in range(episodes):
        person = w.individual(k, seed)
        plan = agent.begin_episode(person.context)
        assert np.array_equal(plan.policy, wanted.policies[k])
        assert_close(plan.values, wanted.values[k])
        for _ in range(w.problem.horizon):
            agent.observe(*person.step(agent.act(person.state)))
        agent.end_episode()
    assert_state_agrees(agent, wanted.learner)
    state = agent.state.transitions
    for pair, newton in wanted.learner.newton.items():
        assert_close(state.moment[pair][: newton.m], newton.moment)
        if options.get("learner", "ons") == "ons":
            assert_close(state.iterate[pair][: newton.m], newton.iterate)
        if newton.samples:
            assert_close(state.slope[pair][: newton.m], newton.quadratic(np.zeros((newton.m, newton.d)))[1])
    return wanted.learner


NAMES = ["logit", "linear", "lengths", "masked-logit", "certain-logit", "certain-linear"]


@pytest.mark.study(first=6)
@pytest.mark.parametrize("learner", ["ons", "ftrl"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["glm-orl", "glm-rlsvi"])
def test_runs(name, kind, learner):
    """Both agents, links, masks, random starts; sets that are wide and sets whose widths are scaled down."""
    assert_runs_agree(name, kind, 3, learner=learner, bonus_scale=0.05)
    if kind == "glm-orl" and learner == "ons":
        assert_runs_agree(name, kind, 0, 20)


@pytest.mark.parametrize("learner", ["ons", "ftrl"])
@pytest.mark.parametrize("name", ["odd", "masked-linear", "lengths"])
def test_options(name, learner):
    """A group bound, little regularization: predictions leave their region and are projected."""
    made = assert_runs_agree(
        name, "glm-orl", 2**40 + 7, 60, learner=learner, bonus_scale=0.1, delta=0.3, regularization=0.02,
        reward_regularization=2.5, group_bound=0.8,
    )  # fmt: skip
    assert sum(newton.projections for newton in made.newton.values()) > 10


@pytest.mark.parametrize("name", ["logit", "masked-linear", "lengths"])
@pytest.mark.parametrize("kind", ["glm-orl", "glm-rlsvi"])
def test_sparse_runs(name, kind):
    """The reference asks a standalone estimator for each pair's iterate, and computes the rest."""
    p = world(name).problem

    def follow(pair):
        est = nr.estimators.Conversion(
            p.link, pair.m, p.context_dim, p.weight_bound, p.context_bound, learner="sparse", group_bound=1.3,
            regularization=pair.lam,
        )  # fmt: skip
        return Follow(est, pair.start)

    assert_runs_agree(
        name, kind, 3, 30, {"learner": follow}, learner="sparse", group_bound=1.3, bonus_scale=0.05,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["logit", "linear"])
def test_runs_are_not_all_ties(name):
    made = reference.run(world(name), "glm-orl", 40, 3, confidence="conversion", bonus_scale=0.05).learner
    assert made.decisions > 400
    assert made.ties < 0.6 * made.decisions


@pytest.mark.parametrize("name", ["logit", "linear"])
def test_unseen_rewards_and_short_episodes(name):
    w, options = world(name), {"confidence": "conversion", "bonus_scale": 0.05}
    agent, learner = nr.GLMORL(w.problem, **options), reference.Learner(w.problem, "glm-orl", **options)
    follow(agent, learner, w, 40, assert_close)
    assert_state_agrees(agent, learner)


# One pair against the batch recomputation ----------------------------------------------------------------------------
class Stubborn:
    """A learner of the user's that exaggerates the last outcomes, so that its predictions are often impossible."""

    def __init__(self, m, shift=0.0):
        self.z, self.shift = np.zeros(m), shift

    def predict(self, x):
        return (self.z - self.z.mean()) * x.sum() + self.shift

    def update(self, x, outcome):
        self.z = 0.5 * self.z + 1.5 * (np.arange(len(self.z)) == outcome)


class Fractions:
    """For the linear link: outcome frequencies so far, sometimes outside the simplex."""

    def __init__(self, m):
        self.count, self.n = np.full(m, 0.5), 0

    def predict(self, x):
        return self.count / self.count.sum() + (0.2 * np.sin(np.arange(len(self.count))) if self.n % 3 == 0 else 0.0)

    def update(self, x, outcome):
        self.count[outcome] += 1
        self.n += 1


def truth(kind, m, d, bound, g, relevant=None):
    """W* within the bounds; only some columns differ from W_1, if asked."""
    if kind == "linear":
        W = g.dirichlet(np.full(m, 0.5), d).T
        if relevant is not None:
            W[:, relevant:] = 1 / m
        return W
    W = g.standard_normal((m, d))
    if relevant is not None:
        W[:, relevant:] = 0.0
    W *= bound / np.linalg.norm(W, axis=1, keepdims=True)
    W[-1] = 0.0
    return W


def shifted(kind, W):
    """W* - W_1 in the estimator's coordinates."""
    return W - W.mean(0) if kind == "logit" else W - 1 / len(W)


def probabilities(kind, W, x):
    return W @ x if kind == "linear" else reference.softmax(W @ x)


def draw(p, g):
    return min(int(np.searchsorted(np.cumsum(p), g.random(), side="right")), len(p) - 1)


def some_context(kind, d, g):
    """In the simplex; or in the ball, of any length."""
    if kind == "linear":
        return g.dirichlet(np.full(d, 0.5))
    x = g.standard_normal(d)
    return x * g.uniform(0.05, 1.0) / np.linalg.norm(x)


def pair_of(kind, m, d, bound, learner, group=None, lam=None, **options):
    """The library's estimator, and the reference which follows it where it cannot know the iterate."""

    def made(given):
        return nr.estimators.Conversion(
            LINKS[kind](), m, d, bound, 1.0, 0.1, learner=given, group_bound=group, regularization=lam, **options
        )  # fmt: skip

    own = {"logit": Stubborn, "linear": Fractions}[kind]
    est = made(own(m) if learner == "given" else learner)
    wanted = reference.Conversion(kind, m, d, bound, 1.0, lam, learner, group)
    if learner == "given":
        wanted.learner = own(m)
    elif learner == "sparse":
        wanted.learner = Follow(made("sparse"), wanted.start)
    return est, wanted


def assert_same(est, wanted, X):
    log = math.log(1 / 0.1)
    assert est.samples == wanted.samples
    assert_close(est.weights, wanted.W)
    assert_close(est.gram, wanted.Z)
    assert_close(est.inverse, np.linalg.inv(wanted.Z))
    assert_close(est.logdet, wanted.logdet)
    assert_close(est.regret_bound, wanted.regret_bound())
    assert_close(est.radius, wanted.radius(log))
    for x in X:
        assert_close(est.probabilities(x), wanted.probabilities(x))
        assert_close(est.l1_width(x), wanted.l1_width(x, log))


@pytest.mark.study(first=3)
@pytest.mark.parametrize("learner", ["ons", "ftrl", "sparse", "given"])
@pytest.mark.parametrize(("kind", "m", "d", "bound", "lam", "group"), [
    ("logit", 4, 3, 2.0, None, None),
    ("logit", 3, 2, 0.3, 0.05, None),  # small bound, little regularization: impossible predictions
    ("logit", 2, 4, 1.0, None, 0.7),
    ("logit", 5, 1, 0.6, 0.01, None),
    ("logit", 6, 3, 1.0, None, 1.5),
    ("linear", 4, 3, None, None, None),
    ("linear", 3, 4, None, 0.02, 1.1),
    ("linear", 2, 2, None, None, 0.5),
])  # fmt: skip
def test_against_batch_recomputation(kind, m, d, bound, lam, group, learner):
    """After 0, 1, 10, 300 and (two of the settings) 2500 observations."""
    if learner == "sparse" and group is None:
        group = 1.2
    bound = math.sqrt(d) if bound is None else bound
    est, wanted = pair_of(kind, m, d, bound, learner, group, lam)
    g = np.random.default_rng([m, d])
    W = truth(kind, m, d, bound, g)
    assert_same(est, wanted, [some_context(kind, d, g)])
    for t in range(1, (2500 if (kind, m) in (("logit", 4), ("linear", 3)) else 300) + 1):
        x = some_context(kind, d, g)
        y = draw(probabilities(kind, W, x), g)
        if t % 50 == 1 and learner != "given":
            assert_close(est._prediction(x), wanted.predict(x)[0])
        est.update(x, y)
        wanted.update(x, y)
        if t in (1, 2, 10, 40, 300, 2500):
            assert_same(est, wanted, [some_context(kind, d, g) for _ in range(3)])
    if (lam is not None and learner != "sparse") or learner == "given":
        assert wanted.projections > 10


def test_the_context_zero_and_one_outcome():
    for learner in ("ons", "ftrl", "given"):
        est, wanted = pair_of("logit", 3, 2, 1.0, learner)
        for x, y in (([0.0, 0.0], 1), ([0.6, 0.8], 2), ([0.0, 0.0], 0)):
            est.update(x, y)
            wanted.update(np.array(x), y)
            assert_same(est, wanted, [np.zeros(2), np.array([0.3, 0.1])])
        est, wanted = pair_of("logit", 1, 2, 1.0, learner, lam=1.0)
        est.update([0.6, 0.8], 0)
        wanted.update(np.array([0.6, 0.8]), 0)
        assert_same(est, wanted, [])
        assert est.probabilities([0.6, 0.8]) == [1.0]


@pytest.mark.parametrize("x", [[0.0, 0.0], [0.6, 0.8]])
def test_a_constant_added_to_a_users_predictions_changes_nothing(x):
    """The logit does not change, so neither may the set: a learner that predicts (0.3, 0.3, 0.3) predicts uniformly."""
    est = nr.estimators.Conversion(nr.MultinomialLogit(), 3, 2, weight_bound=1.0, learner=Stubborn(3, shift=0.3))
    same = nr.estimators.Conversion(nr.MultinomialLogit(), 3, 2, weight_bound=1.0, learner=Stubborn(3))
    for y in (1, 0, 1):
        est.update(x, y)
        same.update(x, y)
    assert_close(est.regret_bound, same.regret_bound)
    assert_close(est.radius, same.radius)
    assert_close(est.weights, same.weights)


def test_exact_hindsight_needs_a_link_whose_losses_are_known():
    link = nr.Link(lambda z, count: None, alpha=1.0, beta=1.0)
    with pytest.raises(ValueError, match='hindsight must be "quadratic"'):
        nr.estimators.Conversion(link, 3, 2, 1.0, hindsight="exact")
    with pytest.raises(ValueError, match="learner must be one of"):
        nr.estimators.Conversion(nr.MultinomialLogit(), 3, 2, weight_bound=1.0, learner=Spike)
    with pytest.raises(ValueError, match="group_bound must be a positive number, got '2'"):
        nr.estimators.Conversion(nr.MultinomialLogit(), 3, 2, weight_bound=1.0, group_bound="2")


def test_absurd_predictions_of_a_user_do_no_harm():
    est = nr.estimators.Conversion(nr.MultinomialLogit(), 3, 2, weight_bound=1.0, learner=Stubborn(3, shift=1e300))
    wild = nr.estimators.Conversion(nr.MultinomialLogit(), 3, 2, weight_bound=1.0, learner=Spike())
    for y in (1, 0, 1):
        est.update([0.6, 0.8], y)
        wild.update([0.6, 0.8], y)
        assert np.isfinite([est.radius, wild.radius, wild.regret_bound]).all()
        assert np.allclose(wild.weights.sum(0), 0.0, atol=1e-9)


class Spike:
    def predict(self, x):
        return [1e300, 0.0, 0.0]

    def update(self, x, outcome):
        pass


@pytest.mark.parametrize("kind", ["logit", "linear"])
def test_follow_the_leader_is_online_newton_where_nothing_is_projected(kind):
    """W_{t+1} Z_{t+1} = W_t Z_t + (alpha u' - a) x' = -N_{t+1} as long as u' = W_t x."""
    g = np.random.default_rng(6)
    est, wanted = pair_of(kind, 3, 2, 3.0 if kind == "logit" else math.sqrt(2), "ons", lam=400.0)
    other, _ = pair_of(kind, 3, 2, 3.0 if kind == "logit" else math.sqrt(2), "ftrl", lam=400.0)
    for _ in range(60):
        x, y = some_context(kind, 2, g), int(g.integers(3))
        for one in (est, other, wanted):
            one.update(x, y)
    assert wanted.projections == 0
    assert_close(est._state.iterate, other._state.iterate)
    assert_close(est.radius, other.radius)


@pytest.mark.parametrize("kind", ["logit", "linear"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_the_identity_behind_the_set(kind, learner):
    """For EVERY W: sum alpha_i ||W x_i - u_i||^2 + lambda ||W - W_1||^2 - (n - <U Z^-1, U>) = ||W - centre||_Z^2, with
    the predictions the library made and the centre and Gram matrix it keeps."""
    m, d, g = 4, 3, np.random.default_rng(1)
    est, wanted = pair_of(kind, m, d, math.sqrt(3), learner, group=1.2)
    predictions = []
    for _ in range(120):
        x = some_context(kind, d, g)
        y = int(g.integers(m))
        predictions.append(est._prediction(x))
        est.update(x, y)
        wanted.update(x, y)
    X, _, _, alpha = wanted.columns()
    u, start = np.array(predictions), wanted.start
    shift = u - X @ start.T
    U = (alpha * shift).T @ X
    rest = np.sum(alpha * shift**2) - np.sum((U @ est.inverse) * U)
    assert_close(rest, wanted.residual())
    for scale in (0.0, 0.1, 1.0, 30.0):
        for _ in range(10):
            W = scale * g.standard_normal((m, d))
            fit = np.sum(alpha * (X @ W.T - u) ** 2) + wanted.lam * np.sum((W - start) ** 2)
            e = W - est.weights
            np.testing.assert_allclose(fit - rest, np.sum((e @ est.gram) * e), rtol=1e-9, atol=1e-9)


# The regret bound ----------------------------------------------------------------------------------------------------
def play(kind, m, d, learner, run, steps, relevant=None, check_every=1, **options):
    """A run against a W* in K: yields the estimator, the learner's loss less that of W*, and the data, at every t."""
    g = np.random.default_rng([run, m, d])
    bound = 1.5 if kind == "logit" else math.sqrt(d)
    W = truth(kind, m, d, bound, g, relevant)
    group = np.linalg.norm(shifted(kind, W), axis=0).sum() if learner == "sparse" else None
    est = nr.estimators.Conversion(
        LINKS[kind](), m, d, bound, delta=DELTA, learner=learner, group_bound=group, **options
    )  # fmt: skip
    model = reference.Conversion(kind, m, d, bound, 1.0, 1.0)
    total, data = 0.0, []
    for t in range(steps):
        x = some_context(kind, d, g) if run % 2 else np.eye(d)[t % d]
        y = draw(probabilities(kind, W, x), g) if run % 5 else int(g.integers(m))  # the bound asks nothing of outcomes
        u = est._prediction(x)
        est.update(x, y)
        total += model.loss(u, y) - model.loss(W @ x, y)
        data.append((x, u, y))
        if t % check_every == 0:
            yield est, total, data


@pytest.mark.study(first=4)
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(("kind", "m", "d"), [("logit", 3, 2), ("logit", 5, 4), ("linear", 4, 3), ("linear", 2, 2)])
def test_regret_is_below_its_bound(kind, m, d, learner):
    """sum l_i(u_i) - l_i(W*) <= B_t at every t of 50 runs: an inequality without chance, whatever the outcomes."""
    closest = math.inf
    for run in range(50):
        for est, regret, _ in play(kind, m, d, learner, run, 80):
            bound = est.regret_bound
            assert regret <= bound + 1e-9 * (1 + abs(bound))
            closest = min(closest, bound - regret)
    assert closest < 2.0  # and not by miles


def lapse(z, count):
    """A logit whose outcome is uniform with probability 0.2: Phi(z) = 0.8 lse(z) + 0.2 mean(z)."""
    for i in range(z.shape[0]):
        total = 0.0
        for j in range(count[i]):
            z[i, j] = np.exp(z[i, j])
            total += z[i, j]
        for j in range(count[i]):
            z[i, j] = 0.8 * z[i, j] / total + 0.2 / count[i]
        for j in range(count[i], z.shape[1]):
            z[i, j] = 0.0


@pytest.mark.parametrize("coordinates", ["pinned", "free"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_custom_links(coordinates, learner):
    """The constants of any link, in pinned and free coordinates: Z, centre and radius recomputed from the predictions
    and B_t, and B_t against the regret."""
    m, d, g = 3, 2, np.random.default_rng(12)
    if coordinates == "pinned":
        alpha = 0.8 * nr.theory.constants.logit_alpha_pinned(m, 1.0)
        link = nr.Link(lapse, alpha, 0.4, coordinates="pinned", name="lapse")
    else:
        alpha = 0.3
        link = nr.Link(tilt, alpha, 0.3, coordinates="free", name="tilt")
    W = g.standard_normal((m, d))
    W *= 0.7 / np.linalg.norm(W, axis=1, keepdims=True)
    W = W - W[-1] if coordinates == "pinned" else (W - W.mean(0)) * 0.7
    W /= max(1.0, np.linalg.norm(W, axis=1).max())
    est = nr.estimators.Conversion(link, m, d, 1.0, delta=DELTA, learner=learner, group_bound=group_norm(W) + 0.1)

    def phi(z):
        return 0.8 * np.logaddexp.reduce(z) + 0.2 * z.mean() if coordinates == "pinned" else 0.15 * z @ z + z.mean()

    lam, regret = est.gram[0, 0], 0.0
    Z, U, n = lam * np.eye(d), np.zeros((m, d)), 0.0
    for _ in range(100):
        x = some_context("logit", d, g)
        p = (W @ x)[None]
        link.gradient(p, np.array([m]))
        y, u = draw(p[0], g), est._prediction(x)
        est.update(x, y)
        regret += phi(u) - u[y] - phi(W @ x) + (W @ x)[y]
        assert regret <= est.regret_bound + 1e-9
        Z += alpha * np.outer(x, x)
        U += alpha * np.outer(u, x)
        n += alpha * u @ u
        assert_close(est.gram, Z)
        assert_close(est.weights, np.linalg.solve(Z, U.T).T)
        norm2 = min((m - 1 if coordinates == "pinned" else m) * 1.0, (group_norm(W) + 0.1) ** 2)
        wanted = 4 * est.regret_bound + 4 / alpha * math.log(1 / DELTA) + lam * norm2 - n
        assert_close(est.radius, wanted + np.sum(np.linalg.solve(Z, U.T).T * U))
    if coordinates == "pinned":
        assert (est.weights[-1] == 0).all()


def tilt(z, count):
    """Phi(z) = 0.15 |z|^2 + mean(z): a distribution where z sums to 0, and strongly convex anyway."""
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            z[i, j] = 0.3 * z[i, j] + 1.0 / count[i] if j < count[i] else 0.0


def loss_of(kind, data):
    X, _, y = (np.array(column) for column in zip(*data, strict=True))

    def total(W):
        z = X @ W.T
        phi = np.logaddexp.reduce(z, axis=1) if kind == "logit" else 0.5 * np.sum(z * z, axis=1)
        p = np.exp(z - np.logaddexp.reduce(z, axis=1)[:, None]) if kind == "logit" else z
        slope = (p - np.eye(W.shape[0])[y]).T @ X
        return np.sum(phi - z[np.arange(len(y)), y]), slope

    return total


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(("kind", "m", "d"), [("logit", 3, 2), ("linear", 3, 3)])
def test_exact_hindsight(kind, m, d, learner):
    """B_t of hindsight="exact" is at most the quadratic one, at least the regret against W*, and at least the regret
    against the best weights of the ball as a generic solver finds them; in fact close to the latter."""
    for run in range(4):
        both = zip(
            play(kind, m, d, learner, run, 61, check_every=12),
            play(kind, m, d, learner, run, 61, check_every=12, hindsight="exact"),
            strict=True,
        )
        for (plain, regret, data), (exact, same, _) in both:
            assert abs(regret - same) < 1e-9  # what the learner does, does not depend on hindsight
            bound = exact.regret_bound
            assert bound <= plain.regret_bound + 1e-9
            assert exact.radius <= plain.radius + 1e-9
            assert regret <= bound + 1e-9
            model = reference.Conversion(kind, m, d, 1.5 if kind == "logit" else math.sqrt(d), 1.0, 1.0)
            learned = sum(model.loss(u, y) for _, u, y in data)
            best = best_loss(kind, data, model, exact, learner)
            assert learned - best <= bound + 1e-6
            assert bound <= learned - best + 0.02


def best_loss(kind, data, model, est, learner):
    """min of the total loss over K by SLSQP, from several starts."""
    total, m, d = loss_of(kind, data), model.m, model.d
    radius2 = model.weight_norm2
    constraints = [{
        "type": "ineq",
        "fun": lambda v: radius2 - v @ v,
        "jac": lambda v: -2 * v,
    }]  # fmt: skip
    if learner == "sparse":
        group = est._par.group_bound
        constraints.append({
            "type": "ineq",
            "fun": lambda v: group - np.sqrt((v.reshape(m, d) ** 2).sum(0) + 1e-16).sum(),
        })  # fmt: skip

    def objective(v):
        value, slope = total(model.start + v.reshape(m, d))
        return value, slope.ravel()

    found = minimize(
        objective, np.full(m * d, 1e-3), jac=True, method="SLSQP", constraints=constraints,
        options={"ftol": 1e-11, "maxiter": 400},
    )  # fmt: skip
    v = found.x
    assert v @ v <= radius2 * (1 + 1e-6)
    return found.fun


# The (2,1)-ball ------------------------------------------------------------------------------------------------------
def group_norm(W):
    return np.linalg.norm(W, axis=0).sum()


def project_group_slowly(W, bound):
    """Column norms max(norm - t, 0) with t by bisection so that they sum to the bound."""
    norms = np.linalg.norm(W, axis=0)
    if norms.sum() <= bound:
        return W
    t = reference.bisect(lambda t: bound - np.maximum(norms - t, 0).sum(), 0.0, norms.max())
    return W * (np.maximum(norms - t, 0) / np.maximum(norms, 1e-300))


@pytest.mark.parametrize(("m", "d"), [(1, 1), (3, 1), (1, 4), (4, 3), (2, 20), (5, 7)])
def test_projection_on_the_group_ball_is_the_nearest_point(m, d):
    """Against bisection; by the variational inequality <W - P, V - P> <= 0, whose maximum over the ball's V is
    bound max_j ||(W - P)_j|| - <W - P, P>; a point inside stays."""
    g = np.random.default_rng([m, d])
    for scale in (0.01, 0.3, 1.0, 10.0, 1e6):
        for _ in range(10):
            W = scale * g.standard_normal((m, d)) * (g.random(d) ** 3)
            bound = g.uniform(0.05, 2.0)
            P = W.copy()
            project_on_group_ball(P, bound, np.zeros(d))
            assert_close(P / scale, project_group_slowly(W, bound) / scale)
            if group_norm(W) <= bound:
                assert np.array_equal(P, W)
                continue
            assert abs(group_norm(P) - bound) <= 1e-12 * bound + 1e-14 * group_norm(W)
            left = W - P
            gap = bound * np.linalg.norm(left, axis=0).max() - np.sum(left * P)
            assert abs(gap) <= np.linalg.norm(left) * (1e-12 * bound + 1e-14 * group_norm(W))


@pytest.mark.long
def test_projection_on_the_group_ball_against_a_generic_solver():
    g = np.random.default_rng(2)
    for _ in range(8):
        W, bound = g.standard_normal((3, 4)), g.uniform(0.3, 2.0)
        P = W.copy()
        project_on_group_ball(P, bound, np.zeros(4))
        found = minimize(
            lambda v, W=W: np.sum((v - W.ravel()) ** 2), 0.01 * W.ravel(), method="SLSQP",
            constraints={"type": "ineq", "fun": lambda v, b=bound: b - group_norm(v.reshape(3, 4))},
            options={"ftol": 1e-12, "maxiter": 500},
        )  # fmt: skip
        assert np.sum((P - W) ** 2) <= found.fun + 1e-6
        assert np.abs(P - found.x.reshape(3, 4)).max() < 2e-2
    for special in (np.zeros((2, 3)), np.ones((2, 3))):  # nothing to do; equal columns stay equal
        P = special.copy()
        project_on_group_ball(P, 1.0, np.zeros(3))
        assert_close(np.linalg.norm(P, axis=0), np.linalg.norm(special, axis=0).clip(max=1 / 3))


def descend(gram, lam, slope, bound, W, times=1):
    m, d = W.shape
    for _ in range(times):
        group_descent(gram, lam, slope, bound, W, np.zeros((m, d)), np.zeros((2, m, d)), np.zeros(d))


@pytest.mark.study(first=2)
@pytest.mark.parametrize(("m", "d", "rank"), [(2, 3, 3), (3, 5, 5), (3, 5, 2), (4, 2, 2), (1, 1, 1)])
def test_group_descent_reaches_the_constrained_minimum(m, d, rank):
    """q(W) = 1/2 <W, W G> + <slope, W> with G = gram - lambda I, also singular: every call gives a point of the ball
    that is no worse; many calls the minimum, by the Frank-Wolfe gap (a certificate) and by SLSQP."""
    g = np.random.default_rng([m, d, rank])
    for trial in range(6):
        X = g.standard_normal((rank + (10 if rank == d else 0), d))
        if rank < d:
            X = X[:rank]
        G, slope = X.T @ X, 3 * g.standard_normal((m, d))
        if rank < d:
            slope = slope @ np.linalg.pinv(X) @ X
        lam, bound = g.uniform(0.1, 5.0), (0.3, 1.0, 100.0)[trial % 3]
        gram = G + lam * np.eye(d)

        def q(W, G=G, slope=slope):
            return 0.5 * np.sum(W * (W @ G)) + np.sum(slope * W)

        W = np.zeros((m, d))
        value = q(W)
        for _ in range(5):
            descend(gram, lam, slope, bound, W)
            assert group_norm(W) <= bound * (1 + 1e-9)
            assert q(W) <= value + 1e-9 * (1 + abs(value))
            value = q(W)
        descend(gram, lam, slope, bound, W, 300)
        assert group_norm(W) <= bound * (1 + 1e-9)
        grad = W @ G + slope
        gap = np.sum(grad * W) + bound * np.linalg.norm(grad, axis=0).max()
        assert -1e-9 <= gap <= 1e-6 * (1 + abs(q(W)))
        found = minimize(
            lambda v, q=q: q(v.reshape(m, d)), np.full(m * d, 1e-3), method="SLSQP",
            constraints={"type": "ineq", "fun": lambda v, b=bound: b - group_norm(v.reshape(m, d))},
            options={"ftol": 1e-12, "maxiter": 500},
        )  # fmt: skip
        assert q(W) <= found.fun + 1e-5 * (1 + abs(found.fun))


@pytest.mark.parametrize("kind", ["logit", "linear"])
def test_the_sparse_learner_stays_in_its_ball_and_near_the_leader(kind):
    """Iterates lie in the (2,1)-ball, and after a while one observation's steps end close to the minimum of q there."""
    m, d, g = 3, 6, np.random.default_rng(3)
    est, wanted = pair_of(kind, m, d, 1.5 if kind == "logit" else math.sqrt(d), "sparse", group=1.0)
    for t in range(200):
        x = some_context(kind, d, g)
        y = draw(probabilities(kind, truth(kind, m, d, 1.5, np.random.default_rng(0), 2), x), g)
        est.update(x, y)
        wanted.update(x, y)
        V = np.array(est._state.iterate[0, 0])
        assert group_norm(V) <= 1.0 + 1e-9
        if t > 100:
            value, grad = wanted.quadratic(V)
            gap = np.sum(grad * V) + np.linalg.norm(grad, axis=0).max()
            assert -1e-9 <= gap < 0.5
            assert_close(est.regret_bound, gap - value)


# Coverage ------------------------------------------------------------------------------------------------------------
def allowed(runs):
    return int(stats.binom.isf(1e-6, runs, DELTA))


def next_context(how, kind, est, t, d, g):
    if how == "cycle":
        return np.eye(d)[t % d]
    if how == "widest":  # an adversary who sees the learner: the least explored direction
        if kind == "linear":
            return np.eye(d)[np.argmax(np.diag(est.inverse))]
        return np.linalg.eigh(est.inverse)[1][:, -1] * (-1) ** t
    return some_context(kind, d, g)


MUTANTS = (2.0, 4.0, 8.0, 16.0)


@functools.cache
def coverage(kind, m, d, learner, how, lam=None, runs=200, steps=60):
    """Runs in which ||W* - centre||_Z^2 exceeded the radius at some t, and the radius over each of MUTANTS; the largest
    ratio; l1 widths that missed although the set held."""
    failures, worst, missed = np.zeros(1 + len(MUTANTS), int), 0.0, 0
    shares = 1 / np.array([1.0, *MUTANTS])
    for run in range(runs):
        g = np.random.default_rng([run, m, d])
        bound = 1.0 if kind == "logit" else math.sqrt(d)
        W = truth(kind, m, d, bound, g, 1 if learner == "sparse" else None)
        aim = shifted(kind, W) + (1 / m if kind == "linear" else 0.0)
        group = np.linalg.norm(shifted(kind, W), axis=0).sum() if learner == "sparse" else None
        est = nr.estimators.Conversion(
            LINKS[kind](), m, d, bound, delta=DELTA, learner=learner, group_bound=group, regularization=lam
        )  # fmt: skip
        failed = np.zeros(len(failures), bool)
        for t in range(steps):
            x = next_context(how, kind, est, t, d, g)
            est.update(x, draw(probabilities(kind, W, x), g))
            e = est.weights - aim
            distance, radius = np.sum((e @ est.gram) * e), est.radius
            failed |= distance > radius * shares
            worst = max(worst, distance / max(radius, 1e-9))
        failures += failed
        x = some_context(kind, d, g)
        error = np.abs(est.probabilities(x) - probabilities(kind, W, x)).sum()
        missed += not failed[0] and error > est.l1_width(x) + 1e-12
    return failures, worst, missed


@pytest.mark.study(first=2)
@pytest.mark.parametrize("how", ["random", "cycle", "widest"])
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(("kind", "m", "d", "lam"), [("logit", 3, 2, None), ("linear", 3, 3, 0.05)])
def test_sets_cover(kind, m, d, lam, learner, how):
    """At every t of 200 runs, with DELTA = 0.3. A set that fails with probability at most DELTA fails in more than
    `allowed(200)` runs with probability below 1e-6; widths cover wherever the set holds."""
    failures, worst, missed = coverage(kind, m, d, learner, how, lam)
    assert failures[0] <= allowed(200)
    assert missed == 0
    assert worst > 0.3  # not vacuously large


@pytest.mark.study(first=3)
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(("kind", "m", "d", "lam"), [("logit", 3, 2, None), ("linear", 3, 3, 0.05)])
def test_coverage_would_notice_a_wrong_radius(kind, m, d, lam, learner):
    """The same runs: a quarter (logit) or a sixteenth (linear, whose Hoeffding step is loose) of the radius fails."""
    failures, _, _ = coverage(kind, m, d, learner, "cycle", lam)
    assert failures[-1] > allowed(200)
    if kind == "logit":
        assert failures[2] > allowed(200)


@pytest.mark.study(first=3)
@pytest.mark.parametrize("name", ["logit", "linear"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_optimism_never_fails_where_the_sets_held(name, learner):
    """GLM-ORL at DELTA: the sets of all pairs hold in all episodes as often as claimed (20 runs, error probability
    below 1e-6), and wherever they hold planned values are above the optimal ones: proved, so it must not fail once."""
    w = world(name)
    group = None
    if learner == "sparse":
        group = max(group_norm(shifted(name, w.weights[s, a])) for s, a in np.ndindex(4, 3))
    agent = nr.GLMORL(w.problem, delta=DELTA, confidence="conversion", learner=learner, group_bound=group)
    run = nr.simulate(agent, w, 500, 20, every=500, diagnostics=True)
    count = {k: v[:, -1] for k, v in run.diagnostics.items()}
    assert (count["justified_failures"] == 0).all()
    assert (count["set_failures"] > 0).sum() <= allowed(20)
    assert (count["worst_ratio"] > 0.02).all()
    assert (count["transition_width"] > 0).all()


# Bad input, files ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("made", [nr.GLMORL, nr.GLMRLSVI])
@pytest.mark.parametrize(("options", "message"), [
    ({"confidence": "likelihood"}, "confidence must be one of 'newton', 'centred', 'conversion', got 'likelihood'"),
    ({"confidence": "conversion", "learner": "sgd"}, "learner must be one of 'ons', 'ftrl', 'sparse', got 'sgd'"),
    ({"confidence": "conversion", "learner": "sparse"}, 'group_bound must be given with learner "sparse"'),
    ({"confidence": "conversion", "group_bound": -1.0}, "group_bound must be a positive number, got -1.0"),
    ({"confidence": "conversion", "group_bound": math.nan}, "group_bound must be a positive number, got nan"),
    ({"confidence": "conversion", "constants": "paper"}, 'constants must be "corrected" with confidence="conversion"'),
    ({"learner": "ftrl"}, 'learner and group_bound need confidence="conversion"'),
    ({"group_bound": 1.0}, 'learner and group_bound need confidence="conversion"'),
])  # fmt: skip
def test_agent_options(made, options, message):
    with pytest.raises(ValueError, match=message):
        made(nr.Problem(3, 2, 2, 2, weight_bound=1.0, reward_bound=1.0), **options)


class Says:
    def __init__(self, value):
        self.value, self.seen = value, []

    def predict(self, x):
        x[:] = 7.0  # its own copy
        return self.value

    def update(self, x, outcome):
        self.seen.append((x.tolist(), outcome))
        x[:] = 7.0


@pytest.mark.parametrize(("options", "message"), [
    ({"learner": "sparse"}, 'group_bound must be given with learner "sparse"'),
    ({"learner": "given"}, "learner must be one of 'ons', 'ftrl', 'sparse', got 'given'"),
    ({"learner": 3}, "learner must be one of ons, ftrl, sparse or an object with predict and update, got 3"),
    ({"hindsight": "slow"}, "hindsight must be one of 'quadratic', 'exact', got 'slow'"),
    ({"group_bound": 0.0}, "group_bound must be a positive number, got 0.0"),
    ({"regularization": 0.0}, "regularization must be a positive number, got 0.0"),
])  # fmt: skip
def test_estimator_options(options, message):
    with pytest.raises(ValueError, match=message):
        nr.estimators.Conversion(nr.MultinomialLogit(), 3, 2, weight_bound=1.0, **options)


def test_predictions_and_observations_are_checked():
    for value, message in (
        ([1.0, 2.0], r"learner.predict\(x\) must have shape \(3,\), got \(2,\)"),
        ([math.nan, 0.0, 0.0], r"learner.predict\(x\) must be finite, got nan at index \(0,\)"),
        ("abc", r"learner.predict\(x\) must be an array of numbers"),
    ):
        learner = Says(value)
        est = nr.estimators.Conversion(nr.MultinomialLogit(), 3, 2, weight_bound=1.0, learner=learner)
        with pytest.raises(ValueError, match=message):
            est.update([0.6, 0.8], 1)
        assert est.samples == 0
        assert not learner.seen
    est = nr.estimators.Conversion(nr.MultinomialLogit(), 3, 2, 1.0, learner=(good := Says([0.2, 0.0, -0.2])))
    for x, y, message in (
        ([0.6, 0.9], 1, "x has norm"),
        ([0.6, 0.8], 3, "outcome must be below n_outcomes = 3, got 3"),
    ):
        with pytest.raises(ValueError, match=message):
            est.update(x, y)
    est.update([0.6, 0.8], 1)
    assert good.seen == [([0.6, 0.8], 1)]
    alpha = reference.alpha_centred(3, 1.0)
    assert_close(est.gram, est._par.regularization * np.eye(2) + alpha * np.outer([0.6, 0.8], [0.6, 0.8]))


@pytest.mark.parametrize(
    "options", [{}, {"learner": "ftrl", "group_bound": 2.0}, {"learner": "sparse", "group_bound": 1.0}]
)
@pytest.mark.parametrize("kind", ["glm-orl", "glm-rlsvi"])
def test_saved_agents_go_on_identically(tmp_path, kind, options):
    w = world("lengths")
    made = nr.make_agent(kind, w.problem, seed=5, confidence="conversion", **options)
    agent, other = saved_and_continued(made, w, tmp_path / "agent.npz", 5)
    assert other.options == agent.options
    for one, two in zip(agent.state.transitions, other.state.transitions, strict=True):
        assert np.array_equal(one, two)
