"""Docstrings as Markdown, when mkdocstrings collects them. Nothing is imported: griffe reads the source."""

import sys
from pathlib import Path

import griffe

sys.path.insert(0, str(Path(__file__).parent))
from docstrings import as_markdown


class PlainDocstrings(griffe.Extension):
    """Turns every docstring of the package into Markdown, once all of it has been read."""

    def on_package(self, *, pkg, loader, **kwargs):
        targets = _targets(pkg)
        seen = set()
        _walk(pkg, seen, lambda name: targets.get(name))


def _targets(pkg):
    """What a name in a docstring may refer to: by every ending of its path that means one thing only."""
    found = {}
    stack, seen = [pkg], set()
    while stack:
        obj = stack.pop()
        if obj.is_alias or obj.path in seen:
            continue
        seen.add(obj.path)
        parts = obj.path.split(".")[1:]
        for i in range(len(parts)):
            found.setdefault(".".join(parts[i:]), set()).add(obj.path)
        stack.extend(obj.members.values())
    return {name: next(iter(paths)) for name, paths in found.items() if len(paths) == 1}


def _walk(obj, seen, link):
    if obj.is_alias or obj.path in seen:
        return
    seen.add(obj.path)
    if obj.docstring:
        obj.docstring.value = as_markdown(obj.docstring.value, link)
    for member in obj.members.values():
        _walk(member, seen, link)
