"""Study files, cells, their files and checkpoints: everything but the engines (test_engines.py)."""

import json
import math
import time
from dataclasses import replace

import numpy as np
import pytest

import noregret as nr
from noregret.simulation import engine
from noregret.simulation.catalogue import agent_options
from noregret.simulation.checkpoint import begun, episodes_done, resumed, snapshot
from noregret.simulation.engine import CHUNK
from noregret.studies import Cell, Results, load
from noregret.studies.cell_file import decode, encode
from noregret.studies.grids import values_of
from noregret.studies.study import line_of
from noregret.studies.work import Task, work

SMALL = """
name = "small"
title = "A small one"
episodes = 300
seeds = 2
points = 10
diagnostics = true

[[worlds]]
name = "random-logit"
n_states = [2, 3]
horizon = 2
context_dim = 2
seed = "run"

[[agents]]
name = "glm-orl"
bonus_scale = { from = 0.5, to = 1, by = 0.5 }

[[agents]]
name = "uniform-random"
"""


def written(tmp_path, text=SMALL):
    path = tmp_path / "study.toml"
    path.write_text(text)
    return path


def cell(who="glm-orl", episodes=300, seed=0, world=None, **options):
    place = {"name": "random-logit", "n_states": 3, "horizon": 3, "context_dim": 2, "seed": "run"} | (world or {})
    return Cell.of(place, {"name": who} | options, seed, episodes, 10)


# Values ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (3, [3]),
        ([3, 5], [3, 5]),
        ({"from": 4, "to": 16, "times": 2}, [4, 8, 16]),
        ({"from": 4, "to": 17, "times": 2}, [4, 8, 16]),
        ({"from": 0.2, "to": 1, "by": 0.2}, [0.2, 0.4, 0.6, 0.8, 1.0]),
        ({"from": 1, "to": 7, "by": 3}, [1, 4, 7]),
        ({"from": 0.01, "to": 1, "steps": 3, "scale": "log"}, [0.01, 0.1, 1.0]),
        ({"from": 0, "to": 1, "steps": 3}, [0.0, 0.5, 1.0]),
        ([1, {"from": 4, "to": 8, "times": 2}], [1, 4, 8]),
        ([[0, 1], [2]], [[0, 1], [2]]),  # a value that is a list itself
        ({"name": "psrl", "cells": [2, 4]}, [{"name": "psrl", "cells": 2}, {"name": "psrl", "cells": 4}]),
    ],
)
def test_values(value, wanted):
    made = values_of(value)
    assert made == wanted
    assert [type(v) for v in made] == [type(v) for v in wanted]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"from": 1, "to": 3}, "exactly one of by, times, steps"),
        ({"from": 1, "to": 3, "by": 1, "steps": 3}, "exactly one of by, times, steps"),
        ({"from": 3, "to": 1, "by": 1}, "goes up"),
        ({"from": 0, "to": 1, "times": 2}, "from must be positive"),
        ({"from": 1, "to": 2, "times": 1}, "times must be above 1"),
        ({"from": 1, "to": 2, "by": 0}, "by must be positive"),
        ({"from": 1, "to": 2, "by": 1, "scale": "log"}, "scale goes with steps"),
        ({"from": 0, "to": 1, "by": 1e-9}, "at most 100,000 values"),
    ],
)
def test_ranges_that_are_none(value, said):
    with pytest.raises(ValueError, match=said):
        values_of(value)


@pytest.mark.parametrize(
    "more",
    [
        "n_states = { from = 1, to = 90_000, by = 1 }\nhorizon = { from = 1, to = 90_000, by = 1 }",
        "n_states = { from = 1, to = 900, by = 1 }\nhorizon = { from = 1, to = 900, by = 1 }",
    ],
)
def test_too_many_combinations_are_counted_not_made(tmp_path, monkeypatch, more):
    """Nothing is expanded: 8 * 10^9 combinations took all the memory before the limit was looked at."""
    monkeypatch.setattr("noregret.studies.grids.itertools", None)  # what would make them
    text = SMALL.replace("n_states = [2, 3]\nhorizon = 2", more)
    with pytest.raises(ValueError, match=r"line 10, worlds\[0\].*at most 100,000 combinations of values, this one has"):
        load(written(tmp_path, text))
    with pytest.raises(ValueError, match="at most 100,000 combinations of values, this one has 1,000,000"):
        values_of({"name": "x"} | {k: {"a": list(range(100))} for k in "abc"})


