"""Logged data in: rows in any order, names or numbers, and one sentence about the row that is wrong."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import noregret as nr
from live import arrays_of, differing, make, place, steps_of
from noregret.agents import files

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
    log = nr.read_log(rows(), PROBLEM)
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
        "dropped>"
    )
    named = {("one" if c == "x0" else "age" if c == "x1" else c): v for c, v in rows().items()}
    assert same(nr.read_log(named, PROBLEM), log)
    unrewarded = {c: v for c, v in rows().items() if c != "reward"}
    assert np.isnan(nr.read_log(unrewarded, PROBLEM).episodes[0].rewards).all()
    coder = nr.Encoder({"years": (0, 10)}, bound=1.0)
    with_row = rows() | {"years": [5, 5, 5, 7, 7]}
    read = nr.read_log(with_row, PROBLEM, coder)
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
    assert same(nr.read_log(source, PROBLEM), nr.read_log(rows(), PROBLEM))


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
        (put("next_state", 0, None), "row 0: next_state is missing, and step 0 is not the last of episode 'a'"),
        (put("next_state", 2, 5), "row 2: next_state must be a state number"),
        (put("step", 4, 2), "episode 'b' lacks step 1"),
        (put("step", 4, 0), "row 4: step 0 of episode 'b' is there twice, also in row 3"),
        (put("step", 4, 3), "row 4: step must be a whole number from 0 to 2, got 3"),
        (put("step", 4, 0.5), "row 4: step must be a whole number from 0 to 2, got 0.5"),
        (put("episode", 1, None), "row 1: episode is missing"),
        (put("x1", 1, 0.2), "row 1: the context of episode 'a' is not that of row 0"),
        (put("x1", 1, 5.0), "row 1: context has norm 5.03587, above context_bound = 1"),
        (put("x1", 1, "old"), "row 1: x1 must be a number, got 'old'"),
        ({"episode": [1]}, "source must have the columns .*; step, state, action, next_state not found"),
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
    log = nr.read_log(rows(), PROBLEM)
    before = files.fingerprint(agent)
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
    assert files.fingerprint(agent) != before
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
        agent.learn_from(nr.read_log(renamed, world.problem))
        agents.append(agent)
    one, two = (arrays_of(a) for a in agents)
    far = {n.rsplit(".", 1)[1] for n in differing(one, two) if not np.allclose(one[n], two[n], rtol=1e-9, atol=1e-12)}
    assert far <= depends
    assert bool(far) == bool(depends)
    rewards = [a for a in one if a.startswith("state.rewards.") and name == "epsilon-greedy"]
    for n in rewards:  # ridge regression: the same from any order
        assert np.allclose(one[n], two[n], rtol=1e-9, atol=1e-12)
