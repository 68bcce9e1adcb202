"""Metrics in the text format of Prometheus, by a writer of our own: a dependency less, and no lock on the way.

Requests are counted on the event loop, which is one thread; everything else is read from the programmes' `facts()` when
somebody asks. No label names a person or a key.

    noregret_requests_total{programme, verb, status}      counter
    noregret_request_seconds{verb}                        histogram, from the first byte read to the answer written
    noregret_decisions_total{programme, by, referred}     counter, of answers: one given again counts again
    noregret_certificate{programme}                       histogram of the certificates in them
    noregret_queue, noregret_ready, noregret_alarms       gauges, and others from `facts()`
    noregret_house_total{programme, reason}               counter, and others from `facts()`"""

from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping
from typing import Any

import msgspec

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12)
CERTIFICATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class _Decision(msgspec.Struct):
    by: str
    certificate: float | None = None
    referred: bool | None = None


_decision = msgspec.json.Decoder(_Decision).decode


class Requests:
    """Counts and latencies of requests, by verb, and what was decided. Not locked: one thread counts.

    >>> from noregret.service.metrics import Requests
    >>> seen = Requests()
    >>> seen.count("clinic", "decide", 200, 0.003)
    >>> for line in seen.lines():
    ...     if 'le="0.005"' in line or "total" in line and "#" not in line:
    ...         print(line)
    noregret_requests_total{programme="clinic",verb="decide",status="200"} 1
    noregret_request_seconds_bucket{verb="decide",le="0.005"} 1
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], int] = {}
        self._times: dict[str, list[float]] = {}  # of a verb: SECONDS and above, then the sum
        self._decisions: dict[tuple[str, str, str], int] = {}
        self._certificates: dict[str, list[float]] = {}  # of a programme: CERTIFICATES and above, then the sum

    def count(self, programme: str, verb: str, status: int, seconds: float) -> None:
        key = (programme, verb, status)
        self._counts[key] = self._counts.get(key, 0) + 1
        _put(self._times, verb, SECONDS, seconds)

    def decided(self, programme: str, text: str) -> None:
        """The answer to a decide."""
        told = _decision(text)
        key = (programme, told.by, "" if told.referred is None else str(told.referred).lower())
        self._decisions[key] = self._decisions.get(key, 0) + 1
        if told.certificate is not None:
            _put(self._certificates, programme, CERTIFICATES, told.certificate)

    def lines(self, programmes: Container[str] | None = None) -> Iterable[str]:
        """As text; programmes: those that may be shown, None: all."""

        def shown(name: str) -> bool:
            return programmes is None or not name or name in programmes

        rows = [
            ({"programme": programme, "verb": verb, "status": str(status)}, n)
            for (programme, verb, status), n in sorted(self._counts.items())
            if shown(programme)
        ]
        yield from family("noregret_requests_total", "counter", "Requests answered.", rows)
        made = [
            ({"programme": programme, "by": by, "referred": referred}, n)
            for (programme, by, referred), n in sorted(self._decisions.items())
            if shown(programme)
        ]
        yield from family("noregret_decisions_total", "counter", "Answers to decide, by who decided.", made)
        seconds = "Seconds from a request to its answer."
        yield from _histogram("noregret_request_seconds", seconds, "verb", SECONDS, self._times)
        known = {name: cells for name, cells in self._certificates.items() if shown(name)}
        yield from _histogram("noregret_certificate", "Certificates.", "programme", CERTIFICATES, known)


def _put(kept: dict[str, list[float]], name: str, edges: tuple[float, ...], value: float) -> None:
    cells = kept.get(name)
    if cells is None:
        cells = kept[name] = [0.0] * (len(edges) + 2)
    cells[bisect_left(edges, value)] += 1.0
    cells[-1] += value


def _histogram(
    name: str, said: str, label: str, edges: tuple[float, ...], kept: Mapping[str, list[float]]
) -> Iterable[str]:
    yield f"# HELP {name} {said}"
    yield f"# TYPE {name} histogram"
    for of, cells in sorted(kept.items()):
        below = 0.0
        for edge, n in zip((*map(str, edges), "+Inf"), cells[:-1], strict=True):
            below += n
            yield sample(f"{name}_bucket", {label: of, "le": edge}, below)
        yield sample(f"{name}_sum", {label: of}, cells[-1])
        yield sample(f"{name}_count", {label: of}, below)


def sample(name: str, labels: Mapping[str, str], value: Any) -> str:
    """One line; values of labels are escaped as the format says."""
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    number = float(value)
    said = str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
    return f"{name}{{{inside}}} {said}" if inside else f"{name} {said}"


def family(name: str, kind: str, said: str, rows: Iterable[tuple[Mapping[str, str], Any]]) -> Iterable[str]:
    """A metric with its help, its type and its samples."""
    yield f"# HELP {name} {said}"
    yield f"# TYPE {name} {kind}"
    for labels, value in rows:
        yield sample(name, labels, value)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
