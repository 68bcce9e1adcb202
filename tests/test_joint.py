"""Intervals from one joint set (docs/joint.md): lemmas, derivatives, the rest, and that no weights get outside."""

import itertools
import math

import numpy as np
import pytest

import reference_joint as twin
from noregret.beliefs import displaced
from noregret.beliefs.joint import JointSet, space_of
from noregret.numerics.largest_quadratic import largest_quadratic
from noregret.planning import forms, joint, occupancy, remainder, unrolled
from noregret.planning.derivatives import dense, expand, step_of, third_derivative
from noregret.planning.joint import joint_interval
from noregret.problem.design import Blocks, every_entry
from noregret.problem.layout import full_layout, masked_layout


def softmax(z, axis=-2):
    e = np.exp(z - z.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def problem(g, S=None, A=None, H=None, d=None, B=None, scale=None, width=None, known=None, masked=None, B_r=None):
    """A random joint set; scale: of the logits, width: about the largest displacement of one."""
    S, A, H, d = S or g.integers(2, 5), A or g.integers(1, 4), H or g.integers(1, 5), d or g.integers(1, 4)
    scale = scale if scale is not None else g.choice([0.3, 1.0, 3.0, 10.0])
    width = width if width is not None else g.choice([0.03, 0.2, 0.7, 2.0, 6.0])
    masked = g.random() < 0.4 if masked is None else masked
    available = np.ones((S, A), bool)
    if A > 1 and g.random() < 0.3:
        available[g.integers(S), g.integers(A)] = False
    layout = full_layout(available)
    if masked:
        listed = np.full((S, A, S), -1)
        for s, a in itertools.product(range(S), range(A)):
            kept = np.sort(g.choice(S, g.integers(1, S + 1), replace=False))
            listed[s, a, : kept.size] = kept
        layout = masked_layout(listed, available)
    M = layout.outcomes.shape[2]
    parts = []
    for slots, number, spread in ((M, B, scale), (1, B_r, 0.5)):
        B_n = min(number or int(g.choice([1, 1, 2, S * A])), S * A)
        block = np.concatenate([np.arange(B_n), g.integers(0, B_n, S * A - B_n)]).reshape(S, A)
        size = g.integers(1, 4, B_n)
        Q = int(size.max())
        features = g.standard_normal((S, A, slots, Q)) * (np.arange(Q) < size[block][..., None, None])
        if slots > 1:
            last = np.take_along_axis(features, (layout.count - 1)[..., None, None], 2)
            features = (features - last) * (np.arange(M) < layout.count[..., None])[..., None]
        features[~available] = 0.0
        centre = spread * g.standard_normal((B_n, Q, d)) * (np.arange(Q) < size[:, None])[..., None]
        root = g.standard_normal((B_n, Q * d, Q * d)) / np.sqrt(Q * d) + 0.5 * np.eye(Q * d)
        precision = root @ root.transpose(0, 2, 1) + 0.05 * np.eye(Q * d)
        bound = np.linalg.norm(centre, axis=(1, 2)) + g.choice([0.5, 1e6]) * width
        entries = every_entry(size, features.shape[3], d)
        parts.append((Blocks(block, features, size, bound, *entries), centre, precision))
    known = g.random() < 0.4 if known is None else known
    radius = width * g.uniform(0.3, 1.0, parts[0][0].size.size)
    reward_radius = np.zeros(parts[1][0].size.size) if known else g.uniform(0.05, 1.0, parts[1][0].size.size)
    return JointSet(layout, *parts[0], radius, *parts[1], reward_radius, int(H))


def points(made, g, number):
    """Weights (transitions [K, B, Q, d], rewards) of the set, most at its border; the blocks' bounds are kept."""
    found = []
    parts = (
        (made.blocks, made.centre, made.precision, made.radius, True),
        (made.reward_blocks, made.reward_centre, made.reward_precision, made.reward_radius, False),
    )
    for blocks, centre, precision, radius, capped in parts:
        theta = np.repeat(centre[None], number, 0)
        for b, size in enumerate(blocks.size):
            n = size * centre.shape[2]
            y = g.standard_normal((number, n))
            y *= np.abs(y) ** g.choice([0.0, 4.0], (number, 1))  # along an axis now and then
            y *= radius[b] / np.linalg.norm(y, axis=1, keepdims=True)
            y[::4] *= g.random((y[::4].shape[0], 1))
            change = np.linalg.solve(np.linalg.cholesky(precision[b, :n, :n]).T, y.T).T.reshape(number, size, -1)
            while capped:  # towards the centre until the bound holds
                long = np.linalg.norm(centre[b, :size] + change, axis=(1, 2)) > blocks.bound[b]
                if not long.any():
                    break
                change[long] *= 0.7
            theta[:, b, :size] += change
        found.append(theta)
    return found


def values(made, weights, x, policy):
    """V [K, H+1, S] for K weights, state by state."""
    theta, reward = weights
    S, H = made.layout.available.shape[0], made.horizon
    V = np.zeros((theta.shape[0], H + 1, S))
    for h in range(H - 1, -1, -1):
        for s in range(S):
            a = policy[h, s]
            n, b, c = made.layout.count[s, a], made.blocks.block[s, a], made.reward_blocks.block[s, a]
            p = softmax(made.blocks.features[s, a, :n] @ (theta[:, b] @ x)[..., None])
            mean = (reward[:, c] @ x) @ made.reward_blocks.features[s, a, 0]
            V[:, h, s] = mean + (p[..., 0] * V[:, h + 1, made.layout.outcomes[s, a, :n]]).sum(-1)
    return V


def a_policy(made, g):
    choice = np.array([[g.choice(np.nonzero(row)[0]) for row in made.layout.available] for _ in range(made.horizon)])
    return choice.astype(np.int64)


def asked_of(made, g):
    """(contexts, weights, start, policy, other or None), at random."""
    N, d, S = g.integers(1, 4), made.centre.shape[2], made.layout.available.shape[0]
    X = g.standard_normal((N, d)) / np.sqrt(d)
    policy, other = a_policy(made, g), a_policy(made, g)
    kind = g.integers(4)
    if kind == 0:
        other = None
    elif kind == 1:  # differs at one place only
        place = g.integers(made.horizon), g.integers(S)
        other = policy.copy()
        other[place] = a_policy(made, g)[place]
    elif kind == 2:
        policy = np.stack([a_policy(made, g) for _ in range(N)])
    return X, g.random(N) + 0.01, g.dirichlet(np.ones(S)), policy, other


def exact(made, weights, question):
    """psi [K]."""
    X, shares, start, policy, other = question
    total = 0.0
    for i, x in enumerate(X):
        value = values(made, weights, x, policy if policy.ndim == 2 else policy[i])[:, 0] @ start
        if other is not None:
            value = value - values(made, weights, x, other)[:, 0] @ start
        total = total + shares[i] * value
    return total / shares.sum()


def found_by(made, question, **more):
    X, shares, start, policy, other = question
    return joint_interval(made, X, policy, other, weights=shares, start=start, **more)


def parts_of(made, question):
    """(psi, g, H, Q, groups) in coordinates in which the set is a product of unit balls, and the map from weights."""
    X, shares, start, policy, other = question
    space, d = space_of(made), made.centre.shape[2]
    totals = joint._totals(made, space, joint._asked(made, X, policy, other, shares, start, None))

    def inside(weights):
        rows, i = [], 0
        for blocks, centre, radius, theta in (
            (made.blocks, made.centre, made.radius, weights[0]),
            (made.reward_blocks, made.reward_centre, made.reward_radius, weights[1]),
        ):
            for b in np.nonzero(radius)[0]:
                change = (theta - centre)[:, b, : blocks.size[b]].reshape(theta.shape[0], -1)
                rows.append(np.linalg.solve(space.roots[i], change.T).T)
                i += 1
        return np.concatenate(rows, 1)

    return totals, tuple((a * d, b * d) for a, b in space.starts), inside


def rests(made, question, weights):
    """(rest after second order, its bound), [K] each."""
    totals, _, inside = parts_of(made, question)
    y = inside(weights)
    rest = exact(made, weights, question) - totals.value - y @ totals.slope
    form = lambda A: np.einsum("ki,ij,kj->k", y, A, y)  # noqa: E731
    return rest - 0.5 * form(totals.bend), form(totals.rest)


def extreme_rows(g):
    """(p, v, V): a distribution, a displacement and values; near-deterministic and two-valued ones among them."""
    n = g.integers(2, 6)
    p = softmax(g.choice([0.1, 1.0, 5.0, 15.0]) * g.standard_normal(n), -1)
    v = g.choice([0.01, 0.5, 2.0, 8.0]) * g.standard_normal(n)
    V = g.standard_normal(n)
    if g.random() < 0.5:
        v, V = np.round(v / np.ptp(v)) * np.ptp(v), np.sign(V)
    return p, v, V


def test_second_order_is_at_most_the_span_times_the_divergence():
    """L2', and that its constant is sharp."""
    g, largest = np.random.default_rng(0), 0.0
    for _ in range(2500):
        p, v, V = extreme_rows(g)
        after = softmax(np.log(p) + v, -1)
        rest = abs((after - p) @ V - (p * (V - p @ V)) @ v)
        bound = np.ptp(V) * (np.log(p @ np.exp(v - v.max())) + v.max() - p @ v)
        assert rest <= bound * (1 + 1e-9) + 1e-13
        largest = max(largest, rest / max(bound, 1e-9))
    assert largest > 0.95


def test_third_derivatives_are_at_most_the_spans_times_the_variance():
    """L4 at t = 0, which is every t, and that its constant is sharp."""
    g, largest = np.random.default_rng(1), 0.0
    for _ in range(2500):
        p, v, V = extreme_rows(g)
        a = v - p @ v
        third, variance = (p * (V - p @ V)) @ (a**3 - 3 * (p @ a**2) * a), p @ a**2
        bound = np.ptp(V) * np.ptp(v) * variance
        assert abs(third) <= bound * (1 + 1e-9) + 1e-12
        largest = max(largest, abs(third) / max(bound, 1e-9))
    assert largest > 0.95


def test_the_mean_after_a_displacement_in_closed_form():
    """L5. With Z = E e^{v~}: <p*, V> - <p, V> = E[V~ e^{v~}]/Z, 1 - 1/Z <= KL <= sum_k v~_k^2 Int (1 - t) p_t,k dt."""
    g, largest = np.random.default_rng(2), 0.0
    t, w = np.polynomial.legendre.leggauss(60)
    t, w = 0.5 * (t + 1), 0.5 * w
    for _ in range(500):
        p, v, V = extreme_rows(g)
        a, A = v - p @ v, V - p @ V
        Z = p @ np.exp(a)
        path = softmax(np.log(p) + t[:, None] * v, -1)
        assert np.isclose((softmax(np.log(p) + v, -1) - p) @ V, (p * A) @ np.exp(a) / Z, atol=1e-11)
        assert np.log(Z) * (1 + 1e-12) + 1e-15 >= 1.0 - 1.0 / Z
        assert np.log(Z) <= (w * (1 - t)) @ (path * a**2).sum(1) * (1 + 1e-6) + 1e-12
        assert (p * np.exp(t[:, None] * a) / Z <= path * (1 + 1e-12)).all()
        # the third line, and what it says of 1 - 1/Z
        mean, cov, variance = (softmax(np.log(p) + v, -1) - p) @ V, p @ (A * a), p @ a**2
        third, cube = p @ (A * a**2), p @ (A * a**3)
        rest = (w * (1 - t) ** 3 / 6) @ np.exp(t[:, None] * a) @ (p * A * a**4)
        share = 1 - 1 / Z
        closed = -(share - variance / 2) * cov - share * (third / 2 + cube / 6) + rest / Z
        seen = mean - cov - third / 2 - (cube - 3 * cov * variance) / 6
        assert np.isclose(seen, closed, rtol=1e-8, atol=1e-9 * max(1.0, abs(cube), abs(rest)))
        bound = (w * (1 - t) ** 2 / 2) @ np.exp(t[:, None] * a) @ (p * np.abs(a) ** 3) / Z + variance * share / 2
        assert abs(share - variance / 2) <= bound * (1 + 1e-6) + 1e-12
        largest = max(largest, abs(share - variance / 2) / max(bound, 1e-9))
    assert largest > 0.5


def pairs_of(made, g, number):
    """Contexts, rows, and per weights the displacement of every pair: (X, rows, p* [K, n, S, A, M], u [K, n, m])."""
    space, weights = space_of(made), points(made, g, number)
    X = g.standard_normal((2, made.centre.shape[2]))
    rows = displaced.rows_at(made, space, X)
    used = np.arange(rows.P.shape[-1]) < made.layout.count[..., None]
    seen = np.einsum("kbqd,nd->knbq", weights[0], X)[:, :, made.blocks.block]
    z = np.where(used, np.einsum("saiq,knsaq->knsai", made.blocks.features, seen), -np.inf)
    y = parts_of(made, (X, np.ones(2), np.eye(made.layout.count.shape[0])[0], a_policy(made, g), None))[2](weights)
    d, u = X.shape[1], []
    for (first, last), root in zip(space.starts, space.roots, strict=True):
        u.append(np.einsum("kic,nc->kni", (y[:, first * d : last * d] @ root.T).reshape(number, -1, d), X))
    return X, rows, softmax(z, -1), np.concatenate(u, -1), weights


def test_probabilities_and_integrals_are_within_what_is_said():
    largest = np.zeros(4)
    for seed in range(30):
        g = np.random.default_rng(seed)
        made = problem(g)
        _, rows, after, u, _ = pairs_of(made, g, 40)
        v = np.einsum("nsaim,knm->knsai", rows.centred, u)
        with np.errstate(divide="ignore"):
            path = [softmax(np.log(rows.P) + t * v, -1) for t in np.linspace(0.0, 1.0, 41)]
        weight = np.full(41, 1 / 40) * np.array([0.5, *[1.0] * 39, 0.5])
        pairs = [(after, rows.most), (np.abs(after - rows.P), rows.off), (np.abs(v), rows.away)]
        for i in (1, 2, 3):
            integral = sum(
                w * (1 - t) ** i / math.factorial(i) * p
                for w, t, p in zip(weight, np.linspace(0, 1, 41), path, strict=True)
            )
            assert (integral <= rows.moments[i - 1] * 1.001 + 1e-4).all()
        for i, (seen, bound) in enumerate(pairs):
            assert (seen <= bound * (1 + 1e-9) + 1e-12).all()
            largest[i] = max(largest[i], (seen / np.maximum(bound, 1e-6)).max())
        assert (np.ptp(v, axis=-1) <= rows.span * (1 + 1e-9) + 1e-12).all() or made.layout.dense == 0
    assert (largest[:3] > 0.9).all()


def test_integrals_are_close_to_those_of_their_integrand():
    """One feature, two next states: p_t of the largest displacement is the bound itself."""
    for reach, gap in itertools.product((1e-3, 0.5, 3.0, 20.0), (-8.0, 0.0, 8.0)):
        gaps = np.array([[0.0, -gap], [gap, 0.0]])[None, None, None]
        R = np.array([[0.0, reach], [reach, 0.0]])[None, None, None]
        p = 1.0 / np.exp(gaps).sum(-1)
        most, moments = displaced._integrals(gaps, R, np.full(p.shape, reach), p)
        t = (np.arange(4000) + 0.5) / 4000
        path = 1.0 / (1.0 + np.exp(np.array([[-gap], [gap]]) - t * reach))
        for i in (1, 2, 3):
            integral = ((1 - t) ** i / math.factorial(i) * path).mean(-1)
            assert (moments[i - 1].ravel() >= integral * (1 - 1e-6)).all()
            assert (moments[i - 1].ravel() <= integral * (1.35 if i == 3 else 1.25) + 1e-12).all()
        assert np.allclose(most.ravel(), 1.0 / (1.0 + np.exp(np.array([-gap, gap]) - reach)), rtol=1e-9)


def courses_of(made, g, other=False):
    """Random policies, and all there is about them for two contexts, in the coordinates y: (question, rows, policy,
    full, expansions)."""
    space, X = space_of(made), g.standard_normal((2, made.centre.shape[2]))
    rows = displaced.rows_at(made, space, X)
    policy = [np.stack([a_policy(made, g)] * 2) for _ in range(2 if other else 1)]
    if other and g.random() < 0.7:  # they agree in most places
        policy[1] = np.where(g.random(policy[0].shape) < 0.7, policy[0], policy[1])
    question = joint._asked(made, X, policy[0], policy[1] if other else None, None, 0, None)
    full, reward = dense(made.layout, rows.P), (joint._means(made, question), space.reward_features)
    expansions = [joint._white(expand(rows, full, reward, made.layout, one), rows.roots) for one in policy]
    return question, rows, policy, full, expansions


def quadratic(y, A):
    """y'A_..y, [K, n, ...] of y [K, n, m] and matrices [n, ..., m, m]."""
    return np.einsum("n...ml,knm,knl->kn...", A, y, y, optimize=True)


def brackets(made, seed, third, number=30):
    """The brackets of every pair of every step over what bounds them, the largest: a, b, c after second order, and a,
    b, c, d after third; and of quadratic forms that are carried."""
    g = np.random.default_rng(seed)
    X, rows, after, u, _ = pairs_of(made, g, number)
    space, policy = space_of(made), np.stack([a_policy(made, g)] * 2)
    question = joint._asked(made, X, policy, None, None, 0, None)
    full, reward = dense(made.layout, rows.P), (joint._means(made, question), space.reward_features)
    made_of = joint._white(expand(rows, full, reward, made.layout, policy), rows.roots)
    v = np.einsum("nsaim,knm->knsai", rows.centred, u)
    y = np.einsum("nij,knj->kni", np.linalg.inv(rows.roots), u)
    n, _, S, m = made_of.D.shape
    found, F = np.zeros(5), np.zeros((n, S, m, m, m))
    for h in range(made.horizon - 2, -1, -1):
        step, groups = step_of(made.layout, policy, h), space.starts
        here = remainder.here_of(rows, step)
        P, moved = here.P, (after - rows.P)[(slice(None), *step.pick)]
        a = v[(slice(None), *step.pick)]
        later = [part[:, h + 1] for part in made_of]
        V, D, E = later[0][step.after], np.einsum("nsim,knm->knsi", later[1][step.after], y), later[2]
        E = quadratic(y, E)[(slice(None), *step.after)]
        cubes = np.einsum("nsijl,kni,knj,knl->kns", F, y, y, y, optimize=True)[(slice(None), *step.after)]
        A, B, C = (part - (P * part).sum(-1, keepdims=True) for part in (V, D, E))
        root = g.standard_normal((n, S, m, m)) * g.choice([0.01, 1.0], (n, S, 1, 1)) / np.sqrt(m)
        W = root @ root.swapaxes(-1, -2)
        U = quadratic(y, W)[(slice(None), *step.after)]
        mean = (P * U).sum(-1)
        gone = lambda weights: (weights * a**2).sum(-1)  # noqa: E731, B023
        if not third:
            seen = [
                (moved * V - P * A * (a + 0.5 * a**2)).sum(-1),
                (moved * D - P * B * a).sum(-1),
                0.5 * (moved * E).sum(-1),
            ]
            bounds = [
                gone(remainder.value_weights(later[0], rows, groups, step)),
                gone(remainder.slope_weights(later[1], here, groups, made.layout)),
                quadratic(y, remainder.bend_forms(later[2], here, groups, True)[0]),
            ]
        else:
            cov, variance = (P * A * a).sum(-1), (P * a**2).sum(-1)
            fourth = (P * A * a**3).sum(-1) - 3.0 * cov * variance
            seen = [
                (moved * V - P * A * (a + 0.5 * a**2)).sum(-1) - fourth / 6.0,
                (moved * D - P * B * (a + 0.5 * a**2)).sum(-1),
                0.5 * (moved * E - P * C * a).sum(-1),
                (moved * cubes).sum(-1) / 6.0,
            ]
            bounds = [
                gone(remainder.value_weights_after_third(later[0], here, groups)),
                gone(remainder.slope_weights(later[1], here, groups, made.layout, True)),
                quadratic(y, remainder.bend_forms(later[2], here, groups, True)[1]),
                quadratic(y, remainder.twist_form(F, here, groups)),
            ]
        seen.append((moved * U).sum(-1))
        bounds.append(quadratic(y, remainder.carried(W, here, groups, True)) - mean)
        for i, (one, bound) in enumerate(zip(seen, bounds, strict=True)):
            one = one if i == len(seen) - 1 else np.abs(one)
            which = 4 if i == len(seen) - 1 else i
            found[which] = max(found[which], ((one - 1e-12) / np.maximum(bound, 1e-12)).max())
        F = third_derivative(made_of, F, rows, full[step.pick], step, h)
    return found


@pytest.mark.parametrize("third", [False, True])
@pytest.mark.parametrize("form", ["smaller", "first", "second", "third"])
def test_every_bracket_is_below_its_form_and_half_of_it_would_not_do(form, third, monkeypatch):
    """Every form of a bracket is a bound, and so is the one that is taken: (spans, sizes), (off, steepest), and of what
    is carried (off, most, steepest). A constant half as large is noticed."""
    if form != "smaller":
        at = ("first", "second", "third").index(form)
        monkeypatch.setattr(remainder, "_smaller", lambda *made: made[min(at, 1)])
        monkeypatch.setattr(remainder, "smallest", lambda *made: made[min(at, len(made) - 1)])
    largest = np.zeros(5)
    for seed in range(70):
        g = np.random.default_rng(seed)
        made = problem(g, S=int(g.integers(2, 4)), H=int(g.integers(2, 4)))
        largest = np.maximum(largest, brackets(made, seed, third))
    assert (largest <= 1.0).all(), largest
    assert (largest[[0, 1, 2, 4]] > 0.5).all(), largest
    assert largest[3] > 0.5 or not third


def test_the_steepest_form_is_above_every_direction():
    """And 0.95 of it is not; where squares have small eigenvalues, rounding does not take it below."""
    g, largest = np.random.default_rng(9), 0.0
    for trial in range(300):
        m = int(g.integers(1, 6))
        cut = int(g.integers(0, m))
        groups = tuple(pair for pair in ((0, cut), (cut, m)) if pair[1] > pair[0])
        X = g.standard_normal((m, m, m)) * (g.random((m, 1, 1)) < 0.5)
        X = X + X.swapaxes(-1, -2)
        if trial % 3 == 0:  # of rank 1
            w = g.standard_normal((m, m))
            X = w[:, :, None] * w[:, None, :]
        steep = forms.steepest_form(X, groups)
        z, y = g.standard_normal((2, 200, m))
        for first, last in groups:
            z[:, first:last] /= np.linalg.norm(z[:, first:last], axis=1, keepdims=True)
        seen, bound = np.abs(np.einsum("kj,ki,jil,kl->k", z, y, X, y)), np.einsum("ki,il,kl->k", y, steep, y)
        assert (seen <= bound * (1 + 1e-12) + 1e-14).all()
        largest = max(largest, (seen / np.maximum(bound, 1e-9)).max())
        size = forms.absolute(X)
        assert np.allclose(size @ size, X @ X)
        assert (np.linalg.eigvalsh(size) >= -1e-9).all()
    assert largest > 0.95
    turn = np.linalg.qr(g.standard_normal((6, 6)))[0]
    A = (turn * np.logspace(0, -9, 6)) @ turn.T
    steep = forms.steepest_form(np.array([A] + [0.0 * A] * 5), ((0, 6),))
    assert (np.einsum("ij,ik,kj->j", turn, steep, turn) >= np.logspace(0, -9, 6) * (1 - 1e-7)).all()


def occupancies(made, weights, x, policy, agree):
    """(together, apart) [K, H, S], forwards."""
    K, (H, S) = weights[0].shape[0], policy.shape
    met, gone = np.zeros((K, H + 1, S)), np.zeros((K, H + 1, S))
    met[:, 0] = 1.0 / S
    for h in range(H):
        gone[:, h] += met[:, h] * ~agree[h]
        met[:, h] *= agree[h]
        for s in range(S):
            a = policy[h, s]
            n, b = made.layout.count[s, a], made.blocks.block[s, a]
            p = softmax(made.blocks.features[s, a, :n] @ (weights[0][:, b] @ x)[..., None])[..., 0]
            for part in (met, gone):
                np.add.at(part[:, h + 1].T, made.layout.outcomes[s, a, :n], (part[:, h, s, None] * p).T)
    return met[:, :H], gone[:, :H]


def test_no_weights_visit_a_place_more_often_than_its_bound():
    largest = 0.0
    for seed in range(50):
        g = np.random.default_rng(seed)
        made = problem(g)
        X, rows, _, _, weights = pairs_of(made, g, 30)
        policy, other = a_policy(made, g), a_policy(made, g)
        S, full = policy.shape[1], dense(made.layout, rows.P)
        start, agree = np.full((2, S), 1.0 / S), policy == other
        seen = occupancy.visits(rows, made.layout, full, start, np.stack([policy] * 2), np.stack([other] * 2))
        alone = occupancy.visits(rows, made.layout, full, start, np.stack([policy] * 2), None)
        for i, x in enumerate(X):
            together, apart = occupancies(made, weights, x, policy, agree)
            _, apart_too = occupancies(made, weights, x, other, agree)
            _, all_of_it = occupancies(made, weights, x, policy, np.zeros_like(agree))
            found = ((together, seen.together), (apart, seen.apart), (apart_too, seen.other), (all_of_it, alone.apart))
            for exactly, bound in found:
                assert (exactly <= bound[i] * (1 + 1e-9) + 1e-12).all()
                largest = max(largest, (exactly[:, 1:] / np.maximum(bound[i, 1:], 1e-3)).max(initial=0.0))
    assert largest > 0.99


def test_visits_of_a_point_are_exact():
    g = np.random.default_rng(4)
    made = problem(g, S=4, A=3, H=4, d=2, width=1e-9, masked=True)
    X, rows, _, _, _ = pairs_of(made, g, 1)
    policy, other = a_policy(made, g), a_policy(made, g)
    start, full = np.full((2, 4), 0.25), dense(made.layout, rows.P)
    seen = occupancy.visits(rows, made.layout, full, start, np.stack([policy] * 2), np.stack([other] * 2))
    together, apart = occupancies(made, [made.centre[None]], X[0], policy, policy == other)
    assert np.allclose(seen.together[0], together[0], atol=1e-7)
    assert np.allclose(seen.apart[0], apart[0], atol=1e-7)


def weights_at(made, y):
    """Weights at y [p] in coordinates in which the set is a product of unit balls."""
    space, d, i = space_of(made), made.centre.shape[2], 0
    found = []
    for blocks, centre, radius in (
        (made.blocks, made.centre, made.radius),
        (made.reward_blocks, made.reward_centre, made.reward_radius),
    ):
        theta = centre.copy()
        for b in np.nonzero(radius)[0]:
            first, last = space.starts[i]
            theta[b, : blocks.size[b]] += (space.roots[i] @ y[first * d : last * d]).reshape(blocks.size[b], -1)
            i += 1
        found.append(theta[None])
    return found


@pytest.mark.parametrize("seed", range(12))
def test_gradient_and_hessian_are_finite_differences(seed):
    g = np.random.default_rng(seed)
    made = problem(g, scale=1.0, width=1.0)
    question = asked_of(made, g)
    totals, _, _ = parts_of(made, question)
    assert totals.value == pytest.approx(exact(made, (made.centre[None], made.reward_centre[None]), question)[0])
    p, step = totals.slope.size, 1e-4

    def psi(y):
        return exact(made, weights_at(made, y), question)[0]

    for _ in range(6):
        a, b = g.standard_normal((2, p)) / np.sqrt(p)
        slope = (psi(step * a) - psi(-step * a)) / (2 * step)
        assert slope == pytest.approx(totals.slope @ a, rel=1e-5, abs=1e-7)
        bend = psi(step * (a + b)) - psi(step * (a - b)) - psi(step * (b - a)) + psi(-step * (a + b))
        assert bend / (4 * step**2) == pytest.approx(a @ totals.bend @ b, rel=1e-3, abs=2e-6)


@pytest.mark.parametrize("seed", range(10))
def test_third_derivatives_are_finite_differences(seed):
    g = np.random.default_rng(seed)
    made = problem(g, H=int(g.integers(2, 5)), scale=1.0, width=1.0)
    question, rows, (policy,), full, (orders,) = courses_of(made, g)
    space, (n, _, S, m), d = space_of(made), orders.D.shape, made.centre.shape[2]
    F, step = np.zeros((n, S, m, m, m)), 0.02
    for h in range(made.horizon - 2, -1, -1):
        at = step_of(made.layout, policy, h)
        F = third_derivative(orders, F, rows, full[at.pick], at, h)
    for axes in itertools.permutations((2, 3, 4)):
        assert np.allclose(F, F.transpose(0, 1, *axes), atol=1e-12 * max(1.0, np.abs(F).max()))
    for _ in range(3):
        y = g.standard_normal(m * d)
        y /= np.linalg.norm(y)
        u = [root @ y[a * d : b * d] for (a, b), root in zip(space.starts, space.roots, strict=True)]
        for i, x in enumerate(question.X):
            inside = np.linalg.solve(rows.roots[i], np.concatenate([part.reshape(-1, d) @ x for part in u]))
            V = {k: values(made, weights_at(made, k * step * y), x, policy[i])[0, 0] for k in range(-3, 4)}
            seen = (13 * (V[1] - V[-1]) - 8 * (V[2] - V[-2]) + V[3] - V[-3]) / (-8 * step**3)
            exactly = np.einsum("sijl,i,j,l->s", F[i], inside, inside, inside)
            assert seen == pytest.approx(exactly, rel=1e-3, abs=1e-5)


def inside_or_not(seeds, number):
    """(how many weights are outside, the largest rest over its bound)."""
    outside, largest = 0, 0.0
    for seed in seeds:
        g = np.random.default_rng(seed)
        made = problem(g)
        question = asked_of(made, g)
        found, weights = found_by(made, question), points(made, g, number)
        psi = exact(made, weights, question)
        outside += int(((psi < found.lower - 1e-10) | (psi > found.upper + 1e-10)).sum())
        rest, bound = rests(made, question, weights)
        largest = max(largest, float(((np.abs(rest) - 1e-11) / np.maximum(bound, 1e-11)).max()))
    return outside, largest


@pytest.mark.parametrize("order", ["second", "third", "many rows"])
def test_each_order_alone_holds_and_they_agree_on_what_is_inside(order, monkeypatch):
    """Also where there are too many rows for third derivatives."""
    largest = 0.0
    for seed in range(40):
        g = np.random.default_rng(seed)
        made = problem(g)
        question = asked_of(made, g)
        weights, both = points(made, g, 40), found_by(made, question)
        with monkeypatch.context() as patched:
            if order == "many rows":
                patched.setattr(unrolled, "CUBIC", 0)
            else:
                patched.setattr(unrolled, "smallest", lambda *ways: ways[order == "third"])
            found, (rest, bound) = found_by(made, question), rests(made, question, weights)
        psi = exact(made, weights, question)
        assert (psi >= max(found.lower, both.lower) - 1e-10).all()
        assert (psi <= min(found.upper, both.upper) + 1e-10).all()
        assert found.numerical_upper == pytest.approx(both.numerical_upper, rel=1e-6, abs=1e-9)
        largest = max(largest, float(((np.abs(rest) - 1e-11) / np.maximum(bound, 1e-11)).max()))
    assert 0.3 < largest <= 1.0


@pytest.mark.long
def test_no_weights_of_the_set_are_outside_the_interval():
    outside, largest = inside_or_not(range(100), 60)
    assert outside == 0
    assert 0.5 < largest <= 1.0


@pytest.mark.slow
def test_no_weights_are_outside_in_many_problems():
    outside, largest = inside_or_not(range(1000, 4000), 200)
    assert outside == 0
    assert largest <= 1.0


@pytest.mark.parametrize("order", ["second", "third", "smaller", "many rows"])
@pytest.mark.parametrize("seed", range(6))
def test_the_rest_is_that_of_the_slow_program(seed, order, monkeypatch):
    g, cubic = np.random.default_rng(seed), order != "many rows"
    made = problem(g, S=3, H=4, width=[0.1, 1.0, 4.0][seed % 3], scale=[0.3, 3.0][seed % 2], B=seed % 3 + 1)
    question, rows, policy, full, expansions = courses_of(made, g, other=seed % 3 > 0)
    start = g.dirichlet(np.ones(3), 2)
    if not cubic:
        monkeypatch.setattr(unrolled, "CUBIC", 0)
    if order in ("second", "third"):
        monkeypatch.setattr(unrolled, "smallest", lambda *ways: ways[order == "third"])
    monkeypatch.setattr(forms, "_ROUNDING", 0.0)
    space, other = space_of(made), policy[1] if len(policy) > 1 else None
    asked = unrolled.Asked(start, policy[0], other)
    form = unrolled.rest_form(asked, tuple(expansions), rows, full, space.starts, made.layout)[0]
    means, paying = joint._means(made, question), space.reward_features
    ways = twin.rest(made, rows, space.starts, means, paying, start[0], [one[0] for one in policy], cubic)
    slow = ways[order == "third"] if order != "smaller" else twin.least(*ways)
    assert np.allclose(form, slow, rtol=0.0, atol=1e-7 * np.abs(slow).max() + 1e-14)


def test_equal_policies_have_no_difference_and_equal_beginnings_little():
    g = np.random.default_rng(5)
    made = problem(g, S=4, A=3, H=4, d=2, B=1, scale=1.0, width=0.7, known=False, masked=False)
    policy, X = a_policy(made, g), g.standard_normal((3, 2))
    same = joint_interval(made, X, policy, policy)
    assert same == (0.0,) * 7
    late = policy.copy()
    late[-1, 0] = (late[-1, 0] + 1) % 3 if made.layout.available[0, (late[-1, 0] + 1) % 3] else late[-1, 0]
    both = joint_interval(made, X, policy), joint_interval(made, X, late)
    apart = joint_interval(made, X, policy, late)
    assert apart.upper - apart.lower < 0.5 * sum(one.upper - one.lower for one in both)


@pytest.mark.parametrize("seed", range(8))
def test_what_a_search_finds_is_inside_and_first_order_is_reached(seed):
    """Steps along the gradient at the border, from many starts; in a small set they come close to the ends."""
    g = np.random.default_rng(seed)
    made = problem(g, S=3, H=3, B=1, B_r=1, scale=1.0, width=[0.02, 0.7][seed % 2], masked=False)
    made = made._replace(blocks=made.blocks._replace(bound=made.blocks.bound + 1e6))
    question = asked_of(made, g)
    found, (totals, groups, _), space = found_by(made, question), parts_of(made, question), space_of(made)
    theta = np.repeat(made.centre[None], 60, 0)
    reward = np.repeat(made.reward_centre[None], 60, 0)
    y = g.standard_normal((60, totals.slope.size))
    y[0], y[1] = totals.slope, -totals.slope
    for i, (first, last) in enumerate(groups):
        part = y[:, first:last]
        part /= np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12)
        blocks, into = ((made.blocks, theta), (made.reward_blocks, reward))[i]
        into[:, 0, : blocks.size[0]] += (part @ space.roots[i].T).reshape(60, blocks.size[0], -1)
    psi = exact(made, (theta, reward), question)
    assert found.lower - 1e-12 <= psi.min() <= psi.max() <= found.upper + 1e-12
    assert found.lower <= found.numerical_lower <= found.centre <= found.numerical_upper <= found.upper
    if seed % 2 == 0:
        assert psi.max() - psi.min() > 0.9 * (found.upper - found.lower) - 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_the_ends_are_those_of_the_quadratic_with_its_rest(seed):
    """The largest of <g, y> + 1/2 y'Hy + y'Qy over a ball, and of the mirror image, by steps along the gradient."""
    g = np.random.default_rng(seed)
    made = problem(g, S=3, H=3, B=1, scale=1.0, width=[0.3, 1.5][seed % 2], known=True)
    question = asked_of(made, g)
    found, (totals, _, _) = found_by(made, question), parts_of(made, question)
    for sign, end in ((1.0, found.upper - found.centre), (-1.0, found.centre - found.lower)):
        slope, M = sign * totals.slope, sign * totals.bend + 2.0 * totals.rest
        y = g.standard_normal((30, slope.size))
        for _ in range(2000):
            y /= np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1.0)
            y = y + (slope + y @ M) / max(np.linalg.norm(M, 2), np.linalg.norm(slope), 1e-12)
        y /= np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1.0)
        assert end == pytest.approx((y @ slope + 0.5 * np.einsum("ki,ij,kj->k", y, M, y)).max(), rel=1e-3, abs=1e-9)


