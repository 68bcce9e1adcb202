"""How much of what happens is chance: where one look tells everything, nobody has to look twice.

Of every pair is kept where its last step led and what its last reward was, and how often either was another than the
one before. A pair whose n steps all led to the same state, or whose n rewards were all the same, is one of two kinds:
without chance, or with chance and so far without a change, which has the probability L = 2/(n + 1) (two outcomes, the
chance of one uniform). What share of pairs has chance is measured on all of them together,

    phi = (W + m) / (W + m + sum of weights)

with m pairs that changed, and of every pair that did not 1 - L for steps, 1 - sqrt(L) for rewards: nothing for one
look, nearly 1 for many. It is 1 before any data, and where every pair changes. Then a pair without a change has chance
with the probability

    part = phi L / (phi L + 1 - phi)

W is PAIRS = 2 for steps. Rewards are believed to be sure only where steps are, too: their phi is the larger one of
those of steps and of rewards, both with W = PAID = 12. An arm that paid nothing may pay in one case of five, and arms
lead nowhere: the last step of an episode, and pairs with one possible next state, say nothing. Contexts are not looked
at: a pair that leads different people to different places has chance.

The part of what is not known that a plan is given (`agents.local.explore`) is multiplied by phi of rewards, too: where
hardly anything is chance, little is looked at twice.

Nothing is proved about it: plans explore by it (`agents.local.explore`), and neither draws nor sets know of it.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from ..compiler.jit import inlined
from ..problem.problem import Problem

PAIRS, PAID = 2.0, 12.0  # W: pairs with chance that were seen before any other


class ChanceState(NamedTuple):
    """[S, A] each; of no states where no plan asks."""

    led: NDArray[np.int64]  # where the last step led
    steps: NDArray[np.int64]  # steps so far, without the last ones of episodes
    turned: NDArray[np.int64]  # of them, those that led elsewhere than the one before
    paid: Floats  # the last reward
    rewards: NDArray[np.int64]  # rewards so far
    varied: NDArray[np.int64]  # of them, those that were not the one before

    def limits(self, problem: Problem) -> dict[str, tuple[float, float]]:
        """For `agents.limits`."""
        return {"led": (0, problem.n_states - 1), "paid": (0.0, 1.0)}

    def fault(self) -> str | None:
        """Likewise: what else is wrong."""
        after = (self.turned, self.steps), (self.varied, self.rewards)
        if any(np.any(changed > np.maximum(seen - 1, 0)) for changed, seen in after):
            return "has seen more changes than there can be"
        return None


def chance_state(n_states: int, n_actions: int) -> ChanceState:
    """Before any data."""
    f, size = np.zeros, (n_states, n_actions)
    return ChanceState(
        f(size, np.int64), f(size, np.int64), f(size, np.int64), f(size), f(size, np.int64), f(size, np.int64)
    )


@inlined
def learn_chance(chance, s, a, after, reward, last):
    """One step of pair (s, a), to state `after`, and its reward, nan if it was not seen; last=1: of an episode."""
    if last == 0:
        if chance.steps[s, a] > 0 and chance.led[s, a] != after:
            chance.turned[s, a] += 1
        chance.led[s, a] = after
        chance.steps[s, a] += 1
    if not math.isnan(reward):
        if chance.rewards[s, a] > 0 and chance.paid[s, a] != reward:
            chance.varied[s, a] += 1
        chance.paid[s, a] = reward
        chance.rewards[s, a] += 1


@inlined
def share_with(known, changed, same):
    """phi."""
    return (known + changed) / (known + changed + same)


@inlined
def shares_of(chance, count):
    """phi of steps and of rewards; count [S, A]: possible next states."""
    turned, straight, varied, equal = 0.0, 0.0, 0.0, 0.0
    for s in range(count.shape[0]):
        for a in range(count.shape[1]):
            n, m = chance.steps[s, a], chance.rewards[s, a]
            if chance.turned[s, a] > 0:
                turned += 1.0
            elif n > 1 and count[s, a] > 1:
                straight += 1.0 - 2.0 / (n + 1.0)
            if chance.varied[s, a] > 0:
                varied += 1.0
            elif m > 1:
                equal += 1.0 - math.sqrt(2.0 / (m + 1.0))
    of_steps = share_with(PAIRS, turned, straight)
    return of_steps, max(share_with(PAID, turned, straight), share_with(PAID, varied, equal))


@inlined
def part_of(phi, n):
    """The probability of chance after n looks without a change."""
    return 2.0 * phi / (2.0 * phi + (n + 1.0) * (1.0 - phi))
