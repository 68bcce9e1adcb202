"""Data that is not simulated: rows of a table for contexts, logs to learn from, and the chances of actions."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from .. import checks as check
from ..beliefs.individual import IndividualModel
from ..checks import Floats
from ..compiler.memory import apart
from ..problem.encoder import Encoder
from ..problem.log import Log
from ..problem.problem import Problem
from .locks import locked
from .masks import Masked
from .probabilities import ActionProbabilities, action_probabilities

# Conditions of what an agent promises after it learned a log, read after "provided that"
CAVEAT = (
    "in the log of unknown order that was learned, nobody's actions, context or arrival followed outcomes of people "
    "with larger keys"
)
TIED = (
    "in the log that was learned, nobody's actions or context followed outcomes of people of the same moment whose "
    "rows stand below theirs"
)
LATER = "the people of a log that was learned later came after everybody learned before it"


_WORLDS: list[Any] = []  # worlds and agents do not know each other; whoever puts rooms together says how one is made


def worlds_made_with(make: Any) -> None:
    """make(agent, contexts, draw, ...) makes the worlds of `Agent.world` from now on."""
    _WORLDS[:] = [make]


class FromData(Masked):
    """The part of `Agent` that takes data from elsewhere."""

    problem: Problem
    _encoder: Encoder | None = None
    _drawn: Any = None  # plans of the open episode with other seeds, and what they were drawn for (`probabilities`)
    _learn_all: Any  # of `Agent`

    @property
    def encoder(self) -> Encoder | None:
        """Turns rows of a table into contexts for `begin_episode`; saved with the agent. None: contexts are vectors."""
        return self._encoder

    @encoder.setter
    @locked
    def encoder(self, value: Encoder | None) -> None:
        if value is not None:
            check.instance("encoder", value, Encoder, "a noregret.Encoder or None")
            value.check_fits(self.problem)
        self._encoder = value

    def with_encoder(self, encoder: Encoder | None) -> Self:
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
    def model(self, x: Any) -> IndividualModel:
        """What the agent believes of an individual with context x [d] (or a row, where it has an `encoder`): P, r, how
        sure it is of them, and by names. Nothing changes; agents without such a model say so in one sentence.

        >>> import noregret as nr
        >>> world = nr.worlds.clinic()
        >>> model = nr.LRORL(world.problem).model(world.context(seed=0, episode=0))
        >>> model.P[0, 0].round(2).tolist(), model.rung  # nobody was met yet
        ([0.5, 0.5, 0.0, 0.0], 'proved')
        """
        return self._model_of(apart(self.problem.context(self.encoded(x))))

    def _model_of(self, x: Floats) -> IndividualModel:
        """The model, for agents that have one; of an agent made of others, that of the one that decides."""
        inner: Any = self.parts().get("agent")
        if inner is None:
            raise ValueError(f"model: {self.name} keeps no model of next states and mean rewards")
        made: IndividualModel = inner._model_of(x)
        return made

    def believer(self) -> Any:
        """The agent whose posterior says what is believed: itself, or the part that decides; None: there is none."""
        inner: Any = self.parts().get("agent")
        return None if inner is None else inner.believer()

    def certifier(self) -> Any:
        """The agent whose `certify` says what is proved, likewise."""
        inner: Any = self.parts().get("agent")
        return None if inner is None else inner.certifier()

    @locked
    def weights(self, draw: int | None = None) -> tuple[Floats, Floats]:
        """Estimated weights of all pairs: of next states, slots [S, A, M, d] as `problem.layout` has them, and of mean
        rewards, [S, A, d] in the problem's units. draw: of model number so and so, drawn from the posterior, instead.
        Agents without such weights say so.

        >>> import noregret as nr
        >>> world = nr.worlds.clinic()
        >>> slots, theta = nr.PSRLGLM(world.problem).weights()
        >>> slots.shape == world.slots.shape, theta.shape == world.reward_weights.shape
        (True, True)
        """
        return self._fitted() if draw is None else self._drawn_weights(check.integer("draw", draw, 0))

    def world(self, contexts: Any, draw: int | None = None, **more: Any) -> Any:
        """A `World` that simulates from what the agent has learned, to try plans before people do: the fitted model, or
        model number `draw` from the posterior, with these people. See `noregret.simulation.world_of`."""
        if not _WORLDS:
            raise RuntimeError("world: import noregret, which knows how worlds are made")
        return _WORLDS[0](self, contexts, draw, **more)

    def _fitted(self) -> tuple[Floats, Floats]:
        """The estimated weights; of an agent made of others, those of the one that decides."""
        inner: Any = self.parts().get("agent")
        if inner is None:
            raise ValueError(f"weights: {self.name} keeps no weights of next states and mean rewards")
        made: tuple[Floats, Floats] = inner._fitted()
        return made

    def _drawn_weights(self, number: int) -> tuple[Floats, Floats]:
        """Likewise drawn ones."""
        inner = self.believer()
        if inner is None or inner is self:
            raise ValueError(f"draw must be None: {self.name} keeps no posterior to draw weights from")
        made: tuple[Floats, Floats] = inner._drawn_weights(number)
        return made

    @locked
    def learn_from(self, log: Log) -> int:
        """Learn from the episodes of a log (`noregret.read_log`), in their order; how many there were.

        They count as individuals met: the clock moves on. Nothing is planned, so no expert is asked and nobody counts
        as referred. Whoever chose the logged actions must have chosen them by what the log says (context, state, past);
        otherwise the sets are void. A log whose order of arrival is not known (`Log.ordered`) leaves a sentence in
        `guarantee`. A log of another problem changes nothing."""
        check.instance("log", log, Log, "what noregret.read_log returns")
        self._own_verb("learn_from")
        if self.is_open:
            raise RuntimeError("learn_from: an episode is open, call end_episode first")
        p = self.problem
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
        said = [] if log.ordered else [CAVEAT]
        said += [TIED] if log.ordered and log.ties else []
        said += [LATER] if self.episode > 0 else []
        self._learn_all([(e.context, e.states, e.actions, e.rewards) for e in log], tuple(said) if len(log) else ())
        return len(log)

    @locked
    def refresh(self) -> None:
        """Make stored sets anew from all data there is, now, where there is some that they have not seen.

        Stored sets (sets="stored", reward_sets="bernstein") are refreshed when their data has grown by 15%, so between
        two refreshes they are those of up to 15% less. After a log, or before people are certified, this makes them as
        narrow as they can be. They hold with the same probability, as often as it is done: all of them rest on one
        event (docs/beyond.md, section 3). Of `Certified` the judge's, of `Referral` the agent's; nothing happens where
        nothing is stored.

        >>> import noregret as nr
        >>> world = nr.worlds.programme(context_dim=4)
        >>> agent = nr.LRORL(world.problem, sets="stored")
        >>> agent.learn_from(world.log(100, seed=1))
        100
        >>> x, before = world.context(2, 0), agent.state.transitions.refreshed[0]
        >>> agent.refresh()
        >>> bool(before < agent.state.transitions.refreshed[0] == 800)  # steps of a hundred people
        True
        """
        self._own_verb("refresh")
        if self.is_open:
            raise RuntimeError("refresh: an episode is open, call end_episode first")
        self._root()._changes += 1
        self._renew()

    def _renew(self) -> None:
        """What `refresh` does, in one compiled call."""

    @locked
    def action_probabilities(self, state: int | str, draws: int = 1000) -> ActionProbabilities:
        """In an open episode: the chance of each action in `state` at this step, given the past and what this episode's
        plan has done so far. See `agents.probabilities`; nothing is changed."""
        return action_probabilities(self, state, draws)

    def _chances(self, h: int, s: int) -> Floats | None:
        """The chances [A] of its actions in state s at step h, where they are known without draws; else None."""
        return None

    def _lottery(self) -> int:
        """How many plans what it plays is drawn from (`agents.lottery`); 0: it plays its plan."""
        return 0

    def prepare(self, x: Floats) -> None:
        """Before a plan for x is made on a copy: whoever has to be asked about everybody is asked."""

    def _hands_over(self, state: Any, k: int) -> bool:
        """Whether by this `state` individual k is handed to an expert who is a function, and has to be asked."""
        return False
