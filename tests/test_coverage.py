"""Statistical checks of what is advertised. Fixed seeds; error probabilities are computed, not guessed.

A set that fails with probability at most DELTA in each of N independent runs fails in more than `allowed(N)` of them
with probability below 1e-6. DELTA is large so that a wrong constant would show.
"""

import numpy as np
import pytest
from scipy import stats

import noregret as nr
from noregret.verification import chance, promises
from noregret.verification.coverage import DELTA, KINDS, coverage, draw_outcome, draw_truth, next_context

pytestmark = pytest.mark.deep

KIND = {kind.name: kind for kind in KINDS}
A, B = KIND["Theorem A, logit"], KIND["Theorem B, linear"]


def allowed(runs):
    return chance.allowed(runs, DELTA)


def test_allowed_is_the_binomial_quantile():
    for runs, rate, error in ((200, 0.3, 1e-6), (40, 0.05, 1e-3), (1000, 0.841, 1e-6), (3, 0.3, 0.5)):
        assert chance.allowed(runs, rate, error) == stats.binom.isf(error, runs, rate)


@pytest.mark.study(first=4)
@pytest.mark.parametrize("share", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("kind", "m", "d", "bound", "how", "regularization", "runs"),
    [
        (A, 3, 2, 1.0, "random", None, 250),
        (A, 2, 2, 1.0, "one", None, 400),
        (A, 4, 3, 2.0, "cycle", None, 200),
        (A, 3, 2, 1.5, "worst", None, 200),
        (B, 4, 3, 1.0, "random", None, 250),
        (B, 3, 2, 1.0, "worst", None, 200),
        (B, 2, 2, 1.0, "cycle", 0.01, 250),
        *((kind, 3, 2, 1.0, how, None, 200) for kind in KINDS[2:12] for how in ("worst", "lengths")),
    ],
    ids=lambda v: v.name if hasattr(v, "name") else str(v),
)
def test_confidence_set_covers(kind, m, d, bound, how, regularization, runs, share):
    """Every advertised set contains its truth at every t, as often as it claims: a quarter of the runs, or all."""
    runs //= share
    found = coverage(kind, how, runs, 250, m, d, bound, regularization)
    assert kind.advertised
    assert found.failures <= allowed(runs)
    assert found.holds
    assert found.ratios.max() > 0.05  # the set is not vacuously large: the printed one is below 0.04 everywhere


def without_log(kind):
    """The same kind of set, its radius without the ln(1/delta) term."""

    def make(*args, **rest):
        est = kind.make(*args, **rest)
        est.delta = 1.0
        return est

    return kind._replace(make=make)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "m", "d", "mutants"),
    [
        (B, 5, 3, ("without_log", "halved")),
        (B, 2, 2, ("without_log",)),
        (A, 2, 2, ("without_log",)),
        (A, 5, 3, ("halved",)),
        (KIND["logistic rewards"], 1, 2, ("without_log",)),
        (KIND["Theorem B, own link"], 3, 2, ("without_log",)),
    ],
    ids=lambda v: v.name if hasattr(v, "name") else str(v),
)
def test_coverage_would_notice_a_wrong_radius(kind, m, d, mutants):
    """The same experiment where it has power: the set passes; without its ln(1/delta) term, or halved, it does not."""
    size = m, d, 1.0, 0.01
    found = coverage(kind, "cycle", 200, 300, *size)
    assert found.holds
    if "halved" in mutants:
        assert (2.0 * found.ratios > 1.0).sum() > allowed(200)
    if "without_log" in mutants:
        assert coverage(without_log(kind), "cycle", 200, 300, *size).failures > allowed(200)


@pytest.mark.long
def test_widths_cover_where_the_sets_do():
    """The 1-norm width at a new context, for Theorems A and B, whenever the set holds at the end."""
    for kind in (A, B):
        for run in range(100):
            g = np.random.default_rng(run)
            W = draw_truth(kind.model, 4, 3, 1.0, g)
            est = kind.make(4, 3, 1.0 if kind is A else None, W, delta=DELTA, regularization=None)
            for t in range(200):
                x = next_context("random", kind is B, est, t, 3, g)
                est.update(x, draw_outcome(kind.model, W @ x, g))
            error = est.weights - (W if kind is B else W - W.mean(0))
            x = next_context("random", kind is B, est, 0, 3, g)
            p = W @ x if kind is B else np.exp(W @ x)
            if np.sum((error @ est.gram) * error) <= est.radius:
                assert np.abs(est.probabilities(x) - p / p.sum()).sum() <= est.l1_width(x) + 1e-12


@pytest.mark.long
@pytest.mark.parametrize(("confidence", "world"), [play for play in promises.PLAYS if play[0] == "newton"])
def test_optimism_never_fails_where_the_sets_held(confidence, world):
    """GLM-ORL at delta = 0.3: the sets of all pairs hold in all episodes at least as often as claimed, wherever they
    hold the planned values are above the optimal ones at every step and state, and the regret stays below both bounds
    that the run adds up itself."""
    found = promises.optimism(confidence, world, 40, 3000)
    assert found.refuted == 0
    assert found.failures <= allowed(40)
    assert found.holds
    assert found.worst > 0.05
    assert 1.0 < found.slack < 100.0


def test_the_check_would_notice_bonuses_that_are_too_small():
    """Bonuses scaled to nearly nothing must show as optimism failures."""
    world = promises.WORLDS["logit"]()
    run = nr.simulate(nr.GLMORL(world.problem, bonus_scale=0.01), world, 500, 4, every=500, diagnostics=True)
    assert (run.diagnostics["optimism_failures"][:, -1] > 100).all()


@pytest.mark.long
def test_glm_orl_is_sublinear_on_random_linear_worlds():
    """Growth exponent of the regret between K/10 and K, over 12 runs (3 worlds x 4 seeds), K = 60,000.

    Linear regret has exponent 1. If the runs' exponents are about normal with mean 0.75 or more, the mean of 12 lies
    more than five estimated standard errors below 0.75 with probability below 3e-4 (Student's t, 11 degrees).
    And the last tenth's regret per episode is at most a tenth of uniform play's."""
    exponents, shares = [], []
    for seed in range(3):
        world = nr.worlds.random_linear(3, 2, 3, 2, seed=seed)
        run = nr.simulate(nr.GLMORL(world.problem), world, 60_000, 4, every=6000)
        floor = nr.simulate(nr.UniformRandom(world.problem), world, 6000, 4, every=6000)
        exponents += list(np.log10(run.regret[:, -1] / run.regret[:, 0]))
        shares += list(run.late / (floor.final / 6000))
    e = np.array(exponents)
    assert e.mean() + 5 * e.std(ddof=1) / np.sqrt(len(e)) < 0.75
    assert max(shares) < 0.1


@pytest.mark.parametrize("world", ["logit", "linear"])
def test_perturbed_planning_is_optimistic_often_enough(world):
    """GLM-RLSVI: given the sets hold, V_bar_1 >= V*_1 with probability at least F(-1) = 0.1587 in every episode. Over
    1000 episodes the number of others is stochastically at most binomial; above the 1e-6 quantile is an error."""
    found = promises.perturbed(world, 1000)
    assert found.claimed == pytest.approx(stats.norm.cdf(1.0))
    assert found.failures <= stats.binom.isf(1e-6, 1000, stats.norm.cdf(1.0))
    assert found.holds
