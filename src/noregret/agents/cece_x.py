"""CECE-x: cluster, explore, exploit, where the cluster is seen: the cell of context space that x lies in."""

import numpy as np
from numpy.typing import ArrayLike

from .. import _checks as check
from .._jit import inlined, kernel
from .._random import EXPLORE, uniforms
from ..planning import NONE, apply_planner
from ..problem import Problem
from .base import Agent, told
from .cell_models import CellPar, CellState, CellWork, ball_of, cell_parts, learn
from .controls import random_action
from .glm import tie_key


@kernel
def plan(par, state, work, x, k, out):
    b, before = ball_of(par, state, x), par.smoothing
    for s in range(work.r.shape[0]):
        for a in range(work.r.shape[1]):
            m = par.layout.count[s, a]
            for j in range(m):
                work.P[s, a, j] = (state.counts[b, s, a, j] + before) / (state.visits[b, s, a] + m * before)
            work.r[s, a] = (state.total[b, s, a] + before) / (state.rated[b, s, a] + 2.0 * before)
    key = tie_key(par.seed, k)
    apply_planner(
        par.planner, (work.P, par.layout, work.r, work.xi, work.noise, NONE, 0, key, work.Q, out.policy, out.values)
    )
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
    """One tabular model for each cell of context space; play uniformly for a few steps, then by the cell's model.

        P_hat = (count + c)/(n + c m),   r_hat = (sum of rewards + c)/(n_r + 2 c),   Q_h = r_hat + P_hat V_{h+1}

    The form that Hallak, Di Castro and Mannor's (2015) scheme takes where contexts are observed: the cell replaces the
    clustering of episodes, and the steps of uniform play, which classify there, only explore. No guarantee: the
    exploration never ends, and what a cell's members do not share is a bias that stays.

    centres     [B, d], everybody goes to the nearest: `noregret.agents.cells.kmeans` finds some. None: one cell for all
    explore     steps of uniform play at the start of every episode
    smoothing   c, the prior weight of every outcome (and of a reward of 0 and of 1)

    Cost per episode O(B d + S^2 A H), memory O(B S^2 A), both constant in the number of episodes.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> cells = nr.agents.kmeans(world.contexts.support, 6)
    >>> blind, kinds = (nr.simulate(nr.agents.CECEx(world.problem, centres=c), world, 1000) for c in (None, cells))
    >>> bool(kinds.final[0] < 0.7 * blind.final[0])
    True
    """

    name, group = "cece-x", "PAC"
    plan_kernel = staticmethod(plan)
    learn_kernel = staticmethod(learn)

    def __init__(
        self,
        problem: Problem,
        centres: ArrayLike | None = None,
        explore: int = 1,
        smoothing: float = 1.0,
        seed: int = 0,
    ) -> None:
        d = told(problem).context_dim
        made = np.zeros((1, d)) if centres is None else check.rows("centres", centres, d)
        explore = check.integer("explore", explore, 0)
        if explore > problem.horizon:
            raise ValueError(f"explore must be at most horizon = {problem.horizon}, got {explore}")
        super().__init__(
            problem, seed, centres=made, explore=explore, smoothing=check.positive("smoothing", smoothing)
        )  # fmt: skip

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        return None if problem.horizon > 1 else f"horizon must be at least 2 for {cls.name}, got {problem.horizon}"

    def _build(self) -> tuple[CellPar, CellState, CellWork]:
        o, centres = self.options, self.options["centres"]
        return cell_parts(
            self.problem, self.seed, centres, len(centres), prefix=o["explore"], smoothing=o["smoothing"]
        )  # fmt: skip
