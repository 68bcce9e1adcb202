"""What the tabular learners share: counts of what followed each pair, one copy per group of contexts, and `learn`.

A tabular learner takes everybody in a group for the same individual: `centres` [B, d] are the middles of the groups
(`agents.baselines.groups`), and None is a single group, so the context is ignored. Nothing is shared between groups;
where a confidence level delta is promised, each gets delta/B of it. The agents of this family differ in their plan
kernel and its hooks only; they share the types of par, state and work, and with them the compiled loop and the planner.

In the formulas n is the number of visits of a pair, n_r that of its rewards that were seen, P_hat and r_hat are the
empirical means, m is the number of supported next states and t = k H + 1 with k the episodes that the group has seen
before, which is more than any of its counts. A pair with one supported next state has no transition to learn. Rewards
are numbers in [0, 1]: what the problem says about their form is not used. Where it knows them, their means at the
person's context take the place of estimates and widths; a kept plan, or a smallest value so far, has those of whom it
was made for.
"""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .... import checks as check
from ....checks import Floats
from ....compiler.announcements import announced
from ....compiler.jit import inlined, kernel
from ....compiler.slots import EMPTY
from ....numerics.linear_algebra import predictors
from ....planning.bellman import planner_address
from ....problem.layout import Layout, slot_of, slot_table, uniform_rows
from ....problem.problem import Problem
from ....theory.widths import sigma
from ...base import Agent
from ...commit import put
from ...endings import with_hooks
from ...promise import rewards_assumed
from ..groups import group_of
from .models import tabular_model


class TabularPar(NamedTuple):
    seed: int
    layout: Layout
    planner: Any  # slot of a planner (`planning.bellman.planner_address`)
    hooked: Any  # slots of `agents.endings.with_hooks`, or EMPTY
    adjust: Any
    settle: Any
    centres: Floats  # [B, d]
    slots: NDArray[np.int64]  # [S, A, S'], where next state s' is kept, -1 if it is not supported; or [0, 0, 0]
    log: float  # the fixed part of the logarithm in the bonus
    growth: float  # how often ln t is added to it
    scale: float  # on every bonus
    kind: int  # which of the agent's bonuses
    prior: float  # pseudo-count of every outcome
    pad: float  # added to the visits in the denominators of P_hat
    lazy: int  # 1: keep the plan until a count has doubled
    stepwise: int  # 1: count visits by step
    even: float  # 1.0: the padding of P_hat goes to all supported next states alike; 0.0: nowhere
    known: int  # 1: mean rewards are known
    logistic: int  # 1: as sigma(theta'x)
    offset: float  # else theta'x less this
    theta: Floats  # [S, A, d], of known rewards; or [0, 0, 0]


class TabularState(NamedTuple):
    """Numbers of visits are floats. Arrays an agent does not need have size 0."""

    episodes: Floats  # [B]
    counts: Floats  # [B, S, A, M]
    visits: Floats  # [B, S, A]
    reward_sums: Floats  # [B, S, A]
    reward_visits: Floats  # [B, S, A]
    P: Floats  # [B, S, A, M], counts/(visits + pad); uniform without visits, or 0 where there is padding
    step_visits: Floats  # [B, H, S]
    Q: Floats  # [B, H, S, A], the smallest upper values so far
    planned: Floats  # [B, S, A], visits when the kept plan was made
    stale: Floats  # [B], 1: the kept plan is to be made again; -(k + 1): it was made in episode k
    policy: NDArray[np.int64]  # [B, H, S], the kept plan
    values: Floats  # [B, H+1, S]

    def limits(self, problem: Problem) -> dict[str, tuple[float, float]]:
        counted = "episodes", "counts", "visits", "reward_sums", "reward_visits", "step_visits", "planned"
        last = {"policy": (0, problem.n_actions - 1), "P": (0, 1), "stale": (-(2**62), 1)}
        return dict.fromkeys(counted, (0.0, 2.0**62)) | last


