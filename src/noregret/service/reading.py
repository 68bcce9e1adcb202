"""Bodies of requests: read with limits, decoded strictly, refused cheaply.

What is refused, and by whom: more than BODY bytes (413, by the header before anything is read, and while it is read);
what is not JSON by its type (415), by its bytes (400: bad UTF-8, NaN, truncated, nested deeper than DEEPEST) or by its
keys (400: one given twice, of which JSON readers take either); what the Struct does not allow (422, with the place);
numbers that are no floats or 64-bit integers (422). Content that is compressed is refused (415): a small body must not
become a large one."""

import functools
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from .asking import Refusal
from .wire import BODY

Receive = Callable[[], Awaitable[Any]]

DEEPEST = 32
DRAINED = 1 << 23  # bytes of a refused body that are read and forgotten, so that its caller sees the answer
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


class Gone(Exception):
    """The caller closed the connection before the request was whole: there is nobody to answer."""


class TooLarge(Refusal):
    """A body above the limit; the rest of it is still to come."""


class Headers(dict[bytes, bytes]):
    """The headers of a request by name. twice: the names of those given more than once, of which the last is here."""

    __slots__ = ("twice",)

    def __init__(self, given: list[tuple[bytes, bytes]]) -> None:
        super().__init__(given)
        self.twice: frozenset[bytes] = frozenset()
        if len(self) < len(given):
            names = [name for name, _ in given]
            self.twice = frozenset(name for name in names if names.count(name) > 1)

    def one(self, name: bytes) -> bytes | None:
        """The one header of this name; a 400 where there are several."""
        if name in self.twice:
            raise Refusal(400, f"the header {name.decode()} was given twice")
        return self.get(name)


async def body_of(headers: Headers, receive: Receive, limit: int = BODY) -> bytes:
    """The whole body, or a Refusal as soon as it is known to be longer than `limit`."""
    told = headers.one(b"content-length")
    if told is not None and (len(told) > 12 or int(told) > limit):
        raise TooLarge(413, f"the body must be at most {limit} bytes")
    message = await receive()
    if message["type"] != "http.request":
        raise Gone
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        parts, size = [body], len(body)
        while message.get("more_body"):
            if size > limit:
                raise TooLarge(413, f"the body must be at most {limit} bytes")
            message = await receive()
            if message["type"] != "http.request":
                raise Gone
            parts.append(message.get("body", b""))
            size += len(parts[-1])
        body = b"".join(parts)
    if len(body) > limit:
        raise TooLarge(413, f"the body must be at most {limit} bytes")
    return body


async def drain(receive: Receive) -> None:
    """Read and forget what a refused caller still sends, up to a limit."""
    left = DRAINED
    while left > 0:
        message = await receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            return
        left -= max(1, len(message.get("body", b"")))


def json_type(headers: Headers) -> None:
    """A 415 where the header does not say JSON in UTF-8."""
    kind = headers.one(b"content-type")
    if kind is None or (kind != b"application/json" and not _is_json(kind)):
        raise Refusal(415, "the body must be JSON: content-type application/json")
    if headers.one(b"content-encoding") not in (None, b"identity"):
        raise Refusal(415, "the body must not be compressed")


def _is_json(kind: bytes) -> bool:
    name, *options = [part.strip().lower() for part in kind.split(b";")]
    return name == b"application/json" and options in ([], [b"charset=utf-8"], [b'charset="utf-8"'])


def decode(body: bytes, decoder: Any) -> Any:
    """What the body says, by the decoder's Struct; a Refusal says in one sentence what is wrong."""
    if body.count(b"[") + body.count(b"{") > DEEPEST:
        shallow(body)
    try:
        made = decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Refusal(422, said(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {said(error)}") from None
    if body.count(b":") > _said(made):
        unique(body)
    return made


def _said(made: Any) -> int:
    """How many keys a body has at least, by what was read of it: fields that are not their defaults. Every member has a
    colon; where there are no more colons than such fields, no key is there twice."""
    if not isinstance(made, msgspec.Struct):
        return 0
    kind = type(made)
    return sum(getattr(made, name) is not default for name, default in _defaults(kind))


@functools.cache
def _defaults(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.default) for field in msgspec.structs.fields(kind))


def shallow(body: bytes) -> None:
    """A 400 where brackets are nested deeper than DEEPEST."""
    depth = 0
    for byte in re.sub(rb"[^\[\]{}]", b"", _TEXT.sub(b"", body)):
        depth += 1 if byte in b"[{" else -1
        if depth > DEEPEST:
            raise Refusal(400, f"the body must not be nested deeper than {DEEPEST}")


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        raise Refusal(400, "the body has a key twice in one object")


_keys = json.JSONDecoder(object_pairs_hook=_once, parse_int=float).decode


def unique(body: bytes) -> None:
    """A 400 where an object has a key twice. The body was decoded before: it is JSON."""
    _keys(body.decode())


def said(error: BaseException) -> str:
    """The first line of what an exception says, of modest length; a value of the caller's is not in it."""
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__
