"""Rows 1 to 14: the model and the online estimator (sections 2 and 3 of the paper, Appendix A, equation (11))."""

import math

import numpy as np

from ...checks import Floats
from ...estimators import OnlineNewton
from ...problem.links import LinearCombination, MultinomialLogit
from ...theory import constants as c
from ...theory import radii, widths
from ._tools import Outcome, at_most, erratum, hessian, norm2, pinned, softmax, units, vertices

SEQUENCE = (2, 1, 1, 0, 0, 0, 0, 0, 0, 2)  # outcomes of one pair without context


# The model -----------------------------------------------------------------------------------------------------------
def smallest_eigenvalue(free: Floats) -> Floats:
    """Of the Hessian on the free coordinates, at each row of `free` [k, n] (the last predictor is 0)."""
    return np.asarray(np.linalg.eigvalsh(hessian(pinned(free))[:, :-1, :-1])[:, 0], float)


def curvature_by_brute_force(n_outcomes: int, bound: float) -> tuple[float, float]:
    """(minimum over the vertices, minimum found inside the box) of the smallest eigenvalue: all vertices; 400 random
    points; and from the best three of them a search along one coordinate after another, on nine values each."""
    n, g = n_outcomes - 1, np.random.default_rng(n_outcomes)
    corners = float(smallest_eigenvalue(vertices(n, bound)).min())
    points = g.uniform(-bound, bound, (400, n))
    found = smallest_eigenvalue(points)
    inside = float(found.min())
    for y in points[np.argsort(found)[:3]]:
        for i in list(range(n)) * 3:
            line = np.tile(y, (9, 1))
            line[:, i] = np.linspace(-bound, bound, 9)
            values = smallest_eigenvalue(line)
            y = line[values.argmin()]
            inside = min(inside, float(values.min()))
    return corners, inside


@erratum(1, "Example 2.3, alpha", "error")
def curvature_of_the_logit() -> Outcome:
    """Claim: Phi is e^{-BR}/S^2-strongly convex. Brute force over the box |y_i| <= BR, y_S = 0, for S = 2..8, against
    it and against `logit_alpha_pinned`."""
    printed, error = True, 0.0
    for S in range(2, 9):
        for bound in (0.5, 1.5, 3.0):
            corners, inside = curvature_by_brute_force(S, bound)
            least = min(corners, inside)
            printed &= c.logit_alpha_printed(S, bound) <= least * (1 + 1e-12)
            error = max(error, abs(c.logit_alpha_pinned(S, bound) / least - 1.0))
    at = float(smallest_eigenvalue(np.array([[3.0, -3.0]]))[0])
    formula = c.logit_alpha_printed(3, 3.0)
    said = f"S=3, y=(3,-3,0): smallest eigenvalue {at:.6f}, printed {formula:.6f}; exact formula off by {error:.0e} at "
    said += "most"
    return printed and formula <= at, error < 1e-9, said


@erratum(1, "Example 2.3, alpha, B as in Theorem 3.1", "error")
def curvature_in_a_ball() -> Outcome:
    """The same with B read as a Frobenius norm (||y||_2 <= BR), S = 3: a polar grid of 36,000 points at BR = 5 and 6.
    The box constant at the same bound is valid, because the ball lies in the box."""
    angle, share = np.meshgrid(np.linspace(0.0, 2 * math.pi, 721), np.linspace(0.02, 1.0, 50))
    disc = np.stack((share * np.cos(angle), share * np.sin(angle)), -1).reshape(-1, 2)
    least = {bound: float(smallest_eigenvalue(bound * disc).min()) for bound in (5.0, 6.0)}
    printed = {bound: c.logit_alpha_printed(3, bound) <= least[bound] for bound in least}
    said = ", ".join(f"BR={b:g}: {least[b]:.2e} (printed {c.logit_alpha_printed(3, b):.2e})" for b in least)
    return all(printed.values()), all(c.logit_alpha_pinned(3, bound) <= least[bound] for bound in least), said


