"""The gain of plans over a rule: exact, proved and believed; and how a page tells it."""

import csv
import math

import numpy as np
import pytest
from typer.testing import CliRunner

import noregret as nr
from noregret.cli import app
from noregret.cli.decisions import _subgroups
from noregret.cli.options import policy_of
from noregret.cli.pilot import pilot
from noregret.evidence.evaluation import Evaluation, Row
from noregret.report.board_evidence import gain_section, gain_sentence, model_alerts, model_section
from noregret.simulation.gain import DRAWS, believed_gain, mean_gain, proved_gain

WORLD = nr.worlds.programme(context_dim=4, horizon=3)
P = WORLD.problem
X = np.array([WORLD.context(5, k) for k in range(6)])
BEGIN = np.arange(1, P.n_states + 1) / (P.n_states * (P.n_states + 1) / 2) * np.isin(np.arange(P.n_states), P.starts)
BEGIN = BEGIN / BEGIN.sum()
PLANS = np.array([WORLD.optimal(x).policy for x in X])


@pytest.fixture(scope="module")
def agent():
    made = nr.CertifiedPSRL(P)
    made.learn_from(WORLD.log(300, seed=1))
    return made


def value(world, policy, x):
    """[S], in NumPy."""
    V, p, r = np.zeros(P.n_states), world.transitions(x), world.rewards(x)
    for h in reversed(range(P.horizon)):
        V = (r + p @ V)[np.arange(P.n_states), policy[h]]
    return V


def by_hand(world):
    return np.mean(
        [BEGIN @ (value(world, plan, x) - value(world, WORLD.rule, x)) for plan, x in zip(PLANS, X, strict=True)]
    )


def test_the_mean_gain():
    assert mean_gain(WORLD, PLANS, WORLD.rule, X, BEGIN) == pytest.approx(by_hand(WORLD))
    assert by_hand(WORLD) > 0.05


def test_what_is_believed_are_quantiles_over_drawn_worlds(agent):
    gains = [by_hand(agent.world(X, draw=n)) for n in range(DRAWS)]
    found = believed_gain(agent, PLANS, WORLD.rule, X, BEGIN, 0.2)
    assert found == pytest.approx(tuple(np.quantile(gains, (0.1, 0.9))))
    assert found[0] < np.mean(gains) < found[1]
    assert believed_gain(nr.LRORL(P), PLANS, WORLD.rule, X, BEGIN, 0.2) is None


def test_what_is_proved_is_what_the_sets_say(agent):
    found = agent.compare(PLANS, WORLD.rule, X, start=BEGIN)
    assert proved_gain(agent, PLANS, WORLD.rule, X, BEGIN) == (found.lower, found.upper)
    inside = nr.Referral(nr.CertifiedPSRL(P), WORLD.rule, threshold=2.0)
    inside.learn_from(WORLD.log(300, seed=1))
    assert proved_gain(inside, PLANS, WORLD.rule, X, BEGIN) == pytest.approx((found.lower, found.upper))
    assert proved_gain(nr.PSRLGLM(P), PLANS, WORLD.rule, X, BEGIN) is None


# On the page ----------------------------------------------------------------------------------------------------------
def evaluation():
    """The rule against what was done: it would have brought 0.3 less to everyone, and says nothing of the old."""
    rows = (
        Row("everyone", "PDIS", "proved", -0.2, -1.5, 1.0, False, 90, 12.0, 7.5, "bets", "too few"),
        Row("everyone", "plug-in", "asymptotic", -0.3, -0.5, -0.1, True, 90, math.nan, math.nan, "fit"),
        Row("old", "DR", "asymptotic", 0.1, -9.0, 9.0, False, 20, 3.0, 30.0, "sequence", "no crowd"),
    )
    return Evaluation("rule less what was done", rows, ("one note",), 0.1, "once")


def test_gains_are_differences_turned_round():
    table = gain_section(evaluation()).blocks[1]
    assert [row.entries["gain"] for row in table.rows] == ["+0.2", "+0.3", "-0.1"]
    assert [row.entries["interval"] for row in table.rows] == ["-1 to +1.5", "+0.1 to +0.5", "–"]
    assert [row.entries["what"] for row in table.rows] == ["cannot tell", "", "cannot tell"]
    assert table.rows[0].entries["largest weight"] == "7.5"
    assert "90% each, for this one look" in table.notes[0]
    assert table.notes[1] == "One note."
    assert gain_sentence(evaluation()) == "Gain over the rule: +0.3 per person, asymptotic +0.1 to +0.5 (plug-in)."
    now = gain_section(evaluation(), [("today", "believed", 0.25, (0.1, 0.4))]).blocks[2]
    assert now.rows[0].entries == {"policy": "today", "rung": "believed", "gain": "+0.25", "interval": "+0.1 to +0.4"}


