"""Logged data in: a table of steps becomes episodes, checked row by row before anything is learned from them."""

import json
import math
import warnings
from collections.abc import Hashable
from typing import Any

import numpy as np

from .. import checks as check
from ..checks import Floats
from ..problem.encoder import Encoder
from ..problem.log import Log, LoggedEpisode
from ..problem.masks import Mask, allowed_actions, barred
from ..problem.problem import Problem
from ..problem.rows import number_of
from ..storage.tables import columns, is_missing, whole
from .arrival import UNKNOWN, arrival_column, in_order

NEEDED = ("episode", "step", "state", "action")


def read_log(source: Any, problem: Problem, encoder: Encoder | None = None, arrival: str | None = None) -> Log:
    """The episodes in a table of steps: a .parquet or .csv file, a data frame, an Arrow table or a dict of columns.

    episode      any key; rows of an episode belong together wherever they stand in the table
    step         0, 1, ... within the episode, without gaps; episodes may end early
    state, action   numbers, or names where the problem has them. A closing row has a state, no action and no reward: it
                 says where the step before led, and may stand at step H
    next_state   likewise; where it is empty, or there is no such column, it is the state of the episode's next row. A
                 last row whose next state nobody knows is dropped, and counted
    reward       from 0 to 1; empty where it was not seen. Without the column none was
    probability  above 0 and at most 1: the chance, given the past, with which whoever decided took this action; empty
                 where nobody wrote it down
    unavailable  actions that this person could not get, numbers or names with ; between them, or JSON of what
                 `begin_episode` takes; the same in all rows of an episode, empty where everything could be had. Closing
                 rows may lack it
    context      the same in all rows of an episode: the encoder's columns; without one, columns x0, x1, ..., or the
                 problem's feature_names. Closing rows may lack them
    arrival, time   when the step was, or the episode began: numbers, dates, times or ISO 8601 text. The first step's
                 counts; those of one moment stay in the order of their first rows

    arrival says in which order the episodes are learned: the name of such a column (None: "arrival" or "time", where
    the table has one that is not the context's), "key" if the keys are in the order of arrival, "row" if the table has
    the episodes in that order. Where nothing says it, they are taken in the order of their keys, with a warning:
    `Log.ordered` is False, and the guarantee of an agent that learns from it says so.

    Rows are counted from 0 in the sentences about bad ones. What a guarantee needs of a log: list all steps in the
    order they are learned in; then neither who comes next nor their context and actions may depend on outcomes that
    stand later in the list. And whether a reward is missing or an episode ends early must not depend on what was not
    seen (docs/live.md).

    >>> import noregret as nr
    >>> problem = nr.Problem(
    ...     2, 2, 3, 2, weight_bound=1.0, reward_bound=1.0, state_names=("ill", "well"), action_names=("wait", "drug")
    ... )
    >>> table = {
    ...     "episode": [7, 7, 7, 5, 5], "step": [0, 1, 2, 0, 1], "time": ["2024-01-30"] * 3 + ["2024-02-01"] * 2,
    ...     "state": ["ill", "ill", "well", "ill", "well"], "action": ["wait", "drug", None, "drug", None],
    ...     "reward": [0, 1, None, None, None], "x0": [0.6, 0.6, 0.6, 0.6, 0.6], "x1": [0.8, 0.8, 0.8, -0.8, -0.8],
    ... }
    >>> [(e.key, e.states.tolist()) for e in nr.read_log(table, problem)]
    [(7, [0, 0, 1]), (5, [0, 1])]
    >>> nr.PSRLGLM(problem).learn_from(nr.read_log(table, problem))  # episodes learned
    2
    >>> table["x1"][1] = 0.7
    >>> nr.read_log(table, problem)
    Traceback (most recent call last):
        ...
    ValueError: row 1: the context of episode 7 is not that of row 0
    """
    check.instance("problem", problem, Problem, "a noregret.Problem")
    data = columns(source, "source")
    lacking = [c for c in NEEDED if c not in data]
    if lacking:
        raise ValueError(f"source must have the columns {', '.join(NEEDED)}; {', '.join(lacking)} not found")
    n = len(data["episode"])
    for column in ("reward", "next_state", "probability", "unavailable"):
        data.setdefault(column, [None] * n)
    names = _context_columns(data, problem, encoder)
    by = arrival_column(arrival, list(data), names)
    steps = _steps(data, problem)
    _fill(data, names, steps)
    contexts = _contexts(data, problem, encoder, names)
    keys, ties = in_order(by, data, steps)
    if arrival is None and by == "time" and 0 < ties == len(keys) - 1:  # time since everybody's own first step, say
        by, (keys, ties) = None, in_order(None, data, steps)
    episodes, dropped = [], 0
    for key in keys:
        made, lost = _episode(key, steps[key], data, contexts, problem)
        dropped += lost
        if made is not None:
            episodes.append(made)
    ordered = by is not None or len(episodes) < 2
    if not ordered:
        warnings.warn(f"read_log: {UNKNOWN}", stacklevel=2)
    return Log(problem, tuple(episodes), dropped, ordered, ties)


