"""uvicorn with limits on what a caller may do before the application sees a request.

uvicorn with httptools (llhttp) and uvloop: it is what measured best below Starlette, twice the requests per processor
second of the pure Python parser. Its parser keeps whatever headers come, for as long as they come, so limits are set
here, on the bytes as they arrive and once a second:

    HEADERS   bytes of a request's first line and headers: above, 431 and the connection is closed
    SLOW      seconds from a request's first byte, or from connecting, to its last: above, 408 and it is closed
    ROOM      files that connections leave to the journal and the rest of the process: without, 503 and it is closed
    BODY      bytes of a body: above, 413 (`reading.body_of`, before it is read whole)

Answers that uvicorn writes itself become JSON like all others."""

import asyncio
import contextlib
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

HEADERS, BODY = 1 << 15, 1 << 16
SLOW, KEPT = 10.0, 75  # seconds for a request; for a connection on which nothing is asked
ROOM = 200


class Connection(HttpToolsProtocol):
    """A connection that counts the bytes of headers and remembers since when a request is incomplete."""

    most = 800  # connections at a time; `server` says how many

    began: float | None = None  # loop time of the first byte of a request that is not complete
    heading = 0  # bytes of its headers so far; -1: they are complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.began = self.loop.time()
        if len(self.connections) > self.most:
            self.refuse(503, "too many connections are open: ask again", b"retry-after: 1\r\n")

    def data_received(self, data: bytes) -> None:
        if self.heading >= 0:
            if self.began is None:
                self.began = self.loop.time()
            self.heading += len(data)
        super().data_received(data)
        if self.heading > HEADERS:
            self.refuse(431, "the headers are too long")

    def on_headers_complete(self) -> None:
        if self.heading > HEADERS:  # a body may have come with them: now it can be told
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > HEADERS:
                raise ValueError("headers too long")  # httptools makes it an error of the parser
        self.heading = -1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.began, self.heading = None, 0

    def send_400_response(self, msg: str) -> None:
        if self.heading > HEADERS:
            self.refuse(431, "the headers are too long")
        else:
            self.refuse(400, "this is not an HTTP request")

    def refuse(self, status: int, sentence: str, header: bytes = b"") -> None:
        """Answer and close, if nothing was answered yet."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = b'{"error":"%s"}' % sentence.encode()
            head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + header + head + body)
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def look(self, now: float) -> None:
        """Close a connection whose request has taken too long to arrive."""
        if self.began is not None and now - self.began > SLOW:
            self.refuse(408, "the request took too long to arrive")


def written(send: Any, status: int, head: bytes, body: bytes) -> bool:
    """Whether an answer was written whole, with `head` for its headers, as uvicorn's `send` would have written it in
    two messages: the headers are our own, and need not be looked through again, which is a sixth of a request's price.
    False: `send` is nothing of uvicorn's, or there is something to wait for; nothing was written."""
    cycle = getattr(send, "__self__", None)
    if cycle.__class__ is not RequestResponseCycle or cycle.response_started or cycle.flow.write_paused:
        return False
    if cycle.scope["method"] == "HEAD":
        return False
    if cycle.disconnected:
        return True
    cycle.response_started, cycle.waiting_for_100_continue = True, False
    last = b"" if cycle.keep_alive else b"connection: close\r\n"
    cycle.transport.write(b"%b%bcontent-length: %d\r\n%b\r\n%b" % (STATUS_LINE[status], head, len(body), last, body))
    cycle.response_complete = True
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


class Server(uvicorn.Server):
    """A server that looks after slow connections, calls `tick` once a second, and ends with status 0 when told to."""

    def __init__(self, config: uvicorn.Config, tick: Callable[[], Any], ready: Callable[[int], Any]) -> None:
        super().__init__(config)
        self._tick, self._ready = tick, ready

    async def on_tick(self, counter: int) -> bool:
        if counter == 0 and self.servers:
            self._ready(self.servers[0].sockets[0].getsockname()[1])
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, Connection):
                    connection.look(now)
        self._tick()
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn raises the signal again at the end; a service that was asked to stop and did has succeeded."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {sig: signal.signal(sig, self.handle_exit) for sig in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)


def server(app: Any, host: str, port: int, tick: Callable[[], Any], ready: Callable[[int], Any]) -> Server:
    """A server for `app`. `ready` is told the port once connections are taken; `tick` is called ten times a second."""
    Connection.most = room()
    config = uvicorn.Config(
        app, host=host, port=port, loop="uvloop", http=Connection, ws="none", lifespan="on", interface="asgi3",
        log_config=None, access_log=False, proxy_headers=False, server_header=False, timeout_keep_alive=KEPT,
        timeout_graceful_shutdown=30, backlog=2048,
    )  # fmt: skip
    return Server(config, tick, ready)


def room() -> int:
    """How many connections there is room for: as many files as the system lets a process have, less ROOM."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1 << 16 if hard == resource.RLIM_INFINITY else min(hard, 1 << 16)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(soft, 2 * ROOM) - ROOM if soft != resource.RLIM_INFINITY else 1 << 16


def free(host: str, port: int) -> None:
    """A sentence where the address cannot be had, before anything is loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError as error:
            raise ValueError(f"host and port: {host}:{port} cannot be had ({error.strerror})") from None
