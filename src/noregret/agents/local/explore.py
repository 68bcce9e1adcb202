"""Exploration by a random part of the uncertainty: the plan of `PSRLGLM` and the first candidate of `CertifiedPSRL`.

The posterior of the transitions is taken for a set: logits within one standard deviation of their estimate, for every
pair (`beliefs.local`, rho = 1). One number z ~ N(0, 1) per episode then says for all pairs how optimistic the plan is,

    Q_h = clip( m_h + part |z| min(e_h, sqrt(2 u_h)), 0, H - h )
    b   = min(sqrt(g' cov g), max V - P_hat V),   g = P_hat * (V - P_hat V),   V = V_{h+1}

with m the expected sum of estimated rewards along the plan, e the sum of the standard deviations of its steps, and u
their variances added up (`planning.ways`). Of one step they are c, the deviation of the mean reward
(`estimators.rewards.calibrated`), and b, the standard deviation of <P, V>: a bonus (`planning.optimism`) of the first
order, over the pair's possible next states. So nothing is believed to be worse than its estimate. What is hardly known
looks better in every episode, not in every second one. Where pairs share weights their errors do not cancel, and
standard deviations add: Q_h = clip( r + P_hat V + part |z| (c + b), 0, H - h ).

After RandUCB (Vaswani et al. 2020), whose one number it takes. part is PART phi, and phi in bold episodes, for whatever
PART would take too long to find out: in one of fifty, and oftener after a thousand individuals (`boldness`). phi is the
share of pairs with chance (`estimators.chance`, that of rewards), and 1 where everything has, with a design, and where
rewards are known. Either times `posterior_scale`.

An unseen pair begins half way to the largest reward, r = r_hat + start (1 - r_hat) share, where share is what is left
of the prior variance: 1 before any data. start is 1/2, or 1/4 for logistic rewards, whose estimate begins at 1/2.

What always was the same may be so without chance (`estimators.chance`). If q is the probability that a pair that always
led to state y has chance after all, P = q P_hat + (1 - q) 1{y}, and cov is multiplied by q; if q is that of a pair that
always paid v, r_hat and its standard deviation become q r_hat + (1 - q) v and sqrt(q) c, and share q share.

This is no posterior sampling, and nothing is proved about it; behind the gate of `CertifiedPSRL` any plan is safe.
"""

import math

import numpy as np

from ...beliefs.local import Lift, derive_first, derive_first_shared, scaled_curvature, slopes_of
from ...compiler.jit import inlined, kernel
from ...compiler.slots import slot
from ...estimators.chance import part_of, shares_of
from ...estimators.likelihood.kron import kron_form
from ...estimators.likelihood.precision import covariance_at, products_of
from ...estimators.likelihood.sets import begin_pairs
from ...estimators.likelihood.shared import begin_blocks, describe_blocks
from ...estimators.linear.sign_union import sign_union_sets
from ...estimators.rewards.regression import KNOWN
from ...numerics.linear_algebra import pair_predictors
from ...numerics.random import POSTERIOR, normals
from ...planning.optimism import optimum
from ...problem.links import LinearCombination
from ...problem.problem import Problem
from .sets import SetPar, SetState, SetWork, call_begin, reward_means

PART, START = 0.5, 0.5
LOGISTIC_START = 0.25  # the estimate of an unseen logistic reward is 1/2 already
PRIOR = 0.125  # of the weight that the uniform distribution has in sets, under the linear link
STEEPEST = 2.0  # the largest standard deviation with which a logit of next states begins
OFTEN, EARLY, GROWTH = 0.02, 1000.0, 4.0  # of the share of episodes that are bold (`boldness`)


@inlined
def one_deviation(local):
    """rho = 1 for all pairs."""
    local.rho[:] = 1.0


@kernel
def believe_pairs(par, state, work, x):
    """work.local <- the posterior of the logits of the individual with context x, one standard deviation of it."""
    local, kept, w = work.local, state.sampler, work.sampler
    pair_predictors(kept.weights, x, par.layout, local.z)
    products_of(x, w.products)
    for s in range(local.P.shape[0]):
        for a in range(local.P.shape[1]):
            if par.sampler.kron == 1:
                kron_form(kept.covariance[s, a], x, kept.outcomes[s, a], local.cov[s, a])
            else:
                covariance_at(kept.forms[s, a], w.products, kept.outcomes[s, a], w.packed, local.cov[s, a])
    one_deviation(local)
    derive_first(local, par.layout, work.derive, 1)


@kernel
def believe_blocks(par, state, work, x):
    """The same where pairs share weights."""
    describe_blocks(par.sampler, state.sampler, work.sampler, x, work.local, work.derive, 0)
    one_deviation(work.local)
    derive_first_shared(work.local, par.layout, work.derive)


@kernel
def believe_linear(par, state, work, x):
    """The same under the linear link: <P, V> has the variance ||x||^2_{Z^{-1}} Var_P(V) of counted outcomes. In P_hat
    the uniform distribution that regression starts from has the share b = lambda 1'Z^{-1} x, lambda/(lambda + n) after
    n outcomes for d = 1: as much as suits a set, more than suits a guess. Here it has that of PRIOR lambda."""
    local = work.local
    sign_union_sets(par.transitions, state.transitions, work.transitions, par.layout, x, local)
    for s in range(local.P.shape[0]):
        for a in range(local.P.shape[1]):
            form, share, inverse, cov = 0.0, 0.0, state.transitions.inverse[s, a], local.cov[s, a]
            for b in range(x.shape[0]):
                for c in range(x.shape[0]):
                    form += x[b] * inverse[b, c] * x[c]
                    share += inverse[b, c] * x[c]
            n, P, total = par.layout.count[s, a], local.P[s, a], 0.0
            share = (1.0 - PRIOR) * min(max(par.transitions.regularization * share, 0.0), 1.0)
            for j in range(n):
                P[j] = max(P[j] - share / n, 0.0)
                total += P[j]
            for j in range(n):
                P[j] /= total
                for i in range(n):
                    cov[j, i] = 0.0
                cov[j, j] = form / max(P[j], 1e-12)
    one_deviation(local)
    derive_first(local, par.layout, work.derive, 0)


