"""Load and faults for `noregret serve`: what docs/deployment.md and docs/performance.md say of it is printed here.

python -m benchmarks.serve load --mode open --rate 500             # decisions a second, Poisson
python -m benchmarks.serve load --mode closed --callers 32 --postgres
python -m benchmarks.serve windows                                 # while it learns, takes snapshots, refreshes
python -m benchmarks.serve ready                                   # how long until ready, by length of journal
python -m benchmarks.serve million                                 # 10^6 requests, duplicates, out of order
python -m benchmarks.serve faults kill --times 1000
python -m benchmarks.serve faults database|takeover|disk
python -m benchmarks.serve parts                                   # what a request costs, part by part
python -m benchmarks.serve generator                               # what the generator itself costs"""

import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import uvloop

import noregret as nr
from benchmarks.serving.books import balance
from benchmarks.serving.faults import MIXED, NAME, database_restarts, disk_full, kills, programme_file, takeovers
from benchmarks.serving.load import Load
from benchmarks.serving.machine import Beside, memory, wait_for_free
from benchmarks.serving.parts import measured, measured_postgres
from benchmarks.serving.people import medium, people
from benchmarks.serving.server import Postgres, Server, free_port
from benchmarks.serving.wire import Pool

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
REQUESTS = 2.25  # a decision: begin and end are shared by H = 10, an outcome follows each, some rewards come late


def population_of(rate: float) -> int:
    """How many are under way: a person's 22 requests take about two seconds."""
    return max(20, round(rate / 5))


@contextmanager
def service(postgres: bool, **settings: Any) -> Iterator[tuple[Server, dict[str, int], Path]]:
    """A fresh database, and a server on it that is ready."""
    with tempfile.TemporaryDirectory(prefix="noregret-serve-") as name, ExitStack() as stack:
        folder = Path(name)
        pids: dict[str, int] = {}
        url = f"sqlite:///{folder / 'journal.db'}"
        if postgres:
            base = stack.enter_context(Postgres())
            url, pids["postgres"] = base.url, base.pid
        server = stack.enter_context(Server(folder, [programme_file(folder, **settings)], url))
        server.start()
        pids["server"] = server.pid
        yield server, pids, folder


async def _course(server: Server, pids: dict[str, int], folder: Path, plan: dict[str, Any]) -> tuple[Any, ...]:
    """Warm up, then measure; (load, seconds, what the machine did)."""
    pool = Pool("127.0.0.1", server.port)
    crowd = people(medium(), plan["seed"])
    load = Load(pool, NAME, crowd, seed=plan["seed"], **plan["mixed"])
    if plan["mode"] == "open":
        await load.run_open(plan["rate"] * REQUESTS, plan["warm"], plan["population"])
    else:
        await load.run_closed(plan["callers"], plan["warm"])
        load.stopped = False
    warm = len(load.record.late)
    since, sent = time.perf_counter(), load.record.sent
    with Beside(folder, pids) as beside:
        if plan["mode"] == "open":
            await load.run_open(plan["rate"] * REQUESTS, plan["seconds"], plan["population"])
        else:
            await load.run_closed(plan["callers"], plan["seconds"])
    until, sent = time.perf_counter(), load.record.sent - sent
    if not plan.get("unfinished"):
        await load.finish()
    pool.close()
    return load, since, until, sent, beside, warm


