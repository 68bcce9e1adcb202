"""Files that are there whole or not at all."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

PART = ".part"  # suffix of a file that is being written


def write_whole(path: Any, fill: Callable[[BinaryIO], Any]) -> None:
    """Have `fill` write a file beside `path`, then rename it: a crash leaves the old file or the new one, not half."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=PART)
    try:
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # as any other file the user writes
        with os.fdopen(handle, "wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
