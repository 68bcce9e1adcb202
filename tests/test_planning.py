"""Planning against NumPy written from the Bellman equations, and against enumeration of policies."""

import itertools

import numpy as np
import pytest
from scipy import stats

import noregret as nr
from noregret.beliefs.point import CENTRED, HALF_SPAN, NONE, SUP
from noregret.numerics.random import words
from noregret.planning import bellman as planning

S, A, H = 4, 3, 5


def model(seed, support=None, available=None):
    g = np.random.default_rng(seed)
    problem = nr.Problem(S, A, H, 2, support=support, available=available, weight_bound=1.0, reward_bound=1.0)
    P = g.random((S, A, S)) * (1.0 if support is None else support)
    P /= P.sum(2, keepdims=True)
    return problem, P, g.random((S, A)), 0.3 * g.random((S, A))


def spread(V, kind):
    return {
        NONE: (0.0, 0.0),
        SUP: (V.max(), np.inf),
        HALF_SPAN: (np.ptp(V) / 2, np.ptp(V)),
        CENTRED: (np.linalg.norm(V - V.mean()), np.ptp(V)),
    }[kind]


def solve(problem, P, r, xi, noise, kind, clip, key=7):
    policy, V = np.zeros((H, S), np.int64), np.zeros((H + 1, S))
    slots = problem.to_slots(P)
    planning.backward_induction(
        problem.layout,
        planning.Model(slots, r, xi, noise),
        planning.Operator(kind, clip, np.uint64(key)),
        planning.Solution(np.zeros((S, A)), policy, V),
    )
    return policy, V


MASKS = {
    "dense": (None, None),
    "masked": (
        (np.random.default_rng(5).random((S, A, S)) < 0.5) | (np.arange(S) == 1),
        np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1]], bool),
    ),
}


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("kind", [NONE, SUP, HALF_SPAN, CENTRED])
@pytest.mark.parametrize("clip", [0, 1])
@pytest.mark.parametrize("noisy", [False, True])
def test_backward_induction(masks, kind, clip, noisy):
    problem, P, r, xi = model(3, *MASKS[masks])
    available = problem.layout.available
    noise = np.random.default_rng(1).standard_normal((H, S, A)) if noisy else np.zeros((0, 0, 0))
    policy, V = solve(problem, P, r, xi, noise, kind, clip)
    after = np.zeros(S)
    for h in reversed(range(H)):
        scale, limit = spread(after, kind)
        Q = r + P @ after + np.minimum(scale * xi, limit) + (noise[h] if noisy else 0.0)
        if clip:
            Q = np.clip(Q, 0, H - h)
        Q = np.where(available, Q, -np.inf)
        assert np.allclose(V[h], Q.max(1), atol=1e-12)
        assert (Q[np.arange(S), policy[h]] >= Q.max(1) - 2e-9).all()
        after = Q.max(1)


@pytest.mark.parametrize("masks", MASKS)
def test_evaluation_and_optimality(masks):
    problem, P, r, xi = model(4, *MASKS[masks])
    policy, V = solve(problem, P, r, xi, np.zeros((0, 0, 0)), NONE, 0)
    values, best = np.zeros((H + 1, S)), V
    planning.evaluate(problem.to_slots(P), problem.layout, r, policy, values)
    assert np.allclose(values, V, atol=1e-8)
    g = np.random.default_rng(0)
    for _ in range(200):
        other = np.array([[g.choice(np.flatnonzero(problem.layout.available[s])) for s in range(S)] for _ in range(H)])
        planning.evaluate(problem.to_slots(P), problem.layout, r, other, values)
        assert (values <= best + 1e-12).all()


def test_optimal_value_by_enumeration():
    """S = 2, A = 2, H = 2: all 16 policies."""
    world = nr.worlds.random_logit(2, 2, 2, 2, seed=3)
    x = world.context(0, 0)
    values = [world.value(np.reshape(p, (2, 2)), x) for p in itertools.product(range(2), repeat=4)]
    assert max(values) == pytest.approx(world.optimal(x).values[0, 0], abs=1e-12)


