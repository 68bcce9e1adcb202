"""What a request costs in each part of the service, one thread at a time: processor microseconds a request, of many
short series the tenth part and the half. Neighbours on the machine make series dearer and none cheaper, so the tenth
part is the figure to compare versions by."""

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
import uvloop

from noregret.journal.chain import made_rows
from noregret.journal.event import Entry
from noregret.journal.journal import Journal
from noregret.service import wire
from noregret.service.app import App, Service
from noregret.service.asking import Answer, ask
from noregret.service.items import Batch
from noregret.service.logs import Log
from noregret.service.programme import Programme
from noregret.service.programme_file import load_programme
from noregret.service.tenure import Tenure

from .faults import NAME, programme_file
from .people import answered, medium, people
from .server import Postgres
from .wire import request

SERIES = 20  # rounds in one series
_DECIDED = (
    '{"who":"p1","step":3,"state":4,"action":1,"probability":null,"certificate":3.25678,"referred":null,"by":"agent",'
    '"reason":null,"version":"0","number":123456}'
)


class _Transport(asyncio.Transport):
    """Takes answers and forgets them."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = 0

    def write(self, data: Any) -> None:
        self.answers += 1

    def is_closing(self) -> bool:
        return False


class _Waiting:
    """A programme whose answers are made by whoever measures."""

    def __init__(self) -> None:
        self.asks: list[Any] = []

    def submit(self, asked: Any) -> None:
        self.asks.append(asked)


async def _http(size: int, series: int) -> list[float]:
    programme, host = _Waiting(), type("Host", (), {})()
    host.programmes = {NAME: programme}
    with open(os.devnull, "wb") as nowhere:
        service = Service(host, None, Log(nowhere))
        service.open(asyncio.get_running_loop())
        config = wire.server(App(service), "127.0.0.1", 0, service.tick, lambda _: None).config
        config.load()
        state, made = uvicorn.server.ServerState(), []
        for i in range(size):
            connection = wire.Connection(config=config, server_state=state, app_state={})
            connection.connection_made(_Transport())
            verb, body = ("decide", b'{"state":4,"step":3}') if i % 2 else ("outcome", b'{"step":3,"next_state":4}')
            made.append((connection, request("POST", f"/v1/programmes/{NAME}/people/p{i}/{verb}", body, f"p{i}/3")))
        took = []
        for _ in range(series):
            begun = time.thread_time()
            for _ in range(SERIES):
                for connection, data in made:
                    connection.data_received(data)
                while len(programme.asks) < size:
                    await asyncio.sleep(0)
                answers, programme.asks = [(one, Answer(200, _DECIDED)) for one in programme.asks], []
                last = made[-1][0].transport
                wanted = last.answers + 1  # type: ignore[attr-defined]
                service.on_answers(answers)
                while last.answers < wanted:  # type: ignore[attr-defined]
                    await asyncio.sleep(0)
            took.append(1e6 * (time.thread_time() - begun) / (SERIES * size))
        return took[len(took) // 5 :]


class _Timed:
    """Adds up the processor time of calls."""

    def __init__(self, function: Any) -> None:
        self.function, self.spent = function, 0.0

    def __call__(self, *args: Any) -> Any:
        begun = time.thread_time()
        made = self.function(*args)
        self.spent += time.thread_time() - begun
        return made


def _run(round: Any) -> None:
    """A coroutine that waits for nobody."""
    with contextlib.suppress(StopIteration):
        round.send(None)
        raise AssertionError


def _round(size: int, series: int, folder: Path) -> dict[str, list[float]]:
    settings = load_programme(programme_file(folder, service={"snapshot_every": 10**7}))
    programme = Programme(settings, f"sqlite:///{folder / 'journal.db'}")
    said: dict[int, Any] = {}
    programme._desk.deliver = lambda answers: said.update({id(one): answer for one, answer in answers})
    with programme.open_journal() as journal:
        journal.lock()
        tenure = Tenure(programme._desk, journal)
        player, writer, live = tenure.player, tenure.writer, settings.made_live()

        def play(batch: Batch) -> None:
            for item in batch.items:
                player._play(live, item, batch)

        player.inbox, player._live = type("Inbox", (), {})(), live  # type: ignore[assignment]
        parts = {"player": _Timed(play), "beside": _Timed(player.beside), "sql": _Timed(journal._writer.append),
                 "keys": _Timed(writer.recall.answered),
                 "items, with keys": _Timed(writer._items), "commit, with sql": _Timed(writer._commit)}  # fmt: skip
        player.hand, journal._writer.append, writer.recall.answered = parts["player"], parts["sql"], parts["keys"]  # type: ignore[method-assign,assignment]
        player.beside = parts["beside"]  # type: ignore[method-assign,assignment]
        writer._items, writer._commit = parts["items, with keys"], parts["commit, with sql"]  # type: ignore[method-assign,assignment]
        parts["round"] = _Timed(lambda: _run(writer.round()))
        crowd, took = people(medium()), {name: [0.0] for name in parts}
        under_way = [next(crowd) for _ in range(size)]
        for _ in range(series):
            for timed in parts.values():
                timed.spent = 0.0
            for _ in range(SERIES):
                asked = [ask(verb, who.name, key, body) for who in under_way for verb, key, body in [who.ask()]]
                for one in asked:
                    programme._queue.put(one)
                parts["round"]()
                told = [answered(said.pop(id(one)).text) for one in asked]
                under_way = [who if who.told(t) else next(crowd) for who, t in zip(under_way, told, strict=True)]
            for name, timed in parts.items():
                took[name].append(1e6 * timed.spent / (SERIES * size))
        return {name: values[len(values) // 5 :] for name, values in took.items()}


def measured(series: int) -> Iterator[str]:
    """Lines of the table, for rounds of 2 and of 16 requests. The journal is in memory where there is /dev/shm."""
    for size in (2, 16):
        place = "/dev/shm" if os.path.isdir("/dev/shm") else None
        with tempfile.TemporaryDirectory(prefix="noregret-parts-", dir=place) as folder:
            took = {"http": uvloop.run(_http(size, series))} | _round(size, series, Path(folder))
        for name, values in took.items():
            tenth, half = np.quantile(values, [0.1, 0.5])
            yield f"rounds of {size:2}  {name:18} {tenth:6.1f} us, half of them below {half:6.1f}"


def measured_postgres(series: int, events: int = 20_000) -> Iterator[str]:
    """The same for what a round asks of PostgreSQL, in a table that was never analysed: time until the answer, and of
    that the client's processor time."""

    def entries(at: int, n: int) -> list[Entry]:
        told = {"step": 3, "state": 4, "action": 1, "by": "agent", "probability": None, "advice": 1}
        return [
            Entry("decide", "2026-01-01T12:00:00+00:00", f"p{i // 22}", told, _DECIDED, f"p{i}/3", bytes(32))
            for i in range(at, at + n)
        ]

    with Postgres() as base, Journal(base.url, NAME) as journal:
        while journal.head < events:
            journal.write(entries(journal.head, 100))
        for size in (1, 2, 4, 16, 64):
            for name, asked in (("keys", True), ("append", False)):
                took = []
                for i in range(series):
                    rows = [] if asked else made_rows(NAME, *journal._seen, entries(journal.head, size))
                    begun, spent = time.perf_counter(), time.thread_time()
                    if asked:
                        journal.answered([f"new {i}/{k}" for k in range(size)])
                    else:
                        journal._writer.append(rows[0])
                    took.append((time.perf_counter() - begun, time.thread_time() - spent))
                    if not asked:
                        journal._look()
                wall, spent = 1e6 * np.median(took, axis=0)
                yield f"{size:2} {name:7} {wall:6.0f} us, {spent:4.0f} of them the client's"
