"""Which agents of a setting differ: paired tests of final regret, corrected for all pairs."""

from typing import NamedTuple

import numpy as np

from . import statistics
from .data import ORACLE, Setting


class Comparison(NamedTuple):
    """Paired tests of final regret between the agents of a setting, over the seeds that all of them have.

    order      labels by mean regret, least first; no oracle, whose regret is 0 by definition
    pairs      (better, worse, mean difference, low, high, p, adjusted p)
    marks      label -> letters; empty where no test can reach LEVEL with so few seeds"""

    seeds: int
    order: list[str]
    pairs: list[tuple[str, str, float, float, float, float, float]]
    marks: dict[str, str]
    least: float  # smallest p that so many seeds can give
    possible: bool

    def differ(self, one: str, other: str) -> bool:
        return any({one, other} == {p[0], p[1]} and p[6] < 1.0 - statistics.LEVEL for p in self.pairs)


def compare(place: Setting) -> Comparison | None:
    groups = [g for g in place.compared if g.name != ORACLE]
    if len(groups) < 2:
        return None
    shared = sorted(set.intersection(*(set(g.seeds) for g in groups)))
    finals = {g.label: g.final[[g.seeds.index(s) for s in shared]] for g in groups}
    order = sorted(finals, key=lambda label: float(finals[label].mean()) if shared else 0.0)
    n, alpha = len(shared), 1.0 - statistics.LEVEL
    names = [(a, b) for i, a in enumerate(order) for b in order[i + 1 :]]
    least = statistics.smallest_p(n) if n else 1.0
    possible = n > 1 and least * len(names) < alpha
    if n < 2:
        return Comparison(n, order, [], {}, least, False)
    differences = np.stack([finals[b] - finals[a] for a, b in names], axis=1)
    p = statistics.sign_flip(differences)
    adjusted = statistics.holm(p)
    low, high = statistics.mean_interval(differences)
    pairs = [
        (a, b, float(differences[:, i].mean()), float(low[i]), float(high[i]), float(p[i]), float(adjusted[i]))
        for i, (a, b) in enumerate(names)
    ]
    marks: dict[str, str] = {}
    if possible:
        different = np.zeros((len(order), len(order)), bool)
        for (a, b), q in zip(names, adjusted, strict=True):
            i, j = order.index(a), order.index(b)
            different[i, j] = different[j, i] = q < alpha
        marks = dict(zip(order, statistics.letters(different), strict=True))
    return Comparison(n, order, pairs, marks, least, possible)
