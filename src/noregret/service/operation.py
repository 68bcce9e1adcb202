"""An operation: one verb over HTTP. Routes, roles and OpenAPI are made from the same list of them.

An operation's `run` gets a `Call` and gives a `Reply`; or raises a Refusal, whose status must be in the operation's
list. Where all that it does is to ask its programme, it has a `question` in place of `run`, and can be answered without
ASGI. What every operation shares is done here, in this order: token (401), role (403), programme (404), key (400), body
(413, 415, 400, 422); and after the answer a line in the log and a count."""

import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import msgspec

from .asking import Answer, Ask, Refusal
from .messages import ErrorResponse, Failure, PersonalizerError
from .reading import Gone, Headers, TooLarge, body_of, decode, drain, json_type
from .tokens import NOBODY, Token
from .wire import BODY, written

_KEY = re.compile(rb"[\x21-\x7e]{1,200}")
_JSON = (b"content-type", b"application/json")
_KEEP = (b"cache-control", b"no-store")
_PLAIN = (_JSON,)
_HEAD = b"".join(b"%b: %b\r\n" % header for header in (_JSON, _KEEP))
Write = Callable[[int, bytes, bytes], None]


@dataclass(slots=True)
class Reply:
    """An answer: JSON text, or bytes of another type; file: a response of Starlette's that streams."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = _PLAIN
    stream: Any = None


@dataclass(frozen=True)
class Operation:
    """One method of one path.

    verb     its name in logs, metrics and OpenAPI
    role     what a token needs; None: nobody is asked
    body     the Struct of the request's body, or None; optional: it may be left out; toml: it may be TOML
    answers  status -> Struct, None (no body) or a content type
    errors   further statuses that it may answer with
    keyed    whether it writes, and so needs the caller's key
    azure    errors in the form of Personalizer's
    question what is asked of the programme, in place of `run`"""

    method: str
    path: str
    verb: str
    role: str | None
    summary: str
    run: Callable[["Call"], Awaitable[Reply]] | None
    body: Any = None
    answers: dict[int, Any] = field(default_factory=dict)
    errors: tuple[int, ...] = ()
    keyed: bool = False
    optional: bool = False
    toml: bool = False
    azure: bool = False
    question: Callable[["Call"], Ask] | None = None

    @property
    def parameters(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.path)

    def failures(self) -> tuple[int, ...]:
        """Every status of an error that a caller may see."""
        found = {400, 431, 408, *self.errors}
        found |= {401, 403} if self.role else set()
        found |= {404} if self.parameters else set()
        found |= {413, 415, 422} if self.body is not None else {413}
        found |= {409, 422, 503} if self.keyed else set()
        return tuple(sorted(found - set(self.answers)))


class Call:
    """A request on its way: what was found out about it so far."""

    __slots__ = ("body", "headers", "key", "name", "params", "programme", "raw", "service", "token")

    def __init__(self, service: Any, headers: Headers, params: dict[str, str]) -> None:
        self.service, self.headers, self.params = service, headers, params
        self.name: str | None = None  # of the programme, once it is known to be one
        self.programme: Any = None
        self.token: Token = NOBODY
        self.key: str | None = None  # the caller's, where the operation is keyed
        self.body: Any = None
        self.raw = b""

    @property
    def own_key(self) -> str:
        assert self.key is not None
        return self.key

    def person(self) -> str:
        """Who it is about, as the path says."""
        return self.text("who", 200)

    def text(self, name: str, longest: int) -> str:
        """A part of the path, decoded; the caller's slashes are %2F."""
        part = self.params[name]
        if "%" in part:
            try:
                part = unquote(part, errors="strict")
            except UnicodeDecodeError:
                raise Refusal(400, f"{name} in the path must be UTF-8, percent-encoded") from None
        if len(part) > longest:
            raise Refusal(422, f"{name} must be text of at most {longest} characters, got {len(part)}")
        return part

    def number(self, name: str) -> int:
        part = self.params[name]
        if not (part.isascii() and part.isdigit() and len(part) <= 10 and int(part) < 2**31):
            raise Refusal(422, f"{name} must be an integer from 0 to {2**31 - 1}")
        return int(part)


