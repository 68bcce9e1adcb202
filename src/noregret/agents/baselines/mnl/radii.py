"""Radii, step sizes and regularisation of the MNL agents, each with where it comes from.

"Cho" is Cho, Hwang, Lee and Oh (2024, arXiv 2405.20165), whose text was read. "Hwang" is Hwang and Oh (2023, arXiv
2212.13540) and "Li" is Li, Zhang, Zhao and Zhou (2024, arXiv 2405.17061, third version), whose texts could not be had:
what is said of them is recalled, and where the recalled radius is only an order of magnitude one is derived here.

sizes = (p, L, B, U): the number of parameters of a block, a bound on its feature rows phi (x) x, one on its parameters,
and the largest number of next states. t = 1, 2, ... is the number of the step that a block takes next (the papers have
an estimator per step h, so that t counts episodes; here one serves all steps), log = ln(1/delta) of one block.
"""

import math

from ....compiler.jit import inlined

LEAST_KAPPA = 1e-100  # so that 1/kappa, its square and cube are numbers
SAMPLE_LOG = -math.log(0.5 * (1.0 + math.erf(math.sqrt(0.5))))  # -ln Phi(1)


@inlined
def likelihood_radius(sizes, kappa, lam, t, log):
    """||theta_hat - theta||_A <= (sqrt(p ln(1 + t U L^2/(p lambda)) + 2 ln(1/delta)) + sqrt(lambda) B)/kappa.

    Recalled of Hwang, where t = k H; a public script has the first term, up to its constant. It follows from the
    gradient's being kappa-strongly monotone along A, and from each step's noise <p - e_y, v> having a logarithmic
    moment generating function of at most (max v - min v)^2/8 <= |v|^2/4."""
    p, L, B, U = sizes
    return (math.sqrt(p * math.log1p(t * U * L * L / (p * lam)) + 2.0 * log) + math.sqrt(lam) * B) / kappa


@inlined
def newton_radius(sizes, kappa, lam, t, log):
    """alpha_k of Cho, Lemma 1: around online Newton steps with A = lambda I + kappa/2 sum phi phi'."""
    p, L, B, U = sizes
    pieces = 1.0 + max(math.ceil(2.0 * math.log2(max(t * U * L * B, 1e-300))), 0.0)
    peeled = math.log(pieces) + 2.0 * math.log(t) + log
    square = 8.0 * p / kappa * math.log1p(t * U * L * L / (p * lam)) + (32.0 * L * B / 3.0 + 16.0 / kappa) * peeled
    return math.sqrt(square + 2.0 * math.sqrt(2.0) + 2.0 * lam * B * B)


@inlined
def descent_radius(sizes, H, eta, lam, t, log):
    """beta_k of Cho, Lemmas 13 to 15 and the line before (53), with nothing left in an O: alpha = 2 eta, c = 2 alpha/3,
    beta^2 = alpha (Gamma_A + Gamma_B) + lambda B^2."""
    p, L, B, U = sizes
    alpha = 2.0 * eta
    size = 3.0 * math.log(U * t) + L * B
    first = 1.25 * size * lam + 4.0 * size * (math.log(H * math.sqrt(1.0 + 2.0 * t)) + log) + 2.0
    second = math.sqrt(6.0) * (2.0 * alpha / 3.0) * p * math.log1p(2.0 * t * L * L / (p * lam))
    return math.sqrt(alpha * (first + second) + lam * B * B)


def least_curvature(reach: float, outcomes: int) -> float:
    """kappa (Cho, Assumption 4), as the proofs use it: the least P(j) P(last) over |logits| <= reach, relative to the
    last of so many next states. The bound is ours: P(j) P(last) = w/(c + w)^2 with w = e^{z_j} and c <= 1 + (n - 2)
    e^reach is least at an end of z_j."""
    if outcomes < 2:
        return 1.0
    ends = []
    for z in (-reach, reach):
        total = math.exp(-reach) + (outcomes - 2) + math.exp(z - reach)  # of the softmax, times e^-reach
        ends.append(z - 2.0 * reach - 2.0 * math.log(total))
    return max(math.exp(max(min(ends), -700.0)), LEAST_KAPPA)


def cho_step(L: float, B: float, U: int) -> float:
    """eta = alpha/2, alpha = ln U + 2(1 + L B): Cho, Lemma 13."""
    return 0.5 * math.log(U) + 1.0 + L * B


def cho_regularization(p: float, L: float, B: float, U: int) -> float:
    """lambda = max(1, 12 sqrt 2 L^3 alpha, 48 L^2 p alpha): Cho, before (53); 1 is used in (60)."""
    alpha = 2.0 * cho_step(L, B, U)
    return max(1.0, 12.0 * math.sqrt(2.0) * L**3 * alpha, 48.0 * L**2 * p * alpha)


def li_step(L: float, B: float, U: int) -> float:
    """eta = 1/2 ln(1 + U) + B + 1: recalled of Li, who have L = 1; for other L the features are rescaled, which is
    ours."""
    return 0.5 * math.log(1.0 + U) + L * B + 1.0


def li_regularization(p: float, L: float, B: float, U: int) -> float:
    """lambda = 84 sqrt 2 eta (B + p): recalled of Li, rescaled likewise. It is at least what Cho's lemmas ask for at
    L = 1."""
    return 84.0 * math.sqrt(2.0) * li_step(L, B, U) * (L * B + p) * L**2


def newton_samples(H: int) -> int:
    """M = ceil(1 - ln H/ln Phi(1)): Cho, Theorem 1."""
    return math.ceil(1.0 + math.log(H) / SAMPLE_LOG)


def descent_samples(H: int, U: int) -> int:
    """M = ceil(1 - ln(H U)/ln Phi(1)): Cho, Theorem 2."""
    return math.ceil(1.0 + math.log(H * U) / SAMPLE_LOG)
