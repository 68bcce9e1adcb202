"""The parts the GLM agents share: estimators of transitions and rewards, one of each per pair, and `learn`.

The agents of this family differ in their plan kernel only; they share the types of par, state and work, and with them
the compiled simulation loop.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from .. import _checks as check
from .._announce import announced
from .._checks import Floats
from .._jit import address, caller, inlined, kernel, merged
from .._random import TIE, words
from ..beliefs import BeliefPar, BeliefWork, belief_parts, estimate, widths
from ..estimators.conversion import (
    LEARNERS,
    ConversionPar,
    ConversionState,
    ConversionWork,
    conversion_parts,
    conversion_step,
)
from ..estimators.online_newton import NewtonPar, NewtonState, NewtonWork, newton_parts, newton_step
from ..estimators.rewards import (
    RewardPar,
    RewardState,
    apply_logistic_beliefs,
    reward_parts,
    reward_step,
    ridge_step,
)
from ..planning import planner_address
from ..problem import Layout, Problem
from .base import Agent


class GLMPar(NamedTuple):
    seed: int
    layout: Layout
    believe: Any  # address of `believe`
    planner: Any  # address of `planning.backward_induction`
    transitions: NewtonPar | ConversionPar
    rewards: RewardPar
    belief: BeliefPar
    log_confidence: float  # ln(1/delta') of each confidence set
    scale: float  # on every bonus
    exploration: float  # epsilon-greedy's exponent
    reward_reach: float  # B_r R
    widths: int  # 1: planning needs the widths


class GLMState(NamedTuple):
    transitions: NewtonState | ConversionState
    rewards: RewardState


class GLMWork(NamedTuple):
    transitions: NewtonWork | ConversionWork
    belief: BeliefWork
    r: Floats  # [S, A], rewards as planned with
    xi: Floats  # [S, A], widths as planned with
    noise: Floats  # [H, S, A], or [0, 0, 0]
    Q: Floats  # [S, A]
    log: Floats  # [1], ln(1/delta) of the widths


@inlined
def norm_of(x):
    total = 0.0
    for b in range(x.shape[0]):
        total += x[b] * x[b]
    return math.sqrt(total)


@kernel
def believe(par, state, work, x, log):
    """P_hat, r_hat and the widths for context x, with ln(1/delta) = log; in work.belief."""
    norm = norm_of(x)
    work.log[0] = log
    belief, rewards = work.belief, state.rewards
    estimate(par.transitions, state.transitions, rewards, par.layout, par.belief.printed, x, norm, belief)
    if par.widths == 1:
        widths(par.belief, par.transitions, state.transitions, rewards, par.layout, log, log, x, norm, belief)
    if par.rewards.logistic == 1:
        bound, term, cap = par.rewards.bound * norm, par.rewards.log_weight * log, par.belief.reward_cap
        means, intervals = merged(belief.reward), merged(belief.interval)
        apply_logistic_beliefs(
            par.rewards.beliefs,
            (merged(rewards.theta), belief.forms[1], merged(rewards.growth), x, bound, term, cap, means, intervals),
        )


apply_beliefs = caller()


@inlined
def tie_key(seed, k):
    """The word that breaks this episode's ties."""
    return words(seed, k, 0, TIE)[0]


@inlined
def slot_of(layout, s, a, state):
    """In which slot of pair (s, a) the next state is kept."""
    if layout.dense == 1:
        return state
    for j in range(layout.count[s, a]):
        if layout.outcomes[s, a, j] == state:
            return j
    raise ValueError("a next state lies outside the support")


@kernel
def learn(par, state, work, x, k, n, path):
    """The common case, online Newton steps and ridge regression: a choice inside this loop costs a tenth of a run."""
    norm = norm_of(x)
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        y = slot_of(par.layout, s, a, path.states[h + 1])
        newton_step(
            par.transitions, state.transitions, work.transitions, par.layout.count[s, a : a + 1], s, a, y, x, norm
        )
        if not math.isnan(path.rewards[h]):
            scratch, refresh = work.transitions, par.transitions.refresh
            ridge_step(state.rewards, refresh, par.rewards.start, s, a, path.rewards[h], x, scratch.zx, scratch.factor)


@inlined
def learn_reward(par, state, work, s, a, reward, x, norm):
    if not math.isnan(reward):
        scratch, refresh = work.transitions, par.transitions.refresh
        reward_step(par.rewards, state.rewards, refresh, s, a, reward, x, norm, scratch.zx, scratch.factor)


@kernel
def learn_any_rewards(par, state, work, x, k, n, path):
    """`learn` where rewards are logistic or known."""
    norm = norm_of(x)
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        y = slot_of(par.layout, s, a, path.states[h + 1])
        newton_step(
            par.transitions, state.transitions, work.transitions, par.layout.count[s, a : a + 1], s, a, y, x, norm
        )
        learn_reward(par, state, work, s, a, path.rewards[h], x, norm)


