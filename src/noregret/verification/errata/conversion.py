"""Rows 32 to 34: online-to-confidence-set conversion (section 6, Appendix E), the logit corollary, related work."""

import math

import numpy as np

from ...checks import Floats
from ...theory import constants as c
from ._tools import Outcome, erratum, norm2, pinned, softmax


def instance(seed: int) -> tuple[Floats, Floats, Floats]:
    """Contexts X [t, d], predictions C [t, S] of some learner and W* [S, d], all random; t = 30, S = 3, d = 2."""
    g = np.random.default_rng(seed)
    return g.standard_normal((30, 2)), g.standard_normal((30, 3)), g.standard_normal((3, 2))


@erratum(32, "Theorem 6.1 and the end of Appendix E", "notation")
def conversion_identity() -> Outcome:
    """Claim: ||W* - Wbar||_Z^2 = lambda ||W*||^2 + ||X W*' - C||^2 - (||Wbar||^2 + ||X Wbar' - C||^2) with Wbar =
    Z^-1 X'C. 100 random instances, lambda = 3: as printed (Wbar transposed, or it has the wrong shape), with lambda on
    ||Wbar||^2, in the simplified form ||C||^2 - <Wbar', X'C>, and with the scaled Z of section 3."""
    lam, off, shapes = 3.0, np.zeros(4), set()
    for seed in range(100):
        X, C, W = instance(seed)
        Z = lam * np.eye(2) + X.T @ X
        shapes.add(np.linalg.solve(Z, X.T @ C).shape)
        bar = np.linalg.solve(Z, X.T @ C).T
        left = norm2(W - bar, Z)
        start = lam * float((W**2).sum()) + float(((X @ W.T - C) ** 2).sum())
        fit, size = float(((X @ bar.T - C) ** 2).sum()), float((bar**2).sum())
        scaled = lam * np.eye(2) + 0.5 * X.T @ X
        other = np.linalg.solve(scaled, X.T @ C).T
        rest = float((C**2).sum() - np.sum(other.T * (X.T @ C)))
        off = np.maximum(off, np.abs([
            left - (start - size - fit),
            left - (start - lam * size - fit),
            left - (start - float((C**2).sum() - np.sum(bar.T * (X.T @ C)))),
            norm2(W - other, scaled) - (start - rest),
        ]) / left)  # fmt: skip
    printed = off[0] < 1e-9 and off[3] < 1e-9 and shapes == {(3, 2)}
    said = f"largest relative error {off[0]:.2f} without lambda, {off[1]:.0e} with it, {off[2]:.0e} simplified, "
    said += f"{off[3]:.1f} with Z of section 3; Z^-1 X'C is {shapes.pop()} for S=3, d=2"
    return printed, max(off[1:3]) < 1e-9, said


@erratum(32, "Appendix E, first display", "notation")
def conversion_sign() -> Outcome:
    """Claim: l_i(W_i) - l_i(W*) >= <grad l_i(W*), W* - W_i> + alpha/2 ||(W* - W_i)x||^2. 2000 random pairs of
    predictors in the box (S = 3, BR = 1), exact pinned alpha, random outcome; both signs."""
    g = np.random.default_rng(1)
    u, v = pinned(g.uniform(-1, 1, (2, 2000, 2)))  # W_i x and W* x
    y, alpha = np.eye(3)[g.integers(0, 3, 2000)], c.logit_alpha_pinned(3, 1.0)

    def loss(z: Floats) -> Floats:
        return np.asarray(np.log(np.exp(z).sum(-1)) - (y * z).sum(-1))

    slopes = ((softmax(v) - y) * (u - v)).sum(-1)
    excess = loss(u) - loss(v) - alpha / 2 * ((u - v) ** 2).sum(-1)
    said = f"violated in {int((excess < -slopes).sum())} of 2000 pairs with W* - W_i, in "
    said += f"{int((excess < slopes - 1e-12).sum())} with W_i - W*"
    return (excess >= -slopes - 1e-12).all(), (excess >= slopes - 1e-12).all(), said


