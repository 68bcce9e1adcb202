"""Models drawn from an approximate posterior, and the plan for the best of several.

One kernel of each kind of link draws; both fill work.P and work.r.
"""

import math

from .._jit import caller, inlined, kernel, merged
from .._linear_algebra import cholesky
from .._random import fill_normals
from ..estimators.likelihood_ratio import likelihood_query
from ..estimators.sign_union import sign_union_sets
from ..links import apply_projection
from ..local_sets import log_softmax
from ..planning import backward_induction_with, expectation
from .glm import norm_of
from .sets import reward_means


@inlined
def normal_number(work, i):
    """Number i of the episode's normals."""
    half = work.normal.shape[1]
    return work.normal[i // half, i % half]


@inlined
def draw_reward(par, work, m, s, a, i):
    v = work.mean[s, a] + par.posterior_scale * work.spread[s, a] * normal_number(work, i)
    work.r[m, s, a] = min(max(v, 0.0), 1.0)


@kernel
def draw_logit(par, state, work, x, k, purpose):
    """work.P, work.r [J, ...] <- models drawn from N(W, posterior_scale^2 Lambda^{-1}) of `sampler`, and mean rewards
    from normal posteriors around ridge regression. Model m and pair (s, a) take M + 1 normals, the last for the reward.

    cov comes with a component along the all-ones vector, which the softmax does not see."""
    J, S, A, M = work.P.shape
    norm, w = norm_of(x), work.sampler
    fill_normals(par.seed, k, purpose, work.normal[0], work.normal[1])
    reward_means(par, state, work, x)
    for s in range(S):
        for a in range(A):
            n, trace = par.layout.count[s, a], 0.0
            likelihood_query(par.sampler, state.sampler, w, n, s, a, x, norm, w.z, w.cov)
            for j in range(n):
                trace += w.cov[j, j]
            cholesky(w.cov[:n, :n], 1e-12 * trace + 1e-290, w.factor[:n, :n])
            for m in range(J):
                first = ((m * S + s) * A + a) * (M + 1)
                for j in range(n):
                    v = 0.0
                    for i in range(j + 1):
                        v += w.factor[j, i] * normal_number(work, first + i)
                    w.step[j] = w.z[j] + par.posterior_scale * v
                log_softmax(w.step, n, w.logp, work.P[m, s, a])
                draw_reward(par, work, m, s, a, first + M)


@kernel
def draw_linear(par, state, work, x, k, purpose):
    """The same under the linear link: W x, and noise with the covariance ||x||^2_{Z^{-1}} (diag p - pp') of counted
    outcomes, projected on the simplex."""
    J, S, A, M = work.P.shape
    fill_normals(par.seed, k, purpose, work.normal[0], work.normal[1])
    reward_means(par, state, work, x)
    sign_union_sets(par.transitions, state.transitions, work.transitions, par.layout, x, work.local)
    for s in range(S):
        for a in range(A):
            form, p = 0.0, work.local.P[s, a]
            for b in range(x.shape[0]):
                for c in range(x.shape[0]):
                    form += x[b] * state.transitions.inverse[s, a, b, c] * x[c]
            deviation = par.posterior_scale * math.sqrt(form)
            for m in range(J):
                first, total = ((m * S + s) * A + a) * (M + 1), 0.0
                for j in range(par.layout.count[s, a]):
                    total += math.sqrt(p[j]) * normal_number(work, first + j)
                for j in range(M):
                    e = math.sqrt(p[j]) * normal_number(work, first + j) - p[j] * total
                    work.P[m, s, a, j] = p[j] + deviation * e
                draw_reward(par, work, m, s, a, first + M)
    for m in range(J):
        apply_projection(
            par.transitions.region, (merged(work.P[m]), 0.0, merged(par.layout.count), work.transitions.moved)
        )


apply_draw = caller()


@kernel
def best_draw(par, draws, work, k, h, P, V_next, Q):
    """A hook of `planning.backward_induction_with`: Q <- the largest r_m + P_m V_{h+1} over the models drawn, (P, r);
    Q holds that of the first."""
    P, r = draws
    for m in range(1, P.shape[0]):
        for s in range(Q.shape[0]):
            for a in range(Q.shape[1]):
                Q[s, a] = max(Q[s, a], r[m, s, a] + expectation(P[m], par, s, a, V_next))


@kernel
def best_of_draws(layout, hook, P, r, key, k, Q, policy, values):
    """policy, values <- a plan with the best of the models in every backup."""
    backward_induction_with(hook, 0, P[0], layout, r[0], 1, key, layout, (P, r), 0, k, Q, policy, values)


apply_several = caller()
