"""How the online likelihood-ratio set (`estimators.likelihood_ratio`) learns the visits of one pair in one episode.

All steps of an episode share x, so a pair is opened, visited among its m = n - 1 predictions and closed. Predictions
are taken relative to the last outcome (it is the reference; the set lies in rows that sum to 0, so nothing is lost),
Sigma [md, md] is the inverse precision in those coordinates, index (column b, row j) -> b m + j, and X = x (x) I:

    open    K = Sigma X [md, m],  C = X' Sigma X [m, m],  R = I,  G = 0,  D = 0,  moved = 0
    visit   D_t = 2 c (diag p - pp') = sum_j l_j l_j', and for every j:  u = C l_j,  w = R l_j,  s = 1 + l_j'u,
            C <- C - uu'/s,   R <- R - wu'/s,   G <- G + ww'/s;      D <- D + D_t
            then with a = p - e_y:   z <- z - C a,   moved <- moved + R a,   rho2 <- rho2 + a'C a - 2 ln(phat(y)/p(y))
    close   Sigma <- Sigma - K G K',   vec W <- vec W - K moved,   precision <- precision + D (x) xx'

K R and C are Sigma X and X' Sigma X as they would be after every rank-one term (Sherman and Morrison), so all numbers
are those of learning step by step. The factor of diag p - pp' over the first m outcomes is known: with
tail_j = p_j + ... + p_n, l_j = sqrt(p_j/tail_j) (sqrt(tail_{j+1}) e_j - sum_{i>j} p_i/sqrt(tail_{j+1}) e_i).

Cost: m (md)^2 multiplications for a pair and an episode, O(m^3) a visit.
"""

import math

from .._jit import caller, inlined, kernel
from .._linear_algebra import apply_refresh, cholesky
from .._tiles import add_products, set_product, set_products, set_sum, set_wide_product
from ..links import exp
from ..local_sets import largest_span, log_softmax
from ..theory.widths import lower_curvature
from .kronecker import logits_at

PLUG_IN, UNSCENTED, GIVEN = 0, 1, 2
REFRESH = 1000  # steps between direct inversions of one pair's precision


@inlined
def up(n, to):
    """`padded`, in kernels."""
    return (n + to - 1) // to * to