apply_believe = slot("believe")


@kernel
def trust(par, state, work, phi):
    """work.local: pairs that always led to the same state do so with chance only in `part_of` of all cases."""
    local, chance, layout = work.local, state.chance, par.layout
    for s in range(local.P.shape[0]):
        for a in range(local.P.shape[1]):
            n, looks = layout.count[s, a], chance.steps[s, a]
            if n > 1 and looks > 0 and chance.turned[s, a] == 0:
                part, P, cov = part_of(phi, looks), local.P[s, a], local.cov[s, a]
                for j in range(n):
                    P[j] = part * P[j] + (1.0 - part if layout.outcomes[s, a, j] == chance.led[s, a] else 0.0)
                    for i in range(n):
                        cov[j, i] *= part
                if local.slopes.shape[0] > 0:
                    scaled_curvature(P, cov, n, work.derive)
                    slopes_of(local.slopes, s * local.P.shape[1] + a, 1.0, work.derive)


apply_trust = slot("trust")


def steepness(problem: Problem, lift: Lift | None) -> float:
    """`SetPar.steep`. With a design a logit less the mean of its pair's is theta with x and a column of the lift: their
    lengths, as a root mean square, go with that of x."""
    if lift is None:
        return 1.0 / STEEPEST
    available = problem.layout.available
    squares = (lift.columns**2).sum(2)[available]
    return math.sqrt(float(squares.sum()) / float(problem.layout.count[available].sum())) / STEEPEST


def with_belief(problem: Problem, par: SetPar, state: SetState, work: SetWork) -> SetPar:
    """par with what fills in the posterior of one individual in its slot, and what that begins with."""
    linear = isinstance(problem.link, LinearCombination)
    believe = believe_linear if linear else believe_pairs if problem.design is None else believe_blocks
    par = par._replace(believe=apply_believe.fill(believe, par, state, work, np.zeros(problem.context_dim)))
    if par.steep > 0.0:
        begin = begin_pairs if problem.design is None else begin_blocks
        par = par._replace(begin=call_begin.fill(begin, par.sampler, state.sampler, 0.0))
    if state.chance.steps.shape[0] > 0:
        par = par._replace(trust=apply_trust.fill(trust, par, state, work, 1.0))
    return par


@inlined
def prepare(par, state, work, x):
    """work.local, work.hope <- what the plans of an individual that explore have in common; work.mean <- estimates;
    returns phi of rewards."""
    apply_believe(par.believe, (par, state, work, x))
    reward_means(par, state, work, x)
    local, mean, hope = work.local, work.mean, work.hope
    start = LOGISTIC_START if par.means.logistic == 1 else START
    chance, phi, phi_rewards = state.chance, 1.0, 1.0
    if chance.steps.shape[0] > 0:
        phi, phi_rewards = shares_of(chance, par.layout.count)
        phi_rewards = 1.0 if par.means.form == KNOWN else phi_rewards
    if phi < 1.0:
        apply_trust(par.trust, (par, state, work, phi))
    for s in range(mean.shape[0]):
        for a in range(mean.shape[1]):
            hope[s, a] = mean[s, a] + start * (1.0 - mean[s, a]) * work.share[s, a]
            local.high[s, a] = hope[s, a] + work.deviation[s, a]
    if phi_rewards < 1.0:
        for s in range(mean.shape[0]):
            for a in range(mean.shape[1]):
                if chance.rewards[s, a] > 0 and chance.varied[s, a] == 0:
                    part = part_of(phi_rewards, chance.rewards[s, a])
                    reward = part * mean[s, a] + (1.0 - part) * chance.paid[s, a]
                    hope[s, a] = reward + start * (1.0 - reward) * part * work.share[s, a]
                    local.high[s, a] = hope[s, a] + math.sqrt(part) * work.deviation[s, a]
    return phi_rewards


@inlined
def boldness(k):
    """The share of bold episodes after k individuals: 1/50 (1 + 4 ln(k/1000)), from a thousand on. A fixed share gives
    some good actions up for ever; the less is unknown the less a bold episode costs."""
    return OFTEN * (1.0 + GROWTH * math.log(max(k / EARLY, 1.0)))


@inlined
def venture(par, work, phi, k, draw, policy, values):
    """policy, values <- the plan of episode k that explores, with the random numbers of `draw`, after `prepare`, which
    returned phi. Here local.high is no bound: it is work.hope plus one standard deviation, and `optimum` takes the c of
    the formula from their difference."""
    z, other = normals(par.seed, draw, 0, POSTERIOR)
    bold = math.erfc(abs(other) * 0.7071067811865476) < boldness(k)  # P(|N(0, 1)| > |other|)
    part = phi * (1.0 if bold else PART) * abs(z)
    optimum(par.search_to_explore, work.local, work.search, work.hope, draw, par.posterior_scale * part, policy, values)


@kernel
def explore(par, state, work, x, k, policy, values):
    """policy, values <- a plan of episode k that explores."""
    phi = prepare(par, state, work, x)
    venture(par, work, phi, k, k, policy, values)


apply_propose = slot("propose")
