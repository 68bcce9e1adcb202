"""The compiled library against the slow implementation in reference.py: the same decisions, estimates and regret."""

import dataclasses
import functools
import math

import numpy as np
import pytest

import noregret as nr
import reference
from live import follow

pytestmark = pytest.mark.deep

EPISODES = 60
LINKS = {"logit": nr.MultinomialLogit, "linear": nr.LinearCombination}
SUPPORT = np.array([  # available pairs have two or three possible next states, unavailable ones two, four and none
    [[1, 1, 0, 0], [0, 1, 1, 1], [1, 1, 1, 1]],
    [[1, 0, 0, 1], [0, 0, 1, 1], [1, 0, 1, 1]],
    [[0, 1, 1, 0], [1, 1, 0, 1], [0, 0, 0, 0]],
    [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 1]],
], bool)  # fmt: skip
AVAILABLE = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 0], [0, 1, 1]], bool)


def masked(link, certain):
    """Supports of several sizes, unavailable pairs, contexts of different lengths, a random initial state.

    certain: two pairs have but one possible next state."""
    S, A, d, g = 4, 3, 3, np.random.default_rng(5)
    bound = 1.5 if link.name == "logit" else None
    support = SUPPORT.copy()
    if certain:
        support[1, 1, 3] = support[3, 1, 1] = False
    problem = nr.Problem(S, A, 4, d, link, 1.0, bound, 1.5, support=support, available=AVAILABLE)
    contexts = g.dirichlet(np.ones(d), 40)
    if link.name == "logit":
        contexts *= g.uniform(0.2, 1.0, (40, 1)) / np.linalg.norm(contexts, axis=1, keepdims=True)
        W = g.standard_normal((S, A, S, d))
        W *= 0.7 / np.linalg.norm(W, axis=-1, keepdims=True)  # differences of rows are within the bound
    else:
        W = g.random((S, A, S, d)) ** 3 * support[..., None]
        W /= np.maximum(W.sum(2, keepdims=True), 1e-300)
    theta = g.random((S, A, d)) * 0.8
    return nr.World(problem, W, theta, nr.contexts.Table(contexts), [0.2, 0.5, 0.0, 0.3], "masked")


@functools.cache
def world(name):
    if name == "logit":
        return nr.worlds.random_logit(4, 3, 4, 3)
    if name == "linear":
        return nr.worlds.random_linear(4, 3, 4, 3)
    if name == "odd":  # an odd number of pairs, an even dimension, predictors close to the edge of their region
        return nr.worlds.random_logit(5, 3, 3, 2, weight_bound=0.5, seed=2)
    if name == "clinic":
        return nr.worlds.clinic()
    certain, link = name.split("-")
    return masked(LINKS[link](), certain == "certain")


@functools.cache
def expected(name, kind, seed, options=(), episodes=EPISODES):
    return reference.run(world(name), kind, episodes, seed, **dict(options))


def options_of(constants, **others):
    return (("constants", constants), *others.items())


def assert_close(actual, wanted):
    """To 1e-9, relative; absolute below 1."""
    np.testing.assert_allclose(actual, wanted, rtol=1e-9, atol=1e-9)


def assert_regret_agrees(name, kind, seed, options, episodes=EPISODES):
    wanted = expected(name, kind, seed, options, episodes)
    agent = nr.make_agent(kind, world(name).problem, **dict(options))
    run = nr.simulate(agent, world(name), episodes, seeds=[seed])
    assert run.regret.shape == (1, episodes)
    assert np.all(np.abs(run.regret[0] - wanted.regret) < 1e-9)


def assert_live_agrees(name, kind, seed, options, episodes=EPISODES):
    """Every plan, then everything the agent has learnt."""
    wanted, w = expected(name, kind, seed, options, episodes), world(name)
    agent = nr.make_agent(kind, w.problem, seed=seed, **dict(options))
    for k in range(episodes):
        person = w.individual(k, seed)
        plan = agent.begin_episode(person.context)
        assert np.array_equal(plan.policy, wanted.policies[k])
        assert_close(plan.values, wanted.values[k])
        for _ in range(w.problem.horizon):
            agent.observe(*person.step(agent.act(person.state)))
        agent.end_episode()
    assert_state_agrees(agent, wanted.learner)