def test_half_span_bonus_is_optimistic_and_smaller_than_the_sup_norm():
    """2,000 random models and estimates: with xi >= ||P_hat - P||_1, values are above optimal; the printed bonus is
    wider."""
    gap = np.zeros(2)
    for seed in range(2000):
        problem, P, r, _ = model(seed)
        estimate = np.random.default_rng(seed + 10**6).dirichlet(np.ones(S), (S, A))
        xi = np.abs(P - estimate).sum(2)
        best = solve(problem, P, r, xi, np.zeros((0, 0, 0)), NONE, 0)[1]
        for i, kind in enumerate((HALF_SPAN, SUP)):
            V = solve(problem, estimate, r, xi, np.zeros((0, 0, 0)), kind, 1)[1]
            assert (best - 1e-12 <= V).all()
            gap[i] += (V - best)[0].mean()
        V = solve(problem, estimate, r, np.linalg.norm(P - estimate, axis=2), np.zeros((0, 0, 0)), CENTRED, 1)[1]
        assert (best - 1e-12 <= V).all()
    assert gap[0] < 0.8 * gap[1]


def test_the_last_step_is_worth_its_reward():
    """The clip is H - h + 1 with h from 1: at H = 1 the printed H - h would make everything worth 0."""
    problem = nr.Problem(2, 1, 1, 1, weight_bound=1.0, reward_bound=1.0)
    policy, V = np.zeros((1, 2), np.int64), np.zeros((2, 2))
    P, r = np.full((2, 1, 2), 0.5), np.full((2, 1), 0.7)
    planning.backward_induction(
        problem.layout,
        planning.Model(P, r, r * 0, np.zeros((0, 0, 0))),
        planning.Operator(HALF_SPAN, 1, np.uint64(0)),
        planning.Solution(np.zeros((2, 1)), policy, V),
    )
    assert V[0, 0] == 0.7


def test_ties_are_broken_uniformly_and_reproducibly():
    """Equal actions: each is taken a third of the time over keys (chi-square, level 1e-6), the same for the same
    key."""
    problem, P, r, xi = model(0)
    P[:], r[:] = P[:, :1], r[:, :1]
    r[:, 2] += 1e-11  # within the tolerance: still a tie
    policies = []
    for k in range(3000):
        policies.append(solve(problem, P, r, xi, np.zeros((0, 0, 0)), NONE, 0, int(words(5, k, 0, 3)[0]))[0])
    again = solve(problem, P, r, xi, np.zeros((0, 0, 0)), NONE, 0, int(words(5, 17, 0, 3)[0]))[0]
    assert np.array_equal(again, policies[17])
    chosen = np.array(policies)
    for h, s in itertools.product(range(H), range(S)):
        assert stats.chisquare(np.bincount(chosen[:, h, s], minlength=A)).pvalue > 1e-6
    first, second = chosen[:, 0, 0], chosen[:, 0, 1]
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(3000)


def test_a_plan_shows_itself_as_a_table_and_leaves_out_the_middle_of_a_large_one():
    small = nr.Plan(np.array([[0, 1], [1, 0]]), np.zeros((3, 2)), certificate=0.25)
    said = ["step  state 0  state 1", "0     0        1", "1     1        0", "at most 0.25 short of optimal"]
    assert repr(small).splitlines() == str(small).splitlines() == said
    trivial = nr.Plan(small.policy, small.values, certificate=1.95)  # of 2 that are possible
    assert repr(trivial).endswith("at most 1.95 short of optimal, which says nothing yet")
    large = repr(nr.Plan(np.zeros((500, 300), np.int64), np.zeros((501, 300)))).splitlines()
    assert len(large) == 14
    assert max(map(len, large)) <= 80
    assert large[0].split("  ")[0] == "step"
    assert large[7].split() == ["..."] * 9
    assert large[-2].startswith("499")
    assert large[-1] == "[500 steps, 300 states]"
