"""How online likelihood-ratio sets (`estimators.likelihood.sets`) learn the outcomes of an episode.

All its steps share x, and pairs know nothing of each other. So a pair is opened, visited among its predictions as often
as the episode met it (`estimators.likelihood.visit`), and closed:

    open    K = X' Sigma,  C = X' Sigma X
    close   Sigma <- Sigma - K' G K,   vec W <- vec W - K' moved,   Lambda <- Lambda + D (x) xx'

All numbers are those of learning step by step. Cost: m (md)^2 multiplications for a pair and an episode, O(m^3) a
visit. Rounding adds up in Sigma, so now and then it is made anew from Lambda (`renewal_due`).
The KRON form learns step by step (`estimators.likelihood.kron`).
"""

from ...compiler.jit import kernel
from ...numerics.linear_algebra import norm_of, updates_allowed, weighted_rows
from ...problem.layout import slot_of
from .precision import (
    add_outer,
    covariance_at,
    fold,
    invert_precision,
    logits_at,
    products_of,
    rows_at,
    subtract_form,
    trace_of,
)
from .visit import begin, visit

RENEWAL = 2048  # visit from which on the precision is inverted directly, each time the number of visits has doubled


@kernel
def open_pair(state, work, s, a, x):
    """Before the outcomes of pair (s, a) at x."""
    n = state.outcomes[s, a]
    logits_at(state.weights[s, a], x, n, work.visit.z)
    products_of(x, work.products)
    covariance_at(state.forms[s, a], work.products, n, work.packed, work.visit.C)
    rows_at(state.covariance[s, a], x, n - 1, work.K)
    begin(work.visit, n - 1)


@kernel
def close_pair(par, state, work, s, a, x, visits):
    """After so many."""
    n, d, sigma, gram = state.outcomes[s, a], x.shape[0], state.covariance[s, a], state.gram[s, a]
    m, w = n - 1, work.visit
    move_weights(state.weights[s, a], work.K, w.moved, n, d, work.column)
    add_outer(gram, w.D, work.products, m * n // 2)
    if renewal_due(gram, par.regularization, m, d, state.samples[s, a] - visits, state.samples[s, a]):
        invert_precision(gram, par.regularization, m, d, work.square, sigma)
    else:
        subtract_form(sigma, work.K, w.G, m, m * d, work.GK)
    fold(sigma, m, d, state.forms[s, a])


@kernel
def move_weights(weights, K, moved, n, d, column):
    """vec W -= K' moved, centred."""
    m = n - 1
    weighted_rows(moved, K, m, m * d, column)
    for b in range(d):
        mean = 0.0
        for j in range(m):
            mean += column[b * m + j]
        mean /= n
        for j in range(m):
            weights[j, b] -= column[b * m + j] - mean
        weights[m, b] += mean


@kernel
def renewal_due(gram, lam, m, d, before, now):
    """Whether Sigma of a pair should be made anew, having had `before` visits and now `now`: each time their number has
    doubled, and oftener where `updates_allowed` says so, by the trace of the precision without its start."""
    if now < RENEWAL:
        return False
    due = RENEWAL
    while due <= before:
        due *= 2
    every = updates_allowed(trace_of(gram, m, d), lam, 2 * now)
    return due <= now or now // every > before // every


@kernel
def learn_outcome(par, state, work, s, a, y, x):
    """Learn outcome y of pair (s, a) at x."""
    n = state.outcomes[s, a]
    if n == 1:  # nothing to learn
        state.samples[s, a] += 1
    else:
        open_pair(state, work, s, a, x)
        state.radius[s, a] += visit(par, work.visit, n, y, state.radius[s, a], par.weight_bound * norm_of(x))
        state.loss[s, a] += work.visit.loss[0]
        state.samples[s, a] += 1
        close_pair(par, state, work, s, a, x, 1)


@kernel
def learn_outcomes(layout, par, state, work, x, steps, path):
    """Learn all outcomes of an episode of so many steps."""
    bound, states, actions = par.weight_bound * norm_of(x), path.states, path.actions
    for h in range(steps):
        s, a = states[h], actions[h]
        n, first = state.outcomes[s, a], True
        if n == 1:
            state.samples[s, a] += 1
        else:
            for i in range(h):
                first = first and not (states[i] == s and actions[i] == a)
            if first:
                open_pair(state, work, s, a, x)
                visits = 0
                for i in range(h, steps):
                    if states[i] == s and actions[i] == a:
                        y = slot_of(layout, s, a, states[i + 1])
                        state.radius[s, a] += visit(par, work.visit, n, y, state.radius[s, a], bound)
                        state.loss[s, a] += work.visit.loss[0]
                        visits += 1
                state.samples[s, a] += visits
                close_pair(par, state, work, s, a, x, visits)
