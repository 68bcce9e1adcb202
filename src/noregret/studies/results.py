"""The folder of a study: what is done, what failed, what is left.

    study.toml            the study as it was run last
    manifest.json         what was run, by which version, on which machine, how long; made from the files below
    cells/ID.parquet      one cell that is done (`cell_file`)
    failed/ID.json        one that failed, and why
    checkpoints/ID.npz    one that is under way

Files are written beside their place and renamed, so they are whole or absent; a damaged one counts as absent and its
cell is run again. Only the process that runs the study writes here.
"""

import contextlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..storage.atomic import PART, write_whole
from ..storage.version import __version__
from .cell import Cell
from .cell_file import MEASURED, Finished, decode
from .study import Study, load
from .work import machine

STUDY, MANIFEST = "study.toml", "manifest.json"
_PARTS = {"cells": ".parquet", "failed": ".json", "checkpoints": ".npz"}
_OLD = 3600.0  # seconds after which a file half written belongs to nobody


class Failure(NamedTuple):
    """A cell that failed, and why: what `Results.failed` lists.

    >>> import tempfile
    >>> import noregret as nr
    >>> study = nr.studies.Study(
    ...     name="small", episodes=100, seeds=2, points=4,
    ...     worlds=[{"name": "clinic"}], agents=[{"name": "uniform-random"}],
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = nr.studies.Results(folder, study)
    ...     results.open("")
    ...     results.keep_failure(results.missing()[0].id, "Traceback ...: in line 3\\nMemoryError: too large")
    ...     failure = results.failed()[0]
    ...     failure.cell.describe(), failure.message
    ...     results.forgive(), len(results.missing())  # it will be tried again
    ('uniform-random in clinic, seed 0, 100 episodes', 'MemoryError: too large')
    (1, 2)
    """

    id: str
    cell: Cell
    message: str  # the last line of the traceback
    traceback: str


