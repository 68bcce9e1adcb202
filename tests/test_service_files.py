"""Programme files, the house rule, and what they say about mistakes."""

import json
import math

import numpy as np
import pytest

import noregret as nr
from noregret.service.house import House, drawn
from noregret.service.programme_file import load_programme, programme_from
from programmes import HOUSE, P, table

TEXT = """
[programme]
name = "school"
seed = 7

[problem]
state_names = ["behind", "fine"]
action_names = ["nothing", "call"]
horizon = 4
weight_bound = 2.0
reward_bound = 1.0
available = { fine = ["nothing"] }

[encoder]
categories = { sex = ["f", "m"] }
[encoder.numbers]
age = [6, 18]

[agent]
name = "certified-psrl"
delta = 0.1

[house]
floor = 0.2
[house.rule]
behind = { nothing = 0.5, call = 0.5 }
fine = "nothing"

[learning]
order = "end"
wait = "close"

[service]
deadline_ms = 40
"""


@pytest.fixture
def written(tmp_path):
    def write(text, name="school.toml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_a_file_says_everything(written):
    told = load_programme(written(TEXT))
    problem, house = told.made_problem(), told.made_house(told.made_problem())
    assert (told.name, problem.n_states, problem.n_actions, problem.context_dim) == ("school", 2, 2, 4)
    assert problem.layout.available.tolist() == [[True, True], [True, False]]
    assert problem.feature_names == told.made_encoder().feature_names
    assert house.chances.tolist() == [[0.5, 0.5], [1.0, 0.0]]
    assert (told.learning.wait, told.service.deadline_ms, told.service.queue) == ("close", 40.0, 4096)
    assert programme_from(told.table()).table() == told.table()
    assert programme_from(told.table()).identity() == told.identity()
    again = load_programme(written(json.dumps(told.table(), indent=1), "school.json"))
    assert again.table() == told.table()


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ('name = "school"', 'name = "a b"', 3, "programme.name: String should match"),
        ("seed = 7", "sed = 7", 4, "programme.sed: unknown key (keys: name, title, seed)"),
        ("horizon = 4", "horizon = 0", 9, "problem.horizon: horizon must be an integer of at least 1"),
        ("horizon = 4\n", "", 6, "problem: horizon must be given"),
        ("weight_bound = 2.0\n", "", 6, "problem: weight_bound must be given"),
        ("reward_bound = 1.0", 'reward_bound = "1"', 11, "problem.reward_bound: Input should be a valid number"),
        ('fine = ["nothing"]', 'good = ["nothing"]', 12, "problem.available: available: each key must be a state"),
        ("age = [6, 18]", "age = [18, 6]", 16, "encoder.numbers: numbers['age'] must be a range"),
        ("delta = 0.1", "detla = 0.1", 21, "agent.detla: agent certified-psrl: got an unexpected option 'detla'"),
        ('"certified-psrl"', '"certfied-psrl"', 20, "agent.name: unknown agent 'certfied-psrl'; did you mean"),
        ("floor = 0.2", "floor = 2", 24, "house.floor: Input should be less than or equal to 1"),
        ('fine = "nothing"', 'fine = "call"', 25, "house.rule: rule: in 'fine' (1) it 'call' (1) is not available"),
        ('fine = "nothing"\n', "", 25, "house.rule: rule must name an action for every state, none for 'fine' (1)"),
        ("call = 0.5 }", "call = 0.4 }", 25, "house.rule: rule: the probabilities in 'behind' (0) must sum to 1"),
        ('order = "end"', 'order = "never"', 30, "learning.order: Input should be 'begin' or 'end'"),
        ('wait = "close"', "wait = -1", 31, "learning.wait"),
        ("deadline_ms = 40", "deadline_ms = 0", 34, "service.deadline_ms: Input should be greater than 0"),
        ("deadline_ms = 40", "snapshot_minutes = inf", 34, "service.snapshot_minutes: Input should be a finite number"),
        ("[learning]", "[referral]\nthreshold = inf\n[learning]", 30, "referral.threshold: Input should be a finite"),
        ("[service]", "[servce]", 33, "servce: unknown key (keys: programme, problem, "),
        ("[learning]", "[referral]\nthreshold = 1.0\n[learning]", 25, "house.rule: rule must have one action a state"),
    ],
)
def test_mistakes_are_named_with_line_and_key(written, old, new, line, said):
    assert TEXT.count(old) == 1
    with pytest.raises(ValueError, match="school") as error:
        load_programme(written(TEXT.replace(old, new)))
    first = str(error.value).splitlines()[0]
    assert said in first
    assert f"line {line}," in first


