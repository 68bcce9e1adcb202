"""The HTTP face: Starlette routes over msgspec messages, one future a request.

Why these: Starlette has routing, exceptions, lifespan and file responses and little else; over uvicorn with httptools
and uvloop it takes half the processor time per request of FastAPI, whose one gain, OpenAPI from the types, msgspec's
schemas give as well. Operations are ASGI applications of their own (`operation.Endpoint`), so that no request object is
made that nobody needs.

A request that writes becomes an `Ask`, is given to its programme and waits to be called back. The programme's writer
answers a whole batch at once. The verbs of a person, nearly all requests, need nothing of ASGI (`App.direct`)."""

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ..journal.errors import DAMAGED, JournalDamaged, JournalUnavailable
from . import personalizer, routes, routes_read
from .asking import Answer, Ask, Refusal, refused
from .logs import Log
from .messages import Failure
from .metrics import Requests
from .openapi import described
from .operation import DirectCall, Endpoint, Operation
from .reading import Headers
from .tokens import EVERYTHING, Token, Tokens
from .wire import BODY, Direct

PATIENCE = 30.0  # seconds that a request waits for its programme; none should
CREATED = 10.0  # seconds that a new programme has to be written
LOCAL = (b"127.0.0.1", b"localhost", b"[::1]")
_SCHEMES = (b"bearer ", b"Bearer ")
_PERSON = re.compile(rb'/v1/programmes/([!"$-.0->@-~]+)/people/([!"$-.0->@-~]+)/([a-z]+)')  # neither / nor ? nor #


def operations() -> list[Operation]:
    """Everything that can be asked over HTTP, the frequent first."""
    return [*routes.operations(), *personalizer.operations(), *routes_read.operations()]


class Service:
    """What operations share: the programmes, the tokens, the log, the counts, and who waits for an answer.

    host     has `programmes`, a dictionary by name
    tokens   None: nobody needs one (`--demo`)
    aside    who answers long questions (`pages.aside`)"""

    def __init__(self, host: Any, tokens: Tokens | None, log: Log, aside: Any = None) -> None:
        self.host, self.tokens, self.log, self.aside = host, tokens, log, aside
        self.requests = Requests()
        self.operations = operations()
        self.openapi: bytes = msgspec.json.encode(described(self.operations, demo=tokens is None))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._waiting: dict[int, tuple[Ask, Callable[[Answer], None]]] = {}
        self._journals: dict[str, Any] = {}
        self.exporting: set[str | None] = set()
        self.shadows: dict[str | None, tuple[float, asyncio.Future[Any]]] = {}

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._thread = loop, threading.get_ident()

    def close(self) -> None:
        """After the last request."""
        for journal in self._journals.values():
            journal.close()
        self._journals = {}
        self.log.flush()

    # Answers ------------------------------------------------------------------------------------------------------
    def put(self, programme: Any, ask: Ask, back: Callable[[Answer], None]) -> None:
        """Ask the programme; `back` is given the answer. It may refuse at once (a full queue); else the writer
        answers."""
        self._waiting[id(ask)] = ask, back
        try:
            refusal = programme.submit(ask)
        except BaseException:
            self._waiting.pop(id(ask), None)
            raise
        if refusal is not None:
            self._wake([(ask, refusal)])

    def submit(self, programme: Any, ask: Ask) -> "asyncio.Future[Answer]":
        """`put`, for those who wait for the answer."""
        assert self._loop is not None
        future: asyncio.Future[Answer] = self._loop.create_future()
        self.put(programme, ask, lambda answer: None if future.done() else future.set_result(answer))
        return future

    def on_answers(self, batch: list[tuple[Ask, Answer]]) -> None:
        """Wake those who asked; from another thread, with one call."""
        if threading.get_ident() == self._thread:
            self._wake(batch)
        elif self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends, the journal has it
                self._loop.call_soon_threadsafe(self._wake, batch)

    def _wake(self, batch: list[tuple[Ask, Answer]]) -> None:
        for ask, answer in batch:
            waiting = self._waiting.pop(id(ask), None)
            if waiting is not None:
                try:
                    waiting[1](answer)
                except Exception as error:  # the others of the batch have theirs to get
                    self.log.failure("an answer could not be given", error, verb=ask.verb)

    def tick(self) -> None:
        """Ten times a second, on the event loop: write the log, read changed tokens, let go who waited too long."""
        self.log.flush()
        now = time.monotonic()
        if self._waiting:
            late = [key for key, (ask, _) in self._waiting.items() if now - ask.arrived > PATIENCE]
            answer = refused(503, "the programme did not answer in time: ask again with the same key", 1)
            self._wake([(self._waiting[key][0], answer) for key in late])
        if self.tokens is not None:
            try:
                if self.tokens.refresh():
                    self.log.note("the file of tokens was read again", tokens=len(self.tokens))
            except (ValueError, OSError) as error:
                self.log.failure("the file of tokens cannot be read; those known before hold", error)

    def seen(self, programme: str | None, verb: str, status: int, seconds: float, key: str | None) -> None:
        """After an answer: a line and a count."""
        self.requests.count(programme or "", verb, status, seconds)
        self.log.request(programme, verb, status, seconds, key)

    # Tokens -------------------------------------------------------------------------------------------------------
    def token_of(self, headers: Headers) -> Token:
        """Whose token the request brings; a 401 where it brings none. A cookie is not looked at: pages have those."""
        if self.tokens is None:
            return EVERYTHING
        sent, value = headers.get(b"ocp-apim-subscription-key"), headers.get(b"authorization")
        if value is not None and value[:7] in _SCHEMES:
            sent = value[7:]
        found = None if sent is None else self.tokens.find(sent)
        if found is None:
            raise Refusal(401, "a token is needed: authorization: Bearer TOKEN, made by noregret token")
        return found

    # Journals -----------------------------------------------------------------------------------------------------
    async def read(self, programme: Any, function: Callable[[Any], Any]) -> Any:
        """function(journal) in a thread; a 503 where the journal cannot be read now."""
        try:
            return await asyncio.to_thread(lambda: function(self._journal(programme)))
        except JournalUnavailable:
            self._journals.pop(programme.settings.name, None)
            raise Refusal(503, "the journal cannot be read now: ask again", 1) from None
        except JournalDamaged:
            raise Refusal(503, DAMAGED) from None

    def _journal(self, programme: Any) -> Any:
        """A journal to read from, in any thread; opened once."""
        name = programme.settings.name
        if name not in self._journals:
            self._journals[name] = programme.open_journal()
        return self._journals[name]

    async def create(self, settings: Any) -> Any:
        """A new programme, once it is in the journal; the one that is there where it has the same file."""
        try:
            made = await asyncio.to_thread(self.host.create, settings)
        except ValueError as error:
            raise Refusal(409, str(error)) from None
        until = time.monotonic() + CREATED
        while await self.read(made, lambda journal: journal.head) == 0:
            if time.monotonic() > until:
                raise Refusal(503, "the programme is not in the journal yet: ask again", 1)
            await asyncio.sleep(0.02)
        return made