def test_every_multiplier_is_a_bound_and_one_ball_is_exact():
    g = np.random.default_rng(6)
    for trial in range(30):
        n = int(g.integers(2, 9))
        root = g.standard_normal((n, n))
        M = g.choice([0.01, 1.0]) * (root + root.T)
        slope = g.choice([0.0, 0.1, 1.0]) * g.standard_normal(n)
        groups = ((0, n),) if trial % 2 else ((0, 1), (1, n))
        bound = largest_quadratic(slope, M, groups)
        y = g.standard_normal((50, n))
        for _ in range(300):  # conditional gradients: to the border along slope + M y
            for first, last in groups:
                y[:, first:last] /= np.linalg.norm(y[:, first:last], axis=1, keepdims=True)
            seen = (y @ slope + 0.5 * np.einsum("ki,ij,kj->k", y, M, y)).max()
            y = slope + y @ M + np.linalg.norm(M, 2) * y
        assert seen <= bound + 1e-9
        if trial % 2 and np.linalg.eigvalsh(M)[-1] > 0.0:  # else the largest value is inside
            assert bound == pytest.approx(seen, rel=1e-3, abs=1e-6)
    slope, groups = g.standard_normal(12), ((0, 3), (3, 4), (4, 9), (9, 12))
    slope[4:9] = 0.0  # nothing happens there
    norms = sum(np.linalg.norm(slope[a:b]) for a, b in groups)
    assert largest_quadratic(slope, np.zeros((12, 12)), groups) == pytest.approx(norms, rel=1e-6)
    assert largest_quadratic(np.zeros(2), np.zeros((2, 2)), ((0, 1), (1, 2))) == 0.0
    assert largest_quadratic(np.array([np.nan, 0.0]), np.zeros((2, 2)), ((0, 2),)) == np.inf


