"""Tilted worlds against the formula they are made from, their bounds, and what few supported next states may cost."""

import math

import numpy as np
import pytest

import noregret as nr
import reference
from noregret.problem import links
from noregret.worlds import tilt
from noregret.worlds.tilt import smallest_bound


def random_mdp(seed, S=6, A=3, most=4):
    """A sparse P, available actions (the others have no next state at all), mean rewards."""
    g = np.random.default_rng(seed)
    P, available = np.zeros((S, A, S)), g.random((S, A)) < 0.6
    available[:, 0] = True
    for s, a in np.argwhere(available):
        after = g.choice(S, g.integers(1, most + 1), replace=False)
        P[s, a, after] = g.dirichlet(np.full(len(after), 0.7)) * 0.97 + 0.03 / len(after)
    return P, available, g.random((S, A)), g


def rows_of(world):
    """Norms of the weight rows of available pairs."""
    p = world.problem
    return np.linalg.norm(world.slots, axis=-1)[p.layout.available]


@pytest.mark.parametrize("seed", range(6))
def test_every_individual_has_the_tilted_distribution(seed):
    P, available, r, g = random_mdp(seed)
    phi, scale = g.standard_normal((6, 2)), g.uniform(0.1, 3.0)
    people = np.concatenate([np.zeros((1, 2)), 2.0 * g.standard_normal((5, 2))])
    world = tilt(P, phi, rewards=r, scale=scale, individuals=people, available=available, horizon=4)
    p, X = world.problem, world.contexts.support
    assert np.array_equal(p.layout.available, available)
    assert np.abs(np.linalg.norm(X, axis=1).max() - 1.0) < 1e-12
    assert np.ptp(X[:, 0]) == 0.0
    for u, x in zip(people, X, strict=True):
        made = P * np.exp(scale * (phi @ u))
        made /= np.maximum(made.sum(2, keepdims=True), 1e-300)
        assert np.abs(world.transitions(x) - made)[available].max() < 1e-14
        assert np.abs(world.rewards(x) - r)[available].max() < 1e-14
    assert np.abs(world.transitions(X[0]) - P)[available].max() < 1e-15  # u = 0
    assert rows_of(world).max() <= p.weight_bound * (1 + 1e-9)


def test_rewards_may_depend_on_the_individual():
    P, available, r, g = random_mdp(9)
    slope = g.uniform(-0.1, 0.1, (6, 3, 1))
    coefficients = np.concatenate([0.2 + 0.6 * r[..., None], slope], axis=2)
    world = tilt(P, g.standard_normal((6, 1)), rewards=coefficients, individuals=[-1.0, 0.3, 2.0], available=available)
    for u, x in zip([-1.0, 0.3, 2.0], world.contexts.support, strict=True):
        assert np.abs(world.rewards(x) - 0.2 - 0.6 * r - u * slope[..., 0])[available].max() < 1e-14
    known = tilt(P, g.standard_normal((6, 1)), rewards=r, available=available, known_rewards=True)
    assert np.array_equal(known.problem.known_rewards, known.reward_weights)


def test_without_rows_individuals_are_on_the_unit_sphere():
    P, available, r, g = random_mdp(3)
    phi = g.standard_normal((6, 3))
    world = tilt(P, phi, rewards=r, available=available, intercept=0.6)
    for k in range(5):
        x = world.context(0, k)
        u = x[1:] / 0.8  # sqrt(1 - 0.6^2)
        assert abs(x[0] - 0.6) < 1e-15
        assert abs(np.linalg.norm(u) - 1.0) < 1e-12
        made = P * np.exp(phi @ u)
        made /= np.maximum(made.sum(2, keepdims=True), 1e-300)
        assert np.abs(world.transitions(x) - made)[available].max() < 1e-14


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_the_smallest_there_is(seed):
    P, available, _, g = random_mdp(seed)
    phi, people = g.standard_normal((6, 2)), g.standard_normal((4, 2))
    head = {"individuals": people, "available": available}
    world = tilt(P, phi, scale=1.5, **head)
    B = world.problem.weight_bound
    assert abs(rows_of(world).max() - B) < 1e-9 * B  # attained
    fixed = [tilt(P, phi, scale=1.5, intercept=c, **head).problem.weight_bound for c in np.linspace(0.05, 0.95, 19)]
    assert min(fixed) >= B * (1 - 1e-9)
    # No contexts of length 1 do with less than the largest difference of predictors.
    longest, least = np.linalg.norm(people, axis=1).max(), 0.0
    for s, a in np.argwhere(available):
        after = np.flatnonzero(P[s, a])
        gap = np.abs(np.log(P[s, a, after] / P[s, a, after[-1]]))
        rise = 1.5 * np.linalg.norm(phi[after] - phi[after[-1]], axis=1)
        least = max(least, float((gap + rise * longest).max()))
    assert least <= B * (1 + 1e-9) <= math.sqrt(2.0) * least * (1 + 1e-9)
    with pytest.raises(ValueError, match=r"B must be at least .* for scale = 1.5"):
        tilt(P, phi, 0.999 * B, scale=1.5, **head)
    assert tilt(P, phi, 1.5 * B, scale=1.5, **head).problem.weight_bound == 1.5 * B
    # B alone: the largest strength that it allows
    back = tilt(P, phi, B, **head)
    assert back.problem.weight_bound == pytest.approx(B, rel=1e-9)
    assert np.abs(back.slots - world.slots).max() < 1e-5 * B
    assert (
        np.abs(back.transitions(back.contexts.support[0]) - world.transitions(world.contexts.support[0])).max() < 1e-6
    )


