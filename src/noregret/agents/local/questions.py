"""Questions about policies that the one Theta of a design answers: is this better than our rule, on average, for these
people? `SetAgent.compare` asks, `planning.joint` answers; here the agent's sets become a `JointSet`.

Of transitions the ellipsoid of every block is taken as it is kept. Of linear mean rewards it follows from what the set
says about every h (`estimators.rewards.mixture`): on its event |h'(b - G theta)| <= rho ||h||_M for all h, b = sum x_i
r_i, M = J + lambda_k I, so that with the assumption ||theta|| <= B, for every tau >= 0,

    ||b - G theta||^2_{M^-1} + tau ||theta||^2 <= rho^2 + tau B^2

which is an ellipsoid with the matrix E = G M^-1 G + tau I, the centre c = E^-1 G M^-1 b and the squared radius
rho^2 + tau B^2 - b'M^-1 b + c'E c. All components k and all tau hold on the same event, so the best may be taken.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ... import checks as check
from ...beliefs.joint import JointSet, space_of
from ...checks import Floats
from ...estimators.rewards.forms import RewardPar, RewardState
from ...estimators.rewards.regression import KNOWN, RIDGE
from ...estimators.rewards.shared import scaled_blocks
from ...planning.directional import Direction
from ...planning.joint import joint_interval
from ...problem.asked import actions_of
from ...problem.design import Blocks, every_entry, places
from ...problem.problem import Problem
from ...theory.widths import ridge_radius
from .certify import certified
from .standing import Standing, asked_direction, stored_steps

TAUS = (0.01, 0.1, 1.0, 10.0)  # of the assumption on reward weights, in units of p/B^2
SLACK = 1e-9


@dataclass(frozen=True)
class Comparison:
    """An interval for the mean value of a policy over some people, or for its difference to another policy's.

    lower, upper   what is proved: true with the agent's probability, for all questions at once
    estimate       the same at the centre of the sets
    numerical      (lower, upper) without the proved bound on what is left after second order: not proved
    relaxed        (lower, upper) from bounds for every person alone, which know nothing of shared weights: proved
    remainder      how much wider the proved bound on what is left made the interval, over its first-order half-width;
                   much above 1: there is too little data for the joint interval, and `relaxed` has to do
    people         how many were asked about
    rung           "proved", which lower and upper are

    >>> import noregret as nr
    >>> world = nr.worlds.shared_logit(3, 2, horizon=2, context_dim=2, features=2)
    >>> agent = nr.LRORL(world.problem)
    >>> found = agent.compare([[1, 1, 1]] * 2, [[0, 0, 0]] * 2, [world.context(0, 0)])  # nobody was met yet
    >>> found.rung, found.people, found.lower <= 0.0 <= found.upper
    ('proved', 1, True)
    """

    lower: float
    upper: float
    estimate: float
    numerical: tuple[float, float]
    relaxed: tuple[float, float]
    remainder: float
    people: int
    rung: str = "proved"

    @property
    def half_width(self) -> float:
        return 0.5 * (self.upper - self.lower)

    def __str__(self) -> str:
        low, high = self.numerical
        return (
            f"{self.estimate:+.3g}, {self.rung} between {self.lower:+.3g} and {self.upper:+.3g} "
            f"(numerical, not proved: {low:+.3g} to {high:+.3g}), mean over {self.people:,} people"
        )


class Asked(NamedTuple):
    """The arguments of `SetAgent.compare`."""

    policy: Any
    other: Any
    contexts: Any
    weights: Any
    start: Any
    aimed: Standing | None


def compared(agent: Any, asked: Asked) -> Comparison:
    """`SetAgent.compare`, after its first checks. Matrices are small and many: where a core is busy, threads of the
    BLAS wait for each other, and the same takes thirty times as long."""
    with threadpool_limits(1, "blas"):
        return _compared(agent, asked)


def _compared(agent: Any, asked: Asked) -> Comparison:
    p: Problem = agent.problem
    X = p.contexts(asked.contexts)
    shares = np.ones(len(X)) if asked.weights is None else check.array("weights", asked.weights, (len(X),))
    if shares.min() < 0.0 or not 0.0 < shares.sum() < math.inf:
        raise ValueError("weights must be at least 0 and not all 0")
    shares = shares / shares.sum()
    begin = _begin(p, asked.start)
    chosen = actions_of(p, "policy", asked.policy, X)
    against = None if asked.other is None else actions_of(p, "other", asked.other, X)
    low, high, ranges = _relaxed(agent, X, begin, chosen, against, shares)
    relaxed = low, high
    if p.blocks is None:
        return _told(Comparison(low, high, 0.5 * (low + high), relaxed, relaxed, math.inf, len(X)))
    joint, by_range = joint_set(agent), p.rewards == "logistic"
    question: Any = {"contexts": X, "policy": chosen, "other": against, "weights": shares, "start": begin}
    directions: list[Direction] = []
    finite = np.isfinite(joint.radius).all() and np.isfinite(joint.reward_radius).all()
    unknown = bool(space_of(joint).starts)  # some weights are
    if asked.aimed is not None and finite and unknown and 1 < asked.aimed.since < agent.episode and not by_range:
        steps = stored_steps(agent.state.store, agent.episode, p.n_actions, p.scale.offset)
        directions = [asked_direction(joint, steps, question, asked.aimed)]
    reward_ranges = ranges if by_range else None
    unit = p.scale.unit  # values over it are sums of theta'x, theta as it is learned: no offset
    within = low / unit, high / unit
    found = joint_interval(joint, **question, within=within, reward_ranges=reward_ranges, directions=directions)
    numerical = max(found.numerical_lower * unit, low), min(found.numerical_upper * unit, high)
    lower, upper, middle = float(found.lower) * unit, float(found.upper) * unit, float(found.centre) * unit
    return _told(Comparison(lower, upper, middle, numerical, relaxed, float(found.remainder), len(X)))


def _told(found: Comparison) -> Comparison:
    """The same, unless nothing can be true of it."""
    if found.lower > found.upper + 1e-9 * (1.0 + abs(found.upper)):
        raise RuntimeError(
            "compare: what the sets say contradicts itself: either this run is one of the few in which they fail, or "
            "something that was assumed is wrong"
        )
    return found


def _begin(p: Problem, start: Any) -> Floats:
    """A distribution over initial states, [S]."""
    if start is None:
        if len(p.starts) > 1:
            raise ValueError(
                "start must be given, a state or a distribution over states: an episode may begin in several"
            )
        start = int(p.starts[0])
    if check.alone(start):
        return np.asarray(np.arange(p.n_states) == p.started(start), float)
    made = check.array("start", start, (p.n_states,))
    if made.min() < 0.0 or abs(made.sum() - 1.0) > SLACK:
        raise ValueError("start must be a state, or a distribution over states that sums to 1")
    for s in np.flatnonzero(made):
        p.started(int(s))
    return made


def _relaxed(
    agent: Any, X: Floats, begin: Floats, policy: Any, other: Any, shares: Floats
) -> tuple[float, float, tuple[Floats, Floats]]:
    """Bounds on the mean from bounds for every person alone, and the ranges of mean rewards [N, S, A] of each."""
    low = high = 0.0
    ranges: tuple[list[Floats], list[Floats]] = ([], [])
    for i, x in enumerate(X):
        plan: Any = certified(agent, x, policy[i], bounds_alone=True)
        local = agent.work.local
        ranges[0].append(local.low.copy())
        ranges[1].append(local.high.copy())
        least, most = float(begin @ plan.lower[0]), float(begin @ plan.values[0])
        if other is not None:
            against: Any = certified(agent, x, other[i], bounds_alone=True)
            least, most = least - float(begin @ against.values[0]), most - float(begin @ against.lower[0])
            if np.array_equal(policy[i], other[i]):
                least = most = 0.0
        low, high = low + float(shares[i]) * least, high + float(shares[i]) * most
    return low, high, (np.array(ranges[0]), np.array(ranges[1]))


def joint_set(agent: Any) -> JointSet:
    """What the agent's sets say about all weights together; its rewards are linear or known."""
    p: Problem = agent.problem
    blocks, d = p.blocks, p.context_dim
    assert blocks is not None
    entries = agent.ellipsoids()
    centre, precision, radius = _in_full(blocks, entries, d)
    rewards = _reward_set(agent.par.rewards, agent.state.rewards, p)
    return JointSet(p.layout, blocks, centre, precision, radius, *rewards, p.horizon)


