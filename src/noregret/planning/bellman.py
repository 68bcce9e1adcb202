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
from ..problem.problem import Problem
from ..storage.text import aligned, shortened
from .explained import BelievedShortfall, Explanation

TIED_WITHIN = 1e-9  # actions whose values differ by less are tied, so that rounding does not choose between them
MOST_STEPS, MOST_STATES = 12, 8  # shown of a plan
ALL = 0.95  # of the horizon: a certificate above says nothing that was not known before any data


@dataclass(frozen=True, repr=False)
class Plan:
    """A policy for one individual and what the planner believed of it.

    policy [H, S]; values [H+1, S] as the planner computed them (upper bounds for optimistic agents, perturbed values
    for randomised ones, exact values for `World.optimal`). upper and lower [H+1, S] bound the optimal value and the
    policy's own value with the agent's probability, None where the agent claims no such thing; certificate bounds the
    policy's shortfall from optimal in any initial state the problem allows, likewise: at most the largest upper - lower
    at step 0. problem says which names states and actions have (None: numbers).

    Of an agent that draws its plan from several, or has a floor (`agents.lottery`): plans [N, H, S] and floor are what
    the policy was drawn from, `chances` with which probabilities; bounds and certificate are then about the draw, the
    mean over plans. plans is None of any other agent. randomised [H, S, A]: of `agent.certify`, the probabilities that
    were asked about; policy is then the likeliest action.

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
    >>> best  # what to do at each step in each state
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
    problem: Problem | None = field(default=None, compare=False)
    plans: NDArray[np.int64] | None = None
    floor: float = 0.0
    randomised: Floats | None = None
    mask: NDArray[np.bool_] | None = field(default=None, compare=False)
    _asks = None  # who answers `why` and `belief`: the agent that made the plan (`agents.explaining`)

    def table(self) -> list[dict[str, Any]]:
        """A row per step and state, for a data frame: step, state, action, value, lower, upper (None where there are no
        bounds), states and actions by their names.

        >>> import noregret as nr
        >>> world = nr.worlds.clinic()
        >>> plan = nr.LRORL(world.problem).begin_episode(world.context(seed=0, episode=0))
        >>> rows = plan.table()
        >>> len(rows), list(rows[0])
        (24, ['step', 'state', 'action', 'value', 'lower', 'upper'])
        >>> rows[0]["state"], rows[0]["action"]
        ('remission', 'wait')
        """
        (H, S), p = self.policy.shape, self.problem
        states = p.state_names if p is not None and p.state_names else range(S)
        actions: Any = p.action_names if p is not None and p.action_names else None

        def at(values: Floats | None, h: int, s: int) -> float | None:
            return None if values is None else float(values[h, s])

        return [
            {
                "step": h, "state": states[s], "action": actions[a] if actions else a,
                "value": float(self.values[h, s]), "lower": at(self.lower, h, s), "upper": at(self.upper, h, s),
            }
            for h in range(H) for s in range(S) for a in [int(self.policy[h, s])]
        ]  # fmt: skip

    def figure(self, path: Any, within: float | None = None, title: str | None = None) -> None:
        """Draw the plan: steps across, states down, a colour per action; a dot where it is proved that the plan falls
        short by at most `within` from there on (None: a tenth of what can be gained in the steps left). path: .png,
        .svg or .pdf. As `noregret.report.plan_figure`."""
        if not _PAINTER:
            raise RuntimeError("figure: import noregret, which knows how plans are drawn")
        _PAINTER[0](self, path, within, title)

    def why(self, state: Any, step: int = 0, draws: int = 200, baseline: Any = None) -> Explanation:
        """Why the plan says what it says in a state: every action's value with bounds and belief, the probability of
        being the best, and what each entry of the context does to the decision (`Explanation`).

        draws     models drawn from the posterior; baseline [d]: what entries of the context are set to, 0 by default
                  (the means of a population, say)

        Only of plans that an agent made, and until it learns again: a RuntimeError then."""
        return self._asked("why").why(self, state, step, draws, baseline)  # type: ignore[no-any-return]

    def belief(self, draws: int = 200, state: Any = None) -> BelievedShortfall:
        """How far the plan is believed to fall short of optimal: mean and 95% quantile over so many models drawn from
        the posterior, in the worst initial state or in the one given. Believed, not proved; as long as for `why`."""
        return self._asked("belief").belief(self, draws, state)  # type: ignore[no-any-return]

    def _asked(self, verb: str) -> Any:
        if self._asks is None:
            raise RuntimeError(f"{verb}: this plan has no agent to ask, it was made without one, copied or changed")
        return self._asks

    @property
    def chances(self) -> Floats:
        """Probabilities [H, S, A] of the actions: 1 of the policy's own, or those of the draw before the first step.
        What was done at one step changes those of the next, so the product over steps is not the chance of a path
        (`agent.action_probabilities`)."""
        if self.randomised is not None:
            return self.randomised.copy()
        if self.problem is None:
            raise ValueError("chances needs a plan with a problem, which knows the actions")
        given = self.policy[None] if self.plans is None else self.plans
        may, (N, H, S) = self.problem.layout.available if self.mask is None else self.mask, given.shape
        made = np.tile(self.floor * may / may.sum(1, keepdims=True), (H, 1, 1))
        h, s = np.ogrid[:H, :S]
        for policy in given:
            made[h, s, policy] += (1.0 - self.floor) / N
        return made

    def __repr__(self) -> str:
        """A row per step, a column per state; the middle of a large plan is left out."""
        (H, S), p = self.policy.shape, self.problem
        states = p.state_names if p is not None and p.state_names else tuple(f"state {s}" for s in range(S))
        actions = p.action_names if p is not None and p.action_names else None
        steps, shown = shortened(range(H), MOST_STEPS), shortened(range(S), MOST_STATES)

        def done(h: int, s: int) -> str:
            a = int(self.policy[h, s])
            return str(a) if actions is None else actions[a]

        head = ["step", *("..." if s is None else states[s] for s in shown)]
        rows = [
            ["..."] * len(head) if h is None else [str(h), *("..." if s is None else done(h, s) for s in shown)]
            for h in steps
        ]
        table = aligned([head, *rows])
        if None in steps or None in shown:
            table += f"\n[{H} steps, {S} states]"
        if self.certificate is None:
            return table
        if self.certificate > ALL * H * (1.0 if p is None else p.scale.unit):
            return f"{table}\nat most {self.certificate:.3g} short of optimal, which says nothing yet"
        return f"{table}\nat most {self.certificate:.3g} short of optimal"


_PAINTER: list[Any] = []  # pictures are made in a room that comes later; whoever puts rooms together says how


def drawn_with(figure: Any) -> None:
    """figure(plan, path, within, title) draws plans from now on."""
    _PAINTER[:] = [figure]


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
    clip: int  # 1: to [0, H - h]
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
    for s in range(S):
        V[H, s] = 0.0
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
    for s in range(S):
        V[H, s] = 0.0
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
    return apply_planner.fill(induction, layout, model, Operator(0, 0, np.uint64(0)), found)


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
    for s in range(S):
        V[H, s] = 0.0
    for h in range(H - 1, -1, -1):
        expectations(P, layout, V[h + 1], Q)
        for i in range(n):
            q[i] += reward[i]
        call_adjust(adjust, (par, state, work, k, h, P, V[h + 1], Q))
        if clip == 1:
            for i in range(n):
                q[i] = min(max(q[i], 0.0), float(H - h))
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
    for s in range(S):
        V[H, s] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            a = policy[h, s]
            V[h, s] = r[s, a] + expectation(P, layout, s, a, V[h + 1])
