"""The closing question of a trial: was what was done better than the rule, and could one tell?

The people of a run are met once more, one at a time, by the same agent with the same seed, so that its log and its
plans are at hand at the end. Asked is the mean over (at most `ASKED` of) the people of

    sum_s q(s) ( V^{pi_k}(s; x_k) - V^{rule}(s; x_k) ),     pi_k: the plan made for person k,

q the shares in which the people began in state s. The answers are intervals with their rungs: proved
(`agent.compare`), asymptotic (`evidence.plug_in`), believed (draws of the posterior). The world knows the truth.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from ..evidence.plug_in import plug_in
from ..problem.links import MultinomialLogit
from ..problem.log import Log, LoggedEpisode
from ..simulation.gain import believed_gain, mean_gain, proved_gain
from ..worlds import World
from ..worlds.individual import Episodes

RUNGS = ("proved", "asymptotic", "believed")
ASKED = 100  # people, evenly spaced among all
DELTA = 0.05


class Played(NamedTuple):
    """What happened: the log, and who was planned for how."""

    log: Log
    X: Floats  # [n, d]
    policies: NDArray[np.int64]  # [n, H, S]
    begin: Floats  # [S], in which shares they began where


def played(agent: Any, world: World, people: int, seed: int) -> Played:
    """Meet so many people of a seed with an agent, which learns from them."""
    p, guests = world.problem, Episodes(world)
    rows, policies = [], np.zeros((people, p.horizon, p.n_states), np.int64)
    for k in range(people):
        guests.begin(k, seed)
        policies[k] = agent.begin_episode(guests.context).policy
        states, actions, rewards = [guests.state], [], []
        for _ in range(p.horizon):
            actions.append(agent.act(guests.state))
            reward, after = guests.step(actions[-1])
            agent.observe(reward, after)
            rewards.append(reward)
            states.append(after)
        agent.end_episode()
        unknown = np.full(len(actions), np.nan)
        rows.append(
            LoggedEpisode(k, guests.context.copy(), np.array(states), np.array(actions), np.array(rewards), unknown)
        )
    begin = np.bincount([row.states[0] for row in rows], minlength=p.n_states) / people
    return Played(Log(p, tuple(rows)), np.array([row.context for row in rows]), policies, begin)


def closing(agent: Any, world: World, people: int, seed: int) -> dict[str, Any]:
    """ "true": the gain, and for each rung its interval (lower, upper), None where there is none."""
    assert world.rule is not None
    found, rule = played(agent, world, people, seed), world.rule
    chosen = np.unique(np.linspace(0, people - 1, min(people, ASKED)).round().astype(np.int64))
    asked = found.policies[chosen], rule, found.X[chosen], found.begin
    return {
        "people": len(chosen),
        "true": mean_gain(world, *asked),
        "proved": proved_gain(agent, *asked),
        "asymptotic": _asymptotic(found, *asked),
        "believed": believed_gain(agent, *asked, DELTA),
    }


def _asymptotic(
    found: Played, policies: NDArray[Any], rule: NDArray[Any], X: Floats, begin: Floats
) -> tuple[float, float] | None:
    """At one look. The plans were chosen by the past, as a stopped experiment's are: `plug_in` asks for more."""
    if not isinstance(found.log.problem.link, MultinomialLogit):
        return None
    made = plug_in(found.log, policies, rule, X, start=begin, delta=DELTA)
    return made.lower, made.upper
