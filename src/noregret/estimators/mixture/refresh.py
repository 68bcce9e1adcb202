"""One refresh of a mixture set, from the stored observations of its pair. Formulas and proof:
`estimators.mixture.sets`.

    1  W_hat by Newton's method from the last one, with g and H over every suffix i > n_c       a few walks
    2  beta_c: Q_c and the determinants
    3  A_c over the current set                                                                 one walk
    4  the sums of j_i, where there are many observations for the most promising components     one walk
    5  the best ellipsoid; 3 and 5 again while it pays

W_hat need not be exact: g is the gradient there, whatever it is, and is carried. All matrices are kept on full vectors;
on the common shift of all rows, where nothing matters, they are made harmless.
"""

import math

from ...compiler.jit import formula, inlined, kernel
from ...compiler.slots import slot
from .kronecker import inverse_of
from .walks import CENTRED, EPOCHS, MIXTURE, PLAIN, ROUNDING, SINGLE

TIMES = (32, 128, 512, 2048)  # observations from which on an epoch may begin
SCALES = (1.5, 5.0)  # mu
FINALISTS = 5  # components that are looked at closely where there are many observations
MERGES = 3  # components mixed in at most
PARTS = (0.15, 0.4)  # proportions in which one is
ROUNDS = 4  # of step 3 at most
WORTH = 0.98  # another round while one has brought the score below this part of the last
LEAST_PIVOT = 1e-9  # pivots of E below this part of the diagonal: not positive definite
SLACK = 1e-6  # relative, on squared radii: more than rounding can cost at that condition


apply_stage = slot("mixture stage")  # the stages are compiled apart: together they take several times as long


@kernel
def precision(value, scale, shape, size, out):
    """out <- Lam_c = value I + scale shape."""
    for i in range(size):
        for j in range(size):
            out[i, j] = value if i == j else 0.0
            if scale > 0.0:
                out[i, j] += scale * shape[i, j]


@inlined
def component(par, state, s, a, c):
    """(part i > n_c that component c looks at or -1 before its epoch has begun, value, scale, epoch) of `precision`."""
    if c < PLAIN:
        return EPOCHS, par.isotropic[c], 0.0, 0
    epoch, scale = (c - PLAIN) // 2, SCALES[(c - PLAIN) % 2]
    return (epoch if state.begins[s, a, epoch] >= 0 else -1), scale * par.regularization, scale, epoch


@inlined
def betas(par, state, work, s, a, log_inverse_delta, d):
    """work.beta [C] as if every j_i were 1/2 tr(H_i Q), and work.spread [C], the Q_c."""
    n, W = par.count[s, a], state.map[s, a]
    size = n * d
    for c in range(work.beta.shape[0]):
        work.beta[c] = math.inf
        part, value, scale, epoch = component(par, state, s, a, c)
        if part < 0:
            continue
        precision(value, scale, state.shape[s, a, epoch], size, work.E)
        beta = log_inverse_delta + par.log_weight[c]
        if c < CENTRED:
            for j in range(n):
                for b in range(d):
                    beta += 0.5 * par.isotropic[c] * W[j, b] * W[j, b]
        if scale > 0.0:
            beta -= 0.5 * inverse_of(work.E, size, ROUNDING, work.vector, work.inverse)
        else:
            beta -= 0.5 * size * math.log(value)
        for i in range(size):
            for j in range(size):
                work.E[i, j] += work.hess[part, i, j]
        beta += 0.5 * inverse_of(work.E, size, ROUNDING, work.vector, work.spread[c])
        if not math.isnan(beta):
            work.beta[c] = beta


@inlined
def bohning_beta(par, state, work, s, a, log_inverse_delta, d):
    """work.beta[0] of the plain set: ln(1/delta) + (n - 1)/2 ln det(I + G/(2 lambda)) + lambda/2 ||W_hat||^2."""
    n, W, lam = par.count[s, a], state.map[s, a], par.regularization
    beta = log_inverse_delta + par.log_weight[0]
    for b in range(d):
        for c in range(d):
            work.E[b, c] = work.gram[b, c] / (2.0 * lam) + (1.0 if b == c else 0.0)
        for j in range(n):
            beta += 0.5 * lam * W[j, b] * W[j, b]
    work.beta[0] = beta + 0.5 * (n - 1) * inverse_of(work.E, d, ROUNDING, work.vector, work.inverse)