@pytest.mark.parametrize("seed", range(10))
def test_ranges_of_mean_rewards_instead_of_a_set(seed):
    """Rewards anywhere in their ranges, whatever they are of the context."""
    g = np.random.default_rng(seed)
    made = problem(g, S=3, H=3, known=True)
    (S, A), d = made.layout.available.shape, made.centre.shape[2]
    size = np.ones(S * A, np.int64)
    own = Blocks(np.arange(S * A).reshape(S, A), np.ones((S, A, 1, 1)), size, np.ones(S * A), *every_entry(size, 1, d))
    made = made._replace(
        reward_blocks=own,
        reward_centre=np.zeros((S * A, 1, d)),
        reward_precision=np.broadcast_to(np.eye(d), (S * A, d, d)),
        reward_radius=np.zeros(S * A),
    )
    x, low = g.standard_normal(d), g.random((S, A))
    high = low + g.random((S, A))
    policy, other = a_policy(made, g), [None, a_policy(made, g)][seed % 2]
    question = x[None], np.ones(1), np.full(S, 1.0 / S), policy, other
    found = found_by(made, question, reward_ranges=(low, high))
    theta = points(made, g, 50)[0]
    ends = np.where(g.random((50, S, A)) < 0.5, low, high)
    reward = (ends.reshape(50, -1, 1, 1) * x / (x @ x)).reshape(50, S * A, 1, d)
    psi = exact(made, (theta, reward), question)
    assert (found.lower - 1e-12 <= psi).all()
    assert (psi <= found.upper + 1e-12).all()


