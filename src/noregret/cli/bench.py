"""`noregret bench`: how fast it is here and how much agents lose, as ratios within one run."""

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import checks as check
from .screen import terminal


def bench(
    sizes: Annotated[str, typer.Option(help="comma-separated: small, medium, large; or none")] = "small,medium,large",
    rounds: Annotated[int, typer.Option(help="alternating rounds per ratio")] = 5,
    sets: Annotated[bool, typer.Option(help="also measure LR-ORL, an agent with local sets")] = True,
    system: Annotated[bool, typer.Option(help="also measure latency, scaling, memory and compile times")] = True,
    peers: Annotated[bool, typer.Option("--peers", help="only compare with other libraries, where installed")] = False,
    regret: Annotated[
        bool, typer.Option("--regret", help="only compare what agents lose, on beds real and made")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="of --regret: minutes instead of an hour")] = False,
    beds: Annotated[str | None, typer.Option(help="of --regret: these beds only, comma-separated")] = None,
    seeds: Annotated[int | None, typer.Option(help="of --regret: how many for every bed, not each bed's own")] = None,
    agents: Annotated[str | None, typer.Option(help="of --regret: these agents only, comma-separated")] = None,
    others: Annotated[bool, typer.Option(help="of --regret: also agents of other libraries, where installed")] = True,
    out: Annotated[Path, typer.Option(help="of --regret: folder for the numbers and the figure")] = Path("results"),
) -> None:
    """Speed of the fused loops of GLM-ORL and LR-ORL against NumPy, and what a user waits for.

    The twin does what the kernels do, step by step, vectorised over pairs. The rearranged program computes the same numbers as fast as NumPy can be made to: batched over episodes, learning among predictions. "wanted" is what this project asks of itself.

    With --regret it is regret that is compared: every agent as it comes and tuned on the other seeds, on data sets as bandits (where scikit-learn is installed), random worlds, worlds that need exploration, toy text, and others."""  # noqa: E501
    console = terminal()
    check.integer("rounds", rounds)
    if regret:
        _measurements("regret").show(
            console, beds, quick, others, out, None if seeds is None else check.integer("seeds", seeds), agents
        )
    else:
        _measurements("tables").show(console, sizes, rounds, sets, system, peers)


def _measurements(name: str) -> Any:
    """A module of `benchmarks`, in a checkout: NumPy programs and peers are no part of the installed package."""
    checkout = Path(__file__).parents[3]
    if not (checkout / "benchmarks" / "tables.py").exists():
        raise ValueError("bench needs a checkout of the source code, where the folder benchmarks is; this is none")
    sys.path.insert(0, str(checkout))
    return importlib.import_module(f"benchmarks.{name}")
