"""Files of plain arrays with a JSON header and a checksum over both: written by `seal`, read by `unseal`.

A file is a zip of uncompressed `.npy` members (`np.load` reads it, too). The header names the format, the version of
the library that wrote it and the SHA-256 of everything else: the header itself and, for every array in order of name,
its name, type, shape and bytes. `unseal` takes for arrays no more than the file is long, and for the rest no more than
some 150 MB whatever the file says (`seal` writes nothing that needs more); it runs nothing that the file brings along,
and refuses with one sentence whatever is not to the last bit what was written. A checksum tells damage, not intent:
whoever can write the file can write the checksum."""

import hashlib
import io
import json
import math
import os
import re
import zipfile
from typing import Any, BinaryIO

import numpy as np

FORMAT = 5
_LONGEST_HEADER = 2**24  # bytes
_LARGEST_HEADER = 2**27  # bytes of memory that its objects take
_MOST_PARTS = 2**16 - 2
_LONGEST_CONTENTS = 2**23  # bytes of the zip's table of contents
_MOST_DIGITS = 4300  # of a whole number in the header: what Python converts unless told otherwise
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<>|][biuf][0-9]{1,2})', 'fortran_order': False, "
    rb"'shape': \(((?:[0-9]{1,19}(?:,|(?:, [0-9]{1,19}){1,63}))?)\), \} *\n",
    re.DOTALL,
)  # arrays of booleans and numbers, as NumPy writes them


class Refused(ValueError):
    """Why a file is not taken; the sentence lacks its subject, the path."""


def digest(header: dict[str, Any], arrays: dict[str, Any]) -> str:
    """SHA-256 over a header and arrays."""
    made = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        made.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        made.update(array.data if array.size else b"")
    return made.hexdigest()


def seal(file: BinaryIO, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write `header` (an object for JSON) and `arrays` to an open file; a ValueError where `unseal` would not take
    it."""
    from .version import __version__

    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    head = header | {"noregret": FORMAT, "version": __version__}
    try:
        head["sha256"] = digest(head, plain)
        text = json.dumps(head).encode()
    except ValueError as error:  # JSON has a limit for numbers, and says so in words about Python
        if "digits" not in str(error):
            raise
        raise ValueError(f"a whole number of more than {_MOST_DIGITS:,} digits cannot be saved") from None
    if len(plain) >= _MOST_PARTS or len(text) > _LONGEST_HEADER or _weight(text) > _LARGEST_HEADER:
        raise ValueError("there is more to save than a file may hold: too many people are open at a time")
    parts: dict[str, Any] = {"header": np.frombuffer(text, np.uint8)} | plain
    np.savez(file, **parts)


def unseal(path: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(header, arrays) of a file that `seal` wrote; a ValueError that says what is wrong with any other."""
    with open(path, "rb") as file:  # a file that is not there is the caller's to hear of
        return _taken(str(path), file, os.fstat(file.fileno()).st_size)


def unseal_bytes(data: bytes, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same of a file's bytes; `name` is what they are called in a sentence."""
    return _taken(name, io.BytesIO(data), len(data))


def _taken(name: str, file: BinaryIO, size: int) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        return _read(file, size)
    except Refused as error:
        raise ValueError(f"{name} {error}") from None
    except Exception:  # whatever zip, JSON and NumPy make of damaged bytes
        raise ValueError(f"{name} is damaged: its parts cannot be read") from None


def _read(file: BinaryIO, size: int) -> tuple[dict[str, Any], dict[str, Any]]:
    foreign = "is not a file saved by noregret"
    if size == 0:
        raise Refused("is empty: it was cut short, or never written")
    if file.read(4) != b"PK\x03\x04":
        raise Refused(foreign)
    _look_at_the_end(file, size)
    try:
        members = zipfile.ZipFile(file)
    except Exception:
        raise Refused(_CUT) from None
    if len(members.infolist()) > _MOST_PARTS:
        raise Refused(_CROWDED)
    infos = {info.filename: info for info in members.infolist()}
    if len(infos) < len(members.infolist()):
        raise Refused("is damaged: a part is there twice")
    if "header.npy" not in infos:
        raise Refused(foreign)
    plain = all(i.compress_type == zipfile.ZIP_STORED and i.file_size == i.compress_size for i in infos.values())
    if not plain or sum(i.file_size for i in infos.values()) > size:
        raise Refused("is not as noregret writes it: a part is compressed, or claims to be longer than the file")
    if infos["header.npy"].file_size > _LONGEST_HEADER:
        raise Refused(f"is not as noregret writes it: its header is longer than {_LONGEST_HEADER} bytes")
    header = _header(members.read(infos.pop("header.npy")))
    number = header.get("noregret") if isinstance(header, dict) else None
    if isinstance(number, bool) or not isinstance(number, int):
        raise Refused(foreign)
    if number != FORMAT:
        age = "a newer" if number > FORMAT else "an older"
        raise Refused(
            f"has format {number}, of {age} version of noregret ({header.get('version', 'unknown')}); this one reads "
            f"format {FORMAT}"
        )
    arrays = {name.removesuffix(".npy"): _array(members.read(info)) for name, info in infos.items()}
    told = header.pop("sha256", None)
    if told != digest(header, arrays):
        raise Refused("is damaged: its checksum is not that of its contents")
    return header, arrays


_CUT = "is damaged, or was cut short: its table of contents is missing"
_CROWDED = f"is not as noregret writes it: it has more than {_MOST_PARTS} parts"


def _look_at_the_end(file: BinaryIO, size: int) -> None:
    """Before the table of contents is read: whether it is of a size that noregret writes."""
    file.seek(max(size - 42, 0))
    end = file.read(42)
    if len(end) < 42 or end[20:24] != b"PK\x05\x06" or end[40:] != b"\0\0":
        raise Refused(_CUT)
    long_form = end[:4] == b"PK\x06\x07"  # has a count and a length of its own
    if int.from_bytes(end[32:36], "little") > _LONGEST_CONTENTS or (long_form and size < 2**32 - 1):
        raise Refused(_CROWDED)


def _weight(text: bytes) -> int:
    """About how many bytes of memory the objects in this JSON text take, from its brackets and commas."""
    return 88 * text.count(b"[") + 200 * text.count(b"{") + 40 * (text.count(b",") + text.count(b":"))


def _header(data: bytes) -> Any:
    text = data[_begins(data)[2] :]
    del data
    if not text.isascii() or _weight(text) > _LARGEST_HEADER:
        raise Refused("is not as noregret writes it: its header is not plain text, or has too many entries")
    return json.loads(text, parse_int=_whole)


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise Refused(f"is not as noregret writes it: a number in its header has {len(digits):,} digits")
    return int(digits)


def _begins(data: bytes) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """(type, shape, first byte of the numbers) of the array in a `.npy` file, as long as that says."""
    if data[:8] != b"\x93NUMPY\x01\x00":
        raise Refused("is not as noregret writes it: an array has another format")
    found = _NPY.match(data)
    if found is not None:
        dtype, shape = np.dtype(found[1].decode()), tuple(int(n) for n in found[2].replace(b",", b" ").split())
        if math.prod(shape) * dtype.itemsize == len(data) - found.end():
            return dtype, shape, found.end()
    raise Refused("is not as noregret writes it: an array is of another type, order or length than it says")


def _array(data: bytes) -> Any:
    """The array in a `.npy` file of numbers, of its own."""
    dtype, shape, begins = _begins(data)
    return np.frombuffer(data, dtype, offset=begins).reshape(shape).copy()
