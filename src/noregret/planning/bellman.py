"""Finite-horizon planning over one Bellman operator.

Step h = 0, ..., H-1 in code is step h + 1 of the paper; V[H] = 0. For a model (P, r) of one individual,

    (T_h V)(s, a) = r(s, a) + sum_j P(s, a, j) V(outcome j) + spread(V) xi(s, a) + noise_h(s, a)

clipped to [0, H - h], to [0, H] or not, and everything else composes it: `backward_induction` maximises over the
available actions (optimal values without spread and noise, optimistic values with a width xi, perturbed ones with
noise), `evaluate` follows a given policy. The truth is planned with the same code as the beliefs.

spread(V) turns a width of the transition estimate into a bonus, |<P - P_hat, V>| <= spread(V) xi:

    NONE       0
    SUP        max V              xi bounds the 1-norm; as printed by Modi and Tewari
    HALF_SPAN  (max V - min V)/2  xi bounds the 1-norm: both sum to one, so the midrange may be subtracted
    CENTRED    ||V - mean V||_2   xi bounds the 2-norm, and the bonus is at most max V - min V

P [S, A, M], r, xi [S, A], policy [H, S], V [H+1, S].
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..beliefs.point import CENTRED, HALF_SPAN, SUP
from ..checks import Floats
from ..compiler.jit import inlined, kernel, merged
from ..compiler.slots import EMPTY, filled, slot
from ..numerics.linear_algebra import rows_times
from ..numerics.random import mix
from ..problem.layout import Layout

UNCLIPPED, TO_REST, TO_HORIZON = 0, 1, 2  # how an `Operator` clips values
TIED_WITHIN = 1e-9  # actions whose values differ by less are tied, so that rounding does not choose between them


class Model(NamedTuple):
    """What is planned with: the model of one individual, and by how much it may be better. Arrays only, as in all of
    these: kernels that are called by address get named tuples by reference, one level deep."""

    P: Floats  # [S, A, M]
    r: Floats  # [S, A]
    xi: Floats  # [S, A]
    noise: Floats  # [H, S, A], or [0, 0, 0]: none


class Operator(NamedTuple):
    """Which Bellman operator, and how ties are broken."""

    spread: int  # `beliefs.point`
    clip: int  # UNCLIPPED; TO_REST: to [0, H - h]; TO_HORIZON: to [0, H], as some papers have it
    key: Any  # a word, uint64


class Known(NamedTuple):
    """A model without widths and noise."""

    P: Floats  # [S, A, M]
    r: Floats  # [S, A]


class Hooks(NamedTuple):
    """Kernels of an agent's for `backward_induction_with`, and the episode, which they are told."""

    adjust: Any
    settle: Any  # 0: none
    episode: int


class Solution(NamedTuple):
    """Where the planner writes."""

    Q: Floats  # [S, A], scratch
    policy: NDArray[np.int64]  # [H, S]
    values: Floats  # [H+1, S]


@inlined
def expectation(P, layout, s, a, V):
    """sum_j P(s, a, j) V(outcome j): the Bellman operator's one sum, for one pair."""
    total = 0.0
    if layout.dense == 1:
        for j in range(P.shape[2]):
            total += P[s, a, j] * V[j]
    else:
        for j in range(layout.count[s, a]):
            total += P[s, a, j] * V[np.uint64(layout.outcomes[s, a, j])]  # unsigned: no test for negative indices
    return total


@inlined
def expectations(P, layout, V, EV):
    """The same for all pairs, EV [S, A]; 0 for actions that are not available where supports are not full."""
    if layout.dense == 1:
        rows_times(merged(P), V, merged(EV))
    else:
        for s in range(P.shape[0]):
            for a in range(P.shape[1]):
                EV[s, a] = expectation(P, layout, s, a, V) if layout.available[s, a] else 0.0


@inlined
def spread_of(V, kind):
    """(spread(V), upper limit of the bonus) for one of the kinds above."""
    low, high, total = V[0], V[0], 0.0
    for s in range(V.shape[0]):
        low, high = min(low, V[s]), max(high, V[s])
        total += V[s]
    if kind == SUP:
        return high, math.inf
    if kind == HALF_SPAN:
        return 0.5 * (high - low), high - low
    if kind == CENTRED:
        mean, square = total / V.shape[0], 0.0
        for s in range(V.shape[0]):
            square += (V[s] - mean) * (V[s] - mean)
        return math.sqrt(square), high - low
    return 0.0, 0.0


@inlined
def choose(Q, layout, key, h, policy, V):
    """policy[h], V[h] <- the best available action of every state and its value; ties as `backward_induction` says."""
    S, A = Q.shape
    q, available = merged(Q), merged(layout.available)
    for i in range(S * A):
        q[i] = q[i] if available[i] else -math.inf
    for s in range(S):
        best = Q[s, 0]
        for a in range(1, A):
            best = max(best, Q[s, a])
        least, tied, action = best - TIED_WITHIN, 0, 0
        for a in range(A):
            if Q[s, a] >= least:
                tied += 1
                action = a
        if tied > 1:
            skip = int((mix(key, h * S + s) * np.uint64(tied)) >> np.uint64(32))
            for a in range(A):
                if Q[s, a] >= least:
                    action = a if skip == 0 else action
                    skip -= 1
        V[h, s] = best
        policy[h, s] = action


