"""Files that are there whole or not at all."""

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

try:
    import fcntl
except ImportError:  # not on this system: files that a killed process left are not told from those being written
    fcntl = None  # type: ignore[assignment]

PART = ".part"  # suffix of a file that is being written


def write_whole(path: Any, fill: Callable[[BinaryIO], Any]) -> None:
    """Have `fill` write a file beside `path`, then rename it: a crash leaves the old file or the new one, not half.

    File and folder are flushed to the disk. Until it has its name only its owner may read the file; then it has the
    permissions of the file it replaces, or of any other new file. What a killed process left beside `path` is removed;
    what another one is writing there is not."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"path must be that of a file, {target} is a folder")
    _sweep(target)
    file, temporary, mode = _begun(target)
    try:
        with file:
            fill(file)
            file.flush()
            _set_mode(file, mode)
            os.fsync(file.fileno())
            os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _flush_folder(target.parent)


def read_parquet(data: bytes) -> Any:
    """The Arrow table in the bytes of a Parquet file, its pages' checksums looked at.

    No threads: a process that ends while one of Arrow's is about to begin is aborted, all its work done."""
    import pyarrow as pa
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(pa.BufferReader(data), page_checksum_verification=True, pre_buffer=False)
    return file.read(use_threads=False)


def _begun(target: Path) -> tuple[BinaryIO, Path, int]:
    """(a new file beside `target`, locked for as long as it is open and its owner's alone; its path; the permissions it
    is to have)."""
    while True:
        temporary = target.parent / f".{target.name}.{secrets.token_hex(4)}{PART}"
        try:
            handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        except FileExistsError:
            continue
        file = os.fdopen(handle, "w+b")
        mode = stat.S_IMODE(os.fstat(handle).st_mode)  # what the system makes of 0o666: nobody's umask is touched
        with contextlib.suppress(OSError):
            mode = stat.S_IMODE(os.stat(target).st_mode)
        _set_mode(file, 0o600)
        if _mine(file) is not False and temporary.exists():
            return file, temporary, mode
        file.close()  # somebody took it for a file left behind, before it was locked
        temporary.unlink(missing_ok=True)


def _set_mode(file: BinaryIO, mode: int) -> None:
    if hasattr(os, "fchmod"):
        os.fchmod(file.fileno(), mode)


def _mine(file: BinaryIO) -> bool | None:
    """Whether nobody else has this file locked, and now it is by us; None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _sweep(target: Path) -> None:
    """Remove what killed processes left of earlier versions of `target`: nobody has it locked."""
    left = re.compile(re.escape(f".{target.name}.") + "[a-z0-9_]{8}" + re.escape(PART))
    with contextlib.suppress(OSError):  # no such folder: the caller will hear of it
        for name in [n for n in os.listdir(target.parent) if left.fullmatch(n)]:
            with contextlib.suppress(OSError), open(target.parent / name, "rb") as file:
                if _mine(file):
                    os.unlink(target.parent / name)


def _flush_folder(folder: Path) -> None:
    """Have the disk know of a rename; where a system cannot do that, nothing."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
