"""Exported tables, as a spreadsheet opens them: no text of anybody's is a formula."""

import csv
import dataclasses
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import noregret as nr
from noregret.storage.spreadsheets import guarded, unguarded, write_table

ODD = ["=1+1", "+1", "-1", "@A1", "\tx", "\rx", "\nx", "'x", "''", "＝1", "plain", "", "a=b", '"=1"', "é"]


def cells(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def harmless(text):
    return not text.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝"))


def test_guarded_text_is_harmless_and_comes_back():
    draw = random.Random(0)
    more = ["".join(draw.choices("=+-@\t\r\n'a\" ", k=draw.randrange(6))) for _ in range(2000)]
    for text in ODD + more:
        assert harmless(guarded(text))
        assert unguarded(guarded(text)) == text
    assert len({guarded(text) for text in set(more)}) == len(set(more))


@pytest.mark.parametrize("encoded", [False, True])
def test_a_table_has_its_texts_guarded_and_its_numbers_left(tmp_path, encoded):
    texts = pa.chunked_array([ODD, [None, "=1"]])
    table = pa.table({"name": texts.dictionary_encode() if encoded else texts, "x": np.arange(len(texts)) - 3.5})
    write_table(table, tmp_path / "a.csv")
    rows = cells(tmp_path / "a.csv")
    assert [unguarded(row["name"]) for row in rows] == [*ODD, "", "=1"]
    assert all(harmless(row["name"]) for row in rows)
    assert [float(row["x"]) for row in rows] == table["x"].to_pylist()
    assert rows[0]["x"] == "-3.5"
    write_table(table, tmp_path / "a.parquet")  # for programs: as it is
    assert pq.read_table(tmp_path / "a.parquet")["name"].to_pylist() == texts.to_pylist()
    with pytest.raises(ValueError, match=r"path must end in \.parquet or \.csv, got"):
        write_table(table, tmp_path / "a.txt")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "a.parquet"]


def test_names_of_worlds_are_no_formulas_in_saved_runs(tmp_path):
    world = nr.worlds.clinic()
    world.name = "=HYPERLINK(1)"
    run = nr.simulate(nr.UniformRandom(world.problem), world, 20, every=10)
    run.save(tmp_path / "run.csv")
    assert {row["world"] for row in cells(tmp_path / "run.csv")} == {"'=HYPERLINK(1)"}
    labelled = dataclasses.replace(run, label="@agent")
    nr.simulation.save_tables([run, labelled], tmp_path / "runs.csv")
    assert {row["agent"] for row in cells(tmp_path / "runs.csv")} == {"uniform-random", "'@agent"}


def test_names_of_series_are_no_formulas_in_the_tables_of_a_report():
    from noregret.report.drawing import Drawing

    drawing = Drawing.__new__(Drawing)
    drawing.rows = [("=panel", "-series", -1.5, 2.0, float("nan"), 3.0)]
    assert drawing._numbers().splitlines()[1] == "'=panel,'-series,-1.5,2,,3"
