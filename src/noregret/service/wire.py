"""uvicorn with limits on what a caller may do before the application sees a request.

uvicorn with httptools (llhttp) and uvloop: it is what measured best below Starlette, twice the requests per processor
second of the pure Python parser. Its parser keeps whatever headers come, for as long as they come, so limits are set
here, on the bytes as they arrive and once a second:

    HEADERS   bytes of a request's first line and headers: above, 431 and the connection is closed
    SLOW      seconds from a request's first byte, or from connecting, to its last: above, 408 and it is closed
    ROOM      files that connections leave to the journal and the rest of the process: without, 503 and it is closed
    BODY      bytes of a body: above, 413 (`reading.body_of`, before it is read whole)
    KEPT      seconds after which a connection on which nothing is asked is closed

Answers that uvicorn writes itself become JSON like all others.

What is asked most is answered without ASGI: for a POST an application's method `direct(url, headers)` may give a
`Direct`. No task is made for it and no coroutine. A request whose caller waits for 100 Continue or does not read its
answers, or that comes before those before it on its connection are answered, goes through ASGI like all others. While
requests of a connection wait for their turn, no more are read from it."""

import asyncio
import contextlib
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

HEADERS, BODY = 1 << 15, 1 << 16
SLOW, KEPT = 10.0, 75  # seconds for a request; for a connection on which nothing is asked
ROOM = 200


class Direct(Protocol):
    """A request without ASGI, whose headers are here."""

    def __call__(self, body: bytes, write: Callable[[int, bytes, bytes], None], /) -> None:
        """Its whole body has come; `write(status, headers, body)` is called once, now or later."""

    def gone(self) -> None:
        """The caller went away before that."""


class Exchange:
    """A request and its answer without ASGI; to uvicorn it is one of its cycles."""

    __slots__ = (
        "answer", "asked", "body", "connection", "disconnected", "keep_alive", "response_complete", "response_started",
    )  # fmt: skip
    message_event = asyncio.Event()  # nobody waits for it

    def __init__(self, connection: "Connection", answer: Direct) -> None:
        self.connection, self.answer, self.body = connection, answer, b""
        self.keep_alive: bool = connection.parser.should_keep_alive()
        self.disconnected = self.response_started = self.response_complete = self.asked = False

    def ask(self) -> None:
        self.asked = True
        self.answer(self.body, self.write)

    def write(self, status: int, head: bytes, body: bytes) -> None:
        if self.response_complete:
            return
        self.response_started = self.response_complete = True
        transport = self.connection.transport
        if self.disconnected or transport.is_closing():
            return
        transport.write(whole(status, head, body, self.keep_alive))
        if not self.keep_alive:
            transport.close()
        self.connection.on_response_complete()


class Connection(HttpToolsProtocol):
    """A connection that counts the bytes of headers and remembers since when a request is incomplete."""

    most = 800  # connections at a time; `server` says how many

    began: float | None = None  # loop time of the first byte of a request that is not complete
    heading = 0  # bytes of its headers so far; -1: they are complete
    behind = False  # whether it came in the same bytes as the one before it, so that `heading` lacks a part
    quiet: float | None = None  # loop time of the last answer, where nothing was asked since

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.began = self.loop.time()
        if len(self.connections) > self.most:
            self.refuse(503, "too many connections are open: ask again", b"retry-after: 1\r\n")

    def data_received(self, data: bytes) -> None:
        self.quiet = None
        if self.heading >= 0:
            if self.began is None:
                self.began = self.loop.time()
            self.heading += len(data)
        super().data_received(data)
        if self.heading > HEADERS:
            self.refuse(431, "the headers are too long")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self.began is None:
            self.began, self.behind = self.loop.time(), True

    def on_headers_complete(self) -> None:
        if self.heading > HEADERS or self.behind:  # other bytes may have come with them: now it can be told
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > HEADERS:
                self.heading = size
                raise ValueError("headers too long")  # httptools makes it an error of the parser
        self.heading = -1
        direct = self._direct()
        if direct is None:
            super().on_headers_complete()
        else:
            self.cycle = Exchange(self, direct)  # type: ignore[assignment]

    def _direct(self) -> Direct | None:
        """Who answers this request without ASGI."""
        before, parser, find = self.cycle, self.parser, getattr(self.app, "direct", None)
        if find is None or self.expect_100_continue or (before is not None and not before.response_complete):
            return None
        if self.flow.write_paused:  # ASGI waits until the answers before are read
            return None
        if parser.get_method() != b"POST" or parser.get_http_version() != "1.1" or parser.should_upgrade():
            return None
        return find(self.url, self.headers)  # type: ignore[no-any-return]

    def on_body(self, body: bytes) -> None:
        cycle: Any = self.cycle
        if isinstance(cycle, Exchange):
            cycle.body += body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self.began, self.heading, self.behind = None, 0, False
        cycle: Any = self.cycle
        if isinstance(cycle, Exchange):
            cycle.ask()
        else:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """As uvicorn's, without a timer for every request: `look` sees that nothing more is asked. uvicorn reads on
        after every answer; here only when nothing waits, or one caller's requests would fill the memory."""
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
            else:
                self.flow.resume_reading()
                self.quiet = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        cycle: Any = self.cycle
        if isinstance(cycle, Exchange) and not cycle.asked:
            cycle.answer.gone()
        super().connection_lost(exc)

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
        """Close a connection whose request has taken too long to arrive, or on which nothing is asked any more."""
        if self.began is not None and now - self.began > SLOW:
            self.refuse(408, "the request took too long to arrive")
        elif self.quiet is not None and now - self.quiet > KEPT:
            self.transport.close()


def whole(status: int, head: bytes, body: bytes, keep_alive: bool) -> bytes:
    """An answer with `head` for its headers."""
    last = b"" if keep_alive else b"connection: close\r\n"
    return b"%b%bcontent-length: %d\r\n%b\r\n%b" % (STATUS_LINE[status], head, len(body), last, body)


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
    cycle.transport.write(whole(status, head, body, cycle.keep_alive))
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
