"""Rows of `noregret.evaluate` by the model: its confidence sets, and the plug-in estimate."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..problem.asked import Policies
from ..problem.links import MultinomialLogit
from ..problem.log import Log
from .evaluation import NARROW, Row
from .plug_in import plug_in


def limits(log: Log, compared: bool) -> tuple[float, float]:
    """All that is possible: values, or differences."""
    low, high = (log.problem.horizon * r for r in log.problem.reward_range)
    return (low - high, high - low) if compared else (low, high)


def certified_row(
    name: str, log: Log, agent: Any, ours: Policies, theirs: Policies | None, people: NDArray[Any], notes: list[str]
) -> list[Row]:
    """The interval of `agent.compare`, over these people, from where each of them began; [] and a note without one."""
    if not getattr(agent, "certifies", False):
        raise ValueError(f"agent must have confidence sets, as nr.LRORL has: {getattr(agent, 'label', agent)} has none")
    if not ours.fixed or not (theirs is None or theirs.fixed):
        notes.append("model sets bound policies that draw no actions, and this one does")
        return []
    agent = taught(agent, log)
    X = np.array([log.episodes[i].context for i in people])
    start = np.array([log.episodes[i].states[0] for i in people])
    total = np.zeros(3)
    for s in np.unique(start):
        here = np.flatnonzero(start == s)
        other = None if theirs is None else np.stack(theirs.kept(people[here]))
        found = agent.compare(np.stack(ours.kept(people[here])), other, X[here], start=int(s))
        total += len(here) / len(people) * np.array([found.estimate, found.lower, found.upper])
    estimate, lower, upper = total.tolist()
    low, high = limits(log, theirs is not None)
    told = upper - lower <= NARROW * (high - low)
    says = "" if told else "too few people for the sets of all weights"
    notes.append(f"model sets hold if the model's assumptions do, with the agent's own delta = {agent.delta:g}")
    nothing = math.nan, math.nan
    method = "agent.compare, docs/joint.md"
    return [Row(name, "model sets", "proved", estimate, lower, upper, told, len(people), *nothing, method, says)]


def taught(agent: Any, log: Log) -> Any:
    """The agent; a copy that has learned the log, if it has met nobody."""
    if agent.episode > 0:
        return agent
    made = agent.fresh()
    made.learn_from(log)
    made.refresh()
    return made


class ByModel(NamedTuple):
    """What is asked of the model."""

    log: Log
    ours: Policies
    theirs: Policies | None
    compared: bool  # with a policy, or with the log
    delta: float
    looks: str
    learning: bool | None  # whether whoever logged learned from these people; None: by the probabilities


def plug_in_row(name: str, of: ByModel, people: NDArray[Any]) -> Row | None:
    """The asymptotic interval of the fitted model; None for links that it is not made for."""
    log, ours, theirs = of.log, of.ours, of.theirs
    if not isinstance(log.problem.link, MultinomialLogit):
        return None
    share = np.zeros(len(log))
    share[people] = 1.0
    other = None if theirs is None else theirs.whole()
    times: Any = "any" if of.looks == "repeated" else "one"
    weighted: Any = "auto" if of.learning is None else "step" if of.learning else "no"
    found = plug_in(log, ours.whole(), other, weights=share, delta=of.delta, looks=times, adaptive=weighted)
    (low, high), interval, says = limits(log, theirs is not None), (found.lower, found.upper), ""
    told = bool(found.told) and found.upper - found.lower <= NARROW * (high - low)
    if not told:
        interval, says = (low, high), found.sentence.rstrip(".")
    worth = found.effective_people, math.nan
    method = "fitted GLM, sandwich by person"
    return Row(name, "plug-in", "asymptotic", found.estimate, *interval, told, len(people), *worth, method, says)
