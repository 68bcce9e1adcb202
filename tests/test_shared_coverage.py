"""Sets of blocks contain the truth at all times together: delta = 0.3, five kinds of contexts, the bound reached.

A set may miss in a share delta of the runs. With n runs more than c of them are unlikely, where the chance that a
binomial (n, 0.3) variable exceeds c is below 1e-4; c is computed (`scipy.stats.binom`), so the tests' own chance to
fail by bad luck is at most 1e-4 each, and less at fixed seeds."""

import numpy as np
import pytest
from scipy.stats import binom

import noregret as nr
from noregret.compiler.jit import direct
from noregret.estimators.likelihood.shared import look_at, natural_regularization, shared_parts
from noregret.estimators.likelihood.shared_visit import learn_shared
from noregret.estimators.rewards.forms import reward_parts, with_kernels
from noregret.estimators.rewards.shared import learn_lifted, ranges_lifted

DELTA = 0.3
KINDS = ("sphere", "fixed", "cycling", "growing", "adversary")


def context(kind, g, t, d, known):
    if kind == "fixed":
        return np.full(d, 1.0 / np.sqrt(d))
    if kind == "cycling":
        return np.eye(d)[t % d]
    x = g.standard_normal(d)
    x /= np.linalg.norm(x)
    if kind == "growing":
        return x * min(1.0, (t + 1) / 100.0)
    if kind == "adversary":  # the one of several about whom the set knows least
        tried = g.standard_normal((6, d))
        tried /= np.linalg.norm(tried, axis=1, keepdims=True)
        return tried[int(np.argmax([np.trace(known(one)) for one in tried]))]
    return x


def visits(kind, g, steps, blocks, theta, known):
    """(s, a, x, y) of so many visits to the one block with weights theta: pairs are chosen by chance or by turns,
    contexts by kind; known(x): what the set has yet to learn there, for the adversary."""
    (S, A), d = blocks.block.shape, theta.size // blocks.features.shape[3]
    Theta = theta.reshape(-1, d)
    for t in range(steps):
        s, a = (int(g.integers(S)), int(g.integers(A))) if kind != "fixed" else (0, t % A)
        x = context(kind, g, t, d, known)
        z = blocks.features[s, a] @ Theta @ x
        prob = np.exp(z - z.max())
        yield s, a, x, int(g.choice(S, p=prob / prob.sum()))


def missed(kind, seed, steps, features, bound):
    """Whether the set of a block misses its theta* at any time; pairs are chosen by turns, or by the adversary."""
    g = np.random.default_rng(seed)
    S, A, q, d = features
    design = nr.Design(g.standard_normal((S, A, S, q)), bound)
    p = nr.Problem(S, A, 2, d, design=design, reward_bound=1.0)
    blocks = p.blocks
    theta = g.standard_normal(int(blocks.start[0, -1]))
    theta *= bound / np.linalg.norm(theta)
    lam = 4.0 * natural_regularization(blocks)
    par, state, work = shared_parts(blocks, p.layout, p.weight_bound, np.log(1.0 / DELTA), lam)
    learn = direct(learn_shared, par, state, work, 0, 0, 0, np.zeros(d))
    look = direct(look_at, par, state, work, 0, np.zeros(d))
    known = lambda one: look(par, state, work, 0, one) or work.B[0]  # noqa: E731
    for s, a, x, y in visits(kind, g, steps, blocks, theta, known):
        learn(par, state, work, s, a, y, x)
        gap = state.weights[0] - theta
        if gap @ state.gram[0] @ gap > state.radius[0] * (1.0 + 1e-9):
            return True
    return False


def allowed(runs):
    return int(binom.isf(1e-4, runs, DELTA))


@pytest.mark.study(first=2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(3, 2, 4, 2), (5, 1, 2, 2)], ids=["predictions", "features"])
def test_block_sets_cover(kind, size):
    """(3, 2, 4, 2): as many features as predictions or more; (5, 1, 2, 2): fewer."""
    runs = 40
    assert sum(missed(kind, seed, 120, size, 2.0) for seed in range(runs)) <= allowed(runs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(3, 2, 4, 2), (5, 1, 2, 2)], ids=["predictions", "features"])
@pytest.mark.parametrize("bound", [0.5, 2.0, 10.0])
def test_block_sets_cover_in_many_runs(kind, size, bound):
    runs, found = 500, 0
    for seed in range(runs):
        found += missed(kind, 1000 + seed, 150, size, bound)
    print(f"{kind}, {size}, bound {bound:g}: {found} of {runs}")
    assert found <= allowed(runs)


def reward_missed(form, seed, steps, part):
    """Whether a range of a mean reward misses it, for any pair at the context met."""
    g = np.random.default_rng(seed)
    S, A, d = 3, 2, 2
    psi = np.concatenate([np.ones((S, A, 1)), g.uniform(-1.0, 1.0, (S, A, 2))], axis=-1) / np.sqrt(3.0)
    p = nr.Problem(
        S, A, 2, d, weight_bound=1.0, reward_design=nr.RewardDesign(psi, 3.0),
        rewards="logistic" if form == "logistic" else "linear",
    )  # fmt: skip
    theta = part * g.standard_normal((3, d))
    if form != "logistic":
        theta[0, 0] = np.sqrt(3.0) / 2.0 * np.sqrt(2.0)
        theta[1:] *= 0.2
    par, state, work = reward_parts(p, form, np.log(1.0 / DELTA), shared=True)
    par = with_kernels(par, state, work, "learn", "ranges")
    low, high = np.zeros((S, A)), np.zeros((S, A))
    for _ in range(steps):
        x = np.array([1.0, g.uniform(-1.0, 1.0)]) / np.sqrt(2.0)
        mean = psi @ theta @ x
        mean = 1.0 / (1.0 + np.exp(-mean)) if form == "logistic" else mean
        assert (mean >= 0.0).all()
        assert (mean <= 1.0).all()
        ranges_lifted(par, state, work, x, low, high)
        if (mean < low - 1e-9).any() or (mean > high + 1e-9).any():
            return True
        s, a = int(g.integers(S)), int(g.integers(A))
        learn_lifted(par, state, work, s, a, float(g.random() < mean[s, a]), x)
    return False


@pytest.mark.long
@pytest.mark.parametrize("form", ["ridge", "hoeffding", "logistic"])
def test_reward_sets_of_blocks_cover(form):
    runs = 30
    assert sum(reward_missed(form, seed, 150, 0.4) for seed in range(runs)) <= allowed(runs)
