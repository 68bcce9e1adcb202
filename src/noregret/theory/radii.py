"""Squared radii gamma of the confidence sets ||W_t - W*||_{Z_t}^2 <= gamma_t around an online Newton estimate.

    Z_1 = lambda I,  Z_{t+1} = Z_t + kappa_t x_t x_t'
    W_{t+1} = W_t - a_t (Z_{t+1}^{-1} x_t)',  a_t = grad Phi(W_t x_t) - y_t

The step size eta of Modi and Tewari's Algorithm 1 is fixed at 1: (eta, lambda) and (1, lambda/eta) give the same
estimates and the same widths. All three radii are affine in ln(1/delta): `*_log_weight` is that slope, which lets an
agent change delta between episodes (GLM-RLSVI does) without touching its state.

gradient_sum = sum_i ||a_i||^2 ||x_i||^2_{Z_{i+1}^{-1}}; displacement = sum of the squared Z-norms of the projections.

>>> from noregret.theory import radii
>>> shared = {"weight_norm2": 4.0, "regularization": 1.0, "delta": 0.05}
>>> round(radii.theorem_a(slack=0.25, gradient_sum=20.0, displacement=0.0, **shared))
48
>>> # any link
>>> round(radii.theorem_b(alpha=0.04, c=1.5, gradient_sum=20.0, displacement=0.0, **shared))
174
"""

import math

from ..checks import or_a_sentence
from ..compiler.jit import formula


@or_a_sentence
def printed(
    n_outcomes: int,
    weight_norm2: float,
    weight_bound: float,
    context_bound: float,
    alpha: float,
    regularization: float,
    *,
    samples: int,
    logdet: float,
    delta: float,
) -> float:
    """Squared radius of Theorem 3.1, Modi and Tewari (2020), for kappa = alpha/2.

        lambda B^2 + 8 B_p R + 2 [ (4/alpha + 8/3 B_p R) tau_t + (4/alpha) logdet ]
        tau_t = ln(2 ceil(2 ln(S t)) t^2/delta),   logdet = ln det Z_{t+1}/det Z_1

    True for any valid alpha and S >= 2, and very loose. The ceiling is kept at least 1 (S = t = 1 would give ln 0), and
    before the first sample t counts as 1.

    >>> from noregret.theory import radii
    >>> shared = {"weight_norm2": 1.0, "regularization": 1.0, "delta": 0.05}
    >>> known = {"n_outcomes": 2, "weight_bound": 1.0, "context_bound": 1.0, "alpha": 0.19}
    >>> round(radii.printed(samples=0, logdet=0.0, **known, **shared))  # before any data
    217
    >>> round(radii.theorem_a(slack=1.0, gradient_sum=0.0, displacement=0.0, **shared))  # enough
    7
    """
    slope = printed_log_weight(weight_bound, context_bound, alpha)
    grown = printed_growth(n_outcomes, samples, logdet, alpha, slope) + slope * math.log(1.0 / delta)
    return regularization * weight_norm2 + 8.0 * weight_bound * context_bound + grown


@formula
def printed_growth(n_outcomes: int, samples: int, logdet: float, alpha: float, log_weight: float) -> float:
    """What changes in `printed` with the data, at delta = 1: log_weight tau_t + (8/alpha) logdet.

    >>> from noregret.theory import radii
    >>> slope = radii.printed_log_weight(weight_bound=1.0, context_bound=1.0, alpha=0.19)
    >>> [round(radii.printed_growth(2, samples, 0.0, 0.19, slope)) for samples in (1, 100)]
    [66, 584]
    """
    t = float(max(samples, 1))
    peels = max(1.0, math.ceil(2.0 * math.log(n_outcomes * t)))
    return log_weight * math.log(2.0 * peels * t * t) + (8.0 / alpha) * logdet


@formula
def printed_log_weight(weight_bound: float, context_bound: float, alpha: float) -> float:
    """The slope of `printed` in ln(1/delta): 2 (4/alpha + 8/3 B_p R).

    >>> from noregret.theory import radii
    >>> radii.printed_log_weight(weight_bound=1.0, context_bound=3.0, alpha=0.5)  # 2 (8 + 8)
    32.0
    >>> radii.theorem_a_log_weight(slack=1.0)  # is enough for the logit
    2.0
    """
    return 2.0 * (4.0 / alpha + (8.0 / 3.0) * weight_bound * context_bound)


@formula
def theorem_a(
    weight_norm2: float, regularization: float, slack: float, gradient_sum: float, displacement: float, delta: float
) -> float:
    """Squared radius for the logit with kappa_t = (2 - s) alpha_t, 0 < s <= 1.

        gamma = lambda B_0^2 + (2/s) ln(1/delta) + gradient_sum - displacement

    for all t at once, with probability 1 - delta, where alpha_t is valid on the segment [W_t x_t, W* x_t]. (Strong
    convexity at W_t, and the supermartingale prod (p_t/p*)^s exp(s (1-s) alpha_t ||(W_t - W*) x_t||^2 / 2).) No union
    over t and no 1/alpha on ln(1/delta).

    >>> from noregret.theory import radii
    >>> nothing = {"gradient_sum": 0.0, "displacement": 0.0}  # seen so far
    >>> round(radii.theorem_a(4.0, 1.0, slack=1.0, delta=0.05, **nothing), 2)  # 4 + 2 ln 20
    9.99
    """
    log_term = theorem_a_log_weight(slack) * math.log(1.0 / delta)
    return regularization * weight_norm2 + log_term + gradient_sum - displacement


