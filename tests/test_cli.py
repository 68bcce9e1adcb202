"""The command line, as a user calls it."""

import contextlib
import csv
import io
import os
import subprocess
import sys
from unittest import mock

import numpy as np
import pyarrow.parquet
import pytest
from matplotlib.image import imread

import noregret as nr
from noregret.cli import app


def noregret(*args, cwd, check=True, alone=False):
    """What a command says. It is called right here, or `alone`, in a process of its own, which takes two seconds to
    start: once for every command."""
    more = {"COLUMNS": "120", "NOREGRET_QUIET": "1"}
    if not alone:
        said, complained, status = io.StringIO(), io.StringIO(), 0
        with (
            mock.patch.dict(os.environ, more),
            contextlib.chdir(cwd),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(complained),
        ):
            try:
                app([*map(str, args)], prog_name="noregret")
            except SystemExit as end:
                status = end.code or 0
        assert not check or status == 0, complained.getvalue()
        return subprocess.CompletedProcess(args, status, said.getvalue(), complained.getvalue())
    env = os.environ | more
    return subprocess.run(
        [sys.executable, "-m", "noregret", *map(str, args)],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=check,
    )


def refused(done, message, folder):
    """One sentence, and nothing left behind."""
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(folder.iterdir()) == []


@pytest.mark.deep
def test_compare_writes_a_table_a_figure_and_the_numbers(tmp_path):
    agents = "glm-orl,glm-orl:bonus_scale=0.1:constants=paper,uniform-random,oracle"
    asked = ["--agents", agents, "--episodes", 300, "--seeds", 2, "--out", "here"]
    done = noregret("compare", *asked, cwd=tmp_path, alone=True)
    assert "glm-orl (constants=paper, bonus_scale=0.1, no guarantee)" in done.stdout
    assert "A scaled bonus carries no guarantee" in done.stdout
    for word in ("final regret", "over seeds", "per episode at end", "episodes/s", "here/regret.png", "regret.parquet"):
        assert word in done.stdout
    image = imread(tmp_path / "here" / "regret.png")
    assert image.shape[0] > 400
    assert np.ptp(image[..., :3]) > 0.5
    table = pyarrow.parquet.read_table(tmp_path / "here" / "regret.parquet").to_pydict()
    world = nr.worlds.clinic()
    run = nr.simulate(nr.GLMORL(world.problem), world, 300, seeds=2)
    ours = [r for a, r in zip(table["agent"], table["regret"], strict=True) if a == "glm-orl"]
    assert np.array_equal(ours, run.regret.ravel())
    assert set(table["seed"]) == {0, 1}


@pytest.mark.deep
def test_compare_other_worlds_and_csv(tmp_path):
    world = "random-linear:n_states=3:n_actions=2:horizon=2:context_dim=2:seed=5"
    noregret(
        "compare", "--world", world, "--agents", "uniform-random", "--episodes", 50, "--seeds", 1, "--csv", cwd=tmp_path
    )
    with open(tmp_path / "results" / "regret.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 50
    assert rows[0]["world"] == world


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--world", "klinik"], "unknown world 'klinik'; did you mean clinic?"),
        (["--agents", "glm-orl,glmrlsvi"], "unknown agent 'glmrlsvi'; did you mean glm-rlsvi"),
        (["--agents", "glm-orl:delta=2"], "delta must be a number between 0 and 1, got 2"),
        (["--agents", "glm-orl:delta"], "must be a name followed by :option=value, 'delta' is not"),
        (["--world", "random-logit:states=3"], "world random-logit: got an unexpected keyword argument 'states'"),
        (["--episodes", "0"], "episodes must be an integer of at least 1, got 0"),
        (["--episodes", "10", "--every", "99"], "every must be at most episodes = 10, got 99"),
        (["--workers", "-1"], "workers must be an integer of at least 0, got -1"),
        (["--agents", "glm-orl:problem=3"], "agent glm-orl: got an unexpected option 'problem'"),
        (["--agents", "glm-orl:seed=3"], "seed is not an option here, the seeds of the run decide"),
    ],
)
def test_mistakes_get_one_sentence_and_leave_nothing_behind(tmp_path, args, message):
    refused(noregret("compare", *args, cwd=tmp_path, check=False), message, tmp_path)


@pytest.mark.long
@pytest.mark.deep
def test_frontier_prints_standings_and_draws_them(tmp_path):
    agents = "glm-orl:constants=paper,glm-orl"
    asked = ["--worlds", 1, "--episodes", 60, "--agents", agents, "--out", "here"]
    done = noregret("frontier", *asked, cwd=tmp_path, alone=True)
    for word in ("of first", "certificate", "sets missed", "glm-orl (constants=paper)", "here/frontier.png"):
        assert word in done.stdout
    world = nr.worlds.random_logit(4, 3, 4, 3, 2.0, 0)
    regrets = [
        nr.simulate(nr.GLMORL(world.problem, **o), world, 60).regret[0, -1] for o in ({"constants": "paper"}, {})
    ]
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("glm-orl")]
    assert [float(row[-7]) for row in rows] == [round(r) for r in regrets]
    assert rows[1][-5] == f"1/{regrets[0] / regrets[1]:.1f}"
    image = imread(tmp_path / "here" / "frontier.png")
    assert image.shape[0] > 400
    assert np.ptp(image[..., :3]) > 0.5


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--worlds", "0"], "worlds must be an integer of at least 1, got 0"),
        (["--episodes", "-5"], "episodes must be an integer of at least 1, got -5"),
        (["--weight-bound", "0"], "weight_bound must be a positive number, got 0"),
        (["--agents", "glm-orl,psrl-gml"], "unknown agent 'psrl-gml'; did you mean"),
    ],
)
def test_mistakes_of_frontier(tmp_path, args, message):
    refused(noregret("frontier", *args, cwd=tmp_path, check=False), message, tmp_path)


@pytest.mark.long
@pytest.mark.deep
def test_bench_reports_ratios(tmp_path):
    done = noregret("bench", "--sizes", "small", "--rounds", 1, "--no-sets", "--no-system", cwd=tmp_path, alone=True)
    assert "rearranged" in done.stdout
    assert "small S=5 A=3 d=4 H=5" in done.stdout
    wrong = noregret("bench", "--sizes", "tiny", cwd=tmp_path, check=False)
    assert wrong.returncode == 2
    assert "unknown size 'tiny'" in wrong.stderr
