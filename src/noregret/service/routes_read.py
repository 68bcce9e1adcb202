"""Operations that read: what there is, what is counted, what happened to a person, and everything as Parquet."""

import asyncio
import shutil
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import msgspec
from starlette.responses import FileResponse

from ..journal.errors import DAMAGED, JournalDamaged
from ..storage.version import __version__
from . import messages as m
from .asking import Refusal
from .metrics import TYPE, family
from .operation import Call, Operation, Reply, said

_READY = ("ready", "paused")
SHADOW = 30.0  # seconds for which a report is good
AUDIT = 20.0  # seconds that a caller waits for an audit
_P = "/v1/programmes/{name}"


def operations() -> list[Operation]:
    return [
        Operation("GET", "/health", "health", None, "The process answers.", _health, None, {200: m.Health}),
        Operation("GET", "/ready", "is_ready", None,
                  "200 where programmes are held here and their agents are loaded; 503 before.", _ready, None,
                  {200: m.Ready, 503: m.Ready}),
        Operation("GET", "/metrics", "metrics", "read", "Counts and latencies, in the text format of Prometheus.",
                  _metrics, None, {200: "text/plain"}),
        Operation("GET", "/openapi.json", "openapi", None, "This description.", _openapi, None,
                  {200: "application/json"}),
        Operation("GET", "/v1/programmes", "programmes", "read", "The programmes that this token may see.", _programmes,
                  None, {200: m.Listed}),
        Operation("GET", _P, "programme", "read", "One programme and what is counted of it.", _programme, None,
                  {200: m.Described}),
        Operation("GET", f"{_P}/people/{{who}}", "person", "read", "All that the journal has of a person.", _person,
                  None, {200: m.Person}, (422, 503)),
        Operation("GET", f"{_P}/people/{{who}}/audit/{{step}}", "audit", "read",
                  "One decision, made again from the journal now.", _audit, None, {200: m.Audited}, (409, 422, 503)),
        Operation("GET", f"{_P}/alarms", "alarms", "read", "Alarms about the model, newest first.", _alarms, None,
                  {200: m.Alarms}),
        Operation("GET", f"{_P}/shadow", "shadow", "read", "The agent beside the house rule.", _shadow, None,
                  {200: m.Shadow}, (503,)),
        Operation("GET", f"{_P}/export", "export", "read",
                  "Decisions, outcomes, people and events as Parquet files, zipped.", _export, None,
                  {200: "application/zip"}, (503,)),
    ]  # fmt: skip


async def _health(call: Call) -> Reply:
    return said(200, m.Health("ok", __version__))


async def _ready(call: Call) -> Reply:
    states = {name: programme.state for name, programme in call.service.host.programmes.items()}
    held = [state for state in states.values() if state != "standing by"]
    ready = (bool(held) or not states) and all(state in _READY for state in held)
    return said(200 if ready else 503, m.Ready(ready, states))


async def _openapi(call: Call) -> Reply:
    return Reply(200, call.service.openapi)


async def _programmes(call: Call) -> Reply:
    seen = [
        m.Known(name=name, title=programme.settings.programme.title, state=programme.state)
        for name, programme in call.service.host.programmes.items()
        if call.token.may("read", name)
    ]
    return said(200, m.Listed(seen))


async def _programme(call: Call) -> Reply:
    programme = call.programme
    facts = plain(programme.facts())
    title = programme.settings.programme.title
    return said(200, m.Described(name=call.name or "", title=title, state=programme.state, facts=facts))


async def _person(call: Call) -> Reply:
    who = call.person()
    events = await call.service.read(call.programme, lambda journal: journal.of(who))
    if not events:
        raise Refusal(404, "the journal has nothing of this person")
    rows = [m.Happened(number=e.number, kind=e.kind, time=e.time, payload=e.payload) for e in events]
    return said(200, m.Person(who=who, events=rows))


async def _audit(call: Call) -> Reply:
    """In the process beside (`pages.aside`): folding thousands of events must not make decisions wait. Where it takes
    long, the caller asks again; it is made once."""
    who, step = call.person(), call.number("step")
    events, url = await call.service.read(call.programme, lambda journal: (journal.of(who), journal.url))
    made = [e.number for e in events if e.kind == "decide" and (e.payload or {}).get("step") == step]
    if not made:
        raise Refusal(404, "the journal has no such decision")
    question = {"ask": "audit", "url": url, "programme": call.programme.settings.name, "who": who, "step": step}
    asked = asyncio.wrap_future(call.service.aside.ask(f"audit {call.name} {made[-1]}", question))
    try:
        answer = await asyncio.wait_for(asyncio.shield(asked), AUDIT)
    except TimeoutError:
        raise Refusal(503, "the audit is being made: ask again", 5) from None
    if "error" in answer:
        raise Refusal(409, f"this decision cannot be made again: {answer['error']}"[:500])
    return said(200, m.Audited(who=who, step=step, audit=plain(answer)))


