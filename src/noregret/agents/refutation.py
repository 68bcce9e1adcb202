"""Tests of what an agent assumes, along the way: too small a bound, or a wrong model, must not stay unnoticed.

`bet_on_returns` bets, with every episode that is learned, on returns above what the agent's upper values U [H+1, S]
allow. Wherever the sets hold U_h(s) >= r(s, a) + sum_y P(y|s, a) U_{h+1}(y) for every available action, so whoever
chose it

    D_h = r_h + U_{h+1}(s_{h+1}) - U_h(s_h)        has conditional mean at most 0,

D_h >= -U_h(s_h), and prod_h (1 + c D_h/U_h(s_h)) is a nonnegative supermartingale for every c in [0, 1): the wealth of
somebody who bets the share c each time. The mean over five c reaches 1/alpha with probability at most alpha as long as
all upper values were valid (Ville's inequality). A reward that was not seen counts as 0, which can only lower D.

`TESTS` is the one place where tests are registered, each a function from an agent to a sentence or None. `examine` asks
them; `due` says after how many individuals: in `simulate` and in the verbs after the same ones, so that both do the
same. Sets that are empty, or do not meet the ball of their bound (`estimators.outside`), are others: they are wrong
with the probability the sets have already paid for. And agents with online sets bet against their model
(`estimators.audit`, kept in their state). Proofs: docs/bounds.md, docs/evidence-model.md.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..checks import Floats
from ..compiler.jit import strict
from ..estimators.audit import KINDS, mixed, reward_logs, transition_logs
from ..estimators.outside import block_sets_outside, reward_sets_outside, transition_sets_outside

SIZE = 8  # numbers that the test keeps
BETS = (0.8, 0.4, 0.2, 0.1, 0.05)  # shares c; evidence[0:5] is their log-wealth,
HIGHEST, MET, RAISED = 5, 6, 7  # then the largest logarithm of the mean, individuals, and those met when it was reached
SHARE = 0.01  # alpha, of delta: with the sets' own share, and the next, a right model is refuted with at most delta
MODEL_SHARE = 0.01  # of delta, for the bets against the model: half of it on next states, half on rewards
SLACK = 1e-9  # a bet's loss, for rounding in the upper values
LEAST_UPPER = 1e-6  # smaller upper values count as this
OFTEN, GROWTH = 10, 1.1  # a look after each of the first individuals, then each time their number has grown by a tenth


@strict
def bet_on_returns(evidence, upper, n, path):
    """evidence [8] <- after an episode of n steps for which the upper values were `upper` [H+1, S]; [0, 0]: none."""
    if upper.shape[0] == 0 or n == 0:
        return
    for h in range(n):
        before = upper[h, path.states[h]]
        gain = upper[h + 1, path.states[h + 1]] - before - SLACK
        if not math.isnan(path.rewards[h]):
            gain += path.rewards[h]
        ratio = gain / max(before, LEAST_UPPER)
        for i in range(len(BETS)):
            evidence[i] += math.log1p(BETS[i] * ratio)
    top, mean = evidence[0], 0.0
    for i in range(1, len(BETS)):
        top = max(top, evidence[i])
    for i in range(len(BETS)):
        mean += math.exp(evidence[i] - top)
    wealth = top + math.log(mean / len(BETS))
    evidence[MET] += 1.0
    if wealth > evidence[HIGHEST]:
        evidence[HIGHEST], evidence[RAISED] = wealth, evidence[MET]


def due(individuals: int) -> bool:
    """Whether the tests are asked after so many individuals."""
    return individuals > 0 and until_due(individuals - 1) == 1


def until_due(individuals: int) -> int:
    """How many individuals more until the tests are asked next."""
    if individuals < OFTEN:
        return 1
    steps = math.floor(math.log(individuals / OFTEN) / math.log(GROWTH) + 1e-9)
    while math.ceil(OFTEN * GROWTH**steps) <= individuals:
        steps += 1
    return math.ceil(OFTEN * GROWTH**steps) - individuals


def watched(agent: Any) -> bool:
    """Whether any test can say something about it."""
    return bool(agent.bounds_values and agent.consistent_values) or any(map(_has_sets, agent._rests_on()))


def parts_behind(agent: Any) -> tuple[Any, ...]:
    """The agents whose sets a promise rests on."""
    return tuple(agent._rests_on())


def examine(agent: Any) -> None:
    """Ask all tests; the first that has something to say refutes (`Agent.refute`)."""
    root = agent._root()
    if root.refuted is not None or not watched(root):
        return
    for test in TESTS:
        said = test(root)
        if said is not None:
            root.refute(
                f"after {root.episode:,} individuals {said}: a bound is too small, the model is "
                "wrong, or a condition on the data does not hold"
            )
            return


def delta_of(agent: Any) -> float | None:
    """The probability of failure of the upper values in its plans; None where it says none."""
    delta: float | None = agent.options.get("delta")
    if delta is None and "agent" in agent.parts():
        return delta_of(agent.parts()["agent"])
    return delta


def high_returns(agent: Any) -> str | None:
    """The bets of `bet_on_returns`."""
    delta, evidence = delta_of(agent), agent.evidence
    if delta is None or evidence[HIGHEST] < math.log(1.0 / (SHARE * delta)):
        return None
    return (
        "returns were higher than plan.upper allows (somebody who bet on that had "
        f"{_amount(float(evidence[HIGHEST]))} times the stake after {int(evidence[RAISED]):,} of them)"
    )


def _amount(log: float) -> str:
    return f"{math.exp(log):,.0f}" if log < 16.0 else f"1e{log / math.log(10.0):.0f}"


def transition_sets(agent: Any) -> str | None:
    """Sets of transition weights against the ball of weight_bound."""
    for part in filter(_has_sets, agent._rests_on()):
        p, state = part.problem, part.state
        if p.design is not None:
            out = block_sets_outside(state.transitions, p.blocks)
            if out.any():
                return _block(p.design, out, "transition")
            continue
        outside = transition_sets_outside(state.transitions, p.layout, p.weight_bound)
        if outside.any():
            return f"{_pair(p, outside)}: no transition weights within weight_bound = {p.weight_bound:.3g} fit"
    return None


def reward_sets(agent: Any) -> str | None:
    """Sets of reward weights against the ball of reward_bound."""
    for part in filter(_has_sets, agent._rests_on()):
        p, state = part.problem, part.state
        outside = reward_sets_outside(part.par.rewards, state.rewards, p.layout.available)
        if outside.any() and p.reward_design is not None:
            return _block(p.reward_design, outside[:, 0], "reward")
        if outside.any():
            return f"{_pair(p, outside)}: no reward weights within reward_bound = {p.reward_bound:.3g} fit"
    return None


def model_bets(agent: Any) -> str | None:
    """The bets of `estimators.audit` against the model, of agents with online sets."""
    parts = [part for part in agent._rests_on() if _has_sets(part) and part.state.audit.seen.shape[0]]
    for part in parts:
        delta, state = delta_of(part), part.state
        if delta is None:
            continue
        least = math.log(2.0 * len(parts) / (MODEL_SHARE * delta))
        logs = transition_logs(state.transitions, state.audit, part.par.log_transition)
        if mixed(logs) >= least:
            return f"next states {_richer(part, logs)}"
        rewards = part.par.rewards, state.rewards, state.audit
        if mixed(reward_logs(*rewards, at_most=True)) >= least and mixed(logs := reward_logs(*rewards)) >= least:
            return f"rewards {_richer(part, logs)}"
    return None


_RICHER = {
    "design": "are told apart by pairs and contexts in ways that the design does not allow",
    "drift": "change as people come",
    "link": "follow contexts in ways that are not linear",
    "time": "change with the step",
}


def _richer(part: Any, logs: Floats) -> str:
    """How the component that won most says that they come, and what it won."""
    best = max(logs.sum(0).max(), logs.max())
    at = int(logs.sum(0).argmax()) if logs.sum(0).max() == best else int(logs.max(0).argmax())
    kind = KINDS[int(part.par.audit.kind[at])]
    return f"{_RICHER[kind]} (somebody who bet on that had {_amount(mixed(logs))} times the stake)"


def _has_sets(part: Any) -> bool:
    return bool(getattr(part, "certifies", False))


def _block(design: Any, outside: Any, kind: str) -> str:
    """What the first block that is outside says."""
    b = int(np.flatnonzero(outside)[0])
    return f"{design.block_names[b]} of the design: no {kind} weights within its bound = {design.bound[b]:.3g} fit"


def _pair(problem: Any, outside: Any) -> str:
    """The first pair [S, A] that is outside."""
    s, a = (int(i) for i in np.argwhere(outside)[0])
    state = problem.state_names[s] if problem.state_names else s
    action = problem.action_names[a] if problem.action_names else a
    return f"state {state}, action {action}"


Test = Callable[[Any], str | None]
TESTS: tuple[Test, ...] = (reward_sets, transition_sets, model_bets, high_returns)


def upper_of(agent: Any, none: Floats) -> Floats:
    """What `bet_on_returns` may bet on in the agent's buffers: [H+1, S], or `none`."""
    values: Floats = agent._out.values
    fit = agent.bounds_values and agent.consistent_values and not agent.pause and agent.refuted is None
    return values if fit else none
