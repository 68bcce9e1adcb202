"""The random numbers: a published known answer, independence of order, uniformity with computed error probabilities."""

import numpy as np
import pytest
from scipy import stats

from noregret.numerics.random import mix, normals, philox, uniforms


@pytest.mark.parametrize(
    ("key", "counter", "answer"),
    [  # Random123 1.14, kat_vectors, philox4x32 10
        ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0xA4093822, 0x299F31D0),
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(key, counter, answer):
    words = [np.uint64(v) for v in (*key, *counter)]
    assert tuple(int(v) for v in philox(*words)) == answer


def test_plain_python_gives_the_same():
    assert normals(12345678901234, 2**40 + 7, 3, 5) == normals.py_func(12345678901234, 2**40 + 7, 3, 5)


def test_uniform_and_normal():
    """Kolmogorov-Smirnov at level 1e-6 each, fixed seeds."""
    u = np.array([uniforms(3, k, h, 1) for k in range(2000) for h in range(5)])
    assert u.min() >= 0
    assert u.max() < 1
    assert stats.kstest(u.ravel(), "uniform").pvalue > 1e-6
    assert abs(np.corrcoef(u.T)[0, 1]) < 5 / np.sqrt(len(u))
    z = np.array([normals(3, k, 0, 5) for k in range(5000)]).ravel()
    assert stats.kstest(z, "norm").pvalue > 1e-6


def test_every_argument_matters():
    base = uniforms(1, 2, 3, 4)
    assert len({base, uniforms(2, 2, 3, 4), uniforms(1, 3, 3, 4), uniforms(1, 2, 4, 4), uniforms(1, 2, 3, 5)}) == 5


def test_mix_spreads_ties_evenly():
    """Chi-square over three actions, level 1e-6."""
    counts = np.bincount(
        [(int(mix(np.uint64(key), i)) * 3) >> 32 for key in range(0, 2**32, 2**32 // 997) for i in range(20)]
    )
    assert stats.chisquare(counts).pvalue > 1e-6
