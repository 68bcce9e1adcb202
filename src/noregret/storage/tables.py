"""Tables, whatever they are kept in, as columns of plain values."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import checks as check


def is_missing(value: Any) -> bool:
    """None, nan, NaT, NA, or an empty string."""
    if value is None or (isinstance(value, str) and value == ""):
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas' NA says neither yes nor no
        return True
    except ValueError:  # an array
        return False


def whole(value: Any) -> Any:
    """A whole number that was kept as a float, because its column lacks values."""
    if isinstance(value, float) and value.is_integer():  # NumPy's are floats, too
        return int(value)
    return value


def columns(table: Any, name: str = "table") -> dict[str, list[Any]]:
    """{column: values} of a dict of columns, a list of rows, a pandas or polars data frame, an Arrow table, or a file
    (.parquet or .csv)."""
    if isinstance(table, str | os.PathLike):
        table = read(table, name)
    made: dict[str, list[Any]]
    if isinstance(table, Mapping):
        made = {str(c): _values(v, f"{name}[{check.shown(c)}]") for c, v in table.items()}
    elif isinstance(table, list | tuple) and all(isinstance(row, Mapping) for row in table):
        heads = dict.fromkeys(c for row in table for c in row)
        made = {str(c): [row.get(c) for row in table] for c in heads}
    elif hasattr(table, "column_names") and hasattr(table, "column"):  # Arrow
        try:
            made = {str(c): table.column(i).to_pylist() for i, c in enumerate(table.column_names)}
        except UnicodeDecodeError:
            raise ValueError(f"{name} has text that is not UTF-8") from None
    elif hasattr(table, "columns") and hasattr(table, "__getitem__"):  # pandas, polars
        made = {str(c): _values(table[c], f"{name}[{check.shown(c)}]") for c in table.columns}
    else:
        raise ValueError(
            f"{name} must be a dict of columns, rows, a data frame, an Arrow table, or a .parquet or .csv file, got "
            f"{type(table).__name__}"
        )
    lengths = {len(v) for v in made.values()}
    if len(lengths) > 1:
        raise ValueError(f"{name} must have columns of one length, got lengths {sorted(lengths)}")
    return made


def _values(column: Any, name: str) -> list[Any]:
    for way in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, way):
            made = getattr(column, way)()
            break
    else:
        made = column
    if isinstance(made, str) or not hasattr(made, "__iter__"):
        raise ValueError(f"{name} must be a column of values, got {check.shown(made)}")
    return list(made)


def suffix(name: str, path: Any) -> str:
    """Of the file of a table: .parquet or .csv."""
    kind = Path(path).suffix
    if kind not in (".parquet", ".csv"):
        raise ValueError(f"{name} must end in .parquet or .csv, got {check.shown(str(path))}")
    return kind


def read(path: Any, name: str) -> Any:
    """An Arrow table from a .parquet or .csv file."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    kind = suffix(name, path)
    if not Path(path).exists():
        raise FileNotFoundError(f"{name}: there is no file {path}")
    try:
        if kind == ".parquet":
            return pyarrow.parquet.read_table(path)
        return pyarrow.csv.read_csv(path, convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{name}: {path} cannot be read: {str(error).splitlines()[0]}") from None
