"""Longer studies, run by `make test-slow`: coverage over many configurations, at a delta that shows wrong constants."""

import itertools

import pytest

import noregret as nr
from test_coverage import allowed, coverage

CONFIGURATIONS = [
    *itertools.product(["logit"], [(2, 1), (3, 2), (5, 4)], [0.5, 1.0, 2.0, 3.0], ["random", "one", "cycle", "widest"]),
    *itertools.product(["linear"], [(2, 1), (3, 2), (5, 4)], [None], ["random", "cycle", "widest"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "size", "bound", "how"), CONFIGURATIONS)
@pytest.mark.parametrize("regularization", [None, 0.01, 10.0])
def test_coverage_over_configurations(kind, size, bound, how, regularization):
    """200 runs of 300 steps each. If every set were exactly tight, one of the 171 tests would fail by chance with
    probability below 171e-6."""
    failures, _, too_narrow = coverage(kind, *size, bound, how, regularization, 200, 300)
    assert failures[0] <= allowed(200)
    assert too_narrow == 0


@pytest.mark.slow
@pytest.mark.parametrize("world", ["random-logit", "random-linear", "clinic"])
def test_long_runs_keep_their_promises(world):
    """A hundred thousand episodes of GLM-ORL: sets, optimism, and regret per episode that falls by half from the first
    to the last tenth (linear and clinic, where the sets leave their caps in time)."""
    place = nr.worlds.make_world(world)
    agent = nr.GLMORL(place.problem)
    run = nr.simulate(agent, place, 100_000, 8, every=10_000, diagnostics=True)
    assert (run.diagnostics["justified_failures"][:, -1] == 0).all()
    assert (run.diagnostics["set_failures"][:, -1] == 0).sum() >= 6  # delta = 0.05: P(3 or more of 8 fail) < 0.006
    if world != "random-logit":
        assert (run.late < 0.5 * run.regret[:, 0] / 10_000).all()
