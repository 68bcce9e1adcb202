"""What is one for an agent and for all agents it is made of: lock, clock, state, evidence, and what speaks against it.

An agent that was taken over by another, its owner, finds all of these in the whole (`_root`), and its own verbs are
refused. A `Live` takes an agent over, too, for as long as there is one."""

import warnings
import weakref
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from .locks import Lock, locked
from .refutation import due, examine

EPISODE, STEP, ASKED, OPEN = range(4)  # of the clock (`commit`)


class Owned:
    """The part of `Agent` that its owner has in its place."""

    name: ClassVar[str]
    pause: int
    _own_lock: Lock
    _own_clock: NDArray[np.int64]
    _own_evidence: Floats
    _own_state: Any
    _refutation: str | None
    _caveats: tuple[str, ...]
    _owner: Any = None  # the agent that this one is a part of
    _ask: Any = None  # the expert of a `Referral`, or the baseline of a `Conservative`, where it is a function
    asks_everybody = False  # whether that function is asked about everybody, not only where somebody is handed over
    _changes: int = 0  # how often what it knows has changed
    _examined: Any = None  # individuals and changes when the tests of what is assumed were asked last
    _keeper: Any = None  # weak reference to the `Live` that has taken it over

    def parts(self) -> Any:
        raise NotImplementedError

    # In whose hands it is ---------------------------------------------------------------------------------------------
    def free(self, name: str) -> Self:
        """The agent, if nobody has taken it over; a sentence about the argument `name` otherwise."""
        by = self._taken_by()
        if by is not None:
            raise ValueError(
                f"{name} must be free, this {self.name} was taken over by {by}: use a fresh or a loaded one"
            )
        return self

    def as_part(self, name: str) -> Self:
        """The same for an agent that is to be a part of another: it must plan whole episodes, and none may be open."""
        self.free(name)
        if self.pause:
            raise ValueError(f"{name} must plan whole episodes, {self.name} plans again within them")
        if self.is_open:
            raise ValueError(f"{name} must not be in the middle of an episode")
        return self

    def _taken_by(self) -> str | None:
        if self._owner is not None:
            return f"a {type(self._owner).__name__}"
        return "a Live" if self._keeper is not None and self._keeper() is not None else None

    def _own_verb(self, verb: str) -> None:
        """A sentence where this agent is in somebody else's hands."""
        by = self._taken_by()
        if by is not None:
            raise RuntimeError(f"{verb}: this {self.name} was taken over by {by}, which has to be asked")

    def hand_to(self, keeper: Any) -> None:
        """Taken over by a `Live`, for as long as there is one."""
        self._keeper = weakref.ref(keeper)

    def share_lock(self, lock: Lock) -> None:
        """Have that lock for its own: of an agent that takes another's place under it."""
        self._root()._own_lock = lock

    def _root(self) -> Self:
        root = self
        while root._owner is not None:
            root = root._owner
        return root

    @property
    def lock(self) -> Lock:
        return self._root()._own_lock

    @property
    def _clock(self) -> NDArray[np.int64]:
        return self._root()._own_clock

    @property
    def evidence(self) -> Floats:
        """What the bets of `refutation` have come to, [8]: the agent's own array."""
        return self._root()._own_evidence

    @property
    def state(self) -> Any:
        """Named tuples of the arrays that are learned; of a part, those in the state of the whole."""
        return self._own_state if self._owner is None else self._owner._state_of(self)

    def _state_of(self, part: Any) -> Any:
        """What in the state is that part's: the field under its name."""
        name = next(name for name, made in self._made_of().items() if made is part)
        return getattr(self.state, name)

    def _made_of(self) -> Any:
        """All agents whose arrays it works on, by their field in the state."""
        return self.parts()

    @property
    def episode(self) -> int:
        """Episodes finished."""
        return int(self._clock[EPISODE])

    @property
    def changes(self) -> int:
        """How often what it knows has changed: plans of before can no longer be explained."""
        return self._root()._changes

    @property
    def _step(self) -> int:
        return int(self._clock[STEP])

    @property
    def _asked(self) -> bool:
        return bool(self._clock[ASKED])

    @property
    def is_open(self) -> bool:
        return bool(self._clock[OPEN])

    def _set_clock(self, episode: int, step: int = 0, asked: int = 0, opened: int = 0) -> None:
        self._clock[:] = episode, step, asked, opened

    # What is known against it ---------------------------------------------------------------------------------------
    @property
    def refuted(self) -> str | None:
        """What was seen that contradicts the assumptions, in one sentence; None as long as nothing was."""
        return self._root()._refutation

    @locked
    def refute(self, sentence: str) -> None:
        """Note that an assumption was seen to be false: nothing is promised from then on. The first such sentence is
        kept, and saved, and there is a warning."""
        root = self._root()
        if root._refutation is None:
            root._refutation = str(sentence)
            warnings.warn(f"{root.name} promises nothing any more: {sentence}", UserWarning, stacklevel=3)

    def examine(self) -> None:
        """See whether what was learned refutes an assumption, after the individuals whose turn it is (`refutation`)."""
        root, met = self._root(), (self.episode, self.changes)
        if root._examined != met and due(met[0]):
            examine(self)
        root._examined = met

    def _rests_on(self) -> tuple[Any, ...]:
        """The agents whose sets its promise rests on: the tests of what is assumed look at these, and at no others."""
        return (self,)
