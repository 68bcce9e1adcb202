"""Second-order bounds of the softmax: random attacks that could refute them, and the cases that attain them."""

import decimal
import math

import numpy as np
import pytest

from noregret.compiler.jit import kernel
from noregret.theory import widths


def softmax(z):
    p = np.exp(z - z.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


@kernel
def compiled(r, out):
    for i in range(r.shape[0]):
        out[i, 0], out[i, 1] = widths.lower_curvature(r[i]), widths.upper_curvature(r[i])


def test_both_against_fifty_digits():
    decimal.getcontext().prec = 50
    points = np.concatenate(([0.0, 0.5, np.nextafter(0.5, 0)], 10.0 ** np.linspace(-12, 2.8, 300)))
    out = np.zeros((points.size, 2))
    compiled(points, out)
    for r, (low, high) in zip(points, out, strict=True):
        x = decimal.Decimal(float(r))
        if r < 1e-6:  # 50 digits are not enough for the quotient; the first terms of the series are
            exact = (1 / decimal.Decimal(2) - x / 6 + x * x / 24, 1 / decimal.Decimal(2) + x / 6 + x * x / 24)
        else:
            exact = (((-x).exp() + x - 1) / x**2, (x.exp() - x - 1) / x**2)
        for value, right in zip((low, high), exact, strict=True):
            assert abs(value / float(right) - 1.0) < 2e-15
        assert low == pytest.approx(widths.lower_curvature(float(r)), rel=2e-15)
        assert high == pytest.approx(widths.upper_curvature(float(r)), rel=2e-15)
        assert low >= 1.0 / (2.0 + r) * (1.0 - 1e-15)


def test_they_survive_what_overflows():
    assert widths.lower_curvature(0.0) == widths.upper_curvature(0.0) == 0.5
    assert widths.lower_curvature(1e300) == pytest.approx(1e-300)
    assert widths.lower_curvature(math.inf) == 0.0
    assert math.isfinite(widths.upper_curvature(699.9))
    assert (
        widths.upper_curvature(700.0) == widths.upper_curvature(1e308) == widths.upper_curvature(math.inf) == math.inf
    )


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_second_order_bounds_hold(n):
    """Lower and upper curvature of logsumexp, second-order error and total change of a mean: 20,000 attacks each,
    three in four of them at the extremes (two values of v, of V, nearly deterministic p)."""
    g, N = np.random.default_rng(n), 20_000
    scale = 10.0 ** g.uniform(-2, 1.2, (N, 1))
    z = 10.0 ** g.uniform(-1, 1.2, (N, 1)) * g.standard_normal((N, n))
    v = np.where(g.random((N, 1)) < 0.5, g.standard_normal((N, n)), g.integers(0, 2, (N, n))) * scale
    V = np.where(g.random((N, 1)) < 0.5, g.random((N, n)), g.integers(0, 2, (N, n)))
    p, q = softmax(z), softmax(z + v)
    r, span = np.ptp(v, axis=1), np.ptp(V, axis=1)
    low = np.array([widths.lower_curvature(x) for x in r])
    high = np.array([widths.upper_curvature(x) for x in r])
    mean = (p * v).sum(1)
    centred = v - mean[:, None]
    var, cov = (p * centred**2).sum(1), (p * V * centred).sum(1)
    excess = np.log1p((p * (np.expm1(centred) - centred)).sum(1))  # ln sum p e^centred, hardly any cancellation
    slack = 1e-11 * var + 1e-15 * (p * np.abs(centred)).sum(1)
    assert (excess >= low * var - slack).all()
    assert (excess <= high * var + slack).all()
    change = ((q - p) * V).sum(1)
    assert (np.abs(change - cov) <= span * high * var + 1e-13 * (1 + r)).all()
    assert (np.abs(change) <= span * np.tanh(r / 4) + 1e-13).all()


@pytest.mark.parametrize("r", [0.01, 0.3, 0.7, 2.0, 6.0])
def test_they_are_attained_by_two_outcomes(r):
    """No smaller upper, no larger lower curvature is true: the mass of one outcome tends to zero."""
    eps = 1e-13
    var = eps * (1 - eps) * r * r
    up = math.log1p(eps * math.expm1(r)) - eps * r
    assert up == pytest.approx(widths.upper_curvature(r) * var, rel=1e-3)
    down = math.log1p(eps * math.expm1(-r)) + eps * r
    assert down == pytest.approx(widths.lower_curvature(r) * var, rel=1e-3)
    moved = eps * math.exp(r) / (1.0 + eps * math.expm1(r))
    assert moved - eps - eps * (1 - eps) * r == pytest.approx(widths.upper_curvature(r) * var, rel=1e-3)
    half = 1.0 / (1.0 + math.exp(-r / 2))
    assert half - (1.0 - half) == pytest.approx(math.tanh(r / 4), rel=1e-12)