class TabularWork(NamedTuple):
    group: NDArray[np.int64]  # [1]
    log: Floats  # [1], the logarithm in this episode's bonus
    P: Floats  # [S, A, M], a sampled model
    r: Floats  # [S, A], rewards as planned with
    low: Floats  # [S, A], lower bounds on the rewards
    xi: Floats  # [S, A], widths
    bonus: Floats  # [S, A]
    noise: Floats  # [H, S, A], or [0, 0, 0]
    Q: Floats  # [S, A]
    order: NDArray[np.int64]  # [S]
    room: Floats  # [S]
    draws: Floats  # [5, draws an episode], random numbers on their way
    lower: Floats  # [H+1, S], lower bounds on the values of the plan


@inlined
def enter(par, state, work, x):
    """The group of x; work.group and work.log are set for it."""
    b = group_of(par.centres, x)
    work.group[0] = b
    work.log[0] = par.log
    if par.growth > 0.0:
        horizon = work.lower.shape[0] - 1
        work.log[0] += par.growth * math.log(state.episodes[b] * horizon + 1.0)
    return b


@inlined
def told_rewards(par, x, r):
    """r [S, A] <- the known mean rewards of somebody with context x."""
    predictors(par.theta, x, r)
    for s in range(r.shape[0]):
        for a in range(r.shape[1]):
            r[s, a] = sigma(r[s, a]) if par.logistic == 1 else min(max(r[s, a] - par.offset, 0.0), 1.0)


@inlined
def variance(P, layout, s, a, V, mean):
    """sum_j P(s, a, j) (V(outcome j) - mean)^2; exactly 0 where V is constant on what was seen."""
    total = 0.0
    if layout.dense == 1:
        for j in range(P.shape[2]):
            total += P[s, a, j] * (V[j] - mean) * (V[j] - mean)
    else:
        for j in range(layout.count[s, a]):
            gap = V[layout.outcomes[s, a, j]] - mean
            total += P[s, a, j] * gap * gap
    return total


@inlined
def due(state, b, k):
    """Whether a plan is to be made for group b in episode k: something has doubled, or the kept plan is this episode's
    own, which is made again when it is asked for again."""
    return state.stale[b] == 1.0 or state.stale[b] == -(k + 1.0)


@inlined
def keep(state, b, k):
    """The plan in state.policy[b] and state.values[b] is new: note the episode and the visits it was made with."""
    state.stale[b] = -(k + 1.0)
    put(state.visits[b], state.planned[b])


@inlined
def recall(state, b, out):
    """out <- the kept plan of group b."""
    put(state.policy[b], out.policy)
    put(state.values[b], out.values)


@kernel
def learn(par, state, work, x, k, n, path):
    b = group_of(par.centres, x)
    state.episodes[b] += 1.0
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        y = slot_of(par.layout, s, a, path.states[h + 1])
        state.visits[b, s, a] += 1.0
        state.counts[b, s, a, y] += 1.0
        visits = state.visits[b, s, a]
        share = 1.0 / (visits + par.pad)
        more = par.even * par.pad / par.layout.count[s, a]
        for j in range(par.layout.count[s, a]):
            state.P[b, s, a, j] = share * (state.counts[b, s, a, j] + more)
        if not math.isnan(path.rewards[h]):
            state.reward_visits[b, s, a] += 1.0
            state.reward_sums[b, s, a] += path.rewards[h]
        if par.stepwise == 1:
            state.step_visits[b, h, s] += 1.0
        if par.lazy == 1 and visits - state.planned[b, s, a] >= max(1.0, state.planned[b, s, a]):
            state.stale[b] = 1.0


