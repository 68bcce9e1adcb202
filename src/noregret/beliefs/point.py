"""From estimates to beliefs about one individual: P_hat, r_hat and how far each may be from the truth.

For a context x and every pair at once,

    P_hat = grad Phi(v), v the nearest possible prediction to W x        r_hat = theta'x
    w = sqrt(gamma ||x||^2_{Z^{-1}} - ||v - W x||^2)                     radius of the set of predictions around v;
                                                                         infinite if that is negative (an empty set)
    xi_p: w as a bound on the distance of the distributions
    xi_r = min(1, (sqrt(lambda_r) B_r + sqrt(2 ln(1/delta) + ln det V/lambda_r^d)/2) ||x||_{V^{-1}})

(`theory.widths.reward_interval`; as printed: `reward_interval_printed`; logistic rewards:
`estimators.rewards.logistic`; known ones: their means, and xi_r = 0).

Three ways from w to xi_p (`Link.width`), and the spread of V that goes with each (`planning`):

    LIPSCHITZ  min(cap, L w)                              1-norm; any link; as printed: L = beta sqrt(S), no cap
    TANH       min(2 tanh(w / (2 sqrt 2)), prior cap)     1-norm; logit
    EUCLIDEAN  min(sqrt 2, w)                             2-norm; linear
"""

import math
from typing import NamedTuple

import numpy as np

from ..checks import Floats
from ..compiler.jit import inlined, kernel, merged
from ..numerics.linear_algebra import norm_of, pair_predictors, quadratic_forms
from ..problem.layout import Layout
from ..problem.links import Constants, Link, apply_gradient, apply_projection, exp

LIPSCHITZ, TANH, EUCLIDEAN = 0, 1, 2
NONE, SUP, HALF_SPAN, CENTRED = 0, 1, 2, 3  # which spread of next values makes a bonus of a width (`planning.bellman`)


class BeliefPar(NamedTuple):
    width: int  # LIPSCHITZ, TANH or EUCLIDEAN
    spread: int  # SUP, HALF_SPAN or CENTRED
    printed: int  # 1: constants as printed, for rewards too
    cap: float  # of LIPSCHITZ and EUCLIDEAN widths
    lipschitz: Floats  # [S, A], from the predictors' 2-norm to the probabilities' 1-norm
    reward_prior: float  # sqrt(lambda) B_r
    reward_cap: float
    reward_scale: float  # on xi_r, of a bonus
    reward_offset: float  # r_hat is theta'x less this (`problem.scale`)


class BeliefWork(NamedTuple):
    P: Floats  # [S, A, M]
    reward: Floats  # r_hat, [S, A]
    width: Floats  # xi_p, [S, A]
    interval: Floats  # xi_r, [S, A]
    bonus: Floats  # min(1, scale times xi_r before its own minimum), [S, A]
    moved: Floats  # [S * A]
    forms: Floats  # [2, S * A]: ||x||^2 in Z^{-1} and in V^{-1}
    table: Floats  # [4, M+1], of `prior_caps`
    smallest: Floats  # [M], likewise


def belief_parts(
    link: Link,
    layout: Layout,
    constants: Constants,
    context_dim: int,
    reward_bound: float,
    reward_regularization: float,
    known_rewards: bool,
    printed_cap: float,
) -> tuple[BeliefPar, BeliefWork]:
    """`printed_cap` limits the printed 1-norm width: inf in GLM-ORL, 2 in GLM-RLSVI."""
    S, A, M = layout.outcomes.shape
    printed = constants == "paper"
    width = LIPSCHITZ if printed else {"lipschitz": LIPSCHITZ, "tanh": TANH, "l2": EUCLIDEAN}[link.width]
    spread = SUP if printed else CENTRED if width == EUCLIDEAN else HALF_SPAN
    table = np.array([0.0] + [link.l1(m, constants) for m in range(1, M + 1)])
    cap = printed_cap if printed else math.sqrt(2.0) if width == EUCLIDEAN else 2.0
    # As printed: sqrt(lambda d) for sqrt(lambda) B_r, and no limit
    prior = math.sqrt(reward_regularization) * (math.sqrt(context_dim) if printed else reward_bound)
    reward_cap = 0.0 if known_rewards else math.inf if printed else 1.0
    par = BeliefPar(width, spread, int(printed), cap, table[layout.count], prior, reward_cap, 1.0, 0.0)
    f = np.zeros
    three = f((S, A)), f((S, A)), f((S, A))
    return par, BeliefWork(f((S, A, M)), f((S, A)), *three, f(S * A), f((2, S * A)), f((4, M + 1)), f(M))


@inlined
def estimate(transition_par, transitions, rewards, layout, par, x, norm, work):
    """work.P, work.reward <- P_hat, r_hat; work.moved <- ||v - W x||^2."""
    d = x.shape[0]
    rows, count = merged(work.P), merged(layout.count)
    pair_predictors(transitions.weights, x, layout, work.P)
    apply_projection(transition_par.region, (rows, transition_par.weight_bound * norm, count, work.moved))
    apply_gradient(transition_par.gradient, (rows, count))
    theta, reward = merged(rewards.theta), merged(work.reward)
    for i in range(count.shape[0]):
        v = 0.0
        for b in range(d):
            v += theta[i, b] * x[b]
        v -= par.reward_offset
        reward[i] = v if par.printed == 1 else min(max(v, 0.0), 1.0)


