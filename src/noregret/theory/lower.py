"""The lower bound: a two-state chain in which one action in A is a little better, and how little.

State b (bad) pays 0, state g (good) pays 1; the reward is that of the state one is in, before moving. An episode has H
steps and starts in b. P(g|b) = up, P(b|g) = down; rho = 1 - up - down. The hard family of Modi and Tewari (2020, proof
of the lower bound), after Jaksch, Ortner and Auer (2010), is m copies of this chain for each of d indicator contexts,
with down = delta = 1/H, and up = delta + eps for one secret action of each (context, copy), delta for the others.

The secret action is in the bad state here, in the rewarding one in the paper: the same up to exchanging the two. Two
repairs of the printed construction. It sets delta = 1/2: then V(g) - V(b) is at most 1/(1 - eps) whatever H is, and
the copies are bandits with K H pulls, whose regret is of order sqrt(H d S A K) up to logarithms; with delta = 1/H the
difference is of order H. And under the linear link it gives the other actions probability 0 instead of delta, which a
learner tells apart at once.

Caveat: that every learner's regret is at least of `order` follows from the argument of Jaksch, Ortner and Auer; the
constant in front of it, which depends on `scale`, is not proved here.

>>> from noregret.theory import lower
>>> gaps = [lower.gap(K, 2, n_actions=3, context_dim=2, horizon=6) for K in (1_000, 100_000)]
>>> round(gaps[0] / gaps[1], 6)  # what K episodes just fail to find shrinks like 1/sqrt(K)
10.0
>>> round(lower.order(100_000, n_states=4, n_actions=3, context_dim=2, horizon=6))
9295
"""

import math

from ..compiler.jit import formula


@formula
def advantage(horizon: int, up: float, down: float) -> float:
    """V(g) - V(b) over H steps: 1 + rho + ... + rho^(H-1) = (1 - rho^H)/(1 - rho), or H if nothing ever moves.

    >>> from noregret.theory import lower
    >>> for H in (10, 100):  # chances to move of 1/2, as printed; of 1/H
    ...     print(lower.advantage(H, 0.5, 0.5), round(lower.advantage(H, 1 / H, 1 / H), 2))
    1.0 4.46
    1.0 43.37
    """
    moves = up + down
    if moves == 0.0:
        return float(horizon)
    return (1.0 - (1.0 - moves) ** horizon) / moves


@formula
def stay_value(horizon: int, up: float, down: float) -> float:
    """V(b): the expected reward of H steps from the bad state, with one chance `up` to leave it throughout.

        pi (H - (1 - rho^H)/(1 - rho)),  pi = up/(up + down)

    (P(in g at step h) = pi (1 - rho^h), h = 0..H-1.) Never decreasing in `up`, because `advantage` is not negative: the
    action with the larger `up` is optimal at every step.

    >>> from noregret.theory import lower
    >>> # the third: P(g) = 1/4 1/2 + 3/4 1/4
    >>> [round(lower.stay_value(H, up=0.25, down=0.5), 4) for H in (1, 2, 3)]
    [0.0, 0.25, 0.5625]
    """
    if up == 0.0:
        return 0.0
    return up / (up + down) * (horizon - advantage(horizon, up, down))


@formula
def gap(episodes: int, copies: int, n_actions: int, context_dim: int, horizon: int, scale: float = 0.25) -> float:
    """What K episodes just fail to find: eps = c sqrt(A m d delta/(K H)) with delta = 1/H, at most delta/2.

    A pair (context, copy) is met K/(m d) times and b is left after about H steps, so that each action can be tried
    about K H/(A m d) times there; the standard deviation of its frequency is sqrt(delta) over the root of that. The
    limit does not bind iff K >= 4 c^2 A m d. Caveat: c = `scale` is a choice; 1/4 is not optimised.

    >>> from noregret.theory import lower
    >>> [round(lower.gap(K, 1, n_actions=4, context_dim=4, horizon=2), 4) for K in (1, 4, 16, 400)]
    [0.25, 0.25, 0.125, 0.025]
    """
    delta = 1.0 / horizon
    return min(scale * math.sqrt(n_actions * copies * context_dim * delta / (episodes * horizon)), 0.5 * delta)


@formula
def weight_bound(context_dim: int, horizon: int, eps: float) -> float:
    """B_p of the logit rows of the hard family, one log-odds per context.

        sqrt(d) max(ln(H - 1), |ln((delta + eps)/(1 - delta - eps))|),  delta = 1/H, H >= 2

    The second term is the larger one at H = 2 only, as eps <= delta/2.

    >>> from noregret.theory import lower
    >>> round(lower.weight_bound(context_dim=4, horizon=11, eps=0.01), 3)  # 2 ln 10
    4.605
    """
    best = 1.0 / horizon + eps
    return math.sqrt(context_dim) * max(math.log(horizon - 1.0), abs(math.log(best / (1.0 - best))))


@formula
def order(episodes: int, n_states: int, n_actions: int, context_dim: int, horizon: int) -> float:
    """The order H sqrt(d S A K) of the lower bound.

    Caveat: an order, not a bound; no constant is proved (see the top of this module).

    >>> from noregret.theory import lower
    >>> lower.order(episodes=100, n_states=2, n_actions=2, context_dim=1, horizon=5)
    100.0
    """
    return horizon * math.sqrt(float(context_dim) * n_states * n_actions * episodes)
