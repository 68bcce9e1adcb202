"""KWIK-LR-Rmax: Rmax over linear regressions that know what they know (Modi, Jiang, Singh and Tewari 2018; the
regression after Strehl and Littman 2007)."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .... import checks as check
from ....beliefs.spreads import NONE
from ....checks import Floats
from ....compiler.jit import inlined, kernel, merged
from ....numerics.linear_algebra import apply_refresh, rank_one, refresh_address, rows_times
from ....numerics.random import tie_key
from ....planning.bellman import Model, Operator, Solution, apply_planner, planner_address
from ....problem.layout import Layout, slot_of
from ....problem.links import LinearCombination, simplex_rows
from ....problem.problem import Problem
from ....theory import pac
from ...base import Agent
from ...declared import DELTA, EPSILON, option
from .cover_rmax import add_slack, label_without_guarantee

REFRESH = 1000  # samples between direct inversions


class KwikPar(NamedTuple):
    seed: int
    layout: Layout
    planner: Any  # slot of `planning.bellman.backward_induction`
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
    P: Floats  # [S, A, M]
    r: Floats  # [S, A]
    xi: Floats  # [S, A], zeros
    noise: Floats  # [0, 0, 0]
    Q: Floats  # [S, A]
    moved: Floats  # [S A]
    zx: Floats  # [d]
    mean: Floats  # [1]
    factor: Floats  # [d, d]


@inlined
def uncertainty(regression, s, a, x, zx):
    """||x||^2_{Z^-1} of pair (s, a); zx [d] <- Z^{-1} x."""
    rows_times(regression.inverse[s, a], x, zx)
    q = 0.0
    for j in range(x.shape[0]):
        q += x[j] * zx[j]
    return q


@inlined
def add(regression, refresh, s, a, row, y, x, zx, q, factor):
    """One sample: y in `row`, zeros in the others."""
    gram, inverse, logdet = regression.gram[s, a], regression.inverse[s, a], regression.logdet[s, a : a + 1]
    for j in range(x.shape[0]):
        regression.moment[s, a, row, j] += y * x[j]
    rank_one(gram, inverse, logdet, x, zx, q, 1.0)
    regression.samples[s, a] += 1
    if regression.samples[s, a] % REFRESH == 0:
        apply_refresh(refresh, (gram, inverse, logdet, 0.0, factor, zx))


@kernel
def plan(par, state, work, x, k, out):
    H, S = out.policy.shape
    for s in range(S):
        for a in range(work.r.shape[1]):
            known = uncertainty(state.transitions, s, a, x, work.zx) <= par.threshold
            rows_times(state.transitions.moment[s, a], work.zx, work.P[s, a])
            known = known and uncertainty(state.rewards, s, a, x, work.zx) <= par.threshold
            rows_times(state.rewards.moment[s, a], work.zx, work.mean)
            work.r[s, a] = min(max(work.mean[0], 0.0), 1.0)
            if not known:
                work.r[s, a] = float(H)  # clipped: worth H - h, as much as anything can be
    simplex_rows(merged(work.P), 1.0, merged(par.layout.count), work.moved)
    key = tie_key(par.seed, k)
    model = Model(work.P, work.r, work.xi, work.noise)
    found = Solution(work.Q, out.policy, out.values)
    apply_planner(par.planner, (par.layout, model, Operator(NONE, 1, key), found))
    add_slack(par.slack, out.values)


@kernel
def learn(par, state, work, x, k, n, path):
    """A sample is taken where the regression does not know."""
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        q = uncertainty(state.transitions, s, a, x, work.zx)
        if q > par.threshold or par.always == 1:
            y = slot_of(par.layout, s, a, path.states[h + 1])
            add(state.transitions, par.refresh, s, a, y, 1.0, x, work.zx, q, work.factor)
        q = uncertainty(state.rewards, s, a, x, work.zx)
        if (q > par.threshold or par.always == 1) and not math.isnan(path.rewards[h]):
            add(state.rewards, par.refresh, s, a, 0, path.rewards[h], x, work.zx, q, work.factor)


class KWIKLRRmax(Agent):
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

    name, group = "kwik-lr-rmax", "PAC"
    plan_kernel = staticmethod(plan)
    learn_kernel = staticmethod(learn)

    epsilon: float = EPSILON
    delta: float = DELTA
    alpha0: float | None = option(None, check.positive, least=1e-9)
    keep_learning: bool = option(False, check.flag)

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        if isinstance(problem.link, LinearCombination):
            return None
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
            eye = np.tile(np.eye(d), (S, A, 1, 1))
            return Regression(eye, eye.copy(), f((S, A)), f((S, A, rows, d)), np.zeros((S, A), np.int64))

        always = int(o["keep_learning"])
        par = KwikPar(self.seed, p.layout, planner_address(p.layout), refresh_address(d), alpha**2, always, slack)
        work = KwikWork(
            f((S, A, M)), f((S, A)), f((S, A)), f((0, 0, 0)), f((S, A)), f(S * A), f(d), f(1), f((d, d))
        )  # fmt: skip
        self.bounds_values = self.sound
        return par, KwikState(regression(M), regression(1)), work

    @property
    def mistake_bound(self) -> float | None:
        """How many plans may be worse than optimal by more than epsilon; None without a guarantee."""
        if not self.sound:
            return None
        escapes = self.problem.n_pairs * self._samples
        return pac.mistakes(self.problem.horizon, self.options["epsilon"], escapes, 0.5 * self.options["delta"])

    def _promise(self) -> str | None:
        o = self.options
        if not self.sound:
            return None
        return (
            f"with probability {1 - o['delta']:g}, for any contexts, plan.upper is at least the optimal value and, if "
            f"every reward is seen, at most {self.mistake_bound:.3g} plans are worse than optimal by more than "
            f"{o['epsilon']:g}"
        )

    @property
    def label(self) -> str:
        return label_without_guarantee(super().label, self.sound)
