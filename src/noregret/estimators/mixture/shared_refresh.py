"""One refresh of the mixture set of a block, from the stored steps of its pairs. Formulas: `estimators.mixture.shared`.

1  theta_hat by Newton's method from the last one, with g and H over every suffix      a few walks
2  beta_c without its excess: Q_c and the determinants
3  A_c over the current set                                                            one walk
4  the most promising components, and the sums of their j_i                            one walk
5  the best ellipsoid; 3 and 5 again while it pays
"""

import math

from ...compiler.jit import inlined, kernel
from ...compiler.slots import slot
from .kronecker import inverse_of
from .refresh import LEAST_PIVOT, PARTS, SLACK, WORTH, largest
from .shared_walks import EPOCHS, LEAP, newest_of
from .walks import CENTRED, PLAIN, ROUNDING

SCALES = (1.5, 5.0, 16.0)  # mu
FINALISTS = 4  # components that are looked at closely
MERGES = 2  # components mixed in at most
ROUNDS = 8  # of steps 3 and 5 at most

call_stage = slot("block mixture stage")  # (par, state, work, store, b, ln(1/delta))


@inlined
def component(par, state, b, c):
    """(part of the sums that component c looks at or -1 before its epoch has begun, the first episode of it, value,
    scale, epoch): Lam_c = value I + scale shape."""
    if c < PLAIN:
        return EPOCHS, 0, par.isotropic[b, c], 0.0, 0
    epoch, scale = (c - PLAIN) // len(SCALES), SCALES[(c - PLAIN) % len(SCALES)]
    begins = state.begins[b, epoch]
    return (epoch if begins >= 0 else -1), begins, scale * par.shared.regularization[b], scale, epoch


@inlined
def add_precision(factor, value, scale, shape, size, out):
    """out += factor Lam_c."""
    for i in range(size):
        if scale > 0.0:
            for j in range(size):
                out[i, j] += factor * scale * shape[i, j]
        out[i, i] += factor * value


@inlined
def clear_matrix(out, size):
    for i in range(size):
        for j in range(size):
            out[i, j] = 0.0


@kernel
def bound_stage(par, state, work, store, b, log_inverse_delta):
    """work.beta [C] as if every j_i were 1/2 tr(H_i Q), work.spread [C], the Q_c, where the components begin, and s_c,
    the mean of Lam_c Q_c: where Lam_c is a multiple of H the best there is."""
    theta, size, E = state.map[b], par.shared.start[b, par.shared.size[b]], work.E
    for c in range(work.beta.shape[0]):
        work.beta[c] = math.inf
        part, since, value, scale, epoch = component(par, state, b, c)
        if part < 0:
            continue
        work.part[c], work.since[c] = part, since
        beta = log_inverse_delta + par.log_weight
        if c < CENTRED:
            for e in range(size):
                beta += 0.5 * value * theta[e] * theta[e]
        clear_matrix(E, size)
        add_precision(1.0, value, scale, state.shape[b, epoch], size, E)
        if scale > 0.0:
            beta -= 0.5 * inverse_of(E, size, ROUNDING, work.row, work.inverse)
        else:
            beta -= 0.5 * size * math.log(value)
        for i in range(size):
            for j in range(size):
                E[i, j] += work.hess[part, i, j]
        beta += 0.5 * inverse_of(E, size, ROUNDING, work.row, work.spread[c])
        if math.isnan(beta):
            continue
        work.beta[c], work.steep[c], left = beta, 1.0, float(size)
        for i in range(size):
            work.lean[c, i] = 0.0
            for j in range(size):
                left -= work.hess[part, i, j] * work.spread[c, i, j]
        work.leap[c] = min(max(left / size, 0.0), LEAP) if c >= CENTRED else 0.0


@kernel
def score(work, cov, radius, lam, size):
    """rho^2 tr(cov (H + lambda I)): about p rho^2 where the set has the shape of the data."""
    total = 0.0
    for i in range(size):
        for j in range(size):
            total += cov[i, j] * work.hess[EPOCHS, i, j]
        total += lam * cov[i, i]
    return radius * total


@kernel
def ellipsoid(par, state, work, share, tau, b):
    """work.inverse, work.vector <- E^{-1} and E^{-1} g of the components in the proportions share [C], with
    tau/2 (||theta||^2 - B^2), which is not positive, added. Returns the squared radius, or nan if E is not positive
    definite."""
    theta, E, inverse, gradient = state.map[b], work.E, work.inverse, work.gradient
    size, beta = par.shared.start[b, par.shared.size[b]], 0.0
    radius = tau * par.bound[b] * par.bound[b]
    clear_matrix(E, size)
    for i in range(size):
        gradient[i] = tau * theta[i]
        E[i, i] = tau
        radius -= tau * theta[i] * theta[i]
    for c in range(share.shape[0]):
        if share[c] > 0.0:
            beta += share[c] * (work.beta[c] + math.log(share[c]))
            part, _, value, scale, epoch = component(par, state, b, c)
            leap = work.leap[c]
            rise = share[c] * leap * leap * work.steep[c]
            for i in range(size):
                gradient[i] += share[c] * ((1.0 - leap) * work.grad[part, i] - leap * work.lean[c, i])
                for j in range(size):
                    E[i, j] += share[c] * work.curve[part, i, j]
                    if leap > 0.0:  # growth_of is convex
                        flat, steep = work.hess[part, i, j], work.rise[part, i, j]
                        E[i, j] -= rise * (flat + leap / LEAP * (steep - flat))
            if c >= CENTRED:
                add_precision(-share[c] * (1.0 - leap) ** 2, value, scale, state.shape[b, epoch], size, E)
    if math.isnan(inverse_of(E, size, LEAST_PIVOT, work.row, inverse)):
        return math.nan
    radius += 2.0 * beta
    for i in range(size):
        total = 0.0
        for j in range(size):
            total += inverse[i, j] * gradient[j]
        work.vector[i] = total
        radius += total * gradient[i]
    return radius + SLACK * (1.0 + abs(radius))


