"""The package is typed: whoever is no kernel has annotations, and what mypy is told to forgive is kernels alone."""

import ast
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

import noregret

ROOT = Path(__file__).parents[1]
PACKAGE = Path(noregret.__file__).parent
KERNELS = {"kernel", "strict", "inlined", "entrance"}  # their types are Numba's, found from the arguments of a call


def untyped():
    """Module, name and decorators of every function that lacks an annotation."""
    for file in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                of = node.args
                every = [*of.posonlyargs, *of.args, *of.kwonlyargs, of.vararg, of.kwarg]
                given = [a for a in every if a is not None and a.arg not in ("self", "cls")]
                says = node.returns is not None or node.name == "__init__"
                if not (says and all(a.annotation for a in given)):
                    yield module, node.name, {ast.unparse(d).split("(")[0] for d in node.decorator_list}


@pytest.mark.long
def test_only_kernels_go_without_annotations():
    others = [(module, name) for module, name, decorators in untyped() if not decorators & KERNELS]
    assert [f"{module}.{name}" for module, name in others if not module.startswith("noregret.compiler.")] == []


@pytest.mark.long
def test_mypy_forgives_missing_annotations_only_where_there_are_kernels():
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    (forgiven,) = [o["module"] for o in overrides if o.get("disallow_untyped_defs") is False]
    modules = {module for module, _, _ in untyped()}
    assert [pattern for pattern in forgiven if not any(fnmatch(module, pattern) for module in modules)] == []
