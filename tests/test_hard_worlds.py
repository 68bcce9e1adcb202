"""The worlds of the lower bound and the sparse one: what their docstrings say, exactly."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

import noregret as nr
import reference
from noregret.theory import lower
from noregret.worlds import HardWorld, InTurn, group_norm, hard_linear, hard_logit, sparse_logit

MAKERS = [hard_logit, hard_linear]
SIZES = [
    # S, A, H, d, K
    (2, 2, 2, 1, 10),
    (2, 5, 7, 3, 10_000),
    (3, 2, 3, 2, 100),
    (4, 3, 6, 2, 10_000),
    (5, 4, 9, 3, 1_000_000),
    (6, 2, 40, 6, 50),
    (7, 3, 12, 1, 777),
    (8, 2, 150, 4, 10_000),
]
both = pytest.mark.parametrize("make", MAKERS)
sizes = pytest.mark.parametrize("size", SIZES)


def walk(horizon, up, down):
    """Values of b and g over H steps, by the definition: the reward of where one is, then the move."""
    b = g = 0.0
    for _ in range(horizon):
        b, g = (1 - up) * b + up * g, 1 + (1 - down) * g + down * b
    return b, g


def corners(world):
    """(i, e_i, j) for every context and copy; with an odd S the copies share a start, j = 0 only."""
    d, m = world.best.shape
    copies = range(m if world.problem.n_states % 2 == 0 else 1)
    return [(i, np.eye(d)[i], j) for i, j in itertools.product(range(d), copies)]


def policy_for(world, i, action):
    """[H, S]: in b_j the action `action(j)`, elsewhere 0."""
    p = world.problem
    made = np.zeros((p.horizon, p.n_states), int)
    for j in range(world.best.shape[1]):
        made[:, 2 * j] = action(world.best[i, j])
    return made


# The chain ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("horizon", [1, 2, 3, 10, 301])
@pytest.mark.parametrize(
    ("up", "down"), [(0.5, 0.5), (0.3, 0.1), (0.75, 0.5), (1.0, 1.0), (0.0, 0.2), (0.2, 0), (0, 0)]
)
def test_chain_in_closed_form(horizon, up, down):
    b, g = walk(horizon, up, down)
    assert lower.stay_value(horizon, up, down) == pytest.approx(b, rel=1e-12, abs=1e-12)
    assert lower.advantage(horizon, up, down) == pytest.approx(g - b, rel=1e-12, abs=1e-12)


def test_chain_convention_is_reward_before_the_move():
    """One step from b pays nothing; two pay `up`. With the reward after the move it would be `up` and more."""
    assert lower.stay_value(1, 0.3, 0.1) == 0.0
    assert lower.stay_value(2, 0.3, 0.1) == pytest.approx(0.3)


def test_printed_delta_bounds_the_difference_of_the_states():
    """delta_1 = 1/2: V(g) - V(b) <= 1/(1 - eps) for every H; delta = 1/H: at least 2/5 H."""
    for eps in (0.01, 0.1, 0.25):
        for horizon in (2, 10, 100, 1000):
            for up in (0.5 - eps, 0.5, 0.5 + eps):
                assert lower.advantage(horizon, up, 0.5) <= 1 / (1 - eps) + 1e-12
    for horizon in (2, 10, 100, 1000):
        assert lower.advantage(horizon, 1 / horizon, 1 / horizon) >= 0.4 * horizon


def test_gap():
    assert lower.gap(10_000, 2, 3, 2, 6) == pytest.approx(0.25 * math.sqrt(3 * 2 * 2 / 6 / (10_000 * 6)))
    assert lower.gap(10_000, 2, 3, 2, 6, 1.0) == pytest.approx(4 * lower.gap(10_000, 2, 3, 2, 6))
    edge = 4 * 2 * 21 * 5  # 4 c^2 A m d with c = 1: from here on the limit delta/2 does not bind
    assert lower.gap(edge, 21, 2, 5, 9, 1.0) == pytest.approx(1 / 18)
    assert lower.gap(edge + 1, 21, 2, 5, 9, 1.0) < 1 / 18
    assert lower.gap(1, 21, 2, 5, 9, 1.0) == 1 / 18


# The worlds --------------------------------------------------------------------------------------------------------
@both
@sizes
def test_optimum_is_that_of_planning(make, size):
    S, A, H, d, K = size
    world = make(S, A, H, d, K, seed=3)
    eps, steps = world.gap, H - S % 2
    assert isinstance(world, HardWorld)
    assert eps == lower.gap(K, S // 2, A, d, H)
    assert world.optimum == pytest.approx(walk(steps, 1 / H + eps, 1 / H)[0], rel=1e-12)
    for i, x, j in corners(world):
        start = S - 1 if S % 2 else 2 * j
        plan = world.optimal(x)
        assert plan.values[0, start] == pytest.approx(world.optimum, abs=1e-12)
        taken = policy_for(world, i, lambda best: best)
        assert world.value(taken, x, start) == pytest.approx(world.optimum, abs=1e-12)
        never = policy_for(world, i, lambda best: (best + 1) % A)
        assert world.value(never, x, start) == pytest.approx(world.worth(0.0), abs=1e-12)
        assert (plan.policy[: H - 1, :-1:2] == world.best[i]).all()  # strictly better while a step follows
    assert world.worth(0.0) == pytest.approx(walk(steps, 1 / H, 1 / H)[0], rel=1e-12)
    assert world.optimum > world.worth(1 / A) > world.worth(0.0)


@both
def test_uniform_play_is_worth_what_it_says(make):
    """By backward induction with uniformly mixed actions, exactly; and the simulator's mean regret (within 5 standard
    errors: it fails by chance with probability 6e-7)."""
    world = make(4, 3, 5, 2, 50, scale=1.0)
    p, x = world.problem, np.eye(2)[0]
    P, r, V = world.transitions(x), world.rewards(x), np.zeros(4)
    for _ in range(p.horizon):
        V = (r + P @ V).mean(1)
    assert V[[0, 2]] == pytest.approx(world.worth(1 / 3), abs=1e-12)
    run = nr.simulate(nr.UniformRandom(p), world, 4000, seeds=1)
    each = np.diff(run.regret[0], prepend=0.0)
    error = each.std() / math.sqrt(each.size)
    assert abs(each.mean() - (world.optimum - world.worth(1 / 3))) < 5 * error


@sizes
def test_both_links_are_the_same_mdps(size):
    logit, linear = (make(*size, seed=5) for make in MAKERS)
    S, A, H, d, _ = size
    assert np.array_equal(logit.best, linear.best)
    assert np.array_equal(logit.problem.support, linear.problem.support)
    for i, x in enumerate(np.eye(d)):
        P = linear.transitions(x)
        assert np.allclose(logit.transitions(x), P, atol=1e-14)
        for j, a in itertools.product(range(S // 2), range(A)):
            b, g = 2 * j, 2 * j + 1
            assert P[b, a, g] == pytest.approx(1 / H + linear.gap * (a == linear.best[i, j]), abs=1e-15)
            assert P[g, a, b] == pytest.approx(1 / H, abs=1e-15)
            for s in (b, g):
                assert np.flatnonzero(linear.problem.support[s, a]).tolist() == [b, g]
        if S % 2:
            assert np.allclose(P[-1, :, 0:-1:2], 1 / (S // 2))
            assert (logit.problem.layout.count[-1] == S // 2).all()
        means = np.zeros((S, A))
        means[1::2] = 1.0
        assert np.array_equal(logit.rewards(x), means)


@sizes
def test_weight_bound_is_the_largest_log_odds(size):
    """World refuses rows above the bound; here: no entry is above bound/sqrt(d), one attains it, and for H > 2 a whole
    row does."""
    world = hard_logit(*size)
    _, _, H, d, _ = size
    q = 1 / H + world.gap
    largest = max(math.log(H - 1), abs(math.log(q / (1 - q))))
    assert world.problem.weight_bound == pytest.approx(math.sqrt(d) * largest, rel=1e-12)
    assert np.abs(world.weights).max() == pytest.approx(largest, rel=1e-12)
    norms = np.linalg.norm(world.weights, axis=-1)
    assert norms.max() <= world.problem.weight_bound * (1 + 1e-12)
    if H > 2:
        assert largest == math.log(H - 1)
        assert norms[1, 0].max() == pytest.approx(math.sqrt(d) * math.log(H - 1), rel=1e-12)


@both
@pytest.mark.parametrize(("m", "d"), [(1, 3), (2, 2), (3, 2), (4, 6), (3, 1)])
def test_every_context_meets_every_copy_equally_often(make, m, d):
    world = make(2 * m, 2, 4, d)
    n = 5 * m * d
    X, starts = np.empty((n, d)), np.empty(n, np.int64)
    world.contexts.fill(0, 0, X)
    world.fill_starts(0, 0, starts)
    met = np.zeros((d, m), int)
    np.add.at(met, (X.argmax(1), starts // 2), 1)
    assert (met == 5).all()
    naive = {(k % d, k % m) for k in range(n)}
    assert len(naive) == math.lcm(m, d)  # k mod m would leave pairs out when m and d share a factor
    assert [world.start(7, k) for k in range(n)] == starts.tolist()


def test_odd_worlds_start_in_the_last_state_and_reach_every_copy():
    world = hard_logit(5, 2, 4, 2)
    assert world.start(0, 17) == world.problem.state("start") == 4
    reached = {world.individual(k).step(0)[1] for k in range(60)}
    assert reached == {world.problem.state("bad 0"), world.problem.state("bad 1")}


BASE = {"K": 40_000, "H": 8, "d": 2, "m": 2, "A": 4}


@both
@pytest.mark.parametrize(("name", "factor"), [("K", 1.01), ("H", 1.01), ("d", 1.01), ("m", 1.01), ("A", 1.2)])
def test_regret_of_uniform_play_scales_like_the_lower_bound(make, name, factor):
    """Regret over H sqrt(d S A K), exactly: doubling one size four times changes it by at most `factor` at a time (A:
    by 1 - 1/A) and it stays between 0.025 and 0.04."""

    def ratio(**size):
        world = make(2 * size["m"], size["A"], size["H"], size["d"], size["K"])
        assert world.gap < 0.5 * world.delta
        regret = size["K"] * (world.optimum - world.worth(1 / size["A"]))
        return regret / lower.order(size["K"], 2 * size["m"], size["A"], size["d"], size["H"])

    seen = [ratio(**BASE | {name: BASE[name] * 2**i}) for i in range(5)]
    assert 0.025 < min(seen) <= max(seen) < 0.04
    for before, after in itertools.pairwise(seen):
        assert 1 / factor < after / before < factor


def test_printed_delta_loses_the_factor_sqrt_h():
    """The same computation for delta_1 = 1/2, eps = c sqrt(A m d/(K H)): over H sqrt(d S A K) it falls like H^-1/2."""

    def ratio(H, K=40_000, A=4, m=2, d=2):
        eps = 0.25 * math.sqrt(A * m * d * 0.5 / (K * H))
        regret = K * (lower.stay_value(H, 0.5 + eps, 0.5) - lower.stay_value(H, 0.5 + eps / A, 0.5))
        return regret / lower.order(K, 2 * m, A, d, H)

    for H in (64, 128, 256):
        assert ratio(2 * H) / ratio(H) == pytest.approx(math.sqrt(0.5), rel=0.02)


@both
def test_rewards_may_be_told_or_not(make):
    told, untold = make(), make(known_rewards=False)
    assert np.array_equal(told.problem.known_rewards, told.reward_weights)
    assert untold.problem.known_rewards is None
    assert np.array_equal(told.weights, untold.weights)
    assert np.linalg.norm(told.reward_weights, axis=-1).max() == pytest.approx(told.problem.reward_bound)


@both
def test_seeds_draw_the_secret_actions(make):
    assert np.array_equal(make(seed=1).best, make(seed=1).best)
    drawn = np.concatenate([make(seed=s).best.ravel() for s in range(50)])
    assert set(drawn) == {0, 1, 2}
    assert not np.array_equal(make(seed=1).best, make(seed=2).best)


@pytest.mark.parametrize("name", ["hard-logit", "hard-linear", "sparse-logit"])
def test_agents_run_there(name):
    small = {"context_dim": 8} if name == "sparse-logit" else {"n_states": 5, "horizon": 4}
    world = nr.worlds.make_world(name, **small)
    run = nr.simulate(nr.GLMORL(world.problem), world, 300, every=100, diagnostics=True)
    assert run.guarantee is not None
    assert run.diagnostics["set_failures"][0, -1] == 0
    oracle = nr.Oracle(world.problem, weights=world.weights, reward_weights=world.reward_weights)
    assert nr.simulate(oracle, world, 50).final[0] == pytest.approx(0.0, abs=1e-10)


@both
@pytest.mark.parametrize("n_states", [4, 5])
def test_runs_agree_with_the_reference(make, n_states):
    world = make(n_states, 2, 5, 2, 100, scale=1.0, known_rewards=False)
    wanted = reference.run(world, "glm-orl", 120, 3, bonus_scale=0.05)
    run = nr.simulate(nr.GLMORL(world.problem, bonus_scale=0.05), world, 120, seeds=[3])
    np.testing.assert_allclose(run.regret[0], wanted.regret, rtol=1e-9, atol=1e-9)


# Starts in turn ----------------------------------------------------------------------------------------------------
def test_starts_in_turn_are_a_function_of_the_episode():
    base = nr.worlds.random_logit(3, 2, 2, 2)
    args = dataclasses.replace(base.problem, initial_states=None), base.weights, base.reward_weights, base.contexts
    turn = InTurn([2, 0, 2, 1], hold=3)
    fast, slow = nr.World(*args, initial_state=turn), nr.World(*args, initial_state=lambda seed, k: turn(seed, k))
    for first in (0, 5, 10**9):
        out = np.zeros((2, 50), np.int64)
        fast.fill_starts(0, first, out[0])
        slow.fill_starts(0, first, out[1])
        assert np.array_equal(*out)
    assert [turn(0, k) for k in range(7)] == [2, 2, 2, 0, 0, 0, 2]
    with pytest.raises(ValueError, match="state must be given: the initial state of this world is a function"):
        fast.value(np.zeros((2, 3), int), fast.context(0, 0))
    runs = [nr.simulate(nr.UniformRandom(w.problem), w, 40, compiled=c) for w in (fast, slow) for c in (True, False)]
    assert all(np.array_equal(run.regret, runs[0].regret) for run in runs)


# The sparse world --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("d", "p"), [(32, 2), (10, 1), (6, 6), (5, 3), (1, 1)])
def test_sparse_world_has_few_relevant_features(d, p):
    for seed in range(3):
        world = sparse_logit(4, 3, 3, d, p, weight_bound=1.7, seed=seed)
        columns = np.flatnonzero(world.weights.any((0, 1, 2)))
        assert columns.size == p
        assert columns[0] == 0
        assert (world.weights[..., columns][:, :, :-1] != 0).all()
        assert np.allclose(np.linalg.norm(world.weights[:, :, :-1], axis=-1), 1.7, rtol=1e-12)
        assert (world.weights[:, :, -1] == 0).all()
        assert set(np.flatnonzero(world.reward_weights.any((0, 1)))) == set(columns)


def test_sparse_world_draws_its_features():
    drawn = {tuple(np.flatnonzero(sparse_logit(seed=s).weights.any((0, 1, 2)))) for s in range(12)}
    assert len(drawn) > 6
    assert np.array_equal(sparse_logit(seed=4).weights, sparse_logit(seed=4).weights)


@pytest.mark.parametrize(("d", "p"), [(32, 2), (10, 1), (5, 5), (1, 1)])
def test_sparse_rewards_stay_in_the_unit_interval(d, p):
    world = sparse_logit(5, 3, 2, d, p, seed=2)
    X = np.empty((5000, d))
    world.contexts.fill(1, 0, X)
    assert np.allclose(np.linalg.norm(X, axis=1), 1.0)
    means = np.einsum("sad,kd->ksa", world.reward_weights, X)
    assert means.min() > -1e-12
    assert means.max() < 1 + 1e-12
    if d > 1:  # and for every u on the sphere: a - ||b|| >= 0, a + ||b|| <= 1
        a, b = world.reward_weights[..., 0], np.linalg.norm(world.reward_weights[..., 1:], axis=-1)
        assert ((a - b) >= -1e-12).all()
        assert ((a + b) / math.sqrt(2) <= 1 + 1e-12).all()


def test_group_norm():
    """One pair by hand; centred <= pinned <= sqrt(S') centred; no shift of the rows changes either; the bound given."""
    W = np.zeros((1, 1, 2, 3))
    W[0, 0] = [[3.0, 0.0, -4.0], [1.0, 0.0, 0.0]]
    assert group_norm(W, "pinned") == pytest.approx(2 + 4)
    assert group_norm(W) == pytest.approx((2 + 4) / math.sqrt(2))
    g = np.random.default_rng(0)
    for _ in range(20):
        V = g.standard_normal((3, 2, 4, 5))
        shifted = V + g.standard_normal((3, 2, 1, 5))
        pairs = [V[s : s + 1, a : a + 1] for s in range(3) for a in range(2)]
        for kind in ("centred", "pinned"):
            assert group_norm(shifted, kind) == pytest.approx(group_norm(V, kind))
            assert group_norm(V, kind) == max(group_norm(pair, kind) for pair in pairs)
        assert group_norm(V) <= group_norm(V, "pinned") <= 2.0 * group_norm(V)
    for d in (4, 64):
        world = sparse_logit(4, 3, 2, d, 3, weight_bound=1.5)
        assert group_norm(world.weights, "pinned") <= math.sqrt(3 * 3) * 1.5


# Bad input ---------------------------------------------------------------------------------------------------------
@both
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_states": 1}, "n_states must be an integer of at least 2, got 1"),
        ({"n_actions": 1}, "n_actions must be an integer of at least 2, got 1"),
        ({"horizon": 1}, "horizon must be an integer of at least 2, got 1"),
        ({"n_states": 5, "horizon": 2}, "horizon must be at least 3 for an odd n_states, whose first step is spent"),
        ({"context_dim": 0}, "context_dim must be an integer of at least 1, got 0"),
        ({"episodes": 0}, "episodes must be an integer of at least 1, got 0"),
        ({"scale": 0.0}, "scale must be a positive number, got 0.0"),
        ({"scale": math.nan}, "scale must be a positive number, got nan"),
        ({"known_rewards": "yes"}, "known_rewards must be True or False, got 'yes'"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
    ],
)
def test_hard_worlds_refuse(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_sparse_world_and_starts_refuse():
    for options, message in (
        ({"relevant": 0}, "relevant must be an integer of at least 1, got 0"),
        ({"relevant": 5, "context_dim": 4}, "relevant must be at most context_dim = 4, got 5"),
        ({"weight_bound": -1.0}, "weight_bound must be a positive number, got -1.0"),
        ({"n_states": 0}, "n_states must be an integer of at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            sparse_logit(**options)
    with pytest.raises(ValueError, match=r"weights must have shape \(S, A, S', d\), got \(3,\)"):
        group_norm([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="coordinates must be one of 'centred', 'pinned', got 'free'"):
        group_norm(np.zeros((1, 1, 1, 1)), "free")
    with pytest.raises(ValueError, match="states must name at least one state"):
        InTurn([])
    with pytest.raises(ValueError, match="states must be an integer of at least 0, got -1"):
        InTurn([-1])
    base = nr.worlds.random_logit(3, 2, 2, 2)
    with pytest.raises(ValueError, match="initial_state must be a state number from 0 to 2, got 3"):
        nr.World(base.problem, base.weights, base.reward_weights, base.contexts, initial_state=InTurn([0, 3]))
