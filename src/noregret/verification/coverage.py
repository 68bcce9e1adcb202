"""Do the confidence sets contain the truth as often as they claim, at all times together?

An experiment feeds one estimator with outcomes of a random truth and looks after every observation at

    ||estimate - truth||_Z^2 / radius

A run fails if that ever exceeds 1. Delta is 0.3, not 0.05: a wrong constant shows sooner where failures are allowed to
be frequent. Truths lie on the boundary of what is assumed; contexts are

    random   uniform (sphere, or simplex for the linear link)
    one      always the same
    cycle    indicators in turn
    worst    an adversary who sees the learner: the direction it knows least about, either sign
    lengths  random directions of length 0, 0.03 or anything up to 1, so that curvatures vary (the simplex: as random)
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import checks as check
from ..checks import Floats
from ..estimators import Conversion, LikelihoodRatioSet, MeanReward, MixtureSet, OnlineNewton, SignUnionSet
from ..problem.links import LinearCombination, Link, MultinomialLogit, softmax_rows
from ..theory.constants import LOGIT_BETA, LOGIT_L1, logit_alpha_centred, logit_alpha_pinned
from .chance import allowed

DELTA = 0.3
CONTEXTS = ("random", "one", "cycle", "worst", "lengths")


class Coverage(NamedTuple):
    """What came out of one experiment: ratios [runs] is each run's largest squared distance / radius."""

    name: str
    contexts: str
    advertised: bool
    delta: float
    ratios: Floats

    @property
    def failures(self) -> int:
        return int((self.ratios > 1.0).sum())

    @property
    def holds(self) -> bool:
        """No more failures than chance explains, at one in a million."""
        return self.failures <= allowed(self.ratios.size, self.delta)

    @property
    def looseness(self) -> float:
        """How many times the radius exceeds the largest squared distance of a run, median over runs."""
        with np.errstate(divide="ignore"):
            return float(np.median(1.0 / self.ratios))


class Kind(NamedTuple):
    """A kind of set: how to make one, and what truths and contexts go with it.

    make(m, d, bound, truth, delta=, regularization=) -> estimator; from the truth it takes what a user must know (a
    group bound)."""

    name: str
    model: str  # "logit", "linear", "linear reward" or "logistic reward"
    make: Callable[..., Any]
    advertised: bool = True


def _any_link() -> Link:
    """The softmax as a link of the user's own: Theorem B instead of Theorem A."""
    return Link(softmax_rows, logit_alpha_centred, LOGIT_BETA, coordinates="centred", l1=LOGIT_L1, name="softmax")


def _pinned_link() -> Link:
    return Link(softmax_rows, logit_alpha_pinned, LOGIT_BETA, coordinates="pinned", l1=LOGIT_L1, name="softmax, pinned")


class Frequencies:
    """A learner of one's own: log-frequencies of the outcomes so far, whatever the context."""

    def __init__(self, m: int) -> None:
        self.counts = np.full(m, 1.0)

    def predict(self, x: Floats) -> Floats:
        return np.asarray(np.log(self.counts))

    def update(self, x: Floats, outcome: int) -> None:
        self.counts[outcome] += 1.0


def _newton(link: Callable[[], Link], constants: Any = "corrected") -> Callable[..., Any]:
    return lambda m, d, bound, truth, **rest: OnlineNewton(link(), m, d, bound, constants=constants, **rest)


def _conversion(link: Callable[[], Link], learner: str) -> Callable[..., Any]:
    def make(m: int, d: int, bound: float | None, truth: Floats, **rest: Any) -> Conversion:
        group = float(np.linalg.norm(truth, axis=0).sum()) if learner == "sparse" else None
        chosen = Frequencies(m) if learner == "own" else learner
        return Conversion(link(), m, d, bound, learner=chosen, group_bound=group, **rest)

    return make


def _reward(form: str) -> Callable[..., Any]:
    return lambda m, d, bound, truth, **rest: MeanReward(d, form, bound, **rest)


def _stored(form: str) -> Callable[..., Any]:
    return lambda m, d, bound, truth, **rest: MixtureSet(m, d, bound, form=form, **rest)


def _likelihood(predictor: str, form: str = "full") -> Callable[..., Any]:
    return lambda m, d, bound, truth, **rest: LikelihoodRatioSet(m, d, bound, predictor=predictor, form=form, **rest)


def _sign_union(m: int, d: int, bound: None, truth: Floats, **rest: Any) -> SignUnionSet:
    return SignUnionSet(m, d, **rest)