@kernel
def bound_stage(par, state, work, store, s, a, log_inverse_delta):
    """work.beta [C], but for `excess_stage`."""
    d = store.contexts.shape[1]
    if par.form == SINGLE:
        bohning_beta(par, state, work, s, a, log_inverse_delta, d)
    else:
        betas(par, state, work, s, a, log_inverse_delta, d)


@inlined
def largest(share):
    c = 0
    for i in range(share.shape[0]):
        c = i if share[i] > share[c] else c
    return c


@kernel
def score(work, cov, radius, lam, size):
    """rho^2 tr(cov (H + lambda I)): about D rho^2 where the set has the shape of the data."""
    total = 0.0
    for i in range(size):
        for j in range(size):
            total += cov[i, j] * work.hess[EPOCHS, j, i]
        total += lam * cov[i, i]
    return radius * total


@inlined
def assumed_form(form, n, j, k):
    """K_jk: sum_{j < n} (e_j - e_n)(e_j - e_n)', or the identity on centred weights under SINGLE."""
    if j == k:
        return float(n - 1) if j == n - 1 and form == MIXTURE else 1.0
    return -1.0 if (j == n - 1 or k == n - 1) and form == MIXTURE else 0.0


@formula
def assumed_covariance(n: int, j: int, k: int) -> float:
    """Entry of the pseudo-inverse of K: the covariance of centred rows whose differences to the last one are white."""
    first, second = (1.0 if j < n - 1 else 0.0), (1.0 if k < n - 1 else 0.0)
    return (first if j == k else 0.0) - (first + second) / n + (n - 1.0) / (n * n)


@inlined
def ellipsoid(par, state, work, share, tau, s, a, d):
    """work.inverse, work.vector <- E^{-1} on centred weights and E^{-1} g, of the components in the proportions share
    [C], with tau/2 (W'KW - bound), which is not positive, added. Returns the squared radius, or nan if E is not
    positive definite."""
    n, W, E, inverse, gradient = par.count[s, a], state.map[s, a], work.E, work.inverse, work.gradient
    size = n * d
    for i in range(size):
        gradient[i] = 0.0
        for j in range(size):
            E[i, j] = 0.0
    beta = 0.0
    for c in range(share.shape[0]):
        if share[c] > 0.0:
            beta += share[c] * (work.beta[c] + math.log(share[c]))
            part, value, scale, epoch = component(par, state, s, a, c)
            precision(value, scale, state.shape[s, a, epoch], size, inverse)
            for i in range(size):
                gradient[i] += share[c] * work.grad[part, i]
                for j in range(size):
                    E[i, j] += share[c] * (work.curve[part, i, j] - (inverse[i, j] if c >= CENTRED else 0.0))
    bound = 0.5 if par.form == SINGLE and n == 2 else n - 1.0
    radius = 2.0 * beta + tau * bound * par.weight_bound * par.weight_bound
    common, mean = 0.0, 0.0
    for b in range(d):
        for j in range(n):
            pull = 0.0
            for k in range(n):
                form = tau * assumed_form(par.form, n, j, k)
                pull += form * W[k, b]
                E[j * d + b, k * d + b] += form
                common += E[j * d + b, k * d + b] / size
            gradient[j * d + b] += pull
            radius -= W[j, b] * pull
            mean += E[j * d + b, j * d + b] / size
    if not mean > 0.0:
        return math.nan
    for b in range(d):  # on the common shift of all rows: anything that inverts well, taken out again afterwards
        for j in range(n):
            for k in range(n):
                E[j * d + b, k * d + b] += (mean - common) / n
    if math.isnan(inverse_of(E, size, LEAST_PIVOT, work.vector, inverse)):
        return math.nan
    for b in range(d):
        for j in range(n):
            for k in range(n):
                inverse[j * d + b, k * d + b] -= 1.0 / (mean * n)
    for i in range(size):
        total = 0.0
        for j in range(size):
            total += inverse[i, j] * gradient[j]
        work.vector[i] = total
        radius += total * gradient[i]
    return radius + SLACK * (1.0 + abs(radius))


