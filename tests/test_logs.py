"""Logged data in: rows in any order, names or numbers, and one sentence about the row that is wrong."""

import math
import warnings
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import noregret as nr
from live import arrays_of, differing, make, place, steps_of
from noregret.agents import contents, data

available = np.array([[1, 1], [1, 0]], bool)
PROBLEM = nr.Problem(
    2, 2, 3, 2, available=available, state_names=("ill", "well"), action_names=("treat", "wait"),
    feature_names=("one", "age"), initial_states=("ill",), weight_bound=1.0, reward_bound=1.0,
)  # fmt: skip


def rows():
    """Two people: one with all steps, one whose last outcome is not known."""
    return {
        "episode": ["a", "a", "a", "b", "b"],
        "step": [0, 1, 2, 0, 1],
        "state": ["ill", "ill", "well", 0, "ill"],
        "action": ["treat", 1, "treat", "wait", "treat"],
        "reward": [0.0, None, 1.0, 0.5, None],
        "next_state": ["ill", "well", 1, "ill", None],
        "x0": [0.6, 0.6, 0.6, 0.6, 0.6],
        "x1": [0.1, 0.1, 0.1, -0.2, -0.2],
    }


def same(a, b):
    return len(a) == len(b) and all(
        u.key == v.key
        and all(np.array_equal(getattr(u, n), getattr(v, n), equal_nan=True) for n in
                ("context", "states", "actions", "rewards"))
        for u, v in zip(a, b, strict=True)
    )  # fmt: skip


def test_what_a_log_holds():
    log = nr.read_log(rows(), PROBLEM, arrival="key")
    first, second = log
    assert first.states.tolist() == [0, 0, 1, 1]
    assert first.actions.tolist() == [0, 1, 0]
    assert first.rewards[[0, 2]].tolist() == [0.0, 1.0]
    assert math.isnan(first.rewards[1])
    assert second.states.tolist() == [0, 0]
    assert second.context.tolist() == [0.6, -0.2]
    assert (len(log), log.steps, log.dropped) == (2, 4, 1)
    assert repr(log) == (
        "<Log 2 episodes (1 shorter than the horizon), 4 steps, 1 rewards not seen, 1 last rows without a next state "
        "dropped, in order of arrival>"
    )
    named = {("one" if c == "x0" else "age" if c == "x1" else c): v for c, v in rows().items()}
    assert same(nr.read_log(named, PROBLEM, arrival="key"), log)
    unrewarded = {c: v for c, v in rows().items() if c != "reward"}
    assert np.isnan(nr.read_log(unrewarded, PROBLEM, arrival="key").episodes[0].rewards).all()
    coder = nr.Encoder({"years": (0, 10)}, bound=1.0)
    with_row = rows() | {"years": [5, 5, 5, 7, 7]}
    read = nr.read_log(with_row, PROBLEM, coder, "key")
    assert read.episodes[0].context == pytest.approx(coder.encode({"years": 5}))


@pytest.mark.parametrize("kind", ["shuffled", "pandas", "polars", "arrow", "csv", "parquet"])
def test_any_table_in_any_order(kind, tmp_path):
    numbered = rows() | {
        "state": [0, 0, 1, 0, 0], "action": [0, 1, 0, 1, 0], "next_state": [0, 1, 1, 0, None],
    }  # fmt: skip
    frame = pd.DataFrame(numbered)  # next_state becomes a column of floats
    source = pytest.importorskip("polars").from_pandas(frame) if kind == "polars" else {
        "shuffled": frame.sample(frac=1.0, random_state=1), "pandas": frame,
        "arrow": pa.Table.from_pandas(frame), "csv": tmp_path / "log.csv", "parquet": tmp_path / "log.parquet",
    }[kind]  # fmt: skip
    if kind == "csv":
        frame.to_csv(source, index=False)
    elif kind == "parquet":
        frame.to_parquet(source)
    assert same(nr.read_log(source, PROBLEM, arrival="key"), nr.read_log(rows(), PROBLEM, arrival="key"))


