"""Proved bounds on a mean of values, at all times, while whoever logged was learning: bets on scores that are bounded
below. docs/evidence.md has the theorem and its proof.

Let v_k be the value for person k and Z_k a score with E[Z_k | past] = v_k, or less where outcomes are missing; let g_k
be a guess, known before, and Z_k - g_k >= -1/lambda. Then for every lambda > 0

    prod_{k <= n} (1 + lambda (Z_k - g_k)) exp(lambda (g_k - v_k))

is a nonnegative supermartingale, because 1 + u <= e^u. So is the mean over several lambdas, and by Ville's inequality
it stays below 1/delta at all n with probability 1 - delta: solved for v_1 + ... + v_n that is a lower confidence
sequence for the running mean. No upper range is needed, so weights may be as large as they like. The upper bound comes
from the rewards 1 - r, a difference from the sum of scores of one policy and of the other one's 1 - r.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from .scores import before

BETS = 14  # lambdas, each half of the one before; the largest is 1/H for every policy in the question
MIDDLE, AROUND = 3.0, 2.0  # which weigh most: for hundreds to ten thousands of people, deviations of 0.2 H to H
RISK = 0.5  # of its wealth that a bet may lose on one person at most


class Part(NamedTuple):
    """One policy's share in a score, rewards in [0, 1] [n, H]: w_h r_h, and t_h w_{h-1} (V_h - ratio_h Q_h) on top."""

    weights: Floats
    ratio: Floats
    rewards: Floats  # 0 where not seen: the worst
    Q: Floats  # of the logged pair; 0 without a model
    V: Floats  # of the state met
    worst: Floats  # at most ratio Q - V, whatever is done: max_a pi(a) Q(a)/floor(a) - V

    @property
    def before(self) -> Floats:
        return before(self.weights)

    @property
    def moves(self) -> Floats:
        """[n, H], mean 0 given the past and the state: w_{h-1} (V_h - ratio_h Q_h)."""
        return np.asarray(self.before * (self.V - self.ratio * self.Q))


def lambdas(horizon: int, parts: int) -> Floats:
    """[BETS], largest first."""
    return np.asarray(0.5 ** np.arange(BETS) / (horizon * parts))


def shares(bets: Floats) -> Floats:
    """Logarithms of what is put on each bet; they sum to 1."""
    made = 1.0 / (AROUND**2 + (np.arange(bets.size) - MIDDLE) ** 2)
    return np.asarray(np.log(made / made.sum()))


def running_guess(parts: list[Part], horizon: int) -> Floats:
    """[n]: from the people before, what a sum of scores will be; the weighted mean of their rewards."""
    guess = np.zeros(len(parts[0].weights))
    for part in parts:
        got, weight = (part.weights * part.rewards).sum(1), part.weights.mean(1)
        before = np.cumsum(got) - got, np.cumsum(weight) - weight
        guess += np.clip((0.5 * horizon + before[0]) / (1.0 + before[1]), 0.0, horizon)
    return guess


def log_wealth(parts: list[Part], guess: Floats, bets: Floats) -> Floats:
    """[n, L]: sum over people so far of ln(1 + lambda (Z - g)) + lambda g, for every lambda.

    What the model takes from a score is cut, t_h <= 1, so that Z - g >= -RISK/lambda whatever happens at this step;
    t_h is chosen before the action is, so that the mean stays what it was."""
    room = RISK / bets
    g = np.minimum(guess[:, None], room)
    total = np.zeros((len(guess), bets.size))
    moves, befores = [part.moves for part in parts], [part.before for part in parts]
    for h in range(parts[0].weights.shape[1]):
        worst = sum(b[:, h] * part.worst[:, h] for b, part in zip(befores, parts, strict=True))
        move = sum(m[:, h] for m in moves)
        got = sum(part.weights[:, h] * part.rewards[:, h] for part in parts)
        if np.any(move):
            least = np.maximum(worst, 1e-300)[:, None]
            t = np.minimum(1.0, np.maximum(total - g + room, 0.0) / least)
            total += t * np.asarray(move)[:, None]
        total += np.asarray(got)[:, None]
    gain = np.log1p(np.maximum(bets * (total - g), -RISK)) + bets * g
    return np.asarray(np.cumsum(gain, 0))


def lower_bounds(wealth: Floats, bets: Floats, counts: NDArray[np.int64], delta: float) -> Floats:
    """[m]: at each of these numbers of people, where sum_i share_i exp(wealth_i - lambda_i n v) is 1/delta; v is the
    mean of the values so far."""
    W, n, goal = wealth[counts - 1] + shares(bets), counts[:, None] * bets, math.log(1.0 / delta)
    low, high = ((W - goal) / n).max(1), ((W - goal + math.log(bets.size)) / n).max(1)  # one bet alone; all like it
    for _ in range(60):
        v = 0.5 * (low + high)
        x = W - n * v[:, None]
        top = x.max(1)
        above = top + np.log(np.exp(x - top[:, None]).sum(1)) > goal
        low, high = np.where(above, v, low), np.where(above, high, v)
    return np.asarray(low)


def betting_bounds(
    below: list[Part], above: list[Part], guesses: tuple[Floats, Floats], delta: float, counts: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """(lower [m], upper [m]) for the running mean of values or of differences, rewards in [0, 1], each with delta/2.
    below: the parts of the score for the lower bound, above: those for the upper, with rewards 1 - r. One part: a value
    from 0 to H; two: a difference."""
    H = below[0].weights.shape[1]
    most = float(H)
    bets, shift = lambdas(H, len(below)), most * (len(below) - 1)
    found = [
        lower_bounds(log_wealth(parts, guess, bets), bets, counts, 0.5 * delta) - shift
        for parts, guess in zip((below, above), guesses, strict=True)
    ]
    top = most if len(below) == 1 else 0.0
    lower, upper = found[0], top - found[1]
    return np.clip(lower, top - most, most), np.clip(upper, top - most, most)
