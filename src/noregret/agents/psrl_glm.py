"""PSRL-GLM: plan for a model drawn from the (approximate) posterior of a generalized linear population."""

import math

from .. import _checks as check
from .._jit import inlined, kernel
from .._linear_algebra import cholesky
from .._random import POSTERIOR, fill_normals
from ..estimators.likelihood_ratio import likelihood_query
from ..local_sets import log_softmax
from ..planning import NONE, apply_planner, backward_induction_with, expectation
from ..problem import Problem
from .glm import norm_of, tie_key
from .likelihood import SetAgent


@kernel
def draw(par, state, work, x, k):
    """work.P, work.r [J, ...] <- models drawn from N(W, scale^2 Lambda^{-1}), and mean rewards.

    Number i of the episode's normals is work.normal.flat[i]; model j and pair (s, a) take M + 1 of them, the last for
    the reward."""
    J, S, A, M = work.P.shape
    norm, z, cov, factor = norm_of(x), work.transitions.z, work.transitions.cov, work.factor
    half = work.normal.shape[1]
    fill_normals(par.seed, k, POSTERIOR, work.normal[0], work.normal[1])
    for s in range(S):
        for a in range(A):
            n = par.layout.count[s, a]
            likelihood_query(par.sampler, state.sampler, work.transitions, n, s, a, x, norm, z, cov)
            trace = 0.0
            for j in range(n):
                trace += cov[j, j]
            cholesky(cov[:n, :n], 1e-12 * trace + 1e-290, factor[:n, :n])
            form = 0.0
            for b in range(x.shape[0]):
                t = 0.0
                for c in range(x.shape[0]):
                    t += state.rewards.inverse[s, a, b, c] * x[c]
                form += t * x[b]
            mean = 0.0
            for b in range(x.shape[0]):
                mean += state.rewards.theta[s, a, b] * x[b]
            for m in range(J):
                first, y = ((m * S + s) * A + a) * (M + 1), work.transitions.step
                for j in range(n):
                    v = 0.0
                    for i in range(j + 1):
                        t = first + i
                        v += factor[j, i] * work.normal[t // half, t % half]
                    y[j] = z[j] + par.posterior_scale * v
                log_softmax(y, n, work.transitions.logp, work.P[m, s, a])
                t = first + M
                e = work.normal[t // half, t % half]
                work.r[m, s, a] = min(max(mean + par.posterior_scale * 0.5 * math.sqrt(form) * e, 0.0), 1.0)


@kernel
def plan(par, state, work, x, k, out):
    draw(par, state, work, x, k)
    key = tie_key(par.seed, k)
    if par.draws == 1:
        head = work.P[0], par.layout, work.r[0], work.r[0], work.none, NONE, 1
        apply_planner(par.planner, (*head, key, work.Q, out.policy, out.values))
    else:
        backward_induction_with(
            par.adjust, 0, work.P[0], par.layout, work.r[0], 1, key, par, state, work, k, work.Q, out.policy, out.values
        )


@kernel
def best_draw(par, state, work, k, h, P, V_next, Q):
    """Q <- the largest r_j + P_j V_{h+1} over the models drawn; Q holds that of the first."""
    for m in range(1, work.P.shape[0]):
        for s in range(Q.shape[0]):
            for a in range(Q.shape[1]):
                v = work.r[m, s, a] + expectation(work.P[m], par.layout, s, a, V_next)
                Q[s, a] = max(Q[s, a], v)


class PSRLGLM(SetAgent):
    name = "psrl-glm"
    plan_kernel = staticmethod(plan)
    samples, hook = True, best_draw

    def __init__(
        self,
        problem: Problem,
        draws: int = 1,
        posterior_scale: float = 1.0,
        form: str = "full",
        regularization: float = 1.0,
        reward_regularization: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(
            problem, seed, draws=check.integer("draws", draws), posterior_scale=check.nonnegative("posterior_scale", posterior_scale),
            form=form,  regularization=regularization, reward_regularization=reward_regularization
        )  # fmt: skip
