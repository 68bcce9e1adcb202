"""How numbers, intervals, p-values and lists are written in a report."""

import math
from collections.abc import Sequence
from typing import Any

NONE = "–"  # an entry that says nothing


def number(v: float | None, digits: int = 3, most: float = 1e7) -> str:
    """Three digits or all before the point, thousands separated, a power of ten from `most` on; a dash for nan."""
    if v is None or math.isnan(v):
        return NONE
    if math.isinf(v):
        return "∞"
    size = abs(v)
    if size < 1e-9:
        return "0"
    if size >= most or size < 1e-4:
        mantissa, power = f"{v:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(power)}"
    return f"{v:,.{max(0, digits - 1 - math.floor(math.log10(size)))}f}"


def interval(ends: Sequence[Any]) -> str:
    """Both ends, two numbers, with the decimals of the larger one."""
    low, high = map(float, ends)
    if math.isnan(low) or math.isnan(high):
        return NONE
    size = max(abs(low), abs(high))
    if size >= 1e7 or size < 1e-4:
        return f"{number(low)} to {number(high)}"
    decimals = max(0, 2 - math.floor(math.log10(size)))
    low = 0.0 if round(low, decimals) == 0.0 else low
    return f"{low:,.{decimals}f} to {high:,.{decimals}f}"


def chance(p: float) -> str:
    """A p-value."""
    if math.isnan(p):
        return NONE
    return "1" if p > 0.9995 else f"{p:.2g}" if p >= 1e-4 else f"{p:.0e}".replace("e-0", "e-")


def power(value: float, low: float, high: float) -> str:
    """An exponent with its interval, in two lines."""
    if math.isnan(value):
        return NONE
    return f"{value:.2f}" + ("" if math.isnan(low) else f"\n({low:.2f} to {high:.2f})")


def listed(names: Sequence[str], most: int = 4) -> str:
    """ "a, b and c"; more than `most` are counted."""
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def counted(n: int, what: str, several: str = "") -> str:
    """ "1 run", "3 runs"."""
    return f"{n:,} {what if n == 1 else several or what + 's'}"
