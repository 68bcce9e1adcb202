"""CECE-x: cluster, explore, exploit, where the cluster is seen: the group of contexts that x lies in."""

import numpy as np
from numpy.typing import ArrayLike

from .... import checks as check
from ....compiler.jit import inlined, kernel
from ....numerics.random import EXPLORE, uniforms
from ....planning.bellman import UNCLIPPED
from ....problem.problem import Problem
from ...base import Agent
from ...declared import CENTRES, option
from ...endings import ModelWork, plan_model
from ...lottery import random_action
from .group_models import GroupPar, GroupState, ball_of, group_parts, learn


@kernel
def plan(par, state, work, x, k, out):
    b, before = ball_of(par, state, x), par.smoothing
    for s in range(work.r.shape[0]):
        for a in range(work.r.shape[1]):
            m = par.layout.count[s, a]
            for j in range(m):
                work.P[s, a, j] = (state.counts[b, s, a, j] + before) / (state.visits[b, s, a] + m * before)
            work.r[s, a] = (state.total[b, s, a] + before) / (state.rated[b, s, a] + 2.0 * before)
    plan_model(par, work, work.P, work.r, UNCLIPPED, k, out)
    explore(par, k, out.policy)


@inlined
def explore(par, k, policy):
    """Uniform play in the first `prefix` steps: an action is drawn for every state."""
    S = policy.shape[1]
    for h in range(par.prefix):
        for s in range(S):
            u, _ = uniforms(par.seed, k, h * S + s, EXPLORE)
            policy[h, s] = random_action(par.layout, s, u)


class CECEx(Agent):
    """One tabular model for each group of contexts; play uniformly for a few steps, then by the group's model.

        P_hat = (count + c)/(n + c m),   r_hat = (sum of rewards + c)/(n_r + 2 c),   Q_h = r_hat + P_hat V_{h+1}

    The form that Hallak, Di Castro and Mannor's (2015) scheme takes where contexts are observed: the group replaces the
    clustering of episodes, and the steps of uniform play, which classify there, only explore. No guarantee: the
    exploration never ends, and what a group's members do not share is a bias that stays.

    centres     [B, d], everybody goes to the nearest: `nr.agents.kmeans` finds some. None: one group for all
    explore     steps of uniform play at the start of every episode
    smoothing   c, the prior weight of every outcome (and of a reward of 0 and of 1)

    Cost per episode O(B d + S^2 A H), memory O(B S^2 A), both constant in the number of episodes.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> groups = nr.agents.kmeans(world.contexts.support, 6)
    >>> blind, kinds = (nr.simulate(nr.agents.CECEx(world.problem, centres=c), world, 1000) for c in (None, groups))
    >>> bool(kinds.final[0] < 0.7 * blind.final[0])
    True
    """

    name, group = "cece-x", "PAC"
    any_range = True
    plan_kernel = staticmethod(plan)
    learn_kernel = staticmethod(learn)

    centres: ArrayLike | None = CENTRES
    explore: int = option(1, check.integer, least=0)
    smoothing: float = option(1.0, check.positive)

    def _settle(self) -> None:
        d, horizon = self.problem.context_dim, self.problem.horizon
        made = np.zeros((1, d)) if self.centres is None else check.rows("centres", self.centres, d)
        if self.explore > horizon:
            raise ValueError(f"explore must be at most horizon = {horizon}, got {self.explore}")
        self.options["centres"] = made

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        return None if problem.horizon > 1 else f"horizon must be at least 2 for {cls.name}, got {problem.horizon}"

    def build(self) -> tuple[GroupPar, GroupState, ModelWork]:
        o, centres = self.options, self.options["centres"]
        return group_parts(
            self.problem, self.seed, centres, len(centres), prefix=o["explore"], smoothing=o["smoothing"]
        )  # fmt: skip
