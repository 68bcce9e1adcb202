"""The standings of `noregret frontier`, and its figure."""

import math

import numpy as np
import pytest
from matplotlib.image import imread

import noregret as nr
from noregret.report import run_figures
from noregret.verification.frontier import AGENTS, Standing, frontier, maker, population


def standing(label, kappa, family, regret, certificate):
    """Of two worlds and three points."""
    rows = np.outer([0.9, 1.1], np.array([0.5, 0.8, 1.0]))
    return Standing(
        label, label, kappa, family, np.array([10.0, 20.0, 30.0]), regret * rows, certificate / rows,
        np.full((2, 3), math.nan), 0, 0, 1.0,
    )  # fmt: skip


def test_a_standing_is_of_the_last_episodes():
    """Certificates over the last twentieth, here the last point, and the regret at the end, world by world."""
    one = standing("a", 1.0, "a", 100.0, 0.5)
    assert one.final.tolist() == pytest.approx([90.0, 110.0])
    assert one.last.tolist() == pytest.approx([0.5 / 0.9, 0.5 / 1.1])
    assert one.last_certificate == pytest.approx(one.last.mean())


def test_agents_that_differ_in_kappa_alone_are_a_family():
    made = list(frontier(1, 40, agents=[maker("certified-psrl", kappa=k) for k in (4.0, 0.5)] + [maker("lr-orl")]))
    assert [s.kappa for s in made[:2]] == [4.0, 0.5]
    assert made[0].family == made[1].family != made[2].family
    assert math.isnan(made[2].kappa)
    world = population(0)
    assert made[0].final[0] == nr.simulate(nr.CertifiedPSRL(world.problem, kappa=4.0), world, 40, [0]).final[0]


def test_the_figure_has_a_shade_for_every_kappa_and_colours_for_the_others(tmp_path, monkeypatch):
    """The darker the stricter; the third panel has a point for everyone with certificates, a line for the rest,
    unless it is far above."""
    family = [standing(f"k{k}", k, "gate", 300.0 / (1 + k), 0.3 * (1 + k)) for k in (0.1, 0.5, 4.0)]
    made = [
        *family,
        standing("alone", math.nan, "alone", 500.0, 0.4),
        standing("none", math.nan, "none", 150.0, math.nan),
        standing("far", math.nan, "far", 5000.0, math.nan),
    ]
    own = run_figures._looks(made)
    assert len({look.colour for look in own.values()}) == 6
    brightness = [sum(int(own[s.label].colour[i : i + 2], 16) for i in (1, 3, 5)) for s in family]
    assert brightness == sorted(brightness)
    seen = []
    monkeypatch.setattr(
        run_figures.Drawing, "level", lambda self, axes, series, value, look: seen.append((series, value))
    )
    drawn = []
    draw = run_figures.Drawing.draw
    monkeypatch.setattr(run_figures.Drawing, "draw", lambda self, path: (drawn.append(self), draw(self, path)))
    run_figures.frontier_figure(made, tmp_path / "frontier.png")
    assert seen == [("none", pytest.approx(150.0))]
    right = drawn[0].axes[2]
    points = [(line.get_xdata()[0], line.get_ydata()[0]) for line in right.lines if line.get_marker() == "o"]
    assert np.allclose(sorted(points), sorted((s.last_certificate, s.final.mean()) for s in made[:4]))
    assert [text.get_text() for text in right.texts] == ["kappa 0.1", "kappa 0.5", "kappa 4"]
    assert np.ptp(imread(tmp_path / "frontier.png")[..., :3]) > 0.5


def test_the_rows_are_the_defaults_and_every_kappa_with_stored_sets():
    made = [make(population(0)) for make in AGENTS]
    plain = {agent.name for agent in made if not agent.label.endswith(")")}
    assert plain == {"glm-orl", "lr-orl", "certified-psrl", "psrl-glm"}
    stored = [agent for agent in made if agent.options.get("sets") == "stored"]
    assert [agent.options["kappa"] for agent in stored[:-1]] == [4.0, 0.5, 0.25, 0.1]
    assert stored[-1].name == "lr-orl"
    assert all(agent.par.close for agent in stored)
