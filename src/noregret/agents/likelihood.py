"""The parts the agents beyond the paper share: sets of logits and of mean rewards, a sampler, and `learn`.

The agents of this family differ in their plan kernel; they share the types of par, state and work wherever they keep
the same kind of sets, and with them the compiled simulation loop.
"""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _checks as check
from .._checks import Floats
from .._jit import address, announced, caller, inlined, kernel, merged
from ..estimators.likelihood_ratio import (
    PREDICTORS,
    LikelihoodPar,
    LikelihoodState,
    LikelihoodWork,
    likelihood_parts,
    likelihood_query,
    likelihood_step,
)
from ..estimators.rewards import (
    RewardPar,
    RewardState,
    apply_logistic_beliefs,
    apply_logistic_step,
    reward_parts,
    ridge_step,
)
from ..links import MultinomialLogit
from ..local_sets import LocalSets, derive, largest_span, local_sets, log_softmax
from ..optimism import SHARP, TAYLOR, PassWork, add_bonus, pass_work
from ..planning import hook_addresses, planner_address
from ..problem import Layout, Problem
from .base import Agent
from .glm import norm_of, slot_of


class SetPar(NamedTuple):
    seed: int
    layout: Layout
    starts: NDArray[np.int64]  # states an episode may begin in
    describe: Any  # address of the kernel that fills work.local
    planner: Any  # address of `planning.backward_induction`
    adjust: Any  # address of `optimistic`
    transitions: LikelihoodPar
    sampler: LikelihoodPar
    rewards: RewardPar
    log_reward: float  # ln(1/delta) of one reward interval
    reward_prior: float  # sqrt(lambda_r) B_r
    sharp: int  # TAYLOR or SHARP
    draws: int  # J
    kappa: float  # of the gate
    posterior_scale: float
    certify: int  # 1: bounds on the values of the plan are computed too


class SetState(NamedTuple):
    transitions: LikelihoodState
    sampler: LikelihoodState  # of no pairs where nothing is sampled
    rewards: RewardState
    gate: NDArray[np.int64]  # [8]: episodes in which the draw, one of the six rungs, or the optimistic policy was played


class SetWork(NamedTuple):
    transitions: LikelihoodWork
    local: LocalSets
    passes: PassWork
    scale: Floats  # [1], on every bonus of the next pass
    mean: Floats  # [S, A], estimated mean rewards
    P: Floats  # [J, S, A, M], drawn models
    r: Floats  # [J, S, A]
    normal: Floats  # [2, N]
    factor: Floats  # [M, M]
    policy: NDArray[np.int64]  # [H, S], a candidate
    values: Floats  # [H+1, S], as it was planned
    upper: Floats  # [H+1, S], of the policy in hand
    lower: Floats
    Q: Floats  # [S, A]
    none: Floats  # [0, 0, 0]
    table: Floats  # [4, M+1]
    smallest: Floats  # [M]
    squares: Floats  # [2, M, M]
    zx: Floats  # [d]
    gram: Floats  # [d, d]


@inlined
def reward_ranges(par, state, work, x, norm):
    """work.local.low, high and work.mean for all pairs."""
    local, rewards = work.local, state.rewards
    S, A = work.mean.shape
    for s in range(S):
        for a in range(A):
            form, mean = 0.0, 0.0
            for b in range(x.shape[0]):
                t = 0.0
                for c in range(x.shape[0]):
                    t += rewards.inverse[s, a, b, c] * x[c]
                form += t * x[b]
                mean += rewards.theta[s, a, b] * x[b]
            width = (par.reward_prior + 0.5 * math.sqrt(2.0 * par.log_reward + rewards.growth[s, a])) * math.sqrt(form)
            work.mean[s, a] = min(max(mean, 0.0), 1.0)
            local.low[s, a] = min(max(mean - width, 0.0), 1.0)
            local.high[s, a] = min(max(mean + width, 0.0), 1.0)


@kernel
def describe(par, state, work, x):
    """work.local <- the sets of the individual with context x, from the online likelihood-ratio sets."""
    norm, local, count = norm_of(x), work.local, par.layout.count
    bound = par.transitions.weight_bound * norm
    for s in range(count.shape[0]):
        for a in range(count.shape[1]):
            n, z, cov = count[s, a], local.z[s, a], local.cov[s, a]
            rho = likelihood_query(par.transitions, state.transitions, work.transitions, n, s, a, x, norm, z, cov)
            log_softmax(z, n, work.transitions.logp, local.P[s, a])
            local.rho[s, a] = rho
            local.span[s, a] = largest_span(cov, rho, z, bound, n)
    derive(local, par.layout, bound, work.table, work.smallest, work.squares)
    reward_ranges(par, state, work, x, norm)


