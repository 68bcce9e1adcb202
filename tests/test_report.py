"""The report of a study: its statistics against hand-worked examples, the page against a parser and a browser."""

import base64
import hashlib
import html
import itertools
import json
import os
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from noregret.report import data, drawing, paired, statistics, varied, write
from noregret.report.texts import interval, number
from noregret.verification.chance import allowed

pytestmark = pytest.mark.deep

# --- statistics


@pytest.mark.long
def test_intervals_cover_as_often_as_they_say():
    """Means of 8 normal values: they miss the truth in 5 to 6.5% of cases, within what 4000 repetitions allow (error
    1e-6 each way). The plain percentile interval misses it in 10% and is refused by the same limits."""
    rng, repetitions, n = np.random.default_rng(3), 4000, 8
    values = rng.standard_normal((n, repetitions))
    low, high = statistics.mean_interval(values)
    misses = int(((low > 0.0) | (high < 0.0)).sum())
    assert misses <= allowed(repetitions, 0.065)
    assert misses >= repetitions - allowed(repetitions, 1.0 - 0.05)
    plain = np.quantile(statistics.resamples(n) @ values, [0.025, 0.975], axis=0)
    assert int(((plain[0] > 0.0) | (plain[1] < 0.0)).sum()) > allowed(repetitions, 0.065)


def test_few_seeds_get_the_range_and_one_gets_none():
    values = np.array([1.0, 5.0, 2.0])
    assert [float(v) for v in statistics.mean_interval(values)] == [1.0, 5.0]
    assert all(np.isnan(v) for v in statistics.mean_interval(values[:1]))


def test_holm_against_a_worked_example():
    """p = 0.01, 0.04, 0.03, 0.005 (Holm 1979): 4 x 0.005, 3 x 0.01, 2 x 0.03, and 0.04 raised to 0.06."""
    made = statistics.holm(np.array([0.01, 0.04, 0.03, 0.005]))
    assert np.allclose(made, [0.03, 0.06, 0.06, 0.02], rtol=0, atol=1e-15)
    assert statistics.holm(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]


def test_sign_flips_against_enumeration_and_scipy():
    differences = np.array([[1.0, -1.0], [2.0, 0.5], [0.5, 0.25], [3.0, 0.0]])
    for j, ours in enumerate(statistics.sign_flip(differences)):
        d = differences[:, j]
        means = [abs(np.dot(signs, d)) for signs in itertools.product((1, -1), repeat=4)]
        assert ours == np.mean([m >= abs(d.sum()) - 1e-12 for m in means])
    assert statistics.sign_flip(differences)[0] == statistics.smallest_p(4) == 2 / 16
    x, y = np.random.default_rng(0).exponential(size=(2, 9))
    x += 0.4

    def mean(a, b, axis):
        return np.mean(a - b, axis=axis)

    theirs = stats.permutation_test((x, y), mean, permutation_type="samples", n_resamples=np.inf, vectorized=True)
    assert statistics.sign_flip((x - y)[:, None])[0] == pytest.approx(theirs.pvalue, abs=1e-12)


def test_random_sign_flips_reject_as_often_as_they_say():
    """20 seeds, too many for all flips: under the hypothesis p < 0.05 in 5% of 1000 tests (error 1e-6 each way)."""
    p = statistics.sign_flip(np.random.default_rng(5).standard_normal((20, 1000)))
    found = int((p < 0.05).sum())
    assert found <= allowed(1000, 0.05)
    assert 1000 - found <= allowed(1000, 0.95)
    assert statistics.sign_flip(np.ones((20, 1)))[0] == statistics.smallest_p(20)


def test_letters_are_shared_exactly_by_those_not_told_apart():
    different = np.zeros((4, 4), bool)
    for i, j in ((0, 2), (0, 3), (1, 3)):
        different[i, j] = different[j, i] = True
    assert statistics.letters(different) == ["a", "ab", "bc", "c"]
    assert statistics.letters(np.zeros((3, 3), bool)) == ["a", "a", "a"]
    rng = np.random.default_rng(1)
    for _ in range(30):
        m = int(rng.integers(2, 7))
        upper = np.triu(rng.random((m, m)) < 0.5, 1)
        made = statistics.letters(upper | upper.T)
        for i, j in itertools.combinations(range(m), 2):
            assert bool(set(made[i]) & set(made[j])) == (not upper[i, j])


