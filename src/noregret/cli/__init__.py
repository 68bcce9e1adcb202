"""The command line: `noregret compare`, `referral`, `plan-trial`, `study`, `bounds`, `report`, `verify`, and more."""

import sys
from typing import Annotated, Any

import typer

from ..journal.errors import NotTheWriter
from ..storage.version import __version__
from . import (
    bench,
    bounds,
    compare,
    decisions,
    frontier,
    journal,
    referral,
    replay,
    report,
    serve,
    study,
    trial,
    verify,
)
from .serve_demo import demo


class _Commands(typer.core.TyperGroup):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Bad input is one sentence on stderr and exit status 2, never a traceback."""
        try:
            return super().__call__(*args, **kwargs)
        except MemoryError:
            print("noregret: not enough memory for this many points (record fewer: --every)", file=sys.stderr)
            sys.exit(2)
        except (ValueError, OSError, NotTheWriter) as error:
            print(f"noregret: {error}", file=sys.stderr)
            sys.exit(2)
        except KeyboardInterrupt:
            print("noregret: interrupted", file=sys.stderr)
            sys.exit(130)


app = typer.Typer(
    cls=_Commands,
    help="Sequential decisions for a population: contextual reinforcement learning without regret.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")] = False,
) -> None:
    pass


_RUNS, _PEOPLE, _CLAIMS = "Experiments", "Programmes with people", "What is claimed, and how fast it is"

app.command(rich_help_panel=_RUNS)(compare.compare)
app.command(rich_help_panel=_RUNS)(referral.referral)
app.add_typer(study.app, name="study", rich_help_panel=_RUNS)
app.command(rich_help_panel=_RUNS)(report.report)
app.command("plan-trial", rich_help_panel=_PEOPLE)(trial.plan)
app.command("report-decisions", rich_help_panel=_PEOPLE)(decisions.decisions)
app.command(rich_help_panel=_PEOPLE)(serve.serve)
app.command("serve-demo", rich_help_panel=_PEOPLE)(demo)
app.command(rich_help_panel=_PEOPLE)(serve.token)
app.add_typer(journal.app, name="journal", rich_help_panel=_PEOPLE)
app.command(rich_help_panel=_PEOPLE)(replay.replay)
app.command(rich_help_panel=_PEOPLE)(replay.audit)
app.command(rich_help_panel=_CLAIMS)(bounds.bounds)
app.command(rich_help_panel=_CLAIMS)(frontier.frontier)
app.command(rich_help_panel=_CLAIMS)(verify.verify)
app.command(rich_help_panel=_CLAIMS)(bench.bench)
