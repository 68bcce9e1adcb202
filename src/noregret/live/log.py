"""Logged data in: a table of steps becomes episodes, checked row by row before anything is learned from them."""

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _checks as check
from .._checks import Floats
from ..agents.base import Agent
from ..problem import Problem
from .cells import number_of
from .encoder import Encoder
from .tables import columns, is_missing, whole

NEEDED = ("episode", "step", "state", "action", "next_state")


@dataclass(frozen=True, eq=False)
class LoggedEpisode:
    """What was seen of one individual: key as in the table, context [d], states [n+1], actions [n], rewards [n] (nan
    where not seen)."""

    key: Any
    context: Floats
    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: Floats


@dataclass(frozen=True, eq=False)
class Log:
    """Checked episodes for `agent.learn_from`, in the order of their keys: what `read_log` makes of a table.

    Iterate for the episodes: key, context [d], states [n+1], actions [n], rewards [n] (nan where not seen). dropped:
    last rows without a next state, which are left out.

    >>> import noregret as nr
    >>> problem = nr.Problem(n_states=2, n_actions=2, horizon=3, context_dim=1, weight_bound=1.0, reward_bound=1.0)
    >>> table = {
    ...     "episode": [8, 7, 7], "step": [0, 1, 0], "state": [0, 1, 0], "action": [0, 1, 1],
    ...     "reward": [None, 1, 0], "next_state": [None, 0, 1], "x0": [1.0, 0.5, 0.5],
    ... }
    >>> log = nr.read_log(table, problem)
    >>> len(log), log.steps, log.dropped
    (1, 2, 1)
    >>> [(episode.key, episode.states.tolist()) for episode in log]
    [(7, [0, 1, 0])]
    """

    problem: Problem
    episodes: tuple[LoggedEpisode, ...]
    dropped: int = 0

    def __len__(self) -> int:
        return len(self.episodes)

    def __iter__(self) -> Iterator[LoggedEpisode]:
        return iter(self.episodes)

    @property
    def steps(self) -> int:
        return sum(len(e.actions) for e in self.episodes)

    def __repr__(self) -> str:
        unseen = sum(int(np.isnan(e.rewards).sum()) for e in self.episodes)
        short = sum(len(e.actions) < self.problem.horizon for e in self.episodes)
        return (
            f"<Log {len(self)} episodes ({short} shorter than the horizon), {self.steps} steps, {unseen} rewards not "
            f"seen, {self.dropped} last rows without a next state dropped>"
        )


def read_log(source: Any, problem: Problem, encoder: Encoder | None = None) -> Log:
    """The episodes in a table of steps: a .parquet or .csv file, a data frame, an Arrow table or a dict of columns.

    episode      any key; rows of an episode belong together wherever they stand in the table
    step         0, 1, ... within the episode, without gaps; episodes may end early
    state, action, next_state   numbers, or names where the problem has them; next_state is the state of the next step.
                 The last row of an episode may lack it: that row is dropped, and counted
    reward       from 0 to 1; empty where it was not seen. Without the column none was
    context      the same in all rows of an episode: the encoder's columns; without one, columns x0, x1, ..., or the
                 problem's feature_names

    Rows are counted from 0 in the sentences about bad ones. What a guarantee needs of a log: that its actions were
    chosen by context, state and past, and that whether a reward is missing or an episode ends early did not depend on
    what was not seen.

    >>> import noregret as nr
    >>> problem = nr.Problem(
    ...     2, 2, 3, 2, weight_bound=1.0, reward_bound=1.0, state_names=("ill", "well"), action_names=("wait", "drug")
    ... )
    >>> table = {
    ...     "episode": [7, 7, 8], "step": [0, 1, 0],
    ...     "state": ["ill", "ill", "ill"], "action": ["wait", "drug", "drug"], "next_state": ["ill", "well", "well"],
    ...     "reward": [0, 1, None], "x0": [0.6, 0.6, 0.6], "x1": [0.8, 0.8, -0.8],
    ... }
    >>> nr.PSRLGLM(problem).learn_from(nr.read_log(table, problem))  # episodes learned
    2
    >>> table["x1"][1] = 0.7
    >>> nr.read_log(table, problem)
    Traceback (most recent call last):
        ...
    ValueError: row 1: the context of episode 7 is not that of row 0
    """
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a noregret.Problem, got {type(problem).__name__}")
    data = columns(source, "source")
    lacking = [c for c in NEEDED if c not in data]
    if lacking:
        raise ValueError(f"source must have the columns {', '.join(NEEDED)}; {', '.join(lacking)} not found")
    n = len(data["episode"])
    rewards = data.get("reward", [None] * n)
    contexts = _contexts(data, problem, encoder, n)
    rows: dict[Any, dict[int, int]] = {}
    for i in range(n):
        with_row = _Row(i)
        key, step = data["episode"][i], whole(data["step"][i])
        if is_missing(key):
            raise with_row("episode is missing")
        if not isinstance(key, Hashable):
            raise with_row(f"episode must be a number or text, got {check.shown(key)}")
        if isinstance(step, bool) or not isinstance(step, int | np.integer) or not 0 <= step < problem.horizon:
            raise with_row(f"step must be a whole number from 0 to {problem.horizon - 1}, got {check.shown(step)}")
        steps = rows.setdefault(key, {})
        h = int(step)
        if h in steps:
            raise with_row(f"step {h} of episode {check.shown(key)} is there twice, also in row {steps[h]}")
        steps[h] = i
    episodes, dropped = [], 0
    for key in _in_order(rows):
        made, lost = _episode(key, rows[key], data, rewards, contexts, problem)
        dropped += lost
        if made is not None:
            episodes.append(made)
    return Log(problem, tuple(episodes), dropped)