def test_too_many_cells_are_counted_not_made(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr("noregret.studies.study.Cell", made.append)
    text = SMALL.replace("seeds = 2", "seeds = 50_000")
    with pytest.raises(ValueError, match=r"a study has at most 100,000 combinations of values, this one has 300,000"):
        load(written(tmp_path, text))
    assert made == []


def test_numbers_of_ten_thousand_digits_are_a_sentence(tmp_path):
    for old in ("episodes = 300", "seeds = 2", "horizon = 2"):
        text = SMALL.replace(old, f"{old.split(' =')[0]} = {'9' * 10_000}")
        with pytest.raises(ValueError, match=r"is not a TOML file: a number in it has thousands of digits$"):
            load(written(tmp_path, text))
    with pytest.raises(ValueError, match="nested too deeply"):
        load(written(tmp_path, "name = " + "[" * 100_000))


# Cells ----------------------------------------------------------------------------------------------------------------
def test_ids_do_not_change():
    """What was run stays run: this id is from the day the format was made."""
    assert cell(delta=0.1).id == "bd3ea4be403afac0"


def test_ids_follow_the_content():
    base = cell()
    assert cell(delta=0.05).id == base.id  # a default written out
    assert cell(bonus_scale=1).id == cell(bonus_scale=1.0).id == base.id
    others = [
        cell(delta=0.1), cell(seed=1), cell(episodes=301), cell("psrl"), cell(world={"seed": 5}),
        cell(world={"n_states": 4}), replace(base, diagnostics=True), replace(base, every=31),
        replace(base, epsilon=1.0),
    ]  # fmt: skip
    assert len({base.id, *(c.id for c in others)}) == len(others) + 1
    assert cell(world={"seed": 0}).id == base.id  # drawn from the run's seed, which is 0


def test_a_study_is_every_combination_once(tmp_path):
    study = load(written(tmp_path))
    assert len(study.cells) == 2 * 3 * 2
    seeds = {
        (c.world_options["n_states"], c.agent, c.agent_options.get("bonus_scale"), c.seed) for c in study.cells.values()
    }
    assert len(seeds) == 12
    assert all(c.world_options["seed"] == c.seed and c.every == 30 and c.diagnostics for c in study.cells.values())
    assert set(study.settings.values()) == {f"random-logit n_states={n} horizon=2 context_dim=2" for n in (2, 3)}
    same = SMALL[SMALL.index("[[worlds]]") : SMALL.index("[[agents]]")].replace("[2, 3]", "2")
    more = SMALL + '[[agents]]\nname = "psrl"\n' + same
    grown = load(written(tmp_path, more))
    assert set(study.cells) < set(grown.cells)
    assert len(grown.cells) == 12 + 4  # the world given twice is one world


def test_composed_agents(tmp_path):
    text = """
name = "refer"
episodes = 200
points = 20
[[worlds]]
name = "clinic"
[[agents]]
name = "referral"
agent = { name = "certified-psrl", kappa = [0.3, 0.5] }
expert = "oracle"
threshold = [0.5, 2.0]
"""
    study = load(written(tmp_path, text))
    assert len(study.cells) == 4
    assert {c.agent_options["agent"]["kappa"] for c in study.cells.values()} == {0.3, 0.5}
    answer = work(Task(next(iter(study.cells.values()))))
    assert answer.failure is None, answer.failure
    made = decode(answer.result)
    referred = made.columns["referred"]
    assert (np.diff(referred) >= 0).all()
    assert 0 < referred[-1] <= 200
    assert "refers to oracle above 0.5" in made.facts["label"]


def test_unfit_agents_are_left_out_or_an_error(tmp_path):
    text = SMALL + '[[agents]]\nname = "oful"\n'
    with pytest.raises(ValueError, match=r"oful is not for random-logit .*unfit = \"skip\""):
        load(written(tmp_path, text))
    study = load(written(tmp_path, text.replace("seeds = 2", 'seeds = 2\nunfit = "skip"')))
    assert len(study.cells) == 12
    assert len(study.left_out) == 2
    assert all(sentence.startswith("oful is not for random-logit") for sentence in study.left_out)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "small"', 'name = "a/b"', r"line 2, name: String should match"),
        ("episodes = 300", "episodes = 0", r"line 4, episodes: episodes must be an integer of at least 1, got 0"),
        ("episodes = 300", "episods = 300", r"episods: unknown key \(keys: name, title, description, episodes"),
        ("episodes = 300", "", r"episodes: is missing"),
        ("seeds = 2", 'seeds = "two"', r"line 5, seeds: seeds must be an integer of at least 1, got 'two'"),
        ("points = 10", "points = 1.5", r"line 6, points: Input should be a valid integer"),
        ("diagnostics = true", "diagnostics = 1", r"line 7, diagnostics: Input should be a valid boolean"),
        ('"random-logit"', '"random-logic"', r"line 10, worlds\[0\].name: unknown world 'random-logic'; did you mean"),
        ("horizon = 2", "horizn = 2", r"line 12, worlds\[0\].horizn: .*'horizn' \(options: n_states, n_actions"),
        ("horizon = 2", "horizon = 0", r"horizon must be an integer of at least 1, got 0"),
        ('"glm-orl"', '"glm-olr"', r"line 17, agents\[0\].name: unknown agent 'glm-olr'; did you mean glm-orl"),
        ("bonus_scale", "bonus_scal", r"line 18, agents\[0\].bonus_scal: .*'bonus_scal' \(options: delta"),
        ("by = 0.5 }", "by = -1 }", r"line 18, agents\[0\].bonus_scale: by must be positive"),
        ('name = "uniform-random"', 'name = "uniform-random"\nseed = 3', r"agents\[1\].*seed is not an option here"),
        ('name = "uniform-random"', 'nam = "uniform-random"', r"line 20, agents\[1\].name: is missing"),
        ("[[worlds]]", "[[worlds", r"is not a TOML file"),
    ],
)  # fmt: skip
def test_errors_point_at_the_key(tmp_path, old, new, said):
    assert old in SMALL
    with pytest.raises(ValueError, match=said):
        load(written(tmp_path, SMALL.replace(old, new, 1)))


