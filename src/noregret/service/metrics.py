"""Metrics in the text format of Prometheus, by a writer of our own: a dependency less, and no lock on the way.

Requests are counted on the event loop, which is one thread; everything else is read from the programmes' `facts()` when
somebody asks. No label names a person or a key.

    noregret_requests_total{programme, verb, status}      counter
    noregret_request_seconds{verb}                        histogram, from the first byte read to the answer written
    noregret_queue{programme}, noregret_ready{programme}  gauges
    noregret_house_decisions_total{programme, reason}     counter, and others from `facts()`"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12)
TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Requests:
    """Counts and latencies of requests, by verb. Not locked: one thread counts.

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

    def count(self, programme: str, verb: str, status: int, seconds: float) -> None:
        key = (programme, verb, status)
        self._counts[key] = self._counts.get(key, 0) + 1
        cells = self._times.get(verb)
        if cells is None:
            cells = self._times[verb] = [0.0] * (len(SECONDS) + 2)
        cells[bisect_left(SECONDS, seconds)] += 1.0
        cells[-1] += seconds

    def lines(self) -> Iterable[str]:
        rows = [
            ({"programme": programme, "verb": verb, "status": str(status)}, n)
            for (programme, verb, status), n in sorted(self._counts.items())
        ]
        yield from family("noregret_requests_total", "counter", "Requests answered.", rows)
        yield "# HELP noregret_request_seconds Seconds from a request to its answer."
        yield "# TYPE noregret_request_seconds histogram"
        for verb, cells in sorted(self._times.items()):
            below = 0.0
            for edge, n in zip((*map(str, SECONDS), "+Inf"), cells[:-1], strict=True):
                below += n
                yield sample("noregret_request_seconds_bucket", {"verb": verb, "le": edge}, below)
            yield sample("noregret_request_seconds_sum", {"verb": verb}, cells[-1])
            yield sample("noregret_request_seconds_count", {"verb": verb}, below)


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
