"""The parts that the MNL agents share: blocks of a design, what is believed of one individual, and `learn`.

Block b has parameters theta_b [Q d], which are Theta_b row by row, and a matrix over them. Next state j of a pair of
the block has the feature row phi(s, a, j) (x) x, relative to the last possible next state, whose row is 0. For one
individual everything is put in Q coordinates first:

    c = Theta_b x [Q],    C = (I (x) x)' Sigma (I (x) x) [Q, Q],    Sigma the inverse of the block's matrix

O((Q d)^2) per block. Then z_j = phi_j'c and ||phi_j (x) x||^2_Sigma = phi_j'C phi_j for every pair, and a vector of
N(0, Sigma) enters by its product with I (x) x alone, which is N(0, C).

The agents differ in their plan kernel and in what learns a block (`steps`): `online` and `likelihood`.
"""

import math
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .... import checks as check
from ....checks import Floats
from ....compiler.announcements import announced
from ....compiler.jit import inlined, kernel
from ....compiler.slots import EMPTY, slot
from ....estimators.gram import stable
from ....estimators.rewards.forms import (
    RewardPar,
    RewardState,
    RewardWork,
    call_estimates,
    estimated,
    reward_parts,
    with_kernels,
)
from ....estimators.rewards.regression import rewards_learn
from ....estimators.store import Store, empty_store, with_room
from ....numerics.linear_algebra import LEAST_REGULARIZATION, dot, refresh_address
from ....planning.bellman import TO_HORIZON, TO_REST, planner_address
from ....problem.design import Blocks, pair_blocks
from ....problem.layout import Layout
from ....problem.links import MultinomialLogit, exp
from ....problem.problem import Problem
from ...base import Agent, Trajectory
from ...declared import BONUS_SCALE, DELTA, REGULARIZATION, REWARD_REGULARIZATION, choice, option
from .radii import LEAST_KAPPA, least_curvature

FIRST_ROOM = 64  # episodes, of agents that store what they saw

apply_steps = slot("mnl steps")  # (par, state, work, x, k, n, path)

# Options of several agents
KAPPA = option(None, check.positive, below=1.0, least=LEAST_KAPPA)
STEP_SIZE = option(None, check.positive, below=1e9)
SAMPLES = option(None, check.integer)


class MNLPar(NamedTuple):
    seed: int
    layout: Layout
    planner: Any  # slot of a planner (`planning.bellman.planner_address`)
    steps: Any  # slot of what learns the transitions of an episode
    refresh: Any  # slot of `numerics.linear_algebra.refresh_inverse`
    rewards: RewardPar
    block: NDArray[np.int64]  # [S, A]
    features: Floats  # [S, A, M, Q]
    dim: Floats  # [B], parameters that can be told apart
    longest: Floats  # [B], L: no feature row is longer
    bound: Floats  # [B], of the parameters
    kappa: Floats  # [B]
    regularization: Floats  # [B], lambda
    step: Floats  # [B], eta
    outcomes: float  # U
    log: float  # ln(1/delta) of a block
    log_reward: float  # of the interval of a mean reward
    scale: float  # on every radius
    growth: float  # of a block's data between fits
    clip: int  # of `planning.bellman.Operator`


class MNLState(NamedTuple):
    theta: Floats  # [B, Q d]
    gram: Floats  # [B, Q d, Q d]
    inverse: Floats
    samples: NDArray[np.int64]  # [B], steps with more than one possible next state
    refreshed: NDArray[np.int64]  # [B], the same at the last fit
    rewards: RewardState
    store: Store


class MNLWork(NamedTuple):
    rewards: RewardWork
    centre: Floats  # c, [B, Q]
    spread: Floats  # C, [B, Q, Q]
    factor: Floats  # [B, Q, Q], C = L L'
    draws: Floats  # [B, samples, Q]
    P: Floats  # [S, A, M]
    interval: Floats  # [S, A]
    bonus: Floats  # [S, A]
    r: Floats  # [S, A], rewards as planned with
    xi: Floats  # [S, A], zeros
    noise: Floats  # [H, S, A], or [0, 0, 0]
    Q: Floats  # [S, A]
    z: Floats  # [M]
    q: Floats  # [2, Q]
    curvature: Floats  # [Q, Q]
    rows: Floats  # [M, Q d]
    vectors: Floats  # [5, Q d]
    matrices: Floats  # [3, Q d, Q d]
    logdet: Floats  # [1]


@inlined
def softmax(z, count):
    """z [M] <- probabilities of the first `count`; the largest logit is taken off first, as fits are not bounded."""
    top = z[0]
    for j in range(1, count):
        top = max(top, z[j])
    total = 0.0
    for j in range(count):
        z[j] = exp(z[j] - top)
        total += z[j]
    for j in range(count):
        z[j] /= total


