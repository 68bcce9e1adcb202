"""The tables of `noregret verify`."""

from rich.console import Console

from ..verification.table import Row
from .screen import plain_table

_HEADS = {
    "sets": ("confidence sets", "worst at", "claimed", "failed", "d2/r", "loose"),
    "agents": ("agents", "worst in", "claimed", "failed", "d2/r", "bound/R"),
    "radii": ("printed / corrected, of the", "on", "wanted", "least", "", "mean"),
}
_LEGENDS = {
    "sets": "claimed, failed: probability that the truth is ever outside, and how often it was; d2/r: largest squared "
    "distance / radius (above 1 in a run that failed); loose: median factor by which the radius was too large",
    "agents": "claimed, failed: as above, for sets, optimism, certificates and regret bounds of a whole run together "
    "(GLM-RLSVI: for the chance that an episode is not optimistic, 1 - 0.159); bound/R: data-dependent bound / regret, "
    "median",
    "radii": "least: smallest ratio in any run; mean: ratio of the means. gamma alone lives in two different norms",
    "scaling": "exponents with standard errors over worlds. Every world's gap is tuned to its size, so the family "
    "itself fixes the exponents, also those of uniform play; what an agent achieves is its ratio to it, in the figure",
}


def print_rows(console: Console, rows: list[Row], details: bool) -> None:
    """A table per section; of every kind the worst row, or all with `details`."""
    of = {name: [row for row in rows if row.section == name] for name in (*_HEADS, "errata", "scaling")}
    for section, head in _HEADS.items():
        if of[section]:
            _print_section(console, section, head, of[section], details)
    if of["errata"]:
        _print_errata(console, of["errata"], details)
    if of["scaling"]:
        _print_scaling(console, of["scaling"])


def _print_section(console: Console, section: str, head: tuple[str, ...], rows: list[Row], details: bool) -> None:
    table = plain_table(*head, "", left=2)
    table.columns[0].no_wrap = True
    for row in rows if details or section == "radii" else _worst_of_each(rows):
        verdict = "[green]holds[/]" if row.holds else "[red]fails[/]"
        verdict = verdict if row.advertised else f"[dim]({'holds' if row.holds else 'fails'})[/]"
        numbers = map(_number, (row.claimed, row.measured, row.worst, row.looseness))
        where = row.setting if details or section != "sets" else row.setting.split(",")[0]
        table.add_row(row.name, where, *numbers, verdict)
    console.print(table)
    console.print(_LEGENDS[section] + "; in brackets: not claimed by the library", style="dim", highlight=False)
    console.print()


def _worst_of_each(rows: list[Row]) -> list[Row]:
    """For every kind the row with the largest measured failure rate, then the largest ratio."""
    kinds = dict.fromkeys(row.name for row in rows)
    return [max((r for r in rows if r.name == k), key=lambda r: (not r.holds, r.measured, r.worst)) for k in kinds]


def _print_errata(console: Console, rows: list[Row], details: bool) -> None:
    if details:
        table = plain_table("errata", "entry", "evidence", left=3)
        for column in table.columns[:2]:
            column.no_wrap = True
        for row in rows:
            table.add_row(row.name, row.setting, row.note)
        console.print(table)
    kinds = {kind: [r for r in rows if r.setting.endswith(kind)] for kind in ("error", "looseness", "notation")}
    counts = ", ".join(f"{len(some)} {kind}" for kind, some in kinds.items())
    good = sum(row.holds for row in rows)
    console.print(f"[bold]errata[/]  {len(rows)} checks ({counts}): {good} as docs/errata.md says", highlight=False)
    console.print()


def _print_scaling(console: Console, rows: list[Row]) -> None:
    """Exponents, a line per agent, a column per variable, a table per link."""
    symbols = list(dict.fromkeys(row.setting.split(",")[0] for row in rows))
    bounds = {row.setting.split(",")[0]: row.claimed for row in rows}
    for link in dict.fromkeys(row.setting.split(", ")[1] for row in rows):
        table = plain_table(f"growth of regret, {link}", *symbols)
        table.add_row("[dim]lower bound[/]", *(f"[dim]{bounds[symbol]:.2f}    [/]" for symbol in symbols))
        for agent in dict.fromkeys(row.name for row in rows):
            some = {row.setting: row for row in rows if row.name == agent}
            own = [some[f"{symbol}, {link}"] for symbol in symbols]
            errors = (row.note.split(";")[0].replace("+- 0", "±") for row in own)
            table.add_row(agent, *(f"{row.measured:.2f}{e}" for row, e in zip(own, errors, strict=True)))
        console.print(table)
    console.print(_LEGENDS["scaling"], style="dim", highlight=False)
    console.print()


def _number(value: float) -> str:
    if value != value:
        return ""
    return f"{value:.2f}" if abs(value) < 100.0 else f"{value:,.0f}"
