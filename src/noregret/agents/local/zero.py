"""Mean rewards counted from another zero at every step, for the shortfall of one policy (docs/beyond.md, section 7).

Whoever is treated for H steps gets H rewards, under any policy. So a number taken off all rewards of a step changes no
difference of values, also one that nobody knows. With a design of the rewards the number that is taken off is the
error, at one's estimate, of the mean reward along the policy: it is common to much that pairs get.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...beliefs.local import LocalSets
from ...checks import Floats
from ...estimators.rewards.functionals import LINEAR, functional, lifted
from ...planning.common import StepRanges
from ...problem.layout import Layout


def visits(P: Floats, layout: Layout, policy: NDArray[np.int64], starts: NDArray[np.int64]) -> Floats:
    """[H, S]: how often a policy is where, in the model P [S, A, M], begun in any of these states."""
    (H, S), s = policy.shape, np.arange(policy.shape[1])
    made = np.zeros((H, S))
    made[0, starts] = 1.0 / len(starts)
    for h in range(H - 1):
        mass = made[h][:, None] * P[s, policy[h]]  # padding of P is 0
        np.add.at(made[h + 1], layout.outcomes[s, policy[h]], mass)
    return made


def ranges_along(
    par: Any, state: Any, local: LocalSets, layout: Layout, x: Floats, policy: NDArray[np.int64], starts: Any
) -> StepRanges | None:
    """Ranges of r(s, a) - e_h, where e_h = sum_b m_hb'(theta*_b - theta_b) is what nobody knows
    of the mean reward along the policy at step h: m_hb the mean features of block b there, in the model of the centre.
    None where rewards have no design, are not linear in it, or the range of an available pair is empty. par, state: of
    the rewards."""
    if par.block.size == 0 or par.form not in LINEAR:
        return None
    H, S = policy.shape
    mass, s, blocks = visits(local.P, layout, policy, starts), np.arange(S), par.begin.shape[0]
    middle, half, common = np.zeros((S, *local.low.shape[1:])), np.zeros((H, *local.low.shape)), np.zeros(H)
    for b in range(blocks):
        u = lifted(par, b, x)
        m = np.einsum("hs,hse->he", mass, u[s, policy])
        own = par.block == b
        middle += np.where(own, functional(par, state, b, u)[0], 0.0)
        common += functional(par, state, b, m)[1]
        half += functional(par, state, b, u - m[:, None, None])[1]  # of others' pairs: that of m alone
    low, high = middle - par.offset - half, middle - par.offset + half
    low, high = np.maximum(low, local.low - common[:, None, None]), np.minimum(high, local.high + common[:, None, None])
    return StepRanges(low, high) if (low <= high)[:, layout.available].all() else None
