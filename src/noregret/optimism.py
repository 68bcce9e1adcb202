"""Planning over sets of models: how much better or worse than its estimate an expectation can be, and what follows.

For one pair and next values V, over the ellipsoid of logits of `local_sets`,

    <P*, V> - <P, V>  <=  bonus(V) = min( rho sqrt(g' cov g) + span(V) second,  span(V) half,  max V - <P, V> )

g = P * (V - <P, V>), span(V) = max V - min V over the pair's possible next states; the first term is Bernstein-shaped
(its square is about the variance of V over the number of samples), the second is what the curvature of the softmax
adds. Downwards the same with -V. Under SHARP bonuses the minimum includes the certified maximum over the ellipsoid
(`maximisation`). docs/beyond.md has the proofs.

Three passes of the Bellman operator use it, all clipped to [0, H - h], with mean rewards at the end that suits:

    upwards over all actions (`optimum`): at least the optimal values
    upwards and downwards along a given policy (`assess`): its own values lie between

Where all pairs have the same possible next states, all Taylor bonuses of a backup are found together (`of_all`).

Both are compiled once, for all agents and kinds of sets, and reached by address.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ._checks import Floats
from ._eight import least, load, most, root, same, store
from ._jit import address, caller, inlined, kernel, merged
from ._random import PERTURBATION, TIE, inverse_normal, uniforms, words
from ._tiles import WIDTH, padded, set_product, set_widest_product
from .local_sets import LocalSets
from .maximisation import MaximisationWork, largest_mean, maximisation_work
from .planning import backward_induction_with, choose, hook_addresses
from .problem import Layout

TAYLOR, SHARP = 0, 1


class SearchPar(NamedTuple):
    layout: Layout
    seed: int
    kind: int  # TAYLOR or SHARP
    draws: float  # J of `perturbed`
    adjust: Any  # address of `optimistic` or `perturbed`
    maximum: Any  # address of `largest`, under SHARP
    optimum: Any  # address of `optimum`
    assess: Any  # address of `assess`


class SearchWork(NamedTuple):
    v: Floats  # [M], next values of one pair, signed
    g: Floats  # [M]
    scale: Floats  # [1], on every bonus of the pass under way
    best: Floats  # [1], a maximum found
    reward: Floats  # [S, A], as planned with
    Q: Floats  # [S, A]
    shifted: Floats  # [M], padded, V less its last entry
    products: Floats  # [M(M-1)/2], padded, of those
    forms: Floats  # [N], N padded, rho^2 g' cov g of all pairs
    means: Floats  # [N], P V
    row: Floats  # [N], backed up
    rewards: Floats  # [N]
    maximum: MaximisationWork


def search_parts(
    layout: Layout, local: LocalSets, seed: int, kind: int, draws: float = 0.0
) -> tuple[SearchPar, SearchWork]:
    """Parameters with compiled passes, and scratch; draws > 0: `perturbed` bonuses, with so many draws."""
    S, A, M = layout.outcomes.shape
    f, i, N = np.zeros, np.zeros((1, 1), np.int64), padded(S * A)
    work = SearchWork(
        f(M), f(M), np.ones(1), f(1), f((S, A)), f((S, A)), f(M + WIDTH), f(M * (M - 1) // 2 + WIDTH), f(N), f(N),
        f(N), f(N),
        maximisation_work(M),
    )  # fmt: skip
    par = SearchPar(layout, seed, kind, float(draws), 0, 0, 0, 0)
    if kind == SHARP:
        table = f((1, 1))
        par = par._replace(maximum=address(largest, f(1), f(1), table, 0.0, 1, 0.0, work.maximum, f(1)))
    hook, _ = hook_addresses(perturbed if draws > 0.0 else optimistic, None, par, local, work)
    table = f((1, 1))
    best = address(optimum, par, local, work, table, 0, 1.0, i, table)
    own = address(assess, par, local, work, i, table, table)
    return par._replace(adjust=hook, optimum=best, assess=own), work


apply_optimum = caller()  # apply_optimum(par.optimum, (par, local, work, mean, k, scale, policy, values))
apply_assess = caller()  # apply_assess(par.assess, (par, local, work, policy, upper, lower))


@inlined
def gather(local, layout, s, a, V, sign, work):
    """work.v [n] <- sign V at the pair's next states; its mean, smallest and largest entry."""
    mean, low, high = 0.0, math.inf, -math.inf
    for j in range(layout.count[s, a]):
        v = sign * V[layout.outcomes[s, a, j]]
        work.v[j] = v
        mean += local.P[s, a, j] * v
        low, high = min(low, v), max(high, v)
    return mean, low, high