class TabularAgent(Agent):
    """Options every agent of the family takes:

    centres   [B, d], the middles of the groups whose members are taken for alike (`nr.agents.kmeans` makes
              some from contexts); None: everybody is alike

    Memory O(B S A M) for M supported next states, constant in the number of episodes."""

    any_range = True
    group = "tabular"
    learn_kernel = staticmethod(learn)
    adjust: ClassVar[Any] = None  # kernels of `planning.bellman.backward_induction_with`
    settle: ClassVar[Any] = None
    lazy = ranks = stepwise = keeps_Q = perturbs = samples = False
    pad = 0.0
    even = False  # whether the padding is shared out among the next states

    def _settle(self) -> None:
        if self.options["centres"] is not None:
            self.options["centres"] = check.rows("centres", self.options["centres"], self.problem.context_dim)

    def _numbers(self) -> dict[str, Any]:
        """Fields of par that are this agent's own: log, growth, kind, prior."""
        return {}

    def _draws(self) -> int:
        """How many random numbers are on their way at once."""
        p = self.problem
        S, A, M = (int(n) for n in p.layout.outcomes.shape)
        if self.samples:
            return (S * A if p.layout.dense else 1) * (M + 2)
        return (p.horizon * S * A + 1) // 2 if self.perturbs else 0

    @property
    def n_groups(self) -> int:
        centres = self.options["centres"]
        return 1 if centres is None else len(centres)

    @property
    def where(self) -> str:
        """The assumption every guarantee of the family makes."""
        alike = "for everybody" if self.options["centres"] is None else "for everybody in a cell"
        told = self.problem.known_rewards is not None and not (self.lazy or self.keeps_Q)  # nothing kept from others
        return f"where transitions {'' if told else 'and mean rewards '}are the same {alike}"

    def _assumed(self) -> tuple[str, ...]:
        """Nothing but `where`, and what was told."""
        return () if self.problem.known_rewards is None else rewards_assumed(self.problem)

    def _promise(self) -> str | None:
        promise = super()._promise()
        return promise and f"{promise}, {self.where}"

    _model_of = tabular_model

    def _kept(self) -> float:
        (S, A, M), H = self.problem.layout.outcomes.shape, self.problem.horizon
        steps = (self.n_groups * self.keeps_Q + self.perturbs) * H * S * A
        return float(2 * self.n_groups * S * A * M + steps + S * A * S * self.ranks)

    def build(self) -> tuple[TabularPar, TabularState, TabularWork]:
        p, o, f = self.problem, self.options, np.zeros
        S, A, M = p.layout.outcomes.shape
        H, B = p.horizon, self.n_groups
        numbers = {"log": 0.0, "growth": 0.0, "kind": 0, "prior": 0.0} | self._numbers()
        par = TabularPar(
            seed=self.seed, layout=p.layout, planner=EMPTY, hooked=EMPTY, adjust=EMPTY, settle=EMPTY,
            centres=f((1, p.context_dim)) if o["centres"] is None else o["centres"],
            slots=slot_table(p.layout) if self.ranks else np.zeros((0, 0, 0), np.int64),
            scale=float(o.get("bonus_scale", 1.0)), pad=self.pad, lazy=int(self.lazy), stepwise=int(self.stepwise),
            even=float(self.even), known=int(p.known_rewards is not None), logistic=int(p.rewards == "logistic"),
            theta=f((0, 0, 0)) if p.known_rewards is None else np.array(p.known_rewards, float) / p.scale.unit,
            offset=p.scale.offset, **numbers,
        )  # fmt: skip

        def when(needed: bool, *shape: int) -> Floats:
            return f(shape if needed else (0,) * len(shape))

        state = TabularState(
            episodes=f(B), counts=f((B, S, A, M)), visits=f((B, S, A)), reward_sums=f((B, S, A)),
            reward_visits=f((B, S, A)),
            P=f((B, S, A, M)) + (uniform_rows(p.layout) if self.pad == 0.0 or self.even else 0.0),
            step_visits=when(self.stepwise, B, H, S),
            Q=when(self.keeps_Q, B, H, S, A) + (H - np.arange(H)[:, None, None] if self.keeps_Q else 0.0),
            planned=when(self.lazy, B, S, A), stale=np.ones(B), policy=when(self.lazy, B, H, S).astype(np.int64),
            values=when(self.lazy, B, H + 1, S),
        )  # fmt: skip
        work = TabularWork(
            group=np.zeros(1, np.int64), log=f(1), P=f((S, A, M)), r=f((S, A)), low=f((S, A)), xi=f((S, A)),
            bonus=f((S, A)), noise=when(self.perturbs, H, S, A), Q=f((S, A)), order=np.zeros(S, np.int64), room=f(S),
            draws=f((5, self._draws())), lower=f((H + 1, S)),
        )  # fmt: skip
        with announced(f"the planner of {self.name}"):
            par = par._replace(planner=planner_address(p.layout))
            if self.adjust is not None:
                par = with_hooks(self.adjust, self.settle, par, state, work)
        return par, state, work
