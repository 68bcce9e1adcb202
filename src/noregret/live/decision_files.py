"""Decisions as tables in files, with a digest over all of them: what comes back is what was written, or a sentence.

The digest is the SHA-256 of the names of the columns and of every row, one JSON text a line. A Parquet file has it in
the schema's metadata under "noregret", with the number of rows. A CSV file has it in every row of the last column,
`sha256`, so that pandas and spreadsheets read an ordinary table; a file without rows calls that column `sha256 of no
rows`, so that a file cut after its first line is not taken for one. A digest finds accidents, not intent: whoever
writes a false file can write the digest that goes with it.

Columns follow the fields of `Decision`: numbers, texts, True and False as they are, everything else as JSON text.
Nothing is null but what may be None. Texts in CSV files are guarded against spreadsheets (`storage.spreadsheets`): one
that begins like a formula, or with an apostrophe, has an apostrophe before it, and so has an empty one where None is
allowed."""

import hashlib
import io
import json
import sys
import types
import typing
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from .. import checks as check
from ..storage.atomic import read_parquet, write_whole
from ..storage.spreadsheets import guarded, unguarded
from ..storage.tables import suffix
from .decision import Decision

FORMAT = 1
_KEY = b"noregret"
_DIGEST, _EMPTY = "sha256", "sha256 of no rows"
_PLAIN = (int, float, bool, str)


def _kinds() -> dict[str, tuple[Any, bool]]:
    """Field -> (int, float, bool, str, or None for JSON text; whether it may be None), in the order of the table."""
    made = {}
    for field in fields(Decision):
        args = typing.get_args(field.type) if isinstance(field.type, types.UnionType) else (field.type,)
        left = [a for a in args if a is not type(None)]
        plain = left[0] if len(left) == 1 and left[0] in _PLAIN else None
        made[field.name] = plain, plain is not None and type(None) in args
    return made


def _digest(names: list[str], rows: Iterable[list[Any]]) -> str:
    made = hashlib.sha256(json.dumps(names).encode())
    for row in rows:
        made.update(b"\n" + json.dumps(row).encode())
    return made.hexdigest()


def _text(where: str, value: Any) -> str:
    try:
        return json.dumps(value)
    except ValueError as error:
        if "digits" not in str(error):
            raise
        raise ValueError(f"{where} must have at most {sys.get_int_max_str_digits():,} digits") from None


