"""ICU-Sepsis against the arrays of the package, where it is installed."""

import importlib.util

import numpy as np
import pytest

import noregret as nr
from noregret.worlds.icu import DIED, ENDED, SURVIVED

pytestmark = pytest.mark.deep

missing = importlib.util.find_spec("icu_sepsis") is None
needs_package = pytest.mark.skipif(missing, reason="the package icu-sepsis is not installed (extra: icu)")


@pytest.fixture(scope="module")
def world():
    return nr.worlds.icu_sepsis()


@pytest.fixture(scope="module")
def tables():
    return nr.worlds.sepsis_tables()


def test_without_the_package_it_says_so(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'noregret\[icu\]'"):
        nr.worlds.icu_sepsis()


@pytest.mark.long
@needs_package
def test_sizes(world):
    p = world.problem
    assert (p.n_states, p.n_actions, p.horizon, p.context_dim, p.n_pairs) == (716, 25, 20, 2, 2241)
    count = p.layout.count[p.layout.available]
    assert (count.sum(), count.max()) == (94_973, 189)
    assert world.slots.shape == (716, 25, 189, 2)  # and not 716 next states
    assert np.linalg.norm(world.slots, axis=-1).max() <= p.weight_bound * (1 + 1e-9)
    assert 6.0 < p.weight_bound < 6.5  # the logarithms of P differ by 6.0 within a pair


@needs_package
def test_patients_are_tilted_by_severity_and_the_mean_patient_is_the_package(world, tables):
    p, X = world.problem, world.contexts.support
    may = p.layout.available
    assert np.array_equal(may[:DIED], tables.admissible[:DIED])
    assert np.abs(world.transitions(X[2]) - tables.P)[may].max() < 1e-14
    severe = world.transitions(X[4])
    odds = severe[..., DIED] * tables.P[..., SURVIVED]
    both = may & (tables.P[..., DIED] > 0) & (tables.P[..., SURVIVED] > 0)
    assert np.allclose(odds[both], np.e * (severe[..., SURVIVED] * tables.P[..., DIED])[both], rtol=1e-12, atol=0)
    pair = s, a = 0, int(np.flatnonzero(may[0])[0])
    tilted = tables.P[pair] * np.exp(np.where(np.arange(716) < DIED, tables.sofa / 24, np.eye(716)[DIED]))
    assert np.abs(severe[s, a] - tilted / tilted.sum()).max() < 1e-14


@pytest.mark.long
@needs_package
def test_values_stand_where_the_package_says(world, tables):
    """The package's own figures are 0.78 for the expert and 0.88 for the optimum, in episodes of any length."""
    long = nr.worlds.icu_sepsis(horizon=300, patients=[0.0])
    x, may = long.contexts.support[0], long.problem.layout.available
    expert = np.where(may, tables.expert, 0.0)
    expert[[DIED, SURVIVED, ENDED], 0] = 1.0
    assert nr.worlds.mixed_value(long, expert, x) == pytest.approx(0.78, abs=0.005)
    assert float(long.optimal(x).values[0] @ tables.start) == pytest.approx(0.88, abs=0.006)
    # The expert's inadmissible choices have, in the package, the mean effect of the admissible ones.
    given = np.load(nr.worlds.icu._folder() / "dynamics.npz")["expert_policy"][:DIED]
    made = np.einsum("sa,sat->st", given, tables.P[:DIED])
    assert np.abs(made - np.einsum("sa,sat->st", tables.expert[:DIED], tables.P[:DIED])).max() < 1e-12
    # A deterministic policy, both ways
    policy = long.optimal(x).policy[0]
    same = np.eye(25)[policy]
    assert nr.worlds.mixed_value(long, same, x) == pytest.approx(long.value(np.tile(policy, (300, 1)), x), rel=1e-9)


@needs_package
def test_agents_run_and_stay_within_admissible_actions(world):
    run = nr.simulate(nr.GLMORL(world.problem), world, 20, diagnostics=True)
    assert 0.0 < run.final[0] < 20.0
    assert run.diagnostics["optimism_failures"][0, -1] == 0
    lazy = nr.agents.PSRL(world.problem, replan="doubling")
    plan = lazy.begin_episode(world.contexts.support[0])
    assert world.problem.layout.available[np.arange(716)[None], plan.policy].all()
    with pytest.raises(ValueError, match="probabilities must be a distribution over the available actions"):
        nr.worlds.mixed_value(world, np.full((716, 25), 0.04), world.contexts.support[0])
