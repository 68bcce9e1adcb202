"""Models drawn from an approximate posterior, and the plan for the best of several.

One kernel of each kind of link draws; both fill work.P and work.r.
"""

import math

from ...beliefs.local import softmax
from ...beliefs.point import NONE
from ...compiler.jit import inlined, kernel, merged
from ...compiler.slots import EMPTY, slot
from ...estimators.likelihood.sets import likelihood_query
from ...estimators.linear.sign_union import sign_union_sets
from ...estimators.rewards.calibrated import drawn_mean
from ...numerics.linear_algebra import cholesky
from ...numerics.random import DOUBT, POSTERIOR, fill_normals, tie_key
from ...planning.bellman import (
    TIED_WITHIN,
    TO_REST,
    Hooks,
    Known,
    Model,
    Operator,
    Solution,
    apply_planner,
    backward_induction_with,
    expectation,
)
from ...problem.links import apply_projection
from .sets import reward_means
from .shared import call_lifted, normal_at

DRAWS = 32  # models drawn to see how sure a plan is


@inlined
def draw_reward(par, work, m, s, a, i):
    spread = par.posterior_scale * work.deviation[s, a]
    work.r[m, s, a] = drawn_mean(par.means.form, work.mean[s, a], spread, spread * normal_at(work, i))


@kernel
def draw_logit(par, state, work, x, k, purpose):
    """work.P, work.r [J, ...] <- models drawn from N(W, posterior_scale^2 Lambda^{-1}) of `sampler`, and mean rewards
    from normal posteriors around ridge regression. Model m and pair (s, a) take M + 1 normals, the last for the reward.

    cov comes with a component along the all-ones vector, which the softmax does not see."""
    J, S, A, M = work.P.shape
    w, logits = work.sampler, work.sampler.mean
    fill_normals(par.seed, k, purpose, work.normal[0], work.normal[1])
    reward_means(par, state, work, x)
    for s in range(S):
        for a in range(A):
            n, trace = par.layout.count[s, a], 0.0
            likelihood_query(par.sampler, state.sampler, w, s, a, x)
            for j in range(n):
                trace += w.cov[j, j]
            cholesky(w.cov[:n, :n], 1e-12 * trace + 1e-290, w.factor[:n, :n])
            for m in range(J):
                first = ((m * S + s) * A + a) * (M + 1)
                for j in range(n):
                    v = 0.0
                    for i in range(j + 1):
                        v += w.factor[j, i] * normal_at(work, first + i)
                    logits[j] = w.visit.z[j] + par.posterior_scale * v
                softmax(logits, n, work.P[m, s, a])
                draw_reward(par, work, m, s, a, first + M)
    if par.means.block.shape[0] > 0:
        call_lifted(par.lifted, (par, state, work, x, J * S * A * (M + 1)))


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
                    total += math.sqrt(p[j]) * normal_at(work, first + j)
                for j in range(M):
                    e = math.sqrt(p[j]) * normal_at(work, first + j) - p[j] * total
                    work.P[m, s, a, j] = p[j] + deviation * e
                draw_reward(par, work, m, s, a, first + M)
    if par.means.block.shape[0] > 0:
        call_lifted(par.lifted, (par, state, work, x, J * S * A * (M + 1)))
    for m in range(J):
        apply_projection(
            par.transitions.region, (merged(work.P[m]), 0.0, merged(par.layout.count), work.transitions.moved)
        )


apply_draw = slot("draw")


@kernel
def draw_model(par, state, work, x, k):
    """work.P[0] [S, A, M], work.r[0] [S, A] <- a model of an individual with context x, drawn from the posterior: for
    plans of one's own in a class made from `PSRLGLM`, whose par, state and work these are. k: the episode."""
    apply_draw(par.draw, (par, state, work, x, k, POSTERIOR))


@inlined
def plan_draw(par, work, k, policy, values):
    """policy, values <- those of the first model drawn."""
    model, operator = Model(work.P[0], work.r[0], work.r[0], work.none), Operator(NONE, TO_REST, tie_key(par.seed, k))
    apply_planner(par.planner, (par.layout, model, operator, Solution(work.Q, policy, values)))


@kernel
def doubt(par, state, work, out, x, k, gap):
    """gap [S] <- the share of DRAWS models in which the first action of the plan is not an optimal one."""
    gap[:] = 0.0
    for m in range(DRAWS):
        apply_draw(par.draw, (par, state, work, x, k * DRAWS + m, DOUBT))
        plan_draw(par, work, k, work.policy, work.values)
        for s in range(gap.shape[0]):
            if work.Q[s, out.policy[0, s]] < work.values[0, s] - TIED_WITHIN:
                gap[s] += 1.0 / DRAWS


@kernel
def best_draw(par, draws, work, k, h, P, V_next, Q):
    """A hook of `planning.bellman.backward_induction_with`: Q <- the largest r_m + P_m V_{h+1} over the models drawn,
    (P, r); Q holds that of the first."""
    P, r = draws
    for m in range(1, P.shape[0]):
        for s in range(Q.shape[0]):
            for a in range(Q.shape[1]):
                Q[s, a] = max(Q[s, a], r[m, s, a] + expectation(P[m], par, s, a, V_next))


@kernel
def best_of_draws(layout, hook, P, r, key, k, found):
    """policy, values <- a plan with the best of the models in every backup."""
    hooks, known = Hooks(hook, EMPTY, k), Known(P[0], r[0])
    backward_induction_with(hooks, layout, known, Operator(NONE, TO_REST, key), layout, (P, r), 0, found)


apply_several = slot("best of draws")