def test_bad_values_of_agents_are_found_before_anything_runs(tmp_path):
    with pytest.raises(ValueError, match="constants must be one of 'corrected'"):
        load(written(tmp_path, SMALL + '[[agents]]\nname = "glm-orl"\nconstants = "secret"\n')).rehearse()
    with pytest.raises(ValueError, match="missing option 'threshold'"):
        load(written(tmp_path, SMALL + '[[agents]]\nname = "referral"\nagent = "certified-psrl"\nexpert = "oracle"\n'))


def test_lines():
    text = (
        '# x\nname = "a"\n\n[[agents]]\nname = "b"\n[[agents]]\n"odd key" = 1\n[agents.agent]\nname = "c"\n[[worlds]]\n'
    )
    assert line_of(text, ("name",)) == 2
    assert line_of(text, ("agents", 0, "name")) == 5
    assert line_of(text, ("agents", 1, "odd key")) == 7
    assert line_of(text, ("agents", 1, "absent")) == 6
    assert line_of(text, ("worlds", 3)) is None


def test_every_agent_has_options_that_can_be_written_down():
    for name in nr.agents.names():
        made = agent_options(name, {})
        json.dumps(made)
        assert "seed" not in made
        assert "problem" not in made
        json.dumps(agent_options("certified", {"agent": name}))


# A cell's run and its file --------------------------------------------------------------------------------------------
def test_a_cell_is_what_simulate_gives():
    one = replace(cell(), diagnostics=True)
    made = decode(work(Task(one)).result)
    world = nr.worlds.random_logit(3, 3, 3, 2, seed=0)
    run = nr.simulate(nr.GLMORL(world.problem), world, 300, [0], every=30, diagnostics=True)
    assert np.array_equal(made.columns["episode"], run.episodes)
    assert np.array_equal(made.columns["regret"], run.regret[0])
    for name, counts in run.diagnostics.items():
        assert np.array_equal(made.columns[name], counts[0])
    for name, bound in run.bounds.items():
        assert np.array_equal(made.columns[f"bound_from_{name}"], bound[0])
    assert set(made.columns) == {"episode", "regret", *run.diagnostics, *(f"bound_from_{k}" for k in run.bounds)}
    assert made.facts["label"] == run.label
    assert made.facts["guarantee"] == run.guarantee
    assert made.facts["problem"] == {
        "S": 3, "A": 3, "H": 3, "d": 2, "link": "logit", "weight_bound": 2.0, "context_bound": 1.0,
        "reward_bound": math.sqrt(2.0),
    }  # fmt: skip


