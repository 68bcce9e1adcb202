"""Rows 15 to 24: GLM-ORL, its regret and its mistakes (section 4.1 of the paper, Appendices B and C)."""

import math

import numpy as np

from ...beliefs.point import HALF_SPAN, SUP
from ...checks import Floats
from ...estimators import OnlineNewton
from ...problem.links import LinearCombination, MultinomialLogit
from ...theory import bounds, radii
from ._tools import Outcome, at_most, erratum, follow, model, plan, slope, units

CONFIDENCE = 0.05


@erratum(15, "Algorithm 2, clip line and text", "error")
def value_clip() -> Outcome:
    """Claim: clipping to [0, H - h], h = 1..H, keeps the values optimistic. H = 1 with everything known; then the
    library's clip on 200 random models, H = 3, whose errors equal their widths exactly."""
    g, below, H = np.random.default_rng(0), math.inf, 3
    for _ in range(200):
        (P, r), (other, shift) = model(3, 2, g), model(3, 2, g)
        guess, reward = 0.7 * P + 0.3 * other, r + 0.2 * (shift - 0.5)
        xi = np.abs(P - guess).sum(-1)
        upper = plan(guess, reward + np.abs(reward - r), H, xi, HALF_SPAN, clip=True).values
        below = min(below, float((upper - plan(P, r, H).values)[:-1].min()))
    alone, r = np.ones((1, 1, 1)), np.array([[0.7]])
    best, library = float(r[0, 0]), float(plan(alone, r, 1, clip=True).values[0, 0])
    printed = min(max(best, 0.0), 1.0 - 1.0)  # H - h at H = h = 1
    said = f"H=1, known reward 0.7: printed clip gives {printed:.1f}, H - h + 1 gives {library:.1f}; 200 random "
    said += f"models: planned minus optimal value at least {below:.3f}"
    return printed >= best, library >= best and below >= -1e-9, said


@erratum(16, "text before Corollary 4.2", "notation")
def norm_of_mixtures() -> Outcome:
    """Claim: ||W||_F^2 <= sqrt d in the linear case. 1000 random W whose columns are
    distributions, some of them deterministic, d = 4."""
    g, d = np.random.default_rng(1), 4
    W = g.dirichlet(np.full(3, 0.2), (1000, d))
    W[0] = np.eye(3)[[0, 1, 2, 0]]
    top = float((W**2).sum((1, 2)).max())
    said = f"d=4: largest ||W||_F^2 {top:.2f}, sqrt d = {math.sqrt(d):.0f}"
    return top <= math.sqrt(d), at_most(top, LinearCombination().weight_norm2(3, 1.0, d, "paper")), said


# Visits --------------------------------------------------------------------------------------------------------------
def weighted_deviation(horizon: int) -> Floats:
    """The two equally likely values of sum_{h,s,a} (P[s_h, a_h = s, a] - I[...]) min(2 phi, V_h^max) in one episode.

    Two states; the first action of the episode leads to either with probability 1/2, later ones stay. Nothing is known
    of state 0 (the bonus reaches V_h^max = H - h + 1), everything of state 1 (bonus 0). Forward pass, exact."""
    H = horizon
    move, stay = np.array([[0.5, 0.5], [0.5, 0.5]]), np.eye(2)
    weight = np.stack((np.arange(H, 0, -1.0), np.zeros(H)), -1)  # [H, S]
    occupied = np.zeros((H, 2))
    occupied[0, 0] = 1.0
    for h in range(1, H):
        occupied[h] = occupied[h - 1] @ (move if h == 1 else stay)
    paths = np.zeros((2, H, 2))
    paths[:, 0, 0] = 1.0
    for state in (0, 1):
        paths[state, 1:, state] = 1.0
    made: Floats = ((occupied - paths) * weight).sum((1, 2))
    return made


