"""Bets against the model while it is learned: predictions of richer models beside those of the sets, and their gains.

A set of weights predicts the next state of a step with p = softmax(z), z its logits as they were before the individual
came. Component c of C predicts with tilted logits

    q_c = softmax(z_j + tilt_j'f_c),      rate_j <- min( rate_j (1 - rate_j q_j (1 - q_j) f_c^2)/decay_c, 1/kappa_c ),
                                          tilt_j <- tilt_j + rate_j (1{j = y} - q_j) f_c      (entry by entry)

with tilts of its own for every pair, and features f_c that the model has not: the whole context for every pair (where
pairs share weights), the context with a short memory (drift), products of its entries (another link, interactions), the
step (time). Every q_c is fixed before the next state is seen, whatever the tilts are, so that

    prod q_c(y) / prod p*(y)      is a nonnegative martingale of mean one if the model holds,

and so is every mean of such products over components and sets (docs/evidence-model.md). What is kept is sum ln q_c(y),
by set. What the true weights can have at most is the price: the sets know a bound on it (`online_prices`), whoever has
all steps computes it (`noregret.evidence`). Rewards in [0, 1]: likewise with predicted means m_c, by

    prod exp( 2 (r - mu*)^2 - 2 (r - m_c)^2 ),      a nonnegative supermartingale (Hoeffding's lemma),

so that sum (r - m_c)^2 is kept, and the price is the least sum of squares of linear means: a regression.

Beside them are counts: seen and expected next states by pair and by tenth of the prediction, and how much better the
model predicts than a table without contexts. Cost of a step: O(M F), F features of all components.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..beliefs.local import softmax
from ..checks import Floats
from ..compiler.jit import inlined, kernel
from ..compiler.memory import room_for
from ..problem.problem import Problem
from ..theory.widths import sigma
from .rewards.regression import KNOWN

DESIGN, DRIFT, LINK, TIME = 0, 1, 2, 3  # what a component has that the model has not
KINDS = ("design", "drift", "link", "time")
MIX = 1e-4  # of every prediction is uniform, so that no logarithm is infinite
BINS = 10
MOST = 2_000_000  # numbers that tilts may take up: beyond them the components with most features are left out


class Component(NamedTuple):
    kind: int
    kappa: float  # precision of a tilt before any data, contexts of length 1
    decay: float  # of what is known, at every visit


ALONG = (Component(DESIGN, 8.0, 1.0), Component(DRIFT, 64.0, 0.995), Component(LINK, 8.0, 1.0))
CLOSE = (  # for who looks closely, at leisure
    Component(DESIGN, 4.0, 1.0), Component(DESIGN, 64.0, 1.0), Component(DRIFT, 8.0, 0.98),
    Component(DRIFT, 32.0, 0.998), Component(LINK, 8.0, 1.0), Component(LINK, 64.0, 1.0), Component(TIME, 16.0, 1.0),
)  # fmt: skip


class AuditPar(NamedTuple):
    begin: NDArray[np.int64]  # [C+1], where the features of a component begin
    left: NDArray[np.int64]  # [F], a feature is x[left] x[right]; left -1: the step, from -1/2 to 1/2
    right: NDArray[np.int64]  # [F], -1: x[left] alone
    most: Floats  # [C], a rate at first, 1/kappa; contexts of length `length`
    grow: Floats  # [C], 1/decay
    place: NDArray[np.int64]  # [S, A], the set of a pair
    reward_place: NDArray[np.int64]  # [S, A], likewise of rewards
    kind: NDArray[np.int64]  # [C]
    rewards: int  # 1: rewards are bet on by their squares, 2: by logarithms, too; 0: not
    horizon: int
    length: float  # of contexts, at most


class AuditState(NamedTuple):
    """N sets, R of rewards, C components, F features."""

    tilts: Floats  # [S, A, F, M]
    rates: Floats  # [S, A, F, M]
    gain: Floats  # [N, C], sum of ln q_c(y)
    reward_tilts: Floats  # [S, A, F]
    reward_rates: Floats  # [S, A, F]
    squares: Floats  # [R, C+2], sums of (r - m_c)^2, of (r - m)^2 of the model itself, of (r + offset)^2
    logs: Floats  # [R, C+1], likewise r ln m_c + (1 - r) ln (1 - m_c), and of the model itself
    seen: Floats  # [S, A, M]
    expected: Floats  # [S, A, M]
    bins: Floats  # [2, BINS, 3], of next states and of rewards: sum of predictions, of what came, and their number
    worth: Floats  # [5], individuals, sum and sum of squares of ln p/p_table of one, sums of -ln p and of -ln p_table

    def limits(self, problem: Problem) -> dict[str, tuple[float, float]]:
        """For `agents.limits`. Counts are from 0, and no rate is above its first value."""
        most = 1.0 / (min(c.kappa for c in ALONG + CLOSE) * problem.context_bound**2)
        count, rate = (0.0, 2.0**62), (0.0, most * (1.0 + 1e-9))
        return {"seen": count, "expected": count, "rates": rate, "reward_rates": rate, "squares": (0.0, 1e100)}

    def fault(self) -> str | None:
        """Likewise: what else is wrong."""
        return "counts less than nothing" if self.bins[:, :, 2].min() < 0.0 or self.worth[0] < 0.0 else None


class AuditWork(NamedTuple):
    f: Floats  # [F]
    z: Floats  # [M]
    p: Floats  # [M]
    v: Floats  # [M]
    q: Floats  # [M]


def features(components: tuple[Component, ...], d: int, every: bool) -> list[list[tuple[int, int]]]:
    """(left, right) of each component's; every: all products of entries of the context, not of neighbours alone."""
    context, product = [(i, -1) for i in range(d)], [(i, i if i == d - 1 else i + 1) for i in range(d)]
    if every:
        product = [(i, j) for i in range(d) for j in range(i, d)]
    of = {DESIGN: context, DRIFT: context, LINK: product, TIME: [(-1, -1)]}
    return [of[c.kind] for c in components]


