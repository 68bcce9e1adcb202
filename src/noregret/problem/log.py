"""What was seen of individuals before: checked episodes, as `noregret.read_log` makes them of a table."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from .problem import Problem


@dataclass(frozen=True, eq=False)
class LoggedEpisode:
    """What was seen of one individual: key as in the table, context [d], states [n+1], actions [n], rewards [n] (nan
    where not seen), probabilities [n]: the chance, given the past, with which whoever decided took each action (nan
    where it was not written down), allowed: what the individual could get, bool [S, A], None: everything."""

    key: Any
    context: Floats
    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: Floats
    probabilities: Floats
    allowed: NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class Log:
    """Checked episodes for `agent.learn_from`, in the order they are learned in: what `read_log` makes of a table.

    Iterate for the episodes: key, context [d], states [n+1], actions [n], rewards [n] (nan where not seen),
    probabilities [n] of the actions (nan where not written down).
    dropped: last rows whose next state nobody knows, which are left out. ordered: whether the order is known to be that
    of arrival; False voids what confidence sets promise where actions followed the past. ties: episodes that came at
    the same moment as the one before, by the column of arrival.

    >>> import noregret as nr
    >>> problem = nr.Problem(n_states=2, n_actions=2, horizon=3, context_dim=1, weight_bound=1.0, reward_bound=1.0)
    >>> table = {
    ...     "episode": [8, 7, 7], "step": [0, 1, 0], "state": [0, 1, 0], "action": [0, 1, 1],
    ...     "reward": [None, 1, 0], "next_state": [None, 0, 1], "x0": [1.0, 0.5, 0.5],
    ... }
    >>> log = nr.read_log(table, problem, arrival="key")
    >>> len(log), log.steps, log.dropped, log.ordered
    (1, 2, 1, True)
    >>> [(episode.key, episode.states.tolist()) for episode in log]
    [(7, [0, 1, 0])]
    """

    problem: Problem
    episodes: tuple[LoggedEpisode, ...]
    dropped: int = 0
    ordered: bool = True
    ties: int = 0

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
        order = "in order of arrival" if self.ordered else "order of arrival not known"
        ties = f", {self.ties} of them at the same moment as the one before" if self.ties else ""
        return (
            f"<Log {len(self)} episodes ({short} shorter than the horizon), {self.steps} steps, {unseen} rewards not "
            f"seen, {self.dropped} last rows without a next state dropped, {order}{ties}>"
        )