@inlined
def widths(par, transition_par, transitions, rewards, layout, log, x, work):
    """work.width, work.interval, work.bonus <- xi_p, xi_r and its bonus, with ln(1/delta) = log for each set.

    After `estimate`, whose P_hat and displacements it uses."""
    n = work.moved.shape[0]
    in_z, in_v, logdet = work.forms[0], work.forms[1], merged(rewards.logdet)
    quadratic_forms(merged(transitions.inverse), merged(rewards.inverse), x, in_z, in_v)
    if par.printed == 1:
        in_v, logdet = in_z, merged(transitions.logdet)
    radius, log_weight, count = merged(transitions.radius), merged(transition_par.log_weight), merged(layout.count)
    width, interval, lipschitz = merged(work.width), merged(work.interval), merged(par.lipschitz)
    bonus = merged(work.bonus)
    negative = 0.0
    for i in range(n):
        negative += 0.0 if in_z[i] >= 0.0 and in_v[i] >= 0.0 else 1.0
        # Negative: no weights are both in the set and possible. An empty set says nothing, so the caps must do.
        w2 = (radius[i] + log_weight[i] * log) * in_z[i] - (1 - par.printed) * work.moved[i]
        width[i] = math.sqrt(w2) if w2 >= 0.0 else math.inf
        zeta = par.reward_prior + 0.5 * math.sqrt(2.0 * log + logdet[i])
        half = zeta * math.sqrt(in_v[i])
        interval[i], bonus[i] = min(par.reward_cap, half), min(par.reward_cap, par.reward_scale * half)
    if negative > 0.0:
        raise ValueError("a Gram matrix is no longer positive definite: a context or a bound is out of range")
    if par.width == TANH:
        for i in range(n):  # 2 tanh(y/2) = 2 - 4/(e^y + 1), with the exponential that vectorises
            width[i] = 2.0 - 4.0 / (exp(0.7071067811865476 * min(width[i], 80.0)) + 1.0)
        high = exp(transition_par.weight_bound * norm_of(x))
        prior_caps(merged(work.P), count, high, work.table, work.smallest, width)
    else:
        for i in range(n):  # one possible outcome: nothing to know
            factor = 1.0 if par.width == EUCLIDEAN else lipschitz[i]
            width[i] = min(par.cap, factor * width[i]) if count[i] > 1 or par.printed == 1 else 0.0


@kernel
def prior_caps(p, count, high, table, smallest, width):
    """width[i] <- min(width[i], cap), the cap computed only where it can matter. It is the largest 1-norm distance from
    p[i] of any distribution that the weights' bound allows, high = exp(B_p ||x||) (`theory.widths.logit_prior_cap`),

        cap = 2 max over sets K of outcomes of F(K) - p(K),   F(K) the largest mass that K can have (`tabulate`)

    The best K of a size are those of the smallest entries, with or without the pinned last outcome.
    The sum of the k smallest entries is at most k times their mean, which gives a lower bound on the cap at once: most
    rows stop there as data comes in. For the others the smallest entries are sorted, as many as are usually needed; the
    excess is concave in k, so it is the maximum once the last of them no longer adds to it.
    table [4, M+1] and smallest [M] are scratch."""
    filled, first, second = -1, 0, 0
    for i in range(p.shape[0]):
        n = count[i] - 1
        if n == 0:  # one possible outcome: nothing to know
            width[i] = 0.0
            continue
        if n != filled:
            filled = n
            first, second = tabulate(n, high, table)
        mean = (1.0 - p[i, n]) / n
        least = max(table[0, first] - first * mean, table[1, second] - second * mean - p[i, n])
        if width[i] > 2.0 * least:
            kept = min(n, 2 * max(first, second) + 4)
            while True:
                for j in range(kept):  # insertion without branches: each entry sinks to its place
                    v = p[i, j]
                    for k in range(j):
                        u = smallest[k]
                        smallest[k] = u if u < v else v
                        v = v if u < v else u
                    smallest[j] = v
                for j in range(kept, n):
                    v = p[i, j]
                    if v < smallest[kept - 1]:
                        for k in range(kept):
                            u = smallest[k]
                            smallest[k] = u if u < v else v
                            v = v if u < v else u
                last = smallest[kept - 1]
                if kept == n or (table[2, kept] <= last and table[3, kept] <= last):
                    break
                kept = n
            without, within, total = 0.0, table[1, 0], 0.0
            for k in range(kept):
                total += smallest[k]
                without = max(without, table[0, k + 1] - total)
                within = max(within, table[1, k + 1] - total)
            width[i] = min(width[i], 2.0 * max(without, within - p[i, n]))


@kernel
def tabulate(n, high, table):
    """table[0], table[1] <- F(k) = (0 or 1 + k high)/(1 + k high + (n - k)/high), the largest mass a set of k free
    outcomes can have, without and with the pinned one; table[2], table[3] <- F(k) - F(k-1). Returns the best k of each
    family when all outcomes are equally likely."""
    base, slope, even = 1.0 + n / high, high - 1.0 / high, 1.0 / (n + 1.0)
    first, second = 0, 0
    for k in range(n + 1):
        scale = 1.0 / (base + k * slope)
        table[0, k] = k * high * scale
        table[1, k] = (1.0 + k * high) * scale
        table[2, k] = table[0, k] - table[0, k - 1] if k > 0 else 0.0
        table[3, k] = table[1, k] - table[1, k - 1] if k > 0 else 0.0
        if table[2, k] > even:
            first = k
        if table[3, k] > even:
            second = k
    return first, second
