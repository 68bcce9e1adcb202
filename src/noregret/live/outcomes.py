"""What is told of an individual's steps: outcomes, the same ones again, corrections, rewards that come late.

All functions return the person as they are then, and change nothing.

Which step is meant. An outcome that is told without its step can be the outcome of the last action, an earlier one that
is delivered again, or a correction of an earlier one, and nothing in it says which. So the step must be named, except
where there is one possibility: nothing was observed yet, or nothing was done since and it is the last outcome again.

What may be corrected. A reward, until the person was learned. A next state, as long as nothing was decided in it: the
actions that followed were chosen in the state as it was told, and a path with another one was never decided on. nan
says that a reward is not known; it takes back none that was told."""

import math
from collections.abc import Callable
from typing import Any

from .. import checks as check
from ..problem.problem import Problem
from ..storage.tables import is_missing, whole
from .people import Person, Who


def same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def with_outcome(person: Person, p: Problem, reward: Any, next_state: Any, step: Any = None) -> Person:
    """The person after this outcome; the same object where it says nothing new."""
    who, n = check.shown(person.who), person.steps
    r, after = p.reward(reward), p.state(next_state, "next_state")
    if n == 0 and not person.asked:
        raise RuntimeError(f"observe: nothing was done with {who} since, call act first")
    if step is None:
        if n > 0 and person.asked:
            raise ValueError(
                f"step must be named for {who}: is this the outcome of step {n}, or an earlier one again? "
                f"(step=decision.step)"
            )
        if n > 0 and not (after == person.states[n] and (math.isnan(r) or same(r, person.rewards[n - 1]))):
            raise RuntimeError(
                f"observe: nothing was done with {who} since, call act first; or name the step, to correct its outcome"
            )
        step = n if person.asked else n - 1
    h = check.integer("step", step, 0)
    if h > n or (h == n and not person.asked):
        raise RuntimeError(f"observe: nothing was done with {who} at step {h}, call act first")
    if h == n:
        return person.changed(rewards=(*person.rewards, r), states=(*person.states[: n + 1], after))
    if after != person.states[h + 1]:
        person = _moved(person, p, h, after)
    if math.isnan(r) or same(r, person.rewards[h]):
        return person
    return _rewarded(person, h, r)


def with_reward(person: Person, p: Problem, step: Any, value: Any) -> Person:
    """The person with the reward of an earlier step."""
    h, who = check.integer("step", step, 0), check.shown(person.who)
    if h >= person.steps:
        raise ValueError(f"step must be one that was observed, below {person.steps} for {who}, got {h}")
    r = p.reward(value)
    if same(r, person.rewards[h]):
        return person
    if math.isnan(r):
        raise ValueError(
            f"reward of step {h} of {who} was told, {person.rewards[h]:g}: it can be corrected, not unsaid"
        )
    return _rewarded(person, h, r)


def _rewarded(person: Person, h: int, r: float) -> Person:
    return person.changed(rewards=(*person.rewards[:h], r, *person.rewards[h + 1 :]))


def _moved(person: Person, p: Problem, h: int, after: int) -> Person:
    if len(person.actions) > h + 1:
        raise ValueError(
            f"next_state of step {h} of {check.shown(person.who)} was {p.state_text(person.states[h + 1])}, in which "
            f"step {h + 1} was decided: it cannot become {p.state_text(after)} any more"
        )
    return person.changed(states=(*person.states[: h + 1], after))


def refutation(person: Person, p: Problem, h: int) -> str:
    """What an outcome outside the support says, in one sentence; without the key, since others will read it."""
    s, a, after = person.states[h], person.actions[h], person.states[h + 1]
    return (
        f"individual {person.episode} went from state {p.state_text(s)} with action {p.action_text(a)} to state "
        f"{p.state_text(after)}, which the problem's support rules out; their steps from {h} on are not learned"
    )


def told_in(data: dict[str, list[Any]], person_of: Callable[[Any], Person], p: Problem) -> dict[Who, Person]:
    """Everybody of whom a table tells, as they are then: columns who, reward, next_state and maybe step, one outcome
    a row; where next_state is empty, the reward of a step observed before. The first row that cannot be is a
    ValueError."""
    news: dict[Who, Person] = {}
    met: dict[tuple[Who, Any], tuple[float, Any]] = {}
    for i, who in enumerate(data["who"]):
        try:
            person = person_of(whole(who))
            person = news.get(person.who, person)
            given, after = data["reward"][i], whole(data["next_state"][i])
            r = p.reward(float("nan") if is_missing(given) else given)
            step = whole(data["step"][i]) if "step" in data else None
            step = None if is_missing(step) else step
            before = met.setdefault((person.who, step), (r, after))
            if not (same(before[0], r) and before[1] == after):
                raise ValueError(f"step {step} of {check.shown(person.who)} is there twice, with another outcome")
            if is_missing(after) and step is not None and person.steps > check.integer("step", step, 0):
                news[person.who] = with_reward(person, p, step, r)
            else:
                news[person.who] = with_outcome(person, p, r, after, step)
        except (ValueError, RuntimeError) as error:
            raise ValueError(f"row {i}: {error}") from None
    return news
