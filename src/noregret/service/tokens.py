"""Tokens: who may do what. Only hashes are kept.

A token is `nr_<id>_<secret>`: eight hexadecimal digits that say which one it is, and 32 random bytes. The file has one
record for each, with SHA-256 of the whole token. A slow hash is for passwords that people make up; nobody finds 256
random bits by trying. The record is found by its id, which is no secret, and the hashes are compared in constant time;
an id that is not there is compared, too.

The file is its owner's alone (mode 600): one that others may read is refused, as ssh does with keys. The service looks
once a second whether it changed, so a token that is taken away stops working without a restart."""

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import checks as check
from ..storage.atomic import write_whole

ROLES = ("decide", "report", "read", "admin")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_TOKEN = re.compile(rb"nr_([0-9a-f]{8})_[A-Za-z0-9_-]{43}")
_NO_HASH = bytes(32)


@dataclass(frozen=True)
class Token:
    """A record of the file: what is known of a token, which is not the token.

    name    who has it; id: the digits in the token; hash: SHA-256 of the token, hexadecimal
    roles   what it may do, of ROLES; programmes: of which ones, None: of all; made: when, UTC"""

    name: str
    id: str
    hash: str
    roles: tuple[str, ...]
    programmes: tuple[str, ...] | None = None
    made: str = ""

    def may(self, role: str, programme: str | None) -> bool:
        """Whether it has the role, in this programme (None: in what is about none)."""
        return role in self.roles and (programme is None or self.programmes is None or programme in self.programmes)


EVERYTHING = Token("demo", "", "", ROLES)  # what everybody is with `--demo`
NOBODY = Token("nobody", "", "", ())


def checked_roles(roles: Any) -> tuple[str, ...]:
    """Roles from text such as "decide,report", or a list of them."""
    wanted = [part.strip() for part in roles.split(",")] if isinstance(roles, str) else list(roles)
    for role in wanted:
        if role not in ROLES:
            raise ValueError(f"role must be of {', '.join(ROLES)}, got {check.shown(role)}")
    if not wanted:
        raise ValueError(f"role must be at least one of {', '.join(ROLES)}")
    return tuple(role for role in ROLES if role in wanted)


class Tokens:
    """The tokens of a file, found by what a caller sends.

    >>> import tempfile
    >>> from noregret.service.tokens import Tokens
    >>> tokens = Tokens(tempfile.mkdtemp() + "/tokens.json")
    >>> secret = tokens.add("the app", "decide,report")
    Traceback (most recent call last):
    ...
    ValueError: name must be letters, digits, '.', '_' and '-', at most 80, got 'the app'
    >>> secret = tokens.add("app", "decide,report")
    >>> tokens.find(secret.encode()).roles
    ('decide', 'report')
    >>> tokens.find(b"nr_00000000_" + 43 * b"A") is None
    True
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._stamp: tuple[int, int, int] | None = None
        self._found: dict[bytes, tuple[bytes, Token]] = {}
        if self.path.exists():
            self.refresh()

    def __len__(self) -> int:
        return len(self._found)

    def refresh(self) -> bool:
        """Read the file again if it changed; whether it did. Without a file there are no tokens."""
        try:
            there = self.path.stat()
        except FileNotFoundError:
            changed, self._stamp, self._found = bool(self._found), None, {}
            return changed
        stamp = (there.st_mtime_ns, there.st_size, there.st_ino)
        if stamp == self._stamp:
            return False
        if there.st_mode & 0o077:
            mode = stat.filemode(there.st_mode)
            raise ValueError(f"tokens: {self.path} may be read by others ({mode}), say chmod 600 {self.path}")
        self._found, self._stamp = _read(self.path), stamp
        return True

    def find(self, sent: bytes) -> Token | None:
        """Whose token this is; None where it is nobody's. The time it takes does not depend on the hashes."""
        shape = _TOKEN.fullmatch(sent)
        hashed, token = self._found.get(shape[1], (_NO_HASH, None)) if shape else (_NO_HASH, None)
        same = hmac.compare_digest(hashlib.sha256(sent).digest(), hashed)
        return token if same else None

    def add(self, name: str, roles: Any, programmes: Any = None) -> str:
        """A new token, which is said this once; the file keeps its hash."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"name must be letters, digits, '.', '_' and '-', at most 80, got {check.shown(name)}")
        wanted, only = checked_roles(roles), None if programmes is None else tuple(programmes)
        self.refresh()
        while (ident := secrets.token_hex(4)).encode() in self._found:
            pass
        secret = f"nr_{ident}_{secrets.token_urlsafe(32)}"
        made = datetime.now(UTC).isoformat(timespec="seconds")
        token = Token(name, ident, hashlib.sha256(secret.encode()).hexdigest(), wanted, only, made)
        self._write([*self, token])
        return secret

    def remove(self, name: str) -> int:
        """Take the tokens of this name away; how many there were."""
        self.refresh()
        kept = [token for token in self if token.name != name]
        gone = len(self) - len(kept)
        if gone:
            self._write(kept)
        return gone

    def __iter__(self) -> Any:
        return iter([token for _, token in self._found.values()])

    def _write(self, tokens: list[Token]) -> None:
        text = json.dumps({"tokens": [asdict(token) for token in tokens]}, indent=1) + "\n"
        if not self.path.exists():
            os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600))  # `write_whole` keeps the mode
        write_whole(self.path, lambda file: file.write(text.encode()))
        self.refresh()


def _read(path: Path) -> dict[bytes, tuple[bytes, Token]]:
    """id -> (hash, record)."""
    try:
        told = json.loads(path.read_bytes() or b'{"tokens": []}')["tokens"]
        found = {}
        for record in told:
            only = record.get("programmes")
            token = Token(
                str(record["name"]), str(record["id"]), str(record["hash"]), checked_roles(record["roles"]),
                None if only is None else tuple(map(str, only)), str(record.get("made", "")),
            )  # fmt: skip
            hashed = bytes.fromhex(token.hash)
            if len(hashed) != 32:
                raise ValueError(f"the hash of {token.name} is not 32 bytes")
            found[token.id.encode()] = hashed, token
    except (ValueError, KeyError, TypeError, AttributeError, UnicodeError) as error:
        raise ValueError(f"tokens: {path} is not a file of tokens: {error}") from None
    return found
