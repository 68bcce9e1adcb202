"""What commands print: tables and results on stdout, progress on stderr."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table


def terminal() -> Console:
    """Where to print; files and pipes get lines as long as they need to be."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, 140))


def plain_table(*columns: str, left: int = 1) -> Table:
    """A table without lines: the first `left` columns are words, the others numbers."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns[:left]:
        table.add_column(name, overflow="fold")
    for name in columns[left:]:
        table.add_column(name, justify="right", no_wrap=True)
    return table


@contextmanager
def progress(*columns: ProgressColumn) -> Iterator[Progress]:
    """Bars on stderr, gone at the end. What is compiled meanwhile is said above them."""
    shown = columns or (TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    bars = Progress(TextColumn("{task.description}"), BarColumn(bar_width=24), *shown, console=console, transient=True)
    with bars:
        yield bars


def writable(folder: Path) -> Path:
    """The folder, made where it is not there; an OSError before anything is run where nothing can be written to it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        return folder


class Command:
    """One command's console, and how long it has taken."""

    def __init__(self) -> None:
        self.console, self.start = terminal(), time.perf_counter()

    def say(self, line: Any, style: str | None = None) -> None:
        self.console.print(line, style=style, highlight=False)

    def say_rows(self, rows: list[dict[str, str]]) -> None:
        """Rows with the same columns, as a table."""
        table = plain_table(*rows[0], left=0)
        for row in rows:
            table.add_row(*row.values())
        self.say(table)

    def close(self, **files: Path) -> None:
        """Where the files are, and how long it took."""
        for name, path in files.items():
            self.say(f"{name:9}{path}")
        self.say(f"{time.perf_counter() - self.start:.1f} s", "dim")
