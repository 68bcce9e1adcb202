"""The import contract: rooms stand in the order of an episode, and a room knows only those before it."""

import ast
import functools
from pathlib import Path

import pytest

import noregret

PACKAGE = Path(noregret.__file__).parent

# Rooms on one line stand side by side and do not know each other.
ORDER = [
    {"checks"},
    {"compiler"},
    {"theory", "storage", "numerics"},
    {"problem", "journal"},
    {"beliefs"},
    {"estimators"},
    {"planning"},
    {"agents", "worlds"},  # the learner and the truth
    {"simulation", "evidence"},  # where they meet; what can be said where nobody knows the truth
    {"live", "studies", "gym", "verification"},
    {"report"},
    {"service"},
    {"cli"},
]
FLOOR = {room: floor for floor, rooms in enumerate(ORDER) for room in rooms}
NEVER = {
    "worlds": {"estimators"},
    "gym": {"agents", "simulation"},
    "live": {"worlds", "simulation"},
    "evidence": {"worlds", "simulation"},
    "service": {"worlds"},
}
NUMBA = ("compiler",)  # who may know its inside


def modules():
    """Module -> file, with dotted names below the package; a package is its `__init__`."""
    found = {}
    for file in PACKAGE.rglob("*.py"):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


MODULES = modules()


def imported(module):
    """The modules of the package that a module imports, at its top or inside a function."""
    file = MODULES[module]
    here = [part for part in module.split(".") if part]
    here = here if file.name == "__init__.py" else here[:-1]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            start = here[: len(here) - node.level + 1]
            whole = ".".join(start + ([node.module] if node.module else []))
            for name in node.names:
                inner = f"{whole}.{name.name}".strip(".")
                yield inner if inner in MODULES else whole


@functools.cache  # not at the import: every worker collects this file, and few run it
def graph():
    return {module: set(imported(module)) - {module} for module in MODULES}


def test_three_modules_stand_at_the_root():
    assert {file.name for file in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py", "checks.py"}


def test_every_folder_is_a_room_of_the_contract():
    assert {file.parent.name for file in PACKAGE.glob("*/__init__.py")} | {"checks"} == set(FLOOR)


@pytest.mark.parametrize("room", sorted(FLOOR))
def test_a_room_knows_only_those_before_it(room):
    for module in MODULES:
        for other in graph()[module] if module.split(".")[0] == room else ():
            there = other.split(".")[0]
            if there != room:
                assert there in FLOOR, f"{module} imports {other or 'the package itself'}"
                assert FLOOR[there] < FLOOR[room], f"{module} imports {other}, which does not come before it"
                assert there not in NEVER.get(room, ()), f"{module} imports {other}"


def test_nothing_is_imported_in_a_circle():
    """Imports inside functions count, so that none of them hides one."""
    done, under_way = set(), []

    def visit(module):
        assert module not in under_way, " -> ".join([*under_way[under_way.index(module) :], module])
        if module not in done:
            under_way.append(module)
            for other in graph()[module]:
                visit(other)
            under_way.pop()
            done.add(module)

    for module in MODULES:
        visit(module)


@pytest.mark.long
def test_only_the_compiler_knows_the_inside_of_numba():
    for module, file in MODULES.items():
        if not module.startswith(NUMBA):
            for node in ast.walk(ast.parse(file.read_text())):
                names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
                assert not any(name.split(".")[0] in ("numba", "llvmlite") for name in names), module


@pytest.mark.long
def test_other_rooms_ask_agents_by_public_names():
    after = {room for room, floor in FLOOR.items() if floor > FLOOR["agents"]}
    for module in MODULES:
        for node in ast.walk(ast.parse(MODULES[module].read_text())) if module.split(".")[0] in after else ():
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                owner = ast.unparse(node.value)
                assert owner.split(".")[-1] not in ("agent", "player", "twin"), f"{module}: {owner}.{node.attr}"
