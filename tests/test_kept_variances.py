"""Variances that updates keep: not too small, however small lambda and however many the visits; and delta, once a set
has learned."""

import math

import numpy as np
import pytest

import noregret as nr
from noregret.estimators.likelihood.precision import covariance_at, products_of
from noregret.numerics.linear_algebra import OFTEN, rank_one, refresh_due, refresh_inverse

pytestmark = pytest.mark.deep

TOLERATED = 1e-6  # relative, on the unsafe side
KINDS = ("full", "kron", "newton", "ridge", "reward-ridge", "union")


def inverse_of(matrix):
    """By Gauss and Jordan in extended precision."""
    n = len(matrix)
    both = np.concatenate([matrix.astype(np.longdouble), np.eye(n, dtype=np.longdouble)], 1)
    for i in range(n):
        first = i + int(np.argmax(np.abs(both[i:, i])))
        both[[i, first]] = both[[first, i]]
        both[i] /= both[i, i]
        for r in range(n):
            if r != i:
                both[r] -= both[r, i] * both[i]
    return both[:, n:]


class Kept:
    """An estimator of so small a lambda (times what a visit adds to its matrix), and the variance at x that it keeps
    beside the one that its matrix says."""

    def __init__(self, kind, small, d):
        est, self.kind, self.d, self.g = nr.estimators, kind, d, np.random.default_rng(4)
        if kind in ("full", "kron"):
            self.made = est.LikelihoodRatioSet(3, d, 1.0, regularization=small, form=kind)
        elif kind == "newton":
            kappa = float(est.OnlineNewton(nr.MultinomialLogit(), 3, d, 1.0)._par.kappa.max())
            self.made = est.OnlineNewton(nr.MultinomialLogit(), 3, d, 1.0, regularization=small * kappa)
        elif kind == "union":
            self.made = est.SignUnionSet(3, d, regularization=small)
        else:
            self.made = {"ridge": est.MeanReward, "reward-ridge": est.RewardSet}[kind](
                d, regularization=small, **({"form": "ridge"} if kind == "reward-ridge" else {})
            )

    def visit(self, x):
        if "ridge" in self.kind:
            self.made.update(x, 0.5)
        else:
            self.made.update(x, int(self.g.integers(3)))

    def variances(self, x):
        made, d, u = self.made, self.d, x.astype(np.longdouble)
        if self.kind == "full":
            work, n = made._work, 3
            products_of(x, work.products)
            covariance_at(made._state.forms[0, 0], work.products, n, work.packed, work.cov)
            exact = np.einsum("b,jbkc,c->jk", u, inverse_of(made.precision).reshape(n, d, n, d), u)
            kept = work.cov.diagonal()[:2].copy()
            return kept, np.array([exact[j, j] + exact[2, 2] - 2 * exact[j, 2] for j in range(2)])
        if self.kind == "kron":
            gram, kept = made._state.gram[0, 0].reshape(d, d), made._state.covariance[0, 0].reshape(d, d)
        elif self.kind == "reward-ridge":
            gram, kept = made._state.gram[0, 0], made._state.inverse[0, 0]
        else:
            gram, kept = made.gram, made.inverse
        return np.array([x @ kept @ x]), np.array([u @ inverse_of(gram) @ u])


def unsafe(kind, small, d, visits, near):
    """By how much, relative, a variance was below the true one at the worst of some times. Everybody is alike, or
    nearly: most directions are never seen, and keep variances of 1/lambda beside those that become small."""
    kept, g, worst = Kept(kind, small, d), np.random.default_rng(5), 0.0
    x = np.full(d, 1.0 / d)
    other = np.abs(x + 1e-3 * g.normal(size=d))
    other /= other.sum()
    looked = {2**k - 1 for k in range(4, 21)} | {visits - 11 * k for k in range(12)}
    for t in range(1, visits + 1):
        kept.visit(other if near and t % 2 else x)
        if t in looked:
            for at in (x, other):
                have, exact = kept.variances(at)
                worst = max(worst, float(((exact - have) / exact).max()))
    return worst