@inlined
def keep(state, work, b, size, c, radius):
    """The ellipsoid just made becomes the set."""
    state.component[b], state.radius[b] = c, radius
    for i in range(size):
        state.weights[b, i] = state.map[b, i] - work.vector[i]
        for j in range(size):
            state.inverse[b, i, j] = work.inverse[i, j]


@inlined
def forget(par, state, b, size):
    """Back to what is assumed."""
    state.component[b], state.radius[b] = -1, par.bound[b] * par.bound[b] * (1.0 + SLACK)
    for i in range(size):
        state.weights[b, i] = 0.0
        for j in range(size):
            state.inverse[b, i, j] = 1.0 if i == j else 0.0


@kernel
def screen_stage(par, state, work, store, b, log_inverse_delta):
    """Leave the FINALISTS most promising components: each alone, from betas that lack their excess, with its s_c or 0,
    whichever is better. Those that give no ellipsoid yet stay: the curvature of a later round may give them one. All
    of this is free to choose."""
    size, lam, components = par.shared.start[b, par.shared.size[b]], par.shared.regularization[b], work.beta.shape[0]
    for c in range(components):
        work.value[c] = math.inf
        if work.beta[c] < math.inf:
            for k in range(components):
                work.trial[k] = 1.0 if k == c else 0.0
            nominal = kept = work.leap[c]
            for turn in range(2 if nominal > 0.0 else 1):
                leap, before = nominal if turn == 0 else 0.0, work.value[c]
                work.leap[c] = leap
                for i in range(1, par.assumed.shape[1], 2):
                    radius = ellipsoid(par, state, work, work.trial, par.assumed[b, i], b)
                    if not math.isnan(radius):
                        work.value[c] = min(work.value[c], score(work, work.inverse, max(radius, 0.0), lam, size))
                if work.value[c] < before:
                    kept = leap
            work.leap[c] = kept if work.value[c] < math.inf else nominal
    for c in range(components):
        ahead = 0
        for k in range(components):
            ahead += 1 if work.value[k] < work.value[c] else 0
        if ahead >= FINALISTS:
            work.beta[c] = math.inf


@kernel
def search_stage(par, state, work, store, b, log_inverse_delta):
    """Keep the best ellipsoid with a score below work.best[0]: one component and one tau, then others mixed in as long
    as that helps. work.best[0] <- its score, or -1 if one was empty."""
    size, lam, components = par.shared.start[b, par.shared.size[b]], par.shared.regularization[b], work.beta.shape[0]
    share, trial, tau, best = work.share, work.trial, 0.0, work.best[0]
    for c in range(components):
        share[c] = 0.0
    for phase in range(1 + MERGES):
        chosen, part, before = -1, 1.0, tau
        for c in range(components):
            if work.beta[c] == math.inf:
                continue
            for i in range(par.assumed.shape[1] if phase == 0 else len(PARTS)):
                weight = 1.0 if phase == 0 else PARTS[i]
                factor = par.assumed[b, i] if phase == 0 else before
                for k in range(components):
                    trial[k] = share[k] * (1.0 - weight)
                trial[c] += weight
                radius = ellipsoid(par, state, work, trial, factor, b)
                if math.isnan(radius):
                    continue
                if radius <= 0.0:
                    work.best[0] = -1.0
                    return
                value = score(work, work.inverse, radius, lam, size)
                if value < best:
                    best, chosen, part, tau = value, c, weight, factor
                    keep(state, work, b, size, largest(trial), radius)
        if chosen < 0:
            break
        for k in range(components):
            share[k] *= 1.0 - part
        share[chosen] += part
    work.best[0] = best


@kernel
def block_refresh(par, state, work, store, b, log_inverse_delta):
    """Make the set of block b anew from all stored steps of its pairs; keep the old one if it is still better (by
    `score` at the present H). log_inverse_delta = ln(1/delta), delta being this block's share, always the same."""
    samples, size = state.samples[b], par.shared.start[b, par.shared.size[b]]
    state.refreshed[b], state.gained[b] = samples, 0.0
    if size == 0 or samples == 0:
        return
    everything = (par, state, work, store, b, log_inverse_delta)
    call_stage(par.fit, everything)
    call_stage(par.bounds, everything)
    work.best[0] = score(work, state.inverse[b], state.radius[b], par.shared.regularization[b], size)
    for turn in range(ROUNDS):
        before = work.best[0]
        call_stage(par.curvature, everything)
        if turn == 0:
            call_stage(par.screen, everything)
            call_stage(par.excess, everything)
        call_stage(par.search, everything)
        if work.best[0] < 0.0:
            state.empty[b] += 1
            forget(par, state, b, size)
        if work.best[0] < 0.0 or work.best[0] > WORTH * before:
            break
    for e in range(EPOCHS):
        if state.begins[b, e] < 0 and samples >= par.times[b, e]:
            state.begins[b, e] = newest_of(par, store, b) + 1
            for i in range(size):
                for j in range(size):
                    state.shape[b, e, i, j] = work.hess[EPOCHS, i, j]
