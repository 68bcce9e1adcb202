"""Agents and worlds of one's own, by module:Class: in studies, on the command line, in files."""

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import noregret as nr
from noregret.cli import app
from noregret.cli.options import parse
from noregret.storage.archive import seal, unseal
from noregret.studies.engines.local import LocalEngine
from noregret.studies.work import Task, work

LAB = '''
import numpy as np
import noregret as nr

class Guess(nr.UniformRandom):
    """A compiled agent of one's own."""
    name, group = "guess", "own"

    def __init__(self, problem, flavour=1, seed=0):
        nr.Agent.__init__(self, problem, seed, flavour=flavour)

class First:
    """Plain Python: always the first action."""
    def __init__(self, problem, shift=0):
        self.problem, self.shift = problem, shift
    def fresh(self, seed):
        return First(self.problem, self.shift)
    def begin_episode(self, x):
        p = self.problem
        self.policy, self.h = np.tile(p.layout.available.argmax(1), (p.horizon, 1)), 0
        return nr.Plan(self.policy, np.zeros((p.horizon + 1, p.n_states)))
    def act(self, state):
        return self.policy[self.h, state]
    def observe(self, reward, next_state):
        self.h += 1
    def end_episode(self):
        pass

def make(problem, flavour):
    return Guess(problem, flavour)

def ward(horizon=3, seed=0):
    return nr.worlds.clinic(horizon)

class Half:
    def act(self, state): ...

def nothing(problem):
    return 3
'''


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A folder with a module of agents and worlds, which is the current one and importable."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_lab.py").write_text(LAB)
    (tmp_path / "own_broken.py").write_text("raise RuntimeError('half done')")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("own_lab", "own_broken"):
        sys.modules.pop(name, None)


def study(agents, world="own_lab:ward", **rest):
    about = {"name": "own", "episodes": 30, "seeds": 2, "points": 3} | rest
    return nr.studies.Study(worlds=[{"name": world}], agents=agents, **about)


@pytest.mark.long
@pytest.mark.deep
def test_a_study_of_ones_own(lab):
    """Compiled, plain, made by a function, certified: all in one study, run by worker processes."""
    agents = [
        {"name": "own_lab:Guess"}, {"name": "own_lab:First", "shift": [0, 1]}, {"name": "own_lab:make", "flavour": 2},
        {"name": "uniform-random"},
    ]  # fmt: skip
    made = study(agents, diagnostics=True)
    made.rehearse()
    assert len(made.cells) == 10
    first = next(iter(made.cells.values()))
    assert first.describe() == "own_lab:Guess in own_lab:ward seed=0, seed 0, 30 episodes"
    assert first.agent_options == {"flavour": 1}  # a default is a default, said or not
    results = nr.studies.run(made, lab / "out", LocalEngine(1))
    assert not results.failed()
    done = {(d.cell.agent, d.cell.seed): d for d in results.finished()}
    luck = done["uniform-random", 1].columns["regret"]
    assert np.array_equal(done["own_lab:Guess", 1].columns["regret"], luck)
    assert np.array_equal(done["own_lab:make", 1].columns["regret"], luck)
    assert done["own_lab:Guess", 0].facts["label"] == "guess"
    assert done["own_lab:First", 0].facts["label"] == "First"
    assert "set_failures" not in done["own_lab:First", 0].columns  # plain Python has no diagnostics


def test_checkpoints_of_ones_own(lab):
    """A compiled agent goes on from its checkpoint; a plain one runs in one piece, and a line says so."""
    cells = {c.agent: c for c in study([{"name": "own_lab:Guess"}, {"name": "own_lab:First"}], seeds=1).cells.values()}
    place = nr.studies.Cell.of({"name": "own_lab:ward"}, {"name": "own_lab:Guess"}, 0, 5000, 5)
    half = work(Task(place, patience=0.0))
    assert half.checkpoint is not None
    assert 0 < half.done < 5000
    whole, again = work(Task(place)), work(Task(place, half.checkpoint, 1e9))
    assert (again.note, again.episodes) == ("", 5000 - half.done)
    curves = [nr.studies.cell_file.decode(a.result).columns["regret"] for a in (whole, again)]
    assert np.array_equal(*curves)
    plain = work(Task(cells["own_lab:First"], patience=0.0))
    assert plain.result is not None
    assert "is run in one piece: its agent is your own" in plain.note


def test_a_class_that_cannot_be_read_back_gets_to_the_end(lab, monkeypatch):
    cell = nr.studies.Cell.of({"name": "own_lab:ward"}, {"name": "own_lab:Guess"}, 0, 5000, 5)
    half = work(Task(cell, patience=0.0))
    import own_lab

    monkeypatch.setattr(own_lab.Guess, "rebuild", classmethod(lambda *_: 1 / 0))
    done = work(Task(cell, half.checkpoint, patience=0.0))
    assert done.result is not None
    assert "is begun anew" in done.note


