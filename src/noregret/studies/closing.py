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
from ..simulation.fitted import world_of
from ..worlds import World
from ..worlds.individual import Episodes

RUNGS = ("proved", "asymptotic", "believed")
ASKED = 100  # people, evenly spaced among all
DELTA = 0.05
DRAWS = 100  # models of the posterior


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
    found = played(agent, world, people, seed)
    chosen = np.unique(np.linspace(0, people - 1, min(people, ASKED)).round().astype(np.int64))
    made: dict[str, Any] = {"people": len(chosen), "true": _true(world, found, chosen)}
    made["proved"] = _proved(agent, world, found, chosen)
    made["asymptotic"] = _asymptotic(world, found, chosen)
    made["believed"] = _believed(agent, world, found, chosen)
    return made


def _true(world: World, found: Played, chosen: NDArray[np.int64]) -> float:
    total, rule = 0.0, ruled(world)
    for k in chosen:
        x = found.X[k]
        total += found.begin @ (world.values(found.policies[k], x)[0] - world.values(rule, x)[0])
    return float(total / len(chosen))


def _proved(agent: Any, world: World, found: Played, chosen: NDArray[np.int64]) -> tuple[float, float] | None:
    if not getattr(agent, "certifies", False) or agent.refuted is not None:
        return None
    made = agent.compare(found.policies[chosen], ruled(world), found.X[chosen], start=found.begin)
    return made.lower, made.upper


def _asymptotic(world: World, found: Played, chosen: NDArray[np.int64]) -> tuple[float, float] | None:
    """At one look. The plans were chosen by the past, as a stopped experiment's are: `plug_in` asks for more."""
    if not isinstance(world.problem.link, MultinomialLogit):
        return None
    made = plug_in(found.log, found.policies[chosen], ruled(world), found.X[chosen], start=found.begin, delta=DELTA)
    return made.lower, made.upper


def _believed(agent: Any, world: World, found: Played, chosen: NDArray[np.int64]) -> tuple[float, float] | None:
    """Quantiles over models drawn from the agent's posterior at the end."""
    if agent.believer() is None:
        return None
    gains, X = [], found.X[chosen]
    for number in range(DRAWS):
        drawn = world_of(agent, X, number, initial_state=found.begin, rule=ruled(world))
        gains.append(_true(drawn, found, chosen))
    low, high = np.quantile(gains, (0.5 * DELTA, 1.0 - 0.5 * DELTA))
    return float(low), float(high)


def ruled(world: World) -> NDArray[np.int64]:
    """The world's rule."""
    assert world.rule is not None
    return world.rule
