"""What a file may cost before it is refused. (What else may be wrong with one: test_files.py.)"""

import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from noregret.storage import archive as _sealed
from noregret.storage.archive import seal, unseal

COST = """
import sys, time
from noregret.storage.archive import unseal

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))

before, start = peak(), time.process_time()
try:
    unseal(sys.argv[1])
except ValueError as error:
    print((peak() - before) // 1000, time.process_time() - start, error)
"""


def npy(data):
    file = io.BytesIO()
    np.save(file, np.frombuffer(data, np.uint8))
    return file.getvalue()


def packed(path, header, more=0):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("header.npy", npy(header))
        nothing = npy(b"")
        for i in range(more):
            file.writestr(f"{i:x}.npy", nothing)


def told(inner):
    head = json.dumps({"noregret": _sealed.FORMAT, "version": "0", "sha256": "0"}).encode()
    return head[:-1] + b', "people": [' + inner.removesuffix(b",") + b"]}"


@pytest.mark.long
@pytest.mark.deep
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
@pytest.mark.parametrize(
    ("piece", "times", "more", "said"),
    [
        (b"[],", 5_000_000, 0, "too many entries"),
        (b'{"a":{}},', 1_666_666, 0, "too many entries"),
        (b"[],", 1_000_000, 0, "its checksum is not that of its contents"),  # as many as are read at all
        (b"1.5,", 2_700_000, 0, "its checksum is not that of its contents"),
        ('"\U0001f600",'.encode(), 2_000_000, 0, "its header is not plain text"),
        (b"1", 15_000_000, 0, "a number in its header has 15,000,000 digits"),
        (b"", 0, 60_000, "its checksum is not that of its contents"),
        (b"", 0, 70_000, "it has more than 65534 parts"),
    ],
    ids=["lists", "objects", "fewer lists", "numbers", "wide text", "digits", "parts", "more parts"],
)
def test_a_header_of_15_MB_does_not_take_200(tmp_path, piece, times, more, said):
    """Memory and processor time of a process that reads it. A 15 MB header of empty lists took 390 MB."""
    packed(tmp_path / "a.npz", told(piece * times), more)
    command = [sys.executable, "-c", COST, str(tmp_path / "a.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    megabytes, seconds, sentence = done.stdout.split(" ", 2)
    assert said in sentence
    assert int(megabytes) < 200
    print(f"{megabytes} MB, {float(seconds):.1f} s")


def test_what_could_not_be_read_is_not_written(monkeypatch):
    with pytest.raises(ValueError, match="a whole number of more than 4,300 digits cannot be saved"):
        seal(io.BytesIO(), {"who": 10**10_000}, {})
    monkeypatch.setattr(_sealed, "_LARGEST_HEADER", 1000)
    with pytest.raises(ValueError, match="more to save than a file may hold"):
        seal(io.BytesIO(), {"people": [{}] * 10}, {})


@pytest.mark.parametrize("shape", [(), (1,), (3,), (0,), (2, 3), (2, 0, 4), (1,) * 20])
@pytest.mark.parametrize("kind", [np.float64, np.int64, np.uint8, np.bool_, np.int32, ">f8"])
def test_arrays_of_every_kind_come_back(tmp_path, shape, kind):
    array = np.arange(int(np.prod(shape, dtype=int))).reshape(shape).astype(kind)
    with open(tmp_path / "a.npz", "wb") as file:
        seal(file, {"holds": "x"}, {"a": array})
    header, arrays = unseal(tmp_path / "a.npz")
    assert header["holds"] == "x"
    assert arrays["a"].dtype == array.dtype
    assert arrays["a"].shape == shape
    assert np.array_equal(arrays["a"], array)


def test_an_odd_shape_takes_no_time(tmp_path):
    """Digits without end in the place of a shape: the reader must not try every way to part them."""
    array = b"\x93NUMPY\x01\x00\xff\x0f{'descr': '<f8', 'fortran_order': False, 'shape': (" + b"1" * 4000 + b"x"
    header = json.dumps({"noregret": _sealed.FORMAT, "sha256": "0"}).encode()
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("header.npy", npy(header))
        file.writestr("a.npy", array)
    with pytest.raises(ValueError, match="another type, order or length than it says"):
        unseal(tmp_path / "a.npz")
