"""Radii of the bandit algorithms: one unknown theta in R^d, rewards 0 or 1 with mean sigma(theta'x), ||theta|| <= B.

Notation: M = B R bounds |theta'x|; kappa or beta is a lower bound on the slope of sigma on [-M, M]
(`constants.logistic_alpha` is the largest); log = ln(1/delta). What is "as recalled" stands as we remember the papers,
which were not at hand: its exact constants may differ from the printed ones. Each of them but `glm_ucb_recalled` is at
least as large as the proved radius beside it, so that it bounds what it should whatever the paper says.

>>> from noregret.theory import bandits
>>> beta = bandits.ol2m_curvature(2.0)
>>> round(beta, 3)
0.06
>>> ours = bandits.ol2m(bound=2.0, curvature=beta, regularization=1.0, logdet=5.0, log=3.0)
>>> theirs = bandits.ol2m_recalled(2.0, 2.0, beta, 1.0, samples=100, logdet=5.0, log=3.0)
>>> round(ours), round(theirs)
(178, 2440)
"""

import math

from ..compiler.jit import formula
from .radii import conversion_weights_logit, theorem_a_log_weight


@formula
def ol2m_curvature(reach: float) -> float:
    """The slope of OL2M, beta = 1/(2 (1 + e^M)), Zhang et al. (2016), as recalled.

    Valid: sigma'(M) = e^M/(1 + e^M) * 1/(1 + e^M), and the first factor is at least 1/2.

    >>> from noregret.theory import bandits, constants
    >>> for reach in (0.0, 2.0):  # at most the least slope
    ...     slopes = bandits.ol2m_curvature(reach), constants.logistic_alpha(reach)
    ...     print([round(slope, 3) for slope in slopes])
    [0.25, 0.25]
    [0.06, 0.105]
    """
    return 1.0 / (2.0 * (1.0 + math.exp(reach)))


@formula
def ol2m(bound: float, curvature: float, regularization: float, logdet: float, log: float) -> float:
    """Squared radius of ||theta_t - theta*||_Z for the step theta -= g Z^{-1} x, Z += (beta/2) x x', on the ball.

        lambda B^2 + 2 ln(1/delta) + (2/beta) ln(det Z/det Z_1)

    Theorem A of `radii` with s = 1: beta/2 <= (2 - s) beta, projections on a convex set only bring theta nearer, and
    sum g^2 ||x||^2_{Z^{-1}} <= (2/beta) ln(det Z/det Z_1) because |g| <= 1.

    >>> from noregret.theory import bandits
    >>> # 4 + 6 + 8
    >>> bandits.ol2m(bound=2.0, curvature=0.25, regularization=1.0, logdet=1.0, log=3.0)
    18.0
    """
    return regularization * bound * bound + theorem_a_log_weight(1.0) * log + 2.0 / curvature * logdet


@formula
def ol2m_recalled(
    bound: float, reach: float, curvature: float, regularization: float, samples: int, logdet: float, log: float
) -> float:
    """The same as `ol2m`, Zhang et al. (2016), as recalled, with step size 1.

        lambda B^2 + 2 [ 4 M + (4/beta + 8 M/3) tau_t + (1/beta) ln(det Z/det Z_1) ]
        tau_t = ln(2 ceil(2 log2 t) t^2/delta)

    Larger than `ol2m`, as 8/beta >= 32. The ceiling is kept at least 1, and before the first sample t counts as 1.

    >>> from noregret.theory import bandits
    >>> shared = {"curvature": 0.25, "regularization": 1.0, "logdet": 1.0, "log": 3.0}
    >>> round(bandits.ol2m_recalled(2.0, 2.0, samples=1, **shared))
    186
    >>> round(bandits.ol2m(2.0, **shared))
    18
    """
    t = float(max(samples, 1))
    tau = math.log(2.0 * max(1.0, math.ceil(2.0 * math.log2(t))) * t * t) + log
    inner = 4.0 * reach + (4.0 / curvature + 8.0 * reach / 3.0) * tau + logdet / curvature
    return regularization * bound * bound + 2.0 * inner