def assert_state_agrees(agent, learner):
    state, wanted = agent.state, reference.final(learner)
    padding = np.arange(state.transitions.weights.shape[2]) >= counts(learner)[..., None]
    assert_close(np.where(padding[..., None], 0.0, state.transitions.weights), wanted["weights"])
    assert_close(state.rewards.theta, wanted["theta"])
    assert_close(state.transitions.radius, wanted["radii"])
    for (s, a), newton in learner.newton.items():
        assert state.transitions.samples[s, a] == newton.samples
        assert_close(state.transitions.gram[s, a], newton.Z)
        assert_close(state.transitions.inverse[s, a] @ newton.Z, np.eye(newton.d))
        assert_close(state.transitions.logdet[s, a], newton.logdet)
        if learner.rewards[s, a].V is not None:
            assert_close(state.rewards.gram[s, a], learner.rewards[s, a].V)


def counts(learner):
    S, A = learner.available.shape
    return np.array([[len(learner.outcomes[s, a]) for a in range(A)] for s in range(S)])


# Whole runs ----------------------------------------------------------------------------------------------------------
RUNS = [
    (kind, options_of(constants, **({} if scale is None else {"bonus_scale": scale})))
    for constants in ("corrected", "paper")
    for kind, scale in (
        ("glm-orl", 1.0),
        ("glm-orl", 0.05),
        ("glm-orl", 0.3 if constants == "corrected" else 0.002),
        ("glm-rlsvi", 1.0),
        ("glm-rlsvi", 0.05),
        ("certainty-equivalence", None),
        ("epsilon-greedy", None),
    )
]
IDS = ["-".join([kind, *(str(value) for _, value in options)]) for kind, options in RUNS]


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("name", ["logit", "linear", "clinic"])
@pytest.mark.parametrize(("kind", "options"), RUNS, ids=IDS)
class TestRuns:
    @pytest.mark.study(first=14)
    def test_regret(self, name, kind, options, seed):
        assert_regret_agrees(name, kind, seed, options)

    @pytest.mark.study(first=22)
    def test_plans_and_estimates(self, name, kind, options, seed):
        assert_live_agrees(name, kind, seed, options)


@pytest.mark.parametrize("name", ["logit", "linear", "clinic"])
def test_runs_are_not_all_ties(name):
    """The comparison means something: optimism saturates at scale 1, and hardly at the small scales."""
    for constants, scale in (("corrected", 0.05), ("paper", 0.002)):
        learner = expected(name, "glm-orl", 3, options_of(constants, bonus_scale=scale)).learner
        assert learner.ties < 0.6 * learner.decisions
        assert learner.decisions > 400


@pytest.mark.study(first=5)
@pytest.mark.parametrize("constants", ["corrected", "paper"])
@pytest.mark.parametrize("name", ["masked-logit", "masked-linear", "certain-logit", "certain-linear"])
@pytest.mark.parametrize("kind", ["glm-orl", "glm-rlsvi", "certainty-equivalence", "epsilon-greedy"])
def test_masks_and_random_starts(name, kind, constants):
    scale = {"bonus_scale": 0.3 if constants == "corrected" else 0.02} if kind.startswith("glm") else {}
    options = options_of(constants, **scale)
    assert_regret_agrees(name, kind, 1, options)
    assert_live_agrees(name, kind, 1, options)


@pytest.mark.study(first=2)
@pytest.mark.parametrize("constants", ["corrected", "paper"])
@pytest.mark.parametrize("kind", ["glm-orl", "glm-rlsvi", "certainty-equivalence", "epsilon-greedy"])
@pytest.mark.parametrize("name", ["odd", "clinic", "linear"])
def test_options(name, kind, constants):
    """Every option off its default; little regularization, so that estimates leave their region and are projected."""
    others = {"glm-orl": {"delta": 0.3, "bonus_scale": 0.1}, "glm-rlsvi": {"bonus_scale": 0.02},
              "certainty-equivalence": {}, "epsilon-greedy": {"exploration": 0.6}}[kind]  # fmt: skip
    options = options_of(constants, regularization=0.02, reward_regularization=2.5, **others)
    assert_regret_agrees(name, kind, 2**40 + 7, options, 60)
    assert_live_agrees(name, kind, 2**40 + 7, options, 60)
    wanted = expected(name, kind, 2**40 + 7, options, 60)
    assert sum(newton.projections for newton in wanted.learner.newton.values()) > 10


