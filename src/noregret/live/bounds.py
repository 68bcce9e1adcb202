"""`suggest_bounds`: how long the weights are that fit a log, and how sure that is."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats
from ..evidence.log_steps import steps_of
from ..problem.encoder import Encoder
from ..problem.links import LinearCombination, MultinomialLogit
from ..problem.log import Log
from ..problem.problem import Problem
from ..storage.text import aligned
from .log import read_log

SPREAD = 3.0  # standard deviation of a logit before any data: keeps what always or never happens finite
ENOUGH = 10  # observations per weight, below which a pair's fit is not relied on
ROUNDS = 100  # of Newton's method
VARIANCE = 0.25  # of a reward, at most, over the squared length of its range


@dataclass(frozen=True, eq=False)
class SuggestedBounds:
    """What `suggest_bounds` found; `print` it for a table.

    weight_bound, reward_bound   suggestions for `Problem`: the largest limit of a pair with enough data, rounded up
    weight_norms, reward_norms   [S, A], the longest row fitted, and the norm of the reward weights; nan without data
    weight_limits, reward_limits   [S, A], the same plus `margin` standard errors
    visits, rewards              [S, A], steps and rewards that were seen
    few_visits, few_rewards      bool [S, A], available pairs with fewer than ten observations per weight: what they say
                                 is not relied on, and their weights may be longer than suggested
    """

    problem: Problem
    margin: float
    weight_bound: float
    reward_bound: float
    weight_norms: Floats
    weight_limits: Floats
    reward_norms: Floats
    reward_limits: Floats
    visits: NDArray[np.int64]
    rewards: NDArray[np.int64]
    few_visits: NDArray[np.bool_]
    few_rewards: NDArray[np.bool_]

    def __str__(self) -> str:
        p, head = self.problem, ("state", "action", "steps", "row norm", "limit", "rewards", "norm", "limit", "")
        rows: list[tuple[str, ...]] = [head]
        for s, a in np.argwhere(p.layout.available):
            few = [w for w, f in (("steps", self.few_visits), ("rewards", self.few_rewards)) if f[s, a]]
            rows.append((
                p.state_names[s] if p.state_names else str(s), p.action_names[a] if p.action_names else str(a),
                str(self.visits[s, a]), *map(_shown, (self.weight_norms[s, a], self.weight_limits[s, a])),
                str(self.rewards[s, a]), *map(_shown, (self.reward_norms[s, a], self.reward_limits[s, a])),
                f"few {' and '.join(few)}" if few else "",
            ))  # fmt: skip
        said = f"weight_bound={self.weight_bound:g}, reward_bound={self.reward_bound:g}"
        return (
            f"{aligned(rows)}\nsuggested: {said} (limits: {self.margin:g} standard errors above the fit)\n"
            "chosen after looking: promises hold for people who come after this log, not for those in it"
        )


def _shown(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def suggest_bounds(
    log: Any, problem: Problem | None = None, encoder: Encoder | None = None, margin: float = 2.0
) -> SuggestedBounds:
    """Bounds for a `Problem` from an earlier log: the norms of the weights that fit it, by pair, with a margin.

    log      a table as `read_log` takes it, with the problem so far and the encoder, if any; or what `read_log` made
    problem  gives sizes, link and supports; its bounds are not used, so write large ones there (weight_bound=100,
             reward_bound=100) and make the problem anew afterwards. None: the one the log was read with
    margin   standard errors that are added to every norm

    Transitions of a pair are fitted by maximum likelihood with a Gaussian prior under which logits have standard
    deviation 3; the limit of a row is ||u|| + margin sqrt(u'C u)/||u||, C the inverse Hessian. Rewards likewise: ridge
    regression with variance 1/4, or logistic regression. Rows are relative to the last supported outcome, as
    `weight_bound` is. LinearCombination implies its weight_bound, and known rewards theirs.

    Caveat: a bound that was chosen after looking at data is no assumption about these data. Take the bounds from an
    earlier log, or from the first half of one, and have the agent learn from what came later (docs/bounds.md).

    >>> import numpy as np
    >>> import noregret as nr
    >>> g = np.random.default_rng(0)
    >>> drug = g.integers(0, 2, 400)
    >>> well = g.random(400) < np.where(drug == 1, 0.8, 0.3)
    >>> table = {
    ...     "episode": range(400), "step": [0] * 400, "state": ["ill"] * 400, "action": drug, "x0": [1.0] * 400,
    ...     "next_state": np.where(well, "well", "ill"), "reward": well.astype(float),
    ... }
    >>> problem = nr.Problem(2, 2, 1, 1, weight_bound=100, reward_bound=100, state_names=("ill", "well"))
    >>> found = nr.suggest_bounds(table, problem)
    >>> found.weight_bound, found.reward_bound
    (2.0, 0.9)
    >>> print(found)  # nobody who is well was seen
    state  action  steps  row norm  limit  rewards  norm  limit
    ill    0       179    0.89      1.22   179      0.29  0.37
    ill    1       221    1.57      1.92   221      0.83  0.89
    well   0       0      -         -      0        -     -      few steps and rewards
    well   1       0      -         -      0        -     -      few steps and rewards
    suggested: weight_bound=2, reward_bound=0.9 (limits: 2 standard errors above the fit)
    chosen after looking: promises hold for people who come after this log, not for those in it
    """
    if not isinstance(log, Log):
        if problem is None:
            raise ValueError(f"log must be a noregret.Log where no problem is given, got {check.shown(log)}")
        log = read_log(log, problem, encoder, arrival="row")  # no fit depends on the order
    elif problem is not None and not (isinstance(problem, Problem) and problem.same_shape(log.problem)):
        raise ValueError("problem must be of the shape of the one that the log was read with")
    margin, p = check.nonnegative("margin", margin), log.problem
    if not isinstance(p.link, MultinomialLogit | LinearCombination):
        raise ValueError(f"log must be of a problem with MultinomialLogit or LinearCombination, got {p.link!r}")
    steps = steps_of(log)
    X, pairs, slots, rewards = steps.X[steps.person], steps.s * p.n_actions + steps.a, steps.slot, steps.reward
    shape, d = (p.n_states, p.n_actions), p.context_dim
    norms, limits = np.full((2, *shape), np.nan), np.full((2, *shape), np.nan)
    visits, few = np.zeros((2, *shape), np.int64), np.zeros((2, *shape), np.bool_)
    for s, a in np.argwhere(p.layout.available):
        here = pairs == s * p.n_actions + a
        seen = here & ~np.isnan(rewards)
        n = int(p.layout.count[s, a])
        visits[:, s, a] = here.sum(), seen.sum()
        few[:, s, a] = here.sum() < ENOUGH * (n - 1) * d, seen.sum() < ENOUGH * d
        if here.any() and n > 1 and isinstance(p.link, MultinomialLogit):
            norms[0, s, a], limits[0, s, a] = _length(*_logit(X[here], slots[here], n, p.context_bound), margin)
        if seen.any() and p.known_rewards is None:
            fit = _logistic if p.rewards == "logistic" else partial(_ridge, unit=p.scale.unit)
            norms[1, s, a], limits[1, s, a] = _length(*fit(X[seen], rewards[seen], p.context_bound), margin)
    weight, reward = (_rounded_up(_largest(limits[i], few[i])) for i in range(2))
    if isinstance(p.link, LinearCombination):
        weight, few[0] = math.sqrt(d), False
    if p.known_rewards is not None:
        reward, few[1] = p.reward_bound, False
    return SuggestedBounds(
        p, margin, weight, reward, norms[0], limits[0], norms[1], limits[1], visits[0], visits[1], few[0], few[1]
    )


def _length(weights: Floats, cov: Floats, margin: float) -> tuple[float, float]:
    """The longest of the rows [m, d], and the largest norm plus standard errors; cov [m, d, m, d]."""
    norms = np.linalg.norm(weights, axis=1)
    own = np.einsum("jbjc->jbc", cov)
    along = np.einsum("jb,jbc,jc->j", weights, own, weights) / np.maximum(norms, 1e-12) ** 2
    error = np.sqrt(np.where(norms > 1e-12, along, np.linalg.eigvalsh(own)[:, -1]))
    return float(norms.max()), float((norms + margin * error).max())


def _logit(X: Floats, y: NDArray[np.int64], n: int, reach: float) -> tuple[Floats, Floats]:
    """Rows [n-1, d] relative to the last outcome that fit outcomes y, and the inverse Hessian there; Newton's method,
    with steps halved until the loss falls."""
    from scipy.special import log_softmax  # not needed by anything else in a live process

    m, d = n - 1, X.shape[1]
    penalty, taken = (reach / SPREAD) ** 2, np.zeros((len(y), m))
    taken[y < m, y[y < m]] = 1.0

    def loss(u: Floats) -> tuple[float, Floats]:
        log_p = log_softmax(np.concatenate([X @ u.reshape(m, d).T, np.zeros((len(y), 1))], 1), axis=1)
        return float(0.5 * penalty * u @ u - log_p[np.arange(len(y)), y].sum()), np.exp(log_p[:, :m])

    u = np.zeros(m * d)
    value, P = loss(u)
    for _ in range(ROUNDS):
        gradient = ((P - taken).T @ X).ravel() + penalty * u
        step = np.linalg.solve(_hessian(X, P, penalty), gradient)
        size = 1.0
        while (made := loss(u - size * step))[0] > value and size > 1e-9:
            size *= 0.5
        if size <= 1e-9 or float(gradient @ step) < 1e-12:
            break
        u, (value, P) = u - size * step, made
    cov: Floats = np.linalg.inv(_hessian(X, P, penalty)).astype(float)
    return np.asarray(u.reshape(m, d)), cov.reshape(m, d, m, d)


def _hessian(X: Floats, P: Floats, penalty: float) -> Floats:
    m, d = P.shape[1], X.shape[1]
    made = np.zeros((m, d, m, d))
    for j in range(m):
        for k in range(j, m):
            weight = P[:, j] * ((j == k) - P[:, k])
            made[j, :, k] = made[k, :, j] = (X * weight[:, None]).T @ X
    flat: Floats = made.reshape(m * d, m * d) + penalty * np.eye(m * d)
    return flat


def _logistic(X: Floats, rewards: Floats, reach: float) -> tuple[Floats, Floats]:
    """The same for rewards 0 or 1: the first outcome is 1."""
    return _logit(X, (rewards < 0.5).astype(np.int64), 2, reach)


def _ridge(X: Floats, rewards: Floats, reach: float, unit: float) -> tuple[Floats, Floats]:
    """theta [1, d] by ridge regression, and its covariance."""
    inverse: Floats = np.linalg.inv(X.T @ X + (reach / SPREAD) ** 2 * np.eye(X.shape[1])).astype(float)
    return np.asarray(inverse @ (X.T @ rewards))[None], VARIANCE * unit**2 * inverse[None, :, None]


def _largest(limits: Floats, few: NDArray[np.bool_]) -> float:
    """Over the pairs with enough data; over all where none has; something positive where none has any."""
    known = limits[~np.isnan(limits) & ~few]
    known = known if known.size else limits[~np.isnan(limits)]
    return float(known.max(initial=0.01))


def _rounded_up(value: float) -> float:
    """To two digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.12g}")