@inlined
def collapse(theta, x, c):
    """c [Q] <- Theta x, theta [Q d] being Theta row by row."""
    d = x.shape[0]
    for i in range(c.shape[0]):
        total = 0.0
        for e in range(d):
            total += theta[i * d + e] * x[e]
        c[i] = total


@inlined
def probabilities(phi, c, count, z):
    """z [M] <- softmax of phi_j'c, phi [M, Q]."""
    for j in range(count):
        z[j] = dot(phi[j], c)
    softmax(z, count)


@inlined
def mean_feature(phi, p, count, mean):
    """mean [Q] <- sum p_j phi_j."""
    for i in range(mean.shape[0]):
        total = 0.0
        for j in range(count):
            total += p[j] * phi[j, i]
        mean[i] = total


@inlined
def longest_feature(C, phi, count):
    """(largest phi_j'C phi_j, its j): the first of those that are as large but for rounding."""
    most, at = 0.0, 0
    for j in range(count):
        square = 0.0
        for i in range(C.shape[0]):
            square += phi[j, i] * dot(C[i], phi[j])
        if square > most * (1.0 + 1e-9):
            most, at = square, j
    return most, at


@inlined
def sizes_of(par, b):
    """What the radii of block b are made of."""
    return par.dim[b], par.longest[b], par.bound[b], par.outcomes


@kernel
def believe(par, state, work, x):
    """c, C of every block, P and r of every pair; rewards as an optimist plans with them."""
    d, Q = x.shape[0], work.centre.shape[1]
    for b in range(work.centre.shape[0]):
        collapse(state.theta[b], x, work.centre[b])
        for i in range(Q):
            for j in range(Q):
                total = 0.0
                for e in range(d):
                    total += x[e] * dot(state.inverse[b, i * d + e, j * d : (j + 1) * d], x)
                work.spread[b, i, j] = total
    rewards = par.rewards, state.rewards, work.rewards, x, par.log_reward, work.r, work.interval, work.bonus
    call_estimates(par.rewards.estimates, rewards)
    for s in range(work.r.shape[0]):
        for a in range(work.r.shape[1]):
            work.r[s, a] += work.bonus[s, a]
            probabilities(par.features[s, a], work.centre[par.block[s, a]], par.layout.count[s, a], work.P[s, a])


@kernel
def learn(par, state, work, x, k, n, path):
    apply_steps(par.steps, (par, state, work, x, k, n, path))
    rewards_learn(par.rewards, state.rewards, work.rewards, x, n, path)


