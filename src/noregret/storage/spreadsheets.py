"""Text in CSV files that a spreadsheet must not take for a formula.

Spreadsheets run a cell that begins with = + - @, a tab or a line break. Such text is written with an apostrophe before
it, and so is text that begins with an apostrophe, so that taking one apostrophe away gives the text back. Numbers are
numbers and stay as they are."""

from typing import Any

from .atomic import write_whole
from .tables import suffix

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
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if suffix("path", path) == ".parquet":
        write_whole(path, lambda file: pyarrow.parquet.write_table(table, file))
        return
    columns = [_guarded_column(column) for column in table.columns]
    plain = pa.table(columns, names=[guarded(name) for name in table.column_names])
    write_whole(path, lambda file: pyarrow.csv.write_csv(plain, file))


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
