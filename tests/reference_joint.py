"""What is left of a value after second order, or third, pair by pair and with plain loops, from docs/joint.md (sections
3 to 6) alone, for the first of some contexts. Imports nothing of the library; rows are those of `beliefs.displaced`."""

import itertools

import numpy as np


def symmetric(T):
    return sum(T.transpose(axes) for axes in itertools.permutations(range(3))) / 6.0


def norm(w, groups):
    return sum(np.linalg.norm(w[a:b]) for a, b in groups)


def absolute(A, positive=False):
    """|A|, or A_+."""
    values, vectors = np.linalg.eigh(A)
    sizes = np.maximum(values, 0.0) if positive else np.abs(values)
    return sum(size * np.outer(w, w) for size, w in zip(sizes, vectors.T, strict=True))


def steep(X, groups):
    """(sum_j X_j^2)^{1/2} is V diag(s) V' where the X_j one below the other are U diag(s) V'."""
    total = np.zeros(X[0].shape)
    for a, b in groups:
        _, s, V = np.linalg.svd(np.concatenate([X[j] for j in range(a, b)]), full_matrices=False)
        total = total + (V.T * s) @ V
    return total


def orders_of(made, rows, means, paying, policy):
    """V, D, E, F [H+1, S, ...] of the first context in the coordinates y: docs/joint.md, section 3."""
    (H, S), R = policy.shape, rows.roots[0]
    m = len(R)
    V, D, E, F = (np.zeros((H + 1, S) + (m,) * i) for i in range(4))
    for h, s in itertools.product(range(H - 1, -1, -1), range(S)):
        a = policy[h, s]
        n = made.layout.count[s, a]
        V[h, s], D[h, s] = means[0, s, a], R @ paying[s, a]
        after, p = made.layout.outcomes[s, a, :n], rows.P[0, s, a, :n]
        c = [R @ rows.centred[0, s, a, k] for k in range(n)]
        v, w = V[h + 1, after] - p @ V[h + 1, after], D[h + 1, after] - p @ D[h + 1, after]
        cov, square = sum(p[k] * v[k] * c[k] for k in range(n)), sum(p[k] * np.outer(c[k], c[k]) for k in range(n))
        D[h, s] += cov
        F[h, s] -= 3.0 * symmetric(np.multiply.outer(cov, square))
        for k in range(n):
            to, two = after[k], np.outer(c[k], c[k])
            V[h, s] += p[k] * V[h + 1, to]
            D[h, s] += p[k] * D[h + 1, to]
            E[h, s] += p[k] * (E[h + 1, to] + np.outer(w[k], c[k]) + np.outer(c[k], w[k]) + v[k] * two)
            F[h, s] += p[k] * (F[h + 1, to] + 3.0 * symmetric(np.multiply.outer(c[k], E[h + 1, to])))
            F[h, s] += p[k] * symmetric(np.multiply.outer(3.0 * w[k] + v[k] * c[k], two))
    return V, D, E, F


def least(*made):
    return min(made, key=np.trace)


