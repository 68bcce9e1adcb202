"""The parts shared by agents that estimate every transition probability on its own: ORLC-SI, Abbasi-Yadkori and Neu.

They differ in their plan kernel and in the hooks of `planning.bellman.backward_induction_with`; types, `learn` and with
them the compiled loop are common. Rewards are estimated in the form the problem states (`estimators.rewards.forms`).
"""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Floats
from ....compiler.announcements import announced
from ....compiler.jit import kernel
from ....compiler.slots import EMPTY
from ....estimators.linear.entrywise import EntryPar, EntryState, entry_beliefs, entry_parts, entry_step
from ....estimators.rewards.forms import (
    RewardPar,
    RewardState,
    RewardWork,
    call_estimates,
    estimated,
    reward_parts,
    with_kernels,
)
from ....estimators.rewards.regression import rewards_learn
from ....numerics.linear_algebra import norm_of
from ....problem.layout import Layout, slot_of, slot_table
from ...base import Agent
from ...endings import with_hooks


class EntrywisePar(NamedTuple):
    seed: int
    layout: Layout
    hooked: Any  # slots of `agents.endings.with_hooks`
    adjust: Any
    settle: Any
    entries: EntryPar
    rewards: RewardPar
    log_confidence: float  # ln(1/delta') of each entry's and each mean reward's interval
    scale: float  # on every width
    variant: int  # 1: rows are normalised (ORLC-SI), probabilities sum to one (Abbasi-Yadkori and Neu)
    slots: NDArray[np.int64]  # [S, A, S'], in which slot a next state is kept; -1: outside the support


class EntrywiseState(NamedTuple):
    entries: EntryState
    rewards: RewardState


class EntrywiseWork(NamedTuple):
    rewards: RewardWork
    P: Floats  # [S, A, M], estimated entries
    width: Floats  # [S, A, M], their half-widths
    low: Floats  # [S, A, M], ends of the box around them
    high: Floats
    reward: Floats  # r_hat, [S, A]
    interval: Floats  # xi_r, [S, A]
    bonus: Floats  # [S, A]
    r: Floats  # [S, A], rewards as planned with
    Q: Floats  # [S, A]
    moved: Floats  # [S * A]
    order: NDArray[np.int64]  # [S], states by falling value
    empty: NDArray[np.int64]  # [1], pairs whose set was empty in the last plan
    lower: Floats  # [H+1, S], lower values of the last plan
    zx: Floats  # [d]
    factor: Floats  # [d, d]


@kernel
def believe(par, state, work, x):
    """P_hat, r_hat and their half-widths for context x; rewards as an optimist plans with them in work.r."""
    norm = norm_of(x)
    entry_beliefs(par.entries, state.entries, par.layout.count, x, norm, par.log_confidence, work.P, work.width)
    rewards = par.rewards, state.rewards, work.rewards, x, par.log_confidence, work.reward, work.interval, work.bonus
    call_estimates(par.rewards.estimates, rewards)
    for s in range(work.r.shape[0]):
        for a in range(work.r.shape[1]):
            work.r[s, a] = work.reward[s, a] + work.bonus[s, a]


@kernel
def learn(par, state, work, x, k, n, path):
    norm = norm_of(x)
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        y, count = slot_of(par.layout, s, a, path.states[h + 1]), par.layout.count[s, a]
        if count > 1:
            entry_step(par.entries, state.entries, work, count, (s, a), y, x, norm)
    rewards_learn(par.rewards, state.rewards, work.rewards, x, n, path)


class EntrywiseAgent(Agent):
    """Options every agent of the family takes:

    delta                  every interval holds, in all episodes, with probability 1 - delta together
    bonus_scale            multiplies every width, that of a reward before it is cut to 1; anything but 1 carries no
                           guarantee
    regularization         lambda of the transition estimates; None: recommended (`estimators.linear.entrywise`)
    reward_regularization  lambda of the reward estimates; None: recommended (`estimators.rewards.forms`)"""

    any_range = True
    group = "contextual"
    learn_kernel = staticmethod(learn)
    hooks: ClassVar[Any] = None, None  # the two kernels of `planning.bellman.backward_induction_with`
    variant: bool  # what the agent's option of its own says

    def _model(self) -> tuple[int, float, int]:
        """(IDENTITY or SIGMA, bound on every theta_j, number of events that delta is split over)."""
        raise NotImplementedError

    def _kept(self) -> float:
        (S, A, M), d = self.problem.layout.outcomes.shape, self.problem.context_dim
        return float(S * A * (S + M * d + 4 * d * d))

    def build(self) -> tuple[EntrywisePar, EntrywiseState, EntrywiseWork]:
        p, o, f = self.problem, self.options, np.zeros
        S, A, M = p.layout.outcomes.shape
        mean, bound, events = self._model()
        entry_par, entries = entry_parts(p, mean, bound, o["regularization"])
        lam_r = o["reward_regularization"]
        reward_par, rewards, reward_work = reward_parts(
            p, estimated(p), 0.0, lam_r, "reward_regularization", scale=o["bonus_scale"]
        )
        par = EntrywisePar(
            seed=self.seed, layout=p.layout, hooked=EMPTY, adjust=EMPTY, settle=EMPTY, entries=entry_par,
            rewards=reward_par, log_confidence=math.log(events / o["delta"]),
            scale=o["bonus_scale"], variant=int(self.variant), slots=slot_table(p.layout),
        )  # fmt: skip
        cube, table, d = (S, A, M), (S, A), p.context_dim
        work = EntrywiseWork(
            reward_work, f(cube), f(cube), f(cube), f(cube), f(table), f(table), f(table), f(table), f(table), f(S * A),
            np.arange(S), np.zeros(1, np.int64), f((p.horizon + 1, S)), f(d), f((d, d)),
        )  # fmt: skip
        state = EntrywiseState(entries, rewards)
        adjust, settle = self.hooks
        with announced(f"the bonus of {self.name}"):
            asked = ("learn", "estimates") if p.rewards == "logistic" else ("estimates",)
            par = par._replace(rewards=with_kernels(reward_par, rewards, reward_work, *asked))
            return with_hooks(adjust, settle, par, state, work), state, work
