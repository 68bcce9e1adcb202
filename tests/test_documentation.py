"""What the documentation says is run here; what the design says about imports is checked here."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import noregret as nr
from noregret.studies.engines.local import LocalEngine

pytestmark = pytest.mark.deep

ROOT = Path(__file__).parents[1]
PACKAGE = Path(nr.__file__).parent


def blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


def run_blocks(name, expected, folder, monkeypatch):
    """Run a page's examples in order in an empty folder; their variables."""
    monkeypatch.chdir(folder)
    found, scope = blocks(name), {}
    assert len(found) == expected
    for block in found:
        exec(block, scope)
    return scope


@pytest.mark.long
def test_the_tutorial_from_pilot_to_board(tmp_path, monkeypatch, capsys):
    """Its blocks run, and what they say is what the page speaks of."""
    scope = run_blocks("docs/school.md", 7, tmp_path, monkeypatch)
    said, page = capsys.readouterr().out, (tmp_path / "board" / "decisions.html").read_text()
    assert scope["check"].level == "green"  # the model is right: alarms have probability 0.05 at most, this seed none
    assert all(0.2 / 3 - 1e-12 <= d.probability <= 1.0 and d.error == 0.0 for d in scope["decisions"])
    assert max(scope["kim"].plans.max(), scope["kim"].policy.max()) < 2  # no tutor for Kim
    assert "expected, not proved" in said
    assert scope["found"].row("plug-in").rung == "asymptotic"
    for part in ("Who came", "Gain over the rule", "What the model would do now", "Is the model right?", "Belief"):
        assert part in page


def test_readme_examples_run(tmp_path, monkeypatch):
    scope = run_blocks("README.md", 2, tmp_path, monkeypatch)
    assert scope["run"].regret.shape == (8, 200)
    assert nr.load("clinic.npz").episode == 200


@pytest.mark.long
def test_study_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "studies" / "beyond.toml").read_text()
    quick = text.replace("20_000", "40").replace("seeds = 12", "seeds = 2").replace("points = 400", "points = 4")
    (tmp_path / "quick.toml").write_text(quick[: quick.index('[[agents]]\nname = "lr-orl"')])
    nr.studies.run(nr.studies.load("quick.toml"), "results/small", LocalEngine(1), quick)
    scope = run_blocks("docs/studies.md", 1, tmp_path, monkeypatch)
    assert len(scope["end"]) == 4


def test_shipped_studies_and_those_in_the_documentation_are_right(tmp_path):
    for path in (ROOT / "studies").glob("*.toml"):
        assert nr.studies.load(path).left_out == [], path
    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "studies.md").read_text(), re.DOTALL)
    (tmp_path / "small.toml").write_text(text)
    assert len(nr.studies.load(tmp_path / "small.toml").cells) == 3 * 6 * 10


@pytest.mark.long
def test_howto_runs(tmp_path, monkeypatch, capsys):
    run_blocks("docs/howto.md", 9, tmp_path, monkeypatch)
    said = capsys.readouterr().out
    assert "plan.upper is at least the optimal value" in said
    assert said.count("final regret") == 3
    assert (tmp_path / "run.parquet").exists()


def test_bounds_page_runs(tmp_path, monkeypatch, capsys):
    scope = run_blocks("docs/bounds.md", 1, tmp_path, monkeypatch)
    assert "suggested: weight_bound=" in capsys.readouterr().out
    assert scope["problem"].weight_bound == scope["found"].weight_bound < 3.0


def test_journal_page_runs(tmp_path, monkeypatch, capsys):
    scope = run_blocks("docs/journal.md", 1, tmp_path, monkeypatch)
    said = capsys.readouterr().out
    assert said.startswith("3 events, 2 of them erased, chain ")
    assert said.endswith(": as they were written\n")
    assert (tmp_path / "school.db").exists()
    assert scope["second"].number == 1


@pytest.mark.long
def test_evidence_page_runs(tmp_path, monkeypatch, capsys):
    scope = run_blocks("docs/evidence.md", 2, tmp_path, monkeypatch)
    said, page = capsys.readouterr().out, (ROOT / "docs" / "evidence.md").read_text()
    number = r"([+-][\d.]+)"
    table = re.findall(rf"^    .*?(\S+) +(proved|asymptotic) +{number} +{number} to {number}", page, re.MULTILINE)
    assert len(table) == len(scope["found"])
    for row, (estimator, rung, *numbers) in zip(scope["found"], table, strict=True):
        assert (estimator, rung) == (row.estimator, row.rung)
        stated = [float(n) for n in numbers]
        assert stated == pytest.approx([row.estimate, row.lower, row.upper], abs=2e-3)  # on another processor, too
    assert "better here" in said
    world, people = scope["world"], [(e.context, e.states[0]) for e in scope["log"]]
    gain = [world.values(scope["calls"], x)[0, s] - world.values(world.rule, x)[0, s] for x, s in people]
    assert np.mean(gain) == pytest.approx(-0.018, abs=5e-4)


