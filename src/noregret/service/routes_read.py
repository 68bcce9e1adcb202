"""Operations that read: what there is, what is counted, what happened to a person, and everything as Parquet."""

import asyncio
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import msgspec
from starlette.responses import FileResponse

from ..storage.version import __version__
from . import messages as m
from .asking import Refusal
from .metrics import TYPE, family, sample
from .operation import Call, Operation, Reply, said

_READY = ("ready", "paused")
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
    events = await asyncio.to_thread(lambda: call.service.journal(call.programme).of(who))
    if not events:
        raise Refusal(404, "the journal has nothing of this person")
    rows = [m.Happened(number=e.number, kind=e.kind, time=e.time, payload=e.payload) for e in events]
    return said(200, m.Person(who=who, events=rows))


async def _alarms(call: Call) -> Reply:
    return said(200, m.Alarms([dict(alarm) for alarm in plain(call.programme.facts().get("alarms", []))]))


async def _shadow(call: Call) -> Reply:
    report = getattr(call.programme, "shadow", None)
    made = await asyncio.to_thread(report) if callable(report) else report
    return said(200, m.Shadow(None if made is None else plain(made)))


async def _export(call: Call) -> Reply:
    folder = Path(tempfile.mkdtemp(prefix="noregret-export-"))
    try:
        path = await asyncio.to_thread(_exported, call, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Reply(200, stream=_Download(path, folder, f"{call.name}.zip"))


def _exported(call: Call, folder: Path) -> Path:
    """The journal's Parquet files in one archive; they are compressed already."""
    call.service.journal(call.programme).export(folder / "export")
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
    lines = list(call.service.requests.lines())
    facts = {
        name: programme.facts()
        for name, programme in call.service.host.programmes.items()
        if call.token.may("read", name)
    }
    states = {name: call.service.host.programmes[name].state for name in facts}
    lines += family(
        "noregret_ready", "gauge", "1 where the agent is loaded and decides.",
        [({"programme": name, "state": state}, state == "ready") for name, state in states.items()],
    )  # fmt: skip
    lines += measured(facts)
    return Reply(200, ("\n".join(lines) + "\n").encode(), ((b"content-type", TYPE),))


def measured(facts: dict[str, dict[str, Any]]) -> list[str]:
    """Every number in the facts, by its name; a dictionary of numbers has a label for its keys."""
    found: dict[str, list[str]] = {}
    for name, told in facts.items():
        for key, value in told.items():
            metric = f"noregret_{''.join(c if c.isalnum() else '_' for c in key)}"
            if isinstance(value, bool | int | float):
                found.setdefault(metric, []).append(sample(metric, {"programme": name}, value))
            elif isinstance(value, dict):
                rows = {k: v for k, v in value.items() if isinstance(v, bool | int | float)}
                found.setdefault(metric, []).extend(
                    sample(metric, {"programme": name, "of": str(k)}, v) for k, v in rows.items()
                )
            elif isinstance(value, list):
                found.setdefault(metric, []).append(sample(metric, {"programme": name}, len(value)))
    return [line for metric, rows in sorted(found.items()) if rows for line in (f"# TYPE {metric} untyped", *rows)]


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
