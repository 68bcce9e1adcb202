"""The generalised linear model of a problem, fitted to the steps of a log by maximum likelihood.

Weights are fitted block by block: blocks have no step in common, so the likelihood is a product. At a step of block b,
with features f_k (one row per next state, or one row for a reward), x of the person and weight W of the step,

    next states    loss = ln sum_k exp(f_k'Theta x) - f_y'Theta x      E = sum_k p_k f_k - f_y    C = Cov_p(f)
    linear         loss = (f'Theta x - r)^2/2                          E = (f'Theta x - r) f      C = f f'
    logistic       loss = ln(1 + exp(f'Theta x)) - r f'Theta x         E = (p - r) f              C = p (1 - p) f f'

the score is W vec(E x'), the curvature W C (x) xx'. Both are added up person by person, so that the sums over people
are small products of matrices. A little is added, |Theta|^2 lambda/2, lambda far below what any data say: where the
data say nothing the fit stays a number, and `weak` finds those directions.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from ..numerics.kronecker_sums import summed_products
from ..problem.design import Blocks, every_entry, pair_blocks, places
from ..problem.layout import used_slots
from ..problem.problem import Problem
from .log_steps import Steps

_PENALTY = 1e-3  # lambda over 1/bound^2
_ROUNDS = 100
_CLOSE = 1e-10  # a Newton step that promises less than this part of the loss is the last one
_MEMORY = 1e8  # bytes at a time
_TERMS = 6  # of a series; a person of leverage 1/2 is off by 2^-7
_ALIKE = 1e-6  # of the variance that rewards could have: less is none
_VAGUE = 3.0  # a standard error above the bound over this says next to nothing

NEXT, LINEAR, LOGISTIC = 0, 1, 2


class Pair(NamedTuple):
    """The steps at one pair of a block, in the order of people."""

    s: int
    a: int
    person: NDArray[np.int64]  # [t]
    target: Floats  # [t], slot or reward
    weight: Floats  # [t]


class Part(NamedTuple):
    """One block of weights with its data."""

    kind: int
    block: int
    features: Floats  # [S, A, M, q]
    used: NDArray[np.bool_]  # [S, A, M]
    members: tuple[NDArray[np.int64], NDArray[np.int64]]  # its available pairs (s, a)
    pairs: tuple[Pair, ...]  # those with data
    at: NDArray[np.int64]  # [p], where the free entries are in vec(Theta) [q d]
    bound: float  # of |Theta|
    noise: float  # the variance of a reward is at most this; 1 for the other kinds


class Sums(NamedTuple):
    """Of some people, W included."""

    loss: float
    E: Floats  # [n, q]
    C: Floats  # [n, q, q]


class Fitted(NamedTuple):
    """A block after the fit."""

    part: Part
    theta: Floats  # [q, d]
    information: Floats  # [p, p], of the data alone
    penalty: float  # lambda


def reward_pair_blocks(problem: Problem) -> Blocks:
    """Every pair a block with the feature 1: rewards without a design."""
    S, A = problem.n_states, problem.n_actions
    size = problem.layout.available.ravel().astype(np.int64)
    features = problem.layout.available[..., None, None].astype(float)
    bound = np.full(S * A, problem.reward_bound)
    return Blocks(np.arange(S * A).reshape(S, A), features, size, bound, *every_entry(size, 1, problem.context_dim))


def parts_of(problem: Problem, steps: Steps, weight: Floats) -> list[Part]:
    """The unknown blocks of a problem, next states first, each with the steps that say something about it."""
    used = used_slots(problem.layout)
    blocks = problem.blocks or pair_blocks(problem.layout, problem.weight_bound, problem.context_dim)
    found = _parts(NEXT, blocks, used, steps, weight, problem)
    if problem.known_rewards is None:
        kind = LOGISTIC if problem.rewards == "logistic" else LINEAR
        blocks = problem.reward_blocks or reward_pair_blocks(problem)
        found += _parts(kind, blocks, np.ones((*blocks.block.shape, 1), bool), steps, weight, problem)
    return found


def _parts(
    kind: int, blocks: Blocks, used: NDArray[np.bool_], steps: Steps, weight: Floats, problem: Problem
) -> list[Part]:
    S, A = blocks.block.shape
    target = steps.slot.astype(float) if kind == NEXT else steps.reward
    seen = np.flatnonzero(~np.isnan(target))
    code = steps.s[seen] * A + steps.a[seen]
    order = seen[np.argsort(code, kind="stable")]
    ends = np.searchsorted(np.sort(code), np.arange(S * A + 1))
    noise = (0.5 * problem.scale.unit) ** 2 if kind == LINEAR else 1.0
    made = []
    for b in np.flatnonzero(blocks.size > 0):
        pairs = []
        for i, j in np.argwhere(blocks.block == b):
            t = order[ends[i * A + j] : ends[i * A + j + 1]]
            if t.size:
                pairs.append(Pair(int(i), int(j), steps.person[t], target[t], weight[t]))
        features = np.ascontiguousarray(blocks.features[..., : blocks.size[b]])
        at = places(blocks, int(b), problem.context_dim)
        s, a = np.nonzero((blocks.block == b) & problem.layout.available)
        members = s.astype(np.int64), a.astype(np.int64)
        made.append(Part(kind, int(b), features, used, members, tuple(pairs), at, float(blocks.bound[b]), noise))
    return made


def chances(part: Part, s: int, a: int, u: Floats) -> Floats:
    """p [t, M] of the next states of a pair for people with Theta x = u [t, q]."""
    z = np.where(part.used[s, a], u @ part.features[s, a].T, -np.inf)
    e = np.exp(z - z.max(1, keepdims=True))
    made: Floats = e / e.sum(1, keepdims=True)
    return made


def people_at_a_time(part: Part) -> int:
    """So many that sums of matrices fit in memory."""
    return max(1, int(_MEMORY / (8.0 * part.features.shape[3] ** 2)))


def sums(part: Part, theta: Floats, X: Floats, first: int = 0, curved: bool = True) -> Sums:
    """Of the people first, first + 1, ... with contexts X [n, d]; curved=False: the loss alone."""
    n, q = len(X), theta.shape[0]
    E, C, loss, seen = np.zeros((n, q)), np.zeros((n, q * q if curved else 0)), 0.0, X @ theta.T
    for pair in part.pairs:
        i, j = np.searchsorted(pair.person, [first, first + n])
        if i == j:
            continue
        person, target, W = pair.person[i:j] - first, pair.target[i:j], pair.weight[i:j]
        loss += _at_pair(part, pair, person, target, W, seen[person], (E, C) if curved else None)
    return Sums(loss, E, C.reshape(n, q, -1) if curved else C)


def _at_pair(
    part: Part,
    pair: Pair,
    person: NDArray[np.int64],
    target: Floats,
    W: Floats,
    u: Floats,
    into: tuple[Floats, Floats] | None,
) -> float:
    """The loss of some steps of a pair; E and C of their people are added to `into`."""
    F = part.features[pair.s, pair.a]
    m, q = F.shape
    if part.kind == NEXT:
        p, y = chances(part, pair.s, pair.a, u), target.astype(np.int64)
        loss = -float(W @ np.log(np.maximum(p[np.arange(y.size), y], 1e-300)))
        mean = p @ F
        e = mean - F[y]
        squares = (F[:, :, None] * F[:, None, :]).reshape(m, q * q)
        c = p @ squares - (mean[:, :, None] * mean[:, None, :]).reshape(-1, q * q)
    else:
        z = u @ F[0]
        if part.kind == LINEAR:
            away, slope = z - target, np.ones_like(z)
            loss = 0.5 * float(W @ away**2)
        else:
            p = 1.0 / (1.0 + np.exp(-np.clip(z, -700.0, 700.0)))
            away, slope = p - target, p * (1.0 - p)
            loss = float(W @ (np.logaddexp(0.0, z) - target * z))
        e, c = away[:, None] * F[0], slope[:, None] * np.outer(F[0], F[0]).ravel()
    if into is not None:
        first = np.flatnonzero(np.diff(person, prepend=-1))  # people come in order
        into[0][person[first]] += np.add.reduceat(W[:, None] * e, first, axis=0)
        into[1][person[first]] += np.add.reduceat(W[:, None] * c, first, axis=0)
    return loss


def totals(part: Part, theta: Floats, X: Floats) -> tuple[float, Floats, Floats]:
    """(loss, gradient [p], curvature [p, p]) over all people."""
    q, d = theta.shape
    loss, slope, curve = 0.0, np.zeros((q, d)), np.zeros((q * d, q * d))
    size = people_at_a_time(part)
    for i in range(0, len(X), size):
        x = X[i : i + size]
        some = sums(part, theta, x, i)
        loss += some.loss
        slope += some.E.T @ x
        curve += summed_products(some.C, x)
    return loss, slope.ravel()[part.at], curve[np.ix_(part.at, part.at)]


def fit(part: Part, X: Floats) -> Fitted:
    """The smallest loss + lambda |Theta|^2/2, by Newton's method with halved steps."""
    q, d = part.features.shape[3], X.shape[1]
    theta = np.zeros(q * d)
    penalty = max(_PENALTY * part.noise / part.bound**2, 1e-12)
    loss, slope, information = totals(part, theta.reshape(q, d), X)
    for _ in range(_ROUNDS):
        now = theta[part.at]
        gradient = slope + penalty * now
        move = -np.linalg.solve(information + penalty * np.eye(now.size), gradient)
        gain, whole = -float(gradient @ move), loss + 0.5 * penalty * float(now @ now)
        last, share = gain <= _CLOSE * (1.0 + abs(whole)), 1.0
        while True:
            tried = theta.copy()
            tried[part.at] = now + share * move
            found = totals(part, tried.reshape(q, d), X)
            better = found[0] + 0.5 * penalty * float(tried @ tried) <= whole - 1e-4 * share * gain
            if last or better or share < 1e-8:  # the last one gains less than rounding shows
                break
            share *= 0.5
        theta, (loss, slope, information) = tried, found
        if last:
            break
    return Fitted(part, theta.reshape(q, d), information, penalty)


