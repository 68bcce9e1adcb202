"""The results of a cell as one Parquet file: recorded points, and who made them, with a checksum over both.

Columns are the same in every file, so that pandas, polars and DuckDB read a folder of them as one table: cell, agent,
world, seed, episode, regret, then the diagnostics, bounds and referrals of `MEASURED`, null where not recorded. What is
known about the run is JSON in the file's metadata under "noregret"; the checksum covers it and every number.
"""

import hashlib
import io
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..agents.diagnostics import COLUMNS
from ..storage.atomic import read_parquet
from .cell import Cell

FORMAT = 1
BOUNDS = ("bound_from_returns", "bound_from_bonuses", "bound_from_certificates")
REFERRALS = ("referred", "kept_certificate")
MEASURED = (*COLUMNS, *BOUNDS, *REFERRALS)  # columns that a cell may have besides episode and regret
_KEY = b"noregret"


@dataclass(frozen=True)
class Finished:
    """A cell that was run: what `Results.finished` lists.

    columns: name -> [points], "episode" and "regret" (cumulative, exact) and what else was recorded; facts: what is
    known about the run, plain values.

    >>> import tempfile
    >>> import noregret as nr
    >>> from noregret.studies.engines.local import LocalEngine
    >>> study = nr.studies.Study(
    ...     name="small", episodes=100, seeds=2, points=4,
    ...     worlds=[{"name": "clinic"}], agents=[{"name": "uniform-random"}],
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = nr.studies.run(study, folder, LocalEngine(workers=1))
    ...     first, second = results.finished()
    >>> first.columns["episode"].tolist(), first.columns["regret"].shape
    ([25, 50, 75, 100], (4,))
    >>> first.cell.seed, second.cell.seed, first.facts["label"]
    (0, 1, 'uniform-random')
    """

    cell: Cell
    facts: dict[str, Any]
    columns: dict[str, NDArray[Any]]

    @property
    def id(self) -> str:
        return self.cell.id


def encode(done: Finished) -> bytes:
    """The file's bytes."""
    import pyarrow as pa
    import pyarrow.parquet

    episodes = np.ascontiguousarray(done.columns["episode"], np.int64)
    n = episodes.size

    def constant(value: str) -> Any:
        return pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), [value])

    columns: dict[str, Any] = {
        "cell": constant(done.id),
        "agent": constant(done.facts["label"]),
        "world": constant(done.facts["world"]),
        "seed": np.full(n, done.cell.seed, np.int64),
        "episode": episodes,
        "regret": np.asarray(done.columns["regret"], np.float64),
    }
    for name in MEASURED:
        known = done.columns.get(name)
        columns[name] = pa.nulls(n, pa.float64()) if known is None else np.asarray(known, np.float64)
    about = {"format": FORMAT, "cell": asdict(done.cell), "facts": done.facts}
    about["sha256"] = _checksum(about, done.columns)
    table = pa.table(columns).replace_schema_metadata({_KEY: json.dumps(about).encode()})
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, compression="zstd", write_page_checksum=True)
    return file.getvalue()


def decode(data: bytes) -> Finished:
    """The cell in a file; ValueError where it is damaged, cut short, or something else."""
    import pyarrow as pa

    try:
        table = read_parquet(data)
        about = json.loads(table.schema.metadata[_KEY])
        claimed = about.pop("sha256")
        names = ("episode", "regret", *MEASURED)
        known = [k for k in names if k in table.column_names]  # older files have fewer
        columns = {k: table[k].to_numpy() for k in known if table[k].null_count == 0}
        if about["format"] != FORMAT or claimed != _checksum(about, columns):
            raise ValueError("the checksum is another one")
        return Finished(Cell(**about["cell"]), about["facts"], columns)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise ValueError(f"not the results of a cell, or damaged: {error}") from None


def _checksum(about: dict[str, Any], columns: dict[str, NDArray[Any]]) -> str:
    made = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(columns):
        kind = np.int64 if name == "episode" else np.float64
        made.update(name.encode() + np.ascontiguousarray(columns[name], kind).tobytes())
    return made.hexdigest()
