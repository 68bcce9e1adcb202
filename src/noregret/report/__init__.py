"""From the results of a study to one page and its figures: `noregret report`.

`data` arranges runs into settings and groups, `varied` and `paired` say what is compared with what, `statistics` has
the pure functions, `drawing`, `svg` and `figures` draw, `texts` writes numbers; `compared`, `sizes` and `promises` are
the parts of the page, `summary` its first sentences, `page` puts it together and `rendering` makes HTML of it. `trial`
draws the plan of a trial, `board` is the page about decisions, `plans` draws the plan for one individual,
`checks` what `check_model` found.
"""

import sys

from ..storage.text import readable
from .board import write_board
from .checks import check_figure
from .page import Report, write
from .plans import plan_figure
from .trial import trial_figure, write_trial

__all__ = ["Report", "check_figure", "plan_figure", "trial_figure", "write", "write_board", "write_trial"]

readable(sys.modules[__name__])
