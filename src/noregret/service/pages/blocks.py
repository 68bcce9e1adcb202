"""What the pages have besides the blocks of a report: pictures, tiles, legends, plans as tables."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from ...report.blocks import Row, Section, Table, Text


class Chart(NamedTuple):
    """A picture with its title above and what it shows below; legend: (text, colour)."""

    svg: Markup
    title: str
    caption: str = ""
    legend: Sequence[tuple[str, int]] = ()


class Charts(NamedTuple):
    """Pictures side by side."""

    charts: Sequence[Chart]


class Legend(NamedTuple):
    """(text, colour) each."""

    entries: Sequence[tuple[str, int]]


class Tile(NamedTuple):
    """A number with what it counts; key: for whoever reads the page by program."""

    number: str
    words: str
    key: str


class Cell(NamedTuple):
    """One step and state of a plan: action, value and bounds as text; met: whether they were there, what was done."""

    action: str
    colour: int
    value: str
    bounds: str
    met: str = ""


class Grid(NamedTuple):
    """A plan: a row per state, a column per step."""

    caption: str
    steps: Sequence[int]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    notes: Sequence[str] = ()


def rebuilt(section: Any) -> Section:
    """What `evidence.plain` made of a section."""
    blocks: list[Any] = []
    for block in section["blocks"]:
        if "rows" in block:
            rows = [Row({name: _shown(name, text) for name, text in entries.items()}) for entries in block["rows"]]
            if rows:
                blocks.append(Table(block["caption"], rows, block["notes"], frozenset(block["words"])))
        else:
            blocks.append(Text(block["text"], block["kind"]))
    return Section(section["key"], section["title"], blocks)


def _shown(name: str, text: str) -> str:
    """Levels of alarms with their colour."""
    if name == "level" and text in ("green", "yellow", "red"):
        return Markup('<span class="level {0}">{0}</span>').format(text)
    return text