def _asked_here(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether the caller asked for this machine by one of its own names. A page from elsewhere, whose name was made to
    point here, sends its own: a browser must not be talked into asking a service that needs no token."""
    for name, value in headers:
        if name == b"host":
            return value in LOCAL or value.rsplit(b":", 1)[0].lower() in LOCAL or value.lower() in LOCAL
    return True


class App:
    """The ASGI application. pages: further routes; hosted: a context manager around its life.

    Paths below /v1 and /personalizer are matched as they were sent, so that a person's key may have slashes (%2F)."""

    def __init__(self, service: Service, pages: Sequence[BaseRoute] = (), hosted: Any = None) -> None:
        self.service = service
        self._hosted = contextlib.nullcontext if hosted is None else hosted
        made: list[BaseRoute] = [
            Route(op.path, Endpoint(service, op), methods=[op.method]) for op in service.operations
        ]
        self.starlette = Starlette(
            routes=[*made, *pages],
            exception_handlers={HTTPException: self._no_route},  # type: ignore[dict-item]
            lifespan=self._lifespan,
        )
        self.starlette.router.redirect_slashes = False
        self._verbs = {op.verb.encode(): Endpoint(service, op) for op in service.operations if op.question is not None}

    def direct(self, url: bytes, given: list[tuple[bytes, bytes]]) -> Direct | None:
        """Who answers a POST without ASGI (`wire`): the verbs of a person, where the size of the body is known."""
        path = _PERSON.fullmatch(url)
        if path is None or path[3] not in self._verbs or (self.service.tokens is None and not _asked_here(given)):
            return None
        headers = Headers(given)
        size = headers.get(b"content-length", b"0")
        if headers.twice or b"transfer-encoding" in headers or len(size) > 6 or int(size) > BODY:
            return None
        return DirectCall(self._verbs[path[3]], headers, {"name": path[1].decode(), "who": path[2].decode()})

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        if scope["type"] == "http":
            if self.service.tokens is None and not _asked_here(scope["headers"]):
                failure = msgspec.json.encode(Failure("without tokens, this service answers to localhost only"))
                return Response(failure, 403, media_type="application/json")(scope, receive, send)
            raw = scope["raw_path"]
            if raw.startswith((b"/v1/", b"/personalizer/")):
                scope["path"] = raw.decode("ascii")
            elif raw.startswith((b"/programmes", b"/pages")) or raw == b"/":
                return self._page(scope, receive, send)
        return self.starlette(scope, receive, send)

    async def _page(self, scope: Any, receive: Any, send: Any) -> None:
        """A page, with its line in the log."""
        started, status = time.perf_counter(), 500

        async def sent(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self.starlette(scope, receive, sent)
        finally:
            if status not in (404, 405):  # those have theirs (`_no_route`), or are no page of ours
                self.service.seen(None, "page", status, time.perf_counter() - started, None)

    async def _no_route(self, request: Any, error: HTTPException) -> Response:
        sentence = "there is nothing at this path" if error.status_code == 404 else "this path takes another method"
        self.service.seen(None, "none", error.status_code, 0.0, None)
        headers = {"cache-control": "no-store"}
        if error.status_code == 405:
            path = request.scope["path"]
            taken = [
                r.methods or () for r in self.starlette.routes if isinstance(r, Route) and r.path_regex.match(path)
            ]
            headers["allow"] = ", ".join(sorted({method for methods in taken for method in methods}))
        body = msgspec.json.encode(Failure(sentence))
        return Response(body, error.status_code, headers, "application/json")

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        self.service.open(asyncio.get_running_loop())
        async with self._hosted():
            yield
        self.service.close()