def put(column, row, value):
    made = rows()
    made[column][row] = value
    return made


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (put("state", 2, "dead"), "row 2: state must be a state number from 0 to 1 or one of ill, well, got 'dead'"),
        (put("state", 2, 0), "row 2: state 0 at step 2 is not the next_state of the step before, 1"),
        (put("state", 0, "well"), r"row 0: state must be one of the problem's initial_states \(0,\) at step 0, got 1"),
        (put("action", 2, "wait"), r"row 2: action 'wait' \(1\) is not available in state 'well' \(1\)"),
        (put("action", 1, 2), "row 1: action must be an action number from 0 to 1 or one of treat, wait, got 2"),
        (put("reward", 0, 1.5), "row 0: reward must be a number from 0 to 1"),
        (put("next_state", 0, 1), "row 1: state 0 at step 1 is not the next_state of the step before, 1"),
        (put("action", 0, None), "row 0: action is missing, and step 0 is not the last of episode 'a'"),
        (put("next_state", 2, 5), "row 2: next_state must be a state number"),
        (put("step", 4, 2), "episode 'b' lacks step 1"),
        (put("step", 4, 0), "row 4: step 0 of episode 'b' is there twice, also in row 3"),
        (put("step", 4, 3), "row 4: step must be a whole number from 0 to 2, got 3"),
        (put("step", 4, 0.5), "row 4: step must be a whole number from 0 to 2, got 0.5"),
        (put("episode", 1, None), "row 1: episode is missing"),
        (put("x1", 1, 0.2), "row 1: the context of episode 'a' is not that of row 0"),
        (put("x1", 1, 5.0), "row 1: context has norm 5.03587, above context_bound = 1"),
        (put("x1", 1, "old"), "row 1: x1 must be a number, got 'old'"),
        ({"episode": [1]}, "source must have the columns .*; step, state, action not found"),
        ({c: v for c, v in rows().items() if c != "x1"}, "source must have the context's columns one, age; one not"),
        ("log.txt", r"source must end in \.parquet or \.csv, got 'log.txt'"),
        (7, "source must be a dict of columns"),
    ],
)
def test_bad_logs(source, message):
    with pytest.raises(ValueError, match=message):
        nr.read_log(source, PROBLEM)


