"""The KRON form of the online likelihood-ratio set: Z [d, d] for Lambda >= I (x) Z, learned step by step."""

import math

from ...beliefs.local import largest_span, softmax
from ...compiler.jit import inlined, kernel
from ...numerics.linear_algebra import REFRESH, apply_refresh, norm_of, updates_allowed
from ...problem.layout import slot_of
from ...theory.widths import lower_curvature
from .precision import logits_at
from .visit import GIVEN, LEAST, UNSCENTED, unscented_ratio


@inlined
def kron_form(inverse, x, n, cov):
    """cov [n, n] <- ||x||^2_{Z^{-1}} I."""
    total, d = 0.0, x.shape[0]
    for b in range(d):
        for c in range(d):
            total += x[b] * inverse[b, c] * x[c]
    for j in range(n):
        for k in range(n):
            cov[j, k] = total if j == k else 0.0


@kernel
def learn_kron_outcomes(layout, par, state, work, x, steps, path):
    """Learn all outcomes of an episode of so many steps."""
    for h in range(steps):
        s, a = path.states[h], path.actions[h]
        learn_kron_outcome(par, state, work, s, a, slot_of(layout, s, a, path.states[h + 1]), x)


@kernel
def learn_kron_outcome(par, state, work, s, a, y, x):
    """Learn outcome y of pair (s, a) at x: Z <- Z + 2 c min(p) xx'. Over its outcomes cov = ||x||^2_{Z^-1} I."""
    if state.outcomes[s, a] == 1:  # nothing to learn
        state.samples[s, a] += 1
        return
    n, d, w, column = state.outcomes[s, a], x.shape[0], work.visit, work.column
    gram, inverse, weights = state.gram[s, a], state.covariance[s, a], state.weights[s, a]
    z, p = w.z, w.p
    logits_at(weights, x, n, z)
    softmax(z, n, p)
    total, m = 0.0, n - 1
    for b in range(d):
        v = 0.0
        for e in range(d):
            v += inverse[b, e] * x[e]
        column[b] = v
        total += v * x[b]
    rho2, c, gain = state.radius[s, a], 0.5, 0.0
    if par.posterior == 0:
        for j in range(n):  # relative to the last outcome
            for k in range(n):
                w.C[j, k] = 0.0 if j == m or k == m else 2.0 * total if j == k else total
        rho = math.sqrt(rho2) if rho2 >= 0.0 else math.inf
        c = lower_curvature(largest_span(w.C, rho, z, par.weight_bound * norm_of(x), n))
        if par.predictor == UNSCENTED:
            gain = math.log(unscented_ratio(w, n, y))
        elif par.predictor == GIVEN:
            gain = math.log(w.given[y]) - math.log(p[y])
    state.loss[s, a] -= math.log(max(p[y], LEAST)) + gain
    least, square = p[0], 0.0
    for j in range(n):
        least = min(least, p[j])
    p[y] -= 1.0
    for j in range(n):
        square += p[j] * p[j]
    kappa = 2.0 * c * least
    shrink = 1.0 / (1.0 + kappa * total)
    for b in range(d):
        for e in range(d):
            inverse[b, e] -= kappa * shrink * column[b] * column[e]
            gram[b, e] += kappa * x[b] * x[e]
    for j in range(n):
        for b in range(d):
            weights[j, b] -= p[j] * shrink * column[b]
    state.radius[s, a] = rho2 + square * total * shrink - 2.0 * gain
    state.samples[s, a] += 1
    trace = 0.0
    for b in range(d):
        trace += gram[b, b]
    if state.samples[s, a] % updates_allowed(trace, state.prior[s, a], REFRESH) == 0:
        apply_refresh(par.refresh, (gram, inverse, work.logdet, 0.0, work.square, column))
