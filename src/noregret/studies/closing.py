"""The closing question of a trial: was what was done better than the rule, and could one tell?

The people of a run are met once more by the same agent with the same seed, so that its log and its plans are at hand
at the end. Asked is the mean over (at most `ASKED` of) the people of

    sum_s q(s) ( V^{pi_k}(s; x_k) - V^{rule}(s; x_k) ),     pi_k: the plan made for person k,

q the shares in which the people began in state s. The answers are intervals with their rungs: proved
(`agent.compare`), asymptotic (`evidence.plug_in`), believed (draws of the posterior). The world knows the truth.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..agents.base import Agent
from ..checks import Floats
from ..evidence.plug_in import plug_in
from ..problem.links import MultinomialLogit
from ..problem.log import Log
from ..simulation.gain import believed_gain, mean_gain, proved_gain
from ..simulation.logs import log_of, written
from ..worlds import World

RUNGS = ("proved", "asymptotic", "believed")
ASKED = 100  # people, evenly spaced among all
DELTA = 0.05


def closing(agent: Any, world: World, people: int, seed: int) -> dict[str, Any]:
    """The gain, "true", and for each rung its interval (lower, upper), None where there is none; {} where nothing is
    asked: of agents that are not compiled, and where people cannot get everything."""
    if world.rule is None or world.unavailable is not None or not isinstance(agent, Agent) or not agent.fused:
        return {}
    X, kept, learned = written(agent, world, people, seed, policies=True)
    chosen = np.unique(np.linspace(0, people - 1, min(people, ASKED)).round().astype(np.int64))
    begin = np.bincount(kept.states[:, 0], minlength=world.problem.n_states) / people
    asked = kept.policies[chosen].astype(np.int64), world.rule, X[chosen], begin
    return {
        "people": len(chosen),
        "true": mean_gain(world, *asked),
        "proved": proved_gain(learned, *asked),
        "asymptotic": _asymptotic(log_of(world.problem, X, kept), *asked),
        "believed": believed_gain(learned, *asked, DELTA),
    }


def _asymptotic(
    log: Log, policies: NDArray[Any], rule: NDArray[Any], X: Floats, begin: Floats
) -> tuple[float, float] | None:
    """At one look. The plans were chosen by the past, as a stopped experiment's are: `plug_in` asks for more."""
    if not isinstance(log.problem.link, MultinomialLogit):
        return None
    made = plug_in(log, policies, rule, X, start=begin, delta=DELTA)
    return made.lower, made.upper
