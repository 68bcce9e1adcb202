"""Rows of a table as contexts: within the bound whatever the row says, and a sentence where it says nothing usable."""

import json
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noregret as nr

AGE = {"age": (18, 90)}
SEX = {"sex": ("f", "m")}


def encoder(**options):
    return nr.Encoder(**({"numbers": AGE, "categories": SEX, "missing": ("age",), "other": ("sex",)} | options))


def test_what_a_row_becomes():
    """Three blocks: the intercept, age with its indicator, sex with "other"."""
    made, third = encoder(), 1.0 / math.sqrt(3.0)
    assert made.feature_names == ("intercept", "age", "age missing", "sex=f", "sex=m", "sex other")
    assert made.context_dim == 6
    for row, blocks in (
        ({"age": 54, "sex": "f"}, [1, 0, 0, 1, 0, 0]),
        ({"age": 90, "sex": "m"}, [1, 1, 0, 0, 1, 0]),
        ({"age": "36", "sex": "x", "name": "ignored"}, [1, -0.5, 0, 0, 0, 1]),
        ({"age": None, "sex": "m"}, [1, 0, 1, 0, 1, 0]),
        ({"age": 1e300, "sex": "m"}, [1, 1, 0, 0, 1, 0]),
        ({"age": -math.inf, "sex": "m"}, [1, -1, 0, 0, 1, 0]),
    ):
        assert made.encode(row) == pytest.approx(third * np.array(blocks))
    assert encoder(bound=2.0).encode({"age": 90, "sex": "m"}) == pytest.approx(2 * third * np.array([1, 1, 0, 0, 1, 0]))
    assert encoder(intercept=False).encode({"age": 90, "sex": "m"})[0] == pytest.approx(math.sqrt(0.5))
    linear = encoder(link="linear")
    assert linear.feature_names == ("intercept", "age", "1 - age", "age missing", "sex=f", "sex=m", "sex other")
    assert linear.encode({"age": 36, "sex": "f"}) == pytest.approx(np.array([1, 0.25, 0.75, 0, 1, 0, 0]) / 3)
    assert linear.encode({"age": np.nan, "sex": "f"}) == pytest.approx(np.array([1, 0, 0, 1, 1, 0, 0]) / 3)
    assert linear.context_bound == pytest.approx(third)


words = st.text("abc1.", max_size=3)
cells = st.one_of(
    st.none(), st.floats(), st.integers(), words, st.booleans(), st.just(pd.NA), st.just(np.float32(3.5)),
    st.just(10**400), st.just(float("nan")), st.sampled_from([0.0, 1.0, -1.0]),
)  # fmt: skip
ranges = st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)).filter(
    lambda r: r[0] < r[1] and math.isfinite(r[1] - r[0])
)
names = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)


@pytest.mark.long
@pytest.mark.deep
@settings(max_examples=300, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_row_is_within_the_bound(data):
    """Whatever the columns and whatever the row: a context within the bound (for the linear link a probability vector),
    or a sentence about the row."""
    columns = data.draw(names)
    cut = data.draw(st.integers(0, len(columns)))
    numbers = {c: data.draw(ranges) for c in columns[:cut]}
    categories = {c: tuple(sorted(data.draw(st.sets(words.filter(bool), min_size=1)))) for c in columns[cut:]}
    link = data.draw(st.sampled_from(["logit", "linear"]))
    made = nr.Encoder(
        numbers, categories, data.draw(st.sets(st.sampled_from(columns))) if columns else (),
        data.draw(st.sets(st.sampled_from(columns[cut:]))) if columns[cut:] else (), True,
        data.draw(st.floats(1e-6, 1e6)) if link == "logit" else 1.0, link,
        data.draw(st.sampled_from(["clip", "raise"])),
    )  # fmt: skip
    assert nr.Encoder.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    row = {c: data.draw(cells) for c in columns}
    try:
        x = made.encode(row)
    except ValueError as error:
        assert str(error).startswith(tuple(columns)), error  # noqa: PT017
        return
    assert x.shape == (made.context_dim,) == (len(made.feature_names),)
    assert np.isfinite(x).all()
    assert np.linalg.norm(x) <= made.context_bound * (1 + 1e-12)
    if link == "linear":
        assert x.min() >= 0.0
        assert x.sum() == pytest.approx(1.0, abs=1e-12)
    choice = nr.LinearCombination() if link == "linear" else nr.MultinomialLogit()
    bound = made.context_bound if link == "linear" else made.bound
    problem = nr.Problem(
        2, 2, 1, made.context_dim, link=choice, context_bound=bound, weight_bound=1e-5, reward_bound=1.0
    )
    made.check_fits(problem)
    problem.context(x)


TABLE = {"age": [30.0, 70.0, math.nan], "sex": ["f", "m", "f"], "ward": [1, 2, 2]}


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pa.table, "rows", "csv", "parquet"])
def test_fit_and_encode_tables_of_all_kinds(kind, tmp_path):
    table = TABLE
    if kind == "rows":
        table = [dict(zip(TABLE, row, strict=True)) for row in zip(*TABLE.values(), strict=True)]
    elif kind in ("csv", "parquet"):
        table = tmp_path / f"table.{kind}"
        frame = pd.DataFrame(TABLE)
        (frame.to_csv if kind == "csv" else frame.to_parquet)(table, index=False)
    else:
        table = kind(TABLE)
    made = nr.Encoder.fit(table, numbers=["age"], categories=["sex", "ward"])
    assert made.numbers == {"age": (30.0, 70.0)}
    assert made.categories == {"sex": ("f", "m"), "ward": ("1", "2")}
    assert made.missing == ("age",)
    X = made.encode_all(table)
    assert pytest.approx(0.5 * np.array([[1, -1, 0, 1, 0, 1, 0], [1, 1, 0, 0, 1, 0, 1], [1, 0, 1, 1, 0, 0, 1]])) == X
    if kind is pd.DataFrame:
        assert made.encode(table.iloc[0]) == pytest.approx(X[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"numbers": {"age": (90, 18)}}, r"numbers\['age'\] must be a range \(low, high\) with low < high"),
        ({"numbers": {"age": 3}}, r"numbers\['age'\] must be a range"),
        ({"numbers": {"age": (-1e308, 1e308)}}, r"numbers\['age'\] must be a range"),
        ({"categories": {"sex": "fm"}}, r"categories\['sex'\] must be a sequence of levels, got 'fm'"),
        ({"categories": {"sex": ("f", "f")}}, r"categories\['sex'\] must be at least one level, all different"),
        ({"categories": {"age": ("old",)}}, "numbers and categories must be different columns"),
        ({"missing": ("weight",)}, "missing must name columns among age, sex, got 'weight'"),
        ({"missing": "age"}, "missing must be a sequence of columns, got 'age'"),
        ({"other": ("age",)}, "other must name columns among sex, got 'age'"),
        ({"bound": 0}, "bound must be a positive number, got 0"),
        ({"bound": 2.0, "link": "linear"}, "bound must be 1 with link='linear'"),
        ({"link": "probit"}, "link must be one of 'logit', 'linear', got 'probit'"),
        ({"outside": "wrap"}, "outside must be one of 'clip', 'raise'"),
        ({"intercept": 1}, "intercept must be True or False"),
    ],
)
def test_bad_encoders(options, message):
    with pytest.raises(ValueError, match=message):
        encoder(**options)


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ({"age": 30}, {}, "row must have the column 'sex', got age"),
        ({"age": "old", "sex": "f"}, {}, "age must be a number, got 'old'"),
        ({"age": None, "sex": "f"}, {"missing": ()}, r"age is missing; declare it with missing=\('age',\)"),
        ({"age": 30, "sex": None}, {}, "sex is missing; declare it"),
        ({"age": 30, "sex": "x"}, {"other": ()}, "sex must be one of f, m .*, got 'x'"),
        ({"age": 30, "sex": ["f"]}, {}, "sex must be a level"),
        ({"age": 99, "sex": "f"}, {"outside": "raise"}, "age must be from 18 to 90, got 99"),
        ([30, "f"], {}, "row must be a mapping from columns to values, got list"),
    ],
)
def test_bad_rows(row, options, message):
    with pytest.raises(ValueError, match=message):
        encoder(**options).encode(row)


