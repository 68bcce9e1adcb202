"""Strong convexity, smoothness and Lipschitz constants of the log-sum-exp link Phi(y) = ln sum_i exp(y_i).

Notation: S outcomes, the last one's predictor pinned to 0 and the n = S - 1 others in the box [-M, M] with
M = B_p ||x||; E = e^M; p = softmax(y); H = diag(p) - p p' the Hessian; C = I - 11'/S. At a vertex of the box with m
coordinates at M and n - m at -M, D_m = 1 + m E + (n - m)/E is the partition function.

Every function takes scalars and is called by the kernels as it stands.

>>> from noregret.theory import constants
>>> constants.LOGIT_BETA, round(constants.LOGIT_L1, 4)  # 1 and sqrt(S) are printed
(0.5, 0.7071)
>>> # 1/9 with all weights 0
>>> [round(constants.logit_alpha_pinned(3, bound), 4) for bound in (0.0, 1.0, 3.0)]
[0.1111, 0.0599, 0.0022]
"""

import math

from ..compiler.jit import formula

LOGIT_BETA = 0.5
"""Smoothness of Phi in the 2-norm: row sums of |H| are 2 p_i (1 - p_i) <= 1/2. Tight for S >= 3; 1 is printed."""

LOGIT_L1 = 1.0 / math.sqrt(2.0)
"""||softmax(u) - softmax(v)||_1 <= LOGIT_L1 ||u - v||_2, tight; sqrt(S) beta is printed (Modi and Tewari, eq. CI_p)."""


@formula
def logit_alpha_printed(n_outcomes: int, bound: float) -> float:
    """Curvature as printed, e^{-M} / S^2: Example 2.3 of Modi and Tewari (2020).

    Caveat: not a lower bound on the curvature for S >= 3 once M passes about 1.8 to 2.8.

    >>> import numpy as np
    >>> from noregret.theory import constants
    >>> p = np.exp([3.0, -3.0, 0.0]) / np.exp([3.0, -3.0, 0.0]).sum()
    >>> smallest = np.linalg.eigvalsh((np.diag(p) - np.outer(p, p))[:2, :2])[0]
    >>> print(f"{constants.logit_alpha_printed(3, 3.0):.4f} as printed, {smallest:.4f} in truth")
    0.0055 as printed, 0.0022 in truth
    """
    return math.exp(-bound) / (n_outcomes * n_outcomes)


@formula
def logit_alpha_pinned(n_outcomes: int, bound: float) -> float:
    """Exact min over the box of lambda_min(H) on the n free coordinates.

    1/alpha = max_m D_m lam_m, where lam_m is the Perron root of diag(1/u) + 11' at the vertex u: with a = 1/E + m and
    b = E + n - m it is (a + b + sqrt((a - b)^2 + 4 m (n - m)))/2, for m = 0 it is E + n, for m = n it is 1/E + n.
    (H^{-1} = D (diag(1/u) + 11') by Sherman-Morrison; its quadratic form is convex in each coordinate of u, so the
    maximum over the box is at a vertex.) S = 2 gives sigma(M)(1 - sigma(M)); M = 0 gives 1/S^2. One outcome: 1.

    >>> from noregret.theory import constants
    >>> [round(1.0 / constants.logit_alpha_pinned(S, 0.0), 6) for S in (2, 3, 10)]
    [4.0, 9.0, 100.0]
    >>> round(constants.logit_alpha_pinned(2, 1.0), 4), round(constants.logistic_alpha(1.0), 4)
    (0.1966, 0.1966)
    """
    n = n_outcomes - 1
    if n < 1:
        return 1.0
    high = math.exp(bound)
    low = 1.0 / high
    worst = 0.0
    for m in range(n + 1):
        partition = 1.0 + m * high + (n - m) * low
        if m == 0:
            root = high + n
        elif m == n:
            root = low + n
        else:
            a, b = low + m, high + (n - m)
            root = 0.5 * (a + b + math.sqrt((a - b) * (a - b) + 4.0 * m * (n - m)))
        worst = max(worst, partition * root)
    return 1.0 / worst


