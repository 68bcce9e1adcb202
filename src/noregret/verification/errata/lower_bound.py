"""Rows 29 to 31: the lower bound (section 5 of the paper, Appendix D)."""

import math

import numpy as np

from ...checks import Floats
from ...problem.links import MultinomialLogit
from ...problem.problem import Problem
from ...worlds import World
from ._tools import Outcome, erratum, follow, pinned, plan, slope, softmax, vertices

HORIZONS = (10, 30, 100, 300, 1000)


def two_states(delta: float, eps: float) -> tuple[Floats, Floats]:
    """The paper's two-state MDP: state 1 pays 1 and is left with probability delta - eps by action 0, delta by action
    1; state 0 pays nothing and is left with probability delta."""
    rewarding = np.array([[delta - eps, 1 - delta + eps], [delta, 1 - delta]])
    return np.stack((np.array([[1 - delta, delta]] * 2), rewarding)), np.array([[0.0, 0.0], [1.0, 1.0]])


def value_gap(horizon: int, delta: float, eps: float) -> float:
    """V*(1) - V*(0), exactly."""
    V = plan(*two_states(delta, eps), horizon).values[0]
    return float(V[1] - V[0])


def price(horizon: int, delta: float, episodes: float = 1e8) -> float:
    """Regret of never using the better action for K episodes, at the eps = 1/4 sqrt(A delta/(KH)) below which K H
    visits cannot tell the actions apart (A = 2): the order a lower bound can reach on this family."""
    P, r = two_states(delta, 0.25 * math.sqrt(2 * delta / (episodes * horizon)))
    best = plan(P, r, horizon).values
    return episodes * float((best - follow(P, r, np.ones((horizon, 2), int)))[0, 1])


@erratum(29, "Appendix D, delta_1 = 1/2", "error")
def lower_bound_horizon() -> Outcome:
    """Claim: the family with delta_1 = 1/2 gives Omega(H sqrt(dSAK)). Exact values for H = 10 to 1000, eps = 0.1 delta:
    V(1) - V(0), what one wrong action can cost, and `price`; the same with delta = 1/H."""
    half = [value_gap(H, 0.5, 0.05) for H in HORIZONS]
    scaled = [value_gap(H, 1 / H, 0.1 / H) for H in HORIZONS]
    bounded = max(half) <= 1 / (1 - 0.05) + 1e-12
    powers = [slope(HORIZONS, [price(H, d(H)) for H in HORIZONS]) for d in (lambda H: 0.5, lambda H: 1 / H)]
    said = f"V(1) - V(0) at H=10, 1000: {half[0]:.2f}, {half[-1]:.2f} with delta 1/2; {scaled[0]:.2f}, "
    said += f"{scaled[-1]:.0f} with 1/H; the cost of not knowing grows like H^{powers[0]:.2f} and H^{powers[1]:.2f}"
    return not bounded and powers[0] > 0.9, abs(slope(HORIZONS, scaled) - 1) < 0.02 and abs(powers[1] - 1) < 0.02, said


@erratum(29, "Appendix D, p_k(0|1,a)", "notation")
def lower_bound_two_halves() -> Outcome:
    """Claim: p(0|1,a*) = 1/2 for the optimal action and 1/2 for all others. The difference of the two constant policies
    over H = 20, as printed and with 1/2 - eps for the optimal one, eps = 0.1."""

    def gain(eps: float) -> float:
        P, r = two_states(0.5, eps)
        star, other = (follow(P, r, np.full((20, 2), a)) for a in (0, 1))
        return float((star - other)[0, 1])

    said = f"advantage of the optimal action over 20 steps: {gain(0.0):.3f} as printed, {gain(0.1):.3f} with 1/2 - eps"
    return gain(0.0) > 0, gain(0.1) > 0, said


def binomial(n: int, p: float) -> Floats:
    return np.array([math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(n + 1)])


def distinguishability(n: int, first: float, second: float) -> float:
    """Total variation between n flips of one coin and n of another, exactly."""
    return float(0.5 * np.abs(binomial(n, first) - binomial(n, second)).sum())


@erratum(30, "Appendix D, linear combination case", "error")
def lower_bound_linear_case() -> Outcome:
    """Claim: with 1/2 + eps for one action and 0 for all others the instances are as hard as before. Total variation
    between the optimal and another action after n = 10 and 100 visits, eps = 0.01; the same with delta for the others
    (delta = 1/2, the printed scale, and 1/10, eps = delta/50)."""
    printed = {n: distinguishability(n, 0.51, 0.0) for n in (10, 100)}
    ours = {n: max(distinguishability(n, 0.51, 0.5), distinguishability(n, 0.102, 0.1)) for n in (10, 100)}
    said = f"eps=.01: total variation after 10 visits {printed[10]:.3f} with zeros, {ours[10]:.3f} with delta; after "
    said += f"100 visits {printed[100]:.3f} and {ours[100]:.3f}"
    return printed[10] < 0.5, ours[100] < 0.5, said


@erratum(31, "Theorem 5.1, initial states", "notation")
def lower_bound_starts() -> Outcome:
    """Claim: Omega(H sqrt(dSAK)) for any sequence of initial states. Four two-state copies without the connecting
    actions that the proof sets aside, H = 50, all starts in the first copy: the chance of ever leaving it, by forward
    pass. With i = k mod d, j = floor(k/d) mod m all m d combinations of context and copy occur equally often."""
    copies, contexts, H = 4, 2, 50
    P, _ = two_states(1 / H, 0.1 / H)
    whole = np.kron(np.eye(copies), P.mean(1))  # uniform play
    at, outside = np.eye(2 * copies)[0], 0.0
    for _ in range(H):
        at = at @ whole
        outside = max(outside, float(at[2:].sum()))
    k = np.arange(8 * 10)
    used = np.unique(np.stack((k % contexts, k // contexts % copies)), axis=1, return_counts=True)[1]
    lockstep = np.unique(np.stack((k % contexts, k % copies)), axis=1).shape[1]
    said = f"starts in one copy reach the others with probability {outside:.0f}: 2 of {2 * copies} states; cycled "
    said += f"starts use {used.size} of 8 combinations equally (both indices modulo k: {lockstep})"
    return outside > 0.0, used.size == 8 and used.min() == used.max(), said


@erratum(31, "Appendix D, logit construction", "error")
def lower_bound_zero_probabilities() -> Outcome:
    """Claim: the copies are logit instances. A softmax over all S states with |W_i x| <= BR: smallest probability over
    the box by its vertices, S = 6, BR = 5, and the chance of leaving one's copy within H = 50. With a support mask the
    library's world has exact zeros."""
    S, bound, H = 6, 5.0, 50
    P = softmax(pinned(vertices(S - 1, bound)))
    leak = float(np.sort(P, -1)[:, : S - 2].sum(-1).min())  # onto the S - 2 states of the other copies
    support = np.kron(np.eye(3), np.ones((2, 2)))[:, None].astype(bool)
    problem = Problem(S, 1, H, 1, MultinomialLogit(), weight_bound=bound, support=support, reward_bound=1.0)
    inside = World(problem, np.zeros((S, 1, S, 1)), np.zeros((S, 1, 1))).transitions([1.0])
    said = f"S=6, BR=5: at least {leak:.1e} goes to other copies at each step, {1 - (1 - leak) ** H:.3f} within 50; "
    said += f"with a support mask {float(inside[~support].max()):.0f}"
    return leak == 0.0, (inside[~support] == 0.0).all(), said
