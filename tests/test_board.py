"""The page about decisions: counts by hand, groups, privacy, protocol, bad input."""

import re
from dataclasses import replace

import numpy as np
import pytest

import noregret as nr
from noregret.live.groups import groups_of
from noregret.report.board import people_in


@pytest.fixture(scope="module")
def recorded():
    """40 people of the clinic, an agent that refers to the rule, somebody else choosing now and then."""
    world, rng = nr.worlds.clinic(horizon=3), np.random.default_rng(1)
    rule = [[0, 1, 1, 1]] * 3
    agent = nr.Referral(nr.CertifiedPSRL(world.problem), rule, threshold=1.9)
    agent.learn_from(world.log(1500, seed=3, explore=1.0, rule=rule))
    live, made = nr.Live(agent), []
    for k in range(40):
        person = world.individual(k)
        live.begin(f"P{k}", person.context)
        for h in range(3):
            allowed = np.flatnonzero(world.problem.layout.available[person.state])
            other = int(allowed[0]) if rng.random() < 0.2 else None
            made.append(live.act(f"P{k}", person.state, action=other, time=f"2026-03-{1 + k // 4:02d}T09:00:00+00:00"))
            live.observe(f"P{k}", *person.step(made[-1].action), step=h)
        live.end(f"P{k}")
    return made, agent


def rows_of(page, caption):
    """The rows of a table of the page: first entry -> entries."""
    table = re.search(rf"<caption>{re.escape(caption)}.*?</table>", page, re.S)[0]
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S) for row in re.findall(r"<tr.*?</tr>", table, re.S)]
    return {re.sub("<.*?>", "", row[0]): dict(zip(found[0][1:], row[1:], strict=True)) for row in found[1:]}


def test_numbers_are_those_of_the_decisions(recorded, tmp_path):
    made, agent = recorded
    assert 0 < np.mean([d.referred for d in made]) < 1
    page = nr.report.write_board(made, tmp_path, by=["age=0"], agent=agent, command="the command").read_text()
    first = [d for d in made if d.step == 0]
    young = {d.who for d in first if d.context[1] < 0}
    who = rows_of(page, "People by group")
    assert who["everybody"]["people"] == "40"
    assert who["age &lt; 0"]["people"] == str(len(young))
    assert who["age &lt; 0"]["decisions"] == str(3 * len(young))
    in_state = rows_of(page, "What was done in each state")
    for state in {d.state_name for d in made}:
        some = [d for d in made if d.state_name == state]
        assert in_state[state]["decisions"] == str(len(some))
        assert in_state[state]["drug A"] == f"{np.mean([d.action_name == 'drug A' for d in some]):.0%}"
    by_group = rows_of(page, "What was done in each group")
    referred = [d.referred for d in first if d.who in young]
    assert by_group["age &lt; 0"]["referred"] == f"{np.mean(referred):.0%}"
    assert by_group["everybody"]["by others"] == f"{np.mean([d.by_other for d in made]):.0%}"
    sure = [d.certificate for d in first if d.certificate is not None]
    assert rows_of(page, "Certificates")["everybody"]["median"] == f"{np.median(sure):.3g}"
    assert "from 2026-03-01 to 2026-03-10" in page
    assert agent.guarantee.split(",")[0] in page
    assert "http" not in page.replace("http://www.w3.org", "")


def test_every_decision_counts_once(recorded, tmp_path):
    """A step that was recorded again is that step."""
    made, _ = recorded
    again = [*made, replace(made[4], by_other=True, action=0)]
    people = people_in(again)
    assert len(people) == 40
    assert sum(len(p.decisions) for p in people) == 120
    assert [d.step for d in people[1].decisions] == [0, 1, 2]
    assert people[1].decisions[1].by_other


def test_small_groups_are_left_out(recorded, tmp_path):
    made = [replace(d, row={"ward": "tiny" if d.who in ("P0", "P1", "P2") else "large"}) for d in recorded[0]]
    page = nr.report.write_board(made, tmp_path, by=["ward"]).read_text()
    assert "ward large" in page
    assert "ward tiny" not in page
    assert "1 group of fewer than 5 people not shown." in page


def test_belief_is_shown_where_it_was_asked_for(recorded, tmp_path):
    made = [replace(d, belief=0.1 * (d.episode % 3), belief_quantile=0.5, belief_draws=20) for d in recorded[0]]
    page = nr.report.write_board(made, tmp_path).read_text()
    mean = np.mean([d.belief for d in made if d.step == 0])
    assert rows_of(page, "Belief")["everybody"] == {
        "asked": "40", "mean": f"{mean:.3g}", "median of 95% quantiles": "0.5",
    }  # fmt: skip
    assert "<caption>Belief" not in nr.report.write_board(recorded[0], tmp_path).read_text()


def test_what_was_refuted_stands_at_the_top(recorded, tmp_path):
    made = [replace(d, refuted="returns were too high") for d in recorded[0]]
    page = nr.report.write_board(made, tmp_path).read_text()
    assert "Attention." in page
    assert "An assumption was refuted: returns were too high." in page


def test_groups():
    found = groups_of("age=40,60", [39.9, 40, 60, None, 75])
    assert {k: v.tolist() for k, v in found.items()} == {
        "age < 40": [True, False, False, False, False], "age 40 to 60": [False, True, False, False, False],
        "age >= 60": [False, False, True, False, True], "age not known": [False, False, False, True, False],
    }  # fmt: skip
    for bad, values, sentence in (
        ("age=", [1], "by must be a column"),
        ("age=old", [1], "numbers after age="),
        ("=3", [1], "by must be a column"),
        ("age=1", ["x"], "column of numbers"),
        ("age", list(range(40)), "at most 12 values"),
        ("age=nan", [1], "numbers"),
    ):
        with pytest.raises(ValueError, match=sentence):
            groups_of(bad, values)


def test_bad_input(recorded, tmp_path):
    with pytest.raises(ValueError, match="decisions must hold at least one"):
        nr.report.write_board([], tmp_path)
    with pytest.raises(ValueError, match=r"decisions must be noregret\.Decision"):
        nr.report.write_board([3], tmp_path)
    with pytest.raises(ValueError, match="by must be a column of the rows or a feature"):
        nr.report.write_board(recorded[0], tmp_path, by=["shoe"])