def test_growth_of_exact_powers_and_what_is_not_one():
    episodes = np.arange(1, 1001) * 10
    for power in (0.3, 0.5, 0.7):
        made = statistics.growth(episodes, np.outer([1.0, 2.0, 3.0], episodes**power))
        assert made.kind == "power"
        assert made.value == pytest.approx(power, abs=1e-12)
        assert made.low == pytest.approx(power, abs=1e-12)
    linear = statistics.growth(episodes, np.outer([1.0, 2.0], episodes))
    assert (linear.kind, round(linear.value, 9)) == ("linear", 1.0)
    assert statistics.growth(episodes, np.full((3, 1000), 7.0)).kind == "flat"
    bent = np.where(episodes < 3000, episodes, 3000.0 * (episodes / 3000.0) ** 0.3)
    assert statistics.growth(episodes, np.outer([1.0, 1.1, 1.2], bent)).kind == "bends"
    for nothing in (np.zeros((2, 1000)), np.full((2, 1000), 1e-11)):
        made = statistics.growth(episodes, nothing)
        assert made.kind == "none"
        assert np.isnan([made.value, made.low, made.high]).all()
    one = statistics.growth(episodes, np.outer([2.0], episodes**0.5))
    assert one.value == pytest.approx(0.5)
    assert np.isnan(one.low)
    assert statistics.growth(np.array([100]), np.ones((2, 1))).kind == "few"


def test_scaling_of_exact_powers():
    sizes = np.array([2.0, 4.0, 8.0])
    luck = np.array([0.5, 1.0, 1.5, 3.0])
    for together in (True, False):
        made = statistics.scaling(sizes, [luck * s**1.5 for s in sizes], together)
        assert made.value == pytest.approx(1.5)
        assert made.off < 1e-12
        assert made.low <= 1.5 + 1e-12
        assert made.high >= 1.5 - 1e-12
    same = statistics.scaling(sizes, [luck * s**1.5 for s in sizes], True)
    assert same.high - same.low < 1e-9  # the same luck at every size cancels
    assert statistics.scaling(sizes[:2], [luck, luck], True).kind == "few"
    assert np.isnan(statistics.scaling(sizes, [luck, luck, 0.0 * luck], True).value)


def test_binomial_limit_against_its_definition():
    assert statistics.binomial_upper(0, 10) == pytest.approx(1.0 - 0.05**0.1)
    limit = statistics.binomial_upper(2, 30)
    assert stats.binom.cdf(2, 30, limit) == pytest.approx(0.05)
    assert statistics.binomial_upper(5, 5) == statistics.binomial_upper(0, 0) == 1.0


def test_numbers_are_written_with_three_digits():
    assert [number(v) for v in (0.0, 0.01234, 3.14159, 1234.5, 2.5e10, float("nan"))] == [
        "0", "0.0123", "3.14", "1,234", "2.50e10", "–",
    ]  # fmt: skip
    assert interval((9.9, 1234.4)) == "10 to 1,234"


# --- a study to report


@dataclass(frozen=True)
class Cell:
    world: str
    world_options: dict
    agent: str
    agent_options: dict
    seed: int
    episodes: int
    every: int = 10
    diagnostics: bool = True
    epsilon: float | None = None

    @property
    def id(self):
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Finished:
    id: str
    cell: Cell
    facts: dict
    columns: dict


class Results:
    name, title, description = "small", "Two <agents> & more", "What was asked.\n\nAnd why."
    command = "noregret study run studies/small.toml"
    claims = ({"agent": "glm-orl", "source": "Modi and Tewari 2020", "exponents": {"n_states": 1.5, "episodes": 0.5}},)

    def __init__(self, runs, failed=(), missing=(), folder="results"):
        self.runs, self.bad, self.left, self.folder = runs, list(failed), list(missing), Path(folder)

    def finished(self):
        return list(self.runs)

    def failed(self):
        return self.bad

    def missing(self):
        return self.left


