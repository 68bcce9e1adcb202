"""Rows of a journal and the hashes that tie them together.

    digest = SHA-256(salt + field(who) + field(key) + field(asked) + field(payload) + field(answer))
    field(v) = the length of v in bytes, 8 bytes, big-endian, then v;  of NULL: 2^64 - 1 and nothing
    chain = SHA-256(chain of the row before + JSON of [programme, number, kind, time, digest in hexadecimal])

Texts are in UTF-8; the JSON has no spaces and is ASCII; before row 0 the chain is 32 zero bytes. The salt is 16 random
bytes. Erasing takes away the salt with the fields, so that nobody can guess them from the digest; the digest stays, and
with it the chain."""

import json
import os
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from .. import checks as check
from .errors import RowDamaged
from .event import KINDS, Entry, Event

START = bytes(32)
COLUMNS = (
    "programme", "number", "kind", "time", "who", "key", "asked", "payload", "answer", "salt", "digest", "chain",
    "erased",
)  # fmt: skip
ERASABLE = ("who", "key", "asked", "payload", "answer", "salt")
LONGEST_WHO, LONGEST_KEY, LARGEST = 200, 500, 16 * 2**20  # characters; bytes of a payload and of an answer

_PROGRAMME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_KINDS = frozenset(KINDS)
_plain = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"), check_circular=False).encode
_NULL = b"\xff" * 8
_NEW = object.__new__


class Row(NamedTuple):
    """One row as the database has it."""

    programme: str
    number: int
    kind: str
    time: str
    who: str | None
    key: str | None
    asked: bytes | None
    payload: str | None
    answer: str | None
    salt: bytes | None
    digest: bytes
    chain: bytes
    erased: bool


def check_programme(name: Any) -> str:
    if not isinstance(name, str) or not _PROGRAMME.fullmatch(name):
        raise ValueError(
            f"programme must be a name of at most 100 letters, digits, dots, dashes and underscores, beginning with a "
            f"letter or digit, got {check.shown(name)}"
        )
    return name


def who_text(who: Any) -> str:
    """JSON text of a key of a person: an integer of 64 bits, or text of at most 200 characters."""
    if isinstance(who, str) and len(who) <= LONGEST_WHO:
        return _plain(who)
    if isinstance(who, int) and not isinstance(who, bool) and -(2**63) <= who < 2**63:
        return str(int(who))
    raise ValueError(
        f"who must be an integer of 64 bits or text of at most {LONGEST_WHO} characters, got {check.shown(who)}"
    )


def check_key(key: Any) -> bytes:
    """A caller's key in UTF-8."""
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY:
        raise ValueError(f"key must be text of 1 to {LONGEST_KEY} characters, got {check.shown(key)}")
    return _utf8("key", key)


def _utf8(name: str, text: str) -> bytes:
    try:
        made = text.encode()
    except UnicodeEncodeError:
        made = b"\0"
    if b"\0" in made:
        raise ValueError(f"{name} must be text without NUL and without halves of surrogate pairs")
    return made


def _payload(payload: Any) -> str:
    if not isinstance(payload, dict):
        raise ValueError(f"payload must be a dictionary, got {check.shown(payload)}")
    try:
        made = _plain(payload)
    except RecursionError:
        raise ValueError("payload must not be nested as deeply as this") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"payload must be JSON, without nan and infinities: {error}") from None
    if len(made) > LARGEST:
        raise ValueError(f"payload must have at most {LARGEST:,} bytes, this one has {len(made):,}")
    return made


def digest_of(salt: bytes, *fields: bytes | None) -> bytes:
    """SHA-256 of the salt and of every field after its length, as the module docstring has it."""
    parts = [salt]
    for field in fields:
        if field is None:
            parts.append(_NULL)
        else:
            parts += (len(field).to_bytes(8), field)
    return sha256(b"".join(parts)).digest()


def next_chain(before: bytes, programme: str, number: int, kind: str, time: str, digest: bytes) -> bytes:
    """The chain up to a row from the chain before it. Names, kinds and times that were checked need no escapes."""
    told = f'["{programme}",{number},"{kind}","{time}","{digest.hex()}"]'
    return sha256(before + told.encode()).digest()


def made_rows(
    programme: str, number: int, chain: bytes, entries: Sequence[Entry]
) -> tuple[list[tuple[Any, ...]], list[Event]]:
    """(rows for the database, events) of entries that come after `number` events with this chain; a sentence for what
    cannot be written."""
    salts = os.urandom(16 * len(entries))
    rows: list[tuple[Any, ...]] = []
    events: list[Event] = []
    for i, entry in enumerate(entries):
        kind, time, payload, answer, key, asked = (
            entry.kind, entry.time, entry.payload, entry.answer, entry.key, entry.asked,
        )  # fmt: skip
        if kind not in _KINDS:
            check.one_of("kind", kind, KINDS)
        if not isinstance(time, str) or not _TIME.fullmatch(time):
            raise ValueError(f"time must be a date or a time in ISO 8601, got {check.shown(time)}")
        if asked is not None and not (isinstance(asked, bytes) and len(asked) <= 64):
            raise ValueError(f"asked must be at most 64 bytes, got {check.shown(asked)}")
        who = None if entry.who is None else who_text(entry.who)
        told = None if payload is None else _payload(payload)
        salt = salts[16 * i : 16 * i + 16]
        digest = digest_of(
            salt,
            None if who is None else who.encode(),
            None if key is None else check_key(key),
            asked,
            None if told is None else told.encode(),
            None if answer is None else _answer(answer),
        )
        chain = next_chain(chain, programme, number, kind, time, digest)
        rows.append((programme, number, kind, time, who, key, asked, told, answer, salt, digest, chain, False))
        event = _NEW(Event)
        event.__dict__.update(
            kind=kind, time=time, who=entry.who, payload=payload, answer=answer, key=key, asked=asked,
            number=number, digest=digest, chain=chain, erased=False,
        )  # fmt: skip
        events.append(event)
        number += 1
    return rows, events


def _answer(answer: Any) -> bytes:
    if not isinstance(answer, str):
        raise ValueError(f"answer must be text, got {check.shown(answer)}")
    made = _utf8("answer", answer)
    if len(made) > LARGEST:
        raise ValueError(f"answer must have at most {LARGEST:,} bytes, this one has {len(made):,}")
    return made


def event_of(row: Any) -> Event:
    """The event that a row (in the order of COLUMNS) says."""
    _, number, kind, time, who, key, asked, payload, answer, _, digest, chain, erased = row
    event = _NEW(Event)
    event.__dict__.update(
        kind=kind, time=time, who=None if who is None else _read("who", who, number),
        payload=None if payload is None else _read("payload", payload, number), answer=answer, key=key,
        asked=None if asked is None else bytes(asked), number=number, digest=bytes(digest), chain=bytes(chain),
        erased=bool(erased),
    )  # fmt: skip
    return event


def _read(name: str, text: Any, number: int) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise RowDamaged(f"event {number} of the journal is damaged: its {name} is no JSON") from None