@inlined
def keep(state, work, s, a, n, c, radius):
    """The ellipsoid just made becomes the set."""
    d = state.centre.shape[3]
    state.component[s, a], state.radius[s, a] = c, radius
    for i in range(n * d):
        state.centre[s, a, i // d, i % d] = state.map[s, a, i // d, i % d] - work.vector[i]
        for j in range(n * d):
            state.cov[s, a, i, j] = work.inverse[i, j]


@inlined
def forget(par, state, s, a, n):
    """Back to what is assumed."""
    d = state.centre.shape[3]
    state.component[s, a] = -1
    state.radius[s, a] = (n - 1.0) * par.weight_bound * par.weight_bound * (1.0 + SLACK)
    for i in range(n * d):
        state.centre[s, a, i // d, i % d] = 0.0
        for j in range(n * d):
            state.cov[s, a, i, j] = assumed_covariance(n, i // d, j // d) if i % d == j % d else 0.0


@kernel
def search_stage(par, state, work, store, s, a, log_inverse_delta):
    """Keep the best ellipsoid with a score below work.best[0]: one component and one tau, then others mixed in as long
    as that helps. work.best[0] <- its score, or -1 if one was empty. Screening: only find the FINALISTS best single
    components, from betas that lack their excess; which ones are looked at is free to choose."""
    d, components, share, trial = store.contexts.shape[1], work.beta.shape[0], work.share, work.trial
    tau, best, screening = 0.0, work.best[0], work.screening[0] == 1
    for c in range(components):
        share[c], work.value[c] = 0.0, math.inf
    for phase in range(1 if screening else 1 + MERGES):
        chosen, part, before = -1, 1.0, tau
        for c in range(components):
            if work.beta[c] == math.inf:
                continue
            for i in range(par.assumed.shape[0] if phase == 0 else len(PARTS)):
                weight = 1.0 if phase == 0 else PARTS[i]
                factor = par.assumed[i] if phase == 0 else before
                for k in range(components):
                    trial[k] = share[k] * (1.0 - weight)
                trial[c] += weight
                radius = ellipsoid(par, state, work, trial, factor, s, a, d)
                if math.isnan(radius):
                    continue
                if radius <= 0.0 and not screening:
                    work.best[0] = -1.0
                    return
                value = score(work, work.inverse, radius, par.regularization, par.count[s, a] * d)
                if screening:
                    work.value[c] = min(work.value[c], value)
                elif value < best:
                    best, chosen, part, tau = value, c, weight, factor
                    keep(state, work, s, a, par.count[s, a], largest(trial), radius)
        if chosen < 0:
            break
        for k in range(components):
            share[k] *= 1.0 - part
        share[chosen] += part
    work.best[0] = best
    for c in range(components if screening else 0):
        ahead = 0
        for k in range(components):
            ahead += 1 if work.value[k] < work.value[c] else 0
        if ahead >= FINALISTS:
            work.beta[c] = math.inf


@kernel
def mixture_refresh(par, state, work, store, s, a, log_inverse_delta):
    """Make the set of pair (s, a) anew from all its observations; keep the old one if it is still better (by `score` at
    the present H). log_inverse_delta = ln(1/delta), delta being this pair's share, always the same."""
    n, d, samples = par.count[s, a], store.contexts.shape[1], store.visits[s, a]
    state.refreshed[s, a], state.gained[s, a] = samples, 0.0
    if n < 2 or samples == 0:
        return
    size, everything = n * d, (par, state, work, store, s, a, log_inverse_delta)
    apply_stage(par.fit, everything)
    apply_stage(par.bounds, everything)
    work.best[0] = score(work, state.cov[s, a], state.radius[s, a], par.regularization, size)
    for turn in range(ROUNDS):
        before = work.best[0]
        apply_stage(par.curvature, everything)
        if turn == 0 and par.form == MIXTURE:
            work.screening[0] = 1
            if samples > par.thorough:
                apply_stage(par.search, everything)
            work.screening[0] = 0
            apply_stage(par.excess, everything)
        apply_stage(par.search, everything)
        if work.best[0] < 0.0:
            state.empty[s, a] += 1
            forget(par, state, s, a, n)
        if work.best[0] < 0.0 or work.best[0] > WORTH * before:
            break
    for e in range(EPOCHS):
        if state.begins[s, a, e] < 0 and samples >= TIMES[e]:
            state.begins[s, a, e] = samples
            for i in range(size):
                for j in range(size):
                    state.shape[s, a, e, i, j] = work.hess[EPOCHS, i, j]
