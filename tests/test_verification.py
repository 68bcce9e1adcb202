"""`noregret verify`: it finds what is wrong, and says so by its exit status."""

import csv
from functools import partial

import numpy as np
import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

from noregret.cli import app
from noregret.report.run_figures import scaling_figure
from noregret.verification import coverage, promises, radii, scaling, suite
from noregret.verification.errata import CHECKS, Finding
from test_cli import noregret, refused

pytestmark = pytest.mark.deep

SMALL = suite.Effort(60, 40, ((3, 2, 1.0),), (None,), 4, 100, 2, (500,))


def rows_of(folder):
    with open(folder / "verify.csv", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(suite, "QUICK", SMALL)
    monkeypatch.setattr(suite, "set_rows", lambda effort, done, match="": [])
    monkeypatch.setattr(promises, "PLAYS", (("newton", "logit"), ("conversion ftrl", "linear adversary")))
    monkeypatch.setattr(promises, "CERTIFIED_PLAYS", (("CertifiedPSRL", "logit"),))


def run(*args):
    return CliRunner().invoke(app, ["verify", *map(str, args)], env={"COLUMNS": "120"})


@pytest.mark.long
def test_verify_writes_a_table_and_ends_well(small, tmp_path):
    done = run("--only", "agents, errata", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    rows = rows_of(tmp_path)
    assert {row["section"] for row in rows} == {"agents", "errata"}
    assert sum(row["section"] == "errata" for row in rows) == len(CHECKS)
    assert all(row["holds"] == "True" for row in rows)
    assert done.stdout.splitlines()[0] == f"all {len(rows)} advertised claims held"
    assert "GLM-ORL, conversion ftrl" in done.output
    assert "CertifiedPSRL" in done.output
    assert f"{len(CHECKS)} checks" in done.output


def test_a_broken_guarantee_shows_in_the_exit_status(small, tmp_path, monkeypatch):
    """Sets with a hundredth of their radius, through the whole command."""
    kind = coverage.KINDS[0]

    def narrow(*args, **rest):
        est = kind.make(*args, **rest)
        est.__class__ = type(
            "Narrow", (type(est),), {"radius": property(lambda self: 0.01 * super(type(self), self).radius)}
        )
        return est

    broken = kind._replace(make=narrow)
    monkeypatch.setattr(suite, "KINDS", (broken,))
    monkeypatch.setattr(
        suite, "set_rows", lambda effort, done, match="": suite._set_row(broken.name, "random", 60, 40, 3, 2, 1.0, None)
    )
    done = run("--only", "sets", "--out", tmp_path)
    assert done.exit_code == 1
    assert "fails sets: Theorem A, logit" in done.output
    assert rows_of(tmp_path)[0]["holds"] == "False"


@pytest.mark.long
def test_an_erratum_that_turns_out_wrong_shows_in_the_exit_status(small, tmp_path, monkeypatch):
    monkeypatch.setitem(CHECKS, "value-clip", lambda: Finding(15, "", "error", True, True, "the printed clip is fine"))
    done = run("--only", "errata", "--out", tmp_path)
    assert done.exit_code == 1
    assert "fails errata: value-clip" in done.output


def test_optimism_that_fails_shows(monkeypatch):
    """An agent that advertises a guarantee and has none: bonuses of a hundredth."""
    monkeypatch.setattr(promises, "_options", lambda confidence, world: {"bonus_scale": 0.01})
    monkeypatch.setattr(promises.GLMORL, "regret_delta", 0.01, raising=False)
    init = promises.GLMORL.__init__

    def lying(self, *args, **options):
        init(self, *args, **options)
        self.regret_delta = 0.01

    monkeypatch.setattr(promises.GLMORL, "__init__", lying)
    found = promises.optimism("newton", "logit", 20, 500)
    assert found.refuted > 0
    assert not found.holds


@pytest.mark.long
def test_certificates_that_fail_show(monkeypatch):
    """Sets a third as large as they should be, and bounds without their bonuses: more failures than delta allows, and
    certificates that are wrong although the sets, as checked, held."""

    class Narrow(promises.LRORL):
        def _shares(self):
            return -0.85, 0.01

    monkeypatch.setitem(promises.CERTIFIED, "LR-ORL", lambda p: Narrow(p, delta=0.3))
    found = promises.certified("LR-ORL", "logit", 20, 400)
    assert found.failures > 15
    assert not found.holds

    class Forgetful(promises.LRORL):
        def build(self):
            par, state, work = super().build()
            return par._replace(scale=0.0), state, work

    monkeypatch.setitem(promises.CERTIFIED, "LR-ORL", lambda p: Forgetful(p, delta=0.3))
    found = promises.certified("LR-ORL", "logit", 4, 100)
    assert found.refuted > 0
    assert not found.holds


@pytest.mark.long
def test_sets_run_on_several_processes():
    """The same rows as one after the other."""
    effort = SMALL._replace(runs=5, steps=5)
    ticks = []
    assert len(suite.set_jobs(effort)) == len(coverage.KINDS) * 5 + len(suite.REWARD_KINDS) * 4
    jobs = suite.set_jobs(effort, "Theorem A")
    rows = suite.set_rows(effort, lambda: ticks.append(1), "Theorem A", workers=2)
    assert len(rows) == len(ticks) == len(jobs) > 4
    assert repr(rows[0]) == repr(jobs[0]()[0])


def test_the_corrected_sets_are_much_smaller():
    """At least 100 times on logit S=5 d=4, 20 times on linear, in units both share."""
    for model, wanted, steps in (("logit", 100.0, 2000), ("linear", 20.0, 1000)):
        rows = {row.name: row for row in radii.radius_rows(model, wanted, steps, runs=3)}
        for name in ("radius / kappa", "squared width", "looseness"):
            assert rows[name].measured >= wanted
            assert rows[name].holds


@pytest.mark.long
def test_the_sparse_learner_has_the_narrower_set():
    """worlds.sparse_logit, d = 32, p = 2, the same delta and lambda: regret bound and squared width below those of the
    online Newton step as a learner, in every one of three worlds."""
    rows = radii.sparsity_rows(5000, seeds=3)
    assert all(row.measured > 1.0 for row in rows if row.advertised)


@pytest.mark.long
def test_scaling_and_its_figure(tmp_path, monkeypatch):
    monkeypatch.setattr(scaling, "BASE", scaling.BASE | {"episodes": 400})
    monkeypatch.setattr(scaling, "FACTORS", {name: (1, 2) for name in scaling.FACTORS})
    points = list(scaling.points("linear", 3))
    assert len(points) == scaling.count()
    uniform = [p for p in points if p.agent == "uniform play" and p.variable == "episodes"]
    slope, error = scaling.exponent(uniform)
    assert slope == pytest.approx(0.5, abs=0.05 + 4 * error)
    assert all((p.regret > 0).all() for p in points)
    rows = suite.scaling_rows(points)
    assert len(rows) == len(scaling.AGENTS) * len(scaling.SYMBOLS)
    scaling_figure(points, tmp_path / "scaling.png")
    image = imread(tmp_path / "scaling.png")
    assert image.shape[0] > 300
    assert np.ptp(image[..., :3]) > 0.5


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--only", "set"], "unknown section 'set'; did you mean sets"),
        (["--only", ","], "only must name at least one section"),
        (["--runs", "-1"], "runs must be an integer of at least 0, got -1"),
        (["--match", "theorem z"], "match must be part of a set's name (Theorem A, logit; "),
    ],
)
def test_mistakes_of_verify(tmp_path, args, message):
    refused(noregret("verify", *args, cwd=tmp_path, check=False), message, tmp_path)


@pytest.mark.long
def test_match_and_runs_choose_the_experiments(tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "QUICK", SMALL._replace(steps=20))
    monkeypatch.setattr(suite, "set_rows", partial(suite.set_rows, workers=1))
    done = run("--only", "sets", "--match", "Theorem A", "--runs", 7, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    rows = rows_of(tmp_path)
    assert [row["name"] for row in rows] == ["Theorem A, logit"] * len(coverage.CONTEXTS)
    assert {row["note"] for row in rows} == {"7 runs of 20"}
