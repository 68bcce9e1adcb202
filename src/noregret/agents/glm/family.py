"""The parts the GLM agents share: estimators of transitions and rewards, one of each per pair, and `learn`.

Where the problem has a design the estimates are one per block of it (`estimators.newton.shared`,
`estimators.rewards.shared`). They are reached through the same kernel slots, so that nobody else waits for them to be
compiled.

The agents of this family differ in their plan kernel only; they share the types of par, state and work, and with them
the compiled simulation loop.

What is in the slots of `GLMORL` as it comes (logit link, no design, linear rewards; delta .05, constants "corrected"):

    believe   `believe`, below                        work.belief <- P_hat, r_hat and widths (`beliefs.point`: width
              TANH, spread HALF_SPAN), with `centred_box_rows` and `softmax_rows` of problem.links
    planner   planning.bellman.dense_induction        or sparse_induction, where not every state may come next
    steps     estimators.newton.online_newton.newton_learn     the sets of transitions (Theorem A)
    rewards   `estimate` and `widths` of beliefs.point and rewards_learn of estimators.rewards.regression: ridge
              regression; its own slots are empty
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ...beliefs.individual import IndividualModel
from ...beliefs.point import BeliefPar, BeliefWork, belief_parts, estimate, widths
from ...checks import Floats
from ...compiler.announcements import announced
from ...compiler.jit import kernel
from ...compiler.slots import EMPTY, slot
from ...estimators.likelihood.shared import SharedState
from ...estimators.newton.conversion import (
    LEARNERS,
    ConversionPar,
    ConversionState,
    ConversionWork,
    conversion_learn,
    conversion_parts,
)
from ...estimators.newton.online_newton import NewtonPar, NewtonState, NewtonWork, newton_learn, newton_parts
from ...estimators.newton.shared import (
    CENTRED,
    FISHER,
    TIMES,
    SharedNewtonPar,
    SharedNewtonWork,
    believe_blocks,
    shared_newton_learn,
    shared_newton_parts,
)
from ...estimators.rewards.forms import (
    RewardPar,
    RewardState,
    RewardWork,
    call_estimates,
    estimated,
    reward_parts,
    with_kernels,
)
from ...estimators.rewards.regression import rewards_learn
from ...numerics.linear_algebra import norm_of
from ...planning.bellman import planner_address
from ...problem.layout import Layout
from ...problem.problem import Problem
from ..base import Agent, Trajectory
from ..declared import choice, option
from ..diagnostics import EVERYBODY, WIDTHS, watch_values
from .diagnostics import watch_blocks, watch_sets
from .models import glm_model, glm_weights


class GLMPar(NamedTuple):
    seed: int
    layout: Layout
    believe: Any  # slot of `believe`
    planner: Any  # slot of a planner (`planning.bellman.planner_address`)
    steps: Any  # slot of `newton_learn`, `conversion_learn` or `shared_newton_learn`
    transitions: NewtonPar | ConversionPar | SharedNewtonPar
    rewards: RewardPar
    belief: BeliefPar
    log_confidence: float  # ln(1/delta') of each confidence set
    scale: float  # on every bonus
    exploration: float  # epsilon-greedy's exponent
    reward_reach: float  # B_r R
    widths: int  # 1: planning needs the widths


class GLMState(NamedTuple):
    transitions: NewtonState | ConversionState | SharedState
    rewards: RewardState


class GLMWork(NamedTuple):
    transitions: NewtonWork | ConversionWork | SharedNewtonWork
    rewards: RewardWork
    belief: BeliefWork
    r: Floats  # [S, A], rewards as planned with
    xi: Floats  # [S, A], widths as planned with
    noise: Floats  # [H, S, A], or [0, 0, 0]
    Q: Floats  # [S, A]
    log: Floats  # [1], ln(1/delta) of the widths
    zeros: Floats  # [S, A, d], where rewards have a design; else [0, 0, 0]


@kernel
def believe(par, state, work, x, log):
    """P_hat, r_hat and the widths for context x, with ln(1/delta) = log; in work.belief."""
    norm = norm_of(x)
    work.log[0] = log
    belief, rewards = work.belief, state.rewards
    estimate(par.transitions, state.transitions, rewards, par.layout, par.belief, x, norm, belief)
    if par.widths == 1:
        widths(par.belief, par.transitions, state.transitions, rewards, par.layout, log, x, belief)
    if par.rewards.logistic == 1:  # linear ones were done by `estimate` and `widths`
        args = par.rewards, rewards, work.rewards, x, log, belief.reward, belief.interval, belief.bonus
        call_estimates(par.rewards.estimates, args)


class NoRewards(NamedTuple):
    """What beliefs look at in the state of rewards, where there is none per pair."""

    theta: Floats  # [S, A, d]
    inverse: Floats  # [S, A, d, d]
    logdet: Floats  # [S, A]


@kernel
def believe_lifted(par, state, work, x, log):
    """`believe` where mean rewards have a design and transitions have none."""
    norm, belief, of = norm_of(x), work.belief, state.transitions
    work.log[0] = log
    unused = NoRewards(work.zeros, of.inverse, of.logdet)  # what it says of rewards `call_estimates` overwrites
    estimate(par.transitions, of, unused, par.layout, par.belief, x, norm, belief)
    if par.widths == 1:
        widths(par.belief, par.transitions, of, unused, par.layout, log, x, belief)
    args = par.rewards, state.rewards, work.rewards, x, log, belief.reward, belief.interval, belief.bonus
    call_estimates(par.rewards.estimates, args)


@kernel
def believe_shared(par, state, work, x, log):
    """`believe` where transitions have a design."""
    work.log[0] = log
    belief = work.belief
    believe_blocks(par.transitions, state.transitions, work.transitions, x, log, par.widths, belief)
    args = par.rewards, state.rewards, work.rewards, x, log, belief.reward, belief.interval, belief.bonus
    call_estimates(par.rewards.estimates, args)


apply_beliefs = slot("beliefs")


@kernel
def believe_now(par, state, work, x, log):
    """work.belief <- what is believed of the individual with context x, with ln(1/delta) = log."""
    apply_beliefs(par.believe, (par, state, work, x, log))


apply_steps = slot("steps")


@kernel
def learn(par, state, work, x, k, n, path):
    apply_steps(par.steps, (par.transitions, state.transitions, work.transitions, par.layout, x, norm_of(x), n, path))
    rewards_learn(par.rewards, state.rewards, work.rewards, x, n, path)


CONFIDENCE = choice("newton", "centred", "conversion", doc="The set around the transition weights: docs/theory.md.")
LEARNER = choice(*LEARNERS, doc="Of confidence='conversion': the online learner that the set is made from.")
GROUP_BOUND = option(None, doc="On the sum of the columns' 2-norms of every pair's weights; 'sparse' needs it.")


class GLMAgent(Agent):
    """Options that agents of the family take:

    constants              "corrected", or "paper" for the constants as printed
    regularization         lambda of the transition estimates; None: recommended (`estimators.newton.online_newton`)
    confidence             the set around the transition weights: "newton" (Theorems A and B; with a design A'),
                           "centred" (Theorem A with a design, too) or "conversion", made from an online learner
                           (`estimators.newton.conversion`), for every pair by itself
    learner, group_bound   of "conversion": "ons", "ftrl" or "sparse"; a bound on the sum of the columns' 2-norms of
                           every pair's weights, in centred coordinates for the logit (needed by "sparse")
    reward_regularization  lambda of the reward estimates; None: recommended (`estimators.rewards.forms`)"""

    any_range = masks = True
    learn_kernel = staticmethod(learn)
    width_cap = math.inf  # of printed widths
    perturbs = False  # whether planning needs room for noise
    steady = False  # whether delta is the same in all episodes
    uses_widths = False  # whether planning fills in the widths
    optimistic = False  # whether its values are optimistic wherever its sets hold
    confidence, learner, bonus_scale, exploration = "newton", "ons", 1.0, 0.0  # where they are no options

    @property
    def watch_columns(self) -> set[str]:
        if not self.uses_widths:
            return EVERYBODY
        return EVERYBODY | WIDTHS | ({"justified_failures", "excess", "bonuses"} if self.optimistic else set())

    def _settle(self) -> None:
        shared = self.shares_weights and self.problem.blocks is not None
        self.watch_kernel = (watch_blocks if shared else watch_sets) if self.uses_widths else watch_values

    @property
    def shares_weights(self) -> bool:  # type: ignore[override]
        """Whether it learns by the problem's designs: not with the printed constants, nor by conversion."""
        return self.options["constants"] == "corrected" and self.confidence != "conversion"

    def _sets(self) -> int:
        """How many sets there are, of transitions and of rewards."""
        p = self.problem
        made = (p.blocks, p.reward_blocks) if self.shares_weights else (None, None)
        return sum(p.n_pairs if blocks is None else int(blocks.size.size) for blocks in made)

    def _log_confidence(self, problem: Problem) -> float:
        return 0.0

    def _model_of(self, x: Floats) -> IndividualModel:
        return glm_model(self, x, believe_now)

    def _fitted(self) -> tuple[Floats, Floats]:
        return glm_weights(self)

    def _transition_parts(self, constants: Any) -> Any:
        """(par, state, work) of the transition estimates, and the kernel that learns them."""
        p, o = self.problem, self.options
        head = p.link, p.layout.count, p.context_dim, p.weight_bound, p.context_bound
        if self.confidence != "conversion":
            if self.learner != "ons" or o.get("group_bound") is not None:
                raise ValueError('learner and group_bound need confidence="conversion"')
            if self.shares_weights and p.blocks is not None:
                log = self._log_confidence(p) if self.steady else math.inf
                form = CENTRED if self.confidence == "centred" else FISHER
                sizes = p.blocks, p.layout, p.weight_bound, p.context_bound
                times = TIMES if self.uses_widths else 1.0
                return *shared_newton_parts(*sizes, form, log, o["regularization"], times=times), shared_newton_learn
            return *newton_parts(*head, constants, o["regularization"]), newton_learn
        if constants == "paper":
            raise ValueError('constants must be "corrected" with confidence="conversion"')
        parts = conversion_parts(*head, o["regularization"], LEARNERS.index(self.learner), o.get("group_bound"))
        return *parts, conversion_learn

    def _kept(self) -> float:
        p = self.problem
        (S, A, M), d, H = p.layout.outcomes.shape, p.context_dim, p.horizon
        made = (p.blocks, p.reward_blocks) if self.shares_weights else (None, None)
        sizes = [S * A * d * d if of is None else of.column.shape[0] * of.column.shape[1] ** 2 for of in made]
        rows = M * d if made[0] is None else M * made[0].features.shape[3]
        return float(2 * sum(sizes) + S * A * (2 * rows + H * self.perturbs))

    def build(self) -> tuple[GLMPar, GLMState, GLMWork]:
        p, o = self.problem, self.options
        S, A, d, f = p.n_states, p.n_actions, p.context_dim, np.zeros
        constants = o["constants"]
        known, logistic = p.known_rewards is not None, p.rewards == "logistic"
        if logistic and constants == "paper" and not known:
            raise ValueError(
                'constants must be "corrected" with logistic rewards: the paper prints no interval for them'
            )
        lam_r, by_design = o["reward_regularization"], self.shares_weights
        form, name = estimated(p, self.uses_widths), "reward_regularization"
        reward_par, rewards, reward_work = reward_parts(
            p, form, 0.0, lam_r, name, shared=by_design, scale=self.bonus_scale
        )
        lifted, shared = by_design and p.reward_blocks is not None, by_design and p.blocks is not None
        transition_par, transitions, transition_work, steps = self._transition_parts(constants)
        belief_par, belief_work = belief_parts(
            p.link, p.layout, constants, d, p.unit_reward_bound, reward_par.regularization, known, self.width_cap
        )
        belief_par = belief_par._replace(reward_scale=float(self.bonus_scale), reward_offset=p.scale.offset)
        par = GLMPar(
            seed=self.seed, layout=p.layout, believe=EMPTY, planner=EMPTY, steps=EMPTY, transitions=transition_par,
            rewards=reward_par, belief=belief_par, log_confidence=self._log_confidence(p), scale=self.bonus_scale,
            exploration=self.exploration, reward_reach=p.unit_reward_bound * p.context_bound,
            widths=int(self.uses_widths),
        )  # fmt: skip
        noise = f((p.horizon, S, A)) if self.perturbs else f((0, 0, 0))
        zeros = f((S, A, d)) if lifted else f((0, 0, 0))
        work = GLMWork(transition_work, reward_work, belief_work, f((S, A)), f((S, A)), noise, f((S, A)), f(1), zeros)
        state = GLMState(transitions, rewards)
        x, H = f(d), p.horizon
        path = Trajectory(np.zeros(H + 1, np.int64), np.zeros(H, np.int64), f(H))
        with announced(f"the beliefs of {self.name}"):
            if logistic or lifted or shared:
                reward_par = with_kernels(reward_par, rewards, reward_work, "learn", "estimates")
            beliefs = believe_shared if shared else believe_lifted if lifted else believe
            par = par._replace(
                rewards=reward_par,
                believe=apply_beliefs.fill(beliefs, par, state, work, x, 0.0),
                planner=planner_address(p.layout),
                steps=apply_steps.fill(steps, transition_par, transitions, transition_work, p.layout, x, 0.0, 0, path),
            )
        return par, state, work
