"""Engines and what may happen to them: workers that die, runs that are killed, clusters that lose machines."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import noregret as nr
from noregret.studies import Results, load, run
from noregret.studies.engines import Lost, local
from noregret.studies.engines.local import LocalEngine
from noregret.studies.running import Watcher
from noregret.studies.work import Answer, Task, work
from workers import deadly, waiting

pytestmark = pytest.mark.deep

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


class Here:
    """An engine without processes: a task is run where it is asked for."""

    slots = 1

    def __init__(self):
        self._tasks = []

    @property
    def waiting(self):
        return len(self._tasks)

    def submit(self, task):
        self._tasks.append(task)

    def next(self, timeout):
        task = self._tasks.pop()
        return task, work(task)

    def close(self):
        self._tasks.clear()

    def news(self):
        return []


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The numbers of an uninterrupted run in this process: id -> columns as bytes. Compiles what workers need: two new
    ones would compile the same, side by side."""
    path = tmp_path_factory.mktemp("whole") / "small.toml"
    path.write_text(STUDY)
    return numbers(run(load(path), path.parent / "out", Here(), STUDY))


@pytest.fixture
def file(tmp_path, expected):
    path = tmp_path / "small.toml"
    path.write_text(STUDY)
    return path


def numbers(results):
    return {done.id: {name: values.tobytes() for name, values in done.columns.items()} for done in results.finished()}


class Interferes(Watcher):
    """Does something once, after so many answers; keeps what it is told."""

    def __init__(self, after, what):
        self.after, self.what, self.answers, self.lines = after, what, 0, []

    def say(self, line):
        self.lines.append(line)

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


@pytest.mark.long
def test_the_number_of_workers_changes_nothing(file, tmp_path, expected):
    """None, or two that hand a cell to and fro after every chunk."""
    assert len(expected) == 18
    results = run(load(file), tmp_path / "out", LocalEngine(2), STUDY, patience=0.0)
    assert numbers(results) == expected
    assert list((tmp_path / "out" / "checkpoints").iterdir()) == []


@pytest.mark.long
def test_a_dying_worker_loses_nothing(file, tmp_path, expected):
    def kill_one(engine):
        os.kill(next(iter(engine._pool._processes)), signal.SIGKILL)

    results = run(load(file), tmp_path / "out", LocalEngine(2), STUDY, watcher=Interferes(4, kill_one))
    assert numbers(results) == expected
    assert results.failed() == []


@pytest.mark.long
def test_a_cell_that_kills_its_worker_fails_and_the_rest_is_done(file, tmp_path, expected):
    text = STUDY.replace("[0.5, 1.0]", "1.0").replace('[[agents]]\nname = "psrl"\n', "")
    file.write_text(text)
    wanted = {key: expected[key] for key in load(file).cells}
    results = run(load(file), tmp_path / "out", LocalEngine(2, deadly), text)
    failed = results.failed()
    assert [failure.cell.seed for failure in failed] == [3]
    assert "the worker process died" in failed[0].message
    assert numbers(results) == {key: value for key, value in wanted.items() if key != failed[0].id}
    # Run again, it is left alone; forgiven, it is run.
    assert run(load(file), tmp_path / "out", LocalEngine(2), text).failed() == failed
    assert Results(tmp_path / "out").forgive() == 1
    assert numbers(run(load(file), tmp_path / "out", LocalEngine(2), text)) == wanted