def _wrong(i: int, error: Any) -> ValueError:
    """The sentence about row i."""
    return ValueError(f"row {i}: {error}")


def _is_closing(data: dict[str, list[Any]], i: int) -> bool:
    return is_missing(data["action"][i])


def _steps(data: dict[str, list[Any]], problem: Problem) -> dict[Any, list[int]]:
    """The rows of each episode, in the order of their steps."""
    rows: dict[Any, dict[int, int]] = {}
    for i, key in enumerate(data["episode"]):
        step = whole(data["step"][i])
        most = problem.horizon - (0 if _is_closing(data, i) else 1)
        if is_missing(key):
            raise _wrong(i, "episode is missing")
        if not isinstance(key, Hashable):
            raise _wrong(i, f"episode must be a number or text, got {check.shown(key)}")
        if isinstance(step, bool) or not isinstance(step, int | np.integer) or not 0 <= step <= most:
            raise _wrong(i, f"step must be a whole number from 0 to {most}, got {check.shown(step)}")
        steps = rows.setdefault(key, {})
        h = int(step)
        if h in steps:
            raise _wrong(i, f"step {h} of episode {check.shown(key)} is there twice, also in row {steps[h]}")
        steps[h] = i
    for key, steps in rows.items():
        for h in range(len(steps)):
            if h not in steps:
                said = f"episode {check.shown(key)} lacks step {h}: steps must be 0, 1, ... without gaps"
                raise _wrong(max(steps.values()), said)
            if h < len(steps) - 1 and _is_closing(data, steps[h]):
                said = f"action is missing, and step {h} is not the last of episode {check.shown(key)}"
                raise _wrong(steps[h], said)
    return {key: [steps[h] for h in range(len(steps))] for key, steps in rows.items()}


def _fill(data: dict[str, list[Any]], names: list[str], steps: dict[Any, list[int]]) -> None:
    """What closing rows lack of the context is that of their episode's first step."""
    for rows in steps.values():
        if _is_closing(data, rows[-1]):
            for name in names:
                if is_missing(data[name][rows[-1]]):
                    data[name][rows[-1]] = data[name][rows[0]]


def _context_columns(data: dict[str, list[Any]], problem: Problem, encoder: Encoder | None) -> list[str]:
    """Their names, all of which are there."""
    if encoder is not None:
        check.instance("encoder", encoder, Encoder, "a noregret.Encoder or None")
        encoder.check_fits(problem)
        lacking = [c for c in encoder.columns if c not in data]
        if lacking:
            raise ValueError(f"source must have the encoder's columns, {', '.join(lacking)} not found")
        return list(encoder.columns)
    names = [f"x{j}" for j in range(problem.context_dim)]
    if not all(c in data for c in names):
        names = list(problem.feature_names or names)
    lacking = [c for c in names if c not in data]
    if lacking:
        raise ValueError(f"source must have the context's columns {', '.join(names)}; {lacking[0]} not found")
    return names