@inlined
def open_pair(par, state, work, n, s, a, x):
    """work.z, rows (K'), stack (C beside R, both transposed), gain (G), hessian (D), moved."""
    d, m, E = x.shape[0], n - 1, par.size
    wide, deep = up(2 * m, 8), up(m, 8)
    sigma, rows, stack = state.covariance[s, a], work.rows, work.stack
    logits_at(state.weights[s, a], x, n, work.z)
    for k in range(m):
        e = 0
        while e + 24 <= E:
            set_wide_product(rows, k * E + e, 0, x, 0, 0, 1, sigma, k * E + e, m * E, d)
            e += 24
        while e < E:
            set_product(rows, k * E + e, 0, x, 0, 0, 1, sigma, k * E + e, m * E, d)
            e += 8
    for k in range(m):
        for j in range(0, m, 8):
            set_product(stack, k * wide + j, 0, x, 0, 0, 1, rows, k * E + j, m, d)
        for j in range(m, wide):
            stack[k * wide + j] = 1.0 if j == m + k else 0.0
        for j in range(deep):
            work.gain[k * deep + j] = 0.0
        work.moved[k] = 0.0
    for i in range(m * n // 2):
        work.hessian[i] = 0.0


@kernel
def log_gain(work, n, y):
    """ln phat(y)/p(y) of the unscented mixture: weight 1/n at z, 1/(2n) at each z +- sqrt(n) F e_i, F the Cholesky
    factor of C, the last outcome being the reference."""
    m, cov, F, e, p = n - 1, work.cov, work.factor, work.powers, work.p
    trace, scale = 0.0, math.sqrt(float(n))
    for j in range(m):
        trace += cov[j, j]
    cholesky(cov[:m, :m], 1e-12 * trace + 1e-290, F[:m, :m])
    half, at = m * n // 2 + m, 0
    for i in range(m):  # of every sigma point: the outcomes it does not move, then those from i on; then downwards
        top, bottom = 0.0, 0.0
        for j in range(i, m):
            v = scale * F[j, i]
            e[at + 1 + j - i] = v
            top, bottom = max(top, v), min(bottom, v)
        e[at] = 0.0
        for j in range(at, at + 1 + m - i):
            v = e[j]
            e[j] = v - top
            e[half + j] = bottom - v
        at += 1 + m - i
    for i in range(2 * half):
        e[i] = exp(e[i])
    total, still, at = 0.0, p[m], 0
    for i in range(m):
        up_mass, down_mass = still * e[at], still * e[half + at]
        for j in range(i, m):
            up_mass += p[j] * e[at + 1 + j - i]
            down_mass += p[j] * e[half + at + 1 + j - i]
        own = at + 1 + y - i if i <= y < m else at
        total += e[own] / up_mass + e[half + own] / down_mass
        still += p[i]
        at += 1 + m - i
    return math.log((1.0 + 0.5 * total) / n)


@inlined
def of_the_set(par, work, rho2, n, y, norm):
    """c and ln phat(y)/p(y) for a set of squared radius rho2, with work.z, logp and cov; 1/2 and 0 of a posterior."""
    c, gain = 0.5, 0.0
    if par.posterior == 0:
        rho = math.sqrt(rho2) if rho2 >= 0.0 else math.inf
        c = lower_curvature(largest_span(work.cov, rho, work.z, par.weight_bound * norm, n))
        if par.predictor == UNSCENTED:
            gain = log_gain(work, n, y)
        elif par.predictor == GIVEN:
            gain = math.log(work.given[y]) - work.logp[y]
    return c, gain


@inlined
def visit(par, state, work, n, s, a, y, x, norm):
    """Outcome y of the pair that is open, at the same x; norm = ||x||."""
    m, z, p, logp, stack, both, root = n - 1, work.z, work.p, work.logp, work.stack, work.both, work.column
    wide, deep = up(2 * m, 8), up(m, 8)
    log_softmax(z, n, logp, p)
    for j in range(n):
        for k in range(n):
            work.cov[j, k] = stack[k * wide + j] if j < m and k < m else 0.0
    rho2 = state.radius[s, a]
    c, gain = of_the_set(par, work, rho2, n, y, norm)
    at = 0
    for j in range(m):
        for k in range(j, m):
            work.hessian[at] += 2.0 * c * p[j] * ((1.0 if j == k else 0.0) - p[k])
            at += 1
    tails = work.step
    tails[m] = p[m]
    for j in range(m - 1, -1, -1):
        tails[j] = tails[j + 1] + p[j]
    for j in range(m):
        head, after = math.sqrt(2.0 * c * p[j] / tails[j]), math.sqrt(tails[j + 1])
        root[j] = head * after
        head /= -after
        for i in range(j + 1, m):
            root[i] = head * p[i]
        for g in range(0, wide, 8):
            set_product(both, g, 0, root, j, 0, 1, stack, j * wide + g, wide, m - j)
        size = 1.0
        for i in range(j, m):
            size += root[i] * both[i]
        shrink = -1.0 / size
        for i in range(2 * m):
            work.scaled[i] = shrink * both[i]
        for k in range(0, m, 4):
            for g in range(0, wide, 8):
                add_products(stack, k * wide + g, wide, work.scaled, k, 1, 0, both, g, 0, 1)
            for g in range(0, deep, 8):  # -G, so that it can be added later
                add_products(work.gain, k * deep + g, deep, work.scaled, m + k, 1, 0, both, m + g, 0, 1)
    for j in range(m):
        root[j] = p[j] - (1.0 if j == y else 0.0)
    for g in range(0, wide, 8):
        set_product(both, g, 0, root, 0, 0, 1, stack, g, wide, m)
    form = 0.0
    for j in range(m):
        form += root[j] * both[j]
        z[j] -= both[j]
        work.moved[j] += both[m + j]
    state.radius[s, a] = rho2 + form - 2.0 * gain
    state.samples[s, a] += 1


@inlined
def close_pair(par, state, work, n, s, a, x, visits):
    """What the visits, so many, have changed of the pair that is open."""
    d, m, E, J = x.shape[0], n - 1, par.size, par.pairs
    deep, rows, turned, column, sigma = up(m, 8), work.rows, work.turned, work.column, state.covariance[s, a]
    weights, gram = state.weights[s, a], state.gram[s, a]
    for e in range(0, m * d, 8):
        set_product(column, e, 0, work.moved, 0, 0, 1, rows, e, E, m)
    for b in range(d):
        mean = 0.0
        for j in range(m):
            mean += column[b * m + j]
        mean /= n
        for j in range(m):
            weights[j, b] -= column[b * m + j] - mean
        weights[m, b] += mean
    for i in range(0, m, 4):
        for e in range(0, m * d, 8):
            set_products(turned, i * E + e, E, work.gain, i, 1, deep, rows, e, E, m)
    for r in range(0, m * d, 4):
        for e in range(0, m * d, 8):
            add_products(sigma, r * E + e, E, turned, r, 1, E, rows, e, E, m)
    products(x, work.products)
    for t in range(0, d * (d + 1) // 2, 4):
        for e in range(0, m * n // 2, 8):
            add_products(gram, t * J + e, J, work.products, t, 1, 0, work.hessian, e, 0, 1)
    total = state.samples[s, a]
    if total // REFRESH != (total - visits) // REFRESH:
        apply_renew(par.renew, (par, state, work, n, d, s, a))
    arrange(par, sigma, state.forms[s, a], m, d)


@inlined
def products(x, out):
    """out [d(d+1)/2] <- x_b x_c for b <= c."""
    at, d = 0, x.shape[0]
    for b in range(d):
        for c in range(b, d):
            out[at] = x[b] * x[c]
            at += 1


@kernel
def arrange(par, sigma, forms, m, d):
    """forms <- Sigma for queries: C_jk = sum_{b <= c} x_b x_c forms[(b, c), (j, k)], j <= k. Every row is written from
    its diagonal on, eight numbers at a time; what is too much is overwritten by the next."""
    E, J, t = par.size, par.pairs, 0
    for b in range(d):
        for c in range(b, d):
            at = t * J
            for j in range(m):
                for k in range(j, m, 8):
                    set_sum(forms, at + k - j, sigma, (b * m + j) * E + c * m + k, sigma, (c * m + j) * E + b * m + k)
                at += m - j
            if b == c:
                for i in range(m * (m + 1) // 2):
                    forms[t * J + i] *= 0.5
            t += 1


@kernel
def renew(par, state, work, n, d, s, a):
    """Sigma from the precision, directly."""
    m, E, J, sigma, gram, t = n - 1, par.size, par.pairs, state.covariance[s, a], state.gram[s, a], 0
    square = work.square
    for i in range(E):
        for j in range(E):
            square[i, j] = 1.0 if i == j else 0.0
    for b in range(d):
        for c in range(b, d):
            at = t * J
            for j in range(m):
                for k in range(j, m):
                    prior = par.regularization * ((1.0 if j == k else 0.0) - 1.0 / n) if b == c else 0.0
                    v = prior + gram[at]
                    square[b * m + j, c * m + k] = square[b * m + k, c * m + j] = v
                    square[c * m + j, b * m + k] = square[c * m + k, b * m + j] = v
                    at += 1
            t += 1
    apply_refresh(par.refresh, (square, work.inverse, work.logdet, 0.0, work.lower, work.solved))
    for i in range(m * d):
        for j in range(m * d):
            sigma[i * E + j] = work.inverse[i, j]


apply_renew = caller()


@inlined
def kron_visit(par, state, work, n, s, a, y, x, norm):
    """A step of the KRON form, at once: Z <- Z + 2 c min(p) xx'. Over its outcomes C = ||x||^2_{Z^-1} I."""
    d, m, z, p, logp, column = x.shape[0], n - 1, work.z, work.p, work.logp, work.column
    gram, inverse, weights = state.gram[s, a], state.covariance[s, a], state.weights[s, a]
    logits_at(weights, x, n, z)
    log_softmax(z, n, logp, p)
    total = 0.0
    for b in range(d):
        v = 0.0
        for e in range(d):
            v += inverse[b * d + e] * x[e]
        column[b] = v
        total += v * x[b]
    rho2 = state.radius[s, a]
    if par.posterior == 0:
        for j in range(n):  # relative to the last outcome
            for k in range(n):
                work.cov[j, k] = 0.0 if j == m or k == m else 2.0 * total if j == k else total
    c, gain = of_the_set(par, work, rho2, n, y, norm)
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
            inverse[b * d + e] -= kappa * shrink * column[b] * column[e]
            gram[b * d + e] += kappa * x[b] * x[e]
    for j in range(n):
        for b in range(d):
            weights[j, b] -= p[j] * shrink * column[b]
    state.radius[s, a] = rho2 + square * total * shrink - 2.0 * gain
    state.samples[s, a] += 1
    if state.samples[s, a] % REFRESH == 0:
        for b in range(d):
            for e in range(d):
                work.square[b, e] = gram[b * d + e]
        apply_refresh(par.refresh, (work.square, work.inverse, work.logdet, 0.0, work.lower, work.solved))
        for b in range(d):
            for e in range(d):
                inverse[b * d + e] = work.inverse[b, e]


@inlined
def likelihood_open(par, state, work, n, s, a, x):
    """Before the outcomes, n of them possible, of pair (s, a) in one episode, at context x."""
    if n > 1 and par.kron == 0:
        open_pair(par, state, work, n, s, a, x)


@inlined
def likelihood_visit(par, state, work, n, s, a, y, x, norm):
    """Learn outcome y of the pair that is open; norm = ||x||."""
    if n == 1:  # nothing to learn
        state.samples[s, a] += 1
    elif par.kron == 1:
        kron_visit(par, state, work, n, s, a, y, x, norm)
    else:
        visit(par, state, work, n, s, a, y, x, norm)


@inlined
def likelihood_close(par, state, work, n, s, a, x, visits):
    """After the outcomes, so many."""
    if n > 1 and par.kron == 0:
        close_pair(par, state, work, n, s, a, x, visits)


@kernel
def likelihood_step(par, state, work, count, s, a, y, x, norm):
    """Learn outcome y of pair (s, a), one of count[0], at context x with norm = ||x||."""
    likelihood_open(par, state, work, count[0], s, a, x)
    likelihood_visit(par, state, work, count[0], s, a, y, x, norm)
    likelihood_close(par, state, work, count[0], s, a, x, 1)
