"""Faults under load. Each function troubles a service while callers go on, retrying under the same keys, then holds
the journal against what they were told."""

import asyncio
import random
import resource
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .books import Books, balance
from .load import Load, Record
from .people import medium, people
from .server import Postgres, Server, programme_text
from .wire import Pool
from .zygote import ForkedServer, Zygote

NAME = "load"
MIXED: dict[str, Any] = {"duplicates": 0.1, "reorder": 0.05, "conflicts": 0.05}


@dataclass
class Outcome:
    """What a fault did, and whether the books balance after it."""

    what: str
    times: int = 0
    seconds: float = 0.0
    books: Books = field(default_factory=Books)
    record: Record = field(default_factory=Record)
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        return self.books.balanced and not self.record.given_up

    def sentence(self) -> str:
        r = self.record
        told = f"{len(r.acknowledged)} acknowledged, {r.sent} sent, {r.repeats} repeats, {r.overtaken} overtaken, "
        told += f"{r.conflicts} conflicts, {r.retried} retried, {r.given_up} given up"
        extra = ", ".join(f"{k} {v}" for k, v in self.more.items())
        return f"{self.what} x {self.times} in {self.seconds:.0f} s: {told}; {self.books.sentence()}; {extra}"


def programme_file(folder: Path, name: str = NAME, **settings: Any) -> Path:
    """The file of the medium programme, with snapshots as often as the faults need them."""
    file = folder / f"{name}.toml"
    file.write_text(programme_text(medium(), name, **settings))
    return file


async def _course(load: Load, callers: int, trouble: Callable[[], Awaitable[None]]) -> None:
    async def troubled() -> None:
        try:
            await trouble()
        finally:
            load.stopped = True

    under = asyncio.create_task(load.run_closed(callers, 0.0, keep=True))
    await troubled()
    await under


def under_load(
    port: int, trouble: Callable[[Load], Awaitable[None]], *, callers: int = 8, seed: int = 0, prefix: str = "p",
    name: str = NAME,
) -> Record:  # fmt: skip
    """Closed loops with everything mixed in while `trouble` lasts; then everybody is brought to their end."""

    async def main() -> Record:
        pool = Pool("127.0.0.1", port)
        load = Load(pool, name, people(medium(), seed, prefix), seed=seed, **MIXED)
        await _course(load, callers, lambda: trouble(load))
        pool.close()
        return load.record

    return asyncio.run(main())


async def _healthy(server: Server, path: str = "health", seconds: float = 60.0) -> None:
    await asyncio.to_thread(server.wait, path, seconds)


@contextmanager
def _source(folder: Path, zygote: Zygote | None) -> Iterator[Zygote]:
    """The zygote given, which stays, or one of our own."""
    if zygote is not None:
        yield zygote
        return
    with Zygote(folder) as made:
        yield made


def kills(
    folder: Path, times: int, *, url: str | None = None, seed: int = 0, callers: int = 8, longest: float = 0.5,
    every: int = 300, zygote: Zygote | None = None, progress: Callable[[str], None] = lambda _: None,
) -> Outcome:  # fmt: skip
    """kill -9 at random moments, and the same server started again at once.

    longest   before a kill lie 0 to this many seconds, evenly, after the first answer or, of 3 in 10, after the start:
              those may die while they load"""
    url = url or f"sqlite:///{folder / 'journal.db'}"
    file = programme_file(folder, service={"snapshot_every": every})
    luck, begun = random.Random(seed), time.perf_counter()
    ready: list[float] = []
    at_work: list[bool] = []
    with _source(folder, zygote) as source:
        server = ForkedServer(folder, [file], url)
        server.zygote = source
        server.start()

        async def trouble(load: Load) -> None:
            for i in range(times):
                before = len(load.record.acknowledged)
                if luck.random() < 0.7:  # at work; else at any moment, also while it loads
                    limit = time.perf_counter() + 30.0
                    while len(load.record.acknowledged) == before and time.perf_counter() < limit:
                        await asyncio.sleep(0.01)
                await asyncio.sleep(luck.random() * longest)
                server.kill()
                at_work.append(len(load.record.acknowledged) > before)
                await asyncio.to_thread(server.start, None)
                if i % 10 == 9:
                    start = time.perf_counter()
                    await _healthy(server, "ready")
                    ready.append(time.perf_counter() - start)
                if i % 50 == 49:
                    progress(f"{i + 1} kills, {len(load.record.acknowledged)} acknowledged, {load.record.wrong[:1]}")
            await _healthy(server, "ready")

        with server:
            record = under_load(server.port, trouble, callers=callers, seed=seed)
            server.stop()
    books = balance(url, NAME, record)
    more = {"of them while answering": sum(at_work), "slowest start": f"{max(ready, default=0.0):.2f} s"}
    more |= {"replay": str(books.replayed).split(chr(10))[0]}
    return Outcome("kill -9", times, time.perf_counter() - begun, books, record, more)