KINDS = (
    Kind("Theorem A, logit", "logit", _newton(MultinomialLogit)),
    Kind("Theorem B, linear", "linear", _newton(LinearCombination)),
    Kind("Theorem B, own link", "logit", _newton(_any_link)),
    Kind("Theorem B, own link, pinned", "logit", _newton(_pinned_link)),
    Kind("conversion ons, logit", "logit", _conversion(MultinomialLogit, "ons")),
    Kind("conversion ftrl, logit", "logit", _conversion(MultinomialLogit, "ftrl")),
    Kind("conversion sparse, logit", "logit", _conversion(MultinomialLogit, "sparse")),
    Kind("conversion ons, linear", "linear", _conversion(LinearCombination, "ons")),
    Kind("conversion ftrl, own link", "logit", _conversion(_any_link, "ftrl")),
    Kind("conversion, own learner", "logit", _conversion(MultinomialLogit, "own")),
    Kind("ridge rewards", "linear reward", _reward("linear")),
    Kind("logistic rewards", "logistic reward", _reward("logistic")),
    Kind("likelihood ratio", "logit", _likelihood("unscented")),
    Kind("likelihood ratio, plug-in", "logit", _likelihood("plug-in")),
    Kind("likelihood ratio, kron", "logit", _likelihood("unscented", "kron")),
    Kind("sign union, linear", "linear", _sign_union),
    Kind("plain stored set, logit", "logit", _stored("plain")),
    Kind("mixture set, logit", "logit", _stored("mixture")),
    Kind("printed Thm 3.1, logit", "logit", _newton(MultinomialLogit, "paper"), advertised=False),
    Kind("printed Thm 3.1, linear", "linear", _newton(LinearCombination, "paper"), advertised=False),
)


def draw_truth(model: str, m: int, d: int, bound: float, g: np.random.Generator) -> Floats:
    """Weights [m, d] on the boundary of what is assumed; a single row for rewards. Logit: the last row is 0."""
    if model == "linear":
        return np.array(g.dirichlet(np.full(m, 0.5), d).T, np.float64)
    if model == "linear reward":  # of norm at most `bound`, with means in [0, 1] for contexts in the simplex
        return np.minimum(g.random((1, d)), bound / math.sqrt(d))
    rows: Floats = g.standard_normal((1 if "reward" in model else m, d))
    rows *= bound / np.linalg.norm(rows, axis=1, keepdims=True)
    if model == "logit":
        rows[-1] = 0.0
    return rows


def next_context(how: str, simplex: bool, est: Any, t: int, d: int, g: np.random.Generator) -> Floats:
    if how == "one":
        return np.asarray(np.eye(d)[0])
    if how == "cycle":
        return np.asarray(np.eye(d)[t % d])
    if how == "worst":
        if simplex:
            return np.asarray(np.eye(d)[np.argmax(np.diag(est.inverse))])
        x = np.linalg.eigh(est.inverse)[1][:, -1]
        return np.asarray(x if t % 2 else -x)
    if simplex:
        return g.dirichlet(np.ones(d))
    x = g.standard_normal(d)
    x /= np.linalg.norm(x)
    return np.asarray(x * g.choice([0.0, 0.03, g.random()], p=[0.05, 0.05, 0.9]) if how == "lengths" else x)


def draw_outcome(model: str, z: Floats, g: np.random.Generator) -> float:
    """An outcome (a number of a row) or a reward, from linear predictors z [m]."""
    u = g.random()
    if model == "linear reward":
        return float(u < z[0])
    if model == "logistic reward":
        return float(u < 1.0 / (1.0 + np.exp(-z[0])))
    p = np.exp(z) if model == "logit" else z
    return min(int(np.searchsorted(np.cumsum(p / p.sum()), u, side="right")), z.size - 1)


def coverage(
    kind: Kind,
    contexts: str,
    runs: int = 200,
    steps: int = 200,
    m: int = 3,
    d: int = 2,
    bound: float = 1.0,
    regularization: float | None = None,
    *,
    delta: float = DELTA,
) -> Coverage:
    """`runs` independent runs of `steps` observations. Seeds are the numbers of the runs."""
    check.one_of("contexts", contexts, CONTEXTS)
    simplex = kind.model in ("linear", "linear reward")
    limit = None if kind.model == "linear" else bound
    ratios = np.zeros(runs)
    for run in range(runs):
        g = np.random.default_rng([run, m, d, CONTEXTS.index(contexts)])
        W = draw_truth(kind.model, m, d, bound, g)
        target = W - W.mean(0) if kind.model == "logit" else W
        est = kind.make(m, d, limit, target, delta=delta, regularization=regularization)
        if kind.model == "logit" and est.link.coordinates_for(est.constants) == "pinned":
            target = W
        for t in range(steps):
            x = next_context(contexts, simplex, est, t, d, g)
            est.update(x, draw_outcome(kind.model, W @ x, g))
            distance, radius = squared_distance(est, target, x), est.radius
            ratios[run] = max(ratios[run], distance / radius if radius > 0.0 else np.inf)
    return Coverage(kind.name, contexts, kind.advertised, delta, ratios)


def squared_distance(est: Any, target: Floats, x: Floats) -> float:
    """From the estimate to the truth, in the norm of the set; 0 while a set says nothing beyond what is assumed. For
    1-norm widths: the largest (error/width)^2 at the contexts x and the corners of the simplex, times the radius."""
    if isinstance(est, LikelihoodRatioSet):
        return est.distance(target)
    if isinstance(est, MixtureSet):
        return est.distance(target) if est.component >= 0 else 0.0
    if isinstance(est, SignUnionSet):
        errors = [np.abs(est.probabilities(u) - target @ u).sum() / est.l1_width(u) for u in (x, *np.eye(x.size))]
        return float(max(errors) ** 2) * est.radius
    error = np.atleast_2d(est.weights) - target
    return float(np.sum((error @ est.gram) * error))
