"""The truth: contexts, masks, starts, luck, and what the clinic's contexts are worth."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy import stats

import noregret as nr
from noregret import contexts


def filled(source, n=2000, seed=0, first=0):
    X = np.empty((n, source.dim))
    source.fill(seed, first, X)
    return X


def test_sphere_is_uniform_on_the_sphere():
    """Norm exactly the radius; each coordinate of a uniform point on S^2 is uniform on [-1, 1] (level 1e-6)."""
    X = filled(contexts.Sphere(3, radius=2.0))
    assert np.allclose(np.linalg.norm(X, axis=1), 2.0)
    for j in range(3):
        assert stats.kstest(X[:, j], stats.uniform(-2, 4).cdf).pvalue > 1e-6
    Y = filled(contexts.Sphere(4, intercept=0.6))
    assert np.allclose(Y[:, 0], 0.6)
    assert np.allclose(np.linalg.norm(Y, axis=1), 1.0)
    assert stats.kstest(Y[:, 2], stats.uniform(-0.8, 1.6).cdf).pvalue > 1e-6
    assert np.allclose(filled(contexts.Sphere(1, intercept=0.5)), 1.0)


def test_simplex_is_uniform_on_the_simplex():
    """Each coordinate of Dirichlet(1, 1, 1) is Beta(1, 2) (level 1e-6)."""
    X = filled(contexts.Simplex(3))
    assert np.allclose(X.sum(1), 1)
    assert X.min() >= 0
    for j in range(3):
        assert stats.kstest(X[:, j], stats.beta(1, 2).cdf).pvalue > 1e-6


def test_cycle_and_table():
    assert np.array_equal(filled(contexts.Cycle(3, 0.5), 4), 0.5 * np.eye(3)[[0, 1, 2, 0]])
    rows = np.arange(6.0).reshape(3, 2)
    assert np.array_equal(filled(contexts.Table(rows, order="cycle"), 4, first=2), rows[[2, 0, 1, 2]])
    drawn = filled(contexts.Table(rows), 3000)
    assert stats.chisquare(np.bincount((drawn[:, 0] / 2).astype(int))).pvalue > 1e-6


@pytest.mark.parametrize(
    "source", [contexts.Sphere(3), contexts.Sphere(4, intercept=0.5), contexts.Simplex(5), contexts.Table(np.eye(4))]
)
def test_any_chunk_can_be_made_again(source):
    whole = filled(source, 100, seed=9)
    parts = np.vstack([filled(source, 33, 9, 0), filled(source, 67, 9, 33)])
    assert np.array_equal(whole, parts)
    assert not np.array_equal(whole, filled(source, 100, seed=10))


@pytest.mark.parametrize("world", [nr.worlds.random_logit(), nr.worlds.random_linear(), nr.worlds.clinic()])
def test_models_are_models(world):
    p = world.problem
    for k in range(20):
        x = world.context(0, k)
        P, r = world.transitions(x), world.rewards(x)
        assert P.shape == (p.n_states, p.n_actions, p.n_states)
        assert np.allclose(P[p.layout.available].sum(-1), 1)
        assert P.min() >= 0
        assert r.min() >= 0
        assert r.max() <= 1
        if p.support is not None:
            assert (P[~np.asarray(p.support)] == 0).all()


def test_logit_world_by_hand():
    world = nr.worlds.random_logit(3, 2, 2, 2, seed=0)
    x = world.context(0, 0)
    z = np.exp(world.weights @ x)
    assert np.allclose(world.transitions(x), z / z.sum(-1, keepdims=True), atol=1e-14)
    assert (world.weights[:, :, -1] == 0).all()
    assert np.allclose(np.linalg.norm(world.weights[:, :, 0], axis=-1), 2.0)


def test_linear_world_by_hand():
    world = nr.worlds.random_linear(3, 2, 2, 4, seed=0)
    x = world.context(0, 0)
    assert np.allclose(world.transitions(x), np.einsum("satd,d->sat", world.weights, x), atol=1e-14)
    corner = np.eye(4)[2]
    assert np.allclose(world.transitions(corner), world.weights[..., 2])


@pytest.mark.long
@pytest.mark.deep
def test_luck_follows_the_model():
    """Next states and rewards of one pair at one context over 20,000 episodes (chi-square and binomial, level 1e-6)."""
    base = nr.worlds.random_logit(4, 2, 1, 2, seed=4)
    x = base.context(0, 0)
    world = nr.World(base.problem, base.weights, base.reward_weights, contexts.Table([x]))
    seen = [world.individual(k).step(1) for k in range(20_000)]
    counts = np.bincount([s for _, s in seen], minlength=4)
    assert stats.chisquare(counts, 20_000 * world.transitions(x)[0, 1]).pvalue > 1e-6
    wins = int(sum(r for r, _ in seen))
    assert stats.binomtest(wins, 20_000, world.rewards(x)[0, 1]).pvalue > 1e-6


def test_initial_states():
    base = nr.worlds.random_logit(3, 2, 2, 2)
    args = dataclasses.replace(base.problem, initial_states=None), base.weights, base.reward_weights, base.contexts
    assert nr.World(*args, initial_state=2).start(0, 5) == 2
    drawn = nr.World(*args, initial_state=[0.2, 0.0, 0.8])
    counts = np.bincount([drawn.start(1, k) for k in range(3000)], minlength=3)
    assert counts[1] == 0
    assert stats.binomtest(int(counts[0]), 3000, 0.2).pvalue > 1e-6
    given = nr.World(*args, initial_state=lambda seed, k: k % 3)
    assert [given.start(0, k) for k in range(4)] == [0, 1, 2, 0]
    for world in (drawn, given):
        run = nr.simulate(nr.UniformRandom(world.problem), world, 40, seeds=2)
        live = nr.simulate(nr.UniformRandom(world.problem), world, 40, seeds=2, compiled=False)
        assert np.array_equal(run.regret, live.regret)
    x = drawn.context(0, 0)
    policy = np.zeros((2, 3), int)
    each = [drawn.value(policy, x, s) for s in range(3)]
    assert drawn.value(policy, x) == pytest.approx(0.2 * each[0] + 0.8 * each[2])


def test_full_support_mask_changes_nothing_and_a_partial_one_is_obeyed():
    base = nr.worlds.random_logit(4, 2, 3, 2, seed=2)
    q = base.problem
    full = nr.Problem(4, 2, 3, 2, weight_bound=2.0, reward_bound=q.reward_bound, support=np.ones((4, 2, 4), bool))
    same = nr.World(full, base.weights, base.reward_weights, base.contexts)
    runs = [nr.simulate(nr.GLMORL(w.problem, bonus_scale=0.1), w, 200) for w in (base, same)]
    assert np.array_equal(runs[0].regret, runs[1].regret)
    support = np.ones((4, 2, 4), bool)
    support[:, 0, 2] = False
    support[1, 1, [0, 3]] = False
    part = nr.Problem(4, 2, 3, 2, weight_bound=4.0, reward_bound=q.reward_bound, support=support)
    world = nr.World(part, base.weights, base.reward_weights, base.contexts)
    x = world.context(0, 0)
    z = np.exp(base.weights @ x) * support
    assert np.allclose(world.transitions(x), z / z.sum(-1, keepdims=True), atol=1e-14)
    agent = nr.GLMORL(part)
    for k in range(300):
        someone = world.individual(k)
        agent.begin_episode(someone.context)
        for _ in range(3):
            s, a = someone.state, agent.act(someone.state)
            agent.observe(*someone.step(a))
            assert support[s, a, someone.state]
        agent.end_episode()


def test_slots_go_there_and_back():
    p = nr.worlds.clinic().problem
    dense = np.random.default_rng(0).random((4, 3, 4, 2)) * np.asarray(p.support)[..., None]
    assert np.array_equal(p.from_slots(p.to_slots(dense)), dense)
    assert p.to_slots(dense).shape == (4, 3, 2, 2)


def test_clinic_is_what_it_says():
    world = nr.worlds.clinic()
    p = world.problem
    assert p.state_names == ("remission", "mild", "moderate", "severe")
    assert world.start(0, 0) == p.state("moderate") == 2
    young, marked = np.array([1, -1, 1]) / 3**0.5, np.array([1, -1, -1]) / 3**0.5
    assert world.optimal(young).policy[0, 2] == 1
    assert world.optimal(marked).policy[0, 2] == 2


def test_ignoring_the_context_costs_a_fifth_in_the_clinic():
    """Exact: the best context-blind policy by enumeration with pruning; checked against plain enumeration at H = 3, and
    against random policies. The figures are quoted in the README."""
    value = nr.worlds.blind_optimum(nr.worlds.clinic())
    assert value.contextual == pytest.approx(4.586515, abs=1e-6)
    assert value.blind == pytest.approx(3.650321, abs=1e-6)
    assert value.uniform == pytest.approx(2.555459, abs=1e-6)
    world = nr.worlds.clinic(horizon=3)
    small = nr.worlds.blind_optimum(world)
    X = world.contexts.support
    best = 0.0
    choices = [[0], [0, 1, 2], [0, 1, 2], [1, 2]]
    for first in choices[2]:
        for second in itertools.product(choices[1], choices[3]):
            for third in itertools.product(*choices):
                policy = np.array([[0, 0, first, 1], [0, second[0], 0, second[1]], third])
                best = max(best, np.mean([world.value(policy, x) for x in X]))
    assert small.blind == pytest.approx(best, abs=1e-12)
    assert np.mean([world.value(small.policy, x) for x in X]) == pytest.approx(best, abs=1e-12)


def test_blind_optimum_says_what_it_needs():
    with pytest.raises(ValueError, match="finitely many contexts"):
        nr.worlds.blind_optimum(nr.worlds.random_logit())
    with pytest.raises(ValueError, match="more than limit = 10"):
        nr.worlds.blind_optimum(nr.worlds.clinic(), limit=10)


def by_context(function, **more):
    """A world whose people start by who they are; contexts are (1, u)/sqrt 2."""
    base = nr.worlds.random_logit(n_states=3, n_actions=2, horizon=2, context_dim=2, seed=4)
    problem = dataclasses.replace(base.problem, initial_states=(0, 1, 2))
    start = nr.worlds.StartsByContext(function)
    return nr.World(problem, base.weights, base.reward_weights, more.get("contexts", base.contexts), start)


def test_people_may_start_by_who_they_are():
    """u > 0 start in state 2, the others in 0 or 1 with chances 1/4 and 3/4 (level 1e-6)."""
    world = by_context(lambda x: 2 if x[1] > 0 else [0.25, 0.75, 0.0])
    met = [world.individual(k, seed=3) for k in range(2000)]
    assert {p.state for p in met if p.context[1] > 0} == {2}
    others = np.array([p.state for p in met if p.context[1] <= 0])
    assert set(others.tolist()) == {0, 1}
    assert stats.binomtest(int((others == 1).sum()), others.size, 0.75).pvalue > 1e-6
    assert [world.start(3, k) for k in range(50)] == [p.state for p in met[:50]]  # the seed decides, not the order
    assert world.log(50, 3, rule=[[0, 0, 0]] * 2).episodes[7].states[0] == met[7].state
    people = nr.worlds.Episodes(world)
    people.begin(7, 3, context=[1 / np.sqrt(2), 0.5])
    assert people.state == 2  # who comes decides, also in somebody else's place


def test_regret_is_that_of_the_state_somebody_starts_in():
    """In the compiled loop, in the verbs, and by hand: the same states, V* - V^pi there."""
    world = by_context(lambda x: 2 if x[1] > 0 else [0.5, 0.5, 0.0])
    rule = np.array([[0, 1, 0]] * 2)
    agent = nr.agents.FixedPolicy(world.problem, rule)
    runs = [nr.simulate(agent, world, 40, seeds=[5], compiled=c) for c in (True, False)]
    lost = []
    for k in range(40):
        x, s = world.context(5, k), world.start(5, k)
        lost.append(world.optimal(x).values[0, s] - world.values(rule, x)[0, s])
    assert np.allclose(runs[0].regret[0], np.cumsum(lost), atol=1e-9)
    assert np.array_equal(runs[0].regret, runs[1].regret)
    x, y = [1 / np.sqrt(2), 0.5], [1 / np.sqrt(2), -0.5]
    assert world.value(rule, x) == world.values(rule, x)[0, 2]
    assert np.isclose(world.value(rule, y), world.values(rule, y)[0, :2].mean())


def test_an_adversary_may_choose_who_starts_where():
    world = by_context(lambda x: int(x[1] > 0), contexts=lambda seed, k, agent: [0.7, 0.5 if k % 2 else -0.5])
    run = nr.simulate(nr.UniformRandom(world.problem), world, 6, seeds=1)
    assert np.isfinite(run.regret).all()
    assert [world.start(0, k) for k in range(4)] == [0, 1, 0, 1]


def test_bad_starts_by_context_get_a_sentence():
    with pytest.raises(ValueError, match="function must take a context to a state or a distribution, got 3"):
        nr.worlds.StartsByContext(3)
    for wrong, said in (
        (lambda x: 7, "initial_state must be a state number from 0 to 2"),
        (lambda x: [0.5, 0.4, 0.0], "initial_state must be a state, a distribution that sums to 1, or a function"),
        (lambda x: [0.5, 0.5], "initial_state"),
    ):
        with pytest.raises(ValueError, match=said):
            by_context(wrong).start(0, 0)
    few = by_context(lambda x: 2)
    problem = dataclasses.replace(few.problem, initial_states=(0,))
    with pytest.raises(ValueError, match="initial_state must be among the problem's initial_states"):
        nr.World(problem, few.weights, few.reward_weights, few.contexts, few.initial_state).individual(0)
    with pytest.raises(ValueError, match="fixed initial state"):
        nr.worlds.blind_optimum(by_context(lambda x: 0, contexts=[[0.7, 0.5], [0.7, -0.5]]))