def test_one_row_needs_the_sum_of_its_parts():
    bound, c = smallest_bound(np.array([3.0]), np.array([1.0]))
    assert bound == pytest.approx(4.0, rel=1e-9)
    assert c * c == pytest.approx(0.75, rel=1e-4)
    # Rows that matter nowhere do not change it, rows that matter do.
    assert smallest_bound(np.array([3.0, 2.9, 0.0]), np.array([1.0, 1.0, 0.5]))[0] == pytest.approx(4.0, rel=1e-9)
    least = math.sqrt(14.25 + 14.25 / 5.25)  # where 9/t + 1/(1 - t) = 6.25/(1 - t): t = 9/14.25
    assert smallest_bound(np.array([3.0, 0.0]), np.array([1.0, 2.5]))[0] == pytest.approx(least, rel=1e-9)


def test_small_probabilities_are_refused_or_exact():
    P = np.zeros((2, 1, 2))
    P[0, 0], P[1, 0] = [1e-100, 1.0 - 1e-100], [0.0, 1.0]
    phi = np.array([[1.0], [0.0]])
    with pytest.raises(ValueError, match=r"B must be above 230\.259, got 200"):
        tilt(P, phi, 200.0)
    world = tilt(P, phi, scale=2.0)
    assert world.transitions(world.contexts.fill(0, 0, X := np.empty((1, 2))) or X[0])[0, 0, 0] == pytest.approx(
        1e-100 * math.exp(2.0 * np.sign(X[0, 1])), rel=1e-9
    )
    P[0, 0] = [1e-300, 1.0]
    with pytest.raises(ValueError, match=r"need a weight bound of .*, above 350"):
        tilt(P, phi)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"P": np.zeros((2, 1, 3))}, r"P must have shape \(S, A, S\), got \(2, 1, 3\)"),
        ({"P": np.full((2, 1, 2), 0.6)}, r"P\[0, 0\] must be a distribution, its sum is 1.2"),
        ({"P": [[[1.5, -0.5]], [[1, 0]]]}, r"P\[0, 0\] must be a distribution"),
        ({"features": [1.0, 2.0]}, r"features must be finite numbers of shape \(2, p\), got shape \(2,\)"),
        ({"features": [[np.nan], [0]]}, "features must be finite"),
        ({"individuals": [[1.0, 2.0]]}, r"individuals must be finite numbers of shape \(m, 1\), got shape \(1, 2\)"),
        ({"individuals": []}, "individuals must be finite numbers"),
        ({"B": 0}, "B must be a positive number"),
        ({"scale": -1}, "scale must be"),
        ({"intercept": 1.0}, "intercept must be a number between 0 and 1"),
        ({"rewards": [[2.0], [0.0]]}, "outside"),
    ],
)
def test_bad_input(change, says):
    good = {"P": [[[0.5, 0.5]], [[0.0, 1.0]]], "features": [[0.0], [1.0]], "individuals": [-1.0, 1.0]}
    tilt(**good)
    with pytest.raises(ValueError, match=says):
        tilt(**good | change)


# Supports as lists, weights by slot, and kernels that leave padding alone --------------------------------------------
def lumpy():
    """One pair with seven possible next states, the others with one to three; two actions of three are rarely there."""
    S, A, g = 9, 3, np.random.default_rng(11)
    P, available = np.zeros((S, A, S)), np.zeros((S, A), bool)
    available[:, 0] = available[2, 1] = available[5, 2] = True
    for s, a in np.argwhere(available):
        after = g.choice(S, 7 if (s, a) == (2, 1) else g.integers(1, 4), replace=False)
        P[s, a, after] = g.dirichlet(np.full(len(after), 2.0)) * 0.9 + 0.1 / len(after)
    people, rewards = g.standard_normal((70, 2)), g.random((S, A))  # more of them than are kept in mind
    start = g.dirichlet(np.ones(S))
    return tilt(
        P, g.standard_normal((S, 2)), rewards=rewards, individuals=people, available=available, horizon=5, scale=0.3,
        initial_state=start, name="lumpy",
    )  # fmt: skip


@pytest.mark.parametrize("agent", ["glm-orl", "glm-rlsvi", "certainty-equivalence"])
def test_agents_where_most_is_padding_agree_with_the_reference(agent):
    world = lumpy()
    layout = world.problem.layout
    assert 2 * layout.count.sum() < layout.outcomes.size  # the softmax that leaves padding alone
    run = nr.simulate(nr.make_agent(agent, world.problem), world, 40, seeds=[3])
    assert np.abs(run.regret[0] - reference.run(world, agent, 40, 3).regret).max() < 1e-9


