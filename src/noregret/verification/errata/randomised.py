"""Rows 25 to 28: GLM-RLSVI (section 4.2 of the paper, Appendix B.2)."""

import math
from typing import Literal

import numpy as np

from ...agents.glm.rlsvi import GLMRLSVI, perturb
from ...beliefs.point import NONE
from ...compiler.jit import direct
from ...planning import bellman as planning
from ...problem.problem import Problem
from ...theory import widths
from ._tools import Outcome, erratum, normal_cdf, slope

PROMISED = normal_cdf(-1.0)  # F(-1), the probability of optimism that the lemma promises


def optimism_by_formula(width: float, corrected: bool, n_states: int = 2, horizon: int = 5) -> float:
    """Probability that the perturbed value exceeds the true one when every reward estimate is too low by `width`.

    Uniform transitions and start, one action: the excess sum_{h,s} (b_h(s) - w)/S is normal with mean -H w and variance
    H S (S H v)/S^2, where v = w^2 corrected and w printed: F(-1) and F(-sqrt w), whatever S and H."""
    mean = horizon * width
    variance = horizon * n_states * (n_states * horizon * (width**2 if corrected else width)) / n_states**2
    return normal_cdf(-mean / math.sqrt(variance))


def optimism_by_simulation(width: float, constants: Literal["corrected", "paper"], draws: int) -> float:
    """The same frequency with GLM-RLSVI's own perturbations and planner: S = 2, A = 1, H = 5, xi_p = 0, xi_r = width,
    r_hat = r - width, P_hat = P uniform."""
    problem = Problem(2, 1, 5, 1, reward_bound=width, weight_bound=1.0)
    agent = GLMRLSVI(problem, constants=constants, seed=7)
    belief, noise, truth = agent.work.belief, agent.work.noise, np.full((2, 1), 0.5)
    belief.width[:], belief.interval[:], belief.P[:] = 0.0, width, 0.5
    policy, V, Q = np.zeros((5, 2), np.int64), np.zeros((6, 2)), np.zeros((2, 1))
    draw = agent.par, 0, belief, noise
    model, found = planning.Model(belief.P, truth - width, truth, noise), planning.Solution(Q, policy, V)
    induct = problem.layout, model, planning.Operator(NONE, 0, np.uint64(0)), found
    drawn, planned = direct(perturb, *draw), direct(planning.backward_induction, *induct)
    optimistic = 0
    for k in range(draws):
        drawn(agent.par, k, belief, noise)
        planned(*induct)
        optimistic += bool(V[0].mean() >= 5 * 0.5)
    return optimistic / draws


@erratum(25, "Algorithm 3 and Theorem 4.7", "error")
def rlsvi_variance() -> Outcome:
    """Claim: b ~ N(0, S H phi), phi the width, makes the plan optimistic with probability F(-1). Width 4, within the
    sets: exact formula and 20,000 plans of the library (standard error at most 0.003)."""
    draws = 20_000
    old, new = optimism_by_formula(4.0, False), optimism_by_formula(4.0, True)
    seen_old, seen_new = optimism_by_simulation(4.0, "paper", draws), optimism_by_simulation(4.0, "corrected", draws)
    error = 5 * math.sqrt(PROMISED * (1 - PROMISED) / draws)
    agree = abs(seen_old - old) < error and abs(seen_new - new) < error
    said = f"width 4: optimistic with probability {old:.4f} as printed ({seen_old:.4f} of {draws:,} plans), {new:.4f} "
    said += f"with S H phi^2 ({seen_new:.4f}); promised {PROMISED:.4f}"
    return old >= PROMISED and seen_old >= PROMISED - error, agree and new >= PROMISED * (1 - 1e-12), said


@erratum(25, "Lemma B.9", "error")
def rlsvi_noise_sum() -> Outcome:
    """Claim: the noise adds up to order sqrt K. With the width as the variance its standard deviation is the root of
    the width. d = 1, kappa = gamma = lambda = 1, one visit per episode: exponents of K in the exact sums of sqrt(w_k)
    and of w_k, K = 10^4 to 10^6."""
    w = 1.0 / np.sqrt(1.0 + np.arange(10**6))
    K = np.array([10**4, 10**5, 10**6])
    root, whole = (slope(K, np.cumsum(v)[K - 1]) for v in (np.sqrt(w), w))
    said = f"noise sum grows like K^{root:.2f} with variance S H w, like K^{whole:.2f} with S H w^2"
    return root < 0.6, abs(whole - 0.5) < 0.02, said


