"""Numbers of the dashboard, counted from a journal's events: a fold of its own, that needs no agent.

Events are added in their order, each once; a refresh costs what came since. What stands here is what the journal says:
decisions by state and action, by whom, people over time, certificates as they were told."""

import heapq
import json
import math
from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import Floats
from ...journal.event import Event, Who

AGENT, HOUSE, CALLER, ERASED = "agent", "house", "caller", "erased"
OPEN, ENDED, WITHDRAWN, GONE = 0, 1, 2, 3  # what became of somebody; GONE: erased
LATEST = 8  # people who are listed
UNKNOWN = -1  # of `referred`: nobody said


class Someone:
    """A person who is not learned yet. place: their place in the arrays of `Figures`; rewards: by step."""

    __slots__ = ("actions", "ended", "last", "place", "rewards", "until", "who")

    def __init__(self, who: Who, place: int) -> None:
        self.who, self.place = who, place
        self.ended, self.until = False, math.inf
        self.last: tuple[int, Any, Any, str, str | None, bool] | None = None
        self.rewards: dict[int, float] = {}


class Figures:
    """What the events up to `number` add up to. pairs: (state, action) -> decisions; chosen: (by whom, reason) ->
    decisions; `each` has what is counted by person.

    A step that is decided again counts once, as it was decided last; corrections of rewards likewise.

    >>> figures = Figures()
    >>> figures.add(Event("begin", "2026-01-05T10:00:00+00:00", "Ms B", {"x": [1.0]}, '{"certificate": 2.5}'))
    >>> figures.add(Event("decide", "2026-01-05T10:00:01+00:00", "Ms B",
    ...     {"step": 0, "state": "ill", "action": 1, "by": "house"}, '{"reason": "deadline"}', number=1))
    >>> figures.people, figures.open, dict(figures.chosen), figures.each("certificates").tolist()
    (1, 1, {('house', 'deadline'): 1}, [2.5])
    """

    def __init__(self) -> None:
        self.number = 0  # events added
        self.kinds: Counter[str] = Counter()
        self.pairs: Counter[tuple[Any, Any]] = Counter()
        self.chosen: Counter[tuple[str, str | None]] = Counter()
        self.with_probability = 0
        self.open = 0
        self.made: dict[str, Any] = {}
        self.alarms: deque[tuple[str, dict[str, Any]]] = deque(maxlen=20)
        self.latest: deque[tuple[Who, str]] = deque(maxlen=LATEST)
        self.last_time = ""
        self._order = "begin"
        self._people: OrderedDict[Who, Someone] = OrderedDict()  # not learned yet, in the order of arrival
        self._due: list[tuple[float, int, Who]] = []  # with order "end": who waits for so many people
        self._floats = {name: array("d") for name in ("began", "certificates", "returns")}
        self._counts = {name: array("i") for name in ("referred", "fates", "decided", "by_house", "by_caller")}
        self._contexts = array("d")
        self._columns: dict[str, list[Any]] = {}
        self._width = 0

    # What there is ------------------------------------------------------------------------------------------------
    def each(self, name: str) -> NDArray[Any]:
        """By person, in the order of arrival [n]: began (seconds since 1970), certificates (nan: none), returns (the
        sum of the rewards seen), referred (1, 0, -1: not said), fates (OPEN, ENDED, WITHDRAWN, GONE), and decided,
        by_house, by_caller: how many decisions."""
        return np.array(self._floats[name] if name in self._floats else self._counts[name])

    @property
    def people(self) -> int:
        """How many began."""
        return len(self._floats["began"])

    @property
    def waiting(self) -> int:
        """Ended, and not learned yet."""
        return len(self._people) - self.open

    @property
    def decisions(self) -> int:
        return sum(self.chosen.values())

    def by(self, whom: str) -> int:
        """Decisions of the agent, the house rule, a caller; "erased": of people whose data are gone."""
        return sum(n for (by, _), n in self.chosen.items() if by == whom)

    @property
    def erased(self) -> int:
        return int((self.each("fates") == GONE).sum())

    def columns(self, names: Any = None) -> dict[str, list[Any]]:
        """What people came with, by column: of their rows, or the features of their contexts. None: not told."""
        if self._columns:
            return {name: values + [None] * (self.people - len(values)) for name, values in self._columns.items()}
        if not self._width:
            return {}
        X = np.array(self._contexts).reshape(-1, self._width)
        names = names if names and len(names) == self._width else [f"x{j}" for j in range(self._width)]
        return {str(n): [None if math.isnan(v) else v for v in X[:, j].tolist()] for j, n in enumerate(names)}

    # Events -------------------------------------------------------------------------------------------------------
    def add(self, event: Event) -> None:
        """The next event; a ValueError where it is another."""
        if event.number != self.number:
            raise ValueError(f"event must be number {self.number}, got {event.number}")
        self.kinds[event.kind] += 1
        self.last_time = event.time
        if event.kind == "made":
            self.made = event.payload or {}
            self._order = str((self.made.get("live") or {}).get("order", "begin"))
        elif event.kind == "alarm":
            self.alarms.append((event.time, event.payload or {}))
        elif event.kind == "begin":
            self._begin(event)
        elif event.kind == "decide" and (event.erased or event.who is None):
            self.chosen[ERASED, None] += 1
        elif event.who is not None and event.kind in _OWN and event.who in self._people:
            _OWN[event.kind](self, self._people[event.who], event)
        self.number += 1

    def _begin(self, event: Event) -> None:
        payload, told = event.payload or {}, _read(event.answer)
        place, gone = self.people, event.erased or event.who is None
        for name, value in (("began", _seconds(event.time)), ("certificates", math.nan), ("returns", 0.0)):
            self._floats[name].append(value)
        for name, counts in self._counts.items():
            counts.append(0 if name not in ("referred", "fates") else UNKNOWN if name == "referred" else OPEN)
        self._told(place, told)
        self._keep_context(payload.get("x"), place)
        if gone:
            self._counts["fates"][place] = GONE
            return
        who: Any = event.who
        before = self._people.pop(who, None)
        self.open -= before is not None and not before.ended
        self._people[who] = Someone(who, place)
        self.latest.append((who, event.time))
        self.open += 1
        self._settle()

    def _told(self, place: int, told: dict[str, Any]) -> None:
        """What a plan's first answer says of it: that of `begin`, or of a decision where the agent came later."""
        certificate, referred = told.get("certificate"), told.get("referred")
        if isinstance(certificate, int | float) and math.isnan(self._floats["certificates"][place]):
            self._floats["certificates"][place] = certificate
        if referred is not None and self._counts["referred"][place] == UNKNOWN:
            self._counts["referred"][place] = int(bool(referred))

    def _keep_context(self, x: Any, place: int) -> None:
        if isinstance(x, dict):
            for name, value in x.items():
                column = self._columns.setdefault(str(name), [])
                column += [None] * (place - len(column))
                column.append(value if isinstance(value, str | int | float) else None)
            return
        if isinstance(x, list) and x and not self._width:
            self._width = len(x)
            self._contexts.extend([math.nan] * (place * self._width))
        good = isinstance(x, list) and len(x) == self._width
        if self._width:
            self._contexts.extend([float(v) for v in x] if good else [math.nan] * self._width)

    def _decide(self, person: Someone, event: Event) -> None:
        payload, told = event.payload or {}, _read(event.answer)
        by = str(payload.get("by", AGENT))
        self._told(person.place, told)
        reason = told.get("reason") or payload.get("reason")
        known = payload.get("probability") is not None
        step = int(payload.get("step", 0))
        if person.last is not None and person.last[0] == step:
            self._count(person, person.last, -1)
        person.last = (step, payload.get("state"), payload.get("action"), by, reason and str(reason), known)
        self._count(person, person.last, 1)

    def _count(self, person: Someone, made: tuple[int, Any, Any, str, str | None, bool], n: int) -> None:
        _, state, action, by, reason, known = made
        self.pairs[state, action] += n
        self.chosen[by, reason] += n
        self.with_probability += n * known
        self._counts["decided"][person.place] += n
        if by in (HOUSE, CALLER):
            self._counts[f"by_{by}"][person.place] += n

    def _outcome(self, person: Someone, event: Event) -> None:
        payload = event.payload or {}
        step, reward = int(payload.get("step", 0)), payload.get("reward")
        if reward is None:
            return
        self._floats["returns"][person.place] += float(reward) - person.rewards.get(step, 0.0)
        person.rewards[step] = float(reward)

    def _end(self, person: Someone, event: Event) -> None:
        wait = (event.payload or {}).get("wait", 0)
        if person.ended:
            return
        person.ended, self.open = True, self.open - 1
        self._counts["fates"][person.place] = ENDED
        self._wait(person, math.inf if wait is None else self.people + int(wait))

    def _close(self, person: Someone, event: Event) -> None:
        if person.ended:
            self._wait(person, 0.0)

    def _withdraw(self, person: Someone, event: Event) -> None:
        if (event.payload or {}).get("learn"):
            self._end(person, event)
            self._counts["fates"][person.place] = WITHDRAWN
            return
        self.open -= not person.ended
        self._counts["fates"][person.place] = WITHDRAWN
        del self._people[person.who]
        self._settle()

    def _wait(self, person: Someone, until: float) -> None:
        """As `live.people.Person.due` has it: learned when so many people have begun."""
        person.until = until
        if self._order != "begin" and until < math.inf:
            heapq.heappush(self._due, (until, person.place, person.who))
        self._settle()

    def _settle(self) -> None:
        """Whoever is learned by now is no longer kept."""
        if self._order == "begin":
            while self._people:
                first = next(iter(self._people.values()))
                if not (first.ended and self.people >= first.until):
                    return
                del self._people[first.who]
        while self._due and self._due[0][0] <= self.people:
            _, place, who = heapq.heappop(self._due)
            if who in self._people and self._people[who].place == place:
                del self._people[who]


