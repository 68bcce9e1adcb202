"""`noregret study` as a user calls it."""

import csv
import json

import pytest

from test_cli import noregret

pytestmark = pytest.mark.deep

STUDY = """
name = "tiny"
episodes = 200
seeds = 2
points = 5

[[worlds]]
name = "clinic"

[[agents]]
name = "uniform-random"

[[agents]]
name = "glm-orl"
"""


@pytest.fixture
def here(tmp_path):
    (tmp_path / "tiny.toml").write_text(STUDY)
    return tmp_path


@pytest.mark.long
def test_run_status_export_and_again(here):
    done = noregret("study", "run", "tiny.toml", cwd=here, alone=True)
    assert "4 of 4 cells to run, into results/tiny" in done.stdout
    assert "4/4 cells, 0 running" in done.stdout
    assert "noregret report results/tiny" in done.stdout
    assert json.loads((here / "results/tiny/manifest.json").read_text())["command"] == "noregret study run tiny.toml"
    again = noregret("study", "run", "tiny.toml", cwd=here)
    assert "0 of 4 cells to run" in again.stdout
    assert "4 of 4 cells done" in again.stdout
    cell = next((here / "results/tiny/cells").iterdir())
    cell.write_bytes(cell.read_bytes()[:100])
    status = noregret("study", "status", "results/tiny", cwd=here)  # the folder stands for its study
    assert "3 of 4 cells done" in status.stdout
    assert f"damaged: {cell.name}" in status.stdout
    healed = noregret("study", "run", "tiny.toml", "--workers", 1, cwd=here)
    assert "damaged, will be run again" in healed.stdout
    noregret("study", "export", "tiny.toml", "--to", "all.csv", cwd=here)
    with open(here / "all.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * 5
    assert {row["agent"] for row in rows} == {"uniform-random", "glm-orl"}
    assert rows[0]["setting"] == "clinic"


@pytest.mark.long
def test_failures_are_told_and_retried(here):
    noregret("study", "run", "tiny.toml", cwd=here)
    cell = next((here / "results/tiny/cells").iterdir())
    cell.unlink()
    (here / "results/tiny/failed" / f"{cell.stem}.json").write_text(
        '{"traceback": "Traceback\\nMemoryError: too much"}'
    )
    for verb in ("status", "run"):
        told = noregret("study", verb, "tiny.toml", cwd=here, check=False)
        assert "MemoryError: too much" in told.stdout
        assert cell.stem in told.stdout
    assert told.returncode == 1
    again = noregret("study", "retry", "tiny.toml", cwd=here)
    assert "1 failures forgotten" in again.stdout
    assert cell.exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run", "absent.toml"], "absent.toml is not a file"),
        (["run", "tiny.toml", "--engine", "slurm"], "engine must be one of 'local', 'dask', got 'slurm'"),
        (["run", "tiny.toml", "--workers", -1], "workers must be an integer of at least 0, got -1"),
        (["run", "tiny.toml", "--patience", 0], "patience must be a positive number"),
        (["run", "tiny.toml", "--scheduler", "tcp://x:1"], "scheduler goes with --engine dask"),
        (["run", "tiny.toml", "--only", "zzz"], "'zzz' is the id of no cell of this study"),
        (["export", "tiny.toml", "--to", "x.txt"], "to must end in .parquet or .csv, got 'x.txt'"),
        (["export", "tiny.toml", "--to", "x.csv"], "results/tiny has no finished cells to export"),
        (["status", "."], "study.toml is not a file"),
    ],
)
def test_bad_input_is_one_sentence(here, args, said):
    done = noregret("study", *args, cwd=here, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