def workers_of(pid):
    """The processes that a run has started, but for Python's own tracker of shared memory."""
    made, threads = [], os.listdir(f"/proc/{pid}/task")
    for child in [c for t in threads for c in Path(f"/proc/{pid}/task/{t}/children").read_text().split()]:
        with contextlib.suppress(OSError):
            if "resource_tracker" not in Path(f"/proc/{child}/cmdline").read_text():
                made.append(int(child))
    return made


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_no_cell_is_blamed_where_somebody_kills_all_workers(file, tmp_path, expected):
    """kill -9 of all that a run has started, seven times, as soon as there is anything. Five deaths were enough for a
    cell to have failed for good."""
    kills, stop = [], threading.Event()

    def killer():
        while len(kills) < 7 and not stop.wait(0.3):
            found = workers_of(os.getpid())
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            kills.extend([found] if found else [])

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        some = list(expected)[:3]
        results = run(load(file), tmp_path / "out", LocalEngine(2), STUDY, only=some)
    finally:
        stop.set()
        thread.join()
    assert len(kills) == 7
    assert results.failed() == []
    assert numbers(results) == {key: expected[key] for key in some}


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_a_cell_is_not_blamed_for_deaths_that_came_from_outside(file, tmp_path, monkeypatch):
    """Killed while it runs, and everything else with it, five times: it is tried again. Killed alone: it has failed."""
    monkeypatch.setenv("NOREGRET_TEST", str(tmp_path / "begun"))
    task = Task(next(iter(load(file).cells.values())), patience=600.0)
    for together in (True, False):
        (tmp_path / "begun").mkdir()
        engine = LocalEngine(1, waiting)
        answers = []
        thread = threading.Thread(
            target=lambda e, a: a.append(e._tried_alone(task)), args=(engine, answers), daemon=True
        )
        thread.start()
        for k in range(5 if together else 3):
            end = time.monotonic() + 180.0
            while not (tmp_path / "begun" / str(k)).exists():
                assert time.monotonic() < end
                time.sleep(0.02)
            for pid in workers_of(os.getpid()):
                if together or "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text():
                    os.kill(pid, signal.SIGKILL)
        thread.join()
        engine.close()
        answer = answers[0][1]
        assert (answer.failure is None) == together  # a result, or a checkpoint where the machine is slow
        assert together or "the worker process died 3 times while running this cell alone" in answer.failure
        shutil.rmtree(tmp_path / "begun")