# label -> name, options, scale, power, guarantee
AGENTS = {
    "glm-orl": ("glm-orl", {}, 2.0, 0.7, "With probability 0.95 the regret is bounded."),
    "certified-psrl": ("certified-psrl", {}, 0.5, 0.5, "Every plan comes with a certificate."),
    "epsilon-greedy": ("epsilon-greedy", {}, 0.5, 0.6, None),
    "uniform-random": ("uniform-random", {}, 0.4, 1.0, None),
    "oracle": ("oracle", {}, 0.0, 1.0, None),
}
TEAM = {"agent": {"name": "certified-psrl"}, "expert": {"name": "oracle"}, "criterion": "certificate"}
for limit in (0.5, 1.0, 2.0):
    AGENTS[f"certified-psrl, refers to oracle above {limit:g}"] = (
        "referral", TEAM | {"threshold": limit}, 0.2 * limit, 0.5, "Whoever is kept loses at most the threshold.",
    )  # fmt: skip


def finished(label, seed, states=4, K=2000, failing=0.0):
    name, options, scale, power, guarantee = AGENTS[label]
    g = np.random.default_rng([seed, states, sorted(AGENTS).index(label)])
    episodes = np.arange(10, K + 1, 10)
    regret = scale * states * g.uniform(0.8, 1.2) * episodes**power
    columns = {"episode": episodes, "regret": regret, "optimism_failures": 0.0 * regret, "steps": 4.0 * episodes}
    if guarantee:
        wide = episodes**0.5
        columns |= {"certificate": 3 * regret + wide, "transition_width": 4 * wide}
        columns |= {"certificate_failures": failing * episodes, "set_failures": failing * episodes}
        columns |= {"bound_from_returns": 4 * regret + 50, "bound_from_certificates": 3 * regret + wide}
        columns |= {"bound_from_bonuses": 12_000 * regret + 200_000}
    if name == "certified-psrl":
        columns["refused"] = np.round(0.1 * episodes)
    if name == "referral":
        share = 1.0 - options["threshold"] / 3.0
        columns |= {"referred": np.round(share * episodes), "kept_certificate": regret}
    cell = Cell("random-logit", {"n_states": states, "seed": seed}, name, options, seed, K)
    setting = "random-logit" + (f" n_states={states}" if states != 4 else "")
    problem = {"S": states, "A": 3, "H": 5, "d": 4, "link": "logit"}
    problem |= {"weight_bound": 2.0, "context_bound": 1.0, "reward_bound": 2.0**0.5}
    facts = {"label": label, "agent": name, "group": "GLM", "guarantee": guarantee, "setting": setting}
    facts |= {"problem": problem, "delta": 0.05 if guarantee else None, "version": "0.1.0", "machine": "x86_64"}
    return Finished(cell.id, cell, facts | {"seconds": 0.5 + seed, "date": "2025-11-16"}, columns)


def small(seeds=8, **rest):
    return Results([finished(label, seed) for label in AGENTS for seed in range(seeds)], **rest)


def large(seeds=3, sizes=(4, 5, 6, 8, 10, 12)):
    labels = ("glm-orl", "epsilon-greedy", "uniform-random")
    return Results([finished(label, seed, s) for s in sizes for label in labels for seed in range(seeds)])


def incomplete():
    left, broke = finished("glm-orl", 97).cell, finished("glm-orl", 98).cell
    return small(failed=[(broke.id, broke, "Traceback ...\nValueError: the link broke")], missing=[left])


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return write(incomplete(), tmp_path_factory.mktemp("report")).page


# --- how runs are arranged


def test_runs_become_settings_and_groups():
    places = data.settings([*large().finished(), *large().finished()[:3]])  # some twice
    assert [p.title for p in places][:2] == ["random-logit", "random-logit n_states=5"]
    assert [g.label for g in places[0].groups] == ["glm-orl", "epsilon-greedy", "uniform-random"]
    assert places[0].groups[0].regret.shape == (3, 200)
    (found,) = varied.scalings(places)
    (axis,) = found.axes
    assert (axis.variable, axis.values) == ("n_states", (4, 5, 6, 8, 10, 12))
    (team,) = varied.referrals(data.settings(small(2).finished()))
    assert team.thresholds == (0.5, 1.0, 2.0)
    assert (team.alone.label, team.expert_alone.label) == ("certified-psrl", "oracle")


def test_points_that_not_all_runs_have_are_left_out():
    one, two = finished("glm-orl", 0), finished("glm-orl", 1)
    thin = Finished(two.id, two.cell, two.facts, {k: v[4::5] for k, v in two.columns.items()})
    (place,) = data.settings([one, thin])
    assert place.groups[0].at.tolist() == list(range(50, 2001, 50))
    assert place.groups[0].regret[0, -1] == one.columns["regret"][-1]


