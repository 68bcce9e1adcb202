"""What is asked of a programme and what is answered: the seam between HTTP and the writer.

Verbs about a person, with the body of each (JSON; what has a default may be left out):

    begin     {"x": [d numbers] or a row, "unavailable": null, action(s), or [S, A] flags}
    decide    {"state": number or name, "action": null, or what the caller chose, "step": null or a number}
    outcome   {"next_state": number or name, "reward": null or a number, "step": null or a number}
    reward    {"step": number, "reward": a number}
    end       {"wait": n, "close", or left out: the programme's}
    close     {}
    withdraw  {"learn": false}

and about the programme, who being None: pause {}, resume {}; and erase {}, of a person."""

import hashlib
import time
from typing import Any

import msgspec

from .. import checks as check
from ..journal.event import Who
from ..live.people import key_of

PERSONAL = ("begin", "decide", "outcome", "reward", "end", "close", "withdraw", "erase")
GENERAL = ("pause", "resume")
VERBS = PERSONAL + GENERAL
LONGEST_KEY = 200  # characters

_canonical = msgspec.json.Encoder(order="sorted").encode


class Ask:
    """One request: verb, who, the caller's key of it, `asked` (SHA-256 of verb, who and body), the body, and when it
    arrived by the monotonic clock, which the deadline counts from."""

    __slots__ = ("arrived", "asked", "body", "key", "verb", "who")

    def __init__(self, verb: str, who: Who | None, key: str | None, asked: bytes | None, body: dict[str, Any]) -> None:
        self.verb, self.who, self.key, self.asked, self.body = verb, who, key, asked, body
        self.arrived = time.monotonic()

    def __repr__(self) -> str:
        return f"<Ask {self.verb}>"  # nothing personal


def ask(verb: str, who: Who | None, key: str, body: dict[str, Any] | None = None) -> Ask:
    """The request with its digest; a ValueError where key or who can be none. The same key with another verb, person or
    body is another request.

    >>> ask("end", "Ms B", "k1").asked == ask("end", "Ms B", "k2").asked
    True
    >>> ask("end", "Ms B", "k1").asked == ask("close", "Ms B", "k1").asked
    False
    """
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise ValueError(f"key must be printable text of 1 to {LONGEST_KEY} characters, got {check.shown(key)}")
    return digested(verb, None if who is None else key_of(who), key, {} if body is None else body)


def digested(verb: str, who: Who | None, key: str, body: dict[str, Any]) -> Ask:
    """`ask`, of a key and a person that were looked at."""
    return Ask(verb, who, key, hashlib.sha256(_canonical((verb, who, body))).digest(), body)


class Answer(msgspec.Struct, frozen=True, gc=False):
    """status as in HTTP; text: JSON; retry_after: seconds, where asking again later is worth while. Many are remembered
    (`recall`): the collector of cycles need not look at them."""

    status: int
    text: str
    retry_after: int | None = None


def refused(status: int, sentence: str, retry_after: int | None = None) -> Answer:
    """An answer that says why not: {"error": sentence}."""
    return Answer(status, encoded({"error": sentence}), retry_after)


def encoded(value: Any) -> str:
    """JSON text."""
    return msgspec.json.encode(value).decode()


class Refusal(Exception):
    """A request that the standing of a person, or of the programme, does not allow; nothing was changed."""

    def __init__(self, status: int, sentence: str, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.answer = refused(status, sentence, retry_after)
