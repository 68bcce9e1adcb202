"""The Bellman operator along policies that draw their actions, chances [H, S, A]: values, bounds, shortfalls.

For a policy pi(a | h, s), chosen before the episode, one backup is the mean over actions of the backups of
`planning.bellman` and `planning.optimism`,

    V_h(s) = sum_a pi(a) ( r(s, a) + P_a V_{h+1} ),
    U_h(s) = sum_a pi(a) clip( high_a + P_a U_{h+1} + b_a(U_{h+1}), 0, H - h ),        L_h(s) likewise from below.

A policy without a draw is the case pi(a) = 1. docs/beyond.md, section 7, has the proofs."""

from ..compiler.jit import inlined, kernel
from .bellman import expectation
from .bonuses import first_matters, least_of, low_and_high
from .optimism import bonus, exactly, first_orders, highest_mean, together


@inlined
def floored(layout, policy, floor, chances):
    """chances [H, S, A] <- those of a policy [H, S] where, with chance `floor`, an available action is taken at random
    instead."""
    H, S, A = chances.shape
    for s in range(S):
        n = 0
        for a in range(A):
            n += int(layout.available[s, a])
        for h in range(H):
            for a in range(A):
                chances[h, s, a] = floor / n if layout.available[s, a] else 0.0
            chances[h, s, policy[h, s]] += 1.0 - floor


@inlined
def evaluate_chances(P, layout, r, chances, V):
    """V [H+1, S] <- exact values of a randomised policy in the model (P, r)."""
    H, S, A = chances.shape
    V[H] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            total = 0.0
            for a in range(A):
                if chances[h, s, a] > 0.0:
                    total += chances[h, s, a] * (r[s, a] + expectation(P, layout, s, a, V[h + 1]))
            V[h, s] = total


@inlined
def bound_chances(par, local, work, chances, sign, reward, each, out):
    """out [H+1, S] <- upper bounds, sign 1.0, or lower ones, -1.0, on the values of a randomised policy; each
    [H, S, A] <- those of its actions, 0 where it takes none."""
    (H, S, A), shared = chances.shape, together(par, local)
    matters = shared and first_matters(par, local, work)
    out[H] = 0.0
    for h in range(H - 1, -1, -1):
        V = out[h + 1]
        low, high = low_and_high(V)
        if sign < 0.0:
            low, high = -high, -low
        if matters:
            first_orders(par, local, V, work)
        for s in range(S):
            total = 0.0
            for a in range(A):
                each[h, s, a] = 0.0
                if chances[h, s, a] > 0.0:
                    mean = expectation(local.P, par.layout, s, a, V)
                    if shared:
                        b = least_of(local, s, a, work.first[s, a], sign * mean, low, high)
                    else:
                        b = bonus(par, local, s, a, V, sign, work)
                    each[h, s, a] = min(max(reward[s, a] + mean + sign * b, 0.0), float(H - h))
                    total += chances[h, s, a] * each[h, s, a]
            out[h, s] = total


@kernel
def bound_randomised(par, local, work, chances, each, upper, lower):
    """upper, lower [H+1, S] <- bounds on the values of a randomised policy; each [H, S, A] <- the lower ones of its
    actions, which `shortfall_randomised` needs."""
    bound_chances(par, local, work, chances, 1.0, local.high, each, upper)
    bound_chances(par, local, work, chances, -1.0, local.low, each, lower)


@kernel
def shortfall_randomised(par, local, work, chances, known, short):
    """short [H+1, S] <- an upper bound on V* - V^pi of a randomised policy: `optimism.shortfall`
    with a mean over its actions. known: each, top, upper, lower, from `bound_randomised` and, top [H+1, S] and
    work.kept, from `optimism.optimum` with all of the bonus. With l_b the lower value of action b in `each`,

        C_h(s) = max over a of  pi(a) P+_a C  +  sum over b != a of pi(b) ( B_a - l_b ),
        B_a = min( Q~_h(s, a), high_a + P+_a min(V~, U + C) ),

    within [0, V~_h - L_h]: if a is an optimal action, whoever takes it loses what the next step loses, and whoever
    takes b instead at most B_a - l_b."""
    (H, S, A), ahead, (each, top, upper, lower) = chances.shape, work.ahead, known
    short[H] = 0.0
    for h in range(H - 1, -1, -1):
        C, smaller = short[h + 1], False
        for s in range(S):
            ahead[s] = min(top[h + 1, s], upper[h + 1, s] + C[s])
            smaller = smaller or ahead[s] < top[h + 1, s]
        for s in range(S):
            least, own = 0.0, 0.0
            for a in range(A):
                own += chances[h, s, a] * each[h, s, a]
            for a in range(A):
                if not par.layout.available[s, a]:
                    continue
                share, best = chances[h, s, a], 0.0
                if share < 1.0:
                    best = exactly(par, local, work, h, s, a, top[h + 1])
                if share < 1.0 and smaller:
                    best = min(best, local.high[s, a] + highest_mean(par, local, s, a, ahead, work))
                lost = (1.0 - share) * best - (own - share * each[h, s, a])
                if share > 0.0:
                    lost += share * min(max(highest_mean(par, local, s, a, C, work), 0.0), float(H - h))
                least = max(least, lost)
            short[h, s] = min(least, max(top[h, s] - lower[h, s], 0.0))