@pytest.mark.study(first=6)
@pytest.mark.parametrize("small", [1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_a_regularization_is_refused_or_its_variances_are_kept(kind, small):
    if small < 1e-3:
        with pytest.raises(ValueError, match=r"^regularization must be at least"):
            Kept(kind, small, 5)
        return
    for near in (False, True):
        assert unsafe(kind, small, 5, 10_000, near) < TOLERATED


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_variances_are_kept_over_a_hundred_thousand_visits(kind):
    assert unsafe(kind, 1e-3, 2, 100_000, near=False) < TOLERATED


@pytest.mark.slow
@pytest.mark.parametrize("small", [1e-3, 1e-2])
@pytest.mark.parametrize("d", [2, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_variances_are_kept_over_a_million_visits(kind, d, small):
    assert unsafe(kind, small, d, 1_000_000, near=False) < TOLERATED


@pytest.mark.study(first=1)
@pytest.mark.parametrize("late", [0, 20_003])
def test_inverses_are_made_anew_as_often_as_their_size_asks(late):
    """lambda = 1e-3. Where all directions are seen, from the beginning or from person `late` on, entries are small and
    a thousand updates do no harm; before that an inverse with entries of 1/lambda is made anew often."""
    d, lam, g = 3, 1e-3, np.random.default_rng(1)
    gram, inverse, logdet, zx, often = lam * np.eye(d), np.eye(d) / lam, np.zeros(1), np.zeros(d), [0, 0]
    args = gram, inverse, logdet, 0.0, np.zeros((d, d)), np.zeros(d)
    for t in range(1, 40_001):
        x = g.normal(size=d) if t >= late else np.array([1.0, 0.0, 0.0])
        zx[:] = inverse @ x
        rank_one(gram, inverse, logdet, x, zx, float(x @ zx), 1.0)
        if t % OFTEN == 0 and refresh_due(gram, inverse, t, 1):
            often[t >= max(late, 2000)] += 1
            refresh_inverse(*args)
        if t in (late + 3, late + 40, late + 900, 39_999):
            exact = inverse_of(gram)
            assert max(abs(u @ (exact - inverse) @ u) / (u @ exact @ u) for u in (x, *np.eye(d))) < TOLERATED
    assert often[1] <= 40  # once in a thousand
    assert late == 0 or often[0] > 60


def test_agents_refuse_a_regularization_that_rounding_would_lose():
    problem = nr.Problem(2, 2, 2, 3, context_bound=2.0, weight_bound=1.0, reward_bound=1.0)
    for name in ("lr-orl", "certified-psrl"):
        for option in ("regularization", "reward_regularization"):
            with pytest.raises(ValueError, match=f"^{option} must be at least 0.004 "):
                nr.make_agent(name, problem, **{option: 0.0039})


def test_a_default_regularization_is_never_below_what_rounding_leaves():
    """Weights of length 300, contexts of length 100: natural choices of lambda would be too small."""
    far = nr.estimators.LikelihoodRatioSet(3, 2, weight_bound=300.0)
    assert far.precision[0, 0] == 1e-3
    assert nr.estimators.LikelihoodRatioSet(3, 2, weight_bound=4.0).precision[0, 0] == 0.5
    long = nr.Problem(2, 2, 2, 3, context_bound=100.0, weight_bound=3.0, reward_bound=0.01)
    agent = nr.LRORL(long, reward_sets="ridge")
    assert np.all(agent.state.transitions.prior == 10.0)
    assert agent.par.rewards.regularization == 10.0
    assert nr.estimators.MeanReward(3, context_bound=100.0).regularization == 10.0


# delta, once a set has learned ---------------------------------------------------------------------------------------
def learned(make, delta, steps=40, seed=1):
    made, g = make(2, 2, weight_bound=2.0, delta=delta), np.random.default_rng(seed)
    for _ in range(steps):
        x = g.normal(size=2)
        made.update(x / np.linalg.norm(x), int(g.random() < 0.7))
    return made


@pytest.mark.parametrize("make", [nr.estimators.LikelihoodRatioSet, nr.estimators.MixtureSet])
def test_delta_may_be_raised_and_not_lowered_once_a_set_has_learned(make):
    made = learned(make, 0.05, 200)
    before, x = made.radius, [0.6, 0.8]
    width = made.l1_width(x)
    with pytest.raises(ValueError, match=r"^delta must be at least 0\.05, for which the set was made, got 0\.01: "):
        made.delta = 0.01
    assert (made.delta, made.radius, made.l1_width(x)) == (0.05, before, width)
    made.delta = 0.2
    assert made.radius == pytest.approx(before - 2 * math.log(4), rel=1e-12)
    assert made.l1_width(x) <= width
    made.delta = 0.05
    assert (made.radius, made.l1_width(x)) == (before, width)
    for value in (0.0, -1.0, 1.5, math.nan, "small", True):
        with pytest.raises(ValueError, match=r"^delta must be a number above 0 and at most 1, got "):
            made.delta = value
    assert made.radius == before


@pytest.mark.parametrize("make", [nr.estimators.LikelihoodRatioSet, nr.estimators.MixtureSet])
def test_before_the_first_observation_delta_is_free(make):
    """The set is then the one that was made with it."""
    changed, wanted = learned(make, 0.3, steps=0), learned(make, 0.01)
    changed.delta = 0.01
    g = np.random.default_rng(1)
    for _ in range(40):
        x = g.normal(size=2)
        changed.update(x / np.linalg.norm(x), int(g.random() < 0.7))
    assert changed.radius == pytest.approx(wanted.radius, rel=1e-12)
    assert np.allclose(changed.weights, wanted.weights, rtol=1e-12)
    assert changed.l1_width([0.6, 0.8]) == pytest.approx(wanted.l1_width([0.6, 0.8]), rel=1e-12)


def test_what_a_lowered_delta_would_have_claimed():
    """The curvatures of a set made at delta .9 are those of a small set: taken for .001, its ellipsoid leaves out
    weights that are in the set made at .001. The radius alone does not tell."""
    loose, honest = (learned(nr.estimators.LikelihoodRatioSet, delta, 12, 3) for delta in (0.9, 0.001))
    radius = loose.radius + 2 * math.log(0.9 / 0.001)
    g, left_out = np.random.default_rng(0), 0
    for _ in range(2_000):
        row = g.uniform(-2.0, 2.0, 2)
        W = np.stack([row, np.zeros(2)])
        left_out += honest.contains(W) and loose.distance(W) > radius
    assert left_out > 0


def test_sets_whose_delta_is_fixed_say_so():
    for made in (nr.estimators.RewardSet(2), nr.estimators.SignUnionSet(3, 2)):
        for delta in (0.01, 0.2):
            with pytest.raises(ValueError, match=rf"^delta must stay 0\.05, for which the set was made, got {delta}"):
                made.delta = delta
    free = nr.estimators.OnlineNewton(nr.MultinomialLogit(), 3, 2, 1.0)
    before = free.radius
    free.delta = 0.01
    assert free.radius > before
    with pytest.raises(ValueError, match=r"^delta must be a number above 0 and at most 1, got 0"):
        free.delta = 0