@pytest.mark.parametrize("name", ["logit", "linear"])
def test_large_bonuses_are_cut_at_the_span(name):
    """Small rewards keep values away from the clip, so that the limit on the bonus for transitions is what counts."""
    w = world(name)
    p = w.problem
    problem = nr.Problem(4, 3, 4, 3, p.link, 1.0, p.weight_bound, 0.02)
    poor = nr.World(problem, w.weights, 0.01 * w.reward_weights, w.contexts)
    options = {"bonus_scale": 4.0, "reward_regularization": 3e4}
    wanted = reference.run(poor, "glm-orl", 60, 3, **options)
    assert wanted.learner.limited > 100
    agent = nr.GLMORL(problem, seed=3, **options)
    run = nr.simulate(agent, poor, 60, seeds=[3])
    assert np.all(np.abs(run.regret[0] - wanted.regret) < 1e-9)
    for k in range(60):
        person = poor.individual(k, 3)
        plan = agent.begin_episode(person.context)
        assert_close(plan.values, wanted.values[k])
        assert plan.values.max() < 2.0
        for _ in range(4):
            agent.observe(*person.step(agent.act(person.state)))
        agent.end_episode()


@pytest.mark.parametrize("name", ["logit", "linear"])
def test_empty_sets_say_nothing(name):
    """A negative gamma is an empty set: the width is what is known without data."""
    w, seed = world(name), 3
    agent, learner = nr.GLMORL(w.problem, seed=seed), reference.Learner(w.problem, "glm-orl", seed)
    for k in range(20):
        person = w.individual(k, seed)
        path = []
        agent.begin_episode(person.context)
        for _ in range(w.problem.horizon):
            state = person.state
            action = agent.act(state)
            path.append((state, action, *person.step(action)))
            agent.observe(*path[-1][2:])
        agent.end_episode()
        learner.learn(person.context, path)
    agent.state.transitions.radius[...] -= 1000.0
    for newton in learner.newton.values():
        newton.displacement += 1000.0
    x = w.context(seed, 20)
    widths = learner.beliefs(x, 20)[2]
    assert np.allclose(widths, np.sqrt(2)) if name == "linear" else (widths > 0.3).all()
    assert_close(agent.begin_episode(x).values, learner.plan(x, 20)[1])


def test_initial_state_given_by_a_function():
    w = world("clinic")
    anywhere = dataclasses.replace(w.problem, initial_states=None)
    other = nr.World(anywhere, w.weights, w.reward_weights, w.contexts, lambda seed, k: (seed + k * k) % 4)
    wanted = reference.run(other, "glm-rlsvi", 60, 3, bonus_scale=0.05)
    run = nr.simulate(nr.GLMRLSVI(anywhere, bonus_scale=0.05), other, 60, seeds=[3])
    assert np.all(np.abs(run.regret[0] - wanted.regret) < 1e-9)


@pytest.mark.parametrize("constants", ["corrected", "paper"])
def test_unseen_rewards_and_short_episodes(constants):
    w, options = world("logit"), {"constants": constants, "bonus_scale": 0.05}
    agent, learner = nr.GLMORL(w.problem, **options), reference.Learner(w.problem, "glm-orl", **options)
    follow(agent, learner, w, 60, assert_close)
    assert_state_agrees(agent, learner)
    seen = sum(np.trace(ridge.V - np.eye(3)) for ridge in learner.rewards.values())
    assert 0 < seen < sum(newton.samples for newton in learner.newton.values())


# The estimator on its own --------------------------------------------------------------------------------------------
def stream(kind, n_outcomes, dim, n, seed):
    """Contexts of norm below 1 (in the simplex for the linear link) and outcomes that depend on them."""
    g = np.random.default_rng(seed)
    if kind == "linear":
        X = g.dirichlet(np.full(dim, 0.5), n)
    else:
        X = g.standard_normal((n, dim))
        X *= g.uniform(0.05, 1.0, (n, 1)) / np.linalg.norm(X, axis=1, keepdims=True)
    y = np.array([(np.argmax(np.abs(x)) if g.random() < 0.8 else g.integers(n_outcomes)) % n_outcomes for x in X])
    return X, y


