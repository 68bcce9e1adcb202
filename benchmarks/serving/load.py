"""Load: open arrivals (Poisson) or closed loops, with duplicates, calls out of order, and retries under the same key.

Latency is counted from when a request was due, not from when it could be sent, up to its answer; so a server that
stands still cannot slow the generator down and look well. The part of a latency that is the generator's own lateness is
reported beside it (`late`). Retries after 503 or a broken connection count into the latency of their request.

Every acknowledged key is kept with a digest of its answer: whatever answer comes under that key again must be the
same."""

import asyncio
import ctypes
import os
import random
import time
from array import array
from collections import Counter, deque
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np

from .people import Person, answered, written
from .wire import Pool, request

PATIENCE = 60.0  # seconds until a request that is never answered is given up


class Record:
    """What came back. times, took: when each first answer came and how long it took, by verb."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, bytes] = {}
        self.times: dict[str, array[float]] = {}
        self.took: dict[str, array[float]] = {}
        self.late = array("d")
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.by: Counter[str] = Counter()
        self.wrong: list[str] = []  # sentences about what must not happen
        self.sent = self.repeats = self.overtaken = self.conflicts = self.retried = self.given_up = 0
        self.unanswered: set[str] = set()

    def answer(self, key: str, body: bytes) -> None:
        """An acknowledgement of a key: the first, or the same as the first."""
        mark = blake2b(body, digest_size=16).digest()
        before = self.acknowledged.setdefault(key, mark)
        if before != mark:
            self.wrong.append(f"{key} was answered again with other bytes: {body[:300]!r}")

    def note(self, verb: str, due: float, now: float) -> None:
        if verb not in self.took:
            self.times[verb], self.took[verb] = array("d"), array("d")
        self.times[verb].append(now)
        self.took[verb].append(now - due)

    def quantiles(self, since: float = 0.0, until: float = float("inf")) -> dict[str, dict[str, float]]:
        """p50, p90, p99, max in ms, by verb and of all, of the answers in that time."""
        found, whole = {}, []
        for verb in sorted(self.took):
            t, took = np.array(self.times[verb]), np.array(self.took[verb])
            took = took[(t >= since) & (t < until)]
            if took.size:
                found[verb] = _summary(took)
                whole.append(took)
        if whole:
            found["all"] = _summary(np.concatenate(whole))
        return found


def _summary(took: Any) -> dict[str, float]:
    p50, p90, p99 = np.quantile(took, [0.5, 0.9, 0.99])
    named = {"p50": p50, "p90": p90, "p99": p99, "max": took.max()}
    return {"n": int(took.size)} | {name: round(1e3 * float(v), 2) for name, v in named.items()}


class Alarm:
    """Waits until a moment of `time.perf_counter`, to microseconds: a timer of the kernel's, since those of an event
    loop tick in milliseconds and uvloop's spin below one."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK)
        self._loop = asyncio.get_running_loop()
        self._rung: asyncio.Future[None] | None = None
        self._loop.add_reader(self._file, self._ring)

    def _ring(self) -> None:
        os.read(self._file, 8)
        if self._rung is not None and not self._rung.done():
            self._rung.set_result(None)

    async def at(self, moment: float) -> None:
        if time.perf_counter() >= moment:
            return
        self._rung = self._loop.create_future()
        whole = int(moment)
        wanted = (ctypes.c_long * 4)(0, 0, whole, int((moment - whole) * 1e9))
        self._libc.timerfd_settime(self._file, 1, wanted, None)  # 1: absolute
        await self._rung

    def close(self) -> None:
        self._loop.remove_reader(self._file)
        os.close(self._file)


def changed(verb: str, body: dict[str, Any]) -> dict[str, Any]:
    """Another body for the same verb, as valid as the first."""
    if verb == "begin":
        return {"x": [body["x"][0], *(-v for v in body["x"][1:])]}
    if verb == "decide":
        return body | {"state": body["state"] ^ 1}
    if verb in ("outcome", "reward"):
        return body | {"reward": 0.5}
    return {"learn": not body["learn"]} if verb == "withdraw" else {"wait": 7}


