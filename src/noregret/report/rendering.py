"""Pages: title, warnings, summary, facts and sections put into one HTML file that loads nothing from elsewhere."""

from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent


def render(
    page: Path, *, title: str, summary: list[str], facts: list[tuple[str, str]], command: str, sections: list[Any],
    description: str = "", alerts: list[str] | tuple[str, ...] = (), alarm: str = "Incomplete.",
    brand: str = "noregret report",
) -> Path:  # fmt: skip
    """Write the page. alerts: sentences in a box at the top, after the word `alarm`; command: what made it; sections:
    `blocks.Section`; brand: above the contents."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    def entry(text: str) -> Markup:
        if text.startswith("**") and text.endswith("**"):
            return Markup("<strong>{}</strong>").format(text[2:-2])
        return escape(text)

    made = Environment(
        loader=FileSystemLoader(PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["entry"] = entry
    made.filters["kind"] = lambda block: type(block).__name__
    style, script = ((PACKAGE / name).read_text(encoding="utf-8") for name in ("style.css", "script.js"))
    html = made.get_template("template.html.j2").render(
        style=Markup(style), script=Markup(script), title=title, summary=summary, facts=facts, command=command,
        sections=sections, description=description, alerts=alerts, alarm=alarm, brand=brand,
    )  # fmt: skip
    page.write_text(html, encoding="utf-8", newline="\n")
    return page