@formula
def gloc(gradient_sum: float, bound: float, curvature: float, regularization: float, slack: float, log: float) -> float:
    """Bound on sum_i (z_i - theta*'x_i)^2 for the predictions z_i of an online Newton learner.

        [ c B_t + log_weight ln(1/delta) ]/kappa
        B_t = 1/2 sum g_i^2 ||x_i||^2_{Z^{-1}} + kappa lambda B^2/2

    The learner starts from theta_1 = 0 with Z = kappa (lambda I + sum x x'); c and log_weight are those of
    `radii.conversion_weights_logit`. B_t bounds the learner's regret (Hazan et al. 2007: the losses are kappa-strongly
    convex in the prediction).

    >>> from noregret.theory import bandits  # B_t = 1/2; (4/2 + 8 * 1)/0.25
    >>> bandits.gloc(0.0, bound=2.0, curvature=0.25, regularization=1.0, slack=0.5, log=1.0)
    40.0
    """
    c, log_weight = conversion_weights_logit(slack)
    regret = 0.5 * gradient_sum + 0.5 * curvature * regularization * bound * bound
    return (c * regret + log_weight * log) / curvature


@formula
def gloc_recalled(gradient_sum: float, bound: float, curvature: float, regularization: float, log: float) -> float:
    """The same, Jun et al. (2017), as recalled, for noise that is s-sub-Gaussian with s = 1/2.

        1 + 4 B_t/kappa + (8 s^2/kappa^2) ln( 2/delta sqrt(1 + 2 B_t/kappa + 4 s^4/(kappa^4 delta^2)) )
        B_t = 1/2 sum g_i^2 ||x_i||^2_{Z^{-1}} + 2 kappa lambda B^2

    Valid: Hoeffding's lemma gives 4 B_t/kappa + (2/kappa^2) ln(1/delta) at once, with a smaller B_t.

    >>> from noregret.theory import bandits
    >>> shared = {"bound": 2.0, "curvature": 0.25, "regularization": 1.0, "log": 1.0}
    >>> round(bandits.gloc_recalled(0.0, **shared)), round(bandits.gloc(0.0, slack=0.5, **shared))
    (186, 40)
    """
    regret = 0.5 * gradient_sum + 2.0 * curvature * regularization * bound * bound
    square = 0.25  # s^2
    inside = 1.0 + 2.0 * regret / curvature + 4.0 * square**2 / curvature**4 * math.exp(2.0 * log)
    return 1.0 + 4.0 * regret / curvature + 8.0 * square / curvature**2 * (math.log(2.0 * math.sqrt(inside)) + log)


@formula
def constrained_mle(
    bound: float, curvature: float, regularization: float, logdet: float, gap: float, log: float
) -> float:
    """The radius of ||theta - theta*||_V, V = lambda I + sum x x', for a nearly best theta of the ball ||theta|| <= B.

        ( rho + sqrt(rho^2 + 4 kappa gap) ) / (2 kappa)
        rho = 1/2 sqrt(2 ln(1/delta) + ln(det V/lambda^d)) + kappa sqrt(lambda) B

    L is the negative log-likelihood plus kappa lambda ||theta||^2/2, gap = max over the ball of <grad L(theta),
    theta - v>. Proof: with D = theta - theta*, curvature along the segment gives kappa ||D||_V^2 <= <grad L(theta) -
    grad L(theta*), D> <= gap + ||grad L(theta*)||_{V^{-1}} ||D||_V, and that norm is at most rho: the noise has range
    1, so it is 1/2-sub-Gaussian (Abbasi-Yadkori et al. 2011). No factor 2 for the projection.

    >>> from noregret.theory import bandits
    >>> shared = {"curvature": 0.25, "regularization": 1.0, "logdet": 0.0, "log": 8.0}
    >>> for gap in (0.0, 1.0):  # 2/0.25 + 2, and what an unfinished search adds
    ...     print(round(bandits.constrained_mle(2.0, gap=gap, **shared), 1))
    10.0
    10.4
    """
    rho = 0.5 * math.sqrt(2.0 * log + logdet) + curvature * math.sqrt(regularization) * bound
    return (rho + math.sqrt(rho * rho + 4.0 * curvature * gap)) / (2.0 * curvature)