def _in_full(blocks: Blocks, entries: list[tuple[Floats, Floats, float]], d: int) -> tuple[Floats, Floats, Floats]:
    """(centre [B, Q, d], precision [B, Q d, Q d], radius [B]) of ellipsoids of free entries. Entries that are not free
    are 0 in truth, so any precision is right for them: a large one."""
    Q = blocks.features.shape[3]
    centre, precision, radius = np.zeros((len(entries), Q * d)), np.zeros((len(entries), Q * d, Q * d)), []
    for b, (theta, matrix, rho2) in enumerate(entries):
        at = places(blocks, b, d)
        centre[b, at] = theta
        precision[b] = np.diag(np.full(Q * d, 1e6 * max(float(np.trace(matrix)) / max(len(at), 1), 1e-300)))
        precision[b][np.ix_(at, at)] = matrix
        radius.append(math.sqrt(rho2) if rho2 >= 0.0 else math.inf)
    return centre.reshape(-1, Q, d), precision, np.array(radius)


def _reward_set(par: RewardPar, state: RewardState, p: Problem) -> tuple[Blocks, Floats, Floats, Floats]:
    """(blocks, centre, precision, radius) of the reward weights. Known ones have radius 0, and so have logistic ones,
    which are bounded by ranges instead: their set is not looked at."""
    blocks, d = scaled_blocks(p) or _pair_blocks(p), p.context_dim
    if par.form == KNOWN or p.rewards == "logistic":
        n, Q = blocks.size.size, blocks.features.shape[3]
        theta = state.theta.reshape(n, Q, d) if par.form == KNOWN else np.zeros((n, Q, d))
        return blocks, theta, np.tile(np.eye(Q * d), (n, 1, 1)), np.zeros(n)
    entries = []
    for b, at in enumerate(np.ndindex(*state.samples.shape)):
        n = int(blocks.start[b, -1])
        entries.append(_reward_ellipsoid(par, state, at, n))
    return blocks, *_in_full(blocks, entries, d)


