"""A study's results as one page: every number with the cells behind it, nothing loaded from elsewhere, no clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import compared, data, drawing, paired, promises, sizes, varied
from .blocks import Folded, Row, Section, Table, Text
from .rendering import render
from .summary import summary
from .texts import counted, listed

PAGE, FIGURES = "report.html", "figures"


@dataclass(frozen=True)
class Report:
    """Where a report is, and how many cells of the study it was made of: what `write` gives back.

    >>> import tempfile
    >>> import noregret as nr
    >>> import noregret.report
    >>> from noregret.studies.engines.local import LocalEngine
    >>> study = nr.studies.Study(
    ...     name="small", episodes=100, seeds=2, points=4,
    ...     worlds=[{"name": "clinic"}], agents=[{"name": "uniform-random"}],
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = nr.studies.run(study, folder, LocalEngine(workers=1))
    ...     report = nr.report.write(results, f"{folder}/report")
    >>> report.cells, report.failed, report.missing
    (2, 0, 0)
    >>> [figure.name for figure in report.figures]
    ['regret-s01.csv', 'regret-s01.png', 'regret-s01.svg']
    """

    page: Path
    figures: list[Path]
    cells: int
    failed: int
    missing: int


def write(results: Any, out: Any) -> Report:
    """Write report.html and figures/ into the folder `out`.

    results   of a study, a `noregret.studies.Results`, finished or not; one finished cell is enough
    out       the folder; it is made where it is not there, and figures of an earlier report are removed

    The same results give the same bytes.

    >>> import tempfile
    >>> import noregret as nr
    >>> import noregret.report
    >>> from noregret.studies.engines.local import LocalEngine
    >>> study = nr.studies.Study(
    ...     name="small", episodes=100, seeds=2, points=4,
    ...     worlds=[{"name": "clinic"}], agents=[{"name": "uniform-random"}],
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = nr.studies.run(study, folder, LocalEngine(workers=1))
    ...     report = nr.report.write(results, f"{folder}/report")
    ...     page = report.page.read_text()
    >>> report.page.name, "uniform-random" in page
    ('report.html', True)
    """
    folder = Path(out)
    finished, missing = list(results.finished()), list(results.missing())
    failed = [(failure[0], failure[1], str(failure[2])) for failure in results.failed()]
    if not finished:
        raise ValueError(
            f"{results.folder} has no finished cells to report ({len(missing)} missing, {len(failed)} failed)"
        )
    drawn = folder / FIGURES
    drawn.mkdir(parents=True, exist_ok=True)
    for old in (f for kind in ("png", "svg", "csv") for f in drawn.glob(f"*.{kind}")):
        old.unlink()  # of an earlier report: figures that this one does not have would be taken for its own
    places = data.settings(finished)
    labels = [(g.label, g.name) for place in places for g in place.groups if not g.refers]
    looks = drawing.looks([*labels, *((g.label, "") for place in places for g in place.groups if g.refers)])
    tests = {place.key: paired.compare(place) for place in places}
    claims = list(results.claims or [])
    sections = [
        compared.regret(places, tests, looks, drawn),
        compared.growth(places, claims, looks),
        sizes.scaling(varied.scalings(places), claims, looks, drawn),
        promises.bounds(places, looks, drawn),
        promises.certificates(places, looks, drawn),
        sizes.referral(varied.referrals(places), drawn),
        Section("methods", "How the numbers were made"),
        _appendix(results, finished, failed, missing),
    ]
    page = render(
        folder / PAGE,
        title=results.title or results.name,
        description=results.description or "",
        facts=_facts(results, finished, places),
        alerts=_alerts(results, finished, failed, missing),
        summary=summary(places, tests),
        command=results.command,
        sections=[s for s in sections if s is not None],
    )
    return Report(page, sorted(drawn.iterdir()), len(finished), len(failed), len(missing))


def _facts(results: Any, finished: Sequence[Any], places: Sequence[data.Setting]) -> list[tuple[str, str]]:
    def each(name: str) -> list[str]:
        return list(dict.fromkeys(str(run.facts[name]) for run in finished if run.facts.get(name) is not None))

    labels = list(dict.fromkeys(g.label for place in places for g in place.groups))
    seeds = sorted({run.cell.seed for run in finished})
    episodes = sorted({place.episodes for place in places})
    dates = sorted(date[:10] for date in each("date"))
    span = dates[:1] if dates[:1] == dates[-1:] else [dates[0], dates[-1]]
    seconds = sum(float(run.facts.get("seconds") or 0.0) for run in finished)
    made = [
        ("settings", joined([place.title for place in places], 6)),
        ("agents", joined(labels)),
        ("seeds", _seeds(seeds)),
        ("episodes", listed([f"{k:,}" for k in episodes], 8) + " a run"),
        ("runs", f"{len(finished):,}"),
        ("processor time", _time(seconds)),
        ("version", listed([f"noregret {v}" for v in each("version")])),
        ("machine", listed(each("machine"))),
        ("date", " to ".join(span)),
        ("left out", " · ".join(getattr(getattr(results, "study", None), "left_out", ()))),
    ]
    return [(name, text) for name, text in made if text]


def joined(names: Sequence[str], most: int = 12) -> str:
    """Names that may have commas in them, counted."""
    more = f" · and {len(names) - most} more" if len(names) > most else ""
    return f"{len(names)}: {' · '.join(names[:most])}{more}" if len(names) > 1 else "".join(names)


def _seeds(seeds: Sequence[int]) -> str:
    if list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))) and len(seeds) > 2:
        return f"{len(seeds)} ({seeds[0]} to {seeds[-1]})"
    return f"{len(seeds)} ({listed([str(s) for s in seeds], 10)})"


def _time(seconds: float) -> str:
    if seconds < 120.0:
        return f"{seconds:.1f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7200.0 else f"{seconds / 3600.0:.1f} h"


def _alerts(results: Any, finished: Sequence[Any], failed: Sequence[Any], missing: Sequence[Any]) -> list[str]:
    said = []
    total = len(finished) + len(failed) + len(missing)
    if failed:
        first = failed[0][2].strip().splitlines()
        why = f" The first says: {first[-1]}" if first else ""
        said.append(f"{len(failed)} of {counted(total, 'cell')} failed and are not in any number below.{why}")
    if missing:
        said.append(
            f"{len(missing)} of {counted(total, 'cell')} have not been run: this report is of part of the study."
        )
    damaged = list(getattr(results, "damaged", ()))
    if damaged:
        said.append(f"Not readable, and counted as missing: {listed(damaged)}.")
    versions = list(dict.fromkeys(str(run.facts.get("version")) for run in finished))
    if len(versions) > 1:
        said.append(f"The cells were made by different versions of noregret ({listed(versions)}).")
    return said


def _appendix(results: Any, finished: Sequence[Any], failed: Sequence[Any], missing: Sequence[Any]) -> Section:
    def row(key: str, setting: str, label: str, cell: Any, **rest: str) -> Row:
        numbers = {"seed": str(cell.seed), "episodes": f"{cell.episodes:,}"}
        return Row({"cell": key, "setting": setting, "agent": label} | numbers | rest)

    def table(kind: str, rows: list[Row], key: str) -> list[Any]:
        title = f"All {counted(len(rows), f'{kind} cell')}"
        return [Folded(title, [Table(f"{kind.capitalize()} cells", rows)], key)] if rows else []

    done = []
    for r in finished:
        seconds = f"{float(r.facts.get('seconds') or 0.0):.2f}"
        file = f"cells/{r.id}.parquet"
        done.append(row(r.id, r.facts["setting"], r.facts["label"], r.cell, seconds=seconds, file=file))
    blocks: list[Any] = [
        Text("A cell is one agent in one world with one seed; its name is a hash of what it is. To run one again:"),
        Text(f"{results.command} --only CELL", "code"),
        *table("finished", done, "cells"),
        *table("failed", [row(i, c.world, c.agent, c, message=str(m)) for i, c, m in failed], "cells-failed"),
        *table("missing", [row(c.id, c.world, c.agent, c) for c in missing], "cells-missing"),
    ]
    return Section("appendix", "Appendix: every cell", blocks)
