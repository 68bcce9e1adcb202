"""A Markdown extension for pages whose formulas are plain text: V*_h, ||x||_{Z^-1}, <y - P, z>.

As elsewhere in Markdown *this* and **this** are emphasis; a star that follows a letter, a digit or a closing bracket is
one in a formula. Underscores are always underscores. Angle brackets are HTML only in the tags that the reference uses
and in comments."""

from markdown.extensions import Extension
from markdown.inlinepatterns import HtmlInlineProcessor, SimpleTagInlineProcessor

OPEN = r"(?<![\w*|)\]}'])"  # nothing that a starred symbol ends with
STRONG = OPEN + r"(\*\*)(?=[^\s*])(.+?)(?<=[^\s*])\1(?![\w*])"
EMPHASIS = OPEN + r"(\*)(?=[^\s*])([^*]+?)(?<=\S)\1(?![\w*])"
HTML = r"(<(?:/?(?:autoref|code|span|br)\b[^<>]*|/a|a href=[^<>]*|!--(?:(?!<!--|-->).)*--)>)"


class PlainFormulas(Extension):
    def extendMarkdown(self, md):
        for name in ("em_strong", "em_strong2", "html"):
            md.inlinePatterns.deregister(name, strict=False)
        md.inlinePatterns.register(HtmlInlineProcessor(HTML, md), "html", 90)
        md.inlinePatterns.register(SimpleTagInlineProcessor(STRONG, "strong"), "strong", 60)
        md.inlinePatterns.register(SimpleTagInlineProcessor(EMPHASIS, "em"), "em", 50)


def makeExtension(**options):
    return PlainFormulas(**options)