@erratum(2, "Example 2.3, footnote", "looseness")
def pinning_and_curvature() -> Outcome:
    """Claim: the last row may be set to 0. So it may: the distribution is the same. But among vectors that sum to
    zero the curvature over the same predictors is larger; vertices, S = 3, 5, 10, BR = 0.001 and 3."""
    y = np.random.default_rng(0).standard_normal((200, 5))
    same = np.allclose(softmax(y), softmax(y - y[:, -1:]), atol=1e-14)
    flat = float(np.abs(hessian(y) @ np.ones(5)).max())
    exact, gain = True, {}
    for S in (3, 5, 10):
        for bound in (0.001, 3.0):
            second = float(np.linalg.eigvalsh(hessian(pinned(vertices(S - 1, bound))))[:, 1].min())
            exact &= abs(c.logit_alpha_centred(S, bound) / second - 1.0) < 1e-9
            gain[S, bound] = second / float(smallest_eigenvalue(vertices(S - 1, bound)).min())
    said = f"centred/pinned curvature at BR=0: {gain[3, 0.001]:.2f}, {gain[5, 0.001]:.2f}, {gain[10, 0.001]:.2f} for "
    said += f"S=3, 5, 10; at BR=3: {gain[3, 3.0]:.2f}, {gain[5, 3.0]:.2f}, {gain[10, 3.0]:.2f}; |H1| <= {flat:.0e}"
    return same, exact and min(gain.values()) > 1.0, said


@erratum(3, "Example 2.3, beta", "looseness")
def smoothness_of_the_logit() -> Outcome:
    """Claim: beta = 1. The largest eigenvalue of the Hessian at 3000 random and 100 nearly degenerate points."""
    g = np.random.default_rng(0)
    y = 3.0 * g.standard_normal((3000, 4))
    edge = np.array([0.0, 0.0, -40.0, -40.0]) + 0.01 * g.standard_normal((100, 4))
    top = float(np.linalg.eigvalsh(hessian(np.vstack((y, edge))))[:, -1].max())
    said = f"largest eigenvalue found {top:.6f}: 1/2 is exact, half of what is printed"
    return top <= 1.0, c.LOGIT_BETA - 1e-3 < top <= c.LOGIT_BETA + 1e-12, said


@erratum(4, "equation (10)", "looseness")
def width_of_the_logit() -> Outcome:
    """Claim: ||P - P_hat||_1 <= sqrt(S) beta ||(W - W_hat)x||_2. 20,000 random pairs of predictors and the worst
    direction, (1, -1, 0, ...) at p = (1/2, 1/2, 0, ...), for S = 3 and 10, against 1/sqrt 2."""
    g, holds, ratios = np.random.default_rng(1), True, {}
    for S in (3, 10):
        u, v = 2.0 * g.standard_normal((2, 20_000, S))
        u[0] = v[0] = np.where(np.arange(S) < 2, 0.0, -60.0)
        u[0, :2] += (0.01, -0.01)
        ratio = np.abs(softmax(u) - softmax(v)).sum(-1) / np.linalg.norm(u - v, axis=-1)
        holds &= bool(0.999 * c.LOGIT_L1 < ratio.max() <= c.LOGIT_L1 * (1 + 1e-9))
        ratios[S] = math.sqrt(S) / float(ratio.max())
    said = f"printed constant over the largest ratio found: {ratios[3]:.2f} (S=3), {ratios[10]:.2f} (S=10), i.e. "
    said += "sqrt(2S)"
    return all(k >= 1 for k in ratios.values()), holds, said


@erratum(5, "equation (6)", "notation")
def calibration() -> Outcome:
    """Claim: argmin_W E[l_t(W) | x_t] = W*. Expected losses at W* + u v' with v orthogonal to x (the same loss), at
    W* + 1 v' (likewise), and at 500 random W, where the loss must be larger exactly if the distribution differs."""
    g = np.random.default_rng(2)
    x, W = np.array([0.6, 0.8]), g.standard_normal((3, 2))
    p = softmax(W @ x)

    def excess(V: Floats) -> float:
        z, star = V @ x, W @ x
        return float(np.log(np.exp(z).sum()) - p @ z - (np.log(np.exp(star).sum()) - p @ star))

    other = excess(W + np.outer(g.standard_normal(3), [0.8, -0.6]))
    shifted = excess(W + np.outer(np.ones(3), g.standard_normal(2)))
    least = min(excess(W + g.standard_normal((3, 2))) for _ in range(500))
    said = f"another W with the same W x has excess loss {other:.0e}; 500 with another distribution at least "
    said += f"{least:.1e}"
    return abs(other) > 1e-12, abs(other) < 1e-12 and abs(shifted) < 1e-12 and least > 1e-12, said


