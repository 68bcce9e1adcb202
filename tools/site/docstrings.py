"""Docstrings of this package as Markdown.

They are written for `help()`: paragraphs, formulas indented by four spaces, examples after `>>>`, and options as

    name          what it is, and on the following
                  lines the rest of it

In Markdown the first two are right as they stand, once the characters that would be taken for emphasis or HTML
are escaped; examples become code, options a definition list. A line that ended although the next word would have
had room was ended on purpose, and stays so.
"""

import html
import itertools
import re

ROOM = 100  # a line that could have taken the next word and still been shorter than this was broken on purpose

_WORD = r"(?:\"[^\"]+\"|`[^`]+`|\*{0,2}[A-Za-z_][\w.-]*(?:\([^()]*\))?)(?: \[[^\]]*\])?"
_ENTRY = re.compile(rf"({_WORD}(?:(?:, | and | or ){_WORD})*)(?: {{2,}})(\S.*)")
_CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)
_EMPHASIS = re.compile(r"(?<![\w*])\*(\w[\w -]*\w)\*(?![\w*])")
_PAGE = re.compile(r"\bdocs/([a-z-]+)\.md\b")  # the reference's own pages are in a folder beside
_NAME = re.compile(r"`(?:nr\.|noregret\.)?([A-Za-z_][\w.]*)(\([^`]*\))?`")


def as_markdown(text, link=None):
    """A docstring, without its common indentation, as Markdown.

    link: from the name between backticks to an identifier it may refer to, or None."""
    made = [_block(block, link) for block in _blocks(text.strip("\n").split("\n"))]
    return "\n\n".join(part for part in made if part)


def _blocks(lines):
    """Runs of lines of one kind: ("code" | "example" | "options" | "prose", lines)."""
    found, i = [], 0
    while i < len(lines):
        line = lines[i]
        if not line.strip():
            i += 1
        elif line.startswith(">>>"):
            start = i
            while i < len(lines) and lines[i].strip():
                i += 1
            if found and found[-1][0] == "example":  # a blank line between two statements
                found[-1][1].extend(["", *lines[start:i]])
            else:
                found.append(("example", lines[start:i]))
        elif line.startswith("    "):
            start = i
            while i < len(lines) and (lines[i].startswith("    ") or not lines[i].strip()):
                i += 1
            kept = lines[start:i]
            while not kept[-1].strip():
                kept.pop()
            found.append(("code", kept))
        elif _ENTRY.fullmatch(line):
            start = i
            while i < len(lines) and (_ENTRY.fullmatch(lines[i]) or lines[i].startswith("  ")):
                i += 1
            found.append(("options", lines[start:i]))
        else:
            start = i
            while i < len(lines) and lines[i].strip() and not lines[i].startswith((">>>", "    ")):
                if _ENTRY.fullmatch(lines[i]):
                    break
                i += 1
            found.append(("prose", lines[start:i]))
    return found


def _block(block, link):
    kind, lines = block
    if kind == "example":
        return "\n".join(["```pycon", *lines, "```"])
    if kind == "code":
        least = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
        return "\n".join(["```text", *(line[least:] for line in lines), "```"])
    if kind == "options":
        return _options(lines, link)
    return _prose(lines, link)


def _options(lines, link):
    """A definition list; what stands deeper than a description begins is a formula within it."""
    made = []
    for name, column, said in _entries(lines):
        names = ", ".join(f"`{part}`" for part in name.replace("`", "").split(", "))
        parts, prose = [], []
        for line in said:
            if len(line) - len(line.lstrip()) >= column + 4:
                if prose:
                    parts.append(_prose(prose, link))
                    prose = []
                if not (parts and parts[-1].startswith("```")):
                    parts.append("```text\n```")
                parts[-1] = parts[-1][:-3] + line.strip() + "\n```"
            else:
                prose.append(line.strip())
        parts += [_prose(prose, link)] if prose else []
        made.append(f"{names}\n:   " + "\n\n".join(parts).replace("\n", "\n    "))
    return "\n\n".join(made)


def _entries(lines):
    """(name, column of the description, its lines), the first of them without the name."""
    found = []
    for line in lines:
        match = _ENTRY.fullmatch(line)
        if match:
            found.append((match[1], match.start(2), [match[2]]))
        else:
            found[-1][2].append(line)
    return found


def _prose(lines, link):
    made = lines[0].strip()
    for before, line in itertools.pairwise(lines):
        first = line.split()[0]
        made += ("  \n" if len(before) + 1 + len(first) < ROOM - 12 else "\n") + line.strip()
    parts = _CODE.split(made)
    return "".join(_linked(part, link) if i % 2 else _escaped(part) for i, part in enumerate(parts))


def _escaped(text):
    """Text in which nothing but *emphasis* is Markdown."""
    kept = _EMPHASIS.sub("\x02\\1\x03", text)
    kept = re.sub(r"([\\*_\[\]#!|{}])", r"\\\1", kept)
    kept = html.escape(kept, quote=False)
    kept = re.sub(r"(?m)^(\d+)([.)])(?= )", r"\1\\\2", kept)  # no numbered lists by accident
    kept = re.sub(r"(?m)^([-+])(?= )", r"\\\1", kept)
    kept = re.sub(r"(?m)^:", "&#58;", kept)  # nor definitions; a colon has no escape, and may follow code
    kept = _PAGE.sub(r'<a href="../\1.html">docs/\1.md</a>', kept)
    return kept.replace("\x02", "*").replace("\x03", "*")


def _linked(code, link):
    match = _NAME.fullmatch(code)
    target = link(match[1]) if link and match else None
    if target is None:
        return code
    return f'<autoref identifier="{target}" optional><code>{html.escape(code.strip("`"))}</code></autoref>'
