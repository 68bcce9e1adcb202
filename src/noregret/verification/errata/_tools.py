"""What the checks share: the record they return, and a few computations written from their definitions."""

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal, NamedTuple

import numpy as np

from ...beliefs.point import NONE
from ...checks import Floats
from ...planning import bellman as planning
from ...planning.plans import Plan
from ...problem.problem import Problem

Kind = Literal["error", "looseness", "notation"]


class Finding(NamedTuple):
    """What came out when one entry of docs/errata.md was put to the test.

    row               E-number in docs/errata.md
    where             place in Modi and Tewari (2020)
    kind              "error": false as printed, or a proof step that is; "looseness": true, and more than is needed;
                      "notation": a misprint, or an index, condition or factor left out, where the argument goes on
                      with the right form
    printed_holds     whether what is printed, read literally, survived the experiment
    corrected_holds   whether the correction survived it
    evidence          the numbers, in one line"""

    row: int
    where: str
    kind: Kind
    printed_holds: bool
    corrected_holds: bool
    evidence: str


Outcome = tuple[Any, Any, str]  # printed_holds, corrected_holds, evidence
CHECKS: dict[str, Callable[[], Finding]] = {}


def erratum(row: int, where: str, kind: Kind) -> Callable[[Callable[[], Outcome]], Callable[[], Finding]]:
    """The function is an experiment about that entry: it stands in `CHECKS` under its own name, with dashes."""

    def registered(experiment: Callable[[], Outcome]) -> Callable[[], Finding]:
        @wraps(experiment)
        def check() -> Finding:
            printed, corrected, evidence = experiment()
            return Finding(row, where, kind, bool(printed), bool(corrected), evidence)

        CHECKS[experiment.__name__.replace("_", "-")] = check
        return check

    return registered


def softmax(y: Any) -> Floats:
    """Along the last axis."""
    y = np.asarray(y, float)
    p = np.exp(y - y.max(-1, keepdims=True))
    return np.asarray(p / p.sum(-1, keepdims=True), float)


def hessian(y: Any) -> Floats:
    """diag(p) - p p' for p = softmax(y), [..., S, S]."""
    p = softmax(y)
    return np.asarray(np.eye(p.shape[-1]) * p[..., None] - p[..., :, None] * p[..., None, :], float)


def pinned(free: Any) -> Floats:
    """Append the last outcome's predictor, 0."""
    free = np.asarray(free, float)
    return np.concatenate((free, np.zeros((*free.shape[:-1], 1))), -1)


def vertices(n: int, bound: float) -> Floats:
    """The 2^n corners of the box [-bound, bound]^n."""
    bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    return np.asarray(bound * (2.0 * bits - 1.0), float)


def normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def slope(x: Sequence[float] | Floats, y: Sequence[float] | Floats) -> float:
    """Exponent of y as a power of x, by least squares on logarithms."""
    return float(np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)), 1)[0])


def norm2(W: Floats, Z: Floats) -> float:
    """||W||_Z^2, summed over the rows."""
    return float(np.sum((W @ Z) * W))


def units(n: int, d: int, seed: int) -> Floats:
    """n random unit vectors in R^d."""
    x = np.random.default_rng(seed).standard_normal((n, d))
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), float)


def at_most(value: float, bound: float) -> bool:
    """value <= bound, up to rounding."""
    return bool(value <= bound + 1e-9 * max(1.0, abs(bound)))


def plan(P: Floats, r: Floats, horizon: int, xi: Floats | None = None, spread: int = NONE, clip: bool = False) -> Plan:
    """The library's planner on a dense model P [S, A, S], r [S, A], with widths xi [S, A]."""
    (S, A), H = r.shape, horizon
    layout = Problem(S, A, H, 1, weight_bound=1.0, reward_bound=1.0).layout
    xi = np.zeros((S, A)) if xi is None else xi
    policy, V, Q, none = np.zeros((H, S), np.int64), np.zeros((H + 1, S)), np.zeros((S, A)), np.zeros((0, 0, 0))
    planning.backward_induction(
        layout,
        planning.Model(P, r, xi, none),
        planning.Operator(spread, int(clip), np.uint64(0)),
        planning.Solution(Q, policy, V),
    )
    return Plan(policy, V)


def follow(P: Floats, r: Floats, policy: Any) -> Floats:
    """Values [H+1, S] of a policy [H, S], by the definition."""
    H, S = policy.shape
    V, s = np.zeros((H + 1, S)), np.arange(S)
    for h in range(H - 1, -1, -1):
        V[h] = r[s, policy[h]] + P[s, policy[h]] @ V[h + 1]
    return V


def model(n_states: int, n_actions: int, g: np.random.Generator) -> tuple[Floats, Floats]:
    """A random MDP: P [S, A, S], r [S, A]."""
    return g.dirichlet(np.ones(n_states), (n_states, n_actions)), g.random((n_states, n_actions))
