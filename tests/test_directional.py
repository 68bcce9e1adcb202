"""What data say along one direction (docs/joint.md, section 9): the limit, the sum of the steps, intervals."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, norm

from noregret.beliefs.joint import space_of, whole_root
from noregret.numerics.largest_quadratic import largest_quadratic
from noregret.planning.directional import PLANNED, Direction, Steps, _sums, direction_of, limit_of, planned_limit_of
from noregret.planning.joint import aim_of, joint_interval
from test_joint import a_policy, exact, parts_of, points, problem, softmax

TAU = 0.4


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


def terms(made, steps, aims, batch, weights):
    """(xi [K, T], c [T]) under weights (transitions [K, B, Q, d], rewards), step by step."""
    theta, reward = weights
    space, xi, c = space_of(made), [], []
    for t, (i, s, a, y) in enumerate(zip(*steps[1:5], strict=True)):
        n, x, aim = made.layout.count[s, a], steps.X[i], aims[batch[t]]
        f, v, w = made.blocks.features[s, a, :n], space.features[s, a, :n] @ aim @ x, space.reward_features[s, a] @ aim
        p, w = softmax((f @ (theta[:, made.blocks.block[s, a]] @ x)[..., None])[..., 0], -1), w @ x
        found = p @ v - v[y]
        if not np.isnan(steps.reward[t]):
            mean = (reward[:, made.reward_blocks.block[s, a]] @ x) @ made.reward_blocks.features[s, a, 0]
            found = found + w * (mean - steps.reward[t])
        xi.append(found)
        c.append(np.ptp(v) + abs(w))
    return np.array(xi).T, np.array(c)


def at_centre(made):
    return made.centre[None], made.reward_centre[None]


def setting(seed, people=6, **more):
    """About a seventh of the rewards is not observed."""
    g = np.random.default_rng(seed)
    made = problem(g, **({"S": 3, "H": 3, "scale": 1.0} | more))
    steps = steps_of(made, g, people)
    steps.reward[::7] = np.nan
    aims = 0.3 * g.standard_normal((2, space_of(made).rows, made.centre.shape[2]))
    return g, made, steps, aims, (steps.person >= people // 2).astype(np.int64)


def third(b):
    return -math.log1p(-b) - b - 0.5 * b * b if b > 1e-4 else b**3 / 3.0


@pytest.mark.parametrize("square", [0.1, 4.0, 300.0])
@pytest.mark.parametrize("size", [1e-9, 0.05, 1.0])
def test_the_limit_is_where_the_integral_reaches_one_over_delta(square, size):
    """Sizes are rounded up to cells, so the limit may be a little above the root, never below."""
    tau, delta, widest = 0.5, 0.05, 1.3
    sizes = size * np.array([0.2, 0.7, 1.0, 1.0, 0.4])
    c = limit_of(square, sizes, widest, tau, delta)

    def f(x):
        cost = 0.5 * x * x * square + sum(third(abs(x) * m) for m in sizes) + 0.5 * (x / tau) ** 2
        return math.exp(min(x * c - cost, 600.0)) / (tau * math.sqrt(2.0 * math.pi))

    reach = 0.9 / widest
    total = quad(f, -reach, reach, points=np.linspace(-reach, reach, 41)[1:-1], limit=400)[0]
    assert math.log(total) >= math.log(1 / delta) - 1e-9
    assert math.log(total) == pytest.approx(math.log(1 / delta), abs=6e-3)


def test_the_limit_of_many_small_steps_is_that_of_a_normal_mixture():
    for square, tau in ((2000.0, 0.1), (50.0, 1.0)):
        c = limit_of(square, np.full(10, 1e-6), 1e-5, tau, 0.05)
        seen = 1 + tau**2 * square
        assert c == pytest.approx(math.sqrt(2 / tau**2 * seen * (math.log(20) + 0.5 * math.log(seen))), rel=1e-3)


@pytest.mark.parametrize("seed", range(8))
def test_the_martingale_is_at_least_what_the_limit_takes_for_it(seed):
    """ln M at any weights is at least the integral with |S|, sum xi^2 and the sizes: a small M means a small sum."""
    _, made, steps, aims, batch = setting(seed, scale=[0.5, 3.0][seed % 2])
    xi, c = terms(made, steps, aims, batch, at_centre(made))
    xi, widest = np.clip(xi[0], -c, c), c.max()
    S, h, t = abs(xi.sum()), xi @ xi, np.vectorize(third)
    at = np.linspace(-1.0, 1.0, 4001)[1:-1] / widest
    logs = np.log1p(at[:, None] * xi).sum(1) - 0.5 * (at / TAU) ** 2
    near = np.abs(at) * widest <= 0.9
    cost = 0.5 * at**2 * (h + TAU**-2) + t(np.abs(at[:, None] * xi) * near[:, None]).sum(1)
    least, M = np.trapezoid(np.exp(at * S - cost)[near], at[near]), np.trapezoid(np.exp(logs), at)
    assert least <= M * (1 + 1e-6)
    delta = min(TAU * math.sqrt(2.0 * math.pi) / M, 0.99)  # M is 1/delta: S is within the limit
    assert limit_of(h, np.abs(xi), widest, TAU, delta) * (1 + 1e-6) >= S


@pytest.mark.parametrize("seed", range(6))
def test_two_points_are_below_the_martingale_they_stand_for(seed):
    """ln of the mean of prod (1 + lambda xi) over lambda and -lambda is at least what the limit takes for it."""
    _, made, steps, aims, batch = setting(seed, scale=[0.5, 3.0][seed % 2])
    xi, c = terms(made, steps, aims, batch, at_centre(made))
    xi, widest = np.clip(xi[0], -c, c), c.max()
    for share in (0.1, 0.5, 0.9):
        at = share / widest
        M = 0.5 * (np.prod(1.0 + at * xi) + np.prod(1.0 - at * xi))
        delta = min(1.0 / M, 0.99)  # M is 1/delta: S is within the limit
        found = planned_limit_of(float(xi @ xi), np.abs(xi), float(widest), at, delta)
        assert found >= abs(xi.sum()) * (1 - 1e-9)
        cost = 0.5 * at**2 * (xi @ xi) + np.vectorize(third)(at * np.abs(xi)).sum()
        assert found == pytest.approx((math.log(2.0 / delta) + cost) / at, rel=1e-2)
    assert planned_limit_of(1.0, xi, float(widest), 0.91 / widest, 0.1) == math.inf


def test_a_planned_limit_is_what_it_is_tuned_for():
    """Against the normal law: a tenth less where it is right, little more for squares half or twice as large."""
    delta, square = 0.01, 5000.0
    size, at = np.full(10, 1e-6), math.sqrt(2.0 * math.log(2.0 / 0.01) / square)
    best = math.sqrt(2.0 * square * math.log(2.0 / delta))
    assert planned_limit_of(square, size, 1e-5, at, delta) == pytest.approx(best, rel=1e-6)
    open_ended = min(limit_of(square, size, 1e-5, tau, delta) for tau in np.geomspace(0.002, 0.5, 30))
    assert 0.9 * open_ended < best < 0.92 * open_ended
    for factor in (0.5, 2.0):
        found = planned_limit_of(factor * square, size, 1e-5, at, delta)
        assert found == pytest.approx(best * 0.5 * (1.0 + factor), rel=1e-6)
    _, made, steps, aims, batch = setting(1)
    plain = direction_of(made, steps, aims, batch, TAU, 0.1)
    tuned = [direction_of(made, steps, aims, batch, TAU, 0.1, planned=at) for at in (1e-9, 0.2, 1e9)]
    spare = direction_of(made, steps, aims, batch, TAU, 0.1 * (1.0 - PLANNED)).limit
    assert tuned[0].limit == tuned[2].limit == spare > plain.limit
    _, size, width = _sums(made, space_of(made), steps, aims[batch], np.arange(batch.size), 0)
    own = planned_limit_of(float(size @ size), size, float(width.max()), 0.2, PLANNED * 0.1)
    assert tuned[1].limit == pytest.approx(own, rel=1e-9)  # here squares of the sizes are the smaller bound
    assert tuned[1].limit < spare


def sum_and_expansion(made, g, steps, aims, batch):
    """(rest of the sum [K], its bound [K]) at weights of the set; limit, squares and sizes are checked on the way."""
    found = direction_of(made, steps, aims, batch, TAU, 0.1)
    weights, d = points(made, g, 40), made.centre.shape[2]
    xi, c = terms(made, steps, aims, batch, weights)
    assert found.start == pytest.approx(float(terms(made, steps, aims, batch, at_centre(made))[0].sum()), abs=1e-9)
    start = np.eye(made.layout.count.shape[0])[0]
    y = parts_of(made, (np.ones((1, d)), np.ones(1), start, a_policy(made, g), None))[2](weights)
    D = y @ whole_root(space_of(made), d).T
    sums, size, width = _sums(made, space_of(made), steps, aims[batch], np.arange(batch.size), 0)
    most = sums.square + D @ sums.square_slope + np.einsum("ki,ij,kj->k", D, sums.square_rest, D)
    assert ((xi**2).sum(1) <= most * (1 + 1e-9) + 1e-9).all()
    assert np.allclose(width, c)
    assert (np.minimum(np.abs(xi), c) <= size * (1 + 1e-9) + 1e-9).all()
    kept = np.minimum(np.abs(xi), c)  # means of rewards that are in [0, 1] cannot do more
    limits = [limit_of(float(one @ one), one, float(c.max()), TAU, 0.1) for one in kept]
    assert max(limits) <= found.limit * (1 + 1e-9)
    rest = xi.sum(1) - found.start - D @ found.slope - np.einsum("ki,ij,kj->k", D, found.bend, D)
    return rest, np.einsum("ki,ij,kj->k", D, found.rest, D)


@pytest.mark.parametrize("seed", range(10))
def test_the_sum_is_its_expansion_up_to_the_rest_and_its_squares_are_bounded(seed):
    rest, bound = sum_and_expansion(*(setting(seed)[i] for i in (1, 0, 2, 3, 4)))
    assert (np.abs(rest) <= bound * (1 + 1e-9) + 1e-9).all()


def test_squares_are_bounded_where_rewards_outweigh_next_states():
    """xi is large, by the reward, and what bends it is the next state: the product counts."""
    reached = []
    for seed in range(20):
        g, made, steps, aims, batch = setting(seed, known=False, B_r=1, width=0.7)
        first = space_of(made).starts[-1][0]
        aims[:, first:] *= 30.0
        theta, reward = points(made, g, 60)
        reward[:] = made.reward_centre
        xi = terms(made, steps, aims, batch, (theta, reward))[0]
        sums = _sums(made, space_of(made), steps, aims[batch], np.arange(batch.size), 0)[0]
        change = (theta - made.centre)[:, made.blocks.size > 0]
        D = np.zeros((60, sums.square_slope.size))
        at, d = 0, made.centre.shape[2]
        for b, size in enumerate(made.blocks.size):
            D[:, at : at + size * d] = change[:, b, :size].reshape(60, -1)
            at += size * d
        rest = (xi**2).sum(1) - sums.square - D @ sums.square_slope
        bound = np.einsum("ki,ij,kj->k", D, sums.square_rest, D)
        assert (rest <= bound * (1 + 1e-9) + 1e-9).all()
        reached.append(float((rest / bound).max()))
    assert max(reached) > 0.2


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
def test_weights_that_the_direction_allows_are_inside(seed):
    """Whatever the limit is: weights of the set whose sums keep to it have psi inside."""
    g, made, steps, aims, batch = setting(seed, width=[0.1, 0.5, 1.5][seed % 3])
    weights, policy, other = points(made, g, 300), a_policy(made, g), [None, a_policy(made, g)][seed % 2]
    question = g.standard_normal((2, made.centre.shape[2])), np.ones(2), np.eye(3)[0], policy, other
    aims[0] = aim_of(made, question[0], policy, other, people=2.0)
    along = direction_of(made, steps, aims, batch, 1.0, 0.1)
    S = terms(made, steps, aims, batch, weights)[0].sum(1)
    tight = along._replace(limit=float(np.quantile(np.abs(S), g.choice([0.02, 0.3]))))
    kept = np.abs(S) <= tight.limit
    found = joint_interval(made, question[0], policy, other, directions=[tight])
    plain = joint_interval(made, question[0], policy, other)
    psi = exact(made, weights, question)
    assert (psi[kept] >= found.lower - 1e-9).all()
    assert (psi[kept] <= found.upper + 1e-9).all()
    assert found.upper <= plain.upper + 1e-9
    assert found.lower >= plain.lower - 1e-9


def test_a_step_is_as_wide_whether_its_reward_is_observed_or_not():
    """Where M ends must be known before the step; whether a reward will be observed is not."""
    _, made, steps, aims, batch = setting(5, known=False, B_r=1)

    def widths(reward):
        return _sums(made, space_of(made), steps._replace(reward=reward), aims[batch], np.arange(batch.size), 0)[2]

    assert np.array_equal(widths(steps.reward), widths(np.full(batch.size, np.nan)))
    assert np.array_equal(widths(steps.reward), widths(np.full(batch.size, 0.5)))


def test_rewards_may_depend_on_next_states_and_on_the_past():
    """Two next states, the reward 1 with one of them: a mean of 0.3 each. Displacements and when rewards are looked at
    follow what came before. The sum stays within its limit in all but delta of the runs. A quarter of the limit would
    not do, nor at one look the standard deviation that it would have if next states and rewards were independent."""
    runs, n, delta, rng = 400, 200, 0.3, np.random.default_rng(3)
    outside = np.zeros(3)
    for _ in range(runs):
        y, xi, S, h, wide = rng.random(n) < 0.3, np.zeros(n), 0.0, 0.0, 0.0
        for i in range(n):
            v, w = (1.0, 0.5) if S > 0.0 else (0.6, 1.2)  # next state 1 moves by v, next state 0 by 0
            w *= rng.random() < 0.8
            xi[i] = v * (0.3 - y[i]) + w * (0.3 - y[i])
            S, h, wide = S + xi[i], h + 0.21 * (v**2 + w**2), max(wide, v + 1.2)
        limit = limit_of(float(xi @ xi), np.abs(xi), wide, 0.3, delta)
        outside += [abs(S) > limit, abs(S) > 0.25 * limit, abs(S) > norm.isf(0.5 * delta) * math.sqrt(h)]
    assert outside[0] <= binom.isf(1e-4, runs, delta)
    assert (outside[1:] > binom.isf(1e-4, runs, delta)).all()


def test_an_aim_that_looks_ahead_breaks_the_limit_and_one_that_does_not_keeps_it():
    """One row, many steps: the aim must be known before the step. Looking at what came makes every step a surprise."""
    g = np.random.default_rng(9)
    made = problem(g, S=2, A=1, H=1, d=1, B=1, scale=0.1, width=0.3, known=True, masked=False)
    rows, runs, n = space_of(made).rows, 8, 250
    missed = np.zeros(2)
    for _ in range(runs):
        steps = steps_of(made, g, n)
        before = np.array([g.choice([-1.0, 1.0], (rows, 1)) for _ in range(n)])
        signs = np.sign(terms(made, steps, before, np.arange(n), at_centre(made))[0][0])
        for i, aims in enumerate((before, before * signs[:, None, None])):
            found = direction_of(made, steps, aims, np.arange(n), 1.0, 0.1)
            xi, c = terms(made, steps, aims, np.arange(n), at_centre(made))
            limit = limit_of(float(xi[0] @ xi[0]), np.abs(xi[0]), float(c.max()), 1.0, 0.1)
            missed[i] += abs(xi.sum()) > limit
            assert limit <= found.limit
    assert missed[0] <= 1
    assert missed[1] > 0.9 * runs


def test_directions_of_nothing_change_nothing():
    g, made, _, _, _ = setting(11)
    policy, d = a_policy(made, g), made.centre.shape[2]
    p = space_of(made).rows * d
    nothing = Direction(0.0, np.zeros(p), np.zeros((p, p)), np.zeros((p, p)), 1.0)
    X = np.ones((1, d))
    plain = joint_interval(made, X, policy)
    for limit in (1.0, math.inf):
        assert joint_interval(made, X, policy, directions=[nothing._replace(limit=limit)]) == plain


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

        def bound(kappa):
            M = sign * totals.bend - 2 * kappa * inside.bend + 2 * totals.rest + 2 * abs(kappa) * inside.rest  # noqa: B023
            most = largest_quadratic(sign * totals.slope - kappa * inside.slope, M, groups)  # noqa: B023
            return most - kappa * inside.start + abs(kappa) * inside.limit

        middle = min(np.linspace(-1.4, 1.4, 71), key=bound)
        best = min(bound(kappa) for kappa in np.linspace(middle - 0.04, middle + 0.04, 81))
        assert end == pytest.approx(best, rel=2e-3)
        assert end < 0.97 * largest_quadratic(sign * totals.slope, sign * totals.bend + 2 * totals.rest, groups)


def test_a_limit_without_numbers_says_nothing():
    sizes = np.ones(3)
    for square, size, widest in (
        (math.inf, sizes, 1.0),
        (math.nan, sizes, 1.0),
        (1.0, sizes, math.inf),
        (1.0, sizes * math.inf, 1.0),
    ):
        assert limit_of(square, size, widest, 0.1, 0.05) == math.inf
        assert planned_limit_of(square, size, widest, 0.1, 0.05) == math.inf


def test_no_steps_say_nothing():
    _, made, steps, aims, _ = setting(2)
    none = np.zeros(0, np.int64)
    found = direction_of(made, Steps(steps.X, none, none, none, none, np.zeros(0)), aims, none, TAU, 0.1)
    assert found.limit == 0.0
    assert not found.slope.any()
