"""The agent beside the house rule: is what it would do certified to be no worse?

For the people who came last, with what the agent knows now: V of its plan less V of the house rule, in the initial
state where that is least favourable. `certify` bounds both from its sets, for all contexts, policies and times at once
with probability 1 - delta, so with this probability

    lower = mean over people of min_s (lower_agent(s) - upper_house(s))  <=  mean difference
    upper = mean over people of max_s (upper_agent(s) - lower_house(s))  >=  mean difference

each for somebody with the same context who came now. Where lower >= 0 the agent is certified not to be worse for people
like these, on average. The bounds are added up person by person: they can be wide where means could be compared more
sharply."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..agents.probabilities import plans_ahead
from ..checks import Floats
from ..live.several import Live
from .house import House

PEOPLE = 40  # who came last
FAR = 20_000  # events among which they are looked for


def contexts_of(journal: Any, encoded: Callable[[Any], Floats]) -> list[Floats]:
    """Contexts of the people who came last, newest last; of those who were erased there is none."""
    start = max(journal.head - FAR, 0)
    told = [event.payload["x"] for event in journal.events(start, kinds=["begin"]) if event.payload is not None]
    return [encoded(x) for x in told[-PEOPLE:]]


def planned(live: Live, x: Floats) -> tuple[Any, Any]:
    """(who plans, actions [H, S]): the plan for somebody with context x who came now. Nothing is changed."""
    agent: Any = live.agent
    agent = getattr(agent, "agent", agent)  # of a `Referral`, who plans where nobody is referred
    return agent, plans_ahead(agent, x, 1, agent.mask_of(None))[0].astype(np.int64)


def difference(live: Live, house: House, x: Floats) -> tuple[float, float]:
    """(lower, upper) of that plan's value less the house rule's."""
    agent, policy = planned(live, x)
    if not hasattr(agent, "certify"):
        raise ValueError(f"{agent.name} certifies nothing")
    p = agent.problem
    mine, rule = agent.certify(x, policy), agent.certify(x, np.tile(house.chances, (p.horizon, 1, 1)))
    low = mine.lower[0, p.starts] - rule.values[0, p.starts]
    high = mine.values[0, p.starts] - rule.lower[0, p.starts]
    return float(low.min()), float(high.max())


def report(read: Callable[[Callable[[Live], Any]], Any], house: House, contexts: list[Floats]) -> dict[str, Any]:
    """The bounds, and a sentence. read: `Programme.read`, asked for a snapshot only: what takes long, and may have to
    be compiled, is done on a copy of the agent, and nobody waits for it."""
    made: dict[str, Any] = {"people": len(contexts), "lower": None, "upper": None, "certified": False}
    if not contexts:
        return made | {"sentence": "nobody has come yet"}
    try:
        copy = Live.from_bytes(read(Live.snapshot)())
        found = np.array([difference(copy, house, x) for x in contexts])
    except (ValueError, RuntimeError, TimeoutError) as error:
        return made | {"sentence": f"the agent cannot be compared with the house rule: {error}"}
    lower, upper = (float(v) for v in found.mean(0))
    which = "is certified not to be worse than" if lower >= 0.0 else "is not certified not to be worse than"
    which = which if upper >= 0.0 else "is certified to be worse than"
    sentence = (
        f"for the last {len(contexts)} people the agent {which} the house rule on average: its plans are worth "
        f"between {lower:+.3g} and {upper:+.3g} more"
    )
    return made | {"lower": lower, "upper": upper, "certified": lower >= 0.0, "sentence": sentence}