def test_files_that_are_not_logs(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        nr.read_log(tmp_path / "log.csv", PROBLEM)
    (tmp_path / "log.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ValueError, match=r"log\.parquet cannot be read"):
        nr.read_log(tmp_path / "log.parquet", PROBLEM)
    with pytest.raises(ValueError, match="the encoder's columns, years not found"):
        nr.read_log(rows(), PROBLEM, nr.Encoder({"years": (0, 10)}))


def test_a_rejected_log_changes_nothing():
    agent = nr.UniformRandom(PROBLEM)
    log = nr.read_log(rows(), PROBLEM, arrival="key")
    before = contents.fingerprint(agent)
    with pytest.raises(ValueError, match=r"log must be what noregret\.read_log returns, got dict"):
        agent.learn_from(rows())
    other = nr.UniformRandom(nr.Problem(3, 2, 3, 2, weight_bound=1.0, reward_bound=1.0))
    with pytest.raises(ValueError, match="another shape"):
        other.learn_from(log)
    strict = nr.UniformRandom(
        nr.Problem(2, 2, 3, 2, available=available, context_bound=0.61, weight_bound=1.0, reward_bound=1.0)
    )
    with pytest.raises(ValueError, match="context has norm"):
        strict.learn_from(log)
    assert strict.episode == other.episode == 0
    agent.begin_episode([0.6, 0.1])
    with pytest.raises(RuntimeError, match="learn_from: an episode is open"):
        agent.learn_from(log)
    agent.act("ill")
    agent.end_episode()
    assert contents.fingerprint(agent) != before
    assert agent.learn_from(log) == 2
    assert agent.episode == 3


@pytest.mark.parametrize(
    ("name", "depends"),
    [
        ("psrl", set()),  # counts
        ("cece-x", set()),
        ("kwik-lr-rmax", set()),  # ridge regressions; until something is known, and no longer learned
        ("epsilon-greedy", {"weights", "inverse", "radius", "gram", "growth", "logdet", "theta"}),  # Newton steps
        ("uniform-random", set()),
    ],
)
def test_what_the_order_of_a_log_changes(name, depends):
    """Counts and sums do not depend on it (but for rounding); online steps do."""
    world = place(name)
    columns, _ = steps_of(world, 30)
    agents = []
    for order in (range(30), reversed(range(30))):
        agent, place_of = make(name, world), {k: i for i, k in enumerate(order)}
        renamed = columns | {"episode": [place_of[k] for k in columns["episode"]]}
        agent.learn_from(nr.read_log(renamed, world.problem, arrival="key"))
        agents.append(agent)
    one, two = (arrays_of(a) for a in agents)
    far = {n.rsplit(".", 1)[1] for n in differing(one, two) if not np.allclose(one[n], two[n], rtol=1e-9, atol=1e-12)}
    assert far <= depends
    assert bool(far) == bool(depends)
    rewards = [a for a in one if a.startswith("state.rewards.") and name == "epsilon-greedy"]
    for n in rewards:  # ridge regression: the same from any order
        assert np.allclose(one[n], two[n], rtol=1e-9, atol=1e-12)


# The order of arrival ------------------------------------------------------------------------------------------------
BOUNDS = {"weight_bound": 2.0, "reward_bound": 1.0}
ONE = nr.Problem(2, 2, 1, 1, initial_states=(0,), **BOUNDS)


def people(**columns):
    """One step each of three people: "c", "a", "b" in the order of the rows."""
    return {"episode": ["c", "a", "b"], "step": [0] * 3, "state": [0] * 3, "action": [0] * 3, "next_state": [0, 1, 1],
            "x0": [0.1, 0.2, 0.3], **columns}  # fmt: skip


def keys(log):
    return "".join(e.key for e in log)


@pytest.mark.parametrize(
    ("cells", "order"),
    [
        ([3, 1, 2], "abc"),
        ([3.0, 1.5, 2], "abc"),
        ([2**60 + 2, 2**60 + 1, 2**60], "bac"),  # whole numbers, to the last digit
        (["2024-01-03", "2024-01-01T09:00", "2024-01-01"], "bac"),
        ([date(2024, 1, 3), datetime(2024, 1, 3, 1), "2024-01-02"], "bca"),
        (["2024-01-01T00:30+01:00", datetime(2024, 1, 1, tzinfo=UTC), "2024-01-01T00:00Z"], "cab"),
        ([np.datetime64("2024-01-03"), np.datetime64("2024-01-01T09"), pd.Timestamp("2024-01-01")], "bac"),
    ],
)
@pytest.mark.parametrize("column", ["arrival", "time", "admitted"])
def test_a_column_of_arrival_decides_the_order(cells, order, column):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log = nr.read_log(people(**{column: cells}), ONE, arrival=None if column != "admitted" else column)
    assert (keys(log), log.ordered) == (order, True)
    assert log.ties == (1 if "00:30+01:00" in str(cells) else 0)


@pytest.mark.parametrize("column", ["arrival", "admitted"])
def test_people_of_one_moment_are_in_the_order_of_the_rows(column):
    log = nr.read_log(people(**{column: [5, 5, 5]}), ONE, arrival=None if column != "admitted" else column)
    assert (keys(log), log.ordered, log.ties) == ("cab", True, 2)


def test_keys_or_rows_that_the_caller_says_are_in_order_of_arrival():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert keys(nr.read_log(people(), ONE, arrival="key")) == "abc"
        assert keys(nr.read_log(people(), ONE, arrival="row")) == "cab"
        assert keys(nr.read_log(people(arrival=[1, 3, 2]), ONE)) == "cba"
        assert keys(nr.read_log(people(arrival=[1, 3, 2]), ONE, arrival="key")) == "abc"
        assert keys(nr.read_log(people(arrival=[1, 3, 2], time=[3, 2, 1]), ONE)) == "cba"
        one = {name: cells[:1] for name, cells in people().items()}
        assert nr.read_log(one, ONE).ordered  # there is nothing to order
    both = nr.read_log(people(arrival=[1, 1, 2]), ONE)
    assert repr(both).endswith("in order of arrival, 1 of them at the same moment as the one before>")


def test_a_column_of_the_context_is_not_taken_for_the_arrival():
    """Unless it is asked for."""
    timed = nr.Problem(2, 2, 1, 1, initial_states=(0,), feature_names=("time",), **BOUNDS)
    table = {("time" if name == "x0" else name): cells for name, cells in people().items()}
    with pytest.warns(UserWarning, match="order of arrival is not known"):
        assert keys(nr.read_log(table, timed)) == "abc"
    assert keys(nr.read_log(table, timed, arrival="time")) == "cab"
    coder = nr.Encoder({"time": (0, 1)}, intercept=False)
    with pytest.warns(UserWarning, match="order of arrival is not known"):
        nr.read_log(table, timed, coder)


def test_the_time_of_the_first_step_is_that_of_arrival():
    log = {"episode": ["a", "b", "a", "b"], "step": [0, 0, 1, 1], "state": [0] * 4, "action": [0] * 4,
           "next_state": [0] * 4, "x0": [0.1] * 4, "time": [2, 1, 3, None]}  # fmt: skip
    two = nr.Problem(2, 2, 2, 1, **BOUNDS)
    assert keys(nr.read_log(log, two)) == "ba"
    assert keys(nr.read_log(log | {"time": [1, 2, 9, 3]}, two)) == "ab"
    with pytest.raises(ValueError, match="row 2: time goes back within episode 'a'"):
        nr.read_log(log | {"time": [2, 1, 1, 2]}, two)


@pytest.mark.parametrize(
    ("columns", "arrival", "message"),
    [
        ({}, "when", r"arrival must be a column of source, \"key\" or \"row\", got 'when' \(columns: episode, step, "),
        ({}, 3, r"arrival must be a column of source, \"key\" or \"row\", got 3"),
        ({"row": [1, 2, 3]}, "row", "arrival must not be 'row' where source has a column of that name: rename"),
        ({"time": [1, None, 3]}, None, "row 1: time is missing at the first step of episode 'a'"),
        ({"time": [1, "soon", 3]}, None, r"row 1: time must be a number, a date or a time \(ISO 8601 .*, got 'soon'"),
        ({"time": [1, True, 3]}, None, "row 1: time must be a number, a date or a time .*, got True"),
        ({"time": [1, math.inf, 3]}, None, "row 1: time must be a number, a date or a time .*, got inf"),
        ({"time": [1, "2024-01-01", 3]}, None, "row 1: time is a time without a zone, and a number in row 0"),
        ({"time": ["2024-01-01", "2024-01-01T00Z", 3]}, None, "row 1: time is a time with a zone, and a time without"),
    ],
)
def test_bad_arrivals(columns, arrival, message):
    with pytest.raises(ValueError, match=message):
        nr.read_log(people(**columns), ONE, arrival=arrival)


def test_a_log_of_unknown_order_says_what_is_no_longer_promised():
    with pytest.warns(UserWarning, match="read_log: the order of arrival is not known .* promise nothing") as said:
        log = nr.read_log(people(), ONE)
    assert len(said) == 1
    assert said[0].filename == __file__
    assert (keys(log), log.ordered, log.ties) == ("abc", False, 0)
    assert repr(log).endswith("order of arrival not known>")


@pytest.mark.filterwarnings("ignore:read_log")
def test_an_agent_remembers_a_log_of_unknown_order(tmp_path):
    """What it promises then depends on it, also after it was saved, for an agent and all it is made of."""
    known, unknown = nr.read_log(people(), ONE, arrival="row"), nr.read_log(people(), ONE)
    agent = nr.Certified(nr.UniformRandom(ONE))
    promised = agent.guarantee
    agent.learn_from(known)
    agent.learn_from(nr.read_log({c: [] for c in people()}, ONE))
    assert agent.guarantee == promised
    with pytest.raises(ValueError, match="another shape"):
        nr.UniformRandom(PROBLEM).learn_from(unknown)
    agent.learn_from(unknown)
    agent.learn_from(unknown)
    assert agent.guarantee == f"{promised}; provided that {data.CAVEAT}; provided that {data.LATER}"
    agent.save(tmp_path / "agent.npz")
    assert nr.load(tmp_path / "agent.npz").guarantee == agent.guarantee
    assert agent.fresh().guarantee == promised


@pytest.mark.filterwarnings("ignore:read_log")
def test_a_log_that_was_not_learned_leaves_no_caveat(monkeypatch):
    agent = nr.UniformRandom(ONE)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(agent, "_roomier", interrupted)
    with pytest.raises(KeyboardInterrupt):
        agent.learn_from(nr.read_log(people(), ONE))
    assert (agent.episode, agent._caveats) == (0, ())


@pytest.mark.long
@pytest.mark.deep
def test_sets_hold_in_the_order_of_arrival_and_not_in_reverse():
    """Action 0 until four people in a row fared badly, then action 1 for twenty more. Where the last who came is
    learned first, what is learned of action 0 begins with four failures, whatever its chance of failing is (here .18):
    after 24 people W* is outside the set in every run. In the order of arrival it may be outside, at any time, in one
    run of twenty; more than 5 of 20 have probability 4e-4."""
    problem = ONE
    truth, delta = np.array([[0.0], [1.5]]), 0.05  # 1 is the better outcome
    missed = {"arrival": 0, "key": 0}
    for run in range(20):
        g = np.random.default_rng([16, run])
        outcomes, row = [], 0
        while row < 4:
            outcomes.append(int(g.random() < 1 / (1 + math.exp(-1.5))))
            row = 0 if outcomes[-1] else row + 1
        n = len(outcomes) + 20
        outcomes += (g.random(20) < 0.5).astype(int).tolist()
        table = {
            "episode": list(range(n, 0, -1)), "step": [0] * n, "state": [0] * n, "action": [0] * (n - 20) + [1] * 20,
            "next_state": outcomes, "x0": [1.0] * n, "arrival": list(range(n)),
        }  # fmt: skip
        for order in missed:
            known = nr.estimators.LikelihoodRatioSet(2, 1, weight_bound=2.0, delta=delta)
            outside = False
            for count, episode in enumerate(nr.read_log(table, problem, arrival=order), 1):
                if episode.actions[0] == 0:
                    known.update(episode.context, int(episode.states[1]))
                if order == "arrival" or count == 24:
                    outside |= not known.contains(truth)
            missed[order] += outside
    assert missed["key"] == 20
    assert missed["arrival"] <= 5


# Without next_state, and closing rows ---------------------------------------------------------------------------------
def closed():
    """The people of `rows` without next_state; two closing rows say where their last steps led."""
    made = {c: v for c, v in rows().items() if c != "next_state"}
    tail = {"episode": ["a", "b"], "step": [3, 2], "state": ["well", "well"], "action": [None, ""],
            "reward": [None, None], "x0": [None, 0.6], "x1": [None, None]}  # fmt: skip
    return {c: v + tail[c] for c, v in made.items()}


def test_the_next_row_says_where_a_step_led():
    plain = nr.read_log({c: v for c, v in rows().items() if c != "next_state"}, PROBLEM, arrival="key")
    assert [e.states.tolist() for e in plain] == [[0, 0, 1], [0, 0]]
    assert (plain.steps, plain.dropped) == (3, 2)
    holes = put("next_state", 0, None)
    assert same(nr.read_log(holes, PROBLEM, arrival="key"), nr.read_log(rows(), PROBLEM, arrival="key"))


def test_a_closing_row_says_where_the_last_step_led():
    log = nr.read_log(closed(), PROBLEM, arrival="key")
    assert [e.states.tolist() for e in log] == [[0, 0, 1, 1], [0, 0, 1]]
    assert [e.actions.tolist() for e in log] == [[0, 1, 0], [1, 0]]
    assert (log.steps, log.dropped) == (5, 0)
    told = closed() | {"next_state": [0, 1, 1, 0, None, None, None]}
    assert same(nr.read_log(told, PROBLEM, arrival="key"), log)
    alone = {c: v[-1:] for c, v in closed().items()} | {"step": [0], "state": ["ill"], "x1": [0.0]}
    assert len(nr.read_log(alone, PROBLEM)) == 0  # somebody who came, and nothing was done
    coder = nr.Encoder({"years": (0, 10)}, bound=1.0)
    aged = closed() | {"years": [5, 5, 5, 7, 7, None, None]}
    assert same(nr.read_log(aged, PROBLEM, coder, "key"), nr.read_log(aged | {"years": [5] * 3 + [7] * 2 + [5, 7]},
                                                                     PROBLEM, coder, "key"))  # fmt: skip


def with_cell(column, row, value):
    made = closed()
    made.setdefault(column, [None] * 7)[row] = value
    return made


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (with_cell("next_state", 4, "ill"), "row 6: state 1 at step 2 is not the next_state of the step before, 0"),
        (
            with_cell("next_state", 6, "ill"),
            "row 6: next_state must be empty where action is: a closing row has a state",
        ),
        (with_cell("reward", 6, 1.0), "row 6: reward must be empty where action is: a closing row has a state only"),
        (with_cell("action", 5, "treat"), "row 5: step must be a whole number from 0 to 2, got 3"),
        (with_cell("step", 5, 4), "row 5: step must be a whole number from 0 to 3, got 4"),
        (with_cell("state", 6, "dead"), "row 6: state must be a state number from 0 to 1 or one of ill, well, got"),
        (with_cell("state", 6, None), "row 6: state must be a state number from 0 to 1 or one of ill, well, got None"),
        (with_cell("x1", 6, 0.1), "row 6: the context of episode 'b' is not that of row 3"),
    ],
)
def test_bad_closing_rows(source, message):
    with pytest.raises(ValueError, match=message):
        nr.read_log(source, PROBLEM, arrival="key")


