"""Every public name has a docstring that begins with a sentence, and an example that the suite runs."""

import ast
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


def public(home):
    """The public names of a package or module: those it lists, or else those it defines without an underscore."""
    if "__all__" in vars(home):
        return list(home.__all__)
    found = []
    for node in ast.parse(inspect.getsource(home) if hasattr(home, "__file__") else "").body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.extend(target.id for target in targets if isinstance(target, ast.Name))
    return [name for name in found if not name.startswith("_")]


def exported(package):
    """The modules among the public names of a package, not the packages below it."""
    things = (getattr(package, name) for name in public(package))
    return [thing.__name__ for thing in things if inspect.ismodule(thing) and not hasattr(thing, "__path__")]


MODULES = sorted({module for package in PACKAGES for module in exported(importlib.import_module(package))})
NAMES = [(home, name) for home in PACKAGES + MODULES for name in public(importlib.import_module(home))]
WITHOUT = {("noregret.gym", "Env"): "gymnasium"}  # what is not there without an extra

# One line: a capital, a number or a quoted name first, three words at least, a full stop at the end.
SENTENCE = re.compile(r"[A-Z0-9`](?=\S* \S+ \S).*\.")


def examples(text, name):
    """The examples in a docstring, as the suite finds them."""
    return doctest.DocTestParser().get_examples(text or "", name)


def complaint(name, thing, home):
    """What is wrong with the documentation of `thing`, the public `name` of the module `home`; None if nothing is.

    A module that is re-exported needs a docstring but no example of its own: its public names are looked at themselves.
    A constant, which has no docstring, has its example in that of `home`."""
    if inspect.ismodule(thing):
        return None if thing.__doc__ and public(thing) else "a module without a docstring or without public names"
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
    assert {f"noregret.theory.{name}" for name in noregret.theory.__all__} <= set(MODULES)
    assert "noregret.worlds.contexts" in MODULES
    assert len(NAMES) > 190


def test_public_names_of_a_module_are_its_own():
    """Functions, classes and constants; not what it imports, nor what begins with an underscore."""
    contexts, constants, bounds = noregret.contexts, noregret.theory.constants, noregret.theory.bounds
    assert set(public(contexts)) == {"Contexts", "Sphere", "Simplex", "Table", "Cycle", "Adversary"}
    assert {"LOGIT_BETA", "LOGIT_L1", "linear_l1"} < set(public(constants))
    assert not {"formula", "math"} & set(public(constants))
    assert {"RANDOM_OPTIMISM", "Growth", "mistakes", "mistakes_printed"} < set(public(bounds))  # it lists them


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


def test_dir_lists_the_public_names_and_nothing_else():
    assert set(dir(noregret)) == {*noregret.__all__, "gym", "report", "__version__"}


@pytest.mark.parametrize("name", ["simulate", "GLMORL", "Plan", "Encoder", "Problem", "Live"])
def test_signatures_in_help_are_short_and_narrow(name):
    text = str(inspect.signature(getattr(noregret, name)))
    assert max(map(len, text.splitlines())) <= 80
    for noise in ("numpy", "ndarray", "typing", "collections", "noregret."):
        assert noise not in text


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
        (ModuleType("new", "What it holds."), "module"),
        ({}, "constant"),
        (function("What it does.\n\n>>> 1 + 1\n2\n"), None),
        (noregret.agents, None),
    ],
)
def test_complaints(thing, wanted):
    said = complaint("new", thing, noregret)
    assert said is None if wanted is None else wanted in said


@pytest.mark.parametrize(("home", "name"), NAMES)
def test_help_shows_types_by_their_own_names(home, name):
    """Inherited methods, too: numpy's ArrayLike is a union of nine, and nobody can read that."""
    if find_spec(WITHOUT.get((home, name), "noregret")) is None:
        return
    thing = getattr(importlib.import_module(home), name)
    shown = [thing, *(getattr(thing, key) for key in dir(thing) if not key.startswith("_"))]
    for one in filter(inspect.isroutine, shown) if not inspect.isclass(thing) else filter(callable, shown):
        try:
            text = str(inspect.signature(one))
        except (TypeError, ValueError):  # what is not written in Python
            continue
        assert "numpy._typing" not in text, f"{home}.{name}: {one}"


def test_help_says_what_options_are_for():
    """By a sentence of the option's own, or by a line of the class."""
    for name in ("CertifiedPSRL", "PSRLGLM", "LRORL", "GLMORL"):
        kind = getattr(noregret, name)
        for option, made in kind.declared.items():
            said = inspect.getdoc(made)
            assert f"Unless given: {made.default!r}." in said
            assert not said.startswith("See above") or re.search(rf"^\s*{option}\b", kind.__doc__, re.M), (name, option)
