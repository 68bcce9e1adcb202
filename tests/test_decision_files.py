"""Files of decisions: the same ones come back, or a sentence, whatever happened to the file."""

import csv
import dataclasses
import json
import shutil

import numpy as np
import pytest

import noregret as nr
from noregret.live import decision_files

KINDS = ("parquet", "csv")


@pytest.fixture(scope="module")
def made():
    """Twelve decisions about people with odd names, and odd text wherever there is any."""
    world, whos = (
        nr.worlds.clinic(),
        ["=1+1", '@SUM(A1)\t"x"', "-2", -2, "'quoted'", "a,\nb", "é", 2**62, "", "+", 7, "\r"],
    )
    live, decisions = nr.Live(nr.UniformRandom(world.problem), draws=50), []
    for k, who in enumerate(whos):
        person = world.individual(k, 3)
        live.begin(who, person.context)
        decisions.append(live.act(who, person.state))
        live.abandon(who)
    decisions[0] = dataclasses.replace(decisions[0], agent="=cmd|' /C calc'!A0", version="+1", fingerprint="@x")
    decisions[1] = dataclasses.replace(decisions[1], certificate=0.1 + 0.2, probability=None, draws=None, error=None)
    decisions[2] = dataclasses.replace(decisions[2], agent="'='", version="", certificate=1e-300, context=(-0.0, 1e22))
    return decisions


@pytest.fixture(scope="module", params=KINDS)
def written(request, made, tmp_path_factory):
    path = tmp_path_factory.mktemp("decisions") / f"decisions.{request.param}"
    nr.write_decisions(made, path)
    return path


def same(a, b):
    return a == b and repr(a) == repr(b)  # 1 is not 1.0 here, nor 0.0 -0.0


def outcome(path, data, made):
    """ "same" or the sentence; other decisions fail the test."""
    path.write_bytes(data)
    try:
        found = nr.read_decisions(path)
    except ValueError as error:
        return str(error)
    assert same(found, made)
    return "same"


def test_odd_names_come_back(written, made):
    assert same(nr.read_decisions(written), made)
    assert same(nr.read_decisions(written, unchecked=True), made)


@pytest.mark.long
@pytest.mark.deep
def test_a_flipped_bit_changes_no_decision_silently(written, made, tmp_path):
    """1,500 bits all over the file. Of the Parquet files before, 254 of 1,500 gave other decisions."""
    data, path = written.read_bytes(), tmp_path / written.name
    said = []
    for at in np.linspace(0, 8 * len(data) - 1, 1500).astype(int):
        bad = bytearray(data)
        bad[at // 8] ^= 1 << int(at % 8)
        said.append(outcome(path, bytes(bad), made))
    refused = [s for s in said if s != "same"]
    assert len(refused) > 700  # Parquet has bits that say nothing about the numbers
    assert {s.split(" ", 1)[1] for s in refused} <= {
        "is not a table of decisions, or it is damaged",
        "has no digest, nobody can say whether it is whole: unchecked=True reads it as it is",
        "is damaged, cut short or was edited: its digest is not that of its decisions",
    }


def test_a_file_that_was_cut_loses_no_decision_silently(written, made, tmp_path):
    """At every fifth byte, and at every line's end. Of the CSV files before, 99 of 509 cuts lost rows."""
    data, path = written.read_bytes(), tmp_path / written.name
    ends = {i + 1 for i, byte in enumerate(data) if byte == 10} | {i for i, byte in enumerate(data) if byte == 10}
    cuts = sorted((set(range(0, len(data), 5)) | ends) - {len(data)})
    said = [outcome(path, data[:cut], made) for cut in cuts]
    whole = {cut for cut, s in zip(cuts, said, strict=True) if s == "same"}
    assert whole <= {len(data) - 2, len(data) - 1}  # the last quotation mark and the last line's end


def test_rows_that_were_removed_swapped_or_added(made, tmp_path):
    path = tmp_path / "decisions.csv"
    nr.write_decisions(made[5:6], path)
    head, row = path.read_bytes().split(b"\n", 1)
    nr.write_decisions(made[6:8], path)
    head, first, second, end = path.read_bytes().split(b"\n")
    assert end == b""
    for rows in ([], [first], [second], [second, first], [first, second, row], [first, first, second]):
        said = outcome(path, b"\n".join([head, *rows]) + b"\n", made[6:8])
        assert "its digest is not that of its decisions" in said
    assert outcome(path, b"\n".join([head, first, second]), made[6:8]) == "same"


@pytest.mark.parametrize("kind", KINDS)
def test_no_decisions_at_all(kind, made, tmp_path):
    path = tmp_path / f"decisions.{kind}"
    nr.write_decisions([], path)
    assert nr.read_decisions(path) == []
    nr.write_decisions(made, path)
    if kind == "csv":  # cut after its first line, a file is not one without rows
        said = outcome(path, path.read_bytes().split(b"\n")[0] + b"\n", made)
        assert "its digest is not that of its decisions" in said


def without_digest(path):
    """The file as an earlier version wrote it."""
    import pyarrow.csv
    import pyarrow.parquet

    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.parquet.read_table(path).replace_schema_metadata(None), path)
    else:
        with open(path, newline="") as file:
            rows = [row[:-1] for row in csv.reader(file)]
        with open(path, "w", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_NONNUMERIC).writerows(rows)