@pytest.mark.parametrize("old", ["delta = 0.1", 'fine = ["nothing"]'])
@pytest.mark.parametrize(
    ("value", "said"), [("inf", "must be finite"), ("nan", "must be finite"), ("2026-01-01", "must be numbers, texts")]
)
def test_what_cannot_be_in_a_journal(written, old, value, said):
    assert TEXT.count(old) == 1
    with pytest.raises(ValueError, match=said):
        load_programme(written(TEXT.replace(old, f"{old.partition(' =')[0]} = {value}")))


def test_files_that_are_none(written):
    with pytest.raises(ValueError, match="is not a TOML file"):
        load_programme(written("a = "))
    with pytest.raises(ValueError, match="is not a JSON file"):
        load_programme(written("{", "x.json"))
    with pytest.raises(ValueError, match="must be a table"):
        load_programme(written("[]", "x.json"))
    with pytest.raises(ValueError, match=r"one of \[agent\] and problem.agent_file"):
        programme_from({k: v for k, v in table().items() if k != "agent"})


def test_an_agent_from_a_file(tmp_path, written):
    nr.CertifiedPSRL(P, seed=5).save(tmp_path / "agent.npz")
    told = {k: v for k, v in table().items() if k not in ("agent", "problem")}
    told["problem"] = {"agent_file": "agent.npz"}
    made = load_programme(written(json.dumps(told), "x.json"))
    assert made.made_problem().state_names == P.state_names
    live = made.made_live()
    assert (live.agent.seed, live.order) == (5, "end")
    (tmp_path / "agent.npz").rename(tmp_path / "moved.npz")
    nr.CertifiedPSRL(P, seed=6).save(tmp_path / "agent.npz")
    assert load_programme(tmp_path / "x.json").identity() != made.identity()  # another agent, under the same name
    told["problem"] = {"agent_file": "moved.npz"}
    assert load_programme(written(json.dumps(told), "x.json")).identity() == made.identity()
    told["problem"] = {"agent_file": "nobody.npz"}
    with pytest.raises(ValueError, match=r"problem.agent_file: .*nobody"):
        load_programme(written(json.dumps(told), "x.json"))


def test_the_agent_is_the_one_of_the_file():
    live = programme_from(table() | {"referral": {"threshold": 2.0}}).made_live()
    assert live.agent.name == "referral"
    assert live.agent.agent.seed == 3
    assert np.array_equal(live.agent.expert.par.policy, House(P, HOUSE).policy)
    assert not live.audit


def test_what_the_agent_depends_on_is_its_identity():
    first = programme_from(table()).identity()
    changed = [
        {"service": {"draws": 3}}, {"learning": {"order": "begin"}}, {"programme": {"name": "clinic", "seed": 4}},
        {"referral": {"threshold": 2.0}}, {"agent": {"name": "psrl-glm"}},
    ]  # fmt: skip
    assert all(programme_from(table() | other).identity() != first for other in changed)
    same = [{"service": {"deadline_ms": 3.0}}, {"house": {"rule": HOUSE, "floor": 0.5}}]
    assert all(programme_from(table() | other).identity() == first for other in same)


# The house rule ---------------------------------------------------------------------------------------------------
def test_the_house_rule_draws_as_it_says():
    """Two frequencies of n draws, each within 4.5 standard deviations: wrong with probability below 2e-5."""
    house, n = House(P, HOUSE | {"moderate": {"drug A": 0.7, "drug B": 0.3}}, floor=0.3, seed=1), 4000
    assert np.allclose(house.chances[2], [0.1, 0.59, 0.31])
    found = [house.decide(f"p{k}", 1, k % 6, 2) for k in range(n)]
    for action in (0, 1):
        p = house.chances[2, action]
        share = np.mean([a == action for a, _ in found])
        assert abs(share - p) < 4.5 * math.sqrt(p * (1 - p) / n)
    assert all(chance == house.chances[2, a] for a, chance in found)


def test_what_is_not_available_is_left_out_and_the_probability_says_so():
    house = House(P, HOUSE | {"moderate": {"drug A": 0.75, "wait": 0.25}})
    mask = P.layout.available.copy()
    mask[:, 1] = False
    assert house.decide("x", 1, 0, 2, mask) == (0, 1.0)
    action, chance = house.decide("x", 1, 0, 1, mask)  # the rule says drug A, the two others are left
    assert action in (0, 2)
    assert chance == 0.5


def test_draws_belong_to_seed_person_visit_and_step():
    first = drawn(1, "a", 1, 0)
    assert first == drawn(1, "a", 1, 0)
    assert 0.0 <= first < 1.0
    others = [drawn(2, "a", 1, 0), drawn(1, "b", 1, 0), drawn(1, "a", 2, 0), drawn(1, "a", 1, 1), drawn(1, 1, 1, 0)]
    assert len({first, *others}) == 6
