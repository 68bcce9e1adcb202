"""Beds of `noregret bench --regret`: worlds and data sets to compare regret on, and who plays there."""

import csv
import importlib.util
from functools import partial

import numpy as np
import pytest

import noregret as nr
from benchmarks import regret
from benchmarks.beds import DataBed, Size, WorldBed, beds, lock, rows_of
from benchmarks.contestants import Contestant, TableAgent, contestants, ours

missing = importlib.util.find_spec("sklearn") is None
needs_data = pytest.mark.skipif(missing, reason="scikit-learn is not installed (extra: bench)")


def make_clinic(seed):
    return nr.worlds.clinic(horizon=3)


SMALL = WorldBed("small", Size(60, 2), Size(30, 1), make=make_clinic)


def test_a_world_bed_plays_what_the_simulator_plays():
    world = make_clinic(0)
    agent = nr.PSRLGLM(world.problem)
    assert SMALL.play(agent, 3, 60) == nr.simulate(agent, world, 60, [3]).final[0]


def test_a_log_is_learned_before_the_first_is_met():
    def make(seed):
        return nr.worlds.programme(seed=seed)

    cold = WorldBed("cold", Size(60, 1), Size(60, 1), make=make)
    warm = WorldBed("warm", Size(60, 1), Size(60, 1), make=make, logged=800)
    played = [bed.play(nr.PSRLGLM(bed.problem(0)), 0, 60) for bed in (cold, warm)]
    assert played[1] < 0.5 * played[0]


def test_the_lock_needs_exploration():
    """Without it an agent takes the little reward and does not see the last state in 300 episodes."""
    world = lock(0)
    greedy, sampling = (
        nr.simulate(agent(world.problem), world, 300, seeds=2, every=300).final
        for agent in (nr.CertaintyEquivalence, nr.PSRLGLM)
    )
    assert sampling.mean() < 0.5 * greedy.max()


@needs_data
def test_a_data_set_is_a_bandit_with_bounded_contexts():
    X, labels, bound = rows_of("wine")
    assert X.shape == (178, 14)
    assert np.linalg.norm(X, axis=1).max() <= 1.0
    assert np.ptp(X[:, 0]) == 0.0
    assert X[:, 1:].mean(0) == pytest.approx(np.zeros(13), abs=1e-12)
    assert bound == 3.0  # of ridge regression on all rows
    assert np.bincount(labels).tolist() == [59, 71, 48]


@needs_data
def test_regret_on_a_data_set_is_what_was_wrong():
    """A fixed arm loses the rows of all other classes, in any order; at random two of three are wrong."""
    bed = DataBed("wine", Size(178, 1), Size(178, 1), data="wine")
    first = nr.agents.FixedPolicy(bed.problem(), [[0]])
    assert [bed.play(first, seed, 178) for seed in (0, 1)] == [178 - 59, 178 - 59]
    assert bed.play(first, 0, 20) != bed.play(first, 3, 20)  # another order
    # Binomial(178, 2/3): six standard deviations are 37.7
    assert abs(bed.play(nr.UniformRandom(bed.problem()), 0, 178) - 178 * 2 / 3) < 37.8
    logistic = DataBed("wine", Size(178, 1), Size(178, 1), data="wine", rewards="logistic")
    assert logistic.problem().rewards == "logistic"


@needs_data
def test_twelve_beds_and_more():
    made = beds()
    assert len(made) >= 20
    assert len({bed.name for bed in made}) == len(made)
    assert [bed.name for bed in beds("clinic, lock")] == ["clinic", "lock"]


def test_an_unknown_bed_is_named():
    with pytest.raises(ValueError, match="unknown bed 'meadow'"):
        beds("clinic,meadow")


def test_who_plays():
    named = {c.name for c in ours(nr.worlds.clinic().problem)}
    assert {"psrl-glm", "glm-orl", "uniform-random"} <= named
    assert not named & {"psrl", "oful"}  # people differ; several steps
    assert "psrl" in {c.name for c in ours(nr.worlds.random_linear(3, 2, 2, 1).problem)}
    assert {"oful", "glm-ucb"} <= {c.name for c in ours(nr.worlds.bandit_logistic().problem)}


def test_tables_files_and_figure(tmp_path):
    only = ("psrl-glm", "epsilon-greedy", "uniform-random")
    scores = regret.play(SMALL, others=False, only=only)
    again = regret.play(SMALL, others=False, only=only)
    for one, two in zip(scores, again, strict=True):
        assert all(np.array_equal(one.regret[v], two.regret[v]) for v in one.regret)  # nothing but seeds decides
        assert one.tuned <= one.untuned
        assert one.tuned == one.regret[one.best].mean()
    assert regret.floor(scores) == min(s.tuned for s in scores)
    played = {"small": scores}
    regret.save(played, tmp_path / "regret.csv")
    with open(tmp_path / "regret.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == (5 + 5 + 1) * 2  # the default and four values of two knobs, one without a knob; two seeds
    assert {row["agent"] for row in rows} == set(only)
    regret.draw(played, tmp_path / "regret.png")
    assert (tmp_path / "regret.png").stat().st_size > 5000
    assert regret.table_of(SMALL, scores, quick=False).row_count == 3
    assert regret.summary(played).row_count == 3


class Planner:
    """As rlberry's tabular agents are: plans, plays and learns in one method."""

    def __init__(self):
        self.Q, self.learned = np.zeros((2, 3, 2)), []

    def _get_action(self, state, h):
        return self.Q[h, state].argmax()

    def _update(self, *step):
        self.learned.append(step)

    def _run_episode(self):
        self.Q[:, :, 1] += 1.0
        self._update(0, 0, 0, 0.0, 0)


@pytest.mark.parametrize("before", [True, False])
def test_an_agent_that_plans_and_plays_in_one_is_taken_apart(before):
    agent = TableAgent(Planner(), before)
    assert agent.begin_episode([1.0]).policy.tolist() == [[int(before)] * 3] * 2
    for state in (0, 2):
        agent.act(state)
        agent.observe(1.0, 2)
    agent.end_episode()
    assert agent.made.learned == [(0, int(before), 2, 1.0, 0), (2, int(before), 2, 1.0, 1)]
    assert agent.begin_episode([1.0]).policy.max() == 1


def test_contestants_of_other_libraries_keep_to_the_verbs():
    """Those that are installed: none of ours is needed for that."""
    world = nr.worlds.bandit_logistic()
    bed = WorldBed("bandit", Size(40, 1), Size(40, 1), make=partial(lambda world, seed: world, world))
    for one in contestants(world.problem):
        assert isinstance(one, Contestant)
        if one.library != "noregret":
            assert 0.0 <= bed.play(one.make(world.problem, 0, None), 0, 40) <= 40.0