def write_decisions(decisions: Iterable[Decision], path: Any) -> None:
    """Decisions as a table in a .parquet or .csv file, whole or not at all; key, context and options as JSON text.

    `read_decisions` gives the same ones back. A SHA-256 over all rows goes with them: in the metadata of a Parquet
    file, in the last column of a CSV file. Text in a CSV file that a spreadsheet would take for a formula has an
    apostrophe before it.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> live = nr.Live(nr.PSRLGLM(world.problem))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan = live.begin("Ms B", world.context(seed=0, episode=0))
    ...     nr.write_decisions([live.act("Ms B", "moderate")], f"{folder}/decisions.csv")
    ...     lines = Path(f"{folder}/decisions.csv").read_text().splitlines()
    >>> len(lines), lines[0].split(",")[:3], lines[0].split(",")[-1]
    (2, ['"who"', '"episode"', '"step"'], '"sha256"')
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    kind_of_file, kinds, rows = suffix("path", path), _kinds(), []
    for i, decision in enumerate(decisions):
        if not isinstance(decision, Decision):
            raise ValueError(f"decisions must be decisions, decisions[{i}] is {check.shown(decision)}")
        told = decision.to_dict()
        rows.append(
            [_text(f"decisions[{i}].{n}", told[n]) if kind is None else told[n] for n, (kind, _) in kinds.items()]
        )
    types_ = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string(), None: pa.string()}
    schema = pa.schema([(name, types_[kind]) for name, (kind, _) in kinds.items()])
    try:
        table = pa.table(
            [pa.array(c, f.type) for c, f in zip(_across(rows, kinds), schema, strict=True)], schema=schema
        )
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"decisions must have the fields of Decision: {str(error).splitlines()[0]}") from None
    digest = _digest(list(kinds), _down(table))  # of what the table holds, whatever kind of numbers it was made from
    if kind_of_file == ".parquet":
        about = {"holds": "decisions", "format": FORMAT, "rows": table.num_rows, "sha256": digest}
        kept = table.replace_schema_metadata({_KEY: json.dumps(about).encode()})
        write_whole(path, lambda file: pyarrow.parquet.write_table(kept, file, write_page_checksum=True))
        return
    for i, (name, (kind, maybe)) in enumerate(kinds.items()):
        if kind is str:
            cells = [None if t is None else "'" if maybe and t == "" else guarded(t) for t in table[name].to_pylist()]
            table = table.set_column(i, name, pa.array(cells, pa.string()))
    last = pa.array([digest] * table.num_rows, pa.string())
    table = table.append_column(_DIGEST if table.num_rows else _EMPTY, last)
    write_whole(path, lambda file: pyarrow.csv.write_csv(table, file))


def _across(rows: list[list[Any]], kinds: dict[str, Any]) -> list[Any]:
    """Rows as columns."""
    return list(zip(*rows, strict=True)) if rows else [() for _ in kinds]


def _down(table: Any) -> list[list[Any]]:
    """The table's rows as plain values."""
    return [list(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def read_decisions(path: Any, unchecked: bool = False) -> list[Decision]:
    """The decisions in a file of `write_decisions`, every one as it was written; a ValueError where that is not so.

    A file that was damaged, cut short or edited has another digest and is refused, and so is one without a digest, of
    an earlier version. With `unchecked` nobody looks at the digest: for such files, or for whoever means to read what
    is left of one; then what comes back may lack rows or have others.

    >>> import tempfile
    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> live = nr.Live(nr.PSRLGLM(world.problem), draws=50)
    >>> plan = live.begin("Ms B", world.context(seed=0, episode=0))
    >>> decision = live.act("Ms B", "moderate")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     nr.write_decisions([decision], f"{folder}/decisions.parquet")
    ...     kept = nr.read_decisions(f"{folder}/decisions.parquet")
    >>> kept == [decision], kept[0].who, kept[0].draws
    (True, 'Ms B', 50)
    """
    read, kinds = _from_parquet if suffix("path", path) == ".parquet" else _from_csv, _kinds()
    check.flag("unchecked", unchecked)
    data = Path(path).read_bytes()
    try:
        names, rows, told = read(data, kinds)
        right = _digest(names, rows)
    except Exception:  # whatever Arrow and text make of other bytes
        raise ValueError(f"{path} is not a table of decisions, or it is damaged") from None
    if told is None and not unchecked:
        raise ValueError(f"{path} has no digest, nobody can say whether it is whole: unchecked=True reads it as it is")
    if told != right and not unchecked:
        raise ValueError(f"{path} is damaged, cut short or was edited: its digest is not that of its decisions")
    try:
        return [_decision(names, row, kinds) for row in rows]
    except Exception as error:
        said = f": {error}" if type(error) is ValueError and str(error).startswith("decision") else ""
        raise ValueError(f"{path} is not a table of decisions{said}") from None


def _decision(names: list[str], row: list[Any], kinds: dict[str, Any]) -> Decision:
    told = dict(zip(names, row, strict=True))
    texts = {name: json.loads(told[name]) for name, (kind, _) in kinds.items() if kind is None and name in told}
    return Decision.from_dict(told | texts)


def _from_parquet(data: bytes, kinds: dict[str, Any]) -> tuple[list[str], list[list[Any]], Any]:
    """(names, rows, the digest told, None without one)."""
    table, told = read_parquet(data), None
    if _KEY in (table.schema.metadata or {}):
        about = json.loads(table.schema.metadata[_KEY])
        whole = about["holds"] == "decisions" and about["format"] == FORMAT and about["rows"] == table.num_rows
        told = str(about["sha256"]) if whole else ""
    return table.column_names, _down(table), told


def _from_csv(data: bytes, kinds: dict[str, Any]) -> tuple[list[str], list[list[Any]], Any]:
    """The same. Every cell is read as text and taken for what its column holds."""
    import pyarrow as pa
    import pyarrow.csv

    texts = {f"f{i}": pa.string() for i in range(len(kinds) + 1)}  # no column has a type of its own
    reading = pa.csv.ReadOptions(use_threads=False, block_size=len(data) + 1, autogenerate_column_names=True)
    parsing = pa.csv.ParseOptions(newlines_in_values=True)
    turning = pa.csv.ConvertOptions(column_types=texts, null_values=[], strings_can_be_null=False)
    names, *rows = _down(pa.csv.read_csv(io.BytesIO(data), reading, parsing, turning))
    told = None
    if names[-1] in (_DIGEST, _EMPTY):
        last = {row.pop() for row in rows}
        names, whole = names[:-1], len(last) == (names[-1] == _DIGEST)
        told = (last.pop() if last else _digest(names, [])) if whole else ""
    return names, [[_value(t, *kinds[n]) for n, t in zip(names, row, strict=True)] for row in rows], told


def _value(text: str, kind: Any, maybe: bool) -> Any:
    """What a cell says; `kind` and `maybe` as in `_kinds`."""
    if kind is None:
        return text
    if maybe and text == "":
        return None
    if kind is bool:
        return {"true": True, "false": False}[text]
    return unguarded(text) if kind is str else kind(text)
