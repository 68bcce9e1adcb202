"""Text in CSV files that a spreadsheet must not take for a formula.

Spreadsheets run a cell that begins with = + - @, a tab or a line break. Such text is written with an apostrophe before
it, and so is text that begins with an apostrophe, so that taking one apostrophe away gives the text back. Numbers are
numbers and stay as they are."""

from pathlib import Path
from typing import Any

from .. import checks as check
from .atomic import write_whole

# Some spreadsheets take the wide ones, too.
_RISKY = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "'")


def guarded(text: str) -> str:
    """The text as a cell that is no formula.

    >>> guarded("=1+1"), guarded("'quoted'"), guarded("plain")
    ("'=1+1", "''quoted'", 'plain')
    """
    return f"'{text}" if text.startswith(_RISKY) else text


def unguarded(cell: str) -> str:
    """The text of a cell that `guarded` made.

    >>> unguarded("'=1+1"), unguarded("''quoted'"), unguarded("plain")
    ('=1+1', "'quoted'", 'plain')
    """
    return cell.removeprefix("'")


def write_table(table: Any, path: Any) -> None:
    """An Arrow table as .parquet, or as .csv with its text guarded; whole or not at all."""
    import pyarrow.csv
    import pyarrow.parquet

    kind = Path(path).suffix
    if kind == ".parquet":
        write_whole(path, lambda file: pyarrow.parquet.write_table(table, file))
    elif kind == ".csv":
        plain = guarded_table(table)
        write_whole(path, lambda file: pyarrow.csv.write_csv(plain, file))
    else:
        raise ValueError(f"path must end in .parquet or .csv, got {check.shown(str(path))}")


def guarded_table(table: Any) -> Any:
    """The table with every cell and name of text guarded."""
    import pyarrow as pa

    made = [_guarded_column(column) for column in table.columns]
    return pa.table(made, names=[guarded(name) for name in table.column_names])


def _guarded_column(column: Any) -> Any:
    """Each different text once: long tables have few."""
    import pyarrow as pa

    encoded = pa.types.is_dictionary(column.type)
    kind = column.type.value_type if encoded else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return column
    made = []
    for chunk in (column if encoded else column.dictionary_encode()).chunks:
        texts = [None if text is None else guarded(text) for text in chunk.dictionary.to_pylist()]
        made.append(pa.DictionaryArray.from_arrays(chunk.indices, pa.array(texts, pa.string())).cast(pa.string()))
    return pa.chunked_array(made, pa.string())