# The estimator -------------------------------------------------------------------------------------------------------
@erratum(6, "section 3, remark on tabular MDPs", "error")
def tabular_average() -> Outcome:
    """Claim: with d = alpha = eta = 1 the estimate is the empirical distribution. The library's estimator on ten
    outcomes, with kappa = 1/2 as printed and with kappa = 1, and on 20 random sequences with the latter."""
    link, counts = LinearCombination(), np.bincount(SEQUENCE) / len(SEQUENCE)

    def estimate(outcomes: tuple[int, ...], printed: bool) -> Floats:
        est = OnlineNewton(link, 3, 1, 100.0, constants="paper" if printed else "corrected", regularization=2e-6)
        if not printed:
            est._par = est._par._replace(kappa=np.ones((1, 1)))
        for y in outcomes:
            est.update([1.0], y)
        return est.weights[:, 0]

    old, g, off = estimate(SEQUENCE, True), np.random.default_rng(3), 0.0
    for data in [SEQUENCE] + [tuple(int(i) for i in g.integers(0, 3, 15)) for _ in range(20)]:
        share = np.bincount(data, minlength=3) / len(data)
        off = max(off, float(np.abs(estimate(data, False) - share).max()))
    said = f"frequencies {counts.tolist()}, printed step {old.round(3).tolist()}; with kappa = eta alpha off by "
    said += f"{off:.0e}"
    return np.allclose(old, counts, atol=0.01), off < 1e-5, said


@erratum(7, "Lemma A.1", "notation")
def squared_norms() -> Outcome:
    """Claim: <a_t, (W_t - W*) x_t> <= (D_t - D_{t+1})/2 + 2 ||x_t||^2 with D the Z-norm of the error, unsquared. 300
    steps of the printed algorithm (logit, S = 3, d = 2, B = 6, lambda = 4), with norms as printed and squared."""
    g, bound = np.random.default_rng(4), 6.0
    W = pinned(bound * units(2, 2, 4).T).T
    est = OnlineNewton(MultinomialLogit(), 3, 2, bound, constants="paper", regularization=4.0)
    worst = {1: -math.inf, 2: -math.inf}
    for x in units(300, 2, 5):
        y, before, p = int(g.choice(3, p=softmax(W @ x))), est.weights, softmax(est.weights @ x)
        est.update(x, y)
        inner = float((p - np.eye(3)[y]) @ (before - W) @ x)
        last = 2.0 * float(x @ est.inverse @ x)
        d0, d1 = norm2(before - W, est.gram), norm2(est.weights - W, est.gram)
        for power in worst:
            worst[power] = max(worst[power], inner - (d0 ** (power / 2) - d1 ** (power / 2)) / 2 - last)
    said = f"largest left minus right side in 300 steps: {worst[1]:.2f} unsquared, {worst[2]:.3f} squared"
    return worst[1] <= 1e-9, worst[2] <= 1e-9, said


@erratum(8, "Lemma A.1", "looseness")
def gradient_norm() -> Outcome:
    """Claim: ||p - y||^2 <= 4. Corners of the simplex and 5000 random distributions against 2; and what a run of 500
    steps of the library really summed, which is what its radius uses."""
    p = np.vstack((np.eye(4), np.random.default_rng(5).dirichlet(np.full(4, 0.3), 5000)))
    top = float(((p[:, None] - np.eye(4)) ** 2).sum(-1).max())
    est, g = OnlineNewton(MultinomialLogit(), 3, 2, 1.0), np.random.default_rng(6)
    W, seen, printed = pinned(units(2, 2, 7).T).T, 0.0, 0.0
    for x in units(500, 2, 8):
        y, before = int(g.choice(3, p=softmax(W @ x))), est.probabilities(x)
        est.update(x, y)
        weight = float(x @ est.inverse @ x)
        seen += float(((before - np.eye(3)[y]) ** 2).sum()) * weight
        printed += 4.0 * weight
    said = f"largest ||p - y||^2 {top:.3f}; in 500 steps the observed sum is {seen / printed:.2f} of the printed one"
    return top <= 4.0, abs(top - 2.0) < 1e-12 and seen <= printed / 2, said


