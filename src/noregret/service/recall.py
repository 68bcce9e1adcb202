"""What the writer remembers of the journal: answers by key, and the standing of people. Both can be forgotten at any
time and are then read again."""

from collections import deque
from typing import Any

import msgspec

from ..journal.errors import DAMAGED, RowDamaged
from ..problem.problem import Problem
from .asking import Answer, Refusal
from .standing import Standing

ANSWERS, PEOPLE = 50_000, 100_000  # how many are remembered


class Known(msgspec.Struct, frozen=True, gc=False):
    """What was asked with a key, and what was said."""

    asked: bytes | None
    answer: Answer


class Recall:
    """answered(keys): what is known of these keys; standing(who): of a person, empty where nobody began."""

    def __init__(self, journal: Any, problem: Problem) -> None:
        self.journal, self.problem = journal, problem
        self._answers: dict[str, Known] = {}
        self._keys: deque[str] = deque()  # of them, the oldest first: a dictionary finds its first slowly
        self._people: dict[Any, Standing] = {}

    def answered(self, keys: list[str]) -> dict[str, Known]:
        """Of the keys that were answered. One query for those not remembered: a key may be years old."""
        found = {key: self._answers[key] for key in keys if key in self._answers}
        asked = [key for key in keys if key not in found]
        if asked:
            for key, event in self.journal.answered(asked).items():
                found[key] = Known(event.asked, Answer(200, event.answer))
        return found

    def note(self, key: str, asked: bytes | None, answer: Answer) -> None:
        """A key was answered, and committed."""
        self._answers[key] = Known(asked, answer)
        self._keys.append(key)

    def standing(self, who: Any) -> Standing:
        found = self._people.get(who)
        if found is None:
            found = Standing()
            try:
                theirs = self.journal.of(who)
            except RowDamaged:  # nobody else's requests suffer from it
                raise Refusal(503, DAMAGED) from None
            for event in theirs:
                if event.payload is not None:
                    found.take(event.kind, event.payload, self.problem)
            self._people[who] = found
        return found

    def trim(self, people: bool = True) -> None:
        """Forget the oldest where there are too many. Between two rounds, and people only while nobody is with the
        player: their standings are ahead of the journal."""
        while people and len(self._people) > PEOPLE:
            del self._people[next(iter(self._people))]
        while len(self._keys) > ANSWERS:
            self._answers.pop(self._keys.popleft(), None)

    def drop(self, who: Any) -> None:
        """Somebody was erased: nothing of them is remembered, nor any answer, since some are theirs."""
        self._people.pop(who, None)
        self._answers.clear()
        self._keys.clear()
