"""Twin of `agents.local.zero` and of what it asks of reward sets, in NumPy, from docs/beyond.md, sections 4 and 7."""

import math

import numpy as np

from noregret.estimators.rewards.regression import BERNSTEIN, HOEFFDING, RIDGE
from noregret.theory.widths import ridge_radius

LINEAR = (RIDGE, HOEFFDING, BERNSTEIN)  # forms that say something about every vector


def factor(beta, reach):
    """As `mixture.factor_of`: the least of beta/c + c/2 over c <= reach."""
    rho = math.sqrt(2.0 * beta)
    return rho if rho <= reach else beta / reach + 0.5 * reach


def functional(par, state, b, vectors):
    """(estimates [...], half widths [...]) of theta_b'u for vectors u [..., E], all at once. Estimates are linear in u.

    Of a mixture: h = (G + lambda I)^{-1} u, |h'(sum x_i r_i - G theta)| <= rho_k ||h||_{J + lambda_k I} for every
    component k, and (u - G h)'theta is at most B_r ||u - G h||."""
    at = b, 0
    h = vectors @ state.inverse[at]
    if par.form == RIDGE:
        rho = ridge_radius(float(state.logdet[at]), par.bound, par.regularization, par.log)
        return vectors @ state.theta[at], rho * np.sqrt(np.maximum((h * vectors).sum(-1), 0.0)) * (1.0 + 1e-9)
    rest = vectors - h @ (state.gram[at] - par.regularization * np.eye(vectors.shape[-1]))
    form, hh = ((h @ state.mixture.sums[at][0]) * h).sum(-1), (h * h).sum(-1)
    best = mixture_widths(par, state, at, np.maximum(form, 0.0), hh)
    half = (best + par.bound * np.sqrt((rest * rest).sum(-1))) * (1.0 + 1e-9) + 1e-7
    return h @ state.moment[at], half


def mixture_widths(par, state, at, form, hh):
    """`mixture.mixture_width` for many forms at once: the best component, then the best weights pi for its tilt."""
    of, lambdas, prior, reach = state.mixture, par.mixture.lambdas, par.mixture.prior, float(state.mixture.reach[at])
    head, trace = of.head[at], of.trace[at]
    beta = np.maximum(par.log + head + 0.5 * lambdas * trace + prior, 0.0)
    each = np.array([factor(float(b), reach) for b in beta]) * np.sqrt(form[..., None] + lambdas * hh[..., None])
    k = each.argmin(-1)
    scale = form + lambdas[k] * hh
    tilt = np.minimum(2.0 * beta[k], reach**2) / np.maximum(scale, 1e-300) * hh  # c^2 ||h||^2
    logs = -prior - 0.5 * lambdas * (tilt + trace[k])[..., None]
    top = logs.max(-1)
    weights = np.exp(logs - top[..., None])
    total = weights.sum(-1)
    mean = weights @ lambdas / total
    cost = np.maximum(par.log + head[k] - top - np.log(total) - 0.5 * tilt * mean, 0.0)
    rho = np.sqrt(2.0 * cost)
    rho = np.where(rho <= reach, rho, cost / reach + 0.5 * reach)
    return np.where(scale > 0.0, np.minimum(each.min(-1), rho * np.sqrt(form + mean * hh)), 0.0)


def lifted(par, b, x):
    """[S, A, E]: u = X psi of every pair at x, as if it were in block b; 0 where it is not (`shared.lift`)."""
    S, A, Q = par.features.shape
    made = np.zeros((S, A, par.column.shape[1]))
    for i in range(Q):
        at = slice(int(par.begin[b, i]), int(par.begin[b, i + 1]))
        made[:, :, at] = par.features[:, :, i, None] * x[par.column[b, at]]
    made[par.block != b] = 0.0
    return made


def visits(P, layout, policy, starts):
    """[H, S]: how often a policy is where, in the model P [S, A, M], begun in any of these states."""
    (H, S), s = policy.shape, np.arange(policy.shape[1])
    made = np.zeros((H, S))
    made[0, starts] = 1.0 / len(starts)
    for h in range(H - 1):
        mass = made[h][:, None] * P[s, policy[h]]  # padding of P is 0
        np.add.at(made[h + 1], layout.outcomes[s, policy[h]], mass)
    return made


def ranges_along(par, state, local, layout, x, policy, starts):
    """Ranges of r(s, a) - e_h, where e_h = sum_b m_hb'(theta*_b - theta_b) is what nobody knows
    of the mean reward along the policy at step h: m_hb the mean features of block b there, in the model of the centre.
    None where rewards have no design, are not linear in it, or the range of an available pair is empty. par, state: of
    the rewards."""
    if par.block.size == 0 or par.form not in LINEAR:
        return None
    H, S = policy.shape
    mass, s, blocks = visits(local.P, layout, policy, starts), np.arange(S), par.begin.shape[0]
    middle, half, common = np.zeros((S, *local.low.shape[1:])), np.zeros((H, *local.low.shape)), np.zeros(H)
    for b in range(blocks):
        u = lifted(par, b, x)
        m = np.einsum("hs,hse->he", mass, u[s, policy])
        own = par.block == b
        middle += np.where(own, functional(par, state, b, u)[0], 0.0)
        common += functional(par, state, b, m)[1]
        half += functional(par, state, b, u - m[:, None, None])[1]  # of others' pairs: that of m alone
    low, high = middle - par.offset - half, middle - par.offset + half
    low, high = np.maximum(low, local.low - common[:, None, None]), np.minimum(high, local.high + common[:, None, None])
    return (low, high) if (low <= high)[:, layout.available].all() else None
