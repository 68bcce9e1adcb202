"""Refreshes that are put off: a set is made anew beside whatever goes on, and put in place later.

A refresh is a function of the set as it is and of the first n steps of its pair, or of the first so many of every pair
of its block. Between two refreshes learning changes neither: it adds steps behind those, and counts. So what a refresh
takes can be held (`held`) and computed (`Held.compute`) at any time, in any thread; whoever has the numbers n gets the
same, to the bit. Two things are settled when it is put in place, at a time that whoever puts it there may choose:

    an epoch that was decided on begins now, not n steps in: its shape is that of data before it, and nothing that came
    in between had a say in when it begins (`mixture.sets`, `mixture.shared`)
    what ln det(lambda I + H) has gained since is counted from here

Sets hold with probability 1 - delta after every number of steps at once. So the set of before, which lacks the last
steps, holds as well as the new one, however long a refresh is put off.
"""

import math
import threading
from typing import Any

import numpy as np

from ...compiler.jit import kernel
from ...compiler.memory import apart, copied, room_for
from ..store import Store
from .refresh import mixture_refresh
from .sets import MixturePar, MixtureState
from .shared import BlockMixturePar
from .shared_refresh import block_refresh

Place = tuple[int, ...]  # a pair (s, a), or a block (b,)


@kernel
def put_pair(state, made, s, a, steps):
    """The set of pair (s, a) <- that of the only pair of `made`; epochs that are new in it begin after `steps`."""
    M, d = state.map.shape[2:]
    for j in range(M):
        for b in range(d):
            state.map[s, a, j, b], state.centre[s, a, j, b] = made.map[0, 0, j, b], made.centre[0, 0, j, b]
    for i in range(M * d):
        for j in range(M * d):
            state.information[s, a, i, j] = made.information[0, 0, i, j]
            state.cov[s, a, i, j] = made.cov[0, 0, i, j]
    for e in range(state.begins.shape[2]):
        if state.begins[s, a, e] < 0 and made.begins[0, 0, e] >= 0:
            state.begins[s, a, e] = steps
            for i in range(M * d):
                for j in range(M * d):
                    state.shape[s, a, e, i, j] = made.shape[0, 0, e, i, j]
    state.radius[s, a], state.component[s, a] = made.radius[0, 0], made.component[0, 0]
    state.refreshed[s, a], state.gained[s, a] = made.refreshed[0, 0], 0.0
    state.empty[s, a] = made.empty[0, 0]


@kernel
def put_block(state, made, b, episode):
    """The set of block b <- that of `made`; epochs that are new in it begin with `episode`."""
    size = state.map.shape[1]
    for i in range(size):
        state.map[b, i], state.weights[b, i] = made.map[b, i], made.weights[b, i]
        for j in range(size):
            state.information[b, i, j], state.inverse[b, i, j] = made.information[b, i, j], made.inverse[b, i, j]
    for e in range(state.begins.shape[1]):
        if state.begins[b, e] < 0 and made.begins[b, e] >= 0:
            state.begins[b, e] = episode
            for i in range(size):
                for j in range(size):
                    state.shape[b, e, i, j] = made.shape[b, e, i, j]
    state.radius[b], state.component[b] = made.radius[b], made.component[b]
    state.refreshed[b], state.gained[b], state.empty[b] = made.refreshed[b], 0.0, made.empty[b]


def never(par: Any) -> Any:
    """par of sets for which learning finds no refresh due."""
    return par._replace(growth=math.inf, expansion=apart(np.full_like(par.expansion, math.inf)))


def due(par: Any, state: Any, store: Store) -> list[tuple[float, Place]]:
    """(by how much the data has grown, where) of the sets whose refresh learning would find due by now; those that have
    grown most come first."""
    steps = store.visits if isinstance(par, MixturePar) else state.samples
    known = par.count > 1 if isinstance(par, MixturePar) else par.shared.size > 0
    enough = (steps >= par.growth * state.refreshed) | (state.gained >= par.expansion)
    places = np.argwhere(known & (steps > state.refreshed) & enough)
    grown = [(float(steps[tuple(at)] / max(state.refreshed[tuple(at)], 0.5)), tuple(map(int, at))) for at in places]
    return sorted(grown, key=lambda one: (-one[0], one[1]))


def pairs_of(par: Any, place: Place) -> list[tuple[int, int]]:
    """The pairs whose steps a set is made of."""
    if isinstance(par, MixturePar):
        return [(place[0], place[1])]
    of, b = par.shared, place[0]
    return [(int(s), int(a)) for s, a in of.pairs[of.first[b] : of.first[b + 1]]]


class Scratch:
    """Work arrays of refreshes, of their own."""

    def __init__(self, work: Any) -> None:
        self.arrays, self.lock = copied(work, {}), threading.Lock()

    def __deepcopy__(self, memo: Any) -> "Scratch":
        return Scratch(self.arrays)