_OWN: dict[str, Callable[[Figures, Someone, Event], None]] = {
    "decide": Figures._decide, "outcome": Figures._outcome, "reward": Figures._outcome,
    "correction": Figures._outcome, "end": Figures._end, "close": Figures._close, "withdraw": Figures._withdraw,
}  # fmt: skip


def windows(people: int, most: int = 40) -> list[tuple[int, int]]:
    """(first, end) of at most so many windows over people in the order of arrival, a tenth of them each.

    >>> windows(3), windows(0)
    ([(0, 1), (1, 2), (2, 3)], [])
    """
    if people == 0:
        return []
    size = max(people // 10, 1)
    ends = np.unique(np.linspace(size, people, min(most, people - size + 1)).round().astype(int))
    return [(int(e) - size, int(e)) for e in ends]


def over_people(values: Floats, shares: tuple[float, ...] = (0.1, 0.5, 0.9)) -> tuple[Floats, Floats]:
    """(place [w] of each window's last person, from 1; quantiles [w, len(shares)]) of values [n], nan left out."""
    places, found = [], []
    for first, end in windows(len(values)):
        known = values[first:end][np.isfinite(values[first:end])]
        if known.size:
            places.append(float(end))
            found.append(np.quantile(known, shares))
    return np.array(places), np.array(found).reshape(-1, len(shares))


def mean_over_people(values: Floats, known: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """(place, mean) likewise, over those who are known."""
    places, found = [], []
    for first, end in windows(len(values)):
        some = values[first:end][known[first:end]]
        if some.size:
            places.append(float(end))
            found.append(float(some.mean()))
    return np.array(places), np.array(found)


def _read(answer: str | None) -> dict[str, Any]:
    if not answer:
        return {}
    try:
        made = json.loads(answer)
    except ValueError:
        return {}
    return made if isinstance(made, dict) else {}


def _seconds(time: str) -> float:
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return math.nan
