"""A row of the table that `noregret verify` writes."""

from typing import NamedTuple


class Row(NamedTuple):
    """claimed and measured: probabilities of failure (sets, agents), exponents (scaling) or ratios (radii, wanted and
    measured); worst: largest squared distance / radius; looseness: median factor by which a radius, or a bound on the
    regret, is too large. Nan where there is none. advertised: whether the library claims it."""

    section: str
    name: str
    setting: str
    claimed: float
    measured: float
    worst: float
    looseness: float
    advertised: bool
    holds: bool
    note: str = ""
