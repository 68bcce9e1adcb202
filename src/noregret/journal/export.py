"""A journal as Parquet files: events as they are, and decisions, outcomes and people as tables for those who analyse.

    events.parquet     one row an event, in order: all columns of the journal but the salts; payload is JSON text
    decisions.parquet  number, time, episode, who, step, state, action, by, probability, advice, next_state, reward
    outcomes.parquet   number, time, kind, episode, who, step, next_state, reward: as they were told, corrections, too
    people.parquet     episode, who, begun, number, x, unavailable, ended, how, decisions
    log.parquet        as `noregret.read_log` takes it: a row a step of everybody who ended with what is learned of
                       them, context in columns x0, x1, ... or in those of the rows people came with

`episode` counts those who began, from 0, the erased ones with them. In decisions, `next_state` and `reward` are what
was told last. Erased events are in events.parquet alone, with their digests. A column is of integers, numbers or texts
where all its values are; otherwise it has JSON text."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..storage.atomic import write_whole
from .event import Event

_TOLD = ("outcome", "reward", "correction")
_ENDED = ("end", "withdraw")
_DECISION = ("step", "state", "action", "by", "probability", "advice")
_EVENTS = ("number", "kind", "time", "who", "key", "asked", "payload", "answer", "digest", "chain", "erased")
_LOG = ("episode", "arrival", "step", "state", "action", "next_state", "reward", "probability", "unavailable")
ROWS = 50_000  # events in one group of rows


def export(events: Iterable[Event], folder: Any) -> list[Path]:
    """Write the files, each whole or not at all, into a folder that is made where it is not there."""
    import pyarrow as pa
    import pyarrow.parquet

    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    tables = _Tables()
    schema = pa.schema([(name, _kind(pa, name)) for name in _EVENTS])

    def fill(file: Any) -> None:
        with pyarrow.parquet.ParquetWriter(file, schema) as writer:
            rows: list[dict[str, Any]] = []
            for event in events:
                tables.add(event)
                rows.append(_plain(event))
                if len(rows) == ROWS:
                    writer.write_table(pa.Table.from_pylist(rows, schema))
                    rows.clear()
            writer.write_table(pa.Table.from_pylist(rows, schema))

    paths = [place / f"{name}.parquet" for name in ("events", "decisions", "outcomes", "people", "log")]
    write_whole(paths[0], fill)
    for path, table in zip(paths[1:], (tables.decisions, tables.outcomes, tables.people, tables.log()), strict=True):
        made = pa.table({name: _column(values) for name, values in table.items()})
        write_whole(path, lambda file, made=made: pyarrow.parquet.write_table(made, file))  # type: ignore[misc]
    return paths


def _kind(pa: Any, name: str) -> Any:
    special = {"number": pa.int64(), "erased": pa.bool_(), "asked": pa.binary()}
    return special.get(name, pa.string())


def _plain(event: Event) -> dict[str, Any]:
    made = {name: getattr(event, name) for name in _EVENTS}
    made["who"] = None if event.who is None else json.dumps(event.who)
    made["payload"] = None if event.payload is None else json.dumps(event.payload)
    return made | {"digest": event.digest.hex(), "chain": event.chain.hex()}


def _column(values: list[Any]) -> list[Any]:
    """The values where they are of one type, else their JSON texts."""
    kinds = {type(v) for v in values if v is not None}
    if (len(kinds) <= 1 and kinds <= {int, float, bool, str}) or kinds == {int, float}:
        if kinds == {int, float}:
            return [v if v is None else float(v) for v in values]
        if kinds != {str} or all(_encodable(v) for v in values):
            return values
    return [v if v is None else json.dumps(v) for v in values]


def _encodable(text: str | None) -> bool:
    try:
        return text is None or bool(text.encode()) or True
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


class _Tables:
    """Decisions, outcomes and people, grown event by event."""

    def __init__(self) -> None:
        self.decisions: dict[str, list[Any]] = {
            name: [] for name in ("number", "time", "episode", "who", *_DECISION, "next_state", "reward")
        }
        self.outcomes: dict[str, list[Any]] = {
            name: [] for name in ("number", "time", "kind", "episode", "who", "step", "next_state", "reward")
        }
        self.people: dict[str, list[Any]] = {
            name: [] for name in ("episode", "who", "begun", "number", "x", "unavailable", "ended", "how", "decisions")
        }
        self._begun = 0
        self._learned: set[int] = set()  # rows in people of those who are learned from
        self._rows: dict[Any, int] = {}  # person -> their row in people, of their latest episode
        self._places: dict[Any, int] = {}  # (row in people, step) -> row in decisions

    def add(self, event: Event) -> None:
        told = event.payload or {}
        if event.kind == "begin":
            self._begun += 1
        if event.erased or event.who is None:
            return
        if event.kind == "begin":
            self._begin(event, told)
        row = self._rows.get(event.who)
        base = {
            "number": event.number, "time": event.time, "who": event.who,
            "episode": None if row is None else self.people["episode"][row],
        }  # fmt: skip
        if event.kind == "decide":
            self._places[row, told.get("step")] = len(self.decisions["number"])
            _append_event(self.decisions, base | {name: told.get(name) for name in _DECISION})
            if row is not None:
                self.people["decisions"][row] += 1
        elif event.kind in _TOLD:
            said = {name: told[name] for name in ("next_state", "reward") if told.get(name) is not None}
            _append_event(self.outcomes, base | {"kind": event.kind, "step": told.get("step")} | said)
            place = self._places.get((row, told.get("step")))
            if place is not None:
                for name, value in said.items():
                    self.decisions[name][place] = value
        elif event.kind in _ENDED and row is not None:
            self.people["ended"][row], self.people["how"][row] = event.time, event.kind
            if event.kind == "end" or told.get("learn"):
                self._learned.add(row)
            else:
                self._learned.discard(row)

    def _begin(self, event: Event, told: dict[str, Any]) -> None:
        row = {
            "episode": self._begun - 1, "who": event.who, "begun": event.time, "number": event.number,
            "x": _text(told.get("x")), "unavailable": _text(told.get("unavailable")), "decisions": 0,
        }  # fmt: skip
        self._rows[event.who] = len(self.people["who"])
        _append_event(self.people, row)

    def log(self) -> dict[str, list[Any]]:
        """The table of `read_log`. Steps whose outcome was not told are left out, and those after them."""
        places = {self.people["episode"][row]: row for row in self._learned}
        given = {row: _context(json.loads(self.people["x"][row] or "[]")) for row in sorted(self._learned)}
        own = dict.fromkeys(name for context in given.values() for name in context)
        made: dict[str, list[Any]] = {name: [] for name in (*own, *_LOG)}
        ended: set[int] = set()
        for i, episode in enumerate(self.decisions["episode"]):
            row = places.get(episode)
            if row is None or episode in ended:
                continue
            if self.decisions["next_state"][i] is None:
                ended.add(episode)
                continue
            step = {name: self.decisions[name][i] for name in _LOG if name in self.decisions}
            who = {"arrival": episode, "unavailable": self.people["unavailable"][row]}
            _append_event(made, given[row] | step | who)
        return made


def _context(x: Any) -> dict[str, Any]:
    if isinstance(x, dict):
        return dict(x)
    return {f"x{j}": value for j, value in enumerate(x if isinstance(x, list) else [])}


def _append_event(table: dict[str, list[Any]], row: dict[str, Any]) -> None:
    """One row more; what the event does not say is None."""
    for name, values in table.items():
        values.append(row.get(name))


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value)