def test_known_weights_an_empty_context_and_a_set_that_says_nothing():
    g = np.random.default_rng(7)
    made = problem(g, S=3, A=2, H=3, d=2, B=2, scale=1.0, width=0.5, known=True, masked=False)
    policy = a_policy(made, g)
    known = joint_interval(made._replace(radius=np.zeros(2)), g.standard_normal((2, 2)), policy)
    assert known.lower == known.centre == known.upper
    nobody = joint_interval(made, np.zeros((1, 2)), policy)
    assert nobody.upper - nobody.lower < 1e-9
    nothing = joint_interval(made._replace(radius=np.array([0.5, np.inf])), np.ones((1, 2)), policy, within=(0.0, 3.0))
    assert (nothing.lower, nothing.upper) == (0.0, 3.0)
    for size in (1e6, 1e60, 1e100):  # numbers whose squares are none
        blocks = made.blocks._replace(bound=np.full(2, 1e300))
        far = made._replace(blocks=blocks, radius=np.array([size, size]), horizon=15)
        with np.errstate(all="ignore"):
            wide = joint_interval(far, np.ones((1, 2)), np.repeat(policy[:1], 15, 0), within=(0.0, 3.0))
        assert 0.0 <= wide.lower <= wide.upper <= 3.0


def test_bad_input_is_a_sentence():
    g = np.random.default_rng(8)
    made = problem(g, S=3, A=2, H=2, d=2, B=1, scale=1.0, width=0.5)
    made.layout.available[:] = True
    policy, X = np.zeros((2, 3), int), np.ones((1, 2))
    for wrong, word in (
        (dict(policy=policy + 2), "available"),
        (dict(policy=policy.astype(float)), "integers"),
        (dict(other=policy[:1]), "other"),
        (dict(contexts=np.ones((1, 3))), "contexts"),
        (dict(weights=[-1.0]), "weights"),
        (dict(start=3), "start"),
        (dict(start=[0.5, 0.6, 0.0]), "start"),
        (dict(reward_ranges=(1.0, 0.0)), "reward_ranges"),
        (dict(joint=made._replace(radius=np.array([-1.0]))), "radius"),
        (dict(joint=made._replace(precision=-made.precision)), "precision"),
    ):
        with pytest.raises(ValueError, match=word):
            joint_interval(**(dict(joint=made, contexts=X, policy=policy) | wrong))