def step_back(made, rows, s, a, later, W, finer, groups, cubic):
    """(W, the finer W) at one pair of the first context: q + carried. later: V+, D+, E+, F+."""
    V, D, E, F = later
    n = made.layout.count[s, a]
    at, after = (0, s, a, slice(0, n)), made.layout.outcomes[s, a, :n]
    p, away, off, most, span = rows.P[at], rows.away[at], rows.off[at], rows.most[at], rows.span[0, s, a]
    J1, J2, J3 = (moment[at] for moment in rows.moments)
    c = [rows.roots[0] @ rows.centred[0, s, a, k] for k in range(n)]

    def top(weights):
        return np.linalg.svd(np.array([np.sqrt(weights[k]) * c[k] for k in range(n)]))[1][0] ** 2

    L = top(J1)
    v, v_span = np.abs(V[after] - p @ V[after]), np.ptp(V[after])
    w = np.array([norm(D[k] - p @ D[after], groups) for k in after])
    w_span = max(norm(D[j] - D[k], groups) for j in after for k in after)
    cov = norm(sum(p[k] * (V[after[k]] - p @ V[after]) * c[k] for k in range(n)), groups)
    turned = sum(p[k] * np.outer(D[after[k]] - p @ D[after], c[k]) for k in range(n))
    w1 = min(p @ (w * away), sum(np.linalg.svd(turned[a:b])[1][0] for a, b in groups))
    v2, v3, w2 = top(p * v), top(p * v * away), top(p * w)

    def outer(weights):
        return sum(weights[k] * np.outer(c[k], c[k]) for k in range(n))

    def steep_of(A):
        mean = sum(p[k] * A[after[k]] for k in range(n))
        return steep([sum(p[k] * c[k][j] * (A[after[k]] - mean) for k in range(n)) for j in range(len(A[0]))], groups)

    def bent(A, positive):
        mean = sum(p[k] * A[after[k]] for k in range(n))
        middle, total = A.mean(0), 0.0
        for k in range(n):
            size = absolute(A[after[k]] - middle, positive) + absolute(middle - mean, positive)
            total = total + J1[k] * away[k] ** 2 * size
        return total

    def far(A):
        return sum(off[k] * absolute(A[after[k]] - A.mean(0)) for k in range(n))

    def carried(A):
        mean = sum(p[k] * A[after[k]] for k in range(n))
        ways = [mean + far(A), sum(most[k] * A[after[k]] for k in range(n))]
        return least(*ways, *([mean + steep_of(A) + bent(A, True)] if cubic else []))

    q = least(outer(v_span * span * J2), outer(v * away * J2 + (cov + 0.5 * v2) * J1))
    q = q + least(outer(w_span * J1), outer((w + w1) * J1))
    q = q + 0.5 * least(far(E), *([steep_of(E) + bent(E, False)] if cubic else []))
    if not cubic:
        return q + carried(W), None
    q3 = outer(v * away**2 * J3 + cov * (away * J2 + 0.5 * top(p) * J1) + (0.5 * v2 + v3 / 6.0) * J1)
    q3 = q3 + least(outer(w_span * span * J2), outer(w * away * J2 + (w1 + 0.5 * w2) * J1))
    q3 = q3 + 0.5 * (min(L, 1.0) * steep_of(E) + bent(E, False))
    q3 = q3 + sum(off[k] * steep(F[after[k]] - F.mean(0), groups) for k in range(n)) / 6.0
    return q + carried(W), q3 + carried(finer)


def rest(made, rows, groups, means, paying, start, policies, cubic):
    """(after second order, after third with the third derivative, or None) for the first context, of a policy or of the
    difference of two: docs/joint.md, sections 3 to 6, pair by pair."""
    (H, S), m = policies[0].shape, rows.roots.shape[-1]
    orders = [orders_of(made, rows, means, paying, policy) for policy in policies]
    ways = range(len(policies))
    W, finer = np.zeros((2, 3, H + 1, S, m, m))  # the third: of the difference
    for h, s in itertools.product(range(H - 1, -1, -1), range(S)):
        for i in ways:
            later = [part[h + 1] for part in orders[i]]
            found = step_back(made, rows, s, policies[i][h, s], later, W[i, h + 1], finer[i, h + 1], groups, cubic)
            W[i, h, s], finer[i, h, s] = found[0], found[1] if cubic else 0.0
        if len(ways) == 2 and policies[0][h, s] == policies[1][h, s]:
            later = [first[h + 1] - second[h + 1] for first, second in zip(*orders, strict=True)]
            found = step_back(made, rows, s, policies[0][h, s], later, W[2, h + 1], finer[2, h + 1], groups, cubic)
            W[2, h, s], finer[2, h, s] = found[0], found[1] if cubic else 0.0
        elif len(ways) == 2:
            W[2, h, s], finer[2, h, s] = W[0, h, s] + W[1, h, s], finer[0, h, s] + finer[1, h, s]
    which = 2 if len(ways) == 2 else 0
    F = orders[0][3][0] - (orders[1][3][0] if which else 0.0)
    coarse, fine = (sum(start[s] * part[which, 0, s] for s in range(S)) for part in (W, finer))
    return coarse, fine + steep(sum(start[s] * F[s] for s in range(S)), groups) / 6.0 if cubic else None