@erratum(9, "Appendix A, before Lemma A.1", "looseness")
def monotone_gradient() -> Outcome:
    """Claim: <p_t - p, z> >= alpha/2 ||z||^2. 20,000 pairs in the box (S = 4, BR = 1.5) and close pairs at the worst
    vertex along its eigenvector: the smallest ratio is alpha itself."""
    S, bound, g = 4, 1.5, np.random.default_rng(9)
    alpha = c.logit_alpha_pinned(S, bound)
    u, v = g.uniform(-bound, bound, (2, 20_000, S - 1))
    corners = vertices(S - 1, bound)
    worst = corners[smallest_eigenvalue(corners).argmin()]
    direction = np.linalg.eigh(hessian(pinned(worst))[:-1, :-1])[1][:, 0]
    inward = direction * (1.0 if direction @ worst < 0 else -1.0)
    u[0], v[0] = worst, worst + 1e-4 * inward
    z = u - v
    ratio = float((((softmax(pinned(u)) - softmax(pinned(v)))[:, :-1] * z).sum(-1) / (z**2).sum(-1)).min())
    said = f"smallest ratio {ratio:.6f} = {ratio / alpha:.4f} alpha, twice the alpha/2 that is kept"
    return ratio >= alpha / 2, 0.999 * alpha <= ratio <= 1.01 * alpha, said


@erratum(10, "proof of Lemma A.2, CASE I and II", "notation")
def small_variance_case() -> Outcome:
    """Claim: if A_t >= 4B^2R^2/(St) then 2 sqrt(t A_t) <= 4BR, and the levels 4BR^2 2^j/t cover the rest. Both, on a
    grid of (S, t, B, A_t) with R = 1, as printed and with <= and B^2."""
    grid = [(S, t, B) for S in (2, 5) for t in (1, 10, 1000) for B in (0.2, 1.0, 3.0)]
    first, second = {"printed": True, "repaired": True}, {"printed": True, "repaired": True}
    for S, t, B in grid:
        edge, top = 4 * B * B / (S * t), 4 * B * B * S * t
        for total in np.geomspace(edge / 10, top, 40):  # A_t
            small = 2 * math.sqrt(t * total) <= 4 * B * (1 + 1e-12)
            first["printed"] &= small or total < edge
            first["repaired"] &= small or total > edge * (1 + 1e-12)
        for name, scale in (("printed", B), ("repaired", B * B)):
            low, high = 4 * scale / (S * t), 8 * scale * S * t  # j from -log2 S to log2 S t^2
            second[name] &= low <= edge * (1 + 1e-12) and top <= high * (1 + 1e-12)
    said = f"{len(grid)} settings, 40 A_t each: with >= {first['printed']}, with <= {first['repaired']}; levels cover "
    said += f"with B {second['printed']}, with B^2 {second['repaired']}"
    return first["printed"] and second["printed"], first["repaired"] and second["repaired"], said


def union_mass(n_outcomes: int, base: float, steps: int = 20_000) -> float:
    """Sum over t <= steps of (doublings from 4B^2R^2/(St) to 4B^2R^2 St) e^{-tau_t}/delta, tau_t's inner log to
    `base`."""
    total = 0.0
    for t in range(1, steps + 1):
        needed = ((n_outcomes * t) ** 2 - 1).bit_length()  # exactly ceil(2 log2(S t))
        allotted = needed if base == 2.0 else math.ceil(2.0 * math.log(n_outcomes * t, base))
        total += needed / (2.0 * allotted * t * t)
    return total


