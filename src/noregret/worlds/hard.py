"""Worlds in which every learner must lose: the family of the lower bound, made to be run (see `theory.lower`)."""

import math

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats
from ..problem.links import LinearCombination, Link, MultinomialLogit
from ..problem.problem import Problem
from ..theory import lower
from .contexts import Cycle
from .starts import InTurn
from .world import World


class HardWorld(World):
    """The lower bound's world: two-state chains in which one secret action is a little better than the others.

    There are m = floor(S/2) copies of the chain for each of d contexts:

        P(g_j|b_j, a; e_i) = delta + eps 1[a = best[i, j]],   P(b_j|g_j, a; e_i) = delta,   rewards 1 in g_j, 0 in b_j

    delta = 1/H and eps = `theory.lower.gap`, tuned to a number of episodes. Contexts are e_1, ..., e_d in turn; b_j is
    state 2j and g_j state 2j + 1. Even S: episode k starts in b_j with j = floor(k/d) mod m, so that m d episodes in a
    row meet every (context, copy) once. Odd S: the last state goes to a uniformly chosen b_j, whatever is done, and
    every episode starts there; H - 1 steps remain.

    delta, gap   the two numbers above
    best         [d, m], the secret actions, which are optimal at every step
    optimum      V* at the start of every episode, in closed form

    >>> import noregret as nr
    >>> world = nr.worlds.hard_logit(n_states=4, context_dim=2, seed=1)
    >>> world.best.shape  # a secret action for each context and copy
    (2, 2)
    >>> round(world.delta, 3), round(world.gap, 4)
    (0.167, 0.0014)
    >>> x, start = world.context(0, 0), world.start(0, 0)
    >>> bool(abs(world.optimum - world.optimal(x).values[0, start]) < 1e-9)  # the closed form
    True
    """

    def __init__(
        self,
        link: Link,
        name: str,
        *,
        n_states: int,
        n_actions: int,
        horizon: int,
        context_dim: int,
        episodes: int,
        scale: float,
        known_rewards: bool,
        seed: int,
    ) -> None:
        S, A = check.integer("n_states", n_states, 2), check.integer("n_actions", n_actions, 2)
        H, d = check.integer("horizon", horizon, 2), check.integer("context_dim", context_dim)
        if S % 2 and H < 3:
            raise ValueError(f"horizon must be at least 3 for an odd n_states, whose first step is spent, got {H}")
        if not isinstance(known_rewards, bool):
            raise ValueError(f"known_rewards must be True or False, got {check.shown(known_rewards)}")
        check.memory(f"n_states = {S}, n_actions = {A}, context_dim = {d}", 8.0 * S * A * S * d)
        m, budget = S // 2, check.integer("episodes", episodes)
        self.delta, self.gap = 1.0 / H, lower.gap(budget, m, A, d, H, check.positive("scale", scale))
        g = np.random.default_rng(check.integer("seed", seed, 0))
        self.best: NDArray[np.int64] = g.integers(A, size=(d, m))
        self.best.setflags(write=False)
        P, theta = self._chances(S, A), np.zeros((S, A, d))
        theta[1::2] = 1.0
        logit, support = isinstance(link, MultinomialLogit), P[..., 0] > 0.0
        bound = lower.weight_bound(d, H, self.gap) if logit else math.sqrt(d)
        problem = Problem(
            S, A, H, d, link, weight_bound=bound, reward_bound=math.sqrt(d), support=support,
            known_rewards=theta if known_rewards else None, state_names=_state_names(S),
        )  # fmt: skip
        weights = np.log(P, where=P > 0.0, out=np.zeros_like(P)) if logit else P
        starts = S - 1 if S % 2 else InTurn(range(0, S, 2), hold=d)
        super().__init__(problem, weights, theta, Cycle(d), starts, name)

    def _chances(self, S: int, A: int) -> Floats:
        """P(s'|s, a; e_i), [S, A, S', d]."""
        d, m = self.best.shape
        P = np.zeros((S, A, S, d))
        for j in range(m):
            b, g = 2 * j, 2 * j + 1
            P[b, :, g] = self.delta
            P[b, self.best[:, j], g, np.arange(d)] += self.gap
            P[b, :, b] = 1.0 - P[b, :, g]
            P[g, :, b], P[g, :, g] = self.delta, 1.0 - self.delta
        if S % 2:
            P[-1, :, 0:-1:2] = 1.0 / m
        return P

    def worth(self, share: float) -> float:
        """Value, at the start of any episode, of taking the best action with probability `share` at each step in b_j.

        `theory.lower.stay_value` with up = delta + share eps, down = delta and H steps (odd S: H - 1). Uniformly random
        actions have share 1/A; a policy that never finds the best action has share 0."""
        steps = self.problem.horizon - self.problem.n_states % 2
        return lower.stay_value(steps, self.delta + share * self.gap, self.delta)

    @property
    def optimum(self) -> float:
        """V* at the start of every episode: `worth(1)`."""
        return self.worth(1.0)


def _state_names(S: int) -> tuple[str, ...]:
    pairs = tuple(f"{kind} {j}" for j in range(S // 2) for kind in ("bad", "good"))
    return (*pairs, "start") if S % 2 else pairs


def hard_logit(
    n_states: int = 4,
    n_actions: int = 3,
    horizon: int = 6,
    context_dim: int = 2,
    episodes: int = 10_000,
    scale: float = 0.25,
    known_rewards: bool = True,
    seed: int = 0,
) -> HardWorld:
    """The lower bound's world (`HardWorld`) under the multinomial logit.

    Rows are log-odds on two-state supports: weights [S, A, S', d], weight_bound = `theory.lower.weight_bound`, about
    sqrt(d) ln(H - 1). `episodes` is the number K the gap eps is tuned to, eps = scale sqrt(A m d/K)/H (at most 1/(2H)):
    run about as many. `seed` draws the secret actions. `known_rewards` tells the learner that g_j pays 1 and b_j
    nothing, as in the proof, where only transitions are secret.

    Modi and Tewari (2020), proof of the lower bound, repaired as `theory.lower` says. Caveat: regret of order
    H sqrt(d S A K) is forced on average over the secret actions; the constant is not proved here.

    >>> import noregret as nr
    >>> near, far = nr.worlds.hard_logit(episodes=1_000), nr.worlds.hard_logit(episodes=100_000)
    >>> print(f"{near.gap / far.gap:.0f}")  # a hundred times the episodes, a tenth of the gap
    10
    >>> print(f"{far.problem.weight_bound:.2f}")
    2.28
    """
    return HardWorld(MultinomialLogit(), "hard-logit", **locals())


def hard_linear(
    n_states: int = 4,
    n_actions: int = 3,
    horizon: int = 6,
    context_dim: int = 2,
    episodes: int = 10_000,
    scale: float = 0.25,
    known_rewards: bool = True,
    seed: int = 0,
) -> HardWorld:
    """The lower bound's world under the linear link.

    The same MDPs as `hard_logit`, with the probabilities themselves as weights [S, A, S', d] (weight_bound sqrt(d)).
    Options, source and caveat as there.

    >>> import numpy as np
    >>> import noregret as nr
    >>> linear, logit = nr.worlds.hard_linear(seed=3), nr.worlds.hard_logit(seed=3)
    >>> x = linear.context(0, 0)
    >>> np.allclose(linear.transitions(x), logit.transitions(x))  # two links, the same MDPs
    True
    """
    return HardWorld(LinearCombination(), "hard-linear", **locals())
