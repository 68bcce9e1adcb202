"""What mkdocs adds to docs/ when it builds the site: the changelog, options of commands, formulas as they are."""

import re
import sys
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
import command_line
from plain_formulas import PlainFormulas

ROOT = Path(__file__).parents[2]


def on_config(config):
    config.markdown_extensions.append(PlainFormulas())
    return config


def on_files(files, config):
    """The changelog stays where people look for it in a repository, and is a page all the same."""
    files.append(File.generated(config, "changelog.md", abs_src_path=str(ROOT / "CHANGELOG.md")))
    return files


def on_page_markdown(markdown, page, config, files):
    if page.file.src_uri == "cli.md":
        return command_line.filled(markdown)
    if page.file.src_uri == "changelog.md":
        return re.sub(r"docs/([a-z-]+\.md)", r"[\1](\1)", markdown)
    return markdown


def on_post_page(output, page, config):
    """Readers may be offline, and are nobody else's business: a page that would fetch something fails the build."""
    found = re.search(
        r"<(?:script|img|iframe)\b[^>]*\bsrc=\"?(?:https?:)?//|<link\b[^>]*\bhref=\"?(?:https?:)?//", output
    )
    if found:
        raise PluginError(f"{page.file.src_uri} fetches from elsewhere: {output[found.start() : found.end() + 60]}")
    return output


def on_post_build(config):
    """The search index as a script as well: pages opened from a folder may load scripts, but no data."""
    index = Path(config.site_dir) / "search" / "search_index.json"
    index.with_suffix(".js").write_text(f"var __index = {index.read_text()}")