def test_bad_tables():
    with pytest.raises(ValueError, match="row 1: age must be a number, got 'old'"):
        encoder().encode_all({"age": [20, "old"], "sex": ["f", "f"]})
    with pytest.raises(ValueError, match=r"table must have columns of one length, got lengths \[1, 2\]"):
        encoder().encode_all({"age": [20], "sex": ["f", "f"]})
    with pytest.raises(ValueError, match="table must be a dict of columns"):
        encoder().encode_all(3)
    with pytest.raises(ValueError, match=r"numbers must be columns of the table \(age, sex, ward\), got 'bmi'"):
        nr.Encoder.fit(TABLE, numbers=["bmi"])
    with pytest.raises(ValueError, match="age has fewer than two different values"):
        nr.Encoder.fit({"age": [3, 3]}, numbers=["age"])


def test_an_agent_takes_rows_and_keeps_its_encoder(tmp_path):
    made = encoder()
    problem = nr.Problem(2, 2, 2, made.context_dim, context_bound=1.0, weight_bound=1.0, reward_bound=1.0)
    agent, plain = nr.UniformRandom(problem), nr.UniformRandom(problem)
    with pytest.raises(ValueError, match=r"context must be 6 numbers; a row by column names needs agent\.encoder"):
        agent.begin_episode({"age": 40, "sex": "f"})
    agent.encoder = made
    row = {"age": 40, "sex": "f"}
    agent.begin_episode(row)
    plain.begin_episode(made.encode(row))
    assert np.array_equal(agent._x, plain._x)
    agent.save(tmp_path / "a.npz")
    back = nr.load(tmp_path / "a.npz")
    assert back.encoder == made
    assert back.fresh().encoder == made
    back.end_episode()
    with pytest.raises(ValueError, match="sex must be a level"):
        back.begin_episode({"age": 40, "sex": ("f",)})
    back.begin_episode(pd.Series(row))
    assert np.array_equal(back._x, plain._x)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"context_dim": 5}, "encoder makes contexts of 6 entries, the problem has context_dim = 5"),
        ({"context_bound": 0.5}, "encoder makes contexts of norm up to 1, above the problem's context_bound = 0.5"),
        ({"link": nr.LinearCombination()}, "encoder must have link='linear' for a problem with LinearCombination"),
    ],
)
def test_an_encoder_must_fit_the_problem(change, message):
    sizes = {"n_states": 2, "n_actions": 2, "horizon": 1, "context_dim": 6} | change
    agent = nr.UniformRandom(nr.Problem(**sizes, weight_bound=1.0, reward_bound=1.0))
    with pytest.raises(ValueError, match=message):
        agent.encoder = encoder()
    assert agent.encoder is None
    with pytest.raises(ValueError, match=r"encoder must be a noregret\.Encoder or None, got dict"):
        agent.encoder = {}
