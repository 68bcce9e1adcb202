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

from ... import checks as check
from ...checks import Floats
from ...compiler.jit import inlined
from ...numerics.linear_algebra import (
    OFTEN,
    apply_refresh,
    least_regularization,
    rank_one,
    refresh_address,
    refresh_due,
    times,
)
from ...problem.problem import Problem
from ...theory.constants import logistic_alpha
from ...theory.radii import theorem_a_log_weight
from ...theory.widths import logistic_interval, sigma

SLACK = 0.25  # s of Theorem A

IDENTITY, SIGMA = 0, 1


class EntryPar(NamedTuple):
    mean: int  # IDENTITY or SIGMA
    refresh: Any  # slot of `refresh_inverse`
    start: float  # d ln lambda
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
    if regularization is None:
        regularization = max(d / (kappa * largest**2) if mean == SIGMA else 1.0, least)
    lam = check.positive("regularization", regularization)
    if lam < least:
        raise ValueError(f"regularization must be at least {least:.3g} for stable arithmetic, got {lam:g}")
    par = EntryPar(
        mean, refresh_address(d), d * math.log(lam), math.sqrt(lam) * weight_bound, theorem_a_log_weight(SLACK), bound
    )
    grams = np.tile(lam * np.eye(d), (S, A, 1, 1)), np.tile(np.eye(d) / lam, (S, A, 1, 1))
    radius = np.repeat((lam * bound**2 if mean == SIGMA else 0.0 * bound)[:, :, None], M, axis=2)
    return par, EntryState(np.zeros((S, A, M, d)), *grams, np.zeros((S, A)), radius, np.zeros((S, A), np.int64))


@inlined
def entry_step(par, state, count, s, a, y, x, norm, zx, factor):
    """Learn that pair (s, a), with `count` outcomes, was followed by its outcome y at context x; norm = ||x||, zx [d]
    and factor [d, d] are scratch."""
    d = x.shape[0]
    W, inverse, logdet = state.weights[s, a], state.inverse[s, a], state.logdet[s, a : a + 1]
    times(inverse, x, zx)
    q, kappa, reach = 0.0, 1.0, par.bound[s, a] * norm
    for b in range(d):
        q += zx[b] * x[b]
    if par.mean == SIGMA:
        kappa = (2.0 - SLACK) * logistic_alpha(reach)
    shrink = 1.0 / (1.0 + kappa * q)
    for j in range(count):
        z = 0.0
        for b in range(d):
            z += W[j, b] * x[b]
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
        for b in range(d):
            W[j, b] += (step - error * shrink) * zx[b]
    rank_one(state.gram[s, a], inverse, logdet, x, zx, q, kappa)
    state.samples[s, a] += 1
    if state.samples[s, a] % OFTEN == 0 and refresh_due(state.gram[s, a], state.samples[s, a], math.exp(par.start / d)):
        apply_refresh(par.refresh, (state.gram[s, a], inverse, logdet, par.start, factor, zx))


@inlined
def entry_beliefs(par, state, count, x, norm, log, P, width):
    """P, width [S, A, M] <- estimated entries and their half-widths at context x; count [S, A], log = ln(1/delta)."""
    S, A, M = P.shape
    d = x.shape[0]
    for s in range(S):
        for a in range(A):
            form, reach = 0.0, par.bound[s, a] * norm
            for b in range(d):
                t = 0.0
                for c in range(d):
                    t += state.inverse[s, a, b, c] * x[c]
                form += t * x[b]
            if not form >= 0.0:
                raise ValueError("a Gram matrix is no longer positive definite: a context or a bound is out of range")
            ridge = (par.prior + 0.5 * math.sqrt(2.0 * log + state.logdet[s, a])) * math.sqrt(form)
            for j in range(M):
                z = 0.0
                for b in range(d):
                    z += state.weights[s, a, j, b] * x[b]
                if j >= count[s, a]:
                    P[s, a, j], width[s, a, j] = 0.0, 0.0
                elif count[s, a] == 1:
                    P[s, a, j], width[s, a, j] = 1.0, 0.0
                elif par.mean == IDENTITY:
                    P[s, a, j], width[s, a, j] = min(max(z, 0.0), 1.0), min(1.0, ridge)
                else:
                    v = min(max(z, -reach), reach)
                    w2 = (state.radius[s, a, j] + par.log_weight * log) * form - (v - z) * (v - z)
                    w = math.sqrt(w2) if w2 >= 0.0 else math.inf  # an empty set says nothing
                    P[s, a, j], width[s, a, j] = sigma(v), logistic_interval(w, v, reach)
