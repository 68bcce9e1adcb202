"""What is left of a value after second order, or third, added up along a policy. docs/joint.md, sections 4 to 6.

W_h = q_h + `carried`(W_h+1) bounds what is left from step h on, q_h the forms of `remainder`. What two policies differ
by is followed as one value while they agree; where they part each goes its own way. After third order the form of the
third derivative itself is added, and of the two the one with the smaller trace is taken, context by context.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..beliefs.displaced import Rows
from ..checks import Floats
from ..problem.layout import Layout
from .derivatives import Expansion, step_of, third_derivative
from .forms import Groups, smallest, steepest_form
from .remainder import (
    bend_forms,
    carried,
    here_of,
    of_weights,
    slope_weights,
    twist_form,
    value_weights,
    value_weights_after_third,
)

CUBIC = 20  # rows of Delta up to which third derivatives are looked at: they cost m^4


class Course:
    """One policy, or what one policy has more than another where they agree, backwards step by step: W bounds what is
    left after second order, `finer` after third, F is the third derivative."""

    def __init__(self, policy: NDArray[np.int64], made: Expansion, cubic: bool) -> None:
        n, _, S, m = made.D.shape
        self.policy, self.made, self.cubic = policy, made, cubic
        self.W, self.finer = np.zeros((2, n, S, m, m))
        self.F = np.zeros((n, S, m, m, m)) if cubic else np.zeros((n, S, 0))

    def back(self, h: int, rows: Rows, groups: Groups, layout: Layout) -> None:
        """W and `finer` from step h + 1 to step h, with the F of step h + 1."""
        step, (V, D, E) = step_of(layout, self.policy, h), (part[:, h + 1] for part in self.made)
        here = here_of(rows, step)
        weights = value_weights(V, rows, groups, step) + slope_weights(D, here, groups, layout)
        bend, bend_after_third = bend_forms(E, here, groups, self.cubic)
        self.W = of_weights(weights, here) + bend + carried(self.W, here, groups, self.cubic)
        if self.cubic:
            weights = value_weights_after_third(V, here, groups) + slope_weights(D, here, groups, layout, True)
            form = of_weights(weights, here) + bend_after_third + twist_form(self.F, here, groups)
            self.finer = form + carried(self.finer, here, groups, True)

    def turn(self, h: int, rows: Rows, full: Floats, layout: Layout) -> None:
        """F from step h + 1 to step h."""
        step = step_of(layout, self.policy, h)
        self.F = third_derivative(self.made, self.F, rows, full[step.pick], step, h)


class Asked(NamedTuple):
    """One policy, or two to be compared."""

    start: Floats  # [n, S]
    policy: NDArray[np.int64]  # [n, H, S]
    other: NDArray[np.int64] | None


def rest_form(
    asked: Asked, expansions: tuple[Expansion, ...], rows: Rows, full: Floats, groups: Groups, layout: Layout
) -> Floats:
    """[n, m, m]: for each context at least what is left of the value of the policy, or of the difference of the two,
    after second order. expansions: of each policy, D and E in coordinates in which the set is a product of balls."""
    n, H, _ = asked.policy.shape
    cubic = rows.roots.shape[-1] <= CUBIC
    courses = [Course(asked.policy, expansions[0], cubic)]
    if asked.other is not None:
        both = Expansion(*(a - b for a, b in zip(*expansions, strict=True)))
        courses += [Course(asked.other, expansions[1], cubic), Course(asked.policy, both, cubic)]
    for h in range(H - 2, -1, -1):  # there is nothing after the last step
        for one in courses:
            one.back(h, rows, groups, layout)
        for one in courses[:2] if cubic else ():
            one.turn(h, rows, full, layout)
        if asked.other is not None:  # where they part each goes its own way
            first, second, both_ways = courses
            same = (asked.policy[:, h] == asked.other[:, h])[..., None, None]
            both_ways.W = np.where(same, both_ways.W, first.W + second.W)
            both_ways.finer = np.where(same, both_ways.finer, first.finer + second.finer)
            both_ways.F = first.F - second.F
    begin, last = asked.start[:, None], courses[-1]

    def mean(A: Floats) -> Floats:
        made: Floats = (begin @ A.reshape(n, A.shape[1], -1)).reshape(n, *A.shape[2:])
        return made

    coarse = mean(last.W)
    return smallest(coarse, mean(last.finer) + steepest_form(mean(last.F), groups) / 6.0) if cubic else coarse
