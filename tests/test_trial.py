"""plan_trial: shares and crossings by hand, the same from studies and from worlds, resumed, refused, drawn."""

import math

import numpy as np
import pytest
from typer.testing import CliRunner

import noregret as nr
from noregret.cli import app
from noregret.studies import closing
from noregret.studies.engines.local import LocalEngine
from noregret.studies.trial import _crossing, _rounded, recent_share

SMALL = {"name": "programme", "context_dim": 4, "horizon": 3}


def small(seed):
    return nr.worlds.programme(context_dim=4, horizon=3, seed=seed)


# The numbers --------------------------------------------------------------------------------------------------------
def test_shares_are_those_of_the_last_fifth():
    people, g = np.arange(10, 210, 10), np.random.default_rng(0)
    above = g.random(200) < np.linspace(1.0, 0.0, 200)
    count = above.cumsum()[people - 1].astype(float)
    found = recent_share(people, count)
    for i, k in enumerate(people):
        first = min(math.ceil(0.8 * k / 10) * 10, k - 10)
        assert found[i] == pytest.approx(1.0 - above[first:k].mean())


@pytest.mark.parametrize(
    ("share", "wanted", "found"),
    [
        ([0.1, 0.5, 0.9, 1.0], 0.5, 20.0),
        ([0.1, 0.6, 0.4, 0.8], 0.6, 30.0 * (40.0 / 30.0) ** 0.5),  # reached, lost and reached again
        ([0.1, 0.9, 0.9, 0.2], 0.5, math.inf),
        ([0.7, 0.9, 0.9, 0.9], 0.5, 10.0),
    ],
)
def test_from_when_on_a_share_is_kept(share, wanted, found):
    assert _crossing(np.array([10, 20, 30, 40]), np.array(share), wanted) == pytest.approx(found)


def test_two_digits():
    assert [_rounded(v) for v in (7.4, 12.6, 128.0, 12_649.0)] == [7, 13, 130, 13_000]


# The whole ------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trial")
    rest = {"people": 300, "threshold": 2.9, "share": 0.2, "replications": 2, "folder": folder}
    made = nr.plan_trial(SMALL, "lr-orl", **rest, engine=LocalEngine(1))
    return made, folder, rest


@pytest.mark.long
def test_a_study_and_worlds_say_the_same(planned):
    made = planned[0]
    rest = {"people": 300, "threshold": 2.9, "share": 0.2, "replications": 2}
    alike = nr.plan_trial([small(0), small(1)], "lr-orl", **rest)
    for name in ("people", "certified", "regret", "rule_regret", "needed"):
        np.testing.assert_array_equal(getattr(made, name), getattr(alike, name), err_msg=name)
    for one, other in zip(made.closings, alike.closings, strict=True):
        assert one["true"] == pytest.approx(other["true"])
        for rung in closing.RUNGS:
            assert one[rung] == pytest.approx(other[rung])


@pytest.mark.long
def test_what_is_done_is_not_run_again(planned, monkeypatch):
    made, _, rest = planned

    def fail(*args):
        raise AssertionError("run again")

    monkeypatch.setattr("noregret.studies.work.closing", fail)
    again = nr.plan_trial(SMALL, "lr-orl", **rest, engine=LocalEngine(1))
    np.testing.assert_array_equal(again.certified, made.certified)
    assert again.closings == made.closings


@pytest.mark.deep
def test_regret_and_gain_are_those_of_simulations(planned):
    made = planned[0]
    for i in range(2):
        world = small(i)
        own, rule = nr.LRORL(world.problem), nr.agents.FixedPolicy(world.problem, world.rule)
        lost = [nr.simulate(agent, world, 300, [i]).final[0] for agent in (own, rule)]
        assert made.regret[i, -1] == lost[0]
        assert made.gain[i, -1] == pytest.approx((lost[1] - lost[0]) / 300)


@pytest.mark.deep
def test_intervals_at_the_end_hold_the_truth_that_the_world_knows(planned):
    """Proved ones with probability 0.95 each; that the two worlds of these seeds are among them is fixed."""
    made = planned[0]
    for i, end in enumerate(made.closings):
        world = small(i)
        agent, asked, gains, starts = nr.LRORL(world.problem, seed=i), np.linspace(0, 299, 100).round(), [], []
        for k in range(300):  # by the verbs
            person = world.individual(k, seed=i)
            starts.append(person.state)
            x, plan = person.context, agent.begin_episode(person.context).policy
            if k in asked:
                gains.append(world.values(plan, x)[0] - world.values(world.rule, x)[0])
            for _ in range(3):
                agent.observe(*person.step(agent.act(person.state)))
            agent.end_episode()
        begin = np.bincount(starts, minlength=world.problem.n_states) / 300
        assert end["true"] == pytest.approx(np.mean(gains, axis=0) @ begin)
        assert end["proved"][0] <= end["true"] <= end["proved"][1]
        assert end["asymptotic"][1] - end["asymptotic"][0] < end["proved"][1] - end["proved"][0]
    assert made.chance("proved") == np.mean([end["proved"][0] > 0 for end in made.closings])


