"""Planning with a model of one's own: from Python, and from a kernel of one's own."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import checks as check
from ..beliefs.point import HALF_SPAN
from ..compiler.jit import direct, kernel
from ..compiler.memory import apart
from ..numerics.random import tie_key
from ..problem.links import apply_gradient
from ..problem.problem import Problem
from .bellman import TO_REST, Model, Operator, Solution, backward_induction
from .plans import Plan

_ROUNDING = 1e-9  # by how much the probabilities of a row may miss one


@kernel
def distributions(gradient, rows, count):
    """rows [n, M] <- distributions of the next state, from predictors W x: the link, in place.

    gradient: `problem.link.gradient_address()`, made outside of kernels; count [n]: next states that each row has,
    entries behind them are padding."""
    apply_gradient(gradient, (rows, count))


@kernel
def solve(layout, P, r, widths, seed, k, Q, out):
    """out.policy [H, S], out.values [H+1, S] <- the best plan for a model, from the last step back.

        Q_h(s, a) = r(s, a) + sum_j P(s, a, j) V_{h+1}(outcome j) + widths(s, a) (max V_{h+1} - min V_{h+1})/2

    clipped to [0, H - h]. layout: `problem.layout`; P [S, A, M], in its slots; r [S, A]; widths [S, A]: by how much
    each row of P may be wrong in the 1-norm, so that values bound the optimal ones where that holds and r is an upper
    bound, 0: not at all; Q [S, A] is scratch. Ties are broken at random: seed and episode k say how."""
    model, found = Model(P, r, widths, P[:0]), Solution(Q, out.policy, out.values)
    backward_induction(layout, model, Operator(HALF_SPAN, TO_REST, tie_key(seed, k)), found)


def plan(problem: Problem, P: ArrayLike, r: ArrayLike, widths: ArrayLike | None = None, seed: int = 0) -> Plan:
    """The best plan for a model of one individual: P [S, A, S'] probabilities of next states, r [S, A] mean rewards.

    widths [S, A]: by how much each row of P may be wrong in the 1-norm; the plan is then the optimistic one, and its
    values bound the optimal values from above where that holds and r is an upper bound as well. Pairs whose action is
    not available are not looked at. Among actions that are equally good the seed chooses.

    >>> import numpy as np
    >>> import noregret as nr
    >>> problem = nr.Problem(n_states=2, n_actions=2, horizon=3, context_dim=1, weight_bound=1.0, reward_bound=1.0)
    >>> P = np.array([[[1.0, 0.0], [0.2, 0.8]], [[0.0, 1.0], [1.0, 0.0]]])  # state 0: stay, or try to move
    >>> r = np.array([[0.1, 0.0], [1.0, 0.0]])
    >>> made = nr.planning.plan(problem, P, r)
    >>> print(made)
    step  state 0  state 1
    0     1        0
    1     1        0
    2     0        0
    >>> made.values[0].round(2)
    array([1.76, 3.  ])
    >>> nr.planning.plan(problem, P, r, widths=np.full((2, 2), 0.1)).values[0].round(2)  # at most so much better
    array([1.83, 3.  ])
    """
    S, A, H = problem.n_states, problem.n_actions, problem.horizon
    met = problem.layout.available
    given = check.array("P", P, (S, A, S))
    rewards = np.where(met, check.array("r", r, (S, A)), 0.0)
    wide = np.zeros((S, A)) if widths is None else check.array("widths", widths, (S, A))
    model = problem.to_slots(given)
    wrong = np.argwhere(met & ((given.min(2) < 0.0) | (np.abs(model.sum(2) - 1.0) > _ROUNDING)))
    if wrong.size:
        s, a = (int(i) for i in wrong[0])
        raise ValueError(f"P must have a distribution over the supported next states of each pair, ({s}, {a}) has none")
    if (wide[met] < 0.0).any():
        raise ValueError("widths must be at least 0")
    solution = Solution(np.zeros((S, A)), np.zeros((H, S), np.int64), np.zeros((H + 1, S)))
    key = np.uint64(tie_key(check.integer("seed", seed, 0), 0))
    args: Any = apart((problem.layout, Model(model, rewards, wide, np.zeros((0, 0, 0))), solution))
    told = args[0], args[1], Operator(HALF_SPAN, TO_REST, key), args[2]
    direct(backward_induction, *told)(*told)
    return Plan(args[2].policy, args[2].values, problem=problem)