@pytest.mark.long
def test_a_cell_that_gets_something_done_is_no_suspect(file):
    cell = next(iter(load(file).cells.values()))
    engine, task = LocalEngine(1), Task(cell)
    for done, left in ((100, 0), (100, 2), (90, 2), (200, 0)):  # 100 again is nothing new: it dies at the same place
        engine._deaths[cell.id] = 2
        engine._taken(task, Answer(cell.id, done=done))
        assert engine._deaths.get(cell.id, 0) == left
    engine.close()


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_an_engine_whose_workers_are_always_killed_is_lost(file, tmp_path, monkeypatch):
    monkeypatch.setattr(local, "KILLS", 3)
    cell = next(iter(load(file).cells.values()))
    stop = threading.Event()

    def killer():
        while not stop.wait(0.2):
            for pid in workers_of(os.getpid()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        with pytest.raises(Lost, match="somebody is killing the workers: 3 died one after another"):
            run(load(file), tmp_path / "out", LocalEngine(1), STUDY, only=[cell.id])
    finally:
        stop.set()
        thread.join()
    assert Results(tmp_path / "out").failed() == []


@pytest.mark.long
def test_anothers_checkpoint_in_a_folder_is_told_and_the_cell_begun_anew(file, tmp_path, expected):
    """Seed 1's under the name of seed 0's: it was continued, and filed under seed 0."""
    study, out = load(file), tmp_path / "out"
    first, second = list(study.cells)[:2]
    assert (study.cells[first].seed, study.cells[second].seed) == (0, 1)
    results = Results(out, study)
    results.open(STUDY)
    results.keep_checkpoint(first, work(Task(study.cells[second], patience=0.0)).checkpoint)
    with pytest.warns(RuntimeWarning, match=f"{first} is begun anew: .* another run's"):
        results = run(study, out, LocalEngine(1), STUDY, only=[first])
    assert numbers(results) == {first: expected[first]}


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_at_any_moment_and_run_again(file, tmp_path, times):
    """kill -9 at random moments, then to the end: nothing lost, nothing run twice, the same numbers."""
    seeds = 4 if times == 1 else 12
    longer = STUDY.replace("20_000", "60_000").replace("seeds = 6", f"seeds = {seeds}")
    file.write_text(longer)
    expected = numbers(run(load(file), tmp_path / "whole", Here(), longer))
    draw, out = random.Random(0), tmp_path / "out"
    command = [
        sys.executable, "-m", "noregret", "study", "run", str(file), "--out", str(out), "--patience", "0.02",
        "--workers", "2",
    ]  # fmt: skip
    seen, kills = {}, 0
    while kills < times:
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
    assert len(now) == len(expected) == 3 * seeds
    assert list((out / "checkpoints").glob("*.npz")) == []


@pytest.mark.long
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


# Clusters of which a part is wrong ------------------------------------------------------------------------------------
class Future:
    def __init__(self, task, workers):
        self.task, self.workers, self.cancelled, self.outcome = task, workers, False, None

    def add_done_callback(self, call):
        self.call = call

    def cancel(self):
        self.cancelled = True

    def ends(self, outcome):
        self.outcome = outcome
        self.call(self)

    def result(self):
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Cluster:
    """What `DaskEngine` asks of a client of dask: workers with versions, futures that end when the test says so."""

    def __init__(self, **versions):
        self.versions, self.futures, self.status, self.closed = versions, [], "running", False

    def nthreads(self):
        return dict.fromkeys(self.versions, 1)

    def run(self, what, workers, on_error):
        return {w: self.versions[w] for w in workers}

    def submit(self, what, task, key, pure, workers):
        self.futures.append(Future(task, workers))
        return self.futures[-1]

    def close(self):
        self.closed = True


@pytest.fixture
def cluster(monkeypatch):
    """(the fake, an engine on it that looks who is there all the time)"""
    distributed = pytest.importorskip("distributed")
    from noregret.studies.engines import cluster as module

    fake = Cluster(a=nr.__version__, b=nr.__version__)
    monkeypatch.setattr(distributed, "Client", lambda *args, **options: fake)
    monkeypatch.setattr(module, "LOOKS", -1.0)
    return fake, module.DaskEngine("tcp://somewhere:1")


@pytest.mark.long
def test_a_worker_of_another_version_gets_no_cells(cluster, file):
    fake, engine = cluster
    one, two, three = [Task(cell) for cell in list(load(file).cells.values())[:3]]
    engine.submit(one)
    assert fake.futures[0].workers is None
    fake.versions["c"] = "0.0.9"  # joins later
    engine.submit(two)
    assert fake.futures[1].workers == ["a", "b"]
    assert engine.slots == 2
    assert engine.news() == [f"worker c has noregret 0.0.9 and gets no cells, this is {nr.__version__}"]
    assert engine.news() == []  # said once
    fake.futures[0].ends(Answer(one.cell.id, result=b"x", version="0.0.9"))  # it had the first one already
    assert engine.next(0.1) is None
    assert engine.news() == [f"{one.cell.id} was run by noregret 0.0.9, this is {nr.__version__}: it is run again"]
    assert fake.futures[2].task is one
    assert fake.futures[2].workers == ["a", "b"]
    right = Answer(one.cell.id, result=b"x", version=nr.__version__)
    fake.futures[2].ends(right)
    assert engine.next(0.1) == (one, right)
    del fake.versions["a"], fake.versions["b"]  # only the other one is left: what they had waits
    assert engine.next(0.0) is None
    assert fake.futures[1].cancelled
    engine.submit(three)
    assert len(fake.futures) == 3
    assert engine.waiting == 2
    fake.versions["d"] = nr.__version__
    fake.versions["e"] = ImportError("no module")
    assert engine.next(0.0) is None
    assert {f.task.cell.id for f in fake.futures[3:]} == {two.cell.id, three.cell.id}
    assert {tuple(f.workers) for f in fake.futures[3:]} == {("d",)}
    assert engine.news() == [f"worker e cannot import noregret (no module) and gets no cells, this is {nr.__version__}"]


def test_workers_that_have_another_version_from_the_start_are_refused(cluster):
    fake, engine = cluster
    fake.versions["c"] = "0.0.9"
    with pytest.raises(ValueError, match=r"every worker must have noregret .*: worker c has noregret 0\.0\.9"):
        type(engine)("tcp://somewhere:1")
    assert fake.closed


def test_a_cell_under_which_workers_died_is_tried_once_more_at_the_end(cluster, file):
    from distributed import KilledWorker

    fake, engine = cluster
    one, two = [Task(cell) for cell in list(load(file).cells.values())[:2]]
    engine.submit(one)
    engine.submit(two)
    fake.futures[0].ends(KilledWorker("x", SimpleNamespace(address="a"), 5))
    assert engine.next(0.1) is None
    assert len(fake.futures) == 2  # not while others run
    right = Answer(two.cell.id, result=b"x", version=nr.__version__)
    fake.futures[1].ends(right)
    assert engine.next(0.1) == (two, right)
    assert engine.next(0.0) is None
    assert fake.futures[2].task is one
    fake.futures[2].ends(KilledWorker("x", SimpleNamespace(address="a"), 5))
    task, answer = engine.next(0.1)
    assert task is one
    assert "the workers died under this cell, time after time" in answer.failure
    assert engine.waiting == 0


def test_a_scheduler_that_is_gone_blames_no_cell(cluster, file):
    from distributed.client import FutureCancelledError

    fake, engine = cluster
    one = Task(next(iter(load(file).cells.values())))
    engine.submit(one)
    fake.futures[0].ends(FutureCancelledError("x", "scheduler-connection-lost"))
    with pytest.raises(Lost, match=r"the dask scheduler \(tcp://somewhere:1\) is gone, or was started anew"):
        engine.next(0.1)
    fake.status = "connecting"
    for call in (lambda: engine.submit(one), lambda: engine.slots, lambda: engine.next(0.0)):
        with pytest.raises(Lost, match="is gone, or was started anew"):
            call()


QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
OTHER = """
from noregret.studies import work
from noregret.studies.engines import cluster
work.__version__ = cluster.__version__ = "0.0.9"
from distributed.cli.dask_worker import main
main()
"""


def scheduler(port, path):
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", str(port), "--no-dashboard"]
    return subprocess.Popen([*command, "--scheduler-file", str(path)], **QUIET)


def worker(path, *, how=("-m", "distributed.cli.dask_worker")):
    command = [sys.executable, *how, "--nthreads", "1", "--no-dashboard", "--no-nanny", "--scheduler-file", str(path)]
    return subprocess.Popen(command, **QUIET)


@pytest.mark.long
def test_a_worker_of_another_version_that_joins_a_real_cluster(file, tmp_path, expected):
    """All cells are of this version, with its numbers, and somebody is told."""
    distributed = pytest.importorskip("distributed")
    from noregret.studies.engines.cluster import DaskEngine

    path = tmp_path / "scheduler.json"
    processes = [scheduler(0, path), worker(path)]
    try:
        with distributed.Client(scheduler_file=str(path), timeout=60) as client:
            client.wait_for_workers(1, timeout=60)
            address = client.scheduler.address

            def joins(_):
                processes.append(worker(path, how=("-c", OTHER)))
                client.wait_for_workers(2, timeout=60)

            watcher = Interferes(1, joins)
            results = run(load(file), tmp_path / "out", DaskEngine(address), STUDY, watcher=watcher)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert numbers(results) == expected
    assert {done.facts["version"] for done in results.finished()} == {nr.__version__}
    assert any("has noregret 0.0.9 and gets no cells" in line for line in watcher.lines)


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for a free port")
def test_a_restarted_scheduler_is_one_sentence_and_nothing_has_failed(file, tmp_path):
    """The command ends with status 1, as where cells fail, and the same command goes on."""
    pytest.importorskip("distributed")
    file.write_text(STUDY.replace("20_000", "200_000"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path, out = tmp_path / "scheduler.json", tmp_path / "out"
    command = [
        sys.executable, "-m", "noregret", "study", "run", str(file), "--out", str(out), "--patience", "0.2",
        "--engine", "dask", "--scheduler", f"tcp://127.0.0.1:{port}",
    ]  # fmt: skip
    processes = [scheduler(port, path)]
    try:
        processes.append(worker(path))
        study = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(study)
        end = time.monotonic() + 120.0
        while not stamps(out) and study.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        assert stamps(out)
        processes[0].kill()
        processes[0].wait()
        processes.append(scheduler(port, path))
        _, error = study.communicate(timeout=120)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert study.returncode == 1, error
    said = [line for line in error.splitlines() if line.startswith("noregret: ") and "compiling" not in line]
    assert len(said) == 1, error
    assert f"the dask scheduler (tcp://127.0.0.1:{port}) is gone, or was started anew; what is done is kept" in said[0]
    assert "Traceback" not in error
    assert Results(out).failed() == []