def test_files_are_whole_or_refused():
    data = work(Task(cell())).result
    made = decode(data)
    assert decode(encode(made)).facts == made.facts
    random = np.random.default_rng(0)
    for cut in random.integers(0, len(data), 40):
        with pytest.raises(ValueError, match="not the results of a cell, or damaged"):
            decode(data[:cut])
    changed = 0
    for at in random.integers(0, len(data), 300):
        bad = bytearray(data)
        bad[at] ^= 1 << int(random.integers(0, 8))
        try:
            again = decode(bytes(bad))
        except ValueError:
            changed += 1
        else:  # a byte that says nothing about this cell, such as Parquet's own statistics
            assert again.facts == made.facts
            assert again.cell == made.cell
            assert all(np.array_equal(again.columns[k], made.columns[k]) for k in made.columns)
    assert changed > 150


@pytest.mark.study(first=1)
@pytest.mark.parametrize(
    ("agent", "options"),
    [
        ("glm-orl", {}),
        ("psrl", {}),
        ("certified-psrl", {"sets": "stored"}),
        ("omg-cmdp", {}),
        ("referral", {"agent": "certified-psrl", "expert": "oracle", "threshold": 1.0}),
        ("conservative", {"agent": "certified-psrl", "baseline": "oracle", "alpha": 0.5}),
    ],
)
def test_checkpoints_change_nothing(monkeypatch, agent, options):
    """Stopped after every chunk, sent elsewhere as bytes: the same numbers to the last bit."""
    one = replace(cell(agent, 150, **options), diagnostics=agent not in ("referral", "conservative"))
    whole = work(Task(one, patience=1e9))
    monkeypatch.setattr(engine, "CHUNK", 64)
    assert whole.failure is None, whole.failure
    answer, stops = work(Task(one, patience=0.0)), [0]
    while answer.checkpoint is not None:
        assert 0 < answer.done - stops[-1] == answer.episodes <= 64
        stops.append(answer.done)
        answer = work(Task(one, answer.checkpoint, patience=0.0))
    assert len(stops) > 2
    a, b = decode(whole.result), decode(answer.result)
    assert a.columns.keys() == b.columns.keys()
    for name in a.columns:
        assert a.columns[name].tobytes() == b.columns[name].tobytes(), name


def test_a_damaged_checkpoint_begins_anew():
    one = cell(episodes=CHUNK + 100)
    kept = work(Task(one, patience=0.0)).checkpoint
    want = decode(work(Task(one)).result).columns["regret"]
    for bad in (kept[:-30], b"", b"nonsense", kept[:100] + bytes(50) + kept[150:]):
        answer = work(Task(one, bad))
        assert np.array_equal(decode(answer.result).columns["regret"], want)
    world, of = one.make_world(), one.run
    setup = engine.Setup(world, 0, one.episodes, one.every)
    session = begun(one.make_agent(world), setup)
    session.advance()
    made = snapshot(session, of, 1.5)
    again, seconds = resumed(made, of, setup)
    assert again.done == session.done > 0
    assert seconds == 1.5
    assert episodes_done(made, of) == session.done
    for bad in (made[:-30], b"", b"nonsense", made[:-100] + bytes(50) + made[-50:]):
        with pytest.raises(ValueError, match="not a checkpoint of that run"):
            resumed(bad, of, setup)
        assert episodes_done(bad, of) == 0