def influences(fitted: Fitted, slope: Floats, X: Floats) -> Floats:
    """[n]: how much every person moved <slope, theta> of this block, to first order, slope [p].

    A person with score s_k and curvature A_k, A the curvature of all, lambda included, moved it by about
    -slope'(A - A_k)^{-1} s_k: what one Newton step without them changes (the jackknife form of the sandwich, CR3). The
    inverse is a series in A_k A^{-1}."""
    part, (q, d) = fitted.part, fitted.theta.shape
    root = np.linalg.inv(fitted.information + fitted.penalty * np.eye(part.at.size))
    back = root @ slope
    made, size = np.zeros(len(X)), people_at_a_time(part)
    for i in range(0, len(X), size):
        x = X[i : i + size]
        some = sums(part, fitted.theta, x, i)
        score = term = (some.E[:, :, None] * x[:, None, :]).reshape(len(x), -1)[:, part.at]
        for _ in range(_TERMS):
            seen = np.zeros((len(x), q * d))
            seen[:, part.at] = term @ root
            moved = np.einsum("nij,nj->ni", some.C, np.einsum("nid,nd->ni", seen.reshape(-1, q, d), x))
            term = score + (moved[:, :, None] * x[:, None, :]).reshape(len(x), -1)[:, part.at]
        made[i : i + size] = -term @ back
    return made