@erratum(26, "Lemma B.6", "error")
def rlsvi_failure_budget() -> Outcome:
    """Claim: delta_p = delta_r = pi^2/(SA) makes the failure probabilities of all episodes sum to pi^2/6. S = A = 2,
    1000 episodes, union bound over 2SA sets, with that delta and with the library's delta of each episode."""
    S, A, K = 2, 2, 1000
    agent = GLMRLSVI(Problem(S, A, 3, 1, weight_bound=1.0, reward_bound=1.0))
    ours = sum(2 * S * A * math.exp(-agent.par.log_confidence - 2 * math.log(k)) for k in range(1, K + 1))
    share, budget = math.pi**2 / (S * A), math.pi**2 / 6
    printed = 2 * S * A * share * K
    said = f"delta = {share:.2f} for S=A=2; 1000 episodes: {printed:,.0f} printed, {ours:.3f} with 1/(2SAk^2), budget "
    said += f"{budget:.3f}"
    return share < 1.0 and printed <= budget, ours <= budget, said


@erratum(27, "section 4.2, modified widths", "error")
def rlsvi_reward_clip() -> Outcome:
    """Claim: |r_hat - r| <= min(B_r R, width), r_hat unclipped. d = 1, theta = B_r = R = 1, lambda = 10^-4, delta_r
    = .05, one Bernoulli reward at x = .1, prediction at x = 1: exact over its two outcomes. With r_hat clipped to
    [0, 1] and the interval at most 1 it holds in both."""
    lam, delta, x, theta = 1e-4, 0.05, 0.1, 1.0
    gram = lam + x * x
    w2, logdet = 1.0 / gram, math.log(gram / lam)
    missed = {"printed": 0.0, "corrected": 0.0}
    for reward, chance in ((1.0, theta * x), (0.0, 1.0 - theta * x)):
        guess = x * reward / gram
        width = min(1.0, widths.reward_interval_printed(w2, logdet, 1, lam, delta))  # B_r R = 1
        missed["printed"] += chance * (abs(guess - theta) > width)
        width = widths.reward_interval(w2, logdet, 1.0, lam, delta)
        missed["corrected"] += chance * (abs(min(max(guess, 0.0), 1.0) - theta) > width + 1e-12)
    said = f"r_hat = {x / gram:.1f} for a mean of 1 with probability 0.1: misses {missed['printed']:.2f} of the time "
    said += f"at delta = 0.05, clipped {missed['corrected']:.2f}"
    return missed["printed"] <= delta, missed["corrected"] <= delta, said


def expected_maximum(n: int) -> float:
    """E max of |N(0,1)| over n draws: integral of 1 - (2F(x) - 1)^n, trapezoidal rule."""
    x = np.linspace(0.0, 12.0, 4001)
    inside = np.array([math.erf(v / math.sqrt(2.0)) for v in x])
    return float(np.trapezoid(1.0 - inside**n, x))


@erratum(28, "Lemma B.9, maximal inequality", "looseness")
def gaussian_maximum() -> Outcome:
    """Claim: E max of n = HSAK normals is O(log n). Exact integrals for n = 10^2 to 10^12 against sqrt(2 ln 2n)."""
    n = [10**k for k in range(2, 13, 2)]
    exact, root = [expected_maximum(k) for k in n], [math.sqrt(2 * math.log(2 * k)) for k in n]
    tight = all(0.8 * b <= a <= b for a, b in zip(exact, root, strict=True))
    said = f"n=10^6: E max {exact[2]:.2f}, sqrt(2 ln 2n) {root[2]:.2f}, ln n {math.log(n[2]):.1f}; n=10^12: "
    said += f"{exact[-1]:.2f}, {root[-1]:.2f}, {math.log(n[-1]):.1f}"
    return all(a <= math.log(k) for a, k in zip(exact, n, strict=True)), tight, said