class MNLAgent(Agent):
    """Options every agent of the family takes:

    delta                  that the radii are computed for; nothing is claimed here
    bonus_scale            multiplies every radius (and so every first-order bonus; second-order ones by its square) and
                           the intervals of the rewards, before they are cut to 1
    regularization         lambda of every block; None: as printed, see the agent
    ceiling                of values: "left", H - h, what can still be got; or "horizon", H, as printed
    reward_regularization  lambda of the reward estimates; None: recommended (`estimators.rewards.forms`)

    The model is that of `problem.design`. Without one every pair has a block of its own. Known rewards are taken as
    they are, as in the papers; others are estimated in the form the problem states, each with an interval for
    delta/(2 n_pairs), which is added (ours), and delta/2 is left for the blocks. Blocks share delta evenly (ours)."""

    any_range = True
    group = "contextual"
    learn_kernel = staticmethod(learn)
    steps_kernel: ClassVar[Any]
    randomised = stores = False
    growth, samples, kappa, step_size = 1.0, cast(Any, None), cast(Any, None), cast(Any, None)  # where no options

    delta: float = DELTA
    bonus_scale: float = BONUS_SCALE
    regularization: float | None = REGULARIZATION
    ceiling: str = choice("left", "horizon")
    reward_regularization: float | None = REWARD_REGULARIZATION

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        if not isinstance(problem.link, MultinomialLogit):
            return f"link must be MultinomialLogit for {cls.name}, got {problem.link!r}"
        return cls.refused_range(problem)

    @property
    def blocks(self) -> Blocks:
        """The design as it is learned."""
        p = self.problem
        return p.blocks or pair_blocks(p.layout, p.weight_bound, p.context_dim)

    def _recommended(self, p: float, L: float, B: float, U: int) -> float:
        """lambda of a block as printed."""
        raise NotImplementedError

    def _eta(self, L: float, B: float, U: int) -> float:
        """Step size of a block as printed, where there is one."""
        return 1.0

    def _samples(self) -> int:
        return 0

    def _outcomes(self) -> int:
        """U, the largest number of next states of a pair."""
        return int(self.problem.layout.count[self.problem.layout.available].max())

    def _parameters(self) -> tuple[int, int]:
        """(blocks, features of the largest), without making anything."""
        p, (S, A, M) = self.problem, self.problem.layout.outcomes.shape
        return (S * A, max(M - 1, 1)) if p.blocks is None else (p.blocks.size.size, p.blocks.features.shape[3])

    def _kept(self) -> float:
        (S, A, M), d, (B, Q) = self.problem.layout.outcomes.shape, self.problem.context_dim, self._parameters()
        drawn = (B * self._samples() * Q + self.problem.horizon * S * A) * self.randomised
        return float(S * A * M * (Q + 1) + 4 * S * A * d * d + B * (2 * (Q * d) ** 2 + 2 * Q * Q) + drawn)

    def _room_in(self, state: Any) -> int:
        return int(state.store.contexts.shape[0])

    def _roomier(self, state: Any, episodes: int) -> Any:
        if self._room_in(state) == 0:  # nothing is ever stored
            return state
        store = with_room(state.store, episodes)
        return state if store is state.store else state._replace(store=store)

    def _numbers(self, blocks: Blocks) -> dict[str, Any]:
        """What par has of every block."""
        p, given = self.problem, self.options["regularization"]
        layout, n, U = p.layout, blocks.size.size, self._outcomes()
        norms, at = np.linalg.norm(blocks.features, axis=3).max(2), blocks.block[layout.available]
        longest, most = np.zeros(n), np.ones(n)
        np.maximum.at(longest, at, norms[layout.available] * p.context_bound)
        np.maximum.at(most, at, layout.count[layout.available])
        longest[longest == 0.0] = p.context_bound  # nothing is told apart
        dim = np.maximum(blocks.size * float(p.context_dim), 1.0)
        kinds, kind = np.unique(np.stack([dim, longest, blocks.bound, most], axis=1), axis=0, return_inverse=True)
        made = []
        for d, L, B, m in kinds.tolist():
            kappa = self.kappa or least_curvature(min(L * B, p.reach), int(m))
            lam = stable(given, self._recommended(d, L, B, U), LEAST_REGULARIZATION * L * L)
            made.append((kappa, lam, self.step_size or self._eta(L, B, U)))
        kappas, lams, steps = np.array(made)[kind.ravel()].T.copy()
        sizes = {"dim": dim, "longest": longest, "outcomes": float(U)}
        return sizes | {"kappa": kappas, "regularization": lams, "step": steps}

    def build(self) -> tuple[MNLPar, MNLState, MNLWork]:
        p, o, blocks = self.problem, self.options, self.blocks
        (S, A, M), H, d = p.layout.outcomes.shape, p.horizon, p.context_dim
        n, Q = blocks.size.size, blocks.features.shape[3]
        reward_par, rewards, reward_work = reward_parts(
            p, estimated(p), 0.0, o["reward_regularization"], "reward_regularization", scale=o["bonus_scale"]
        )
        known = p.known_rewards is not None
        par = MNLPar(
            seed=self.seed, layout=p.layout, planner=planner_address(p.layout), steps=EMPTY,
            refresh=refresh_address(Q * d), rewards=reward_par, block=np.array(blocks.block),
            features=np.array(blocks.features), bound=np.array(blocks.bound, float),
            log=math.log(n * (1.0 if known else 2.0) / o["delta"]), log_reward=math.log(2.0 * p.n_pairs / o["delta"]),
            scale=o["bonus_scale"], growth=float(self.growth),
            clip=TO_REST if self.ceiling == "left" else TO_HORIZON, **self._numbers(blocks),
        )  # fmt: skip
        f, size, eye = np.zeros, Q * d, np.eye(Q * d)
        lam = par.regularization[:, None, None]
        store = empty_store(S, A, H, d, FIRST_ROOM if self.stores else 0)
        state = MNLState(f((n, size)), lam * eye, eye / lam, f(n, np.int64), f(n, np.int64), rewards, store)
        m = self._samples()
        work = MNLWork(
            reward_work, f((n, Q)), f((n, Q, Q)), f((n, Q, Q)), f((n, m, Q)), f((S, A, M)), f((S, A)), f((S, A)),
            f((S, A)), f((S, A)), f((H, S, A) if self.randomised else (0, 0, 0)), f((S, A)), f(M), f((2, Q)), f((Q, Q)),
            f((M, size)), f((5, size)), f((3, size, size)), f(1),
        )  # fmt: skip
        path = Trajectory(f(H + 1, np.int64), f(H, np.int64), f(H))
        with announced(f"the estimates of {self.name}"):
            asked = ("learn", "estimates") if p.rewards == "logistic" else ("estimates",)
            par = par._replace(rewards=with_kernels(reward_par, rewards, reward_work, *asked))
            where = apply_steps.fill(self.steps_kernel, par, state, work, f(d), 0, 0, path)
        return par._replace(steps=where), state, work
