"""What agents offer where there is no simulator: rows of a table for contexts, logged data, chances of actions.

The work is done in `noregret.live`; this is where it hangs on the agents."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from .._threads import locked
from ..problem import Problem
from .shared import Shared

if TYPE_CHECKING:
    from ..live.encoder import Encoder
    from ..live.log import Log
    from ..live.probabilities import ActionProbabilities


class InPractice(Shared):
    """The part of `Agent` for live use."""

    problem: Problem
    _encoder: "Encoder | None" = None

    @property
    def encoder(self) -> "Encoder | None":
        """Turns rows of a table into contexts for `begin_episode`; saved with the agent. None: contexts are vectors."""
        return self._encoder

    @encoder.setter
    @locked
    def encoder(self, value: "Encoder | None") -> None:
        from ..live.encoder import Encoder

        if value is not None:
            if not isinstance(value, Encoder):
                raise ValueError(f"encoder must be a noregret.Encoder or None, got {type(value).__name__}")
            value.check_fits(self.problem)
        self._encoder = value

    def with_encoder(self, encoder: "Encoder | None") -> Self:
        """The same agent, with that encoder."""
        self.encoder = encoder
        return self

    def encoded(self, x: Any) -> Any:
        """The context of a row by column names (a mapping, or a row of a data frame); anything else as it is."""
        if isinstance(x, Mapping) and self._encoder is None:
            raise ValueError(
                f"context must be {self.problem.context_dim} numbers; a row by column names needs agent.encoder"
            )
        return self._encoder.encode(x) if self._encoder is not None and hasattr(x, "keys") else x

    @locked
    def learn_from(self, log: "Log") -> int:
        """Learn from the episodes of a log (`noregret.read_log`), in their order; how many there were.

        They count as individuals met: the clock moves on. Nothing is planned, so no expert is asked and nobody counts
        as referred. Whoever chose the logged actions must have chosen them by what the log says (context, state, past);
        otherwise the sets are void. A log whose order of arrival is not known (`Log.ordered`) leaves a sentence in
        `guarantee`. A log of another problem changes nothing."""
        from ..live.log import learn_from

        agent: Any = self
        return learn_from(agent, log)

    @locked
    def action_probabilities(self, state: int | str, draws: int = 1000) -> "ActionProbabilities":
        """In an open episode: the chance of each action in `state` at this step, given the past and what this episode's
        plan has done so far. See `noregret.live.probabilities`; nothing is changed."""
        from ..live.probabilities import action_probabilities

        agent: Any = self
        return action_probabilities(agent, state, draws)