def test_tests_find_what_is_there_and_say_when_they_cannot():
    (place,) = data.settings([finished(n, s) for n in ("glm-orl", "epsilon-greedy", "oracle") for s in range(8)])
    made = paired.compare(place)
    assert made.order == ["epsilon-greedy", "glm-orl"]
    assert made.marks == {"epsilon-greedy": "a", "glm-orl": "b"}
    assert made.pairs[0][5] == statistics.smallest_p(8) == 2.0**-7
    (few,) = data.settings([finished(n, s) for n in ("glm-orl", "epsilon-greedy") for s in range(5)])
    made = paired.compare(few)
    assert not made.possible  # 2^-4 is above 0.05
    assert made.marks == {}


# --- the page

VOID = {"meta", "br", "img", "link", "input", "hr", "line", "path", "use", "rect"}


class Reader(HTMLParser):
    """Tags in balance, ids, links, headings, tables."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.loads, self.headings, self.captions = [], [], [], [], [], 0
        self.tables, self.labels, self.bad = 0, [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        if tag == "a":
            self.links.append(found["href"])
        self.loads += [found[k] for k in ("src", "srcset", "data", "poster") if k in found]
        self.loads += [found["href"]] if tag in ("link", "image") else []
        self.headings += [int(tag[1])] if re.fullmatch("h[1-6]", tag) else []
        self.tables, self.captions = self.tables + (tag == "table"), self.captions + (tag == "caption")
        if found.get("role") == "img":
            self.labels.append(found.get("aria-label", ""))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.bad.append(tag)


@pytest.mark.long
def test_the_page_is_html_with_headings_in_order_captions_and_labels(page):
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    made = Reader(text)
    assert made.bad == []
    assert made.open == []
    assert len(made.ids) == len(set(made.ids))
    assert made.headings[0] == 1
    assert made.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(made.headings))
    assert made.captions == made.tables >= 5
    assert made.labels
    assert all(made.labels)
    assert "Two &lt;agents&gt; &amp; more" in text  # escaped, not interpreted


@pytest.mark.long
def test_nothing_is_loaded_from_elsewhere(page):
    text = page.read_text(encoding="utf-8")
    made = Reader(text)
    assert not [v for v in made.loads if not v.startswith("data:")]
    assert not re.findall(r"""(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}""", text)
    assert "@import" not in text
    assert not [v for v in re.findall(r"url\(([^)]*)\)", text) if not v.startswith("#")]
    folder = page.parent
    for link in made.links:
        if link.startswith("#"):
            assert link[1:] in made.ids, link
        elif not link.startswith("data:"):
            assert (folder / link).is_file(), link


def test_references_inside_drawings_exist(page):
    text = page.read_text(encoding="utf-8")
    ids = set(Reader(text).ids)
    used = re.findall(r'<use href="#([^"]+)"', text) + re.findall(r"url\(#([^)]+)\)", text)
    assert used
    assert set(used) <= ids


def test_every_number_leads_to_its_cells(page):
    text = page.read_text(encoding="utf-8")
    made = Reader(text)
    study = small()
    for run in study.finished():
        assert f"cell-{run.id}" in made.ids
        assert made.links.count(f"#cell-{run.id}") >= 2  # a row and a figure
    for figure in re.findall(r"<figure.*?</figure>", text, re.DOTALL):
        assert 'class="ids"' in figure
        (data_uri,) = re.findall(r'href="data:text/csv;base64,([^"]+)"', figure)
        assert base64.b64decode(data_uri).decode().startswith("panel,series,x,y,low,high\n")
    assert "noregret study run studies/small.toml --only CELL" in text


@pytest.mark.long
def test_the_page_says_what_was_found_and_no_more(page):
    text = html.unescape(re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8")))
    assert "1 of 66 cells failed" in text
    assert "ValueError: the link broke" in text
    assert "1 of 66 cells have not been run" in text
    assert "In random-logit, certified-psrl had the least regret of 4 agents after 2,000 episodes" in text
    assert re.search(r"plans refused.*?1,600", text, re.DOTALL)  # a tenth, of eight runs
    assert "a certificate was wrong in 0 of 80,000 episodes, in 0 of 40 runs" in text
    assert "linear so far" in text  # uniform play
    assert "no regret and cannot be drawn" in text  # the oracle
    assert "share a letter could not be told apart" in text
    few = html.unescape((write(small(3), page.parent / "few").page).read_text(encoding="utf-8"))
    assert "too few seeds for a test" in few
    assert "It differs significantly" not in few


@pytest.mark.long
def test_failures_of_guarantees_are_counted(tmp_path):
    runs = [finished("certified-psrl", s, failing=0.1 if s == 0 else 0.0) for s in range(4)]
    text = write(Results(runs), tmp_path).page.read_text(encoding="utf-8")
    assert "a certificate was wrong in 200 of 8,000 episodes, in 1 of 4 runs" in text
    assert f"{number(statistics.binomial_upper(1, 4), 2)}" in text


@pytest.mark.long
def test_many_settings_are_one_figure_and_folded_tables(tmp_path):
    made = write(large(), tmp_path)
    text = made.page.read_text(encoding="utf-8")
    assert {p.stem for p in made.figures} == {"regret", "scaling-1"}
    assert text.count('<details class="folded" id="regret-s') == 6
    assert "Modi and Tewari 2020" in text
    folded = Reader(text)
    assert folded.bad == []


@pytest.mark.long
@pytest.mark.deep
def test_the_same_results_give_the_same_bytes(page, tmp_path):
    left, broke = finished("glm-orl", 97).cell, finished("glm-orl", 98).cell
    again = write(
        small(failed=[(broke.id, broke, "Traceback ...\nValueError: the link broke")], missing=[left]), tmp_path
    )
    assert again.page.read_bytes() == page.read_bytes()
    for one in again.figures:
        assert one.read_bytes() == (page.parent / "figures" / one.name).read_bytes(), one.name


@pytest.mark.long
@pytest.mark.deep
def test_one_seed_one_agent_and_nothing_but_an_oracle(tmp_path):
    for runs in ([finished("glm-orl", 0)], [finished("oracle", 0)], [finished("oracle", s) for s in range(2)]):
        assert Reader(write(Results(runs), tmp_path).page.read_text(encoding="utf-8")).bad == []
    with pytest.raises(ValueError, match="no finished cells to report"):
        write(Results([]), tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.long
@pytest.mark.deep
def test_heavy_figures_are_shown_as_images(tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "HEAVY", 1000)
    text = write(small(2), tmp_path).page.read_text(encoding="utf-8")
    assert 'src="data:image/png;base64,' in text


def test_a_line_that_another_one_hides_shows_as_dashes_on_it():
    drawn = drawing.Drawing(1, 1, "two")
    x = np.arange(1.0, 50.0)
    low, high = drawing.Look(drawing.COLOURS[0]), drawing.Look(drawing.COLOURS[1])
    for name, y, look in (("one", x, low), ("two", np.minimum(x, 30.0), high), ("three", 60.0 - x, high)):
        drawn.curve(drawn.axes[0], name, drawing.Curve(x, y), look)
    drawn._finish()
    *first, dashes = drawn.axes[0].lines
    assert len(first) == 3
    assert dashes.get_color() == low.colour
    assert np.isfinite(dashes.get_ydata()).tolist() == (x <= 30.0).tolist()


# --- from the command line


@pytest.mark.long
def test_the_command_reports_a_study_that_was_run(tmp_path, monkeypatch):
    """From a study file over results in a folder to the page, with the package's own results instead of the fake."""
    pytest.importorskip("noregret.studies")
    from typer.testing import CliRunner

    from noregret.cli import app

    text = """
name = "tiny"
title = "A tiny study"
episodes = 40
seeds = 2
points = 20

[[worlds]]
name = "random-logit"
n_states = 3
seed = "run"

[[agents]]
name = "uniform-random"

[[agents]]
name = "oracle"
"""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOREGRET_QUIET", "1")
    Path("tiny.toml").write_text(text)
    runner = CliRunner()
    assert runner.invoke(app, ["study", "run", "tiny.toml", "--workers", "1"]).exit_code == 0
    for what, where in (("tiny.toml", "results/tiny/report"), ("results/tiny", "elsewhere")):
        done = runner.invoke(app, ["report", what, *([] if "report" in where else ["--out", where])])
        assert done.exit_code == 0, done.output
        page = Path(where, "report.html").read_text(encoding="utf-8")
        assert "A tiny study" in page
        assert "noregret study run tiny.toml --only CELL" in page
        assert Reader(page).bad == []
        files = re.findall(r"cells/[0-9a-f]{16}\.parquet", page)
        assert len(files) == 4
        assert all(Path("results/tiny", file).is_file() for file in files)
    assert Path("elsewhere/report.html").read_bytes() == Path("results/tiny/report/report.html").read_bytes()


