"""Every public name has a docstring that begins with a sentence, and an example that the suite runs."""

import doctest
import importlib
import inspect
import pkgutil
import re
from importlib.util import find_spec
from types import ModuleType

import pytest

import noregret

PACKAGES = ["noregret"] + [
    f"noregret.{found.name}"
    for found in pkgutil.iter_modules(noregret.__path__)
    if found.ispkg and "__all__" in vars(importlib.import_module(f"noregret.{found.name}"))
]
NAMES = [(package, name) for package in PACKAGES for name in importlib.import_module(package).__all__]
WITHOUT = {("noregret.gym", "Env"): "gymnasium"}  # what is not there without an extra

# One line: a capital, a number or a quoted name first, three words at least, a full stop at the end.
SENTENCE = re.compile(r"[A-Z0-9`](?=\S* \S+ \S).*\.")


def examples(text, name):
    """The examples in a docstring, as the suite finds them."""
    return doctest.DocTestParser().get_examples(text or "", name)


def complaint(name, thing, home):
    """What is wrong with the documentation of `thing`, the public `name` of the module `home`; None if nothing is.

    A module that is re-exported needs no example of its own if its names are public ones themselves, and otherwise one
    in its docstring; so does a constant, which has no docstring, in that of `home`."""
    if inspect.ismodule(thing):
        return None if "__all__" in vars(thing) or examples(thing.__doc__, name) else "a module without an example"
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        shown = [e for e in examples(home.__doc__, name) if re.search(rf"\b{name}\b", e.source)]
        return None if shown else f"a constant without an example in the docstring of {home.__name__}"
    if not SENTENCE.fullmatch((thing.__doc__ or "").strip().split("\n")[0]):
        return "the first line of the docstring is not a sentence"
    found = examples(thing.__doc__, name)
    if not any(e.want for e in found):
        return "no example with an output"
    if any(doctest.SKIP in e.options for e in found):
        return "an example that is skipped"
    return None


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_documented(package, name):
    needed = WITHOUT.get((package, name))
    if needed and not find_spec(needed):
        pytest.skip(f"{needed} is not installed")
    home = importlib.import_module(package)
    said = complaint(name, getattr(home, name), home)
    assert said is None, f"{package}.{name}: {said}"


def test_all_packages_are_looked_at():
    wanted = {"agents", "estimators", "gym", "report", "simulation", "studies", "theory", "worlds"}
    assert {f"noregret.{name}" for name in wanted} | {"noregret"} <= set(PACKAGES)
    assert len(NAMES) > 120


def test_the_suite_finds_the_examples():
    """pytest looks where doctest does: in the module a thing was defined in, below its own name."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for package, name in NAMES:
        if (package, name) in WITHOUT and not find_spec(WITHOUT[package, name]):
            continue
        thing = getattr(importlib.import_module(package), name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            found = finder.find(importlib.import_module(thing.__module__))
            assert f"{thing.__module__}.{name}" in {test.name for test in found if test.examples}, name


def function(text):
    def new():
        pass

    new.__doc__ = text
    return new


@pytest.mark.parametrize(
    ("thing", "wanted"),
    [
        (function(None), "sentence"),
        (function("What it does."), "no example"),
        (function("what it does\n\n>>> 1 + 1\n2\n"), "sentence"),
        (function("What it does.\n\n>>> answer = 1 + 1\n"), "no example"),
        (function("What it does.\n\n>>> 1 + 1  # doctest: +SKIP\n3\n"), "skipped"),
        (type("Child", (noregret.Problem,), {}), "sentence"),  # the parent's docstring is not its own
        (ModuleType("new"), "module"),
        ({}, "constant"),
        (function("What it does.\n\n>>> 1 + 1\n2\n"), None),
        (noregret.agents, None),
    ],
)
def test_complaints(thing, wanted):
    said = complaint("new", thing, noregret)
    assert said is None if wanted is None else wanted in said