@erratum(32, "Appendix E, M_t", "notation")
def conversion_stray_factor() -> Outcome:
    """Claim: exp(4 u S_t - u^2/2 sum ||z||^2) is a supermartingale. E exp(k u <p - y, z> - u^2 ||z||^2/2), exactly,
    over 300 random p and z of 4 outcomes and the fair coin with z = (1, -1)/sqrt 2, u = -2..2: k = 4 and k = 1."""
    g, worst = np.random.default_rng(2), {4: 0.0, 1: 0.0}
    cases = [(g.dirichlet(np.ones(4)), g.standard_normal(4)) for _ in range(300)]
    cases.append((np.array([0.5, 0.5, 0.0, 0.0]), np.array([1.0, -1.0, 0.0, 0.0]) / math.sqrt(2)))
    for p, z in cases:
        for u in np.linspace(-2, 2, 9):
            for k in worst:
                moment = float(p @ np.exp(k * u * (p @ z - z))) * math.exp(-u * u * float(z @ z) / 2)
                worst[k] = max(worst[k], moment)
    said = f"largest factor in one step: {worst[4]:.1e} with 4u, {worst[1]:.3f} with u"
    return worst[4] <= 1 + 1e-12, worst[1] <= 1 + 1e-12, said


@erratum(32, "Theorem 6.1, lambda B^2 S", "looseness")
def conversion_weight_term() -> Outcome:
    """Claim: lambda ||W*||_F^2 <= lambda B^2 S with B = max ||W||_F. 1000 random W with S = 3: lambda B^2 is enough, as
    is lambda S B_p^2 with row norms."""
    W = np.random.default_rng(3).standard_normal((1000, 3, 2))
    size, rows = (W**2).sum((1, 2)), (W**2).sum(-1).max(-1)
    B2 = float(size.max())
    said = f"S=3: lambda B^2 S is {3 * B2 / float(size.max()):.0f} times the largest lambda ||W||_F^2; with B_p for B "
    said += f"it is {float((3 * rows / size).min()):.2f} times at least"
    return (size <= 3 * B2).all(), (size <= B2).all() and (size <= 3 * rows + 1e-12).all(), said


@erratum(33, "Corollary 4.2 and Table 1", "notation")
def logit_corollary() -> Outcome:
    """Claim: regret O~(d S^3 H^2 sqrt(AK)), which needs 1/alpha = O(S^2). The exact 1/alpha for S = 3 to 100, BR = 0 to
    6 relative to S^2, and relative to S^2 e^{BR} + S e^{2BR}."""
    grid = [(S, M) for S in (3, 5, 10, 30, 100) for M in np.linspace(0.0, 6.0, 13)]
    flat = np.array([1 / (c.logit_alpha_pinned(S, M) * S**2) for S, M in grid])
    full = np.array([1 / (c.logit_alpha_pinned(S, M) * (S**2 * math.exp(M) + S * math.exp(2 * M))) for S, M in grid])
    at = {M: 1 / (c.logit_alpha_pinned(5, M) * 25) for M in (0.0, 3.0, 6.0)}
    said = f"S=5: 1/(alpha S^2) is {at[0.0]:.0f}, {at[3.0]:.0f}, {at[6.0]:.0f} at BR = 0, 3, 6; over S^2 e^BR + S "
    said += f"e^2BR it stays in [{full.min():.2f}, {full.max():.2f}]"
    return flat.max() < 10, full.min() > 0.2 and full.max() < 2.0, said


@erratum(34, "section 7.1", "looseness")
def improvement_over_related_work() -> Outcome:
    """Claim: an O~(S sqrt A) improvement on Abbasi-Yadkori and Neu in the linear case. Ratio of the two entries of
    Table 1, d H^3 S^2 A sqrt K and d H^2 S sqrt(AK), on a grid."""
    sizes = [(H, S, A) for H in (1, 5, 20) for S in (2, 10) for A in (2, 9)]
    ratio = {(H, S, A): H**3 * S**2 * A / (H**2 * S * math.sqrt(A)) for H, S, A in sizes}
    said = f"H=20, S=10, A=9: Table 1 improves by {ratio[20, 10, 9]:.0f} = H S sqrt A; S sqrt A = 30 undersells it by H"
    printed = all(v >= S * math.sqrt(A) * (1 - 1e-12) for (_, S, A), v in ratio.items())
    return printed, all(abs(v / (H * S * math.sqrt(A)) - 1) < 1e-12 for (H, S, A), v in ratio.items()), said