# --- in a browser

CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
QUIET = "--no-first-run --disable-background-networking --disable-component-update --disable-sync --disable-quic"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", *QUIET.split(" ")]
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium found: the page is not looked at in a browser")

MEASURE = """<!DOCTYPE html><meta charset="utf-8"><body>%s<pre id="said"></pre><script>
addEventListener("load", () => {
  const said = [...document.querySelectorAll("iframe")].map(frame => {
    const d = frame.contentDocument, w = frame.contentWindow, root = d.documentElement;
    const shown = [...d.querySelectorAll(".panels svg")].map(s => s.getBoundingClientRect());
    return {width: w.innerWidth, scroll: root.scrollWidth, panels: shown.length,
            least: Math.min(...shown.map(b => Math.min(b.width, b.height))),
            cut: Math.max(...[...d.querySelectorAll(".scroll")].map(s => s.scrollWidth - s.clientWidth)),
            ink: w.getComputedStyle(d.querySelector(".panels text")).fill,
            paper: w.getComputedStyle(d.body).backgroundColor,
            loaded: w.performance.getEntriesByType("resource").length};
  });
  document.getElementById("said").textContent = JSON.stringify(said);
});
</script>"""


def browse(tmp_path, text, *flags):
    """What the page measures at several widths, in frames of a wrapper that chromium loads from a file."""
    frames = "".join(
        f'<iframe width="{w}" height="800" srcdoc="{html.escape(text, quote=True)}"></iframe>' for w in (375, 768, 1280)
    )
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(MEASURE % frames, encoding="utf-8")
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [CHROMIUM, *FLAGS, profile, *flags, "--dump-dom", wrapper.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=os.environ)
    found = re.search(r'<pre id="said">(\[.*?\])</pre>', done.stdout, re.DOTALL)
    if found is None:
        pytest.skip(f"chromium did not render the page here: {done.stderr[-300:]}")
    return json.loads(html.unescape(found[1]))


