"""`noregret bench`: how fast it is here, as ratios within one run."""

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
) -> None:
    """Speed of the fused loops of GLM-ORL and LR-ORL against NumPy, and what a user waits for.

    The twin does what the kernels do, step by step, vectorised over pairs. The rearranged program computes the same numbers as fast as NumPy can be made to: batched over episodes, learning among predictions. "wanted" is what this project asks of itself."""  # noqa: E501
    console = terminal()
    check.integer("rounds", rounds)
    _measurements().show(console, sizes, rounds, sets, system, peers)


def _measurements() -> Any:
    """`benchmarks.tables` of a checkout: the NumPy programs and the peers are no part of the installed package."""
    checkout = Path(__file__).parents[3]
    if not (checkout / "benchmarks" / "tables.py").exists():
        raise ValueError("bench needs a checkout of the source code, where the folder benchmarks is; this is none")
    sys.path.insert(0, str(checkout))
    from benchmarks import tables

    return tables