def test_anothers_checkpoint_is_not_continued(monkeypatch):
    """Of another seed, cell, semantics or version: the cell is begun anew, and says so. Seed 1's was continued, and
    filed under seed 0."""
    one, place = cell(episodes=CHUNK + 100, world={"seed": 7}), {"seed": 7}
    want = decode(work(Task(one)).result).columns["regret"]
    begun_so_far = work(Task(one, patience=0.0))
    own = begun_so_far.checkpoint
    others = [cell(episodes=CHUNK + 100, world=place, seed=1), cell(episodes=CHUNK + 100, world=place, delta=0.1)]
    kept = [work(Task(other, patience=0.0)).checkpoint for other in others]
    with monkeypatch.context() as patch:
        patch.setattr("noregret.storage.version.__version__", "0.0.9")
        kept.append(work(Task(one, patience=0.0)).checkpoint)
    said = ["it is another run's", "it is another run's", "it was made by noregret 0.0.9, this is"]
    for bad, why in zip(kept, said, strict=True):
        answer = work(Task(one, bad))
        assert np.array_equal(decode(answer.result).columns["regret"], want)
        assert why in answer.note
        assert f"{one.id} is begun anew" in answer.note
    with monkeypatch.context() as patch:
        patch.setattr("noregret.studies.cell.SEMANTICS", 2)
        assert "another run's" in work(Task(replace(one), own)).note
    going_on = work(Task(one, own))
    assert going_on.note == ""
    assert 0 < going_on.episodes == one.episodes - begun_so_far.done < one.episodes
    assert np.array_equal(decode(going_on.result).columns["regret"], want)


@pytest.mark.parametrize("error", [NotImplementedError, RuntimeError, IndexError, OverflowError, MemoryError])
def test_whatever_a_checkpoint_leads_to_the_cell_is_begun_anew(monkeypatch, error):
    one = cell(episodes=CHUNK + 100)
    kept = work(Task(one, patience=0.0)).checkpoint

    def fails(*args, **options):
        raise error("no such thing")

    monkeypatch.setattr("noregret.simulation.checkpoint.revived", fails)
    answer = work(Task(one, kept))
    assert answer.failure is None
    assert "not a checkpoint of that run" in answer.note
    assert answer.episodes == one.episodes


def test_a_failing_cell_says_why():
    answer = work(Task(replace(cell(), agent_options={"delta": 7.0})))
    assert answer.result is None
    assert "delta must be a number between 0 and 1" in answer.failure


# Folders --------------------------------------------------------------------------------------------------------------
@pytest.fixture
def filled(tmp_path):
    """The folder of a study with all cells but the last two."""
    path = written(tmp_path)
    results = Results(tmp_path / "out", load(path))
    results.open(path.read_text())
    for key, one in list(results.study.cells.items())[:-2]:
        results.keep(key, work(Task(one)).result)
    results.write_manifest("noregret study run study.toml")
    return results


