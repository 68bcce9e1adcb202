"""A client of a few lines, with the standard library alone: one key a request, sent again until there is an answer.

A request that failed may have been accepted: the connection broke after the commit. So every retry has the same key,
and the service gives the first answer again. Who restarts between asking and hearing keeps the key (`key=`) with what
they asked, and asks again."""

import hashlib
import http.client
import io
import json
import threading
import time
import uuid
from typing import Any, Self
from urllib.parse import quote, urlsplit

from .. import checks as check

AGAIN = (408, 425, 429, 502, 503, 504)  # nothing was accepted, or a proxy does not know
LONGEST = 1 << 26  # bytes of an answer


class Refused(ValueError):
    """The service said no, in one sentence; asking again would not help. status: as in HTTP."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(f"{sentence} ({status})")
        self.status = status


class Client:
    """One programme of a service, asked over HTTP: begin, decide, outcome, reward, end, close, withdraw.

    url        of the service, or several of one service (processes that take over from each other): the next is tried
               where one does not answer
    programme  its name
    token      as `noregret token` made it; None for a service started with --demo
    patience   seconds during which a request is sent again, with the same key, where a connection fails or the service
               says 503. It waits longer each time, and at least what Retry-After says
    timeout    seconds for one try, until its answer has come whole

    Answers are dictionaries, as the service's /openapi.json describes them. What the service refuses is a ValueError
    with its sentence; no answer within the patience, or none that can be read, is a ConnectionError. Connections are
    kept, one a thread.

    >>> import noregret as nr
    >>> client = nr.Client("http://127.0.0.1:9", "clinic", patience=0)
    >>> client.decide("Ms B", "ill")
    Traceback (most recent call last):
    ...
    ConnectionError: http://127.0.0.1:9 does not answer: Connection refused
    """

    def __init__(
        self,
        url: str | list[str] | tuple[str, ...],
        programme: str,
        token: str | None = None,
        patience: float = 30.0,
        timeout: float = 10.0,
    ) -> None:
        given = list(url) if isinstance(url, list | tuple) else [url]
        if not given:
            raise ValueError("url must be at least one address")
        self.urls = [_address(one) for one in given]
        if not isinstance(programme, str) or not programme:
            raise ValueError(f"programme must be a name, got {check.shown(programme)}")
        self.programme, self._token = programme, None if token is None else _ascii("token", token)
        self.patience, self.timeout = check.nonnegative("patience", patience), check.positive("timeout", timeout)
        self._own = threading.local()
        self._turn = 0

    def __repr__(self) -> str:
        return f"<Client {self.programme} at {', '.join(self.urls)}>"

    def begin(self, who: str, x: Any, unavailable: Any = None, key: str | None = None) -> dict[str, Any]:
        """Somebody comes, with a context (numbers, or a row): a plan is made for them."""
        try:
            row = dict(x) if hasattr(x, "keys") else [float(v) for v in x]
        except (TypeError, ValueError):
            raise ValueError(f"x must be numbers, or a row: column -> value; got {check.shown(x)}") from None
        return self._person("begin", who, key, x=row, unavailable=unavailable)

    def decide(
        self, who: str, state: Any, action: Any = None, step: int | None = None, key: str | None = None
    ) -> dict[str, Any]:
        """What now? With `action`, somebody else has chosen, and it is recorded."""
        return self._person("decide", who, key, state=state, action=action, step=step)

    def outcome(
        self, who: str, next_state: Any, reward: float | None = None, step: int | None = None, key: str | None = None
    ) -> dict[str, Any]:
        """What the action of a step led to; reward None: later."""
        return self._person("outcome", who, key, next_state=next_state, reward=reward, step=step)

    def reward(self, who: str, step: int, reward: float, key: str | None = None) -> dict[str, Any]:
        """A reward that comes late, or is corrected."""
        return self._person("reward", who, key, step=step, reward=reward)

    def end(self, who: str, wait: Any = None, key: str | None = None) -> dict[str, Any]:
        """Their steps are over. wait: how many more people begin before they are learned, or "close"; None: as the
        programme says."""
        return self._person("end", who, key, wait=wait)

    def close(self, who: str, key: str | None = None) -> dict[str, Any]:
        """Nothing more is waited for: learn them."""
        return self._person("close", who, key)

    def withdraw(self, who: str, learn: bool = False, key: str | None = None) -> dict[str, Any]:
        """They leave; learn: whether the steps seen so far are learned."""
        return self._person("withdraw", who, key, learn=learn)

    def get(self, path: str = "") -> Any:
        """What is at a path below the programme's: "" for its facts, "alarms", "people/Ms%20B"."""
        return self.ask("GET", f"/v1/programmes/{quote(self.programme, safe='')}/{path}".rstrip("/"))

    def _person(self, verb: str, who: str, key: str | None, **body: Any) -> dict[str, Any]:
        path = f"/v1/programmes/{quote(self.programme, safe='')}/people/{quote(str(who), safe='')}/{verb}"
        told = {name: value for name, value in body.items() if value is not None}
        made: dict[str, Any] = self.ask("POST", path, told, uuid.uuid4().hex if key is None else _ascii("key", key))
        return made

    def ask(self, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        """Send it, again and again where that helps, and give the answer decoded."""
        data = None if body is None else _encoded(body)
        headers = {"content-type": "application/json"} if body is not None else {}
        headers |= {"authorization": f"Bearer {self._token}"} if self._token is not None else {}
        headers |= {"idempotency-key": key} if key is not None else {}
        end, tries = time.monotonic() + self.patience, 0
        while True:
            url = self.urls[self._turn % len(self.urls)]
            try:
                status, answer, wait = self._once(url, method, path, data, headers)
                if status < 300 and (isinstance(answer, dict) or status == 204):
                    return answer
                if status < 300:
                    raise http.client.HTTPException("what it says is no JSON object")
                said = answer.get("error", "") if isinstance(answer, dict) else ""
                sentence = said if isinstance(said, str) and said else f"{url} answered {status}"
                if status not in AGAIN:
                    raise Refused(status, sentence)
            except http.client.InvalidURL as error:
                raise ValueError(f"path must be one of an address: {error}") from None
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
                sentence, wait = f"{url} does not answer: {reason}", 0.0
            self._turn += 1
            tries += 1
            pause = self._pause(tries, key or path, wait)
            if time.monotonic() + pause > end:
                raise ConnectionError(sentence) from None
            time.sleep(pause)

    def _pause(self, tries: int, key: str, wait: float) -> float:
        """Seconds before the next try. Every address is tried once before anybody waits, and callers that failed
        together do not come back together: how long depends on the key."""
        if wait == 0.0 and tries < len(self.urls):
            return 0.0
        spread = hashlib.sha256(f"{key} {tries}".encode()).digest()[0] / 255
        own = min(2.0, 0.05 * 2.0 ** (tries - len(self.urls))) * (0.5 + spread)
        return max(own, wait if tries >= len(self.urls) else 0.0)

    def _once(
        self, url: str, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[int, Any, float]:
        """(status, answer, Retry-After in seconds) of one try, on a kept connection."""
        kept: dict[str, http.client.HTTPConnection] = self._own.__dict__.setdefault("kept", {})
        connection = kept.pop(url, None) or _connection(url, self.timeout)
        if connection.sock is not None:
            connection.sock.settimeout(self.timeout)  # the last answer had what was left of it
        try:
            connection.request(method, urlsplit(url).path + path, data, headers)
            response = connection.getresponse()
            raw = _whole(response)
        except BaseException:
            connection.close()
            raise
        kept[url] = connection
        told = response.getheader("retry-after", "")
        wait = float(told) if told.isascii() and told.isdigit() else 0.0
        try:
            return response.status, json.loads(raw) if raw else None, wait
        except (ValueError, RecursionError):
            return response.status, None, wait

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        for connection in self._own.__dict__.pop("kept", {}).values():
            connection.close()


def _address(url: str) -> str:
    parts = urlsplit(url) if isinstance(url, str) else None
    good = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)
    if not good or not url.isprintable() or " " in url or not _has_port(parts):
        raise ValueError(f"url must be http://host:port or https://host, got {check.shown(url)}")
    return url.rstrip("/")


def _ascii(name: str, value: Any) -> str:
    """What goes into a header; it is not shown, since it may be a secret."""
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable():
        raise ValueError(f"{name} must be visible ASCII text")
    return value


def _has_port(parts: Any) -> bool:
    """Whether what stands for the port is one, or nothing does."""
    try:
        return parts.port is None or parts.port >= 0
    except ValueError:
        return False


def _encoded(body: Any) -> bytes:
    """JSON, of NumPy's numbers too."""
    try:
        return json.dumps(body, allow_nan=False, default=_number).encode()
    except TypeError as error:
        raise ValueError(f"what is asked must be numbers, text, lists and rows: {error}") from None


def _number(value: Any) -> Any:
    """A NumPy number as Python's."""
    if getattr(value, "shape", None) == ():
        return value.item()
    raise TypeError(f"got {check.shown(value)}")


def _connection(url: str, timeout: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    made = kind(parts.hostname or "", parts.port, timeout=timeout)
    made.response_class = _Response
    return made


class _Response(http.client.HTTPResponse):
    """An answer that must have come whole when the connection's timeout is over, in however many pieces."""

    def __init__(self, sock: Any, *given: Any, **options: Any) -> None:
        super().__init__(sock, *given, **options)
        self.fp: Any = io.BufferedReader(_Until(self.fp.detach(), sock))


class _Until(io.RawIOBase):
    """What a socket gives until a moment: each read waits for what is left, not for all of it again."""

    def __init__(self, raw: Any, sock: Any) -> None:
        self._raw, self._sock, self._end = raw, sock, time.monotonic() + sock.gettimeout()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        left = self._end - time.monotonic()
        if left <= 0.0:
            raise TimeoutError("the answer took too long")
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _whole(response: http.client.HTTPResponse) -> bytes:
    """The body, of modest length: what a length or a chunk says of itself is not believed."""
    made = bytearray()
    try:
        while part := response.read1(1 << 16):
            made += part
            if len(made) > LONGEST:
                raise http.client.HTTPException(f"the answer has more than {LONGEST:,} bytes")
    except ValueError as error:  # a chunk of a length that is none
        raise http.client.HTTPException(str(error)) from None
    if response.length:
        raise http.client.IncompleteRead(bytes(made[:80]), response.length)
    response.close()  # the connection stays
    return bytes(made)