def test_two_forms_of_weights_and_of_support():
    world = lumpy()
    p = world.problem
    listed, W = np.array(p.support), world.weights
    mask = np.zeros((9, 3, 9), bool)
    for s, a in np.argwhere(p.layout.available):
        mask[s, a, listed[s, a][listed[s, a] >= 0]] = True
    shuffled = np.flip(listed, axis=2)  # any order, -1 anywhere
    bounds = {"weight_bound": p.weight_bound, "reward_bound": p.reward_bound, "available": p.available}
    problems = [nr.Problem(9, 3, 5, 3, support=form, **bounds) for form in (mask, listed, shuffled)]
    assert all(q.same_shape(p) for q in problems)
    runs = []
    for q, weights in zip(problems, (W, world.slots, W), strict=True):
        made = nr.World(q, weights, world.reward_weights, world.contexts, world.initial_state)
        assert np.array_equal(made.slots, world.slots)
        assert np.array_equal(made.weights, W)
        runs += [nr.simulate(nr.GLMORL(q, bonus_scale=0.1), made, 50).regret]
    assert np.array_equal(runs[0], runs[1])
    assert np.array_equal(runs[0], runs[2])
    oracle = nr.simulate(nr.agents.Oracle(p, world.slots, world.reward_weights), world, 20)
    assert np.abs(oracle.regret).max() < 1e-9


def test_a_problem_with_listed_support_is_saved_and_loaded(tmp_path):
    world = lumpy()
    agent = nr.agents.PSRL(world.problem)
    agent.save(tmp_path / "agent.npz")
    assert nr.load(tmp_path / "agent.npz").problem.same_shape(world.problem)


@pytest.mark.parametrize(
    ("support", "says"),
    [
        (np.zeros((2, 1, 3)), r"support must be a boolean array of shape \(2, 1, 2\), or next states of shape"),
        (np.array([[[0, 2]], [[1, -1]]]), "support must list states 0 to 1, or -1, got -1 to 2"),
        (np.array([[[0, 0]], [[1, -1]]]), r"support must list a next state once, pair \(0, 0\) has one twice"),
        (np.array([[[0, 1]], [[-1, -1]]]), r"every available pair, \(1, 0\) has none"),
    ],
)
def test_bad_lists(support, says):
    with pytest.raises(ValueError, match=says):
        nr.Problem(2, 1, 3, 2, support=support, weight_bound=1.0, reward_bound=1.0)


def test_softmax_that_leaves_padding_alone():
    g = np.random.default_rng(0)
    for count in (np.array([5, 1, 1, 2]), np.array([5, 5, 4, 1])):
        z = np.where(np.arange(5) < count[:, None], 4.0 * g.standard_normal((4, 5)), 0.0)
        wanted = np.where(np.arange(5) < count[:, None], np.exp(z), 0.0)
        links.softmax_rows(z, count)
        assert np.abs(z - wanted / wanted.sum(1, keepdims=True)).max() < 1e-15


# Individuals who come again -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("agent", ["glm-orl", "cece"])
def test_what_is_kept_of_individuals_changes_nothing(agent, monkeypatch):
    from noregret.simulation import model_cache as acquaintances

    world = nr.worlds.clinic()
    runs = []
    for faces in (64, 0):
        monkeypatch.setattr(acquaintances, "FACES", faces)
        assert len(acquaintances.acquaintances(world).X) == (6 if faces else 0)
        runs.append(nr.simulate(nr.make_agent(agent, world.problem), world, 200, diagnostics=agent == "glm-orl"))
    assert np.array_equal(runs[0].regret, runs[1].regret)
    assert all(np.array_equal(v, runs[1].diagnostics[k]) for k, v in runs[0].diagnostics.items())


def test_lazy_posterior_sampling_plans_when_a_count_has_doubled():
    world = nr.worlds.random_logit(4, 2, 4, 2)
    agent, plans, changed = nr.agents.PSRL(world.problem, replan="doubling"), [], []
    for k in range(150):
        person = world.individual(k)
        due = k == 0 or bool((agent.state.visits - agent.state.planned >= np.maximum(1.0, agent.state.planned)).any())
        plans.append(agent.begin_episode(person.context).values)
        changed.append(k == 0 or not np.array_equal(plans[-1], plans[-2]))
        assert changed[-1] == due
        for _ in range(4):
            agent.act(person.state)
            agent.observe(*person.step(agent.act(person.state)))
        agent.end_episode()
    assert 5 < sum(changed) < 75
    fused = nr.simulate(nr.agents.PSRL(world.problem, replan="doubling"), world, 100)
    live = nr.simulate(nr.agents.PSRL(world.problem, replan="doubling"), world, 100, compiled=False)
    assert np.array_equal(fused.regret, live.regret)
    assert agent.guarantee is None