def printed_deviation(n_states: int, horizon: int, episodes: int, share: float) -> float:
    """S H sqrt(K ln(6 ln(2K)/delta_1)), of the main text; the appendix has another H."""
    return bounds.deviation_printed(n_states, horizon, episodes, share) / horizon


def coin_tail(episodes: int, size: float, level: float) -> float:
    """P(sum of K independent +-size >= level), exactly."""
    need = math.ceil((level / size + episodes) / 2 - 1e-12)
    return sum(math.comb(episodes, i) for i in range(max(need, 0), episodes + 1)) / 2.0**episodes


@erratum(17, "Lemma 4.5, proof at Lemma B.3", "error")
def visit_deviation() -> Outcome:
    """Claim: with probability 1 - SH delta_1 the weighted sum is at most SH sqrt(K ln(6 ln 2K/delta_1)) for all K.
    H = 100, two states, exact; against it SH^2 sqrt(...) and, for the martingale clipped to [0, H - h], whose
    deviation here is +-(H - 1)/2, sigma_H sqrt(2 K ln(1/delta')), K = 1, 10, 100 (binomial tails)."""
    S, A, H = 2, 2, 100
    share = CONFIDENCE / (2 * S * A + S * H)
    size, bound = float(weighted_deviation(H).max()), printed_deviation(S, H, 1, share)
    failure = float((weighted_deviation(H) >= bound).mean())
    ours = all(
        coin_tail(K, (H - 1) / 2, bounds.trajectory_sigma(H) * math.sqrt(2 * K * math.log(1 / share))) <= share
        and coin_tail(K, size, H * printed_deviation(S, H, K, share)) <= share
        for K in (1, 10, 100)
    )
    said = f"H=100, K=1: deviation {size:.0f} = H(H-1)/4 above the bound {bound:.0f} with probability {failure:.2f}, "
    said += f"allowed {S * H * share:.3f}; SH^2 gives {H * bound:.0f}; sigma_H is {bounds.trajectory_sigma(H):.0f}"
    return failure <= S * H * share, ours, said


@erratum(18, "Appendix B.1, F^(O)", "error")
def failure_event() -> Outcome:
    """Claim: outside F^(O), a bound on the unweighted sum, the weighted one is bounded. 100 random policies in random
    models, forward pass and sampled path: the printed sum is 0, always; the weighted one of `weighted_deviation` is
    not. The event with the weights in it, at H(H+1)/2 sqrt(K/2 ln(1/delta)) (Hoeffding), exact binomial tails."""
    g, largest, (S, A, H) = np.random.default_rng(2), 0.0, (3, 2, 6)
    for _ in range(100):
        P, _ = model(S, A, g)
        policy, at, s, total = g.integers(0, A, (H, S)), np.eye(S)[0], 0, 0.0
        for h in range(H):
            seen, chance = np.zeros((S, A)), np.zeros((S, A))
            seen[s, policy[h, s]], chance[np.arange(S), policy[h]] = 1.0, at
            total += float((chance - seen).sum())
            at = at @ P[np.arange(S), policy[h]]
            s = int(g.choice(S, p=P[s, policy[h, s]]))
        largest = max(largest, abs(total))
    H, share = 100, CONFIDENCE / 208
    size, bound = float(weighted_deviation(H).max()), printed_deviation(2, H, 1, share)
    repaired = all(
        coin_tail(K, size, H * (H + 1) / 2 * math.sqrt(K / 2 * math.log(1 / share))) <= share for K in (1, 10, 100)
    )
    said = f"printed sum: {largest:.0e} at most in 100 episodes; weighted sum {size:.0f} with probability 1/2, while "
    said += f"outside F^(O) it should stay below {bound:.0f}"
    return largest > 1e-9 or size <= bound, repaired, said


