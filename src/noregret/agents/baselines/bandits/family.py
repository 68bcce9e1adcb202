"""The parts the bandit agents share: one decision per episode (H = 1), one unknown theta per pair.

Every state is its own set of arms: taking action a in state s pays a reward whose mean depends on theta_sa'x, and the
next state does not matter. An agent keeps a set around every theta_sa, scores each pair by the largest value its set
allows, and lets the planner choose. The published algorithms have one theta and a feature vector per arm; here the
features of pair (s, a) are x in its own block, the sets are kept block by block, and delta is split over the available
pairs. The family shares the types of par, state and work; what an agent does not use is empty.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Floats
from ....compiler.announcements import announced
from ....compiler.jit import inlined
from ....estimators.newton.online_newton import NewtonPar, NewtonState, NewtonWork, newton_parts
from ....estimators.rewards.forms import RewardPar, RewardState, RewardWork, reward_parts
from ....estimators.store import ENDLESS, chain
from ....numerics.linear_algebra import form, least_regularization, norm_of
from ....planning.bellman import UNCLIPPED, planner_address
from ....problem.layout import Layout
from ....problem.links import MultinomialLogit
from ....problem.problem import Problem
from ....theory.constants import logistic_alpha
from ....theory.widths import sigma
from ...base import Agent
from ...endings import plan_model
from ...promise import ALWAYS, OPTIMISM, rewards_assumed


class BanditPar(NamedTuple):
    seed: int
    layout: Layout
    planner: Any  # slot of a planner (`planning.bellman.planner_address`)
    ridge: RewardPar
    newton: NewtonPar  # of an online Newton step with two outcomes, reward 1 and reward 0
    outcomes: NDArray[np.int64]  # [1]: 2, how many it has
    recalled: int  # 1: the constants of the paper, as recalled
    log_confidence: float  # ln(1/delta') of each confidence set
    scale: float  # on every bonus
    bound: float  # B_r
    context_bound: float  # R
    curvature: float  # a lower bound on the slope of sigma on [-B_r R, B_r R]
    regularization: float  # lambda


class Memory(NamedTuple):
    """What a maximum likelihood estimate needs: the distinct contexts of every pair. Row i follows row earlier[i]."""

    theta: Floats  # the estimates, [S, A, d]
    contexts: Floats  # [n, d]
    times: NDArray[np.int64]  # [n], how often row i was met
    earlier: NDArray[np.int64]  # [n], the row of the same pair stored before it, -1 if there is none
    last: NDArray[np.int64]  # [S, A], the row stored last, -1 if there is none
    used: NDArray[np.int64]  # [1]

    def limits(self, problem: Problem) -> dict[str, tuple[float, float]]:
        n = len(self.earlier)
        return {"earlier": (-1, n - 1), "last": (-1, n - 1), "used": (0, n)}

    def fault(self) -> str | None:
        before = self.earlier[: int(self.used[0])]
        return ENDLESS if any(chain(first, before) is None for first in self.last.ravel()) else None


class BanditState(NamedTuple):
    newton: NewtonState
    ridge: RewardState
    totals: Floats  # [S, A, 2]
    memory: Memory


class BanditWork(NamedTuple):
    newton: NewtonWork
    ridge: RewardWork
    P: Floats  # [S, A, M], zeros: after the only step there is nothing
    score: Floats  # [S, A]
    xi: Floats  # [S, A], zeros
    noise: Floats  # [0, 0, 0]
    Q: Floats  # [S, A]
    hessian: Floats  # [d, d]
    gradient: Floats  # [d]
    point: Floats  # [d]


@inlined
def length_in(inverse, x):
    """||x|| in the norm of a matrix [d, d], here always an inverse."""
    total = form(inverse, x)
    if not total >= 0.0:
        raise ValueError("a Gram matrix is no longer positive definite: a context or a bound is out of range")
    return math.sqrt(total)


@inlined
def take_best(par, work, k, out):
    """policy <- the available pair of the highest work.score in every state; values[0] <- that score."""
    plan_model(par, work, work.P, work.score, UNCLIPPED, k, out)


@inlined
def take_best_mean(par, work, k, out):
    """`take_best` where a score is a linear mean reward: values[0] within [0, 1]."""
    take_best(par, work, k, out)
    for s in range(work.score.shape[0]):
        out.values[0, s] = min(max(out.values[0, s] - par.ridge.offset, 0.0), 1.0)


@inlined
def take_best_logit(par, work, x, k, out):
    """`take_best` where a score bounds theta'x, which is at most B_r ||x||: values[0] are sigma of it."""
    take_best(par, work, k, out)
    for s in range(work.score.shape[0]):
        out.values[0, s] = sigma(min(out.values[0, s], par.bound * norm_of(x)))


def _none_of(state: Any) -> Any:
    """The same named tuple of arrays, for no pair."""
    return type(state)._make(_none_of(v) if isinstance(v, tuple) else np.ascontiguousarray(v[:0]) for v in state)


