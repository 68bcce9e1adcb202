"""What is told of an individual's steps: outcomes, the same ones again, corrections, rewards that come late.

All functions return the person as they are then, and change nothing.

Which step is meant. An outcome that is told without its step can be the outcome of the last action, an earlier one that
is delivered again, or a correction of an earlier one, and nothing in it says which. So the step must be named, except
where there is one possibility: nothing was observed yet, or nothing was done since and it is the last outcome again.

What may be corrected. A reward, until the person was learned. A next state, as long as nothing was decided in it: the
actions that followed were chosen in the state as it was told, and a path with another one was never decided on. nan
says that a reward is not known; it takes back none that was told."""

import math
from dataclasses import replace
from typing import Any

from .. import _checks as check
from ..problem import Problem
from .people import Person


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
        return replace(person, rewards=(*person.rewards, r), states=(*person.states[: n + 1], after))
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
    return replace(person, rewards=(*person.rewards[:h], r, *person.rewards[h + 1 :]))


def _moved(person: Person, p: Problem, h: int, after: int) -> Person:
    if len(person.actions) > h + 1:
        raise ValueError(
            f"next_state of step {h} of {check.shown(person.who)} was {p.state_text(person.states[h + 1])}, in which "
            f"step {h + 1} was decided: it cannot become {p.state_text(after)} any more"
        )
    return replace(person, states=(*person.states[: h + 1], after))


def refutation(person: Person, p: Problem, h: int) -> str:
    """What an outcome outside the support says, in one sentence; without the key, since others will read it."""
    s, a, after = person.states[h], person.actions[h], person.states[h + 1]
    return (
        f"individual {person.episode} went from state {p.state_text(s)} with action {p.action_text(a)} to state "
        f"{p.state_text(after)}, which the problem's support rules out; their steps from {h} on are not learned"
    )
