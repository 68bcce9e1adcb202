"""The site: every page is in its navigation, every public name in its reference, every option on its page."""

import html
import importlib
import re
import sys
from pathlib import Path

import pytest

import noregret as nr

ROOT = Path(__file__).parents[1]
PUBLIC = (
    "noregret", "noregret.agents", "noregret.worlds", "noregret.estimators", "noregret.theory", "noregret.gym",
    "noregret.studies", "noregret.report", "noregret.simulation", "noregret.planning",
)  # fmt: skip


@pytest.fixture(scope="module")
def tools():
    """What is in tools/site, to be imported."""
    sys.path.insert(0, str(ROOT / "tools" / "site"))
    yield importlib.import_module
    sys.path.pop(0)


def pages_of(nav):
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in pages_of(part)]


def named(path):
    """The object with a dotted name."""
    parts = path.split(".")
    for i in range(len(parts), 0, -1):
        try:
            made = importlib.import_module(".".join(parts[:i]))
        except ImportError:
            continue
        for part in parts[i:]:
            made = getattr(made, part)
        return made
    raise AssertionError(path)


def described():
    """The objects the reference has docstrings of, by id."""
    text = "\n".join(file.read_text() for file in sorted((ROOT / "docs" / "api").glob("*.md")))
    return {id(made): made for made in map(named, re.findall(r"^::: (\S+)", text, re.MULTILINE))}


def test_navigation_has_every_page_once():
    yaml = pytest.importorskip("yaml")
    listed = pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    docs = ROOT / "docs"
    there = {str(file.relative_to(docs)) for file in docs.rglob("*.md")}
    assert len(listed) == len(set(listed))
    assert set(listed) == there | {"changelog.md"}  # made of CHANGELOG.md


@pytest.mark.parametrize("module", PUBLIC)
def test_reference_has_every_public_name(module):
    if module == "noregret.gym":
        pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'noregret[gym]'")
    known, here = described(), importlib.import_module(module)
    pages = {file.stem for file in (ROOT / "docs" / "api").glob("*.md")}
    for name in here.__all__:
        made = getattr(here, name)
        own_page = module == "noregret" and name in pages
        assert own_page or id(made) in known, f"{module}.{name} is on no page of docs/api"


def test_bounds_are_described_where_they_are_defined():
    """`theory.bounds` has the names of two other modules; the page shows each of its names once."""
    bounds = nr.theory.bounds
    text = (ROOT / "docs" / "api" / "theory.md").read_text()
    shown = re.search(r"^::: noregret\.theory\.bounds\n +options:\n +members: \[(.*)\]", text, re.MULTILINE)
    elsewhere = {"noregret.theory.bound_terms", "noregret.theory.bounds_printed"}
    others = {name for name in bounds.__all__ if getattr(getattr(bounds, name), "__module__", "") in elsewhere}
    assert elsewhere <= set(re.findall(r"^::: (\S+)", text, re.MULTILINE))
    assert sorted([*shown[1].split(", "), *others]) == sorted(bounds.__all__)


def test_home_of_the_reference_lists_every_name_of_the_package():
    text = (ROOT / "docs" / "api" / "noregret.md").read_text()
    for name in nr.__all__:
        assert re.search(rf"\[`{name}`\]", text), name


def test_command_line_page_has_every_option(tools):
    import typer

    from noregret.cli import app

    page = tools("command_line").filled((ROOT / "docs" / "cli.md").read_text())

    def walk(name, command):
        inner = getattr(command, "commands", {})
        for key, value in inner.items():
            yield from walk(f"{name} {key}", value)
        if not inner:
            yield name, command

    found = list(walk("noregret", typer.main.get_command(app)))
    assert len(found) >= 11
    for name, command in found:
        section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
        for parameter in command.params:
            for flag in (*parameter.opts, *parameter.secondary_opts):
                assert f"`{flag if flag.startswith('-') else flag.upper()}`" in section, f"{name} {flag}"


DOCSTRING = """\
Sums V*_x(s_1) over <all> *individuals*; see `simulate`.

    Q_h = P_hat V_{h+1} + r        (h from 0)

delta         with probability 1 - delta, V*_h
              lies below
a, b          two of them
linear        ridge regression
                  V = lambda I

>>> 1 + 1
2

Cost O(SA), see docs/theory.md."""


def test_docstrings_as_markdown(tools):
    made = tools("docstrings").as_markdown(DOCSTRING, {"simulate": "noregret.simulation.run.simulate"}.get)
    first, formula, delta, both, linear, example, cost = made.split("\n\n")
    assert first == (
        r"Sums V\*\_x(s\_1) over &lt;all&gt; *individuals*; see "
        '<autoref identifier="noregret.simulation.run.simulate" optional><code>simulate</code></autoref>.'
    )
    assert formula == "```text\nQ_h = P_hat V_{h+1} + r        (h from 0)\n```"
    assert delta == "`delta`\n:   with probability 1 - delta, V\\*\\_h  \n    lies below"
    assert both == "`a`, `b`\n:   two of them"
    assert linear == "`linear`\n:   ridge regression\n    \n    ```text\n    V = lambda I\n    ```"
    assert (example, cost) == (
        "```pycon\n>>> 1 + 1\n2\n```",
        'Cost O(SA), see <a href="../theory.html">docs/theory.md</a>.',
    )
    assert tools("docstrings").as_markdown("For `a`: all of\n: it, in `b`- or 1. c") == (
        "For `a`: all of  \n&#58; it, in `b`- or 1. c"
    )


def test_no_backslash_before_a_colon_after_code(tools):
    made = tools("docstrings").as_markdown("What `epsilon` is: a number.\n\nAnd `delta`: another one.")
    assert html.unescape(made) == "What `epsilon` is: a number.\n\nAnd `delta`: another one."


def test_no_word_of_a_docstring_is_lost(tools):
    """Of every public docstring the words come out in their order, whatever the Markdown around them."""
    as_markdown = tools("docstrings").as_markdown
    for made in described().values():
        text = made.__doc__ or ""
        shown = html.unescape(re.sub(r"```(text|pycon)\n|</?a\b[^>]*>", "", as_markdown(text)))
        assert re.sub(r"\W|_", "", shown) == re.sub(r"\W|_", "", text), made
        for page in re.findall(r"docs/([\w-]+\.md)", text):
            assert (ROOT / "docs" / page).exists(), f"{made} sends its readers to docs/{page}"


PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_formulas_are_not_taken_for_emphasis(page):
    """As code hosts read the pages (CommonMark), underscores never mean emphasis and no formula is within stars."""
    markdown_it = pytest.importorskip("markdown_it")
    for token in markdown_it.MarkdownIt("commonmark").enable("table").parse(page.read_text()):
        inside = 0
        for child in token.children or []:
            assert "_" not in child.markup or child.type not in ("em_open", "strong_open"), token.content
            inside += (child.type == "em_open") - (child.type == "em_close")
            assert not (inside and child.type == "text" and re.search(r"[\^{}|<_]", child.content)), token.content
