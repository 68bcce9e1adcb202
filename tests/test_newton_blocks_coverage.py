"""Online Newton sets of blocks contain the truth as often as they claim: delta = 0.3, the truth on the boundary of what
is assumed, contexts random, one alone, in turn, growing, and by an adversary who sees the learner."""

import numpy as np
import pytest
from scipy.stats import binom

import noregret as nr
from noregret.compiler.jit import direct
from noregret.estimators.likelihood.shared import look_at
from noregret.estimators.newton.shared import CENTRED, FISHER, newton_visit, shared_newton_parts
from test_shared_coverage import DELTA, KINDS, visits

LOG = float(np.log(1.0 / DELTA))
SIZES = [(3, 2, 4, 2), (5, 1, 2, 2)]  # as many features as predictions or more; fewer
SETS = [(CENTRED, np.inf), (FISHER, np.inf), (FISHER, LOG)]
SET_NAMES = ["centred", "fisher", "fisher, delta known"]


def largest_ratio(kind, seed, steps, size, bound, form, log, lam=None):
    """The largest squared distance over radius of a run."""
    g = np.random.default_rng(seed)
    S, A, q, d = size
    design = nr.Design(g.standard_normal((S, A, S, q)) / np.sqrt(q), bound)
    p = nr.Problem(S, A, 2, d, design=design, reward_bound=1.0)
    blocks = p.blocks
    theta = g.standard_normal(int(blocks.start[0, -1]))
    theta *= bound / np.linalg.norm(theta)
    par, state, work = shared_newton_parts(blocks, p.layout, p.weight_bound, 1.0, form, log, lam)
    worst = 0.0
    learn = direct(newton_visit, par, state, work, 0, 0, 0, np.zeros(d))
    look = direct(look_at, par, state, work, 0, np.zeros(d))
    known = lambda one: look(par, state, work, 0, one) or work.B[0]  # noqa: E731
    for s, a, x, y in visits(kind, g, steps, blocks, theta, known):
        learn(par, state, work, s, a, y, x)
        gap, radius = state.weights[0] - theta, state.radius[0] + par.log_weight * LOG
        worst = max(worst, gap @ state.gram[0] @ gap / radius if radius > 0.0 else np.inf)
    return worst


def ratios(runs, first, *args):
    return np.array([largest_ratio(args[0], first + seed, *args[1:]) for seed in range(runs)])


def allowed(runs):
    """More failures than this have probability 1e-4 where each run fails with probability delta."""
    return int(binom.isf(1e-4, runs, DELTA))


@pytest.mark.study(first=4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("form", "log"), SETS, ids=SET_NAMES)
def test_newton_sets_of_blocks_cover(kind, form, log):
    for size in SIZES:
        found = ratios(25, 0, kind, 100, size, 1.5, form, log)
        assert (found > 1.0).sum() <= allowed(25)
        assert found.max() > 0.02  # not vacuously large


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES, ids=["predictions", "features"])
@pytest.mark.parametrize("bound", [0.5, 2.0, 6.0])
@pytest.mark.parametrize(("form", "log"), SETS, ids=SET_NAMES)
def test_newton_sets_of_blocks_cover_in_many_runs(kind, size, bound, form, log):
    found = ratios(200, 1000, kind, 150, size, bound, form, log)
    print(f"{kind}, {size}, bound {bound:g}: {(found > 1.0).sum()} of 200, largest ratio {found.max():.3f}")
    assert (found > 1.0).sum() <= allowed(200)


@pytest.mark.parametrize("form", [CENTRED, FISHER], ids=["centred", "fisher"])
def test_the_experiment_would_notice_a_radius_that_is_too_small(form):
    """A few features, much data at one context, little regularisation: the set passes, and a tenth of its radius does
    not."""
    found = ratios(60, 0, "fixed", 150, (3, 2, 1, 1), 1.0, form, np.inf, 0.02)
    assert (found > 1.0).sum() <= allowed(60)
    assert (10.0 * found > 1.0).sum() > allowed(60)