def audit_parts(
    problem: Problem, components: tuple[Component, ...], *, close: bool = False, kept: bool = True
) -> tuple[AuditPar, AuditState, AuditWork]:
    """Parameters, initial state and scratch. close: products of all entries of contexts, and logarithms for rewards,
    without regard to time. kept=False: nothing is bet on, types alone matter."""
    p, f, i = problem, room_for, np.int64
    (S, A, M), d = p.layout.outcomes.shape, p.context_dim
    if p.design is None and p.reward_design is None:  # every pair has the whole context already
        components = tuple(c for c in components if c.kind != DESIGN)
    listed = features(components, d, close)
    while S * A * M * sum(map(len, listed)) > MOST:  # the longest is left out
        longest = max(range(len(listed)), key=lambda c: len(listed[c]))
        components = components[:longest] + components[longest + 1 :]
        listed = listed[:longest] + listed[longest + 1 :]
    both = np.array([pair for one in listed for pair in one], i).reshape(-1, 2)
    begin = np.cumsum([0, *map(len, listed)]).astype(i)
    pairs = np.arange(S * A).reshape(S, A)
    place = pairs if p.blocks is None else p.blocks.block
    reward_place = pairs if p.reward_blocks is None else p.reward_blocks.block
    linear = p.rewards == "linear" or p.known_rewards is not None
    on_rewards = 2 if close else 1 if linear else 0
    most = np.array([1.0 / (c.kappa * p.context_bound**2) for c in components])
    rates = np.repeat(most, np.diff(begin))
    par = AuditPar(
        begin, both[:, 0].copy(), both[:, 1].copy(), most,
        np.array([1.0 / c.decay for c in components]), place.astype(i), reward_place.astype(i),
        np.array([c.kind for c in components], i), on_rewards if kept else 0,
        p.horizon, p.context_bound,
    )  # fmt: skip
    C, F, N, R = len(listed), len(both), int(place.max()) + 1, int(reward_place.max()) + 1
    S, N, R = (S, N, R) if kept else (0, 0, 0)
    state = AuditState(
        f((S, A, F, M)), np.tile(rates[:, None], (S, A, 1, M)), f((N, C)), f((S, A, F)), np.tile(rates, (S, A, 1)),
        f((R, C + 2)), f((R, C + 1)), f((S, A, M)), f((S, A, M)), f((2, BINS, 3)), f(5),
    )  # fmt: skip
    return par, state, AuditWork(f(F), f(M), f(M), f(M), f(M))


@inlined
def fill_features(par, x, f):
    """f [F] <- of the context; those of the step are 0."""
    for e in range(f.shape[0]):
        left, right = par.left[e], par.right[e]
        f[e] = 0.0 if left < 0 else x[left] if right < 0 else x[left] * x[right] / par.length


@inlined
def fill_step(par, h, f):
    for e in range(f.shape[0]):
        if par.left[e] < 0:
            f[e] = par.length * ((h + 0.5) / par.horizon - 0.5)


