"""What the fuzz tests share: values nobody should pass, and what must come of a call with them."""

import decimal
import fractions
import math
import resource
import warnings
from contextlib import contextmanager

import numpy as np
from hypothesis import strategies as st

ROOM = 3 * 2**30  # bytes that one call may take beyond what the process has

NUMBERS = [
    None, True, False, 0, 1, 2, 3, -1, 2.5, -0.5, 0.5, math.nan, math.inf, -math.inf, 1e308, 1e-320, 1e-290, 1e-200,
    1e-30, 1e30, -0.0, 10**6, 10**9, 10**12, 10**18, 2**63, 10**400, -(10**400), 1j, np.int8(1), np.int64(2),
    np.uint64(2**63), np.float32(0.5), np.float64(0.25), np.float64("nan"), np.bool_(True), np.complex128(1j),
    np.longdouble(0.5), fractions.Fraction(1, 3), decimal.Decimal("0.3"), decimal.Decimal("nan"),
]  # fmt: skip
TEXTS = [
    "",
    "x",
    "0.5",
    "1",
    "nan",
    "logit",
    "corrected",
    "raise",
    "random",
    "\0",
    "ä" * 300,
    b"",
    b"0.5",
    np.str_("x"),
]
ARRAYS = [
    np.array(0.5), np.array(1), np.array([]), np.zeros((0, 3)), np.zeros((3, 0)), np.array([0.5]), np.array([1.0, 2.0]),
    np.array([0.6, 0.8]), np.ones((2, 2)), np.full((2, 3), math.nan), np.array([math.inf, 0.0]), np.array([[[1]]]),
    np.ones((3, 2), bool), np.zeros((3, 2, 3), bool), np.zeros((3, 2, 3), int), np.full((3, 2, 3), 7),
    np.array([1j, 0]),
    np.array(["a", "b"]), np.array(["0.5", "1"]), np.array([None, "a"], object), np.array([1, 2.5], object),
    np.array([10**400, 0], object), np.array([[1, 2], [3]], object), np.array(["2020-01-01"], "datetime64[D]"),
    np.array([b"a"]), np.zeros(3, "i4,f8"), np.array([1.0, 2.0], np.float16), np.array([0.6, 0.8], ">f8"),
    np.ma.masked_array([0.6, 0.8], [True, False]), np.zeros((100, 100)),
]  # fmt: skip
THINGS = [
    [], (), [[]], [[1, 2], [3]], [1, [2]], [None], ["a"], [0.6, 0.8], (0, 1), [[0.6, 0.8]], {}, {"a": 1}, {"x": [1, 2]},
    set(), {1, 2}, frozenset(), object(), int, len, lambda *a: 0, lambda *a: None, range(3), slice(None), ...,
    NotImplemented, bytearray(b"x"), memoryview(b"x"),
    Exception("x"), [10**400], [float("nan")] * 2, "a" * 5000, [0] * 5000,
]  # fmt: skip
POOL = NUMBERS + TEXTS + ARRAYS + THINGS
garbage = st.sampled_from(range(len(POOL))).map(POOL.__getitem__)
numbers = st.sampled_from(range(len(NUMBERS))).map(NUMBERS.__getitem__)


@contextmanager
def limited():
    """Warnings are errors, and memory beyond ROOM is refused."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def sentence(error, names):
    """That `error` is one sentence of ours about one of these arguments."""
    said = str(error)
    assert type(error) in (ValueError, RuntimeError), f"{type(error).__name__}: {said}"
    assert said, repr(error)
    assert "\n" not in said, said
    assert len(said) <= 800, said
    assert any(name in said for name in names), f"none of {names} in: {said}"


def attempt(function, *args, names, out_of_order=False, **options):
    """What `function` returns; or None, where it refuses with one sentence about one of `names`."""
    refused = (ValueError, RuntimeError) if out_of_order else ValueError
    with limited():
        try:
            return function(*args, **options)
        except refused as error:
            problem = error
    sentence(problem, names)
    return None