def some_rows(keys, **more):
    n = len(keys)
    table = {"episode": list(keys), "step": [0] * n, "state": [0] * n, "action": [0] * n, "next_state": [1] * n}
    return table | {"reward": [1.0] * n, "x0": [1.0] * n} | more


def one_step():
    return nr.Problem(2, 1, 1, 1, weight_bound=1.0, reward_bound=1.0)


def test_a_time_that_counts_from_everybodys_own_beginning_is_no_order():
    with pytest.warns(UserWarning, match="the order of arrival is not known"):
        log = nr.read_log(some_rows([3, 1, 2], time=[0, 0, 0]), one_step())
    assert not log.ordered


def test_people_of_the_same_moment_are_a_condition():
    log = nr.read_log(some_rows([3, 1, 2], time=[0, 0, 1]), one_step())
    assert (log.ordered, log.ties) == (True, 1)
    agent = nr.LRORL(one_step())
    agent.learn_from(log)
    assert "provided that in the log that was learned, nobody's actions or context followed" in agent.guarantee


def test_a_second_log_must_have_come_later():
    agent = nr.LRORL(one_step())
    agent.learn_from(nr.read_log(some_rows([1, 2]), one_step(), arrival="key"))
    assert "provided that" not in agent.guarantee
    agent.learn_from(nr.read_log(some_rows([1, 2]), one_step(), arrival="key"))
    assert agent.guarantee.endswith(
        "provided that the people of a log that was learned later came after everybody learned before it"
    )