@pytest.mark.long
def test_what_it_says(planned):
    made = planned[0]
    said = str(made)
    assert "expected, not proved" in said
    assert f"{made.people[-1]:,}" in said
    assert "chance to show at the end that the gain is above 0, by rung: proved" in said
    assert set(made.table()) == {"replication", "people", "certified", "regret", "gain_over_rule"}
    few = nr.plan_trial("clinic", "lr-orl", people=200, threshold=1.0, replications=1)
    assert math.isinf(few.expected)
    assert "more than 200 people (0 of 1 replications got there)" in str(few)
    assert few.chance("proved") is None


@pytest.mark.long
def test_page_and_figure(planned, tmp_path):
    page = nr.report.write_trial(planned[0], tmp_path, "noregret plan-trial ...").read_text()
    assert "Could one tell at the end?" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert (tmp_path / "figures" / "trial.png").stat().st_size > 10_000


@pytest.mark.long
def test_the_command(tmp_path):
    typed = ["plan-trial", "--world", "clinic", "--agent", "lr-orl", "--threshold", "5", "--share", "0.3"]
    typed += ["--people", "300", "--replications", "1", "--workers", "1", "--out", str(tmp_path / "o")]
    found = CliRunner().invoke(app, typed)
    assert found.exit_code == 0, found.output
    assert "certificates at most 5 for 30% of the people" in found.output
    assert {"trial.html", "trial.png", "trial.parquet"} <= {f.name for f in (tmp_path / "o").iterdir()}


@pytest.mark.parametrize(
    ("worlds", "agent", "options", "sentence"),
    [
        ([], "lr-orl", {}, "worlds must name at least one world"),
        (3, "lr-orl", {}, "worlds must be a name or a table with one"),
        ("clinic", 3, {}, "agent must be a name or a table with one"),
        ("clinic", "lr-orl", {"people": 3}, "people must be"),
        ("clinic", "lr-orl", {"share": 1.5}, "share must be a number from 0 to 1"),
        ("clinic", "lr-orl", {"threshold": 0.0}, "threshold must be"),
        ("clinic", "psrl-glm", {}, "agent must be one whose plans have certificates"),
        ("nowhere", "lr-orl", {}, "unknown world"),
    ],
)
def test_bad_input(worlds, agent, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        nr.plan_trial(worlds, agent, **({"people": 50, "threshold": 1.0, "replications": 1} | options))


@pytest.mark.long
def test_worlds_cannot_be_written_down(tmp_path):
    with pytest.raises(ValueError, match="folder needs worlds by name"):
        nr.plan_trial(small(0), "lr-orl", people=50, threshold=1.0, folder=tmp_path)


@pytest.mark.long
def test_the_rule_as_an_agent():
    from noregret.simulation.catalogue import agent_options, named_agent, refusal

    world = small(0)
    np.testing.assert_array_equal(named_agent("rule", {}, world).options["policy"], world.rule)
    assert refusal("rule", {}, world) is None
    assert "needs a world with a rule" in refusal("rule", {}, nr.worlds.clinic())
    with pytest.raises(ValueError, match="needs a world with a rule"):
        named_agent("rule", {}, nr.worlds.clinic())
    with pytest.raises(ValueError, match="agent rule: got an unexpected option 'delta'"):
        agent_options("rule", {"delta": 0.1})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "agent", "people", "threshold", "share"),
    [("programme", "certified-psrl", 24_000, 5.0, 0.5), ("clinic", "lr-orl", 12_000, 2.5, 0.9)],
)
def test_predictions_hold_in_worlds_that_were_held_out(name, agent, people, threshold, share):
    """Ten replications predict ten other worlds of the kind: within 20% in at least 8."""
    plan = nr.plan_trial(name, agent, people=people, threshold=threshold, share=share, replications=10)
    found = []
    for seed in range(100, 110):
        world = nr.worlds.programme(seed=seed) if name == "programme" else nr.worlds.clinic()
        made = nr.make_agent(agent, world.problem)
        run = nr.simulate(made, world, people, [seed], every=people // 400, epsilon=threshold)
        found.append(_crossing(run.episodes, recent_share(run.episodes, run.diagnostics["uncertified"][0]), share))
    near = int((np.abs(np.array(found) / plan.expected - 1.0) <= 0.2).sum())
    chances = {rung: plan.chance(rung) for rung in closing.RUNGS}
    held = [sum(c[r][0] <= c["true"] <= c[r][1] for c in plan.closings) for r in closing.RUNGS if plan.closings]
    print(
        f"{name}: predicted {plan.expected:,.0f}, held out {np.round(found)}, within 20% {near}; {chances}, held {held}"
    )
    assert near >= 8
