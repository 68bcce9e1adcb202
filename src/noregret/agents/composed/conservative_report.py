"""What a `Conservative` did, for people to read."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...checks import Floats
from .referral_report import decades


@dataclass(frozen=True, repr=False)
class ConservativeReport:
    """held [individuals]: who got the baseline; margins: at least what the agent's plan for them is worth above 1 -
    alpha of the baseline; budgets: the account after each of them; first: how many individuals the agent had met
    before; proved: whether all of it holds with the agent's probability."""

    alpha: float
    proved: bool
    held: NDArray[np.bool_]
    margins: Floats
    budgets: Floats
    first: int = 0

    @property
    def episodes(self) -> int:
        return self.held.size

    @property
    def rate(self) -> float:
        """Share that got the baseline; nan before anybody was met."""
        return float(self.held.mean()) if self.episodes else float("nan")

    @property
    def by_decade(self) -> list[tuple[int, int, float]]:
        """(from, to, share that got the baseline) for individuals 1 to 10, 11 to 100, ..."""
        if not self.episodes:
            return []
        shift = self.first
        spans = decades(shift + 1, shift + self.episodes)
        return [(a, b, float(self.held[a - 1 - shift : b - shift].mean())) for a, b in spans]

    @property
    def budget(self) -> float:
        """The account now: at least how much more all plans so far are worth than 1 - alpha of the baseline."""
        return float(self.budgets[-1]) if self.episodes else 0.0

    def __str__(self) -> str:
        n, m = self.episodes, int(self.held.sum())
        if not n:
            return "nobody was met yet"
        lines = [f"{n:,} individuals, {m:,} got the baseline ({self.rate:.1%}): alpha {self.alpha:g}"]
        spans = [(f"{a:,} to {b:,}", f"{share:.1%}") for a, b, share in self.by_decade]
        wide = max(len(span) for span, _ in spans)
        lines += [f"  {span:<{wide}}  {share:>6}" for span, share in spans]
        if self.proved:
            lines.append(
                f"all plans together: at least {self.budget:,.1f} more than {1.0 - self.alpha:g} of the baseline, "
                "with the agent's probability"
            )
        return "\n".join(lines)
