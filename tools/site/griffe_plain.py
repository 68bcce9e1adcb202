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
    paths = set()
    for path in re.findall(r"^::: (\S+)", text, re.MULTILINE):
        root = _found(pkg, path)
        described = (obj for obj in _objects(root) if obj.docstring) if not root.is_module else [root]
        paths |= {obj.path for obj in described}
        if root.is_module:
            paths |= {obj.path for obj in root.members.values() if not obj.is_alias and obj.docstring}
    found = {}
    for path in paths:
        parts = path.split(".")[1:]
        for i in range(len(parts)):
            found.setdefault(".".join(parts[i:]), set()).add(path)
    return found


def _meant(name, obj, endings):
    """What `name` means in the docstring of `obj`: the one described, or the one beside it; not itself."""
    paths = endings.get(name, set()) - {obj.path}
    near = {path for path in paths if obj.parent and path.rpartition(".")[0] in (obj.path, obj.parent.path)}
    chosen = near if len(near) == 1 else paths
    return next(iter(chosen)) if len(chosen) == 1 else None