class Results:
    """The results of a study in a folder, which may be empty, unfinished or finished.

    `study` as in the folder's study.toml, unless given. What is done is read when first asked for.

    >>> import tempfile
    >>> import noregret as nr
    >>> study = nr.studies.Study(
    ...     name="small", episodes=100, seeds=3, points=4,
    ...     worlds=[{"name": "clinic"}], agents=[{"name": "uniform-random"}],
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = nr.studies.Results(folder, study)
    ...     len(results.finished()), len(results.failed()), len(results.missing())
    (0, 0, 3)
    """

    def __init__(self, folder: Any, study: Study | None = None) -> None:
        self.folder = Path(folder)
        if study is None:
            if not (self.folder / STUDY).is_file():
                raise ValueError(f"{self.folder} is not the folder of a study: it has no {STUDY}")
            study = load(self.folder / STUDY)
        self.study, self.name, self.description = study, study.name, study.description
        self.title = study.title or study.name
        self.claims = [claim.model_dump() for claim in study.claims]
        self._done: dict[str, dict[str, Any]] | None = None
        self.damaged: list[str] = []  # names of files that could not be read

    # What it is about -----------------------------------------------------------------------------------------------
    @property
    def command(self) -> str:
        """What was typed to make these results."""
        try:
            return str(json.loads((self.folder / MANIFEST).read_text())["command"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return f"noregret study run {self.folder / STUDY}"

    def _file(self, part: str, key: str) -> Path:
        return self.folder / part / f"{key}{_PARTS[part]}"

    # Reading --------------------------------------------------------------------------------------------------------
    def finished(self) -> list[Finished]:
        """The cells that are done, in the study's order, read and checked. Damaged files are left out and named in
        `damaged`; facts have the cell's `setting` in this study, too."""
        return list(self._read())

    def done(self) -> dict[str, dict[str, Any]]:
        """id -> facts of the cells that are done, in the study's order. Read once, each file checked through."""
        if self._done is None:
            self._done = {made.id: made.facts for made in self._read()}
        return self._done

    def _read(self) -> Iterator[Finished]:
        self.damaged = []
        settings = self.study.settings
        for key, cell in self.study.cells.items():
            path = self._file("cells", key)
            try:
                made = decode(path.read_bytes())
                if made.id != key:
                    raise ValueError("another cell")
            except FileNotFoundError:
                continue
            except (OSError, ValueError):  # also a folder, or a link that leads to itself
                self.damaged.append(path.name)
                continue
            yield Finished(cell, made.facts | {"setting": settings[key]}, made.columns)

    def failed(self) -> list[Failure]:
        made = []
        noted = {path.stem for path in (self.folder / "failed").glob("*.json")}
        for key, cell in ((k, c) for k, c in self.study.cells.items() if k in noted):
            try:
                trace = str(json.loads(self._file("failed", key).read_text())["traceback"])
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                trace = "the record of this failure is damaged"
            if key not in self.done():
                said = trace.strip().splitlines() or ["no reason was recorded"]
                made.append(Failure(key, cell, said[-1], trace))
        return made

    def missing(self) -> list[Cell]:
        """Cells that neither are done nor have failed."""
        over = set(self.done()) | {failure.id for failure in self.failed()}
        return [cell for key, cell in self.study.cells.items() if key not in over]

    def checkpoint(self, key: str) -> bytes | None:
        try:
            return self._file("checkpoints", key).read_bytes()
        except OSError:  # none, or what is no file
            return None

    def table(self) -> Any:
        """All points of all finished cells as one Arrow table in the study's order: id, setting, names and options of
        world and agent (as world_NAME and agent_NAME), seed, episode, regret and what else was recorded."""
        import pyarrow as pa

        def text(values: Iterable[str]) -> Any:
            return pa.array(np.repeat(np.array(list(values), object), lengths), pa.string()).dictionary_encode()

        cells = self.finished()
        lengths = [done.columns["episode"].size for done in cells]
        columns: dict[str, Any] = {
            "cell": text(c.id for c in cells),
            "setting": text(c.facts["setting"] for c in cells),
            "world": text(c.cell.world for c in cells),
            "agent": text(c.facts["label"] for c in cells),
        }
        for kind in ("world", "agent"):
            known = [getattr(c.cell, f"{kind}_options") for c in cells]
            for name in dict.fromkeys(k for options in known for k in options):
                columns[f"{kind}_{name}"] = _column([options.get(name) for options in known], lengths)
        columns["seed"] = np.repeat(np.array([c.cell.seed for c in cells], np.int64), lengths)
        for name in ("episode", "regret", *MEASURED):
            kind = pa.int64() if name == "episode" else pa.float64()
            parts = [
                pa.array(c.columns[name], kind) if name in c.columns else pa.nulls(n, kind)
                for c, n in zip(cells, lengths, strict=True)
            ]
            columns[name] = pa.chunked_array(parts, kind).combine_chunks()
        return pa.table(columns)

    # Writing --------------------------------------------------------------------------------------------------------
    def open(self, text: str) -> None:
        """Make the folder, with the study's own text, ready to be written to; a ValueError where something that is no
        file is in the place of one, before anything is run."""
        for part, kind in _PARTS.items():
            try:
                (self.folder / part).mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                raise ValueError(f"{self.folder / part} must be a folder: a file is in its place") from None
            for path in (self.folder / part).glob(f".*{PART}"):
                with contextlib.suppress(OSError):
                    if time.time() - path.stat().st_mtime > _OLD:
                        path.unlink()
            for path in (self.folder / part).glob(f"*{kind}"):
                if path.stem in self.study.cells:
                    _no_folder(path)
        for name in (STUDY, MANIFEST):
            _no_folder(self.folder / name)
        _write(self.folder / STUDY, text.encode())

    def keep(self, key: str, data: bytes) -> Finished:
        """A cell's file; a ValueError where it is another cell's."""
        made = decode(data)
        if made.id != key:
            raise ValueError(f"this is the result of cell {made.id}, not of {key}")
        _write(self._file("cells", key), data)
        for stale in ("checkpoints", "failed"):
            self._file(stale, key).unlink(missing_ok=True)
        self.done()[key] = made.facts | {"setting": self.study.settings[key]}
        return made

    def keep_checkpoint(self, key: str, data: bytes) -> None:
        _write(self._file("checkpoints", key), data)

    def keep_failure(self, key: str, traceback: str) -> None:
        about = json.dumps({"cell": key, "what": self.study.cells[key].describe(), "traceback": traceback}, indent=1)
        _write(self._file("failed", key), about.encode())

    def forgive(self) -> int:
        """Forget the failures; how many there were."""
        failed = self.failed()
        paths = [self._file("failed", failure.id) for failure in failed]
        for path in paths:
            _no_folder(path)
        for path in paths:
            path.unlink(missing_ok=True)
        return len(failed)

    def write_manifest(self, command: str) -> None:
        done, cells = self.done(), self.study.cells
        about = {
            "study": self.name,
            "command": command,
            "version": __version__,
            "machine": machine(),
            "cells": len(self.study.cells),
            "done": [
                {"id": key, "what": cell.describe(), "cell": asdict(cell)}
                | {k: done[key][k] for k in ("seconds", "version", "machine", "date")}
                for key, cell in cells.items()
                if key in done
            ],
            "failed": [{"id": f.id, "what": f.cell.describe(), "why": f.message} for f in self.failed()],
            "left_out": self.study.left_out,
        }
        _write(self.folder / MANIFEST, json.dumps(about, indent=1).encode())


def _write(path: Path, data: bytes) -> None:
    write_whole(path, lambda file: file.write(data))


def _no_folder(path: Path) -> None:
    if path.is_dir():
        raise ValueError(f"{path} must be a file: a folder is in its place, move it away")


def _column(values: list[Any], lengths: list[int]) -> Any:
    """One value a cell, repeated; numbers where all are numbers, else text."""
    import pyarrow as pa

    known = [v for v in values if v is not None]
    rows = [v for v, n in zip(values, lengths, strict=True) for _ in range(n)]
    if all(isinstance(v, bool) for v in known):
        return pa.array(rows, pa.bool_())
    if all(isinstance(v, int) and not isinstance(v, bool) for v in known):
        return pa.array(rows, pa.int64())
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in known):
        return pa.array([None if v is None else float(v) for v in rows], pa.float64())
    shown = [None if v is None else v if isinstance(v, str) else json.dumps(v, sort_keys=True) for v in rows]
    return pa.array(shown, pa.string()).dictionary_encode()