@inlined
def first_order(local, layout, s, a, mean, work):
    """sqrt(g' cov g) for the values in work.v."""
    n, p, cov, v, g = layout.count[s, a], local.P[s, a], local.cov[s, a], work.v, work.g
    form = 0.0
    for j in range(n):
        g[j] = p[j] * (v[j] - mean)
    for j in range(n):
        t = 0.0
        for k in range(n):
            t += cov[j, k] * g[k]
        form += g[j] * t
    return math.sqrt(max(form, 0.0))


@kernel
def largest(z, v, cov, rho, n, limit, work, best):
    """best[0] <- `maximisation.largest_mean`."""
    best[0] = largest_mean(z, v, cov, rho, n, limit, work)


apply_largest = caller()


@kernel
def bonus(par, local, s, a, V, sign, work):
    """Bound on sign <P* - P, V> for one pair; sign 1.0: how much larger the mean can be, -1.0: how much smaller."""
    layout = par.layout
    mean, low, high = gather(local, layout, s, a, V, sign, work)
    span, rho = high - low, local.rho[s, a]
    if span <= 0.0:
        return 0.0
    most = min(span * local.half[s, a], high - mean)
    if rho < math.inf:
        most = min(most, rho * first_order(local, layout, s, a, mean, work) + span * local.second[s, a])
        if par.kind == SHARP:
            n, z, cov, best = layout.count[s, a], local.z[s, a], local.cov[s, a], work.best
            apply_largest(par.maximum, (z, work.v, cov, rho, n, mean + most, work.maximum, best))
            most = min(most, best[0] - mean)
    return max(most, 0.0)


@inlined
def of_all(local, V, work):
    """work.forms, work.means <- rho^2 g' cov g, 0 where rho is infinite, and P V of all pairs; the smallest and largest
    entry of V."""
    S, forms, means, slopes = V.shape[0], work.forms, work.means, local.slopes
    low, high, at, n, last = math.inf, -math.inf, 0, work.forms.shape[0], V.shape[0] - 1
    for j in range(S):
        low, high = min(low, V[j]), max(high, V[j])
        work.shifted[j] = V[j] - V[last]  # g does not change with a constant, and rounding is that of differences
    for j in range(last):
        own = work.shifted[j]
        for k in range(j, last, 8):
            store(work.products, at + k - j, load(work.shifted, k) * own)
        at += last - j
    g = 0
    while g + 40 <= n:
        set_widest_product(forms, g, 0, work.products, 0, 0, 1, slopes, g, n, at)
        set_widest_product(means, g, 0, V, 0, 0, 1, slopes, at * n + g, n, S)
        g += 40
    while g < n:
        set_product(forms, g, 0, work.products, 0, 0, 1, slopes, g, n, at)
        set_product(means, g, 0, V, 0, 0, 1, slopes, at * n + g, n, S)
        g += 8
    return low, high