def test_a_file_without_a_digest_is_read_when_asked_to(written, made, tmp_path):
    path = tmp_path / written.name
    shutil.copy(written, path)
    without_digest(path)
    with pytest.raises(ValueError, match="has no digest, nobody can say whether it is whole: unchecked=True reads it"):
        nr.read_decisions(path)
    assert same(nr.read_decisions(path, unchecked=True), made)
    with pytest.raises(ValueError, match="unchecked must be True or False"):
        nr.read_decisions(path, unchecked=1)
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="is not a table of decisions"):
        nr.read_decisions(tmp_path / "other.csv", unchecked=True)


def test_no_cell_of_the_csv_is_a_formula(made, tmp_path):
    """As a spreadsheet sees it: no text begins like one; as pandas sees it: a table with one more column."""
    pd = pytest.importorskip("pandas")
    path = tmp_path / "decisions.csv"
    nr.write_decisions(made, path)
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(made)
    for row, decision in zip(rows, made, strict=True):
        for name, text in row.items():
            assert not text.startswith(("=", "+", "@", "\t", "\r")), name
            if text.startswith("-"):  # a number
                float(text)
        assert json.loads(row["who"]) == decision.who
    assert rows[0]["agent"] == "'=cmd|' /C calc'!A0"
    table = pd.read_csv(path)
    assert list(table.columns) == [*(f.name for f in dataclasses.fields(nr.Decision)), "sha256"]
    assert table["step"].tolist() == [d.step for d in made]
    assert table["by_other"].dtype == bool
    assert table["sha256"].nunique() == 1


def test_texts_that_may_be_missing_are_told_from_empty_ones():
    assert decision_files._value("", str, True) is None
    assert decision_files._value("'", str, True) == ""
    assert decision_files._value("", str, False) == ""
    assert decision_files._value("''", str, True) == "'"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_decision_is_a_sentence(kind, made, tmp_path):
    path = tmp_path / f"decisions.{kind}"
    path.write_bytes(b"old")
    long = dataclasses.replace(made[0], who=10**10_000)
    with pytest.raises(ValueError, match=r"decisions\[1\]\.who must have at most 4,300 digits"):
        nr.write_decisions([made[0], long], path)
    with pytest.raises(ValueError, match=r"decisions must be decisions, decisions\[0\] is 'x'"):
        nr.write_decisions(["x"], path)
    with pytest.raises(ValueError, match="decisions must have the fields of Decision"):
        nr.write_decisions([dataclasses.replace(made[0], step="soon")], path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