def _own(array: Any) -> Any:
    made = room_for(array.shape, array.dtype)
    made[...] = array
    return made


class Held:
    """All that one refresh takes: the set as it is, and which steps. visits: how many of each of its pairs
    (`pairs_of`); log: ln(1/delta) of the set; of: the state that it is in; before: the steps of its last refresh. work:
    scratch, of one refresh at a time."""

    def __init__(
        self, par: Any, state: Any, work: Scratch, store: Store, place: Place, visits: tuple[int, ...], log: float
    ) -> None:
        self.place, self.visits, self.of = place, visits, state
        self.before = int(state.refreshed[place])
        self._log, self._work, self._par, self._done = log, work, par, False
        last, counts, later = _first_of(par, store, place, visits)
        if isinstance(par, MixturePar):
            s, a = place
            one = slice(s, s + 1), slice(a, a + 1)
            self._par = par._replace(count=_own(par.count[one]), expansion=_own(par.expansion[one]))
            self._state: Any = MixtureState(*(_own(array[one]) for array in state))
            self._store = store._replace(last=_own(last[one]), visits=_own(counts[one]))
        else:
            self._state = copied(state, {})
            several = par.shared.outcomes > 1
            self._state.samples[place] = sum(counts[pair] for pair in pairs_of(par, place) if several[pair])
            newest = max((int(last[pair]) for pair in pairs_of(par, place)), default=-1) // store.outcomes.shape[1]
            theirs = _own(store.pairs[: newest + 1])
            for at in later:
                if at < theirs.size:
                    theirs.ravel()[at] = 0
            self._store = store._replace(last=apart(last), visits=apart(counts), pairs=theirs)

    def compute(self) -> "Held":
        """Make the set anew: as long as it takes, in any thread; what is held is changed, and nothing else."""
        with self._work.lock:
            if not self._done:
                head = self._par, self._state, self._work.arrays, self._store
                if isinstance(self._par, MixturePar):
                    mixture_refresh(*head, 0, 0, self._log)
                else:
                    block_refresh(*head, self.place[0], self._log)
                self._done = True
        return self

    def put(self, state: Any, store: Store) -> None:
        """In its place, in one compiled call; it must have been computed."""
        if isinstance(self._par, MixturePar):
            s, a = self.place
            put_pair(state, self._state, s, a, int(store.visits[s, a]))
            return
        newest = max((int(store.last[pair]) for pair in pairs_of(self._par, self.place)), default=-1)
        put_block(state, self._state, self.place[0], newest // store.outcomes.shape[1] + 1)


def _first_of(par: Any, store: Store, place: Place, visits: tuple[int, ...]) -> tuple[Any, Any, list[int]]:
    """(last [S, A], visits [S, A]) as they were after so many steps of every pair of a set, and the numbers of the
    steps since."""
    last, counts, later = store.last.copy(), store.visits.copy(), list[int]()
    before = store.previous.ravel()
    for pair, n in zip(pairs_of(par, place), visits, strict=True):
        at = int(last[pair])
        for _ in range(int(counts[pair]) - n):
            later.append(at)
            at = int(before[at])
        last[pair], counts[pair] = at, n
    return last, counts, later


def hold(
    par: Any, state: Any, work: Scratch, store: Store, place: Place, log: float, visits: tuple[int, ...] | None = None
) -> Held:
    """What a refresh of the set at `place` takes, with all its steps or with so many of each pair; a ValueError where
    there can be no such refresh."""
    shape = par.count.shape if isinstance(par, MixturePar) else par.shared.size.shape
    if len(place) != len(shape) or any(not 0 <= i < n for i, n in zip(place, shape, strict=True)):
        raise ValueError(f"place must be that of a set, got {list(place)}")
    now = tuple(int(store.visits[pair]) for pair in pairs_of(par, place))
    visits = now if visits is None else visits
    if len(visits) != len(now) or any(not 0 <= n <= m for n, m in zip(visits, now, strict=True)):
        raise ValueError("visits must be numbers of steps that were learned")
    held = Held(par, state, work, store, place, visits, log)
    steps = int(visits[0] if isinstance(par, MixturePar) else held._state.samples[place])
    if steps <= held.before:
        raise ValueError(f"visits must be more than at the last refresh, of {held.before} steps")
    return held


def rehearsed(par: Any, state: Any, work: Scratch, store: Store) -> None:
    """Have everything compiled, on copies."""
    place: Place = (0, 0) if isinstance(par, MixturePar) else (0,)
    held = Held(par, state, work, store, place, tuple(int(store.visits[pair]) for pair in pairs_of(par, place)), 1.0)
    held._state.refreshed[...] = 0
    held._store.visits[...] = 0
    if isinstance(par, BlockMixturePar):
        held._state.samples[...] = 0
    held.compute().put(copied(state, {}), store)