@kernel
def learn_converted(par, state, work, x, k, n, path):
    """`learn` under confidence="conversion", with any rewards."""
    norm = norm_of(x)
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        y = slot_of(par.layout, s, a, path.states[h + 1])
        conversion_step(
            par.transitions, state.transitions, work.transitions, par.layout.count[s, a : a + 1], s, a, y, x, norm
        )
        learn_reward(par, state, work, s, a, path.rewards[h], x, norm)


class GLMAgent(Agent):
    """Options every agent of the family takes (with defaults set by the subclass's constructor):

    constants              "corrected", or "paper" for the constants as printed
    regularization         lambda of the transition estimates; None: recommended (`estimators.online_newton`)
    confidence             the set around the transition weights: "newton" (Theorems A and B) or "conversion", made
                           from an online learner (`estimators.conversion`)
    learner, group_bound   of "conversion": "ons", "ftrl" or "sparse"; a bound on the sum of the columns' 2-norms of
                           every pair's weights, in centred coordinates for the logit (needed by "sparse")
    reward_regularization  lambda of the reward estimates; None: recommended (`estimators.rewards`)"""

    learn_kernel = staticmethod(learn)
    width_cap = math.inf  # of printed widths
    perturbs = False  # whether planning needs room for noise
    uses_widths = False  # whether planning fills in the widths
    optimistic = False  # whether its values are optimistic wherever its sets hold

    def _log_confidence(self, problem: Problem) -> float:
        return 0.0

    def _transition_parts(self, constants: Any) -> Any:
        """(par, state, work) of the transition estimates; also settles the kernel that learns."""
        p, o = self.problem, self.options
        head = p.link, p.layout.count, p.context_dim, p.weight_bound, p.context_bound
        kind = check.one_of("confidence", o.get("confidence", "newton"), ("newton", "conversion"))
        learner = check.one_of("learner", o.get("learner", "ons"), LEARNERS)
        if kind == "newton":
            if learner != "ons" or o.get("group_bound") is not None:
                raise ValueError('learner and group_bound need confidence="conversion"')
            if p.rewards != "linear" or p.known_rewards is not None:
                self.learn_kernel = learn_any_rewards  # type: ignore[misc]
            return newton_parts(*head, constants, o["regularization"])
        if constants == "paper":
            raise ValueError('constants must be "corrected" with confidence="conversion"')
        self.learn_kernel = learn_converted  # type: ignore[misc]
        return conversion_parts(*head, o["regularization"], LEARNERS.index(learner), o.get("group_bound"))

    def _kept(self) -> float:
        (S, A, M), d = self.problem.layout.outcomes.shape, self.problem.context_dim
        return float(S * A * (2 * M * d + 4 * d * d + self.problem.horizon * self.perturbs))

    def _build(self) -> tuple[GLMPar, GLMState, GLMWork]:
        p, o = self.problem, self.options
        S, A, d, f = p.n_states, p.n_actions, p.context_dim, np.zeros
        constants: Any = check.one_of("constants", o["constants"], ("corrected", "paper"))
        if o["reward_regularization"] is not None:
            o["reward_regularization"] = check.positive("reward_regularization", o["reward_regularization"])
        reward_par, rewards, lam_r = reward_parts(p, constants, o["reward_regularization"])
        if o["regularization"] is not None:
            o["regularization"] = check.positive("regularization", o["regularization"])
        transition_par, transitions, transition_work = self._transition_parts(constants)
        known = p.known_rewards is not None
        belief_par, belief_work = belief_parts(
            p.link, p.layout, constants, d, p.reward_bound, lam_r, known, self.width_cap
        )
        par = GLMPar(
            seed=self.seed,
            layout=p.layout,
            believe=0,
            planner=0,
            transitions=transition_par,
            rewards=reward_par,
            belief=belief_par,
            log_confidence=self._log_confidence(p),
            scale=float(o.get("bonus_scale", 1.0)),
            exploration=float(o.get("exploration", 0.0)),
            reward_reach=p.reward_bound * p.context_bound,
            widths=int(self.uses_widths),
        )
        noise = f((p.horizon, S, A)) if self.perturbs else f((0, 0, 0))
        work = GLMWork(transition_work, belief_work, f((S, A)), f((S, A)), noise, f((S, A)), f(1))
        state = GLMState(transitions, rewards)
        with announced(f"the beliefs of {self.name}"):
            where = address(believe, par, state, work, f(d), 0.0), planner_address(p.layout)
        return par._replace(believe=where[0], planner=where[1]), state, work
