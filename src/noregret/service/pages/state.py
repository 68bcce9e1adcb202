"""What the service says of itself, for people: queue, latency, snapshots, the head of the chain."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...report.blocks import Row, Section, Table, Words
from ...report.texts import NONE, number
from .dashboard import REASONS, moment

VERBS = ("decide", "begin")  # whose latency matters to callers
WORDS = {
    "queue": "requests that wait", "limit": "requests that may wait", "folded": "events the agent has folded",
    "answers": "requests answered since the start", "again": "of them, repeated with the same key",
    "full": "turned away because the queue was full", "commits": "commits since the start",
    "failures": "commits that failed", "deadline_ms": "deadline of the agent, milliseconds",
    "paused": "paused", "shadow": "shadow mode", "failure": "what failed", "version": "version of noregret",
}  # fmt: skip
_SHOWN = ("head", "alarms", "state", "chain", "name", "title", "snapshot")


def latencies(requests: Any) -> list[tuple[str, str]]:
    """(what, text) from a histogram of `service.metrics.Requests`: within which time half, and 99%, were answered."""
    if requests is None:
        return []
    found: dict[str, list[tuple[float, float]]] = {}
    for line in requests.lines():
        told = re.fullmatch(r'noregret_request_seconds_bucket\{verb="(\w+)",le="([^"]+)"\} (\S+)', line)
        if told:
            found.setdefault(told[1], []).append((float(told[2].replace("+Inf", "inf")), float(told[3])))
    made = []
    for verb in VERBS:
        cells = found.get(verb, [])
        if cells and cells[-1][1] > 0:
            half, most = (_within(cells, share) for share in (0.5, 0.99))
            made.append((f"latency of {verb}", f"half {half}, 99% {most} ({cells[-1][1]:,.0f} requests)"))
    return made


def _within(cells: list[tuple[float, float]], share: float) -> str:
    total = cells[-1][1]
    edge = next(edge for edge, below in cells if below >= share * total)
    return f"within {1000.0 * edge:g} ms" if edge < float("inf") else f"above {1000.0 * cells[-2][0]:g} ms"


def service_section(state: str, facts: Mapping[str, Any], latency: list[tuple[str, str]], chain: str) -> Section:
    """facts: of `Programme.facts`."""
    terms = [("state", state), ("events", f"{facts.get('head', 0):,}"), ("head of the chain", chain or NONE)]
    kept = facts.get("snapshot")
    if isinstance(kept, Mapping):
        size = f", {kept['size'] / 1e6:.1f} MB" if kept.get("size") else ""
        said = f"after event {kept.get('number', 0):,}{size}, {moment(str(kept.get('time', '')))} UTC"
        terms.append(("last snapshot", said))
    rows = [Row({"what": what, "now": text}) for what, text in [*latency, *_rows(facts)]]
    return Section(
        "service",
        "The service",
        [Words(terms), *([Table("Figures of the service", rows, words={"now"})] if rows else [])],
    )


def _rows(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in [*(n for n in WORDS if n in facts), *(n for n in facts if n not in WORDS and n not in _SHOWN)]:
        words, value = WORDS.get(name, name.replace("_", " ")), facts[name]
        if value == "" or (name in ("paused", "shadow") and not value):
            continue
        if isinstance(value, Mapping):
            yield _TABLES.get(name, words), _listed(name, value)
        else:
            yield words, _plain(value)


_TABLES = {
    "events": "events by kind", "house": "decisions of the house rule since the start",
    "refusals": "requests refused since the start, by status", "batches": "commits by number of events",
}  # fmt: skip


def _listed(name: str, value: Mapping[Any, Any]) -> str:
    def named(key: Any) -> str:
        if name == "batches" and isinstance(key, int):
            return f"{key}" if key == 1 else f"{key} to {2 * key - 1}"
        return REASONS.get(str(key), str(key)) if name == "house" else str(key)

    return "; ".join(f"{named(key)}: {_plain(n)}" for key, n in list(value.items())[:20]) or NONE


def _plain(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return NONE if value is None else "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return number(value) if isinstance(value, float) else str(value)[:200]
