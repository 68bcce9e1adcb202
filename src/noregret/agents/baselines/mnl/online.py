"""Estimates of a block from its last step alone: an online Newton step, or online mirror descent.

    newton    A <- A + kappa/2 sum phi_j phi_j',  theta <- argmin 1/2 ||theta - theta_t||^2_A + <theta, g>
    descent   theta <- argmin 1/(2 eta) ||theta - theta_t||^2_{A + eta H(theta_t)} + <theta, g>,  A <- A + H(theta)

over the ball of the block, g = sum (p_j - 1[j = y]) phi_j and H(theta) = sum p_j phibar_j phibar_j' the gradient and
Hessian of the step's loss, phibar_j = phi_j - sum p_i phi_i: Cho et al. (2024), (2), (3), (5) and (6); the second also
Li et al. (2024). Rows phi_j stand for phi_j (x) x. O(n (Q d)^2) per step, n next states; where the minimum is
outside the ball it is projected, which takes a few Cholesky factors.
"""

from ....compiler.jit import inlined, kernel
from ....numerics.linear_algebra import OFTEN, apply_refresh, dot, norm_of, project_on_ball, refresh_due, times
from ....problem.layout import slot_of
from .family import collapse, mean_feature, probabilities


@inlined
def write_row(phi, mean, x, row):
    """row [Q d] <- (phi - mean) (x) x."""
    d = x.shape[0]
    for i in range(phi.shape[0]):
        for e in range(d):
            row[i * d + e] = (phi[i] - mean[i]) * x[e]


@inlined
def shrink(inverse, row, weight, zx):
    """inverse <- (inverse^-1 + weight row row')^-1; zx [Q d]: scratch."""
    times(inverse, row, zx)
    scale = weight / (1.0 + weight * dot(row, zx))
    for i in range(row.shape[0]):
        c = scale * zx[i]
        for j in range(row.shape[0]):
            inverse[i, j] -= c * zx[j]


@inlined
def extend(gram, row, weight):
    for i in range(row.shape[0]):
        c = weight * row[i]
        for j in range(row.shape[0]):
            gram[i, j] += c * row[j]


@inlined
def counted(par, state, work, b):
    """Count a step of block b, and invert its matrix directly if that is due."""
    state.samples[b] += 1
    n = state.samples[b]
    if n % OFTEN == 0 and refresh_due(state.gram[b], state.inverse[b], n, par.outcomes):
        args = state.gram[b], state.inverse[b], work.logdet, 0.0, work.matrices[0], work.vectors[0]
        apply_refresh(par.refresh, args)


@inlined
def gradient(phi, p, count, y, x, work, g):
    """g [Q d] <- sum (p_j - 1[j = y]) phi_j (x) x."""
    mean_feature(phi, p, count, work.q[0])
    for i in range(work.q.shape[1]):
        work.q[1, i] = phi[y, i]
    write_row(work.q[0], work.q[1], x, g)


@inlined
def moved(inverse, g, scale, theta, zx):
    """theta <- theta - scale inverse g."""
    times(inverse, g, zx)
    for i in range(theta.shape[0]):
        theta[i] -= scale * zx[i]


@inlined
def next_step(par, path, h):
    """(block, number of next states, slot of the one that came) of step h."""
    s, a = path.states[h], path.actions[h]
    return par.block[s, a], par.layout.count[s, a], slot_of(par.layout, s, a, path.states[h + 1])


@kernel
def newton_steps(par, state, work, x, k, n, path):
    g, row, zx = work.vectors[0], work.vectors[1], work.vectors[2]
    for h in range(n):
        b, count, y = next_step(par, path, h)
        phi, theta = par.features[path.states[h], path.actions[h]], state.theta[b]
        if count < 2:
            continue
        collapse(theta, x, work.q[0])
        probabilities(phi, work.q[0], count, work.z)
        gradient(phi, work.z, count, y, x, work, g)
        work.q[0] = 0.0
        for j in range(count - 1):  # the last row is 0
            write_row(phi[j], work.q[0], x, row)
            shrink(state.inverse[b], row, 0.5 * par.kappa[b], zx)
            extend(state.gram[b], row, 0.5 * par.kappa[b])
        moved(state.inverse[b], g, 1.0, theta, zx)
        if norm_of(theta) > par.bound[b]:
            project_on_ball(state.gram[b], par.bound[b], theta, work.matrices[0], row, zx)
        counted(par, state, work, b)


@inlined
def centred_rows(phi, theta, x, count, work):
    """work.z <- p, work.rows [j] <- phibar_j (x) x."""
    collapse(theta, x, work.q[0])
    probabilities(phi, work.q[0], count, work.z)
    mean_feature(phi, work.z, count, work.q[0])
    for j in range(count):
        write_row(phi[j], work.q[0], x, work.rows[j])


@kernel
def descent_steps(par, state, work, x, k, n, path):
    g, target, zx, trial, gram = work.vectors[0], work.vectors[1], work.vectors[2], work.matrices[1], work.matrices[2]
    for h in range(n):
        b, count, y = next_step(par, path, h)
        phi, theta, eta = par.features[path.states[h], path.actions[h]], state.theta[b], par.step[b]
        if count < 2:
            continue
        centred_rows(phi, theta, x, count, work)
        gradient(phi, work.z, count, y, x, work, g)
        for i in range(g.shape[0]):
            for j in range(g.shape[0]):
                trial[i, j] = state.inverse[b, i, j]
        for j in range(count):
            shrink(trial, work.rows[j], eta * work.z[j], zx)
        moved(trial, g, eta, theta, zx)
        if norm_of(theta) > par.bound[b]:
            for i in range(g.shape[0]):
                for j in range(g.shape[0]):
                    gram[i, j] = state.gram[b, i, j]
            for j in range(count):
                extend(gram, work.rows[j], eta * work.z[j])
            project_on_ball(gram, par.bound[b], theta, work.matrices[0], target, zx)
        centred_rows(phi, theta, x, count, work)
        for j in range(count):
            shrink(state.inverse[b], work.rows[j], work.z[j], zx)
            extend(state.gram[b], work.rows[j], work.z[j])
        counted(par, state, work, b)