def _pair_blocks(p: Problem) -> Blocks:
    """A block with the feature 1 per pair: rewards without a design."""
    S, A = p.n_states, p.n_actions
    size, bound = np.ones(S * A, np.int64), np.full(S * A, p.unit_reward_bound)
    entries = every_entry(size, 1, p.context_dim)
    return Blocks(np.arange(S * A).reshape(S, A), np.ones((S, A, 1, 1)), size, bound, *entries)


def _factor(beta: float, reach: float) -> float:
    """As `estimators.rewards.mixture.factor_of`: the least of beta/c + c/2 over c <= reach."""
    rho = math.sqrt(2.0 * beta)
    return rho if rho <= reach else beta / reach + 0.5 * reach


def _reward_ellipsoid(par: RewardPar, state: RewardState, at: tuple[int, ...], n: int) -> tuple[Floats, Floats, float]:
    """(centre [n], matrix [n, n], squared radius) of one set of reward weights."""
    gram = state.gram[at][:n, :n]
    if par.form == RIDGE:
        rho = ridge_radius(float(state.logdet[at]), par.bound, par.regularization, par.log)
        return state.theta[at][:n].copy(), gram.copy(), rho**2 * (1.0 + SLACK)
    G, b, J = gram - par.regularization * np.eye(n), state.moment[at][:n], state.mixture.sums[at][0][:n, :n]
    best: tuple[float, Any] = (math.inf, None)
    mixture, lambdas = state.mixture, par.mixture.lambdas
    for k in range(lambdas.size):
        beta = par.log + mixture.head[at][k] + 0.5 * lambdas[k] * mixture.trace[at][k] + par.mixture.prior[k]
        rho2 = _factor(max(float(beta), 0.0), float(mixture.reach[at])) ** 2
        whole = np.linalg.inv(J + lambdas[k] * np.eye(n))
        form, lever = G @ whole @ G, G @ whole @ b
        for share in TAUS:
            tau = share * n / par.bound**2
            E = form + tau * np.eye(n)
            centre = np.linalg.solve(E, lever)
            radius2 = rho2 + tau * par.bound**2 - float(b @ whole @ b) + float(centre @ E @ centre)
            size = max(radius2, 0.0) * float(np.trace(np.linalg.solve(E, gram)))
            if size < best[0]:
                best = size, (centre, 0.5 * (E + E.T), radius2 * (1.0 + SLACK) + SLACK)
    made: tuple[Floats, Floats, float] = best[1]
    return made
