"""HTTP/1.1 over raw sockets: one request at a time on a connection that is kept, callbacks in place of futures.

Only what the service sends is understood: a status line, headers with a Content-Length, a body."""

import asyncio
from collections import deque
from collections.abc import Callable

Back = Callable[[int, bytes, float], None]  # status (0: the connection broke), body, Retry-After in seconds


def request(method: str, path: str, body: bytes = b"", key: str | None = None, token: str | None = None) -> bytes:
    """The bytes of a request."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    if body:
        head += "Content-Type: application/json\r\n"
    if key is not None:
        head += f"Idempotency-Key: {key}\r\n"
    if token is not None:
        head += f"Authorization: Bearer {token}\r\n"
    return head.encode() + b"\r\n" + body


class Connection(asyncio.Protocol):
    """One request at a time; `back` is called once for each."""

    def __init__(self, pool: "Pool") -> None:
        self.pool, self.back, self.held, self.need = pool, None, b"", 0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def send(self, data: bytes, back: Back) -> None:
        self.back = back
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        held = self.held = self.held + data if self.held else data
        if not self.need:
            end = held.find(b"\r\n\r\n")
            if end < 0:
                return
            at = held.lower().find(b"content-length:", 0, end)
            length = 0 if at < 0 else int(held[at + 15 : held.find(b"\r", at)])
            self.need = end + 4 + length
        if len(held) < self.need:
            return
        body_at = held.find(b"\r\n\r\n") + 4
        status, body, after = int(held[9:12]), held[body_at : self.need], 0.0
        if status == 503:
            at = held.lower().find(b"retry-after:", 0, body_at)
            after = 0.0 if at < 0 else float(held[at + 12 : held.find(b"\r", at)])
        self.held, self.need = b"", 0
        back, self.back = self.back, None
        closing = held.lower().find(b"connection: close", 0, body_at) >= 0
        if closing:
            self.transport.close()
        else:
            self.pool.free(self)
        if back is not None:
            back(status, body, after)

    def connection_lost(self, _: Exception | None) -> None:
        self.pool.gone(self)
        back, self.back = self.back, None
        if back is not None:
            back(0, b"", 0.0)


class Pool:
    """At most `limit` connections to one address; requests beyond that wait here."""

    def __init__(self, host: str, port: int, limit: int = 256) -> None:
        self.host, self.port, self.limit, self.opened = host, port, limit, 0
        self.idle: list[Connection] = []
        self.waiting: deque[tuple[bytes, Back]] = deque()
        self.tasks: set[asyncio.Task[None]] = set()
        self.peak = 0

    def send(self, data: bytes, back: Back) -> None:
        """Send at once where a connection is free, on a new one else."""
        if self.idle:
            self.idle.pop().send(data, back)
        elif self.opened < self.limit:
            self.opened += 1
            self.peak = max(self.peak, self.opened)
            task = asyncio.get_running_loop().create_task(self._open(data, back))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        else:
            self.waiting.append((data, back))

    async def _open(self, data: bytes, back: Back) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, made = await loop.create_connection(lambda: Connection(self), self.host, self.port)
        except OSError:
            self.opened -= 1
            back(0, b"", 0.0)
            return
        made.send(data, back)

    def free(self, connection: Connection) -> None:
        if self.waiting:
            data, back = self.waiting.popleft()
            connection.send(data, back)
        else:
            self.idle.append(connection)

    def gone(self, connection: Connection) -> None:
        self.opened -= 1
        if connection in self.idle:
            self.idle.remove(connection)
        while self.waiting and self.opened < self.limit:
            self.send(*self.waiting.popleft())

    def close(self) -> None:
        self.waiting.clear()
        for connection in list(self.idle):
            connection.transport.close()
