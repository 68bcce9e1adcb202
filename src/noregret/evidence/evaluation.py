"""The answer of `noregret.evaluate`: a row per subgroup, estimator and rung."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..storage.text import aligned

EVERYONE = "everyone"
NARROW = 0.5  # of all that is possible: a wider interval says nothing worth acting on


@dataclass(frozen=True)
class Row:
    """One interval.

    subgroup     "everyone", or the name that was given
    estimator    "PDIS", "WPDIS", "DR", "MDR", "plug-in" or "model sets"
    rung         "proved", "asymptotic" or "believed": what the interval rests on
    estimate, lower, upper   mean value over the people, or mean difference, in the units of rewards; the estimate of
                 PDIS and DR, proved, is the middle of the interval
    told         False: the data cannot tell, and the interval is all that is possible at all, or nearly
    people       how many it is about
    effective    how many their weights are worth, nan where nothing is weighted
    largest      the largest weight, likewise
    method       how the interval was made
    says         where the data cannot tell: why, and which row can
    """

    subgroup: str
    estimator: str
    rung: str
    estimate: float
    lower: float
    upper: float
    told: bool
    people: int
    effective: float
    largest: float
    method: str
    says: str = ""

    @property
    def half_width(self) -> float:
        return 0.5 * (self.upper - self.lower)


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What a log says about a policy: `rows`, each with its rung, and `notes` on what was left out or assumed.

    question: what the numbers are; delta: every interval alone is wrong with this chance at most (asymptotically, by
    its rung); looks: "once" or "repeated". `str` is a table for people, `table()` one for a data frame.

    >>> import noregret as nr
    >>> world = nr.worlds.programme(horizon=2, context_dim=4)
    >>> found = nr.evaluate(world.rule, world.log(200, seed=1))
    >>> found.row("PDIS", "proved").people
    200
    >>> sorted(found.table()[0])[:4]
    ['effective', 'estimate', 'estimator', 'largest']
    """

    question: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    delta: float
    looks: str

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, estimator: str, rung: str | None = None, subgroup: str = EVERYONE) -> Row:
        """The row of an estimator; rung: where it has two."""
        for row in self.rows:
            if (row.estimator, row.subgroup) == (estimator, subgroup) and rung in (None, row.rung):
                return row
        among = ", ".join(dict.fromkeys(f"{r.estimator} ({r.rung}, {r.subgroup})" for r in self.rows))
        raise ValueError(f"estimator, rung and subgroup must be those of a row: {among}")

    def table(self) -> list[dict[str, Any]]:
        """A dict per row, for a data frame or a file."""
        return [asdict(row) for row in self.rows]

    def __str__(self) -> str:
        head = ["", "estimator", "rung", "estimate", "interval", "people", "effective", "largest weight", ""]
        lines, last = [head], None
        for row in self.rows:
            lines.append(["" if row.subgroup == last else row.subgroup, *_cells(row)])
            last = row.subgroup
        level = f"{100.0 * (1.0 - self.delta):g}%"
        said = [f"{self.question}; intervals {level} each, {_LOOKS[self.looks]}", "", aligned(lines)]
        unsure: dict[tuple[str, str], list[str]] = {}
        for row in self.rows:
            if row.says:
                unsure.setdefault((row.subgroup, row.says), []).append(f"{row.estimator}, {row.rung}")
        notes = [f"{' and '.join(who)} ({group}): {says}" for (group, says), who in unsure.items()] + [*self.notes]
        return "\n".join([*said, "", *(f"- {note}" for note in notes)] if notes else said)

    __repr__ = __str__


_LOOKS = {"repeated": "at all times together", "once": "asymptotic ones for this one look"}


def _cells(row: Row) -> list[str]:
    def weight(value: float) -> str:
        return "" if math.isnan(value) else f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"

    interval = f"{row.lower:+.3f} to {row.upper:+.3f}" if row.told or row.rung == "proved" else "none"
    flag = "" if row.told else "cannot tell"
    numbers = [f"{row.people:,}", weight(row.effective), weight(row.largest)]
    return [row.estimator, row.rung, f"{row.estimate:+.3f}", interval, *numbers, flag]


def advised(rows: list[Row], agent: bool) -> list[Row]:
    """The rows of one subgroup; those that cannot tell name the best one that can."""
    able = [row for row in rows if row.told]
    order = {"proved": 0, "asymptotic": 1, "believed": 2}
    best = min(able, key=lambda row: row.half_width, default=None)
    if best is not None:
        sure = [row for row in able if order[row.rung] == 0 and row.half_width <= 2.0 * best.half_width]
        best = min(sure, key=lambda row: row.half_width, default=best)
        then = f"better here: {best.estimator}, {best.rung}, {best.lower:+.3g} to {best.upper:+.3g}"
    elif agent:
        then = "nothing here can tell; more people, or more exploration, would"
    else:
        then = "better here, perhaps: the model's rungs, with agent=, for example nr.LRORL(problem)"
    return [row if row.told else replace(row, says=f"{row.says}; {then}") for row in rows]