def database_restarts(
    folder: Path, times: int, *, seed: int = 0, callers: int = 8, hard: bool = True, longest: float = 3.0,
    zygote: Zygote | None = None, progress: Callable[[str], None] = lambda _: None,
) -> Outcome:  # fmt: skip
    """PostgreSQL killed (or restarted) under load; the service stays."""
    luck, begun = random.Random(seed), time.perf_counter()
    file = programme_file(folder, service={"snapshot_every": 300})
    with Postgres() as base, _source(folder, zygote) as source, ExitStack() as stack:
        server = stack.enter_context(ForkedServer(folder, [file], base.url))
        server.zygote = source
        server.start()

        async def trouble(load: Load) -> None:
            for i in range(times):
                await asyncio.sleep(0.5 + luck.random() * longest)
                before = len(load.record.acknowledged)
                if hard and i % 2 == 0:
                    base.kill()
                    await asyncio.to_thread(base.start)
                else:
                    await asyncio.to_thread(base.restart)
                limit = time.perf_counter() + 30
                while len(load.record.acknowledged) < before + 50 and time.perf_counter() < limit:
                    await asyncio.sleep(0.05)
                progress(f"{i + 1} restarts, {len(load.record.acknowledged)} acknowledged, {load.record.wrong[:1]}")

        record = under_load(server.port, trouble, callers=callers, seed=seed)
        server.stop()
        books = balance(base.url, NAME, record)
    return Outcome("PostgreSQL killed or restarted", times, time.perf_counter() - begun, books, record)


class Either(Pool):
    """A caller that knows two servers, as behind a reverse proxy: whoever refuses or is away, the other is asked."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__("127.0.0.1", ports[0])
        self.pools = [Pool("127.0.0.1", port) for port in ports]
        self.now = 0

    def send(self, data: bytes, back: Any) -> None:
        first = self.now

        def other(status: int, body: bytes, after: float) -> None:
            if status in (0, 503):
                self.now = 1 - first
            back(status, body, after)

        self.pools[first].send(data, other)

    def close(self) -> None:
        for pool in self.pools:
            pool.close()


def takeovers(
    folder: Path, times: int, *, seed: int = 0, callers: int = 8, longest: float = 2.0,
    zygote: Zygote | None = None, progress: Callable[[str], None] = lambda _: None,
) -> Outcome:  # fmt: skip
    """Two servers on one PostgreSQL; the one that writes is killed, the other takes over, the dead one comes back and
    stands by."""
    luck, begun = random.Random(seed), time.perf_counter()
    file = programme_file(folder, service={"snapshot_every": 300})
    gaps: list[float] = []
    with Postgres() as base, _source(folder, zygote) as source:
        servers = [ForkedServer(folder, [file], base.url) for _ in range(2)]
        for server in servers:
            server.zygote = source
        servers[0].start()
        servers[1].start("health")

        async def main() -> Record:
            pool = Either([server.port for server in servers])
            load = Load(pool, NAME, people(medium(), seed), seed=seed, **MIXED)

            async def trouble() -> None:
                for i in range(times):
                    await asyncio.sleep(luck.random() * longest)
                    writer = servers[pool.now]
                    before, start = len(load.record.acknowledged), time.perf_counter()
                    writer.kill()
                    while len(load.record.acknowledged) < before + 20 and time.perf_counter() - start < 30:
                        await asyncio.sleep(0.01)
                    gaps.append(time.perf_counter() - start)
                    await asyncio.to_thread(writer.start, "health")
                    progress(f"{i + 1} take-overs, {len(load.record.acknowledged)} acknowledged, gap {gaps[-1]:.2f} s")

            await _course(load, callers, trouble)
            pool.close()
            return load.record

        with servers[0], servers[1]:
            record = asyncio.run(main())
            for server in servers:
                server.stop()
        books = balance(base.url, NAME, record)
    more = {"longest gap": f"{max(gaps, default=0.0):.2f} s"}
    return Outcome("take-over", times, time.perf_counter() - begun, books, record, more)


def disk_full(
    folder: Path, *, seed: int = 0, callers: int = 4, room: int = 400_000, zygote: Zygote | None = None
) -> Outcome:
    """No file of the server may grow beyond `room` bytes for a while, as on a full disk; then there is space again."""
    url, begun = f"sqlite:///{folder / 'journal.db'}", time.perf_counter()
    file = programme_file(folder, service={"snapshot_every": 10_000})
    seen: dict[str, Any] = {}
    with _source(folder, zygote) as source, ForkedServer(folder, [file], url) as server:
        server.zygote = source
        server.start()

        async def trouble(load: Load) -> None:
            await asyncio.sleep(0.5)
            sizes = [f.stat().st_size for f in folder.glob("journal.db*")]
            limit = max(sizes) + room
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            start = time.perf_counter()
            while not any(status == 503 for _, status in load.record.statuses) and time.perf_counter() - start < 60:
                await asyncio.sleep(0.05)
            seen["503 while full"] = any(status == 503 for _, status in load.record.statuses)
            await asyncio.sleep(0.5)
            before = len(load.record.acknowledged)
            await asyncio.sleep(0.5)
            seen["accepted while full"] = len(load.record.acknowledged) - before
            seen["health while full"] = (await asyncio.to_thread(server.get, "/health"))[0]
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            start, before = time.perf_counter(), len(load.record.acknowledged)
            while len(load.record.acknowledged) < before + 50 and time.perf_counter() - start < 30:
                await asyncio.sleep(0.05)
            seen["back after"] = f"{time.perf_counter() - start:.2f} s"

        record = under_load(server.port, trouble, callers=callers, seed=seed)
        server.stop()
    return Outcome("disk full", 1, time.perf_counter() - begun, balance(url, NAME, record), record, seen)
