"""Any tabular MDP as a population: a multinomial logit world whose individuals tilt its transitions, exactly."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import checks as check
from ..checks import Floats
from ..problem.layout import listed_support
from ..problem.links import EXP_LIMIT, MultinomialLogit
from ..problem.problem import Problem
from .contexts import Contexts, Sphere, Table
from .world import World

_SLACK = 1e-9  # of probabilities, which users may have rounded


def tilt(
    P: ArrayLike,
    features: ArrayLike,
    B: float | None = None,
    rewards: ArrayLike | None = None,
    *,
    horizon: int = 10,
    scale: float | None = None,
    intercept: float | None = None,
    individuals: ArrayLike | None = None,
    available: ArrayLike | None = None,
    known_rewards: bool = False,
    initial_state: Any = 0,
    name: str = "tilt",
    **names: Any,
) -> World:
    """Any tabular MDP as a population: individuals u [p] tilt its transitions towards some next states.

        P_u(s'|s, a)  proportional to  P(s'|s, a) exp(scale u'features[s'])        on the support of P, 0 elsewhere.

    P             [S, A, S'], a distribution for every available pair; u = 0 is this MDP itself
    features      [S', p] of the next state; a constant added to a column changes nothing
    individuals   rows u [m, p], drawn evenly; None: uniform on the unit sphere (p = 1: -1 and 1)
    rewards       mean rewards [S, A], the same for everybody, or [S, A, 1 + p]: r_0 + r'u. None: all 0
    intercept     x_0, the constant entry of every context, in (0, 1). None: the one that needs the smallest bound
    B, scale      the weight bound and the strength. One of them: the other is the smallest bound, or the largest
                  strength, that goes with it. None of them: scale = 1. Both: refused if B is too small for the scale

    Derivation. Contexts are x = (c, e u) with c^2 + e^2 U^2 = 1, U the largest ||u||, so that ||x|| <= 1 and x_0 = c.
    With l_j = ln P(j|s, a), f_j = scale features[j] and weights w_j = (l_j/c, f_j/e) the predictors are w_j'x = l_j +
    f_j'u, whose softmax over the support is the tilted distribution: nothing is approximated. Rows relative to the last
    supported next state n have

        ||w_j - w_n||^2 = (l_j - l_n)^2/c^2 + ||f_j - f_n||^2 U^2/(1 - c^2),

    and the largest of them is the smallest weight bound there is for these contexts. Over c it is a maximum of convex
    functions of c^2, minimised here; for one row alone the least is |l_j - l_n| + ||f_j - f_n|| U, the largest
    difference of predictors that any individual can have, and no contexts of length 1 allow less than that. So B must
    exceed the largest |l_j - l_n| even without a tilt: a probability p next to a reference q needs B > |ln(p/q)|. A
    smaller B, or more than half of EXP_LIMIT, is refused. Taking small probabilities for larger ones would be another
    MDP: where that is wanted, change P before.

    Cost O(S A S'), memory O(S A (S' + M d)); rows outside the support are not stored.

    >>> import numpy as np
    >>> import noregret as nr
    >>> P = np.array([[[0.5, 0.5], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]])  # [S, A, S']
    >>> world = nr.worlds.tilt(P, features=[[0.0], [1.0]], scale=1.0, individuals=[[-1.0], [0.0], [1.0]])
    >>> for x in world.contexts.support:  # state 1 becomes more likely with u
    ...     print(world.transitions(x)[0].round(2).tolist())
    [[0.73, 0.27], [0.23, 0.77]]
    [[0.5, 0.5], [0.1, 0.9]]
    [[0.27, 0.73], [0.04, 0.96]]
    """
    base = check.numbers("P", P)
    if base.ndim != 3 or base.shape[0] != base.shape[2] or 0 in base.shape:
        raise ValueError(f"P must have shape (S, A, S), got {base.shape}")
    S, A, _ = base.shape
    phi = check.numbers("features", features)
    if phi.ndim != 2 or phi.shape[0] != S or phi.shape[1] == 0 or not np.isfinite(phi).all():
        raise ValueError(f"features must be finite numbers of shape ({S}, p), got shape {phi.shape}")
    may = np.ones((S, A), bool) if available is None else check.mask("available", available, (S, A))
    base[~may] = 0.0
    _distributions(base, may)
    listed = listed_support(base > 0.0, S, A)[1]
    u, largest = _individuals(individuals, phi.shape[1])
    gaps, rises = _differences(base, phi, listed)
    chosen, c, bound = _strength(gaps, rises * largest, B, scale, intercept)
    e = math.sqrt(1.0 - c * c) / largest
    unit = np.concatenate([[c], np.full(phi.shape[1], e)])
    theta = _reward_weights(rewards, S, A, phi.shape[1]) / unit
    theta[~may] = 0.0
    problem = Problem(
        S, A, horizon, 1 + phi.shape[1], MultinomialLogit(), weight_bound=bound,
        reward_bound=max(float(np.linalg.norm(theta, axis=-1).max()), 1e-9), support=listed, available=may,
        known_rewards=theta if check.flag("known_rewards", known_rewards) else None, **names,
    )  # fmt: skip
    live, at = listed >= 0, np.maximum(listed, 0)
    W = np.zeros((*at.shape, 1 + phi.shape[1]))
    s, a, j = np.nonzero(live)
    W[s, a, j, 0] = np.log(base[s, a, at[s, a, j]]) / c
    W[s, a, j, 1:] = chosen * phi[at[s, a, j]] / e
    source: Contexts = Sphere(1 + phi.shape[1], 1.0, c) if u is None else Table(np.insert(u * e, 0, c, axis=1))
    if at.shape[2] == S:  # slots would be taken for states
        W = problem.from_slots(W)
    return World(problem, W, theta, source, initial_state, name)


def _distributions(base: Floats, may: NDArray[np.bool_]) -> None:
    bad = np.argwhere(may & ~((np.abs(base.sum(2) - 1.0) <= _SLACK) & (base.min(2) >= 0.0)))
    if bad.size:
        s, a = (int(i) for i in bad[0])
        raise ValueError(
            f"P[{s}, {a}] must be a distribution, its sum is {base[s, a].sum():.9g} and its smallest entry "
            f"{base[s, a].min():.6g}"
        )


def _individuals(rows: ArrayLike | None, p: int) -> tuple[Floats | None, float]:
    """(rows, the largest norm)."""
    if rows is None:
        return None, 1.0
    made = check.numbers("individuals", rows)
    made = made[:, None] if made.ndim == 1 and p == 1 else made
    if made.ndim != 2 or made.shape[1] != p or len(made) == 0 or not np.isfinite(made).all():
        raise ValueError(f"individuals must be finite numbers of shape (m, {p}), got shape {made.shape}")
    return made, float(np.linalg.norm(made, axis=1).max()) or 1.0


def _differences(base: Floats, phi: Floats, listed: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """|l_j - l_n| and ||phi_j - phi_n|| of every supported next state j, n the last one of its pair."""
    s, a, j = np.nonzero(listed >= 0)
    after, last = listed[s, a, j], listed.max(2)[s, a]
    gaps = np.abs(np.log(base[s, a, after]) - np.log(base[s, a, last]))
    return gaps, np.linalg.norm(phi[after] - phi[last], axis=1)


def _reward_weights(rewards: ArrayLike | None, S: int, A: int, p: int) -> Floats:
    """Coefficients [S, A, 1 + p] of (1, u)."""
    made = np.zeros((S, A, 1 + p))
    given = None if rewards is None else check.numbers("rewards", rewards)
    if given is not None and given.ndim == 2:
        made[..., 0] = check.array("rewards", given, (S, A))
    elif given is not None:
        made = check.array("rewards", given, made.shape)
    return made


def smallest_bound(gaps: Floats, tilts: Floats, intercept: float | None = None) -> tuple[float, float]:
    """(B, c): the largest sqrt(gap^2/c^2 + tilt^2/(1 - c^2)), at the given c, or the c in (0, 1) where it is smallest.

    In t = c^2 it is a maximum of convex functions: ternary search. Rows that another one dominates are left out."""
    order = np.lexsort((-tilts, -gaps))
    a, b = gaps[order] ** 2, tilts[order] ** 2
    kept = b > np.concatenate([[-1.0], np.maximum.accumulate(b)[:-1]])
    a, b = a[kept], b[kept]

    def worst(t: float) -> float:
        return float((a / t + b / (1.0 - t)).max())

    if intercept is not None:
        return math.sqrt(worst(intercept**2)), intercept
    low, high = 1e-6, 1.0 - 1e-6
    for _ in range(200):
        first, second = low + (high - low) / 3.0, high - (high - low) / 3.0
        low, high = (low, second) if worst(first) <= worst(second) else (first, high)
    c = math.sqrt(0.5 * (low + high))
    return math.sqrt(worst(c * c)), c


def _strength(
    gaps: Floats, rises: Floats, B: float | None, scale: float | None, intercept: float | None
) -> tuple[float, float, float]:
    """(scale, c, weight bound)."""
    if intercept is not None:
        intercept = check.positive("intercept", intercept, below=1.0, least=1e-6)
    if scale is not None:
        scale = check.nonnegative("scale", scale)
    elif B is None:
        scale = 1.0
    if B is not None:
        B = check.positive("B", B)
        least = float(gaps.max()) / (1.0 if intercept is None else intercept)
        if least > B or (least == B and intercept is None):
            raise ValueError(
                f"B must be above {least:.6g}, got {B:g}: so far apart are the logarithms of P within a pair, whatever "
                "the tilt, and a smaller bound would need another P"
            )
    if scale is None:
        scale = _largest_scale(gaps, rises, float(B or 0.0), intercept)
    needed, c = smallest_bound(gaps, scale * rises, intercept)
    needed = max(needed * (1.0 + 1e-12), 1e-9)
    if B is not None and needed > B * (1.0 + _SLACK):
        raise ValueError(f"B must be at least {needed:.6g} for scale = {scale:g}, got {B:g}: or leave scale to B")
    if 2.0 * needed > EXP_LIMIT:
        raise ValueError(
            f"P, scale * features and B need a weight bound of {needed:.6g}, above {EXP_LIMIT / 2:g}: the "
            "probabilities could not be told from 0"
        )
    return scale, c, needed if B is None else max(B, needed)


def _largest_scale(gaps: Floats, rises: Floats, B: float, intercept: float | None) -> float:
    """The largest scale whose smallest bound is at most B, by bisection: the bound grows with the scale."""
    if not rises.max() > 0.0:
        return 1.0  # features that differ nowhere: any scale is as good
    low, high = 0.0, B / float(rises.max())
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if smallest_bound(gaps, middle * rises, intercept)[0] <= B else (low, middle)
    return low
