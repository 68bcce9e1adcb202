"""What the writer remembers of the journal: answers by key, and the standing of people. Both can be forgotten at any
time and are then read again."""

from typing import Any

from ..problem.problem import Problem
from .asking import Answer
from .standing import Standing

ANSWERS, PEOPLE = 50_000, 100_000  # how many are remembered

Known = tuple[bytes | None, Answer]  # what was asked, and what was said


class Recall:
    """answered(keys): what is known of these keys; standing(who): of a person, empty where nobody began."""

    def __init__(self, journal: Any, problem: Problem) -> None:
        self.journal, self.problem = journal, problem
        self._answers: dict[str, Known] = {}
        self._people: dict[Any, Standing] = {}

    def answered(self, keys: list[str]) -> dict[str, Known]:
        """Of the keys that were answered. One query for those not remembered: a key may be years old."""
        found = {key: self._answers[key] for key in keys if key in self._answers}
        asked = [key for key in keys if key not in found]
        if asked:
            for key, event in self.journal.answered(asked).items():
                found[key] = event.asked, Answer(200, event.answer)
        return found

    def note(self, key: str, asked: bytes | None, answer: Answer) -> None:
        """A key was answered, and committed."""
        self._answers[key] = asked, answer

    def standing(self, who: Any) -> Standing:
        found = self._people.get(who)
        if found is None:
            found = Standing()
            for event in self.journal.of(who):
                if event.payload is not None:
                    found.take(event.kind, event.payload, self.problem)
            self._people[who] = found
        return found

    def trim(self) -> None:
        """Forget the oldest where there are too many. Between two rounds: within one, standings are ahead of the
        journal."""
        while len(self._people) > PEOPLE:
            del self._people[next(iter(self._people))]
        while len(self._answers) > ANSWERS:
            del self._answers[next(iter(self._answers))]

    def drop(self, who: Any) -> None:
        """Somebody was erased: nothing of them is remembered, nor any answer, since some are theirs."""
        self._people.pop(who, None)
        self._answers.clear()