async def _alarms(call: Call) -> Reply:
    known = call.programme.facts().get("alarms", [])
    return said(200, m.Alarms([dict(alarm) for alarm in plain(known)][::-1]))


async def _shadow(call: Call) -> Reply:
    """Made at most once in SHADOW seconds, whoever asks: it takes processor time from decisions."""
    known, name, programme = call.service.shadows, call.name, call.programme
    made, task = known.get(name, (0.0, None))
    if task is None or (task.done() and (task.exception() is not None or time.monotonic() - made > SHADOW)):
        task = asyncio.ensure_future(asyncio.to_thread(programme.shadow))
        known[name] = time.monotonic(), task
    try:
        return said(200, m.Shadow(plain(await asyncio.shield(task))))
    except JournalDamaged:
        raise Refusal(503, DAMAGED) from None
    except (RuntimeError, OSError) as error:  # standing by, loading, busy, no journal
        raise Refusal(503, f"there is no report now ({type(error).__name__}): ask again", 2) from None


async def _export(call: Call) -> Reply:
    """One at a time for each programme: an export reads the whole journal and takes room on the disk."""
    busy = call.service.exporting
    if call.name in busy:
        raise Refusal(503, "an export of this programme is being made: ask again later", 5)
    busy.add(call.name)
    folder = None
    try:
        folder = Path(tempfile.mkdtemp(prefix="noregret-export-"))
        path = await call.service.read(call.programme, lambda journal: _exported(journal, folder))
    except BaseException as error:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise Refusal(503, f"the export could not be written here: {error.strerror}", 5) from None
        raise
    finally:
        busy.discard(call.name)
    return Reply(200, stream=_Download(path, folder, f"{call.name}.zip"))


def _exported(journal: Any, folder: Path) -> Path:
    """The journal's Parquet files in one archive; they are compressed already."""
    journal.export(folder / "export")
    path = folder / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted((folder / "export").rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder / "export"))
    return path


class _Download:
    """The file, sent piece by piece; its folder is removed afterwards, whatever happens."""

    def __init__(self, path: Path, folder: Path, name: str) -> None:
        self.path, self.folder, self.name = path, folder, name

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            headers = {"cache-control": "no-store"}
            response = FileResponse(self.path, media_type="application/zip", filename=self.name, headers=headers)
            await response(scope, receive, send)
        finally:
            await asyncio.to_thread(shutil.rmtree, self.folder, True)


# Metrics ----------------------------------------------------------------------------------------------------------
async def _metrics(call: Call) -> Reply:
    facts = {
        name: programme.facts()
        for name, programme in call.service.host.programmes.items()
        if call.token.may("read", name)
    }
    states = {name: call.service.host.programmes[name].state for name in facts}
    lines = list(call.service.requests.lines(facts))
    lines += family(
        "noregret_ready", "gauge", "1 where the agent is loaded and decides.",
        [({"programme": name, "state": state}, state == "ready") for name, state in states.items()],
    )  # fmt: skip
    lines += measured(facts)
    return Reply(200, ("\n".join(lines) + "\n").encode(), ((b"content-type", TYPE),))


_COUNTERS = {
    "events": ("kind", "Events in the journal."), "house": ("reason", "Decisions of the house rule."),
    "refusals": ("status", "Requests that a programme refused."), "commits": ("", "Commits."),
    "again": ("", "Requests that had been answered before."), "failures": ("", "Commits that failed."),
    "answers": ("", "Answers of a programme."), "full": ("", "Requests for which the queue had no place."),
    "batches": ("events", "Commits by size: the largest power of 2 that is not above."),
}  # fmt: skip
_GAUGES = {
    "queue": "Requests that wait.", "limit": "Requests that may wait.", "head": "Events in the journal.",
    "folded": "Events that the agent has seen.",
}  # fmt: skip


def measured(facts: dict[str, dict[str, Any]]) -> list[str]:
    """What the programmes count, by the names of `facts()`."""
    lines: list[str] = []
    for key, (label, said_of) in _COUNTERS.items():
        rows: list[tuple[dict[str, str], Any]] = []
        for name, told in facts.items():
            counted = told.get(key, {} if label else 0)
            if label:
                rows += [({"programme": name, label: str(k)}, n) for k, n in counted.items()]
            else:
                rows.append(({"programme": name}, counted))
        lines += family(f"noregret_{key}_total", "counter", said_of, rows)
    for key, said_of in _GAUGES.items():
        lines += family(
            f"noregret_{key}", "gauge", said_of, [({"programme": n}, t.get(key, 0)) for n, t in facts.items()]
        )
    alarms = [({"programme": name}, len(told.get("alarms", ()))) for name, told in facts.items()]
    return [*lines, *family("noregret_alarms", "gauge", "Alarms that are remembered.", alarms)]


def plain(value: Any) -> Any:
    """For JSON: NumPy's numbers and arrays as Python's, what is not finite as null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if value - value == 0.0 else None
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    if isinstance(value, str | int | bool) or value is None:
        return value
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else str(value)
