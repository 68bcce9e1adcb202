"""Files of plain arrays with a JSON header and a checksum over both: written by `seal`, read by `unseal`.

A file is a zip of uncompressed `.npy` members (`np.load` reads it, too). The header names the format, the version of
the library that wrote it and the SHA-256 of everything else: the header itself and, for every array in order of name,
its name, type, shape and bytes. `unseal` allocates no more than the file is long, runs nothing that the file brings
along, and refuses with one sentence whatever is not to the last bit what was written. A checksum tells damage, not
intent: whoever can write the file can write the checksum."""

import hashlib
import io
import json
import math
import os
import zipfile
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

FORMAT = 4
_LONGEST_HEADER = 2**24  # bytes
_KINDS = "biuf"  # of array types: booleans and numbers


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
    """Write `header` (an object for JSON) and `arrays` to an open file."""
    from . import __version__

    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    head = header | {"noregret": FORMAT, "version": __version__}
    head["sha256"] = digest(head, plain)
    parts: dict[str, Any] = {"header": np.frombuffer(json.dumps(head).encode(), np.uint8)} | plain
    np.savez(file, **parts)


def unseal(path: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(header, arrays) of a file that `seal` wrote; a ValueError that says what is wrong with any other."""
    with open(path, "rb") as file:  # a file that is not there is the caller's to hear of
        try:
            return _read(file, os.fstat(file.fileno()).st_size)
        except Refused as error:
            raise ValueError(f"{path} {error}") from None
        except Exception:  # whatever zip, JSON and NumPy make of damaged bytes
            raise ValueError(f"{path} is damaged: its parts cannot be read") from None


def _read(file: BinaryIO, size: int) -> tuple[dict[str, Any], dict[str, Any]]:
    foreign = "is not a file saved by noregret"
    if size == 0:
        raise Refused("is empty: it was cut short, or never written")
    if file.read(4) != b"PK\x03\x04":
        raise Refused(foreign)
    try:
        members = zipfile.ZipFile(file)
    except Exception:
        raise Refused("is damaged, or was cut short: its table of contents is missing") from None
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
    header = json.loads(_array(members.read(infos.pop("header.npy"))).tobytes())
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


def _array(data: bytes) -> Any:
    """The array in a `.npy` file of numbers, of its own."""
    stream = io.BytesIO(data)
    if npy.read_magic(stream) != (1, 0):
        raise Refused("is not as noregret writes it: an array has another format")
    shape, fortran, dtype = npy.read_array_header_1_0(stream, max_header_size=10_000)
    begins = stream.tell()
    if fortran or dtype.kind not in _KINDS or math.prod(shape) * dtype.itemsize != len(data) - begins:
        raise Refused("is not as noregret writes it: an array is of another type, order or length than it says")
    return np.frombuffer(data, dtype, offset=begins).reshape(shape).copy()