@formula
def theorem_a_log_weight(slack: float) -> float:
    """The slope of `theorem_a` in ln(1/delta): 2/s.

    >>> from noregret.theory import radii
    >>> # a larger kappa = (2 - s) alpha has its price
    >>> [radii.theorem_a_log_weight(s) for s in (0.25, 1.0)]
    [8.0, 2.0]
    """
    return 2.0 / slack


@formula
def theorem_b(
    weight_norm2: float,
    regularization: float,
    alpha: float,
    c: float,
    gradient_sum: float,
    displacement: float,
    delta: float,
) -> float:
    """Squared radius for any link that is alpha-strongly convex where it is used, with kappa = c alpha, 0 < c < 2.

        gamma = lambda B_0^2 + ln(1/delta) / ((2 - c) alpha) + gradient_sum - displacement

    (Monotonicity of the gradient, and Hoeffding's lemma for <y - p, z>, whose range is at most sqrt(2) ||z||.) Where
    alpha varies with the context, the alpha here is the smallest one, fixed beforehand.

    >>> from noregret.theory import radii
    >>> shared = {"c": 1.0, "gradient_sum": 0.0, "displacement": 0.0, "delta": 0.05}
    >>> # 1 + ln 20, 1 + 10 ln 20
    >>> [round(radii.theorem_b(1.0, 1.0, alpha, **shared), 2) for alpha in (1.0, 0.1)]
    [4.0, 30.96]
    """
    log_term = theorem_b_log_weight(alpha, c) * math.log(1.0 / delta)
    return regularization * weight_norm2 + log_term + gradient_sum - displacement


@formula
def theorem_b_log_weight(alpha: float, c: float) -> float:
    """The slope of `theorem_b` in ln(1/delta): 1 / ((2 - c) alpha).

    >>> from noregret.theory import radii
    >>> # the same kappa; A: logit only
    >>> radii.theorem_b_log_weight(alpha=0.25, c=1.5), radii.theorem_a_log_weight(0.5)
    (8.0, 4.0)
    """
    return 1.0 / ((2.0 - c) * alpha)


@formula
def conversion_weights_logit(slack: float) -> tuple[float, float]:
    """From the regret of a learner to a set, for the logit: (c, log_weight) in the bound below, 0 < s < 1.

        sum_i alpha_i ||u_i - W* x_i||^2 <= c B_t + log_weight ln(1/delta)
        c = 2/(1 - s),   log_weight = 2/(s (1 - s))

    for a learner with predictions u_i whose regret against W* is at most B_t, for all t at once with probability
    1 - delta (the supermartingale of Theorem A; s = 1/2 is the Renyi-1/2, or Bhattacharyya, case
    4 B_t + 8 ln(1/delta)). The alpha_i may vary with the contexts.

    >>> from noregret.theory import radii
    >>> for s in (0.5, 0.2):  # neither is best for all B_t
    ...     print([round(weight, 2) for weight in radii.conversion_weights_logit(s)])
    [4.0, 8.0]
    [2.5, 12.5]
    """
    return 2.0 / (1.0 - slack), 2.0 / (slack * (1.0 - slack))


@formula
def conversion_weights(alpha: float) -> tuple[float, float]:
    """The same for any link with curvature at least alpha: c = 4, log_weight = 4/alpha.

    (Strong convexity at W*, and Hoeffding's lemma for <y - p, z>.)

    >>> from noregret.theory import radii
    >>> # the logit's alpha is at most 1/2
    >>> radii.conversion_weights(0.5) == radii.conversion_weights_logit(0.5)
    True
    >>> radii.conversion_weights(0.02)  # and often much less
    (4.0, 200.0)
    """
    return 4.0, 4.0 / alpha


@formula
def conversion_printed(
    regret: float, weight_norm2: float, n_outcomes: int, alpha: float, regularization: float, delta: float
) -> float:
    """The same as printed by Modi and Tewari (section 6), for Z = lambda I + X'X.

        1 + (4/alpha) B_t + lambda B^2 S
          + (8/alpha^2) ln( sqrt(4 + 8 B_t/alpha + 16/(alpha^4 delta^2)) / delta )

    before the last bracket is subtracted. weight_norm2 is B^2, the bound on ||W*||_F^2. Valid for regret >= 0, and
    larger: multiply by alpha to compare.

    >>> import math
    >>> from noregret.theory import radii  # a regret of 1, alpha = 0.1, delta = 1/20
    >>> printed = radii.conversion_printed(1.0, 0.0, 3, alpha=0.1, regularization=1.0, delta=0.05)
    >>> round(0.1 * printed)
    963
    >>> c, log_weight = radii.conversion_weights(0.1)
    >>> round(c * 1.0 + log_weight * math.log(20))
    124
    """
    inside = 4.0 + 8.0 * regret / alpha + 16.0 / (alpha**4 * delta**2)
    log_term = (8.0 / alpha**2) * math.log(math.sqrt(inside) / delta)
    return 1.0 + 4.0 / alpha * regret + log_term + regularization * weight_norm2 * n_outcomes