def test_a_folder_tells_what_is_left(filled):
    again = Results(filled.folder)
    assert len(again.finished()) == 10
    assert len(again.missing()) == 2
    assert again.damaged == []
    assert again.title == "A small one"
    assert again.command == "noregret study run study.toml"
    key = next(iter(again.study.cells))
    path = filled.folder / "cells" / f"{key}.parquet"
    data = path.read_bytes()
    for bad in (data[: len(data) // 2], b""):
        path.write_bytes(bad)
        third = Results(filled.folder)
        assert key in {c.id for c in third.missing()}
        assert len(third.missing()) == 3
        assert third.damaged == [path.name]
    other = list(again.study.cells)[1]
    path.write_bytes((filled.folder / "cells" / f"{other}.parquet").read_bytes())  # another cell's
    assert key in {c.id for c in Results(filled.folder).missing()}
    path.write_bytes(data)
    last = list(again.study.cells)[-1]
    again.keep_failure(last, "Traceback\nValueError: no luck")
    assert [f.message for f in Results(filled.folder).failed()] == ["ValueError: no luck"]
    assert len(Results(filled.folder).missing()) == 1
    again.keep(last, work(Task(again.study.cells[last])).result)  # done after all
    assert Results(filled.folder).failed() == []
    assert len(Results(filled.folder).missing()) == 1
    manifest = json.loads((filled.folder / "manifest.json").read_text())
    assert manifest["cells"] == 12
    assert len(manifest["done"]) == 10
    assert manifest["done"][0]["version"] == nr.__version__
    assert Cell(**manifest["done"][0]["cell"]).id == manifest["done"][0]["id"]
    assert manifest["done"][0]["seconds"] >= 0.0


def test_another_cells_result_is_not_filed(filled):
    first, *_, last = filled.study.cells
    data = (filled.folder / "cells" / f"{first}.parquet").read_bytes()
    with pytest.raises(ValueError, match=f"this is the result of cell {first}, not of {last}"):
        filled.keep(last, data)
    assert not (filled.folder / "cells" / f"{last}.parquet").exists()


def test_folders_and_links_that_lead_to_themselves_in_the_place_of_files(filled):
    """Damaged files, for whoever reads; a sentence for whoever runs, before anything is run."""
    first, second, *_, last = filled.study.cells
    cells, failed = filled.folder / "cells", filled.folder / "failed"
    loop, folder = cells / f"{first}.parquet", cells / f"{second}.parquet"
    for path in (loop, folder):
        path.unlink()
    loop.symlink_to(loop.name)
    folder.mkdir()
    (filled.folder / "checkpoints" / f"{last}.npz").mkdir()
    again = Results(filled.folder)
    assert len(again.finished()) == 8
    assert again.damaged == [loop.name, folder.name]
    assert {c.id for c in again.missing()} >= {first, second, last}
    assert again.checkpoint(last) is None
    with pytest.raises(ValueError, match=r"\.parquet must be a file: a folder is in its place, move it away"):
        again.open(SMALL)
    folder.rmdir()
    with pytest.raises(ValueError, match=r"\.npz must be a file: a folder is in its place"):
        again.open(SMALL)
    (filled.folder / "checkpoints" / f"{last}.npz").rmdir()
    again.open(SMALL)
    again.keep(first, work(Task(again.study.cells[first])).result)  # the link is replaced
    assert not loop.is_symlink()
    (failed / f"{last}.json").mkdir()
    assert [f.message for f in again.failed()] == ["the record of this failure is damaged"]
    with pytest.raises(ValueError, match=r"\.json must be a file: a folder is in its place"):
        again.forgive()
    (failed / f"{last}.json").rmdir()
    (failed / f"{last}.json").symlink_to(f"{last}.json")
    assert again.forgive() == 1
    assert again.failed() == []


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ('{"traceback": ""}', "no reason was recorded"),
        ('{"traceback": " \\n "}', "no reason was recorded"),
        ("", "the record of this failure is damaged"),
        ("[" * 100_000, "the record of this failure is damaged"),
    ],
)
def test_empty_records_of_failures(filled, record, said):
    last = list(filled.study.cells)[-1]
    (filled.folder / "failed" / f"{last}.json").write_text(record)
    assert [f.message for f in Results(filled.folder).failed()] == [said]
    filled.write_manifest("")


def test_a_file_in_the_place_of_a_folder_is_a_sentence(tmp_path):
    path = written(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "cells").write_text("")
    with pytest.raises(ValueError, match="cells must be a folder: a file is in its place"):
        Results(tmp_path / "out", load(path)).open("")


def test_half_written_files_are_swept_away_when_old(filled):
    import os

    young, old = filled.folder / "cells" / ".x.parquet.a.part", filled.folder / "cells" / ".y.parquet.b.part"
    for path in (young, old):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    filled.open(SMALL)
    assert young.exists()
    assert not old.exists()


def test_the_table_of_all_cells(filled):
    table = filled.table()
    assert table.num_rows == 10 * 10
    columns = table.column_names
    assert columns[:4] == ["cell", "setting", "world", "agent"]
    for name in ("world_n_states", "agent_bonus_scale", "seed", "episode", "regret", "transition_width", "referred"):
        assert name in columns
    rows = table.to_pylist()
    first = rows[9]
    key = first["cell"]
    assert first["episode"] == 300
    assert first["regret"] == filled.finished()[0].columns["regret"][-1]
    assert key == filled.finished()[0].id
    assert {row["agent_bonus_scale"] for row in rows} == {0.5, 1.0, None}  # uniform play has no such option
    assert {row["world_n_states"] for row in rows} == {2, 3}


def test_cells_are_one_dataset(filled):
    """Same columns in every file: a folder is a table for any Parquet reader."""
    import pyarrow.parquet as pq

    together = pq.read_table(filled.folder / "cells")
    assert together.num_rows == 100
    assert set(together["agent"].to_pylist()) == {
        "glm-orl (bonus_scale=0.5, no guarantee)",
        "glm-orl",
        "uniform-random",
    }