def unseen(fitted: Fitted, slope: Floats, X: Floats, chance: float) -> float:
    """How much another reward that never came could change <slope, theta> of a block of linear rewards; 0 where rewards
    vary. The standard error would be 0, by luck.

    All rewards were what the model says. Another one, a whole range away, may have had chances q_i at the steps i: that
    it never came is as likely as the level allows while sum q_i <= ln(2/delta). Then <slope, theta> is off by at most
    ln(2/delta) times the range times the largest |slope' A^{-1} u_i|, u_i what one step adds to the gradient: where all
    steps are alike, the rule of three. chance: ln(2/delta) times the range."""
    part, (q, d) = fitted.part, fitted.theta.shape
    steps = sum(pair.target.size for pair in part.pairs)
    if part.kind != LINEAR or not steps:
        return 0.0
    plain = part._replace(pairs=tuple(pair._replace(weight=np.ones_like(pair.target)) for pair in part.pairs))
    size = people_at_a_time(part)
    loss = sum(sums(plain, fitted.theta, X[i : i + size], i, False).loss for i in range(0, len(X), size))
    if 2.0 * loss > _ALIKE * part.noise * steps:
        return 0.0
    back = np.zeros(q * d)
    back[part.at] = np.linalg.solve(fitted.information + fitted.penalty * np.eye(part.at.size), slope)
    moved = [
        np.abs(pair.weight * (X[pair.person] @ (part.features[pair.s, pair.a, 0] @ back.reshape(q, d)))).max()
        for pair in part.pairs
    ]
    return chance * float(max(moved))


def weak(fitted: Fitted) -> Floats:
    """[w, p]: directions in which a standard error is above a third of the bound: the data say next to nothing, and a
    bell curve says nothing at all. Next states that never came (their weights run away) are among them."""
    if not fitted.part.at.size:
        return np.zeros((0, 0))
    values, vectors = np.linalg.eigh(fitted.information / fitted.part.noise)
    made: Floats = vectors.T[values * fitted.part.bound**2 < _VAGUE**2]
    return made


def reach(fitted: Fitted, direction: Floats, X: Floats, drop: float) -> Floats:
    """Theta [q, d] as far along a direction [p] as the bound goes and the data allow: the logarithm of the likelihood
    falls by `drop` at most."""
    part = fitted.part
    step = np.zeros(fitted.theta.size)
    step[part.at] = direction
    size = people_at_a_time(part)

    def loss(theta: Floats) -> float:
        parts = (sums(part, theta, X[i : i + size], i, curved=False).loss for i in range(0, len(X), size))
        return sum(parts) / part.noise

    limit, far = loss(fitted.theta) + drop, part.bound
    for _ in range(20):
        tried = fitted.theta + far * step.reshape(fitted.theta.shape)
        if loss(tried) <= limit:
            return tried
        far *= 0.5
    return fitted.theta
