"""Run what is left of a study, on any engine. The same call after any interruption goes on where things stood."""

import json
import warnings
from collections import deque
from collections.abc import Iterable
from typing import Any

from .. import checks as check
from .cell import Cell
from .engines import Engine
from .engines.local import LocalEngine
from .results import Results
from .study import Study
from .work import Answer, Task


class Watcher:
    """Is told what happens. This one says in warnings what people should know, and nothing else."""

    def begin(self, results: Results, engine: Engine, left: list[Cell]) -> None: ...

    def answered(self, task: Task, answer: Answer, facts: dict[str, Any]) -> None: ...

    def say(self, line: str) -> None:
        warnings.warn(line, RuntimeWarning, stacklevel=3)

    def tick(self, running: int) -> None: ...

    def end(self) -> None: ...


def run(
    study: Study,
    folder: Any,
    engine: Engine | None = None,
    text: str | None = None,
    command: str = "",
    only: Iterable[str] | None = None,
    patience: float = 30.0,
    watcher: Watcher | None = None,
) -> Results:
    """Run the cells that are missing in `folder`; those that failed before are left alone (`Results.forgive`).

    engine     where; default processes on all cores. It is closed at the end
    text       the study file's text, kept in the folder
    only       ids of cells: run these, also if they failed or are done
    patience   seconds after which a long cell is written down as a checkpoint

    The results do not depend on the engine, on the number of workers or on how often the run was interrupted. An engine
    that is lost (a cluster whose scheduler is gone) is a RuntimeError; what is done is kept. What people should know
    besides, such as a checkpoint that was refused, is told to the watcher, or is a warning without one.

    >>> import tempfile
    >>> import noregret as nr
    >>> from noregret.studies.engines.local import LocalEngine
    >>> study = nr.studies.Study(
    ...     name="small", episodes=100, seeds=2, points=4,
    ...     worlds=[{"name": "clinic"}], agents=[{"name": "uniform-random"}],
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = nr.studies.run(study, folder, LocalEngine(workers=1))  # without an engine: all cores
    ...     len(results.missing()), results.table().num_rows
    (0, 8)
    """
    results = Results(folder, study)
    left = results.missing() if only is None else [_known(study, key) for key in only]
    results.open(text if text is not None else "")
    queue = deque(_different_first(left))
    engine = engine if engine is not None else LocalEngine()
    watcher = watcher if watcher is not None else Watcher()
    try:
        watcher.begin(results, engine, left)
        while queue or engine.waiting:
            while queue and engine.waiting < 2 * engine.slots + 2:
                cell = queue.popleft()
                engine.submit(Task(cell, results.checkpoint(cell.id), patience))
            over = engine.next(0.25)
            for line in engine.news():
                watcher.say(line)
            if over is not None:
                _take(results, engine, *over, patience, watcher)
            watcher.tick(min(engine.waiting, engine.slots))
    finally:
        engine.close()
        watcher.end()
        results.write_manifest(command)
    return results


def _different_first(cells: list[Cell]) -> list[Cell]:
    """One cell of every kind of agent, then the rest: workers that begin together compile different things, and find
    the others' in the cache."""
    first: dict[str, Cell] = {}
    for cell in cells:
        first.setdefault(json.dumps([cell.agent, cell.agent_options], sort_keys=True), cell)
    heads = {cell.id for cell in first.values()}
    return [*first.values(), *(cell for cell in cells if cell.id not in heads)]


def _take(results: Results, engine: Engine, task: Task, answer: Answer, patience: float, watcher: Watcher) -> None:
    facts: dict[str, Any] = {}
    if answer.result is not None:
        facts = results.keep(answer.id, answer.result).facts
    elif answer.checkpoint is not None:
        results.keep_checkpoint(answer.id, answer.checkpoint)
        engine.submit(Task(task.cell, answer.checkpoint, patience))
    else:
        results.keep_failure(answer.id, answer.failure or "no answer")
    if answer.note:
        watcher.say(answer.note)
    watcher.answered(task, answer, facts)


def _known(study: Study, key: str) -> Cell:
    found = [cell for name, cell in study.cells.items() if name.startswith(key)]
    if len(found) != 1 or not key:
        cells = f"{len(found) or 'no'} cell{'s' * (len(found) > 1)}"
        raise ValueError(f"{check.shown(key)} is the id of {cells} of this study")
    return found[0]