@erratum(11, "Theorem 3.1, tau_t", "notation")
def peeling() -> Outcome:
    """Claim: with tau_t = ln(2 ceil(2 log St) t^2/delta) the failures of all levels and all t sum to at most delta.
    The sum over t <= 20,000 with the natural logarithm inside and with log2, where the tail adds less than 1/40,000."""
    natural = {S: union_mass(S, math.e) for S in (3, 50)}
    binary = max(union_mass(S, 2.0) for S in (2, 3, 50)) + 1.0 / 40_000
    said = f"mass/delta with ln: {natural[3]:.2f} (S=3), {natural[50]:.2f} (S=50); with log2: {binary:.3f}"
    return max(natural.values()) <= 1.0, binary <= 1.0, said


@erratum(12, "after Theorem 3.1", "notation")
def norm_bound_for_b() -> Outcome:
    """Claim: an upper bound on ||W*||_F^2 may be put in the place of B. ||W*||_F^2 = 1/4, lambda = 10^5, one step of
    the printed algorithm: distance against gamma with 1/4 for B and with 1/4 for B^2."""
    S, bound, lam = 2, 0.5, 1e5
    est = OnlineNewton(MultinomialLogit(), S, 1, bound, constants="paper", regularization=lam)
    est.update([1.0], 0)
    distance = norm2(est.weights - np.array([[bound], [0.0]]), est.gram)
    alpha = c.logit_alpha_printed(S, bound)
    fixed, logdet = (bound, 1.0, alpha, lam), est.logdet
    gamma = [radii.printed(S, b2, *fixed, samples=1, logdet=logdet, delta=0.05) for b2 in (0.25**2, 0.25)]
    said = f"squared distance {distance:.0f}; gamma {gamma[0]:.0f} with 1/4 for B, {gamma[1]:.0f} with 1/4 for B^2"
    return distance <= gamma[0], distance <= gamma[1], said


@erratum(13, "after Theorem 3.1", "looseness")
def radius_growth() -> Outcome:
    """Claim: gamma_t = O(S + (d/alpha) log^2 t). The printed gamma with the largest determinant, t = 10^2 to 10^14:
    what a decade adds stops growing (with log^2 t the last decade would add 1.8 times what the one to 10^8 adds)."""
    decades = range(2, 15)
    S, d, alpha = 5, 4, 0.02

    def at(t: int) -> float:
        logdet = d * math.log1p(alpha / 2 * t / d)
        return radii.printed(S, 4.0, 1.0, 1.0, alpha, 1.0, samples=t, logdet=logdet, delta=0.05)

    gamma = np.array([at(10**k) for k in decades])
    added = dict(zip(decades[1:], np.diff(gamma), strict=True))
    squares = gamma / np.array(decades) ** 2
    said = f"the decade to 10^8 adds {added[8]:.0f} to gamma, the one to 10^14 {added[14]:.0f}: linear in ln t"
    return squares[-1] <= squares[0], added[14] <= 1.02 * added[8], said


@erratum(14, "equation (11)", "error")
def reward_interval() -> Outcome:
    """Claim: |r - r_hat| <= (sqrt(lambda d) + ...) ||x||. d = 1, theta = B_r = 3, x = 1/3, lambda = 1, delta = 0.1: the
    reward is always 1; exact error of the ridge estimate after 0 to 50 rewards."""
    x, lam, delta, misses = 1 / 3, 1.0, 0.1, {"printed": 0, "corrected": 0}
    for n in range(51):
        gram = lam + n * x * x
        error, w2, logdet = 1.0 - x * (n * x / gram), x * x / gram, math.log(gram / lam)
        misses["printed"] += not at_most(error, widths.reward_interval_printed(w2, logdet, 1, lam, delta))
        misses["corrected"] += not at_most(error, widths.reward_interval(w2, logdet, 3.0, lam, delta))
    first = widths.reward_interval_printed(x * x / lam, 0.0, 1, lam, delta)
    said = f"before any data: error 1.000, printed {first:.3f}; misses after 0..50 rewards: {misses['printed']} "
    said += f"printed, {misses['corrected']} corrected"
    return misses["printed"] == 0, misses["corrected"] == 0, said