@kernel
def bet_outcome(par, audit, work, s, a, n, y):
    """Next state y of pair (s, a), whose logits are in work.z."""
    f, z, v, q, place = work.f, work.z, work.v, work.q, par.place[s, a]
    tilts, rates = audit.tilts[s, a], audit.rates[s, a]
    for c in range(par.most.shape[0]):
        first, last, grow, most = par.begin[c], par.begin[c + 1], par.grow[c], par.most[c]
        for j in range(n):
            v[j] = z[j]
        for e in range(first, last):
            size = f[e]
            for j in range(n):
                v[j] += tilts[e, j] * size
        softmax(v, n, q)
        audit.gain[place, c] += math.log((1.0 - MIX) * q[y] + MIX / n)
        for j in range(n):  # v <- q (1 - q), q <- what came less q
            v[j] = q[j] * (1.0 - q[j])
            q[j] = (1.0 if j == y else 0.0) - q[j]
        for e in range(first, last):
            size, square = f[e], f[e] * f[e]
            for j in range(n):
                rate = rates[e, j]
                rate = min(rate * grow * (1.0 - rate * v[j] * square), most)
                rates[e, j] = rate
                tilts[e, j] += q[j] * size * rate


@inlined
def said_of(mean, reward):
    """r ln m + (1 - r) ln (1 - m), m kept off 0 and 1."""
    m = MIX + (1.0 - 2.0 * MIX) * mean
    return reward * math.log(m) + (1.0 - reward) * math.log(1.0 - m)


@kernel
def bet_reward(par, audit, work, s, a, mean, reward, offset):
    """A reward of pair (s, a), whose mean the model puts at `mean`; offset: of linear means (`rewards.forms`)."""
    f, place, C = work.f, par.reward_place[s, a], par.most.shape[0]
    tilt, rate = audit.reward_tilts[s, a], audit.reward_rates[s, a]
    for c in range(C):
        first, last, grow, most = par.begin[c], par.begin[c + 1], par.grow[c], par.most[c]
        total = mean
        for e in range(first, last):
            total += tilt[e] * f[e]
        said = min(max(total, 0.0), 1.0)
        error = reward - said
        audit.squares[place, c] += error * error
        if par.rewards == 2:
            audit.logs[place, c] += said_of(said, reward)
        for e in range(first, last):
            rate[e] = min(rate[e] * grow * (1.0 - rate[e] * f[e] * f[e]), most)
            tilt[e] += error * f[e] * rate[e]
    audit.squares[place, C] += (reward - mean) ** 2
    if par.rewards == 2:
        audit.logs[place, C] += said_of(mean, reward)
    audit.squares[place, C + 1] += (reward + offset) ** 2
    count(audit.bins[1], mean, reward)


@inlined
def count(bins, said, came):
    """A prediction and what came of it."""
    row = bins[min(int(said * BINS), BINS - 1)]
    row[0] += said
    row[1] += came
    row[2] += 1.0


@inlined
def count_outcome(audit, work, s, a, n, y):
    """Expected and seen next states; returns ln p(y) and ln p_table(y)."""
    seen, expected, p, total = audit.seen[s, a], audit.expected[s, a], work.p, 0.5 * n
    softmax(work.z, n, p)
    for j in range(n):
        total += seen[j]
    table = math.log((seen[y] + 0.5) / total)
    for j in range(n):
        expected[j] += p[j]
        count(audit.bins[0], p[j], 1.0 if j == y else 0.0)
    seen[y] += 1.0
    return math.log((1.0 - MIX) * p[y] + MIX / n), table


@inlined
def reward_mean(par, state, s, a, x):
    """The mean reward of pair (s, a) as it is estimated, within [0, 1]; par, state: of `estimators.rewards`."""
    z = 0.0
    if par.block.shape[0] == 0:
        for b in range(x.shape[0]):
            z += state.theta[s, a, b] * x[b]
    else:
        block = par.block[s, a]
        for i in range(par.features.shape[2]):
            t = 0.0
            for e in range(par.begin[block, i], par.begin[block, i + 1]):
                t += state.theta[block, 0, e] * x[par.column[block, e]]
            z += par.features[s, a, i] * t
    return sigma(z) if par.logistic == 1 else min(max(z - par.offset, 0.0), 1.0)


