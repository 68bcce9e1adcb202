"""What data say along one direction (docs/joint.md, section 9): the limit, the sum of the steps, intervals."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from noregret.beliefs.joint import space_of, whole_root
from noregret.estimators.rewards.tilts import variance_proxy
from noregret.numerics.largest_quadratic import largest_quadratic
from noregret.planning.directional import (
    Direction,
    Steps,
    _log_mixture,
    limit_of,
    limit_within,
    reward_direction,
    transition_direction,
    variance_proxies,
)
from noregret.planning.joint import aim_of, joint_interval
from test_joint import a_policy, exact, parts_of, points, problem, softmax


def steps_of(made, g, people, theta=None, reward=None):
    """Steps of individuals who take any available action, under weights of the set."""
    S, d, H = made.layout.available.shape[0], made.centre.shape[2], made.horizon
    theta = made.centre if theta is None else theta
    reward = made.reward_centre if reward is None else reward
    X, rows = g.standard_normal((people, d)) / math.sqrt(d), []
    for i, x in enumerate(X):
        s = int(g.integers(S))
        for _ in range(H):
            a = int(g.choice(np.nonzero(made.layout.available[s])[0]))
            n = made.layout.count[s, a]
            p = softmax(made.blocks.features[s, a, :n] @ theta[made.blocks.block[s, a]] @ x, -1)
            slot = int(g.choice(n, p=p))
            mean = made.reward_blocks.features[s, a, 0] @ reward[made.reward_blocks.block[s, a]] @ x
            rows.append((i, s, a, slot, float(g.random() < min(max(mean, 0.0), 1.0))))
            s = int(made.layout.outcomes[s, a, slot])
    person, state, action, slot, seen = zip(*rows, strict=True)
    return Steps(X, *(np.array(part, np.int64) for part in (person, state, action, slot)), np.array(seen))


def moves(made, steps, aims, batch):
    """Per step: (pair's features, displacement along its aim, slot, context, block)."""
    features = space_of(made).features
    for i, s, a, y, b in zip(steps.person, steps.state, steps.action, steps.slot, batch, strict=True):
        n, x = made.layout.count[s, a], steps.X[i]
        yield made.blocks.features[s, a, :n], features[s, a, :n] @ aims[b] @ x, y, x, made.blocks.block[s, a]


def sums(made, steps, aims, batch, theta):
    """(S, h, r) [K] under weights theta [K, B, Q, d], step by step."""
    S, h, r = 0.0, 0.0, 0.0
    for f, v, y, x, b in moves(made, steps, aims, batch):
        p = softmax((f @ (theta[:, b] @ x)[..., None])[..., 0], -1)
        S, h, r = S + p @ v - v[y], h + p @ v**2 - (p @ v) ** 2, max(r, np.ptp(v))
    return S, h, r


def setting(seed, people=6, **more):
    g = np.random.default_rng(seed)
    made = problem(g, **({"S": 3, "H": 3, "scale": 1.0} | more))
    steps = steps_of(made, g, people)
    aims = 0.3 * g.standard_normal((2, space_of(made).rows, made.centre.shape[2]))
    return g, made, steps, aims, (steps.person >= people // 2).astype(np.int64)


@pytest.mark.parametrize("spread", [0.1, 4.0, 300.0])
@pytest.mark.parametrize("widest", [1e-7, 0.5, 5.0])
def test_the_limit_is_where_the_integral_reaches_one_over_delta(spread, widest):
    tau, delta = (0.2, 1.0), 0.05

    def mixture(c):
        total = 0.0
        for t in tau:

            def f(x, t=t):
                r = max(abs(x) * widest, 1e-5)
                return math.exp(min(x * c - x * x * (math.expm1(r) - r) / r**2 * spread - 0.5 * (x / t) ** 2, 600.0))

            total += quad(f, -12 * t, 12 * t, points=np.linspace(-3 * t, 3 * t, 41), limit=400)[0] / t
        return math.log(total / len(tau) / math.sqrt(2 * math.pi))

    c = limit_of(spread, widest, tau, delta)
    assert mixture(c) == pytest.approx(math.log(1 / delta), abs=2e-3)
    assert mixture(c) >= math.log(1 / delta) - 1e-9
    if widest < 1e-6:
        t = 1.0
        seen = 1 + t * t * spread
        exactly = math.sqrt(2 / t**2 * seen * (math.log(1 / delta) + 0.5 * math.log(seen)))
        assert limit_of(spread, widest, (t,), delta) == pytest.approx(exactly, rel=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_the_martingale_is_at_least_what_the_limit_takes_for_it(seed):
    """ln M at any weights is at least the mixture at |S|, h and r: a small M means a small sum."""
    _, made, steps, aims, batch = setting(seed)
    S, h, r = sums(made, steps, aims, batch, made.centre[None])
    at = np.linspace(-8.0, 8.0, 4001)
    logs = np.zeros(at.size)
    for f, v, y, x, b in moves(made, steps, aims, batch):
        p = softmax(f @ made.centre[b] @ x, -1)
        logs += at * v[y] - np.log(np.exp(at[:, None] * (v - v.max())) @ p) - at * v.max()
    M = (np.exp(logs - 0.5 * at**2) / math.sqrt(2 * math.pi)).sum() * (at[1] - at[0])
    assert math.log(M) >= _log_mixture(abs(float(S[0])), float(h[0]), r, (1.0,)) - 1e-6


def sum_and_expansion(made, g, steps, aims, batch):
    """(rest of the sum [K], its bound [K]) at weights of the set; the spread is checked on the way."""
    found = transition_direction(made, steps, aims, batch, (0.3, 1.0), 0.1)
    weights, d = points(made, g, 40), made.centre.shape[2]
    S, h, r = sums(made, steps, aims, batch, weights[0])
    assert found.start == pytest.approx(float(sums(made, steps, aims, batch, made.centre[None])[0][0]), abs=1e-9)
    assert limit_of(float(h.max()), r, (0.3, 1.0), 0.1) <= found.limit * (1 + 1e-9)
    start = np.eye(made.layout.count.shape[0])[0]
    y = parts_of(made, (np.ones((1, d)), np.ones(1), start, a_policy(made, g), None))[2](weights)
    D = y @ whole_root(space_of(made), d).T
    rest = S - found.start - D @ found.slope - np.einsum("ki,ij,kj->k", D, found.bend, D)
    return rest, np.einsum("ki,ij,kj->k", D, found.rest, D)


@pytest.mark.parametrize("seed", range(8))
def test_the_sum_is_its_expansion_up_to_the_rest_and_its_spread_is_bounded(seed):
    rest, bound = sum_and_expansion(*(setting(seed)[i] for i in (1, 0, 2, 3, 4)))
    assert (np.abs(rest) <= bound * (1 + 1e-9) + 1e-9).all()


def test_half_of_the_rest_of_a_sum_would_not_do():
    """One step, one pair: the form is nearly reached."""
    largest = 0.0
    for seed in range(30):
        g, made, steps, aims, batch = setting(seed, people=1, S=2, H=1, B=1, scale=3.0, width=0.5)
        rest, bound = sum_and_expansion(made, g, steps, aims, batch)
        largest = max(largest, float(((np.abs(rest) - 1e-10) / np.maximum(bound, 1e-10)).max()))
    assert 0.5 < largest <= 1.0


@pytest.mark.study(first=4)
@pytest.mark.parametrize("seed", range(9))
def test_weights_that_the_directions_allow_are_inside(seed):
    """Whatever the limits are: weights of the set whose sums keep to them have psi inside."""
    g, made, steps, aims, batch = setting(seed, width=[0.1, 0.5, 1.5][seed % 3])
    weights, policy, other = points(made, g, 300), a_policy(made, g), [None, a_policy(made, g)][seed % 2]
    question = g.standard_normal((2, made.centre.shape[2])), np.ones(2), np.eye(3)[0], policy, other
    first = aim_of(made, question[0], policy, other, people=2.0)
    aims[0] = first
    along = transition_direction(made, steps, aims, batch, (1.0,), 0.1)
    paid = reward_direction(made, steps, aims, batch, (1.0,), 0.1)
    S = sums(made, steps, aims, batch, weights[0])[0]
    W = reward_sums(made, steps, aims, batch, weights[1])
    tight = (
        along._replace(limit=float(np.quantile(np.abs(S), g.choice([0.02, 0.3])))),
        paid._replace(limit=float(np.quantile(np.abs(W), 0.5))),
    )
    kept = (np.abs(S) <= tight[0].limit) & (np.abs(W) <= tight[1].limit)
    found = joint_interval(made, question[0], policy, other, directions=tight)
    plain = joint_interval(made, question[0], policy, other)
    psi = exact(made, weights, question)
    assert (psi[kept] >= found.lower - 1e-9).all()
    assert (psi[kept] <= found.upper + 1e-9).all()
    assert found.upper <= plain.upper + 1e-9
    assert found.lower >= plain.lower - 1e-9


def reward_sums(made, steps, aims, batch, reward):
    """sum of w (mean - reward) [K], step by step."""
    features, total = space_of(made).reward_features, 0.0
    for t, (i, s, a) in enumerate(zip(steps.person, steps.state, steps.action, strict=True)):
        x, b = steps.X[i], made.reward_blocks.block[s, a]
        if np.isnan(steps.reward[t]):
            continue
        mean = (reward[:, b] @ x) @ made.reward_blocks.features[s, a, 0]
        total = total + (features[s, a] @ aims[batch[t]] @ x) * (mean - steps.reward[t])
    return total


def test_the_sum_of_rewards_is_linear_in_their_weights():
    g, made, steps, aims, batch = setting(3, known=False, B_r=1)
    steps.reward[::7] = np.nan
    found = reward_direction(made, steps, aims, batch, (0.5,), 0.05)
    w = np.array(
        [
            space_of(made).reward_features[s, a] @ aims[b] @ steps.X[i]
            for i, s, a, b in zip(*steps[1:4], batch, strict=True)
        ]
    )
    seen = 1 + 0.25 * 0.25 * (w[~np.isnan(steps.reward)] ** 2).sum()
    assert found.limit <= math.sqrt(2 / 0.25 * seen * (math.log(20) + 0.5 * math.log(seen))) * (1 + 1e-3)
    weights = points(made, g, 10)[1]
    space, d = space_of(made), made.centre.shape[2]
    first, last = space.starts[-1]
    change = (weights - made.reward_centre)[:, 0, : last - first].reshape(10, -1)
    S = reward_sums(made, steps, aims, batch, weights)
    assert np.allclose(S, found.start + change @ found.slope[first * d : last * d])
    assert not found.rest.any()
    assert not found.bend.any()


def test_variances_that_ranges_of_means_allow_are_those_of_the_kernel():
    g = np.random.default_rng(0)
    low, r = g.uniform(0.0, 1.0, 400), g.uniform(0.0, 3.0, 400)
    high = np.minimum(low + g.uniform(0.0, 0.3, 400), 1.0)
    found = variance_proxies(low, high, r)
    one = np.array([variance_proxy(*each) for each in zip(low, high, r, strict=True)])
    assert np.allclose(found, one, rtol=0, atol=1e-6)
    assert (found >= one).all()
    assert found.min() < 0.1


@pytest.mark.parametrize("most", [0.05, 0.3, 5.0])
@pytest.mark.parametrize("spread", [2.0, 300.0])
def test_a_limit_within_a_reach_is_where_its_integral_comes_to_one_over_delta(spread, most):
    tau, delta = 0.4, 0.05
    c = limit_within(spread, most, tau, delta)

    def f(x):
        return math.exp(min(x * c - 0.5 * x * x * (spread + 1.0 / tau**2), 600.0)) / (tau * math.sqrt(2.0 * math.pi))

    total = quad(f, -most, most, points=np.linspace(-most, most, 41)[1:-1], limit=400)[0]
    assert math.log(total) == pytest.approx(math.log(1 / delta), abs=1e-6)
    assert total >= 1 / delta


def chi(mu, u):
    return np.log1p(mu * np.expm1(u)) - mu * u


def reward_run(g, n=150):
    """One pair with the mean 0.15 + 0.1 x, whose weights and contexts look at the past: (S, weights, means)."""
    x, w, reward, S = g.uniform(-1.0, 1.0, n), np.ones(n), np.zeros(n), 0.0
    for i in range(n):
        x[i], w[i] = (x[i], 1.0) if S > 0.0 else (-1.0, 2.0)
        reward[i] = g.random() < 0.15 + 0.1 * x[i]
        S += w[i] * (0.15 + 0.1 * x[i] - reward[i])
    return S, w, 0.15 + 0.1 * x


def test_the_martingale_of_rewards_is_at_least_what_the_limits_take_for_it():
    """ln M at the true means is at least the integral with proxies for the variances, within the reach; and the sum
    stays within the limit in all but delta of the runs; within a quarter of it it does not."""
    at, tau, delta, outside = np.linspace(-4.0, 4.0, 2001), 0.3, 0.3, np.zeros(2)
    for seed in range(150):
        S, w, mean = reward_run(np.random.default_rng(seed))
        most = 0.5
        h = float((w**2 * variance_proxies(mean, mean, most * w)).sum())
        logs = -at * S - chi(mean, -at[:, None] * w).sum(1) - 0.5 * (at / tau) ** 2  # of w (reward - mean)
        M = np.trapezoid(np.exp(logs), at) / (tau * math.sqrt(2.0 * math.pi))
        near = np.abs(at) <= most
        below = np.trapezoid(np.exp(np.abs(S) * at - 0.5 * at**2 * (h + 1 / tau**2))[near], at[near])
        least = below / (tau * math.sqrt(2.0 * math.pi))
        assert least * (1 - 1e-6) <= M
        limit = limit_within(h, most, tau, delta)
        outside += [abs(S) > limit, abs(S) > limit / 4.0]
    assert outside[0] <= binom.isf(1e-4, 150, delta)
    assert outside[1] > binom.isf(1e-4, 150, delta)


def test_rewards_with_small_means_have_smaller_limits():
    _, made, steps, aims, batch = setting(3, known=False, B_r=1)
    centre = made.reward_centre * 0.0
    centre[:, 0, 0] = 0.02
    near = made._replace(reward_centre=centre, reward_radius=np.full_like(made.reward_radius, 1e-3))
    wide = reward_direction(made._replace(reward_radius=made.reward_radius + 1e3), steps, aims, batch, (0.5,), 0.05)
    assert reward_direction(near, steps, aims, batch, (0.5,), 0.05).limit < 0.95 * wide.limit
    moved = reward_direction(near, steps, aims, batch, (0.5,), 0.05, offset=-0.5)  # means about 1/2
    assert moved.limit == pytest.approx(wide.limit, rel=0.01)


def test_an_aim_that_looks_ahead_breaks_the_limit_and_one_that_does_not_keeps_it():
    """One row, many steps: the aim must be known before the step. Looking at what came makes every step a surprise."""
    g = np.random.default_rng(9)
    made = problem(g, S=2, A=1, H=1, d=1, B=1, scale=0.1, width=0.3, known=True, masked=False)
    rows, runs = space_of(made).rows, 8
    missed = np.zeros(2)
    for _ in range(runs):
        steps = steps_of(made, g, 60)
        before = np.array([g.choice([-1.0, 1.0], (rows, 1)) for _ in range(60)])
        ahead = before.copy()
        for t, (_, v, y, _, _) in enumerate(moves(made, steps, before, np.arange(60))):
            ahead[t] *= np.sign(v[y] - v[1 - y])
        for i, aims in enumerate((before, ahead)):
            found = transition_direction(made, steps, aims, np.arange(60), (0.3, 1.0), 0.1)
            S, h, r = sums(made, steps, aims, np.arange(60), made.centre[None])
            missed[i] += abs(S[0]) > limit_of(float(h[0]), r, (0.3, 1.0), 0.1)
            assert limit_of(float(h[0]), r, (0.3, 1.0), 0.1) <= found.limit
    assert missed[0] <= 1
    assert missed[1] > 0.9 * runs


def test_directions_of_nothing_change_nothing():
    g, made, _, _, _ = setting(11)
    policy, d = a_policy(made, g), made.centre.shape[2]
    p = space_of(made).rows * d
    nothing = Direction(0.0, np.zeros(p), np.zeros((p, p)), np.zeros((p, p)), 1.0)
    X = np.ones((1, d))
    assert joint_interval(made, X, policy, directions=[nothing]).upper == joint_interval(made, X, policy).upper


@pytest.mark.parametrize("seed", range(4))
def test_the_interval_is_the_best_over_all_multiples_of_a_direction(seed):
    g, made, _, _, _ = setting(seed, B=1, d=3, known=True, width=0.3)
    policy, X = a_policy(made, g), g.standard_normal((2, made.centre.shape[2]))
    totals, groups, _ = parts_of(made, (X, np.ones(2), np.eye(3)[0], policy, None))
    root, p = whole_root(space_of(made), X.shape[1]), totals.slope.size
    turn = g.standard_normal((p, p)) / p
    size = float(np.linalg.norm(totals.slope))
    inside = Direction(  # in the coordinates of the ball, and about psi itself
        0.02 * size,
        totals.slope + 0.1 * size * turn[0],
        0.05 * size * (turn + turn.T),
        0.2 * size * turn @ turn.T,
        0.1 * size,
    )
    back = np.linalg.inv(root)
    outside = Direction(
        inside.start, back.T @ inside.slope, back.T @ inside.bend @ back, back.T @ inside.rest @ back, inside.limit
    )
    found = joint_interval(made, X, policy, directions=[outside])
    for sign, end in ((1.0, found.upper - found.centre), (-1.0, found.centre - found.lower)):
        best = math.inf
        for kappa in np.linspace(-1.4, 1.4, 141):
            M = sign * totals.bend - 2 * kappa * inside.bend + 2 * totals.rest + 2 * abs(kappa) * inside.rest
            most = largest_quadratic(sign * totals.slope - kappa * inside.slope, M, groups)
            best = min(best, most - kappa * inside.start + abs(kappa) * inside.limit)
        assert end == pytest.approx(best, rel=1e-2)
        assert end < 0.97 * largest_quadratic(sign * totals.slope, sign * totals.bend + 2 * totals.rest, groups)


def test_a_limit_without_numbers_says_nothing():
    for spread, widest in ((math.inf, 1.0), (math.nan, 1.0), (1.0, math.inf)):
        assert limit_of(spread, widest, (0.1,), 0.05) == math.inf
