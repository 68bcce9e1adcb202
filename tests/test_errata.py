"""The errata of Modi and Tewari (2020): every entry of docs/errata.md is put to the test, and the page kept honest."""

import functools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from noregret.theory import constants, radii, widths
from noregret.verification.errata import CHECKS, Finding, estimation, lower_bound, optimism, randomised

PAGE = (Path(__file__).parents[1] / "docs" / "errata.md").read_text()
ENTRIES = re.findall(r"^\*\*E(\d+)\. (.*?)\*\* \(([\w, ]+)\)\.(.*?)(?=^\*\*E|^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)


@functools.cache
def outcome(name):
    return CHECKS[name]()


@pytest.mark.parametrize("name", CHECKS)
def test_erratum(name):
    found = outcome(name)
    assert isinstance(found, Finding)
    assert found.corrected_holds, found.evidence
    assert found.printed_holds == (found.kind == "looseness"), found.evidence
    assert found.evidence
    assert "\n" not in found.evidence


# The page ----------------------------------------------------------------------------------------------------------
def test_the_page_has_every_row_once_and_in_order():
    assert [int(row) for row, *_ in ENTRIES] == list(range(1, 35))


def test_the_page_names_every_check_exactly_once():
    named = re.findall(r"test_erratum\[([\w-]+)\]", PAGE)
    assert sorted(named) == sorted(CHECKS)


def test_other_tests_named_on_the_page_exist():
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    assert all(f"def {name}(" in tests for name in re.findall(r"`(test_\w+)`", PAGE))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: f"E{e[0]}")
def test_row_and_kind_on_the_page_are_those_of_the_checks(entry):
    row, _, kinds, body = entry
    found = [outcome(name) for name in re.findall(r"test_erratum\[([\w-]+)\]", body)]
    assert all(f.row == int(row) for f in found)
    assert {f.kind for f in found} == set(kinds.split(", "))


# Sharper ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("S", range(2, 9))
@pytest.mark.parametrize("bound", [0.0, 1.0, 2.0, 4.0])
def test_curvature_by_brute_force_and_by_an_optimiser(S, bound):
    """All vertices, random points with coordinate search, and L-BFGS-B from random starts find nothing smaller."""
    exact = constants.logit_alpha_pinned(S, bound)
    corners, inside = estimation.curvature_by_brute_force(S, bound)
    assert corners == pytest.approx(exact, rel=1e-9)
    assert inside >= exact * (1 - 1e-9)
    for start in np.random.default_rng(S).uniform(-bound, bound, (3, S - 1)):
        found = minimize(
            lambda y: math.log(estimation.smallest_eigenvalue(y[None])[0]), start, bounds=[(-bound, bound)] * (S - 1)
        )
        assert math.exp(found.fun) >= exact * (1 - 1e-9)


def test_printed_curvature_fails_at_the_named_point():
    at = estimation.smallest_eigenvalue(np.array([[3.0, -3.0]]))[0]
    assert at == pytest.approx(0.002239, abs=5e-7)
    assert constants.logit_alpha_printed(3, 3.0) == pytest.approx(0.005532, abs=5e-7)


@pytest.mark.study(first=1)
@pytest.mark.parametrize("width", [1.0, 2.0, 4.0])
def test_rlsvi_is_optimistic_as_often_as_the_formula_says(width):
    """F(-sqrt w) as printed, F(-1) corrected; a difference of 5 standard errors in 20,000 plans has probability below
    1e-6. The formula does not depend on S and H."""
    for corrected, constants_ in ((False, "paper"), (True, "corrected")):
        p = stats.norm.cdf(-1.0 if corrected else -math.sqrt(width))
        assert randomised.optimism_by_formula(width, corrected, 7, 11) == pytest.approx(p, rel=1e-12)
        seen = randomised.optimism_by_simulation(width, constants_, 20_000)
        assert abs(seen - p) < 5 * math.sqrt(p * (1 - p) / 20_000)
    assert randomised.optimism_by_formula(4.0, False) == pytest.approx(0.0228, abs=5e-5)


def test_union_mass_of_the_peeling():
    assert estimation.union_mass(3, math.e) == pytest.approx(1.14, abs=0.005)
    assert estimation.union_mass(50, math.e) == pytest.approx(1.20, abs=0.005)
    assert estimation.union_mass(3, 2.0) == pytest.approx(math.pi**2 / 12, abs=1e-4)


@pytest.mark.parametrize("H", [2, 10, 100])
def test_weighted_visits_deviate_by_a_quarter_of_the_square_of_the_horizon(H):
    assert optimism.weighted_deviation(H).tolist() == pytest.approx([-H * (H - 1) / 4, H * (H - 1) / 4])


def test_coin_tail_is_binomial():
    for K, level in ((1, 1.0), (10, 4.0), (100, 25.0)):
        exact = stats.binom.sf(math.ceil((level + K) / 2) - 1, K, 0.5)
        assert optimism.coin_tail(K, 1.0, level) == pytest.approx(exact)


@pytest.mark.parametrize("H", [1, 5, 50, 500])
def test_value_gap_of_the_two_state_chain(H):
    """(1 - rho^H)/(1 - rho): bounded for delta = 1/2, linear in H for delta = 1/H."""
    for delta, eps in ((0.5, 0.1), (1 / H, 0.1 / H)):
        rho = 1 - delta - (delta - eps)
        assert lower_bound.value_gap(H, delta, eps) == pytest.approx((1 - rho**H) / (1 - rho))
    assert lower_bound.value_gap(H, 0.5, 0.1) <= 1 / (1 - 0.1) + 1e-12


def test_expected_maximum_by_simulation():
    draws = np.abs(np.random.default_rng(0).standard_normal((4000, 100))).max(1)
    assert abs(draws.mean() - randomised.expected_maximum(100)) < 5 * draws.std() / math.sqrt(4000)


@pytest.mark.parametrize(
    ("name", "module", "function", "mutant"),
    [
        ("curvature-of-the-logit", constants, "logit_alpha_pinned", lambda f: lambda *a: 1.001 * f(*a)),
        ("pinning-and-curvature", constants, "logit_alpha_centred", lambda f: lambda *a: 0.999 * f(*a)),
        ("curvature-in-a-ball", constants, "logit_alpha_pinned", lambda f: constants.logit_alpha_printed),
        ("monotone-gradient", constants, "logit_alpha_pinned", lambda f: lambda *a: 1.1 * f(*a)),
        ("reward-interval", widths, "reward_interval", lambda f: lambda w2, ld, B, lam, d: f(w2, ld, 1.0, lam, d)),
        ("norm-bound-for-b", radii, "printed", lambda f: lambda *a, **o: 0.9 * f(*a, **o)),
        ("failure-event", optimism, "coin_tail", lambda f: lambda *a: 0.5),
        ("logit-corollary", constants, "logit_alpha_pinned", lambda f: constants.logit_alpha_printed),
    ],
)
def test_checks_notice_a_wrong_correction(name, module, function, mutant, monkeypatch):
    """A check whose correction is replaced by something wrong must say so."""
    monkeypatch.setattr(module, function, mutant(getattr(module, function)))
    assert not CHECKS[name]().corrected_holds
