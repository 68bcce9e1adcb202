"""The sentences at the top of a report. They say what was measured and tested, and nothing else."""

from collections import Counter
from collections.abc import Mapping, Sequence

from . import statistics
from .compared import MANY
from .data import Group, Setting
from .paired import Comparison
from .promises import broken
from .texts import counted, interval, listed, number


def summary(places: Sequence[Setting], tests: Mapping[str, Comparison | None]) -> list[str]:
    """Who had the least regret, whether that was significant, and whether what was promised held."""
    if len(places) <= MANY:
        said = [s for place in places for s in _of_one(place, tests[place.key])]
    else:
        said = _of_many(places, tests)
    said += broken(places)
    return said or ["No agent of this study decides on its own: there is nothing to compare."]


def ranked(place: Setting) -> list[Group]:
    """The agents that decide on their own, least mean regret first."""
    return sorted(place.alone, key=lambda g: float(g.final.mean()))


def _of_one(place: Setting, test: Comparison | None) -> list[str]:
    order = ranked(place)
    if not order:
        return []
    best = order[0]
    ends = "" if len(best.runs) < 2 else f", 95% interval {interval(statistics.mean_interval(best.final))}"
    regret = f"{number(best.final.mean())} on average over {counted(len(best.runs), 'seed')}{ends}"
    where = f"In {place.title}, {best.label}"
    if len(order) == 1:
        return [f"{where} had a regret of {regret}, after {counted(place.episodes, 'episode')}."]
    lead = f"{where} had the least regret of {len(order)} agents after {place.episodes:,} episodes: {regret}"
    said = [f"{lead}. {_verdict(best, order[1:], test)}"]
    promised = next((g for g in order if g.guarantee), None)
    if promised is None:
        said[0] += " None of these agents carries a guarantee here."
    elif promised is not best:
        least = f"{promised.label} had the least ({number(promised.final.mean())})"
        said[0] += f" It carries no guarantee; of those that do, {least}."
    return said


def _verdict(best: Group, others: Sequence[Group], test: Comparison | None) -> str:
    if test is None or not test.possible:
        return "There are too few seeds for a test to call any difference significant."
    near = [g.label for g in others if not test.differ(best.label, g.label)]
    if not near:
        return "It differs significantly from each of the others (paired sign-flip tests, Holm, 5%)."
    if len(near) == len(others):
        return "It could not be told apart from any of the others (paired sign-flip tests, Holm, 5%)."
    return f"It could not be told apart from {listed(near)}; from the others it differs significantly (5%, Holm)."


def _of_many(places: Sequence[Setting], tests: Mapping[str, Comparison | None]) -> list[str]:
    firsts: Counter[str] = Counter()
    clear: Counter[str] = Counter()
    tested = 0
    for place in places:
        order, test = ranked(place), tests[place.key]
        if len(order) < 2:
            continue
        firsts[order[0].label] += 1
        if test is not None and test.possible:
            tested += 1
            clear[order[0].label] += all(test.differ(order[0].label, g.label) for g in order[1:])
    total = sum(firsts.values())
    if not total:
        return []
    (first, most), *others = firsts.most_common()
    said = f"{first} had the least mean regret in {most} of {counted(total, 'setting')} with several agents"
    said += f" ({', '.join(f'{label} in {n}' for label, n in others)})." if others else "."
    if not tested:
        return [f"{said} There are too few seeds for a test to call any difference significant."]
    said += (
        f" It differed significantly from each of the others in {clear[first] or 'none'} of these (paired sign-flip "
        "tests within a setting, Holm, 5%; not corrected for the number of settings)."
    )
    return [said]