class BanditAgent(Agent):
    """Options every agent of the family takes:

    delta           the sets of all pairs, and with them optimism in every episode, hold with probability 1 - delta
    bonus_scale     multiplies every bonus; anything but 1 carries no guarantee
    regularization  lambda; None: recommended"""

    any_range = True
    group = "bandit"
    promised: str | None = f"{ALWAYS}, {OPTIMISM}"
    consistent_values = True
    logistic = True  # whether rewards are taken for logistic; if not, for linear
    constants = "corrected"
    reach = 350.0  # largest B_r R at which the arithmetic is sound; curvatures are of order e^{-B_r R}

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        if problem.horizon != 1:
            return f"{cls.name} is for problems with horizon 1, got horizon {problem.horizon}"
        if problem.known_rewards is not None:
            return f"{cls.name} is for rewards that are not known beforehand"
        if cls.logistic and problem.rewards != "logistic":
            return f'{cls.name} is for problems with rewards="logistic", got {problem.rewards!r}'
        if cls.logistic and problem.reward_bound * problem.context_bound > cls.reach:
            return f"reward_bound * context_bound must be at most {cls.reach:g} for {cls.name}: rounding hides the rest"
        return cls.refused_range(problem)

    def _settle(self) -> None:
        right = self.logistic == (self.problem.rewards == "logistic")
        self.bounds_values = right and self.options["bonus_scale"] == 1.0

    # What a subclass decides
    def _curvature(self) -> float:
        reach = self.problem.reward_bound * self.problem.context_bound
        return logistic_alpha(reach) if self.logistic else 1.0

    def _regularization(self, curvature: float) -> float:
        return 1.0

    def _lambda(self, curvature: float) -> float:
        """The option, or what is recommended."""
        p, asked = self.problem, self.options["regularization"]
        least = least_regularization(1.0, p.context_bound, p.context_dim)
        return max(self._regularization(curvature), least) if asked is None else float(asked)

    def _newton_scale(self, curvature: float) -> tuple[float, float] | None:
        """(kappa, lambda / regularization) of the online Newton step; None: there is none."""
        return None

    def _scale(self) -> tuple[float, float]:
        """What bonuses are multiplied by, and delta."""
        return self.options["bonus_scale"], self.options["delta"]

    def _ridge_parts(self, linear: Problem, lam: float | None) -> tuple[RewardPar, RewardState, RewardWork]:
        """Ridge regression of a problem with linear rewards, lambda being `lam`."""
        return reward_parts(linear, "ridge", 0.0, lam)

    uses_ridge = False  # whether the Gram matrix of ridge regression is kept

    def _kept(self) -> float:
        p, d = self.problem, self.problem.context_dim
        return float(4 * p.n_states * p.n_actions * d * d + self.options.get("memory", 0) * (d + 2))

    def build(self) -> tuple[BanditPar, BanditState, BanditWork]:
        p, o, f = self.problem, self.options, np.zeros
        S, A, d, M = p.n_states, p.n_actions, p.context_dim, p.layout.outcomes.shape[2]
        curvature = self._curvature()
        lam = self._lambda(curvature)
        with announced(f"the estimates of {self.name}"):
            linear = dataclasses.replace(p, rewards="linear")
            ridge_par, ridge, ridge_work = self._ridge_parts(linear, lam if self.uses_ridge else None)
            kappa, share = self._newton_scale(curvature) or (curvature, 1.0)
            newton_par, newton, newton_work = newton_parts(
                MultinomialLogit(), np.full((S, A), 2, np.int64), d, p.unit_reward_bound, p.context_bound, "paper",
                share * lam,
            )  # fmt: skip
            planner = planner_address(p.layout)
        scale, delta = self._scale()
        newton_par = newton_par._replace(alpha=np.full((S, A), curvature), kappa=np.full((S, A), kappa))
        par = BanditPar(
            seed=self.seed, layout=p.layout, planner=planner, ridge=ridge_par, newton=newton_par,
            outcomes=np.full(1, 2, np.int64), recalled=int(self.constants == "paper"),
            log_confidence=math.log(p.n_pairs / delta), scale=float(scale), bound=p.unit_reward_bound,
            context_bound=p.context_bound, curvature=curvature, regularization=lam,
        )  # fmt: skip
        if not self.uses_ridge:
            ridge = _none_of(ridge)
        if self._newton_scale(curvature) is None:
            newton = _none_of(newton)
        room = int(o.get("memory", 0))
        pairs = (S, A) if room else (0, 0)
        memory = Memory(
            f((*pairs, d)), f((room, d)), np.zeros(room, np.int64), np.full(room, -1), np.full(pairs, -1),
            np.zeros(1, np.int64),
        )  # fmt: skip
        state = BanditState(newton, ridge, f((S, A, 2)), memory)
        scores = f((S, A)), f((S, A)), f((0, 0, 0)), f((S, A))
        return par, state, BanditWork(newton_work, ridge_work, f((S, A, M)), *scores, f((d, d)), f(d), f(d))

    def _assumed(self) -> tuple[str, ...]:
        return rewards_assumed(self.problem)