class Endpoint:
    """An operation as an ASGI application."""

    def __init__(self, service: Any, operation: Operation) -> None:
        self.service, self.operation = service, operation
        self._decoder = None if operation.body is None else msgspec.json.Decoder(operation.body)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        started, service, op = time.perf_counter(), self.service, self.operation
        call, unread = Call(service, Headers(scope["headers"]), scope["path_params"]), True
        try:
            self._enter(call)
            if self._decoder is not None:
                call.raw = await body_of(call.headers, receive)
                unread = False
                self._read(call)
            elif _body_size(scope) > 0:
                call.raw = await body_of(call.headers, receive)
                unread = False
            if op.question is not None:
                reply = self._replied(call, await service.submit(call.programme, op.question(call)))
            else:
                assert op.run is not None
                reply = await op.run(call)
        except Gone:
            service.seen(call.name, op.verb, 499, time.perf_counter() - started, call.key)
            return
        except Exception as error:
            reply = self._failed(error)
            unread = unread or isinstance(error, TooLarge)
        late = unread and _body_size(scope) > BODY
        await _send(send, receive, reply, scope, late)
        service.seen(call.name, op.verb, reply.status, time.perf_counter() - started, call.key)

    def direct(self, call: Call, started: float, raw: bytes, write: Write) -> None:
        """The same without ASGI, of an operation with a question whose whole body is here. `write` is given status,
        headers and body of the answer, now or when there is one; started: when its headers had come."""
        service, op = self.service, self.operation

        def done(reply: Reply) -> None:
            write(reply.status, head_of(reply), reply.body)
            service.seen(call.name, op.verb, reply.status, time.perf_counter() - started, call.key)

        assert op.question is not None
        try:
            self._enter(call)
            call.raw = raw
            self._read(call)
            service.put(call.programme, op.question(call), lambda answer: done(self._replied(call, answer)))
        except Exception as error:
            done(self._failed(error))

    def _enter(self, call: Call) -> None:
        """Token, role, programme and key."""
        op, service = self.operation, self.service
        named = call.params.get("name")
        if op.role is not None:
            call.token = service.token_of(call.headers)
            if not call.token.may(op.role, named):
                raise Refusal(403, f"this token may not do that: it takes the role {op.role}")
        if named is not None:
            call.programme = service.host.programmes.get(named)
            if call.programme is None:
                raise Refusal(404, "there is no such programme here")
            call.name = named
        if op.keyed:
            call.key = _key(call.headers)

    def _read(self, call: Call) -> None:
        """The body, by the operation's Struct."""
        op = self.operation
        if op.optional and not call.raw:
            call.body = op.body()
            return
        if op.toml and _is_toml(call.headers):
            return
        json_type(call.headers)
        call.body = decode(call.raw, self._decoder)

    def _replied(self, call: Call, answer: Answer) -> Reply:
        """What the programme answered."""
        if self.operation.verb == "decide" and answer.status == 200:
            self.service.requests.decided(call.name, answer.text)
        return from_answer(answer)

    def _failed(self, error: Exception) -> Reply:
        """An answer, whatever it was; the words of a defect may be somebody's and stay here."""
        if not isinstance(error, Refusal):
            self.service.log.failure("an operation failed", error, verb=self.operation.verb)
            error = Refusal(500, "something went wrong here, the log says where")
        reply = from_answer(error.answer)
        if reply.status == 401:
            reply.headers += ((b"www-authenticate", b"Bearer"),)
        return as_azure(reply) if self.operation.azure else reply


class DirectCall:
    """A call without ASGI (`wire.Direct`)."""

    __slots__ = ("_call", "_endpoint", "_started")

    def __init__(self, endpoint: Endpoint, headers: Headers, params: dict[str, str]) -> None:
        self._endpoint, self._started = endpoint, time.perf_counter()
        self._call = Call(endpoint.service, headers, params)

    def __call__(self, body: bytes, write: Write, /) -> None:
        self._endpoint.direct(self._call, self._started, body, write)

    def gone(self) -> None:
        service, name = self._endpoint.service, self._call.params["name"]
        known = name if name in service.host.programmes else None
        service.seen(known, self._endpoint.operation.verb, 499, time.perf_counter() - self._started, None)


def head_of(reply: Reply) -> bytes:
    """Its headers as they are sent."""
    if reply.headers is _PLAIN:
        return _HEAD
    return b"".join(b"%b: %b\r\n" % header for header in (*reply.headers, _KEEP))


def from_answer(answer: Answer) -> Reply:
    """A programme's answer over HTTP."""
    headers: tuple[tuple[bytes, bytes], ...] = _PLAIN
    if answer.retry_after is not None:
        headers += ((b"retry-after", b"%d" % max(1, round(answer.retry_after))),)
    return Reply(answer.status, answer.text.encode(), headers)


def said(status: int, value: Any) -> Reply:
    """A Struct or a dictionary as JSON."""
    return Reply(status, msgspec.json.encode(value))


# Python 3.13 renamed these; callers compare codes, and the description of the API must not depend on Python's version.
_PHRASES = {413: "Request Entity Too Large", 422: "Unprocessable Entity"}


def phrase(status: int) -> str:
    """The words of a status, the same on every Python."""
    return _PHRASES.get(status) or HTTPStatus(status).phrase


def as_azure(reply: Reply) -> Reply:
    """An error in the form of Personalizer's: {"error": {"code", "message"}}."""
    if reply.status < 400:
        return reply
    sentence = msgspec.json.decode(reply.body, type=Failure).error
    code = phrase(reply.status).title().replace(" ", "")
    reply.body = msgspec.json.encode(ErrorResponse(PersonalizerError(code, sentence)))
    return reply


def _key(headers: Headers) -> str:
    told = headers.one(b"idempotency-key")
    if told is None or not _KEY.fullmatch(told):
        raise Refusal(400, "the header Idempotency-Key must be given: 1 to 200 visible ASCII characters, new for each "
                           "request and the same when it is sent again")  # fmt: skip
    return told.decode()


def _is_toml(headers: Headers) -> bool:
    kind = headers.one(b"content-type")
    return kind is not None and kind.split(b";")[0].strip().lower() in (b"application/toml", b"text/x-toml")


def _body_size(scope: Any) -> int:
    """Bytes of the body as announced; one that comes in chunks may be any size."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if len(value) < 20 else 1 << 62
        if name == b"transfer-encoding":
            return 1 << 62
    return 0


async def _send(send: Any, receive: Any, reply: Reply, scope: Any, late: bool) -> None:
    """late: the body was refused unread; its caller is still sending, and the connection cannot be used again."""
    if reply.stream is not None:
        await reply.stream(scope, receive, send)
        return
    if reply.status != 204 and not late and written(send, reply.status, head_of(reply), reply.body):
        return
    headers = [*reply.headers, (b"content-length", b"%d" % len(reply.body)), _KEEP]
    if reply.status == 204:
        headers = [_KEEP]
    if late:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if late:
        await send({"type": "http.response.body", "body": reply.body, "more_body": True})
        await drain(receive)
        await send({"type": "http.response.body", "body": b""})
        return
    await send({"type": "http.response.body", "body": reply.body})