@formula
def glm_ucb_recalled(
    dim: int, context_bound: float, curvature: float, regularization: float, rounds: int, log: float
) -> float:
    """The factor of ||x||_{V^{-1}} in the bonus on a mean, Filippi et al. (2010), as recalled.

        (2 k kappa_0 r/kappa) sqrt(2 d ln t ln(2 d T/delta))
        kappa_0 = sqrt(3 + 2 ln(1 + 2 R^2/lambda_0))

    k = 1/4 the largest slope of sigma, r = 1 the largest reward, lambda_0 the least eigenvalue after a warm-up: here
    lambda, as there is none; T, the rounds to come, is replaced by those so far, t (at least 2). No guarantee.

    >>> import math
    >>> from noregret.theory import bandits
    >>> shared = {"curvature": 0.1, "regularization": 1.0, "log": 3.0}
    >>> round(bandits.glm_ucb_recalled(5, context_bound=1.0, rounds=1000, **shared))
    331
    >>> logdet = 5 * math.log(1 + 1000 / 5)  # at most
    >>> round(0.25 * bandits.constrained_mle(2.0, logdet=logdet, gap=0.0, **shared))  # proved, times k
    8
    """
    t = float(max(rounds, 2))
    spread = math.sqrt(3.0 + 2.0 * math.log(1.0 + 2.0 * context_bound**2 / regularization))
    return 0.5 * spread / curvature * math.sqrt(2.0 * dim * math.log(t) * (math.log(2.0 * dim * t) + log))


@formula
def curvature_share(distance: float) -> float:
    """At least this share of the slope sigma'(z) is left on the way from z to z*, |z - z*| <= a = distance.

        int_0^1 (1 - v) sigma'(z + v (z* - z)) dv >= sigma'(z) (a - 1 + e^-a)/a^2,   1/2 at a = 0

    since |sigma''| <= sigma' (self-concordance) keeps sigma' above sigma'(z) e^{-va}. The share is at least 1/(2 + a),
    which Abeille et al. (2021) and after them Lee et al. (2024) and Zhang et al. (2025) use.

    >>> from noregret.theory import bandits
    >>> for a in (0.0, 2.0, 20.0):
    ...     print(f"{bandits.curvature_share(a):.4f} >= {1 / (2 + a):.4f}")
    0.5000 >= 0.5000
    0.2838 >= 0.2500
    0.0475 >= 0.0455
    """
    a = distance
    if a < 1e-3:
        return 0.5 - a / 6.0 + a * a / 24.0
    return (a - 1.0 + math.exp(-a)) / (a * a)


@formula
def ofuglb(dim: int, bound: float, norm2: float, logdet: float, log: float) -> float:
    """At most how far the truth's negative log-likelihood L is above that of any theta, norm2 = ||theta||^2.

        ln(1/delta) + d norm2/(2 B^2) + 1/2 ln det(I + B^2/(4 d) sum x x')

    Ours: the likelihood ratio mixed over N(0, B^2/d I), where Lee et al. (2024) mix it uniformly over the ball. The
    mixture is a martingale, and its logarithm is at least -E_q L - KL(q, prior) for q = N(theta, (sum x x'/4 +
    d/B^2 I)^{-1}), under which E_q L <= L(theta) + 1/2 E_q ||.||^2 with the curvature sum x x'/4. logdet: that of the
    formula.

    >>> from noregret.theory import bandits
    >>> bandits.ofuglb(dim=2, bound=2.0, norm2=4.0, logdet=6.0, log=1.0)  # 1 + 1 + 3
    5.0
    """
    return log + 0.5 * dim * norm2 / (bound * bound) + 0.5 * logdet


@formula
def ofuglb_printed(dim: int, bound: float, context_bound: float, samples: int, log: float) -> float:
    """The same for the constrained maximum likelihood estimate, Lee et al. (2024), as in their programs.

        ln(1/delta) + d ln max(e, 2 e B L_t/d),   L_t = (1 + B R/2) R t

    Their contexts have norm 1; R is ours. Valid: L_t bounds the slope of L, as R t does, and of the ball shrunk by c
    towards the estimate, which has a share c^d of a uniform prior, no point is worse than it by more than 2 B c R t.

    >>> import math
    >>> from noregret.theory import bandits
    >>> print(f"{bandits.ofuglb_printed(2, bound=2.0, context_bound=1.0, samples=500, log=3.0):.1f}")
    20.2
    >>> logdet = 2 * math.log(1 + 4 / 8 * 500 / 2)  # at most, with as many samples
    >>> print(f"{bandits.ofuglb(2, bound=2.0, norm2=4.0, logdet=logdet, log=3.0):.1f}")
    8.8
    """
    steepest = (1.0 + 0.5 * bound * context_bound) * context_bound * samples
    return log + dim * math.log(max(math.e, 2.0 * math.e * bound * steepest / dim))
