"""`noregret.evaluate`: what a log says about a policy, on every rung that it can."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import checks as check
from ..checks import Floats
from ..problem.asked import Policies
from ..problem.log import Log
from ..problem.problem import Problem
from .by_model import ByModel, certified_row, plug_in_row
from .evaluation import EVERYONE, Evaluation, Row, advised
from .models import predicted
from .people import People, logged_target, one_rule, people_of, target_of
from .weighted import Asked, Side, weighted_rows

_SLACK = 1e-9

NO_PROBABILITIES = (
    "log has no probabilities of its actions, so nothing can be weighed: only the rows by a model are here "
    "(column probability of read_log)"
)


def evaluate(
    policy: ArrayLike | Callable[[Floats], ArrayLike],
    log: Log,
    *,
    against: ArrayLike | Callable[[Floats], ArrayLike] | Literal["log"] | None = None,
    agent: Any = None,
    subgroups: Mapping[str, Any] | None = None,
    delta: float = 0.05,
    floor: float | ArrayLike | None = None,
    looks: Literal["once", "repeated"] = "repeated",
    learning: bool | None = None,
) -> Evaluation:
    """What a log says about a policy that did not make it, by several estimators, each interval with its rung.

    The question is its mean value over the people of the log, from where each of them began.

    policy      actions [H, S] or chances [H, S, A] for everybody, one of them per person, or a function from a context
                to one. It must not have been made from this log
    against     likewise: the difference is asked for. "log": against what whoever logged did
    agent       an agent with confidence sets, for the row "model sets". One that has met nobody learns the log first,
                as a copy
    subgroups   names -> a function of the context, or booleans, one per episode; by what was known beforehand
    delta       every interval alone misses the truth with this chance at most (model sets: with the agent's own)
    floor       a number, or [H, S, A]: no action had a smaller chance, by protocol. For the proved interval of DR
    looks       "repeated": asymptotic intervals hold at all times together, however often one looks. "once": for one
                look at a time that was fixed beforehand
    learning    whether whoever logged learned from these people. None: unless one and the same action, step and state
                always had the same probability

    PDIS is per-decision importance sampling, WPDIS its self-normalised form, DR the doubly robust one with the GLM,
    learned from the people before, MDR the same with weights by state instead of by path, where one rule logged.
    Proved intervals hold at all times, with a logger that learns, and rest on the probabilities of the log alone.
    docs/evidence.md.

    >>> import noregret as nr
    >>> world = nr.worlds.programme(horizon=2, context_dim=4)
    >>> log = world.log(people=400, seed=1)
    >>> found = nr.evaluate(world.rule, log, floor=world.log_chances())
    >>> for row in found:
    ...     print(f"{row.estimator:8}{row.rung:11}{row.estimate:.1f}", row.told)
    PDIS    proved     1.3 True
    PDIS    asymptotic 1.4 True
    WPDIS   asymptotic 1.3 True
    DR      proved     1.3 True
    DR      asymptotic 1.3 True
    MDR     asymptotic 1.3 True
    plug-in asymptotic 1.3 True
    """
    p = _checked(log, delta, looks, learning)
    X = np.array([e.context for e in log])
    ours = Policies(p, "policy", policy, X)
    theirs = None if against is None or _is_log(against) else Policies(p, "against", against, X)
    groups = _groups(subgroups, X)
    people = people_of(log)
    notes = _notes(people, len(log))
    if not log.ordered:
        notes.append("the order of arrival is not known: intervals hold if whoever logged did not learn meanwhile")
    asked = None
    if len(people.X):
        known = _floor(floor, people, p)
        policies = [ours] if theirs is None else [ours, theirs]
        learned = not _one_rule(people) if learning is None else learning
        rule = None if learned or p.horizon == 1 else one_rule(people, p)
        models = predicted(log, people, policies, rule)
        sides = [Side(target_of(people, of), model) for of, model in zip(policies, models, strict=True)]
        if _is_log(against):
            sides.append(Side(logged_target(people), None))
        asked = Asked(people, sides, known, check.positive("delta", delta, below=1.0), looks, learned)
        if rule is not None:
            notes.append("MDR weighs states, not paths: what came earlier must not matter beyond the state")
        if floor is None:
            notes.append("no proved interval of DR without floor, the least chance of an action by protocol")
    by_model = ByModel(log, ours, theirs, against is not None, delta, looks, learning)
    rows: list[Row] = []
    for name, kept in groups.items():
        rows += _rows(name, kept, asked, by_model, agent, notes)
    if theirs is not None and ours.same(theirs):
        rows = [replace(row, estimate=0.0, lower=0.0, upper=0.0, told=True, says="") for row in rows]
        notes.append("the two policies are the same")
    if not rows:
        raise ValueError(f"{NO_PROBABILITIES}; and no row by a model can be made, give agent")
    return Evaluation(_question(against, len(log)), tuple(rows), tuple(dict.fromkeys(notes)), delta, looks)


def _rows(
    name: str, kept: NDArray[np.bool_], asked: Asked | None, of: ByModel, agent: Any, notes: list[str]
) -> list[Row]:
    """The rows of one subgroup, in the units of rewards."""
    scale, H = of.log.problem.scale, of.log.problem.horizon
    made = []
    if asked is not None:
        asked = asked.among(kept[asked.people.place])
        offset = 0.0 if of.compared else scale.low * H
        made = [
            replace(row, **{n: offset + scale.unit * getattr(row, n) for n in ("estimate", "lower", "upper")})
            for row in weighted_rows(name, asked)
        ]
    if of.compared and of.theirs is None:
        notes.append("rows by a model say nothing about the rule that logged, whose other chances nobody knows")
        return advised(made, agent is not None)
    people = np.flatnonzero(kept)
    plugged = plug_in_row(name, of, people)
    made += [] if plugged is None else [plugged]
    if agent is not None:
        made += certified_row(name, of.log, agent, of.ours, of.theirs, people, notes)
    return advised(made, agent is not None)


def _checked(log: Any, delta: float, looks: str, learning: Any) -> Problem:
    check.instance("log", log, Log, "what noregret.read_log returns")
    if not len(log):
        raise ValueError("log must have at least one episode")
    check.positive("delta", delta, below=1.0)
    check.one_of("looks", looks, ("once", "repeated"))
    if learning is not None:
        check.flag("learning", learning)
    problem: Problem = log.problem
    return problem


def _is_log(against: Any) -> bool:
    return isinstance(against, str) and against == "log"


def _groups(given: Any, X: Floats) -> dict[str, NDArray[np.bool_]]:
    """Who is in which subgroup, everyone first."""
    made = {EVERYONE: np.ones(len(X), bool)}
    if given is None:
        return made
    if not isinstance(given, Mapping):
        raise ValueError(f"subgroups must be names with functions or booleans, got {check.shown(given)}")
    for name, by in given.items():
        if callable(by):
            made[str(name)] = np.array([bool(by(x.copy())) for x in X])
        else:
            made[str(name)] = check.mask(f"subgroups[{name!r}]", by, (len(X),))
        if not made[str(name)].any():
            raise ValueError(f"subgroups[{name!r}] must have at least one of the log's people")
    return made


def _floor(given: Any, people: People, p: Problem) -> Floats | None:
    """[n, H, A], in the states met."""
    if given is None:
        return None
    H, S, A = p.horizon, p.n_states, p.n_actions
    if check.alone(given):
        made = np.full((H, S, A), check.number(given))
    else:
        made = check.array("floor", given, (H, S, A))
    if not (made.min() >= 0.0 and made.max() <= 1.0):
        raise ValueError("floor must be from 0 to 1")
    at: Floats = made[np.arange(H), people.states]
    least = np.take_along_axis(at, people.actions[:, :, None], 2)[:, :, 0]
    low = np.argwhere(people.seen & (people.chances < least * (1.0 - _SLACK)))
    if low.size:
        i, h = (int(j) for j in low[0])
        raise ValueError(
            f"floor must be at most every logged probability, episode {people.place[i]} has {people.chances[i, h]:g} "
            f"at step {h}, below {least[i, h]:g}"
        )
    return at


def _one_rule(people: People) -> bool:
    """Whether the probabilities could be those of one rule that looks at step and state alone."""
    seen: dict[tuple[int, int, int], float] = {}
    for i, h in np.argwhere(people.seen).tolist():
        at, chance = (h, int(people.states[i, h]), int(people.actions[i, h])), float(people.chances[i, h])
        if not math.isclose(seen.setdefault(at, chance), chance, rel_tol=_SLACK):
            return False
    return True


def _notes(people: People, everybody: int) -> list[str]:
    n, short = len(people.X), int((~people.complete).sum())
    said = []
    if n == 0:
        said.append(NO_PROBABILITIES)
    elif n < everybody:
        said.append(
            f"{everybody - n:,} of {everybody:,} people have no probability of their first action: rows that weigh "
            "leave them out, which is right where who has one does not depend on outcomes"
        )
    if short:
        said.append(
            f"{short:,} people lack a reward, a step or a probability: proved intervals take the worst for them, "
            "asymptotic ones leave them out, which is right where it does not depend on what was not seen"
        )
    return said


def _question(against: Any, people: int) -> str:
    if against is None:
        return f"mean value of the policy over {people:,} people"
    other = "what was done" if _is_log(against) else "the other policy"
    return f"mean value of the policy less that of {other}, over {people:,} people"