@erratum(19, "Appendix B.1, before Lemma B.3", "notation")
def sign_of_the_value_difference() -> Outcome:
    """Claim: V~_1 - V^pi_1 <= 2 phi + P'(V^pi_2 - V~_2). 200 random models with H = 4, small widths that equal the
    errors, printed bonus; both signs."""
    g, worst = np.random.default_rng(3), {-1: -math.inf, 1: -math.inf}
    for _ in range(200):
        (P, r), (other, _) = model(3, 2, g), model(3, 2, g)
        guess = 0.98 * P + 0.02 * other
        xi = np.abs(P - guess).sum(-1)
        made = plan(guess, r, 4, xi, SUP, clip=True)
        own, s, a = follow(P, r, made.policy), np.arange(3), made.policy[0]
        phi = made.values[1].max() * xi[s, a]
        for sign in worst:
            later = sign * P[s, a] @ (made.values[1] - own[1])
            gap = made.values[0] - own[0] - np.minimum(2 * phi, 4.0) - later
            worst[sign] = max(worst[sign], float(gap.max()))
    said = f"largest left minus right side: {worst[-1]:.3f} with P'(V^pi - V~), {worst[1]:.4f} with P'(V~ - V^pi)"
    return worst[-1] <= 1e-9, worst[1] <= 1e-9, said


# Sums of widths ------------------------------------------------------------------------------------------------------
@erratum(20, "Lemma B.5 (ell_sum)", "notation")
def elliptic_sum() -> Outcome:
    """Claim: sum_{k,h} min(1, kappa ||x_k||^2) <= 2H sum_sa ln det Z_{k+1}/det Z_k. Three pairs, H = 5, d = 2, 300
    random episodes, kappa = 1/2: the left side against the right one for its best k, and summed over k."""
    g, kappa, H = np.random.default_rng(4), 0.5, 5
    Z, left, right = np.tile(np.eye(2), (3, 1, 1)), 0.0, []
    for x in units(300, 2, 5):
        visits, gain = g.multinomial(H, (0.6, 0.3, 0.1)), 0.0
        for i, n in enumerate(visits):
            u = kappa * float(x @ np.linalg.solve(Z[i], x))
            left += n * min(1.0, u)
            gain += math.log1p(n * u)
            Z[i] += n * kappa * np.outer(x, x)
        right.append(2 * H * gain)
    total = sum(right)
    tight = total / (2 * math.log1p(H))
    said = f"left {left:.1f}; right at its best k {max(right):.1f}, summed over k {total:.0f} (with H/ln(1+H) for 2H: "
    said += f"{tight:.0f})"
    return left <= max(right), left <= tight <= total, said


@erratum(21, "Theorem 4.1", "looseness")
def horizon_exponent() -> Outcome:
    """Claim: H^2 sqrt K. The sum of widths S_K = sum_k N_k min(1, sqrt(kappa) ||x_k||) over 2000 random episodes, N_k =
    H, d = 3, for H = 4, 16, 64: below the printed sqrt(KH) sqrt(2HD) and below sqrt(KHD/ln 2) + HD/ln 2 (determinant
    doubling). Times H, as K grows, their exponents in H differ by 1/2."""
    holds, d, K = {"printed": True, "ours": True}, 3, 2000

    def bounds(H: int, K: float, D: float) -> tuple[float, float]:
        return math.sqrt(K * H) * math.sqrt(2 * H * D), math.sqrt(K * H * D / math.log(2)) + H * D / math.log(2)

    for H in (4, 16, 64):
        Z, total = np.eye(d), 0.0
        for x in units(K, d, H):
            total += H * min(1.0, math.sqrt(float(x @ np.linalg.solve(Z, x))))
            Z += H * np.outer(x, x)
        old, new = bounds(H, K, float(np.linalg.slogdet(Z)[1]))
        holds["printed"] &= total <= old
        holds["ours"] &= total <= new
    sizes, long = [2**i for i in range(3, 10)], 1e12
    grown = np.array([[H * b for b in bounds(H, long, d * math.log(long))] for H in sizes])
    old, new = slope(sizes, grown[:, 0]), slope(sizes, grown[:, 1])
    said = f"both bounds hold on 3 x 2000 episodes; exponents of H {old:.2f} printed, {new:.2f} by determinant doubling"
    return holds["printed"], holds["ours"] and abs(new - 1.5) < 0.02 < old - 1.9, said