@kernel
def sparse_induction(layout, model, operator, found):
    """`backward_induction` over the available pairs and their supported next states. Elsewhere Q is not written."""
    P, r, xi, noise = model.P, model.r, model.xi, model.noise
    spread, clip, key = operator.spread, operator.clip, operator.key
    Q, policy, V = found.Q, found.policy, found.values
    (H, S), A, available = policy.shape, r.shape[1], layout.available
    V[H] = 0.0
    for h in range(H - 1, -1, -1):
        scale, limit = spread_of(V[h + 1], spread)
        after, top = V[h + 1], float(H - h) if clip == TO_REST else float(H)
        for s in range(S):
            best, tied, action = -math.inf, 0, 0
            for a in range(A):
                if available[s, a]:
                    q = expectation(P, layout, s, a, after) + r[s, a] + min(scale * xi[s, a], limit)
                    if noise.shape[0] > 0:
                        q += noise[h, s, a]
                    q = min(max(q, 0.0), top) if clip != UNCLIPPED else q
                    Q[s, a] = q
                    best = max(best, q)
            for a in range(A):
                if available[s, a] and Q[s, a] >= best - TIED_WITHIN:
                    tied += 1
                    action = a
            if tied > 1:
                skip = int((mix(key, h * S + s) * np.uint64(tied)) >> np.uint64(32))
                for a in range(A):
                    if available[s, a] and Q[s, a] >= best - TIED_WITHIN:
                        action = a if skip == 0 else action
                        skip -= 1
            V[h, s] = best
            policy[h, s] = action


@kernel
def dense_induction(layout, model, operator, found):
    """`backward_induction` where all pairs may lead everywhere."""
    P, r, xi, noise = model.P, model.r, model.xi, model.noise
    spread, clip, key = operator.spread, operator.clip, operator.key
    Q, policy, V = found.Q, found.policy, found.values
    H, S = policy.shape
    n = S * r.shape[1]
    q, reward, width = merged(Q), merged(r), merged(xi)
    V[H] = 0.0
    for h in range(H - 1, -1, -1):
        scale, limit = spread_of(V[h + 1], spread)
        expectations(P, layout, V[h + 1], Q)
        for i in range(n):
            q[i] += reward[i] + min(scale * width[i], limit)
        if noise.shape[0] > 0:
            extra = merged(noise[h])
            for i in range(n):
                q[i] += extra[i]
        if clip != UNCLIPPED:
            top = float(H - h) if clip == TO_REST else float(H)
            for i in range(n):
                q[i] = min(max(q[i], 0.0), top)
        choose(Q, layout, key, h, policy, V)


@kernel
def backward_induction(layout, model, operator, found):
    """Fill found.policy and found.values by maximising T_h from the last step back.

    Among the actions within TIED_WITHIN of the best one `mix(key, .)` picks: uniformly, independently over (h, s), a
    pure function of the key. values hold the maximum."""
    if layout.dense == 1:
        dense_induction(layout, model, operator, found)
    else:
        sparse_induction(layout, model, operator, found)


def planner_address(layout: Layout) -> Any:
    """Address of `backward_induction` for this layout, for `apply_planner`: one compiled planner serves every agent."""
    f, i = np.zeros, np.zeros((1, 1), np.int64)
    table, cube = f((1, 1)), f((1, 1, 1))
    model, found = Model(cube, table, table, cube), Solution(table, i, table)
    induction = dense_induction if layout.dense == 1 else sparse_induction
    return apply_planner.fill(induction, layout, model, Operator(0, UNCLIPPED, np.uint64(0)), found)


apply_planner = slot("planner")  # (layout, model, operator, found)


call_adjust = slot("adjust")  # the hooks of `backward_induction_with`
call_settle = slot("settle")
call_hooked = slot("hooked planner")  # `backward_induction_with` itself


@kernel
def backward_induction_with(hooks, layout, known, operator, par, state, work, found):
    """The same operator for agents whose bonus depends on V_{h+1} itself: variances, inner maximisations, lower values.

    Two kernels of the agent's, in slots, see every step:

        adjust(par, state, work, k, h, P, V_next [S], Q [S, A])     Q holds r + P V_{h+1}; add the bonus to it
        settle(par, state, work, k, h, P, policy [H, S], V [H+1, S])     after policy[h], V[h]; or EMPTY

    clip and ties as in `backward_induction`, without a spread; k is the episode."""
    adjust, settle, k = hooks.adjust, hooks.settle, hooks.episode
    P, r, clip, key = known.P, known.r, operator.clip, operator.key
    Q, policy, V = found.Q, found.policy, found.values
    H, S = policy.shape
    n = S * r.shape[1]
    q, reward = merged(Q), merged(r)
    V[H] = 0.0
    for h in range(H - 1, -1, -1):
        expectations(P, layout, V[h + 1], Q)
        for i in range(n):
            q[i] += reward[i]
        call_adjust(adjust, (par, state, work, k, h, P, V[h + 1], Q))
        if clip != UNCLIPPED:
            top = float(H - h) if clip == TO_REST else float(H)
            for i in range(n):
                q[i] = min(max(q[i], 0.0), top)
        choose(Q, layout, key, h, policy, V)
        if filled(settle):
            call_settle(settle, (par, state, work, k, h, P, policy, V))


def hook_addresses(adjust: Any, settle: Any, par: Any, state: Any, work: Any) -> tuple[Any, Any]:
    """Slots of the two kernels of `backward_induction_with` for an agent's types; settle may be None."""
    f = np.zeros
    head = par, state, work, 0, 0, f((1, 1, 1))
    first = call_adjust.fill(adjust, *head, f(1), f((1, 1)))
    if settle is None:
        return first, EMPTY
    return first, call_settle.fill(settle, *head, np.zeros((1, 1), np.int64), f((1, 1)))


@inlined
def evaluate(P, layout, r, policy, V):
    """V [H+1, S] <- exact values of `policy` in the model (P, r)."""
    H, S = policy.shape
    V[H] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            a = policy[h, s]
            V[h, s] = r[s, a] + expectation(P, layout, s, a, V[h + 1])
