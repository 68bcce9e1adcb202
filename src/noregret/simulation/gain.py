"""The gain of plans over a rule in an agent's own model: proved by its sets, believed by its posterior."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from ..problem.log import Log
from ..worlds import World
from .fitted import world_of

DRAWS = 100  # models of the posterior
ASKED = 100  # people whose plans of today are compared with the rule


def mean_gain(world: World, policies: NDArray[Any], rule: NDArray[Any], X: Floats, begin: Floats) -> float:
    """The mean over people X [n, d] of sum_s begin(s) (V^policy(s) - V^rule(s)), exact in that world. policies [n, H,
    S], rule [H, S], begin [S]."""
    gains = [begin @ (world.values(plan, x)[0] - world.values(rule, x)[0]) for plan, x in zip(policies, X, strict=True)]
    return float(np.mean(gains))


def proved_gain(
    agent: Any, policies: NDArray[Any], rule: NDArray[Any], X: Floats, begin: Floats
) -> tuple[float, float] | None:
    """An interval by the agent's sets, for all questions at once (`agent.compare`); None where it proves nothing."""
    able = agent.certifier()
    if able is None or agent.refuted is not None or not hasattr(able, "compare"):
        return None
    made = able.compare(policies, rule, X, start=begin)
    return made.lower, made.upper


def believed_gain(
    agent: Any, policies: NDArray[Any], rule: NDArray[Any], X: Floats, begin: Floats, delta: float
) -> tuple[float, float] | None:
    """Quantiles over models drawn from the agent's posterior; None where it keeps none."""
    if agent.believer() is None:
        return None
    drawn = (world_of(agent, X, number, initial_state=begin, rule=rule) for number in range(DRAWS))
    gains = [mean_gain(world, policies, rule, X, begin) for world in drawn]
    low, high = np.quantile(gains, (0.5 * delta, 1.0 - 0.5 * delta))
    return float(low), float(high)


def gains_today(agent: Any, rule: Any, log: Log, delta: float) -> list[tuple[str, str, float, tuple[float, float]]]:
    """(what, rung, estimate, interval) of what the agent's model would do today, over the rule, for people of the log;
    nothing of agents without a model."""
    if agent.believer() is None:
        return []
    X = np.array([e.context for e in log])
    begin = np.bincount([e.states[0] for e in log], minlength=agent.problem.n_states) / len(X)
    X = X[np.unique(np.linspace(0, len(X) - 1, min(len(X), ASKED)).round().astype(int))]
    fitted = world_of(agent, X, initial_state=begin)
    asked = np.array([fitted.optimal(x).policy for x in X]), rule, X, begin
    estimate, made = mean_gain(fitted, *asked), []
    for rung, interval in (("proved", proved_gain(agent, *asked)), ("believed", believed_gain(agent, *asked, delta))):
        if interval is not None:
            made.append((f"what the model would do today, {len(X)} people", rung, estimate, interval))
    return made
