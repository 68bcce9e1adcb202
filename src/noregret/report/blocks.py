"""What a page is made of: paragraphs, tables, figures, collapsible parts."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .drawing import Look, Picture
from .texts import NONE

# Columns of words; all others are numbers, aligned to the right.
_WORDS = {
    "agent", "setting", "guarantee", "letters", "less regret", "more regret", "significant", "size", "values",
    "reading", "threshold", "cell", "file", "message",
}  # fmt: skip


class Row(NamedTuple):
    """entries: column -> text; look: of the swatch before the first; ids: the cells of the study behind the row."""

    entries: Mapping[str, str]
    ids: Sequence[str] = ()
    look: Look | None = None


class Table(NamedTuple):
    """Rows have the same columns. A column that says nothing in any of them is not shown. words: the columns that have
    no numbers, besides the first."""

    caption: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    words: Set[str] = _WORDS

    @property
    def columns(self) -> dict[str, bool]:
        """Name -> whether it has numbers."""
        shown = [name for name in self.rows[0].entries if any(row.entries[name] != NONE for row in self.rows)]
        return {name: name not in self.words for name in shown}

    @property
    def traced(self) -> bool:
        return any(row.ids for row in self.rows)


class Text(NamedTuple):
    words: str
    kind: str = ""  # "note" in small print, "code"


class Shown(NamedTuple):
    """A figure on the page."""

    picture: Picture
    caption: str
    ids: Sequence[str]


class Words(NamedTuple):
    """A list of terms with what is to be said about each."""

    terms: Sequence[tuple[str, str]]


class Folded(NamedTuple):
    title: str
    blocks: Sequence[Any]
    key: str = ""


class Heading(NamedTuple):
    title: str
    key: str


@dataclass
class Section:
    key: str
    title: str
    blocks: list[Any] = field(default_factory=list)

    @property
    def parts(self) -> list[Any]:
        """For the table of contents; the settings are listed once."""
        return [b for b in self.blocks if isinstance(b, Heading)] if self.key == "regret" else []
