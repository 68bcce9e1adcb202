"""How most plan kernels end: from a model of this individual to a policy and its values.

par has `seed`, `layout` and the slots named below; work has `Q` [S, A]; k is the episode, which decides ties.
"""

from typing import Any, NamedTuple

import numpy as np

from ..beliefs.point import NONE
from ..checks import Floats
from ..compiler.jit import inlined
from ..compiler.slots import EMPTY
from ..numerics.random import tie_key
from ..planning import bellman
from ..planning.bellman import TO_REST, Hooks, Known, Model, Operator, Solution, apply_planner, call_hooked
from ..problem.layout import Layout


class ModelWork(NamedTuple):
    """A model to plan with, and the rest of what `plan_model` asks of work."""

    P: Floats  # [S, A, M]
    r: Floats  # [S, A]
    xi: Floats  # [S, A], zeros
    noise: Floats  # [0, 0, 0]
    Q: Floats  # [S, A]


def model_work(layout: Layout) -> ModelWork:
    f, pairs = np.zeros, layout.count.shape
    return ModelWork(f(layout.outcomes.shape), f(pairs), f(pairs), f((0, 0, 0)), f(pairs))


@inlined
def plan_model(par, work, P, r, clip, k, out):
    """out <- a best policy of the model P [S, A, M], r [S, A] with the rewards of work.noise on top; clip: of
    `planning.bellman.Operator`. par has `planner`, work has `xi` [S, A], which is not looked at."""
    model, operator = Model(P, r, work.xi, work.noise), Operator(NONE, clip, tie_key(par.seed, k))
    apply_planner(par.planner, (par.layout, model, operator, Solution(work.Q, out.policy, out.values)))


@inlined
def plan_hooked(par, state, work, P, r, k, policy, values):
    """policy [H, S], values [H+1, S] <- those of the model and of the agent's two hooks, values clipped. par has the
    slots that `with_hooks` fills."""
    hooks, operator = Hooks(par.adjust, par.settle, k), Operator(NONE, TO_REST, tie_key(par.seed, k))
    found = Solution(work.Q, policy, values)
    call_hooked(par.hooked, (hooks, par.layout, Known(P, r), operator, par, state, work, found))


def with_hooks(adjust: Any, settle: Any, par: Any, state: Any, work: Any) -> Any:
    """par with the slots of an agent's hooks (settle may be None) and of the planner that calls them
    (`planning.bellman.backward_induction_with`)."""
    table, cube, whole = np.zeros((1, 1)), np.zeros((1, 1, 1)), np.zeros((1, 1), np.int64)
    first, second = bellman.hook_addresses(adjust, settle, par, state, work)
    hooks, operator = Hooks(EMPTY, EMPTY, 0), Operator(NONE, TO_REST, np.uint64(0))
    found = Solution(table, whole, table)
    where = call_hooked.fill(
        bellman.backward_induction_with, hooks, par.layout, Known(cube, table), operator, par, state, work, found
    )
    return par._replace(hooked=where, adjust=first, settle=second)
