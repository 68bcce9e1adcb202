"""One estimate per next state, each on its own: P(j|s, a, x) = mu(theta_j'x), with no constraint across the entries j.

Outcome y gives every entry its own 0/1 label 1[y = j]. The entries of a pair share their contexts and the weights kappa
of the Gram matrix, so one matrix Z per pair serves all of them:

identity   mu(z) = z, ridge regression:  Z = lambda I + sum x x',  theta_j = Z^{-1} sum x 1[y = j]
               |(theta_j - theta*_j)'x| <= ( sqrt(lambda) B + 1/2 sqrt(2 ln(1/delta) + ln det Z/lambda^d) ) ||x||_{Z^-1}
           (labels are 1/2-sub-Gaussian; Abbasi-Yadkori, Pal and Szepesvari 2011.) P_hat = clip(theta_j'x, 0, 1), width
           at most 1
sigma      mu(z) = 1/(1 + e^-z), one online Newton step per entry and Theorem A with one predictor, as for logistic
           rewards (`estimators.rewards.logistic`), with a squared radius per entry. P_hat = sigma(v), v =
           clip(theta_j'x, -M, M) and M = B ||x||; width `theory.widths.logistic_interval`

Each entry's interval holds for all contexts and times with probability 1 - delta. A pair with one possible outcome has
nothing to learn: P_hat = 1, width 0. Cost of a step O(m d + d^2); memory O(m d + d^2) per pair, constant in time.

Caveat: under a multinomial logit with three or more outcomes theta_j'x is not the log-odds of entry j for any theta_j,
so `sigma` is misspecified there and its intervals promise nothing; with two outcomes it is exact. For three or more B
is B_p + ln(m - 1)/R, a rule of thumb that leaves room for the odds of one outcome against m - 1 others.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...checks import Floats
from ...compiler.jit import inlined
from ...numerics.linear_algebra import dot, form, least_regularization, rank_one, refresh_address, times
from ...problem.problem import Problem
from ...theory.constants import logistic_alpha
from ...theory.radii import theorem_a_log_weight
from ...theory.widths import logistic_interval, sigma
from ..gram import count_and_refresh, first_grams, stable

SLACK = 0.25  # s of Theorem A

IDENTITY, SIGMA = 0, 1


class EntryPar(NamedTuple):
    mean: int  # IDENTITY or SIGMA
    refresh: Any  # slot of `refresh_inverse`
    regularization: float
    prior: float  # sqrt(lambda) B, of IDENTITY
    log_weight: float  # coefficient of ln(1/delta) in a squared radius, of SIGMA
    bound: Floats  # [S, A], B: no theta*_j is longer


class EntryState(NamedTuple):
    weights: Floats  # theta, [S, A, M, d]
    gram: Floats  # Z, [S, A, d, d]
    inverse: Floats  # Z^{-1}
    logdet: Floats  # ln det Z / lambda^d, [S, A]
    radius: Floats  # [S, A, M]; SIGMA: squared radius of each entry without its ln(1/delta) term; IDENTITY: 0
    samples: NDArray[np.int64]  # [S, A]


def entry_parts(
    problem: Problem, mean: int, weight_bound: float, regularization: float | None
) -> tuple[EntryPar, EntryState]:
    """Parameters and initial state; weight_bound: of the rows theta_j (two outcomes, SIGMA: of the log-odds).

    regularization None: 1 for IDENTITY; d/(kappa B^2) for SIGMA, as for logistic rewards, kappa and B at the pair with
    the most outcomes."""
    p = problem
    (S, A, M), d, R = p.layout.outcomes.shape, p.context_dim, p.context_bound
    bound = np.full((S, A), weight_bound)
    if mean == SIGMA:
        bound += np.log(np.maximum(p.layout.count - 1, 1)) / R
    largest = float(bound.max())
    kappa = (2.0 - SLACK) * logistic_alpha(largest * R) if mean == SIGMA else 1.0
    least = least_regularization((2.0 - SLACK) * logistic_alpha(0.0) if mean == SIGMA else 1.0, R, d)
    lam = stable(regularization, d / (kappa * largest**2) if mean == SIGMA else 1.0, least)
    prior, log_weight = math.sqrt(lam) * weight_bound, theorem_a_log_weight(SLACK)
    par = EntryPar(mean, refresh_address(d), lam, prior, log_weight, bound)
    grams = first_grams(lam, (S, A), d)
    radius = np.repeat((lam * bound**2 if mean == SIGMA else 0.0 * bound)[:, :, None], M, axis=2)
    return par, EntryState(np.zeros((S, A, M, d)), *grams, np.zeros((S, A)), radius, np.zeros((S, A), np.int64))


@inlined
def entry_step(par, state, work, count, pair, y, x, norm):
    """Learn that pair (s, a), with `count` outcomes, was followed by its outcome y at context x; norm = ||x||, work.zx
    [d] and work.factor [d, d] are scratch."""
    (s, a), zx = pair, work.zx
    W, inverse = state.weights[s, a], state.inverse[s, a]
    times(inverse, x, zx)
    q, kappa, reach = dot(zx, x), 1.0, par.bound[s, a] * norm
    if par.mean == SIGMA:
        kappa = (2.0 - SLACK) * logistic_alpha(reach)
    shrink = 1.0 / (1.0 + kappa * q)
    for j in range(count):
        z = dot(W[j], x)
        v, step, error = z, 0.0, z
        if par.mean == SIGMA:
            v = min(max(z, -reach), reach)
            error = sigma(v)
        error -= 1.0 if j == y else 0.0
        if v != z and q > 0.0:
            state.radius[s, a, j] -= (v - z) * (v - z) / q
            step = (v - z) / q
        if par.mean == SIGMA:
            state.radius[s, a, j] += error * error * q * shrink
        for b in range(x.shape[0]):
            W[j, b] += (step - error * shrink) * zx[b]
    rank_one(state.gram[s, a], inverse, state.logdet[s, a : a + 1], x, zx, q, kappa)
    count_and_refresh(par, state, s, a, work.factor, zx)


@inlined
def entry_beliefs(par, state, counts, x, norm, log, P, width):
    """P, width [S, A, M] <- estimated entries and their half-widths at context x; counts [S, A], log = ln(1/delta)."""
    S, A, M = P.shape
    for s in range(S):
        for a in range(A):
            q, reach, count = form(state.inverse[s, a], x), par.bound[s, a] * norm, counts[s, a]
            if not q >= 0.0:
                raise ValueError("a Gram matrix is no longer positive definite: a context or a bound is out of range")
            ridge = (par.prior + 0.5 * math.sqrt(2.0 * log + state.logdet[s, a])) * math.sqrt(q)
            for j in range(M):
                z = dot(state.weights[s, a, j], x)
                if j >= count:
                    P[s, a, j], width[s, a, j] = 0.0, 0.0
                elif count == 1:
                    P[s, a, j], width[s, a, j] = 1.0, 0.0
                elif par.mean == IDENTITY:
                    P[s, a, j], width[s, a, j] = min(max(z, 0.0), 1.0), min(1.0, ridge)
                else:
                    v = min(max(z, -reach), reach)
                    w2 = (state.radius[s, a, j] + par.log_weight * log) * q - (v - z) * (v - z)
                    w = math.sqrt(w2) if w2 >= 0.0 else math.inf  # an empty set says nothing
                    P[s, a, j], width[s, a, j] = sigma(v), logistic_interval(w, v, reach)