@kernel
def shared_logits(par, state, s, a, x, z):
    """z [n] <- of pair (s, a), by the weights of its block."""
    b, n = par.block[s, a], par.outcomes[s, a]
    for j in range(n):
        z[j] = 0.0
    for i in range(par.size[b]):
        t = 0.0
        for e in range(par.start[b, i], par.start[b, i + 1]):
            t += state.weights[b, e] * x[par.column[b, e]]
        for j in range(n):
            z[j] += t * par.features[s, a, j, i]


@inlined
def met(audit, better):
    """One more individual, whom the model predicted so much better than a table."""
    audit.worth[0] += 1.0
    audit.worth[1] += better
    audit.worth[2] += better * better


# What it comes to ------------------------------------------------------------------------------------------------
def mixed(logs: Floats) -> float:
    """ln of an e-process from logarithms [N, C] of those of N sets and C components: half of the stake on all sets at
    once, half on each of them, in equal parts on the components."""
    N, C = logs.shape
    if N == 0 or C == 0:
        return 0.0
    all_sets = logs.sum(0) - math.log(2 * C)
    each = logs.ravel() - math.log(2 * C * N)
    return float(np.logaddexp.reduce(np.concatenate([all_sets, each])))


def transition_logs(sets: Any, audit: AuditState, log: float) -> Floats:
    """[N, C]: a lower bound on ln of the martingale of every set and component, where the sets hold; sets: the state of
    online ones, log: their ln(1/delta)."""
    return np.asarray(audit.gain - online_prices(sets.radius, sets.loss, log)[:, None])


def online_prices(radius: Floats, loss: Floats, log: float) -> Floats:
    """[N]: at most sum ln p*(y) of sets with squared radius rho2 (ln(1/delta) = log in it) and sum -ln phat(y) = loss,
    where they hold: -loss + (rho2 - 2 log)/2."""
    made: Floats = 0.5 * (radius.ravel() - 2.0 * log) - loss.ravel()
    return made


def least_squares(gram: Floats, moment: Floats, bound: float) -> Floats:
    """[N]: at most moment'theta 2 - theta'gram theta over ||theta|| <= bound, for gram [N, d, d] and moment [N, d]: for
    every l >= 0 it is at most moment'(gram + l)^-1 moment + l bound^2, and the least of some l is taken."""
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 0.0)
    along, top = np.einsum("nij,ni->nj", vectors, moment) ** 2, values[:, -1:]

    def most(shift: Floats) -> Floats:  # [N, L] of shifts [N, L]
        made: Floats = (along[:, None] / (values[:, None] + shift[..., None])).sum(-1) + shift * bound**2
        return made

    def better(shifts: Floats) -> Floats:
        return np.take_along_axis(shifts, most(shifts).argmin(1)[:, None], 1)

    nothing = top[:, 0] < 1e-250
    top = np.where(top < 1e-250, 1.0, top)
    best = better(top * np.concatenate([[1e-12], 10.0 ** np.arange(-10.0, 1.5, 0.5)]))
    for factor in (0.8, 0.9, 1.1, 1.25):
        best = better(best * np.array([1.0, factor]))
    return np.where(nothing, 0.0, most(best)[:, 0])


def reward_logs(par: Any, state: Any, audit: AuditState, *, at_most: bool = False) -> Floats:
    """[R, C]: ln of the e-process of every set of rewards and component; par, state: of `estimators.rewards`.
    at_most: no less than that and found sooner, with the estimate in the place of the best weights."""
    squares, C = audit.squares, audit.squares.shape[1] - 2
    if not squares.shape[0]:
        return np.zeros((0, C))
    if par.form == KNOWN:
        return np.asarray(2.0 * (squares[:, C : C + 1] - squares[:, :C]))
    d, seen = state.gram.shape[3], np.flatnonzero(state.samples.ravel())
    gram = state.gram.reshape(-1, d, d)[seen] - par.regularization * np.eye(d)
    moment, theta = state.moment.reshape(-1, d)[seen], state.theta.reshape(-1, d)[seen]
    if at_most:
        theta = theta * np.minimum(1.0, par.bound / np.maximum(np.linalg.norm(theta, axis=1), 1e-300))[:, None]
        explained = np.einsum("nb,nb->n", theta, 2.0 * moment - np.einsum("nbc,nc->nb", gram, theta))
    else:
        explained = least_squares(gram, moment, par.bound)
    least = np.maximum(squares[seen, C + 1] - explained, 0.0)
    made = np.zeros((squares.shape[0], C))
    made[seen] = 2.0 * (least[:, None] - squares[seen, :C])
    return made