class _Row:
    """Makes the sentence about row i."""

    def __init__(self, i: int) -> None:
        self.i = i

    def __call__(self, error: Any) -> ValueError:
        return ValueError(f"row {self.i}: {error}")


def _in_order(keys: Any) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:
        return sorted(keys, key=lambda k: (type(k).__name__, str(k)))


def _contexts(data: dict[str, list[Any]], problem: Problem, encoder: Encoder | None, n: int) -> Floats:
    d = problem.context_dim
    if encoder is not None:
        if not isinstance(encoder, Encoder):
            raise ValueError(f"encoder must be a noregret.Encoder or None, got {type(encoder).__name__}")
        encoder.check_fits(problem)
        lacking = [c for c in encoder.columns if c not in data]
        if lacking:
            raise ValueError(f"source must have the encoder's columns, {', '.join(lacking)} not found")
        made = encoder.encode_all({c: data[c] for c in encoder.columns} | {"episode": data["episode"]})
    else:
        names = [f"x{j}" for j in range(d)]
        if not all(c in data for c in names):
            names = list(problem.feature_names or names)
        lacking = [c for c in names if c not in data]
        if lacking:
            raise ValueError(f"source must have the context's columns {', '.join(names)}; {lacking[0]} not found")
        made = np.zeros((n, d))
        for j, name in enumerate(names):
            for i, value in enumerate(data[name]):
                try:
                    made[i, j] = number_of(name, value)
                except ValueError as error:
                    raise _Row(i)(error) from None
    for i in range(n):
        try:
            made[i] = problem.context(made[i])
        except ValueError as error:
            raise _Row(i)(error) from None
    return made


def _episode(
    key: Any, steps: dict[int, int], data: dict[str, list[Any]], rewards: list[Any], contexts: Floats, problem: Problem
) -> tuple[LoggedEpisode | None, int]:
    """(episode, rows dropped); None where nothing is left of it."""
    n, first, lost = len(steps), next(iter(steps.values())), 0
    states, actions, seen = [], [], []
    after: int | None = None
    for h in range(n):
        if h not in steps:
            raise _Row(max(steps.values()))(
                f"episode {check.shown(key)} lacks step {h}: steps must be 0, 1, ... without gaps"
            )
        i = steps[h]
        row = _Row(i)
        try:
            s = problem.state(whole(data["state"][i]))
            a = problem.action(whole(data["action"][i]), s)
            starts = problem.initial_states
            if h == 0 and starts is not None and s not in starts:
                raise ValueError(f"state must be one of the problem's initial_states {starts} at step 0, got {s}")
            if h > 0 and s != after:
                raise ValueError(f"state {s} at step {h} is not the next_state of the step before, {after}")
            if not np.array_equal(contexts[i], contexts[first]):
                raise ValueError(f"the context of episode {check.shown(key)} is not that of row {first}")
            value = rewards[i]
            r = problem.reward(math.nan if is_missing(value) else value)
            if is_missing(data["next_state"][i]):
                if h < n - 1:
                    raise ValueError(
                        f"next_state is missing, and step {h} is not the last of episode {check.shown(key)}"
                    )
                lost = 1
                break
            after = problem.next_state(whole(data["next_state"][i]), s, a)
        except ValueError as error:
            raise row(error) from None
        states.append(s)
        actions.append(a)
        seen.append(r)
    if not actions:
        return None, lost
    visited = np.array([*states, after], np.int64)
    return LoggedEpisode(key, contexts[first].copy(), visited, np.array(actions, np.int64), np.array(seen)), lost


def learn_from(agent: Agent, log: Log) -> int:
    """`Agent.learn_from`."""
    if not isinstance(log, Log):
        raise ValueError(f"log must be what noregret.read_log returns, got {type(log).__name__}")
    agent._own_verb("learn_from")
    if agent._open:
        raise RuntimeError("learn_from: an episode is open, call end_episode first")
    p = agent.problem
    if log.problem is not p:
        if not p.same_shape(log.problem):
            raise ValueError("log was read for a problem of another shape than the agent's")
        starts = set(p.starts.tolist())
        for e in log:
            if not np.array_equal(p.context(e.context), e.context) or int(e.states[0]) not in starts:
                raise ValueError(
                    f"log: episode {check.shown(e.key)} has a context or an initial state that the agent's bars"
                )
            for r in e.rewards:
                p.reward(r)
    agent._learn_all([(e.context, e.states, e.actions, e.rewards) for e in log])
    return len(log)
