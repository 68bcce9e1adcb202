"""What is known beforehand of the regret of LR-ORL and Certified PSRL with online sets: docs/regret.md.

The sizes of a problem's sets, and what `theory.likelihood_bounds` makes of them. With a design there is a set per
block, otherwise one per available pair.
"""

import math
from collections import Counter
from typing import NamedTuple

import numpy as np

from ..agents.local.certified_psrl import GROWTH, kappa_at, usual_kappa
from ..agents.local.family import REGRET_SHARE, REWARD_SHARE, SETS_TIMES
from ..estimators.likelihood.shared import FEW, natural_regularization, reach_of
from ..estimators.rewards.logistic import CARRIED, default_regularization
from ..estimators.rewards.shared import reward_sizes, scaled_blocks
from ..numerics.linear_algebra import LEAST_REGULARIZATION, least_regularization
from ..problem.design import Blocks, largest_feature
from ..problem.links import MultinomialLogit
from ..problem.problem import Problem
from ..theory import bounds
from ..theory.bound_terms import Growth
from ..theory.likelihood_bounds import (
    NEAR,
    Run,
    SetSize,
    least_probability,
    likelihood_growth,
    mixture_reward_growth,
    size_of_pair,
)

Sizes = list[tuple[SetSize, int]]
ROUNDING = {"linear": 2.1e-7, "logistic": 1e-9}  # what ranges of mean rewards carry for rounding, per step
NONE = Growth(0.0, 0.0)


class Shares(NamedTuple):
    """ln(1/delta) of one transition set, of one reward range, and of one event of the analysis."""

    transitions: float
    rewards: float
    event: float


def transition_sizes(problem: Problem, shared: bool = True) -> Sizes:
    """Of the sets of a problem, with how many there are of each; shared=False: as if it had no design."""
    p = problem
    if shared and p.blocks is not None:
        return _counted([_block_size(p, p.blocks, b) for b in range(p.blocks.size.size)])
    counts = p.layout.count[p.layout.available]
    return _counted([size_of_pair(int(n), p.context_dim, p.weight_bound, p.context_bound) for n in counts])


def _counted(sizes: list[SetSize]) -> Sizes:
    return list(Counter(sizes).items())


def _block_size(p: Problem, blocks: Blocks, b: int) -> SetSize:
    at, R = (blocks.block == b) & p.layout.available, p.context_bound
    dim, bound, counts = int(blocks.start[b, -1]), float(blocks.bound[b]), p.layout.count[at]
    least = LEAST_REGULARIZATION * (R * largest_feature(blocks, p.layout)) ** 2
    lam = max(SETS_TIMES * float(natural_regularization(blocks)[b]), least)
    if dim == 0 or counts.max(initial=1) == 1:
        return SetSize(0, bound**2, lam, 0.0, 0.0, 1, 1.0, 1)
    used = np.arange(p.layout.outcomes.shape[2]) < counts[:, None]
    phi = blocks.features[at]
    apart = np.linalg.norm(phi[:, :, None] - phi[:, None], axis=-1)
    apart = np.where(used[:, :, None] & used[:, None], apart, 0.0).max() * R
    reach = reach_of(blocks, p.layout, p.weight_bound)[at] * R
    with np.errstate(over="ignore"):  # then the smallest probability is 0, and nothing can be said
        odds = np.where(used[:, :, None] & used[:, None], np.exp(reach), 0.0).sum(1)
    n, q = int(counts.max()), int(blocks.size[b])
    points = int(np.minimum(counts - 1, q).max()) + 1
    smallest = float(1.0 / odds[used].max())
    return SetSize(dim, bound**2, lam, float(apart), float(reach.max()), n, smallest, points, 2.0 if n > FEW else 1.0)