def _run(postgres: bool, plan: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    with service(postgres, **settings) as (server, pids, folder):
        load, since, until, sent, beside, warm = uvloop.run(_course(server, pids, folder, plan))
        mib = memory(server.pid)
        server.stop()
        books = balance(server.url, NAME, load.record, replay=plan.get("replay", True))
    took = load.record.quantiles(since, until)
    late = np.array(load.record.late)[warm:] * 1e3
    row = {
        "decisions/s": round(took["decide"]["n"] / (until - since), 1), "requests/s": round(sent / (until - since), 1),
        "latency": took, "late p99": round(float(np.quantile(late, 0.99)), 2), "by": dict(load.record.by),
        "MiB": round(mib), "books": books.sentence(), "balanced": books.balanced,
    }  # fmt: skip
    return row | beside.row(sent)


def _show(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over runs."""
    made: dict[str, Any] = {"runs": len(rows), "balanced": all(row["balanced"] for row in rows)}
    for name, value in rows[0].items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            made[name] = round(statistics.median(row[name] for row in rows), 3)
    made["latency"] = {
        verb: {q: round(statistics.median(r["latency"][verb][q] for r in rows if verb in r["latency"]), 2) for q in qs}
        for verb, qs in rows[0]["latency"].items()
    }
    return made


def _print(row: dict[str, Any]) -> None:
    latency = row.pop("latency")
    print(json.dumps(row))
    for verb, q in latency.items():
        print(f"    {verb:9} " + "  ".join(f"{k} {v:>8}" for k, v in q.items()))


Runs = Annotated[int, typer.Option(help="medians of so many")]
PG = Annotated[bool, typer.Option(help="PostgreSQL in place of SQLite")]
Free = Annotated[float, typer.Option(help="wait, two minutes at most, until this share of the machine is free")]
Seconds = Annotated[float, typer.Option(help="measured, after three to warm up")]
Known = Annotated[int, typer.Option(help="people from whom stored sets have learned before")]


@app.command()
def load(
    mode: str = "open", rate: float = 500.0, callers: int = 32, seconds: Seconds = 20.0, runs: Runs = 5,
    postgres: PG = False, exact: bool = False, plain: bool = False, replay: bool = True, free: Free = 0.0,
    out: Path | None = None,
) -> None:  # fmt: skip
    """Open arrivals or closed loops on a fresh service, run by run, then the medians."""
    settings: dict[str, Any] = {"agent": {"plans": 8, "floor": 0.05}} if exact else {}
    rows = []
    for run in range(runs):
        plan = {
            "mode": mode, "rate": rate, "callers": callers, "seconds": seconds, "warm": 3.0,
            "population": population_of(rate), "seed": run, "mixed": {} if plain else MIXED, "replay": replay,
        }  # fmt: skip
        if free:
            wait_for_free(free, 120.0)
        rows.append(_run(postgres, plan, settings))
        _print({"run": run} | rows[-1])
    print("medians")
    _print(_show(rows))
    if out is not None:
        out.write_text(json.dumps(rows, indent=1))


@app.command()
def windows(
    rate: float = 500.0, seconds: Seconds = 15.0, runs: Runs = 3, postgres: PG = False, known: Known = 0
) -> None:
    """The same arrivals with nothing beside, with learning, with snapshots, with refreshes; p99 of each.

    Stored sets have two lines: what they cost where nothing is learned, and what refreshes add."""
    idle: dict[str, Any] = {"service": {"snapshot_every": 10**7}, "learning": {"wait": "close"}}
    learns: dict[str, Any] = {"service": {"snapshot_every": 10**7}}
    often: dict[str, Any] = {"service": {"snapshot_every": 2000}}
    with tempfile.TemporaryDirectory(prefix="noregret-agent-") as name:
        stored: dict[str, Any] = {"agent": {"sets": "stored"}}
        if known:
            stored = {"agent": None, "problem": {"agent_file": str(_learned(Path(name), known))}}
        kinds = {
            "nothing learned": idle, "learning": learns, "learning and snapshots": often,
            "stored sets, nothing learned": idle | stored, "stored sets, refreshed": learns | stored,
        }  # fmt: skip
        for run in range(runs):
            for kind, settings in kinds.items():
                plan = {
                    "mode": "open", "rate": rate, "seconds": seconds, "warm": 3.0, "population": population_of(rate),
                    "seed": run, "mixed": {}, "replay": False,
                }  # fmt: skip
                row = _run(postgres, plan, settings)
                q = row["latency"]
                decide, begin, every = q["decide"], q["begin"], q["all"]
                print(
                    f"{kind:28} decide p50 {decide['p50']} p99 {decide['p99']} max {decide['max']}; begin p50 "
                    f"{begin['p50']} p99 {begin['p99']}; all {every['p99']}; "
                    f"fdatasync {row['fdatasync_p50_ms']}/{row['fdatasync_p99_ms']} free {row['free']} by {row['by']}",
                    flush=True,
                )


def _learned(folder: Path, people: int) -> Path:
    """An agent with stored sets that has learned from so many people whom PSRL-GLM treated."""
    world = medium()
    agent = nr.CertifiedPSRL(world.problem, sets="stored")
    agent.learn_from(nr.logged(nr.PSRLGLM(world.problem), world, people=people, seed=1))
    agent.save(folder / "learned.npz")
    return folder / "learned.npz"


@app.command()
def ready(lengths: str = "1000,10000,100000", postgres: PG = False, every: int = 5000) -> None:
    """How long a server takes until it answers, and until the agent does, by the length of its journal."""
    for wanted in (int(n) for n in lengths.split(",")):
        with service(postgres, service={"snapshot_every": every}) as (server, _, _):
            asyncio.run(_fill(server, wanted))
            server.kill()
            begun = time.perf_counter()
            server.start("health")
            alive = time.perf_counter() - begun
            body = {"x": [0.5**0.5, 0.5**0.5, 0, 0, 0, 0, 0, 0]}
            path = f"/v1/programmes/{NAME}/people/new/"
            while server.post(path + "begin", body, "new/begin")[0] != 200:
                time.sleep(0.01)
            status, first = server.post(path + "decide", {"state": 0}, "new/decide")
            answered, by = time.perf_counter() - begun, json.loads(first).get("by") if status == 200 else status
            server.wait("ready")
            took = time.perf_counter() - begun
            print(f"{wanted} events: health {alive:.2f} s, first decision {answered:.2f} s by {by}, ready {took:.2f} s")
            server.stop()


async def _fill(server: Server, events: int) -> None:
    pool = Pool("127.0.0.1", server.port)
    load = Load(pool, NAME, people(medium()))
    under = asyncio.create_task(load.run_closed(32, 0.0, keep=True))
    while len(load.record.acknowledged) < events:
        await asyncio.sleep(0.02)
    load.stopped = True
    await under
    pool.close()


@app.command()
def million(requests: int = 1_000_000, callers: int = 64, postgres: PG = False, seed: int = 0) -> None:
    """So many requests with duplicates, out of order, many at a time; then the books, and the whole folded again."""

    async def course(port: int) -> Load:
        pool = Pool("127.0.0.1", port)
        made = Load(pool, NAME, people(medium(), seed), seed=seed, **MIXED)
        under = asyncio.create_task(made.run_closed(callers, 0.0, keep=True))
        said = 0
        while made.record.sent < requests:
            await asyncio.sleep(0.1)
            if made.record.sent - said >= 50_000:
                said = made.record.sent
                print(f"{said} sent, {len(made.record.acknowledged)} acknowledged, {made.record.wrong[:1]}", flush=True)
        made.stopped = True
        await under
        pool.close()
        return made

    with service(postgres, service={"snapshot_every": 20_000}) as (server, pids, folder):
        with Beside(folder, pids, 0.5) as beside:
            begun = time.perf_counter()
            made = uvloop.run(course(server.port))
            took = time.perf_counter() - begun
        server.stop()
        books, r = balance(server.url, NAME, made.record), made.record
    print(f"{r.sent} requests in {took:.0f} s, {r.repeats} repeats, {r.overtaken} overtaken, {r.conflicts} conflicts")
    print(dict(sorted((f"{v} {s}", n) for (v, s), n in r.statuses.items())))
    print(f"{books.sentence()}; replay {books.replay_seconds:.1f} s: {books.replayed}")
    print(f"balanced: {books.balanced}; {beside.row(r.sent)}; by {dict(r.by)}")


@app.command()
def faults(what: str, times: int = 100, postgres: PG = False, seed: int = 0, callers: int = 8) -> None:
    """kill, database, takeover or disk; then the books."""

    def say(text: str) -> None:
        print(text, flush=True)

    with tempfile.TemporaryDirectory(prefix="noregret-faults-") as name, ExitStack() as stack:
        folder = Path(name)
        if what == "kill":
            url = stack.enter_context(Postgres()).url if postgres else None
            made = kills(folder, times, url=url, seed=seed, callers=callers, progress=say)
        elif what == "database":
            made = database_restarts(folder, times, seed=seed, callers=callers, progress=say)
        elif what == "takeover":
            made = takeovers(folder, times, seed=seed, callers=callers, progress=say)
        elif what == "disk":
            made = disk_full(folder, seed=seed)
        else:
            raise typer.BadParameter("kill, database, takeover or disk")
        say(made.sentence())
        say("good" if made.good else "NOT GOOD")
    raise typer.Exit(0 if made.good else 1)


class _Echo(asyncio.Protocol):
    """Answers everything alike, as cheaply as can be."""

    BODY = (
        b'{"who":"p1","step":0,"state":0,"action":1,"probability":null,"certificate":3.25,"by":"agent","number":12345}'
    )
    REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(BODY), BODY)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(self.REPLY)


def _echo(port: int) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(_Echo, "127.0.0.1", port)
        await server.serve_forever()

    uvloop.run(main())


@app.command()
def generator(seconds: Seconds = 5.0, rate: float = 1000.0, callers: int = 32) -> None:
    """Processor time of the generator a request, and its latency, against a server that does nothing."""
    port = free_port()
    echo = multiprocessing.get_context("spawn").Process(target=_echo, args=(port,), daemon=True)
    echo.start()
    time.sleep(2.0)
    server = type("Echo", (), {"port": port, "pid": echo.pid})
    for mode in ("open", "closed"):
        plan = {
            "mode": mode,
            "rate": rate,
            "callers": callers,
            "seconds": seconds,
            "warm": 1.0,
            "population": population_of(rate),
        }
        plan |= {"seed": 0, "mixed": {}, "unfinished": True}
        made, since, until, sent, beside, _ = uvloop.run(
            _course(server, {"server": echo.pid or 0}, Path(tempfile.gettempdir()), plan)  # type: ignore[arg-type]
        )
        row = {"mode": mode, "requests/s": round(sent / (until - since), 1)}
        _print(row | {"latency": made.record.quantiles(since, until)} | beside.row(sent))
    echo.terminate()


@app.command()
def parts(series: int = 300, postgres: PG = False) -> None:
    """Processor time of a request in each part of the service, one thread at a time; of PostgreSQL, of a round's two
    statements."""
    for line in measured_postgres(series) if postgres else measured(series):
        print(line, flush=True)


if __name__ == "__main__":
    app()