class Load:
    """One programme under load.

    duplicates  share of requests that are sent twice: half of these at once on another connection, half later
    reorder     share of outcomes that are sent after the decision that needs them
    conflicts   share of the late duplicates that are followed by another body under the same key: 409
    """

    def __init__(
        self, pool: Pool, programme: str, crowd: Iterator[Person], *, token: str | None = None, seed: int = 0,
        duplicates: float = 0.0, reorder: float = 0.0, conflicts: float = 0.0, endless: bool = False,
    ) -> None:  # fmt: skip
        self.pool, self.crowd, self.token = pool, crowd, token
        self.path = f"/v1/programmes/{programme}/people/"
        self.duplicates, self.reorder, self.conflicts, self.endless = duplicates, reorder, conflicts, endless
        self.luck, self.record = random.Random(seed), Record()
        self.flying, self.stopped = 0, False
        self.ready: list[Person] = []
        self.old: deque[tuple[Person, Any, bytes]] = deque()  # to be sent again some time later
        self.idle = asyncio.Event()
        self.closed = 0  # callers that go on by themselves

    # One request --------------------------------------------------------------------------------------------------
    def _bytes(self, person: Person, asked: tuple[str, str, dict[str, Any]]) -> bytes:
        verb, key, body = asked
        return request("POST", f"{self.path}{person.name}/{verb}", written(body), key, self.token)

    def step(self, person: Person, due: float) -> None:
        """Send what this person needs next."""
        asked, luck, record = person.ask(), self.luck, self.record
        data = self._bytes(person, asked)
        ahead = person.ahead() if self.reorder and luck.random() < self.reorder else None
        record.late.append(time.perf_counter() - due)
        if ahead is not None:  # the decision overtakes the outcome: refused, then asked again under the same key
            record.overtaken += 1
            self._extra(ahead[0], ahead[1], self._bytes(person, ahead), (200, 409))
        self.send(person, asked[0], asked[1], data, due, 0)
        if not self.duplicates:
            return
        draw = luck.random()
        if draw < self.duplicates / 2:
            record.repeats += 1
            self._extra(asked[0], asked[1], data, (200,))
        elif draw < self.duplicates:
            self.old.append((person, asked, data))
        if len(self.old) > 30 and luck.random() < self.duplicates / 2:
            other, before, again = self.old.popleft()
            record.repeats += 1
            self._extra(before[0], before[1], again, (200,))
            if luck.random() < self.conflicts and before[1] in record.acknowledged:
                record.conflicts += 1
                verb, key, body = before
                self._extra(verb, key, self._bytes(other, (verb, key, changed(verb, body))), (409,), conflict=True)

    def send(self, person: Person, verb: str, key: str, data: bytes, due: float, tries: int) -> None:
        """Send until it is answered; then the person goes on."""
        self.flying += 1
        self.record.sent += 1

        def back(status: int, body: bytes, after: float) -> None:
            self.flying -= 1
            now, record = time.perf_counter(), self.record
            record.statuses[verb, status] += 1
            if status == 200:
                record.answer(key, body)
                record.note(verb, due, now)
                told = answered(body)
                if verb in ("begin", "decide"):
                    record.by[told.by or "?"] += 1
                    if told.reason:
                        record.by[f"house: {told.reason}"] += 1
                self._on(person, person.told(told))
            elif status in (0, 429, 503) and now - due < PATIENCE:
                record.retried += 1
                wait = max(after, 0.02 * min(2**tries, 16)) * (0.5 + self.luck.random())
                again = asyncio.get_running_loop().call_later
                self.flying += 1
                again(wait, lambda: (self._less(), self.send(person, verb, key, data, due, tries + 1)))
            else:
                record.given_up += 1
                record.unanswered.add(key)
                if status not in (0, 429, 503):
                    record.wrong.append(f"{key}: {status} {body[:300]!r}")
                self._on(person, False)

        self.pool.send(data, back)

    def _less(self) -> None:
        self.flying -= 1

    def _extra(self, verb: str, key: str, data: bytes, allowed: tuple[int, ...], conflict: bool = False) -> None:
        """A request beside the person's own course; nobody waits for it. While a server is away it may fail."""
        self.flying += 1
        self.record.sent += 1

        def back(status: int, body: bytes, after: float) -> None:
            self.flying -= 1
            self.record.statuses[f"{verb} {'conflict' if conflict else 'again'}", status] += 1
            if status not in (*allowed, 0, 503):
                self.record.wrong.append(f"{key}, sent again: {status} {body[:300]!r}")
            elif status == 200:
                self.record.answer(key, body)

        self.pool.send(data, back)

    def _on(self, person: Person, more: bool) -> None:
        if self.closed:
            if self.stopped and not more:
                self.closed -= 1
            else:
                self.step(person if more else next(self.crowd), time.perf_counter())
        elif more:
            self.ready.append(person)

    # Courses ------------------------------------------------------------------------------------------------------
    async def run_open(self, rate: float, seconds: float, population: int = 300) -> float:
        """Requests come as a Poisson process of this rate; each is the next of somebody under way, of whom there are
        about `population`. How long it took until the last answer."""
        luck, begun = self.luck, time.perf_counter()
        end = begun + seconds
        alarm = Alarm()
        due = begun + luck.expovariate(rate)
        try:
            while due <= end:
                await alarm.at(due)
                if len(self.ready) + self.flying < population or not self.ready:
                    self.step(next(self.crowd), due)
                else:
                    self.step(self._anybody(), due)
                due += luck.expovariate(rate)
        finally:
            alarm.close()
        await self.settle()
        return time.perf_counter() - begun

    async def run_closed(self, callers: int, seconds: float, keep: bool = False) -> float:
        """So many callers, each with one person after another, as fast as answers come; people who are under way at
        the end are brought to theirs. keep: until somebody sets `stopped`, after these seconds at least."""
        start = time.perf_counter()
        self.closed = callers
        for _ in range(callers):
            self.step(next(self.crowd), start)
        await asyncio.sleep(seconds)
        self.stopped = self.stopped or not keep
        while self.closed:
            await asyncio.sleep(0.01)
        await self.settle()
        return time.perf_counter() - start

    async def finish(self) -> None:
        """Bring everybody who is under way to their end."""
        while self.ready or self.flying:
            while self.ready and self.flying < 64:
                self.step(self.ready.pop(), time.perf_counter())
            await asyncio.sleep(0.002)

    def _anybody(self) -> Person:
        """One of those who are ready, evenly: whoever began together does not stay together."""
        i = self.luck.randrange(len(self.ready))
        self.ready[i], self.ready[-1] = self.ready[-1], self.ready[i]
        return self.ready.pop()

    async def settle(self) -> None:
        while self.flying:
            await asyncio.sleep(0.005)