def test_files_of_ones_own(lab):
    """The caller brings the class; a file never makes anything be imported."""
    import own_lab

    problem = nr.worlds.clinic(3).problem
    agent = own_lab.Guess(problem, flavour=5, seed=2)
    plan = agent.begin_episode(np.full(problem.context_dim, 0.1))
    agent.end_episode()
    agent.save("a.npz")
    for given in (own_lab.Guess, "own_lab:Guess", [own_lab.Guess]):
        back = nr.load("a.npz", agent=given)
        assert (type(back), back.options, back.episode) == (own_lab.Guess, {"flavour": 5}, 1)
    nr.Live(agent).save("l.npz")
    live = nr.Live.load("l.npz", agent=own_lab.Guess)
    assert np.array_equal(live.begin("A", np.zeros(problem.context_dim)).policy.shape, plan.policy.shape)
    for wrong, said in (
        (None, "is one of your own, 'own_lab:Guess': nothing is imported because a file says so"),
        ("own_lab:First", "agent must be a class made from noregret.Agent"),
        (nr.UniformRandom, "it holds no agent of your own called 'uniform-random'"),
        (3, "agent must be a class made from noregret.Agent"),
    ):
        with pytest.raises(ValueError, match=said):
            nr.load("a.npz", agent=wrong)


def test_a_file_imports_nothing(lab):
    """Whatever class it names, also where the caller brings another one."""
    problem = nr.worlds.clinic(3).problem
    nr.UniformRandom(problem).save("a.npz")
    header, arrays = unseal("a.npz")
    for name in ("noregret", "version", "sha256"):
        header.pop(name, None)
    for agent in ("own_broken:Anything", "uniform-random"):
        with open("b.npz", "wb") as file:
            seal(file, json.loads(json.dumps(header | {"agent": agent, "class": "own_broken:Anything"})), arrays)
        with pytest.raises(ValueError, match="cannot be loaded"):
            nr.load("b.npz")
    with open("b.npz", "wb") as file:
        seal(file, header | {"agent": "own_broken:Anything"}, arrays)
    with pytest.raises(ValueError, match="unknown agent 'own_broken:Anything'"):
        nr.load("b.npz")
    assert "own_broken" not in sys.modules


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_lab:Guess", "agent 'no_such_lab:Guess': no such module can be found"),
        ("own_broken:Guess", "its import failed, RuntimeError: half done"),
        ("own_lab:Guesss", "module own_lab has no class or function Guesss"),
        ("own_lab:LAB", "module own_lab has no class or function LAB"),
        ("own_lab:Half", "is not an agent: it has no begin_episode, observe, end_episode, fresh"),
    ],
)
def test_what_a_name_cannot_be(lab, name, said):
    with pytest.raises(ValueError, match=said):
        _ = study([{"name": name}], "clinic").cells


def test_what_ones_own_cannot_be(lab):
    problem = nr.worlds.clinic(3).problem
    with pytest.raises(ValueError, match=r"made 3, which is no agent: it has no begin_episode, act"):
        nr.make_agent("own_lab:nothing", problem)
    with pytest.raises(ValueError, match=r"unexpected keyword argument 'flavor' \(options: flavour, seed\)"):
        nr.make_agent("own_lab:Guess", problem, flavor=1)
    with pytest.raises(ValueError, match="missing a required argument: 'flavour'"):
        _ = study([{"name": "own_lab:make"}]).cells
    with pytest.raises(ValueError, match=r"world 'own_lab:Half' must return a noregret\.World"):
        nr.worlds.make_world("own_lab:Half")
    assert nr.worlds.make_world("own_lab:ward", horizon=2).problem.horizon == 2
    assert nr.make_agent("own_lab:Guess", problem, flavour=3).label == "guess (flavour=3)"


def test_names_on_the_command_line(lab):
    """The current folder is looked at, after all others."""
    assert parse("own_lab:Guess:flavour=2") == ("own_lab:Guess", {"flavour": 2})
    with pytest.raises(ValueError, match="'delta' is not"):
        parse("psrl:delta")
    words = ["compare", "--world", "own_lab:ward:horizon=2", "--agents", "own_lab:Guess:flavour=2,own_lab:First"]
    done = CliRunner().invoke(app, [*words, "--episodes", "20", "--seeds", "1", "--out", "r"])
    assert done.exit_code == 0, done.output
    assert "guess (flavour=2)" in done.output
    assert "First" in done.output