def _contexts(data: dict[str, list[Any]], problem: Problem, encoder: Encoder | None, names: list[str]) -> Floats:
    if encoder is not None:
        made = encoder.encode_all({c: data[c] for c in names} | {"episode": data["episode"]})
    else:
        made = np.zeros((len(data["episode"]), len(names)))
        for j, name in enumerate(names):
            for i, value in enumerate(data[name]):
                try:
                    made[i, j] = number_of(name, value)
                except ValueError as error:
                    raise _wrong(i, error) from None
    for i, x in enumerate(made):
        try:
            made[i] = problem.context(x)
        except ValueError as error:
            raise _wrong(i, error) from None
    return made


def _episode(
    key: Any, rows: list[int], data: dict[str, list[Any]], contexts: Floats, problem: Problem
) -> tuple[LoggedEpisode | None, int]:
    """(episode, rows dropped); None where nothing is left of it. rows: in the order of their steps."""
    first, lost, starts = rows[0], 0, problem.initial_states
    states: list[int] = []
    actions: list[int] = []
    seen: list[float] = []
    chances: list[float] = []
    after: int | None = None
    try:
        mask = _left(problem, data["unavailable"][first])
    except ValueError as error:
        raise _wrong(first, error) from None
    for h, i in enumerate(rows):
        try:
            s = problem.state(whole(data["state"][i]))
            if h == 0 and starts is not None and s not in starts:
                raise ValueError(f"state must be one of the problem's initial_states {starts} at step 0, got {s}")
            if h > 0 and s != after:
                raise ValueError(f"state {s} at step {h} is not the next_state of the step before, {after}")
            if not np.array_equal(contexts[i], contexts[first]):
                raise ValueError(f"the context of episode {check.shown(key)} is not that of row {first}")
            if not _is_closing(data, i) or not is_missing(data["unavailable"][i]):
                if not np.array_equal(_left(problem, data["unavailable"][i]), mask):
                    raise ValueError(f"unavailable of episode {check.shown(key)} is not that of row {first}")
            if _is_closing(data, i):
                more = next((c for c in ("next_state", "reward", "probability") if not is_missing(data[c][i])), None)
                if more is not None:
                    raise ValueError(f"{more} must be empty where action is: a closing row has a state only")
                break
            a = problem.action(whole(data["action"][i]), s)
            if not mask[s, a]:
                raise ValueError(f"action {problem.action_text(a)} is not available to episode {check.shown(key)}")
            value, following = data["reward"][i], data["next_state"][i]
            r = problem.reward(math.nan if is_missing(value) else value)
            chance = _chance(data["probability"][i])
            if is_missing(following):
                if h == len(rows) - 1:
                    lost = 1
                    break
                i = rows[h + 1]  # which has it, and is to blame
                following = problem.state(whole(data["state"][i]))
            after = problem.next_state(whole(following), s, a)
        except ValueError as error:
            raise _wrong(i, error) from None
        states.append(s)
        actions.append(a)
        seen.append(r)
        chances.append(chance)
    if not actions:
        return None, lost
    visited = np.array([*states, after], np.int64)
    found = np.array(actions, np.int64), np.array(seen), np.array(chances)
    return LoggedEpisode(
        key, contexts[first].copy(), visited, *found, None if barred(problem, mask) is None else mask
    ), lost


def _left(problem: Problem, value: Any) -> Mask:
    """What a cell of the column `unavailable` leaves, [S, A]: actions as text with ; between them, a number, a list, or
    JSON text of a list or of flags [S, A]."""
    parts: list[Any] = []
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            told = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError(f"unavailable must be actions, or JSON of a list, got {check.shown(value)}") from None
        return allowed_actions(problem, told or None)
    if isinstance(value, list | tuple | np.ndarray):
        parts = [whole(one) for one in value]
    elif not is_missing(value):
        parts = [part.strip() for part in value.split(";")] if isinstance(value, str) else [whole(value)]
    named = [int(part) if isinstance(part, str) and part.isdigit() else part for part in parts if part != ""]
    return allowed_actions(problem, named or None)


def _chance(value: Any) -> float:
    """A probability of the table, nan where it is empty."""
    if is_missing(value):
        return math.nan
    made = number_of("probability", value)
    if not 0.0 < made <= 1.0:
        raise ValueError(f"probability must be above 0 and at most 1, got {check.shown(value)}")
    return made
