"""CECE: cluster, explore, classify, exploit, for latent contexts (Hallak, Di Castro and Mannor 2015)."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .... import checks as check
from ....checks import Floats
from ....compiler.jit import inlined, kernel
from ....numerics.random import EXPLORE, uniforms
from ....planning.bellman import UNCLIPPED, planner_address
from ....problem.layout import Layout, slot_of, uniform_rows
from ....problem.problem import Problem
from ...base import Agent, PlanBuffer
from ...declared import option
from ...endings import plan_model
from .cece_x import explore


class CecePar(NamedTuple):
    seed: int
    layout: Layout
    planner: Any  # slot of a planner (`planning.bellman.planner_address`)
    prefix: int  # T_e
    every: int  # L
    rounds: int  # of expectation-maximisation
    smoothing: float  # prior weight of every outcome
    rewards: int  # 1: rewards tell clusters apart, too


class CeceState(NamedTuple):
    """The last B episodes, with weights on the C clusters, and the clusters' models. B = memory."""

    steps: NDArray[np.int64]  # [B], steps seen
    states: NDArray[np.int64]  # [B, H]
    actions: NDArray[np.int64]  # [B, H]
    slots: NDArray[np.int64]  # [B, H], where the next state is kept
    rewards: Floats  # [B, H], -1 where not seen
    weights: Floats  # [B, C], each row sums to 1
    share: Floats  # [C], of each cluster
    P: Floats  # [C, S, A, M]
    r: Floats  # [C, S, A]

    def limits(self, problem: Problem) -> dict[str, tuple[float, float]]:
        S, A, M = problem.layout.outcomes.shape
        return {"states": (0, S - 1), "actions": (0, A - 1), "slots": (0, M - 1), "steps": (0, problem.horizon)}


class CeceWork(NamedTuple):
    rated: Floats  # [C, S, A]
    log: Floats  # [C]
    xi: Floats  # [S, A], zeros
    noise: Floats  # [0, 0, 0]
    Q: Floats  # [S, A]
    policy: NDArray[np.int64]  # [H, S]


@inlined
def evidence(par, state, c, s, a, slot, reward):
    """Log-likelihood of one step under cluster c; a reward in [0, 1] counts as that share of a success."""
    total = math.log(state.P[c, s, a, slot])
    if par.rewards == 1 and reward >= 0.0:
        total += reward * math.log(state.r[c, s, a]) + (1.0 - reward) * math.log(1.0 - state.r[c, s, a])
    return total


@inlined
def normalise(log, weights):
    """weights [C] <- exp(log) / sum exp(log)."""
    top, total = -math.inf, 0.0
    for c in range(log.shape[0]):
        top = max(top, log[c])
    for c in range(log.shape[0]):
        weights[c] = math.exp(log[c] - top)
        total += weights[c]
    for c in range(log.shape[0]):
        weights[c] /= total


@inlined
def weigh(par, state, work, i):
    """weights[i] <- the clusters' probabilities given episode i of the memory."""
    for c in range(state.share.shape[0]):
        work.log[c] = math.log(state.share[c])
        for h in range(state.steps[i]):
            s, a = state.states[i, h], state.actions[i, h]
            work.log[c] += evidence(par, state, c, s, a, state.slots[i, h], state.rewards[i, h])
    normalise(work.log, state.weights[i])


@inlined
def fit(par, state, work, filled):
    """Models and shares of the clusters from the weighted episodes, smoothed."""
    C, S, A, _ = state.P.shape
    for c in range(C):
        state.share[c] = par.smoothing
        for s in range(S):
            for a in range(A):
                for j in range(par.layout.count[s, a]):
                    state.P[c, s, a, j] = par.smoothing
                state.r[c, s, a], work.rated[c, s, a] = par.smoothing, 2.0 * par.smoothing
        for i in range(filled):
            w = state.weights[i, c]
            state.share[c] += w
            for h in range(state.steps[i]):
                s, a = state.states[i, h], state.actions[i, h]
                state.P[c, s, a, state.slots[i, h]] += w
                if state.rewards[i, h] >= 0.0:
                    state.r[c, s, a] += w * state.rewards[i, h]
                    work.rated[c, s, a] += w
        state.share[c] /= filled + C * par.smoothing
        for s in range(S):
            for a in range(A):
                total = 0.0
                for j in range(par.layout.count[s, a]):
                    total += state.P[c, s, a, j]
                for j in range(par.layout.count[s, a]):
                    state.P[c, s, a, j] /= total
                state.r[c, s, a] /= work.rated[c, s, a]


@inlined
def exploit(par, state, work, k, c, first, out):
    """Rows `first` and on of the policy, and all values, from the model of cluster c."""
    plan_model(
        par, work, state.P[c], state.r[c], UNCLIPPED, k, PlanBuffer(work.policy, out.values, out.plans, out.floor)
    )
    for h in range(first, out.policy.shape[0]):
        for s in range(out.policy.shape[1]):
            out.policy[h, s] = work.policy[h, s]


@kernel
def plan(par, state, work, x, k, out):
    """Uniform play first; then, until more is known, the largest cluster's optimal policy."""
    largest = 0
    for c in range(state.share.shape[0]):
        if state.share[c] > state.share[largest]:
            largest = c
    exploit(par, state, work, k, largest, par.prefix, out)
    explore(par, k, out.policy)


