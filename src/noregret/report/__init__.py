"""From the results of a study to one page and its figures: `noregret report`.

`data` arranges runs into settings and groups, `varied` and `paired` say what is compared with what, `statistics` has
the pure functions, `drawing`, `svg` and `figures` draw, `texts` writes numbers; `compared`, `sizes` and `promises` are
the parts of the page, `summary` its first sentences, `page` puts it together.
"""

from .page import Report, write

__all__ = ["Report", "write"]