@inlined
def eight_bonuses(local, work, g, span, room):
    """`bonus` of the pairs g, ..., g + 7, where next values spread over `span` > 0; room = max V - <P, V>."""
    S, n = local.P.shape[2], work.forms.shape[0]
    at = (S * (S - 1) // 2 + S) * n + g
    second, half, never = load(local.slopes, at), load(local.slopes, at + n), load(local.slopes, at + 2 * n)
    most_of_all = least(half * span, room)
    taylor = root(most(load(work.forms, g), same(0.0))) + second * span + never
    return most(least(most_of_all, taylor), same(0.0))


@inlined
def is_dense(par, local):
    """Whether all pairs' bonuses are found together."""
    return par.kind == TAYLOR and local.slopes.shape[0] > 0


@inlined
def reads_cov(par, local):
    """Whether any bonus is found from local.cov, not from the slopes."""
    return par.draws > 0.0 or not is_dense(par, local)


@inlined
def optimum_of_all(par, local, work, key, scale, policy, values):
    """`optimum` where all bonuses are found together."""
    (H, S), q, n, reward = policy.shape, work.row, work.forms.shape[0], work.rewards
    flat, needed = merged(work.reward), local.rho.shape[0] * local.rho.shape[1]
    Q = merged(work.Q)
    for i in range(needed):
        reward[i] = flat[i]
    for s in range(S):
        values[H, s] = 0.0
    for h in range(H - 1, -1, -1):
        low, high = of_all(local, values[h + 1], work)
        limit = same(float(H - h))
        for g in range(0, n, 8):
            mean = load(work.means, g)
            v = mean + load(reward, g)
            if high > low:
                v = v + eight_bonuses(local, work, g, high - low, same(high) - mean) * scale
            store(q, g, least(most(v, same(0.0)), limit))
        for i in range(needed):
            Q[i] = q[i]
        choose(work.Q, par.layout, key, h, policy, values)


@inlined
def bounds_of_all(local, work, policy, sign, reward, out):
    """`bounds` where all bonuses are found together."""
    (H, S), q, n, rewards, A = policy.shape, work.row, work.forms.shape[0], work.rewards, local.rho.shape[1]
    flat = merged(reward)
    for i in range(S * A):
        rewards[i] = flat[i]
    for h in range(H - 1, -1, -1):
        low, high = of_all(local, out[h + 1], work)
        top = high if sign > 0.0 else -low
        limit = same(float(H - h))
        for g in range(0, n, 8):
            mean = load(work.means, g)
            v = mean + load(rewards, g)
            if high > low:
                v = v + eight_bonuses(local, work, g, high - low, same(top) - mean * sign) * sign
            store(q, g, least(most(v, same(0.0)), limit))
        for s in range(S):
            out[h, s] = q[s * A + policy[h, s]]


@kernel
def random_bonus(local, layout, s, a, V, factor, work):
    """`bonus` upwards with its first-order term times `factor`, which is random; never negative."""
    mean, low, high = gather(local, layout, s, a, V, 1.0, work)
    span, rho = high - low, local.rho[s, a]
    if span <= 0.0:
        return 0.0
    most = min(span * local.half[s, a], high - mean)
    if rho < math.inf:
        most = min(most, rho * factor * first_order(local, layout, s, a, mean, work) + span * local.second[s, a])
    return max(most, 0.0)


@kernel
def optimistic(par, local, work, k, h, P, V_next, Q):
    """A hook of `planning.backward_induction_with`: the whole bonus, times work.scale."""
    for s in range(Q.shape[0]):
        for a in range(Q.shape[1]):
            if par.layout.available[s, a]:
                Q[s, a] += work.scale[0] * bonus(par, local, s, a, V_next, 1.0, work)


@kernel
def perturbed(par, local, work, k, h, P, V_next, Q):
    """The same with the first-order term of every bonus times the largest of J standard normals, one number for every
    (s, a, h): Phi^{-1}(u^{1/J}) with u uniform has that distribution."""
    S, A = Q.shape
    for s in range(S):
        for a in range(A):
            if par.layout.available[s, a]:
                u, _ = uniforms(par.seed, k, (h * S + s) * A + a, PERTURBATION)
                factor = inverse_normal(max(u, 1e-300) ** (1.0 / par.draws))
                Q[s, a] += work.scale[0] * random_bonus(local, par.layout, s, a, V_next, factor, work)


@kernel
def optimum(par, local, work, mean, k, scale, policy, values):
    """policy, values <- optimism over the sets, with a part of every bonus; mean [S, A]: estimated mean rewards."""
    r = work.reward
    work.scale[0] = scale
    for s in range(r.shape[0]):
        for a in range(r.shape[1]):
            r[s, a] = local.high[s, a] if scale == 1.0 else mean[s, a] + scale * (local.high[s, a] - mean[s, a])
    key = words(par.seed, k, 0, TIE)[0]
    if not reads_cov(par, local):
        optimum_of_all(par, local, work, key, scale, policy, values)
        return
    backward_induction_with(par.adjust, 0, local.P, par.layout, r, 1, key, par, local, work, k, work.Q, policy, values)


@inlined
def bounds(par, local, work, policy, sign, reward, out):
    """out [H+1, S] <- upper bounds, sign 1.0, or lower ones, -1.0, on the values of a policy [H, S]."""
    (H, S), layout = policy.shape, par.layout
    for s in range(S):
        out[H, s] = 0.0
    if is_dense(par, local):
        bounds_of_all(local, work, policy, sign, reward, out)
        return
    for h in range(H - 1, -1, -1):
        V = out[h + 1]
        for s in range(S):
            a, mean = policy[h, s], 0.0
            for j in range(layout.count[s, a]):
                mean += local.P[s, a, j] * V[layout.outcomes[s, a, j]]
            b = bonus(par, local, s, a, V, sign, work)
            out[h, s] = min(max(reward[s, a] + mean + sign * b, 0.0), float(H - h))


@kernel
def assess(par, local, work, policy, upper, lower):
    """upper, lower [H+1, S] <- bounds on the values of a policy [H, S]; the upper ones only where there is room."""
    for sign, out, reward in ((1.0, upper, local.high), (-1.0, lower, local.low)):
        if out.shape[0] > 0:
            bounds(par, local, work, policy, sign, reward, out)