@pytest.mark.parametrize(
    ("keys", "said"),
    [(["p9", "p10", "p2"], "pad them with zeros"), ([9, "x", 2], "some keys are numbers and others text")],
)
def test_keys_that_have_no_order_of_arrival(keys, said):
    with pytest.raises(ValueError, match=said):
        nr.read_log(some_rows(keys), one_step(), arrival="key")
    assert nr.read_log(some_rows(["p02", "p09", "p10"]), one_step(), arrival="key").ordered


def test_probabilities_of_actions_are_read_and_checked():
    problem = nr.Problem(2, 2, 3, 1, weight_bound=1.0, reward_bound=1.0)
    table = {
        "episode": [0, 0, 0], "step": [0, 1, 2], "state": [0, 1, 0], "action": [0, 1, None], "reward": [1, 0, None],
        "x0": [0.5] * 3, "probability": [0.25, None, None],
    }  # fmt: skip
    log = nr.read_log(table, problem, arrival="row")
    np.testing.assert_array_equal(log.episodes[0].probabilities, [0.25, np.nan])
    for bad in (0.0, 1.1, -0.5, "often"):
        with pytest.raises(ValueError, match=r"row 1: probability"):
            nr.read_log(table | {"probability": [0.25, bad, None]}, problem, arrival="row")
    with pytest.raises(ValueError, match="row 2: probability must be empty where action is"):
        nr.read_log(table | {"probability": [0.25, 1.0, 1.0]}, problem, arrival="row")


def test_a_world_that_logs_writes_down_its_probabilities():
    world = nr.worlds.programme()
    log, may = world.log(400, seed=1, explore=0.4), world.problem.layout.available
    told = np.concatenate([e.probabilities for e in log])
    states = np.concatenate([e.states[:-1] for e in log])
    allowed = may.sum(1)[states]
    off = np.isclose(told, 0.4 / allowed)
    assert (off | np.isclose(told, 0.6 + 0.4 / allowed)).all()
    expected = (0.4 * (allowed - 1) / allowed).sum()  # steps off the rule: a sum of independent coins, Hoeffding
    assert abs(off.sum() - expected) < np.sqrt(len(told) / 2 * np.log(2 / 1e-6))