def assert_estimators_agree(estimator, wanted, X, log_weight):
    assert estimator.samples == wanted.samples
    assert_close(estimator.weights, wanted.W)
    assert_close(estimator.gram, wanted.Z)
    assert_close(estimator.inverse, np.linalg.inv(wanted.Z))
    assert_close(estimator.logdet, wanted.logdet)
    assert_close(estimator.radius, wanted.radius(log_weight))
    for x in X:
        assert_close(estimator.probabilities(x), wanted.probabilities(x))
        assert_close(estimator.l1_width(x), wanted.l1_width(x, log_weight))


@pytest.mark.study(first=12)
@pytest.mark.parametrize(("kind", "n_outcomes", "dim", "weight_bound", "regularization", "projected"), [
    ("logit", 4, 3, 2.0, None, None),
    ("logit", 4, 3, 0.3, 0.5, True),  # small bound, little regularization: far outside the region
    ("logit", 2, 3, 0.4, 0.2, True),
    ("logit", 6, 2, 1.0, 0.05, True),
    ("logit", 5, 1, 0.2, 0.05, True),
    ("logit", 2, 4, 1.0, None, None),
    ("logit", 1, 2, 1.0, 1.0, None),
    ("linear", 4, 3, 2.0, None, None),
    ("linear", 3, 4, 0.3, 0.05, True),
    ("linear", 5, 2, 0.5, 0.01, True),
])  # fmt: skip
@pytest.mark.parametrize("constants", ["corrected", "paper"])
def test_online_newton(kind, n_outcomes, dim, weight_bound, regularization, projected, constants):
    X, y = stream(kind, n_outcomes, dim, 300, seed=n_outcomes + dim)
    estimator = nr.estimators.OnlineNewton(
        LINKS[kind](), n_outcomes, dim, weight_bound, 1.0, 0.1, constants, regularization
    )  # fmt: skip
    wanted = reference.Newton(kind, n_outcomes, dim, weight_bound, 1.0, constants, regularization)
    log_weight = math.log(1 / 0.1)
    for t in range(300):
        if t % 10 == 0 or t < 10:
            assert_estimators_agree(estimator, wanted, X[t : t + 3], log_weight)
        estimator.update(X[t], y[t])
        wanted.update(X[t], y[t])
    assert_estimators_agree(estimator, wanted, X[:5], log_weight)
    if projected:
        assert wanted.projections > 20
        assert constants == "paper" or wanted.displacement > 0.01
    if constants == "paper":
        assert np.linalg.norm(estimator.weights, axis=1).max() <= weight_bound * (1 + 1e-12)


@pytest.mark.parametrize("constants", ["corrected", "paper"])
def test_online_newton_with_false_bounds(constants):
    """One outcome for ever, against a tiny weight_bound: nearly every step is projected. Also the context 0."""
    X, _ = stream("logit", 3, 2, 300, seed=1)
    X = np.abs(X)
    estimator = nr.estimators.OnlineNewton(nr.MultinomialLogit(), 3, 2, 0.01, 1.0, 0.5, constants, 1e-3)
    wanted = reference.Newton("logit", 3, 2, 0.01, 1.0, constants, 1e-3)
    for x in X:
        estimator.update(x, 1)
        wanted.update(x, 1)
    assert_estimators_agree(estimator, wanted, [*X[:5], np.zeros(2)], math.log(2.0))
    assert wanted.projections > 200


