"""Finite-horizon planning over one Bellman operator.

Step h = 0, ..., H-1 in code is step h + 1 of the paper; V[H] = 0. For a model (P, r) of one individual,

    (T_h V)(s, a) = r(s, a) + sum_j P(s, a, j) V(outcome j) + spread(V) xi(s, a) + noise_h(s, a)

clipped to [0, H - h] or not, and everything else composes it: `backward_induction` maximises over the available actions
(optimal values without spread and noise, optimistic values with a width xi, perturbed ones with noise), `evaluate`
follows a given policy. The truth is planned with the same code as the beliefs.

spread(V) turns a width of the transition estimate into a bonus, |<P - P_hat, V>| <= spread(V) xi:

    NONE       0
    SUP        max V              xi bounds the 1-norm; as printed by Modi and Tewari
    HALF_SPAN  (max V - min V)/2  xi bounds the 1-norm: both sum to one, so the midrange may be subtracted
    CENTRED    ||V - mean V||_2   xi bounds the 2-norm, and the bonus is at most max V - min V

P [S, A, M], r, xi [S, A], policy [H, S], V [H+1, S].
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._checks import Floats
from ._jit import address, caller, inlined, invoke, kernel, merged
from ._linear_algebra import rows_times
from ._random import mix
from .problem import Layout, Problem

NONE, SUP, HALF_SPAN, CENTRED = 0, 1, 2, 3
TIE = 1e-9  # actions whose values differ by less are tied, so that rounding does not choose between them


@dataclass(frozen=True)
class Plan:
    """A policy for one individual and what the planner believed of it.

    policy [H, S]; values [H+1, S] as the planner computed them (upper bounds for optimistic agents, perturbed values
    for randomised ones, exact values for `World.optimal`). upper and lower [H+1, S] bound the optimal value and the
    policy's own value with the agent's probability, None where the agent claims no such thing; certificate bounds the
    policy's shortfall from optimal in any initial state the problem allows, likewise: the largest upper - lower at
    step 0. problem says which names states and actions have, for `print(plan)`; None: numbers.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> x = world.context(seed=0, episode=0)
    >>> plan = nr.LRORL(world.problem).begin_episode(x)
    >>> plan.policy.shape, plan.values.shape
    ((6, 4), (7, 4))
    >>> bool((plan.lower <= plan.upper).all())
    True
    >>> best = world.optimal(x)  # a plan as well, with exact values
    >>> round(float(best.values[0, 2]), 2), best.certificate is None
    (4.61, True)
    >>> print(best)  # what to do at each step in each state
    step  remission  mild    moderate  severe
    0     wait       drug B  drug B    drug B
    1     wait       drug B  drug B    drug B
    2     wait       drug B  drug B    drug B
    3     wait       drug B  drug B    drug B
    4     wait       drug B  drug B    drug B
    5     wait       wait    wait      drug B
    """

    policy: NDArray[np.int64]
    values: Floats
    upper: Floats | None = None
    lower: Floats | None = None
    certificate: float | None = None
    problem: Problem | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        (H, S), p = self.policy.shape, self.problem
        states = p.state_names if p is not None and p.state_names else tuple(f"state {s}" for s in range(S))
        actions = p.action_names if p is not None and p.action_names else None
        done = [[str(h), *(str(a) if actions is None else actions[a] for a in self.policy[h])] for h in range(H)]
        rows = [["step", *states], *done]
        wide = [max(len(row[j]) for row in rows) for j in range(S + 1)]
        lines = ["  ".join(f"{cell:{n}}" for cell, n in zip(row, wide, strict=True)).rstrip() for row in rows]
        if self.certificate is not None:
            lines.append(f"at most {self.certificate:.3g} short of optimal")
        return "\n".join(lines)


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
        least, tied, action = best - TIE, 0, 0
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
def sparse_induction(P, layout, r, xi, noise, spread, clip, key, Q, policy, V):
    """`backward_induction` over the available pairs and their supported next states; V[H] is 0 already. Elsewhere Q is
    not written."""
    (H, S), A, available = policy.shape, r.shape[1], layout.available
    for h in range(H - 1, -1, -1):
        scale, limit = spread_of(V[h + 1], spread)
        after = V[h + 1]
        for s in range(S):
            best, tied, action = -math.inf, 0, 0
            for a in range(A):
                if available[s, a]:
                    q = expectation(P, layout, s, a, after) + r[s, a] + min(scale * xi[s, a], limit)
                    if noise.shape[0] > 0:
                        q += noise[h, s, a]
                    q = min(max(q, 0.0), float(H - h)) if clip == 1 else q
                    Q[s, a] = q
                    best = max(best, q)
            for a in range(A):
                if available[s, a] and Q[s, a] >= best - TIE:
                    tied += 1
                    action = a
            if tied > 1:
                skip = int((mix(key, h * S + s) * np.uint64(tied)) >> np.uint64(32))
                for a in range(A):
                    if available[s, a] and Q[s, a] >= best - TIE:
                        action = a if skip == 0 else action
                        skip -= 1
            V[h, s] = best
            policy[h, s] = action


@kernel
def backward_induction(P, layout, r, xi, noise, spread, clip, key, Q, policy, V):
    """Fill policy and V by maximising T_h from the last step back.

    noise [H, S, A], or [0, 0, 0] for none; Q [S, A] is scratch. Among the actions within TIE of the best one
    `mix(key, .)` picks: uniformly, independently over (h, s), a pure function of the key. V holds the maximum."""
    H, S = policy.shape
    n = S * r.shape[1]
    q, reward, width = merged(Q), merged(r), merged(xi)
    for s in range(S):
        V[H, s] = 0.0
    if layout.dense == 0:
        sparse_induction(P, layout, r, xi, noise, spread, clip, key, Q, policy, V)
        return
    for h in range(H - 1, -1, -1):
        scale, limit = spread_of(V[h + 1], spread)
        expectations(P, layout, V[h + 1], Q)
        for i in range(n):
            q[i] += reward[i] + min(scale * width[i], limit)
        if noise.shape[0] > 0:
            extra = merged(noise[h])
            for i in range(n):
                q[i] += extra[i]
        if clip == 1:
            for i in range(n):
                q[i] = min(max(q[i], 0.0), float(H - h))
        choose(Q, layout, key, h, policy, V)


def planner_address(layout: Layout) -> Any:
    """Address of `backward_induction`, for `apply_planner`: one compiled planner serves every agent."""
    f, i = np.zeros, np.zeros((1, 1), np.int64)
    table, cube = f((1, 1)), f((1, 1, 1))
    return address(backward_induction, cube, layout, table, table, cube, 0, 0, np.uint64(0), table, i, table)


apply_planner = caller()


@kernel
def backward_induction_with(adjust, settle, P, layout, r, clip, key, par, state, work, k, Q, policy, V):
    """The same operator for agents whose bonus depends on V_{h+1} itself: variances, inner maximisations, lower values.

    Two kernels of the agent's, by address, see every step:

        adjust(par, state, work, k, h, P, V_next [S], Q [S, A])     Q holds r + P V_{h+1}; add the bonus to it
        settle(par, state, work, k, h, P, policy [H, S], V [H+1, S])     after policy[h] and V[h] were chosen; 0: none

    clip and ties as in `backward_induction`; k is the episode."""
    H, S = policy.shape
    n = S * r.shape[1]
    q, reward = merged(Q), merged(r)
    for s in range(S):
        V[H, s] = 0.0
    for h in range(H - 1, -1, -1):
        expectations(P, layout, V[h + 1], Q)
        for i in range(n):
            q[i] += reward[i]
        invoke(adjust, (par, state, work, k, h, P, V[h + 1], Q))
        if clip == 1:
            for i in range(n):
                q[i] = min(max(q[i], 0.0), float(H - h))
        choose(Q, layout, key, h, policy, V)
        if settle != 0:
            invoke(settle, (par, state, work, k, h, P, policy, V))


def hook_addresses(adjust: Any, settle: Any, par: Any, state: Any, work: Any) -> tuple[Any, Any]:
    """Addresses of the two kernels of `backward_induction_with` for an agent's types; settle may be None."""
    f = np.zeros
    head = par, state, work, 0, 0, f((1, 1, 1))
    first = address(adjust, *head, f(1), f((1, 1)))
    return first, 0 if settle is None else address(settle, *head, np.zeros((1, 1), np.int64), f((1, 1)))


@inlined
def evaluate(P, layout, r, policy, V):
    """V [H+1, S] <- exact values of `policy` in the model (P, r)."""
    H, S = policy.shape
    for s in range(S):
        V[H, s] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            a = policy[h, s]
            V[h, s] = r[s, a] + expectation(P, layout, s, a, V[h + 1])