def test_home_page_runs(tmp_path, monkeypatch, capsys):
    run_blocks("docs/index.md", 1, tmp_path, monkeypatch)
    said, page = capsys.readouterr().out, (ROOT / "docs" / "index.md").read_text()
    stated = {agent: float(n.replace(",", "")) for n, agent in re.findall(r"([\d,]+) for `([\w-]+)`", page)}
    seen = {agent: float(n) for agent, n in re.findall(r"^([\w-]+) +regret +(\d+)", said, re.MULTILINE)}
    assert seen == pytest.approx(stated, rel=0.1)  # another processor rounds differently
    gaps = [float(re.search(r"within ([\d.]+) of optimal", text)[1]) for text in (said, page)]
    assert gaps[0] == pytest.approx(gaps[1], abs=0.1)
    assert nr.load("agent.npz").episode == 1000


@pytest.mark.long
def test_new_agent_page_runs(tmp_path, monkeypatch, capsys):
    """The compiled agent of the page is its NumPy agent; ensembles of one fail where those of ten do not."""
    scope = run_blocks("docs/new-agent.md", 7, tmp_path, monkeypatch)
    said = capsys.readouterr().out
    assert float(re.search(r"largest difference (\S+)", said)[1]) < 1e-6
    alone, _, ten = (float(v) for v in re.findall(r"members: regret +(\d+)", said))
    assert ten < 0.5 * alone
    assert said.count("sets failed in 0 episodes") == 2
    assert "other assumptions than the world's" in said
    assert np.mean(scope["gaps"][-100:]) < 0.7 * np.mean(scope["gaps"][:100])
    assert {"ensemble.png", "ensemble.parquet"} <= {file.name for file in tmp_path.iterdir()}


def test_page_for_those_who_come_from_bandits_runs(tmp_path, monkeypatch, capsys):
    scope = run_blocks("docs/bandits.md", 3, tmp_path, monkeypatch)
    said = capsys.readouterr().out
    ours, chance = (float(v) for v in re.search(r"([\d.]+) a person, at random ([\d.]+)", said).groups())
    assert ours > chance + 0.05
    assert "from 12 weights" in said
    assert "plan.upper is at least the optimal value" in scope["careful"].guarantee


@pytest.mark.long
def test_gymnasium_page_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'noregret[gym]'")
    scope = run_blocks("docs/gymnasium.md", 6, tmp_path, monkeypatch)
    said = capsys.readouterr().out
    assert "the goal is reached within 30 steps with probability 0.348" in said
    assert "worth -13, the best is -13" in said
    assert scope["walked"].returns[-100:].mean() == 1.0


@pytest.mark.long
def test_live_use_runs(tmp_path, monkeypatch, capsys):
    scope = run_blocks("docs/live.md", 9, tmp_path, monkeypatch)
    said = capsys.readouterr().out
    assert "20 last rows without a next state dropped" in said
    assert {d.referred for d in scope["decisions"]} == {True, False}
    assert any(d.by_other and d.action != d.advice for d in scope["decisions"])
    assert len(scope["kept"]) == 90
    assert scope["kept"] == scope["decisions"]


def test_results_say_what_context_is_worth():
    value = nr.worlds.blind_optimum(nr.worlds.clinic())
    text = (ROOT / "docs" / "results.md").read_text()
    for number in (value.contextual, value.blind, value.uniform):
        assert f"{number:.3f}" in text


def imports(path):
    """Modules of the package that a file imports, as dotted names below noregret."""
    here = path.relative_to(PACKAGE).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - node.level]
            names = [node.module] if node.module else [alias.name for alias in node.names]
            for name in names:
                yield ".".join((*base, name))


def test_public_names_are_documented():
    for name in nr.__all__:
        assert getattr(nr, name).__doc__, name


@pytest.mark.long
def test_every_test_named_in_the_theory_exists():
    known = {
        node.name
        for file in (ROOT / "tests").glob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef)
    } | {file.stem for file in (ROOT / "tests").glob("test_*.py")}
    pages = [(ROOT / "docs" / name).read_text() for name in ("theory.md", "beyond.md", "joint.md")]
    named = [name for page in pages for name in re.findall(r"`(test_\w+)`", page)]
    assert len(named) > 40
    assert set(named) <= known


@pytest.mark.parametrize(
    "page", [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))], ids=lambda p: p.stem
)
def test_every_file_that_a_page_names_exists(page):
    for name in re.findall(r"`(?:noregret/)?([\w./-]+\.py|[a-z_]+/[a-z_/]*)`", page.read_text()):
        places = (ROOT / name, PACKAGE / name, *PACKAGE.rglob(name))
        made = name.split("/")[0] in ("results", "report", "site", "dist", "build", "cells", "failed", "checkpoints")
        assert made or any(place.exists() for place in places), name


def test_the_programme_of_the_page_about_the_service_is_right():
    """Its file is read as `noregret serve` would, and the demo's is the same clinic."""
    pytest.importorskip("msgspec", reason="the extra `serve` is not installed")
    import tomllib

    from noregret.cli.serve_demo import programme
    from noregret.service.programme_file import programme_from

    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "serve.md").read_text(), re.DOTALL)
    page, demo = (programme_from(tomllib.loads(t)) for t in (text, programme(nr.worlds.clinic())))
    assert page.made_problem().state_names == demo.made_problem().state_names == nr.worlds.clinic().problem.state_names
    assert np.array_equal(demo.made_problem().support, nr.worlds.clinic().problem.support)
    assert page.house == demo.house