# The parts -----------------------------------------------------------------------------------------------------------
def test_philox_known_answers():
    """The test vectors published with Random123."""
    ones, pi = 0xFFFFFFFF, (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert reference.philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert reference.philox([ones] * 4, [ones] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    assert reference.philox(pi, (0xA4093822, 0x299F31D0)) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


@pytest.mark.parametrize(("seed", "episode"), [(0, 0), (3, 77), (2**40 + 7, 5), (1, 2**33 + 9)])
def test_contexts_and_luck(seed, episode):
    """Sources of contexts from uniforms and normals alone, and what an individual meets step by step."""
    d = 3
    made = np.empty((1, d))
    nr.contexts.Simplex(d).fill(seed, episode, made)
    draws = [u for j in (0, 2) for u in reference.uniforms(seed, episode, j, reference.CONTEXT)][:d]
    wanted = -np.log1p(-np.array(draws))
    assert_close(made[0], wanted / wanted.sum())
    nr.contexts.Sphere(d, 0.7).fill(seed, episode, made)
    draws = [z for j in (0, 2) for z in reference.normals(seed, episode, j, reference.CONTEXT)][:d]
    assert_close(made[0], 0.7 * np.array(draws) / np.linalg.norm(draws))
    w = world("masked-logit")
    P, r = reference.individual(w, w.context(seed, episode))
    assert_close(w.transitions(w.context(seed, episode)), P)
    policy = np.tile([0, 1, 1, 2], (4, 1))
    start = reference.start_state(w, seed, episode)
    person = w.individual(episode, seed)
    assert person.state == start
    path = reference.rollout(P, r, reference.supported(w.problem), policy, start, seed, episode)
    for state, action, reward, after in path:
        assert person.state == state
        assert person.step(int(action)) == (reward, after)


@pytest.mark.parametrize("bound", [0.0, 0.3, 1.0, 3.0, 6.0])
@pytest.mark.parametrize("n_outcomes", [1, 2, 3, 4, 5, 7])
def test_constants_by_brute_force(n_outcomes, bound):
    """Closed forms of `noregret.theory` against the maximum over all vertices or all sets of outcomes."""
    exact = reference.alpha_centred(n_outcomes, bound)
    np.testing.assert_allclose(nr.theory.constants.logit_alpha_centred(n_outcomes, bound), exact, rtol=1e-12)
    if n_outcomes > 1:
        assert_close(nr.theory.constants.linear_l1(n_outcomes), reference.zero_sum_l1(n_outcomes))
    g = np.random.default_rng(0)
    for p in g.dirichlet(np.full(n_outcomes, 0.5), 20):
        cap = reference.prior_cap(p, bound)
        assert_close(nr.theory.widths.logit_prior_cap(p, bound), cap)
        corners = np.array([reference.softmax(y) for y in reference.vertices(n_outcomes, bound)])
        assert_close(np.abs(corners - p).sum(1).max(), cap)
    # No interior point of the box is flatter: the second smallest eigenvalue of the Hessian.
    for y in g.uniform(-bound, bound, (20 if n_outcomes > 1 else 0, n_outcomes)):
        p = reference.softmax(np.append(y[:-1], 0.0))
        assert np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[1] >= exact * (1 - 1e-9)


@pytest.mark.parametrize("n_outcomes", [2, 3, 5])
def test_projections_of_the_reference(n_outcomes):
    """v is nearest to z in a polytope iff (z - v)'(y - v) <= 0 at every vertex y; on a ball iff Z (z - v) is normal."""
    g = np.random.default_rng(n_outcomes)
    for _ in range(50):
        z, bound = 3 * g.standard_normal(n_outcomes), g.uniform(0.1, 2)
        z -= z.mean()
        centred = reference.vertices(n_outcomes, bound)
        centred -= centred.mean(1, keepdims=True)
        for v, corners in (
            (reference.project_simplex(z), np.eye(n_outcomes)),
            (reference.project_centred_box(z, bound), centred),
        ):
            assert ((corners - v) @ (z - v)).max() <= 1e-12
        assert abs(reference.project_simplex(z).sum() - 1) < 1e-12
        pinned = reference.project_centred_box(z, bound)
        assert np.abs(pinned - pinned[-1]).max() <= bound + 1e-12
        root = g.standard_normal((n_outcomes, n_outcomes))
        Z = root @ root.T + 0.01 * np.eye(n_outcomes)
        row = reference.project_row_ball(z, Z, bound)
        if np.linalg.norm(z) > bound:
            assert abs(np.linalg.norm(row) - bound) < 1e-12
            normal = Z @ (z - row)
            assert_close(normal / np.linalg.norm(normal), row / bound)