def shares_of(problem: Problem, delta: float, shared: bool = True) -> Shares:
    """As the agents split delta (docs/beyond.md, section 12); three events per set and one for the run have what those
    keep for a bound on the regret."""
    p, given = problem, (problem.blocks, problem.reward_blocks) if shared else (None, None)
    sets, ranges = (p.n_pairs if blocks is None else blocks.size.size for blocks in given)
    part = 0.0 if p.known_rewards is not None else REWARD_SHARE
    held = (1.0 - REGRET_SHARE) * delta
    analysed = sets + (ranges if p.rewards == "logistic" and p.known_rewards is None else 0)
    events = 3 * analysed + 1
    logs = math.log(sets / (held * (1.0 - part))), math.log(ranges / (held * REWARD_SHARE))
    return Shares(*logs, math.log(events / (REGRET_SHARE * delta)))


def _logistic_size(p: Problem, shared: bool) -> tuple[SetSize, int]:
    sizes = reward_sizes(p, scaled_blocks(p) if shared else None)
    d, R, B = sizes.dim, sizes.context_bound, sizes.bound
    lam = max(default_regularization(d, 1.0, B), least_regularization(0.25, R, d))
    reach = B * R
    least = least_probability(2, reach) if reach < 300.0 else 0.0
    n = sizes.shape[0] if shared and p.reward_blocks is not None else p.n_pairs
    return SetSize(d, B**2, lam, R, reach, 2, least, 3, slack=CARRIED), n


def _reward_growth(p: Problem, run: Run, shares: Shares, near: float, shared: bool) -> Growth:
    if p.known_rewards is not None:
        return NONE
    if p.rewards == "logistic":
        size, one, other = _logistic_size(p, shared), shares.rewards, shares.event
        return likelihood_growth([size], run, near=near, log_set=one, log_event=other, rewards=True)
    blocks = scaled_blocks(p) if shared else None
    sizes = reward_sizes(p, blocks)
    n = p.n_pairs if blocks is None else sizes.shape[0]
    return mixture_reward_growth(sizes.dim, n, sizes.context_bound, sizes.bound, shares.rewards, run)


class SetRegret:
    """Bounds on the regret of LR-ORL and Certified PSRL, with online sets and all options as they are by default, for
    a problem under MultinomialLogit. shared=False: as if the problem had no design."""

    def __init__(self, problem: Problem, delta: float, shared: bool = True) -> None:
        self.problem, self.shared = problem, shared
        self.sizes, self.shares = transition_sizes(problem, shared), shares_of(problem, delta, shared)

    @staticmethod
    def covers(problem: Problem) -> bool:
        return isinstance(problem.link, MultinomialLogit)

    def lr_orl(self, episodes: float) -> float:
        """R(K) <= u_{sigma_H}(K) + root sqrt(K) + constant, with probability 1 - delta."""
        return self._smallest(episodes, 1.0)

    def certified(self, episodes: float, kappa: float | None = None) -> float:
        """1 + kappa times the widths of what is played, whose transition terms are met twice; None: the usual kappa, as
        it is after so many episodes, when it is largest."""
        if kappa is None:
            kappa = kappa_at(usual_kappa(self.problem), GROWTH, float(episodes))
        return (1.0 + kappa) * self._smallest(episodes, 2.0)

    def _smallest(self, episodes: float, twice: float) -> float:
        return min(self._regret(episodes, near, twice) for near in NEAR)

    def _regret(self, episodes: float, near: float, twice: float) -> float:
        p, run, shares = self.problem, Run(self.problem.horizon, episodes), self.shares
        one, other = shares.transitions, shares.event
        moved = likelihood_growth(self.sizes, run, near=near, log_set=one, log_event=other, times=twice)
        paid = _reward_growth(p, run, shares, near, self.shared)
        luck = bounds.martingale_deviation(bounds.trajectory_sigma(p.horizon), episodes, math.exp(-shares.event))
        slack = ROUNDING[p.rewards] * p.horizon * episodes if p.known_rewards is None else 0.0
        root = math.sqrt(episodes) * (moved.root + paid.root)
        return luck + root + moved.constant + paid.constant + slack