apply_describe = caller()


@kernel
def optimistic(par, state, work, k, h, P, V_next, Q):
    """The hook of `planning.backward_induction_with`."""
    add_bonus(work.local, par.layout, par.sharp, work.scale[0], V_next, Q, work.passes)


@kernel
def learn(par, state, work, x, k, n, path):
    norm = norm_of(x)
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        y = slot_of(par.layout, s, a, path.states[h + 1])
        count, reward = par.layout.count[s, a : a + 1], path.rewards[h]
        likelihood_step(par.transitions, state.transitions, work.transitions, count, s, a, y, x, norm)
        if state.sampler.samples.shape[0] > 0:
            likelihood_step(par.sampler, state.sampler, work.transitions, count, s, a, y, x, norm)
        if not math.isnan(reward):
            ridge_step(
                state.rewards, par.transitions.refresh, par.rewards.start, s, a, reward, x, work.zx,
                work.gram,
            )


class SetAgent(Agent):
    """Options of the family (with defaults set by the subclass's constructor): see `LRORL` and `CertifiedPSRL`."""

    group = "beyond"
    learn_kernel = staticmethod(learn)
    hook: ClassVar[Any] = optimistic
    samples = False  # whether it draws models
    uses_sets = True  # whether it keeps confidence sets

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        if not isinstance(problem.link, MultinomialLogit):
            return f"{cls.name} needs the MultinomialLogit link, got {problem.link!r}"
        return None

    def _shares(self) -> tuple[float, float]:
        """ln(1/delta) of one pair's transition set, and of its reward interval."""
        p, delta = self.problem, self.options.get("delta", 0.05)
        rewards = 0.0 if p.known_rewards is not None else REWARD_SHARE
        pairs = p.n_pairs / ((1.0 - REGRET_SHARE) * delta)
        return math.log(pairs / (1.0 - rewards)), math.log(pairs / REWARD_SHARE)

    def _build(self) -> tuple[SetPar, SetState, SetWork]:
        p, o, f = self.problem, self.options, np.zeros
        (S, A, M), H, d, count = p.layout.outcomes.shape, p.horizon, p.context_dim, p.layout.count
        log_p, log_r = self._shares()
        reward_par, rewards, lam_r = reward_parts(p, "corrected", o.get("reward_regularization"))
        predictor, kron = PREDICTORS.index(o.get("predictor", "unscented")), o.get("form", "full") == "kron"
        lam = o.get("regularization") or 1.0
        head = d, p.weight_bound, log_p, lam
        nobody = count[:0]
        par_t, transitions, work_t = likelihood_parts(count, *head, predictor, False, kron)
        par_s, sampler, _ = likelihood_parts(count, *head, predictor, True, kron)
        if not self.samples:
            sampler = LikelihoodState(*(a[:0].copy() for a in sampler))
        J = o.get("draws", 1) if self.samples else 0
        normals = f((2, (J * S * A * (M + 1) + 1) // 2))
        par = SetPar(
            self.seed, p.layout, p.starts, 0, planner_address(p.layout), 0, par_t, par_s, reward_par, log_r,
            math.sqrt(lam_r) * p.reward_bound, int(o.get("bonus", "taylor") == "sharp"), J, float(o.get("kappa", 0.0)),
            float(o.get("posterior_scale", 1.0)), int(o.get("certify", True)),
        )  # fmt: skip
        state = SetState(transitions, sampler, rewards, np.zeros(8, np.int64))
        values = (f((H + 1, S)) for _ in range(3))
        work = SetWork(
            work_t, local_sets(p.layout), pass_work(M), np.ones(1), f((S, A)), f((J, S, A, M)), f((J, S, A)), normals,
            f((M, M)), np.zeros((H, S), np.int64), *values, f((S, A)), f((0, 0, 0)), f((4, M + 1)), f(M),
            f((2, M, M)), f(d), f((d, d)),
        )  # fmt: skip
        with announced(f"the sets of {self.name}"):
            where = address(describe, par, state, work, f(d))
            hook, _ = hook_addresses(type(self).hook, None, par, state, work)
        return par._replace(describe=where, adjust=hook), state, work

    def _lower(self) -> Floats | None:
        return self.work.lower.copy() if self.par.certify else None


REWARD_SHARE = 0.5  # of delta, for the reward intervals
REGRET_SHARE = 0.02  # of delta, for a bound on the regret
