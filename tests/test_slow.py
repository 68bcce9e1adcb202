"""Longer studies, run by `make test-slow`: coverage over many configurations, at a delta that shows wrong constants."""

import pytest

import noregret as nr
from noregret.verification.coverage import KINDS, coverage
from noregret.verification.rewards import CONTEXTS, LAWS, reward_coverage

ADVERTISED = [kind for kind in KINDS if kind.advertised]
SIZES = [(2, 1, 1.0), (3, 2, 0.5), (5, 4, 1.0), (3, 2, 3.0)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ADVERTISED, ids=lambda kind: kind.name)
@pytest.mark.parametrize("how", ["random", "one", "cycle", "worst"])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("regularization", [None, 0.05, 10.0])
def test_coverage_over_configurations(kind, how, size, regularization):
    """200 runs of 300 steps each. If every set were exactly tight, one of the 864 tests would fail by chance with
    probability below 864e-6."""
    if kind.model == "linear" and size[2] != 1.0:
        pytest.skip("the linear link's weights have no bound to vary")
    assert coverage(kind, how, 200, 300, *size, regularization).holds


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


@pytest.mark.slow
@pytest.mark.parametrize("form", ["bernstein", "hoeffding", "ridge", "logistic"])
@pytest.mark.parametrize("contexts", CONTEXTS)
@pytest.mark.parametrize("law", LAWS)
def test_reward_ranges_over_configurations(form, contexts, law):
    """500 runs of 300 rewards each, d = 2 and 4."""
    if form == "logistic" and law != "bernoulli":
        pytest.skip("logistic rewards are 0 or 1")
    for d in (2, 4):
        assert reward_coverage(form, contexts, law, 500, 300, d).holds