def channels(colour):
    return [int(v) for v in re.findall(r"\d+", colour)[:3]]


@pytest.mark.long
@needs_browser
def test_in_a_browser_the_page_fits_narrow_screens_and_turns_dark(page, tmp_path):
    text = page.read_text(encoding="utf-8")
    light = browse(tmp_path, text)
    assert [m["width"] for m in light] == [375, 768, 1280]
    for made in light:
        assert made["scroll"] <= made["width"]
        assert made["panels"] > 8
        assert made["least"] > 120  # pixels: every panel is there and large enough to read
        assert made["loaded"] == 0
        assert min(channels(made["paper"])) > 240
        assert max(channels(made["ink"])) < 60
    assert light[2]["cut"] <= 0  # no table of the page needs scrolling on a screen of 1280
    dark = browse(tmp_path, text, "--blink-settings=preferredColorScheme=0")
    for made in dark:
        assert max(channels(made["paper"])) < 40
        assert min(channels(made["ink"])) > 200
        assert made["scroll"] <= made["width"]


@pytest.mark.long
@needs_browser
def test_in_a_browser_the_page_prints(page, tmp_path):
    target = tmp_path / "page.pdf"
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [CHROMIUM, *FLAGS, profile, f"--print-to-pdf={target}", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if not target.is_file():
        pytest.skip(f"chromium did not print here: {done.stderr[-300:]}")
    assert target.read_bytes().startswith(b"%PDF")
    assert target.stat().st_size > 50_000


if __name__ == "__main__":  # how long 200 cells with diagnostics take, in four settings, each with figures of its own
    import tempfile
    import time

    runs = [finished(n, seed, states, 4000) for states in (4, 5, 6, 8) for n in list(AGENTS)[:5] for seed in range(10)]
    begun, used = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        figures = write(Results(runs), folder).figures
    wall, used = time.perf_counter() - begun, time.process_time() - used
    print(f"{len(runs)} cells, {len(figures) // 3} figures: {wall:.1f} s, {used:.1f} s of processor time")
