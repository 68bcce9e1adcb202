"""Certificates to expect: worlds within a problem's bounds, curves that are those of runs, and how near they come."""

import numpy as np
import pytest

import noregret as nr
from noregret.simulation.expected import LABEL, Expected, drawn_world


def people_of(world, n=60):
    return [world.context(7, k) for k in range(n)]


@pytest.mark.parametrize(
    "world",
    [
        nr.worlds.clinic(),
        nr.worlds.random_logit(3, 2, 3, 2, seed=1),
        nr.worlds.programme(context_dim=4),
        nr.worlds.shared_logit(4, 2, horizon=3, context_dim=3, features=2),
        nr.worlds.bandit_logistic(n_actions=3),
    ],
)
def test_drawn_worlds_keep_to_what_the_problem_says(world):
    """World refuses weights beyond the bounds or outside the design, and means outside [0, 1]."""
    p = world.problem
    for seed in (0, 1):
        drawn = drawn_world(p, people_of(world), seed)
        assert drawn.problem is p
        longest = np.linalg.norm(drawn.slots, axis=-1)[p.layout.available].max()
        assert p.layout.count.max() == 1 or 0.1 * p.weight_bound < longest <= p.weight_bound * (1.0 + 1e-9)
        means = np.array([drawn.rewards(x) for x in people_of(world)])
        assert np.ptp(means[:, p.layout.available]) > 0.15  # something to choose between
        again = drawn_world(p, people_of(world), seed)
        assert np.array_equal(again.slots, drawn.slots)
    assert not np.array_equal(drawn.reward_weights, drawn_world(p, people_of(world), 0).reward_weights)


def test_a_curve_is_that_of_the_runs():
    world = nr.worlds.clinic()
    row = nr.expected_certificates(world, 400, draws=2, agents=["lr-orl"])[0]
    found = []
    for seed in (0, 1):
        run = nr.simulate(nr.LRORL(world.problem), world, 400, seeds=[seed], diagnostics=True)
        total = run.diagnostics["certificate"][0]
        found.append((total[-1] - total[359]) / 40)
    assert row.people[-1] == 400
    assert (row.low[-1], row.high[-1]) == pytest.approx((min(found), max(found)))
    assert row.certificate[-1] == pytest.approx(np.sqrt(found[0] * found[1]))


def test_people_needed_and_what_is_printed():
    people = np.array([100, 1000, 10_000])
    row = Expected("lr-orl", "online", False, people, people * 0.0, np.array([4.0, 2.0, 1.0]), people * 1.0)
    assert row.after(1000) == pytest.approx(2.0)
    assert row.needed(2.0) == pytest.approx(1000)
    assert row.needed(np.sqrt(2.0)) == pytest.approx(10**3.5)
    assert (row.needed(5.0), row.needed(0.9)) == (100.0, None)
    world = nr.worlds.programme(context_dim=2)
    made = nr.expected_certificates(world.problem, 200, people_of(world), agents=["lr-orl"], draws=1)
    assert [r.design for r in made] == [True, False]  # the same people, told with and without the design
    assert made[0].after(200) < made[1].after(200)
    text = repr(made)
    assert LABEL in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.long
def test_expected_certificates_are_near_measured_ones():
    """A part of `python -m benchmarks.expected`, whose table is in docs/regret.md: both agents, 2,000 people."""
    world = nr.worlds.clinic()
    for row in nr.expected_certificates(world.problem, 2000, people_of(world, 200)):
        kind = {"lr-orl": nr.LRORL, "certified-psrl": nr.CertifiedPSRL}[row.agent]
        run = nr.simulate(kind(world.problem), world, 2000, seeds=[0], every=200, diagnostics=True)
        total = run.diagnostics["certificate"][0]
        assert 2 / 3 < row.after(2000) / ((total[-1] - total[-2]) / 200) < 1.5


def test_bad_input():
    problem = nr.Problem(2, 2, 2, 2, weight_bound=1.0, reward_bound=1.0)
    with pytest.raises(ValueError, match="problem must be"):
        nr.expected_certificates("clinic")
    with pytest.raises(ValueError, match="people"):
        nr.expected_certificates(problem, 5)
    with pytest.raises(ValueError, match="agent"):
        nr.expected_certificates(problem, 200, agents=["ucb"])
    with pytest.raises(ValueError, match="MultinomialLogit"):
        nr.expected_certificates(nr.Problem(2, 2, 2, 2, nr.LinearCombination(), reward_bound=1.0), 200)
