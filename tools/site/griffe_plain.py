"""Docstrings as Markdown, when mkdocstrings collects them. Nothing is imported: griffe reads the source.

Names between backticks become links where they mean one thing that docs/api describes: `simulate`, `World.individual`,
`theory.radii`."""

import re
import sys
from pathlib import Path

import griffe

sys.path.insert(0, str(Path(__file__).parent))
from docstrings import as_markdown

PAGES = Path(__file__).parents[2] / "docs" / "api"


class PlainDocstrings(griffe.Extension):
    """Turns every docstring of the package into Markdown, once all of it has been read."""

    def on_package(self, *, pkg, **kwargs):
        endings = _endings(pkg)
        for obj in _objects(pkg):
            if obj.docstring:
                obj.docstring.value = as_markdown(obj.docstring.value, lambda name, o=obj: _meant(name, o, endings))


def _objects(root):
    """Everything defined in a package, once."""
    stack = [root]
    while stack:
        obj = stack.pop()
        if not obj.is_alias:
            yield obj
            stack.extend(obj.members.values())


def _found(pkg, path):
    """The object with a path, followed to where it is defined."""
    obj = pkg[path.removeprefix(f"{pkg.name}.")]
    while obj.is_alias:
        obj = pkg[obj.target_path.removeprefix(f"{pkg.name}.")]
    return obj


def _endings(pkg):
    """For every ending of a dotted name the described objects it may mean: `GLMORL`, `agents.glm_orl.GLMORL`."""
    text = "\n".join(page.read_text() for page in sorted(PAGES.glob("*.md")))
    found = {}
    for path in re.findall(r"^::: (\S+)", text, re.MULTILINE):
        root = _found(pkg, path)
        for obj in (root, *root.members.values()):
            if not obj.is_alias and obj.docstring:
                parts = obj.path.split(".")[1:]
                for i in range(len(parts)):
                    found.setdefault(".".join(parts[i:]), {})[obj.path] = obj
    return found


def _meant(name, obj, endings):
    """The path of what `name` means in the docstring of `obj`, or None. A method's bare name means that of its class;
    an argument of the object itself is not a reference."""
    if name in {parameter.name for parameter in getattr(obj, "parameters", ())}:
        return None
    around = (obj.path, obj.parent.path if obj.parent else "")
    paths = {
        path for path, other in endings.get(name, {}).items()
        if path != obj.path and ("." in name or not other.parent.is_class or other.parent.path in around)
    }  # fmt: skip
    near = {path for path in paths if path.rpartition(".")[0] in around}
    chosen = near if len(near) == 1 else paths
    return next(iter(chosen)) if len(chosen) == 1 else None
