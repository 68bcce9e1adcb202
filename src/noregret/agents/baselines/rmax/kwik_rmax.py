"""KWIK-LR-Rmax: Rmax over linear regressions that know what they know (Modi, Jiang, Singh and Tewari 2018; the
regression after Strehl and Littman 2007)."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .... import checks as check
from ....checks import Floats
from ....compiler.jit import inlined, kernel, merged
from ....estimators.gram import first_grams
from ....numerics.linear_algebra import apply_refresh, dot, rank_one, refresh_address, rows_times
from ....planning.bellman import TO_REST, planner_address
from ....problem.layout import Layout, slot_of
from ....problem.links import LinearCombination, simplex_rows
from ....problem.problem import Problem
from ....theory import pac
from ...declared import DELTA, EPSILON, option
from ...endings import ModelWork, model_work, plan_model
from .family import RmaxAgent, add_slack

REFRESH = 1000  # samples between direct inversions


class KwikPar(NamedTuple):
    seed: int
    layout: Layout
    planner: Any  # slot of a planner (`planning.bellman.planner_address`)
    refresh: Any  # slot of `refresh_inverse`
    threshold: float  # alpha0^2
    always: int  # 1: learn where the answer is known, too
    slack: Floats  # [H+1], added to the planned values


class Regression(NamedTuple):
    """Ridge regression of each pair, lambda = 1: the estimate at x is moment Z^{-1} x, one number a row."""

    gram: Floats  # Z = I + sum x x', [S, A, d, d]
    inverse: Floats  # Z^{-1}
    logdet: Floats  # ln det Z, [S, A]
    moment: Floats  # sum y x', [S, A, rows, d]
    samples: NDArray[np.int64]  # [S, A]


class KwikState(NamedTuple):
    transitions: Regression  # a row for each outcome, y its indicator
    rewards: Regression  # one row


class KwikWork(NamedTuple):
    model: ModelWork
    moved: Floats  # [S A]
    zx: Floats  # [d]
    mean: Floats  # [1]
    factor: Floats  # [d, d]


@inlined
def uncertainty(regression, s, a, x, zx):
    """||x||^2_{Z^-1} of pair (s, a); zx [d] <- Z^{-1} x."""
    rows_times(regression.inverse[s, a], x, zx)
    return dot(x, zx)


@inlined
def add(par, regression, work, s, a, row, y, x):
    """One sample, y in `row` and zeros in the others, where the regression does not know."""
    q = uncertainty(regression, s, a, x, work.zx)
    if q > par.threshold or par.always == 1:
        for j in range(x.shape[0]):
            regression.moment[s, a, row, j] += y * x[j]
        where = regression.gram[s, a], regression.inverse[s, a], regression.logdet[s, a : a + 1]
        rank_one(*where, x, work.zx, q, 1.0)
        regression.samples[s, a] += 1
        if regression.samples[s, a] % REFRESH == 0:
            apply_refresh(par.refresh, (*where, 0.0, work.factor, work.zx))


@kernel
def plan(par, state, work, x, k, out):
    (H, S), model = out.policy.shape, work.model
    for s in range(S):
        for a in range(model.r.shape[1]):
            known = uncertainty(state.transitions, s, a, x, work.zx) <= par.threshold
            rows_times(state.transitions.moment[s, a], work.zx, model.P[s, a])
            known = known and uncertainty(state.rewards, s, a, x, work.zx) <= par.threshold
            rows_times(state.rewards.moment[s, a], work.zx, work.mean)
            model.r[s, a] = min(max(work.mean[0], 0.0), 1.0)
            if not known:
                model.r[s, a] = float(H)  # clipped: worth H - h, as much as anything can be
    simplex_rows(merged(model.P), 1.0, merged(par.layout.count), work.moved)
    plan_model(par, model, model.P, model.r, TO_REST, k, out)
    add_slack(par.slack, out.values)


@kernel
def learn(par, state, work, x, k, n, path):
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        add(par, state.transitions, work, s, a, slot_of(par.layout, s, a, path.states[h + 1]), 1.0, x)
        if not math.isnan(path.rewards[h]):
            add(par, state.rewards, work, s, a, 0, path.rewards[h], x)


class KWIKLRRmax(RmaxAgent):
    """KWIK-LR-Rmax (Modi et al. 2018): Rmax over regressions that know what they know.

    Ridge regressions of transitions and rewards on the context; a pair is known at x where both are certain.

        known  iff  ||x||_{Z^-1} <= alpha0,   Z = I + sum x x' over the pair's samples
        Q_h = clip(r_hat, 0, 1) + P_hat V_{h+1}  for known pairs,   H - h  for the others

    P_hat is the projection of the estimate on the simplex. Samples are taken only where the pair is not known, as in
    the knows-what-it-knows protocol. Values are reported with `theory.pac`'s slack added and bound the optimal ones.
    The published algorithm splits the eigenvalues of Z at 1 and compares two norms with two thresholds of order
    epsilon/(S sqrt d); one threshold on ||x||_{Z^-1} does the same with a shorter proof and derived constants.

    For the LinearCombination link; with logistic rewards the regression of rewards is misspecified: no guarantee.

    epsilon, delta   with probability 1 - delta all but `mistake_bound` plans are within epsilon of optimal (in sums of
                     rewards over the H steps)
    alpha0           your own threshold; a larger one than `theory.pac.kwik_threshold` carries no guarantee
    keep_learning    take samples where the pair is known, too: better estimates, no guarantee

    Caveat: the default threshold is of order epsilon/(H^2 sqrt(d + S)), and unknown visits number about d/alpha0^2 per
    pair. Cost per episode O(SA(Sd + d^2) + S^2 A H), memory O(SA(Sd + d^2)), both constant in the number of
    episodes.

    >>> import noregret as nr
    >>> world = nr.worlds.random_linear(n_states=3, horizon=2, context_dim=2)
    >>> agent = nr.agents.KWIKLRRmax(world.problem, epsilon=0.5)
    >>> print(f"{agent.mistake_bound:.0e}")  # plans that may be bad, in sums of two rewards by more than 0.5
    4e+07
    >>> nr.agents.KWIKLRRmax(world.problem, alpha0=0.4).label
    'kwik-lr-rmax (alpha0=0.4, no guarantee)'
    >>> nr.agents.KWIKLRRmax(nr.worlds.clinic().problem)
    Traceback (most recent call last):
        ...
    ValueError: link must be LinearCombination() for kwik-lr-rmax, got MultinomialLogit()
    """

    name = "kwik-lr-rmax"
    plan_kernel = staticmethod(plan)
    learn_kernel = staticmethod(learn)

    epsilon: float = EPSILON
    delta: float = DELTA
    alpha0: float | None = option(None, check.positive, least=1e-9)
    keep_learning: bool = option(False, check.flag)

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        if isinstance(problem.link, LinearCombination):
            return cls.refused_range(problem)
        return f"link must be LinearCombination() for {cls.name}, got {problem.link!r}"

    def _kept(self) -> float:
        (S, A, M), d = self.problem.layout.outcomes.shape, self.problem.context_dim
        return float(S * A * (4 * d * d + M * d))

    def build(self) -> tuple[KwikPar, KwikState, KwikWork]:
        p, o, f = self.problem, self.options, np.zeros
        S, A, M = p.layout.outcomes.shape
        H, d = p.horizon, p.context_dim
        # Half of delta for the models, two events for each pair; half for the number of mistakes.
        log = math.log(4.0 * p.n_pairs / o["delta"])
        size = d, int(p.layout.count[p.layout.available].max()), p.reward_bound, log, min(p.context_bound, 1.0)
        limit = pac.kwik_threshold(H, o["epsilon"], *size)
        alpha = limit if o["alpha0"] is None else o["alpha0"]
        self.sound = alpha <= limit and not o["keep_learning"] and p.rewards == "linear"
        slack = pac.slack(H, *pac.kwik_errors(alpha, *size)) if self.sound else f(H + 1)
        self._samples = pac.kwik_samples(d, alpha, size[-1])

        def regression(rows: int) -> Regression:
            return Regression(*first_grams(1.0, (S, A), d), f((S, A)), f((S, A, rows, d)), f((S, A), np.int64))

        always = int(o["keep_learning"])
        par = KwikPar(self.seed, p.layout, planner_address(p.layout), refresh_address(d), alpha**2, always, slack)
        work = KwikWork(model_work(p.layout), f(S * A), f(d), f(1), f((d, d)))
        self.bounds_values = self.sound
        return par, KwikState(regression(M), regression(1)), work

    def _escapes(self) -> float:
        return float(self.problem.n_pairs * self._samples)

    @property
    def promised(self) -> str:  # type: ignore[override]
        return f"for any contexts, {self._mistakes()}"
