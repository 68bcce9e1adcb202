"""Structured logs without secrets or personal data: one JSON object a line, on stderr.

A request's line says time, programme, verb, status, milliseconds and a hash of the caller's key, nothing else: no path
(it names a person), no body, no address, no token. The hash is keyed with random bytes of this process, so that one can
see a retry in the log and cannot guess who it was about. An exception is its class and where it was raised; what it
says may quote a caller's values and is left out.

Lines are collected and written together, ten times a second and at the end: a system call for each would be a tenth of
a request's price."""

import contextlib
import hashlib
import logging
import os
import secrets
import sys
import threading
import time
import traceback
from datetime import UTC, datetime
from typing import Any, BinaryIO

import msgspec

FULL = 1 << 16  # bytes: written at once


class Log:
    """Lines that are collected until `flush`.

    >>> import io
    >>> from noregret.service.logs import Log
    >>> log = Log(io.BytesIO())
    >>> log.request("clinic", "decide", 200, 0.0021, "visit-7")
    >>> log.flush()
    >>> line = log.file.getvalue().decode()
    >>> '"programme":"clinic","verb":"decide","status":200,"ms":2.1' in line, "visit-7" in line
    (True, False)
    """

    def __init__(self, file: BinaryIO | None = None) -> None:
        self.file = sys.stderr.buffer if file is None else file
        self._hash = hashlib.blake2b(key=secrets.token_bytes(32), digest_size=8)
        self._lines: list[bytes] = []
        self._size = 0
        self._second, self._stamp = 0, ""
        self._lock = threading.RLock()  # libraries log from threads of their own

    def request(self, programme: str | None, verb: str, status: int, seconds: float, key: str | None) -> None:
        """Names of programmes and verbs need no escapes in JSON: a line is put together here, for a third of the
        encoder's price."""
        hashed = "null"
        if key is not None:
            mark = self._hash.copy()
            mark.update(key.encode())
            hashed = f'"{mark.hexdigest()}"'
        of = "null" if programme is None else f'"{programme}"'
        self._add(
            f'{{"time":"{self._now()}","programme":{of},"verb":"{verb}","status":{status},'
            f'"ms":{seconds * 1e3:.3f},"key":{hashed}}}\n'.encode()
        )

    def note(self, event: str, **facts: Any) -> None:
        """Something else that happened; the caller sees to it that no fact is anybody's."""
        self._put({"time": self._now(), "event": event, **facts})
        self.flush()

    def failure(self, event: str, error: BaseException, **facts: Any) -> None:
        """An exception: its class and place, not its words."""
        frames = traceback.extract_tb(error.__traceback__)
        where = [f"{os.path.basename(f.filename)}:{f.lineno}" for f in frames[-3:]]
        self.note(event, error=type(error).__name__, at=" < ".join(reversed(where)), **facts)

    def flush(self) -> None:
        with self._lock:
            lines, self._lines, self._size = self._lines, [], 0
            if lines:
                with contextlib.suppress(OSError, ValueError):  # nobody reads the log: answers matter more
                    self.file.write(b"".join(lines))
                    self.file.flush()

    def _put(self, said: dict[str, Any]) -> None:
        self._add(msgspec.json.encode(said) + b"\n")

    def _add(self, line: bytes) -> None:
        with self._lock:
            self._lines.append(line)
            self._size += len(line)
            if self._size > FULL:
                self.flush()

    def _now(self) -> str:
        """UTC to the millisecond; the part up to the second is made once a second."""
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second, self._stamp = second, datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._stamp}.{int((now - second) * 1e3):03d}Z"


class Handler(logging.Handler):
    """What libraries log (uvicorn, SQLAlchemy), as lines of ours: level, logger, and the message's pattern.

    The pattern is what the library's author wrote; the values put into it may be anybody's and are left out."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        facts = {"level": record.levelname, "logger": record.name}
        event = str(record.msg).strip()[:200] if isinstance(record.msg, str) else type(record.msg).__name__
        if record.exc_info and record.exc_info[1] is not None:
            self.log.failure(event, record.exc_info[1], **facts)
        else:
            self.log.note(event, **facts)
