"""Beds of `noregret bench --regret`: worlds and data sets to compare regret on, and who plays there."""

import csv
import importlib.util
from functools import partial

import numpy as np
import pytest

import noregret as nr
from benchmarks import regret
from benchmarks.beds import DataBed, GradedBed, Size, WorldBed, arms, beds, deep_sea, lock, rows_of
from benchmarks.contestants import Chooser, Contestant, TableAgent, contestants, ours

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


def test_the_deep_sea_pays_at_its_end():
    """1 for who always goes right; at most .01 a step for all others, of whom .06 is the most."""
    world = deep_sea(3)
    P, r = world.weights[..., 0], world.reward_weights[..., 0]
    right = r.argmin(1)
    right[-1] = r[-1].argmax()
    values, alone = np.zeros(36), np.zeros(36)
    for _ in range(6):
        values = r[np.arange(36), right] + P[np.arange(36), right] @ values
        alone = (np.where(r < 1.0, r, 0.0) + P @ alone).max(1)
    assert values[0] == pytest.approx(1.0)
    assert alone[0] == pytest.approx(0.06)
    assert np.array_equal(P.sum(-1), np.ones((36, 2)))


def test_one_of_ten_arms_is_better():
    assert np.sort(arms(5).reward_weights.ravel()).tolist() == [0.5] * 9 + [0.6]


def test_small_rewards():
    """They are linear in contexts within their bound, and an arm at random loses what it is worse by: means are within
    .025 +- .02, so that at most .04 an episode is lost."""
    bed = GradedBed("small-rewards", Size(500, 1), Size(500, 1))
    lost = [bed.play(agent(bed.problem()), 0, 500) for agent in (nr.UniformRandom, nr.PSRLGLM)]
    assert 0.5 * lost[0] > lost[1] > 0.0
    assert lost[0] < 0.04 * 500


@needs_data
def test_a_data_set_is_a_bandit_with_bounded_contexts():
    X, labels, bound, norm = rows_of("wine")
    assert X.shape == (178, 14)
    assert np.linalg.norm(X, axis=1).max() <= 1.0
    assert np.ptp(X[:, 0]) == 0.0
    assert X[:, 1:].mean(0) == pytest.approx(np.zeros(13), abs=1e-12)
    assert (X[:, 1:] * norm).std(0) == pytest.approx(np.ones(13))
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
def test_other_libraries_get_standardised_features_undivided():
    """A chooser of another library's sees each row once: means 0 and standard deviations 1, beside the constant 1."""
    seen = []

    def choose(x):
        seen.append(x)
        return 0

    DataBed("wine", Size(178, 1), Size(178, 1), data="wine").play(Chooser(choose, lambda x, a, r: None), 0, 178)
    assert np.mean(seen, 0) == pytest.approx(np.r_[1.0, np.zeros(13)])
    assert np.std(seen, 0) == pytest.approx(np.r_[0.0, np.ones(13)])


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


@pytest.mark.long
def test_tables_files_and_figure(tmp_path):
    only = ("psrl-glm", "epsilon-greedy", "uniform-random")
    scores = regret.play(SMALL, others=False, only=only)
    again = regret.play(SMALL, others=False, only=only)
    for one, two in zip(scores, again, strict=True):
        assert all(np.array_equal(one.regret[v], two.regret[v]) for v in one.regret)  # nothing but seeds decides
        assert one.luckiest <= one.untuned
        assert one.luckiest == one.regret[one.best].mean()
    # two seeds: at each that of whoever is best at the other
    every = np.concatenate([s.all for s in scores])
    assert np.array_equal(regret.best_tuned(scores), [every[every[:, 1].argmin(), 0], every[every[:, 0].argmin(), 1]])
    assert regret.winner(scores).luckiest == every.mean(1).min()
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
    assert regret.bar(played, "psrl-glm").row_count == 1
    fewer = regret.play(SMALL, others=False, only=only[:1], seeds=1)
    assert np.array_equal(fewer[0].all[:, 0], scores[0].all[:, 0])
    assert str(regret.ratios_of(fewer[0], regret.best_tuned(fewer))[1]) == "1.00"  # one seed: no standard error


def test_the_best_of_many_is_judged_on_seeds_it_was_not_chosen_on():
    """40 choices that are all alike, 12 seeds, regrets N(10, 4): the least mean is 8.7 on average, that of whoever is
    best on the other folds 10. Over 400 tables its mean has a standard error of .05."""
    g = np.random.default_rng(0)
    tables = 10.0 + 2.0 * g.standard_normal((400, 40, 12))
    found = np.array([regret.best_on_others(table).mean() for table in tables])
    assert abs(found.mean() - 10.0) < 6.0 * found.std() / 20.0 < 0.35
    assert tables.mean(2).min(1).mean() < 9.0
    one, t = tables[0], regret.best_on_others(tables[0])
    for i in range(12):
        others = [j for j in range(12) if j % 5 != i % 5]
        assert t[i] == one[one[:, others].mean(1).argmin(), i]
    assert np.array_equal(regret.best_on_others(one[:, :1]), [one[:, 0].min()])


def test_the_standard_error_of_a_ratio():
    """Of two regrets at the same seeds, 1.2 times as large but for noise: over 600 draws the ratio has the standard
    deviation it is said to have, to a tenth (six standard errors are .17), and that is less than if seeds were not in
    common."""
    g, said = np.random.default_rng(1), []
    for _ in range(600):
        t = g.uniform(50.0, 150.0, 30)
        said.append(regret.ratio_of(1.2 * t + 5.0 * g.standard_normal(30), t))
    values, errors = np.array(said).T
    assert abs(values.mean() - 1.2) < 0.003
    assert abs(errors.mean() / values.std() - 1.0) < 0.17
    assert regret.ratio_of(2.0 * t, t).error == pytest.approx(0.0, abs=1e-12)


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