@pytest.mark.deep
def test_alarms_are_told():
    check = nr.check_model(WORLD.log(120, seed=1))
    section = model_section(check)
    assert [row.entries["part"] for row in section.blocks[0].rows] == [a.kind for a in check.alarms]
    assert model_alerts(check) == []
    red = check.alarms[0]._replace(level="red", sentence="it drifts")
    object.__setattr__(check, "alarms", (red, *check.alarms[1:]))
    assert model_alerts(check) == ["Red: it drifts."]


# On the command line --------------------------------------------------------------------------------------------------
def test_a_rule_in_words():
    p = nr.Problem(
        2, 2, 3, 1, weight_bound=1.0, reward_bound=1.0, state_names=("ill", "well"), action_names=("wait", "drug")
    )
    assert policy_of("ill=drug, well=wait", p).tolist() == [[1, 0]] * 3
    assert policy_of("1=1,0=0", p).tolist() == [[0, 1]] * 3
    for text, sentence in (
        ("ill", "rule must be state=action"), ("ill=drug", "none for 'well'"), ("ill=surgery,well=wait", "action"),
        ("dead=drug,ill=drug,well=wait", "state"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=sentence):
            policy_of(text, p)


def test_groups_of_a_log():
    log = WORLD.log(40, seed=2)
    table = {
        "episode": [e.key for e in log for _ in range(2)],
        "ward": [k % 4 == 0 for k in range(40) for _ in range(2)],
    }
    found = _subgroups(["ward", "age=0"], table, log, P)
    assert found["ward True"].tolist() == [k % 4 == 0 for k in range(40)]
    age = np.array([e.context[1] for e in log])
    assert found["age < 0"].tolist() == (age < 0).tolist()
    with pytest.raises(ValueError, match="by must be a column of the log or a feature"):
        _subgroups(["shoe"], table, log, P)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """An agent that has learned a pilot, and the pilot's log."""
    folder, log, made = tmp_path_factory.mktemp("pilot"), WORLD.log(60, seed=4), nr.CertifiedPSRL(P)
    made.learn_from(log)
    made.save(folder / "agent.npz")
    with open(folder / "log.csv", "w", newline="") as file:
        write = csv.writer(file)
        write.writerow(["episode", "step", "state", "action", "reward", "next_state", *(f"x{j}" for j in range(4))])
        for e in log:
            for h in range(P.horizon):
                seen = e.key, h, e.states[h], e.actions[h], e.rewards[h], e.states[h + 1]
                write.writerow([*seen, *map(repr, e.context.tolist())])
    return folder, log, made


def test_worlds_that_a_pilot_suggests(files):
    folder, log, made = files
    said = ",".join(f"{s}={P.action_names[a]}" for s, a in enumerate(WORLD.rule[0]))
    found = pilot(str(folder / "agent.npz"), str(folder / "log.csv"), said, seed=7)
    x, drawn = log.episodes[0].context, made.world(log, draw=7)
    np.testing.assert_allclose(found.transitions(x), drawn.transitions(x))
    np.testing.assert_allclose(found.rewards(x), drawn.rewards(x))
    begin = np.bincount([e.states[0] for e in log], minlength=P.n_states) / 60
    np.testing.assert_allclose(found.initial_state, begin)
    assert found.rule.tolist() == [WORLD.rule[0].tolist()] * P.horizon


@pytest.mark.long
def test_a_trial_from_a_pilot(files, tmp_path):
    folder = files[0]
    said = ",".join(f"{s}={a}" for s, a in enumerate(WORLD.rule[0]))
    typed = ["plan-trial", "--pilot", str(folder / "agent.npz"), "--log", str(folder / "log.csv"), "--rule", said]
    typed += ["--agent", "lr-orl", "--threshold", "2.9", "--people", "60", "--replications", "1", "--workers", "1"]
    found = CliRunner().invoke(app, [*typed, "--out", str(tmp_path)])
    assert found.exit_code == 0, found.output
    assert "mean gain over the rule" in found.output
    for wrong, sentence in (
        (["--threshold", "1"], "plan-trial needs --world"),
        (["--threshold", "1", "--log", "x.csv"], "log and rule go with --pilot"),
        (["--threshold", "1", "--pilot", str(folder / "agent.npz")], "pilot needs log"),
    ):
        with pytest.raises(ValueError, match=sentence):
            CliRunner().invoke(app, ["plan-trial", *wrong], catch_exceptions=False, standalone_mode=False)