@formula
def logit_alpha_simple(n_outcomes: int, bound: float) -> float:
    """A lower bound on `logit_alpha_pinned`, at least 0.62 of it for S <= 20 and M <= 5.

        1 / max{ (1 + nE)(n + 1/E), (1 + (n-1)E + 1/E)(E + n) }

    >>> from noregret.theory import constants
    >>> exact, simple = constants.logit_alpha_pinned, constants.logit_alpha_simple
    >>> [round(simple(S, 1.0) / exact(S, 1.0), 3) for S in (2, 3, 5, 20)]
    [1.0, 0.866, 0.811, 0.933]
    """
    n = n_outcomes - 1
    if n < 1:
        return 1.0
    high = math.exp(bound)
    low = 1.0 / high
    return 1.0 / max((1.0 + n * high) * (n + low), (1.0 + (n - 1) * high + low) * (high + n))


@formula
def logit_alpha_centred(n_outcomes: int, bound: float) -> float:
    """Exact min over the pinned box of the smallest eigenvalue of H on the vectors that sum to zero.

    1/alpha = max_m D_m lambda_max(C diag(1/u) C) (the pseudo-inverse of H is D C diag(1/u) C; vertices as above).
    With two or more low coordinates the root is E and D_m grows with m, so only the vertices with 2, 1 and 0 low
    coordinates remain, and their roots solve sum_i 1/(1/u_i - root) = 0: a quadratic and a linear equation. Hence a
    constant-time formula. M = 0 gives 1/S, against 1/S^2 pinned.

    >>> from noregret.theory import constants
    >>> pinned, centred = constants.logit_alpha_pinned, constants.logit_alpha_centred
    >>> # ten outcomes: what pinning one of them costs, and how little where weights are large
    >>> [round(centred(10, bound) / pinned(10, bound), 2) for bound in (0.0, 3.0)]
    [10.0, 1.2]
    """
    n = n_outcomes - 1
    if n < 1:
        return 1.0
    high = math.exp(bound)
    low = 1.0 / high
    worst = (1.0 + n * high) * (n + low) / (n + 1.0)
    if n >= 2:
        worst = max(worst, (1.0 + (n - 2) * high + 2.0 * low) * high)
        a = n + 1.0
        b = (n - 1) * (high + 1.0) + (low + 1.0) + (low + high)
        c = (n - 1) * high + low + 1.0
        root = (b + math.sqrt(max(b * b - 4.0 * a * c, 0.0))) / (2.0 * a)
        worst = max(worst, (1.0 + (n - 1) * high + low) * root)
    return 1.0 / worst


@formula
def logit_alpha_unpinned(n_outcomes: int, bound: float) -> float:
    """The same on the whole box |y_i| <= M, nothing pinned: S / ((S - 1) E + 1/E)^2, exact.

    >>> from noregret.theory import constants
    >>> round(constants.logit_alpha_unpinned(5, 0.0), 6)  # 1/S where all outcomes are as likely
    0.2
    >>> # the minimum over a larger box
    >>> alphas = constants.logit_alpha_centred(3, 1.0), constants.logit_alpha_unpinned(3, 1.0)
    >>> [round(alpha, 3) for alpha in alphas]
    [0.119, 0.089]
    """
    high = math.exp(bound)
    total = (n_outcomes - 1) * high + 1.0 / high
    return n_outcomes / (total * total)


@formula
def logistic_alpha(bound: float) -> float:
    """Least slope of sigma on [-M, M]: sigma(M)(1 - sigma(M)) = 1/(2 + e^M + e^-M).

    >>> from noregret.theory import constants
    >>> # about e^-M in the end
    >>> [round(constants.logistic_alpha(bound), 4) for bound in (0.0, 1.0, 5.0)]
    [0.25, 0.1966, 0.0066]
    """
    high = math.exp(bound)
    return 1.0 / (2.0 + high + 1.0 / high)


@formula
def linear_l1(n_outcomes: int) -> float:
    """From the 2-norm to the 1-norm for v in R^S that sums to zero: sqrt(S), or sqrt(S - 1/S) when S is odd.

    ||v||_1 <= linear_l1 ||v||_2, attained by two values, each on half of the outcomes, as nearly as can be.

    >>> from noregret.theory import constants
    >>> [round(constants.linear_l1(S), 3) for S in (2, 3, 4)]
    [1.414, 1.633, 2.0]
    >>> round((2 + 1 + 1) / (4 + 1 + 1) ** 0.5, 3)  # v = (2, -1, -1)
    1.633
    """
    if n_outcomes % 2 == 0:
        return math.sqrt(n_outcomes)
    return math.sqrt(n_outcomes - 1.0 / n_outcomes)