@erratum(22, "proof of Theorem 4.1, gamma-bar", "notation")
def determinant_bound() -> Outcome:
    """Claim: ln det Z/det Z_1 <= d ln(1 + KHR^2/(lambda d)) whatever eta and alpha. 200 steps of the library's
    estimator with kappa = 3/2 (eta alpha = 3 in the paper's notation) and 1/2, contexts e_1 and e_2 in turn."""
    logdet = {}
    for constants, kappa in (("corrected", 1.5), ("paper", 0.5)):
        est = OnlineNewton(LinearCombination(), 3, 2, constants=constants, regularization=1.0)  # type: ignore[arg-type]
        for t in range(200):
            est.update(np.eye(2)[t % 2], 0)
        logdet[kappa] = est.logdet
    printed = 2 * math.log1p(200 / 2)
    said = f"printed bound {printed:.2f}; ln det {logdet[0.5]:.2f} at eta alpha = 1, {logdet[1.5]:.2f} at eta alpha = 3"
    scaled = all(at_most(value, 2 * math.log1p(kappa * 200 / 2)) for kappa, value in logdet.items())
    return max(logdet.values()) <= printed, scaled, said


# Mistakes ------------------------------------------------------------------------------------------------------------
@erratum(23, "Appendix C, first display", "error")
def mistakes_unreachable_pair() -> Outcome:
    """Claim: the episodes in which some pair's width is at least eps/(4H^2) are at most polylogarithmic in K. One pair
    is visited twice per episode, the other never: its width stays at its prior value. S = 2, A = 1, H = 2, eps = 1, K =
    10^9, printed gamma. Instead, sum_k min(1, N_k kappa ||x_k||^2) <= ln(det Z_{K+1}/det Z_1)/ln 2 for both pairs,
    over 3000 episodes."""
    S, A, H, lam, eps, K, alpha = 2, 1, 2, 1.0, 1.0, 10**9, 1.0

    def gamma(n: int) -> float:
        logdet = math.log1p(alpha / 2 * n / lam)
        return radii.printed(S, 1.0, 1.0, 1.0, alpha, lam, samples=n, logdet=logdet, delta=CONFIDENCE)

    prior = math.sqrt(S * gamma(0) / lam)  # beta = 1, ||x|| = 1
    count = K if prior >= eps / (4 * H**2) else 0
    printed = 16 * (lam + H) * S**2 * A * H**4 * gamma(K * H) / (lam * eps**2) * math.log(K * H / lam + 1)
    visits, Z, total = np.array([H, 0]), np.full(2, lam), 0.0
    for _ in range(3000):
        total += float(np.minimum(1.0, visits * alpha / 2 / Z).sum())
        Z += visits * alpha / 2
    doublings = float(np.log2(Z / lam).sum())
    said = f"K=10^9 episodes, all with a wide pair; printed bound {printed:.1e}. Counting visits, 3000 episodes: "
    said += f"{total:.1f} <= {doublings:.1f}"
    return count <= printed, total <= doublings, said