@kernel
def replan(par, state, work, x, k, n, path, out):
    """The optimal policy of the cluster that explains the first n steps best."""
    best, chosen = -math.inf, 0
    for c in range(state.share.shape[0]):
        log = math.log(state.share[c])
        for h in range(n):
            s, a, reward = path.states[h], path.actions[h], path.rewards[h]
            y = slot_of(par.layout, s, a, path.states[h + 1])
            log += evidence(par, state, c, s, a, y, -1.0 if math.isnan(reward) else reward)
        if log > best:
            best, chosen = log, c
    exploit(par, state, work, k, chosen, n, out)


@kernel
def learn(par, state, work, x, k, n, path):
    """Remember the episode; every `every` episodes cluster all that are remembered, from the weights they have."""
    B, C = state.weights.shape
    i = k % B
    state.steps[i] = n
    for h in range(n):
        s, a, reward = path.states[h], path.actions[h], path.rewards[h]
        state.states[i, h], state.actions[i, h] = s, a
        state.slots[i, h] = slot_of(par.layout, s, a, path.states[h + 1])
        state.rewards[i, h] = -1.0 if math.isnan(reward) else reward
    if k < par.every:  # nothing to classify by: a cluster at random
        H, S = work.policy.shape
        u, _ = uniforms(par.seed, k, H * S, EXPLORE)
        for c in range(C):
            state.weights[i, c] = 1.0 if c == int(u * C) else 0.0
    else:
        weigh(par, state, work, i)
    if (k + 1) % par.every == 0:
        filled = min(k + 1, B)
        for _ in range(par.rounds):
            fit(par, state, work, filled)
            for j in range(filled):
                weigh(par, state, work, j)


class CECE(Agent):
    """CECE (Hallak et al. 2015): episodes belong to one of a few kinds that are never seen.

    The observed context is not used.

    Explore: uniform play for the first steps. Classify: the kind c that maximises ln share_c + sum ln P_c(s'|s, a) over
    those steps (and the rewards' likelihood). Exploit: the optimal policy of its model for the rest. Cluster: every so
    many episodes a mixture of MDPs is fitted to the remembered episodes by expectation-maximisation.

    The policy changes once within the episode, after `explore` steps (`Agent.pause`). No guarantee: the published
    analysis assumes long episodes and kinds that are far apart, and clusters by distances between single episodes'
    models, which short episodes do not allow; a mixture is fitted instead, which may end in a local optimum.

    clusters      number of kinds; known, by assumption
    explore       T_e, steps of uniform play, at least 1 and below the horizon
    recluster     L, episodes between two fits; before the first one all play is uniform
    memory        episodes remembered, the last ones
    rounds        of expectation-maximisation in a fit, from the weights of the last one
    smoothing     prior weight of every outcome, of a reward of 0 and of 1, and of every cluster
    use_rewards   rewards tell kinds apart, too: mean rewards enter as those of 0-1 variables

    Cost per episode O(S^2 A H + C H), and O(rounds C (memory H + S^2 A)) every `recluster` episodes; memory
    O(memory (H + C) + C S^2 A), constant in the number of episodes.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent = nr.agents.CECE(world.problem, clusters=2, explore=1, recluster=100)
    >>> agent.pause  # steps of uniform play, by which a patient is classified
    1
    >>> run = nr.simulate(agent, world, 500, every=100)
    >>> early, late = run.regret[0, 0], run.regret[0, -1] - run.regret[0, -2]
    >>> bool(late < 0.75 * early)  # of the last hundred, and of the first, before anything was fitted
    True
    """

    name, group = "cece", "PAC"
    any_range = True
    plan_kernel = staticmethod(plan)
    learn_kernel = staticmethod(learn)
    replan_kernel = staticmethod(replan)

    clusters: int = option(2, check.integer)
    explore: int = option(1, check.integer)
    recluster: int = option(100, check.integer)
    memory: int = option(1000, check.integer)
    rounds: int = option(10, check.integer)
    smoothing: float = option(1.0, check.positive)
    use_rewards: bool = option(True, check.flag)

    def _settle(self) -> None:
        if self.problem.horizon <= self.explore:
            raise ValueError(f"explore must be below horizon = {self.problem.horizon}, got {self.explore}")
        if self.memory < self.recluster:
            raise ValueError(f"memory must be at least recluster = {self.recluster}, got {self.memory}")
        self.pause = self.explore

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        return None if problem.horizon > 1 else f"horizon must be at least 2 for {cls.name}, got {problem.horizon}"

    def _kept(self) -> float:
        (S, A, M), o = self.problem.layout.outcomes.shape, self.options
        return float(o["memory"] * (4 * self.problem.horizon + o["clusters"]) + o["clusters"] * S * A * M)

    def build(self) -> tuple[CecePar, CeceState, CeceWork]:
        p, o, f, i = self.problem, self.options, np.zeros, np.int64
        S, A, H, B, C = p.n_states, p.n_actions, p.horizon, o["memory"], o["clusters"]
        par = CecePar(
            self.seed, p.layout, planner_address(p.layout), o["explore"], o["recluster"], o["rounds"],
            float(o["smoothing"]), int(o["use_rewards"]),
        )  # fmt: skip
        state = CeceState(
            f(B, i), f((B, H), i), f((B, H), i), f((B, H), i), f((B, H)), np.full((B, C), 1.0 / C),
            np.full(C, 1.0 / C), np.tile(uniform_rows(p.layout), (C, 1, 1, 1)), np.full((C, S, A), 0.5),
        )  # fmt: skip
        work = CeceWork(f((C, S, A)), f(C), f((S, A)), f((0, 0, 0)), f((S, A)), f((H, S), i))
        return par, state, work
