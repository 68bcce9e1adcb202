"""Doctests are collected from the whole package, for `make test`; what needs an extra is left out, or skipped, without
it."""

from importlib.util import find_spec
from typing import Any

import pytest

collect_ignore = [] if find_spec("gymnasium") else ["src/noregret/gym/env.py"]  # cannot even be imported

# Examples, by the beginnings of their names, and the package each of them imports or reads
NEEDED = {
    "noregret.gym.playing.": "gymnasium",
    "noregret.gym.worlds.": "gymnasium",
    "noregret.worlds.icu.SepsisTables": "icu_sepsis",
    "noregret.worlds.icu.icu_sepsis": "icu_sepsis",
    "noregret.worlds.icu.sepsis_tables": "icu_sepsis",
}

LONG = ("noregret.report.page.", "noregret.report.trial.")  # they start processes, as tests/test_report.py does


@pytest.hookimpl(tryfirst=True)  # before those that are not asked for are left out
def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            item.add_marker(pytest.mark.long if item.name.startswith(LONG) else pytest.mark.deep)
            for start, package in NEEDED.items():
                if item.name.startswith(start) and not find_spec(package):
                    item.add_marker(pytest.mark.skip(reason=f"{package} is not installed"))
