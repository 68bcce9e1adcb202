"""Engines and what may happen to them: workers that die, runs that are killed, clusters that lose machines."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from noregret.studies import Results, load, run
from noregret.studies.engines.local import LocalEngine
from noregret.studies.running import Watcher
from workers import deadly

STUDY = """
name = "small"
episodes = 20_000
seeds = 6
points = 50
diagnostics = true

[[worlds]]
name = "random-logit"
n_states = 3
horizon = 3
context_dim = 2
seed = "run"

[[agents]]
name = "glm-orl"
bonus_scale = [0.5, 1.0]

[[agents]]
name = "psrl"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(STUDY)
    return path


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The numbers of an uninterrupted run: id -> columns as bytes."""
    path = tmp_path_factory.mktemp("whole") / "small.toml"
    path.write_text(STUDY)
    results = run(load(path), path.parent / "out", LocalEngine(2), STUDY)
    return numbers(results)


def numbers(results):
    return {done.id: {name: values.tobytes() for name, values in done.columns.items()} for done in results.finished()}


class Interferes(Watcher):
    """Does something once, after so many answers."""

    def __init__(self, after, what):
        self.after, self.what, self.answers = after, what, 0

    def begin(self, results, engine, left):
        self.engine = engine

    def answered(self, task, answer, facts):
        self.answers += 1
        if self.answers == self.after:
            self.what(self.engine)

    def tick(self, running):
        pass

    def end(self):
        pass


def test_the_number_of_workers_changes_nothing(file, tmp_path, expected):
    assert len(expected) == 18
    results = run(load(file), tmp_path / "one", LocalEngine(1), STUDY, patience=0.0)
    assert numbers(results) == expected
    assert list((tmp_path / "one" / "checkpoints").iterdir()) == []


def test_a_dying_worker_loses_nothing(file, tmp_path, expected):
    def kill_one(engine):
        os.kill(next(iter(engine._pool._processes)), signal.SIGKILL)

    results = run(load(file), tmp_path / "out", LocalEngine(2), STUDY, watcher=Interferes(4, kill_one))
    assert numbers(results) == expected
    assert results.failed() == []


def test_a_cell_that_kills_its_worker_fails_and_the_rest_is_done(file, tmp_path, expected):
    results = run(load(file), tmp_path / "out", LocalEngine(2, deadly), STUDY)
    failed = results.failed()
    assert {failure.cell.seed for failure in failed} == {3}
    assert len(failed) == 3
    assert all("the worker process died" in failure.message for failure in failed)
    assert numbers(results) == {key: value for key, value in expected.items() if key not in {f.id for f in failed}}
    # Run again, they are left alone; forgiven, they are run.
    assert run(load(file), tmp_path / "out", LocalEngine(2), STUDY).failed() == failed
    assert Results(tmp_path / "out").forgive() == 3
    assert numbers(run(load(file), tmp_path / "out", LocalEngine(2), STUDY)) == expected


def test_only_what_is_missing_is_run(file, tmp_path, expected):
    study, out = load(file), tmp_path / "out"
    some = list(study.cells)[:5]
    run(study, out, LocalEngine(1), STUDY, only=[key[:8] for key in some])
    assert {path.stem for path in (out / "cells").iterdir()} == set(some)
    before = {key: (out / "cells" / f"{key}.parquet").stat().st_mtime_ns for key in some}
    grown = STUDY + '[[agents]]\nname = "uniform-random"\n'
    file.write_text(grown)
    results = run(load(file), out, LocalEngine(2), grown)
    assert len(results.finished()) == 24
    assert before == {key: (out / "cells" / f"{key}.parquet").stat().st_mtime_ns for key in some}
    with pytest.raises(ValueError, match=r"'zz' is the id of no cell"):
        run(study, out, only=["zz"])
    for path in (out / "cells" / f"{some[0]}.parquet", out / "cells" / f"{some[1]}.parquet"):
        path.write_bytes(path.read_bytes()[:-20])
    assert {key: numbers(run(study, out, LocalEngine(1), STUDY))[key] for key in expected} == expected


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def stamps(out):
    """Which cells are written down, done or under way, and when."""
    made = {}
    for path in [*out.glob("cells/*.parquet"), *out.glob("checkpoints/*.npz")]:
        with contextlib.suppress(FileNotFoundError):
            made[path.name] = path.stat().st_mtime_ns
    return made


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_killed_at_any_moment_and_run_again(file, tmp_path):
    """Ten times kill -9 at a random moment, then to the end: nothing lost, nothing run twice, the same numbers."""
    longer = STUDY.replace("20_000", "60_000").replace("seeds = 6", "seeds = 12")
    file.write_text(longer)
    expected = numbers(run(load(file), tmp_path / "whole", LocalEngine(2), longer))
    draw, out = random.Random(0), tmp_path / "out"
    command = [
        sys.executable, "-m", "noregret", "study", "run", str(file), "--out", str(out), "--patience", "0.02",
        "--workers", "2",
    ]  # fmt: skip
    seen, kills = {}, 0
    while kills < 10:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if kills % 3 == 2:  # at any moment, from the first line of Python on
            time.sleep(draw.uniform(0.0, 3.0))
        else:  # soon after something was written, however slow the machine
            before, deadline = stamps(out), time.monotonic() + 120.0
            while stamps(out) == before and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.005)
            time.sleep(draw.uniform(0.0, 0.1))
        assert process.poll() is None  # too fast a machine: make the cells longer
        below = children(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
        end = time.monotonic() + 10.0
        while any(map(alive, below)) and time.monotonic() < end:
            time.sleep(0.05)
        assert not any(map(alive, below))  # workers do not outlive their study
        now = {path.name: path.stat().st_mtime_ns for path in (out / "cells").glob("*.parquet")}
        assert seen.items() <= now.items()
        seen = now
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    results = Results(out)
    assert results.damaged == []
    assert numbers(results) == expected
    now = {path.name: path.stat().st_mtime_ns for path in (out / "cells").glob("*.parquet")}
    assert seen.items() <= now.items()
    assert len(now) == len(expected) == 36
    assert list((out / "checkpoints").glob("*.npz")) == []


def test_a_cluster_that_loses_a_worker(file, tmp_path, expected):
    """A scheduler and two worker processes of dask, one killed mid-run: all cells are there, once, the same numbers."""
    distributed = pytest.importorskip("distributed")
    from noregret.studies.engines.cluster import DaskEngine

    path = tmp_path / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    start = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    work = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-dashboard", "--no-nanny"]
    processes = [subprocess.Popen([*start, "--scheduler-file", str(path)], **quiet)]
    try:
        processes += [subprocess.Popen([*work, "--scheduler-file", str(path)], **quiet) for _ in range(2)]
        with distributed.Client(scheduler_file=str(path), timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
            address = client.scheduler.address
        watcher = Interferes(4, lambda _: processes[1].kill())
        results = run(load(file), tmp_path / "out", DaskEngine(address), STUDY, watcher=watcher)
        assert numbers(results) == expected
        assert results.failed() == []
        assert watcher.answers == 18
        assert processes[1].wait() == -signal.SIGKILL
        with pytest.raises(ValueError, match="workers goes with a scheduler started here"):
            DaskEngine(address, workers=2)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    few = list(expected)[:2]
    results = run(load(file), tmp_path / "own", DaskEngine(workers=1), STUDY, only=few)  # starts its own scheduler
    assert numbers(results) == {key: expected[key] for key in few}
    with pytest.raises(ValueError, match="scheduler must be the address of a running dask scheduler"):
        DaskEngine("tcp://127.0.0.1:9", timeout=1)
