"""The command line: `noregret compare`, `noregret bench`."""

import sys
from typing import Any

import typer

from . import bench, compare


class _Commands(typer.core.TyperGroup):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Bad input is one sentence on stderr and exit status 2, never a traceback."""
        try:
            return super().__call__(*args, **kwargs)
        except (ValueError, OSError) as error:
            print(f"noregret: {error}", file=sys.stderr)
            sys.exit(2)
        except KeyboardInterrupt:
            print("noregret: interrupted", file=sys.stderr)
            sys.exit(130)


app = typer.Typer(
    cls=_Commands,
    help="Sequential decisions for a population: contextual reinforcement learning with regret guarantees.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(compare.compare)
app.command()(bench.bench)