@erratum(23, "Appendix C, factor (lambda + H)/lambda", "error")
def mistakes_shrinkage_factor() -> Outcome:
    """Claims: ||x||^2_{Z_k^-1} <= (lambda+H)/lambda ||x||^2_{Z_{k+1}^-1}, and (lambda+H)/lambda times the sum of the
    latter <= d ln(R^2KH/lambda + 1). The second at d = 1, lambda = .1, H = 10, K = 1; the first at R = 3; 500 random
    Gram matrices with (lambda + kappa H R^2)/lambda."""
    lam, H = 0.1, 10
    left, right = (lam + H) / lam * 1.0 / (lam + H), math.log(H / lam + 1)
    R, shrunk = 3.0, (9.0 / lam) / (9.0 / (lam + H * 9.0))
    g, worst = np.random.default_rng(6), 0.0
    for _ in range(500):
        d, kappa, n = int(g.integers(1, 4)), float(g.uniform(0.01, 3.0)), int(g.integers(1, H + 1))
        old, x = g.standard_normal((5, d)), R * units(1, d, int(g.integers(10**6)))[0]
        Z = lam * np.eye(d) + old.T @ old
        ratio = x @ np.linalg.solve(Z, x) / (x @ np.linalg.solve(Z + n * kappa * np.outer(x, x), x))
        worst = max(worst, float(ratio) / ((lam + kappa * H * R**2) / lam))
    said = f"second claim: {left:.1f} <= {right:.1f}; first at R=3: ratio {shrunk:.0f}, factor {(lam + H) / lam:.0f}; "
    said += f"with kappa R^2 in it, at most {worst:.2f} of the factor"
    return left <= right and shrunk <= (lam + H) / lam, worst <= 1 + 1e-9, said


@erratum(23, "Appendix C, use of Hazan et al., Lemma 11", "error")
def mistakes_unscaled_potential() -> Outcome:
    """Claim: sum_k ||x_k||^2_{Z_{k+1}^-1} <= d ln(R^2 KH/lambda + 1), as if Z grew by x x' and not by kappa x x'. 1000
    steps of the printed algorithm (logit, S = 5, B = R = d = lambda = H = 1)."""
    est = OnlineNewton(MultinomialLogit(), 5, 1, 1.0, constants="paper", regularization=1.0)
    total, kappa = 0.0, float(est._par.kappa[0, 0])
    for t in range(1000):
        est.update([1.0], t % 5)
        total += float(est.inverse[0, 0])
    printed = math.log(1000 + 1)
    said = f"kappa = {kappa:.4f}: sum {total:.0f}, printed bound {printed:.1f}, with 1/kappa {est.logdet / kappa:.0f}"
    return total <= printed, total <= est.logdet / kappa, said


def mistakes_allowed(horizon: int, kappa: float, eps: float, episodes: float) -> float:
    """The repaired theorem (`theory.bounds.mistakes`) for known rewards, one pair, d = gamma = L = R = lambda = 1."""
    potential = bounds.potential(1, 1, kappa, episodes, horizon, 1.0, 1.0)
    growth = bounds.bonus_growth(horizon, 1.0, 1.0, kappa, potential, 0.0, 0.0)
    return bounds.mistakes(eps, horizon, CONFIDENCE, growth)


@erratum(24, "Theorem 4.6", "error")
def mistakes_and_curvature() -> Outcome:
    """Claim: H^5 (d/alpha + S)/eps^2, that is gamma without a further 1/kappa. One pair, d = 1, H = 4, S = gamma = 1,
    eps = 1, kappa = 10^-3, always visited: how many episodes have a width of at least eps/(4H^2), counted; the printed
    bound on that number; the same with the scaled potential. And the exponent of H in `mistakes_allowed`."""
    H, lam, eps, kappa = 4, 1.0, 1.0, 1e-3
    threshold = eps / (4 * H**2)
    k = np.arange(2_000_000)
    count = int((1.0 / np.sqrt(lam + kappa * H * k) >= threshold).sum())
    unit = 16 * H**4 / eps**2
    printed = unit * (lam + H) / lam * math.log(count * H / lam + 1)
    repaired = unit * (lam + kappa * H) / lam / kappa * math.log(1 + kappa * count * H / lam)
    sizes = [2**i for i in range(4, 10)]
    exponent = slope(sizes, [mistakes_allowed(n, 1.0, 0.01, 1e12) for n in sizes])
    said = f"kappa = 0.001: {count:,} wide episodes, printed bound {printed:,.0f}, with 1/kappa {repaired:,.0f}; "
    said += f"exponent of H in the repaired theorem {exponent:.2f} (printed 5)"
    return count <= printed, count <= repaired and abs(exponent - 3) < 0.1, said
