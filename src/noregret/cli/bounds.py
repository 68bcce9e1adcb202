"""`noregret bounds`: what the theory promises, as printed and as corrected, before anything is run."""

import math
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.table import Table

from .. import checks as check
from ..problem.links import LinearCombination, Link, MultinomialLogit
from ..problem.problem import Problem
from ..simulation.expected import expected_certificates
from ..verification.claims import Claim, claims
from ..worlds.world import World
from .options import world_from
from .screen import plain_table, terminal

LINKS: dict[str, Callable[[], Link]] = {"logit": MultinomialLogit, "linear": LinearCombination}
SIZES = {"states": 5, "actions": 3, "horizon": 5, "dim": 4}
STARTS = ("delta' of one set", "l1 width, no data", "deviation of trajectories")  # rows with a blank one above
WIDTH = 100


def bounds(
    *,
    link: Annotated[str | None, typer.Option(help="logit or linear; logit unless given")] = None,
    states: Annotated[int | None, typer.Option(help="S, 5 unless given")] = None,
    actions: Annotated[int | None, typer.Option(help="A, 3 unless given")] = None,
    horizon: Annotated[int | None, typer.Option(help="H, 5 unless given")] = None,
    dim: Annotated[int | None, typer.Option(help="d, of the contexts, 4 unless given")] = None,
    weight_bound: Annotated[
        float | None, typer.Option(help="B_p, of a row of weights; unless given 1, or sqrt d if linear")
    ] = None,
    context_bound: Annotated[float | None, typer.Option(help="R, 1 unless given")] = None,
    reward_bound: Annotated[float | None, typer.Option(help="B_r, 1 unless given")] = None,
    world: Annotated[str | None, typer.Option(help="take all of these from a world; options as :name=value")] = None,
    episodes: Annotated[int, typer.Option(help="K, at which to evaluate")] = 100_000,
    delta: Annotated[float, typer.Option(help="probability of failure, of everything together")] = 0.05,
    epsilon: Annotated[float | None, typer.Option(help="what counts as a mistake, H/10 unless given")] = None,
    expected: Annotated[
        int | None, typer.Option(help="also simulate so many people: certificates to expect, not proved")
    ] = None,
) -> None:
    """Constants, radii, bonuses and regret bounds known before the first episode: as printed, and as corrected.

    Worst cases over everything the assumptions allow; an agent's own sets, computed from its data, are smaller.
    --expected 10000 adds what certificates to expect after so many people, by simulation within the problem's bounds;
    of a world its contexts are used, and not its weights.
    Example: noregret bounds --world clinic --episodes 1000000"""
    given = {
        "link": link, "states": states, "actions": actions, "horizon": horizon, "dim": dim,
        "weight-bound": weight_bound, "context-bound": context_bound, "reward-bound": reward_bound,
    }  # fmt: skip
    problem = _problem(world, {name: value for name, value in given.items() if value is not None})
    made = claims(problem, episodes, delta, epsilon)
    console = terminal()
    width = min(console.width, WIDTH)
    console.print(_title(problem, episodes, delta), highlight=False, width=width)
    console.print(_table(made), width=width)
    if expected is not None:
        people = check.integer("expected", expected, 100)
        contexts = None if world is None else _contexts(world_from(world))
        console.print("\n" + repr(expected_certificates(problem, people, contexts, delta=delta)), highlight=False)


def _contexts(world: World) -> list[Any]:
    return [world.context(0, k) for k in range(400)]


def _problem(world: str | None, chosen: dict[str, Any]) -> Problem:
    if world is not None:
        if chosen:
            raise ValueError(f"--world comes with its own sizes and bounds, --{next(iter(chosen))} does not go with it")
        return world_from(world).problem
    link = check.known("link", chosen.get("link", "logit"), LINKS)()
    S, A, H, d = (check.integer(name, chosen.get(name, default)) for name, default in SIZES.items())
    limits: dict[str, Any] = {"weight_bound": link.implied_weight_bound(d) or 1.0, "reward_bound": 1.0}
    limits |= {name.replace("-", "_"): value for name, value in chosen.items() if name.endswith("bound")}
    return Problem(S, A, H, d, link, **limits)


def _title(p: Problem, episodes: int, delta: float) -> str:
    pairs = "" if p.n_pairs == p.n_states * p.n_actions else f" pairs={p.n_pairs}"
    sizes = f"S={p.n_states} A={p.n_actions}{pairs} H={p.horizon} d={p.context_dim}"
    limits = f"B_p={p.weight_bound:.3g} R={p.context_bound:.3g} B_r={p.reward_bound:.3g}"
    return f"[bold]{p.link.name} link[/], {sizes}, {limits}: K={episodes:,}, delta={delta:g}\n"


def _table(made: list[Claim]) -> Table:
    table = plain_table("known beforehand", "printed", "corrected", "ratio")
    table.columns[0].no_wrap = True
    table.add_column("paper", style="dim", header_style="bold not dim", no_wrap=True)
    table.add_column("note", style="dim", header_style="bold not dim")
    for claim in made:
        if claim.name in STARTS:
            table.add_row()
        times = "" if claim.ratio is None else _compact(claim.ratio, 2) + "x"
        table.add_row(claim.name, _compact(claim.printed), _compact(claim.corrected), times, _short(claim), claim.note)
    return table


def _short(claim: Claim) -> str:
    return claim.where.replace("Theorem", "Thm").replace("Section", "Sec.").replace("Algorithm", "Alg.")


def _compact(value: float | None, digits: int = 3) -> str:
    """A few digits; thousands separators below a million, an exponent beyond and for the very small."""
    if value is None:
        return "-"
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    if not 1e-3 <= abs(value) < 10.0 ** (digits + 3) - 0.5:
        return f"{value:.{digits - 1}e}"
    if abs(value) >= 10.0 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{max(digits - 1 - math.floor(math.log10(abs(value))), 0)}f}"
